//! Raw plans of models: each step's text, order and inputs against a strict reader's.
//!
//! Each tool of the catalogue is an agent type with one action. What a strict reader finds in the answer is the measure:
//! every step's text is a description, every step waits for the one before it, and its inputs are the same, except where a
//! placeholder became a reference.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use goalmill_bench::digest::validate_answer;
use goalmill_bench::tools::Tool;
use goalmill_common::agent::Agent;
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::plan::Plan;
use goalmill_plan::validate::{Catalogue, Rules};
use goalmill_reader::{ReaderLimits, ToolCatalogue, parse_value};
use serde::Deserialize;
use serde_json::{Value, json};

use super::percent;
use crate::rows::{self, Out};

#[derive(Deserialize)]
struct Row {
    id: String,
    lang: String,
    task: String,
    raw: String,
}

#[derive(Default)]
struct Tally {
    rows: usize,
    empty: usize,
    accepted: usize,
    kept: usize,
    asked: usize,
    lost: BTreeMap<&'static str, usize>,
    issues: BTreeMap<String, usize>,
}

pub fn run(dir: &Path, out: &mut Out) -> Result<Value> {
    let rows: Vec<Row> = rows::read(&dir.join("parse/ultratool.jsonl"))?;
    let mut catalogues = BTreeMap::new();
    for row in &rows {
        if !catalogues.contains_key(&row.lang) {
            let path = dir.join(format!("routing/ultratool_tools.{}.json", row.lang));
            let tools: Vec<Tool> = if path.exists() { rows::whole(&path)? } else { Vec::new() };
            let agents: Vec<Agent> = tools.iter().map(Tool::agent).collect();
            catalogues.insert(row.lang.clone(), (Catalogue::from_agents(&agents), actions(&agents)));
        }
    }
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for row in &rows {
        let (catalogue, actions) = &catalogues[&row.lang];
        let tally = tallies.entry(row.task.clone()).or_default();
        judge(row, catalogue, actions, tally, out)?;
    }
    Ok(tallies.into_iter().map(|(task, tally)| (task, tally.figures())).collect())
}

fn actions(agents: &[Agent]) -> ToolCatalogue {
    let schemas: Vec<(&str, Option<Value>)> = agents
        .iter()
        .flat_map(|agent| &agent.actions)
        .map(|action| (action.name.as_str(), action.inputs.as_ref().map(Json::value)))
        .collect();
    ToolCatalogue::from_schemas(schemas.iter().map(|(name, schema)| (*name, schema.as_ref())))
}

fn judge(row: &Row, catalogue: &Catalogue, actions: &ToolCatalogue, tally: &mut Tally, out: &mut Out) -> Result<()> {
    let reading = parse_value(&row.raw, &ToolCatalogue::default(), &ReaderLimits::default());
    let written: Vec<Value> = match &reading.value {
        Some(Value::Array(steps)) => steps.clone(),
        _ => reading.items.iter().map(|item| item.value.clone()).collect(),
    };
    tally.rows += 1;
    if written.is_empty() {
        tally.empty += 1;
        return out.row(&json!({"set": "raw", "id": row.id, "empty": true}));
    }
    let rules = Rules { in_order: true, ..Rules::planned(catalogue) };
    let limits = Limits::default();
    let rules = Rules { steps_max: Some(limits.planned_steps_max), ..rules };
    let (edits, outcome) = validate_answer(&row.raw, actions, &limits, &rules);
    let edits: BTreeSet<&str> = edits.iter().map(|edit| edit.code.as_str()).collect();
    match outcome {
        Ok(valid) => {
            let lost = lost(&written, valid.plan());
            tally.accepted += 1;
            tally.kept += usize::from(lost.is_empty());
            tally.asked += usize::from(edits.contains("PLACEHOLDER_ASKED"));
            lost.iter().for_each(|what| *tally.lost.entry(what).or_default() += 1);
            out.row(&json!({"set": "raw", "id": row.id, "accepted": true, "lost": lost, "edits": edits}))
        }
        Err(issues) => {
            let codes: BTreeSet<&str> = issues.iter().map(|issue| issue.code.as_str()).collect();
            codes.iter().for_each(|code| *tally.issues.entry((*code).to_owned()).or_default() += 1);
            out.row(&json!({"set": "raw", "id": row.id, "accepted": false, "issues": issues, "edits": edits}))
        }
    }
}

/// What of the written steps the plan does not have.
fn lost(written: &[Value], plan: &Plan) -> BTreeSet<&'static str> {
    let mut lost = BTreeSet::new();
    if plan.steps.len() != written.len() {
        return BTreeSet::from(["steps"]);
    }
    for (at, (step, given)) in plan.steps.iter().zip(written).enumerate() {
        let text = given.get("step").unwrap_or(given).as_str().unwrap_or_default().trim();
        if !step.description.contains(text) {
            lost.insert("text");
        }
        if at > 0 && !step.dependencies.contains(&plan.steps[at - 1].id) {
            lost.insert("order");
        }
        let inputs = ["param", "params", "parameters"].iter().find_map(|key| given.get(*key));
        let inputs = inputs.filter(|inputs| inputs.is_object()).cloned().unwrap_or_else(|| json!({}));
        if !is_same(&step.inputs.value(), &inputs) {
            lost.insert("inputs");
        }
    }
    lost
}

/// The same value, or a reference in the place of a placeholder.
fn is_same(kept: &Value, given: &Value) -> bool {
    match (kept, given) {
        (Value::Object(kept), Value::Object(given)) => {
            kept.len() == given.len()
                && given.iter().all(|(key, given)| kept.get(key).is_some_and(|k| is_same(k, given)))
        }
        (Value::Array(kept), Value::Array(given)) => {
            kept.len() == given.len() && kept.iter().zip(given).all(|(kept, given)| is_same(kept, given))
        }
        (Value::String(kept), Value::String(given)) if kept != given => {
            given.contains('<') && kept.contains("{{ steps")
        }
        _ => kept == given,
    }
}

impl Tally {
    fn figures(self) -> Value {
        let plans = self.rows - self.empty;
        json!({
            "rows": self.rows,
            "without_steps": self.empty,
            "accepted": percent(self.accepted, plans),
            "accepted_and_kept": percent(self.kept, plans),
            "with_a_question": percent(self.asked, plans),
            "plans_by_loss": self.lost,
            "plans_by_issue": self.issues,
        })
    }
}

//! Finding what is wrong with plans, and repairing it without a model: `dag/`.
//!
//! Plans of models are validated against the tools they had and repaired; gold plans must raise no alarm.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use goalmill_plan::validate::{self, ActionEntry, AgentEntry, Catalogue, Rules};
use goalmill_planning::repair;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::rows::{self, Out};

/// The agent type that the tools of a data set are said to be of.
const AGENT: &str = "tools";

pub fn run(dir: &Path, out: &mut Out) -> Result<Value> {
    let dir = dir.join("dag");
    let limits = Limits::default();
    Ok(json!({
        "what": "dag",
        "predictions": predictions(&dir, &limits, out)?,
        "gold_toolplans": toolplans(&dir, &limits, out)?,
        "worfbench": worfbench(&dir, &limits, out)?,
        "asynchow": asynchow(&dir, &limits, out)?,
    }))
}

#[derive(Deserialize)]
struct ToolGraph {
    nodes: Vec<Tool>,
}

#[derive(Deserialize)]
struct Tool {
    id: String,
}

/// The tools of one data set as the actions of one agent type.
fn catalogue(dir: &Path, dataset: &str) -> Result<Catalogue> {
    let taskbench = dir.join(format!("toolgraph_taskbench_{dataset}.json"));
    let path = if taskbench.exists() { taskbench } else { dir.join(format!("toolgraph_{dataset}.json")) };
    let graph: ToolGraph = rows::whole(&path)?;
    let mut agent_entry = AgentEntry { success_rate: 1.0, ..AgentEntry::default() };
    for tool in graph.nodes {
        agent_entry.actions.insert(tool.id, ActionEntry::default());
    }
    let mut catalogue = Catalogue::default();
    catalogue.insert(AGENT, agent_entry);
    Ok(catalogue)
}

#[derive(Deserialize)]
struct Prediction {
    id: String,
    dataset: String,
    #[serde(default, deserialize_with = "items")]
    steps: Vec<Value>,
    #[serde(default, deserialize_with = "items")]
    nodes: Vec<Value>,
    #[serde(default, deserialize_with = "items")]
    links: Vec<Value>,
}

/// A list; anything else, as models write it too, counts as an empty one.
fn items<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Value>, D::Error> {
    Ok(Value::deserialize(from)?.as_array().cloned().unwrap_or_default())
}

/// Plans of models: what is wrong with each, and whether it could be repaired.
fn predictions(dir: &Path, limits: &Limits, out: &mut Out) -> Result<Value> {
    let rows: Vec<Prediction> = rows::read(&dir.join("taskbench_predictions.jsonl"))?;
    let mut catalogues = BTreeMap::new();
    for row in &rows {
        if !catalogues.contains_key(&row.dataset) {
            catalogues.insert(row.dataset.clone(), catalogue(dir, &row.dataset)?);
        }
    }
    let (mut invalid, mut repaired) = (0, 0);
    let mut codes: BTreeMap<String, usize> = BTreeMap::new();
    let mut edits: BTreeMap<String, usize> = BTreeMap::new();
    let mut left: BTreeMap<String, usize> = BTreeMap::new();
    let begun = Instant::now();
    for row in &rows {
        let rules = rules(&catalogues[&row.dataset]);
        let draft = draft(row);
        let found = validate::validate_plan_by(&draft, limits, &rules);
        let issues = found.as_ref().err().cloned().unwrap_or_default();
        let mut answer =
            json!({"set": "predictions", "id": row.id, "valid": issues.is_empty(), "issues": told(row, &issues)});
        if !issues.is_empty() {
            invalid += 1;
            count(&mut codes, issues.iter().map(|issue| issue.code.as_str()));
            let result = repair::repair(draft, limits, &rules);
            repaired += usize::from(result.outcome.is_ok());
            count(&mut edits, result.edits.iter().map(|edit| edit.code.as_str()));
            let rest = result.outcome.as_ref().err().cloned().unwrap_or_default();
            count(&mut left, rest.iter().map(|issue| issue.code.as_str()));
            answer["repaired"] = result.outcome.is_ok().into();
            answer["edits"] = serde_json::to_value(&result.edits)?;
            answer["left"] = told(row, &rest);
            answer["plan"] = restored(&result.draft);
        }
        out.row(&answer)?;
    }
    let took_us = begun.elapsed().as_micros() as f64 / rows.len().max(1) as f64;
    Ok(json!({
        "rows": rows.len(),
        "invalid": invalid,
        "repaired": repaired,
        "repaired_share": share(repaired, invalid),
        "plans_by_issue": codes,
        "plans_by_edit": edits,
        "plans_by_issue_left": left,
        "microseconds_a_plan": took_us.round(),
    }))
}

/// In this format an argument that names a node makes it a dependency, and nodes are written in order.
fn rules(catalogue: &Catalogue) -> Rules<'_> {
    Rules::planned(catalogue)
}

/// A row as a draft: nodes are steps, `<node-1>` is what step `node-1` gives, links name their ends by tool.
fn draft(row: &Prediction) -> Value {
    // What is no text is no tool either: it is shown as it is.
    let name = |node: &Value| match node["task"].as_str().filter(|name| !name.is_empty()) {
        Some(name) => name.to_owned(),
        None => node["task"].to_string(),
    };
    let names: Vec<String> = row.nodes.iter().map(name).collect();
    let tasks: Vec<&str> = names.iter().map(String::as_str).collect();
    let nodes: Vec<Value> = row
        .nodes
        .iter()
        .enumerate()
        .map(|(i, node)| {
            let mut step = json!({"id": format!("node-{i}"), "agent_type": AGENT, "action": tasks[i]});
            let text = row.steps.get(i).filter(|_| row.steps.len() == row.nodes.len()).and_then(Value::as_str);
            step["description"] = text.unwrap_or_default().into();
            step["arguments"] = translated(&node["arguments"], &|text| with_expressions(text));
            step
        })
        .collect();
    let links: Vec<Value> = row.links.iter().map(|link| json!(ends(&tasks, row, link))).collect();
    json!({"nodes": nodes, "links": links})
}

/// The steps that a link between two tools is between: of several with one name, those where one reads the other, or
/// else the nearest ones in order.
fn ends(tasks: &[&str], row: &Prediction, link: &Value) -> Value {
    let name = |key: &str| link[key].as_str().map_or_else(|| link[key].to_string(), str::to_owned);
    let (source, target) = (name("source"), name("target"));
    let found = |name: &str| (0..tasks.len()).filter(|i| tasks[*i] == name).collect::<Vec<_>>();
    let (from, to) = (found(&source), found(&target));
    let reads = |to: usize, from: usize| row.nodes[to]["arguments"].to_string().contains(&format!("<node-{from}>"));
    let mut pairs: Vec<(usize, usize)> = from.iter().flat_map(|f| to.iter().map(|t| (*f, *t))).collect();
    pairs.sort_by_key(|(f, t)| (f == t, !reads(*t, *f), f > t, f.abs_diff(*t)));
    let spelled = |i: Option<usize>, name: String| i.map_or(name, |i| format!("node-{i}"));
    let pair = pairs.first();
    let from = pair.map(|p| p.0).or(from.first().copied());
    let to = pair.map(|p| p.1).or(to.first().copied());
    json!({"source": spelled(from, source), "target": spelled(to, target)})
}

fn translated(value: &Value, text: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(given) => text(given).into(),
        Value::Array(items) => items.iter().map(|item| translated(item, text)).collect(),
        Value::Object(map) => map.iter().map(|(key, item)| (key.clone(), translated(item, text))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// `<node-1>` as an expression; what only looks like one stays text.
fn with_expressions(text: &str) -> String {
    let text = if text.contains("{{") || text.contains("{%") || text.contains("{#") {
        return text.replace('{', "(").replace('}', ")");
    } else {
        text
    };
    let mut made = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<node-") {
        made.push_str(before);
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        match after[digits..].strip_prefix('>').filter(|_| digits > 0) {
            Some(tail) => {
                made.push_str(&format!("{{{{ steps['node-{}'].outputs }}}}", &after[..digits]));
                rest = tail;
            }
            None => {
                made.push_str("<node-");
                rest = after;
            }
        }
    }
    made + rest
}

/// A repaired draft in the format of the rows, with links between nodes by number as well.
fn restored(draft: &Value) -> Value {
    let nodes = draft["nodes"].as_array().cloned().unwrap_or_default();
    let number = |id: &Value| nodes.iter().position(|node| node["id"] == *id);
    // By number once more: the steps may stand in another order.
    let back = |text: &str| {
        let mut text = text.to_owned();
        for (i, node) in nodes.iter().enumerate() {
            let id = node["id"].as_str().unwrap_or_default();
            text = text.replace(&format!("{{{{ steps['{id}'].outputs }}}}"), &format!("<NODE-{i}>"));
        }
        text.replace("<NODE-", "<node-")
    };
    let shown: Vec<Value> = nodes
        .iter()
        .map(|node| json!({"task": node["action"], "arguments": translated(&node["arguments"], &back)}))
        .collect();
    let links: Vec<Value> = draft["links"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|link| {
            let end = |key: &str| match number(&link[key]) {
                Some(i) => nodes[i]["action"].clone(),
                None => link[key].clone(),
            };
            json!({"source": end("source"), "target": end("target"), "nodes": [number(&link["source"]), number(&link["target"])]})
        })
        .collect();
    json!({"nodes": shown, "links": links})
}

/// Issues with the step they are about; fields are named as the row has them.
fn told(row: &Prediction, issues: &[Issue]) -> Value {
    let one = |issue: &Issue| {
        let pointer = issue.pointer.replace("/action", "/task");
        let mut parts = pointer.split('/').skip(1);
        let (list, index) = (parts.next(), parts.next().and_then(|i| i.parse::<usize>().ok()));
        let step = match (list, index) {
            (Some("nodes"), Some(i)) => row.nodes.get(i).map(|node| json!({"node": i, "task": node["task"]})),
            (Some("links"), Some(i)) => row.links.get(i).map(|link| json!({"link": i, "ends": link})),
            _ => None,
        };
        json!({"code": issue.code, "pointer": pointer, "step": step, "detail": issue.detail, "hint": issue.hint})
    };
    issues.iter().map(one).collect()
}

#[derive(Deserialize)]
struct ToolPlan {
    id: String,
    dataset: String,
    #[serde(default)]
    steps: Vec<String>,
    nodes: Vec<String>,
    links: Vec<(String, String)>,
}

fn toolplans(dir: &Path, limits: &Limits, out: &mut Out) -> Result<Value> {
    let rows: Vec<ToolPlan> = rows::read(&dir.join("gold_toolplans.jsonl"))?;
    let mut catalogues = BTreeMap::new();
    let mut tally = Tally::default();
    for row in rows {
        if !catalogues.contains_key(&row.dataset) {
            catalogues.insert(row.dataset.clone(), catalogue(dir, &row.dataset)?);
        }
        let pairs = row.links.iter().map(|(source, target)| json!({"source": source, "target": target})).collect();
        let tasks = row.nodes.iter().map(|name| json!({"task": name})).collect();
        let steps = row.steps.iter().map(|step| Value::from(step.clone())).collect();
        let as_row = Prediction { id: row.id, dataset: row.dataset, steps, nodes: tasks, links: pairs };
        let rules = rules(&catalogues[&as_row.dataset]);
        tally.judge("gold_toolplans", &as_row.id, &draft(&as_row), limits, &rules, out)?;
    }
    Ok(tally.figures())
}

#[derive(Deserialize)]
struct Workflow {
    id: String,
    nodes: Vec<(Value, Value)>,
    edges: Vec<(Value, Value)>,
}

fn worfbench(dir: &Path, limits: &Limits, out: &mut Out) -> Result<Value> {
    let rows: Vec<Workflow> = rows::read(&dir.join("worfbench.jsonl"))?;
    let mut tally = Tally::default();
    for row in rows {
        let nodes: Vec<Value> =
            row.nodes.iter().map(|(id, text)| json!({"id": id, "description": shown(text)})).collect();
        let edges: Vec<Value> = row.edges.iter().map(|(from, to)| json!([from, to])).collect();
        let draft = json!({"nodes": nodes, "edges": edges});
        tally.judge("worfbench", &row.id, &draft, limits, &Rules::default(), out)?;
    }
    Ok(tally.figures())
}

fn shown(text: &Value) -> String {
    text.as_str().map_or_else(|| text.to_string(), str::to_owned)
}

#[derive(Deserialize)]
struct HowTo {
    id: String,
    steps: Vec<String>,
    deps: Vec<(String, String)>,
}

fn asynchow(dir: &Path, limits: &Limits, out: &mut Out) -> Result<Value> {
    let rows: Vec<HowTo> = rows::read(&dir.join("asynchow.jsonl"))?;
    let mut tally = Tally::default();
    for row in rows {
        let nodes: Vec<Value> = row
            .steps
            .iter()
            .enumerate()
            .map(|(i, text)| json!({"id": (i + 1).to_string(), "description": text}))
            .collect();
        let edges: BTreeSet<_> = row.deps.iter().collect();
        let edges: Vec<Value> = edges.into_iter().map(|(from, to)| json!([from, to])).collect();
        let draft = json!({"nodes": nodes, "edges": edges});
        tally.judge("asynchow", &row.id, &draft, limits, &Rules::default(), out)?;
    }
    Ok(tally.figures())
}

/// What became of the rows of one set of gold plans.
#[derive(Default)]
struct Tally {
    rows: usize,
    invalid: usize,
    cyclic: usize,
    ids: Vec<String>,
    codes: BTreeMap<String, usize>,
}

impl Tally {
    fn judge(
        &mut self,
        set: &str,
        id: &str,
        draft: &Value,
        limits: &Limits,
        rules: &Rules<'_>,
        out: &mut Out,
    ) -> Result<()> {
        let issues = validate::validate_plan_by(draft, limits, rules).err().unwrap_or_default();
        self.rows += 1;
        self.cyclic += usize::from(issues.iter().any(|issue| issue.code == "PLAN_CYCLE"));
        if !issues.is_empty() {
            self.invalid += 1;
            self.ids.push(id.to_owned());
            count(&mut self.codes, issues.iter().map(|issue| issue.code.as_str()));
        }
        out.row(&json!({"set": set, "id": id, "valid": issues.is_empty(), "issues": issues}))
    }

    fn figures(mut self) -> Value {
        self.ids.truncate(10);
        json!({
            "rows": self.rows,
            "invalid": self.invalid,
            "cyclic": self.cyclic,
            "plans_by_issue": self.codes,
            "first_invalid": self.ids,
        })
    }
}

/// Counts each code once a plan.
fn count<'c>(counts: &mut BTreeMap<String, usize>, codes: impl Iterator<Item = &'c str>) {
    for code in codes.collect::<BTreeSet<_>>() {
        *counts.entry(code.to_owned()).or_default() += 1;
    }
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64 * 1_000.0).round() / 1_000.0 }
}

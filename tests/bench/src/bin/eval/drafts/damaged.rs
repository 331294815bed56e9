//! Plans whose correct form is known, each damaged in every way there is a place for: repaired correctly, sent back to
//! the model, or repaired wrongly.
//!
//! The plans are gold plans of GNN4TaskPlan (tools with links) and AsyncHow (steps with dependencies), written in six
//! styles: ids are names of actions or numbers, and all dependencies, none, or every second one are read by expressions. The
//! set `moving` has the same plans with maps, loops and statuses of dependencies. Two plans are the same when their steps have
//! the same texts, agents, actions, inputs, lists, conditions and statuses, and each waits for the same steps.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use goalmill_common::limits::Limits;
use goalmill_common::plan::Plan;
use goalmill_common::random::Random;
use goalmill_plan::validate::{ActionEntry, AgentEntry, Catalogue, Rules};
use goalmill_reader::ToolCatalogue;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::damage::{DAMAGES, Damage, STATUS_DAMAGES, name, step};
use super::percent;
use crate::rows::{self, Out};

/// Most plans of each source.
const PLANS_MAX: usize = 600;
/// Agent types that the tools are spread over.
const AGENTS: [&str; 6] = ["travel", "office", "research", "finance", "media", "support"];

#[derive(Deserialize)]
struct ToolPlan {
    id: String,
    #[serde(default)]
    steps: Vec<String>,
    nodes: Vec<String>,
    links: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct HowTo {
    id: String,
    steps: Vec<String>,
    #[serde(default)]
    deps: Vec<(String, String)>,
}

/// A draft that is valid.
struct Intact {
    id: String,
    draft: Value,
}

#[derive(Clone, Copy, Default)]
struct Tally {
    repaired: usize,
    sent_back: usize,
    wrong: usize,
}

pub fn run(dir: &Path, out: &mut Out, seed: u64) -> Result<Value> {
    let plans: Vec<ToolPlan> = rows::read(&dir.join("dag/gold_toolplans.jsonl"))?;
    let mut catalogue = Catalogue::default();
    let mut actions = BTreeMap::new();
    for plan in &plans {
        for tool in &plan.nodes {
            let agent = AGENTS[actions.len() % AGENTS.len()];
            actions.entry(tool.clone()).or_insert(agent);
        }
    }
    for agent in AGENTS {
        let own = actions.iter().filter(|(_, of)| **of == agent);
        let offered = own.map(|(tool, _)| (tool.clone(), ActionEntry::default())).collect();
        catalogue.insert(agent, AgentEntry { actions: offered, success_rate: 1.0, ..AgentEntry::default() });
    }
    let tools = ToolCatalogue::from_schemas(actions.keys().map(|tool| (tool.as_str(), None)));
    let mut intact: Vec<Intact> =
        plans.iter().take(PLANS_MAX).enumerate().filter_map(|(at, plan)| of_tools(at, plan, &actions)).collect();
    let how_tos: Vec<HowTo> = rows::read(&dir.join("dag/asynchow.jsonl"))?;
    intact.extend(how_tos.iter().take(PLANS_MAX).enumerate().filter_map(|(at, row)| of_how_to(at, row)));
    let rules = Rules { in_order: true, ..Rules::planned(&catalogue) };
    let judge = DamageJudge { tools, rules, seed };
    let mut figures = judge.run("damaged", &intact, &DAMAGES, out)?;
    let moving: Vec<Intact> = intact.iter().filter_map(moving).collect();
    let damages: Vec<Damage> = DAMAGES.into_iter().chain(STATUS_DAMAGES).collect();
    figures["moving"] = judge.run("moving", &moving, &damages, out)?;
    Ok(figures)
}

/// Damages drafts, and says what becomes of them.
struct DamageJudge<'r> {
    tools: ToolCatalogue,
    rules: Rules<'r>,
    seed: u64,
}

impl DamageJudge<'_> {
    /// - `set`: the name of the drafts in rows.
    fn run(&self, set: &str, intact: &[Intact], damages: &[Damage], out: &mut Out) -> Result<Value> {
        let (tools, rules, seed) = (&self.tools, &self.rules, self.seed);
        let limits = Limits::default();
        let mut tallies: BTreeMap<Damage, Tally> = BTreeMap::new();
        let (mut used, mut unusable) = (0, 0);
        for (at, Intact { id, draft }) in intact.iter().enumerate() {
            let (edits, outcome) = validate_answer(&draft.to_string(), tools, &limits, rules);
            let Some(meant) = outcome.ok().filter(|_| edits.is_empty()).map(|valid| meaning(valid.plan())) else {
                unusable += 1;
                continue;
            };
            used += 1;
            for damage in damages.iter().copied() {
                let random =
                    Random::seeded(seed.wrapping_mul(1_000_003) + (at * DAMAGES.len() + damage as usize) as u64);
                let Some(text) = damage.apply(draft, &random) else { continue };
                let (edits, outcome) = validate_answer(&text, tools, &limits, rules);
                let tally = tallies.entry(damage).or_default();
                let (verdict, issues) = match &outcome {
                    Ok(valid) if meaning(valid.plan()) == meant => ("repaired", Vec::new()),
                    Ok(_) => ("wrong", Vec::new()),
                    Err(issues) => ("sent_back", issues.iter().map(|issue| issue.code.as_str()).collect()),
                };
                match verdict {
                    "repaired" => tally.repaired += 1,
                    "wrong" => tally.wrong += 1,
                    _ => tally.sent_back += 1,
                }
                let mut row =
                    json!({"set": set, "id": id, "damage": name(damage), "verdict": verdict, "issues": issues});
                if verdict == "wrong" {
                    row["draft"] = draft.clone();
                    row["text"] = text.into();
                    row["edits"] = serde_json::to_value(&edits)?;
                }
                out.row(&row)?;
            }
        }
        Ok(figures(&tallies, used, unusable))
    }
}

fn figures(tallies: &BTreeMap<Damage, Tally>, plans: usize, unusable: usize) -> Value {
    let mut all = Tally::default();
    let mut by_damage = Map::new();
    for (damage, tally) in tallies {
        all.repaired += tally.repaired;
        all.sent_back += tally.sent_back;
        all.wrong += tally.wrong;
        by_damage.insert(name(*damage), tally.figures());
    }
    json!({"plans": plans, "plans_left_out": unusable, "all": all.figures(), "by_damage": by_damage})
}

impl Tally {
    fn figures(&self) -> Value {
        let drafts = self.repaired + self.sent_back + self.wrong;
        json!({
            "drafts": drafts,
            "repaired": percent(self.repaired, drafts),
            "sent_back": percent(self.sent_back, drafts),
            "wrong": percent(self.wrong, drafts),
        })
    }
}

/// Steps that call tools.
fn of_tools(at: usize, plan: &ToolPlan, actions: &BTreeMap<String, &str>) -> Option<Intact> {
    let ids = ids(&plan.nodes, at.is_multiple_of(2));
    let style = at / 2 % 3;
    let mut steps = Vec::new();
    for (n, tool) in plan.nodes.iter().enumerate() {
        let text = plan.steps.get(n).cloned().unwrap_or_default();
        let sources: BTreeSet<usize> = plan
            .links
            .iter()
            .filter(|(_, to)| to == tool)
            .filter_map(|(from, _)| plan.nodes[..n].iter().rposition(|node| node == from))
            .collect();
        let mut inputs = Map::from_iter([("request".to_owned(), json!(format!("part {n}")))]);
        for source in sources.iter().filter(|source| style == 0 || style == 1 && *source % 2 == 0) {
            inputs.insert(format!("input_{source}"), format!("{{{{ steps['{}'].outputs }}}}", ids[*source]).into());
            if style == 1 {
                inputs.insert(
                    format!("note_{source}"),
                    format!("see {{{{ steps['{}'].outputs }}}}", ids[*source]).into(),
                );
            }
        }
        let action = format!("{}/{tool}", actions[tool]);
        let dependencies: Vec<String> = sources.iter().map(|source| ids[*source].clone()).collect();
        steps.push(step(&ids[n], &format!("{text} ({n})"), &action, Value::Object(inputs), &dependencies));
    }
    (steps.len() > 1).then(|| Intact { id: plan.id.clone(), draft: json!({ "steps": steps }) })
}

/// The same plan with a map where a step reads another one, loops elsewhere, and statuses of dependencies.
fn moving(Intact { id, draft }: &Intact) -> Option<Intact> {
    let mut draft = draft.clone();
    for step in draft["steps"].as_array_mut()? {
        if let Some(first) = step["dependencies"].get_mut(0) {
            *first = json!({"step": first, "is": ["completed"]});
        }
        let inputs = step["inputs"].as_object_mut()?;
        let list = inputs.values_mut().find(|input| input.as_str().is_some_and(|text| text.starts_with("{{")));
        match list.map(|input| std::mem::replace(input, json!("{{ item }}"))) {
            Some(list) => step["for_each"] = list.as_str()?.replace(".outputs }}", ".outputs.list }}").into(),
            None => step["repeat"] = json!({"until": "outputs.done", "max": 3}),
        }
    }
    Some(Intact { id: id.clone(), draft })
}

/// Steps in words, for whoever can do them.
fn of_how_to(at: usize, row: &HowTo) -> Option<Intact> {
    let names: Vec<String> = row
        .steps
        .iter()
        .map(|text| text.split_whitespace().take(3).collect::<Vec<_>>().join("_").to_lowercase())
        .map(|name| name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect())
        .collect();
    let ids = ids(&names, at.is_multiple_of(2));
    let number = |text: &str| text.parse::<usize>().ok()?.checked_sub(1);
    let edges: Vec<(usize, usize)> =
        row.deps.iter().filter_map(|(from, to)| Some((number(from)?, number(to)?))).collect();
    let mut steps = Vec::new();
    for (n, text) in row.steps.iter().enumerate() {
        let sources: BTreeSet<usize> =
            edges.iter().filter(|(from, to)| *to == n && *from < row.steps.len()).map(|(from, _)| *from).collect();
        let dependencies: Vec<String> = sources.iter().map(|source| ids[*source].clone()).collect();
        steps.push(step(&ids[n], &format!("{text} ({n})"), "", json!({"minutes": n}), &dependencies));
    }
    (steps.len() > 1).then(|| Intact { id: row.id.clone(), draft: json!({ "steps": steps }) })
}

/// Ids that are names, or `step-1`, `step-2`.
fn ids(names: &[String], are_names: bool) -> Vec<String> {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ids = Vec::new();
    for (n, name) in names.iter().enumerate() {
        let count = known.entry(name).or_default();
        *count += 1;
        ids.push(match (are_names && !name.is_empty(), *count) {
            (false, _) => format!("step-{}", n + 1),
            (true, 1) => name.clone(),
            (true, count) => format!("{name}_{count}"),
        });
    }
    ids
}

/// What a plan means: each step's text, agent, action, inputs, list, condition and statuses, and the texts of all steps that end before it.
fn meaning(plan: &Plan) -> BTreeMap<String, (String, String, Value, BTreeSet<String>)> {
    let text = |id: &str| plan.steps.iter().find(|step| step.id.as_str() == id).map(|step| step.description.clone());
    let mut meanings = BTreeMap::new();
    for step in &plan.steps {
        let list = step.for_each.as_ref().map(|map| map.items.text()).unwrap_or_default();
        let until = step.repeat.as_ref().map(|repeat| repeat.until.as_str()).unwrap_or_default();
        let statuses: BTreeMap<_, _> =
            step.dependency_status.iter().map(|(id, statuses)| (text(id.as_str()), statuses)).collect();
        let mut inputs = format!("{} {list} {until} {statuses:?}", step.inputs.text());
        for other in &plan.steps {
            inputs = inputs.replace(&format!("steps['{}']", other.id), &format!("steps[[{}]]", other.description));
            inputs = inputs.replace(&format!("steps.{}.", other.id), &format!("steps[[{}]].", other.description));
        }
        let mut open: Vec<String> = step.dependencies.iter().map(ToString::to_string).collect();
        let mut before = BTreeSet::new();
        while let Some(id) = open.pop() {
            if before.insert(text(&id).unwrap_or_default())
                && let Some(step) = plan.steps.iter().find(|step| step.id.as_str() == id)
            {
                open.extend(step.dependencies.iter().map(ToString::to_string));
            }
        }
        let means = (step.agent_type.to_string(), step.action.clone(), Value::String(inputs), before);
        meanings.insert(step.description.clone(), means);
    }
    meanings
}
use goalmill_bench::digest::validate_answer;

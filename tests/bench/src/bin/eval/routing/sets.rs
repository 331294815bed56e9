//! Reads the sets of steps and tools; those that a folder does not hold are left out.

use std::path::Path;

use anyhow::Result;
use goalmill_bench::tools::{Tool, described_agent};
use goalmill_common::agent::Agent;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::PARTS;
use crate::rows;

/// Steps, and the tools among which one is to be chosen.
pub struct Set {
    pub name: &'static str,
    pub agents: Vec<Agent>,
    pub rows: Vec<Row>,
    /// Whether there are enough rows to learn from.
    pub learns: bool,
}

pub struct Row {
    pub id: String,
    pub text: String,
    /// Any of these is right; nobody is if there is none.
    pub gold: Vec<String>,
    /// Which part of the cross-validation it belongs to.
    pub part: usize,
    /// The same, where all rows of one request belong to one part.
    pub request_part: usize,
}

/// A query with its own tools.
pub struct Live {
    pub agents: Vec<Agent>,
    pub row: Row,
}

fn row(id: String, text: &str, gold: Vec<String>) -> Row {
    let part = part(&id);
    Row { id, text: text.into(), gold, part, request_part: part }
}

/// The part hangs on the name alone, so that other rows of a set do not move it.
pub fn part(name: &str) -> usize {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    usize::try_from((hash >> 17) % PARTS as u64).unwrap_or_default()
}

pub fn all(dir: &Path) -> Result<Vec<Set>> {
    let routing = dir.join("routing");
    let mut sets = Vec::new();
    for (name, language) in [("ultratool_en", "en"), ("ultratool_zh", "zh")] {
        sets.extend(ultratool(&routing, name, language)?);
    }
    sets.extend(toolplans(&dir.join("dag"), "ultratool_gnn", "ultratool")?);
    sets.extend(toolplans(&dir.join("dag"), "tmdb", "tmdb")?);
    sets.extend(workbench(&dir.join("e2e"))?);
    sets.extend(metatool(&routing)?);
    sets.extend(sealtools(&routing)?);
    Ok(sets)
}

fn ultratool(dir: &Path, name: &'static str, language: &str) -> Result<Option<Set>> {
    #[derive(Deserialize)]
    struct Step {
        id: String,
        q: u64,
        step: String,
        tool: Option<String>,
    }
    let steps = dir.join(format!("ultratool_steps.{language}.jsonl"));
    if !steps.is_file() {
        return Ok(None);
    }
    let tools: Vec<Tool> = rows::whole(&dir.join(format!("ultratool_tools.{language}.json")))?;
    let rows = rows::read::<Step>(&steps)?.into_iter();
    let of_request = |step: Step| {
        let request_part = part(&format!("request {}", step.q));
        Row { request_part, ..row(step.id, &step.step, step.tool.into_iter().collect()) }
    };
    let rows = shuffled(rows.map(of_request).collect());
    Ok(Some(Set { name, agents: tools.iter().map(Tool::agent).collect(), rows, learns: true }))
}

/// Steps of whole plans; the name of the tool, with which each begins, is taken off.
fn toolplans(dir: &Path, name: &'static str, dataset: &str) -> Result<Option<Set>> {
    #[derive(Deserialize)]
    struct Graph {
        nodes: Vec<Node>,
    }
    #[derive(Deserialize)]
    struct Node {
        id: String,
        desc: String,
    }
    #[derive(Deserialize)]
    struct Plan {
        id: String,
        dataset: String,
        steps: Vec<String>,
        nodes: Vec<String>,
    }
    let plans = dir.join("gold_toolplans.jsonl");
    let graph = dir.join(format!("toolgraph_{dataset}.json"));
    if !plans.is_file() || !graph.is_file() {
        return Ok(None);
    }
    let graph: Graph = rows::whole(&graph)?;
    let mut found = Vec::new();
    for plan in rows::read::<Plan>(&plans)?.into_iter().filter(|plan| plan.dataset == dataset) {
        for (at, (step, tool)) in plan.steps.iter().zip(&plan.nodes).enumerate() {
            let called = format!("Step {} Call {tool} ", at + 1);
            if let Some(text) = step.strip_prefix(&called) {
                let text = text.strip_prefix("to ").unwrap_or(text);
                found.push(row(format!("{}-{at}", plan.id), text, vec![tool.clone()]));
            }
        }
    }
    let agents = graph.nodes.iter().map(|node| described_agent(&node.id, &node.desc)).collect();
    Ok(Some(Set { name, agents, rows: found, learns: false }))
}

/// Workplace tasks and the functions that their answers call; a function is known by its name alone.
fn workbench(dir: &Path) -> Result<Option<Set>> {
    #[derive(Deserialize)]
    struct Task {
        query: String,
        answer: String,
    }
    let tasks = dir.join("workbench_tasks.jsonl");
    if !tasks.is_file() {
        return Ok(None);
    }
    let mut names = std::collections::BTreeSet::new();
    let mut found = Vec::new();
    for (at, task) in rows::read::<Task>(&tasks)?.into_iter().enumerate() {
        let calls: Vec<String> = task
            .answer
            .split(".func(")
            .filter_map(|before| before.rsplit(|c: char| !(c.is_ascii_lowercase() || matches!(c, '_' | '.'))).next())
            .filter(|name| name.contains('.'))
            .map(str::to_owned)
            .collect();
        if !calls.is_empty() {
            names.extend(calls.iter().cloned());
            found.push(row(format!("workbench-{at}"), &task.query, calls));
        }
    }
    let agents = names.iter().map(|name| described_agent(name, &name.replace(['.', '_'], " "))).collect();
    Ok(Some(Set { name: "workbench", agents, rows: found, learns: false }))
}

fn metatool(dir: &Path) -> Result<Option<Set>> {
    #[derive(Deserialize)]
    struct Query {
        id: String,
        query: String,
        tool: String,
    }
    let queries = dir.join("metatool_single.jsonl");
    if !queries.is_file() {
        return Ok(None);
    }
    let tools: Map<String, Value> = rows::whole(&dir.join("metatool_tools.json"))?;
    let agents = tools.iter().map(|(name, text)| described_agent(name, text.as_str().unwrap_or_default())).collect();
    let rows = rows::read::<Query>(&queries)?.into_iter().map(|query| row(query.id, &query.query, vec![query.tool]));
    Ok(Some(Set { name: "metatool", agents, rows: shuffled(rows.collect()), learns: true }))
}

fn sealtools(dir: &Path) -> Result<Option<Set>> {
    #[derive(Deserialize)]
    struct Query {
        id: String,
        query: String,
        calls: Vec<Call>,
    }
    #[derive(Deserialize)]
    struct Call {
        api: String,
    }
    let queries = dir.join("sealtools_queries.jsonl");
    if !queries.is_file() {
        return Ok(None);
    }
    let tools: Vec<Tool> = rows::whole(&dir.join("sealtools_tools.json"))?;
    let rows = rows::read::<Query>(&queries)?.into_iter();
    let rows = rows.map(|query| row(query.id, &query.query, query.calls.into_iter().map(|call| call.api).collect()));
    let agents = tools.iter().map(Tool::agent).collect();
    Ok(Some(Set { name: "sealtools", agents, rows: rows.collect(), learns: false }))
}

pub fn live(dir: &Path) -> Result<Vec<Live>> {
    #[derive(Deserialize)]
    struct Query {
        id: String,
        query: String,
        functions: Vec<Tool>,
        gold: Option<Vec<String>>,
    }
    let queries = dir.join("routing/bfcl_live.jsonl");
    if !queries.is_file() {
        return Ok(Vec::new());
    }
    let live = |query: Query| Live {
        agents: query.functions.iter().map(Tool::agent).collect(),
        row: row(query.id, &query.query, query.gold.unwrap_or_default()),
    };
    Ok(rows::read::<Query>(&queries)?.into_iter().map(live).collect())
}

/// Outcomes come in no order; sorted by what looks like chance, and is the same each time.
fn shuffled(mut rows: Vec<Row>) -> Vec<Row> {
    let key = |row: &Row| row.id.bytes().fold(7_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    rows.sort_by_key(key);
    rows
}

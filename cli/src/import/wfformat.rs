//! WfCommons WfFormat 1.5: traces of real workflows, as plans that sleep as long as the traced tasks ran.
//!
//! Source: WfCommons, "WfFormat" JSON Schema, version 1.5, 2024.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::id::{AgentType, StepId, is_id};
use goalmill_common::json::Json;
use goalmill_common::limits::TIMEOUT_MS;
use goalmill_common::number::whole_u64;
use goalmill_common::plan::{Estimates, Plan, Step, Strategy};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Most names listed in one error.
const NAMED_MAX: usize = 5;
/// A step may take this many times as long as its task did.
const TIMEOUT_FACTOR: f64 = 4.0;

/// How a trace becomes a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportOptions {
    /// Seconds slept for each traced second; not negative.
    pub time_scale: f64,
    pub agent_type: AgentType,
}

/// Why a document is no workflow that can be run.
#[derive(Debug, PartialEq, Eq)]
pub enum ImportError {
    Syntax(String),
    TimeScale(String),
    AgentType(String),
    NoTasks,
    BadIds(Vec<String>),
    Twice(Vec<String>),
    UnknownParents(Vec<String>),
    NoRuntime(Vec<String>),
}

impl std::fmt::Display for ImportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Syntax(why) => write!(f, "the document is no WfFormat 1.5 workflow: {why}"),
            Self::TimeScale(text) => write!(f, "the time scale `{text}` is not a number from 0 up"),
            Self::AgentType(text) => write!(f, "`{text}` is no agent type"),
            Self::NoTasks => f.write_str("the workflow has no tasks"),
            Self::BadIds(ids) => write!(
                f,
                "{} cannot be step ids (a letter or digit, then up to 127 of letters, digits, `.`, `_`, `:`, `-`): {}",
                counted(ids, "task id", "task ids"),
                named(ids)
            ),
            Self::Twice(ids) => write!(f, "{} appear twice: {}", counted(ids, "task id", "task ids"), named(ids)),
            Self::UnknownParents(ids) => {
                write!(f, "{} unknown tasks: {}", counted(ids, "link names", "links name"), named(ids))
            }
            Self::NoRuntime(ids) => {
                write!(f, "{} no `runtimeInSeconds` from 0 up: {}", counted(ids, "task has", "tasks have"), named(ids))
            }
        }
    }
}

impl std::error::Error for ImportError {}

fn counted(ids: &[String], one: &str, many: &str) -> String {
    format!("{} {}", ids.len(), if ids.len() == 1 { one } else { many })
}

fn named(ids: &[String]) -> String {
    let mut text = ids.iter().take(NAMED_MAX).map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
    if ids.len() > NAMED_MAX {
        text.push_str(", …");
    }
    text
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    name: String,
    #[serde(default, rename = "schemaVersion")]
    schema_version: String,
    workflow: Workflow,
}

#[derive(Deserialize)]
struct Workflow {
    specification: Specification,
    execution: Execution,
}

#[derive(Deserialize)]
struct Specification {
    tasks: Vec<TraceTask>,
}

#[derive(Deserialize)]
struct TraceTask {
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    parents: Vec<String>,
    #[serde(default)]
    children: Vec<String>,
}

#[derive(Deserialize)]
struct Execution {
    tasks: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    id: String,
    #[serde(rename = "runtimeInSeconds")]
    runtime_seconds: f64,
}

/// Makes a plan of a workflow.
///
/// Step ids are the task ids, unchanged. Dependencies are the tasks' parents, and those tasks that name the
/// task as a child, in the document's order. Inputs and estimates hold `seconds`, the traced runtime times the
/// scale.
pub fn import_workflow(text: &str, options: &ImportOptions) -> Result<Plan, ImportError> {
    check_options(options)?;
    let document: Document = serde_json::from_str(text).map_err(|error| ImportError::Syntax(error.to_string()))?;
    let tasks = &document.workflow.specification.tasks;
    let places = places(tasks)?;
    let parents = parents(tasks, &places)?;
    let runtimes = runtimes(tasks, &document.workflow.execution.tasks)?;
    let steps = tasks.iter().zip(&parents).map(|(task, parents)| {
        let seconds = runtimes[task.id.as_str()] * options.time_scale;
        let mut step = Step::new(task.id.as_str(), options.agent_type.clone());
        step.description = if task.name == task.id { String::new() } else { task.name.clone() };
        step.inputs = Json::from_value(&json!({ "seconds": seconds }));
        step.dependencies = parents.iter().map(|place| StepId::from(tasks[*place].id.as_str())).collect();
        step.timeout_ms = Some(timeout_ms(seconds));
        step.estimates = Estimates { seconds: Some(seconds), ..Estimates::default() };
        step
    });
    Ok(Plan {
        name: if document.name.is_empty() { "workflow".into() } else { document.name },
        strategy: Strategy::Parallel,
        steps: steps.collect(),
        metadata: Map::from_iter([
            ("source".to_owned(), json!(format!("wfformat {}", document.schema_version).trim_end())),
            ("time_scale".to_owned(), Value::from(options.time_scale)),
        ]),
        ..Plan::default()
    })
}

fn check_options(options: &ImportOptions) -> Result<(), ImportError> {
    if !options.time_scale.is_finite() || options.time_scale < 0.0 {
        return Err(ImportError::TimeScale(options.time_scale.to_string()));
    }
    if !is_id(options.agent_type.as_str()) {
        return Err(ImportError::AgentType(options.agent_type.to_string()));
    }
    Ok(())
}

/// Task id → its place in the document.
fn places(tasks: &[TraceTask]) -> Result<BTreeMap<&str, usize>, ImportError> {
    if tasks.is_empty() {
        return Err(ImportError::NoTasks);
    }
    let bad: Vec<String> = tasks.iter().filter(|task| !is_id(&task.id)).map(|task| task.id.clone()).collect();
    none_or(bad, ImportError::BadIds)?;
    let mut places = BTreeMap::new();
    let mut twice = Vec::new();
    for (place, task) in tasks.iter().enumerate() {
        if places.insert(task.id.as_str(), place).is_some() {
            twice.push(task.id.clone());
        }
    }
    none_or(twice, ImportError::Twice)?;
    Ok(places)
}

/// Each task's parents as places, in the document's order.
fn parents(tasks: &[TraceTask], places: &BTreeMap<&str, usize>) -> Result<Vec<BTreeSet<usize>>, ImportError> {
    let mut parents = vec![BTreeSet::new(); tasks.len()];
    let mut unknown = Vec::new();
    for (place, task) in tasks.iter().enumerate() {
        for parent in &task.parents {
            match places.get(parent.as_str()) {
                Some(parent) => drop(parents[place].insert(*parent)),
                None => unknown.push(format!("{} → {parent}", task.id)),
            }
        }
        for child in &task.children {
            match places.get(child.as_str()) {
                Some(child) => drop(parents[*child].insert(place)),
                None => unknown.push(format!("{} → {child}", task.id)),
            }
        }
    }
    none_or(unknown, ImportError::UnknownParents)?;
    Ok(parents)
}

fn runtimes<'a>(tasks: &'a [TraceTask], runs: &[Run]) -> Result<BTreeMap<&'a str, f64>, ImportError> {
    let known: BTreeMap<&str, f64> = runs.iter().map(|run| (run.id.as_str(), run.runtime_seconds)).collect();
    let mut runtimes = BTreeMap::new();
    let mut missing = Vec::new();
    for task in tasks {
        match known.get(task.id.as_str()) {
            Some(seconds) if seconds.is_finite() && *seconds >= 0.0 => {
                runtimes.insert(task.id.as_str(), *seconds);
            }
            _ => missing.push(task.id.clone()),
        }
    }
    none_or(missing, ImportError::NoRuntime)?;
    Ok(runtimes)
}

fn none_or(ids: Vec<String>, error: fn(Vec<String>) -> ImportError) -> Result<(), ImportError> {
    if ids.is_empty() { Ok(()) } else { Err(error(ids)) }
}

/// Long enough for `seconds`, in milliseconds, and never below the default.
fn timeout_ms(seconds: f64) -> u64 {
    TIMEOUT_MS.max(whole_u64((seconds * 1_000.0 * TIMEOUT_FACTOR).ceil()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = r#"{
        "name": "diamond", "schemaVersion": "1.5",
        "workflow": {
            "specification": {"tasks": [
                {"id": "split_ID01", "name": "split", "parents": [], "children": ["left.1", "right_2"]},
                {"id": "left.1", "name": "left", "parents": ["split_ID01"], "children": ["merge"]},
                {"id": "right_2", "name": "right", "parents": ["split_ID01"], "children": []},
                {"id": "merge", "name": "merge", "parents": ["right_2"], "children": []}
            ]},
            "execution": {"makespanInSeconds": 9, "tasks": [
                {"id": "merge", "runtimeInSeconds": 0.0},
                {"id": "split_ID01", "runtimeInSeconds": 53.5},
                {"id": "left.1", "runtimeInSeconds": 1000},
                {"id": "right_2", "runtimeInSeconds": 2.25}
            ]}
        }
    }"#;

    fn options(time_scale: f64) -> ImportOptions {
        ImportOptions { time_scale, agent_type: "sleep".into() }
    }

    #[test]
    fn tasks_become_steps_with_their_ids_parents_and_scaled_runtimes() {
        let plan = import_workflow(TRACE, &options(0.5)).expect("it is a workflow");
        let of = |id: &str| plan.steps.iter().find(|step| step.id.as_str() == id).expect("the task became a step");
        assert_eq!(plan.name, "diamond");
        assert_eq!(plan.steps.len(), 4);
        assert_eq!(of("merge").dependencies, ["left.1".into(), "right_2".into()]);
        assert_eq!(of("split_ID01").inputs.text(), r#"{"seconds":26.75}"#);
        assert_eq!(of("split_ID01").estimates.seconds, Some(26.75));
        assert_eq!(of("left.1").timeout_ms, Some(2_000_000));
        assert_eq!(of("merge").timeout_ms, Some(TIMEOUT_MS));
        assert!(plan.steps.iter().all(|step| step.agent_type.as_str() == "sleep"));
    }

    #[test]
    fn a_scale_of_zero_makes_no_ops() {
        let plan = import_workflow(TRACE, &options(0.0)).expect("it is a workflow");
        assert!(plan.steps.iter().all(|step| step.inputs.text() == r#"{"seconds":0.0}"#));
    }

    #[test]
    fn ids_that_cannot_be_kept_are_named() {
        let text = TRACE.replace("left.1", "left 1");
        assert_eq!(import_workflow(&text, &options(1.0)), Err(ImportError::BadIds(vec!["left 1".into()])));
    }

    #[test]
    fn what_is_missing_is_named() {
        let told =
            |text: &str, scale: f64| import_workflow(text, &options(scale)).expect_err("it is refused").to_string();
        assert!(told("{}", 1.0).contains("missing field `workflow`"));
        assert!(told(TRACE, -1.0).contains("`-1`"));
        assert!(told(&TRACE.replace("[\"merge\"]", "[\"nowhere\"]"), 1.0).contains("`left.1 → nowhere`"));
        assert!(told(&TRACE.replace("53.5", "-1"), 1.0).contains("`split_ID01`"));
        assert!(
            told(&TRACE.replace("\"id\": \"right_2\", \"name\"", "\"id\": \"merge\", \"name\""), 1.0).contains("twice")
        );
    }
}

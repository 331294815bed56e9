//! The steps that a list of tasks becomes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::import::conversion::{Findings, Place, all_of, object};

/// The steps of one plan.
#[derive(Default)]
pub(super) struct StepList {
    pub(super) steps: Vec<Value>,
    /// The last steps of each task, by its reference name.
    pub(super) ends: BTreeMap<String, Vec<String>>,
    /// What must be true of the steps that follow: nobody has terminated the workflow.
    pub(super) stopped: Vec<String>,
}

impl StepList {
    pub(super) fn push<const N: usize>(
        &mut self,
        findings: &mut Findings,
        place: &Place<'_>,
        mut step: Map<String, Value>,
        fields: [(&str, Value); N],
    ) {
        if findings.count_step(place) {
            step.extend(object(fields));
            self.steps.push(Value::Object(step));
        }
    }
}

pub(super) fn step(id: &str, dependencies: Vec<String>, conditions: &[String]) -> Map<String, Value> {
    let mut step = object([("id", id.into()), ("when", all_of(conditions).into())]);
    if !dependencies.is_empty() {
        step.insert("dependencies".into(), json!(dependencies));
    }
    step
}

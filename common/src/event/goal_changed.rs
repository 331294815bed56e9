//! The payload of `goal_changed`: the structured fields of a goal.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::clock::rfc3339;
use crate::command::GoalCorrection;
use crate::criterion::Criterion;
use crate::goal::Goal;

use super::event_bytes::FIXED_BYTES;

/// The structured fields of a goal, all of them as they hold from now on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct GoalChanged {
    /// As in a goal.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub constraints: Map<String, Value>,
    /// As in a goal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub success_criteria: Vec<Criterion>,
    /// As in a goal, Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// The inputs of the goal's context.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
    /// Fields that a model read in the text of the goal and no caller has corrected: `/constraints/budget`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// The model that read them; empty when a person corrected the goal.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Why a person corrected it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The plan ends by then, Unix milliseconds.
    pub due_ms: u64,
}

impl GoalChanged {
    /// The fields of a goal as they are.
    pub fn from_goal(goal: &Goal) -> Self {
        Self {
            constraints: goal.constraints.clone(),
            success_criteria: goal.success_criteria.clone(),
            deadline_ms: goal.deadline_ms,
            inputs: goal.context.inputs.clone(),
            ..Self::default()
        }
    }

    /// Gives a goal these fields.
    pub fn set(&self, goal: &mut Goal) {
        goal.constraints.clone_from(&self.constraints);
        goal.success_criteria.clone_from(&self.success_criteria);
        goal.deadline_ms = self.deadline_ms;
        goal.context.inputs.clone_from(&self.inputs);
    }

    /// Takes what a person corrects; that is read from the text no more.
    pub fn correct(&mut self, correction: GoalCorrection) {
        let GoalCorrection { constraints, success_criteria, deadline_ms, inputs } = correction;
        let mut corrected: Vec<String> = Vec::new();
        for (field, own, given) in
            [("constraints", &mut self.constraints, constraints), ("inputs", &mut self.inputs, inputs)]
        {
            for (name, value) in given {
                corrected.push(format!("/{field}/{name}"));
                if value.is_null() {
                    own.remove(&name);
                } else {
                    own.insert(name, value);
                }
            }
        }
        if let Some(deadline_ms) = deadline_ms {
            corrected.push("/deadline".into());
            self.deadline_ms = (deadline_ms > 0).then_some(deadline_ms);
        }
        if let Some(criteria) = success_criteria {
            self.success_criteria = criteria;
            self.read.retain(|pointer| !pointer.starts_with("/success_criteria/"));
        }
        self.read.retain(|pointer| !corrected.contains(pointer));
    }

    /// What was read, a line each: `budget: 2000 USD`.
    pub fn read_lines(&self) -> Vec<String> {
        let words = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let line = |pointer: &String| {
            let mut parts = pointer.trim_start_matches('/').splitn(2, '/');
            match (parts.next()?, parts.next()) {
                ("constraints", Some(name)) => {
                    self.constraints.get(name).map(|value| format!("{name}: {}", words(value)))
                }
                ("inputs", Some(name)) => self.inputs.get(name).map(|value| format!("input {name}: {}", words(value))),
                ("success_criteria", Some(n)) => {
                    let criterion = self.success_criteria.get(n.parse::<usize>().ok()?)?;
                    Some(format!("reached when: {}", criterion.text()))
                }
                ("deadline", None) => self.deadline_ms.map(|ms| format!("deadline: {}", rfc3339(ms))),
                _ => None,
            }
        };
        self.read.iter().filter_map(line).collect()
    }

    /// About how many bytes it takes in the log.
    pub(super) fn bytes(&self) -> usize {
        let size = |(name, value): (&String, &Value)| FIXED_BYTES + name.len() + value.to_string().len();
        let criteria = self.success_criteria.iter().map(|criterion| FIXED_BYTES + criterion.text().len());
        self.constraints.iter().chain(&self.inputs).map(size).chain(criteria).sum()
    }
}

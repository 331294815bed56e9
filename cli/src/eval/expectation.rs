//! Expectations of the plan of a goal, beside its validity.

use goalmill_common::limits::Limits;
use goalmill_common::plan::Plan;
use goalmill_common::problem::Issue;
use goalmill_expression::{Evaluator, Missing, TemplateValues};
use serde::Deserialize;
use serde_json::{Value, json};

/// What is expected of a plan.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Expectation {
    /// Each is the action of a step.
    actions: Vec<String>,
    /// Each is the agent type of a step.
    agent_types: Vec<String>,
    steps_min: Option<usize>,
    steps_max: Option<usize>,
    /// Expressions over `plan` and `steps` that are true.
    criteria: Vec<String>,
}

impl Expectation {
    /// - `value`: `expect` of a goal; null without one.
    pub fn parse(value: &Value) -> Result<Self, Issue> {
        if value.is_null() {
            return Ok(Self::default());
        }
        let hint = "give `actions`, `agent_types`, `steps_min`, `steps_max` or `criteria`";
        let expect = Self::deserialize(value).map_err(|error| issue("", &error.to_string(), hint))?;
        for (at, text) in expect.criteria.iter().enumerate() {
            Evaluator::check_expression(text).map_err(|error| {
                let hint = "write an expression over `steps` or `plan`, such as `steps | length <= 4`";
                issue(&format!("/criteria/{at}"), &error.to_string(), hint)
            })?;
        }
        Ok(expect)
    }

    /// Whether nothing is expected.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
            && self.agent_types.is_empty()
            && self.criteria.is_empty()
            && self.steps_min.or(self.steps_max).is_none()
    }

    /// What the plan does not meet.
    pub fn unmet(&self, plan: &Plan) -> Vec<String> {
        let has_action = |name: &String| plan.steps.iter().any(|step| step.action == *name);
        let has_agent = |name: &String| plan.steps.iter().any(|step| step.agent_type.as_str() == name);
        let count = plan.steps.len();
        let mut unmet: Vec<String> = Vec::new();
        unmet.extend(self.actions.iter().filter(|name| !has_action(name)).map(|name| format!("no action `{name}`")));
        unmet.extend(
            self.agent_types.iter().filter(|name| !has_agent(name)).map(|name| format!("no agent type `{name}`")),
        );
        unmet.extend(self.steps_min.filter(|least| count < *least).map(|least| format!("{count} steps, not {least}")));
        unmet.extend(self.steps_max.filter(|most| count > *most).map(|most| format!("{count} steps, at most {most}")));
        unmet.extend(self.false_criteria(plan));
        unmet
    }

    fn false_criteria(&self, plan: &Plan) -> Vec<String> {
        if self.criteria.is_empty() {
            return Vec::new();
        }
        let limits = Limits::default();
        let evaluator = Evaluator::new(Missing::Empty, limits.fuel_max, limits.payload_bytes_max);
        let values = TemplateValues::new(&json!({"plan": plan, "steps": plan.steps}));
        let false_text = |text: &String| match evaluator.evaluate(text, &values) {
            Ok(Some(Value::Bool(true))) => None,
            Ok(Some(Value::Bool(false)) | None) => Some(format!("not `{text}`")),
            Ok(Some(other)) => Some(format!("`{text}` is {other}, neither true nor false")),
            Err(error) => Some(format!("`{text}`: {error}")),
        };
        self.criteria.iter().filter_map(false_text).collect()
    }
}

/// An issue of the file.
pub fn issue(pointer: &str, detail: &str, hint: &str) -> Issue {
    Issue { code: "INVALID_VALUE".into(), pointer: pointer.into(), detail: detail.into(), hint: hint.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unmet(expect: &Value) -> Vec<String> {
        let plan: Plan = serde_json::from_value(json!({"steps": [
            {"id": "s1", "agent_type": "researcher", "action": "search"},
            {"id": "s2", "agent_type": "writer", "action": "draft", "dependencies": ["s1"]},
        ]}))
        .expect("it is a plan");
        Expectation::parse(expect).expect("it is an expectation").unmet(&plan)
    }

    #[test]
    fn a_plan_meets_what_it_has() {
        let met = json!({"actions": ["draft", "search"], "agent_types": ["writer"], "steps_min": 2, "steps_max": 2,
                         "criteria": ["steps | length == 2", "'s1' in steps[1].dependencies"]});
        assert_eq!(unmet(&met), [""; 0]);
        assert_eq!(unmet(&Value::Null), [""; 0]);
    }

    #[test]
    fn each_unmet_expectation_is_told() {
        let found =
            unmet(&json!({"actions": ["search", "send"], "agent_types": ["office"], "steps_min": 3, "steps_max": 1,
                                  "criteria": ["steps | length > 2", "steps | length", "steps[0].nothing"]}));
        assert_eq!(
            found,
            [
                "no action `send`",
                "no agent type `office`",
                "2 steps, not 3",
                "2 steps, at most 1",
                "not `steps | length > 2`",
                "`steps | length` is 2, neither true nor false",
                "not `steps[0].nothing`",
            ]
        );
    }
}

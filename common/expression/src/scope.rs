//! What an expression sees: the goal, and the steps its text names.

use std::collections::BTreeMap;

use goalmill_common::goal::Goal;
use goalmill_common::json::Json;
use goalmill_common::status::StepStatus;
use minijinja::Value;
use minijinja::value::Serde;

use crate::scan::Scan;
use crate::{ExpressionError, StepRef};

/// A step as an expression sees it.
#[derive(Clone, Copy, Debug)]
pub struct ScopedStep<'a> {
    pub status: StepStatus,
    /// Those of a completed step; seen as an empty object when missing.
    pub outputs: Option<&'a Json>,
    /// Whether the outputs are incomplete.
    pub partial: bool,
}

/// Where expressions look things up. Making one costs nothing; outputs are parsed only when a text names them.
pub struct Scope<'a> {
    goal: &'a Goal,
    steps: &'a dyn Fn(&str) -> Option<ScopedStep<'a>>,
    inputs: Option<&'a Json>,
}

impl<'a> Scope<'a> {
    /// - `steps`: finds a step by its id.
    pub fn new(goal: &'a Goal, steps: &'a dyn Fn(&str) -> Option<ScopedStep<'a>>) -> Self {
        Self { goal, steps, inputs: None }
    }

    /// The same, with a step's own inputs, for the key of its cache.
    #[must_use]
    pub fn with_inputs(self, inputs: Option<&'a Json>) -> Self {
        Self { inputs, ..self }
    }

    pub(crate) fn knows(&self, step: &str) -> bool {
        (self.steps)(step).is_some()
    }

    /// Bytes of the outputs that a text sees.
    pub(crate) fn bytes(&self, scan: &Scan) -> usize {
        let bytes = |r: &StepRef| (self.steps)(&r.step)?.outputs.map(|o| o.text().len());
        let inputs = self.inputs.filter(|_| scan.uses_inputs).map_or(0, |inputs| inputs.text().len());
        scan.refs.iter().filter_map(bytes).sum::<usize>() + inputs
    }

    pub(crate) fn context(&self, scan: &Scan) -> Result<Value, ExpressionError> {
        let mut seen: BTreeMap<&str, bool> = BTreeMap::new();
        for r in &scan.refs {
            *seen.entry(&r.step).or_default() |= !matches!(r.field.as_deref(), Some("status" | "partial"));
        }
        let mut steps = Vec::with_capacity(seen.len());
        for (id, with_outputs) in seen {
            let Some(step) = (self.steps)(id) else {
                return Err(ExpressionError::new("REF_UNRESOLVED", format!("unknown step `{id}`")));
            };
            let outputs = match step.outputs {
                Some(json) if with_outputs => Value::from(Serde(json.value())),
                _ => Value::from_pairs(std::iter::empty::<(&str, Value)>()),
            };
            let status = Value::from(step.status.as_str());
            let fields = [("status", status), ("outputs", outputs), ("partial", Value::from(step.partial))];
            steps.push((id.to_owned(), Value::from_pairs(fields)));
        }
        let goal = if scan.uses_goal { Value::from(Serde(self.goal)) } else { Value::from(()) };
        let mut seen = vec![("steps", Value::from_pairs(steps)), ("goal", goal)];
        if let Some(inputs) = self.inputs.filter(|_| scan.uses_inputs) {
            seen.push(("inputs", Value::from(Serde(inputs.value()))));
        }
        Ok(Value::from_pairs(seen))
    }
}

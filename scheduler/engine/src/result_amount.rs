//! The amount of a plan's result: what the thing costs that the plan is about.
//!
//! It is no spend of the run: agents report what the run costs, and the outputs of steps say what its result costs.

use goalmill_common::constraint::Constraint;
use goalmill_common::limits::Limits;
use goalmill_common::status::StepStatus;
use serde_json::Value;

use crate::{PlanState, render};

/// Names under which outputs have an amount, best first.
const NAMES: [&str; 7] = ["total_cost", "grand_total", "total_price", "total", "amount", "cost", "price"];

/// An amount, and the expression that it was read by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResultAmount {
    pub(crate) amount: f64,
    pub(crate) path: String,
}

impl PlanState {
    /// What outputs say, in the currency of a constraint: by the expression that the constraint names with `of`, else
    /// from the last completed step whose outputs, or inputs, name the currency.
    pub(crate) fn result_amount(&self, constraint: &Constraint, limits: &Limits) -> Option<ResultAmount> {
        match &constraint.of {
            Some(path) => {
                let amount = render::path(self, path, limits).ok()?.trim().parse::<f64>().ok()?;
                Some(ResultAmount { amount, path: path.clone() })
            }
            None => self.amount_in_outputs(constraint.unit()),
        }
        .filter(|found| found.amount.is_finite() && found.amount >= 0.0)
    }

    fn amount_in_outputs(&self, currency: &str) -> Option<ResultAmount> {
        let steps = self.plan.steps.iter().zip(&self.steps).rev();
        steps.filter(|(_, step)| step.status == StepStatus::Completed).find_map(|(spec, step)| {
            let outputs = step.outputs.as_ref()?;
            let text = outputs.text();
            // Most outputs name no currency; those that do are short.
            if text.len() > TEXT_BYTES_MAX || !NAMES.iter().any(|name| text.contains(name)) {
                return None;
            }
            let (outputs, inputs) = (outputs.value(), spec.inputs.text());
            let named = match outputs.get("currency").and_then(Value::as_str) {
                Some(named) => named.eq_ignore_ascii_case(currency),
                None => inputs.contains(&format!("\"currency\":\"{currency}\"")),
            };
            let name = NAMES.iter().find(|name| outputs.get(**name).is_some_and(Value::is_number)).filter(|_| named)?;
            let amount = outputs.get(*name)?.as_f64()?;
            Some(ResultAmount { amount, path: format!("steps.{}.outputs.{name}", spec.id) })
        })
    }
}

/// Outputs over this size are not searched for an amount, in bytes.
const TEXT_BYTES_MAX: usize = 64 << 10;

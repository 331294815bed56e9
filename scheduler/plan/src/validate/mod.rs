//! Turns what somebody wrote into a plan or a goal, or says everything that is wrong with it.
//!
//! Whatever the spelling, there is one canonical result. Every issue names its place in the document as it was
//! given and the hint; they come all at once. What is executed has passed through here.

mod agents;
mod budget;
pub mod catalogue;
mod expression_scope;
mod goal;
mod graph;
mod inputs;
pub mod names;
mod origin;
pub mod path;
mod policy;
mod rules;
mod schema;
mod shape;
mod step;

use goalmill_common::limits::Limits;
use goalmill_common::plan::Plan;
use goalmill_common::problem::Issue;
use serde_json::Value;

use crate::draft::{self, At, Cx, Format};

pub use agents::{no_live_worker, permit_all, permit_routed};
pub use catalogue::{Ability, Catalogue, Durations, Measured, Offer};
pub use goal::goal;
pub use graph::critical_path;
pub use rules::{Policy, Rules, Weight, WeightSettings};
pub use shape::plan_field;
pub use budget::{Forecast, forecast, preview};
pub use step::step_field;

/// A plan that may run.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    pub plan: Plan,
    /// What is odd, but not wrong.
    pub warnings: Vec<Issue>,
    /// Estimated seconds on the longest path; steps without an estimate count nothing.
    pub critical_path_seconds: f64,
}

/// Reads and checks a plan, in any accepted spelling.
pub fn text(text: &[u8], format: Format, limits: &Limits) -> Result<Checked, Vec<Issue>> {
    plan(&draft::read(text, format, limits)?, limits)
}

/// Checks a plan, in any accepted spelling.
pub fn plan(draft: &Value, limits: &Limits) -> Result<Checked, Vec<Issue>> {
    checked(&Cx::new(limits), draft)
}

/// Checks a plan in any accepted spelling, also against who is there and what is allowed.
pub fn plan_by(draft: &Value, limits: &Limits, rules: &Rules<'_>) -> Result<Checked, Vec<Issue>> {
    checked(&Cx::with_rules(limits, rules), draft)
}

/// Whether data of one kind can be had where another is wanted; kinds are compared by their normal form.
pub fn kinds_meet(gives: &[String], takes: &[String]) -> bool {
    gives.iter().any(|g| takes.iter().any(|t| names::normal(g) == names::normal(t)))
}

fn checked(cx: &Cx<'_>, draft: &Value) -> Result<Checked, Vec<Issue>> {
    let plan = shape::document(cx, &At::ROOT, draft, 0);
    let warnings = cx.take()?;
    let plan = plan.expect("a document without errors gives a plan");
    let critical_path_seconds = critical_path(&plan);
    Ok(Checked { plan, warnings, critical_path_seconds })
}

//! Turns what somebody wrote into a plan or a goal, or says everything that is wrong with it.
//!
//! Whatever the spelling, there is one canonical result. Every issue names its place in the document as it was
//! given and the mend; they come all at once. What is executed has passed through here.

mod goal;
mod graph;
mod policy;
mod schema;
mod shape;
mod sight;
mod step;

use goalmill_common::limits::Limits;
use goalmill_common::plan::Plan;
use goalmill_common::problem::Issue;
use serde_json::Value;

use crate::draft::{self, At, Cx, Format};

pub use goal::goal;
pub use graph::critical_path;

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
    let cx = Cx::new(limits);
    let plan = shape::document(&cx, &At::ROOT, draft, 0);
    let warnings = cx.finish()?;
    let plan = plan.expect("a document without errors gives a plan");
    let critical_path_seconds = critical_path(&plan);
    Ok(Checked { plan, warnings, critical_path_seconds })
}

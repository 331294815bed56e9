//! What a run of a plan shows: to its agents, and at its end.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_common::view::StepView;
use serde_json::Value;

use crate::law::Law;

/// The time of a question that stands for its place in an order alone.
pub const ANY_MS: u64 = u64::MAX;

/// A question to an agent: one attempt of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Milliseconds after the submission; `ANY_MS` in an order to follow whatever the time is.
    pub at_ms: u64,
    pub action: String,
    pub inputs: Value,
}

/// How a step of the submitted plan ended.
#[derive(Clone, Debug, PartialEq)]
pub struct StepEnd {
    pub status: StepStatus,
    pub outputs: Option<Value>,
    /// Whether something inside it failed.
    pub partial: bool,
}

/// What a run shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub status: PlanStatus,
    /// Why the plan failed.
    pub code: Option<String>,
    /// Steps of the submitted plan, clean-up aside.
    pub steps: BTreeMap<String, StepEnd>,
    /// Questions to agents in their order.
    pub asks: Vec<Ask>,
    /// Milliseconds after the submission.
    pub ended_ms: u64,
    pub tokens: u64,
    /// How the plan ended that was forked, whose fork the rest is about.
    pub forked: Option<(PlanStatus, Option<String>)>,
    /// Laws that the run came to speak of.
    pub laws: BTreeSet<Law>,
}

/// How the steps of a submitted plan ended, clean-up and steps that were taken out aside.
///
/// - `outputs`: of a step by its id.
pub fn step_ends(steps: Vec<StepView>, outputs: impl Fn(&str) -> Option<Value>) -> BTreeMap<String, StepEnd> {
    let is_main = |step: &StepView| step.undoes.is_none() && !step.always && step.status != StepStatus::Revised;
    let end = |step: StepView| {
        let outputs = outputs(step.id.as_str());
        (step.id.to_string(), StepEnd { status: step.status, outputs, partial: step.partial })
    };
    steps.into_iter().filter(is_main).map(end).collect()
}

//! What a run of a plan shows: to its agents, and at its end.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::status::{PlanStatus, StepStatus};
use serde_json::Value;

use crate::law::Law;

/// A question to an agent: one attempt of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Milliseconds after the submission.
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
    /// Laws that the run came to speak of.
    pub laws: BTreeSet<Law>,
}

//! Payloads of the events about hooks that decide.

use serde::{Deserialize, Serialize};

use super::StepCompleted;
use crate::config::HookPoint;
use crate::failure::Failure;
use crate::json::Json;
use crate::problem::Issue;
use crate::revision::RevisionStrategy;
use crate::word_enum::word_enum;

/// The hooks of a point are asked; the plan, or the step, waits for their decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookAsked {
    /// Names the question in every request and in the decision: `<plan>:<number of this event>`.
    pub id: String,
    /// What is asked.
    pub point: HookPoint,
    /// What the attempt reported, for `on_step_complete`: it counts once the hooks agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Box<StepCompleted>>,
}

word_enum! {
    /// What the hooks of a point decided.
    HookDecision {
        /// The plan continues as if there were no hook.
        Allow = "allow",
        /// The plan, the step, its outputs or the revision is refused.
        Refuse = "refuse",
        /// The hook changed the plan or the inputs.
        Change = "change",
        /// The hook approved the plan in place of a person.
        Approve = "approve",
        /// The step starts later; the hooks are asked again then.
        Hold = "hold",
        /// The hook chose the strategy of the revision.
        Choose = "choose",
    }
}

/// The decision of the hooks of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookDecided {
    /// The question that it answers.
    pub id: String,
    /// What was asked.
    pub point: HookPoint,
    /// What they decided.
    pub decision: HookDecision,
    /// The hook that decided; empty when all of them allowed it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hook: String,
    /// The hook gave no usable answer: its default counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_default: bool,
    /// The hook's reason, or why its answer was not usable.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why a changed plan is not valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
    /// The inputs that the step gets instead of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Json>,
    /// What the step fails with instead of its outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The strategy of the revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RevisionStrategy>,
    /// What the hook tells the planners.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
    /// A held step is asked about again then, Unix milliseconds.
    #[serde(default, skip_serializing_if = "is_never")]
    pub due_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the serializer asks so")]
fn is_never(value: &u64) -> bool {
    *value == 0
}

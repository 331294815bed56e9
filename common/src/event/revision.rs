//! Payloads of events that change a running plan.

use serde::{Deserialize, Serialize};

use crate::id::StepId;
use crate::json::Json;
use crate::planning::ReplanOptions;
use crate::problem::Issue;
use crate::revision::{Proposal, RevisionStrategy};

use super::planning::Route;

/// A revision added a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseAdded {
    /// The phase's id.
    pub phase: String,
    /// What the phase is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether the planner may revise the rest when the phase ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint: bool,
    /// Phases before it.
    #[serde(default)]
    pub place: u32,
}

/// The planners are asked to change the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplanTriggered {
    /// See [`crate::revision::Trigger`].
    pub trigger: String,
    /// The step that it is about; none when it is about the whole plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// Why it came to it.
    pub reason: String,
    /// The planner's answer is awaited until then, Unix milliseconds.
    pub due_ms: u64,
    /// What a person would like.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
    /// What the step's report suggested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub information: Option<Json>,
    /// What a person asks of this replan.
    #[serde(default, skip_serializing_if = "ReplanOptions::is_default")]
    pub options: ReplanOptions,
}

impl From<String> for ReplanTriggered {
    /// A replan for this reason.
    fn from(reason: String) -> Self {
        Self { reason, ..Self::default() }
    }
}

/// A revision that a person must agree to; what it would change is in it, in the planner's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RevisionProposed {
    /// The revision that it would be.
    pub revision: u32,
    /// The planner's answer.
    pub proposal: Proposal,
    /// For people, a line each.
    pub changes: Vec<String>,
    /// What it may do that the plan could not do before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub widens: Vec<Issue>,
    /// The plan's confidence, 0 to 1.
    pub confidence_before: f64,
    /// What would be left of it with this revision, 0 to 1.
    pub confidence_after: f64,
    /// The policy's default counts from then, Unix milliseconds.
    pub due_ms: u64,
}

/// A revision was not taken: it is not valid, not allowed, or a person refused it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RevisionRefused {
    /// The revision that it would have been.
    pub revision: u32,
    /// How the planner wanted to go about it.
    pub strategy: RevisionStrategy,
    /// Why it was not taken.
    pub reason: String,
    /// Located errors, where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
    /// The planners are asked once more, and their answer is awaited until then, Unix milliseconds; 0: they are not.
    #[serde(default)]
    pub due_ms: u64,
    /// What it took to make it.
    #[serde(default)]
    pub usage: crate::goal::Usage,
}

/// Steps were added to a plan that is still being written, or its end was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanExtended {
    /// The steps that came with this part.
    pub added: Vec<StepId>,
    /// Whether more is to come.
    pub open: bool,
    /// How the whole plan came about, at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// How the plan came about: template, model, prompts, repairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Json>,
    /// Warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Issue>,
    /// Who the router chose for steps that asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
}

/// A validated change of a running plan. The steps themselves are in the `step_added`, `step_modified` and
/// `step_removed` before it, which take effect with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanRevised {
    /// Counted from 1; 0 is the plan as it began.
    pub revision: u32,
    /// See [`crate::revision::Trigger`].
    pub trigger: String,
    /// For people.
    pub changes: Vec<String>,
    /// Steps that are new.
    pub added: Vec<StepId>,
    /// Steps that are gone.
    pub removed: Vec<StepId>,
    /// Steps that were changed.
    pub modified: Vec<StepId>,
    /// `confidence_after` less `confidence_before`.
    pub confidence_delta: f64,
    /// Steps that count as done from now on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<StepId>,
    /// Steps that start again: the modified ones whose attempt is void, or that were final or blocked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarted: Vec<StepId>,
    /// How the planner went about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RevisionStrategy>,
    /// The step that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// Why it came to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The planner's, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Empty when a person made it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub planner: String,
    /// The plan's confidence before, 0 to 1.
    #[serde(default)]
    pub confidence_before: f64,
    /// The plan's confidence from now on, 0 to 1.
    #[serde(default)]
    pub confidence_after: f64,
    /// How the revision came about: model, prompts, repairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Json>,
    /// Who the router chose for new steps that asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// What it took to make it.
    #[serde(default)]
    pub usage: crate::goal::Usage,
    /// Why the person who was asked agreed to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub approved_because: String,
}

//! Views of plans, steps and queues: the API's answers. Times are RFC 3339 in UTC.

mod plan;
mod preview;
mod summary;

pub use self::plan::*;
pub use self::preview::*;
pub use self::summary::*;

use serde::{Deserialize, Serialize};

use crate::id::{AgentType, EntryId, Namespace, PlanId, StepId};
use crate::json::Json;
use crate::problem::{Issue, Problem};
use crate::status::PlanStatus;

/// An event from outside was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EventReceipt {
    /// The event's id.
    pub id: String,
    /// The plans that have got the event.
    pub plans: Vec<PlanId>,
}

/// A page of a list; `next` continues it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Page<T> {
    /// In the order of the list.
    pub items: Vec<T>,
    /// Pass it as `cursor` for the next page; none on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What a verb on many plans did, or would do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BulkAnswer {
    /// Nothing was done: these are the plans that the request chooses.
    pub dry_run: bool,
    /// The plans, last changed first.
    pub items: Vec<BulkItem>,
    /// Pass it as `cursor` to continue; none when no further plans were left to look at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One plan of an action on many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BulkItem {
    /// The plan's id.
    pub plan_id: PlanId,
    /// Its name, or the goal's description.
    pub name: String,
    /// Its status before the action.
    pub status: PlanStatus,
    /// Whether the action was done.
    pub is_done: bool,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// One agent type's queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct QueueView {
    /// The agent type whose tasks are in it.
    pub agent_type: AgentType,
    /// Tasks on the stream that no worker has taken.
    pub waiting: u64,
    /// Tasks with workers.
    pub running: u64,
    /// Live workers that serve it.
    pub workers: u32,
    /// Slots of the live workers.
    pub slots: u32,
    /// Tasks that were given up on.
    pub dead_letters: u64,
    /// Nothing new is put on it.
    #[serde(default)]
    pub paused: bool,
    /// Why nothing can be put on it, and the fix, while it is in quarantine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantined: Option<String>,
}

/// A task that was given up on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DeadLetterView {
    /// The id of the dead letter among those of its agent type.
    pub entry: EntryId,
    /// The agent type whose queue it was in.
    pub agent_type: AgentType,
    /// The plan that the task belongs to.
    pub plan_id: PlanId,
    /// The step that the task belongs to; as it was written, which may be no step.
    pub step_id: String,
    /// The attempt that the task was for.
    pub attempt: u32,
    /// Upper case: `STEP_POISONED`.
    pub code: String,
    /// Why it was given up on, in words.
    pub reason: String,
    /// The task as an object; what was no task, as the text it was.
    pub task: serde_json::Value,
}

/// A submission by stream that was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RefusedSubmissionView {
    /// The id of its entry on the stream.
    pub entry: EntryId,
    /// The namespace of the stream by which it came.
    pub namespace: Namespace,
    /// Its id, after the namespace and `/` where it came by the stream of a namespace; that of the entry if it had none.
    pub submission_id: String,
    /// `goal` or `plan`; empty if that was not to be known.
    pub kind: String,
    /// Who sent it, in its own words.
    pub source: String,
    /// The code of the problem: `INVALID_PLAN`.
    pub code: String,
    /// Why it was refused.
    pub detail: String,
    /// The first places of what is wrong.
    pub errors: Vec<Issue>,
    /// The beginning of what was sent.
    pub excerpt: String,
    /// RFC 3339.
    pub refused_at: String,
}

/// An event as logs are given: exported, in pages, or live.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventView {
    /// The event's plan, where events of several plans are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<PlanId>,
    /// Counts from 1 in each plan, without gaps.
    pub seq: u64,
    /// `step_completed`.
    #[serde(rename = "type")]
    pub type_name: String,
    /// RFC 3339.
    pub time: String,
    /// The step that it happened to, where it happened to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
    /// The phase that the step belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// 0, or not there, for what concerns no attempt.
    #[serde(default)]
    pub attempt: u32,
    /// The actor, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// What belongs to the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
}

/// The answer to a submission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Accepted {
    /// The plan's id.
    pub plan_id: PlanId,
    /// The plan's status.
    pub status: PlanStatus,
    /// Warnings about the plan, which was accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<crate::problem::Issue>,
}

//! What people and programs ask of a running plan.

use serde::{Deserialize, Serialize};

use crate::event::Parent;
use crate::goal::Goal;
use crate::id::{PlanId, StepId};
use crate::json::Json;
use crate::plan::Plan;
pub use crate::revision::{Change, Fork, Proposal, RevisionStrategy, Situation};

/// A request to a plan's shard, from whichever process took it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub plan: PlanId,
    /// Who asks: `api`, `cli:ann`.
    pub actor: String,
    /// Where the answer is awaited: `goalmill:answers:<id>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    pub verb: Verb,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    Submit(Box<Submit>),
    Pause {
        reason: String,
    },
    Resume {
        reason: String,
    },
    Cancel {
        reason: String,
    },
    Approve {
        reason: String,
    },
    Reject {
        reason: String,
    },
    /// Asks a planner for another way to do what remains.
    Replan {
        reason: String,
        /// What the person would like instead.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        hint: String,
    },
    /// Changes the plan by hand, before or while it runs.
    Edit {
        changes: Vec<Change>,
        /// The revision that the changes were made for; refused if the plan has moved on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<u32>,
        reason: String,
    },
    /// Answers what a step (by its id) or a revision (by the question's id) waits for.
    AnswerQuestion {
        question: String,
        answer: Json,
        reason: String,
    },
    /// Tries a waiting step again at once.
    RetryStep {
        step: StepId,
        reason: String,
    },
    SkipStep {
        step: StepId,
        reason: String,
    },
    /// Records outputs by hand.
    CompleteStep {
        step: StepId,
        outputs: Json,
        reason: String,
    },
    ApproveStep {
        step: StepId,
        reason: String,
    },
    RejectStep {
        step: StepId,
        reason: String,
    },
}

/// A goal to plan, or a plan to run; already validated and routed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Submit {
    pub goal: Goal,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Planned>,
    /// The submission's id: the idempotency key.
    pub submission: String,
    /// What the caller sent, when it came with an idempotency key; see [`fingerprint`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fingerprint: String,
    pub source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The plan that this one goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Box<Fork>>,
}

/// A short word for what was sent, to tell a repeated request from another one under the same key.
///
/// FNV-1a, 128 bit: callers have no reason to deceive themselves.
pub fn fingerprint(kind: &str, body: &[u8]) -> String {
    let hash = kind.bytes().chain([0]).chain(body.iter().copied()).fold(crate::id::FNV_BASIS, crate::id::fnv);
    crate::id::base32(hash, 26)
}

/// The planner of a plan that came ready-made.
pub const SUBMITTED: &str = "submitted";

impl Planned {
    /// A plan that came ready-made.
    pub fn submitted(plan: Plan, warnings: Vec<crate::problem::Issue>, routes: Vec<crate::event::Route>) -> Self {
        Self { plan, planner: SUBMITTED.into(), confidence: 1.0, provenance: None, warnings, routes }
    }
}

/// A checked plan, as a planner or a caller gave it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    pub plan: Plan,
    /// `submitted`, `rules`, `htn`, `llm`.
    pub planner: String,
    /// 0 to 1.
    pub confidence: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Json>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<crate::problem::Issue>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<crate::event::Route>,
}

//! What people and programs ask of a running plan.

use serde::{Deserialize, Serialize};

use crate::event::Parent;
use crate::goal::Goal;
use crate::id::{PlanId, StepId};
use crate::json::Json;
use crate::plan::Plan;

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
    pub source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
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

//! What can be asked of a plan, and the refusals.

use goalmill_common::command::{Planned, Proposal, Submit, Verb};
use goalmill_common::event::{ModelAnswered, ModelAsked, Route};
use goalmill_common::failure::Failure;
use goalmill_common::goal::Usage;
use goalmill_common::id::{PlanId, StepId};
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::plan::Step;
use goalmill_common::problem::Issue;
use goalmill_common::report::Report;
use goalmill_common::status::PlanStatus;
use goalmill_plan::validate::Policy;

use crate::graph::StepIndex;

/// A command with all that the engine may not find out by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// Unix milliseconds.
    pub now_ms: u64,
    /// Uniform over `u64`; several draws are made from it.
    pub random: u64,
    pub actor: Option<String>,
    pub command: Command,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Begins a plan; `secret` is a word nobody can guess, from which attempt tokens are made.
    Submit {
        plan_id: PlanId,
        secret: String,
        submit: Box<Submit>,
    },
    /// From people and programs. `Verb::Submit` is refused here: see [`Command::Submit`].
    Verb(Verb),
    /// The planner's answer; refused if the plan has moved past `revision`.
    Planned {
        revision: u32,
        answer: PlanAnswer,
    },
    /// A planner is about to ask a language model: it may once this is taken.
    ModelAsked(Box<ModelAsked>),
    /// What became of that call.
    ModelAnswered(Box<ModelAnswered>),
    /// More steps of a plan that began while it was written: see [`PlanAnswer::Open`]. Each may depend on those that
    /// came before it or with it.
    AddSteps {
        steps: Vec<Step>,
    },
    /// Nothing more comes of a plan that began while it was written.
    ClosePlan(Box<Closing>),
    /// The plan of a planner whose answer took long, for a plan by a faster one that runs already: see
    /// [`goalmill_common::revision::Trigger::BetterPlan`].
    BetterPlan(Box<Planned>),
    /// A ready step goes out.
    Dispatch(StepIndex),
    /// What is kept under a step's word: see [`crate::Effect::LookUp`].
    LookedUp {
        step: StepIndex,
        key: String,
        outputs: Option<Json>,
    },
    Report(Box<Report>),
    /// A timer has come due.
    Due(Timer),
    /// Goes on with what a decision left for later: see [`crate::Effect::Continue`].
    Continue,
    /// The sub-plan of a step is final.
    SubPlanEnded {
        step: StepId,
        attempt: u32,
        status: PlanStatus,
        outputs: Json,
        usage: Usage,
        failure: Option<Failure>,
    },
}

/// What a planner says.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanAnswer {
    /// A plan; asked for a revision, the whole plan as it is to be: steps that it leaves out are removed, unless they
    /// are over.
    Plan(Box<Planned>),
    /// The beginning of a plan: it runs while the rest is written, see [`Command::AddSteps`].
    Open(Box<Planned>),
    /// How to change a running plan.
    Revision(Box<Proposal>),
    /// No planner could; with the located errors of the best try, and what was said.
    Failed { reason: String, issues: Vec<Issue>, provenance: Option<Json> },
}

/// How the writing of a plan ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Closing {
    /// The plan is whole.
    Whole { confidence: f64, provenance: Option<Json>, warnings: Vec<Issue>, routes: Vec<Route> },
    /// The rest is missing, or of no use: what remains is planned anew, around what ran.
    Broken { reason: String, issues: Vec<Issue>, provenance: Option<Json> },
}

/// What wakes up: the plan (deadline, approval limit, planner's limit) or one step (backoff, limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    Plan,
    Step(StepIndex),
}

/// Settings that bear on decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    pub limits: Limits,
    /// What steps may be, also those of plans that agents give.
    pub policy: Policy,
    /// Sent with each task.
    pub task_lease_ms: u64,
    /// The stream that reports of this shard go to.
    pub reply: String,
}

/// Why a command changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("the plan exists already")]
    Exists,
    #[error("the plan has ended as {status}")]
    Final { status: PlanStatus },
    #[error("there is no step `{step}`")]
    UnknownStep { step: StepId },
    /// A report for another attempt than the current one, or with a foreign token.
    #[error("attempt {attempt} of step `{step}` is stale")]
    StaleAttempt { step: StepId, attempt: u32 },
    #[error("the plan has moved on to revision {revision}")]
    StaleRevision { revision: u32 },
    /// The status does not allow it; says what would.
    #[error("{reason}")]
    NotAllowed { reason: String },
    /// What was given is wrong; says where, and how to correct it.
    #[error("{reason}")]
    Invalid { reason: String, issues: Vec<Issue> },
    /// A timer that was overtaken, or a dispatch for which there is no room.
    #[error("not due")]
    NotDue,
}

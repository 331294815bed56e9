//! Commands to a plan, and rejections.

use goalmill_common::command::{Planned, Proposal, Submit, Verb};
use goalmill_common::config::HookPoints;
use goalmill_common::event::{CriteriaJudged, EventTaken, ItemWork, ModelAnswered, ModelAsked, Route, ToolsCalled};
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

use crate::HookAnswer;
use crate::attempt::cards::Cards;
use crate::attempt::recording::InputRecording;
use crate::graph::StepIndex;
use crate::render::payload_loads::LoadedPayload;
use crate::sub_plan::family_plans::FamilyUse;
use crate::sub_plan::kept_plans::KeptFate;
use crate::token::TokenKey;

/// A command or a [`SubmitCommand`], with its time, random number and actor: the engine reads no clock and draws no
/// number.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope<C = Command> {
    /// Unix milliseconds.
    pub now_ms: u64,
    /// Uniform over `u64`; several draws are made from it.
    pub random: u64,
    pub actor: Option<String>,
    /// What the family of the plan has used up: see [`crate::FamilyQueue::family_use`].
    pub family: FamilyUse,
    pub command: C,
}

/// A goal or a plan to begin with.
#[derive(Clone, Debug, PartialEq)]
pub struct SubmitCommand {
    pub plan_id: PlanId,
    /// Random: a plan that gets the id of an earlier one has other attempt tokens.
    pub salt: String,
    pub submit: Submit,
}

/// A command to a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// From people and programs. `Verb::Submit` is refused here: see [`crate::submit()`].
    Verb(Verb),
    /// The planner's answer; refused if the plan has moved past `revision`.
    Planned {
        revision: u32,
        answer: PlanAnswer,
    },
    /// A planner is about to call a language model. It may do so once the command is accepted.
    ModelAsked(Box<ModelAsked>),
    /// The result of a model call.
    ModelAnswered(Box<ModelAnswered>),
    /// The tools that the model of a planner called have run.
    ToolsCalled(Box<ToolsCalled>),
    /// The verdicts of a model: see [`crate::Effect::Judge`].
    Judged(Box<CriteriaJudged>),
    /// More steps of a streamed plan: see [`PlanAnswer::Open`]. Each may depend on earlier ones and on those in the
    /// same command.
    AddSteps {
        steps: Vec<Step>,
    },
    /// Ends the stream of a plan's steps.
    ClosePlan(Box<Closing>),
    /// The plan of a slower planner, for a plan of a faster one that already runs: see
    /// [`goalmill_common::revision::Trigger::BetterPlan`].
    BetterPlan(Box<Planned>),
    /// Dispatches a ready step.
    Dispatch(StepIndex),
    /// The result of [`crate::Effect::CacheLookup`].
    CacheLookedUp {
        step: StepIndex,
        key: String,
        outputs: Option<Json>,
    },
    /// The result of [`crate::Effect::LoadPayloads`].
    PayloadsLoaded {
        step: Option<StepIndex>,
        payloads: Vec<LoadedPayload>,
    },
    /// The result of [`crate::Effect::AskHooks`], or the decision of the hooks about a revision.
    HookAnswered(Box<HookAnswer>),
    Report(Box<Report>),
    /// A timer has come due.
    Due(Timer),
    /// Continues a decision that reached its work limit: see [`crate::Effect::Continue`].
    Continue,
    /// Plans inside this one have more steps, or more bytes of plans and outputs.
    FamilyGrew {
        steps: u64,
        bytes: u64,
    },
    /// A plan inside this one has an event from outside.
    EventTaken(EventTaken),
    /// The sub-plan of a step is final, or kept.
    SubPlanEnded {
        step: StepId,
        attempt: u32,
        end: Box<SubPlanEnd>,
    },
    /// The plan around this one, which is kept, ends.
    EndKept(Box<KeptFate>),
}

/// How the plan of a call, or that of a step, ended.
#[derive(Clone, Debug, PartialEq)]
pub struct SubPlanEnd {
    pub status: PlanStatus,
    pub outputs: Json,
    /// What it used up and had not reported.
    pub usage: Usage,
    /// What it failed with; of a partial plan, what did not succeed.
    pub failure: Option<Failure>,
    /// What the items of a map have done.
    pub items: Option<Vec<ItemWork>>,
    /// Clean-up steps that did not succeed, by their steps from the outside to the inside.
    pub not_undone: Vec<String>,
    /// Whether it is kept: see [`crate::PlanState::is_kept`].
    pub is_kept: bool,
}

impl SubPlanEnd {
    /// The end of a plan that can undo nothing.
    pub fn new(status: PlanStatus, outputs: Json, usage: Usage, failure: Option<Failure>) -> Box<Self> {
        Box::new(Self { status, outputs, usage, failure, items: None, not_undone: Vec::new(), is_kept: false })
    }
}

/// A planner's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanAnswer {
    /// A whole plan. As the answer to a replan it replaces the current plan: unfinished steps that it does not contain
    /// are removed.
    Plan(Box<Planned>),
    /// The beginning of a streamed plan: it runs while the rest is written, see [`Command::AddSteps`].
    Open(Box<Planned>),
    /// A proposed revision of a running plan.
    Revision(Box<Proposal>),
    /// Every planner failed; with the located errors of the best attempt.
    Failed { reason: String, issues: Vec<Issue>, provenance: Option<Json> },
}

/// How the stream of a plan's steps ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Closing {
    /// The plan is complete.
    Whole { confidence: f64, provenance: Option<Json>, warnings: Vec<Issue>, routes: Vec<Route> },
    /// The rest is missing or invalid: planners are asked to replan what remains.
    Broken { reason: String, issues: Vec<Issue>, provenance: Option<Json> },
}

/// A timer of the plan (deadline, approval limit, planner's limit) or of one step (backoff, limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    Plan,
    Step(StepIndex),
}

/// Settings that decisions depend on.
#[derive(Clone, Debug)]
pub struct EngineContext {
    pub limits: Limits,
    /// Which agents and actions steps may use, including steps of plans that agents return.
    pub policy: Policy,
    /// What the cards of agents say: who may do a step is asked again when it is sent.
    pub cards: Cards,
    /// The points at which hooks decide.
    pub hooks: HookPoints,
    /// Whether a model judges criteria that nothing else judges.
    pub judge_model: bool,
    /// Sent with each task.
    pub task_lease_ms: u64,
    /// The stream that reports of this shard go to.
    pub reply: String,
    /// What the addresses of callbacks begin with: scheme, host and port. Empty if agents cannot reach this scheduler.
    pub callback_base: String,
    /// The key of attempt tokens.
    pub token_key: TokenKey,
    /// How inputs of attempts are recorded; `None` for not at all.
    pub recording: Option<InputRecording>,
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
    /// A report for another attempt than the current one, or with a wrong token.
    #[error("attempt {attempt} of step `{step}` is stale")]
    StaleAttempt { step: StepId, attempt: u32 },
    #[error("the plan has moved on to revision {revision}")]
    StaleRevision { revision: u32 },
    /// The status does not allow the command.
    #[error("{reason}")]
    NotAllowed { reason: String },
    /// The input is invalid; each issue has a JSON Pointer and a hint.
    #[error("{reason}")]
    Invalid { reason: String, issues: Vec<Issue> },
    /// An outdated timer, or a dispatch without capacity.
    #[error("not due")]
    NotDue,
}

impl Rejection {
    pub(crate) fn not_allowed(reason: impl Into<String>) -> Self {
        Self::NotAllowed { reason: reason.into() }
    }
}

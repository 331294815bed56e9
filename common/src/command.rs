//! Commands to plans, from people and programs.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::callback::CallbackReport;
use crate::criterion::Criterion;
use crate::event::{GoalChanged, Parent, SubmissionEntry};
use crate::external_event::ExternalEvent;
pub use crate::fingerprint::{content_fingerprint, fingerprint, is_other_content};
use crate::goal::Goal;
use crate::id::{PlanId, StepId};
use crate::json::Json;
use crate::plan::Plan;
use crate::planning::ReplanOptions;
pub use crate::replan_situation::Situation;
pub use crate::revision::{Change, Fork, Proposal, RevisionStrategy};

/// A request to a plan's shard, from the process that received it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The plan that it is about.
    pub plan: PlanId,
    /// Who asks: `api`, `cli:ann`.
    pub actor: String,
    /// Where the answer is awaited: `goalmill:answers:<id>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// What is asked.
    pub verb: Verb,
}

impl Request {
    /// The trace context of a submission.
    pub fn traceparent(&self) -> Option<&str> {
        if let Verb::Submit(submit) = &self.verb { submit.traceparent.as_deref() } else { None }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Accepts a goal, or a plan that is ready to run.
    Submit(Box<Submit>),
    /// Pauses the plan: nothing new starts until it is resumed.
    Pause {
        /// Why, for the log.
        reason: String,
    },
    /// Resumes a paused plan.
    Resume {
        /// Why, for the log.
        reason: String,
    },
    /// Cancels the plan, and stops its running attempts.
    Cancel {
        /// Why, for the log.
        reason: String,
    },
    /// Approves the plan, or the proposed revision.
    Approve {
        /// Why, for the log.
        reason: String,
    },
    /// Rejects the plan, or the proposed revision.
    Reject {
        /// Why, for the log.
        reason: String,
    },
    /// Asks a planner for another way to do what remains.
    Replan {
        /// What happened, for the planner and the log.
        reason: String,
        /// What the person would like instead.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        hint: String,
        /// Model, temperature and strategy of this replan.
        #[serde(default, skip_serializing_if = "ReplanOptions::is_default")]
        options: ReplanOptions,
    },
    /// Changes the plan by hand, before or while it runs.
    Edit {
        /// What changes, in this order.
        changes: Vec<Change>,
        /// The revision that the changes were made for; refused if the plan has moved on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<u32>,
        /// Why, for the log.
        reason: String,
    },
    /// Corrects structured fields of the goal before its plan begins.
    CorrectGoal {
        /// Fields of a goal; `null` takes a constraint or the deadline away.
        correction: Box<GoalCorrection>,
        /// Why, for the log.
        reason: String,
    },
    /// Answers what a step (by its id) or a revision (by the question's id) waits for.
    AnswerQuestion {
        /// The step's id, or that of the question.
        question: String,
        /// The answer, of the shape that was asked for.
        answer: Json,
        /// Why, for the log.
        reason: String,
    },
    /// Tries a waiting step again immediately.
    RetryStep {
        /// The step.
        step: StepId,
        /// Why, for the log.
        reason: String,
    },
    /// Skips a step; it satisfies the steps that depend on it.
    SkipStep {
        /// The step.
        step: StepId,
        /// Why, for the log.
        reason: String,
    },
    /// Records outputs by hand.
    CompleteStep {
        /// The step.
        step: StepId,
        /// The outputs that are recorded for the step.
        outputs: Json,
        /// Why, for the log.
        reason: String,
    },
    /// Gives the plan an event from outside.
    SendEvent {
        /// The event.
        event: Box<ExternalEvent>,
        /// Whether it is refused unless a step waits for it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        waiting_only: bool,
    },
    /// The outcome of an attempt whose agent accepted the task. The sender has checked the token.
    ReportCallback {
        /// The step.
        step: StepId,
        /// Counted from 1.
        attempt: u32,
        /// The outcome.
        report: Box<CallbackReport>,
    },
    /// Approves a step that waits for a person.
    ApproveStep {
        /// The step.
        step: StepId,
        /// Why, for the log.
        reason: String,
    },
    /// Rejects a step that waits for a person.
    RejectStep {
        /// The step.
        step: StepId,
        /// Why, for the log.
        reason: String,
    },
}

/// What a person corrects of a goal; what is missing stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GoalCorrection {
    /// Constraints by name; `null` takes one away.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub constraints: Map<String, Value>,
    /// All criteria, in place of the present ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success_criteria: Option<Vec<Criterion>>,
    /// Unix milliseconds; 0 takes the deadline away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Inputs by name; `null` takes one away.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
}

/// A goal to plan, or a plan to run; already validated and routed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Submit {
    /// The goal; of a submitted plan, its description of itself.
    pub goal: Goal,
    /// The plan, when it came ready-made; otherwise the planners make one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Planned>,
    /// The submission's id: the idempotency key.
    pub submission: String,
    /// What the caller sent, when it chose the id; see [`content_fingerprint`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fingerprint: String,
    /// The entry of the stream by which it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<Box<SubmissionEntry>>,
    /// Where it came from: CloudEvents `source`.
    pub source: String,
    /// The step that the plan stands for, when it is a plan inside another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// W3C trace context, when the caller gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The plan that this one continues from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Box<Fork>>,
}

impl Submit {
    /// A submission without the optional fields.
    ///
    /// - `submission`: its id.
    /// - `source`: CloudEvents `source`.
    pub fn new(goal: Goal, plan: Option<Planned>, submission: impl Into<String>, source: impl Into<String>) -> Self {
        Self {
            goal,
            plan,
            submission: submission.into(),
            fingerprint: String::new(),
            entry: None,
            source: source.into(),
            parent: None,
            traceparent: None,
            fork: None,
        }
    }
}

/// The planner of a plan that came ready-made.
pub const SUBMITTED: &str = "submitted";

impl Planned {
    /// A plan that came ready-made.
    pub fn submitted(plan: Plan, warnings: Vec<crate::problem::Issue>, routes: Vec<crate::event::Route>) -> Self {
        let confidence = plan.confidence.unwrap_or(1.0);
        Self { plan, planner: SUBMITTED.into(), confidence, provenance: None, warnings, routes, goal: None }
    }
}

/// A validated plan of a planner or a caller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// `submitted`, `rules`, `htn`, `llm`.
    pub planner: String,
    /// 0 to 1.
    pub confidence: f64,
    /// How it came about: template, model, prompts, repairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Json>,
    /// Warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<crate::problem::Issue>,
    /// The router's choices for `auto` steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<crate::event::Route>,
    /// The fields of the goal with what a model read in its text; none when nothing was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Box<GoalChanged>>,
}

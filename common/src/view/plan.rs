//! A plan with its steps, what it waits for, and why it stands where it stands.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{DecisionView, PlanSummary};
use crate::constraint::ConstraintView;
use crate::criterion::CriterionVerdict;
use crate::event::GoalChanged;
use crate::failure::Failure;
use crate::goal::{Goal, Usage};
use crate::id::{AgentType, Namespace, PlanId, StepId, WorkerId};
use crate::json::{Json, read_given};
use crate::plan::{DependencyStatus, StepKind, Strategy};
use crate::report::SuggestedAdjustment;
use crate::revision::RevisionStrategy;
use crate::status::{Counts, PhaseStatus, PlanStatus, StepStatus};

/// A plan with its steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PlanView {
    /// The plan in one line.
    #[serde(flatten)]
    pub summary: PlanSummary,
    /// The goal.
    pub goal: Goal,
    /// Who made the plan: `submitted`, `rules`, `htn`, `llm`, `tools`.
    pub planner: String,
    /// Why the plan is not from the first planner, is generic, or rests on a fact that was guessed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub planner_note: String,
    /// Fields of the goal that a model read in its text: `/constraints/budget`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goal_read: Vec<String>,
    /// The plan's confidence, 0 to 1; revisions lower it.
    pub confidence: f64,
    /// How its steps are run.
    pub strategy: Strategy,
    /// Its failure, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Why it ended, in words; empty when it simply completed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A revision that a person must approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<ProposalView>,
    /// The decision about the plan as a whole, or about its proposal, that a person is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<DecisionView>,
    /// The question to a person before the plan is revised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<QuestionView>,
    /// The goal's constraints, and where the plan stands with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<ConstraintView>,
    /// The verdict on each success criterion of the goal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<CriterionVerdict>,
    /// The plan that this one continues from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<PlanId>,
    /// Calls of language models that planning took; none without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<ModelCalls>,
    /// Steps that are with workers or sub-plans, in the plan's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub current_steps: Vec<StepId>,
    /// In their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseView>,
    /// The output of the plan as a whole: that of its `finish` step, or else of the completed step that finished last.
    /// None before the plan has ended.
    #[serde(default, deserialize_with = "read_given", skip_serializing_if = "Option::is_none")]
    pub final_output: Option<Json>,
    /// In the plan's order.
    pub steps: Vec<StepView>,
}

/// A phase with its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PhaseView {
    /// The phase's id.
    pub id: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Where it stands.
    pub status: PhaseStatus,
    /// Its steps that are not final.
    pub open: u32,
    /// Its completed steps.
    pub completed: u32,
    /// Its failed steps.
    pub failed: u32,
}

/// How often language models were asked for a plan and its revisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ModelCalls {
    /// Settled: what they took is in the plan's usage. Calls that were refused before a model was asked do not count.
    pub settled: u32,
    /// Under way.
    #[serde(default)]
    pub open: u32,
    /// Begun by a scheduler that ended before it had written down an answer: they were made again, or given up.
    #[serde(default)]
    pub lost: u32,
    /// The most that open and lost calls may have taken; it is not in the plan's usage.
    #[serde(default)]
    pub unsettled: Usage,
}

/// A revision that a person must approve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ProposalView {
    /// The revision that it would be.
    pub revision: u32,
    /// The planner's strategy.
    pub strategy: RevisionStrategy,
    /// The planner's, in one line.
    pub summary: String,
    /// A line each.
    pub changes: Vec<String>,
    /// What it may do that the plan could not do before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub widens: Vec<crate::problem::Issue>,
    /// The plan's confidence, 0 to 1.
    pub confidence_before: f64,
    /// The plan's confidence after this revision, 0 to 1.
    pub confidence_after: f64,
    /// The default answer counts from then.
    pub due_at: String,
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct QuestionView {
    /// Names the question in the answer: a step's id, or the question's own.
    pub id: String,
    /// What is asked, filled in.
    pub question: String,
    /// JSON Schema of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// What counts as the answer when no person gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Json>,
    /// The default counts from then, RFC 3339; without one the step, or the revision, fails.
    pub due_at: String,
}

/// An event from outside that a step waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "AwaitedEvent")]
pub struct AwaitedEventView {
    /// The name of the event.
    pub event: String,
    /// The key of the event; empty for an event without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// JSON Schema of its data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
}

/// A step that waits for an event from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WaitView {
    /// The plan.
    pub plan_id: PlanId,
    /// The step.
    pub step_id: StepId,
    /// The namespace of the plan.
    pub namespace: Namespace,
    /// The name of the event.
    pub event: String,
    /// The key of the event; empty for an event without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// When the wait ends, RFC 3339: its time limit, or the end of the plan.
    pub due_at: String,
}

/// A step with its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StepView {
    /// The step's id.
    pub id: StepId,
    /// What is to be done, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What sort of step it is.
    pub kind: StepKind,
    /// The agent type that executes it; empty for kinds that need no worker.
    pub agent_type: AgentType,
    /// What the agent is to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// The step's status.
    pub status: StepStatus,
    /// The last one; 0 as long as there was none.
    pub attempt: u32,
    /// Steps that come before it.
    pub dependencies: Vec<StepId>,
    /// With which statuses a dependency lets it start, where that is not the usual.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dependency_status: BTreeMap<StepId, Vec<DependencyStatus>>,
    /// The phase it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The step that it takes back, of an undo step; it runs in the clean-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<StepId>,
    /// Whether it runs at the end of the clean-up, whatever the plan's outcome.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// Who runs, or ran, the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    /// When the last attempt went out to the workers, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_at: Option<String>,
    /// When the last attempt began, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When the step became final, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// When it wakes up by itself: end of the backoff, of the attempt, of the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<String>,
    /// The attempt's progress, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// The attempt's progress message, one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The step's outputs, once it is completed.
    #[serde(default, deserialize_with = "read_given", skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Json>,
    /// The outputs are incomplete: a partial success.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// What is missing in incomplete outputs, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Failure>,
    /// What the agent would change in the rest of the plan, the most urgent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggested_adjustments: Vec<SuggestedAdjustment>,
    /// Milliseconds that the attempt of a completed step ran, by the clock of its worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Of the last failed attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Why it was skipped, blocked or cancelled.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The question to a person before the step continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<QuestionView>,
    /// The approval that a person is asked for before the step continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<DecisionView>,
    /// The event from outside that the step waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaits: Option<AwaitedEventView>,
    /// The plan that runs, or ran, for the last attempt: a `plan` step's, or that of the call which the step waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_plan: Option<PlanId>,
}

/// The results of a plan's steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Results {
    /// The plan's id.
    pub plan_id: PlanId,
    /// The plan's status; a running plan has the results so far.
    pub status: PlanStatus,
    /// The number of its steps by status.
    pub counts: Counts,
    /// Its usage so far.
    pub usage: Usage,
    /// Outputs by step id, of the completed steps, in the plan's order.
    pub results: serde_json::Map<String, serde_json::Value>,
    /// Failures by step id.
    pub failures: serde_json::Map<String, serde_json::Value>,
    /// The output of the plan as a whole, once it has ended: that of its `finish` step, or else of the completed step that
    /// finished last.
    #[serde(default, deserialize_with = "read_given", skip_serializing_if = "Option::is_none")]
    pub final_output: Option<Json>,
    /// Seconds from the start of the first step to the end, or to the last event; none before a step has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_seconds: Option<f64>,
    /// The goal's constraints, and where the plan stands with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<ConstraintView>,
    /// The verdict on each success criterion of the goal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<CriterionVerdict>,
}

/// Why a plan, or a step, is not moving: causes from the nearest to the root.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Explanation {
    /// The plan's id.
    pub plan_id: PlanId,
    /// The plan's status.
    pub status: PlanStatus,
    /// One sentence.
    pub summary: String,
    /// Why the plan is not from the first planner, is generic, or rests on a fact that was guessed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub planner_note: String,
    /// What a model read in the text of the goal: the field and its value, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goal_read: Vec<String>,
    /// The steps with a known cause.
    pub steps: Vec<StepExplanation>,
}

/// Why one step has its status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StepExplanation {
    /// The step's id.
    pub step_id: StepId,
    /// The step's status.
    pub status: StepStatus,
    /// Each line is the cause of the one before.
    pub because: Vec<String>,
    /// The remedy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

impl PlanView {
    /// What a model read in the text of the goal, a line each: `budget: 2000 USD`.
    pub fn goal_read_lines(&self) -> Vec<String> {
        GoalChanged { read: self.goal_read.clone(), ..GoalChanged::from_goal(&self.goal) }.read_lines()
    }
}

//! Views of plans, steps and queues: the API's answers. Times are RFC 3339 in UTC.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::command::{Planned, SUBMITTED};
use crate::constraint::ConstraintView;
use crate::criterion::CriterionVerdict;
use crate::event::GoalChanged;
use crate::failure::Failure;
use crate::goal::{Goal, Usage};
use crate::id::{AgentType, EntryId, Namespace, PlanId, StepId, WorkerId};
use crate::json::Json;
use crate::plan::{ApprovalDefault, DependencyStatus, Plan, StepKind, Strategy};
use crate::problem::Problem;
use crate::report::SuggestedAdjustment;
use crate::revision::RevisionStrategy;
use crate::status::{Counts, PhaseStatus, PlanStatus, StepStatus};

/// A plan in one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PlanSummary {
    /// The plan's id.
    pub plan_id: PlanId,
    /// Its namespace; left out if it is `default`.
    #[serde(default, skip_serializing_if = "Namespace::is_default")]
    pub namespace: Namespace,
    /// The plan's status.
    pub status: PlanStatus,
    /// The plan's name, or the goal's description.
    pub name: String,
    /// Counted from 1; 0 is the plan as it began.
    pub revision: u32,
    /// The number of its steps by status.
    pub counts: Counts,
    /// 0 to 1.
    pub progress: f64,
    /// Its usage so far.
    pub usage: Usage,
    /// When it was accepted, RFC 3339.
    pub created_at: String,
    /// When its last event was, RFC 3339.
    pub updated_at: String,
    /// When it ended, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// Seconds from the start of the first step to the end, or to the last event; none before a step has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_seconds: Option<f64>,
    /// Events so far.
    pub seq: u64,
    /// What it needs from people; none while it needs nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitSummary>,
}

/// What a plan needs from people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WaitSummary {
    /// Decisions and answers.
    pub count: u32,
    /// When the first of them is decided without a person, RFC 3339; none without a time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<String>,
}

/// A decision that a person is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DecisionView {
    /// The failed step that it is about, if it says how a plan goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_step: Option<StepId>,
    /// The default counts from then, RFC 3339; none without a time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<String>,
    /// What counts when nobody decides in time; none where the agent that asks goes on without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<ApprovalDefault>,
}

/// The numbers of all plans that the caller sees, and those that wait for people.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Overview {
    /// All plans.
    pub plans: u64,
    /// How many have each status; statuses without plans are left out.
    pub statuses: BTreeMap<PlanStatus, u64>,
    /// Plans with a failed step, or that failed.
    pub with_failures: u64,
    /// Decisions and answers that people are asked for.
    pub waits: u64,
    /// Plans that ended long ago are not counted: there are more than can be counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_partial: bool,
    /// The plans that wait for people, the most urgent first; those without a time limit are the last.
    pub waiting: Vec<PlanSummary>,
}

/// Seconds of an execution, with milliseconds; 0 stands for no time.
pub fn execution_seconds(begun_ms: u64, last_ms: u64) -> Option<f64> {
    (begun_ms > 0).then(|| last_ms.saturating_sub(begun_ms) as f64 / 1_000.0)
}

/// The output of a plan as a whole: that of its `finish` step, or else of the completed step that finished last.
///
/// - `completed`: kind, time of the end in Unix milliseconds, and outputs of completed steps, in the plan's order.
pub fn final_output<'a>(completed: impl Iterator<Item = (StepKind, u64, &'a Json)>) -> Option<&'a Json> {
    completed.max_by_key(|(kind, end_ms, _)| (*kind == StepKind::Finish, *end_ms)).map(|(_, _, outputs)| outputs)
}

/// The namespace of the plan with this summary in Redis.
pub fn summary_namespace(fields: &BTreeMap<String, String>) -> Namespace {
    fields.get("namespace").map(|name| Namespace::from(name.as_str())).unwrap_or_default()
}

impl PlanSummary {
    /// Parses the summary that the shard's owner writes to Redis; `None` when it is missing or invalid.
    pub fn from_fields(plan_id: PlanId, fields: &BTreeMap<String, String>) -> Option<Self> {
        let text = |name: &str| fields.get(name).map(String::as_str);
        Some(Self {
            plan_id,
            namespace: summary_namespace(fields),
            status: PlanStatus::parse(text("status")?)?,
            name: text("name").unwrap_or_default().to_owned(),
            revision: text("revision")?.parse().ok()?,
            counts: serde_json::from_str(text("counts")?).ok()?,
            progress: text("progress")?.parse().ok()?,
            usage: Usage { tokens: text("tokens")?.parse().ok()?, cost: text("cost")?.parse().ok()? },
            created_at: text("created")?.to_owned(),
            updated_at: text("updated")?.to_owned(),
            finished_at: text("finished").map(Into::into),
            execution_seconds: text("begun").and_then(clock::parse_rfc3339).and_then(|begun_ms| {
                let last = text("finished").or(text("updated")).and_then(clock::parse_rfc3339)?;
                execution_seconds(begun_ms, last)
            }),
            seq: text("seq")?.parse().ok()?,
            waits: text("waits").and_then(|text| serde_json::from_str(text).ok()),
        })
    }
}

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
    /// The plan in which this one is a step, when it is a sub-plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<PlanId>,
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
    /// The plan that this one goes on from.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// What counts as the answer when nobody gives one.
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

/// An event from outside was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EventReceipt {
    /// The event's id.
    pub id: String,
    /// The plans that have got the event.
    pub plans: Vec<PlanId>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// Pass it as `cursor` to go on; none when no further plans were left to look at.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

/// The answer to a validation or a preview.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Preview {
    /// Whether the plan would be accepted.
    pub valid: bool,
    /// The plan as it would run; none when it is not valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<crate::problem::Issue>,
    /// Warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<crate::problem::Issue>,
    /// The router's choices for `auto` steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<crate::event::Route>,
    /// The fields of the goal with what a model read in its text; none when nothing was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Box<GoalChanged>>,
    /// Who made the plan: `submitted`, `rules`, `htn`, `llm`, `tools`.
    pub planner: String,
    /// The plan's confidence, 0 to 1.
    pub confidence: f64,
    /// Estimated seconds on the longest path.
    pub critical_path_seconds: f64,
    /// Where the seconds of the steps come from.
    #[serde(default)]
    pub seconds_from: SecondsFrom,
    /// Estimated US dollars of all steps.
    pub cost: f64,
    /// How a planner made it: parameters, prompts, answers, repairs, stages, and the planners that were tried before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planning_trace: Option<crate::json::Json>,
    /// Where the steps stand in a drawing of the plan; set by the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<crate::layout::PlanLayout>,
}

/// How far the planning of a preview has come: an event of its stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct PlanningProgress {
    /// The model that is asked, by its name in the settings; empty before the first call.
    pub model: String,
    /// How the form of its answer is requested: `json_schema`, `forced_tool`, `json_object`, `tools`, `text`.
    pub mode: String,
    /// Calls of models that have begun.
    pub calls: u64,
    /// Tokens of the answers so far; those of the answer under way are estimated.
    pub output_tokens: u64,
    /// Seconds since planning began.
    pub seconds: f64,
}

/// How many steps of a plan, those inside steps too, have their expected duration from where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct SecondsFrom {
    /// From recent measurements of the action.
    pub measured: u64,
    /// From the step's own `estimates`.
    pub estimated: u64,
    /// From the `latency_ms` that the agent type declares.
    pub declared: u64,
    /// Unknown: they count as 0.
    pub unknown: u64,
}

impl PlanView {
    /// What a model read in the text of the goal, a line each: `budget: 2000 USD`.
    pub fn goal_read_lines(&self) -> Vec<String> {
        GoalChanged { read: self.goal_read.clone(), ..GoalChanged::of(&self.goal) }.read_lines()
    }
}

impl Preview {
    /// Of a plan that is in order, and what it would take: see the fields.
    pub fn of(planned: Planned, critical_path_seconds: f64, seconds_from: SecondsFrom, cost: f64) -> Self {
        Self {
            valid: true,
            issues: Vec::new(),
            warnings: planned.warnings,
            routes: planned.routes,
            goal: planned.goal,
            planner: planned.planner,
            planning_trace: planned.provenance,
            confidence: planned.confidence,
            plan: Some(planned.plan),
            critical_path_seconds,
            seconds_from,
            cost,
            layout: None,
        }
    }

    /// Of a plan that is not.
    pub fn refused(issues: Vec<crate::problem::Issue>) -> Self {
        Self {
            valid: false,
            plan: None,
            issues,
            warnings: Vec::new(),
            routes: Vec::new(),
            goal: None,
            planner: SUBMITTED.into(),
            confidence: 0.0,
            critical_path_seconds: 0.0,
            seconds_from: SecondsFrom::default(),
            planning_trace: None,
            cost: 0.0,
            layout: None,
        }
    }
}

/// A planner, and what its goals look like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PlannerView {
    /// `llm`, `tools`, `htn`, `rules`.
    pub planner: String,
    /// Its place in `planner.order`, counted from 1; none when only goals that name it are planned by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u32>,
    /// Whether it asks language models.
    #[serde(default)]
    pub asks_models: bool,
    /// Rules or domains, if it has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleView>,
}

/// A rule of a planner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RuleView {
    /// The id of the rule or domain.
    pub rule: String,
    /// The planner that has it: `rules`, `htn`.
    #[serde(default)]
    pub planner: String,
    /// Its version.
    pub version: u32,
    /// The type of its goals.
    pub goal_type: String,
    /// Confidence of its plans, 0 to 1.
    pub confidence: f64,
    /// Sum of weights from which a goal is recognised; none for the rule that takes what the others leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// What it matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<SignalView>,
    /// Facts without which it makes no plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_facts: Vec<String>,
}

/// A sign of a kind of goal, or against it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SignalView {
    /// What it adds to the score.
    pub weight: f64,
    /// Phrases of which one must occur; a fact as `fact:budget`.
    pub any: Vec<String>,
}

/// A language model with its live rates; they decay with a half-life of 30 minutes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ModelView {
    /// Its name in the settings.
    pub model: String,
    /// Calls behind the rates, with decay.
    pub calls: f64,
    /// Share of calls that returned an answer, 0 to 1.
    pub success_rate: f64,
    /// Share of answers that could not be parsed, 0 to 1.
    pub parse_failure_rate: f64,
    /// Share of parsed answers that were not valid, 0 to 1.
    pub validation_failure_rate: f64,
    /// Mean latency in milliseconds; 0 before the first answer.
    pub latency_ms: f64,
    /// Input tokens of all calls of this scheduler since its start, also of failed ones.
    #[serde(default)]
    pub input_tokens: u64,
    /// Output tokens of the same calls.
    #[serde(default)]
    pub output_tokens: u64,
    /// US dollars of the same calls.
    #[serde(default)]
    pub cost: f64,
    /// US dollars of all judged answers, divided by the valid ones; none before the first valid one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_per_usable_plan: Option<f64>,
    /// Whether its circuit is open: nothing is sent.
    pub is_circuit_open: bool,
    /// Why it cannot be called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
}

//! What the API shows and the command line reads. Times are RFC 3339 in UTC.

use serde::{Deserialize, Serialize};

use crate::command::{Planned, SUBMITTED};
use crate::failure::Failure;
use crate::goal::{Goal, Usage};
use crate::id::{AgentType, EntryId, PlanId, StepId, WorkerId};
use crate::json::Json;
use crate::plan::{Kind, Plan, Strategy};
use crate::revision::RevisionStrategy;
use crate::status::{Counts, PlanStatus, StepStatus};

/// A plan in one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PlanSummary {
    pub plan_id: PlanId,
    pub status: PlanStatus,
    /// The plan's name, or the goal's description.
    pub name: String,
    pub revision: u32,
    pub counts: Counts,
    /// 0 to 1.
    pub progress: f64,
    pub usage: Usage,
    pub created_at: String,
    pub updated_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// Events so far.
    pub seq: u64,
}

impl PlanSummary {
    /// Reads the summary that the shard's owner keeps in Redis; `None` when there is none, or it is not one.
    pub fn from_fields(plan_id: PlanId, fields: &std::collections::BTreeMap<String, String>) -> Option<Self> {
        let text = |name: &str| fields.get(name).map(String::as_str);
        Some(Self {
            plan_id,
            status: PlanStatus::parse(text("status")?)?,
            name: text("name").unwrap_or_default().to_owned(),
            revision: text("revision")?.parse().ok()?,
            counts: serde_json::from_str(text("counts")?).ok()?,
            progress: text("progress")?.parse().ok()?,
            usage: Usage { tokens: text("tokens")?.parse().ok()?, cost: text("cost")?.parse().ok()? },
            created_at: text("created")?.to_owned(),
            updated_at: text("updated")?.to_owned(),
            finished_at: text("finished").map(Into::into),
            seq: text("seq")?.parse().ok()?,
        })
    }
}

/// A plan with its steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PlanView {
    #[serde(flatten)]
    pub summary: PlanSummary,
    pub goal: Goal,
    pub planner: String,
    pub confidence: f64,
    pub strategy: Strategy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The step that this plan stands for, when it is a sub-plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<PlanId>,
    /// A revision that a person must agree to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<ProposalView>,
    /// What a person is asked before the plan is revised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<QuestionView>,
    /// The plan that this one goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<PlanId>,
    /// Calls of language models that planning took; none without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<ModelCalls>,
    pub steps: Vec<StepView>,
}

/// How often language models were asked for a plan and its revisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ModelCalls {
    /// Settled: what they took is in the plan's usage.
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

/// A revision that a person must agree to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ProposalView {
    pub revision: u32,
    pub strategy: RevisionStrategy,
    pub summary: String,
    /// A line each.
    pub changes: Vec<String>,
    /// What it may do that the plan could not do before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub widens: Vec<crate::problem::Issue>,
    pub confidence_before: f64,
    pub confidence_after: f64,
    /// The default answer counts from then.
    pub due_at: String,
}

/// What a person is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct QuestionView {
    /// Names the question in the answer: a step's id, or the question's own.
    pub id: String,
    pub question: String,
    /// JSON Schema of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// What counts as the answer when nobody gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Json>,
    pub due_at: String,
}

/// A step with where it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StepView {
    pub id: StepId,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub kind: Kind,
    pub agent_type: AgentType,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub action: String,
    pub status: StepStatus,
    /// The last one; 0 as long as there was none.
    pub attempt: u32,
    pub dependencies: Vec<StepId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// When it wakes up by itself: end of the backoff, of the attempt, of the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Json>,
    /// Of the last failed attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Why it was skipped, blocked or cancelled.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What a person is asked before the step goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<QuestionView>,
}

/// A page of a list; `next` continues it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What a plan's steps gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Results {
    pub plan_id: PlanId,
    pub status: PlanStatus,
    pub counts: Counts,
    pub usage: Usage,
    /// Outputs by step id, of the completed steps, in the plan's order.
    pub results: serde_json::Map<String, serde_json::Value>,
    /// Failures by step id.
    pub failures: serde_json::Map<String, serde_json::Value>,
}

/// Why a plan, or a step, is not moving: causes from the nearest to the root.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Explanation {
    pub plan_id: PlanId,
    pub status: PlanStatus,
    /// One sentence.
    pub summary: String,
    pub steps: Vec<StepExplanation>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StepExplanation {
    pub step_id: StepId,
    pub status: StepStatus,
    /// Each line is the cause of the one before.
    pub because: Vec<String>,
    /// What somebody can do about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mend: String,
}

/// One agent type's queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct QueueView {
    pub agent_type: AgentType,
    /// Tasks on the stream that no worker has taken.
    pub waiting: u64,
    /// Tasks with workers.
    pub running: u64,
    pub workers: u32,
    /// Slots of the live workers.
    pub slots: u32,
    pub dead_letters: u64,
    /// Nothing new is put on it.
    #[serde(default)]
    pub paused: bool,
}

/// A task that was given up on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LetterView {
    /// Names the letter among those of its agent type.
    pub entry: EntryId,
    pub agent_type: AgentType,
    pub plan_id: PlanId,
    pub step_id: String,
    pub attempt: u32,
    /// Upper case: `STEP_POISONED`.
    pub code: String,
    pub reason: String,
    /// The task as an object; what was no task, as the text it was.
    pub task: serde_json::Value,
}

/// An event as logs are given: exported, in pages, or live.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventView {
    /// Whose event it is, where events of several plans are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<PlanId>,
    /// Counts from 1 in each plan, without gaps.
    pub seq: u64,
    /// `step_completed`.
    #[serde(rename = "type")]
    pub type_name: String,
    /// RFC 3339.
    pub time: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
    /// 0, or not there, for what concerns no attempt.
    #[serde(default)]
    pub attempt: u32,
    /// Who did it, where somebody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// What belongs to the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
}

/// What became of a submission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Accepted {
    pub plan_id: PlanId,
    pub status: PlanStatus,
}

/// The answer to a validation or a preview.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Preview {
    pub valid: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<crate::problem::Issue>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<crate::problem::Issue>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<crate::event::Route>,
    pub planner: String,
    pub confidence: f64,
    /// Estimated seconds on the longest path.
    pub critical_path_seconds: f64,
    /// Where the seconds of the steps come from.
    #[serde(default)]
    pub seconds_from: SecondsFrom,
    /// Estimated US dollars of all steps.
    pub cost: f64,
}

/// How many steps of a plan, those inside steps too, have their expected duration from where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct SecondsFrom {
    /// From how long the action took of late.
    pub measured: u64,
    /// From the step's own `estimates`.
    pub estimated: u64,
    /// From the `latency_ms` that the agent type declares.
    pub declared: u64,
    /// From nowhere: they count nothing.
    pub unknown: u64,
}

impl Preview {
    /// Of a plan that is in order, and what it would take: see the fields.
    pub fn of(planned: Planned, critical_path_seconds: f64, seconds_from: SecondsFrom, cost: f64) -> Self {
        Self {
            valid: true,
            issues: Vec::new(),
            warnings: planned.warnings,
            routes: planned.routes,
            planner: planned.planner,
            confidence: planned.confidence,
            plan: Some(planned.plan),
            critical_path_seconds,
            seconds_from,
            cost,
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
            planner: SUBMITTED.into(),
            confidence: 0.0,
            critical_path_seconds: 0.0,
            seconds_from: SecondsFrom::default(),
            cost: 0.0,
        }
    }
}

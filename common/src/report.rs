//! Reports of workers about attempts.

use serde::{Deserialize, Serialize};

pub use crate::call::TokenSplit;

use crate::call::{RecordedCall, SuspendedCall};
use crate::failure::Failure;
use crate::id::{AgentType, AttemptToken, EntryId, PlanId, StepId, WorkerId};
use crate::json::Json;
use crate::task::Task;

/// A worker's report about one attempt. Anything stale, duplicate, unknown or forged changes only a counter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Report {
    /// The task's, echoed.
    pub plan: PlanId,
    /// The task's, echoed.
    pub step: StepId,
    /// The task's, echoed.
    pub attempt: u32,
    /// The task's, echoed.
    pub token: AttemptToken,
    /// The queue that the task came from.
    pub agent_type: AgentType,
    /// The task's entry on that queue: it is acknowledged when the outcome is recorded.
    pub entry: EntryId,
    /// Who reports.
    pub worker: WorkerId,
    /// What happened to the attempt.
    pub what: What,
    /// When the execution began, Unix milliseconds by the worker's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<u64>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_ms: Option<u64>,
    /// With `completed` and `partial_success`: the step's outputs, up to 2 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Json>,
    /// With `failed`: what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// For `progress`: 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// For `progress`: one line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Tokens of language models that the attempt used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The same tokens, split; their sum counts as `tokens` when those are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenSplit>,
    /// The currency of `cost`, ISO 4217; US dollars without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// Amounts of anything else that a constraint may limit, by name: `{"emails": 3}`.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub measures: crate::constraint::Measures,
    /// New information that may call for a revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adjustments: Option<Json>,
    /// Every error of the attempt, at most 20: with `failed`, the first one counts when `failure` is missing; with
    /// `partial_success`, what is missing and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Failure>,
    /// What the agent would change in the rest of the plan, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggested_adjustments: Vec<SuggestedAdjustment>,
    /// A plan to run in place of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_plan: Option<Json>,
    /// Agent types that steps of the `sub_plan` may have; `*` stands for all of them. The worker says so, not the agent.
    #[serde(default, skip_serializing_if = "<[String]>::is_empty")]
    pub sub_plans: std::sync::Arc<[String]>,
    /// With `call`: the finished call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Box<RecordedCall>>,
    /// With `suspended`: the call that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Box<SuspendedCall>>,
}

impl Report {
    /// A report on an attempt, with nothing but its head.
    pub fn on(task: &Task, agent_type: AgentType, entry: EntryId, worker: WorkerId, what: What) -> Self {
        Self {
            plan: task.plan.clone(),
            step: task.step.clone(),
            attempt: task.attempt,
            token: task.token.clone(),
            ..Self::on_none(agent_type, entry, worker, what)
        }
    }

    /// A report without a plan, for an entry that holds no task: a shard acknowledges entries of unknown plans.
    pub fn on_none(agent_type: AgentType, entry: EntryId, worker: WorkerId, what: What) -> Self {
        Self {
            plan: "".into(),
            step: "".into(),
            attempt: 0,
            token: "".into(),
            agent_type,
            entry,
            worker,
            what,
            started_ms: None,
            finished_ms: None,
            outputs: None,
            failure: None,
            progress: None,
            message: None,
            cost: None,
            tokens: None,
            usage: None,
            currency: None,
            measures: crate::constraint::Measures::new(),
            adjustments: None,
            errors: Vec::new(),
            suggested_adjustments: Vec::new(),
            sub_plan: None,
            sub_plans: std::sync::Arc::default(),
            call: None,
            suspended: None,
        }
    }
}

/// What an agent would change in the rest of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SuggestedAdjustment {
    /// In words, for planners and people.
    pub description: String,
    /// 1 to 10; from 8 on it asks for a revision immediately, others wait for the next one.
    #[serde(default = "default_priority")]
    pub priority: u8,
    /// The step that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
}

/// Priority from which a suggested adjustment asks for a revision.
pub const URGENT_PRIORITY: u8 = 8;

/// Priority of a suggested adjustment that names none.
pub const DEFAULT_PRIORITY: u8 = 5;

fn default_priority() -> u8 {
    DEFAULT_PRIORITY
}

/// What happened to the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// It runs.
    Started,
    /// It runs, and reports its progress.
    Progress,
    /// It runs, and a call of it is finished: `call`.
    Call,
    /// It is done, with `outputs`.
    Completed,
    /// It is done in part: with incomplete `outputs`, and `errors` that say what is missing.
    PartialSuccess,
    /// It failed, with `failure`.
    Failed,
    /// The lease ran out: reported by a scheduler, not by the worker.
    Lost,
    /// It waits, and holds no slot: `suspended`. A later attempt continues; none is consumed.
    Suspended,
    /// Handed back without being tried; no attempt is consumed.
    Released,
}

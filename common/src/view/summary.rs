//! Plans in one line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::goal::Usage;
use crate::id::{AgentType, Namespace, PlanId, StepId};
use crate::json::Json;
use crate::plan::{ApprovalDefault, StepKind};
use crate::status::{Counts, PlanStatus};

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
    /// The plan in which this one is a step, when it is a sub-plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<PlanId>,
    /// The agent types of its steps, sorted; at most [`SUMMARY_AGENT_TYPES_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_types: Vec<AgentType>,
    /// Plans whose `parent` it is; only in lists of outermost plans and of plans inside one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub plans_inside: u32,
}

/// Agent types that a summary names.
pub const SUMMARY_AGENT_TYPES_MAX: usize = 32;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the serializer asks so")]
fn is_zero(count: &u32) -> bool {
    *count == 0
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
    /// The failed step that it is about, if it says how a plan continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_step: Option<StepId>,
    /// The default counts from then, RFC 3339; none without a time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<String>,
    /// What counts when no person decides in time; none where the agent that asks continues without it.
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
            parent: text("parent").map(PlanId::from),
            agent_types: text("agents").unwrap_or_default().split_whitespace().map(AgentType::from).collect(),
            plans_inside: 0,
        })
    }
}

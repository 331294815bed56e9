//! Types of the rows that are written to a store and read from it.

use std::collections::BTreeMap;

use goalmill_common::event::Record;
use goalmill_common::id::{AgentType, Namespace, PlanId, ShardId, StepId};
use serde::{Deserialize, Serialize};

use crate::DataConditions;

/// The rows that one transaction writes.
#[derive(Clone, Debug)]
pub struct ArchiveBatch {
    pub shard: ShardId,
    /// Plans in parts; a plan may be in several batches.
    pub parts: Vec<PlanPart>,
    /// How far the index of the shard was read, Unix milliseconds; stored with the rows.
    pub position_ms: u64,
}

/// Consecutive events of one plan.
#[derive(Clone, Debug)]
pub struct PlanPart {
    pub plan: PlanId,
    /// When the plan changed last, according to the index of its shard. Distinguishes two plans with the same id.
    pub changed_ms: u64,
    /// Whether these are the first events of the plan. Rows of an unfinished copy, and of another plan with this id,
    /// are removed first.
    pub is_first: bool,
    pub events: Vec<EventRow>,
    /// Payloads that events of the plan refer to. A reference that the plan has already keeps its payload.
    pub blobs: Vec<BlobRow>,
    /// Present with the last events: the plan is then archived.
    pub end: Option<PlanRow>,
}

/// One event of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    pub seq: u64,
    /// Number of the last event of the same commit.
    pub entry: u64,
    /// Unix milliseconds.
    pub time_ms: u64,
    pub event_type: &'static str,
    pub step: Option<StepId>,
    pub phase: Option<String>,
    /// The event as a line of an exported log.
    pub line: String,
}

impl EventRow {
    /// - `entry`: number of the last event of the same commit.
    /// - `line`: the event as a line of an exported log.
    pub fn new(record: &Record, entry: u64, line: String) -> Self {
        Self {
            seq: record.seq,
            entry,
            time_ms: record.time_ms,
            event_type: record.event.type_name(),
            step: record.event.step().cloned(),
            phase: record.event.phase().map(ToOwned::to_owned),
            line,
        }
    }
}

/// A payload that is too large for the log, which has its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobRow {
    /// As the references of the log have it.
    pub key: String,
    /// The payload as JSON.
    pub content: String,
}

/// A finished plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRow {
    pub namespace: Namespace,
    pub status: String,
    pub name: String,
    pub revision: u32,
    /// Number of the last event.
    pub events: u64,
    /// Unix milliseconds.
    pub created_ms: u64,
    /// Unix milliseconds.
    pub finished_ms: u64,
    /// The fields of the summary.
    pub summary: BTreeMap<String, String>,
    pub steps: Vec<StepRow>,
    pub revisions: Vec<RevisionRow>,
}

/// A step of a finished plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRow {
    pub step: StepId,
    pub agent_type: AgentType,
    pub action: String,
    pub status: String,
    pub attempts: u32,
    pub phase: Option<String>,
    /// Unix milliseconds.
    pub started_ms: Option<u64>,
    /// Unix milliseconds.
    pub finished_ms: Option<u64>,
}

/// A revision of a finished plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisionRow {
    pub revision: u32,
    /// Unix milliseconds.
    pub time_ms: u64,
    pub trigger: String,
    /// The revision as JSON.
    pub data: String,
}

/// Which events are searched; all of them by default. Every condition narrows the search.
#[derive(Clone, Debug, Default)]
pub struct EventSearch {
    pub plan: Option<PlanId>,
    /// Events of this step, and events of whole plans.
    pub step: Option<String>,
    pub phase: Option<String>,
    /// One of these types; any type if empty.
    pub types: Vec<String>,
    /// All of these words, see [`crate::query_words`].
    pub words: Vec<String>,
    /// What is searched may be more than what fits, so each event that is found is to be checked again.
    pub conditions: DataConditions,
    pub namespace: Option<Namespace>,
    /// Events at or after this time, in Unix milliseconds.
    pub since_ms: u64,
    /// Only events before this position.
    pub before: Option<EventPosition>,
}

/// The position of an event among all events: by time, then by plan and number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventPosition {
    pub time_ms: u64,
    pub plan: PlanId,
    pub seq: u64,
}

/// An event as it was archived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedEvent {
    pub position: EventPosition,
    /// Number of the last event of the same commit.
    pub entry: u64,
    /// The event as a line of an exported log.
    pub line: String,
}

/// An archived plan, without its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedPlan {
    pub shard: ShardId,
    /// When the plan changed last, Unix milliseconds.
    pub changed_ms: u64,
    pub row: PlanRow,
}

/// Selects archived plans; all of them by default.
#[derive(Clone, Debug, Default)]
pub struct PlanSelection {
    pub namespace: Option<Namespace>,
    /// Plans that ended before this time, in Unix milliseconds.
    pub ended_before_ms: Option<u64>,
}

/// The position of a plan among all plans: by the time of its end, then by its id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlanPosition {
    /// Unix milliseconds.
    pub finished_ms: u64,
    pub plan: PlanId,
}

/// The numbers of removed rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PrunedRows {
    pub plans: u64,
    pub events: u64,
}

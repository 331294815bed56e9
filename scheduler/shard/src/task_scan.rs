//! Messages between a shard's loop and the reconciliation of task streams.

use std::collections::BTreeSet;

use goalmill_common::id::{AgentType, AttemptToken, EntryId, PlanId, StepId};
use serde::Deserialize;

/// The queues of a shard that need a scan.
#[derive(Debug, Default)]
pub struct Suspects {
    /// Every step that was queued before this time, Unix milliseconds, has its task on a stream.
    pub written_ms: u64,
    /// Queues with steps that have waited for longer than a task lease.
    pub overdue: BTreeSet<AgentType>,
    /// Queues with attempts that were stopped since the last request.
    pub stopped: BTreeSet<AgentType>,
}

/// The tasks of one shard on a task stream.
#[derive(Debug)]
pub struct Scan {
    pub agent_type: AgentType,
    /// [`Suspects::written_ms`] before the scan.
    pub written_ms: u64,
    pub tasks: Vec<TaskOnStream>,
    /// Whether the stream was read to its end. Only then, tasks that were not found are missing.
    pub is_whole: bool,
}

/// One entry of a task stream.
#[derive(Debug)]
pub struct TaskOnStream {
    pub entry: EntryId,
    pub head: TaskHead,
}

/// The fields of a task that identify its attempt.
#[derive(Debug, Deserialize)]
pub struct TaskHead {
    pub plan: PlanId,
    pub step: StepId,
    pub token: AttemptToken,
}

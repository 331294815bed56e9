//! What one turn of a shard's loop has gathered: written together, then acted upon.

use std::collections::BTreeMap;

use goalmill_broker::TaskWrite;
use goalmill_common::event::{ModelAnswered, Record};
use goalmill_common::goal::Goal;
use goalmill_common::id::{AgentType, EntryId, PlanId};
use goalmill_common::json::Json;
use goalmill_common::status::PlanStatus;
use goalmill_common::task::Task;
use goalmill_common::wire;
use goalmill_engine::{PlanState, Rejection, StepIndex};
use tokio::sync::oneshot;

use super::{Slot, Suspects, Verdict};
use crate::effects::Errand;

/// Bytes after which a turn takes no further input, so that one commit stays well below what stalls Redis.
const BYTES_MAX: usize = 2 << 20;

/// Inputs after which a turn takes no more.
const INPUTS_MAX: usize = 2_000;
/// Plans of which a turn changes fewer steps than that each are small.
const TASKS_A_PLAN: usize = 8;

/// Everything that the next commit writes, and what is done once it is written.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// Plans with new events, in the order in which they changed.
    pub(crate) changed: Vec<Slot>,
    pub(crate) tasks: Vec<TaskWrite>,
    pub(crate) acknowledged: Vec<(AgentType, EntryId)>,
    pub(crate) cursor: Option<EntryId>,
    pub(crate) after: Vec<After>,
    /// Plans that were asked for and have ended before this turn.
    pub(crate) ended: BTreeMap<PlanId, PlanStatus>,
    bytes: usize,
    inputs: usize,
}

/// Done after the commit.
#[derive(Debug)]
pub(crate) enum After {
    Reply(oneshot::Sender<Verdict>, Verdict),
    /// Tell an effect whether its command was taken.
    Taken(oneshot::Sender<Result<(), Rejection>>, Result<(), Rejection>),
    /// Say which queues are worth a scan.
    Suspects(oneshot::Sender<Suspects>, Suspects),
    /// Ask the planners for a plan; their answer comes back to the loop.
    Plan {
        plan: PlanId,
        goal: Box<Goal>,
        /// How many plans it is inside of.
        depth: u32,
        /// What models answered before another scheduler ended.
        answers: Vec<ModelAnswered>,
    },
    /// Ask them for a change of the plan as it stands.
    Revise {
        plan: PlanId,
        state: Box<PlanState>,
        revision: u32,
        /// How often they were asked for one before, and now.
        asked: u32,
    },
    /// See whether a step's result is kept; the answer comes back to the loop.
    LookUp {
        plan: PlanId,
        step: StepIndex,
        key: String,
    },
    Keep {
        key: String,
        outputs: Json,
        ttl_ms: u64,
    },
    /// Make the trace of a plan that has ended.
    Trace(PlanId),
    /// Tell the hooks what was written.
    Tell {
        plan: PlanId,
        records: Vec<Record>,
    },
    /// Work on a plan again that is left alone.
    LetIn(PlanId),
    Errand(Errand),
}

impl Turn {
    /// Whether there is something to write.
    pub(crate) fn is_worth_a_commit(&self) -> bool {
        !(self.changed.is_empty() && self.acknowledged.is_empty() && self.cursor.is_none())
    }

    /// How many inputs it still takes.
    pub(crate) fn room(&self) -> usize {
        if self.bytes >= BYTES_MAX { 0 } else { INPUTS_MAX.saturating_sub(self.inputs) }
    }

    /// Whether it takes more tasks, up to so many; those of many small plans are not held back, or each plan would be
    /// written once more.
    pub(crate) fn has_room_for_tasks(&self, tasks_max: usize) -> bool {
        self.bytes < BYTES_MAX && self.tasks.len() < tasks_max.max(TASKS_A_PLAN * self.changed.len())
    }

    pub(crate) fn count_input(&mut self) {
        self.inputs += 1;
    }

    /// Counts bytes that will be written.
    pub(crate) fn weigh(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub(crate) fn send(&mut self, task: &Task) {
        let data = wire::write_task(task);
        self.weigh(data.len());
        self.tasks.push(TaskWrite { agent_type: task.agent_type.clone(), data });
    }
}

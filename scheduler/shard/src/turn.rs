//! The result of one turn of a shard's loop: one commit, and the actions after it.

use std::collections::BTreeMap;

use goalmill_common::commit::TaskWrite;
use goalmill_common::id::{AgentType, EntryId, PlanId};
use goalmill_common::json::Json;
use goalmill_common::task::Task;
use goalmill_common::wire::{self, InboxStream};

use crate::message::InboxPlace;
use crate::post_commit::PostCommit;
use crate::{BegunPlan, Slot};

/// Bytes after which a turn takes no more input, so that one commit does not stall Redis.
const BYTES_MAX: usize = 2 << 20;

/// Inputs after which a turn takes no more.
const INPUTS_MAX: usize = 2_000;
/// Tasks per plan below which a plan counts as small.
const TASKS_A_PLAN: usize = 8;

/// The content of the next commit, and the actions after it.
#[derive(Debug, Default)]
pub(crate) struct ShardTurn {
    /// Plans with new events, in the order in which they changed.
    pub(crate) changed: Vec<Slot>,
    pub(crate) tasks: Vec<TaskWrite>,
    /// Large inputs, by the key of their blob; they are stored before the commit that refers to them.
    pub(crate) inputs: Vec<(String, Json)>,
    pub(crate) acknowledged: Vec<(AgentType, EntryId)>,
    pub(crate) cursor: Option<EntryId>,
    pub(crate) requests_cursor: Option<EntryId>,
    pub(crate) post_commit: Vec<PostCommit>,
    /// Plans that were submitted again after they finished.
    pub(crate) finished: BTreeMap<PlanId, BegunPlan>,
    bytes: usize,
    inputs_taken: usize,
}

impl ShardTurn {
    /// How many more inputs it takes.
    pub(crate) fn room(&self) -> usize {
        if self.bytes >= BYTES_MAX { 0 } else { INPUTS_MAX.saturating_sub(self.inputs_taken) }
    }

    /// Whether it takes more tasks, up to `tasks_max`. Tasks of many small plans are not limited, because each plan would
    /// be written once more.
    pub(crate) fn has_room_for_tasks(&self, tasks_max: usize) -> bool {
        self.bytes < BYTES_MAX && self.tasks.len() < tasks_max.max(TASKS_A_PLAN * self.changed.len())
    }

    /// Notes that an entry of the inbox is handled.
    pub(crate) fn move_cursor(&mut self, place: InboxPlace) {
        match place.stream {
            InboxStream::Reports => self.cursor = Some(place.id),
            InboxStream::Requests => self.requests_cursor = Some(place.id),
        }
    }

    /// Whether it handled entries of the inbox.
    pub(crate) fn moves_cursor(&self) -> bool {
        self.cursor.is_some() || self.requests_cursor.is_some()
    }

    pub(crate) fn count_input(&mut self) {
        self.inputs_taken += 1;
    }

    /// Adds to the bytes that will be written.
    pub(crate) fn add_bytes(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub(crate) fn add_task(&mut self, task: &Task) {
        let data = wire::write_task(task);
        self.add_bytes(data.len());
        self.tasks.push(TaskWrite { agent_type: task.agent_type.clone(), data });
    }
}

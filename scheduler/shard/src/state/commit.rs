//! The end of a turn: what it collected becomes one commit.

use goalmill_common::commit::Commit;
use goalmill_common::event::{Record, write_entry};
use goalmill_common::json::Json;
use goalmill_engine::sub_plan;

use super::{ShardState, TASKS_FIRST};
use crate::active_plan::{ActivePlan, INDEX_MS};
use crate::post_commit::PostCommit;
use crate::{BegunPlan, Slot, stream_answers};

/// Tasks of one turn at most; large batches are sent more efficiently.
const TASKS_MAX: usize = 400;

/// A turn that is being written: what follows once it is.
#[derive(Default)]
pub(crate) struct SealedTurn {
    pub(crate) events: Vec<SealedEvents>,
    /// Large values, by the keys of their blobs; to be stored before the commit.
    pub(crate) inputs: Vec<(String, Json)>,
    post_commit: Vec<PostCommit>,
}

impl SealedTurn {
    /// Encodes the events for their commit.
    pub(crate) fn encode_events(&self, commit: &mut Commit) {
        for (write, SealedEvents { records, .. }) in commit.plans.iter_mut().zip(&self.events) {
            if !records.is_empty() {
                write.events = write_entry(records);
            }
        }
    }
}

/// The events of one plan.
pub(crate) struct SealedEvents {
    pub(crate) slot: Slot,
    /// The plan, if it is final: the shard no longer has it.
    pub(crate) finished: Option<Box<ActivePlan>>,
    pub(crate) records: Vec<Record>,
}

impl ShardState {
    /// Ends the turn: its commit without the events, if there is something to write, and what follows once it is written.
    ///
    /// The state already counts it as written, because a commit that fails drops the whole state.
    pub(crate) fn build_commit(&mut self, token: &str, number: u64, full_check: bool) -> (Option<Commit>, SealedTurn) {
        let turn = std::mem::take(&mut self.turn);
        let is_empty = turn.changed.is_empty() && turn.acknowledged.is_empty() && !turn.moves_cursor();
        self.tasks_max = if self.has_more { TASKS_MAX.min(2 * self.tasks_max) } else { TASKS_FIRST };
        let mut sealed = SealedTurn { events: Vec::new(), inputs: turn.inputs, post_commit: turn.post_commit };
        if is_empty {
            return (None, sealed);
        }
        let mut plans = Vec::with_capacity(turn.changed.len());
        for slot in turn.changed {
            let plan = self.plans.get_mut(&slot).expect("a changed plan stays until its events are written");
            let (mut write, records) = plan.write(self.retention_ms);
            if plan.needs_result() {
                let blob = || self.keys.plan_blob(sub_plan::family(&plan.state), &self.random.token());
                let (result, large) = stream_answers::result(&plan.state, blob);
                sealed.inputs.extend(large);
                write.result = Some(Box::new(result));
            } else if write.base_seq == 0 && plan.state.parent().is_none() {
                write.result = Some(Box::new(stream_answers::answer(&plan.state)));
            }
            if plan.needs_summary_later() {
                self.behind.push_back((self.now_ms + INDEX_MS, slot));
            }
            plans.push(write);
            let mut finished = None;
            if plan.state.is_final() {
                let state = &plan.state;
                let begun = BegunPlan { status: state.status(), fingerprint: state.accepted().fingerprint.clone() };
                self.recently_finished.add(self.clock.steady_ms(), state.id().clone(), begun);
                finished = self.remove_plan(slot);
            }
            sealed.events.push(SealedEvents { slot, finished, records });
        }
        let commit = Commit {
            shard: self.shard,
            token: token.to_owned(),
            number,
            cursor: turn.cursor,
            requests_cursor: turn.requests_cursor,
            plans,
            tasks: turn.tasks,
            acknowledged: turn.acknowledged,
            full_check,
        };
        (Some(commit), sealed)
    }

    /// Counts what plans have used for their namespaces; sub-plans are in the use of their plan.
    fn count_spent(&mut self, events: &mut [SealedEvents]) {
        let Some(in_use) = &self.namespaces else { return };
        for SealedEvents { slot, finished, .. } in events {
            let Some(plan) = finished.as_mut().or_else(|| self.plans.get_mut(slot)) else { continue };
            if let (Some(spent), None) = (plan.take_spent(), plan.state.parent()) {
                in_use.spend(&plan.state.namespace(), spent);
            }
        }
    }

    /// Notes that a turn is written, and returns the actions that follow.
    pub(crate) fn finish_commit(&mut self, sealed: SealedTurn) -> Vec<PostCommit> {
        let SealedTurn { mut events, post_commit, inputs: _ } = sealed;
        self.count_spent(&mut events);
        for SealedEvents { slot, finished, records } in &events {
            if let Some(plan) = finished.as_ref().or_else(|| self.plans.get(slot)) {
                self.observer.note_written(&plan.state, records, finished.is_some());
            }
        }
        let open = events.iter().filter(|sealed| sealed.finished.is_none());
        open.for_each(|sealed| self.park_if_idle(sealed.slot));
        post_commit
    }
}

//! The end of a turn: what it collected becomes one commit.

use goalmill_broker::Commit;
use goalmill_common::event::{Event, Record, StepEvent};
use goalmill_common::json::Json;
use goalmill_engine::PlanState;
use tokio::time::Instant;

use super::{ShardState, TASKS_FIRST};
use crate::dead_letter_counter::OTHER;
use crate::shard::active_plan::{ActivePlan, INDEX_MS};
use crate::shard::outbox::PostCommit;
use crate::shard::{BegunPlan, Slot};
use crate::{quality, stream_answers, traces};

/// Tasks of one turn at most; large batches are sent more efficiently.
const TASKS_MAX: usize = 400;

/// A turn that is being written: what follows once it is.
#[derive(Default)]
pub(crate) struct SealedTurn {
    events: Vec<SealedEvents>,
    /// Large values, by the keys of their blobs; to be stored before the commit.
    pub(crate) inputs: Vec<(String, Json)>,
    post_commit: Vec<PostCommit>,
}

/// The events of one plan.
struct SealedEvents {
    slot: Slot,
    /// The plan, if it is final: the shard no longer has it.
    finished: Option<Box<ActivePlan>>,
    records: Vec<Record>,
}

impl ShardState {
    /// Ends the turn: its commit, if there is something to write, and what follows once it is written.
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
                let blob = || self.keys.plan_blob(plan.state.family(), &self.random.token());
                let (result, large) = stream_answers::result(&plan.state, blob);
                sealed.inputs.extend(large);
                write.result = Some(Box::new(result));
            }
            if plan.needs_summary_later() {
                self.behind.push_back((self.now_ms + INDEX_MS, slot));
            }
            plans.push(write);
            let mut finished = None;
            if plan.state.is_final() {
                let state = &plan.state;
                let begun = BegunPlan { status: state.status(), fingerprint: state.accepted().fingerprint.clone() };
                self.recently_finished.add(Instant::now(), state.id().clone(), begun);
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

    /// Counts the events of a turn that is written, learns from them, and returns the actions that follow.
    pub(crate) fn finish_commit(&mut self, sealed: SealedTurn) -> Vec<PostCommit> {
        let SealedTurn { mut events, mut post_commit, inputs: _ } = sealed;
        self.count_spent(&mut events);
        let open: Vec<Slot> =
            events.iter().filter(|sealed| sealed.finished.is_none()).map(|sealed| sealed.slot).collect();
        for SealedEvents { slot, finished, records } in events {
            let Some(plan) = finished.as_ref().or_else(|| self.plans.get(&slot)) else { continue };
            let state = &plan.state;
            records.iter().for_each(|record| self.counters.count(&record.event));
            let undo_failures = records.iter().filter(|record| is_failed_undo(state, &record.event)).count() as u64;
            if undo_failures > 0 {
                let label = self.namespaces.as_ref().and_then(|in_use| in_use.label(&state.namespace()));
                let label = label.unwrap_or_else(|| OTHER.to_owned());
                metrics::counter!("goalmill_undo_failures_total", "namespace" => label).increment(undo_failures);
            }
            self.stats.iter().for_each(|stats| stats.record(state, &records));
            let accepted = state.accepted();
            if self.has_hooks && !records.is_empty() {
                post_commit.push(PostCommit::NotifyHooks { plan: accepted.plan_id.clone(), records });
            }
            if finished.is_some() {
                quality::count_ended(state);
                metrics::counter!("goalmill_plans_ended_total", "status" => state.status().as_str()).increment(1);
                if self.is_traced && traces::sampled(accepted.traceparent.as_deref()).is_some() {
                    post_commit.push(PostCommit::Trace(accepted.plan_id.clone()));
                }
            }
        }
        open.into_iter().for_each(|slot| self.park_if_idle(slot));
        post_commit
    }
}

fn is_failed_undo(state: &PlanState, event: &Event) -> bool {
    match event {
        Event::Step { step, event: StepEvent::Failed(_), .. } => {
            let step = state.step_index(step).and_then(|i| state.step(i));
            step.is_some_and(|step| step.spec.undoes.is_some())
        }
        Event::Step { .. } | Event::Plan(_) => false,
    }
}

//! The end of a turn: what it gathered becomes one commit.

use goalmill_broker::Commit;
use tokio::time::Instant;

use super::{Owned, TASKS_FIRST};
use crate::shard::held::INDEX_MS;
use crate::shard::turn::After;
use crate::traces;

/// Tasks that a turn sends at most: the more there are, the more go together.
const TASKS_MAX: usize = 400;

impl Owned {
    /// Ends the turn: what is to be written, if anything, and what is to be done once it is.
    ///
    /// Memory takes it for written from now on, since a commit that fails drops all of it.
    pub(crate) fn seal(&mut self, token: &str, number: u64, thorough: bool) -> (Option<Commit>, Vec<After>) {
        let mut turn = std::mem::take(&mut self.turn);
        self.tasks_max = if self.has_more { TASKS_MAX.min(2 * self.tasks_max) } else { TASKS_FIRST };
        if !turn.is_worth_a_commit() {
            return (None, turn.after);
        }
        let mut plans = Vec::with_capacity(turn.changed.len());
        for slot in turn.changed {
            let held = self.plans.get_mut(&slot).expect("a changed plan is held until its events are written");
            let (write, records) = held.write(self.retention_ms);
            if held.is_left_behind() {
                self.behind.push_back((self.now_ms + INDEX_MS, slot));
            }
            plans.push(write);
            records.iter().for_each(|record| self.counters.count(&record.event));
            self.outcomes.iter().for_each(|outcomes| outcomes.hear(&held.state, &records));
            if self.is_heard
                && !records.is_empty()
                && let Some(plan) = held.state.id().cloned()
            {
                turn.after.push(After::Tell { plan, records });
            }
            if held.state.is_final() {
                if self.is_traced
                    && let Some(accepted) = held.state.accepted()
                    && traces::sampled(accepted.traceparent.as_deref()).is_some()
                {
                    turn.after.push(After::Trace(accepted.plan_id.clone()));
                }
                if let Some(plan) = held.state.id().cloned() {
                    self.lately.note(Instant::now(), plan, held.state.status());
                }
                self.drop_plan(slot);
            }
        }
        let commit = Commit {
            shard: self.shard,
            token: token.to_owned(),
            number,
            cursor: turn.cursor,
            plans,
            tasks: turn.tasks,
            acknowledged: turn.acknowledged,
            thorough,
        };
        (Some(commit), turn.after)
    }
}

//! Recently finished plans, for deduplicating submissions.
//!
//! The status of a submitted plan is read from the store before the submission reaches its shard, together with others.
//! Plans that finish after that read are found here.

use std::collections::VecDeque;

use goalmill_common::hash::HashMap;
use goalmill_common::id::PlanId;
use goalmill_common::status::PlanStatus;
use tokio::time::Instant;

/// Plans remembered.
const PLANS_MAX: usize = 10_000;

/// The status of a plan in the store, read before its submission reaches the shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatusSnapshot {
    /// When the read was sent, or earlier.
    pub(crate) at: Instant,
    pub(crate) status: Option<PlanStatus>,
}

/// The plans of a shard that finished last.
#[derive(Debug)]
pub(crate) struct RecentlyFinished {
    ended: HashMap<PlanId, PlanStatus>,
    order: VecDeque<(Instant, PlanId)>,
    /// Every plan that finished after this time is here.
    since: Instant,
}

impl RecentlyFinished {
    pub(crate) fn new(since: Instant) -> Self {
        Self { ended: HashMap::default(), order: VecDeque::new(), since }
    }

    /// Adds a plan whose end is written or being written.
    pub(crate) fn add(&mut self, now: Instant, plan: PlanId, status: PlanStatus) {
        if self.order.len() == PLANS_MAX
            && let Some((ended, oldest)) = self.order.pop_front()
        {
            self.since = ended;
            self.ended.remove(&oldest);
        }
        self.ended.insert(plan.clone(), status);
        self.order.push_back((now, plan));
    }

    /// The final status of the plan, if it finished recently.
    pub(crate) fn status(&self, plan: &PlanId) -> Option<PlanStatus> {
        self.ended.get(plan).copied()
    }

    /// Whether the snapshot is still right for plans that are not here.
    pub(crate) fn is_current(&self, snapshot: &StatusSnapshot) -> bool {
        snapshot.at > self.since && snapshot.status.is_none_or(PlanStatus::is_final)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_look_holds_as_long_as_nothing_that_ended_since_was_forgotten() {
        let begun = Instant::now();
        let at = |n: u64| begun + Duration::from_millis(n);
        let plan = |n: usize| PlanId::from(format!("p0-{n}"));
        let look = |n| StatusSnapshot { at: at(n), status: None };
        let mut recently_finished = RecentlyFinished::new(begun);
        assert!(!recently_finished.is_current(&look(0)) && recently_finished.is_current(&look(1)));
        assert!(!recently_finished.is_current(&StatusSnapshot { at: at(1), status: Some(PlanStatus::Running) }));
        for n in 0..PLANS_MAX {
            recently_finished.add(at(10), plan(n), PlanStatus::Completed);
        }
        assert_eq!(recently_finished.status(&plan(0)), Some(PlanStatus::Completed));
        assert!(recently_finished.is_current(&look(1)));
        recently_finished.add(at(20), plan(PLANS_MAX), PlanStatus::Failed);
        assert_eq!(recently_finished.status(&plan(0)), None);
        assert!(!recently_finished.is_current(&look(10)) && recently_finished.is_current(&look(11)));
    }
}

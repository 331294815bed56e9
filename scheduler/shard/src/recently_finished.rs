//! Recently finished plans, for deduplicating submissions.
//!
//! The status of a submitted plan is read from the store before the submission reaches its shard, together with others.
//! Plans that finish after that read are found here.

use std::collections::VecDeque;

use goalmill_common::hash::HashMap;
use goalmill_common::id::PlanId;
use goalmill_common::status::PlanStatus;

/// Plans remembered.
const PLANS_MAX: usize = 10_000;

/// A plan that a submission with the same id may repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunPlan {
    pub status: PlanStatus,
    /// Of what began it.
    pub fingerprint: String,
}

/// What the store says of a plan, read before its submission reaches the shard.
#[derive(Clone, Debug)]
pub struct StatusSnapshot {
    /// When the read was sent, or earlier, by [`goalmill_common::clock::Clock::steady_ms`].
    pub at_ms: u64,
    pub begun: Option<BegunPlan>,
}

/// The plans of a shard that finished last.
#[derive(Debug)]
pub(crate) struct RecentlyFinished {
    ended: HashMap<PlanId, BegunPlan>,
    order: VecDeque<(u64, PlanId)>,
    /// Every plan that finished after this time is here.
    since_ms: u64,
}

impl RecentlyFinished {
    pub(crate) fn new(since_ms: u64) -> Self {
        Self { ended: HashMap::default(), order: VecDeque::new(), since_ms }
    }

    /// Adds a plan whose end is written or being written.
    pub(crate) fn add(&mut self, now_ms: u64, plan: PlanId, begun: BegunPlan) {
        if self.order.len() == PLANS_MAX
            && let Some((ended_ms, oldest)) = self.order.pop_front()
        {
            self.since_ms = ended_ms;
            self.ended.remove(&oldest);
        }
        self.ended.insert(plan.clone(), begun);
        self.order.push_back((now_ms, plan));
    }

    /// The plan with its final status, if it finished recently.
    pub(crate) fn get(&self, plan: &PlanId) -> Option<&BegunPlan> {
        self.ended.get(plan)
    }

    /// Whether the snapshot is still right for plans that are not here.
    pub(crate) fn is_current(&self, snapshot: &StatusSnapshot) -> bool {
        snapshot.at_ms > self.since_ms && snapshot.begun.as_ref().is_none_or(|begun| begun.status.is_final())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_holds_as_long_as_nothing_that_ended_since_was_forgotten() {
        let plan = |n: usize| PlanId::from(format!("p0-{n}"));
        let begun_plan = |status| BegunPlan { status, fingerprint: String::new() };
        let look = |at_ms| StatusSnapshot { at_ms, begun: None };
        let mut recently_finished = RecentlyFinished::new(0);
        assert!(!recently_finished.is_current(&look(0)) && recently_finished.is_current(&look(1)));
        assert!(
            !recently_finished.is_current(&StatusSnapshot { at_ms: 1, begun: Some(begun_plan(PlanStatus::Running)) })
        );
        for n in 0..PLANS_MAX {
            recently_finished.add(10, plan(n), begun_plan(PlanStatus::Completed));
        }
        assert_eq!(recently_finished.get(&plan(0)), Some(&begun_plan(PlanStatus::Completed)));
        assert!(recently_finished.is_current(&look(1)));
        recently_finished.add(20, plan(PLANS_MAX), begun_plan(PlanStatus::Failed));
        assert_eq!(recently_finished.get(&plan(0)), None);
        assert!(!recently_finished.is_current(&look(10)) && recently_finished.is_current(&look(11)));
    }
}

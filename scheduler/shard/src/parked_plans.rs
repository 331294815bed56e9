//! Parked plans: those that only wait. Memory has their id, their status and when they are due; their state is folded from
//! the log again once a timer, a report or a request concerns them.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::id::PlanId;
use goalmill_common::park_mark::ParkMark;
use goalmill_common::status::PlanStatus;

use crate::counts::ShardCounts;

/// What memory has of a parked plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParkedPlan {
    /// Its next timer, Unix milliseconds.
    due_ms: u64,
    /// Its last change, Unix seconds, rounded down; kept small.
    updated_s: u32,
    status: PlanStatus,
    /// Its steps that wait for a time, and for an event.
    waits: (u32, u32),
    /// Whether this owner has not read its log yet.
    is_unread: bool,
}

impl ParkedPlan {
    /// - `is_unread`: whether this owner has not read its log yet.
    pub(crate) fn new(mark: &ParkMark, is_unread: bool) -> Self {
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            due_ms: mark.due_ms,
            updated_s: small(mark.updated_ms / 1_000),
            status: mark.status,
            waits: (small(mark.waits.0), small(mark.waits.1)),
            is_unread,
        }
    }

    fn count(&self, counts: &mut ShardCounts) {
        counts.count_status(self.status, u64::from(self.updated_s) * 1_000);
        counts.wait((self.waits.0.into(), self.waits.1.into()));
    }
}

/// The parked plans of a shard.
#[derive(Debug, Default)]
pub(crate) struct ParkedPlans {
    /// A tree, which grows without holding an old copy of itself.
    plans: BTreeMap<PlanId, ParkedPlan>,
    due: BTreeSet<(u64, PlanId)>,
    /// Of all of them, and of those that have gone since the sum was made.
    counts: ShardCounts,
    has_gone: bool,
}

impl ParkedPlans {
    pub(crate) fn insert(&mut self, id: PlanId, plan: ParkedPlan) {
        self.due.insert((plan.due_ms, id.clone()));
        plan.count(&mut self.counts);
        self.plans.insert(id, plan);
    }

    /// Returns whether this owner had not read its log; `None` if it was not parked.
    pub(crate) fn remove(&mut self, id: &PlanId) -> Option<bool> {
        let plan = self.plans.remove(id)?;
        self.due.remove(&(plan.due_ms, id.clone()));
        self.has_gone = true;
        Some(plan.is_unread)
    }

    pub(crate) fn contains(&self, id: &PlanId) -> bool {
        self.plans.contains_key(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.plans.len()
    }

    /// Plans and waits by state. Visits every plan if one has gone since the last call.
    pub(crate) fn counts(&mut self) -> &ShardCounts {
        if std::mem::take(&mut self.has_gone) {
            self.counts = ShardCounts::default();
            self.plans.values().for_each(|plan| plan.count(&mut self.counts));
        }
        &self.counts
    }

    /// When the next one is due, Unix milliseconds.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.due.first().map(|(due, _)| *due)
    }

    /// The plans that are due, at most `most`.
    pub(crate) fn due(&self, now_ms: u64, most: usize) -> impl Iterator<Item = &PlanId> {
        self.due.iter().take_while(move |(due, _)| *due <= now_ms).take(most).map(|(_, id)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(due_ms: u64) -> ParkedPlan {
        ParkedPlan::new(
            &ParkMark { seq: 1, due_ms, updated_ms: 1_000, status: PlanStatus::Running, waits: (0, 1) },
            false,
        )
    }

    #[test]
    fn a_plan_is_due_at_its_time_and_once() {
        let mut parked = ParkedPlans::default();
        parked.insert("p0-b".into(), plan(20));
        parked.insert("p0-a".into(), plan(30));
        assert_eq!((parked.len(), parked.next_ms()), (2, Some(20)));
        assert_eq!(parked.due(19, 9).count(), 0);
        assert_eq!(parked.due(30, 9).map(PlanId::as_str).collect::<Vec<_>>(), ["p0-b", "p0-a"]);
        assert_eq!(parked.due(30, 1).count(), 1);
        assert_eq!(parked.counts().waits, (0, 2));
        assert_eq!((parked.remove(&"p0-b".into()), parked.remove(&"p0-b".into())), (Some(false), None));
        assert_eq!((parked.len(), parked.next_ms(), parked.counts().waits), (1, Some(30), (0, 1)));
    }

    /// `cargo test -p goalmill-scheduler --lib parked -- --ignored --nocapture`
    #[test]
    #[ignore = "it measures memory of the process"]
    fn a_parked_plan_takes_less_than_200_bytes() {
        const PLANS: u64 = 100_000;
        let resident = || -> u64 {
            let text = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
            let line = text.lines().find(|line| line.starts_with("VmRSS:")).expect("it has a size");
            line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("it is a number") * 1_024
        };
        let before = resident();
        let mut parked = ParkedPlans::default();
        for n in 0..PLANS {
            parked.insert(format!("p0-{n:016x}").into(), plan(n.wrapping_mul(0x9e37_79b9) % 1_000_000));
        }
        let each = (resident() - before) / PLANS;
        assert!(each < 200, "{each} bytes");
    }
}

//! Parked plans: those that only wait. Memory has their id, their status and when they are due; their state is folded from
//! the log again once a timer, a report or a request concerns them.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::id::PlanId;
use goalmill_common::status::PlanStatus;

/// What memory has of a parked plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParkedPlan {
    /// Its next timer, Unix milliseconds.
    due_ms: u64,
    /// Its last change, Unix seconds; kept small.
    updated_s: u32,
    status: PlanStatus,
    /// Its steps that wait for a time, and for an event.
    waits: (u32, u32),
}

impl ParkedPlan {
    /// - `updated_ms`, `due_ms`: its last change and its next timer, Unix milliseconds.
    /// - `waits`: the numbers of its steps that wait for a time, and for an event.
    pub(crate) fn new(status: PlanStatus, updated_ms: u64, due_ms: u64, waits: (u64, u64)) -> Self {
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Self { due_ms, updated_s: small(updated_ms / 1_000), status, waits: (small(waits.0), small(waits.1)) }
    }

    pub(crate) fn status(&self) -> PlanStatus {
        self.status
    }

    /// The numbers of its steps that wait for a time, and for an event.
    pub(crate) fn waits(&self) -> (u64, u64) {
        (self.waits.0.into(), self.waits.1.into())
    }

    /// Its last change, Unix milliseconds, rounded down to a second.
    pub(crate) fn updated_ms(&self) -> u64 {
        u64::from(self.updated_s) * 1_000
    }
}

/// The parked plans of a shard.
#[derive(Debug, Default)]
pub(crate) struct ParkedPlans {
    /// A tree, which grows without holding an old copy of itself.
    plans: BTreeMap<PlanId, ParkedPlan>,
    due: BTreeSet<(u64, PlanId)>,
}

impl ParkedPlans {
    pub(crate) fn insert(&mut self, id: PlanId, plan: ParkedPlan) {
        self.due.insert((plan.due_ms, id.clone()));
        self.plans.insert(id, plan);
    }

    /// Returns whether the plan was parked.
    pub(crate) fn remove(&mut self, id: &PlanId) -> bool {
        let Some(plan) = self.plans.remove(id) else { return false };
        self.due.remove(&(plan.due_ms, id.clone()))
    }

    pub(crate) fn contains(&self, id: &PlanId) -> bool {
        self.plans.contains_key(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.plans.len()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ParkedPlan> {
        self.plans.values()
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
        ParkedPlan::new(PlanStatus::Running, 1, due_ms, (0, 1))
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
        assert!(parked.remove(&"p0-b".into()) && !parked.remove(&"p0-b".into()));
        assert_eq!((parked.len(), parked.next_ms()), (1, Some(30)));
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

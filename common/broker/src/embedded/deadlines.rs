//! Expiry times of the embedded back end.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::id::{AttemptToken, PlanId, WorkerId};
use serde::{Deserialize, Serialize};

/// What can expire.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Expiring {
    /// A plan's log and summary.
    Plan(PlanId),
    Answer(String),
    Blob(String),
    Cancelled(AttemptToken),
    Worker(WorkerId),
    Scheduler(String),
    Drain(WorkerId),
}

/// At most one deadline for each thing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Deadlines {
    by_thing: BTreeMap<Expiring, u64>,
    by_time: BTreeSet<(u64, Expiring)>,
}

impl Deadlines {
    /// Sets or moves a deadline, Unix milliseconds.
    pub(super) fn set(&mut self, thing: Expiring, at_ms: u64) {
        self.clear(&thing);
        self.by_time.insert((at_ms, thing.clone()));
        self.by_thing.insert(thing, at_ms);
    }

    /// The deadline of a thing, Unix milliseconds.
    pub(super) fn at_ms(&self, thing: &Expiring) -> Option<u64> {
        self.by_thing.get(thing).copied()
    }

    pub(super) fn clear(&mut self, thing: &Expiring) {
        if let Some(at_ms) = self.by_thing.remove(thing) {
            self.by_time.remove(&(at_ms, thing.clone()));
        }
    }

    /// Takes one thing whose deadline has come.
    pub(super) fn take_due(&mut self, now: u64) -> Option<Expiring> {
        if self.by_time.first()?.0 > now {
            return None;
        }
        let (_, thing) = self.by_time.pop_first()?;
        self.by_thing.remove(&thing);
        Some(thing)
    }
}

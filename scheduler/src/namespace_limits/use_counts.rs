//! The use of namespaces, in this process and in others.

use std::collections::BTreeMap;

use goalmill_common::id::{Namespace, PlanId};
use goalmill_common::number::to_u32;
use serde::{Deserialize, Serialize};

pub(super) const MINUTE_MS: u64 = 60_000;
pub(super) const DAY_MS: u64 = 86_400_000;

/// What a namespace uses in one process, or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct UseCounts {
    pub(super) plans: u32,
    pub(super) steps: u32,
    /// Number of the minute that `submissions` is about, from the Unix epoch.
    pub(super) minute: u64,
    pub(super) submissions: u64,
    /// Number of the day that the rest is about, from the Unix epoch.
    pub(super) day: u64,
    pub(super) bytes: u64,
    pub(super) cost: f64,
    pub(super) tokens: u64,
}

impl UseCounts {
    /// The same without what belongs to earlier minutes and days.
    pub(super) fn at(mut self, now_ms: u64) -> Self {
        let (minute, day) = (now_ms / MINUTE_MS, now_ms / DAY_MS);
        if self.minute != minute {
            (self.minute, self.submissions) = (minute, 0);
        }
        if self.day != day {
            (self.day, self.bytes, self.cost, self.tokens) = (day, 0, 0.0, 0);
        }
        self
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            plans: self.plans.saturating_add(other.plans),
            steps: self.steps.saturating_add(other.steps),
            submissions: self.submissions.saturating_add(other.submissions),
            bytes: self.bytes.saturating_add(other.bytes),
            cost: self.cost + other.cost,
            tokens: self.tokens.saturating_add(other.tokens),
            ..self
        }
    }
}

/// What one scheduler publishes.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct PublishedUse {
    /// Unix milliseconds.
    pub(super) at_ms: u64,
    pub(super) namespaces: BTreeMap<Namespace, UseCounts>,
}

#[derive(Default)]
pub(super) struct NamespaceUse {
    pub(super) own: BTreeMap<Namespace, UseCounts>,
    /// Of other schedulers, as they published them.
    pub(super) others: BTreeMap<Namespace, UseCounts>,
    /// Plans that were accepted and are not known to be in the memory of an owner, until Unix milliseconds.
    pub(super) accepted: BTreeMap<Namespace, BTreeMap<PlanId, u64>>,
    /// Steps that are about to be sent.
    pub(super) reserved_steps: BTreeMap<Namespace, u32>,
}

impl NamespaceUse {
    pub(super) fn sum(&mut self, namespace: &Namespace, now_ms: u64) -> UseCounts {
        let of = |all: &BTreeMap<Namespace, UseCounts>| all.get(namespace).copied().unwrap_or_default().at(now_ms);
        let mut sum = of(&self.own).plus(of(&self.others));
        if let Some(accepted) = self.accepted.get_mut(namespace) {
            accepted.retain(|_, until_ms| *until_ms > now_ms);
            sum.plans = sum.plans.saturating_add(to_u32(accepted.len()));
        }
        sum
    }

    /// Steps that are with workers, or about to be sent.
    pub(super) fn steps(&self, namespace: &Namespace) -> u32 {
        let of = |all: &BTreeMap<Namespace, UseCounts>| all.get(namespace).map_or(0, |counts| counts.steps);
        let reserved = self.reserved_steps.get(namespace).copied().unwrap_or(0);
        of(&self.own).saturating_add(of(&self.others)).saturating_add(reserved)
    }

    pub(super) fn free(&mut self, namespace: &Namespace, plans: u32, steps: u32) {
        if let Some(own) = self.own.get_mut(namespace) {
            own.plans = own.plans.saturating_sub(plans);
            own.steps = own.steps.saturating_sub(steps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_end_with_their_minute_and_day() {
        let now_ms = 20_000 * DAY_MS;
        let counts = UseCounts { plans: 1, submissions: 2, bytes: 3, cost: 4.0, tokens: 5, ..UseCounts::default() };
        let counts = UseCounts { minute: now_ms / MINUTE_MS, day: now_ms / DAY_MS, ..counts };
        assert_eq!(counts.at(now_ms), counts);
        let later = counts.at(now_ms + MINUTE_MS);
        assert_eq!((later.submissions, later.bytes, later.plans), (0, 3, 1));
        let later = counts.at(now_ms + DAY_MS);
        assert_eq!((later.bytes, later.cost, later.tokens, later.plans), (0, 0.0, 0, 1));
    }
}

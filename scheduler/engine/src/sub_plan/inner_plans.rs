//! The plans inside a plan: those that its steps hold, those that are kept, and those that are stopped.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::StepIndex;

/// Clean-up steps of plans inside that the end of a plan names.
pub(crate) const NOT_UNDONE_MAX: usize = 20;

/// The plans inside a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct InnerPlans {
    /// Steps for which a plan runs: in their place, or for one of their calls.
    holders: BTreeSet<StepIndex>,
    /// How many of them are in flight: they take no place themselves.
    in_flight: u32,
    /// Attempts of steps whose plans are kept, in their order.
    kept: BTreeMap<StepIndex, Vec<u32>>,
    /// Attempts of steps that continue without their plans, which are stopped and have not ended.
    stopped: BTreeSet<(StepIndex, u32)>,
    /// Steps whose kept plans have undone what they did.
    undone: BTreeSet<StepIndex>,
    /// Clean-up steps of plans inside that did not succeed.
    not_undone: Vec<String>,
}

impl InnerPlans {
    /// The plan of a step begins in the place of the step.
    pub(crate) fn begin(&mut self, i: StepIndex) {
        self.holders.insert(i);
        self.in_flight += 1;
    }

    /// A step is in flight no more.
    pub(crate) fn end(&mut self, i: StepIndex) {
        if self.holders.remove(&i) {
            self.in_flight -= 1;
        }
    }

    /// Notes whether a plan runs for a call of a step that is not in flight.
    pub(crate) fn set_call_plan(&mut self, i: StepIndex, runs: bool) {
        if runs {
            self.holders.insert(i);
        } else if !self.holders.is_empty() {
            self.holders.remove(&i);
        }
    }

    /// Forgets which steps hold plans, before they are counted again.
    pub(crate) fn clear_holders(&mut self) {
        self.holders.clear();
        self.in_flight = 0;
    }

    /// The plan of an attempt is kept.
    pub(crate) fn keep(&mut self, i: StepIndex, attempt: u32) {
        self.kept.entry(i).or_default().push(attempt);
    }

    /// The plan of an attempt is stopped, and its step continues without it.
    pub(crate) fn stop(&mut self, i: StepIndex, attempt: u32) {
        self.stopped.insert((i, attempt));
    }

    /// A kept or stopped plan has undone what it did. Returns whether it was stopped.
    pub(crate) fn end_undone(&mut self, i: StepIndex, attempt: u32) -> bool {
        if self.is_kept(i, attempt) {
            self.undone.insert(i);
            self.kept.entry(i).or_default().retain(|kept| *kept != attempt);
            self.kept.retain(|_, attempts| !attempts.is_empty());
        }
        self.stopped.remove(&(i, attempt))
    }

    /// Notes clean-up steps of plans inside that did not succeed.
    pub(crate) fn note_not_undone(&mut self, names: &[String]) {
        let room = NOT_UNDONE_MAX.saturating_sub(self.not_undone.len());
        self.not_undone.extend(names.iter().take(room).cloned());
    }

    /// Clean-up steps of plans inside that did not succeed.
    pub(crate) fn not_undone(&self) -> &[String] {
        &self.not_undone
    }

    /// Steps for which a plan runs.
    pub(crate) fn holders(&self) -> impl Iterator<Item = StepIndex> + '_ {
        self.holders.iter().copied()
    }

    /// Whether a plan runs for the step.
    pub(crate) fn is_holder(&self, i: StepIndex) -> bool {
        self.holders.contains(&i)
    }

    /// How many steps in flight hold a plan.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// How many plans have not ended: those that run, and those that are stopped.
    pub(crate) fn unended(&self) -> usize {
        self.holders.len() + self.stopped.len()
    }

    /// Whether no plan is left inside.
    pub(crate) fn is_empty(&self) -> bool {
        self.unended() == 0 && self.kept.is_empty()
    }

    /// Whether plans are kept.
    pub(crate) fn has_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Whether a plan of the step is kept.
    pub(crate) fn has_kept_of(&self, i: StepIndex) -> bool {
        self.kept.contains_key(&i)
    }

    /// Steps whose plans are kept.
    pub(crate) fn keepers(&self) -> impl Iterator<Item = StepIndex> + '_ {
        self.kept.keys().copied()
    }

    /// The attempts of steps whose plans are kept.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (StepIndex, u32)> + '_ {
        self.kept.iter().flat_map(|(i, attempts)| attempts.iter().map(|attempt| (*i, *attempt)))
    }

    /// The last attempt of a step whose plan is kept.
    pub(crate) fn last_kept(&self, i: StepIndex) -> Option<u32> {
        self.kept.get(&i)?.last().copied()
    }

    /// Whether the plan of this attempt of a step is kept.
    pub(crate) fn is_kept(&self, i: StepIndex, attempt: u32) -> bool {
        self.kept.get(&i).is_some_and(|attempts| attempts.contains(&attempt))
    }

    /// The attempts whose plans are stopped and have not ended.
    pub(crate) fn stopped(&self) -> impl Iterator<Item = (StepIndex, u32)> + '_ {
        self.stopped.iter().copied()
    }

    /// Whether the plan of this attempt of a step is stopped and has not ended.
    pub(crate) fn is_stopped(&self, i: StepIndex, attempt: u32) -> bool {
        self.stopped.contains(&(i, attempt))
    }

    /// Whether kept plans of the step have undone what they did.
    pub(crate) fn was_undone(&self, i: StepIndex) -> bool {
        self.undone.contains(&i)
    }
}

//! What steps in flight reserve: their estimates, and parts of the budget that their calls may use up.

use std::collections::BTreeSet;

use goalmill_common::call::CallBudget;
use goalmill_common::goal::Usage;
use goalmill_common::plan::Step;

use crate::graph::StepIndex;

/// What steps in flight reserve in the budget and in hard limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reservations {
    estimates: Reserved,
    /// What calls and sub-plans may use up beside the estimates.
    grants: Reserved,
    /// Steps one of whose calls waits for the budget, or that are ready to make it.
    waiting: BTreeSet<StepIndex>,
}

/// A sum of reservations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Reserved {
    /// How many steps reserve something.
    steps: u32,
    sum: Usage,
}

impl Reserved {
    fn add(&mut self, usage: Usage) {
        self.steps += 1;
        self.sum.add(usage.cost, usage.tokens);
    }

    fn remove(&mut self, usage: Usage) {
        if self.steps <= 1 {
            // Sums of decimals do not come back to 0 by themselves.
            *self = Self::default();
            return;
        }
        self.steps -= 1;
        self.sum =
            Usage { tokens: self.sum.tokens.saturating_sub(usage.tokens), cost: (self.sum.cost - usage.cost).max(0.0) };
    }
}

impl Reservations {
    /// Reserves the estimates of a step that begins, or gives back those of one that ends.
    pub(crate) fn count(&mut self, step: &Step, begins: bool) {
        let (cost, tokens) = (step.estimates.cost, step.estimates.tokens);
        if cost.is_none() && tokens.is_none() {
            return;
        }
        let usage = Usage { cost: cost.unwrap_or(0.0), tokens: tokens.unwrap_or(0) };
        if begins {
            self.estimates.add(usage);
        } else {
            self.estimates.remove(usage);
        }
    }

    /// Forgets the estimates, before they are counted again.
    pub(crate) fn clear_estimates(&mut self) {
        self.estimates = Reserved::default();
    }

    /// Gives back what calls may use up: the plan ends.
    pub(crate) fn clear_grants(&mut self) {
        self.grants = Reserved::default();
        self.waiting.clear();
    }

    pub(crate) fn add_grant(&mut self, grant: &CallGrant) {
        self.grants.add(grant.extra());
    }

    pub(crate) fn remove_grant(&mut self, grant: &CallGrant) {
        self.grants.remove(grant.extra());
    }

    /// Notes whether a call of a step waits for the budget.
    pub(crate) fn set_waiting(&mut self, i: StepIndex, waits: bool) {
        if waits {
            self.waiting.insert(i);
        } else if !self.waiting.is_empty() {
            self.waiting.remove(&i);
        }
    }

    /// Steps one of whose calls waits for the budget, or that are ready to make it.
    pub(crate) fn waiting(&self) -> &BTreeSet<StepIndex> {
        &self.waiting
    }

    /// Whether nothing is reserved.
    pub(crate) fn is_empty(&self) -> bool {
        self.estimates.steps == 0 && self.grants.steps == 0
    }

    /// Whether steps reserve their estimates.
    pub(crate) fn has_estimates(&self) -> bool {
        self.estimates.steps > 0
    }

    /// Attempts and sub-plans that have a grant.
    pub(crate) fn grants(&self) -> u32 {
        self.grants.steps
    }

    /// The estimates of the steps in flight.
    pub(crate) fn estimates(&self) -> Usage {
        self.estimates.sum
    }

    /// The estimates, and what calls and sub-plans may use up beside them.
    pub(crate) fn all(&self) -> Usage {
        let mut all = self.estimates.sum;
        all.add(self.grants.sum.cost, self.grants.sum.tokens);
        all
    }
}

/// What the calls of one attempt, or one sub-plan, may still use up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CallGrant {
    pub(crate) left: CallBudget,
    /// What the estimates of the step reserve anyway.
    pub(crate) estimated: Usage,
}

impl CallGrant {
    pub(crate) fn spend(&mut self, used: Usage) {
        self.left.tokens = self.left.tokens.map(|left| left.saturating_sub(used.tokens));
        self.left.cost = self.left.cost.map(|left| (left - used.cost).max(0.0));
    }

    /// What it reserves beside the estimates.
    pub(crate) fn extra(&self) -> Usage {
        Usage {
            tokens: self.left.tokens.unwrap_or(0).saturating_sub(self.estimated.tokens),
            cost: (self.left.cost.unwrap_or(0.0) - self.estimated.cost).max(0.0),
        }
    }
}

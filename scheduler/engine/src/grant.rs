//! Parts of a plan's budget that attempts in flight may use up.

use goalmill_common::call::CallBudget;
use goalmill_common::goal::Usage;

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

/// What all grants together reserve, beside the estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct GrantedBudgets {
    /// Attempts and sub-plans that have a grant.
    pub(crate) grants: u32,
    pub(crate) extra: Usage,
}

impl GrantedBudgets {
    pub(crate) fn add(&mut self, grant: &CallGrant) {
        self.grants += 1;
        let extra = grant.extra();
        self.extra.add(extra.cost, extra.tokens);
    }

    pub(crate) fn remove(&mut self, grant: &CallGrant) {
        if self.grants <= 1 {
            // Sums of decimals do not come back to 0 by themselves.
            *self = Self::default();
            return;
        }
        let extra = grant.extra();
        self.grants -= 1;
        self.extra = Usage {
            tokens: self.extra.tokens.saturating_sub(extra.tokens),
            cost: (self.extra.cost - extra.cost).max(0.0),
        };
    }
}

//! Reservations of steps in flight: their estimates are reserved in the budget and in hard limits.

use goalmill_common::plan::Step;

/// The estimates of the steps in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ReservedEstimates {
    /// Steps in flight that have an estimate of cost or tokens.
    pub(crate) steps: u32,
    /// US dollars.
    pub(crate) cost: f64,
    pub(crate) tokens: u64,
}

impl ReservedEstimates {
    /// Reserves the estimates of a step that begins, or gives back those of one that ends.
    pub(crate) fn count(&mut self, step: &Step, begins: bool) {
        if step.estimates.cost.is_none() && step.estimates.tokens.is_none() {
            return;
        }
        let (cost, tokens) = (step.estimates.cost.unwrap_or(0.0), step.estimates.tokens.unwrap_or(0));
        if begins {
            let (steps, cost, tokens) = (self.steps + 1, self.cost + cost, self.tokens.saturating_add(tokens));
            *self = Self { steps, cost, tokens };
        } else if self.steps <= 1 {
            // Sums of decimals do not come back to 0 by themselves.
            *self = Self::default();
        } else {
            let (cost, tokens) = ((self.cost - cost).max(0.0), self.tokens.saturating_sub(tokens));
            *self = Self { steps: self.steps - 1, cost, tokens };
        }
    }
}

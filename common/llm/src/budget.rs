//! Spend budgets: tokens and cost are reserved before a call and settled after it.

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::usage::{TokenPrice, TokenUsage, Usd};

/// Tokens of the shortest answer that a budget is used up for.
const OUTPUT_TOKENS_MIN: u64 = 512;

/// Limits of a budget; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpendLimit {
    pub tokens: Option<u64>,
    pub cost: Option<Usd>,
}

/// Tokens and cost of the calls so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    /// Calls that were sent.
    pub calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost: Usd,
    /// A part was estimated, because a server reported no usage or a call was interrupted.
    pub estimated: bool,
}

impl Spending {
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    fn add(&mut self, usage: &TokenUsage, cost: Usd) {
        self.calls = self.calls.saturating_add(1);
        self.input_tokens = self.input_tokens.saturating_add(usage.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(usage.output_tokens);
        self.cost += cost;
        self.estimated |= usage.estimated;
    }
}

/// The limit that a reservation exceeds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetExceeded {
    #[error("it may use {needed} tokens, and {left} remain; raise the budget or lower `output_tokens_max`")]
    Tokens { needed: u64, left: u64 },
    #[error("it may cost {needed}, and {left} remain; raise the budget or choose a cheaper model")]
    Cost { needed: Usd, left: Usd },
    /// The limit of the budget that this one is a part of.
    #[error("{0}")]
    Shared(Box<BudgetExceeded>),
}

/// A budget that concurrent calls share. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub struct SpendBudget(Arc<BudgetState>);

#[derive(Debug, Default)]
struct BudgetState {
    limit: SpendLimit,
    state: Mutex<SpendState>,
    /// The budget that this one is a part of: what is reserved here is reserved there too.
    whole: Option<SpendBudget>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SpendState {
    spent: Spending,
    reserved_tokens: u64,
    reserved_cost: Usd,
}

impl SpendBudget {
    pub fn new(limit: SpendLimit) -> Self {
        Self::with_spent(limit, Spending::default())
    }

    pub fn unlimited() -> Self {
        Self::default()
    }

    /// A budget of which a part was spent before, for example by another process.
    pub fn with_spent(limit: SpendLimit, spent: Spending) -> Self {
        let state = Mutex::new(SpendState { spent, ..SpendState::default() });
        Self(Arc::new(BudgetState { limit, state, whole: None }))
    }

    /// A budget with a limit of its own that is a part of another one. [`SpendBudget::record_call`] counts in the part
    /// only.
    pub fn part_of(whole: Self, limit: SpendLimit) -> Self {
        Self(Arc::new(BudgetState { limit, state: Mutex::default(), whole: Some(whole) }))
    }

    /// Tokens and cost of finished calls.
    pub fn spent(&self) -> Spending {
        self.state().spent
    }

    /// The unspent and unreserved part.
    pub fn remaining(&self) -> SpendLimit {
        let own = remaining(&self.0.limit, &self.state());
        let Some(whole) = self.0.whole.as_ref().map(Self::remaining) else { return own };
        SpendLimit {
            tokens: own.tokens.into_iter().chain(whole.tokens).min(),
            cost: own.cost.into_iter().chain(whole.cost).min(),
        }
    }

    /// Records a call without a reservation, for example one that was replayed.
    pub fn record_call(&self, usage: &TokenUsage, cost: Usd) {
        self.state().spent.add(usage, cost);
    }

    /// The longest answer that there is room for, at most `wanted` tokens. The shortest one of use when the room is too
    /// small for it: the reservation is refused then, with the least that would do.
    pub fn affordable_output(&self, input_tokens: u64, wanted: u64, price: &TokenPrice) -> u64 {
        let left = self.remaining();
        let input = TokenUsage { input_tokens, ..TokenUsage::default() };
        let by_tokens = left.tokens.map(|left| left.saturating_sub(input_tokens));
        let by_cost = left.cost.and_then(|left| price.output_tokens(left.minus(price.cost(&input))));
        let affordable = by_tokens.into_iter().chain(by_cost).fold(wanted, u64::min);
        affordable.max(OUTPUT_TOKENS_MIN.min(wanted))
    }

    /// Reserves the maximum usage of a call, or returns the limit that it exceeds.
    pub fn reserve(&self, most: &TokenUsage, cost: Usd) -> Result<Reservation, BudgetExceeded> {
        let tokens = most.total();
        let mut state = self.state();
        let left = remaining(&self.0.limit, &state);
        if let Some(left) = left.tokens.filter(|left| tokens > *left) {
            return Err(BudgetExceeded::Tokens { needed: tokens, left });
        }
        if let Some(left) = left.cost.filter(|left| cost > *left) {
            return Err(BudgetExceeded::Cost { needed: cost, left });
        }
        let whole = self.0.whole.as_ref().map(|whole| whole.reserve(most, cost)).transpose();
        let whole = whole.map_err(|exceeded| BudgetExceeded::Shared(Box::new(exceeded)))?.map(Box::new);
        state.reserved_tokens = state.reserved_tokens.saturating_add(tokens);
        state.reserved_cost += cost;
        drop(state);
        Ok(Reservation { budget: self.clone(), tokens, cost, used: None, whole })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, SpendState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remaining(limit: &SpendLimit, state: &SpendState) -> SpendLimit {
    let taken = state.spent.tokens().saturating_add(state.reserved_tokens);
    let cost = state.spent.cost.plus(state.reserved_cost);
    SpendLimit {
        tokens: limit.tokens.map(|all| all.saturating_sub(taken)),
        cost: limit.cost.map(|all| all.minus(cost)),
    }
}

/// Tokens and cost reserved for one call. Dropping it releases the reservation and charges the usage of the last
/// [`Reservation::update`]; without an update nothing is charged.
#[derive(Debug)]
pub struct Reservation {
    budget: SpendBudget,
    tokens: u64,
    cost: Usd,
    used: Option<(TokenUsage, Usd)>,
    /// The same in the budget that this one is a part of.
    whole: Option<Box<Reservation>>,
}

impl Reservation {
    /// Sets the usage so far.
    pub fn update(&mut self, usage: TokenUsage, cost: Usd) {
        if let Some(whole) = &mut self.whole {
            whole.update(usage, cost);
        }
        self.used = Some((usage, cost));
    }

    /// Charges nothing: the call was not sent.
    pub fn cancel(&mut self) {
        if let Some(whole) = &mut self.whole {
            whole.cancel();
        }
        self.used = None;
    }

    /// Charges the final usage and releases the rest.
    pub fn settle(mut self, usage: TokenUsage, cost: Usd) {
        self.update(usage, cost);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.budget.state();
        state.reserved_tokens = state.reserved_tokens.saturating_sub(self.tokens);
        state.reserved_cost = state.reserved_cost.minus(self.cost);
        if let Some((usage, cost)) = &self.used {
            state.spent.add(usage, *cost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input_tokens: u64, output_tokens: u64) -> TokenUsage {
        TokenUsage { input_tokens, output_tokens, estimated: false }
    }

    #[test]
    fn an_excess_is_refused_and_an_unused_reservation_is_released() {
        let budget = SpendBudget::new(SpendLimit { tokens: Some(100), cost: Some(Usd::from_dollars(1.0)) });
        let first = budget.reserve(&usage(40, 20), Usd::from_dollars(0.5)).expect("it fits");
        let refused = budget.reserve(&usage(40, 1), Usd::ZERO).expect_err("60 of 100 are reserved");
        assert_eq!(refused, BudgetExceeded::Tokens { needed: 41, left: 40 });
        let refused = budget.reserve(&usage(1, 0), Usd::from_dollars(0.6)).expect_err("half is reserved");
        assert!(refused.to_string().contains("0.600000 USD"), "{refused}");
        first.settle(usage(40, 5), Usd::from_dollars(0.2));
        assert_eq!(budget.remaining().tokens, Some(55));
        assert_eq!(
            budget.spent(),
            Spending { calls: 1, input_tokens: 40, output_tokens: 5, cost: Usd::from_dollars(0.2), estimated: false }
        );
    }

    #[test]
    fn an_answer_is_shortened_to_what_is_left_unless_it_would_be_of_no_use() {
        let price = TokenPrice::per_million(1.0, 2.0);
        let budget = |tokens, cost| SpendBudget::new(SpendLimit { tokens, cost });
        assert_eq!(SpendBudget::unlimited().affordable_output(3_000, 4_096, &price), 4_096);
        assert_eq!(budget(Some(10_000), None).affordable_output(3_000, 4_096, &price), 4_096);
        assert_eq!(budget(Some(4_000), None).affordable_output(3_000, 4_096, &price), 1_000);
        assert_eq!(budget(Some(3_100), None).affordable_output(3_000, 4_096, &price), OUTPUT_TOKENS_MIN);
        let cost = Some(Usd::from_dollars(0.005));
        assert_eq!(
            budget(None, cost).affordable_output(3_000, 4_096, &price),
            1_000,
            "3,000 cost 0.003, 1,000 the rest"
        );
        assert_eq!(
            budget(None, cost).affordable_output(3_000, 4_096, &TokenPrice::default()),
            4_096,
            "it costs nothing"
        );
    }

    #[test]
    fn a_part_never_exceeds_the_whole() {
        let whole = SpendBudget::new(SpendLimit { tokens: Some(100), cost: None });
        let limit = SpendLimit { tokens: Some(70), cost: Some(Usd::from_dollars(1.0)) };
        let (one, other) = (SpendBudget::part_of(whole.clone(), limit), SpendBudget::part_of(whole.clone(), limit));
        one.record_call(&usage(10, 0), Usd::ZERO);
        assert_eq!((one.remaining().tokens, whole.remaining().tokens), (Some(60), Some(100)), "counted before");
        let first = one.reserve(&usage(40, 20), Usd::ZERO).expect("it fits into both");
        let refused = other.reserve(&usage(50, 0), Usd::ZERO).expect_err("60 of 100 are reserved");
        assert_eq!(refused, BudgetExceeded::Shared(Box::new(BudgetExceeded::Tokens { needed: 50, left: 40 })));
        let refused = other.reserve(&usage(71, 0), Usd::ZERO).expect_err("its own limit is 70");
        assert_eq!(refused, BudgetExceeded::Tokens { needed: 71, left: 70 });
        assert_eq!(other.remaining(), SpendLimit { tokens: Some(40), cost: Some(Usd::from_dollars(1.0)) });
        first.settle(usage(20, 5), Usd::ZERO);
        assert_eq!(
            (whole.spent().tokens(), one.remaining().tokens, other.remaining().tokens),
            (25, Some(35), Some(70))
        );
        let mut unsent = other.reserve(&usage(70, 0), Usd::ZERO).expect("75 are left");
        unsent.cancel();
        drop(unsent);
        assert_eq!((whole.spent().tokens(), whole.remaining().tokens), (25, Some(75)));
    }

    #[test]
    fn a_dropped_call_is_charged_its_last_update() {
        let budget = SpendBudget::new(SpendLimit { tokens: Some(100), cost: None });
        drop(budget.reserve(&usage(10, 10), Usd::ZERO).expect("it fits"));
        assert_eq!(budget.spent(), Spending::default());
        let mut begun = budget.reserve(&usage(10, 10), Usd::ZERO).expect("it fits");
        begun.update(TokenUsage { estimated: true, ..usage(10, 0) }, Usd::ZERO);
        drop(begun);
        assert_eq!((budget.spent().tokens(), budget.spent().estimated), (10, true));
        assert_eq!(budget.remaining().tokens, Some(90));
    }

    #[test]
    fn concurrent_calls_never_exceed_the_budget() {
        let budget = SpendBudget::new(SpendLimit { tokens: Some(1_000), cost: None });
        let granted: u64 = std::thread::scope(|scope| {
            let one = || (0..200).filter_map(|_| budget.reserve(&usage(7, 0), Usd::ZERO).ok()).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
            let all: Vec<Reservation> =
                threads.into_iter().flat_map(|thread| thread.join().expect("it does not panic")).collect();
            all.len() as u64
        });
        assert_eq!(granted, 1_000 / 7);
    }
}

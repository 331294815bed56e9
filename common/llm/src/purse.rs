//! Money and tokens: reserved before a call, settled after it.

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::usage::{Usage, Usd};

/// What may be spent; nothing given is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    pub tokens: Option<u64>,
    pub cost: Option<Usd>,
}

/// What was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Calls that were sent.
    pub calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost: Usd,
    /// Some of it was counted from texts, because a server did not say or a call was cut short.
    pub estimated: bool,
}

impl Spent {
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    fn add(&mut self, usage: &Usage, cost: Usd) {
        self.calls = self.calls.saturating_add(1);
        self.input_tokens = self.input_tokens.saturating_add(usage.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(usage.output_tokens);
        self.cost += cost;
        self.estimated |= usage.estimated;
    }
}

/// What did not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("it may take {needed} tokens, and {left} are left; raise the budget or ask for less")]
    Tokens { needed: u64, left: u64 },
    #[error("it may cost {needed}, and {left} are left; raise the budget or name a cheaper model")]
    Cost { needed: Usd, left: Usd },
}

/// A budget that any number of calls share. Clones are the same purse.
#[derive(Clone, Debug, Default)]
pub struct Purse(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    allowance: Allowance,
    books: Mutex<Books>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Books {
    spent: Spent,
    reserved_tokens: u64,
    reserved_cost: Usd,
}

impl Purse {
    pub fn new(allowance: Allowance) -> Self {
        Self::carrying_on(allowance, Spent::default())
    }

    pub fn unlimited() -> Self {
        Self::default()
    }

    /// A purse of which something was spent before, by another process say.
    pub fn carrying_on(allowance: Allowance, spent: Spent) -> Self {
        Self(Arc::new(Inner { allowance, books: Mutex::new(Books { spent, ..Books::default() }) }))
    }

    /// What was spent; calls under way are not counted.
    pub fn spent(&self) -> Spent {
        self.books().spent
    }

    /// What is left for another call: neither spent nor reserved.
    pub fn left(&self) -> Allowance {
        left(&self.0.allowance, &self.books())
    }

    /// Notes a call that was made and paid for before.
    pub fn book(&self, usage: &Usage, cost: Usd) {
        self.books().spent.add(usage, cost);
    }

    /// Sets aside the most that a call may take, or says what does not fit.
    pub fn reserve(&self, most: &Usage, cost: Usd) -> Result<Reservation, Refused> {
        let tokens = most.total();
        let mut books = self.books();
        let left = left(&self.0.allowance, &books);
        if let Some(left) = left.tokens.filter(|left| tokens > *left) {
            return Err(Refused::Tokens { needed: tokens, left });
        }
        if let Some(left) = left.cost.filter(|left| cost > *left) {
            return Err(Refused::Cost { needed: cost, left });
        }
        books.reserved_tokens = books.reserved_tokens.saturating_add(tokens);
        books.reserved_cost += cost;
        drop(books);
        Ok(Reservation { purse: self.clone(), tokens, cost, noted: None })
    }

    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        self.0.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn left(allowance: &Allowance, books: &Books) -> Allowance {
    let taken = books.spent.tokens().saturating_add(books.reserved_tokens);
    let cost = books.spent.cost.plus(books.reserved_cost);
    Allowance {
        tokens: allowance.tokens.map(|all| all.saturating_sub(taken)),
        cost: allowance.cost.map(|all| all.minus(cost)),
    }
}

/// Money set aside for one call. What was noted last is what the call is taken to have used, also when it is dropped
/// in the middle; without a note nothing is.
#[derive(Debug)]
pub struct Reservation {
    purse: Purse,
    tokens: u64,
    cost: Usd,
    noted: Option<(Usage, Usd)>,
}

impl Reservation {
    /// What the call has used so far.
    pub fn note(&mut self, usage: Usage, cost: Usd) {
        self.noted = Some((usage, cost));
    }

    /// The call was never sent.
    pub fn forget(&mut self) {
        self.noted = None;
    }

    /// What the call used; the rest of what was set aside is free again.
    pub fn settle(mut self, usage: Usage, cost: Usd) {
        self.note(usage, cost);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut books = self.purse.books();
        books.reserved_tokens = books.reserved_tokens.saturating_sub(self.tokens);
        books.reserved_cost = books.reserved_cost.minus(self.cost);
        if let Some((usage, cost)) = &self.noted {
            books.spent.add(usage, *cost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input_tokens: u64, output_tokens: u64) -> Usage {
        Usage { input_tokens, output_tokens, estimated: false }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_what_is_not_used_comes_back() {
        let purse = Purse::new(Allowance { tokens: Some(100), cost: Some(Usd::from_dollars(1.0)) });
        let first = purse.reserve(&usage(40, 20), Usd::from_dollars(0.5)).expect("it fits");
        let refused = purse.reserve(&usage(40, 1), Usd::ZERO).expect_err("60 of 100 are set aside");
        assert_eq!(refused, Refused::Tokens { needed: 41, left: 40 });
        let refused = purse.reserve(&usage(1, 0), Usd::from_dollars(0.6)).expect_err("half is set aside");
        assert!(refused.to_string().contains("0.600000 USD"), "{refused}");
        first.settle(usage(40, 5), Usd::from_dollars(0.2));
        assert_eq!(purse.left().tokens, Some(55));
        assert_eq!(
            purse.spent(),
            Spent { calls: 1, input_tokens: 40, output_tokens: 5, cost: Usd::from_dollars(0.2), estimated: false }
        );
    }

    #[test]
    fn a_call_that_is_dropped_costs_what_was_noted() {
        let purse = Purse::new(Allowance { tokens: Some(100), cost: None });
        drop(purse.reserve(&usage(10, 10), Usd::ZERO).expect("it fits"));
        assert_eq!(purse.spent(), Spent::default());
        let mut begun = purse.reserve(&usage(10, 10), Usd::ZERO).expect("it fits");
        begun.note(Usage { estimated: true, ..usage(10, 0) }, Usd::ZERO);
        drop(begun);
        assert_eq!((purse.spent().tokens(), purse.spent().estimated), (10, true));
        assert_eq!(purse.left().tokens, Some(90));
    }

    #[test]
    fn a_purse_is_never_overdrawn_by_calls_at_once() {
        let purse = Purse::new(Allowance { tokens: Some(1_000), cost: None });
        let granted: u64 = std::thread::scope(|scope| {
            let one = || (0..200).filter_map(|_| purse.reserve(&usage(7, 0), Usd::ZERO).ok()).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
            let all: Vec<Reservation> =
                threads.into_iter().flat_map(|thread| thread.join().expect("it does not panic")).collect();
            all.len() as u64
        });
        assert_eq!(granted, 1_000 / 7);
    }
}

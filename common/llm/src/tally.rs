//! What one call uses, as far as is known at each moment.

use crate::purse::Reservation;
use crate::usage::{Price, SaidUsage, Usage, Usd};

/// Keeps the purse informed while a call runs: whenever it is dropped, the purse has the best guess.
#[derive(Debug)]
pub struct Tally {
    reservation: Reservation,
    price: Price,
    input_tokens: u64,
    output_tokens: u64,
}

impl Tally {
    /// - `input_tokens`: of the question, estimated.
    pub fn new(reservation: Reservation, price: Price, input_tokens: u64) -> Self {
        Self { reservation, price, input_tokens, output_tokens: 0 }
    }

    /// The request is on its way: the server may charge for it.
    pub fn sent(&mut self) {
        self.note();
    }

    /// Some more of the answer has come.
    pub fn wrote(&mut self, tokens: u64) {
        self.output_tokens = self.output_tokens.saturating_add(tokens);
        self.note();
    }

    /// The server refused, and does not charge.
    pub fn refused(mut self) -> (Usage, Usd) {
        self.reservation.note(Usage::default(), Usd::ZERO);
        (Usage::default(), Usd::ZERO)
    }

    /// Nothing reached the server.
    pub fn unsent(mut self) -> (Usage, Usd) {
        self.reservation.forget();
        (Usage::default(), Usd::ZERO)
    }

    /// The call is over; what the server did not say is estimated.
    pub fn settle(self, said: &SaidUsage) -> (Usage, Usd) {
        let usage = Usage {
            input_tokens: said.input_tokens.unwrap_or(self.input_tokens),
            output_tokens: said.output_tokens.unwrap_or(self.output_tokens),
            estimated: said.input_tokens.is_none() || said.output_tokens.is_none(),
        };
        let cost = self.price.of(&usage);
        self.reservation.settle(usage, cost);
        (usage, cost)
    }

    fn note(&mut self) {
        let usage = Usage { input_tokens: self.input_tokens, output_tokens: self.output_tokens, estimated: true };
        self.reservation.note(usage, self.price.of(&usage));
    }
}

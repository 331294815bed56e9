//! Usage of one running call.

use crate::budget::Reservation;
use crate::usage::{ReportedUsage, TokenPrice, TokenUsage, Usd};

/// Updates the reservation while a call runs, so that an interrupted call is charged its estimated usage.
#[derive(Debug)]
pub struct UsageMeter {
    reservation: Reservation,
    price: TokenPrice,
    input_tokens: u64,
    output_tokens: u64,
}

impl UsageMeter {
    /// - `input_tokens`: estimated tokens of the prompt.
    pub fn new(reservation: Reservation, price: TokenPrice, input_tokens: u64) -> Self {
        Self { reservation, price, input_tokens, output_tokens: 0 }
    }

    /// The request is being sent, so the server may charge for the prompt.
    pub fn record_sent(&mut self) {
        self.update();
    }

    /// Output tokens were received.
    pub fn add_output(&mut self, tokens: u64) {
        self.output_tokens = self.output_tokens.saturating_add(tokens);
        self.update();
    }

    /// The server rejected the request and charges nothing.
    pub fn settle_rejected(mut self) -> (TokenUsage, Usd) {
        self.reservation.update(TokenUsage::default(), Usd::ZERO);
        (TokenUsage::default(), Usd::ZERO)
    }

    /// The request did not reach the server.
    pub fn settle_unsent(mut self) -> (TokenUsage, Usd) {
        self.reservation.cancel();
        (TokenUsage::default(), Usd::ZERO)
    }

    /// The call has ended; counts that the server did not report are estimated.
    pub fn settle(self, reported: &ReportedUsage) -> (TokenUsage, Usd) {
        let usage = TokenUsage {
            input_tokens: reported.input_tokens.unwrap_or(self.input_tokens),
            output_tokens: reported.output_tokens.unwrap_or(self.output_tokens),
            estimated: reported.input_tokens.is_none() || reported.output_tokens.is_none(),
        };
        let cost = self.price.cost(&usage);
        self.reservation.settle(usage, cost);
        (usage, cost)
    }

    fn update(&mut self) {
        let usage = TokenUsage { input_tokens: self.input_tokens, output_tokens: self.output_tokens, estimated: true };
        self.reservation.update(usage, self.price.cost(&usage));
    }
}

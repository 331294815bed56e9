//! Usage of one running call.

use crate::budget::Reservation;
use crate::progress_meter::ProgressMeter;
use crate::usage::{ReportedUsage, TokenPrice, TokenUsage, Usd};

/// The most tokens of a prompt or an answer that a server is believed to have counted.
const CALL_TOKENS_MAX: u64 = 100_000_000;

/// Updates the reservation while a call runs, so that an interrupted call is charged its estimated usage.
#[derive(Debug)]
pub struct UsageMeter {
    reservation: Reservation,
    price: TokenPrice,
    input_tokens: u64,
    output_tokens: u64,
    progress: Option<ProgressMeter>,
}

impl UsageMeter {
    /// - `input_tokens`: estimated tokens of the prompt.
    pub fn new(reservation: Reservation, price: TokenPrice, input_tokens: u64) -> Self {
        Self { reservation, price, input_tokens, output_tokens: 0, progress: None }
    }

    /// Moves the progress of the request too.
    pub fn with_progress(self, progress: Option<ProgressMeter>) -> Self {
        Self { progress, ..self }
    }

    /// The request is being sent, so the server may charge for the prompt.
    pub fn record_sent(&mut self) {
        self.update();
    }

    /// Output tokens were received.
    pub fn add_output(&mut self, tokens: u64) {
        self.output_tokens = self.output_tokens.saturating_add(tokens);
        if let Some(progress) = &self.progress {
            progress.add_output(tokens);
        }
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

    /// The call has ended; counts that the server did not report, or that no call has, are estimated.
    pub fn settle(self, reported: &ReportedUsage) -> (TokenUsage, Usd) {
        let likely = |tokens: &u64| *tokens <= CALL_TOKENS_MAX;
        let (input, output) = (reported.input_tokens.filter(likely), reported.output_tokens.filter(likely));
        let usage = TokenUsage {
            input_tokens: input.unwrap_or(self.input_tokens),
            output_tokens: output.unwrap_or(self.output_tokens),
            estimated: input.is_none() || output.is_none(),
        };
        if let Some(progress) = &self.progress {
            progress.end(usage.output_tokens);
        }
        let cost = self.price.cost_of_call(&usage, reported);
        self.reservation.settle(usage, cost);
        (usage, cost)
    }

    fn update(&mut self) {
        let usage = TokenUsage { input_tokens: self.input_tokens, output_tokens: self.output_tokens, estimated: true };
        self.reservation.update(usage, self.price.cost(&usage));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{SpendBudget, SpendLimit};

    #[test]
    fn tokens_that_no_call_has_are_not_believed() {
        let price = TokenPrice::per_million(1.0, 1.0);
        let most = TokenUsage { input_tokens: 10, output_tokens: 10, estimated: true };
        for (input_tokens, output_tokens) in [(u64::MAX, 1), (1, u64::MAX), (CALL_TOKENS_MAX + 1, 1)] {
            let reservation =
                SpendBudget::new(SpendLimit::default()).reserve(&most, Usd::ZERO).expect("it has no limit");
            let reported = ReportedUsage {
                input_tokens: Some(input_tokens),
                output_tokens: Some(output_tokens),
                ..ReportedUsage::default()
            };
            let (usage, _) = UsageMeter::new(reservation, price, 10).settle(&reported);
            assert!(usage.estimated && usage.total() <= 11, "{usage:?}");
        }
    }
}

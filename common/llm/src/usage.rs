//! Tokens and cost of model calls.

use goalmill_common::number::whole_u64;
use serde::{Deserialize, Serialize};

/// Tokens of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// The server reported no usage or a part of it; the rest is estimated from the text.
    pub estimated: bool,
}

impl TokenUsage {
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// Token counts that the server reported; each may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportedUsage {
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    /// The part of the input that the server had cached.
    pub cached_tokens: Option<u64>,
    /// The part of the input that the server stored for a price of its own.
    pub stored_tokens: Option<u64>,
}

/// Units in one US dollar. Token prices are whole numbers of units, so sums are exact in any order.
const PARTS: f64 = 1e12;
/// Tokens that a price is quoted for.
const MILLION: f64 = 1e6;

/// An amount of US dollars in units of 1e-12; at most about 18 million dollars.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd(u64);

impl Usd {
    pub const ZERO: Self = Self(0);

    /// Saturates: a negative amount is zero.
    pub fn from_dollars(dollars: f64) -> Self {
        Self(whole_u64((dollars * PARTS).round()))
    }

    pub fn dollars(self) -> f64 {
        self.0 as f64 / PARTS
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Saturates at zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl std::ops::AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        *self = self.plus(other);
    }
}

impl std::fmt::Display for Usd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.6} USD", self.dollars())
    }
}

impl std::fmt::Debug for Usd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Usd({})", self.dollars())
    }
}

impl Serialize for Usd {
    /// Dollars as a JSON number.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self::from_dollars)
    }
}

/// Units per token of a price in US dollars per million tokens.
fn per_token(dollars: f64) -> u64 {
    whole_u64((dollars * PARTS / MILLION).round())
}

/// Price per token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenPrice {
    input: u64,
    output: u64,
    cached: Option<u64>,
}

/// What Anthropic asks for storing a token of a prompt for five minutes, in hundredths of the input price.
///
/// Source: Anthropic, "Prompt caching", documentation, 2025.
const STORED_PERCENT: u64 = 125;

impl TokenPrice {
    /// - `input`, `output`: US dollars per million tokens, with a resolution of 1e-6 dollars.
    pub fn per_million(input: f64, output: f64) -> Self {
        Self { input: per_token(input), output: per_token(output), cached: None }
    }

    /// - `cached`: US dollars per million cached tokens of a prompt; the input price if there is none.
    #[must_use]
    pub fn with_cached(self, cached: Option<f64>) -> Self {
        Self { cached: cached.map(per_token), ..self }
    }

    /// The cost of a call with the parts of its prompt that the server reported as cached or stored.
    pub fn cost_of_call(&self, usage: &TokenUsage, reported: &ReportedUsage) -> Usd {
        let cached = reported.cached_tokens.unwrap_or_default().min(usage.input_tokens);
        let stored = reported.stored_tokens.unwrap_or_default().min(usage.input_tokens - cached);
        let plain = TokenUsage { input_tokens: usage.input_tokens - cached - stored, ..*usage };
        let stored_price = self.input.saturating_mul(STORED_PERCENT) / 100;
        let parts = [(cached, self.cached.unwrap_or(self.input)), (stored, stored_price)];
        let parts = parts.map(|(tokens, price)| Usd(tokens.saturating_mul(price)));
        parts.into_iter().fold(self.cost(&plain), Usd::plus)
    }

    pub fn cost(&self, usage: &TokenUsage) -> Usd {
        let part = |tokens: u64, price: u64| tokens.saturating_mul(price);
        Usd(part(usage.input_tokens, self.input).saturating_add(part(usage.output_tokens, self.output)))
    }

    /// Output tokens that an amount pays for; `None` when they cost nothing.
    pub fn output_tokens(&self, amount: Usd) -> Option<u64> {
        amount.0.checked_div(self.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input_tokens: u64, output_tokens: u64) -> TokenUsage {
        TokenUsage { input_tokens, output_tokens, estimated: false }
    }

    #[test]
    fn prices_are_exact() {
        let price = TokenPrice::per_million(0.15, 0.6);
        assert_eq!(price.cost(&usage(1_000_000, 0)), Usd::from_dollars(0.15));
        let mut sum = Usd::ZERO;
        (0..1_000_000).for_each(|_| sum += price.cost(&usage(0, 1)));
        assert_eq!(sum, Usd::from_dollars(0.6));
        assert_eq!(price.cost(&usage(u64::MAX, u64::MAX)), Usd(u64::MAX));
    }

    #[test]
    fn cached_and_stored_tokens_have_prices_of_their_own() {
        let price = TokenPrice::per_million(3.0, 15.0).with_cached(Some(0.3));
        let reported = |cached, stored| ReportedUsage {
            cached_tokens: Some(cached),
            stored_tokens: Some(stored),
            ..ReportedUsage::default()
        };
        assert_eq!(price.cost_of_call(&usage(1_000_000, 0), &reported(0, 0)), Usd::from_dollars(3.0));
        assert_eq!(price.cost_of_call(&usage(1_000_000, 0), &reported(1_000_000, 0)), Usd::from_dollars(0.3));
        assert_eq!(price.cost_of_call(&usage(1_000_000, 0), &reported(0, 1_000_000)), Usd::from_dollars(3.75));
        assert_eq!(
            price.cost_of_call(&usage(10, 0), &reported(u64::MAX, u64::MAX)),
            price.cost_of_call(&usage(10, 0), &reported(10, 0))
        );
        let unset = TokenPrice::per_million(3.0, 15.0);
        assert_eq!(unset.cost_of_call(&usage(1_000_000, 0), &reported(1_000_000, 0)), Usd::from_dollars(3.0));
    }
}

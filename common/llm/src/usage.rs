//! Tokens and cost of model calls.

use serde::{Deserialize, Serialize};

/// Tokens of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// The server did not say (all of) it; counted from the text.
    pub estimated: bool,
}

impl Usage {
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// What the server said about tokens; any of it may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SaidUsage {
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
}

/// Parts of a US dollar in one: prices of a token are whole numbers of them, so sums are exact in any order.
const PARTS: f64 = 1e12;
/// Tokens that prices are for.
const MILLION: f64 = 1e6;

/// An amount of US dollars, in millionths of a millionth; at most about 18 million dollars.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd(u64);

impl Usd {
    pub const ZERO: Self = Self(0);

    /// Negative and absurd amounts become the nearest that there is.
    pub fn from_dollars(dollars: f64) -> Self {
        Self((dollars * PARTS).round() as u64)
    }

    pub fn dollars(self) -> f64 {
        self.0 as f64 / PARTS
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Never below nothing.
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
    /// Dollars, as a number.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self::from_dollars)
    }
}

/// What a model costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    input: u64,
    output: u64,
}

impl Price {
    /// - `input`, `output`: US dollars for a million tokens, exact to a millionth of a dollar.
    pub fn per_million(input: f64, output: f64) -> Self {
        let part = |dollars: f64| (dollars * PARTS / MILLION).round() as u64;
        Self { input: part(input), output: part(output) }
    }

    pub fn of(&self, usage: &Usage) -> Usd {
        let part = |tokens: u64, price: u64| tokens.saturating_mul(price);
        Usd(part(usage.input_tokens, self.input).saturating_add(part(usage.output_tokens, self.output)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_exact() {
        let price = Price::per_million(0.15, 0.6);
        assert_eq!(price.of(&usage(1_000_000, 0)), Usd::from_dollars(0.15));
        let mut sum = Usd::ZERO;
        (0..1_000_000).for_each(|_| sum += price.of(&usage(0, 1)));
        assert_eq!(sum, Usd::from_dollars(0.6));
        assert_eq!(price.of(&usage(u64::MAX, u64::MAX)), Usd(u64::MAX));
    }
}

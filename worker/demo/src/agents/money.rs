//! Amounts of money in cents, so that sums are exact.

use goalmill_common::number::whole_i64;
use serde_json::Value;

/// US cents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cents(pub i64);

impl Cents {
    /// From dollars, rounded and clamped.
    pub fn of_dollars(dollars: f64) -> Self {
        Self(whole_i64((dollars * 100.0).round().clamp(-1e15, 1e15)))
    }

    pub fn times(self, n: u32) -> Self {
        Self(self.0.saturating_mul(i64::from(n)))
    }

    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// As a JSON number of dollars.
    pub fn dollars(self) -> Value {
        (self.0 as f64 / 100.0).into()
    }
}

impl std::iter::Sum for Cents {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), Self::plus)
    }
}

impl std::fmt::Display for Cents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let cents = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:02}", cents / 100, cents % 100)
    }
}

//! The budget of a plan, what it has used up, and its priority.

use serde::{Deserialize, Serialize};

/// Largest amount of US dollars that an answer, a budget or a sum may have.
pub const COST_MAX: f64 = 1e15;
/// Most tokens that an answer or a sum may have.
pub const TOKENS_MAX: u64 = 1_000_000_000_000_000;

/// 1 (last) to 10 (first); 5 by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Priority(#[schemars(range(min = 1, max = 10))] pub u8);

impl Default for Priority {
    fn default() -> Self {
        Self(5)
    }
}

/// What a plan may use up; a missing limit is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Tokens of language models, prompts and answers together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// From acceptance to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

impl Budget {
    /// Whether there is no limit at all.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// What was used up so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Usage {
    /// Tokens of language models, prompts and answers together.
    pub tokens: u64,
    /// US dollars.
    pub cost: f64,
}

impl Usage {
    /// Adds what was used up; a sum stays a number, and ends at the largest one that is kept.
    pub fn add(&mut self, cost: f64, tokens: u64) {
        self.cost = bounded(bounded(self.cost) + bounded(cost));
        self.tokens = self.tokens.saturating_add(tokens);
    }

    /// The same with a cost that is a number, not negative and not over the largest one that is kept.
    #[must_use]
    pub fn bounded(self) -> Self {
        Self { cost: bounded(self.cost), ..self }
    }
}

fn bounded(cost: f64) -> f64 {
    if cost.is_nan() { 0.0 } else { cost.clamp(0.0, COST_MAX) }
}

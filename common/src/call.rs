//! A finished call of a step: of a model, a tool, or anything else that costs money or has effects.

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::json::Json;
use crate::report::TokenSplit;

/// A finished call, as a worker reports it and as the next attempt of the step gets it back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RecordedCall {
    /// Counted from 1 over the step's whole life.
    pub n: u32,
    /// What was called: the next attempt gets the outcome back if its call `n` has the same name.
    pub name: String,
    /// What came of it. May be `{"$blob": "<key>"}` when large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Json>,
    /// The error that came of it instead, when it is final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// US dollars.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost: f64,
    /// Tokens of language models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenSplit>,
    /// When it began, Unix milliseconds by the worker's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<u64>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_ms: Option<u64>,
}

fn is_zero(cost: &f64) -> bool {
    *cost == 0.0
}

impl RecordedCall {
    /// Bytes that it takes in the log and in tasks, without its fixed parts.
    pub fn bytes(&self) -> usize {
        let error = self.error.as_ref().map_or(0, |error| error.message.len() + error.code.len());
        self.name.len() + self.outcome.as_ref().map_or(0, |outcome| outcome.text().len()) + error
    }

    /// Tokens of prompts and answers together.
    pub fn tokens(&self) -> u64 {
        self.usage.map_or(0, TokenSplit::sum)
    }
}

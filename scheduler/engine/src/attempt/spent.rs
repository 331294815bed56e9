//! What an attempt took: time, tokens and money.

use goalmill_common::event::StepCompleted;
use goalmill_common::goal::Usage;
use goalmill_common::report::{Report, TokenSplit};

/// What an attempt took, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spent {
    /// US dollars.
    pub(crate) cost: f64,
    pub(crate) tokens: u64,
    pub(crate) split: Option<TokenSplit>,
    pub(crate) duration_ms: Option<u64>,
}

impl Spent {
    /// What a report says; invalid numbers count as 0.
    ///
    /// - `started_ms`: when the attempt began by its worker's clock, Unix milliseconds; 0 when that is not known.
    pub(crate) fn of_report(report: &Report, started_ms: u64) -> Self {
        let split = report.usage.filter(|split| *split != TokenSplit::default());
        let tokens = report.tokens.or(split.map(TokenSplit::sum)).unwrap_or(0);
        let cost = report.cost.filter(|_| foreign_cost(report).is_none()).unwrap_or(0.0);
        let usage = Usage { cost, tokens }.bounded();
        let started_ms = report.started_ms.or((started_ms > 0).then_some(started_ms));
        let duration_ms = report.finished_ms.zip(started_ms).map(|(end, start)| end.saturating_sub(start));
        Self { cost: usage.cost, tokens: usage.tokens, split, duration_ms }
    }

    /// What a completion took.
    pub(crate) fn from_completed(completed: &StepCompleted) -> Self {
        let StepCompleted { cost, tokens, usage: split, duration_ms, .. } = *completed;
        Self { cost, tokens, split, duration_ms }
    }

    /// A completion that took this much, without outputs.
    pub(crate) fn into_completed(self) -> StepCompleted {
        let Self { cost, tokens, split: usage, duration_ms } = self;
        StepCompleted { cost, tokens, usage, duration_ms, ..StepCompleted::default() }
    }
}

/// The reported cost in another currency than the US dollar.
pub(crate) fn foreign_cost(report: &Report) -> Option<(&str, f64)> {
    let is_code = |code: &&str| code.len() == 3 && code.bytes().all(|b| b.is_ascii_alphabetic());
    let currency = report.currency.as_deref().filter(is_code).filter(|code| !code.eq_ignore_ascii_case("USD"))?;
    Some((currency, report.cost?))
}

pub(crate) fn bounded_cost(cost: f64) -> f64 {
    Usage { cost, tokens: 0 }.bounded().cost
}

//! Success rates of a model with exponential decay. Pure: the caller passes the time.

use serde::Serialize;

/// Half-life of an observation, in milliseconds.
const HALF_LIFE_MS: f64 = 1_800_000.0;
/// Good calls that a new model is assumed to have made.
const PRIOR_SUCCESSES: f64 = 2.0;

/// How usable a completion was, as its caller reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionOutcome {
    /// Parsed and valid.
    Valid,
    /// Parsed and invalid.
    Invalid,
    /// Cut off at its limit of tokens. That says nothing of the form that was asked for.
    Truncated,
    Unparseable,
}

impl CompletionOutcome {
    /// The word used as a label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Invalid => "invalid",
            Self::Truncated => "truncated",
            Self::Unparseable => "unparseable",
        }
    }
}

/// A sum with exponential decay.
#[derive(Clone, Copy, Debug, Default)]
struct DecayingRate {
    good: f64,
    all: f64,
    at_ms: u64,
}

impl DecayingRate {
    /// Adds one observation; `good` is 0 to 1, or a quantity.
    fn add(&mut self, good: f64, now_ms: u64) {
        let decay = self.decay(now_ms);
        *self = Self { good: self.good * decay + good, all: self.all * decay + 1.0, at_ms: now_ms.max(self.at_ms) };
    }

    /// The share of good observations, 0 to 1.
    fn share(&self, now_ms: u64) -> f64 {
        let decay = self.decay(now_ms);
        (self.good * decay + PRIOR_SUCCESSES) / (self.all * decay + PRIOR_SUCCESSES)
    }

    fn mean(&self) -> f64 {
        if self.all > 0.0 { self.good / self.all } else { 0.0 }
    }

    fn decay(&self, now_ms: u64) -> f64 {
        0.5_f64.powf(now_ms.saturating_sub(self.at_ms) as f64 / HALF_LIFE_MS)
    }
}

/// Observations of one model.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelHistory {
    answered: DecayingRate,
    readable: DecayingRate,
    valid: DecayingRate,
    latency_ms: DecayingRate,
}

impl ModelHistory {
    pub fn record_success(&mut self, latency_ms: u64, now_ms: u64) {
        self.answered.add(1.0, now_ms);
        self.latency_ms.add(latency_ms as f64, now_ms);
    }

    pub fn record_failure(&mut self, now_ms: u64) {
        self.answered.add(0.0, now_ms);
    }

    pub fn record_outcome(&mut self, outcome: CompletionOutcome, now_ms: u64) {
        let (readable, valid) = match outcome {
            CompletionOutcome::Valid => (1.0, Some(1.0)),
            CompletionOutcome::Invalid | CompletionOutcome::Truncated => (1.0, Some(0.0)),
            CompletionOutcome::Unparseable => (0.0, None),
        };
        self.readable.add(readable, now_ms);
        if let Some(valid) = valid {
            self.valid.add(valid, now_ms);
        }
    }

    /// Number of calls, with decay.
    pub fn weight(&self, now_ms: u64) -> f64 {
        self.answered.all * self.answered.decay(now_ms)
    }

    pub fn rates(&self, now_ms: u64) -> ModelRates {
        ModelRates {
            success: self.answered.share(now_ms),
            readable: self.readable.share(now_ms),
            valid: self.valid.share(now_ms),
            latency_ms: self.latency_ms.mean(),
        }
    }
}

/// Current rates of a model, each 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ModelRates {
    /// Calls that returned a completion.
    pub success: f64,
    /// Completions that could be parsed.
    pub readable: f64,
    /// Parsed completions that were valid.
    pub valid: f64,
    /// Mean latency in milliseconds; 0 before the first completion.
    pub latency_ms: f64,
}

impl ModelRates {
    /// The chance that a call returns a valid completion.
    pub fn usable(&self) -> f64 {
        self.success * self.readable * self.valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_observations_and_decay() {
        let mut history = ModelHistory::default();
        assert_eq!(history.rates(0).usable(), 1.0);
        (0..8).for_each(|_| history.record_failure(0));
        let bad = history.rates(0).success;
        assert_eq!(bad, 0.2);
        assert!(history.rates(3_600_000).success > bad);
        history.record_success(100, 0);
        history.record_success(300, 0);
        assert_eq!(history.rates(0).latency_ms, 200.0);
        history.record_outcome(CompletionOutcome::Unparseable, 0);
        history.record_outcome(CompletionOutcome::Invalid, 0);
        let rates = history.rates(0);
        assert_eq!((rates.readable, rates.valid), (3.0 / 4.0, 2.0 / 3.0));
    }
}

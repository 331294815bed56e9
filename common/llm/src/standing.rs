//! How well a model does: rates that forget. Pure: the caller has the clock.

use serde::Serialize;

/// After this long, what was seen weighs half as much. Milliseconds.
const HALF_LIFE_MS: f64 = 1_800_000.0;
/// A model that was never asked counts as if it had done well so many times.
const BENEFIT_OF_DOUBT: f64 = 2.0;

/// What came of an answer, as the one who read it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It could be read, and was valid.
    Valid,
    /// It could be read, and was not valid.
    Invalid,
    /// It could not be read.
    Unreadable,
}

/// A sum that forgets.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    good: f64,
    all: f64,
    at_ms: u64,
}

impl Rate {
    /// Counts one more, `good` of which (0 to 1, or a quantity) counts.
    fn count(&mut self, good: f64, now_ms: u64) {
        let kept = self.kept(now_ms);
        *self = Self { good: self.good * kept + good, all: self.all * kept + 1.0, at_ms: now_ms.max(self.at_ms) };
    }

    /// The share of good ones, 0 to 1.
    fn share(&self, now_ms: u64) -> f64 {
        let kept = self.kept(now_ms);
        (self.good * kept + BENEFIT_OF_DOUBT) / (self.all * kept + BENEFIT_OF_DOUBT)
    }

    fn mean(&self) -> f64 {
        if self.all > 0.0 { self.good / self.all } else { 0.0 }
    }

    fn kept(&self, now_ms: u64) -> f64 {
        0.5_f64.powf(now_ms.saturating_sub(self.at_ms) as f64 / HALF_LIFE_MS)
    }
}

/// What is known of one model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record {
    answered: Rate,
    readable: Rate,
    valid: Rate,
    latency_ms: Rate,
}

impl Record {
    pub fn answered(&mut self, latency_ms: u64, now_ms: u64) {
        self.answered.count(1.0, now_ms);
        self.latency_ms.count(latency_ms as f64, now_ms);
    }

    pub fn failed(&mut self, now_ms: u64) {
        self.answered.count(0.0, now_ms);
    }

    pub fn learn(&mut self, outcome: Outcome, now_ms: u64) {
        let (readable, valid) = match outcome {
            Outcome::Valid => (1.0, Some(1.0)),
            Outcome::Invalid => (1.0, Some(0.0)),
            Outcome::Unreadable => (0.0, None),
        };
        self.readable.count(readable, now_ms);
        if let Some(valid) = valid {
            self.valid.count(valid, now_ms);
        }
    }

    /// How much is known: calls, less those that are forgotten.
    pub fn weight(&self, now_ms: u64) -> f64 {
        self.answered.all * self.answered.kept(now_ms)
    }

    pub fn rates(&self, now_ms: u64) -> Rates {
        Rates {
            success: self.answered.share(now_ms),
            readable: self.readable.share(now_ms),
            valid: self.valid.share(now_ms),
            latency_ms: self.latency_ms.mean(),
        }
    }
}

/// The live rates of a model, each 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Calls that were answered.
    pub success: f64,
    /// Answers that could be read.
    pub readable: f64,
    /// Answers that were valid, of those that could be read.
    pub valid: f64,
    /// Mean milliseconds of an answer; 0 as long as there is none.
    pub latency_ms: f64,
}

impl Rates {
    /// The chance that a call gives something of use.
    pub fn usable(&self) -> f64 {
        self.success * self.readable * self.valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_what_happens_and_forget() {
        let mut record = Record::default();
        assert_eq!(record.rates(0).usable(), 1.0);
        (0..8).for_each(|_| record.failed(0));
        let bad = record.rates(0).success;
        assert_eq!(bad, 0.2);
        assert!(record.rates(3_600_000).success > bad);
        record.answered(100, 0);
        record.answered(300, 0);
        assert_eq!(record.rates(0).latency_ms, 200.0);
        record.learn(Outcome::Unreadable, 0);
        record.learn(Outcome::Invalid, 0);
        let rates = record.rates(0);
        assert_eq!((rates.readable, rates.valid), (3.0 / 4.0, 2.0 / 3.0));
    }
}

//! One model: its settings, the way to it, and what is known of it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goalmill_common::clock::Clock;
use goalmill_common::config::ModelSettings;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::breaker::{Admission, Breaker, Closed};
use crate::error::ModelError;
use crate::ladder::{Habits, Ladder, Rung};
use crate::meter;
use crate::secret::Secret;
use crate::standing::{Outcome, Rates, Record};
use crate::usage::Price;
use crate::wire::Wire;

/// One model of the settings.
#[derive(Debug)]
pub struct Model {
    pub settings: ModelSettings,
    pub price: Price,
    pub wire: Wire,
    /// Calls at once.
    pub slots: Semaphore,
    key: Option<Secret>,
    known: Mutex<Known>,
}

/// What was learned of it.
#[derive(Debug, Default)]
pub struct Known {
    pub ladder: Ladder,
    breaker: Breaker,
    record: Record,
}

/// How a model does, for people and for the record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    pub model: String,
    #[serde(flatten)]
    pub rates: Rates,
    /// Calls that the rates come from, less those that are forgotten.
    pub weight: f64,
    /// It is left alone after failures.
    pub is_resting: bool,
    /// Why it cannot be asked at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
}

impl Model {
    pub fn new(settings: ModelSettings, clock: Clock) -> Result<Self, String> {
        let key = match settings.api_key_env.as_str() {
            "" => None,
            name => Secret::from_variable(name),
        };
        let wire = Wire::new(&settings, key.as_ref(), clock)?;
        let price = Price::per_million(settings.input_usd_per_million, settings.output_usd_per_million);
        let slots = Semaphore::new((settings.concurrency as usize).min(Semaphore::MAX_PERMITS));
        meter::circuit(&settings, false);
        Ok(Self { settings, price, wire, slots, key, known: Mutex::default() })
    }

    /// Why it cannot be asked at all.
    pub fn obstacle(&self) -> Option<String> {
        let name = &self.settings.api_key_env;
        (self.key.is_none() && !name.is_empty())
            .then(|| format!("its key is missing: set the environment variable `{name}`"))
    }

    pub fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn habits(&self) -> Habits {
        self.known().ladder.habits
    }

    pub fn rates(&self, now_ms: u64) -> (Rates, f64) {
        let record = self.known().record;
        (record.rates(now_ms), record.weight(now_ms))
    }

    pub fn standing(&self, now_ms: u64) -> Standing {
        let (rates, weight) = self.rates(now_ms);
        let is_resting = self.known().breaker.is_open();
        Standing { model: self.settings.name.clone(), rates, weight, is_resting, obstacle: self.obstacle() }
    }

    pub fn learn(&self, rung: Rung, outcome: Outcome, now_ms: u64) {
        let mut known = self.known();
        known.record.learn(outcome, now_ms);
        known.ladder.read(rung, self.settings.dialect, outcome != Outcome::Unreadable, now_ms);
    }

    /// Whether it may be called.
    pub fn check(&self, now_ms: u64) -> Result<(), Closed> {
        self.known().breaker.check(now_ms)
    }

    /// Asks for leave to call; the verdict is told to the leave.
    pub fn admit(&self, now_ms: u64) -> Result<Leave<'_>, Closed> {
        let admission = self.known().breaker.admit(now_ms)?;
        Ok(Leave { model: self, is_trial: admission == Admission::Trial, sent: None })
    }

    /// The error for a model that may not be called.
    pub fn resting(&self, closed: Closed) -> ModelError {
        let (for_ms, reason) = match closed {
            Closed::Failing { for_ms } => (for_ms, "it failed several times in a row"),
            Closed::Trying => (0, "another call tries whether it is well again"),
            Closed::Asked { for_ms } => (for_ms, "it asked to slow down"),
        };
        ModelError::Resting { model: self.settings.name.clone(), for_ms, reason: reason.into() }
    }

    /// `text` without the key, in one line, cut to a length for people.
    pub fn clean(&self, text: &str) -> String {
        const CHARS: usize = 300;
        let text = self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.redact(text));
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(CHARS) {
            Some((at, _)) => format!("{}…", &line[..at]),
            None => line,
        }
    }

    /// Bytes without the key.
    pub fn clean_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        match &self.key {
            Some(key) => key.redact_bytes(bytes),
            None => bytes,
        }
    }
}

/// A call that is given up so shortly before its time is over, or later, was too slow.
const SLACK: Duration = Duration::from_secs(1);

/// Leave for one call. Dropped without a verdict, it leaves no trace, unless its time was over.
pub struct Leave<'a> {
    model: &'a Model,
    is_trial: bool,
    /// Until when whoever asks waits for the call that was sent.
    sent: Option<(&'a Clock, Instant)>,
}

impl<'a> Leave<'a> {
    /// The call is on its way.
    ///
    /// - `until`: when whoever asks stops waiting.
    pub fn sent(&mut self, clock: &'a Clock, until: Option<Instant>) {
        self.sent = until.map(|until| (clock, until));
    }

    /// The model answered.
    pub fn answered(mut self, latency_ms: u64, now_ms: u64) {
        self.settle(|known| {
            known.breaker.succeed();
            known.record.answered(latency_ms, now_ms);
        });
    }

    /// The model is there, and refuses this request.
    pub fn refused(mut self) {
        self.settle(|known| known.breaker.succeed());
    }

    /// The model failed, or cannot be used at all.
    pub fn failed(mut self, now_ms: u64) {
        self.fail(now_ms);
    }

    fn fail(&mut self, now_ms: u64) {
        let settings = &self.model.settings;
        let (failures, open_ms) = (settings.breaker_failures, settings.breaker_open_ms);
        self.settle(|known| {
            known.breaker.fail(now_ms, failures, open_ms);
            known.record.failed(now_ms);
        });
    }

    /// The model asks for silence until then.
    pub fn throttled(mut self, until_ms: Option<u64>) {
        meter::throttled(&self.model.settings);
        self.settle(|known| {
            known.breaker.let_go();
            if let Some(until_ms) = until_ms {
                known.breaker.rest(until_ms);
            }
        });
    }

    fn settle(&mut self, tell: impl FnOnce(&mut Known)) {
        (self.is_trial, self.sent) = (false, None);
        let mut known = self.model.known();
        let was_open = known.breaker.is_open();
        tell(&mut known);
        let is_open = known.breaker.is_open();
        drop(known);
        if was_open != is_open {
            let name = &self.model.settings.name;
            meter::circuit(&self.model.settings, is_open);
            if is_open {
                tracing::warn!(model = name, "model `{name}` failed several times in a row and is left alone");
            } else {
                tracing::info!(model = name, "model `{name}` answers again");
            }
        }
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        // A model that is silent for that long would be asked first again otherwise.
        if let Some((clock, until)) = self.sent
            && Instant::now() + SLACK >= until
        {
            self.fail(clock.now_ms());
        } else if self.is_trial {
            self.model.known().breaker.let_go();
        }
    }
}

//! One question's way through rungs and retries.

use std::time::Duration;

use goalmill_common::clock::Clock;
use goalmill_common::plan::{Jitter, Retry};
use goalmill_common::random::Random;
use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, timeout};

use crate::answer::{Answer, Delta, Finish, Raw, Try};
use crate::ask::Ask;
use crate::breaker::Closed;
use crate::dialect::Request;
use crate::error::{ModelError, Wait};
use crate::ladder::{Rung, may_be_about_form};
use crate::meter;
use crate::model::{Leave, Model};
use crate::tally::Tally;
use crate::tokens;
use crate::usage::{Usage, Usd};
use crate::wire::{ANSWER_BYTES_MAX, Came, Fault, Sink};

/// Waits between calls that failed: full jitter, doubling from half a second.
const BACKOFF: Retry = Retry { max: 0, initial_ms: 500, factor: 2.0, max_ms: 8_000, jitter: Jitter::Full };
/// The longest silence that a server may ask for: an hour, in milliseconds.
const SILENCE_MS_MAX: u64 = 3_600_000;
/// Characters of something unreadable that an error shows.
const SHOWN_CHARS: usize = 4_096;

/// As long as there is another one to go to, one model gets so many quarters of the time that is left at least …
const QUARTERS_MIN: u32 = 2;
/// … and so many at most …
const QUARTERS_MAX: u32 = 3;
/// … within these, so many times what its answers usually take.
const PATIENCE: u32 = 2;

/// A question under way.
pub struct Run<'a> {
    ask: &'a Ask,
    sink: Option<&'a Sink>,
    clock: &'a Clock,
    random: &'a Random,
    begun: Instant,
    /// Another model may be asked after this one.
    has_next: bool,
    tries: Vec<Try>,
    has_written: bool,
}

impl<'a> Run<'a> {
    pub fn new(ask: &'a Ask, sink: Option<&'a Sink>, clock: &'a Clock, random: &'a Random) -> Self {
        Self { ask, sink, clock, random, begun: Instant::now(), has_next: false, tries: Vec::new(), has_written: false }
    }

    /// Whether a part of an answer was passed on: then nothing may be tried again.
    pub fn has_written(&self) -> bool {
        self.has_written
    }

    /// Asks one model, from the rung that it is known to take downwards.
    ///
    /// - `has_next`: another one may be asked after it.
    pub async fn ask_model(&mut self, model: &Model, has_next: bool) -> Result<Answer, ModelError> {
        self.has_next = has_next;
        let dialect = model.settings.dialect;
        let rungs = model.known().ladder.rungs(&self.ask.want, dialect, self.clock.now_ms());
        let mut first_refusal = None;
        let mut at = 0;
        loop {
            let (status, refusal) = match self.ask_with_retries(model, rungs[at]).await {
                Ok(answer) => {
                    if at > 0 {
                        model.known().ladder.settle_on(&self.ask.want, rungs[at], self.clock.now_ms());
                    }
                    return Ok(answer);
                }
                Err(ModelError::Refused { status, model, reason }) if !self.has_written => {
                    (status, ModelError::Refused { status, model, reason })
                }
                Err(error) => return Err(error),
            };
            if !may_be_about_form(status, &refusal.to_string()) {
                return Err(refusal);
            }
            if let Some(habits) = model.habits().after(&refusal.to_string()) {
                model.known().ladder.habits = habits;
                continue;
            }
            let first = first_refusal.get_or_insert(refusal);
            at += 1;
            if at == rungs.len() {
                return Err(first.clone());
            }
        }
    }

    async fn ask_with_retries(&mut self, model: &Model, rung: Rung) -> Result<Answer, ModelError> {
        let mut attempt = 1;
        loop {
            let error = match self.ask_once(model, rung).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let goes_on = self.has_next && matches!(error, ModelError::Timeout { .. });
            let is_last = attempt > model.settings.retries || !error.is_retryable() || self.has_written || goes_on;
            let Some(wait_ms) = (!is_last).then(|| self.wait_ms(model, &error, attempt)).flatten() else {
                return Err(error);
            };
            let now_ms = self.clock.now_ms();
            if matches!(model.check(now_ms.saturating_add(wait_ms)), Err(Closed::Failing { .. } | Closed::Trying)) {
                return Err(error);
            }
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            attempt += 1;
        }
    }

    /// How long to wait before the next try; `None` when that is too long.
    fn wait_ms(&self, model: &Model, error: &ModelError, attempt: u32) -> Option<u64> {
        let backoff = BACKOFF.wait_ms(attempt, self.random.draw());
        let wait_ms = match error {
            ModelError::RateLimited { retry_after_ms: Some(asked), .. } => {
                asked.saturating_add(self.random.below(BACKOFF.initial_ms / 5))
            }
            _ => backoff,
        };
        let is_asked = matches!(error, ModelError::RateLimited { retry_after_ms: Some(asked), .. }
            if *asked > model.settings.retry_after_ms_max);
        (!is_asked && self.has_time(model, wait_ms)).then_some(wait_ms)
    }

    /// When the time for everything is over.
    fn end(&self) -> Option<Instant> {
        let limit = self.ask.timeout_ms.and_then(|ms| self.begun.checked_add(Duration::from_millis(ms)));
        limit.into_iter().chain(self.ask.until).min()
    }

    /// What is left of it.
    fn left(&self) -> Option<Duration> {
        self.end().map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// How long the model may take, so that something is left for the next one; the last one may take everything.
    fn share(&self, model: &Model) -> Option<Duration> {
        let left = self.left().filter(|_| self.has_next)?;
        let (rates, _) = model.rates(self.clock.now_ms());
        Some(share(left, Duration::from_millis(rates.latency_ms as u64)))
    }

    fn has_time(&self, model: &Model, wait_ms: u64) -> bool {
        self.share(model).or_else(|| self.left()).is_none_or(|time| wait_ms < millis(time))
    }

    async fn ask_once(&mut self, model: &Model, rung: Rung) -> Result<Answer, ModelError> {
        let name = &model.settings.name;
        let _slot = self.slot(model).await?;
        let mut leave = self.leave(model).await?;
        let output_max = self.ask.output_tokens_max.unwrap_or(model.settings.output_tokens_max);
        let most = tokens::most(self.ask, output_max);
        let reservation = self.ask.purse.reserve(&most, model.price.of(&most));
        let reservation = reservation.map_err(|refused| ModelError::OverBudget { model: name.clone(), refused })?;
        let mut tally = Tally::new(reservation, model.price, most.input_tokens);
        let stream = self.ask.stream || self.sink.is_some();
        let request = Request { model: &model.settings, ask: self.ask, rung, habits: model.habits(), stream };
        if let Some(sink) = self.sink {
            sink.send(Delta::Begun { model: name.clone(), rung }).await.ok();
        }
        let mut came = Came::default();
        let begun = Instant::now();
        leave.sent(self.clock, self.end());
        let result = model.wire.call(&request, self.share(model), &mut came, &mut tally, self.sink).await;
        let latency = begun.elapsed();
        let has_content = came.collected.has_content();
        self.has_written |= self.sink.is_some() && has_content;
        let (usage, cost) = match &result {
            Err(Fault::Unreachable(_)) => tally.unsent(),
            Err(Fault::Said { .. }) if !has_content => tally.refused(),
            Ok(()) | Err(_) => tally.settle(&came.collected.usage),
        };
        let mut answer = self.answer(model, rung, came, usage, cost);
        let judged = result.map_err(|fault| error(model, fault, &answer, has_content));
        judge(leave, judged.as_ref().err(), latency, self.clock.now_ms());
        let made = Try {
            model: name.clone(),
            rung,
            error: judged.as_ref().err().map(|error| error.code().to_owned()),
            latency_ms: millis(latency),
            usage,
            cost,
        };
        meter::called(&model.settings, self.ask.purpose, &made, latency);
        self.tries.push(made);
        answer.tries.clone_from(&self.tries);
        match judged {
            Ok(()) => Ok(answer),
            Err(ModelError::BrokenOff { model, reason, .. }) => {
                answer.finish = Finish::BrokenOff;
                Err(ModelError::BrokenOff { model, reason, partial: Box::new(answer) })
            }
            Err(error) => Err(error),
        }
    }

    async fn slot<'m>(&self, model: &'m Model) -> Result<SemaphorePermit<'m>, ModelError> {
        let acquired = match self.share(model) {
            Some(share) => timeout(share, model.slots.acquire()).await.map_err(|_| ModelError::Timeout {
                model: model.settings.name.clone(),
                wait: Wait::Slot,
                limit_ms: millis(share),
            })?,
            None => model.slots.acquire().await,
        };
        // The semaphore is never closed.
        acquired.map_err(|_| ModelError::Cancelled)
    }

    /// Leave to call; waits for a model that asked for a short silence.
    async fn leave<'m>(&self, model: &'m Model) -> Result<Leave<'m>, ModelError> {
        loop {
            match model.admit(self.clock.now_ms()) {
                Ok(leave) => return Ok(leave),
                Err(Closed::Asked { for_ms })
                    if for_ms <= model.settings.retry_after_ms_max && self.has_time(model, for_ms) =>
                {
                    tokio::time::sleep(Duration::from_millis(for_ms)).await;
                }
                Err(closed) => return Err(model.resting(closed)),
            }
        }
    }

    fn answer(&self, model: &Model, rung: Rung, came: Came, usage: Usage, cost: Usd) -> Answer {
        let Came { collected, raw } = came;
        let tool_calls = collected.tool_calls();
        Answer {
            text: collected.text,
            tool_calls,
            thinking: collected.thinking,
            refusal: collected.refusal,
            finish: collected.finish.unwrap_or_default(),
            usage,
            cost,
            model: model.settings.name.clone(),
            served_by: collected.served_by,
            rung,
            raw: Raw { bytes: model.clean_bytes(raw.bytes), total: raw.total },
            latency_ms: millis(self.begun.elapsed()),
            tries: Vec::new(),
        }
    }
}

/// How long a model may take of the time that is left, as long as there is another one to go to.
///
/// One that hangs must leave time for the next one; one that is merely slow, and is known to answer, would be cut each
/// time by a fixed part.
///
/// - `usual`: what its answers take on average; zero when it has not answered yet.
fn share(left: Duration, usual: Duration) -> Duration {
    let quarters = |count| left / 4 * count;
    let (least, most) = (quarters(QUARTERS_MIN), quarters(QUARTERS_MAX));
    // What cannot come in time is not waited for longer than what is not known.
    if usual > most { least } else { usual.saturating_mul(PATIENCE).clamp(least, most) }
}

/// The error that a fault is, seen from outside.
fn error(model: &Model, fault: Fault, came: &Answer, has_content: bool) -> ModelError {
    let name = model.settings.name.clone();
    match fault {
        Fault::TooLarge => ModelError::TooLarge { model: name, limit: ANSWER_BYTES_MAX },
        fault if has_content => ModelError::BrokenOff {
            model: name,
            reason: model.clean(&in_words(fault)),
            partial: Box::new(came.clone()),
        },
        Fault::Timeout { wait, limit_ms } => ModelError::Timeout { model: name, wait, limit_ms },
        Fault::Garbage(reason) => {
            let raw = came.raw.text().chars().take(SHOWN_CHARS).collect();
            ModelError::BadResponse { model: name, reason: model.clean(&reason), raw }
        }
        Fault::Unreachable(reason) | Fault::Cut(reason) => {
            ModelError::Unreachable { model: name, reason: model.clean(&reason) }
        }
        Fault::Said { status, said, retry_after_ms } => {
            let reason = model.clean(&said.message);
            let is_out_of_money = said.code.contains("insufficient_quota");
            match status {
                429 if !is_out_of_money => ModelError::RateLimited { model: name, reason, retry_after_ms },
                503 if retry_after_ms.is_some() => ModelError::RateLimited { model: name, reason, retry_after_ms },
                408 | 425 | 500..=599 if status != 501 => ModelError::Failed { model: name, status, reason },
                _ => ModelError::Refused { model: name, status, reason },
            }
        }
    }
}

fn in_words(fault: Fault) -> String {
    match fault {
        Fault::Unreachable(reason) | Fault::Garbage(reason) | Fault::Cut(reason) => reason,
        Fault::Timeout { wait, limit_ms } => format!("{wait} within {limit_ms} ms"),
        Fault::Said { said, .. } => said.message,
        Fault::TooLarge => "it is too large".into(),
    }
}

/// Tells the model's record what came of the call.
fn judge(leave: Leave<'_>, error: Option<&ModelError>, latency: Duration, now_ms: u64) {
    match error {
        None => leave.answered(millis(latency), now_ms),
        Some(ModelError::RateLimited { retry_after_ms, .. }) => {
            let until_ms = retry_after_ms.map(|ms| now_ms.saturating_add(ms.min(SILENCE_MS_MAX)));
            leave.throttled(until_ms);
        }
        // The key, the address or the model's name is wrong: so will be every other call.
        Some(ModelError::Refused { status: 401..=405 | 429, .. }) => leave.failed(now_ms),
        Some(ModelError::Refused { .. }) => leave.refused(),
        Some(_) => leave.failed(now_ms),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use goalmill_common::config::ModelSettings;

    use super::*;
    use crate::ask::Want;

    #[test]
    fn a_model_gets_half_of_the_time_or_what_it_is_known_to_need() {
        let share = |left, usual| share(Duration::from_secs(left), Duration::from_secs(usual)).as_secs();
        assert_eq!(share(30, 0), 15, "nothing is known");
        assert_eq!(share(30, 2), 15, "a quick one that takes longer hangs");
        assert_eq!(share(40, 12), 24);
        assert_eq!(share(40, 29), 30, "a quarter is left for the next one, should it hang");
        assert_eq!(share(40, 31), 20, "it would be cut in any case");
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_answers_of_a_model_took_counts_for_the_next_call() {
        let (clock, random) = (Clock::system(), Random::seeded(1));
        let base_url = "http://127.0.0.1:1".into();
        let settings = ModelSettings { name: "slow".into(), base_url, ..ModelSettings::default() };
        let model = Model::new(settings, clock.clone()).expect("the settings are valid");
        let until = Instant::now().checked_add(Duration::from_secs(40));
        let ask = Ask { until, ..Ask::new(Vec::new(), Want::Text) };
        let mut run = Run::new(&ask, None, &clock, &random);
        assert_eq!(run.share(&model), None, "the last model may take everything");
        run.has_next = true;
        assert_eq!(run.share(&model), Some(Duration::from_secs(20)));
        model.admit(clock.now_ms()).expect("it is well").answered(20_000, clock.now_ms());
        assert_eq!(run.share(&model), Some(Duration::from_secs(30)));
    }
}

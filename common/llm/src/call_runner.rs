//! Runs one request: response modes, retries and timeouts for each model.

use std::time::Duration;

use goalmill_common::clock::Clock;
use goalmill_common::number::{milliseconds, whole_u64};
use goalmill_common::plan::{Jitter, Retry};
use goalmill_common::random::Random;
use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, timeout};

use crate::answer_schema::SchemaForm;
use crate::call_metrics;
use crate::circuit_breaker::Unavailable;
use crate::completion::{CallAttempt, Completion, FinishReason, RawResponse};
use crate::completion_delta::CompletionDelta;
use crate::error::{ModelError, WaitPhase};
use crate::fallback_modes::is_format_rejection;
use crate::message::ProviderFields;
use crate::model::{CallPermit, Model};
use crate::provider::{self, ProviderRequest};
use crate::provider_client::{CallError, DeltaSender, RESPONSE_BYTES_MAX, ReceivedResponse};
use crate::request::{CompletionRequest, Purpose};
use crate::response_mode::ResponseMode;
use crate::usage::{TokenUsage, Usd};
use crate::usage_meter::UsageMeter;

/// Delay between retries: full jitter, doubling from half a second.
const BACKOFF: Retry = Retry { max: 0, initial_ms: 500, factor: 2.0, max_ms: 8_000, jitter: Jitter::Full };
/// What a wait counts at the least, so that a server that asks for no time is not asked for ever.
const WAIT_MS_MIN: u64 = 100;
/// Time over which the ends of waits are spread, in milliseconds: half of the wait, within these limits.
const SPREAD_MS_MIN: u64 = 100;
const SPREAD_MS_MAX: u64 = 30_000;
/// Characters of an invalid response that an error contains.
const RAW_CHARS_MAX: usize = 4_096;

/// Minimum share of the remaining time for a model that is not the last, in quarters.
const QUARTERS_MIN: u32 = 2;
/// Maximum share of the remaining time for a model that is not the last, in quarters.
const QUARTERS_MAX: u32 = 3;
/// Time limit of such a model as a multiple of its mean latency, between the two shares.
const LATENCY_FACTOR: u32 = 2;

/// A running request.
pub struct CallRunner<'a> {
    request: &'a CompletionRequest,
    sink: Option<&'a DeltaSender>,
    clock: &'a Clock,
    random: &'a Random,
    started_at: Instant,
    /// Another model may follow the current one.
    has_next: bool,
    attempts: Vec<CallAttempt>,
    has_streamed: bool,
}

impl<'a> CallRunner<'a> {
    pub fn new(
        request: &'a CompletionRequest,
        sink: Option<&'a DeltaSender>,
        clock: &'a Clock,
        random: &'a Random,
    ) -> Self {
        Self {
            request,
            sink,
            clock,
            random,
            started_at: Instant::now(),
            has_next: false,
            attempts: Vec::new(),
            has_streamed: false,
        }
    }

    /// Whether content was passed to the stream; then no retry is allowed.
    pub fn has_streamed(&self) -> bool {
        self.has_streamed
    }

    /// Calls one model, in the modes that it is known to support.
    ///
    /// - `has_next`: another model may follow.
    pub async fn call_model(&mut self, model: &Model, has_next: bool) -> Result<Completion, ModelError> {
        self.has_next = has_next;
        let dialect = model.settings.dialect;
        let modes = model.state().modes.modes(&self.request.format, dialect, self.clock.now_ms());
        let mut first_rejection = None;
        let mut at = 0;
        loop {
            let (status, rejection) = match self.call_with_retries(model, modes[at]).await {
                Ok(answer) => {
                    if at > 0 {
                        model.state().modes.remember_mode(&self.request.format, modes[at], self.clock.now_ms());
                    }
                    return Ok(answer);
                }
                Err(ModelError::Refused { status, model, reason }) if !self.has_streamed => {
                    (status, ModelError::Refused { status, model, reason })
                }
                Err(error) => return Err(error),
            };
            if !is_format_rejection(status, &rejection.to_string()) {
                return Err(rejection);
            }
            let asked = model.max_usage(self.request).output_tokens;
            if let Some(quirks) = model.quirks().learn_from_rejection(&rejection.to_string(), asked) {
                model.learn(quirks);
                continue;
            }
            let first = first_rejection.get_or_insert(rejection);
            at += 1;
            if at == modes.len() {
                return Err(first.clone());
            }
        }
    }

    async fn call_with_retries(&mut self, model: &Model, mode: ResponseMode) -> Result<Completion, ModelError> {
        let (mut attempt, mut limited, mut waited_ms) = (1, 1, 0);
        loop {
            let error = match self.call_once(model, mode).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let tries_next_model = self.has_next && matches!(error, ModelError::Timeout { .. });
            // A server that asks to wait uses no retry, but another model may have time immediately.
            let is_limited = matches!(error, ModelError::RateLimited { .. }) && !self.has_next;
            let is_used_up =
                if is_limited { waited_ms > self.patience_ms(model) } else { attempt > model.settings.retries };
            let tried = if is_limited { limited } else { attempt };
            let is_last = is_used_up || !error.is_retryable() || self.has_streamed || tries_next_model;
            let Some(wait_ms) = (!is_last).then(|| self.retry_delay_ms(model, &error, tried)).flatten() else {
                return Err(error);
            };
            let now_ms = self.clock.now_ms();
            if matches!(
                model.check_available(now_ms.saturating_add(wait_ms)),
                Err(Unavailable::CircuitOpen { .. } | Unavailable::ProbeRunning)
            ) {
                return Err(error);
            }
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            if is_limited {
                limited += 1;
                waited_ms += wait_ms.max(WAIT_MS_MIN);
            } else {
                attempt += 1;
            }
        }
    }

    /// How long a request waits in all because the server asks so, in milliseconds. A step waits without a worker after
    /// that; a planner waits until its deadline unless another model may follow.
    fn patience_ms(&self, model: &Model) -> u64 {
        let waits_here = self.request.purpose != Purpose::Step && !self.has_next;
        let deadline = self.remaining().filter(|_| waits_here).map(milliseconds);
        deadline.unwrap_or(0).max(model.settings.retry_after_ms_max)
    }

    /// Delay before the next retry, in milliseconds; `None` when there is no time for it.
    ///
    /// - `attempt`: how often the call has failed, or has had to wait.
    fn retry_delay_ms(&self, model: &Model, error: &ModelError, attempt: u32) -> Option<u64> {
        let backoff = BACKOFF.wait_ms(attempt, self.random.draw());
        let (wait_ms, is_too_long) = if let ModelError::RateLimited { retry_after_ms: Some(asked), .. } = error {
            (self.spread(*asked), *asked > self.patience_ms(model))
        } else {
            (backoff, false)
        };
        (!is_too_long && self.has_time(model, wait_ms)).then_some(wait_ms)
    }

    /// A wait that ends later than asked, so that requests that wait for the same time do not return together.
    fn spread(&self, asked_ms: u64) -> u64 {
        asked_ms.saturating_add(self.random.below((asked_ms / 2).clamp(SPREAD_MS_MIN, SPREAD_MS_MAX)))
    }

    /// When the request must end.
    fn deadline(&self) -> Option<Instant> {
        let limit = self.request.timeout_ms.and_then(|ms| self.started_at.checked_add(Duration::from_millis(ms)));
        limit.into_iter().chain(self.request.deadline).min()
    }

    /// Time until the deadline.
    fn remaining(&self) -> Option<Duration> {
        self.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Time limit of a model, so that time remains for the next one; the last model has no such limit.
    fn time_share(&self, model: &Model) -> Option<Duration> {
        let remaining = self.remaining().filter(|_| self.has_next)?;
        let (rates, _) = model.rates(self.clock.now_ms());
        Some(time_share(remaining, Duration::from_millis(whole_u64(rates.latency_ms))))
    }

    fn has_time(&self, model: &Model, wait_ms: u64) -> bool {
        self.time_share(model).or_else(|| self.remaining()).is_none_or(|time| wait_ms < milliseconds(time))
    }

    async fn call_once(&mut self, model: &Model, mode: ResponseMode) -> Result<Completion, ModelError> {
        let name = &model.settings.name;
        let _slot = self.acquire_slot(model).await?;
        let schema_form = if mode == ResponseMode::JsonSchema { model.schema_form().await } else { SchemaForm::Prompt };
        let mut permit = self.acquire_permit(model).await?;
        let most = model.max_usage(self.request);
        let reservation = self.request.budget.reserve(&most, model.price.cost(&most));
        let reservation = reservation.map_err(|exceeded| ModelError::OverBudget { model: name.clone(), exceeded })?;
        let progress = self.request.progress.clone();
        if let Some(progress) = &progress {
            progress.begin(name, mode);
        }
        let stream = self.request.stream || self.sink.is_some() || progress.is_some();
        let mut usage_meter = UsageMeter::new(reservation, model.price, most.input_tokens).with_progress(progress);
        let request = ProviderRequest {
            model: &model.settings,
            completion: self.request,
            output_tokens_max: most.output_tokens,
            mode,
            schema_form,
            quirks: model.quirks(),
            stream,
        };
        if let Some(sink) = self.sink {
            sink.send(CompletionDelta::Started { model: name.clone(), mode }).await.ok();
        }
        let mut response = ReceivedResponse::default();
        let started_at = Instant::now();
        permit.record_sent(self.clock, self.deadline());
        let result =
            model.client.call(&request, self.time_share(model), &mut response, &mut usage_meter, self.sink).await;
        let latency = started_at.elapsed();
        let has_content = response.collected.has_content();
        self.has_streamed |= self.sink.is_some() && has_content;
        let (usage, cost) = match &result {
            Err(CallError::Unreachable(_)) => usage_meter.settle_unsent(),
            Err(CallError::Rejected { .. }) if !has_content => usage_meter.settle_rejected(),
            Ok(()) | Err(_) => usage_meter.settle(&response.collected.usage),
        };
        model.record_usage(&usage, cost);
        let mut completion = self.completion(model, mode, response, usage, cost);
        let result = result.map_err(|error| model_error(model, error, &completion, has_content));
        record_result(permit, result.as_ref().err(), latency, self.clock.now_ms());
        let attempt = CallAttempt {
            model: name.clone(),
            mode,
            error: result.as_ref().err().map(|error| error.code().to_owned()),
            latency_ms: milliseconds(latency),
            usage,
            cost,
        };
        call_metrics::record_call(&model.settings, self.request.purpose, &attempt, latency);
        self.attempts.push(attempt);
        completion.attempts.clone_from(&self.attempts);
        ended(model, result, completion)
    }

    async fn acquire_slot<'m>(&self, model: &'m Model) -> Result<SemaphorePermit<'m>, ModelError> {
        let acquired = match self.time_share(model) {
            Some(share) => timeout(share, model.slots.acquire()).await.map_err(|_| ModelError::Timeout {
                model: model.settings.name.clone(),
                wait: WaitPhase::Slot,
                limit_ms: milliseconds(share),
            })?,
            None => model.slots.acquire().await,
        };
        // The semaphore is never closed.
        acquired.map_err(|_| ModelError::Cancelled)
    }

    /// Waits for a permit; a short rate-limit pause is waited for.
    async fn acquire_permit<'m>(&self, model: &'m Model) -> Result<CallPermit<'m>, ModelError> {
        loop {
            match model.admit(self.clock.now_ms()) {
                Ok(permit) => return Ok(permit),
                Err(Unavailable::RateLimited { for_ms })
                    if for_ms <= self.patience_ms(model) && self.has_time(model, for_ms) =>
                {
                    tokio::time::sleep(Duration::from_millis(self.spread(for_ms))).await;
                }
                Err(unavailable) => return Err(model.unavailable_error(unavailable)),
            }
        }
    }

    fn completion(
        &self,
        model: &Model,
        mode: ResponseMode,
        response: ReceivedResponse,
        usage: TokenUsage,
        cost: Usd,
    ) -> Completion {
        let ReceivedResponse { collected, raw } = response;
        let tool_calls = collected.tool_calls();
        let provider_fields = ProviderFields::new(&model.settings.name, collected.provider_fields, &tool_calls);
        Completion {
            text: collected.text,
            tool_calls,
            thinking: collected.thinking,
            provider_fields,
            refusal: collected.refusal,
            finish: collected.finish.unwrap_or_default(),
            usage,
            cost,
            model: model.settings.name.clone(),
            served_by: collected.served_by,
            mode,
            raw: RawResponse { bytes: model.redact_bytes(raw.bytes), total: raw.total },
            latency_ms: milliseconds(self.started_at.elapsed()),
            attempts: Vec::new(),
        }
    }
}

/// Time limit of a model that is not the last.
///
/// A hanging model must leave time for the next one. A fixed share would interrupt a slow but reliable model each time.
///
/// - `latency`: mean latency of the model; zero before its first completion.
fn time_share(remaining: Duration, latency: Duration) -> Duration {
    let quarters = |count| remaining / 4 * count;
    let (min, max) = (quarters(QUARTERS_MIN), quarters(QUARTERS_MAX));
    // A model that cannot finish in time gets no more time than an unknown one.
    if latency > max { min } else { latency.saturating_mul(LATENCY_FACTOR).clamp(min, max) }
}

/// The completion, unless the call failed or the model declined. What came before a break goes with the error.
fn ended(model: &Model, result: Result<(), ModelError>, mut completion: Completion) -> Result<Completion, ModelError> {
    match result {
        Ok(()) => match completion.decline_reason() {
            Some(reason) => {
                Err(ModelError::Declined { model: model.settings.name.clone(), reason: model.sanitize(&reason) })
            }
            None => Ok(completion),
        },
        Err(ModelError::Interrupted { model, reason, .. }) => {
            completion.finish = FinishReason::BrokenOff;
            Err(ModelError::Interrupted { model, reason, partial: Box::new(completion) })
        }
        Err(error) => Err(error),
    }
}

/// Converts the error of a call into the public error.
fn model_error(model: &Model, error: CallError, received: &Completion, has_content: bool) -> ModelError {
    let name = model.settings.name.clone();
    match error {
        CallError::TooLarge => ModelError::TooLarge { model: name, limit: RESPONSE_BYTES_MAX },
        error if has_content => ModelError::Interrupted {
            model: name,
            reason: model.sanitize(&describe(error)),
            partial: Box::new(received.clone()),
        },
        CallError::Timeout { wait, limit_ms } => ModelError::Timeout { model: name, wait, limit_ms },
        CallError::Malformed(reason) => {
            let raw = received.raw.text().chars().take(RAW_CHARS_MAX).collect();
            ModelError::BadResponse { model: name, reason: model.sanitize(&reason), raw }
        }
        CallError::Unreachable(reason) | CallError::Disconnected(reason) => {
            ModelError::Unreachable { model: name, reason: model.sanitize(&reason) }
        }
        CallError::Rejected { status, error, retry_after_ms } => {
            let reason = model.sanitize(&error.message);
            let is_out_of_quota = error.code.contains("insufficient_quota");
            let is_busy =
                retry_after_ms.is_some() || provider::is_overload(&error.code) || provider::is_loading(&error.message);
            match status {
                429 if !is_out_of_quota => ModelError::RateLimited { model: name, reason, retry_after_ms },
                529 => ModelError::RateLimited { model: name, reason, retry_after_ms },
                503 if is_busy => ModelError::RateLimited { model: name, reason, retry_after_ms },
                400..=499 if provider::is_content_filter(&error.code) => ModelError::Declined { model: name, reason },
                408 | 425 | 500..=599 if status != 501 => ModelError::Failed { model: name, status, reason },
                _ => ModelError::Refused { model: name, status, reason },
            }
        }
    }
}

fn describe(error: CallError) -> String {
    match error {
        CallError::Unreachable(reason) | CallError::Malformed(reason) | CallError::Disconnected(reason) => reason,
        CallError::Timeout { wait, limit_ms } => format!("{wait} within {limit_ms} ms"),
        CallError::Rejected { error, .. } => error.message,
        CallError::TooLarge => "the response is too large".into(),
    }
}

/// Records the result of a call in the statistics of the model.
fn record_result(permit: CallPermit<'_>, error: Option<&ModelError>, latency: Duration, now_ms: u64) {
    match error {
        None => permit.record_success(milliseconds(latency), now_ms),
        Some(ModelError::RateLimited { retry_after_ms, .. }) => {
            let until_ms = retry_after_ms.map(|ms| now_ms.saturating_add(ms));
            permit.record_throttled(until_ms);
        }
        // A wrong key, address or model name affects every call.
        Some(ModelError::Refused { status: 401..=405 | 429, .. }) => permit.record_failure(now_ms),
        Some(ModelError::Refused { .. } | ModelError::Declined { .. }) => permit.record_rejection(),
        Some(_) => permit.record_failure(now_ms),
    }
}

#[cfg(test)]
mod tests {
    use goalmill_common::config::ModelSettings;

    use super::*;
    use crate::endpoint::EndpointForms;
    use crate::request::ResponseFormat;

    #[test]
    fn a_model_gets_half_of_the_time_or_twice_its_latency() {
        let share = |left, latency| time_share(Duration::from_secs(left), Duration::from_secs(latency)).as_secs();
        assert_eq!(share(30, 0), 15, "unknown latency");
        assert_eq!(share(30, 2), 15, "minimum share");
        assert_eq!(share(40, 12), 24);
        assert_eq!(share(40, 29), 30, "maximum share");
        assert_eq!(share(40, 31), 20, "too slow to finish in time");
    }

    #[tokio::test(start_paused = true)]
    async fn the_latency_of_a_model_sets_its_next_time_share() {
        let (clock, random) = (Clock::system(), Random::seeded(1));
        let base_url = "http://127.0.0.1:1".into();
        let settings = ModelSettings { name: "slow".into(), base_url, ..ModelSettings::default() };
        let model = Model::new(settings, clock.clone(), EndpointForms::default()).expect("the settings are valid");
        let deadline = Instant::now().checked_add(Duration::from_secs(40));
        let request = CompletionRequest { deadline, ..CompletionRequest::new(Vec::new(), ResponseFormat::Text) };
        let mut runner = CallRunner::new(&request, None, &clock, &random);
        assert_eq!(runner.time_share(&model), None, "the last model has no time share");
        runner.has_next = true;
        assert_eq!(runner.time_share(&model), Some(Duration::from_secs(20)));
        model.admit(clock.now_ms()).expect("the circuit is closed").record_success(20_000, clock.now_ms());
        assert_eq!(runner.time_share(&model), Some(Duration::from_secs(30)));
    }
}

//! Agents for trials and measurements: `sleep`, `echo`, `stamp`, `spend`, `fail`, `flaky`.

use std::time::Duration;

use async_trait::async_trait;
use goalmill_common::agent::Agent;
use goalmill_common::clock::unix_us;
use goalmill_common::constraint::Measures;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::number::whole_u64;
use goalmill_common::task::Task;
use goalmill_worker::executor::{ExecutionResult, Executor, Progress};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Worked, card, count, permanent, text};

/// The longest sleep, in milliseconds: a day.
const SLEEP_MS_MAX: f64 = 86_400_000.0;
/// The last part of a sleep, which is timed exactly.
const FINE: Duration = Duration::from_millis(2);
/// Progress interval of a long sleep, in milliseconds.
const TELL_MS: u64 = 500;

#[derive(Deserialize)]
struct Duration_ {
    ms: Option<f64>,
    seconds: Option<f64>,
}

/// Sleeps for `ms` or `seconds`; a no-op for 0, for measuring overhead.
pub(super) struct Sleep;

#[async_trait]
impl Executor for Sleep {
    async fn execute(
        &self,
        task: &Task,
        progress: &Progress,
        _: &CancellationToken,
    ) -> Result<ExecutionResult, Failure> {
        let wanted: Duration_ = serde_json::from_str(task.inputs.text())
            .map_err(|e| permanent("INPUT_INVALID", format!("`ms` or `seconds` must be a number: {e}")))?;
        let ms = wanted.ms.or(wanted.seconds.map(|s| s * 1_000.0)).unwrap_or(0.0);
        if !(0.0..=SLEEP_MS_MAX).contains(&ms) {
            return Err(permanent("INPUT_INVALID", "the sleep must be between 0 and 86400 seconds"));
        }
        let whole = whole_u64(ms.round());
        if ms > 0.0 {
            doze(Duration::from_micros(whole_u64(ms * 1_000.0)), progress).await;
        }
        Ok(ExecutionResult::new(slept(whole)))
    }

    fn card(&self) -> Option<Agent> {
        card("sleep")
    }

    fn gives_way(&self) -> bool {
        true
    }
}

fn slept(ms: u64) -> Json {
    Json::from_text(format!("{{\"slept_ms\":{ms}}}")).expect("a number in braces is JSON")
}

/// The runtime's timers have a resolution of a millisecond and fire late: the end of a sleep uses the system's timer, so that
/// traces of real workflows keep their proportions when they are scaled down.
async fn doze(whole: Duration, progress: &Progress) {
    let begun = tokio::time::Instant::now();
    loop {
        let left = whole.saturating_sub(begun.elapsed());
        if left <= FINE {
            drop(tokio::task::spawn_blocking(move || std::thread::sleep(left)).await);
            return;
        }
        tokio::time::sleep(left.saturating_sub(FINE).min(Duration::from_millis(TELL_MS))).await;
        let share = begun.elapsed().as_secs_f64() / whole.as_secs_f64();
        progress.update(share.min(1.0), format!("slept {} ms", begun.elapsed().as_millis()));
    }
}

/// A no-op that returns its time in Unix microseconds: `started_us`, `ended_us`.
pub(super) struct Stamp;

#[async_trait]
impl Executor for Stamp {
    async fn execute(&self, _: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        let us = unix_us();
        let text = format!("{{\"started_us\":{us},\"ended_us\":{us}}}");
        Ok(ExecutionResult::new(Json::from_text(text).expect("two numbers in braces are JSON")))
    }

    fn card(&self) -> Option<Agent> {
        card("stamp")
    }

    fn gives_way(&self) -> bool {
        true
    }
}

/// Returns its inputs.
pub(super) struct Echo;

#[async_trait]
impl Executor for Echo {
    async fn execute(&self, task: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        Ok(ExecutionResult::new(task.inputs.clone()))
    }

    fn card(&self) -> Option<Agent> {
        card("echo")
    }

    fn gives_way(&self) -> bool {
        true
    }
}

#[derive(Deserialize)]
#[serde(default)]
struct SpendInputs {
    cost: f64,
    currency: Option<String>,
    tokens: u64,
    measures: Measures,
    outputs: Value,
}

impl Default for SpendInputs {
    fn default() -> Self {
        Self { cost: 0.0, currency: None, tokens: 0, measures: Measures::new(), outputs: json!({}) }
    }
}

/// Reports what its inputs say: `cost`, `currency`, `tokens`, `measures`, `outputs`.
pub(super) struct Spend;

#[async_trait]
impl Executor for Spend {
    async fn execute(&self, task: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        let SpendInputs { cost, currency, tokens, measures, outputs } =
            serde_json::from_str(task.inputs.text()).map_err(|error| permanent("INPUT_INVALID", error.to_string()))?;
        Ok(ExecutionResult { cost, currency, tokens, measures, ..ExecutionResult::new(Json::from(outputs)) })
    }

    fn card(&self) -> Option<Agent> {
        card("spend")
    }

    fn gives_way(&self) -> bool {
        true
    }
}

/// Fails as its inputs say: `class`, `code`, `message`, `retry_after_ms`.
pub(super) fn fail(inputs: &Value, _: u32) -> Worked {
    let class = match text(inputs, &["class"]) {
        None => FailureClass::Permanent,
        Some(name) => serde_json::from_value(name.into())
            .map_err(|_| permanent("INPUT_INVALID", format!("there is no failure class `{name}`")))?,
    };
    let code = text(inputs, &["code"]).unwrap_or("DEMO_FAILURE");
    let message = text(inputs, &["message"]).unwrap_or("it failed as it was told to");
    let retry_after_ms = inputs["retry_after_ms"].as_u64();
    Err(Failure { retry_after_ms, ..Failure::new(class, code, message) })
}

/// Fails the first `failures` attempts (default 1), then succeeds.
pub(super) fn flaky(inputs: &Value, attempt: u32) -> Worked {
    let failures = match super::number(inputs, &["failures", "fail_times"]) {
        Some(n) if n < 1.0 => 0,
        _ => count(inputs, &["failures", "fail_times"], 1, 1_000_000),
    };
    if attempt <= failures {
        let message = format!("attempt {attempt} of {failures} that fail");
        return Err(Failure::new(FailureClass::Transient, "DEMO_FLAKY", message));
    }
    Ok(json!({"attempt": attempt, "failures": failures}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flaky_fails_as_often_as_told() {
        assert!(flaky(&json!({"failures": 2}), 2).is_err());
        assert!(flaky(&json!({"failures": 2}), 3).is_ok());
        assert!(flaky(&json!({"failures": 0}), 1).is_ok());
        assert!(flaky(&json!({}), 1).is_err());
    }

    #[test]
    fn fail_fails_as_told() {
        let told = json!({"class": "rate_limited", "code": "SLOW", "message": "m", "retry_after_ms": 5});
        let failure = fail(&told, 1).expect_err("it fails");
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::RateLimited, "SLOW"));
        assert_eq!(failure.retry_after_ms, Some(5));
        assert_eq!(fail(&json!({}), 1).expect_err("it fails").class, FailureClass::Permanent);
    }
}

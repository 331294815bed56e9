//! Retries of a step, and the waits between its attempts.

use goalmill_common::number::to_u32;
use goalmill_common::plan::{Jitter, Retry};
use serde_json::Value;

use super::policy::word;
use crate::document::{DocumentPath, Field, Fields, Table, Unit, ValidationContext, count, wrong_type};

/// Longest backoff, in milliseconds.
pub(super) const BACKOFF_MS_MAX: u64 = 24 * 3_600_000;

const RETRY: &Table = &[
    ("max", &["max_retries", "retries", "limit"]),
    ("max_attempts", &["attempts"]),
    ("initial_ms", &["backoff_ms", "delay_ms", "initial_delay_ms", "initial_backoff_ms"]),
    ("initial", &["delay", "initial_delay", "initial_backoff", "interval", "backoff_seconds", "retry_delay"]),
    ("factor", &["multiplier", "backoff_factor", "backoff_multiplier"]),
    ("max_ms", &["max_backoff_ms", "max_delay_ms"]),
    ("max_backoff", &["max_delay", "max_interval"]),
    ("jitter", &[]),
    ("backoff", &[]),
];

const BACKOFF: &Table = &[
    ("initial_ms", &[]),
    ("initial", &["delay"]),
    ("factor", &["multiplier"]),
    ("max_ms", &[]),
    ("max_backoff", &["max", "max_delay"]),
    ("jitter", &[]),
];

/// Reads `3`, `false`, or an object. `max` counts retries, `max_attempts` the first attempt too.
pub(super) fn retry(context: &ValidationContext<'_>, at: &DocumentPath<'_>, value: &Value) -> Retry {
    let limit = u64::from(context.limits.retries_max);
    let mut retry = Retry::default();
    let map = match value {
        Value::Object(map) => map,
        Value::Bool(false) => return Retry { max: 0, ..retry },
        Value::Bool(true) => return retry,
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            if let Some(max) = count(context, at, value, 0, limit) {
                retry.max = to_u32(max);
            }
            return retry;
        }
    };
    let fields = Fields::from_map(context, at, map, RETRY);
    let max = fields.count("max", 0, limit);
    let attempts = fields.count("max_attempts", 1, limit + 1).map(|n| n - 1);
    if let (Some(max), Some(attempts)) = (max, attempts)
        && max != attempts
    {
        context.error("CONFLICTING_FIELDS", at, "`max` and `max_attempts` say different things", "keep one of them");
    }
    if let Some(max) = max.or(attempts) {
        retry.max = to_u32(max);
    }
    let mut spacing = Spacing::default();
    spacing.parse(&fields);
    match fields.get("backoff") {
        Some(Field { value: Value::Object(map), key }) => {
            let at = at.key(key);
            spacing.parse(&Fields::from_map(context, &at, map, BACKOFF));
        }
        // Seconds.
        Some(Field { value: Value::Number(_), .. }) => {
            let wait = fields.duration("backoff", Unit::Seconds, 0, BACKOFF_MS_MAX, "INVALID_RETRY_POLICY");
            spacing.initial_ms = spacing.initial_ms.or(wait);
        }
        Some(_) => {
            let words = [("exponential", 2.0), ("fixed", 1.0), ("constant", 1.0), ("linear", 1.0)];
            spacing.factor = spacing.factor.or_else(|| word(&fields, "backoff", &words));
        }
        None => {}
    }
    spacing.apply(context, at, &mut retry);
    retry
}

/// What was said about the waits between attempts.
#[derive(Default)]
struct Spacing {
    initial_ms: Option<u64>,
    factor: Option<f64>,
    max_ms: Option<u64>,
    jitter: Option<Jitter>,
}

impl Spacing {
    fn parse(&mut self, fields: &Fields<'_, '_>) {
        const CODE: &str = "INVALID_RETRY_POLICY";
        let wait = |name, unit| fields.duration(name, unit, 0, BACKOFF_MS_MAX, CODE);
        let initial = wait("initial_ms", Unit::Milliseconds).or_else(|| wait("initial", Unit::Seconds));
        let max = wait("max_ms", Unit::Milliseconds).or_else(|| wait("max_backoff", Unit::Seconds));
        self.initial_ms = self.initial_ms.or(initial);
        self.max_ms = self.max_ms.or(max);
        if let Some(field) = fields.get("factor") {
            let at = fields.at.key(field.key);
            match field.value.as_f64() {
                Some(factor) if (1.0..=100.0).contains(&factor) => self.factor = Some(factor),
                Some(factor) => {
                    fields.context.error(
                        CODE,
                        &at,
                        format!("`{factor}` is not in 1..=100"),
                        "give a factor of 1 or more",
                    );
                }
                None => wrong_type(fields.context, &at, field.value, "a number"),
            }
        }
        self.jitter = self.jitter.or_else(|| jitter(fields));
    }

    fn apply(self, context: &ValidationContext<'_>, at: &DocumentPath<'_>, retry: &mut Retry) {
        retry.factor = self.factor.unwrap_or(retry.factor);
        retry.jitter = self.jitter.unwrap_or(retry.jitter);
        match (self.initial_ms, self.max_ms) {
            (Some(initial), Some(max)) if initial > max => {
                let detail = format!("the first wait, {initial} ms, is longer than the longest, {max} ms");
                context.error("INVALID_RETRY_POLICY", at, detail, "raise the longest wait or lower the first");
            }
            (initial, Some(max)) => {
                retry.initial_ms = initial.unwrap_or(retry.initial_ms.min(max));
                retry.max_ms = max;
            }
            (Some(initial), None) => {
                retry.initial_ms = initial;
                retry.max_ms = retry.max_ms.max(initial);
            }
            (None, None) => {}
        }
    }
}

fn jitter(fields: &Fields<'_, '_>) -> Option<Jitter> {
    match fields.get("jitter")?.value {
        Value::Bool(true) => Some(Jitter::Full),
        Value::Bool(false) => Some(Jitter::None),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            word(fields, "jitter", &[("full", Jitter::Full), ("none", Jitter::None), ("equal", Jitter::Full)])
        }
    }
}

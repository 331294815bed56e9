//! Settings of the execution of a goal's plan.

use goalmill_common::number::to_u32;
use goalmill_common::plan::{ExecutionPolicy, StepKind};
use serde_json::Value;

use super::step_failure::on_failure;
use super::{retry, shape, step};
use crate::document::{Fields, Table, wrong_type};

const EXECUTION: &Table = &[
    ("strategy", &["execution_strategy"]),
    ("max_parallel", &["max_concurrency", "max_concurrent"]),
    ("agent_type", &["agent"]),
    ("on_failure", &["on_error"]),
    ("continue_on_failure", &["continue_on_error"]),
    ("retry", &["retries", "retry_policy"]),
    ("timeout", &[]),
    ("timeout_ms", &[]),
    ("timeout_seconds", &[]),
];

/// Reads `execution: {strategy, max_parallel, agent_type, on_failure, retry, timeout}`.
pub(super) fn read_execution(fields: &Fields<'_, '_>) -> ExecutionPolicy {
    let Some(field) = fields.get("execution") else { return ExecutionPolicy::default() };
    let at = fields.at.key(field.key);
    let Value::Object(map) = field.value else {
        wrong_type(
            fields.context,
            &at,
            field.value,
            "an object with `strategy`, `max_parallel`, `on_failure`, `retry`",
        );
        return ExecutionPolicy::default();
    };
    let inner = Fields::from_map(fields.context, &at, map, EXECUTION);
    let is_given = |names: [&str; 2]| names.iter().any(|name| inner.get(name).is_some());
    ExecutionPolicy {
        strategy: inner.get("strategy").map(|_| shape::strategy(&inner)),
        max_parallel: inner.count("max_parallel", 1, u64::from(u32::MAX)).map(to_u32),
        agent_type: inner.get("agent_type").map(|_| step::agent_type(&inner, StepKind::Tool)),
        on_failure: is_given(["on_failure", "continue_on_failure"]).then(|| on_failure(&inner)),
        retry: inner.get("retry").map(|f| retry::retry(fields.context, &at.key(f.key), f.value)),
        timeout_ms: step::timeout(&inner),
    }
}

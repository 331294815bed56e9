//! The failure of a step whose model gave no completion.

use goalmill_common::failure::{Failure, FailureClass};
use goalmill_llm::{ModelError, ModelRegistry};

/// - `models`: tells a missing key from an open circuit.
pub(crate) fn model_failure(error: &ModelError, models: &ModelRegistry) -> Failure {
    let class = match error {
        ModelError::Timeout { .. } | ModelError::OutOfTime { .. } => FailureClass::Timeout,
        ModelError::RateLimited { .. } | ModelError::NoModel { retry_after_ms: Some(_), .. } => {
            FailureClass::RateLimited
        }
        ModelError::Unreachable { .. }
        | ModelError::Failed { .. }
        | ModelError::BadResponse { .. }
        | ModelError::Interrupted { .. }
        | ModelError::Cancelled
        | ModelError::CircuitOpen { .. } => FailureClass::Transient,
        ModelError::NoModel { .. } if models.stats().iter().any(|model| model.is_circuit_open) => {
            FailureClass::Transient
        }
        ModelError::NoModel { .. }
        | ModelError::OverBudget { .. }
        | ModelError::Refused { .. }
        | ModelError::Declined { .. }
        | ModelError::TooLarge { .. } => FailureClass::Permanent,
    };
    let code = if matches!(error, ModelError::OverBudget { .. }) { "AGENT_BUDGET_EXCEEDED" } else { error.code() };
    let mut failure = Failure::new(class, code, error.to_string());
    if let ModelError::RateLimited { retry_after_ms, .. } | ModelError::NoModel { retry_after_ms, .. } = error {
        failure.retry_after_ms = *retry_after_ms;
    }
    failure
}

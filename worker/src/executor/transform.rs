//! `transform`: computes an expression over the inputs, without any agent.
//!
//! `{"kind": "transform", "expression": "{'total': inputs.prices | sum, 'count': inputs.prices | length}"}`
//!
//! The expression sees `inputs`, `action`, `step`, `attempt`, and what the step is to give: `description`,
//! `expected_outputs`, `expected_output`. Its value, any JSON, is the outputs.

use async_trait::async_trait;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::task::Task;
use goalmill_expression::{Evaluator, ExpressionError, Missing, TemplateValues};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{ExecutionResult, Executor, Progress};

/// What is computed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformSettings {
    pub expression: String,
}

/// Computes one expression per attempt.
pub struct Transform {
    evaluator: Evaluator,
    expression: String,
}

impl Transform {
    /// Checks that the expression can be read; the error is a sentence for people.
    pub fn new(settings: TransformSettings, limits: &Limits) -> Result<Self, String> {
        Evaluator::check_expression(&settings.expression).map_err(|e| format!("`expression`: {e}"))?;
        let evaluator = Evaluator::new(Missing::Error, limits.fuel_max, limits.payload_bytes_max);
        Ok(Self { evaluator, expression: settings.expression })
    }
}

#[async_trait]
impl Executor for Transform {
    async fn execute(&self, task: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        let seen = TemplateValues::new(&json!({
            "inputs": task.inputs.value(),
            "action": task.action.as_str(),
            "step": task.step.as_str(),
            "attempt": task.attempt,
            "description": task.description,
            "expected_outputs": task.expected_outputs,
            "expected_output": task.expected_output,
        }));
        let value = self.evaluator.evaluate(&self.expression, &seen).map_err(|e| failed(&e))?;
        Ok(ExecutionResult::new(Json::from(value.unwrap_or_default())))
    }
}

fn failed(error: &ExpressionError) -> Failure {
    let code = if error.code == "TEMPLATE_FUEL_EXHAUSTED" { "EXPRESSION_TOO_COSTLY" } else { "EXPRESSION_FAILED" };
    Failure::new(FailureClass::Permanent, code, error.to_string())
}

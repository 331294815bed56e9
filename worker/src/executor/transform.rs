//! `transform`: computes an expression over the inputs, without any agent.
//!
//! `{"kind": "transform", "expression": "{'total': inputs.prices | sum, 'count': inputs.prices | length}"}`
//!
//! The expression sees `inputs`, `action`, `step` and `attempt`. Its value, any JSON, is the outputs.

use async_trait::async_trait;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::task::Task;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, context};
use serde::Deserialize;
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
    environment: Environment<'static>,
    expression: String,
}

impl Transform {
    /// Checks that the expression can be read; the error is a sentence for people.
    pub fn new(settings: TransformSettings, limits: &Limits) -> Result<Self, String> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(limits.fuel_max));
        environment.compile_expression(&settings.expression).map_err(|e| format!("`expression`: {e}"))?;
        Ok(Self { environment, expression: settings.expression })
    }
}

#[async_trait]
impl Executor for Transform {
    async fn execute(&self, task: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        let inputs = Serde(task.inputs.value());
        let seen = context! {
            inputs => minijinja::Value::from(inputs),
            action => task.action.as_str(),
            step => task.step.as_str(),
            attempt => task.attempt,
        };
        let value = self
            .environment
            .compile_expression(&self.expression)
            .and_then(|expression| expression.eval(seen))
            .map_err(|e| failed(&e))?;
        serde_json::to_value(&value).map(|v| ExecutionResult::new(Json::from(v))).map_err(|e| {
            Failure::new(FailureClass::Permanent, "EXPRESSION_FAILED", format!("the value has no JSON form: {e}"))
        })
    }
}

fn failed(error: &minijinja::Error) -> Failure {
    let code = if error.kind() == ErrorKind::OutOfFuel { "EXPRESSION_TOO_COSTLY" } else { "EXPRESSION_FAILED" };
    Failure::new(FailureClass::Permanent, code, error.to_string())
}

//! Webhooks.

use std::time::Duration;

use async_trait::async_trait;
use goalmill_common::clock::Clock;
use goalmill_common::config::{HookSettings, environment};
use goalmill_common::error_body::quote_error_body;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::revision::RevisionStrategy;
use goalmill_http::{BodyError, client_failure, read_body};
use serde::Deserialize;
use serde_json::Value;

use super::signature::Signer;
use super::{DecisionTerms, Hook, HookCall, HookError, Point, Ruling};

/// Response size limit, in bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;

pub(super) struct Webhook {
    settings: HookSettings,
    signer: Option<Signer>,
    client: reqwest::Client,
    clock: Clock,
}

/// The answer of a hook that decides; an empty one allows.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    allow: Option<bool>,
    reason: String,
    /// `on_plan_generated`.
    plan: Option<Value>,
    /// `on_plan_approved`.
    approve: Option<bool>,
    /// `on_step_start`.
    hold_ms: Option<u64>,
    /// `on_step_start`.
    inputs: Option<Value>,
    /// `on_step_complete`.
    failure: Option<AnsweredFailure>,
    /// `on_revision_needed`.
    strategy: Option<String>,
    hint: String,
}

/// A failure as a hook answers it.
#[derive(Deserialize)]
struct AnsweredFailure {
    #[serde(default = "permanent")]
    class: FailureClass,
    #[serde(default = "refused")]
    code: String,
    #[serde(default)]
    message: String,
}

fn permanent() -> FailureClass {
    FailureClass::Permanent
}

fn refused() -> String {
    "HOOK_REFUSED".into()
}

/// Longest code of a failure, in characters.
const CODE_CHARS_MAX: usize = 64;
/// Longest message of a failure, in characters.
const MESSAGE_CHARS_MAX: usize = 1_000;

impl Answer {
    /// The ruling, or which field cannot be used.
    fn ruling(self) -> Result<Ruling, String> {
        let Self { allow, reason, plan, approve, hold_ms, inputs, failure, strategy, hint } = self;
        if let Some(AnsweredFailure { class, code, message }) = failure {
            let code = code.chars().take(CODE_CHARS_MAX).collect::<String>();
            let message = message.chars().take(MESSAGE_CHARS_MAX).collect::<String>();
            return Ok(Ruling::OutputsFailed(Failure::new(class, code, message)));
        }
        if allow == Some(false) || approve == Some(false) {
            return Ok(Ruling::Vetoed(reason));
        }
        if let Some(plan) = plan {
            return Ok(Ruling::PlanChanged { plan: Box::new(plan), reason });
        }
        if approve == Some(true) {
            return Ok(Ruling::Approved(reason));
        }
        if let Some(hold_ms) = hold_ms {
            return Ok(Ruling::Held { wait: Duration::from_millis(hold_ms), reason });
        }
        if let Some(inputs) = inputs {
            return Ok(Ruling::InputsChanged { inputs: inputs.into(), reason });
        }
        if let Some(name) = strategy {
            let strategy = RevisionStrategy::parse(&name).ok_or_else(|| format!("`{name}` is not a strategy"))?;
            return Ok(Ruling::StrategyChosen { strategy, hint, reason });
        }
        Ok(Ruling::Allowed)
    }
}

impl Webhook {
    /// Fails if the secret that the settings name does not exist.
    pub(super) fn new(settings: &HookSettings) -> Result<Self, String> {
        let signer = match settings.secret_env.as_str() {
            "" => None,
            variable => {
                let signer = environment(variable).and_then(|secret| Signer::new(&secret));
                Some(signer.ok_or_else(|| {
                    format!("hook `{}`: set the environment variable `{variable}` to its secret", settings.name)
                })?)
            }
        };
        let builder = goalmill_http::client(!settings.url.starts_with("http://"))
            .timeout(Duration::from_millis(settings.limit_ms))
            .redirect(reqwest::redirect::Policy::none());
        let client =
            builder.build().map_err(|error| format!("hook `{}`: {}", settings.name, client_failure(&error)))?;
        Ok(Self { settings: settings.clone(), signer, client, clock: Clock::system() })
    }
}

#[async_trait]
impl Hook for Webhook {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn wants(&self, point: Point) -> bool {
        self.settings.on.is_empty() || self.settings.on.contains(&point)
    }

    fn decides(&self) -> Option<DecisionTerms> {
        let limit = Duration::from_millis(self.settings.limit_ms);
        self.settings.decide.then_some(DecisionTerms { limit, default: self.settings.default })
    }

    async fn call(&self, call: &HookCall) -> Result<Ruling, HookError> {
        let body = call.body.to_string();
        let seconds = self.clock.now_ms() / 1_000;
        let mut request = self
            .client
            .post(&self.settings.url)
            .header("content-type", "application/json")
            .header("webhook-id", &call.id)
            .header("webhook-timestamp", seconds.to_string());
        if let Some(signer) = &self.signer {
            request = request.header("webhook-signature", signer.sign(&call.id, seconds, &body));
        }
        let failed = |error: reqwest::Error| HookError::Failed(error.without_url().to_string());
        let answer = request.body(body).send().await.map_err(failed)?;
        if answer.status().as_u16() == 410 {
            return Err(HookError::Gone);
        }
        if !answer.status().is_success() {
            let status = answer.status().as_u16();
            // An unreadable body is no error: the status is enough.
            let body = read_body(answer, ANSWER_BYTES_MAX).await.unwrap_or_default();
            let said = quote_error_body(&body, []).map(|said| format!(": {said}")).unwrap_or_default();
            return Err(HookError::Failed(format!("it answered with status {status}{said}")));
        }
        if !self.settings.decide {
            return Ok(Ruling::Allowed);
        }
        let text = read_body(answer, ANSWER_BYTES_MAX).await.map_err(|error| match error {
            BodyError::TooLarge(bytes) => HookError::Failed(format!("its answer has more than {bytes} bytes")),
            BodyError::Failed(error) => failed(error),
        })?;
        if text.trim_ascii().is_empty() {
            return Ok(Ruling::Allowed);
        }
        let said: Answer = serde_json::from_slice(&text)
            .map_err(|error| HookError::Failed(format!("its answer cannot be read: {error}")))?;
        said.ruling().map_err(HookError::Failed)
    }
}

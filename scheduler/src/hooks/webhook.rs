//! Webhooks.

use std::time::Duration;

use async_trait::async_trait;
use goalmill_common::clock::Clock;
use goalmill_common::config::{HookSettings, environment};
use goalmill_common::tls_error::client_failure;
use serde::Deserialize;

use super::signature::Signer;
use super::{Hook, HookCall, HookError, Point, Ruling, Veto};

/// Response size limit, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;

pub(super) struct Webhook {
    settings: HookSettings,
    signer: Option<Signer>,
    client: reqwest::Client,
    clock: Clock,
}

/// The answer of a hook that may veto; an empty one allows.
#[derive(Deserialize)]
struct Answer {
    #[serde(default = "yes")]
    allow: bool,
    #[serde(default)]
    reason: String,
}

fn yes() -> bool {
    true
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
        rustls::crypto::ring::default_provider().install_default().ok();
        let mut builder = reqwest::Client::builder()
            .timeout(Duration::from_millis(settings.limit_ms))
            .redirect(reqwest::redirect::Policy::none());
        if settings.url.starts_with("http://") {
            // System certificates are not needed.
            builder = builder.tls_certs_only([]);
        }
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

    fn veto(&self) -> Option<Veto> {
        let limit = Duration::from_millis(self.settings.limit_ms);
        self.settings.veto.then_some(Veto { limit, default: self.settings.default })
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
        let mut answer = request.body(body).send().await.map_err(failed)?;
        if answer.status().as_u16() == 410 {
            return Err(HookError::Gone);
        }
        if !answer.status().is_success() {
            return Err(HookError::Failed(format!("it answered with status {}", answer.status().as_u16())));
        }
        if !self.settings.veto || !call.point.can_wait() {
            return Ok(Ruling::Allowed);
        }
        let mut text = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(failed)? {
            text.extend_from_slice(&chunk);
            if text.len() > ANSWER_BYTES_MAX {
                return Err(HookError::Failed("its answer is too long".into()));
            }
        }
        if text.trim_ascii().is_empty() {
            return Ok(Ruling::Allowed);
        }
        let said: Answer = serde_json::from_slice(&text)
            .map_err(|_| HookError::Failed("its answer is not `{\"allow\": true|false, \"reason\": \"…\"}`".into()))?;
        Ok(if said.allow { Ruling::Allowed } else { Ruling::Vetoed(said.reason) })
    }
}

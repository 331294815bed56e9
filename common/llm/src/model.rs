//! One model: settings, client, call slots, circuit breaker and statistics.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goalmill_common::clock::Clock;
use goalmill_common::config::ModelSettings;
use goalmill_common::error_body::clean_text;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::answer_schema::SchemaForm;
use crate::call_metrics;
use crate::circuit_breaker::{Admission, CircuitBreaker, Unavailable};
use crate::endpoint::{EndpointForms, SILENCE, known_form, named_form};
use crate::error::ModelError;
use crate::fallback_modes::{FallbackModes, ServerQuirks};
use crate::model_rates::{CompletionOutcome, ModelHistory, ModelRates};
use crate::provider_client::ProviderClient;
use crate::request::CompletionRequest;
use crate::response_mode::ResponseMode;
use crate::token_estimate::estimate_prompt_tokens;
use crate::usage::{TokenPrice, TokenUsage, Usd};

/// A model of the settings.
#[derive(Debug)]
pub struct Model {
    pub settings: ModelSettings,
    pub price: TokenPrice,
    pub client: ProviderClient,
    /// Concurrent calls.
    pub slots: Semaphore,
    endpoints: EndpointForms,
    state: Mutex<ModelState>,
}

/// What earlier calls showed about a model.
#[derive(Debug, Default)]
pub struct ModelState {
    pub modes: FallbackModes,
    breaker: CircuitBreaker,
    history: ModelHistory,
    judged: JudgedCost,
    spent: SpentTotals,
}

/// Tokens and cost of all calls of a model.
#[derive(Clone, Copy, Debug, Default)]
struct SpentTotals {
    input_tokens: u64,
    output_tokens: u64,
    cost: Usd,
}

/// What the judged answers of a model cost.
#[derive(Debug, Default)]
struct JudgedCost {
    spent: Usd,
    valid: u64,
}

impl JudgedCost {
    fn add(&mut self, cost: Usd, outcome: CompletionOutcome) {
        self.spent += cost;
        self.valid += u64::from(outcome == CompletionOutcome::Valid);
    }

    fn cost_per_valid(&self) -> Option<f64> {
        (self.valid > 0).then(|| self.spent.dollars() / self.valid as f64)
    }
}

/// Statistics of a model, for display and provenance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelStats {
    pub model: String,
    #[serde(flatten)]
    pub rates: ModelRates,
    /// Number of calls behind the rates, with decay.
    pub weight: f64,
    /// Input and output tokens of all calls, since the start.
    pub tokens: (u64, u64),
    /// US dollars of all calls, since the start.
    pub cost: Usd,
    /// US dollars of all judged answers, divided by the valid ones; none before the first valid one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_per_valid: Option<f64>,
    /// The circuit is open.
    pub is_circuit_open: bool,
    /// Why the model cannot be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
}

impl Model {
    /// - `endpoints`: what was found of the endpoints of all models.
    pub fn new(settings: ModelSettings, clock: Clock, endpoints: EndpointForms) -> Result<Self, String> {
        let client = ProviderClient::new(&settings, clock)?;
        let price = TokenPrice::per_million(settings.input_usd_per_million, settings.output_usd_per_million)
            .with_cached(settings.cached_usd_per_million);
        let slots = Semaphore::new((settings.concurrency as usize).min(Semaphore::MAX_PERMITS));
        call_metrics::set_circuit_open(&settings, false);
        Ok(Self { settings, price, client, slots, endpoints, state: Mutex::default() })
    }

    /// Maximum usage of a request.
    pub fn max_usage(&self, request: &CompletionRequest) -> TokenUsage {
        let answer = request.output_tokens_max.unwrap_or(self.settings.output_tokens_max);
        let most = self.quirks().output_tokens_max.unwrap_or(u64::MAX);
        let wanted = answer.saturating_add(self.thinking_tokens()).min(most);
        let input_tokens = estimate_prompt_tokens(request);
        let output_tokens = match request.shorten_to_budget {
            true => request.budget.affordable_output(input_tokens, wanted, &self.price),
            false => wanted,
        };
        TokenUsage { input_tokens, output_tokens, estimated: true }
    }

    /// Tokens that the settings set aside for thinking; the API counts them as a part of the answer.
    fn thinking_tokens(&self) -> u64 {
        let thinking = self.settings.body.get("thinking").filter(|thinking| thinking["type"] != "disabled");
        thinking.and_then(|thinking| thinking["budget_tokens"].as_u64()).unwrap_or_default()
    }

    /// The form of an enforced schema. A server that neither settings nor host tell of is asked for its models once, and one
    /// that gives no list again after [`SILENCE`].
    pub async fn schema_form(&self) -> SchemaForm {
        if self.quirks().strict_subset {
            return SchemaForm::Strict;
        }
        let base_url = &self.settings.base_url;
        if let Some(form) = known_form(&self.settings).or_else(|| self.endpoints.get(base_url)) {
            return form;
        }
        let (form, lasting) = match self.client.models(&self.settings).await {
            Some(models) => (named_form(&models, self.settings.wire_name()), None),
            None => (SchemaForm::Strict, Some(SILENCE)),
        };
        self.endpoints.insert(base_url, form, lasting);
        form
    }

    /// Adds what a rejection shows of the server. A form that an endpoint refuses is refused to all its models.
    pub fn learn(&self, quirks: ServerQuirks) {
        if quirks.strict_subset {
            self.endpoints.insert(&self.settings.base_url, SchemaForm::Strict, None);
        }
        self.state().modes.quirks = quirks;
    }

    /// Why the model cannot be called.
    pub fn obstacle(&self) -> Option<String> {
        self.client.keys.obstacle()
    }

    pub fn state(&self) -> MutexGuard<'_, ModelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn quirks(&self) -> ServerQuirks {
        self.state().modes.quirks
    }

    pub fn rates(&self, now_ms: u64) -> (ModelRates, f64) {
        let history = self.state().history;
        (history.rates(now_ms), history.weight(now_ms))
    }

    pub fn stats(&self, now_ms: u64) -> ModelStats {
        let (rates, weight) = self.rates(now_ms);
        let is_circuit_open = self.state().breaker.is_open();
        let cost_per_valid = self.state().judged.cost_per_valid();
        let SpentTotals { input_tokens, output_tokens, cost } = self.state().spent;
        let (model, obstacle, tokens) = (self.settings.name.clone(), self.obstacle(), (input_tokens, output_tokens));
        ModelStats { model, rates, weight, tokens, cost, cost_per_valid, is_circuit_open, obstacle }
    }

    /// Counts what a call used, also one that failed.
    pub fn record_usage(&self, usage: &TokenUsage, cost: Usd) {
        let spent = &mut self.state().spent;
        spent.input_tokens = spent.input_tokens.saturating_add(usage.input_tokens);
        spent.output_tokens = spent.output_tokens.saturating_add(usage.output_tokens);
        spent.cost += cost;
    }

    /// - `cost`: of the answer.
    pub fn record_outcome(&self, mode: ResponseMode, outcome: CompletionOutcome, cost: Usd, now_ms: u64) {
        let mut state = self.state();
        state.judged.add(cost, outcome);
        state.history.record_outcome(outcome, now_ms);
        state.modes.record_parse(mode, self.settings.dialect, outcome != CompletionOutcome::Unparseable, now_ms);
    }

    /// Whether a call is allowed.
    pub fn check_available(&self, now_ms: u64) -> Result<(), Unavailable> {
        self.state().breaker.check_available(now_ms)
    }

    /// Admits a call. The permit records its result.
    pub fn admit(&self, now_ms: u64) -> Result<CallPermit<'_>, Unavailable> {
        let admission = self.state().breaker.admit(now_ms)?;
        Ok(CallPermit { model: self, is_probe: admission == Admission::Probe, sent: None })
    }

    /// The error for a model that is not available.
    pub fn unavailable_error(&self, unavailable: Unavailable) -> ModelError {
        let (for_ms, reason) = match unavailable {
            Unavailable::CircuitOpen { for_ms } => (for_ms, "too many consecutive failures"),
            Unavailable::ProbeRunning => (0, "a probe call is running"),
            Unavailable::RateLimited { for_ms } => {
                let (model, reason) =
                    (self.settings.name.clone(), format!("its server asked to wait {for_ms} ms more"));
                return ModelError::RateLimited { model, reason, retry_after_ms: Some(for_ms) };
            }
        };
        ModelError::CircuitOpen { model: self.settings.name.clone(), for_ms, reason: reason.into() }
    }

    /// Prepares a server's text for display: redacts the secrets, joins lines, shortens.
    pub fn sanitize(&self, text: &str) -> String {
        const CHARS: usize = 300;
        let text = self.client.secrets().fold(text.to_owned(), |text, secret| secret.redact(&text));
        let line = clean_text(&text, []);
        match line.char_indices().nth(CHARS) {
            Some((at, _)) => format!("{}…", &line[..at]),
            None => line,
        }
    }

    /// Redacts the secrets.
    pub fn redact_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.client.secrets().fold(bytes, |bytes, secret| secret.redact_bytes(bytes))
    }
}

/// A call dropped this close to its deadline, or after it, counts as too slow.
const SLACK: Duration = Duration::from_secs(1);

/// Permission for one call. Dropping it without a result records nothing, unless the deadline has passed.
pub struct CallPermit<'a> {
    model: &'a Model,
    is_probe: bool,
    /// Deadline of the caller, once the call is sent.
    sent: Option<(&'a Clock, Instant)>,
}

impl<'a> CallPermit<'a> {
    /// The call is being sent.
    ///
    /// - `until`: when the caller stops waiting.
    pub fn record_sent(&mut self, clock: &'a Clock, until: Option<Instant>) {
        self.sent = until.map(|until| (clock, until));
    }

    /// The model returned a completion.
    pub fn record_success(mut self, latency_ms: u64, now_ms: u64) {
        self.settle(|state| {
            state.breaker.record_success();
            state.history.record_success(latency_ms, now_ms);
        });
    }

    /// The model works but rejected this request.
    pub fn record_rejection(mut self) {
        self.settle(|state| state.breaker.record_success());
    }

    /// The call failed.
    pub fn record_failure(mut self, now_ms: u64) {
        self.fail(now_ms);
    }

    fn fail(&mut self, now_ms: u64) {
        let settings = &self.model.settings;
        let (failures, open_ms) = (settings.breaker_failures, settings.breaker_open_ms);
        self.settle(|state| {
            state.breaker.record_failure(now_ms, failures, open_ms);
            state.history.record_failure(now_ms);
        });
    }

    /// The model is rate limited until `until_ms`.
    pub fn record_throttled(mut self, until_ms: Option<u64>) {
        call_metrics::record_throttled(&self.model.settings);
        self.settle(|state| {
            state.breaker.release_probe();
            if let Some(until_ms) = until_ms {
                state.breaker.pause(until_ms);
            }
        });
    }

    fn settle(&mut self, update: impl FnOnce(&mut ModelState)) {
        (self.is_probe, self.sent) = (false, None);
        let mut state = self.model.state();
        let was_open = state.breaker.is_open();
        update(&mut state);
        let is_open = state.breaker.is_open();
        drop(state);
        if was_open != is_open {
            let name = &self.model.settings.name;
            call_metrics::set_circuit_open(&self.model.settings, is_open);
            if is_open {
                tracing::warn!(model = name, "circuit open for model `{name}` after consecutive failures");
            } else {
                tracing::info!(model = name, "circuit closed for model `{name}`");
            }
        }
    }
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        // Without this a hanging model would be tried first again.
        if let Some((clock, until)) = self.sent
            && Instant::now() + SLACK >= until
        {
            self.fail(clock.now_ms());
        } else if self.is_probe {
            self.model.state().breaker.release_probe();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_server_without_a_list_of_models_is_asked_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let base_url = format!("http://{}/v1", listener.local_addr().expect("it listens"));
        let settings = ModelSettings { name: "one".into(), base_url, ..ModelSettings::default() };
        let model = Model::new(settings, Clock::system(), EndpointForms::default()).expect("the settings are valid");
        let answers = async {
            let (mut stream, _) = listener.accept().await.expect("it is asked");
            let mut asked = [0; 1024];
            let length = stream.read(&mut asked).await.expect("it reads");
            let refusal = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(refusal).await.expect("it writes");
            String::from_utf8_lossy(&asked[..length]).into_owned()
        };
        let (form, asked) = tokio::join!(model.schema_form(), answers);
        assert!(asked.starts_with("GET /v1/models "), "{asked}");
        assert_eq!(
            (form, model.endpoints.get(&model.settings.base_url)),
            (SchemaForm::Strict, Some(SchemaForm::Strict))
        );
    }
}

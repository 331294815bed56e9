//! Model registry: selection, calls and statistics of the models in the settings.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use goalmill_common::clock::Clock;
use goalmill_common::config::{Dialect, ModelSettings, ModelTag, environment};
use goalmill_common::number::whole_u64;
use goalmill_common::random::Random;
use tokio::sync::mpsc;

use crate::answer_schema::SchemaForm;
use crate::call_runner::CallRunner;
use crate::circuit_breaker::Unavailable;
use crate::completion::Completion;
use crate::completion_delta::CompletionDelta;
use crate::endpoint::EndpointForms;
use crate::error::ModelError;
use crate::model::{Model, ModelStats};
use crate::model_rates::CompletionOutcome;
use crate::model_selector::{ModelCandidate, rank_models};
use crate::request::CompletionRequest;
use crate::response_mode::ResponseMode;
use crate::token_estimate::{estimate_prompt_tokens, max_usage};
use crate::usage::Usd;

/// Capacity of the channel of a stream, in deltas.
const STREAM_CAPACITY: usize = 64;
/// Token estimates are high: a prompt is assumed to fit when this share of the estimate does.
const ESTIMATE_SHARE: f64 = 0.75;
/// Expected length of a completion as a share of the limit, for comparing costs.
const EXPECTED_OUTPUT: f64 = 0.25;

/// A streamed completion; dropping it ends the call. The last delta is [`CompletionDelta::Ended`].
pub type CompletionStream = Pin<Box<dyn Stream<Item = CompletionDelta> + Send>>;

/// An invalid model in the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("model `{name}`: {reason}")]
pub struct ModelSetupError {
    pub name: String,
    pub reason: String,
}

/// The models of the settings.
#[derive(Debug)]
pub struct ModelRegistry {
    models: Vec<Model>,
    clock: Clock,
    random: Random,
}

impl ModelRegistry {
    /// Creates the models of the settings; if there are none, the model that `GOALMILL_LLM_BASE_URL`,
    /// `GOALMILL_LLM_MODEL` and `GOALMILL_LLM_API_KEY` describe.
    ///
    /// A model whose key is not in the environment is listed but never called.
    pub fn from_settings(settings: &[ModelSettings], clock: Clock, random: Random) -> Result<Self, ModelSetupError> {
        let implied = if settings.is_empty() { from_environment() } else { None };
        let endpoints = EndpointForms::default();
        let models = settings.iter().chain(&implied).map(|settings| {
            Model::new(settings.clone(), clock.clone(), endpoints.clone())
                .map_err(|reason| ModelSetupError { name: settings.name.clone(), reason })
        });
        Ok(Self { models: models.collect::<Result<_, _>>()?, clock, random })
    }

    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    /// Names in the order of the settings.
    pub fn names(&self) -> Vec<&str> {
        self.models.iter().map(|model| model.settings.name.as_str()).collect()
    }

    /// The form of the schemas that a model gets; `None` for an unknown model.
    pub async fn schema_form(&self, model: &str) -> Option<SchemaForm> {
        let model = self.models.iter().find(|known| known.settings.name == model)?;
        Some(model.schema_form().await)
    }

    /// Statistics in the order of the settings.
    pub fn stats(&self) -> Vec<ModelStats> {
        let now_ms = self.clock.now_ms();
        self.models.iter().map(|model| model.stats(now_ms)).collect()
    }

    /// Returns a whole completion.
    ///
    /// Tries the modes and retries of the best model, then those of the next one, until one succeeds. Dropping the
    /// future ends the call; the budget is then charged the estimated usage.
    pub async fn complete(&self, request: &CompletionRequest) -> Result<Completion, ModelError> {
        self.complete_request(request, None).await
    }

    /// Returns a streamed completion. After the first content there are no retries: an interrupted stream ends with
    /// [`ModelError::Interrupted`].
    pub fn stream(self: &Arc<Self>, request: CompletionRequest) -> CompletionStream {
        let (sink, pieces) = mpsc::channel(STREAM_CAPACITY);
        let registry = Arc::clone(self);
        let work = async move {
            let request = CompletionRequest { stream: true, ..request };
            let result = registry.complete_request(&request, Some(&sink)).await;
            // The receiver is dropped only together with this future.
            sink.send(CompletionDelta::Ended(Box::new(result))).await.ok();
        };
        let pieces = stream::unfold(pieces, |mut pieces| async { pieces.recv().await.map(|piece| (piece, pieces)) });
        let work = stream::once(work).filter_map(|()| std::future::ready(None));
        Box::pin(stream::select(pieces, work))
    }

    /// Maximum tokens and cost of a request over all models that it may use.
    pub fn max_usage(&self, request: &CompletionRequest) -> (u64, Usd) {
        let allowed = self.models.iter().filter(|model| request.may_use(&model.settings.name));
        let usages = allowed.map(|model| {
            let usage = model.max_usage(request);
            (usage.total(), model.price.cost(&usage))
        });
        usages.fold((0, Usd::ZERO), |(tokens, cost), most| (tokens.max(most.0), cost.max(most.1)))
    }

    /// Records whether a completion was usable. Model selection and fallback modes depend on it.
    pub fn record_outcome(&self, answer: &Completion, outcome: CompletionOutcome) {
        self.record(&answer.model, answer.mode, outcome, answer.cost);
    }

    fn record(&self, model: &str, mode: ResponseMode, outcome: CompletionOutcome, cost: Usd) {
        if let Some(model) = self.models.iter().find(|known| known.settings.name == model) {
            model.record_outcome(mode, outcome, cost, self.clock.now_ms());
            let labels = [("model", model.settings.name.clone()), ("verdict", outcome.as_str().to_owned())];
            metrics::counter!("goalmill_llm_answers_total", &labels).increment(1);
        }
    }

    async fn complete_request(
        &self,
        request: &CompletionRequest,
        sink: Option<&mpsc::Sender<CompletionDelta>>,
    ) -> Result<Completion, ModelError> {
        let mut runner = CallRunner::new(request, sink, &self.clock, &self.random);
        let completed = async {
            let mut first_error = None;
            let mut chosen = self.select_models(request)?.into_iter().peekable();
            while let Some(model) = chosen.next() {
                match runner.call_model(model, chosen.peek().is_some()).await {
                    Err(error) if error.is_model_specific() && !runner.has_streamed() => {
                        tracing::debug!(model = model.settings.name, "model `{}`: {error}", model.settings.name);
                        first_error.get_or_insert(error);
                    }
                    other => return other,
                }
            }
            let none = || ModelError::NoModel { reason: "none is configured".into(), retry_after_ms: None };
            Err(first_error.unwrap_or_else(none))
        };
        let limit_ms = request.timeout_ms.unwrap_or(u64::MAX);
        let out_of_time = async {
            match request.timeout_ms {
                Some(ms) => tokio::time::sleep(std::time::Duration::from_millis(ms)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = request.cancel.cancelled() => Err(ModelError::Cancelled),
            result = completed => result,
            () = out_of_time => Err(ModelError::OutOfTime { limit_ms }),
        }
    }

    /// The models to call, best first.
    fn select_models(&self, request: &CompletionRequest) -> Result<Vec<&Model>, ModelError> {
        let refused = |reason: String| Err(ModelError::NoModel { reason, retry_after_ms: None });
        if self.models.is_empty() {
            return refused("none is configured; add one under `models` in the settings".into());
        }
        if let Some(name) = &request.model {
            if request.excluded_models.contains(name) {
                return refused(format!("model `{name}` was asked, and no other model may be asked"));
            }
            return match self.models.iter().find(|model| model.settings.name == *name) {
                Some(model) => match model.obstacle().or_else(|| context_obstacle(request, model)) {
                    Some(obstacle) => refused(format!("`{name}`: {obstacle}")),
                    None => Ok(vec![model]),
                },
                None => refused(format!("unknown model `{name}`; configured: {}", self.names().join(", "))),
            };
        }
        let now_ms = self.clock.now_ms();
        let (mut free, mut waiting, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
        let mut retry_after_ms: Option<u64> = None;
        for (at, model) in
            self.models.iter().enumerate().filter(|(_, m)| !request.excluded_models.contains(&m.settings.name))
        {
            let obstacle = model.obstacle().or_else(|| context_obstacle(request, model));
            match (obstacle, model.check_available(now_ms)) {
                (Some(obstacle), _) => reasons.push(format!("`{}`: {obstacle}", model.settings.name)),
                (None, Ok(())) => free.push(candidate(at, request, model, now_ms)),
                (None, Err(Unavailable::RateLimited { for_ms })) if for_ms <= model.settings.retry_after_ms_max => {
                    waiting.push(candidate(at, request, model, now_ms));
                }
                (None, Err(unavailable)) => {
                    if let Unavailable::RateLimited { for_ms } = unavailable {
                        retry_after_ms = Some(retry_after_ms.map_or(for_ms, |ms| ms.min(for_ms)));
                    }
                    reasons.push(model.unavailable_error(unavailable).to_string());
                }
            }
        }
        let ranked = rank_models(free, request.tier).into_iter().chain(rank_models(waiting, request.tier));
        let mut chosen: Vec<&Model> = ranked.map(|at| &self.models[at]).collect();
        let is_preferred = |model: &&Model| request.preferred_model.as_ref() == Some(&model.settings.name);
        if let Some(at) = chosen.iter().position(is_preferred) {
            chosen[..=at].rotate_right(1);
        }
        match (chosen.is_empty(), reasons.is_empty()) {
            (false, _) => Ok(chosen),
            (true, false) => Err(ModelError::NoModel { reason: reasons.join("; "), retry_after_ms }),
            (true, true) => refused("each model of the settings was asked; add another one under `models`".into()),
        }
    }
}

/// Why the prompt does not fit into the context of the model.
fn context_obstacle(request: &CompletionRequest, model: &Model) -> Option<String> {
    let settings = &model.settings;
    let output = request.output_tokens_max.unwrap_or(settings.output_tokens_max);
    let input = whole_u64(estimate_prompt_tokens(request) as f64 * ESTIMATE_SHARE);
    let needed = input.saturating_add(output);
    (needed > settings.context_tokens)
        .then(|| format!("needs about {needed} tokens, and `context_tokens` is {}", settings.context_tokens))
}

fn candidate(at: usize, request: &CompletionRequest, model: &Model, now_ms: u64) -> ModelCandidate {
    let (rates, weight) = model.rates(now_ms);
    let output = request.output_tokens_max.unwrap_or(model.settings.output_tokens_max);
    let expected = max_usage(request, whole_u64(output as f64 * EXPECTED_OUTPUT));
    ModelCandidate {
        at,
        is_cheap: model.settings.tags.contains(&ModelTag::Cheap),
        is_strong: model.settings.tags.contains(&ModelTag::Strong),
        rates,
        weight,
        cost: model.price.cost(&expected).dollars(),
    }
}

/// The model that the environment describes.
fn from_environment() -> Option<ModelSettings> {
    let model = environment("GOALMILL_LLM_MODEL")?;
    let base_url = environment("GOALMILL_LLM_BASE_URL").unwrap_or_else(|| "https://api.openai.com/v1".into());
    let key = "GOALMILL_LLM_API_KEY";
    let api_key_env = environment(key).map(|_| key.to_owned()).unwrap_or_default();
    Some(ModelSettings { name: model, base_url, api_key_env, dialect: Dialect::Openai, ..ModelSettings::default() })
}

//! The models of an installation: chooses, asks, retries, and remembers what each is worth.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use goalmill_common::clock::Clock;
use goalmill_common::config::{Dialect, ModelSettings, ModelTag, environment};
use goalmill_common::random::Random;
use tokio::sync::mpsc;

use crate::answer::{Answer, Delta};
use crate::ask::Ask;
use crate::breaker::Closed;
use crate::error::ModelError;
use crate::ladder::Rung;
use crate::model::{Model, Standing};
use crate::run::Run;
use crate::select::{self, Candidate};
use crate::standing::Outcome;
use crate::tokens;
use crate::usage::Usd;

/// Pieces of an answer that wait for whoever reads the stream.
const PIECES: usize = 64;
/// Estimates of tokens are high: a prompt is taken to fit when this share of them does.
const CERTAIN: f64 = 0.75;
/// The share of the longest answer that an answer is expected to have, for comparing prices.
const EXPECTED_OUTPUT: f64 = 0.25;

/// An answer piece by piece; dropping it ends the call. The last piece is [`Delta::Ended`].
pub type Deltas = Pin<Box<dyn Stream<Item = Delta> + Send>>;

/// Why models cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("model `{name}`: {reason}")]
pub struct ModelSetupError {
    pub name: String,
    pub reason: String,
}

/// All models that may be asked.
#[derive(Debug)]
pub struct Models {
    models: Vec<Model>,
    clock: Clock,
    random: Random,
}

impl Models {
    /// Sets up the models of the settings; without any, the one that `GOALMILL_LLM_BASE_URL`,
    /// `GOALMILL_LLM_MODEL` and `GOALMILL_LLM_API_KEY` describe.
    ///
    /// A model whose key is not in the environment is known, and never asked.
    pub fn from_settings(settings: &[ModelSettings], clock: Clock, random: Random) -> Result<Self, ModelSetupError> {
        let implied = if settings.is_empty() { from_environment() } else { None };
        let models = settings.iter().chain(&implied).map(|settings| {
            Model::new(settings.clone(), clock.clone())
                .map_err(|reason| ModelSetupError { name: settings.name.clone(), reason })
        });
        Ok(Self { models: models.collect::<Result<_, _>>()?, clock, random })
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    /// The names, in the order of the settings.
    pub fn names(&self) -> Vec<&str> {
        self.models.iter().map(|model| model.settings.name.as_str()).collect()
    }

    /// How each model does, in the order of the settings.
    pub fn standings(&self) -> Vec<Standing> {
        let now_ms = self.clock.now_ms();
        self.models.iter().map(|model| model.standing(now_ms)).collect()
    }

    /// Asks, and gives the whole answer.
    ///
    /// Tries the chosen model's rungs and retries, then the next model, until one answers. Dropping the future ends
    /// the call; the purse then has what it is likely to have cost.
    pub async fn complete(&self, ask: &Ask) -> Result<Answer, ModelError> {
        self.run(ask, None).await
    }

    /// Asks, and gives the answer piece by piece. After the first piece of the answer itself nothing is tried again:
    /// what broke off ends with [`ModelError::BrokenOff`].
    pub fn stream(self: &Arc<Self>, ask: Ask) -> Deltas {
        let (sink, pieces) = mpsc::channel(PIECES);
        let models = Arc::clone(self);
        let work = async move {
            let ask = Ask { stream: true, ..ask };
            let result = models.run(&ask, Some(&sink)).await;
            // Nobody listens only when this work is being dropped as well.
            sink.send(Delta::Ended(Box::new(result))).await.ok();
        };
        let pieces = stream::unfold(pieces, |mut pieces| async { pieces.recv().await.map(|piece| (piece, pieces)) });
        let work = stream::once(work).filter_map(|()| std::future::ready(None));
        Box::pin(stream::select(pieces, work))
    }

    /// The most that a question may take, asked of the dearest model.
    pub fn most(&self, ask: &Ask) -> (u64, Usd) {
        let asked = self.models.iter().filter(|model| !ask.without.contains(&model.settings.name));
        let mosts = asked.map(|model| {
            let most = tokens::most(ask, ask.output_tokens_max.unwrap_or(model.settings.output_tokens_max));
            (most.total(), model.price.of(&most))
        });
        mosts.fold((0, Usd::ZERO), |(tokens, cost), most| (tokens.max(most.0), cost.max(most.1)))
    }

    /// Tells what came of an answer: the choice of models and rungs follows it.
    pub fn learn(&self, answer: &Answer, outcome: Outcome) {
        self.learn_of(&answer.model, answer.rung, outcome);
    }

    /// The same of an answer that is no longer at hand; an unknown model changes nothing.
    pub fn learn_of(&self, model: &str, rung: Rung, outcome: Outcome) {
        if let Some(model) = self.models.iter().find(|known| known.settings.name == model) {
            model.learn(rung, outcome, self.clock.now_ms());
        }
    }

    async fn run(&self, ask: &Ask, sink: Option<&mpsc::Sender<Delta>>) -> Result<Answer, ModelError> {
        let mut run = Run::new(ask, sink, &self.clock, &self.random);
        let answered = async {
            let mut last = None;
            let mut chosen = self.choose(ask)?.into_iter().peekable();
            while let Some(model) = chosen.next() {
                match run.ask_model(model, chosen.peek().is_some()).await {
                    Err(error) if error.is_of_one_model() && !run.has_written() => {
                        tracing::debug!(model = model.settings.name, "model `{}`: {error}", model.settings.name);
                        // What a later model lacks says less than why the first one failed.
                        last.get_or_insert(error);
                    }
                    other => return other,
                }
            }
            Err(last.unwrap_or_else(|| ModelError::NoModel { reason: "none is set up".into() }))
        };
        let limit_ms = ask.timeout_ms.unwrap_or(u64::MAX);
        let out_of_time = async {
            match ask.timeout_ms {
                Some(ms) => tokio::time::sleep(std::time::Duration::from_millis(ms)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = ask.cancel.cancelled() => Err(ModelError::Cancelled),
            answer = answered => answer,
            () = out_of_time => Err(ModelError::OutOfTime { limit_ms }),
        }
    }

    /// The models to ask, the first one in front.
    fn choose(&self, ask: &Ask) -> Result<Vec<&Model>, ModelError> {
        let refused = |reason: String| Err(ModelError::NoModel { reason });
        if self.models.is_empty() {
            return refused("none is set up; name one under `models` in the settings".into());
        }
        if let Some(name) = &ask.model {
            return match self.models.iter().find(|model| model.settings.name == *name) {
                Some(model) => match model.obstacle() {
                    Some(obstacle) => refused(format!("`{name}`: {obstacle}")),
                    None => Ok(vec![model]),
                },
                None => refused(format!("there is no `{name}`; there are: {}", self.names().join(", "))),
            };
        }
        let now_ms = self.clock.now_ms();
        let (mut free, mut waiting, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
        for (at, model) in self.models.iter().enumerate().filter(|(_, m)| !ask.without.contains(&m.settings.name)) {
            let obstacle = model.obstacle().or_else(|| does_not_fit(ask, model));
            match (obstacle, model.check(now_ms)) {
                (Some(obstacle), _) => reasons.push(format!("`{}`: {obstacle}", model.settings.name)),
                (None, Ok(())) => free.push(candidate(at, ask, model, now_ms)),
                (None, Err(Closed::Asked { for_ms })) if for_ms <= model.settings.retry_after_ms_max => {
                    waiting.push(candidate(at, ask, model, now_ms));
                }
                (None, Err(closed)) => reasons.push(model.resting(closed).to_string()),
            }
        }
        let order = select::order(free, ask.stage).into_iter().chain(select::order(waiting, ask.stage));
        let mut chosen: Vec<&Model> = order.map(|at| &self.models[at]).collect();
        let first = |model: &&Model| ask.first.as_ref() == Some(&model.settings.name);
        if let Some(at) = chosen.iter().position(first) {
            chosen[..=at].rotate_right(1);
        }
        match (chosen.is_empty(), reasons.is_empty()) {
            (false, _) => Ok(chosen),
            (true, false) => refused(reasons.join("; ")),
            (true, true) => refused("all have been tried".into()),
        }
    }
}

/// Why the question is too long for the model.
fn does_not_fit(ask: &Ask, model: &Model) -> Option<String> {
    let settings = &model.settings;
    let output = ask.output_tokens_max.unwrap_or(settings.output_tokens_max);
    let input = (tokens::of_ask(ask) as f64 * CERTAIN) as u64;
    let needed = input.saturating_add(output);
    (needed > settings.context_tokens)
        .then(|| format!("needs about {needed} tokens, and `context_tokens` is {}", settings.context_tokens))
}

fn candidate(at: usize, ask: &Ask, model: &Model, now_ms: u64) -> Candidate {
    let (rates, weight) = model.rates(now_ms);
    let output = ask.output_tokens_max.unwrap_or(model.settings.output_tokens_max);
    let expected = tokens::most(ask, (output as f64 * EXPECTED_OUTPUT) as u64);
    Candidate {
        at,
        is_cheap: model.settings.tags.contains(&ModelTag::Cheap),
        is_strong: model.settings.tags.contains(&ModelTag::Strong),
        rates,
        weight,
        cost: model.price.of(&expected).dollars(),
    }
}

/// The model that the environment describes, for trying out.
fn from_environment() -> Option<ModelSettings> {
    let model = environment("GOALMILL_LLM_MODEL")?;
    let base_url = environment("GOALMILL_LLM_BASE_URL").unwrap_or_else(|| "https://api.openai.com/v1".into());
    let key = "GOALMILL_LLM_API_KEY";
    let api_key_env = environment(key).map(|_| key.to_owned()).unwrap_or_default();
    Some(ModelSettings { name: model, base_url, api_key_env, dialect: Dialect::Openai, ..ModelSettings::default() })
}

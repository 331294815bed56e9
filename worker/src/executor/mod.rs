//! What does a task's work.
//!
//! Settings name an executor per agent type by `kind`:
//!
//! - [`http`]: posts the task to a web service.
//! - [`command`]: runs a program; JSON on standard input, JSON on standard output.
//! - [`transform`]: computes an expression over the inputs.
//!
//! A program that embeds a worker can add kinds of its own ([`Kinds`]); `demo` is one of them.
//!
//! Every kind takes a `card` too: what the agent type registers as (description, capabilities, actions, cost, …).

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use goalmill_common::agent::Agent;
use goalmill_common::card::read_card;
use goalmill_common::failure::Failure;
use goalmill_common::id::AgentType;
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use goalmill_common::task::Task;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub mod command;
pub mod http;
pub mod transform;

mod call;

pub use call::AnswerForm;

/// What an execution gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub outputs: Json,
    /// US dollars.
    pub cost: f64,
    pub tokens: u64,
    /// New information that may call for a revision.
    pub adjustments: Option<Json>,
    /// A plan to run in place of the step.
    pub sub_plan: Option<Json>,
}

impl Outcome {
    /// Outputs that cost nothing.
    pub fn of(outputs: impl Into<Json>) -> Self {
        Self { outputs: outputs.into(), ..Self::default() }
    }
}

/// Does the work of one agent type. Implement it to embed a worker in a program of your own.
#[async_trait]
pub trait Executor: Send + Sync + 'static {
    /// Runs one attempt. It is dropped at its time limit and when it is cancelled; `cancelled` tells earlier,
    /// for those who must clean up.
    async fn execute(
        &self,
        task: &Task,
        progress: &Progress,
        cancelled: &CancellationToken,
    ) -> Result<Outcome, Failure>;

    /// What the agent type registers as; only its name when there is no card.
    fn card(&self) -> Option<Agent> {
        None
    }
}

/// Tells how far an execution is.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<std::sync::Mutex<Option<(f64, String)>>>);

impl Progress {
    /// Says how far it is, 0 to 1, and a line for people; only the newest is sent.
    pub fn tell(&self, share: f64, message: impl Into<String>) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some((share, message.into()));
    }

    /// What was told since the last call.
    pub fn take(&self) -> Option<(f64, String)> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }
}

/// An executor made from settings, and what it registers as.
pub(crate) struct Built {
    pub executor: Arc<dyn Executor>,
    pub card: Option<Agent>,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Settings {
    Http(http::HttpSettings),
    Command(command::CommandSettings),
    Transform(transform::TransformSettings),
}

/// Makes an executor of one kind from its entry in the settings, without `kind` and `card`; the error is a sentence for
/// people.
pub type Build = fn(&AgentType, &Value) -> Result<Arc<dyn Executor>, String>;

/// Kinds of executors besides `http`, `command` and `transform`, by their names in the settings.
pub type Kinds = BTreeMap<&'static str, Build>;

/// Makes the executor that `value` describes; the error is a sentence for people.
pub(crate) fn build(agent_type: &AgentType, value: &Value, limits: &Limits, kinds: &Kinds) -> Result<Built, String> {
    let mut value = value.clone();
    let card = match value.as_object_mut().and_then(|fields| fields.remove("card")) {
        Some(card) => Some(card_of(agent_type, card)?),
        None => None,
    };
    let added = value["kind"].as_str().and_then(|kind| kinds.get(kind));
    let executor: Arc<dyn Executor> = match added {
        Some(build) => {
            value.as_object_mut().and_then(|fields| fields.remove("kind"));
            build(agent_type, &value)?
        }
        None => match serde_json::from_value(value).map_err(|error| unknown_kind(&error, kinds))? {
            Settings::Http(settings) => Arc::new(http::Http::new(settings, limits)?),
            Settings::Command(settings) => Arc::new(command::Command::new(settings, limits)?),
            Settings::Transform(settings) => Arc::new(transform::Transform::new(settings, limits)?),
        },
    };
    let card = card.or_else(|| executor.card().map(|card| Agent { agent_type: agent_type.clone(), ..card }));
    Ok(Built { executor, card })
}

/// What is wrong with an entry; an unknown kind is answered with all kinds there are.
fn unknown_kind(error: &serde_json::Error, kinds: &Kinds) -> String {
    let added: String = kinds.keys().map(|kind| format!(", `{kind}`")).collect();
    let text = error.to_string();
    if text.starts_with("unknown variant") { format!("{text}{added}") } else { text }
}

fn card_of(agent_type: &AgentType, mut card: Value) -> Result<Agent, String> {
    let fields = card.as_object_mut().ok_or("`card` is not an object")?;
    fields.insert("agent_type".into(), agent_type.as_str().into());
    read_card(card.to_string().as_bytes()).map_err(|issues| {
        let said = |issue: &Issue| format!("{} at `card{}`; {}", issue.detail, issue.pointer, issue.hint);
        issues.iter().map(said).collect::<Vec<_>>().join("; ")
    })
}

//! Executors run the tasks of an agent type.
//!
//! Settings name an executor per agent type by `kind`:
//!
//! - [`http`]: posts the task to a web service.
//! - [`command`]: runs a program; JSON on standard input, JSON on standard output.
//! - [`transform`]: computes an expression over the inputs.
//!
//! A program that embeds a worker can add kinds of its own ([`Kinds`]); `demo` is one of them.
//!
//! Every kind also takes a `card`: the registered description, capabilities, actions, cost, ….

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

/// The result of an execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecutionResult {
    pub outputs: Json,
    /// US dollars.
    pub cost: f64,
    pub tokens: u64,
    /// New information that may require a revision.
    pub adjustments: Option<Json>,
    /// A plan to run in place of the step.
    pub sub_plan: Option<Json>,
}

impl ExecutionResult {
    /// Outputs without cost.
    pub fn new(outputs: impl Into<Json>) -> Self {
        Self { outputs: outputs.into(), ..Self::default() }
    }
}

/// Runs the tasks of one agent type. Implement it to embed a worker in your own program.
#[async_trait]
pub trait Executor: Send + Sync + 'static {
    /// Runs one attempt. The future is dropped shortly after its time limit or a cancellation; `cancelled` fires first, so
    /// that it can clean up.
    async fn execute(
        &self,
        task: &Task,
        progress: &Progress,
        cancelled: &CancellationToken,
    ) -> Result<ExecutionResult, Failure>;

    /// The card that the agent type registers; only its name when there is none.
    ///
    /// It may change while the worker runs: each heartbeat reads it and registers a changed one.
    fn card(&self) -> Option<Agent> {
        None
    }
}

/// Progress of an execution.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<std::sync::Mutex<Option<(f64, String)>>>);

impl Progress {
    /// Sets the share that is done, 0 to 1, and a message; only the newest is sent.
    pub fn update(&self, share: f64, message: impl Into<String>) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some((share, message.into()));
    }

    /// The newest progress since the last call.
    pub fn take(&self) -> Option<(f64, String)> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum ExecutorSettings {
    Http(http::HttpSettings),
    Command(command::CommandSettings),
    Transform(transform::TransformSettings),
}

/// Makes an executor of one kind from its entry in the settings, without `kind` and `card`; the error is a message for
/// people.
pub type Build = fn(&AgentType, &Value) -> Result<Arc<dyn Executor>, String>;

/// Kinds of executors besides `http`, `command` and `transform`, by their names in the settings.
pub type Kinds = BTreeMap<&'static str, Build>;

/// Makes the executor that `value` describes, with the card of `value`; the error is a message for people.
pub(crate) fn build(
    agent_type: &AgentType,
    value: &Value,
    limits: &Limits,
    kinds: &Kinds,
) -> Result<(Arc<dyn Executor>, Option<Agent>), String> {
    let mut value = value.clone();
    let card = match value.as_object_mut().and_then(|fields| fields.remove("card")) {
        Some(card) => Some(parse_card(agent_type, card)?),
        None => None,
    };
    let added = value["kind"].as_str().and_then(|kind| kinds.get(kind));
    let executor: Arc<dyn Executor> = match added {
        Some(build) => {
            value.as_object_mut().and_then(|fields| fields.remove("kind"));
            build(agent_type, &value)?
        }
        None => match serde_json::from_value(value).map_err(|error| settings_error(&error, kinds))? {
            ExecutorSettings::Http(settings) => Arc::new(http::HttpExecutor::new(settings, limits)?),
            ExecutorSettings::Command(settings) => Arc::new(command::CommandExecutor::new(settings, limits)?),
            ExecutorSettings::Transform(settings) => Arc::new(transform::Transform::new(settings, limits)?),
        },
    };
    Ok((executor, card))
}

/// The error of an entry; for an unknown kind with all known kinds.
fn settings_error(error: &serde_json::Error, kinds: &Kinds) -> String {
    let added: String = kinds.keys().map(|kind| format!(", `{kind}`")).collect();
    let text = error.to_string();
    if text.starts_with("unknown variant") { format!("{text}{added}") } else { text }
}

fn parse_card(agent_type: &AgentType, mut card: Value) -> Result<Agent, String> {
    let fields = card.as_object_mut().ok_or("`card` is not an object")?;
    fields.insert("agent_type".into(), agent_type.as_str().into());
    read_card(card.to_string().as_bytes()).map_err(|issues| {
        let said = |issue: &Issue| format!("{} at `card{}`; {}", issue.detail, issue.pointer, issue.hint);
        issues.iter().map(said).collect::<Vec<_>>().join("; ")
    })
}

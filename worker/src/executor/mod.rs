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
use goalmill_common::constraint::Measures;
use goalmill_common::failure::Failure;
use goalmill_common::id::{AgentType, is_id};
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use goalmill_common::report::{SuggestedAdjustment, TokenSplit};
use goalmill_common::task::Task;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

pub mod command;
pub mod http;
pub mod transform;

mod answer_fields;
mod call;
mod calls;
mod execution_end;
mod feedback;
mod recorded_calls;

pub use answer_fields::clip;
pub use call::{AnswerForm, parse_answer};
pub use calls::{CallId, CallResult, CallUsage, Calls, IndependentCall, MakeCall, UnrecordedCalls, over_budget};
pub use execution_end::{ExecutionEnd, check_result};
pub use feedback::feedback_envelope;
pub use recorded_calls::{CallStore, RecordedCalls};

/// The result of an execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecutionResult {
    pub outputs: Json,
    /// The attempt has failed. The outputs are ignored; what it has spent, and what the agent suggests, counts.
    pub failure: Option<Failure>,
    /// US dollars.
    pub cost: f64,
    pub tokens: u64,
    /// The same tokens, split; their sum counts when `tokens` is 0.
    pub usage: Option<TokenSplit>,
    /// The outputs are incomplete: a partial success. `errors` say what is missing.
    pub partial: bool,
    pub errors: Vec<Failure>,
    /// What the agent would change in the rest of the plan.
    pub suggested_adjustments: Vec<SuggestedAdjustment>,
    /// The currency of `cost`, ISO 4217; US dollars without one.
    pub currency: Option<String>,
    /// Amounts of anything else that a constraint of the goal may limit, by name.
    pub measures: Measures,
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
    /// that it can clean up. A failure of class `lost` says that what ran the attempt is gone.
    async fn execute(
        &self,
        task: &Task,
        progress: &Progress,
        cancelled: &CancellationToken,
    ) -> Result<ExecutionResult, Failure>;

    /// Runs one attempt that makes calls with costs or effects, each through `calls`.
    ///
    /// Each call is recorded with its usage: the result must not contain that again. The next attempt gets the outcomes
    /// of the recorded calls back.
    async fn execute_with_calls(
        &self,
        task: &Task,
        progress: &Progress,
        _calls: &dyn Calls,
        cancelled: &CancellationToken,
    ) -> Result<ExecutionResult, Failure> {
        self.execute(task, progress, cancelled).await
    }

    /// The card that the agent type registers; only its name when there is none.
    ///
    /// It may change while the worker runs: each heartbeat reads it and registers a changed one.
    fn card(&self) -> Option<Agent> {
        None
    }

    /// Whether its card never takes the place of the card of another agent of this name: it is only there to try things out.
    fn gives_way(&self) -> bool {
        false
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
    pub fn take_newest(&self) -> Option<(f64, String)> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }
}

/// Makes an executor of one kind from its card and its entry in the settings, without `kind`, `card` and `sub_plans`; the
/// error is a message for people.
pub type Build = Box<dyn Fn(&AgentType, Option<&Agent>, &Value) -> Result<Arc<dyn Executor>, String> + Send + Sync>;

/// Kinds of executors besides `http`, `command` and `transform`, by their names in the settings.
pub type Kinds = BTreeMap<&'static str, Build>;

/// Makes the agent that `value` describes; the error is a message for people.
pub(crate) fn build(
    agent_type: &AgentType,
    value: &Value,
    limits: &Limits,
    kinds: &Kinds,
) -> Result<AgentSetup, String> {
    let mut fields: Map<String, Value> = parse_settings(value.clone())?;
    let card = fields.remove("card").map(|card| parse_card(agent_type, card)).transpose()?;
    let sub_plans = fields.remove("sub_plans").map(parse_sub_plans).transpose()?.unwrap_or_default();
    let kind: String = parse_settings(fields.remove("kind").ok_or("missing field `kind`")?)?;
    let value = Value::Object(fields);
    let executor: Arc<dyn Executor> = match (kind.as_str(), kinds.get(kind.as_str())) {
        (_, Some(build)) => build(agent_type, card.as_ref(), &value)?,
        ("http", None) => Arc::new(http::HttpExecutor::new(parse_settings(value)?, limits)?),
        ("command", None) => Arc::new(command::CommandExecutor::new(parse_settings(value)?, limits)?),
        ("transform", None) => Arc::new(transform::Transform::new(parse_settings(value)?, limits)?),
        (_, None) => {
            let known: Vec<&str> = ["http", "command", "transform"].into_iter().chain(kinds.keys().copied()).collect();
            return Err(format!("unknown variant `{kind}`, expected one of `{}`", known.join("`, `")));
        }
    };
    Ok(AgentSetup { executor, card, sub_plans })
}

/// An agent as the settings describe it.
pub(crate) struct AgentSetup {
    pub executor: Arc<dyn Executor>,
    pub card: Option<Agent>,
    /// Agent types that steps of its sub-plans may have.
    pub sub_plans: Arc<[String]>,
}

fn parse_sub_plans(value: Value) -> Result<Arc<[String]>, String> {
    let agents: Vec<String> = parse_settings(value).map_err(|error| format!("`sub_plans`: {error}"))?;
    match agents.iter().find(|agent| *agent != "*" && !is_id(agent)) {
        Some(wrong) => Err(format!("`sub_plans`: `{wrong}` is no agent type; `*` stands for all of them")),
        None => Ok(agents.into()),
    }
}

fn parse_settings<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn parse_card(agent_type: &AgentType, mut card: Value) -> Result<Agent, String> {
    let fields = card.as_object_mut().ok_or("`card` is not an object")?;
    fields.insert("agent_type".into(), agent_type.as_str().into());
    read_card(card.to_string().as_bytes()).map_err(|issues| {
        let said = |issue: &Issue| format!("{} at `card{}`; {}", issue.detail, issue.pointer, issue.hint);
        issues.iter().map(said).collect::<Vec<_>>().join("; ")
    })
}

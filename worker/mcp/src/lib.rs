//! Executor `mcp`: an agent type whose actions are the tools of an MCP server.
//!
//! `{"kind": "mcp", "argv": ["npx", "-y", "some-server"]}` starts a program and speaks over its
//! standard input and output; `{"kind": "mcp", "url": "https://…", "headers": {…}}` speaks streamable HTTP.
//!
//! The worker connects when it starts, and again when a task finds the connection closed. The card of the agent type lists the
//! server's tools with their schemas, and follows `tools/list_changed`.
//!
//! A task with a callback has it in the `_meta` of the call; a tool accepts it by the result `{"accepted": true}`.
//!
//! | what happens | failure class | code |
//! |---|---|---|
//! | the tool reports an error | permanent | `MCP_TOOL_ERROR` |
//! | the server refuses the call | permanent | `MCP_REFUSED` |
//! | the action is no tool of the server, or not among `tools` | permanent | `MCP_UNKNOWN_TOOL` |
//! | no connection, or it breaks | transient | `MCP_UNREACHABLE` |
//! | `timeout_ms` is over | timeout | `MCP_TIMEOUT` |

#![warn(missing_docs)]

mod connection;
mod outputs;
mod settings;
mod tool_set;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goalmill_common::agent::{Action, Agent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::AgentType;
use goalmill_common::json::Json;
use goalmill_common::task::Task;
use goalmill_worker::executor::{ExecutionResult, Executor, Progress, clip};
use rmcp::model::Tool;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

pub use tool_set::{McpToolInfo, McpToolSet};

/// Seconds between the first tries to connect.
const RECONNECT_SECONDS: [u64; 5] = [1, 2, 4, 8, 16];
/// Seconds between all further tries.
const RECONNECT_SECONDS_MAX: u64 = 30;

/// Makes the executor of an agent type from its entry in the settings; the error is a sentence for people.
pub fn executor(agent_type: &AgentType, settings: &Value) -> Result<Arc<dyn Executor>, String> {
    let tools = McpToolSet::new(agent_type, settings)?;
    let executor = Arc::new(McpExecutor { tools, agent_type: agent_type.clone() });
    // So that the card has the tools before the first task; settings are checked outside of a runtime too.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let executor = Arc::downgrade(&executor);
        drop(runtime.spawn(async move {
            for wait in RECONNECT_SECONDS.into_iter().chain(std::iter::repeat(RECONNECT_SECONDS_MAX)) {
                let Some(executor) = executor.upgrade() else { return };
                let Err(failure) = executor.tools.connection.peer().await else { return };
                tracing::warn!("{}; the next try is in {wait} s", failure.message);
                drop(executor);
                tokio::time::sleep(Duration::from_secs(wait)).await;
            }
        }));
    }
    Ok(executor)
}

/// Calls tools of one server.
struct McpExecutor {
    tools: McpToolSet,
    agent_type: AgentType,
}

#[async_trait]
impl Executor for McpExecutor {
    async fn execute(
        &self,
        task: &Task,
        _: &Progress,
        cancelled: &CancellationToken,
    ) -> Result<ExecutionResult, Failure> {
        let arguments = parse_arguments(&task.inputs)?;
        self.tools.connection.peer().await?;
        let tool = self.tool_of(task)?;
        let callback = task.callback.as_ref();
        let result = self.tools.call(tool, arguments, &task.idempotency_key, callback, cancelled).await?;
        Ok(if callback.is_some() { outputs::read_acceptance(result) } else { result })
    }

    fn card(&self) -> Option<Agent> {
        let mut card = Agent::named(self.agent_type.clone());
        if let Some(known) = self.tools.connection.tools() {
            let (about, tools) = known.as_ref();
            card.description.clone_from(about);
            card.actions = tools.iter().filter(|tool| self.tools.is_offered(tool)).map(action).collect();
            card.capabilities = card.actions.iter().map(|action| action.name.replace(['_', '-'], " ")).collect();
        }
        Some(card)
    }
}

impl McpExecutor {
    /// The tool that a task asks for: its action, or the only tool of the server.
    fn tool_of(&self, task: &Task) -> Result<String, Failure> {
        let known = self.tools.connection.tools();
        let tools = known.iter().flat_map(|known| &known.1).filter(|tool| self.tools.is_offered(tool));
        let names: Vec<&str> = tools.map(|tool| tool.name.as_ref()).collect();
        match (task.action.as_str(), names.as_slice()) {
            ("", [only]) => Ok((*only).to_owned()),
            (action, names) if names.contains(&action) => Ok(action.to_owned()),
            (action, names) => {
                let shown = names[..names.len().min(20)].join(", ");
                let message = format!("`{action}` is no tool of the server; give one of {shown} as the action");
                Err(failure(FailureClass::Permanent, "MCP_UNKNOWN_TOOL", message))
            }
        }
    }
}

fn parse_arguments(inputs: &Json) -> Result<Map<String, Value>, Failure> {
    match inputs.value() {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(failure(FailureClass::Permanent, "MCP_REFUSED", "the inputs of an MCP tool must be an object"))
        }
    }
}

fn failure(class: FailureClass, code: &str, message: impl Into<String>) -> Failure {
    Failure::new(class, code, clip(&message.into()))
}

fn action(tool: &Tool) -> Action {
    let schema = |schema: &rmcp::model::JsonObject| Json::from_value(schema);
    Action {
        name: tool.name.to_string(),
        description: tool.description.as_deref().map(clip).unwrap_or_default(),
        inputs: Some(schema(&tool.input_schema)),
        outputs: tool.output_schema.as_deref().map(schema),
        side_effect: false,
    }
}

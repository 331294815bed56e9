//! The tools of MCP servers that an agent has during one attempt.

use std::sync::Arc;

use async_trait::async_trait;
use goalmill_common::failure::Failure;
use goalmill_common::id::AgentType;
use goalmill_common::task::Task;
use goalmill_mcp::{McpToolInfo, McpToolSet};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::AgentTool;

/// Stands between the name of a server and the name of its tool.
const SEPARATOR: &str = "__";
/// Maximum characters of a tool name that models accept.
const NAME_CHARS_MAX: usize = 64;
/// Characters of a server's name.
const SERVER_CHARS_MAX: usize = 24;

/// An MCP server of an agent.
#[derive(Clone)]
pub(super) struct McpToolServer {
    name: String,
    tools: Arc<McpToolSet>,
}

impl McpToolServer {
    /// - `name`: prefix of its tools.
    pub fn new(agent_type: &AgentType, name: &str, settings: &Value) -> Result<Self, String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if name.is_empty() || name.len() > SERVER_CHARS_MAX || !name.chars().all(is_plain) {
            return Err(format!("the name of a server has letters, digits and `-`, at most {SERVER_CHARS_MAX}"));
        }
        Ok(Self { name: name.to_owned(), tools: Arc::new(McpToolSet::new(agent_type, settings)?) })
    }

    /// The tools that the server lists now.
    pub async fn list(&self) -> Result<Vec<McpTool>, Failure> {
        let tools = self.tools.list().await?;
        Ok(tools.into_iter().filter_map(|info| self.tool(info)).collect())
    }

    /// `None` for a name that models do not accept.
    fn tool(&self, info: McpToolInfo) -> Option<McpTool> {
        let name = format!("{}{SEPARATOR}{}", self.name, info.name);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.len() > NAME_CHARS_MAX || !name.chars().all(is_plain) {
            tracing::warn!("a tool of the MCP server `{}` is left out: models do not take its name", self.name);
            return None;
        }
        Some(McpTool { name, info, tools: Arc::clone(&self.tools) })
    }
}

/// One tool of a server.
pub(super) struct McpTool {
    name: String,
    info: McpToolInfo,
    tools: Arc<McpToolSet>,
}

#[async_trait]
impl AgentTool for McpTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.info.description
    }

    fn parameters(&self) -> Value {
        self.info.parameters.clone()
    }

    async fn run(&self, arguments: &Value, _: &Task) -> Result<Value, String> {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let result = self.tools.call(self.info.name.clone(), arguments, &CancellationToken::new()).await;
        result.map(|result| result.outputs.value()).map_err(|failure| failure.message)
    }
}

//! The tools of MCP servers that an agent has during one attempt.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use goalmill_common::failure::Failure;
use goalmill_common::id::AgentType;
use goalmill_common::task::Task;
use goalmill_mcp::{McpToolInfo, McpToolSet};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

pub use goalmill_mcp::executor as mcp_executor;

use super::{AgentTool, SEPARATOR, ToolPolicy, ToolTerms, is_tool_name};

/// Characters of a server's name.
const SERVER_CHARS_MAX: usize = 24;

/// Fields of a server that say what becomes of the calls of its tools. All others are those of the executor `mcp`.
const TERMS: [&str; 4] = ["policy", "policies", "price", "prices"];

/// What becomes of the calls of a server's tools, and what they cost.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct McpToolTerms {
    /// Of every tool without an entry in `policies`.
    policy: Option<ToolPolicy>,
    /// By the server's name of the tool.
    policies: BTreeMap<String, ToolPolicy>,
    /// US dollars of one call of a tool without an entry in `prices`.
    price: f64,
    prices: BTreeMap<String, f64>,
}

impl McpToolTerms {
    fn of_tool(&self, tool: &str) -> Result<ToolTerms, String> {
        let policy = self.policies.get(tool).copied().or(self.policy).unwrap_or(ToolPolicy::Allow);
        ToolTerms::new(policy, self.prices.get(tool).copied().unwrap_or(self.price))
    }
}

/// An MCP server of an agent.
#[derive(Clone)]
pub(super) struct McpToolServer {
    name: String,
    tools: Arc<McpToolSet>,
    terms: Arc<McpToolTerms>,
}

impl McpToolServer {
    /// - `name`: prefix of its tools.
    pub fn new(agent_type: &AgentType, name: &str, settings: &Value) -> Result<Self, String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if name.is_empty() || name.len() > SERVER_CHARS_MAX || !name.chars().all(is_plain) {
            return Err(format!("the name of a server has letters, digits and `-`, at most {SERVER_CHARS_MAX}"));
        }
        let mut fields = settings.as_object().cloned().ok_or("it must be an object")?;
        let terms: Map<String, Value> = TERMS.iter().filter_map(|name| fields.remove_entry(*name)).collect();
        let terms = McpToolTerms::deserialize(Value::Object(terms)).map_err(|error| error.to_string())?;
        let listed: Option<Vec<&str>> =
            fields.get("tools").and_then(Value::as_array).map(|tools| tools.iter().filter_map(Value::as_str).collect());
        for tool in terms.policies.keys().chain(terms.prices.keys()) {
            if listed.as_ref().is_some_and(|listed| !listed.is_empty() && !listed.contains(&tool.as_str())) {
                return Err(format!("`policies` and `prices` name `{tool}`, which is not among `tools`"));
            }
            terms.of_tool(tool)?;
        }
        terms.of_tool("")?;
        let tools = Arc::new(McpToolSet::new(agent_type, &Value::Object(fields))?);
        Ok(Self { name: name.to_owned(), tools, terms: Arc::new(terms) })
    }

    /// The tools that the server lists now, and what becomes of the calls of each.
    pub async fn list(&self) -> Result<Vec<(Box<dyn AgentTool>, ToolTerms)>, Failure> {
        let tools = self.tools.list().await?;
        Ok(tools.into_iter().filter_map(|info| self.tool(info)).collect())
    }

    /// `None` for a name that models do not accept.
    fn tool(&self, info: McpToolInfo) -> Option<(Box<dyn AgentTool>, ToolTerms)> {
        let name = format!("{}{SEPARATOR}{}", self.name, info.name);
        if !is_tool_name(&name) {
            tracing::warn!("a tool of the MCP server `{}` is left out: models do not take its name", self.name);
            return None;
        }
        // The settings were checked when they were read.
        let terms = self.terms.of_tool(&info.name).unwrap_or(ToolTerms::free(ToolPolicy::Deny));
        Some((Box::new(McpTool { name, info, tools: Arc::clone(&self.tools) }), terms))
    }
}

/// One tool of a server.
struct McpTool {
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

    fn is_read_only(&self) -> bool {
        self.info.is_read_only
    }

    async fn run(&self, arguments: &Value, task: &Task) -> Result<Value, String> {
        let (name, key) = (self.info.name.clone(), task.idempotency_key.as_str());
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let result = self.tools.call(name, arguments, key, None, &CancellationToken::new()).await;
        result.map(|result| result.outputs.value()).map_err(|failure| failure.message)
    }
}

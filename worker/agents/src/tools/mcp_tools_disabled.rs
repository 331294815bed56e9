//! Stands in for the tools of MCP servers in builds without the feature `mcp`.

#![expect(clippy::unused_async, reason = "functions of the module that it stands in for")]

use std::sync::Arc;

use goalmill_common::config::Feature;
use goalmill_common::failure::Failure;
use goalmill_common::id::AgentType;
use goalmill_worker::executor::Executor;
use serde_json::Value;

use super::{AgentTool, ToolTerms};

/// Refuses an agent type with the executor `mcp`; the error is a sentence for people.
pub fn mcp_executor(_: &AgentType, _: &Value) -> Result<Arc<dyn Executor>, String> {
    Err(missing("kind = \"mcp\""))
}

/// There is none.
#[derive(Clone)]
pub(super) enum McpToolServer {}

impl McpToolServer {
    pub fn new(_: &AgentType, _: &str, _: &Value) -> Result<Self, String> {
        Err(missing("mcp"))
    }

    pub async fn list(&self) -> Result<Vec<(Box<dyn AgentTool>, ToolTerms)>, Failure> {
        match *self {}
    }
}

fn missing(setting: &str) -> String {
    Feature::Mcp.missing(setting).to_string()
}

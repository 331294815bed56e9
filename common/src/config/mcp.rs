//! Settings of `/mcp` at the API.

use serde::{Deserialize, Serialize};

/// What MCP clients may do at `/mcp`, besides what their roles allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpAccess {
    /// `/mcp` is not served.
    Off,
    /// Only the tools that read are offered.
    #[default]
    Read,
    /// The tools that submit, answer and cancel are offered, too.
    Write,
}

/// The MCP server of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpApiSettings {
    /// What clients may do at `/mcp`.
    pub access: McpAccess,
    /// Most open sessions, of clients that speak a protocol before 2026-07-28; 0 for none. Only in a session such a
    /// client can be asked to let a person decide. When a further one begins, the one that was not used for longest ends.
    pub sessions_max: usize,
    /// Milliseconds without a message after which a session ends.
    pub idle_ms: u64,
}

impl Default for McpApiSettings {
    fn default() -> Self {
        Self { access: McpAccess::default(), sessions_max: 100, idle_ms: 900_000 }
    }
}

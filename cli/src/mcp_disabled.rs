//! Stands in for `goalmill mcp` in builds without the feature `mcp`.

#![expect(clippy::unused_async, reason = "functions of the module that it stands in for")]

use goalmill_common::config::Feature;

use crate::context::CommandContext;
use crate::exit::{CommandResult, Failed};

/// Refuses the command.
pub async fn run(_: &CommandContext, _: bool) -> CommandResult {
    Err(Failed::invalid(Feature::Mcp.missing("goalmill mcp").to_string()))
}

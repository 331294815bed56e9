//! `goalmill mcp`: an MCP server over standard input and output, in front of the API at `--server`.

use goalmill_mcp_server::{McpServer, serve_stdio};

use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};

/// Serves until standard input ends.
///
/// - `writes`: offers tools that submit, answer and cancel, too.
pub async fn run(context: &CommandContext, writes: bool) -> CommandResult {
    let server =
        McpServer { clients: context.client.clone(), writes, how_to_allow_writes: "`goalmill mcp --allow-writes`" };
    Box::pin(serve_stdio(server)).await.map_err(|error| Failed::other(error.to_string()))?;
    Ok(Exit::Done)
}

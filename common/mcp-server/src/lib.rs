//! The MCP server in front of the HTTP API: one set of tools and resources, over standard input and output and over
//! streamable HTTP.
//!
//! It knows nothing of plans: each tool is one or two requests of the API client. Tools that change something are offered
//! only if the server's owner allows writes; an approval always asks the person at the client, by elicitation.

mod approval;
mod http_endpoint;
mod message_check;
mod server;
mod sessions;
mod stdio;
mod tools;

pub use http_endpoint::{EndpointLimits, HttpEndpoint};
pub use server::{CallerClient, McpServer};
pub use stdio::{McpServerError, serve_stdio};

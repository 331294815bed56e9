//! Stands in for `/mcp` in builds without the feature `mcp`: it is not served.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use goalmill_common::problem::{ErrorCode, Problem};

use super::response::ApiError;
use crate::scheduler::Scheduler;

/// There is none.
pub(super) enum McpEndpoint {}

impl McpEndpoint {
    pub(super) fn new(_: &Scheduler, _: Router) -> Option<Arc<Self>> {
        None
    }
}

/// Every method of `/mcp`.
pub(super) async fn serve() -> Result<Response, ApiError> {
    Err(Problem::new(ErrorCode::NotFound, "this scheduler does not serve MCP; it is built without the feature `mcp`")
        .into())
}

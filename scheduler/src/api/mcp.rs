//! `/mcp`: the MCP server over streamable HTTP.
//!
//! What a tool does is a request to the routes of this API, made by the caller of the tool and answered in this process. So
//! roles, namespaces, limits and validation are those of the routes, and nothing is decided here.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Request};
use axum::response::Response;
use goalmill_client::{Client, PendingResponse, Transport};
use goalmill_common::config::McpAccess;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_mcp_server::{CallerClient, EndpointLimits, HttpEndpoint, McpServer};
use reqwest::ResponseBuilderExt;
use tower::ServiceExt;

use super::Api;
use super::access::CheckedCaller;
use super::principal::Principal;
use super::response::ApiError;
use crate::scheduler::Scheduler;

/// Who acts, without authentication.
const ACTOR: &str = "mcp";
/// The trace that a call belongs to.
const TRACEPARENT: &str = "traceparent";

/// Serves `/mcp`.
pub(super) struct McpEndpoint {
    http: HttpEndpoint<RouteClients>,
    body_bytes_max: usize,
}

impl McpEndpoint {
    /// `None` if the settings do not want it.
    ///
    /// - `routes`: the API as it is for a caller who has been checked.
    pub(super) fn new(scheduler: &Scheduler, routes: Router) -> Option<Arc<Self>> {
        let api = &scheduler.settings.api;
        let writes = match api.mcp.access {
            McpAccess::Off => return None,
            McpAccess::Read => false,
            McpAccess::Write => true,
        };
        let how_to_allow_writes = "`api.mcp.access = \"write\"`";
        let server = McpServer { clients: RouteClients { routes }, writes, how_to_allow_writes };
        let limits = EndpointLimits {
            body_bytes_max: api.body_bytes_max,
            sessions_max: api.mcp.sessions_max,
            idle: Duration::from_millis(api.mcp.idle_ms),
        };
        let http = HttpEndpoint::new(&server, limits, &scheduler.stop);
        Some(Arc::new(Self { http, body_bytes_max: limits.body_bytes_max }))
    }
}

/// Every method of `/mcp`.
pub(super) async fn serve(
    State(api): State<Api>,
    principal: Principal,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let Some(mcp) = &api.mcp else {
        let detail = "this scheduler does not serve MCP; set `api.mcp.access`";
        return Err(Problem::new(ErrorCode::NotFound, detail).into());
    };
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, mcp.body_bytes_max).await;
    let body = body.map_err(|error| Problem::new(ErrorCode::BodyTooLarge, error.to_string()))?;
    let caller = format!("{}\n{}", principal.actor, principal.scope());
    Ok(mcp.http.answer(Request::from_parts(parts, body), &caller).await.map(Body::new))
}

/// Makes the clients of callers: their requests go to the routes.
#[derive(Clone)]
struct RouteClients {
    routes: Router,
}

impl CallerClient for RouteClients {
    fn client_of(&self, request: Option<&Parts>) -> Option<Client> {
        let request = request?;
        let transport = RouteTransport {
            routes: self.routes.clone(),
            caller: CheckedCaller(request.extensions.get::<Principal>()?.clone()),
            traceparent: request.headers.get(TRACEPARENT).cloned(),
        };
        Some(Client::in_process(Arc::new(transport), ACTOR))
    }
}

/// Answers the requests of one caller.
struct RouteTransport {
    routes: Router,
    caller: CheckedCaller,
    traceparent: Option<HeaderValue>,
}

impl fmt::Debug for RouteTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteTransport").finish_non_exhaustive()
    }
}

impl Transport for RouteTransport {
    fn send(&self, request: reqwest::Request) -> PendingResponse {
        let (routes, caller, traceparent) = (self.routes.clone(), self.caller.clone(), self.traceparent.clone());
        Box::pin(async move {
            let url = request.url().clone();
            let mut request = Request::<reqwest::Body>::try_from(request)?.map(Body::new);
            request.extensions_mut().insert(caller);
            if let Some(traceparent) = traceparent {
                request.headers_mut().insert(TRACEPARENT, traceparent);
            }
            let Ok(answer) = routes.oneshot(request).await;
            let made = axum::http::Response::builder().status(answer.status()).url(url);
            let made = made.body(reqwest::Body::wrap_stream(answer.into_body().into_data_stream()));
            Ok(made.expect("a status and a body make a response").into())
        })
    }
}

//! The route of a request, and the roles that it needs.

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request};
use axum::http::Method;
use goalmill_common::access::Role;

use super::refusal::AccessRefusal;
use crate::api::openapi::{RouteAccess, route_access};
use crate::api::page;
use crate::api::principal::Principal;
use crate::api::sign_in_paths::is_sign_in;

/// What the paths of one plan begin with, in the router.
const PLAN_PATH: &str = "/v1/plans/{id}";

/// Writes below these paths change what all namespaces share. `/v1/agents:route` only reads.
const SHARED_PATHS: [&str; 3] = ["/v1/agents", "/v1/workers", "/v1/queues"];

/// What the place of a request asks of its caller.
pub(super) enum AskedAccess {
    Route(RouteAccess),
    /// The path is that of a route, but the table has no such method or verb.
    Unlisted,
    /// No route has this path: nothing happens there.
    NoRoute,
}

impl AskedAccess {
    pub(super) fn check_principal(&self, principal: &Principal) -> Result<(), AccessRefusal> {
        let roles: &[Role] = match self {
            Self::Route(RouteAccess::Public | RouteAccess::SignedIn) | Self::NoRoute => return Ok(()),
            Self::Route(RouteAccess::Roles(roles)) => roles,
            Self::Unlisted => &[Role::Admin],
        };
        Ok(principal.require(roles)?)
    }
}

/// What a request asks for.
pub(super) struct AskedRoute {
    pub(super) access: AskedAccess,
    /// The plan that the path names.
    pub(super) plan: Option<String>,
    /// Whether it changes what all namespaces share.
    pub(super) is_shared: bool,
}

impl AskedRoute {
    /// Reads path and parameters as the router and the handlers do.
    pub(super) async fn from_request(request: &mut Request) -> Self {
        let Some(path) = request.extensions().get::<MatchedPath>().cloned() else {
            return Self { access: AskedAccess::NoRoute, plan: None, is_shared: false };
        };
        let path = path.as_str();
        let method = match *request.method() {
            Method::HEAD => Method::GET,
            ref method => method.clone(),
        };
        if method == Method::GET && (page::is_page(path) || is_sign_in(path)) {
            return Self { access: AskedAccess::Route(RouteAccess::Public), plan: None, is_shared: false };
        }
        let mut parameters = parameters(request).await;
        let mut verb = String::new();
        // Only `POST` has verbs. They stand in the last parameter.
        if method == Method::POST
            && let Some(last) = parameters.last_mut()
            && let Some((id, tail)) = last.rsplit_once(':')
        {
            tail.clone_into(&mut verb);
            *last = id.to_owned();
        }
        let access = route_access(method.as_str(), path, &verb).map_or(AskedAccess::Unlisted, AskedAccess::Route);
        // What the table does not have is refused for its method or verb, whatever it names.
        let is_of_plan = path.starts_with(PLAN_PATH) && !matches!(access, AskedAccess::Unlisted);
        let plan = is_of_plan.then(|| parameters.into_iter().next().unwrap_or_default());
        let is_shared = !is_read(&method)
            && path != "/v1/agents:route"
            && SHARED_PATHS.iter().any(|shared| path.starts_with(shared))
            || path.starts_with("/v1/tokens");
        Self { access, plan, is_shared }
    }
}

/// The parameters of the path, decoded; empty if they cannot be.
async fn parameters(request: &mut Request) -> Vec<String> {
    let (mut parts, body) = std::mem::take(request).into_parts();
    let parameters = match RawPathParams::from_request_parts(&mut parts, &()).await {
        Ok(parameters) => parameters.iter().map(|(_, value)| value.to_owned()).collect(),
        Err(_) => Vec::new(),
    };
    *request = Request::from_parts(parts, body);
    parameters
}

/// Whether a method changes nothing.
pub(super) fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

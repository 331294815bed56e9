//! The HTTP API.

mod access;
mod actions;
mod allowed_methods;
mod approvals;
mod archived_events;
mod body;
mod bulk_actions;
mod callbacks;
mod census;
mod certificate;
mod dead_letters;
mod edit;
mod entity_tag;
mod error_responses;
mod event_cursor;
mod event_feed;
mod event_filter;
mod event_search;
mod events;
mod fork;
mod goal_correction;
mod health;
mod host_guard;
#[cfg_attr(not(feature = "mcp"), path = "mcp_disabled.rs")]
mod mcp;
mod namespaces;
mod oidc_sign_in;
mod openapi;
mod overview;
mod page;
mod payloads;
mod plan_access;
mod plan_list;
mod plan_search;
mod plans;
mod principal;
mod query_parameters;
mod registry;
mod response;
mod send_event;
mod serve;
mod session;
mod sign_in_paths;
mod starting;
mod stats;
mod steps;
mod stored_plans;
mod submit;
mod tls;
mod tokens;
mod wait_preference;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::get;
use goalmill_common::problem::{ErrorCode, Problem};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};

use crate::scheduler::Scheduler;
use crate::shard::OwnedShards;

pub(crate) use access::{ApiCredentials, OidcVerifier, environment_tokens};
pub(crate) use health::NO_CALLBACK_URL;
pub(crate) use serve::HttpServer;
pub(crate) use starting::StartingApi;
pub(crate) use tls::ApiTls;

use access::AccessGuard;
use body::BodyReader;
use census::Census;
use host_guard::HostGuard;
use mcp::McpEndpoint;
use response::ApiError;

/// Interval of folding histogram samples.
const UPKEEP: Duration = Duration::from_secs(5);

/// Answers of fewer bytes are sent as they are.
const COMPRESSED_BYTES_MIN: u16 = 1_024;

/// The state that handlers share.
#[derive(Clone)]
pub(crate) struct Api {
    scheduler: Arc<Scheduler>,
    shards: Arc<OwnedShards>,
    access: Arc<AccessGuard>,
    /// Number of open event streams.
    streams: Arc<AtomicUsize>,
    /// Permits of requests that search logs.
    scans: Arc<Semaphore>,
    bodies: BodyReader,
    /// Counts plans.
    census: Arc<Census>,
    /// None for plain HTTP.
    tls: Option<Arc<ApiTls>>,
    /// `None` unless MCP is served.
    mcp: Option<Arc<McpEndpoint>>,
}

/// Serves the API until stopped.
///
/// - `credentials`: what the settings accept besides the tokens of the store.
/// - `tls`: none for plain HTTP.
pub(crate) async fn serve(
    scheduler: Arc<Scheduler>,
    shards: Arc<OwnedShards>,
    credentials: ApiCredentials,
    listener: TcpListener,
    tls: Option<Arc<ApiTls>>,
) {
    let settings = &scheduler.settings.api;
    let bodies = BodyReader::new(&scheduler.settings);
    let guard = Arc::new(HostGuard::new(settings, listener.local_addr().ok()));
    let scans = Arc::new(Semaphore::new(event_search::SCANS_MAX));
    let access = Arc::new(AccessGuard::new(&scheduler, credentials));
    access.warn_if_closed().await;
    let checked = |routes: Router<Api>| {
        routes
            .layer(middleware::from_fn(query_parameters::refuse_parameters))
            .layer(middleware::from_fn(allowed_methods::check_method))
            .layer(middleware::from_fn_with_state(access.clone(), access::check_access))
    };
    let limited = || routes().layer(DefaultBodyLimit::max(settings.body_bytes_max));
    let mut api = Api {
        scheduler: scheduler.clone(),
        shards,
        access: access.clone(),
        streams: Arc::default(),
        scans,
        bodies: bodies.clone(),
        census: Arc::default(),
        tls: tls.clone(),
        mcp: None,
    };
    // The requests that the tools of MCP stand for: by the same caller, and without a connection.
    let inner = checked(limited()).layer(middleware::from_fn(error_responses::convert_errors));
    api.mcp = McpEndpoint::new(&scheduler, inner.with_state(api.clone()));
    let router = checked(limited().layer(middleware::from_fn_with_state(bodies, body::read_body)))
        .layer(middleware::from_fn_with_state(guard, host_guard::check_host))
        .layer(middleware::from_fn(error_responses::convert_errors))
        .layer(CompressionLayer::new().compress_when(is_compressed()))
        .with_state(api);
    serve::serve_on_thread(HttpServer::from_scheduler(&scheduler), listener, router, tls).await;
}

/// Events are sent one by one, so a stream of them is not compressed.
fn is_compressed() -> impl Predicate {
    SizeAbove::new(COMPRESSED_BYTES_MIN).and(NotForContentType::const_new("text/event-stream"))
}

/// Serves `/metrics` until stopped.
pub(crate) async fn serve_metrics(server: HttpServer, listener: TcpListener, handle: PrometheusHandle) {
    let upkeep = upkeep(server.stop.clone(), handle.clone());
    let router = Router::new().route("/metrics", get(move || async move { handle.render() }));
    tokio::join!(upkeep, server.serve(listener, router, None));
}

fn routes() -> Router<Api> {
    openapi::router()
        .merge(page::routes())
        .merge(oidc_sign_in::routes())
        .fallback(async || ApiError(Problem::new(ErrorCode::NotFound, "no route has this address; see /openapi.json")))
        .method_not_allowed_fallback(async || {
            ApiError(Problem::new(
                ErrorCode::MethodNotAllowed,
                "the route exists, but not with this method; see /openapi.json",
            ))
        })
}

/// Folds histogram samples until stopped; otherwise they accumulate between scrapes.
async fn upkeep(stop: CancellationToken, handle: PrometheusHandle) {
    while !stop.is_cancelled() {
        handle.run_upkeep();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = tokio::time::sleep(UPKEEP) => {}
        }
    }
}

#[cfg(test)]
mod page_vocabulary_tests;
#[cfg(test)]
mod tests;

//! The HTTP interface.

mod answer;
mod body;
mod edit;
mod events;
mod fork;
mod guard;
mod health;
mod letters;
mod listen;
mod listing;
mod logs;
mod openapi;
mod past;
mod people;
mod plans;
mod query;
mod registry;
mod shape;
mod steps;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{MethodRouter, get, post};
use goalmill_common::problem::{ErrorCode, Problem};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::shard::Loops;
use crate::site::Site;

use answer::Refusal;
use body::BodyLimits;
use guard::Guard;

/// How often histogram samples are folded.
const UPKEEP: Duration = Duration::from_secs(5);

/// What every handler may use.
#[derive(Clone)]
pub(crate) struct Api {
    site: Arc<Site>,
    loops: Loops,
    /// Event streams open now.
    streams: Arc<AtomicUsize>,
    /// Places for requests that look through logs.
    scans: Arc<Semaphore>,
}

/// Serves the API until stopped.
pub(crate) async fn serve(site: Arc<Site>, loops: Loops, listener: TcpListener) {
    let settings = &site.settings.api;
    let (bytes_max, time) = (settings.body_bytes_max, Duration::from_millis(settings.body_ms));
    let guard = Arc::new(Guard::new(settings, listener.local_addr().ok()));
    let scans = Arc::new(Semaphore::new(logs::SCANS_MAX));
    let router = routes()
        .layer(DefaultBodyLimit::max(bytes_max))
        .layer(middleware::from_fn_with_state(BodyLimits { bytes_max, time }, body::read))
        .layer(middleware::from_fn(query::refuse_parameters))
        .layer(middleware::from_fn_with_state(guard, guard::guard))
        .layer(middleware::from_fn(shape::shape))
        .with_state(Api { site: site.clone(), loops, streams: Arc::default(), scans });
    listen::listen_apart(site, listener, router).await;
}

/// Serves `/metrics` until stopped.
pub(crate) async fn serve_metrics(site: Arc<Site>, listener: TcpListener) {
    let Some(handle) = goalmill_common::telemetry::metrics() else { return };
    site.tasks.spawn(upkeep(site.clone(), handle.clone()));
    let router = Router::new().route("/metrics", get(move || async move { handle.render() }));
    listen::listen(site, listener, router).await;
}

fn routes() -> Router<Api> {
    let router = addresses().into_iter().fold(Router::new(), |router, (path, takes)| router.route(path, takes));
    router
        .fallback(async || Refusal(Problem::new(ErrorCode::NotFound, "there is nothing at this address")))
        .method_not_allowed_fallback(async || {
            Refusal(Problem::new(ErrorCode::MethodNotAllowed, "this address does not take this method"))
        })
}

/// What there is; [`openapi`] describes it.
fn addresses() -> Vec<(&'static str, MethodRouter<Api>)> {
    vec![
        ("/v1/goals", post(plans::submit_goal)),
        ("/v1/plans", post(plans::submit_plan).get(listing::list)),
        ("/v1/plans:validate", post(plans::validate)),
        ("/v1/plans:preview", post(plans::preview)),
        ("/v1/plans/{id}", get(plans::get).post(plans::act)),
        ("/v1/plans/{id}/graph", get(plans::graph)),
        ("/v1/plans/{id}/results", get(plans::results)),
        ("/v1/plans/{id}/explain", get(plans::explain)),
        ("/v1/plans/{id}/events", get(events::list)),
        ("/v1/plans/{id}/revisions", get(people::revisions)),
        ("/v1/plans/{id}/questions", get(people::questions)),
        ("/v1/plans/{id}/questions/{question}", post(people::answer_question)),
        ("/v1/plans/{id}/steps/{step}", get(steps::get).post(steps::act)),
        ("/v1/agents", get(registry::agents).post(registry::register)),
        ("/v1/agents:route", post(registry::route)),
        ("/v1/workers", get(registry::workers)),
        ("/v1/workers/{id}", post(registry::act_on_worker)),
        ("/v1/queues", get(registry::queues)),
        ("/v1/queues/{agent_type}", post(registry::act_on_queue)),
        ("/v1/dead-letters", get(letters::list_all)),
        ("/v1/dead-letters/{agent_type}", get(letters::list)),
        ("/v1/dead-letters/{agent_type}/{entry}", post(letters::act)),
        ("/v1/events", get(logs::list)),
        ("/v1/logs", get(logs::list)),
        ("/v1/scaling/{agent_type}", get(registry::scaling)),
        ("/v1/schemas/{name}", get(registry::schema)),
        ("/livez", get(health::livez)),
        ("/readyz", get(health::readyz)),
        ("/openapi.json", get(openapi::serve)),
    ]
}

/// Folds histogram samples until stopped; without it they pile up between scrapes.
async fn upkeep(site: Arc<Site>, handle: metrics_exporter_prometheus::PrometheusHandle) {
    while !site.stop.is_cancelled() {
        handle.run_upkeep();
        tokio::select! {
            biased;
            () = site.stop.cancelled() => {}
            () = tokio::time::sleep(UPKEEP) => {}
        }
    }
}

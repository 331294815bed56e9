//! HTTP endpoints of the worker: `/livez`, `/readyz`, `/metrics`.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;

use crate::WorkerStartError;
use crate::worker::Worker;

/// Interval of histogram upkeep, in milliseconds.
const UPKEEP_MS: u64 = 2_000;

#[derive(Clone)]
struct HealthApp {
    worker: Arc<Worker>,
    recorder: Option<PrometheusHandle>,
}

/// Binds the address of the settings; empty for none.
pub(crate) async fn bind(address: &str) -> Result<Option<TcpListener>, WorkerStartError> {
    if address.is_empty() {
        return Ok(None);
    }
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(Some(listener)),
        Err(e) => Err(WorkerStartError::Listen { address: address.into(), reason: e.to_string() }),
    }
}

/// Serves until the worker stops.
pub(crate) async fn serve(worker: Arc<Worker>, listener: TcpListener, recorder: Option<PrometheusHandle>) {
    let app = HealthApp { worker: worker.clone(), recorder: recorder.clone() };
    let router = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(app);
    let stopped = worker.stop.clone().cancelled_owned();
    tokio::select! {
        biased;
        served = async { axum::serve(listener, router).await } => {
            if let Err(e) = served {
                tracing::error!("the worker's http port has failed: {e}");
            }
        }
        () = upkeep(recorder) => {}
        () = stopped => {}
    }
}

async fn upkeep(recorder: Option<PrometheusHandle>) {
    let Some(recorder) = recorder else { return std::future::pending().await };
    loop {
        tokio::time::sleep(Duration::from_millis(UPKEEP_MS)).await;
        recorder.run_upkeep();
    }
}

async fn livez(State(app): State<HealthApp>) -> (StatusCode, String) {
    match app.worker.supervisor.failure() {
        None => (StatusCode::OK, "ok\n".into()),
        Some(reason) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{reason}\n")),
    }
}

async fn readyz(State(app): State<HealthApp>) -> (StatusCode, String) {
    match app.worker.connection.state() {
        _ if app.worker.draining.is_cancelled() => (StatusCode::SERVICE_UNAVAILABLE, "the worker drains\n".into()),
        Ok(()) => (StatusCode::OK, "ok\n".into()),
        Err(trouble) => (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", trouble.text)),
    }
}

async fn metrics(State(app): State<HealthApp>) -> (StatusCode, String) {
    app.worker.set_gauges();
    match &app.recorder {
        Some(recorder) => (StatusCode::OK, recorder.render()),
        None => (StatusCode::NOT_FOUND, "metrics are served by the embedding program\n".into()),
    }
}

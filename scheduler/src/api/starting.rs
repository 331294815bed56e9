//! Served while a scheduler starts: `/livez` is as always, every other address answers 503 with what the start waits for.

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use goalmill_common::problem::{ErrorCode, Problem};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::health;
use super::response::ApiError;
use super::serve::HttpServer;
use super::tls::ApiTls;
use crate::start_status::StartStatus;

/// The API before the scheduler can answer.
pub(crate) struct StartingApi {
    started: CancellationToken,
    serving: JoinHandle<Option<TcpListener>>,
}

impl StartingApi {
    /// - `server`: of the scheduler; its end is also the end of this one.
    pub(crate) fn serve(
        server: &HttpServer,
        status: &StartStatus,
        listener: TcpListener,
        tls: Option<Arc<ApiTls>>,
    ) -> Self {
        let started = server.stop.child_token();
        let status = status.clone();
        let supervisor = server.supervisor.clone();
        let livez = get(async move || health::liveness(&supervisor));
        let router = Router::new().route("/livez", livez).fallback(async move || respond(&status));
        let starting = HttpServer { stop: started.clone(), ..server.clone() };
        let serving = starting.serve_for_now(listener, router, tls);
        let serving = server.tasks.spawn(server.supervisor.clone().watch("starting_api", || true, serving));
        Self { started, serving }
    }

    /// The listener, for the API itself; `None` when the scheduler was stopped by force.
    pub(crate) async fn end(self) -> Option<TcpListener> {
        self.started.cancel();
        self.serving.await.ok().flatten()
    }
}

/// A problem that says that the request may be repeated.
fn respond(status: &StartStatus) -> Response {
    let waits_for = status.problem();
    let can_be_repeated = waits_for.status == ErrorCode::NotReady.status() && waits_for.code.is_retryable();
    let problem = if can_be_repeated { waits_for } else { Problem::new(ErrorCode::NotReady, waits_for.detail) };
    ApiError(problem).into_response()
}

//! Takes connections and serves them until the scheduler stops.
//!
//! In place of `axum::serve`, which has no limit for the time that a client takes to send a request's head.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use goalmill_common::problem::{ErrorCode, Problem};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::health;
use super::response::ApiError;
use crate::scheduler::Scheduler;

/// Wait after a connection could not be taken: mostly there are too many open files.
const PAUSE: Duration = Duration::from_millis(500);
/// Open requests may take so long to end once the scheduler stops; event streams end at once.
const END: Duration = Duration::from_secs(5);

/// Serves from a thread of its own until stopped; requests are answered on the runtime of the caller, but for
/// `/livez`: however long a shard's loop computes, the process says that it lives.
pub(super) async fn serve_on_thread(scheduler: Arc<Scheduler>, listener: TcpListener, router: Router) {
    let router = router.layer(middleware::from_fn_with_state(Handle::current(), answer));
    let (ended, end) = oneshot::channel::<()>();
    let run_runtime = move || -> std::io::Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = listener.into_std()?;
        runtime.block_on(async {
            serve(scheduler, TcpListener::from_std(listener)?, router).await;
            Ok(())
        })
    };
    let run = move || {
        if let Err(error) = run_runtime() {
            tracing::error!("the api cannot be served: {error}");
        }
        drop(ended);
    };
    match std::thread::Builder::new().name("api".into()).spawn(run) {
        // It is never sent anything: the end of the thread ends the wait.
        Ok(_) => drop(end.await),
        Err(error) => tracing::error!("the api cannot be served: {error}"),
    }
}

/// Answers a request on the scheduler's runtime; a client that goes away ends it.
async fn answer(State(runtime): State<Handle>, request: Request, next: Next) -> Response {
    let is_plain = request.uri().path_and_query().is_some_and(|asked| asked == "/livez");
    if is_plain && request.method() == Method::GET {
        return health::livez().await.into_response();
    }
    match AbortOnDropHandle::new(runtime.spawn(next.run(request))).await {
        Ok(response) => response,
        Err(error) if error.is_panic() => {
            let detail = "the request made its handler fail: please report this bug";
            ApiError(Problem::new(ErrorCode::Internal, detail)).into_response()
        }
        Err(_) => ApiError(Problem::new(ErrorCode::NotReady, "the scheduler is stopping")).into_response(),
    }
}

/// Serves until stopped; then lets open requests end.
pub(super) async fn serve(scheduler: Arc<Scheduler>, listener: TcpListener, router: Router) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    let head = Duration::from_millis(scheduler.settings.api.head_ms);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(head).keep_alive_timeout(head);
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = scheduler.stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!("a connection cannot be taken: {error}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("a connection has gone: {error}");
            continue;
        }
        let service = TowerToHyperService::new(router.clone());
        let connection = graceful.watch(builder.serve_connection(TokioIo::new(stream), service).into_owned());
        scheduler.tasks.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("a connection has ended: {error}");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(END, graceful.shutdown()).await.is_err() {
        tracing::debug!("some requests did not end in time");
    }
}

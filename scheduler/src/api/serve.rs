//! Accepts connections and serves them until the scheduler stops.
//!
//! It replaces `axum::serve`, which has no time limit for request heads.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use goalmill_common::config::ApiSettings;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::supervisor::Supervisor;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::health;
use super::response::ApiError;
use super::tls::ApiTls;
use crate::loops::Loops;
use crate::scheduler::Scheduler;

/// The address at the other end of a request's connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Wait after a failed accept; usually there are too many open files.
const PAUSE: Duration = Duration::from_millis(500);
/// Time limit of open requests when the scheduler stops; event streams end immediately.
const END: Duration = Duration::from_secs(5);

/// What accepts connections.
#[derive(Clone)]
pub(crate) struct HttpServer {
    /// Ends the server.
    pub(crate) stop: CancellationToken,
    /// Counts the connections.
    pub(crate) tasks: TaskTracker,
    /// `/livez` asks it.
    pub(crate) supervisor: Supervisor,
    /// Time limit of a request's head, and of a TLS handshake.
    pub(crate) head: Duration,
}

/// Serves on a separate thread until stopped. Requests run on the runtime of the caller, except `/livez`, which must
/// answer while a shard's loop is busy.
pub(super) async fn serve_on_thread(
    server: HttpServer,
    listener: TcpListener,
    router: Router,
    tls: Option<Arc<ApiTls>>,
) {
    let runtime = (Handle::current(), server.supervisor.clone());
    let router = router.layer(middleware::from_fn_with_state(runtime, run_request));
    let (ended, end) = oneshot::channel::<()>();
    let run_runtime = move || -> std::io::Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = listener.into_std()?;
        runtime.block_on(async {
            server.serve(TcpListener::from_std(listener)?, router, tls).await;
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
        // Nothing is ever sent: the wait ends with the thread.
        Ok(_) => drop(end.await),
        Err(error) => tracing::error!("the api cannot be served: {error}"),
    }
}

/// Runs a request on the scheduler's runtime; it is aborted when the client disconnects.
async fn run_request(
    State((runtime, supervisor)): State<(Handle, Supervisor)>,
    request: Request,
    next: Next,
) -> Response {
    let is_plain = request.uri().path_and_query().is_some_and(|asked| asked == "/livez");
    if is_plain && request.method() == Method::GET {
        return health::liveness(&supervisor).into_response();
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

impl HttpServer {
    /// A server that ends with its scheduler.
    pub(crate) fn from_scheduler(scheduler: &Scheduler) -> Self {
        Self::new(&scheduler.settings.api, &scheduler.loops)
    }

    pub(crate) fn new(settings: &ApiSettings, loops: &Loops) -> Self {
        let Loops { tasks, stop, supervisor } = loops.clone();
        Self { stop, tasks, supervisor, head: Duration::from_millis(settings.head_ms) }
    }

    /// Serves until stopped, then waits for open requests.
    ///
    /// - `tls`: none for plain HTTP.
    pub(crate) async fn serve(&self, listener: TcpListener, router: Router, tls: Option<Arc<ApiTls>>) {
        let open = self.accept(&listener, router, tls).await;
        drop(listener);
        finish(open).await;
    }

    /// Serves until stopped; gives the listener back, for another router. Open requests are finished meanwhile.
    pub(crate) async fn serve_for_now(
        self,
        listener: TcpListener,
        router: Router,
        tls: Option<Arc<ApiTls>>,
    ) -> TcpListener {
        let open = self.accept(&listener, router, tls).await;
        self.tasks.spawn(finish(open));
        listener
    }

    /// Accepts connections until stopped; returns those that are open.
    async fn accept(&self, listener: &TcpListener, router: Router, tls: Option<Arc<ApiTls>>) -> GracefulShutdown {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(self.head);
        builder.http2().timer(TokioTimer::new()).keep_alive_interval(self.head).keep_alive_timeout(self.head);
        let graceful = GracefulShutdown::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.stop.cancelled() => return graceful,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok((stream, address)) => (stream, Peer(address.ip())),
                Err(error) => {
                    tracing::debug!("accept failed: {error}");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!("a connection was closed: {error}");
                continue;
            }
            let router = router.clone().layer(Extension(peer));
            let connection = ApiConnection { builder: builder.clone(), watcher: graceful.watcher(), router };
            match tls.clone() {
                None => drop(self.tasks.spawn(connection.serve(stream))),
                Some(tls) => drop(self.tasks.spawn(serve_tls(self.clone(), connection, stream, tls))),
            }
        }
    }
}

/// Waits for open requests.
async fn finish(open: GracefulShutdown) {
    if tokio::time::timeout(END, open.shutdown()).await.is_err() {
        tracing::debug!("some requests did not end in time");
    }
}

/// What serves one connection.
struct ApiConnection {
    builder: auto::Builder<TokioExecutor>,
    watcher: Watcher,
    router: Router,
}

impl ApiConnection {
    async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, stream: S) {
        let service = TowerToHyperService::new(self.router);
        let connection = self.builder.serve_connection(TokioIo::new(stream), service).into_owned();
        if let Err(error) = self.watcher.watch(connection).await {
            tracing::debug!("a connection has ended: {error}");
        }
    }
}

/// Does the handshake within the time limit of a request's head, then serves.
async fn serve_tls(server: HttpServer, connection: ApiConnection, stream: TcpStream, tls: Arc<ApiTls>) {
    let shaken = tokio::select! {
        biased;
        () = server.stop.cancelled() => return,
        shaken = tokio::time::timeout(server.head, tls.accept(stream)) => shaken,
    };
    match shaken {
        Ok(Ok(stream)) => connection.serve(stream).await,
        Ok(Err(error)) => tracing::debug!("a TLS handshake failed: {error}"),
        Err(_) => tracing::debug!("a TLS handshake was not done in time"),
    }
}

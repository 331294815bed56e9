//! Takes connections and serves them until the scheduler stops.
//!
//! In place of `axum::serve`, which has no limit for the time that a client takes to send a request's head.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

use crate::site::Site;

/// Wait after a connection could not be taken: mostly there are too many open files.
const PAUSE: Duration = Duration::from_millis(500);
/// Open requests may take so long to end once the scheduler stops; event streams end at once.
const END: Duration = Duration::from_secs(5);

/// Serves until stopped; then lets open requests end.
pub(super) async fn listen(site: Arc<Site>, listener: TcpListener, router: Router) {
    let mut builder = Builder::new(TokioExecutor::new());
    let head = Duration::from_millis(site.settings.api.head_ms);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(head).keep_alive_timeout(head);
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = site.stop.cancelled() => break,
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
        site.tasks.spawn(async move {
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

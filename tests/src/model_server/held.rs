//! A model server that pauses in the middle of its answer.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::stream;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// One running server; ends when it is dropped.
pub struct HeldModel {
    address: SocketAddr,
    go_on: watch::Sender<bool>,
    _stop: DropGuard,
}

struct Written {
    first: String,
    rest: String,
    goes_on: watch::Receiver<bool>,
}

impl HeldModel {
    /// Streams `text` to whoever asks, and holds after its first `bytes`, which must end with a character.
    pub async fn start(text: &str, bytes: usize) -> Result<Self> {
        let (first, rest) = text.split_at(bytes);
        let (go_on, goes_on) = watch::channel(false);
        let written = Arc::new(Written { first: first.into(), rest: rest.into(), goes_on });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let app = Router::new().route("/v1/chat/completions", post(answer)).with_state(written);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        TaskTracker::new().spawn(async move {
            tokio::select! {
                served = async { axum::serve(listener, app).await } => served.expect("a bound port can be served"),
                () = stopped.cancelled() => {}
            }
        });
        Ok(Self { address, go_on, _stop: stop.drop_guard() })
    }

    /// Base URL for an OpenAI-compatible client.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Sends the rest.
    pub fn go_on(&self) {
        self.go_on.send_replace(true);
    }
}

async fn answer(State(written): State<Arc<Written>>) -> Response {
    let pieces = stream::unfold((written, 0), |(written, piece)| async move {
        let text = match piece {
            0 => frame(&written.first),
            1 => {
                drop(written.goes_on.clone().wait_for(|goes_on| *goes_on).await);
                frame(&written.rest)
            }
            2 => format!(
                "data: {}\n\ndata: [DONE]\n\n",
                json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            ),
            _ => return None,
        };
        Some((Ok::<_, std::io::Error>(text), (written, piece + 1)))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(pieces)).into_response()
}

fn frame(text: &str) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": text}}]}))
}

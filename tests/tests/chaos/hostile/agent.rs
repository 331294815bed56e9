//! An agent that answers each path with something that no agent should.

use std::net::SocketAddr;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::{Response, StatusCode};
use axum::routing::post;
use tokio::net::TcpListener;

use super::answers::ANSWERS;

/// Serves until the test ends.
pub(super) async fn serve() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let router = Router::new().route("/{name}", post(answer));
    #[expect(clippy::disallowed_methods, reason = "it ends with the test's runtime, and nothing waits for it")]
    tokio::task::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

async fn answer(Path(name): Path<String>) -> Response<Body> {
    let found = ANSWERS.iter().find(|answer| answer.name == name);
    let body = found.map_or_else(Vec::new, |answer| (answer.body)());
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::OK;
    response
}

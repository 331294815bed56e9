//! Reads the body of a request completely, within limits of size and time.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use goalmill_common::problem::{ErrorCode, Problem};
use tokio::time::{Instant, timeout_at};

use super::response::ApiError;

/// Limits of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyLimits {
    pub(super) bytes_max: usize,
    /// Time limit for the whole body, so that a slow client occupies only a connection.
    pub(super) time: Duration,
}

/// How much of a body that is too large is read and dropped before the error is sent, as a multiple of the limit.
const DROPPED: usize = 4;

/// Passes requests on with complete bodies.
pub(super) async fn read_body(State(limits): State<BodyLimits>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let length = length.unwrap_or(0);
    // Clients that ask first, and bodies far above the limit, are rejected at once.
    let asks = parts.headers.contains_key(header::EXPECT);
    let at_once = length > limits.bytes_max && (asks || length > limits.bytes_dropped());
    let whole = if at_once { Err(too_large(limits)) } else { collect(body, length, limits).await };
    match whole {
        Ok(bytes) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Err(problem) => ApiError(problem).into_response(),
    }
}

impl BodyLimits {
    /// Bytes after which a body that is too large is not read any more.
    fn bytes_dropped(self) -> usize {
        self.bytes_max.saturating_mul(DROPPED)
    }
}

/// Reads a body of `length` bytes, 0 if unknown. A body that is too large is read a while longer, because a client that
/// still sends when the connection closes never sees the error.
async fn collect(body: Body, length: usize, limits: BodyLimits) -> Result<Bytes, Problem> {
    let deadline = Instant::now() + limits.time;
    let mut frames = body.into_data_stream();
    let mut whole: Vec<u8> = Vec::new();
    let mut bytes_sent = 0_usize;
    loop {
        let is_too_large = length.max(bytes_sent) > limits.bytes_max;
        let Ok(frame) = timeout_at(deadline, frames.next()).await else {
            return Err(if is_too_large { too_large(limits) } else { too_late(limits) });
        };
        match frame {
            None if is_too_large => return Err(too_large(limits)),
            None => return Ok(whole.into()),
            Some(Ok(bytes)) => {
                bytes_sent += bytes.len();
                if bytes_sent <= limits.bytes_max {
                    whole.extend_from_slice(&bytes);
                } else if bytes_sent > limits.bytes_dropped() {
                    return Err(too_large(limits));
                } else {
                    whole = Vec::new();
                }
            }
            Some(Err(error)) => {
                return Err(Problem::new(ErrorCode::InvalidRequest, format!("the body cannot be read: {error}")));
            }
        }
    }
}

fn too_late(limits: BodyLimits) -> Problem {
    let ms = limits.time.as_millis();
    Problem::new(ErrorCode::RequestTimeout, format!("the body did not come within {ms} ms; see `api.body_ms`"))
}

fn too_large(limits: BodyLimits) -> Problem {
    let detail = format!("the body has more than {} bytes; see `api.body_bytes_max`", limits.bytes_max);
    Problem::new(ErrorCode::BodyTooLarge, detail)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::stream;

    use super::*;

    const LIMITS: BodyLimits = BodyLimits { bytes_max: 10, time: Duration::from_secs(30) };

    #[tokio::test]
    async fn a_body_is_put_together_up_to_its_limit() {
        let body = |parts: &'static [&'static str]| {
            Body::from_stream(stream::iter(parts.iter().map(|part| Ok::<_, Infallible>(*part))))
        };
        assert_eq!(collect(body(&["12345", "67890"]), 0, LIMITS).await.expect("it fits"), "1234567890");
        let refused = collect(body(&["12345", "678901"]), 0, LIMITS).await.expect_err("it is too large");
        assert_eq!(refused.code, ErrorCode::BodyTooLarge);
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_is_taken_to_its_end_before_it_is_refused() {
        let taken = async |parts: usize| {
            let taken = Arc::new(AtomicUsize::new(0));
            let count = taken.clone();
            let parts = stream::iter((0..parts).map(|_| Ok::<_, Infallible>("12345678")));
            let body = Body::from_stream(parts.inspect(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            }));
            let refused = collect(body, 0, LIMITS).await.expect_err("it is too large");
            assert_eq!(refused.code, ErrorCode::BodyTooLarge);
            taken.load(Ordering::Relaxed)
        };
        assert_eq!(taken(4).await, 4, "all of it");
        assert!(taken(1_000).await < 10, "but not for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_drips_is_given_up() {
        let drips = stream::unfold((), async |()| {
            tokio::time::sleep(Duration::from_secs(9)).await;
            Some((Ok::<_, Infallible>("x"), ()))
        });
        let refused = collect(Body::from_stream(drips), 0, LIMITS).await.expect_err("it never ends");
        assert_eq!((refused.code, refused.status), (ErrorCode::RequestTimeout, 408));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_says_that_it_is_too_large_and_does_not_come_is_refused_as_too_large() {
        let silent = Body::from_stream(stream::pending::<Result<&str, Infallible>>());
        let refused = collect(silent, 11, LIMITS).await.expect_err("it is too large");
        assert_eq!((refused.code, refused.status), (ErrorCode::BodyTooLarge, 413));
    }
}

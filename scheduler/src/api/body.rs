//! Reads the body of a request completely, within limits of size and time. Callers without credentials have small
//! bodies, and few of them at a time.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use goalmill_common::config::Settings;
use goalmill_common::problem::{ErrorCode, Problem};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::callbacks;
use super::principal::Principal;
use super::response::{ApiError, SMALL_BYTES_MAX};

/// Limits of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyLimits {
    pub(super) bytes_max: usize,
    /// What sets `bytes_max`, for errors.
    pub(super) named: &'static str,
    /// Time limit for the whole body, so that a slow client occupies only a connection.
    pub(super) time: Duration,
}

/// How much of a body that is too large is read and dropped before the error is sent, as a multiple of the limit.
const DROPPED: usize = 4;
/// Bodies of callers without credentials that are read at the same time. Each has [`SMALL_BYTES_MAX`] bytes at most.
const STRANGERS_MAX: usize = 256;

/// Reads bodies.
#[derive(Clone)]
pub(super) struct BodyReader {
    limits: BodyLimits,
    /// Of the report of a callback, whose outputs are kept inline.
    report_bytes_max: usize,
    /// Permits of bodies of callers without credentials.
    strangers: Arc<Semaphore>,
}

impl BodyReader {
    pub(super) fn new(settings: &Settings) -> Self {
        let (api, inline_bytes) = (&settings.api, settings.limits.inline_bytes_max);
        let time = Duration::from_millis(api.body_ms);
        Self {
            limits: BodyLimits { bytes_max: api.body_bytes_max, named: "see `api.body_bytes_max`", time },
            // Escaped characters take more room than the outputs that are kept.
            report_bytes_max: inline_bytes.saturating_mul(2).saturating_add(SMALL_BYTES_MAX).min(api.body_bytes_max),
            strangers: Arc::new(Semaphore::new(STRANGERS_MAX)),
        }
    }

    /// Reads a body whose caller has shown no credentials.
    ///
    /// - `named`: why it must be small, for errors.
    pub(super) async fn read_small(&self, parts: &Parts, body: Body, named: &'static str) -> Result<Bytes, ApiError> {
        if body.is_end_stream() {
            return Ok(Bytes::new());
        }
        let Ok(_permit) = self.strangers.try_acquire() else {
            let detail = "too many requests without credentials are being read; try again";
            return Err(Problem::new(ErrorCode::NotReady, detail).into());
        };
        let bytes_max = SMALL_BYTES_MAX.min(self.limits.bytes_max);
        Ok(read_within_limits(parts, body, BodyLimits { bytes_max, named, ..self.limits }).await?)
    }

    /// Reads the body of a callback whose token is right.
    pub(super) async fn read_report(&self, parts: &Parts, body: Body) -> Result<Bytes, ApiError> {
        let named = "`outputs` has at most `limits.inline_bytes_max`";
        let limits = BodyLimits { bytes_max: self.report_bytes_max, named, ..self.limits };
        Ok(read_within_limits(parts, body, limits).await?)
    }
}

/// Passes requests on with complete bodies. A callback is passed on as it is: its token is checked before its body is
/// read.
pub(super) async fn read_body(State(reader): State<BodyReader>, request: Request, next: Next) -> Response {
    if request.extensions().get::<MatchedPath>().is_some_and(|path| path.as_str() == callbacks::PATH) {
        return next.run(request).await;
    }
    let is_stranger = request.extensions().get::<Principal>().is_none();
    let (parts, body) = request.into_parts();
    let whole = if is_stranger {
        reader.read_small(&parts, body, "this address needs no credentials").await
    } else {
        read_within_limits(&parts, body, reader.limits).await.map_err(ApiError)
    };
    match whole {
        Ok(bytes) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Err(error) => error.into_response(),
    }
}

async fn read_within_limits(parts: &Parts, body: Body, limits: BodyLimits) -> Result<Bytes, Problem> {
    let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let length = length.unwrap_or(0);
    // Clients that ask first, and bodies far above the limit, are rejected immediately.
    let asks = parts.headers.contains_key(header::EXPECT);
    let at_once = length > limits.bytes_max && (asks || length > limits.bytes_dropped());
    if at_once { Err(too_large(limits)) } else { collect(body, length, limits).await }
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
                if length.max(bytes_sent) <= limits.bytes_max {
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
    let detail = format!("the body has more than {} bytes; {}", limits.bytes_max, limits.named);
    Problem::new(ErrorCode::BodyTooLarge, detail)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::stream;

    use super::*;

    const LIMITS: BodyLimits = BodyLimits { bytes_max: 10, named: "it is a test", time: Duration::from_secs(30) };

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

    #[tokio::test(start_paused = true)]
    async fn few_bodies_without_credentials_are_read_at_a_time() {
        let reader = BodyReader::new(&Settings::default());
        let read = |body: Body| {
            let (reader, (parts, ())) = (reader.clone(), Request::new(()).into_parts());
            async move { reader.read_small(&parts, body, "it is a test").await }
        };
        let silent = || Body::from_stream(stream::pending::<Result<&str, Infallible>>());
        #[expect(clippy::disallowed_methods, reason = "the handles are kept, and awaited at the end")]
        let slow: Vec<_> = (0..STRANGERS_MAX).map(|_| tokio::spawn(read(silent()))).collect();
        while reader.strangers.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = read(Body::from("{}")).await.expect_err("there are too many");
        assert_eq!(refused.0.code, ErrorCode::NotReady);
        assert_eq!(read(Body::empty()).await.expect("there is nothing to read"), "");
        for slow in slow {
            let refused = slow.await.expect("it ends").expect_err("nothing comes");
            assert_eq!(refused.0.code, ErrorCode::RequestTimeout);
        }
        assert_eq!(read(Body::from("{}")).await.expect("there is room again"), "{}");
    }
}

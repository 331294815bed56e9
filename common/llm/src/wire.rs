//! One HTTP call to one model, with a limit for each thing that is waited for.
//!
//! The time-outs are our own: a limit on the whole response, as HTTP clients have it, would end healthy streams.

use std::sync::Once;
use std::time::Duration;

use goalmill_common::clock::Clock;
use goalmill_common::config::ModelSettings;
use goalmill_common::tls_error::client_failure;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url, redirect};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::answer::{Delta, Raw, ServerError};
use crate::collect::{Collected, tokens_in};
use crate::dialect::{self, Reader, Request};
use crate::error::Wait;
use crate::secret::Secret;
use crate::tally::Tally;

/// Bytes of one answer; more is an error.
pub const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Bytes that are read of a refusal.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// Where the pieces of an answer go besides into the answer.
pub type Sink = mpsc::Sender<Delta>;

/// The way to one model.
#[derive(Debug)]
pub struct Wire {
    client: Client,
    url: Url,
    clock: Clock,
}

/// What went wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing was sent.
    Unreachable(String),
    Timeout {
        wait: Wait,
        limit_ms: u64,
    },
    /// The server said so, by a status or within its answer.
    Said {
        status: u16,
        said: ServerError,
        retry_after_ms: Option<u64>,
    },
    /// It is no answer.
    Garbage(String),
    /// The answer ended before its end.
    Cut(String),
    TooLarge,
}

/// What came, also of a call that failed.
#[derive(Debug, Default)]
pub struct Came {
    pub collected: Collected,
    pub raw: Raw,
}

impl Wire {
    /// The error is a sentence for people.
    pub fn new(model: &ModelSettings, key: Option<&Secret>, clock: Clock) -> Result<Self, String> {
        install_tls();
        let base = model.base_url.trim_end_matches('/');
        let url = format!("{base}{}", dialect::path(model.dialect));
        let url: Url = url.parse().map_err(|e| format!("`base_url` is not an address: {e}"))?;
        let mut builder = Client::builder()
            .default_headers(headers(model, key)?)
            // The key would go along.
            .redirect(redirect::Policy::none())
            .connect_timeout(Duration::from_millis(model.connect_ms))
            .user_agent(concat!("goalmill/", env!("CARGO_PKG_VERSION")));
        if url.scheme() == "http" {
            // The machine's certificates take long to read, and nobody will ask for them.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|e| format!("the http client cannot be made: {}", client_failure(&e)))?;
        Ok(Self { client, url, clock })
    }

    /// Sends the question and reads the answer.
    ///
    /// - `share`: how long the model may take; a stream only until it begins, others wait for what is being written.
    pub async fn call(
        &self,
        request: &Request<'_>,
        share: Option<Duration>,
        came: &mut Came,
        tally: &mut Tally,
        sink: Option<&Sink>,
    ) -> Result<(), Fault> {
        let model = request.model;
        let begun = Instant::now();
        let call = Duration::from_millis(model.call_ms);
        let mut most = share.map_or(call, |share| share.min(call));
        let mut end = begun + most;
        let first = if request.stream { begun + Duration::from_millis(model.first_byte_ms) } else { end };
        // By the limit that was waited for: on a busy machine others may be over as well once this one is seen.
        let late = |at: Instant, wait: Wait, most: Duration| match (at >= begun + most, wait) {
            (true, _) => Fault::Timeout { wait: Wait::End, limit_ms: most.as_millis() as u64 },
            (false, Wait::FirstByte) => Fault::Timeout { wait, limit_ms: model.first_byte_ms },
            (false, _) => Fault::Timeout { wait, limit_ms: model.idle_ms },
        };
        let body = dialect::body(request).to_string();
        let sending = self.client.post(self.url.clone()).header("content-type", "application/json").body(body).send();
        tally.sent();
        let head = timeout_at(first.min(end), sending).await;
        let mut response = head.map_err(|_| late(first, Wait::FirstByte, most))?.map_err(|e| unsent(&e, model))?;
        if !response.status().is_success() {
            return Err(self.refusal(response, end).await);
        }
        let mut reader = Reader::new(model.dialect);
        let mut limit = (first, Wait::FirstByte);
        while !reader.is_done() {
            let bytes = match timeout_at(limit.0.min(end), response.chunk()).await {
                Ok(Ok(Some(bytes))) => bytes,
                Ok(Ok(None)) => break,
                // The answer is there; what is missing is a server's farewell.
                Ok(Err(_)) | Err(_) if came.collected.finish.is_some() => break,
                Ok(Err(error)) => return Err(Fault::Cut(reason(&error))),
                Err(_) => return Err(late(limit.0, limit.1, most)),
            };
            limit = (Instant::now() + Duration::from_millis(model.idle_ms), Wait::NextByte);
            came.raw.push(&bytes);
            if came.raw.total > ANSWER_BYTES_MAX as u64 {
                return Err(Fault::TooLarge);
            }
            let mut deltas = Vec::new();
            let fed = reader.feed(&bytes, &mut deltas);
            take(deltas, came, tally, sink).await?;
            fed.map_err(|e| Fault::Garbage(e.to_string()))?;
            if request.stream && came.collected.has_content() {
                (most, end) = (call, begun + call);
            }
        }
        let mut deltas = Vec::new();
        let ended = reader.end(&mut deltas);
        take(deltas, came, tally, sink).await?;
        match ended {
            Err(_) if came.collected.finish.is_some() => Ok(()),
            Err(error) => Err(Fault::Garbage(error.to_string())),
            Ok(is_done) => complete(came, is_done),
        }
    }

    async fn refusal(&self, mut response: Response, end: Instant) -> Fault {
        let status = response.status().as_u16();
        let retry_after_ms = self.retry_after_ms(response.headers());
        let mut body = Vec::new();
        // What cannot be read of it is no loss: the status says enough.
        while let Ok(Ok(Some(bytes))) = timeout_at(end, response.chunk()).await {
            body.extend_from_slice(&bytes[..bytes.len().min(REFUSAL_BYTES_MAX - body.len())]);
            if body.len() == REFUSAL_BYTES_MAX {
                break;
            }
        }
        Fault::Said { status, said: dialect::refusal(&body), retry_after_ms }
    }

    fn retry_after_ms(&self, headers: &HeaderMap) -> Option<u64> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let exact = text("retry-after-ms").and_then(|ms| ms.trim().parse::<f64>().ok()).filter(|ms| *ms >= 0.0);
        exact.map(|ms| ms.ceil() as u64).or_else(|| retry_after_ms(text("retry-after")?, self.clock.now_ms()))
    }
}

/// Takes pieces in, and passes on those that are no errors: what follows from an error is not known here.
async fn take(deltas: Vec<Delta>, came: &mut Came, tally: &mut Tally, sink: Option<&Sink>) -> Result<(), Fault> {
    for delta in deltas {
        came.collected.take(&delta);
        tally.wrote(tokens_in(&delta));
        if let Some(said) = came.collected.error.take() {
            return Err(Fault::Said { status: status_of(&said), said, retry_after_ms: None });
        }
        if let Some(sink) = sink {
            // Nobody listens any more only when this call is about to be dropped.
            sink.send(delta).await.ok();
        }
    }
    Ok(())
}

/// Whether all of the answer is there.
fn complete(came: &Came, is_done: bool) -> Result<(), Fault> {
    let collected = &came.collected;
    if collected.finish.is_some() || (is_done && collected.has_content()) {
        return Ok(());
    }
    if collected.has_content() {
        return Err(Fault::Cut("the stream ended before the answer did".into()));
    }
    if is_done && collected.usage.output_tokens.is_some() {
        return Ok(());
    }
    let reason =
        if came.raw.total == 0 { "the body is empty" } else { "it is neither a completion nor a stream of one" };
    Err(Fault::Garbage(reason.into()))
}

/// The status that an error within an answer stands for.
fn status_of(said: &ServerError) -> u16 {
    said.status.unwrap_or(match said.code.as_str() {
        "rate_limit_error" | "rate_limit_exceeded" | "too_many_requests" => 429,
        "invalid_request_error" => 400,
        "authentication_error" | "invalid_api_key" => 401,
        "permission_error" => 403,
        "not_found_error" | "model_not_found" => 404,
        "overloaded_error" => 529,
        _ => 500,
    })
}

fn headers(model: &ModelSettings, key: Option<&Secret>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in dialect::headers(model.dialect) {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    let Some(key) = key else { return Ok(headers) };
    let (own, prefix) = dialect::key_header(model.dialect);
    let (name, prefix) = match model.api_key_header.as_str() {
        "" => (own, prefix),
        name if name.eq_ignore_ascii_case("authorization") => (name, "Bearer "),
        name => (name, ""),
    };
    let read =
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("`api_key_header` `{name}` is not valid"))?;
    let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.expose()))
        .map_err(|_| format!("the key in `{}` cannot stand in a header", model.api_key_env))?;
    value.set_sensitive(true);
    headers.insert(read, value);
    Ok(headers)
}

/// A call without an answer. The address stays out of the message.
fn unsent(error: &reqwest::Error, model: &ModelSettings) -> Fault {
    match (error.is_connect(), error.is_timeout()) {
        (true, true) => Fault::Timeout { wait: Wait::Connection, limit_ms: model.connect_ms },
        (true, false) => Fault::Unreachable(reason(error)),
        (false, _) => Fault::Cut(reason(error)),
    }
}

fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// Reads `Retry-After` (RFC 9110, 10.2.3): seconds, or a date.
fn retry_after_ms(text: &str, now_ms: u64) -> Option<u64> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return (seconds >= 0.0).then(|| (seconds * 1_000.0).ceil() as u64);
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_millisecond();
    Some(u64::try_from(at).ok()?.saturating_sub(now_ms))
}

/// Chooses the TLS provider of the process, unless the program around this one has chosen one.
pub fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("the process has a tls provider already");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date_and_garbage_is_nothing() {
        assert_eq!(retry_after_ms("7", 0), Some(7_000));
        assert_eq!(retry_after_ms(" 0.25 ", 0), Some(250));
        assert_eq!(retry_after_ms("1e300", 0), Some(u64::MAX));
        assert_eq!(retry_after_ms("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777_000 - 5_000), Some(5_000));
        assert_eq!(retry_after_ms("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777_001), Some(0));
        for garbage in ["soon", "-1", "NaN", ""] {
            assert_eq!(retry_after_ms(garbage, 0), None, "{garbage}");
        }
    }

    #[test]
    fn a_key_goes_into_the_header_that_is_asked_for() {
        let key = Secret::new("k1");
        let mut model = ModelSettings::default();
        assert_eq!(headers(&model, Some(&key)).expect("it is valid")["authorization"], "Bearer k1");
        model.api_key_header = "api-key".into();
        assert_eq!(headers(&model, Some(&key)).expect("it is valid")["api-key"], "k1");
        assert!(format!("{:?}", headers(&model, Some(&key))).contains("Sensitive"));
        model.api_key_env = "MY_KEY".into();
        let refused = headers(&model, Some(&Secret::new("k\n1"))).expect_err("a line break cannot stand there");
        assert!(refused.contains("`MY_KEY`"), "{refused}");
    }
}

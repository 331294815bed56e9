//! One HTTP call to one model, with a timeout for each phase.
//!
//! A timeout of the HTTP client for the whole response would end healthy streams.

use std::time::Duration;

use goalmill_common::clock::Clock;
use goalmill_common::config::ModelSettings;
use goalmill_common::number::milliseconds;
use goalmill_common::retry_after::read_retry_after;
use goalmill_http::client_failure;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::api_key::ApiKey;
use crate::completion::RawResponse;
use crate::completion_delta::{CompletionDelta, ServerError};
use crate::delta_collector::{DeltaCollector, delta_tokens};
use crate::error::WaitPhase;
use crate::key_source::KeySource;
use crate::provider::{self, ProviderRequest, ResponseParser};
use crate::usage_meter::UsageMeter;

/// Limit of one response, in bytes.
pub const RESPONSE_BYTES_MAX: usize = 16 << 20;
/// Limit of a list of models, in bytes.
const MODELS_BYTES_MAX: usize = 4 << 20;
/// Limit of the body of an error response, in bytes.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// Receives the deltas of a streamed completion.
pub type DeltaSender = mpsc::Sender<CompletionDelta>;

/// HTTP client of one model.
#[derive(Debug)]
pub struct ProviderClient {
    client: Client,
    url: Url,
    clock: Clock,
    pub keys: KeySource,
    /// Values of `headers_env`.
    secret_headers: Vec<ApiKey>,
}

/// The error of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// Nothing was sent.
    Unreachable(String),
    Timeout {
        wait: WaitPhase,
        limit_ms: u64,
    },
    /// The server reported an error, by HTTP status or within the response.
    Rejected {
        status: u16,
        error: ServerError,
        retry_after_ms: Option<u64>,
    },
    /// The body is not a completion.
    Malformed(String),
    /// The connection or the response ended early.
    Disconnected(String),
    TooLarge,
}

/// The received part of a response, also of a failed call.
#[derive(Debug, Default)]
pub struct ReceivedResponse {
    pub collected: DeltaCollector,
    pub raw: RawResponse,
}

impl ProviderClient {
    /// The error is a message for users.
    pub fn new(model: &ModelSettings, clock: Clock) -> Result<Self, String> {
        let base = model.base_url.trim_end_matches('/');
        let url = format!("{base}{}", provider::path(model.dialect));
        let mut url: Url = url.parse().map_err(|e| format!("`base_url` is not a URL: {e}"))?;
        if !model.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&model.query);
        }
        let (headers, secret_headers) = fixed_headers(model)?;
        let builder = goalmill_http::client(url.scheme() == "https")
            .default_headers(headers)
            // A redirect would receive the key.
            .redirect(redirect::Policy::none())
            .connect_timeout(Duration::from_millis(model.connect_ms));
        let client = builder.build().map_err(|e| format!("cannot create the HTTP client: {}", client_failure(&e)))?;
        let keys = KeySource::new(model);
        // A key that cannot be sent is found at the start, where it can be.
        if let Some(key) = keys.newest() {
            key_header(model, &key, &keys)?;
        }
        Ok(Self { client, url, clock, keys, secret_headers })
    }

    /// What must not appear in any text.
    pub fn secrets(&self) -> impl Iterator<Item = ApiKey> {
        self.keys.newest().into_iter().chain(self.secret_headers.iter().cloned())
    }

    /// The list of models of the server; `None` when it gives none in time.
    pub async fn models(&self, model: &ModelSettings) -> Option<Value> {
        let path = provider::path(model.dialect);
        let mut url = self.url.clone();
        url.set_path(&format!("{}/models", self.url.path().strip_suffix(path)?));
        let mut request = self.client.get(url).timeout(Duration::from_millis(model.connect_ms));
        if let Some(key) = self.keys.key().await.ok()? {
            let (name, value) = key_header(model, &key, &self.keys).ok()?;
            request = request.header(name, value);
        }
        let mut response = request.send().await.ok().filter(|response| response.status().is_success())?;
        let mut body = Vec::new();
        while let Some(bytes) = response.chunk().await.ok()? {
            body.extend_from_slice(&bytes);
            if body.len() > MODELS_BYTES_MAX {
                return None;
            }
        }
        serde_json::from_slice(&body).ok()
    }

    /// Sends a request. If the server refuses a key that can be renewed, sends it once more.
    async fn send(&self, model: &ModelSettings, body: &str) -> Result<Response, CallError> {
        let mut is_renewed = false;
        loop {
            let key = self.keys.key().await.map_err(CallError::Unreachable)?;
            let mut request = self.client.post(self.url.clone()).header("content-type", "application/json");
            if let Some(key) = &key {
                let (name, value) = key_header(model, key, &self.keys).map_err(CallError::Unreachable)?;
                request = request.header(name, value);
            }
            let response = request.body(body.to_owned()).send().await.map_err(|e| send_error(&e, model))?;
            if is_renewed || response.status() != StatusCode::UNAUTHORIZED || !self.keys.refused(key.as_ref()) {
                return Ok(response);
            }
            is_renewed = true;
        }
    }

    /// Sends the request and receives the response.
    ///
    /// - `share`: time limit for the model; of a stream only until the first content.
    pub async fn call(
        &self,
        request: &ProviderRequest<'_>,
        share: Option<Duration>,
        received: &mut ReceivedResponse,
        usage_meter: &mut UsageMeter,
        sink: Option<&DeltaSender>,
    ) -> Result<(), CallError> {
        let model = request.model;
        let started_at = Instant::now();
        let call = Duration::from_millis(model.call_ms);
        let mut most = share.map_or(call, |share| share.min(call));
        let mut end = started_at + most;
        let first = if request.stream { started_at + Duration::from_millis(model.first_byte_ms) } else { end };
        // Reports the limit of the current phase: on a busy machine other limits may have passed as well.
        let timeout = |at: Instant, wait: WaitPhase, most: Duration| match (at >= started_at + most, wait) {
            (true, _) => CallError::Timeout { wait: WaitPhase::End, limit_ms: milliseconds(most) },
            (false, WaitPhase::FirstByte) => CallError::Timeout { wait, limit_ms: model.first_byte_ms },
            (false, _) => CallError::Timeout { wait, limit_ms: model.idle_ms },
        };
        let body = provider::body(request).to_string();
        usage_meter.record_sent();
        let head = timeout_at(first.min(end), self.send(model, &body)).await;
        let mut response = head.map_err(|_| timeout(first, WaitPhase::FirstByte, most))??;
        if !response.status().is_success() {
            return Err(self.rejection(response, end).await);
        }
        let mut parser = ResponseParser::new(model.dialect);
        let mut limit = (first, WaitPhase::FirstByte);
        while !parser.is_done() {
            let bytes = match timeout_at(limit.0.min(end), response.chunk()).await {
                Ok(Ok(Some(bytes))) => bytes,
                Ok(Ok(None)) => break,
                // The completion is whole; only the end of the stream is missing.
                Ok(Err(_)) | Err(_) if received.collected.finish.is_some() => break,
                Ok(Err(error)) => return Err(CallError::Disconnected(reason(&error))),
                Err(_) => return Err(timeout(limit.0, limit.1, most)),
            };
            limit = (Instant::now() + Duration::from_millis(model.idle_ms), WaitPhase::NextByte);
            received.raw.push(&bytes);
            if received.raw.total > RESPONSE_BYTES_MAX as u64 {
                return Err(CallError::TooLarge);
            }
            let mut deltas = Vec::new();
            let fed = parser.feed(&bytes, &mut deltas);
            collect_deltas(deltas, received, usage_meter, sink).await?;
            fed.map_err(|e| CallError::Malformed(e.to_string()))?;
            if request.stream && received.collected.has_content() {
                (most, end) = (call, started_at + call);
            }
        }
        let mut deltas = Vec::new();
        let ended = parser.finish(&mut deltas);
        collect_deltas(deltas, received, usage_meter, sink).await?;
        match ended {
            Err(_) if received.collected.finish.is_some() => Ok(()),
            Err(error) => Err(CallError::Malformed(error.to_string())),
            Ok(is_done) => check_complete(received, is_done),
        }
    }

    async fn rejection(&self, mut response: Response, end: Instant) -> CallError {
        let status = response.status().as_u16();
        let retry_after_ms = self.retry_after_ms(response.headers());
        let mut body = Vec::new();
        // An unreadable body is no error: the status is enough.
        while let Ok(Ok(Some(bytes))) = timeout_at(end, response.chunk()).await {
            body.extend_from_slice(&bytes[..bytes.len().min(ERROR_BYTES_MAX - body.len())]);
            if body.len() == ERROR_BYTES_MAX {
                break;
            }
        }
        CallError::Rejected { status, error: provider::parse_rejection(&body), retry_after_ms }
    }

    fn retry_after_ms(&self, headers: &HeaderMap) -> Option<u64> {
        read_retry_after(|name| headers.get(name)?.to_str().ok(), self.clock.now_ms())
    }
}

/// Collects deltas and passes them to the stream, up to the first error.
async fn collect_deltas(
    deltas: Vec<CompletionDelta>,
    received: &mut ReceivedResponse,
    usage_meter: &mut UsageMeter,
    sink: Option<&DeltaSender>,
) -> Result<(), CallError> {
    for delta in deltas {
        received.collected.push(&delta);
        usage_meter.add_output(delta_tokens(&delta));
        if let Some(error) = received.collected.error.take() {
            return Err(CallError::Rejected { status: status_of(&error), error, retry_after_ms: None });
        }
        if let Some(sink) = sink {
            // The receiver is dropped only together with this call.
            sink.send(delta).await.ok();
        }
    }
    Ok(())
}

/// Checks that the completion is whole.
fn check_complete(received: &ReceivedResponse, is_done: bool) -> Result<(), CallError> {
    let collected = &received.collected;
    if collected.finish.is_some() || (is_done && collected.has_content()) {
        return Ok(());
    }
    if collected.has_content() {
        return Err(CallError::Disconnected("the stream ended before the completion".into()));
    }
    if is_done && collected.usage.output_tokens.is_some() {
        return Ok(());
    }
    let reason = if received.raw.total == 0 {
        "the body is empty"
    } else {
        "the body is neither a completion nor a stream of one"
    };
    Err(CallError::Malformed(reason.into()))
}

/// HTTP status that corresponds to an error within a response.
fn status_of(error: &ServerError) -> u16 {
    error.status.unwrap_or(match error.code.as_str() {
        "rate_limit_error" | "rate_limit_exceeded" | "too_many_requests" | "RESOURCE_EXHAUSTED" => 429,
        code if provider::is_content_filter(code) => 400,
        code if provider::is_overload(code) => 529,
        "invalid_request_error" => 400,
        "authentication_error" | "invalid_api_key" => 401,
        "permission_error" => 403,
        "not_found_error" | "model_not_found" => 404,
        _ => 500,
    })
}

/// The headers of every request except the key, and the secrets among their values.
fn fixed_headers(model: &ModelSettings) -> Result<(HeaderMap, Vec<ApiKey>), String> {
    let mut headers = HeaderMap::new();
    for (name, value) in provider::headers(model.dialect) {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    let named = |setting: &str, name: &str| {
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("`{setting}.{name}` is not the name of a header"))
    };
    for (name, value) in &model.headers {
        let value =
            HeaderValue::from_str(value).map_err(|_| format!("`headers.{name}` is not a valid header value"))?;
        headers.insert(named("headers", name)?, value);
    }
    let mut secrets = Vec::new();
    for (name, variable) in &model.headers_env {
        let secret = ApiKey::from_variable(variable)
            .ok_or_else(|| format!("the header `{name}` has no value; set the environment variable `{variable}`"))?;
        let mut value = HeaderValue::from_str(secret.expose())
            .map_err(|_| format!("the value in `{variable}` is not a valid header value"))?;
        value.set_sensitive(true);
        headers.insert(named("headers_env", name)?, value);
        secrets.push(secret);
    }
    Ok((headers, secrets))
}

/// The header that carries the key.
fn key_header(model: &ModelSettings, key: &ApiKey, keys: &KeySource) -> Result<(HeaderName, HeaderValue), String> {
    let (own, prefix) = provider::key_header(model.dialect);
    let (name, prefix) = match model.api_key_header.as_str() {
        "" => (own, prefix),
        name if name.eq_ignore_ascii_case("authorization") => (name, "Bearer "),
        name => (name, ""),
    };
    let header =
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("`api_key_header` `{name}` is not valid"))?;
    let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.expose()))
        .map_err(|_| format!("the key from {} is not a valid header value", keys.name()))?;
    value.set_sensitive(true);
    Ok((header, value))
}

/// Converts an error before the response. The message does not contain the URL.
fn send_error(error: &reqwest::Error, model: &ModelSettings) -> CallError {
    match (error.is_connect(), error.is_timeout()) {
        (true, true) => CallError::Timeout { wait: WaitPhase::Connection, limit_ms: model.connect_ms },
        (true, false) => CallError::Unreachable(reason(error)),
        (false, _) => CallError::Disconnected(reason(error)),
    }
}

fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_sent_in_the_configured_header() {
        let key = ApiKey::new("k1");
        let mut model = ModelSettings::default();
        let header = |model: &ModelSettings, key: &ApiKey| key_header(model, key, &KeySource::new(model));
        let sent =
            |name: &'static str, value: &'static str| (HeaderName::from_static(name), HeaderValue::from_static(value));
        assert_eq!(header(&model, &key), Ok(sent("authorization", "Bearer k1")));
        model.api_key_header = "api-key".into();
        assert_eq!(header(&model, &key), Ok(sent("api-key", "k1")));
        assert!(format!("{:?}", header(&model, &key)).contains("Sensitive"));
        model.api_key_env = "MY_KEY".into();
        let refused = header(&model, &ApiKey::new("k\n1")).expect_err("a line break is invalid");
        assert!(refused.contains("`MY_KEY`"), "{refused}");
    }
}

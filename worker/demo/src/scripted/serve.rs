//! HTTP server of the scripted model: chooses an answer for a request and sends its bytes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::Response;
use axum::routing::{get, post};
use futures_util::stream;
use goalmill_common::config::{Dialect, ModelSettings};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::render::{self, Asked};
use super::script::{Feature, Script, Scripted};

/// Requests in memory; the oldest are dropped.
const SEEN_MAX: usize = 10_000;
const BODY_BYTES_MAX: usize = 32 << 20;

/// A running server; ends when it is dropped.
#[derive(Debug)]
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// A received request.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub path: String,
    /// `null` when it is not JSON.
    pub body: Value,
    /// Names are in lower case.
    pub headers: BTreeMap<String, String>,
    /// The text of all messages.
    pub prompt: String,
    /// Index of the answer in the script; `None` when none was left or the request was refused.
    pub answer: Option<usize>,
}

#[derive(Debug)]
struct Shared {
    script: Script,
    state: Mutex<ScriptProgress>,
    stop: CancellationToken,
}

#[derive(Debug, Default)]
struct ScriptProgress {
    calls: u64,
    /// Uses of each answer.
    given: Vec<u64>,
    seen: Vec<Seen>,
}

impl ScriptedServer {
    /// Serves on a free port of this machine.
    pub async fn start(script: Script) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let given = vec![0; script.answers.len()];
        let state = Mutex::new(ScriptProgress { given, ..ScriptProgress::default() });
        let shared = Arc::new(Shared { script, state, stop: CancellationToken::new() });
        let router = Router::new()
            .route("/v1/chat/completions", post(openai))
            .route("/v1/responses", post(responses))
            .route("/v1/messages", post(anthropic))
            .route("/api/chat", post(ollama))
            .route("/v1/models", get(models))
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .with_state(shared.clone());
        let stop = shared.stop.clone();
        TaskTracker::new().spawn(async move {
            tokio::select! {
                served = async { axum::serve(listener, router).await } => {
                    if let Err(error) = served {
                        tracing::error!("the scripted models cannot be served: {error}");
                    }
                }
                () = stop.cancelled() => {}
            }
        });
        Ok(Self { address, shared })
    }

    /// Base URL of a model of that dialect.
    pub fn base_url(&self, dialect: Dialect) -> String {
        match dialect {
            Dialect::Openai | Dialect::Responses | Dialect::Anthropic => format!("http://{}/v1", self.address),
            Dialect::Ollama => format!("http://{}", self.address),
        }
    }

    /// Settings of a model on this server.
    pub fn settings(&self, name: &str, dialect: Dialect) -> ModelSettings {
        let base_url = self.base_url(dialect);
        let provider = "scripted".to_owned();
        ModelSettings { name: name.into(), base_url, dialect, provider, ..ModelSettings::default() }
    }

    /// Number of received requests.
    pub fn calls(&self) -> u64 {
        self.shared.state().calls
    }

    /// The requests themselves, the oldest first.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.state().seen.clone()
    }

    /// Uses of the answer at this index of the script.
    pub fn given(&self, at: usize) -> u64 {
        self.shared.state().given.get(at).copied().unwrap_or_default()
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, ScriptProgress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the request and chooses the answer.
    fn choose(&self, path: &str, headers: &HeaderMap, body: &Value, prompt: &str) -> Result<Scripted, Scripted> {
        let refused = refused(&self.script.refuses, body);
        let mut state = self.state();
        state.calls += 1;
        let is_left = |(at, answer): &(usize, &Scripted)| state.given[*at] < answer.limit() && answer.fits(prompt);
        let found = self.script.answers.iter().enumerate().find(is_left).filter(|_| refused.is_none());
        let answer = found.map(|(at, _)| at);
        if let Some(at) = answer {
            state.given[at] += 1;
        }
        if state.seen.len() == SEEN_MAX {
            state.seen.remove(0);
        }
        let text = |value: &header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
        state.seen.push(Seen { path: path.into(), body: body.clone(), headers, prompt: prompt.into(), answer });
        drop(state);
        match (refused, found) {
            (Some(refusal), _) => Err(Scripted::status(400, refusal)),
            (None, Some((_, scripted))) => Ok(scripted.clone()),
            (None, None) => self.script.otherwise.as_deref().cloned().ok_or_else(|| {
                Scripted::status(500, "the script has no answer left for this prompt; add one, or `otherwise`")
            }),
        }
    }
}

async fn openai(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    answer(&shared, Dialect::Openai, &uri, &headers, &body).await
}

async fn responses(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    answer(&shared, Dialect::Responses, &uri, &headers, &body).await
}

async fn anthropic(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    answer(&shared, Dialect::Anthropic, &uri, &headers, &body).await
}

async fn ollama(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    answer(&shared, Dialect::Ollama, &uri, &headers, &body).await
}

async fn models() -> axum::Json<Value> {
    axum::Json(json!({"object": "list", "data": [{"id": "scripted", "object": "model", "owned_by": "llamacpp"}]}))
}

async fn answer(shared: &Arc<Shared>, dialect: Dialect, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Response {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let asked = asked(&body, dialect);
    let scripted = match shared.choose(&uri.to_string(), headers, &body, &asked.prompt) {
        Ok(scripted) | Err(scripted) => scripted,
    };
    if scripted.hang {
        shared.stop.cancelled().await;
    }
    pause(Duration::from_millis(scripted.delay_ms)).await;
    respond(shared, &scripted, &asked, dialect)
}

fn respond(shared: &Arc<Shared>, scripted: &Scripted, asked: &Asked, dialect: Dialect) -> Response {
    let status = scripted.status.and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or(StatusCode::OK);
    let streams = asked.stream && scripted.body.is_none() && status.is_success();
    let (chunks, kind) = match (&scripted.body, status.is_success()) {
        (Some(body), _) => (vec![body.clone()], "application/json"),
        (None, false) => {
            let message = scripted.error.clone().unwrap_or_else(|| format!("scripted {status}"));
            let kind = if status == StatusCode::TOO_MANY_REQUESTS { "rate_limit_exceeded" } else { "scripted" };
            (vec![render::error(dialect, &message, kind).to_string()], "application/json")
        }
        (None, true) if !scripted.frames.is_empty() => (scripted.frames.clone(), "text/event-stream"),
        (None, true) if streams => (streamed(scripted, asked, dialect), stream_type(dialect)),
        (None, true) => (vec![render::whole(scripted, asked, dialect)], "application/json"),
    };
    let kind = scripted.content_type.as_deref().unwrap_or(kind);
    let mut response = Response::builder().status(status).header(header::CONTENT_TYPE, kind);
    if let Some(wait) = &scripted.retry_after {
        response = response.header(header::RETRY_AFTER, wait);
    }
    let body = paced(shared, scripted, chunks);
    response.body(body).unwrap_or_else(|error| {
        let message = format!("the script asks for a response that cannot be: {error}");
        let mut response = Response::new(Body::from(message));
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}

fn stream_type(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Openai | Dialect::Responses | Dialect::Anthropic => "text/event-stream",
        Dialect::Ollama => "application/x-ndjson",
    }
}

fn streamed(scripted: &Scripted, asked: &Asked, dialect: Dialect) -> Vec<String> {
    let (mut pieces, end) = render::pieces(scripted, asked, dialect);
    match scripted.error_after {
        Some(after) => {
            pieces.truncate(after);
            let message = scripted.error.as_deref().unwrap_or("scripted error within the stream");
            pieces.push(render::error_piece(dialect, message));
        }
        None => pieces.extend(end),
    }
    pieces
}

/// Skips a sleep of 0, which would take a millisecond.
async fn pause(wait: Duration) {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}

/// The next event of a body.
enum Step {
    Send(Vec<u8>),
    Hang,
    Cut,
}

/// A body with the script's pieces, delays and cuts.
fn paced(shared: &Arc<Shared>, scripted: &Scripted, chunks: Vec<String>) -> Body {
    let mut chunks: Vec<Vec<u8>> = match scripted.chunk_bytes {
        Some(size) => chunks.concat().into_bytes().chunks(size.max(1)).map(<[u8]>::to_vec).collect(),
        None => chunks.into_iter().map(String::into_bytes).collect(),
    };
    let end = match (scripted.hang_after, scripted.cut_after) {
        (Some(after), _) => Some((after, Step::Hang)),
        (None, Some(after)) => Some((after, Step::Cut)),
        (None, None) => None,
    };
    chunks.truncate(end.as_ref().map_or(usize::MAX, |(after, _)| *after));
    let mut steps: Vec<Step> = chunks.into_iter().map(Step::Send).chain(end.map(|(_, step)| step)).collect();
    steps.reverse();
    let wait = Duration::from_millis(scripted.chunk_delay_ms);
    let stop = shared.stop.clone();
    Body::from_stream(stream::unfold((steps, stop), move |(mut steps, stop)| async move {
        let cut = || Err(std::io::Error::new(std::io::ErrorKind::ConnectionAborted, "cut by the script"));
        let sent = match steps.pop()? {
            Step::Send(bytes) => {
                pause(wait).await;
                Ok(Bytes::from(bytes))
            }
            Step::Hang => {
                stop.cancelled().await;
                cut()
            }
            Step::Cut => cut(),
        };
        // What was sent must have left before the connection is cut.
        tokio::task::yield_now().await;
        Some((sent, (steps, stop)))
    }))
}

/// The error for a refused feature, worded like those of real servers.
fn refused(refuses: &std::collections::BTreeSet<Feature>, body: &Value) -> Option<&'static str> {
    let format = body.pointer("/response_format/type").or_else(|| body.pointer("/text/format/type"));
    let format = format.and_then(Value::as_str);
    let has = |field: &str| body.get(field).is_some();
    refuses.iter().find_map(|feature| {
        let (used, words) = match feature {
            Feature::JsonSchema => {
                let used = format == Some("json_schema") || body.get("format").is_some_and(Value::is_object);
                (used, "This response_format type is unavailable now")
            }
            Feature::JsonObject => {
                let used = format == Some("json_object") || body.get("format").is_some_and(Value::is_string);
                (used, "'response_format.type' must be 'text'")
            }
            Feature::Tools => (has("tools"), "this server does not support tools"),
            Feature::ForcedTool => (body.get("tool_choice").is_some_and(Value::is_object), "tool_choice must be 'auto'"),
            Feature::Temperature => (has("temperature"), "Unsupported value: 'temperature' does not support 0.2"),
            Feature::StreamOptions => (has("stream_options"), "Unrecognized request argument supplied: stream_options"),
            Feature::MaxTokens => (
                has("max_tokens"),
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            ),
        };
        used.then_some(words)
    })
}

fn asked(body: &Value, dialect: Dialect) -> Asked {
    let choice = body.get("tool_choice").unwrap_or(&Value::Null);
    let forced = choice.pointer("/function/name").or_else(|| choice.get("name")).and_then(Value::as_str);
    let stream = body.get("stream").and_then(Value::as_bool).unwrap_or(dialect == Dialect::Ollama);
    let mut said: Vec<&str> = Vec::new();
    texts(body.get("system").unwrap_or(&Value::Null), &mut said);
    let messages = ["messages", "input"].iter().filter_map(|field| body.get(field)?.as_array()).flatten();
    for field in messages.flat_map(|message| [message.get("content"), message.get("output")]) {
        texts(field.unwrap_or(&Value::Null), &mut said);
    }
    Asked {
        model: body.get("model").and_then(Value::as_str).unwrap_or("scripted").into(),
        stream,
        forced: forced.map(Into::into),
        prompt: said.join("\n"),
    }
}

/// The texts of a content: a text, or blocks with texts or nested contents.
fn texts<'a>(content: &'a Value, said: &mut Vec<&'a str>) {
    match content {
        Value::String(text) => said.push(text),
        Value::Array(blocks) => {
            let fields = blocks.iter().flat_map(|block| [block.get("text"), block.get("content")]);
            said.extend(fields.flatten().filter_map(Value::as_str));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
    }
}

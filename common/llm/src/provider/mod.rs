//! Provider APIs: encoding of requests and parsing of responses.
//!
//! Every response field is optional and unknown values are kept. A parser accepts streamed and whole responses alike,
//! whichever was requested.

use goalmill_common::config::{Dialect, ModelSettings};
use goalmill_common::sse::ServerEvent;
use serde_json::{Map, Value, json};

use crate::answer_schema::SchemaForm;
use crate::completion_delta::{CompletionDelta, ServerError};
use crate::fallback_modes::ServerQuirks;
use crate::frames::Frames;
use crate::message::Message;
use crate::request::{CompletionRequest, ResponseFormat, Tool, ToolChoice};
use crate::response_mode::ResponseMode;

mod anthropic;
mod ollama;
mod openai;
mod prompt;
mod responses;

/// One request to one model.
pub struct ProviderRequest<'a> {
    pub model: &'a ModelSettings,
    pub completion: &'a CompletionRequest,
    /// Tokens of the longest answer.
    pub output_tokens_max: u64,
    pub mode: ResponseMode,
    /// The form of an enforced schema.
    pub schema_form: SchemaForm,
    pub quirks: ServerQuirks,
    pub stream: bool,
}

impl ProviderRequest<'_> {
    fn output_tokens_max(&self) -> u64 {
        self.output_tokens_max.max(1)
    }

    fn temperature(&self) -> Option<f64> {
        self.completion.temperature.filter(|_| !self.quirks.no_temperature)
    }

    fn reasoning_effort(&self) -> Option<&str> {
        Some(self.model.reasoning_effort.as_str()).filter(|effort| !effort.is_empty())
    }

    /// The messages with the instructions of the mode.
    fn messages(&self) -> Vec<Message> {
        prompt::messages(self.completion, self.mode)
    }

    /// The tool that must be called: the one that replaces a schema, or the one that the request names.
    fn forced_tool(&self) -> Option<&str> {
        match (&self.completion.format, self.mode) {
            (ResponseFormat::Json { name, .. }, ResponseMode::ForcedTool)
            | (ResponseFormat::Tools { choice: ToolChoice::Named(name), .. }, ResponseMode::Tools) => Some(name),
            _ => None,
        }
    }

    /// The tools of the request, or the tool that replaces a schema.
    fn tools(&self) -> Vec<Tool> {
        match (&self.completion.format, self.mode) {
            (ResponseFormat::Tools { tools, .. }, ResponseMode::Tools) => tools.clone(),
            (ResponseFormat::Json { name, schema }, ResponseMode::ForcedTool) => {
                let description = "Hands in the answer.".to_owned();
                vec![Tool { name: name.clone(), description, parameters: schema.prompt().clone() }]
            }
            _ => Vec::new(),
        }
    }
}

/// Path below `base_url`.
pub fn path(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Openai => "/chat/completions",
        Dialect::Responses => "/responses",
        Dialect::Anthropic => "/messages",
        Dialect::Ollama => "/api/chat",
    }
}

/// The header of the key and the prefix of its value.
pub fn key_header(dialect: Dialect) -> (&'static str, &'static str) {
    match dialect {
        Dialect::Openai | Dialect::Responses | Dialect::Ollama => ("authorization", "Bearer "),
        Dialect::Anthropic => ("x-api-key", ""),
    }
}

/// Headers besides the key.
pub fn headers(dialect: Dialect) -> &'static [(&'static str, &'static str)] {
    match dialect {
        Dialect::Openai | Dialect::Responses | Dialect::Ollama => &[],
        Dialect::Anthropic => &[("anthropic-version", "2023-06-01")],
    }
}

/// The request body, with the fields of the settings.
pub fn body(request: &ProviderRequest<'_>) -> Value {
    let mut body = match request.model.dialect {
        Dialect::Openai => openai::body(request),
        Dialect::Responses => responses::body(request),
        Dialect::Anthropic => anthropic::body(request),
        Dialect::Ollama => ollama::body(request),
    };
    merge_body(&mut body, &request.model.body);
    body
}

/// Objects are merged, `null` removes a field, all else replaces it (RFC 7396).
fn merge_body(body: &mut Value, fields: &Map<String, Value>) {
    if !body.is_object() {
        *body = Value::Object(Map::new());
    }
    let Some(known) = body.as_object_mut() else { return };
    for (name, value) in fields {
        match value {
            Value::Null => drop(known.remove(name)),
            Value::Object(inner) => merge_body(known.entry(name.clone()).or_insert(Value::Null), inner),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                drop(known.insert(name.clone(), value.clone()));
            }
        }
    }
}

/// Why a response cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseParseError {
    #[error(transparent)]
    Line(#[from] crate::frames::MessageTooLong),
    #[error("a message of the response is not JSON: `{0}`")]
    NotJson(String),
}

/// Characters of an invalid message that an error contains.
const SHOWN_CHARS_MAX: usize = 80;

/// Parses one response.
pub struct ResponseParser {
    dialect: Dialect,
    frames: Frames,
    /// The response is complete.
    is_done: bool,
}

impl ResponseParser {
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, frames: Frames::new(dialect == Dialect::Ollama), is_done: false }
    }

    /// Parses the next bytes and adds the deltas that they complete, also those before an error.
    pub fn feed(&mut self, bytes: &[u8], deltas: &mut Vec<CompletionDelta>) -> Result<(), ResponseParseError> {
        let mut frames = Vec::new();
        let fed = self.frames.feed(bytes, &mut frames);
        self.parse_frames(frames, deltas)?;
        Ok(fed?)
    }

    /// Parses an unterminated last line; returns whether the response is complete.
    pub fn finish(mut self, deltas: &mut Vec<CompletionDelta>) -> Result<bool, ResponseParseError> {
        let frames = std::mem::replace(&mut self.frames, Frames::new(false));
        let is_whole = frames.is_one_body();
        self.parse_frames(frames.end(), deltas)?;
        Ok(self.is_done || is_whole)
    }

    pub fn is_done(&self) -> bool {
        self.is_done
    }

    fn parse_frames(
        &mut self,
        frames: impl IntoIterator<Item = ServerEvent>,
        deltas: &mut Vec<CompletionDelta>,
    ) -> Result<(), ResponseParseError> {
        for ServerEvent { event, data } in frames {
            if data.trim_ascii() == "[DONE]" {
                self.is_done = true;
                continue;
            }
            let value = match serde_json::from_str::<Value>(&data) {
                // Some servers wrap the response into a list.
                Ok(Value::Array(mut all)) if !all.is_empty() => all.swap_remove(0),
                Ok(value) => value,
                Err(_) if event == "error" => Value::String(data),
                Err(_) => {
                    let shown = data.chars().take(SHOWN_CHARS_MAX).collect();
                    return Err(ResponseParseError::NotJson(shown));
                }
            };
            if let Some(error) = find_error(&event, &value) {
                deltas.push(CompletionDelta::Error(error));
                continue;
            }
            match self.dialect {
                // Ends with `[DONE]` or with the end of the body.
                Dialect::Openai => openai::parse(&value, deltas),
                Dialect::Responses => self.is_done |= responses::parse(&value, deltas),
                Dialect::Anthropic => self.is_done |= anthropic::parse(&value, deltas),
                Dialect::Ollama => self.is_done |= ollama::parse(&value, deltas),
            }
        }
        Ok(())
    }
}

/// Finds an error in a message, in any of the common forms.
fn find_error(event: &str, value: &Value) -> Option<ServerError> {
    let error = match value.get("error") {
        Some(Value::Null) | None => (event == "error" || text_at(value, "type") == "error").then_some(value)?,
        Some(error) => error,
    };
    Some(parse_error(error))
}

/// Whether the code of an error says that the server has too much to do.
pub fn is_overload(code: &str) -> bool {
    let code = code.to_ascii_lowercase();
    ["overloaded", "slow_down", "throttl", "capacity_exceeded"].iter().any(|word| code.contains(word))
}

/// Whether an error says that the server still loads the model.
pub fn is_loading(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    ["loading model", "loading the model", "currently loading", "model is loading"]
        .iter()
        .any(|word| message.contains(word))
}

/// Whether the code of an error says that a filter stopped the request.
pub fn is_content_filter(code: &str) -> bool {
    let code = code.to_ascii_lowercase();
    ["content_filter", "content_policy", "responsibleaipolicyviolation"].iter().any(|word| code.contains(word))
}

/// Parses an error object or text.
pub fn parse_error(error: &Value) -> ServerError {
    let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
    let status = ["status", "code", "status_code"]
        .iter()
        .filter_map(|field| error.get(field).and_then(number))
        .find_map(|status| u16::try_from(status).ok().filter(|status| (400..600).contains(status)));
    let word = ["code", "type"].iter().map(|field| text_at(error, field)).find(|word| !word.is_empty());
    let mut fields = ["message", "detail", "msg"].iter().map(|field| text_at(error, field));
    let message = error.as_str().or_else(|| fields.find(|text| !text.is_empty()));
    let mut message = message.map_or_else(|| error.to_string(), str::to_owned);
    if let Some(raw) = error.pointer("/metadata/raw").filter(|raw| !raw.is_null()) {
        // A gateway says little itself; the provider behind it says why.
        let raw = raw.as_str().map_or_else(|| raw.to_string(), str::to_owned);
        message = format!("{message}: {raw}");
    }
    ServerError { status, code: word.unwrap_or_default().into(), message }
}

/// Parses the body of an error response.
pub fn parse_rejection(body: &[u8]) -> ServerError {
    let text = || String::from_utf8_lossy(body).split_whitespace().collect::<Vec<_>>().join(" ");
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Array(mut all)) if !all.is_empty() => find_body_error(&all.swap_remove(0)),
        Ok(value) => find_body_error(&value),
        Err(_) => ServerError { message: text(), ..ServerError::default() },
    }
}

fn find_body_error(value: &Value) -> ServerError {
    parse_error(value.get("error").filter(|error| !error.is_null()).unwrap_or(value))
}

/// The text of a field; empty if there is none.
fn text_at<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Adds a delta for a text that is not empty.
fn push_text(text: &str, piece: fn(String) -> CompletionDelta, deltas: &mut Vec<CompletionDelta>) {
    if !text.is_empty() {
        deltas.push(piece(text.into()));
    }
}

/// Arguments of a tool call; some servers send a string and others an object.
fn arguments(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// A token count, if there is one.
fn count(value: &Value, field: &str) -> Option<u64> {
    value.get(field).and_then(Value::as_u64)
}

/// Tools in the format of OpenAI and Ollama.
fn functions(tools: &[Tool]) -> Value {
    let one = |tool: &Tool| {
        json!({"type": "function", "function": {
            "name": tool.name, "description": tool.description, "parameters": tool.parameters,
        }})
    };
    tools.iter().map(one).collect()
}

/// An object of the fields that are present.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    Value::Object(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use goalmill_common::number::to_usize;
    use goalmill_common::random::Random;
    use goalmill_demo::scripted::sample;

    use super::*;

    const DIALECTS: [Dialect; 4] = [Dialect::Openai, Dialect::Responses, Dialect::Anthropic, Dialect::Ollama];

    /// The deltas and the result.
    fn parse(
        dialect: Dialect,
        bytes: &[u8],
        mut length: impl FnMut() -> usize,
    ) -> (Vec<CompletionDelta>, Result<bool, String>) {
        let (mut parser, mut deltas, mut rest) = (ResponseParser::new(dialect), Vec::new(), bytes);
        let fed = loop {
            let (piece, after) = rest.split_at(length().clamp(1, rest.len().max(1)).min(rest.len()));
            rest = after;
            if let Err(error) = parser.feed(piece, &mut deltas) {
                break Err(error);
            }
            if rest.is_empty() {
                break Ok(());
            }
        };
        let ended = fed.and_then(|()| parser.finish(&mut deltas)).map_err(|error| error.to_string());
        (deltas, ended)
    }

    #[test]
    fn parsing_does_not_depend_on_chunk_boundaries_and_never_panics() {
        let random = Random::seeded(3);
        for round in 0..800_usize {
            let dialect = DIALECTS[round % 4];
            let mut bytes = sample(dialect, round % 8 < 4);
            for _ in 0..random.below(4) {
                let at = to_usize(random.below(bytes.len() as u64));
                match random.below(3) {
                    0 => bytes[at] = random.draw().to_le_bytes()[0],
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, b"\n{}[]\":,\0\r"[to_usize(random.below(10))]),
                }
            }
            let whole = parse(dialect, &bytes, || usize::MAX);
            let cut = parse(dialect, &bytes, || 1 + to_usize(random.below(40)));
            assert_eq!(cut, whole, "{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn deltas_before_an_invalid_message_are_kept() {
        let bytes = b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {oops\n\n";
        let (deltas, ended) = parse(Dialect::Openai, bytes, || usize::MAX);
        assert_eq!(deltas, [CompletionDelta::Text("a".into())]);
        assert!(ended.is_err_and(|reason| reason.contains("`{oops`")));
    }

    #[test]
    fn fields_of_the_settings_are_merged_into_a_body() {
        let mut body = json!({"model": "m", "temperature": 0.2, "options": {"num_ctx": 8, "num_predict": 1}});
        let fields =
            json!({"temperature": null, "options": {"num_ctx": 16}, "top_k": 3, "a": {"b": {"c": null, "d": 1}}});
        merge_body(&mut body, fields.as_object().expect("an object"));
        let merged =
            json!({"model": "m", "options": {"num_ctx": 16, "num_predict": 1}, "top_k": 3, "a": {"b": {"d": 1}}});
        assert_eq!(body, merged);
    }

    #[test]
    fn errors_are_found_in_every_common_form() {
        let forms = [
            (r#"{"error":{"message":"m","code":429}}"#, Some(429), "m"),
            (r#"{"error":{"message":"m","code":"rate_limit_exceeded"}}"#, None, "m"),
            (r#"{"error":"m"}"#, None, "m"),
            (r#"{"detail":"m"}"#, None, "m"),
            (r#"[{"error":{"status":503,"message":"m"}}]"#, Some(503), "m"),
            (r#"{"object":"error","message":"m","code":400}"#, Some(400), "m"),
            ("m\n n", None, "m n"),
            (r#"{"error":{"message":"m","code":400,"metadata":{"raw":"{\"e\":1}"}}}"#, Some(400), r#"m: {"e":1}"#),
            (r#"{"error":{"code":99999}}"#, None, r#"{"code":99999}"#),
        ];
        for (body, status, message) in forms {
            let error = parse_rejection(body.as_bytes());
            assert_eq!((error.status, error.message.as_str()), (status, message), "{body}");
        }
    }
}

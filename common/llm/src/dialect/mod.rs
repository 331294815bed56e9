//! The languages of servers: how a question is written, and how what comes back is read.
//!
//! Every field of an answer is optional, words that are not known are kept, and a reader takes a streamed and a whole
//! answer alike, whichever was asked for.

use goalmill_common::config::{Dialect, ModelSettings};
use goalmill_common::sse::ServerEvent;
use serde_json::{Map, Value, json};

use super::answer::{Delta, ServerError};
use super::ask::{Ask, Tool, Want};
use super::frames::Frames;
use super::ladder::{Habits, Rung};
use super::message::Message;

mod anthropic;
mod ollama;
mod openai;
mod prompt;

/// One question on its way to one model.
pub struct Request<'a> {
    pub model: &'a ModelSettings,
    pub ask: &'a Ask,
    pub rung: Rung,
    pub habits: Habits,
    pub stream: bool,
}

impl Request<'_> {
    fn output_tokens_max(&self) -> u64 {
        self.ask.output_tokens_max.unwrap_or(self.model.output_tokens_max).max(1)
    }

    fn temperature(&self) -> Option<f64> {
        self.ask.temperature.filter(|_| !self.habits.no_temperature)
    }

    /// The messages, with what the rung adds to them.
    fn messages(&self) -> Vec<Message> {
        prompt::messages(self.ask, self.rung)
    }

    /// The tools to offer: those that are wanted, or the one that stands in for the schema.
    fn tools(&self) -> Vec<Tool> {
        match (&self.ask.want, self.rung) {
            (Want::Tools { tools, .. }, Rung::Tools) => tools.clone(),
            (Want::Json { name, schema }, Rung::ForcedTool) => {
                let description = "Hands in the answer.".to_owned();
                vec![Tool { name: name.clone(), description, parameters: schema.clone() }]
            }
            _ => Vec::new(),
        }
    }
}

/// Path below the model's address.
pub fn path(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Openai => "/chat/completions",
        Dialect::Anthropic => "/messages",
        Dialect::Ollama => "/api/chat",
    }
}

/// The header that carries the key, and what stands before the key in it.
pub fn key_header(dialect: Dialect) -> (&'static str, &'static str) {
    match dialect {
        Dialect::Openai | Dialect::Ollama => ("authorization", "Bearer "),
        Dialect::Anthropic => ("x-api-key", ""),
    }
}

/// Headers besides the key.
pub fn headers(dialect: Dialect) -> &'static [(&'static str, &'static str)] {
    match dialect {
        Dialect::Openai | Dialect::Ollama => &[],
        Dialect::Anthropic => &[("anthropic-version", "2023-06-01")],
    }
}

/// The body of the request.
pub fn body(request: &Request<'_>) -> Value {
    match request.model.dialect {
        Dialect::Openai => openai::body(request),
        Dialect::Anthropic => anthropic::body(request),
        Dialect::Ollama => ollama::body(request),
    }
}

/// Why what came cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error(transparent)]
    Line(#[from] super::frames::MessageTooLong),
    #[error("a message of it is not JSON: `{0}`")]
    NotJson(String),
}

/// Characters of a message that are shown when it cannot be read.
const SHOWN: usize = 80;

/// Reads one answer.
pub struct Reader {
    dialect: Dialect,
    frames: Frames,
    /// Nothing may follow.
    is_done: bool,
}

impl Reader {
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, frames: Frames::new(dialect == Dialect::Ollama), is_done: false }
    }

    /// Takes the next bytes and adds the pieces of the answer that they complete, also when it then fails.
    pub fn feed(&mut self, bytes: &[u8], deltas: &mut Vec<Delta>) -> Result<(), Unreadable> {
        let mut frames = Vec::new();
        let fed = self.frames.feed(bytes, &mut frames);
        self.read(frames, deltas)?;
        Ok(fed?)
    }

    /// Adds what stands at the end without a line end behind it; says whether the server was done.
    pub fn end(mut self, deltas: &mut Vec<Delta>) -> Result<bool, Unreadable> {
        let frames = std::mem::replace(&mut self.frames, Frames::new(false));
        let is_whole = frames.is_one_body();
        self.read(frames.end(), deltas)?;
        Ok(self.is_done || is_whole)
    }

    pub fn is_done(&self) -> bool {
        self.is_done
    }

    fn read(
        &mut self,
        frames: impl IntoIterator<Item = ServerEvent>,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), Unreadable> {
        for ServerEvent { event, data } in frames {
            if data.trim_ascii() == "[DONE]" {
                self.is_done = true;
                continue;
            }
            let value = match serde_json::from_str::<Value>(&data) {
                // Some servers wrap a whole answer into a list.
                Ok(Value::Array(mut all)) if !all.is_empty() => all.swap_remove(0),
                Ok(value) => value,
                Err(_) if event == "error" => Value::String(data),
                Err(_) => {
                    let shown = data.chars().take(SHOWN).collect();
                    return Err(Unreadable::NotJson(shown));
                }
            };
            if let Some(error) = error_in(&event, &value) {
                deltas.push(Delta::Error(error));
                continue;
            }
            match self.dialect {
                // `[DONE]` says so, or the end of a whole body.
                Dialect::Openai => openai::read(&value, deltas),
                Dialect::Anthropic => self.is_done |= anthropic::read(&value, deltas),
                Dialect::Ollama => self.is_done |= ollama::read(&value, deltas),
            }
        }
        Ok(())
    }
}

/// The failure that a message tells of, in any of the usual forms.
fn error_in(event: &str, value: &Value) -> Option<ServerError> {
    let told = match value.get("error") {
        Some(Value::Null) | None => (event == "error" || text_at(value, "type") == "error").then_some(value)?,
        Some(error) => error,
    };
    Some(server_error(told))
}

/// What an error object, or a text, says.
pub fn server_error(told: &Value) -> ServerError {
    let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
    let status = ["status", "code", "status_code"]
        .iter()
        .filter_map(|field| told.get(field).and_then(number))
        .find_map(|status| u16::try_from(status).ok().filter(|status| (400..600).contains(status)));
    let word = ["code", "type"].iter().map(|field| text_at(told, field)).find(|word| !word.is_empty());
    let message = match told {
        Value::String(text) => text.clone(),
        other => ["message", "detail", "msg"]
            .iter()
            .map(|field| text_at(other, field))
            .find(|text| !text.is_empty())
            .map_or_else(|| other.to_string(), str::to_owned),
    };
    ServerError { status, code: word.unwrap_or_default().into(), message }
}

/// What the body of a refusal says about it.
pub fn refusal(body: &[u8]) -> ServerError {
    let text = || String::from_utf8_lossy(body).split_whitespace().collect::<Vec<_>>().join(" ");
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Array(mut all)) if !all.is_empty() => refusal_in(&all.swap_remove(0)),
        Ok(value) => refusal_in(&value),
        Err(_) => ServerError { message: text(), ..ServerError::default() },
    }
}

fn refusal_in(value: &Value) -> ServerError {
    server_error(value.get("error").filter(|error| !error.is_null()).unwrap_or(value))
}

/// The text in a field; nothing when there is none.
fn text_at<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Arguments of a call, that some servers give as text and others as an object.
fn arguments(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// A number of tokens, if there is one.
fn count(value: &Value, field: &str) -> Option<u64> {
    value.get(field).and_then(Value::as_u64)
}

/// Tools as OpenAI and Ollama take them.
fn functions(tools: &[Tool]) -> Value {
    let one = |tool: &Tool| {
        json!({"type": "function", "function": {
            "name": tool.name, "description": tool.description, "parameters": tool.parameters,
        }})
    };
    tools.iter().map(one).collect()
}

/// An object of the fields that there are.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    Value::Object(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use goalmill_common::random::Random;
    use goalmill_demo::scripted::sample;

    use super::*;

    const DIALECTS: [Dialect; 3] = [Dialect::Openai, Dialect::Anthropic, Dialect::Ollama];

    /// The pieces, with neighbouring texts put together, and how it ended.
    fn read(dialect: Dialect, bytes: &[u8], mut length: impl FnMut() -> usize) -> (Vec<Delta>, Result<bool, String>) {
        let (mut reader, mut deltas, mut rest) = (Reader::new(dialect), Vec::new(), bytes);
        let fed = loop {
            let (piece, after) = rest.split_at(length().clamp(1, rest.len().max(1)).min(rest.len()));
            rest = after;
            if let Err(fault) = reader.feed(piece, &mut deltas) {
                break Err(fault);
            }
            if rest.is_empty() {
                break Ok(());
            }
        };
        let ended = fed.and_then(|()| reader.end(&mut deltas)).map_err(|fault| fault.to_string());
        (deltas, ended)
    }

    #[test]
    fn any_bytes_are_read_alike_however_they_are_cut_and_never_panic() {
        let random = Random::seeded(3);
        for round in 0..600_usize {
            let dialect = DIALECTS[round % 3];
            let mut bytes = sample(dialect, round % 2 == 0);
            for _ in 0..random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(3) {
                    0 => bytes[at] = random.draw() as u8,
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, b"\n{}[]\":,\0\r"[random.below(10) as usize]),
                }
            }
            let whole = read(dialect, &bytes, || usize::MAX);
            let cut = read(dialect, &bytes, || 1 + random.below(40) as usize);
            assert_eq!(cut, whole, "{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn what_came_before_something_unreadable_is_kept() {
        let bytes = b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {oops\n\n";
        let (deltas, ended) = read(Dialect::Openai, bytes, || usize::MAX);
        assert_eq!(deltas, [Delta::Text("a".into())]);
        assert!(ended.is_err_and(|reason| reason.contains("`{oops`")));
    }

    #[test]
    fn errors_are_found_in_every_usual_form() {
        let forms = [
            (r#"{"error":{"message":"m","code":429}}"#, Some(429), "m"),
            (r#"{"error":{"message":"m","code":"rate_limit_exceeded"}}"#, None, "m"),
            (r#"{"error":"m"}"#, None, "m"),
            (r#"{"detail":"m"}"#, None, "m"),
            (r#"[{"error":{"status":503,"message":"m"}}]"#, Some(503), "m"),
            (r#"{"object":"error","message":"m","code":400}"#, Some(400), "m"),
            ("m\n n", None, "m n"),
            (r#"{"error":{"code":99999}}"#, None, r#"{"code":99999}"#),
        ];
        for (body, status, message) in forms {
            let told = refusal(body.as_bytes());
            assert_eq!((told.status, told.message.as_str()), (status, message), "{body}");
        }
    }
}

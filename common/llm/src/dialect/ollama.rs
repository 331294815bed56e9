//! Ollama's own chat: lines of JSON, arguments as objects.

use serde_json::{Value, json};

use super::{Request, arguments, count, functions, object, text_at};
use crate::answer::{CallFragment, Delta, Finish};
use crate::ask::Want;
use crate::ladder::Rung;
use crate::message::{Message, ToolCall};
use crate::usage::SaidUsage;

pub(super) fn body(request: &Request<'_>) -> Value {
    let messages: Vec<Value> = request.messages().iter().map(message).collect();
    let tools = request.tools();
    let format = match (&request.ask.want, request.rung) {
        (Want::Json { schema, .. }, Rung::JsonSchema) => Some(schema.clone()),
        (Want::Json { .. }, Rung::JsonObject) => Some("json".into()),
        _ => None,
    };
    let options = object([
        ("num_predict", Some(request.output_tokens_max().into())),
        // Its own default is a few thousand tokens, and what is longer is cut without a word.
        ("num_ctx", Some(request.model.context_tokens.into())),
        ("temperature", request.temperature().map(Value::from)),
    ]);
    object([
        ("model", Some(request.model.wire_name().into())),
        ("messages", Some(messages.into())),
        ("tools", (!tools.is_empty()).then(|| functions(&tools))),
        ("format", format),
        ("options", Some(options)),
        // It streams unless told not to.
        ("stream", Some(request.stream.into())),
    ])
}

fn message(message: &Message) -> Value {
    match message {
        Message::System { text } => json!({"role": "system", "content": text}),
        Message::User { text } => json!({"role": "user", "content": text}),
        Message::Assistant { text, tool_calls } => {
            let calls: Vec<Value> = tool_calls.iter().map(call).collect();
            json!({"role": "assistant", "content": text, "tool_calls": calls})
        }
        Message::Tool { name, text, .. } => json!({"role": "tool", "tool_name": name, "content": text}),
    }
}

fn call(call: &ToolCall) -> Value {
    json!({"function": {"name": call.name, "arguments": call.input().unwrap_or_else(|_| json!({}))}})
}

/// Reads a line; says whether nothing may follow.
pub(super) fn read(value: &Value, deltas: &mut Vec<Delta>) -> bool {
    let push = |text: &str, piece: fn(String) -> Delta, deltas: &mut Vec<Delta>| {
        if !text.is_empty() {
            deltas.push(piece(text.into()));
        }
    };
    push(text_at(value, "model"), Delta::ServedBy, deltas);
    let message = value.get("message").unwrap_or(&Value::Null);
    push(text_at(message, "thinking"), Delta::Thinking, deltas);
    push(text_at(message, "content"), Delta::Text, deltas);
    for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let function = call.get("function").unwrap_or(call);
        // Every call comes whole: without an index, each is a new one.
        deltas.push(Delta::Call(CallFragment {
            index: None,
            id: text_at(call, "id").into(),
            name: text_at(function, "name").into(),
            arguments: arguments(function.get("arguments")),
        }));
    }
    let is_done = value.get("done").and_then(Value::as_bool).unwrap_or(false);
    deltas.extend(Finish::read(text_at(value, "done_reason")).map(Delta::Finish));
    let said = SaidUsage { input_tokens: count(value, "prompt_eval_count"), output_tokens: count(value, "eval_count") };
    if said != SaidUsage::default() {
        deltas.push(Delta::Usage(said));
    }
    is_done
}

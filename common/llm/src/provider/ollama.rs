//! Ollama's chat API: lines of JSON, arguments as objects.

use serde_json::{Value, json};

use super::{ProviderRequest, arguments, count, functions, object, push_text, text_at};
use crate::completion::FinishReason;
use crate::completion_delta::{CompletionDelta, ToolCallFragment};
use crate::message::{Message, ToolCall};
use crate::request::ResponseFormat;
use crate::response_mode::ResponseMode;
use crate::usage::ReportedUsage;

pub(super) fn body(request: &ProviderRequest<'_>) -> Value {
    let messages: Vec<Value> = request.messages().iter().map(message).collect();
    let tools = request.tools();
    let format = match (&request.completion.format, request.mode) {
        (ResponseFormat::Json { schema, .. }, ResponseMode::JsonSchema) => {
            Some(schema.form(request.schema_form).clone())
        }
        (ResponseFormat::Json { .. }, ResponseMode::JsonObject) => Some("json".into()),
        _ => None,
    };
    let options = object([
        ("num_predict", Some(request.output_tokens_max().into())),
        // The default is a few thousand tokens; a longer prompt is truncated silently.
        ("num_ctx", Some(request.model.context_tokens.into())),
        ("temperature", request.temperature().map(Value::from)),
    ]);
    object([
        ("model", Some(request.model.wire_name().into())),
        ("messages", Some(messages.into())),
        ("tools", (!tools.is_empty()).then(|| functions(&tools))),
        ("format", format),
        ("options", Some(options)),
        ("think", request.reasoning_effort().map(Value::from)),
        // Streaming is the default.
        ("stream", Some(request.stream.into())),
    ])
}

fn message(message: &Message) -> Value {
    match message {
        Message::System { text } => json!({"role": "system", "content": text}),
        Message::User { text } => json!({"role": "user", "content": text}),
        Message::Assistant { text, tool_calls, .. } => {
            let calls: Vec<Value> = tool_calls.iter().map(call).collect();
            json!({"role": "assistant", "content": text, "tool_calls": calls})
        }
        Message::Tool { name, text, .. } => json!({"role": "tool", "tool_name": name, "content": text}),
    }
}

fn call(call: &ToolCall) -> Value {
    json!({"function": {"name": call.name, "arguments": call.parse_arguments().unwrap_or_else(|_| json!({}))}})
}

/// Parses a line; returns whether it is the last.
pub(super) fn parse(value: &Value, deltas: &mut Vec<CompletionDelta>) -> bool {
    push_text(text_at(value, "model"), CompletionDelta::ServedBy, deltas);
    let message = value.get("message").unwrap_or(&Value::Null);
    push_text(text_at(message, "thinking"), CompletionDelta::Thinking, deltas);
    push_text(text_at(message, "content"), CompletionDelta::Text, deltas);
    for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let function = call.get("function").unwrap_or(call);
        // Calls are never fragmented: without an index, each is a new call.
        deltas.push(CompletionDelta::ToolCall(ToolCallFragment {
            index: None,
            id: text_at(call, "id").into(),
            name: text_at(function, "name").into(),
            arguments: arguments(function.get("arguments")),
            ..ToolCallFragment::default()
        }));
    }
    let is_done = value.get("done").and_then(Value::as_bool).unwrap_or(false);
    deltas.extend(FinishReason::parse(text_at(value, "done_reason")).map(CompletionDelta::Finish));
    let reported = ReportedUsage {
        input_tokens: count(value, "prompt_eval_count"),
        output_tokens: count(value, "eval_count"),
        ..ReportedUsage::default()
    };
    if reported != ReportedUsage::default() {
        deltas.push(CompletionDelta::Usage(reported));
    }
    is_done
}

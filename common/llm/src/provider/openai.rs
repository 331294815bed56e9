//! OpenAI's chat completions API, which many servers imitate with deviations.

use serde_json::{Map, Value, json};

use super::{ProviderRequest, arguments, count, functions, object, push_text, text_at};
use crate::completion::FinishReason;
use crate::completion_delta::{CompletionDelta, ToolCallFragment};
use crate::message::{Message, ToolCall};
use crate::request::ResponseFormat;
use crate::response_mode::ResponseMode;
use crate::usage::ReportedUsage;

/// Fields of a message that reasoning models want back with its tool calls: DeepSeek and Moonshot, OpenRouter, Gemini.
const KEPT_OF_MESSAGES: [&str; 3] = ["reasoning_content", "reasoning_details", "extra_content"];
/// The same of a tool call: Gemini, and LiteLLM in front of it.
const KEPT_OF_CALLS: [&str; 2] = ["extra_content", "provider_specific_fields"];
/// Schemas nested deeper than this are sent without `strict`.
const DEPTH_MAX: usize = 32;

pub(super) fn body(request: &ProviderRequest<'_>) -> Value {
    let messages: Vec<Value> = request.messages().iter().map(|sent| message(sent, &request.model.name)).collect();
    let tools = request.tools();
    let limit = Value::from(request.output_tokens_max());
    let tool_choice = request.forced_tool().map(|name| json!({"type": "function", "function": {"name": name}}));
    let format = match (&request.completion.format, request.mode) {
        (ResponseFormat::Json { name, schema }, ResponseMode::JsonSchema) => {
            let schema = schema.form(request.schema_form);
            let strict = strict(request, schema);
            let inner =
                object([("name", Some(name.as_str().into())), ("schema", Some(schema.clone())), ("strict", strict)]);
            Some(json!({"type": "json_schema", "json_schema": inner}))
        }
        (ResponseFormat::Json { .. }, ResponseMode::JsonObject) => Some(json!({"type": "json_object"})),
        _ => None,
    };
    let asks_usage = request.stream && !request.quirks.no_stream_options;
    let completion = request.quirks.completion_tokens;
    object([
        ("model", Some(request.model.wire_name().into())),
        ("messages", Some(messages.into())),
        ("tools", (!tools.is_empty()).then(|| functions(&tools))),
        ("tool_choice", tool_choice),
        ("response_format", format),
        ("max_tokens", (!completion).then(|| limit.clone())),
        ("max_completion_tokens", completion.then_some(limit)),
        ("temperature", request.temperature().map(Value::from)),
        ("reasoning_effort", request.reasoning_effort().map(Value::from)),
        ("stream", request.stream.then_some(true.into())),
        ("stream_options", asks_usage.then(|| json!({"include_usage": true}))),
    ])
}

/// - `model`: name in the settings of the model that gets the message.
fn message(message: &Message, model: &str) -> Value {
    match message {
        Message::System { text } => json!({"role": "system", "content": text}),
        Message::User { text } => json!({"role": "user", "content": text}),
        Message::Assistant { text, tool_calls, .. } if tool_calls.is_empty() => {
            json!({"role": "assistant", "content": text})
        }
        Message::Assistant { text, tool_calls, provider_fields } => {
            let content = if text.is_empty() { Value::Null } else { text.as_str().into() };
            let kept = provider_fields.for_model(model);
            let calls: Vec<Value> = tool_calls.iter().map(|sent| call(sent, kept.is_some())).collect();
            let mut message = kept.cloned().unwrap_or_default();
            message.insert("role".into(), "assistant".into());
            message.insert("content".into(), content);
            message.insert("tool_calls".into(), calls.into());
            message.into()
        }
        Message::Tool { call_id, text, .. } => json!({"role": "tool", "tool_call_id": call_id, "content": text}),
    }
}

/// - `is_own`: the model that gets the call is the one that made it.
fn call(call: &ToolCall, is_own: bool) -> Value {
    let arguments = if call.arguments.is_empty() { "{}" } else { &call.arguments };
    let mut sent = if is_own { call.provider_fields.clone() } else { Map::new() };
    sent.insert("id".into(), call.id.as_str().into());
    sent.insert("type".into(), "function".into());
    sent.insert("function".into(), json!({"name": call.name, "arguments": arguments}));
    sent.into()
}

/// The field `strict` beside a schema; none for a server that refuses the field.
pub(super) fn strict(request: &ProviderRequest<'_>, schema: &Value) -> Option<Value> {
    (!request.quirks.no_strict).then(|| is_strict(schema, DEPTH_MAX).into())
}

/// Whether a schema meets the requirements of `strict`: every object is closed and requires all its properties.
fn is_strict(schema: &Value, depth: usize) -> bool {
    let Some(fields) = schema.as_object() else {
        return schema.as_array().is_none_or(|all| depth > 0 && all.iter().all(|inner| is_strict(inner, depth - 1)));
    };
    let closed = match (fields.get("properties").and_then(Value::as_object), text_at(schema, "type")) {
        (None, "object") => false,
        (None, _) => true,
        (Some(properties), _) => {
            let required: Vec<&str> = fields
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            fields.get("additionalProperties") == Some(&Value::Bool(false))
                && properties.keys().all(|name| required.contains(&name.as_str()))
        }
    };
    closed && depth > 0 && fields.values().all(|inner| is_strict(inner, depth - 1))
}

/// Parses a chunk or a whole completion.
pub(super) fn parse(value: &Value, deltas: &mut Vec<CompletionDelta>) {
    let model = text_at(value, "model");
    if !model.is_empty() {
        deltas.push(CompletionDelta::ServedBy(model.into()));
    }
    let choices = value.get("choices").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let first = choices.iter().find(|choice| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0);
    if let Some(choice) = first {
        for part in ["delta", "message"].iter().filter_map(|field| choice.get(field)) {
            content(part, deltas);
        }
        // The legacy completions API.
        push_text(text_at(choice, "text"), CompletionDelta::Text, deltas);
        deltas.extend(FinishReason::parse(text_at(choice, "finish_reason")).map(CompletionDelta::Finish));
    }
    let groq = value.get("x_groq").and_then(|own| own.get("usage"));
    if let Some(usage) = value.get("usage").filter(|usage| usage.is_object()).or(groq) {
        let reported = ReportedUsage {
            input_tokens: count(usage, "prompt_tokens").or_else(|| count(usage, "input_tokens")),
            output_tokens: count(usage, "completion_tokens").or_else(|| count(usage, "output_tokens")),
            // DeepSeek has a field of its own.
            cached_tokens: usage
                .get("prompt_tokens_details")
                .and_then(|details| count(details, "cached_tokens"))
                .or_else(|| count(usage, "prompt_cache_hit_tokens")),
            stored_tokens: None,
        };
        deltas.push(CompletionDelta::Usage(reported));
    }
}

fn content(part: &Value, deltas: &mut Vec<CompletionDelta>) {
    let thinking = ["reasoning_content", "reasoning"].iter().map(|field| text_at(part, field)).find(|t| !t.is_empty());
    push_text(thinking.unwrap_or_default(), CompletionDelta::Thinking, deltas);
    match part.get("content") {
        Some(Value::String(text)) => push_text(text, CompletionDelta::Text, deltas),
        Some(Value::Array(pieces)) => {
            for piece in pieces {
                let text = piece.as_str().unwrap_or_else(|| text_at(piece, "text"));
                push_text(text, CompletionDelta::Text, deltas);
            }
        }
        _ => {}
    }
    push_text(text_at(part, "refusal"), CompletionDelta::Refusal, deltas);
    for field in KEPT_OF_MESSAGES {
        deltas.extend(present(part, field).map(|value| CompletionDelta::ProviderField(field, value.clone())));
    }
    for call in part.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let function = call.get("function").unwrap_or(call);
        let mut fragment = fragment(call.get("index").and_then(Value::as_u64), text_at(call, "id"), function);
        for field in KEPT_OF_CALLS {
            fragment.provider_fields.extend(present(call, field).map(|value| (field.to_owned(), value.clone())));
        }
        deltas.push(CompletionDelta::ToolCall(fragment));
    }
    if let Some(function) = part.get("function_call").filter(|call| call.is_object()) {
        deltas.push(CompletionDelta::ToolCall(fragment(Some(0), "", function)));
    }
}

/// A field that is there and not null.
fn present<'a>(part: &'a Value, field: &str) -> Option<&'a Value> {
    part.get(field).filter(|value| !value.is_null())
}

fn fragment(index: Option<u64>, id: &str, function: &Value) -> ToolCallFragment {
    ToolCallFragment {
        index,
        id: id.into(),
        name: text_at(function, "name").into(),
        arguments: arguments(function.get("arguments")),
        provider_fields: Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_is_sent_only_with_schemas_that_support_it() {
        let strict = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}},
            "required": ["a"], "additionalProperties": false});
        assert!(is_strict(&strict, DEPTH_MAX));
        let open = json!({"type": "object", "properties": {"a": {"type": "object"}}, "required": ["a"],
            "additionalProperties": false});
        assert!(!is_strict(&open, DEPTH_MAX));
        let optional = json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false});
        assert!(!is_strict(&optional, DEPTH_MAX));
        let deep = (0..=DEPTH_MAX).fold(json!({"type": "string"}), |inner, _| json!({"anyOf": [inner]}));
        assert!(!is_strict(&deep, DEPTH_MAX));
    }
}

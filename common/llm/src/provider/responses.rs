//! OpenAI's responses API. Nothing is stored at the server: reasoning items travel encrypted with the conversation.

use serde_json::{Value, json};

use super::openai::strict;
use super::{ProviderRequest, count, object, push_text, text_at};
use crate::completion::FinishReason;
use crate::completion_delta::{CompletionDelta, ToolCallFragment};
use crate::message::Message;
use crate::request::ResponseFormat;
use crate::response_mode::ResponseMode;
use crate::usage::ReportedUsage;

/// Reasoning items, which the API wants back before the tool calls that they led to.
const REASONING_ITEMS: &str = "reasoning_items";

pub(super) fn body(request: &ProviderRequest<'_>) -> Value {
    let tool_choice = request.forced_tool().map(|name| json!({"type": "function", "name": name}));
    let format = match (&request.completion.format, request.mode) {
        (ResponseFormat::Json { name, schema }, ResponseMode::JsonSchema) => {
            let schema = schema.form(request.schema_form);
            Some(object([
                ("type", Some("json_schema".into())),
                ("name", Some(name.as_str().into())),
                ("schema", Some(schema.clone())),
                ("strict", strict(request, schema)),
            ]))
        }
        (ResponseFormat::Json { .. }, ResponseMode::JsonObject) => Some(json!({"type": "json_object"})),
        _ => None,
    };
    let tools: Vec<Value> = request
        .tools()
        .iter()
        .map(|tool| {
            json!({"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters,
                "strict": false})
        })
        .collect();
    let input: Vec<Value> = request.messages().iter().flat_map(|sent| items(sent, &request.model.name)).collect();
    object([
        ("model", Some(request.model.wire_name().into())),
        ("input", Some(input.into())),
        ("tools", (!tools.is_empty()).then(|| tools.into())),
        ("tool_choice", tool_choice),
        ("text", format.map(|format| json!({"format": format}))),
        ("max_output_tokens", Some(request.output_tokens_max().into())),
        ("temperature", request.temperature().map(Value::from)),
        ("reasoning", request.reasoning_effort().map(|effort| json!({"effort": effort}))),
        ("store", Some(false.into())),
        ("include", Some(json!(["reasoning.encrypted_content"]))),
        ("stream", request.stream.then_some(true.into())),
    ])
}

fn items(message: &Message, model: &str) -> Vec<Value> {
    match message {
        Message::System { text } => vec![json!({"role": "system", "content": text})],
        Message::User { text } => vec![json!({"role": "user", "content": text})],
        Message::Assistant { text, tool_calls, provider_fields } => {
            let kept = provider_fields.for_model(model).and_then(|fields| fields.get(REASONING_ITEMS)?.as_array());
            let kept = kept.into_iter().flatten().filter(|_| !tool_calls.is_empty()).cloned();
            let said = (!text.is_empty()).then(|| json!({"role": "assistant", "content": text}));
            let calls = tool_calls.iter().map(|call| {
                let arguments = if call.arguments.is_empty() { "{}" } else { &call.arguments };
                json!({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments})
            });
            kept.chain(said).chain(calls).collect()
        }
        Message::Tool { call_id, text, .. } => {
            vec![json!({"type": "function_call_output", "call_id": call_id, "output": text})]
        }
    }
}

/// Parses an event or a whole response; returns whether it is the last.
pub(super) fn parse(value: &Value, deltas: &mut Vec<CompletionDelta>) -> bool {
    let at = value.get("output_index").and_then(Value::as_u64);
    let delta = text_at(value, "delta");
    match text_at(value, "type") {
        "response.output_text.delta" => push_text(delta, CompletionDelta::Text, deltas),
        "response.refusal.delta" => push_text(delta, CompletionDelta::Refusal, deltas),
        "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
            push_text(delta, CompletionDelta::Thinking, deltas);
        }
        "response.function_call_arguments.delta" => {
            let fragment = ToolCallFragment { index: at, arguments: delta.into(), ..ToolCallFragment::default() };
            deltas.push(CompletionDelta::ToolCall(fragment));
        }
        "response.output_item.added" => {
            if let Some(item) = value.get("item").filter(|item| text_at(item, "type") == "function_call") {
                let (id, name) = (text_at(item, "call_id").into(), text_at(item, "name").into());
                deltas.push(CompletionDelta::ToolCall(ToolCallFragment {
                    index: at,
                    id,
                    name,
                    ..ToolCallFragment::default()
                }));
            }
        }
        "response.output_item.done" => {
            if let Some(item) = value.get("item") {
                keep_reasoning(item, deltas);
            }
        }
        "response.completed" | "response.incomplete" => {
            end(value.get("response").unwrap_or(&Value::Null), deltas);
            return true;
        }
        "response.failed" => {
            let error = value.pointer("/response/error").unwrap_or(&Value::Null);
            deltas.push(CompletionDelta::Error(super::parse_error(error)));
            return true;
        }
        _ if value.get("output").is_some_and(Value::is_array) && text_at(value, "object") == "response" => {
            whole(value, deltas);
            return true;
        }
        _ => {}
    }
    false
}

fn whole(response: &Value, deltas: &mut Vec<CompletionDelta>) {
    for (at, item) in response.get("output").and_then(Value::as_array).into_iter().flatten().enumerate() {
        keep_reasoning(item, deltas);
        match text_at(item, "type") {
            "message" => {
                for part in item.get("content").and_then(Value::as_array).into_iter().flatten() {
                    push_text(text_at(part, "text"), CompletionDelta::Text, deltas);
                    push_text(text_at(part, "refusal"), CompletionDelta::Refusal, deltas);
                }
            }
            "reasoning" => {
                for part in item.get("summary").and_then(Value::as_array).into_iter().flatten() {
                    push_text(text_at(part, "text"), CompletionDelta::Thinking, deltas);
                }
            }
            "function_call" => deltas.push(CompletionDelta::ToolCall(ToolCallFragment {
                index: Some(at as u64),
                id: text_at(item, "call_id").into(),
                name: text_at(item, "name").into(),
                arguments: text_at(item, "arguments").into(),
                ..ToolCallFragment::default()
            })),
            _ => {}
        }
    }
    end(response, deltas);
}

/// What a response says at its end: model, reason and usage.
fn end(response: &Value, deltas: &mut Vec<CompletionDelta>) {
    push_text(text_at(response, "model"), CompletionDelta::ServedBy, deltas);
    if let Some(error) = response.get("error").filter(|error| error.is_object()) {
        deltas.push(CompletionDelta::Error(super::parse_error(error)));
    }
    let reason = match text_at(response, "status") {
        "incomplete" => text_at(response.get("incomplete_details").unwrap_or(&Value::Null), "reason"),
        status => status,
    };
    deltas.extend(FinishReason::parse(reason).map(CompletionDelta::Finish));
    if let Some(usage) = response.get("usage").filter(|usage| usage.is_object()) {
        deltas.push(CompletionDelta::Usage(ReportedUsage {
            input_tokens: count(usage, "input_tokens"),
            output_tokens: count(usage, "output_tokens"),
            cached_tokens: usage.get("input_tokens_details").and_then(|details| count(details, "cached_tokens")),
            stored_tokens: None,
        }));
    }
}

fn keep_reasoning(item: &Value, deltas: &mut Vec<CompletionDelta>) {
    if text_at(item, "type") == "reasoning" && item.get("encrypted_content").is_some_and(Value::is_string) {
        deltas.push(CompletionDelta::ProviderField(REASONING_ITEMS, json!([item])));
    }
}

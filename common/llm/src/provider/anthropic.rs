//! Anthropic's messages API.

use serde_json::{Value, json};

use super::{ProviderRequest, arguments, count, object, text_at};
use crate::completion::{CompletionDelta, FinishReason, ToolCallFragment};
use crate::fallback_modes::ResponseMode;
use crate::message::{Message, ToolCall};
use crate::request::{ResponseFormat, ToolChoice};
use crate::usage::ReportedUsage;

pub(super) fn body(request: &ProviderRequest<'_>) -> Value {
    let messages = request.messages();
    let system: Vec<&str> = messages
        .iter()
        .filter_map(|message| match message {
            Message::System { text } => Some(text.as_str()),
            Message::User { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
        })
        .collect();
    let tools: Vec<Value> = request
        .tools()
        .iter()
        .map(|tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters}))
        .collect();
    let named = |name: &str| json!({"type": "tool", "name": name});
    let choice = match (&request.completion.format, request.mode) {
        (ResponseFormat::Json { name, .. }, ResponseMode::ForcedTool) => Some(named(name)),
        (ResponseFormat::Tools { choice: ToolChoice::Named(name), .. }, ResponseMode::Tools) => Some(named(name)),
        _ => None,
    };
    object([
        ("model", Some(request.model.wire_name().into())),
        ("max_tokens", Some(request.output_tokens_max().into())),
        ("system", (!system.is_empty()).then(|| system.join("\n\n").into())),
        ("messages", Some(turns(&messages).into())),
        ("tools", (!tools.is_empty()).then(|| tools.into())),
        ("tool_choice", choice),
        ("temperature", request.temperature().map(Value::from)),
        ("stream", request.stream.then_some(true.into())),
    ])
}

/// Messages without the system's; consecutive messages of one role form one turn, as the API requires.
fn turns(messages: &[Message]) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, blocks) = match message {
            Message::System { .. } => continue,
            Message::User { text } => ("user", vec![text_block(text)]),
            Message::Assistant { text, tool_calls } => {
                let text = (!text.is_empty()).then(|| text_block(text));
                ("assistant", text.into_iter().chain(tool_calls.iter().map(call_block)).collect())
            }
            Message::Tool { call_id, text, .. } => {
                ("user", vec![json!({"type": "tool_result", "tool_use_id": call_id, "content": text})])
            }
        };
        match turns.last_mut() {
            Some((last, all)) if *last == role => all.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    turns.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call_block(call: &ToolCall) -> Value {
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.parse_arguments().unwrap_or_else(|_| json!({}))})
}

/// Parses an event or a whole message; returns whether it is the last.
pub(super) fn parse(value: &Value, deltas: &mut Vec<CompletionDelta>) -> bool {
    let at = value.get("index").and_then(Value::as_u64);
    match text_at(value, "type") {
        "message_start" => {
            if let Some(message) = value.get("message") {
                whole(message, deltas);
            }
        }
        "content_block_start" => {
            if let Some(content) = value.get("content_block") {
                block(at, content, true, deltas);
            }
        }
        "content_block_delta" => {
            let delta = value.get("delta").unwrap_or(&Value::Null);
            push_text(text_at(delta, "text"), CompletionDelta::Text, deltas);
            push_text(text_at(delta, "thinking"), CompletionDelta::Thinking, deltas);
            let arguments = text_at(delta, "partial_json");
            if !arguments.is_empty() {
                let fragment =
                    ToolCallFragment { index: at, arguments: arguments.into(), ..ToolCallFragment::default() };
                deltas.push(CompletionDelta::ToolCall(fragment));
            }
        }
        "message_delta" => {
            let reason = text_at(value.get("delta").unwrap_or(&Value::Null), "stop_reason");
            deltas.extend(FinishReason::parse(reason).map(CompletionDelta::Finish));
            usage(value, deltas);
        }
        "message_stop" => return true,
        _ if value.get("content").is_some_and(Value::is_array) => {
            whole(value, deltas);
            return true;
        }
        _ => {}
    }
    false
}

fn whole(message: &Value, deltas: &mut Vec<CompletionDelta>) {
    push_text(text_at(message, "model"), CompletionDelta::ServedBy, deltas);
    for (at, content) in message.get("content").and_then(Value::as_array).into_iter().flatten().enumerate() {
        block(Some(at as u64), content, false, deltas);
    }
    deltas.extend(FinishReason::parse(text_at(message, "stop_reason")).map(CompletionDelta::Finish));
    usage(message, deltas);
}

/// - `is_start`: the block starts here; the input of a tool call follows in fragments.
fn block(at: Option<u64>, content: &Value, is_start: bool, deltas: &mut Vec<CompletionDelta>) {
    push_text(text_at(content, "text"), CompletionDelta::Text, deltas);
    push_text(text_at(content, "thinking"), CompletionDelta::Thinking, deltas);
    if text_at(content, "type") == "tool_use" {
        let input = content.get("input").filter(|input| !(is_start && input.as_object().is_some_and(|o| o.is_empty())));
        deltas.push(CompletionDelta::ToolCall(ToolCallFragment {
            index: at,
            id: text_at(content, "id").into(),
            name: text_at(content, "name").into(),
            arguments: arguments(input),
        }));
    }
}

/// Cache reads and writes count as input tokens.
fn usage(value: &Value, deltas: &mut Vec<CompletionDelta>) {
    let Some(usage) = value.get("usage").filter(|usage| usage.is_object()) else { return };
    let cached =
        ["cache_creation_input_tokens", "cache_read_input_tokens"].iter().filter_map(|f| count(usage, f)).sum();
    let input_tokens = count(usage, "input_tokens").map(|tokens: u64| tokens.saturating_add(cached));
    deltas.push(CompletionDelta::Usage(ReportedUsage { input_tokens, output_tokens: count(usage, "output_tokens") }));
}

fn push_text(text: &str, piece: fn(String) -> CompletionDelta, deltas: &mut Vec<CompletionDelta>) {
    if !text.is_empty() {
        deltas.push(piece(text.into()));
    }
}

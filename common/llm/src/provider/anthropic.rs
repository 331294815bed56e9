//! Anthropic's messages API.

use serde_json::{Value, json};

use super::{ProviderRequest, arguments, count, object, push_text, text_at};
use crate::completion::FinishReason;
use crate::completion_delta::{CompletionDelta, ToolCallFragment};
use crate::message::{Message, ToolCall};
use crate::usage::ReportedUsage;

/// Thinking blocks, which the API wants back before the tool calls that they led to.
const THINKING_BLOCKS: &str = "thinking_blocks";

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
    let choice = request.forced_tool().map(|name| json!({"type": "tool", "name": name}));
    object([
        ("model", Some(request.model.wire_name().into())),
        ("max_tokens", Some(request.output_tokens_max().into())),
        ("system", (!system.is_empty()).then(|| json!([cached(text_block(&system.join("\n\n")))]))),
        ("messages", Some(turns(&messages, &request.model.name).into())),
        ("tools", (!tools.is_empty()).then(|| tools.into())),
        ("tool_choice", choice),
        ("temperature", request.temperature().map(Value::from)),
        ("output_config", request.reasoning_effort().map(|effort| json!({"effort": effort}))),
        ("stream", request.stream.then_some(true.into())),
    ])
}

/// Messages without the system's; consecutive messages of one role form one turn, as the API requires.
///
/// The last block ends the part of the prompt that the next call of the conversation repeats, so it is cached as well.
fn turns(messages: &[Message], model: &str) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, blocks) = match message {
            Message::System { .. } => continue,
            Message::User { text } => ("user", vec![text_block(text)]),
            Message::Assistant { text, tool_calls, provider_fields } => {
                let kept = provider_fields.for_model(model).and_then(|fields| fields.get(THINKING_BLOCKS)?.as_array());
                let thinking = kept.into_iter().flatten().map(thinking_block).filter(|_| !tool_calls.is_empty());
                let text = (!text.is_empty()).then(|| text_block(text));
                ("assistant", thinking.chain(text).chain(tool_calls.iter().map(call_block)).collect())
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
    // A conversation only: a single request is not repeated.
    if turns.len() > 1
        && let Some(last) = turns.last_mut().and_then(|(_, blocks)| blocks.last_mut())
    {
        *last = cached(last.take());
    }
    turns.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

/// Marks a block as the end of a prefix that the server caches for five minutes; one under its minimum is not cached.
fn cached(mut block: Value) -> Value {
    block["cache_control"] = json!({"type": "ephemeral"});
    block
}

/// A received thinking block without the position that its pieces were merged by.
fn thinking_block(kept: &Value) -> Value {
    let mut block = kept.clone();
    if let Some(fields) = block.as_object_mut() {
        fields.remove("index");
    }
    block
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
            let pieces = ["thinking", "signature"].iter().filter_map(|field| Some((*field, delta.get(field)?)));
            for (field, piece) in pieces {
                let block = json!([{"index": at, field: piece}]);
                deltas.push(CompletionDelta::ProviderField(THINKING_BLOCKS, block));
            }
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
    if matches!(text_at(content, "type"), "thinking" | "redacted_thinking") {
        let mut kept = content.clone();
        kept["index"] = at.into();
        deltas.push(CompletionDelta::ProviderField(THINKING_BLOCKS, json!([kept])));
    }
    if text_at(content, "type") == "tool_use" {
        let input = content.get("input").filter(|input| !(is_start && input.as_object().is_some_and(|o| o.is_empty())));
        deltas.push(CompletionDelta::ToolCall(ToolCallFragment {
            index: at,
            id: text_at(content, "id").into(),
            name: text_at(content, "name").into(),
            arguments: arguments(input),
            ..ToolCallFragment::default()
        }));
    }
}

/// Cache reads and writes count as input tokens.
fn usage(value: &Value, deltas: &mut Vec<CompletionDelta>) {
    let Some(usage) = value.get("usage").filter(|usage| usage.is_object()) else { return };
    let (stored_tokens, cached_tokens) =
        (count(usage, "cache_creation_input_tokens"), count(usage, "cache_read_input_tokens"));
    let apart = stored_tokens.unwrap_or_default().saturating_add(cached_tokens.unwrap_or_default());
    let input_tokens = count(usage, "input_tokens").map(|tokens: u64| tokens.saturating_add(apart));
    let output_tokens = count(usage, "output_tokens");
    deltas.push(CompletionDelta::Usage(ReportedUsage { input_tokens, output_tokens, cached_tokens, stored_tokens }));
}

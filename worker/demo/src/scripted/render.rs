//! Renders answers in the dialects of model servers, whole or streamed.

use goalmill_common::config::Dialect;
use goalmill_llm::estimate_tokens;
use serde_json::{Value, json};

use super::script::{Scripted, ScriptedUsage};

/// The creation time of answers, Unix seconds; fixed, so that no answer depends on a clock.
const CREATED: u64 = 1_700_000_000;
/// Default size of one piece in characters.
const CHUNK: usize = 16;

/// The parts of a request that the answer depends on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    pub model: String,
    pub stream: bool,
    /// The tool that must be called.
    pub forced: Option<String>,
    /// The text of all messages.
    pub prompt: String,
}

/// One part of an answer.
enum TemplatePart {
    Thinking(String),
    Text(String),
    Call { name: String, arguments: String },
}

fn parts(scripted: &Scripted, asked: &Asked) -> Vec<TemplatePart> {
    let mut parts: Vec<TemplatePart> = scripted.thinking.iter().cloned().map(TemplatePart::Thinking).collect();
    match (scripted.written(), &asked.forced) {
        (Some(text), Some(name)) if scripted.tool_calls.is_empty() => {
            parts.push(TemplatePart::Call { name: name.clone(), arguments: text });
        }
        (Some(text), _) => parts.push(TemplatePart::Text(text)),
        (None, _) => {}
    }
    parts.extend(scripted.tool_calls.iter().map(|call| {
        let arguments = match &call.arguments {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            arguments @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                arguments.to_string()
            }
        };
        TemplatePart::Call { name: call.name.clone(), arguments }
    }));
    parts
}

fn has_calls(parts: &[TemplatePart]) -> bool {
    parts.iter().any(|part| matches!(part, TemplatePart::Call { .. }))
}

fn finish(scripted: &Scripted, dialect: Dialect, calls: bool) -> String {
    let word = match (dialect, scripted.truncate.is_some(), calls) {
        (Dialect::Anthropic, true, _) => "max_tokens",
        (Dialect::Anthropic, false, true) => "tool_use",
        (Dialect::Anthropic, false, false) => "end_turn",
        (Dialect::Openai | Dialect::Ollama, true, _) => "length",
        (Dialect::Responses, true, _) => "max_output_tokens",
        (Dialect::Responses, false, _) => "completed",
        (Dialect::Openai, false, true) => "tool_calls",
        (Dialect::Openai, false, false) | (Dialect::Ollama, false, _) => "stop",
    };
    scripted.finish.clone().unwrap_or_else(|| word.to_owned())
}

fn usage(scripted: &Scripted, asked: &Asked, parts: &[TemplatePart]) -> Option<ScriptedUsage> {
    let written = parts.iter().map(|part| match part {
        TemplatePart::Thinking(text) | TemplatePart::Text(text) => estimate_tokens(text),
        TemplatePart::Call { name, arguments } => estimate_tokens(name) + estimate_tokens(arguments),
    });
    let estimated = ScriptedUsage { input: estimate_tokens(&asked.prompt), output: written.sum() };
    (!scripted.no_usage).then(|| scripted.usage.unwrap_or(estimated))
}

/// The body of an answer that is not streamed.
pub fn whole(scripted: &Scripted, asked: &Asked, dialect: Dialect) -> String {
    let parts = parts(scripted, asked);
    let usage = usage(scripted, asked, &parts);
    let finish = finish(scripted, dialect, has_calls(&parts));
    let body = match dialect {
        Dialect::Openai => openai_whole(asked, &parts, &finish, usage),
        Dialect::Responses => responses_whole(asked, &parts, &finish, usage),
        Dialect::Anthropic => anthropic_whole(asked, &parts, &finish, usage),
        Dialect::Ollama => {
            let mut line = ollama_line(asked, ollama_message(&parts));
            ollama_end(&mut line, &finish, usage);
            line
        }
    };
    body.to_string()
}

/// The pieces of a streamed answer: content and end.
pub fn pieces(scripted: &Scripted, asked: &Asked, dialect: Dialect) -> (Vec<String>, Vec<String>) {
    let size = scripted.chunk.unwrap_or(CHUNK).max(1);
    let parts = parts(scripted, asked);
    let usage = usage(scripted, asked, &parts);
    let finish = finish(scripted, dialect, has_calls(&parts));
    match dialect {
        Dialect::Openai => openai_pieces(asked, &parts, &finish, usage, size),
        Dialect::Responses => responses_pieces(asked, &parts, &finish, usage, size),
        Dialect::Anthropic => anthropic_pieces(asked, &parts, &finish, usage, size),
        Dialect::Ollama => ollama_pieces(asked, &parts, &finish, usage, size),
    }
}

/// An error in the form of the dialect.
pub fn error(dialect: Dialect, message: &str, kind: &str) -> Value {
    match dialect {
        Dialect::Openai | Dialect::Responses => json!({"error": {"message": message, "type": kind, "code": kind}}),
        Dialect::Anthropic => json!({"type": "error", "error": {"type": kind, "message": message}}),
        Dialect::Ollama => json!({"error": message}),
    }
}

/// The same within a stream.
pub fn error_piece(dialect: Dialect, message: &str) -> String {
    let error = error(dialect, message, "server_error");
    match dialect {
        Dialect::Openai => event("", &error),
        Dialect::Responses | Dialect::Anthropic => event("error", &error),
        Dialect::Ollama => format!("{error}\n"),
    }
}

fn event(name: &str, data: &Value) -> String {
    if name.is_empty() { format!("data: {data}\n\n") } else { format!("event: {name}\ndata: {data}\n\n") }
}

fn cut(text: &str, size: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(size).map(|piece| piece.iter().collect()).collect()
}

fn call_id(at: usize) -> String {
    format!("call_{at}")
}

fn openai_usage(usage: ScriptedUsage) -> Value {
    json!({"prompt_tokens": usage.input, "completion_tokens": usage.output, "total_tokens": usage.input + usage.output})
}

fn openai_whole(asked: &Asked, parts: &[TemplatePart], finish: &str, usage: Option<ScriptedUsage>) -> Value {
    let mut message = json!({"role": "assistant", "content": null});
    let mut calls = Vec::new();
    for part in parts {
        match part {
            TemplatePart::Thinking(text) => message["reasoning_content"] = text.as_str().into(),
            TemplatePart::Text(text) => message["content"] = text.as_str().into(),
            TemplatePart::Call { name, arguments } => calls.push(json!({
                "id": call_id(calls.len()), "type": "function", "function": {"name": name, "arguments": arguments},
            })),
        }
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let choice = json!({"index": 0, "message": message, "finish_reason": finish});
    let mut body = json!({
        "id": "scripted", "object": "chat.completion", "created": CREATED, "model": asked.model, "choices": [choice],
    });
    if let Some(usage) = usage {
        body["usage"] = openai_usage(usage);
    }
    body
}

fn openai_pieces(
    asked: &Asked,
    parts: &[TemplatePart],
    finish: &str,
    usage: Option<ScriptedUsage>,
    size: usize,
) -> (Vec<String>, Vec<String>) {
    let chunk = |delta: Value, finish: Value| {
        json!({
            "id": "scripted", "object": "chat.completion.chunk", "created": CREATED, "model": asked.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        })
    };
    let piece = |delta: Value| event("", &chunk(delta, Value::Null));
    let mut content = vec![piece(json!({"role": "assistant", "content": ""}))];
    let mut calls = 0;
    for part in parts {
        match part {
            TemplatePart::Thinking(text) => {
                content.extend(cut(text, size).into_iter().map(|text| piece(json!({"reasoning_content": text}))));
            }
            TemplatePart::Text(text) => {
                content.extend(cut(text, size).into_iter().map(|text| piece(json!({"content": text}))));
            }
            TemplatePart::Call { name, arguments } => {
                let function = json!({"name": name, "arguments": ""});
                let begin = json!({"index": calls, "id": call_id(calls), "type": "function", "function": function});
                content.push(piece(json!({"tool_calls": [begin]})));
                content.extend(cut(arguments, size).into_iter().map(|arguments| {
                    piece(json!({"tool_calls": [{"index": calls, "function": {"arguments": arguments}}]}))
                }));
                calls += 1;
            }
        }
    }
    let mut end = vec![event("", &chunk(json!({}), finish.into()))];
    if let Some(usage) = usage {
        let mut last = chunk(json!({}), Value::Null);
        last["choices"] = json!([]);
        last["usage"] = openai_usage(usage);
        end.push(event("", &last));
    }
    end.push("data: [DONE]\n\n".into());
    (content, end)
}

fn responses_item(at: usize, part: &TemplatePart) -> Value {
    let id = format!("item_{at}");
    match part {
        TemplatePart::Thinking(text) => json!({
            "type": "reasoning", "id": id, "summary": [{"type": "summary_text", "text": text}],
            "encrypted_content": format!("encrypted-{at}"),
        }),
        TemplatePart::Text(text) => json!({
            "type": "message", "id": id, "role": "assistant", "content": [{"type": "output_text", "text": text}],
        }),
        TemplatePart::Call { name, arguments } => json!({
            "type": "function_call", "id": id, "call_id": call_id(at), "name": name, "arguments": arguments,
        }),
    }
}

fn responses_whole(asked: &Asked, parts: &[TemplatePart], finish: &str, usage: Option<ScriptedUsage>) -> Value {
    let output: Vec<Value> = parts.iter().enumerate().map(|(at, part)| responses_item(at, part)).collect();
    let mut body = json!({
        "id": "scripted", "object": "response", "created_at": CREATED, "model": asked.model, "output": output,
        "status": if finish == "completed" { finish } else { "incomplete" },
    });
    if finish != "completed" {
        body["incomplete_details"] = json!({"reason": finish});
    }
    if let Some(usage) = usage {
        body["usage"] = json!({"input_tokens": usage.input, "output_tokens": usage.output});
    }
    body
}

fn responses_pieces(
    asked: &Asked,
    parts: &[TemplatePart],
    finish: &str,
    usage: Option<ScriptedUsage>,
    size: usize,
) -> (Vec<String>, Vec<String>) {
    let named = |data: Value| event(data["type"].as_str().unwrap_or_default(), &data);
    let mut content = vec![named(json!({"type": "response.created", "response": {"id": "scripted"}}))];
    for (at, part) in parts.iter().enumerate() {
        let item = responses_item(at, part);
        let mut begun = item.clone();
        if let Some(arguments) = begun.get_mut("arguments") {
            *arguments = "".into();
        }
        content.push(named(json!({"type": "response.output_item.added", "output_index": at, "item": begun})));
        let (kind, text) = match part {
            TemplatePart::Thinking(text) => ("response.reasoning_summary_text.delta", text),
            TemplatePart::Text(text) => ("response.output_text.delta", text),
            TemplatePart::Call { arguments, .. } => ("response.function_call_arguments.delta", arguments),
        };
        content.extend(
            cut(text, size).into_iter().map(|piece| named(json!({"type": kind, "output_index": at, "delta": piece}))),
        );
        content.push(named(json!({"type": "response.output_item.done", "output_index": at, "item": item})));
    }
    let response = responses_whole(asked, parts, finish, usage);
    let kind = if finish == "completed" { "response.completed" } else { "response.incomplete" };
    (content, vec![named(json!({"type": kind, "response": response}))])
}

fn anthropic_block(at: usize, part: &TemplatePart, is_begun: bool) -> Value {
    let text_of = |text: &str| if is_begun { String::new() } else { text.to_owned() };
    match part {
        TemplatePart::Thinking(text) => json!({"type": "thinking", "thinking": text_of(text)}),
        TemplatePart::Text(text) => json!({"type": "text", "text": text_of(text)}),
        TemplatePart::Call { name, arguments } => {
            let input =
                if is_begun { json!({}) } else { serde_json::from_str(arguments).unwrap_or_else(|_| json!({})) };
            json!({"type": "tool_use", "id": call_id(at), "name": name, "input": input})
        }
    }
}

fn anthropic_whole(asked: &Asked, parts: &[TemplatePart], finish: &str, usage: Option<ScriptedUsage>) -> Value {
    let content: Vec<Value> = parts.iter().enumerate().map(|(at, part)| anthropic_block(at, part, false)).collect();
    let mut body = json!({
        "id": "scripted", "type": "message", "role": "assistant", "model": asked.model, "content": content,
        "stop_reason": finish, "stop_sequence": null,
    });
    if let Some(usage) = usage {
        body["usage"] = json!({"input_tokens": usage.input, "output_tokens": usage.output});
    }
    body
}

fn anthropic_pieces(
    asked: &Asked,
    parts: &[TemplatePart],
    finish: &str,
    usage: Option<ScriptedUsage>,
    size: usize,
) -> (Vec<String>, Vec<String>) {
    let mut message = json!({
        "id": "scripted", "type": "message", "role": "assistant", "model": asked.model, "content": [],
        "stop_reason": null,
    });
    let mut last = json!({"type": "message_delta", "delta": {"stop_reason": finish}});
    if let Some(usage) = usage {
        message["usage"] = json!({"input_tokens": usage.input, "output_tokens": 1});
        last["usage"] = json!({"output_tokens": usage.output});
    }
    let named = |data: Value| event(data["type"].as_str().unwrap_or_default(), &data);
    let mut content = vec![named(json!({"type": "message_start", "message": message})), named(json!({"type": "ping"}))];
    for (at, part) in parts.iter().enumerate() {
        let begun = anthropic_block(at, part, true);
        content.push(named(json!({"type": "content_block_start", "index": at, "content_block": begun})));
        let (kind, field, text) = match part {
            TemplatePart::Thinking(text) => ("thinking_delta", "thinking", text),
            TemplatePart::Text(text) => ("text_delta", "text", text),
            TemplatePart::Call { arguments, .. } => ("input_json_delta", "partial_json", arguments),
        };
        content.extend(cut(text, size).into_iter().map(|piece| {
            named(json!({"type": "content_block_delta", "index": at, "delta": {"type": kind, field: piece}}))
        }));
        content.push(named(json!({"type": "content_block_stop", "index": at})));
    }
    (content, vec![named(last), named(json!({"type": "message_stop"}))])
}

fn ollama_line(asked: &Asked, message: Value) -> Value {
    json!({"model": asked.model, "created_at": "2023-11-14T22:13:20Z", "message": message, "done": false})
}

fn ollama_end(line: &mut Value, finish: &str, usage: Option<ScriptedUsage>) {
    line["done"] = true.into();
    line["done_reason"] = finish.into();
    if let Some(usage) = usage {
        line["prompt_eval_count"] = usage.input.into();
        line["eval_count"] = usage.output.into();
    }
}

fn ollama_message(parts: &[TemplatePart]) -> Value {
    let mut message = json!({"role": "assistant", "content": ""});
    let mut calls: Vec<Value> = Vec::new();
    for part in parts {
        match part {
            TemplatePart::Thinking(text) => message["thinking"] = text.as_str().into(),
            TemplatePart::Text(text) => message["content"] = text.as_str().into(),
            TemplatePart::Call { name, arguments } => {
                let arguments: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
                calls.push(json!({"function": {"name": name, "arguments": arguments}}));
            }
        }
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}

fn ollama_pieces(
    asked: &Asked,
    parts: &[TemplatePart],
    finish: &str,
    usage: Option<ScriptedUsage>,
    size: usize,
) -> (Vec<String>, Vec<String>) {
    let line = |part: TemplatePart| format!("{}\n", ollama_line(asked, ollama_message(&[part])));
    let content = parts.iter().flat_map(|part| match part {
        TemplatePart::Thinking(text) => {
            cut(text, size).into_iter().map(|text| line(TemplatePart::Thinking(text))).collect()
        }
        TemplatePart::Text(text) => cut(text, size).into_iter().map(|text| line(TemplatePart::Text(text))).collect(),
        TemplatePart::Call { name, arguments } => {
            vec![line(TemplatePart::Call { name: name.clone(), arguments: arguments.clone() })]
        }
    });
    let mut last = ollama_line(asked, ollama_message(&[]));
    ollama_end(&mut last, finish, usage);
    (content.collect(), vec![format!("{last}\n")])
}

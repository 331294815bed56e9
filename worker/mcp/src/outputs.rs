//! The result of a tool as the outputs of a step.

use goalmill_common::callback;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_worker::executor::{ExecutionResult, clip};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

/// Structured content is the outputs. Otherwise they are `text`, all texts of the result, and `content`, its other parts.
pub(crate) fn parse_result(result: CallToolResult) -> Result<ExecutionResult, Failure> {
    let (texts, others): (Vec<_>, Vec<_>) =
        result.content.iter().partition(|part| matches!(part, ContentBlock::Text(_)));
    let texts: Vec<&str> = texts.into_iter().filter_map(|part| part.as_text()).map(|text| text.text.as_str()).collect();
    let text = texts.join("\n");
    if result.is_error == Some(true) {
        let message = if text.trim().is_empty() { "the tool failed without a message" } else { &text };
        return Err(Failure::new(FailureClass::Permanent, "MCP_TOOL_ERROR", clip(message)));
    }
    let outputs = match result.structured_content {
        Some(Value::Object(fields)) => Value::Object(fields),
        Some(value) => json!({ "result": value }),
        None if others.is_empty() => json!({ "text": text }),
        None => json!({ "text": text, "content": others }),
    };
    Ok(ExecutionResult::new(outputs))
}

/// A tool without structured content accepts a task by its text.
pub(crate) fn read_acceptance(result: ExecutionResult) -> ExecutionResult {
    let outputs = result.outputs.value();
    let only_text =
        outputs.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.get("text")?.as_str());
    let said = only_text.and_then(|text| Json::from_text(text.to_owned()).ok());
    match said.filter(callback::is_accepted) {
        Some(accepted) => ExecutionResult { outputs: accepted, ..result },
        None => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(result: CallToolResult) -> Value {
        parse_result(result).expect("it is a success").outputs.value()
    }

    #[test]
    fn structured_content_comes_first_and_texts_are_joined() {
        assert_eq!(outputs(CallToolResult::structured(json!({"n": 1}))), json!({"n": 1}));
        assert_eq!(outputs(CallToolResult::structured(json!([1]))), json!({"result": [1]}));
        let texts = vec![ContentBlock::text("a"), ContentBlock::text("b")];
        assert_eq!(outputs(CallToolResult::success(texts)), json!({"text": "a\nb"}));
        let mixed =
            outputs(CallToolResult::success(vec![ContentBlock::text("a"), ContentBlock::image("AAAA", "image/png")]));
        assert_eq!((&mixed["text"], &mixed["content"][0]["type"]), (&json!("a"), &json!("image")));
    }

    #[test]
    fn a_task_is_accepted_by_structured_content_or_by_a_text() {
        let accepts = |result| {
            let result = read_acceptance(parse_result(result).expect("it is a success"));
            callback::is_accepted(&result.outputs)
        };
        assert!(accepts(CallToolResult::structured(json!({"accepted": true}))));
        assert!(accepts(CallToolResult::success(vec![ContentBlock::text("{\n  \"accepted\": true\n}")])));
        for other in ["accepted", "{\"accepted\": false}", "{\"accepted\": true, \"id\": 3}"] {
            assert!(!accepts(CallToolResult::success(vec![ContentBlock::text(other)])), "{other}");
        }
        let image = ContentBlock::image("AAAA", "image/png");
        assert!(!accepts(CallToolResult::success(vec![ContentBlock::text("{\"accepted\": true}"), image])));
    }

    #[test]
    fn an_error_of_a_tool_is_a_failure_with_its_text() {
        let failure =
            parse_result(CallToolResult::error(vec![ContentBlock::text("no\nsuch file")])).expect_err("it failed");
        assert_eq!((failure.code.as_str(), failure.message.as_str()), ("MCP_TOOL_ERROR", "no such file"));
        let silent = parse_result(CallToolResult::error(Vec::new())).expect_err("it failed");
        assert!(!silent.message.is_empty());
    }
}

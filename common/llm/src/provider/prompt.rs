//! Adds a schema or tools to the prompt, for servers that do not support them.

use serde_json::Value;

use crate::message::Message;
use crate::request::{CompletionRequest, ResponseFormat, Tool, ToolChoice};
use crate::response_mode::ResponseMode;

/// The messages of a request with the instructions of the mode, after the last system message or at the beginning.
pub fn messages(request: &CompletionRequest, mode: ResponseMode) -> Vec<Message> {
    let mut messages = request.messages.clone();
    let Some(addition) = instructions(&request.format, mode) else { return messages };
    let system = messages.iter_mut().rev().find_map(|message| match message {
        Message::System { text } => Some(text),
        Message::User { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
    });
    match system {
        Some(text) if text.is_empty() => *text = addition,
        Some(text) => *text = format!("{text}\n\n{addition}"),
        None => messages.insert(0, Message::System { text: addition }),
    }
    messages
}

fn instructions(format: &ResponseFormat, mode: ResponseMode) -> Option<String> {
    match (format, mode) {
        (ResponseFormat::Json { schema, .. }, ResponseMode::JsonObject | ResponseMode::Text) => Some(format!(
            "Answer with one JSON object and nothing else: no prose, no code fence. It must hold to this JSON Schema:\n{}",
            schema.prompt()
        )),
        (ResponseFormat::Tools { tools, choice }, ResponseMode::Text) => Some(describe_tools(tools, choice)),
        (ResponseFormat::Text | ResponseFormat::Tools { .. }, _)
        | (ResponseFormat::Json { .. }, ResponseMode::JsonSchema | ResponseMode::ForcedTool | ResponseMode::Tools) => {
            None
        }
    }
}

/// The format that most open models were trained on.
fn describe_tools(tools: &[Tool], choice: &ToolChoice) -> String {
    let list: Vec<String> = tools
        .iter()
        .map(|tool| {
            let fields = [
                ("name", Value::from(tool.name.as_str())),
                ("description", tool.description.as_str().into()),
                ("parameters", tool.parameters.clone()),
            ];
            Value::Object(fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()).to_string()
        })
        .collect();
    let must = match choice {
        ToolChoice::Auto => String::new(),
        ToolChoice::Named(name) => format!(" You must call `{name}`."),
    };
    format!(
        "You can call tools. To call one, write\n\
         <tool_call>{{\"name\": \"…\", \"arguments\": {{…}}}}</tool_call>\n\
         with JSON between the tags; several calls are several such tags.{must} The tools:\n{}",
        list.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_schema_follows_the_system_message_or_comes_first() {
        let format = ResponseFormat::Json { name: "plan".into(), schema: json!({"type": "object"}).into() };
        let request = CompletionRequest::new(vec![Message::system("be brief"), Message::user("hi")], format.clone());
        let written = messages(&request, ResponseMode::Text);
        assert!(written[0].text().starts_with("be brief\n\nAnswer with one JSON object"));
        assert!(written[0].text().ends_with("{\"type\":\"object\"}"));
        let written =
            messages(&CompletionRequest::new(vec![Message::user("hi")], format.clone()), ResponseMode::JsonObject);
        assert_eq!((written.len(), written[1].text()), (2, "hi"));
        assert_eq!(messages(&request, ResponseMode::JsonSchema), request.messages);
    }

    #[test]
    fn tools_are_described_in_the_prompt_when_the_server_has_none() {
        let tool = Tool { name: "add_step".into(), description: "Adds.".into(), parameters: json!({}) };
        let format = ResponseFormat::Tools { tools: vec![tool], choice: ToolChoice::Named("add_step".into()) };
        let written = messages(&CompletionRequest::new(vec![Message::user("hi")], format), ResponseMode::Text);
        assert!(written[0].text().contains("You must call `add_step`."));
        assert!(written[0].text().ends_with("{\"name\":\"add_step\",\"description\":\"Adds.\",\"parameters\":{}}"));
    }
}

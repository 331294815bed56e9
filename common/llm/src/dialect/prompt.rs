//! What a lower rung adds to the prompt: the schema or the tools that the server does not take.

use serde_json::Value;

use crate::ask::{Ask, Tool, ToolChoice, Want};
use crate::ladder::Rung;
use crate::message::Message;

/// The messages of the question, with what the rung adds: behind the last system message, or before everything.
pub fn messages(ask: &Ask, rung: Rung) -> Vec<Message> {
    let mut messages = ask.messages.clone();
    let Some(addition) = addition(&ask.want, rung) else { return messages };
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

fn addition(want: &Want, rung: Rung) -> Option<String> {
    match (want, rung) {
        (Want::Json { schema, .. }, Rung::JsonObject | Rung::Text) => Some(format!(
            "Answer with one JSON object and nothing else: no prose, no code fence. It must hold to this JSON Schema:\n\
             {schema}"
        )),
        (Want::Tools { tools, choice }, Rung::Text) => Some(in_prose(tools, choice)),
        (Want::Text | Want::Tools { .. }, _)
        | (Want::Json { .. }, Rung::JsonSchema | Rung::ForcedTool | Rung::Tools) => None,
    }
}

/// The form that open models were trained on most.
fn in_prose(tools: &[Tool], choice: &ToolChoice) -> String {
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
    fn the_schema_stands_behind_the_system_message_or_before_everything() {
        let want = Want::Json { name: "plan".into(), schema: json!({"type": "object"}) };
        let ask = Ask::new(vec![Message::system("be brief"), Message::user("hi")], want.clone());
        let written = messages(&ask, Rung::Text);
        assert!(written[0].text().starts_with("be brief\n\nAnswer with one JSON object"));
        assert!(written[0].text().ends_with("{\"type\":\"object\"}"));
        let written = messages(&Ask::new(vec![Message::user("hi")], want.clone()), Rung::JsonObject);
        assert_eq!((written.len(), written[1].text()), (2, "hi"));
        assert_eq!(messages(&ask, Rung::JsonSchema), ask.messages);
    }

    #[test]
    fn tools_are_told_of_when_the_server_takes_none() {
        let tool = Tool { name: "add_step".into(), description: "Adds.".into(), parameters: json!({}) };
        let want = Want::Tools { tools: vec![tool], choice: ToolChoice::Named("add_step".into()) };
        let written = messages(&Ask::new(vec![Message::user("hi")], want), Rung::Text);
        assert!(written[0].text().contains("You must call `add_step`."));
        assert!(written[0].text().ends_with("{\"name\":\"add_step\",\"description\":\"Adds.\",\"parameters\":{}}"));
    }
}

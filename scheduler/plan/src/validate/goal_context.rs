//! Validates the context of a goal: transcript, memory, documents and inputs.

use goalmill_common::goal_context::{ContextDocument, DOCUMENTS_MAX, GoalContext, TURNS_MAX, TranscriptTurn};
use serde_json::Value;

use crate::document::{DocumentPath, Fields, Table, ValidationContext, text, wrong_type};

const CONTEXT: &Table = &[
    ("transcript", &["messages", "history", "conversation"]),
    ("memory", &["memory_snapshot"]),
    ("documents", &["docs"]),
    ("inputs", &["input"]),
];

const TURN: &Table = &[
    ("role", &["speaker", "from"]),
    ("text", &["content", "message"]),
    ("name", &["tool", "id"]),
    ("time", &["timestamp", "created_at"]),
];

const DOCUMENT: &Table = &[("source", &["title", "name", "path", "url", "id"]), ("text", &["content", "body"])];

/// Reads `context: {…}`.
pub(super) fn context(fields: &Fields<'_, '_>) -> GoalContext {
    let Some(field) = fields.get("context") else { return GoalContext::default() };
    let (context, at) = (fields.context, fields.at.key(field.key));
    let Value::Object(map) = field.value else {
        wrong_type(context, &at, field.value, "an object with `transcript`, `memory`, `documents`, `inputs`");
        return GoalContext::default();
    };
    let inner = Fields::from_map(context, &at, map, CONTEXT);
    let read = GoalContext {
        transcript: list(&inner, "transcript", TURNS_MAX, turn),
        memory: inner.get("memory").map(|field| field.value.clone()).unwrap_or_default(),
        documents: list(&inner, "documents", DOCUMENTS_MAX, document),
        inputs: inputs(&inner),
    };
    let (bytes, most) = (field.value.to_string().len(), context.limits.inline_bytes_max);
    if bytes > most {
        let detail = format!("the context has {bytes} bytes, at most {most} are allowed");
        context.error("TEXT_TOO_LONG", &at, detail, "leave out old turns and long documents");
    }
    read
}

fn list<T>(
    fields: &Fields<'_, '_>,
    name: &str,
    most: usize,
    read: fn(&ValidationContext<'_>, &DocumentPath<'_>, &Value) -> Option<T>,
) -> Vec<T> {
    let Some(field) = fields.get(name) else { return Vec::new() };
    let at = fields.at.key(field.key);
    if let Value::Array(items) = field.value
        && items.len() > most
    {
        let detail = format!("{} entries, at most {most} are allowed", items.len());
        fields.context.error("OUT_OF_RANGE", &at, detail, "leave some of them out");
        Vec::new()
    } else if let Value::Array(items) = field.value {
        items.iter().enumerate().filter_map(|(n, item)| read(fields.context, &at.item(n), item)).collect()
    } else {
        read(fields.context, &at, field.value).into_iter().collect()
    }
}

fn turn(context: &ValidationContext<'_>, at: &DocumentPath<'_>, value: &Value) -> Option<TranscriptTurn> {
    let Value::Object(map) = value else {
        return text(context, at, value).map(|text| TranscriptTurn { role: "user".into(), text });
    };
    let fields = Fields::from_map(context, at, map, TURN);
    let role = fields.text("role").unwrap_or_else(|| "user".into());
    missing(&fields, "a turn needs a `text`");
    // The content of tool turns is often an object.
    let value = fields.get("text")?.value;
    let text = if value.is_object() || value.is_array() { value.to_string() } else { fields.text("text")? };
    Some(TranscriptTurn { role, text })
}

fn document(context: &ValidationContext<'_>, at: &DocumentPath<'_>, value: &Value) -> Option<ContextDocument> {
    let Value::Object(map) = value else {
        return text(context, at, value).map(|text| ContextDocument { source: String::new(), text });
    };
    let fields = Fields::from_map(context, at, map, DOCUMENT);
    missing(&fields, "a document needs a `text`");
    Some(ContextDocument { source: fields.text("source").unwrap_or_default(), text: fields.text("text")? })
}

fn missing(fields: &Fields<'_, '_>, detail: &str) {
    if fields.get("text").is_none() {
        fields.context.error("MISSING_FIELD", &fields.at.key("text"), detail, "give the text itself");
    }
}

fn inputs(fields: &Fields<'_, '_>) -> serde_json::Map<String, Value> {
    let Some(field) = fields.get("inputs") else { return serde_json::Map::new() };
    if let Value::Object(map) = field.value {
        map.clone()
    } else {
        wrong_type(fields.context, &fields.at.key(field.key), field.value, "an object");
        serde_json::Map::new()
    }
}

#[cfg(test)]
mod tests {
    use goalmill_common::limits::Limits;
    use goalmill_common::problem::Issue;
    use serde_json::json;

    use super::*;
    use crate::validate::goal;

    fn of(context: &Value) -> Result<GoalContext, Vec<Issue>> {
        goal(&json!({"description": "x", "context": context}), &Limits::default()).map(|goal| goal.context)
    }

    #[test]
    fn turns_and_documents_are_read_in_their_usual_forms() {
        let read = of(&json!({
            "transcript": [{"role": "user", "content": "hello"}, {"role": "tool", "content": {"n": 1}}, "and"],
            "memorySnapshot": {"likes": ["tea"]},
            "documents": [{"title": "notes", "text": "quiet hotels"}, "plain"],
            "inputs": {"city": "Rome"},
        }))
        .expect("it is valid");
        let turns: Vec<_> = read.transcript.iter().map(|turn| (turn.role.as_str(), turn.text.as_str())).collect();
        assert_eq!(turns, [("user", "hello"), ("tool", "{\"n\":1}"), ("user", "and")]);
        assert_eq!((read.documents[0].source.as_str(), read.documents[1].text.as_str()), ("notes", "plain"));
        assert_eq!((&read.memory["likes"][0], &read.inputs["city"]), (&json!("tea"), &json!("Rome")));
    }

    #[test]
    fn what_is_wrong_or_too_large_is_located() {
        let long = "x".repeat(16_000);
        for (context, pointer, code) in [
            (json!("words"), "", "WRONG_TYPE"),
            (json!({"transcript": [{"role": "user"}]}), "/transcript/0/text", "MISSING_FIELD"),
            (json!({"documents": vec!["x"; DOCUMENTS_MAX + 1]}), "/documents", "OUT_OF_RANGE"),
            (json!({"transcript": vec!["x"; TURNS_MAX + 1]}), "/transcript", "OUT_OF_RANGE"),
            (json!({"documents": vec![long; 20]}), "", "TEXT_TOO_LONG"),
            (json!({"inputs": [1]}), "/inputs", "WRONG_TYPE"),
            (json!({"passages": []}), "/passages", "UNKNOWN_FIELD"),
        ] {
            let issues = of(&context).expect_err("it is wrong");
            let found = (issues[0].pointer.as_str(), issues[0].code.as_str());
            assert_eq!(found, (format!("/context{pointer}").as_str(), code));
        }
    }
}

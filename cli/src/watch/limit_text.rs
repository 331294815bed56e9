//! Limits of a goal as text for people.

use serde_json::{Map, Value};

use super::note::short;

/// Limits for people, by name: `budget 2000 USD · exclusions fireworks, smoke`.
pub fn limits<'a>(all: impl Iterator<Item = (&'a String, &'a Value)>) -> String {
    let texts = all.map(|(name, value)| format!("{} {}", name.replace('_', " "), limit(value)).trim_end().to_owned());
    texts.collect::<Vec<_>>().join(" · ")
}

/// A limit for people: `2000 USD`, `3 days`, `May 2027`, `fireworks, smoke`.
pub(super) fn limit(value: &Value) -> String {
    match value {
        Value::String(text) => short(text),
        Value::Object(fields) if fields.contains_key("amount") => money(fields),
        Value::Object(fields) => {
            let part = |(name, value): (&String, &Value)| match (name.as_str(), value) {
                ("number", _) if fields.contains_key("name") => None,
                ("year" | "number", Value::Number(number)) => Some(number.to_string()),
                (_, Value::Number(number)) => Some(format!("{number} {}", name.replace('_', " "))),
                (_, value) => Some(limit(value)),
            };
            fields.iter().filter_map(part).collect::<Vec<_>>().join(" ")
        }
        Value::Array(items) => items.iter().map(limit).collect::<Vec<_>>().join(", "),
        // The name of the limit says it.
        Value::Bool(true) => String::new(),
        Value::Null | Value::Bool(false) | Value::Number(_) => value.to_string(),
    }
}

/// An amount of money: `2000 USD`, `8000 to 10000 USD`, `12 USD per user`.
fn money(fields: &Map<String, Value>) -> String {
    let text = |name: &str| fields.get(name).map(limit).filter(|text| !text.is_empty());
    let parts = [
        text("amount_min").map(|least| format!("{least} to")),
        text("amount"),
        text("currency"),
        text("per").map(|per| format!("per {per}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn limits_read_like_text() {
        for (value, text) in [
            (json!({"amount": 2000, "currency": "USD"}), "2000 USD"),
            (json!({"amount": 10000, "amount_min": 8000, "currency": "USD"}), "8000 to 10000 USD"),
            (json!({"amount": 12, "currency": "USD", "per": "user"}), "12 USD per user"),
            (json!({"days": 3, "nights": 2}), "3 days 2 nights"),
            (json!({"number": 5, "name": "May", "year": 2027}), "May 2027"),
            (json!({"pages": 12}), "12 pages"),
            (json!(["fireworks", "smoke"]), "fireworks, smoke"),
            (json!("Paris"), "Paris"),
            (json!(4), "4"),
            (json!(true), ""),
        ] {
            assert_eq!(limit(&value), text, "{value}");
        }
    }
}

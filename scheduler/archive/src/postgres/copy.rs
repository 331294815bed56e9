//! Rows as text for `COPY`, and JSON that JSONB accepts.

use goalmill_common::clock::rfc3339;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::EventRow;
use crate::words::event_words;

/// The columns of [`event_line`], in the same order.
pub(super) const EVENT_COLUMNS: &str =
    "plan_id, entry, seq, \"timestamp\", event_type, phase_id, step_id, data, line, words";

/// Appends the row of an event.
pub(super) fn event_line(out: &mut String, plan: &str, event: &EventRow) {
    let EventRow { seq, entry, time_ms, event_type, step, phase, line } = event;
    field(out, plan);
    out.push_str(&format!("\t{entry}\t{seq}\t{}\t{event_type}\t", rfc3339(*time_ms)));
    optional(out, phase.as_deref());
    out.push('\t');
    optional(out, step.as_ref().map(|step| step.as_str()));
    out.push('\t');
    optional(out, data(line).as_deref());
    out.push('\t');
    field(out, line);
    out.push_str("\t{");
    for (n, word) in event_words(line).iter().enumerate() {
        // Words have letters and digits only. Because of the quotes, `null` is a word.
        out.push_str(if n > 0 { ",\"" } else { "\"" });
        out.push_str(word);
        out.push('"');
    }
    out.push_str("}\n");
}

/// The `data` of an event as JSON that JSONB accepts.
fn data(line: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Line<'a> {
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    let line: Line = serde_json::from_str(line).ok()?;
    line.data.map(|data| jsonb(data.get()))
}

/// JSON that JSONB accepts: without NUL, and only with numbers that a float can hold. A text that cannot be parsed
/// becomes a string.
pub(super) fn jsonb(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(mut value) => {
            if text.contains("\\u0000") {
                clean(&mut value);
            }
            value.to_string()
        }
        Err(_) => Value::String(clean_text(text)).to_string(),
    }
}

fn clean(value: &mut Value) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => *text = clean_text(text),
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Object(fields) => {
            let taken = std::mem::take(fields);
            *fields = taken
                .into_iter()
                .map(|(name, mut value)| {
                    clean(&mut value);
                    (clean_text(&name), value)
                })
                .collect::<Map<String, Value>>();
        }
    }
}

/// A text without NUL, because the database cannot store NUL.
pub(super) fn clean_text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn optional(out: &mut String, text: Option<&str>) {
    match text {
        Some(text) => field(out, text),
        None => out.push_str("\\N"),
    }
}

/// A text in the text format of `COPY`.
fn field(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\0' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_line_whatever_it_holds() {
        let line = r#"{"seq":1,"type":"step_completed","data":{"a":"tab\t \\ \u0000","n":null}}"#;
        let event = EventRow {
            seq: 1,
            entry: 2,
            time_ms: 0,
            event_type: "step_completed",
            step: Some("a".into()),
            phase: Some("first\tphase\\".into()),
            line: line.into(),
        };
        let mut out = String::new();
        event_line(&mut out, "p0-a", &event);
        assert_eq!(out.matches('\n').count(), 1, "{out}");
        let fields: Vec<&str> = out.trim_end().split('\t').collect();
        assert_eq!(
            fields[..7],
            ["p0-a", "2", "1", "1970-01-01T00:00:00.000Z", "step_completed", "first\\tphase\\\\", "a"]
        );
        assert_eq!(fields[7], "{\"a\":\"tab\\\\t \\\\\\\\ \u{fffd}\",\"n\":null}");
        assert_eq!(fields[8], line.replace('\\', "\\\\"));
        assert_eq!(fields[9], r#"{"completed","step","tab"}"#);
    }

    #[test]
    fn what_jsonb_refuses_is_a_string() {
        assert_eq!(jsonb(r#"{"b":1.10,"a":"x"}"#), r#"{"b":1.1,"a":"x"}"#);
        assert_eq!(jsonb(r#""\ud800""#), r#""\"\\ud800\"""#);
        assert_eq!(jsonb("[1e400]"), r#""[1e400]""#);
        assert_eq!(jsonb(r#"{"a\u0000":["\u0000"]}"#), "{\"a\u{fffd}\":[\"\u{fffd}\"]}");
    }
}

//! Tool `search_outputs`: searches the inputs of the step, which hold the outputs of earlier steps.

use std::collections::BTreeSet;

use async_trait::async_trait;
use goalmill_common::task::Task;
use goalmill_common::text::pointer_part;
use serde_json::{Value, json};

use super::{AgentTool, text_of};

/// Maximum number of passages that one search returns.
const PASSAGES_MAX: usize = 10;
/// Bytes of one passage.
const PASSAGE_BYTES: usize = 600;

pub(super) struct SearchOutputs;

/// A part of one value.
#[derive(Debug, PartialEq, Eq)]
struct FoundPassage {
    /// Number of different query words in the passage.
    score: usize,
    /// JSON Pointer of the value.
    place: String,
    text: String,
}

#[async_trait]
impl AgentTool for SearchOutputs {
    fn name(&self) -> &'static str {
        "search_outputs"
    }

    fn description(&self) -> &'static str {
        "Searches the inputs of the task, which hold the outputs of earlier steps, for words. Gives the best passages."
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object", "additionalProperties": false, "required": ["query"],
            "properties": {"query": {"type": "string", "minLength": 1}},
        })
    }

    fn is_read_only(&self) -> bool {
        true
    }

    async fn run(&self, arguments: &Value, task: &Task) -> Result<Value, String> {
        let found = search(&task.inputs.value(), text_of(arguments, "query"));
        Ok(found.into_iter().map(|passage| json!({"place": passage.place, "text": passage.text})).collect())
    }
}

/// The passages with the most query words; equal passages are in the order of the value.
fn search(value: &Value, query: &str) -> Vec<FoundPassage> {
    let words = words(query);
    let mut passages = Vec::new();
    collect(value, &mut String::new(), &mut |place, text| {
        let known = self::words(text);
        let score = words.iter().filter(|word| known.contains(*word)).count();
        if score > 0 {
            passages.push(FoundPassage { score, place: place.into(), text: text.into() });
        }
    });
    passages.sort_by_key(|passage| std::cmp::Reverse(passage.score));
    passages.truncate(PASSAGES_MAX);
    passages
}

fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Calls `found` for each passage of each scalar. The nesting of inputs is limited (`limits.nesting_max`).
fn collect(value: &Value, place: &mut String, found: &mut dyn FnMut(&str, &str)) {
    let length = place.len();
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                place.push_str(&format!("/{}", pointer_part(name)));
                collect(inner, place, found);
                place.truncate(length);
            }
        }
        Value::Array(items) => {
            for (at, inner) in items.iter().enumerate() {
                place.push_str(&format!("/{at}"));
                collect(inner, place, found);
                place.truncate(length);
            }
        }
        Value::String(text) => passages_of(text).for_each(|passage| found(place, passage)),
        Value::Number(number) => found(place, &number.to_string()),
        Value::Null | Value::Bool(_) => {}
    }
}

/// Cuts a text into passages, if possible after a line or a space.
fn passages_of(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let most = rest.floor_char_boundary(PASSAGE_BYTES);
        let head = &rest[..most];
        let end = if most == rest.len() {
            most
        } else {
            head.rfind('\n').or_else(|| head.rfind(' ')).map_or(most, |at| at + 1)
        };
        let (passage, after) = rest.split_at(end);
        rest = after;
        Some(passage)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_passages_with_most_words_come_first() {
        let inputs = json!({"a": {"text": "The price of tin rose."}, "b": ["Copper fell.", "The price of copper rose."], "n": 7});
        let found = search(&inputs, "copper PRICE");
        let places: Vec<&str> = found.iter().map(|passage| passage.place.as_str()).collect();
        assert_eq!(places, ["/b/1", "/a/text", "/b/0"]);
        assert_eq!(search(&inputs, "7")[0].place, "/n");
        assert_eq!(search(&inputs, "zinc"), Vec::new());
    }

    #[test]
    fn long_texts_are_cut_into_passages_without_a_loss() {
        let text = format!("{}\n{}{}", "ä ".repeat(400), "x".repeat(1_500), "needle");
        let passages: Vec<&str> = passages_of(&text).collect();
        assert_eq!(passages.concat(), text);
        assert!(passages.iter().all(|passage| passage.len() <= PASSAGE_BYTES && !passage.is_empty()));
    }
}

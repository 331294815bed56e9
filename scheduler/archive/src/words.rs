//! The words of an event, for searches: sequences of letters and digits, in lower case. The program itself splits texts
//! into words, so a search finds the same events in every store and in the log of a running plan.

use std::collections::BTreeSet;

use serde_json::Value;

/// Maximum number of indexed words of one event; further words are left out.
pub const WORDS_MAX: usize = 2_000;
/// Stands among the words of an event that has more of them. No search for text has it, because it is no letter.
pub(crate) const MORE_WORDS: &str = "…";
/// Length of the longest indexed word in bytes; longer words, such as encoded files, are left out.
const WORD_BYTES_MAX: usize = 64;
/// Fields of a line that are not searched.
const SKIPPED: [&str; 3] = ["seq", "time", "attempt"];

/// The words of a search.
pub fn query_words(text: &str) -> Vec<String> {
    let mut words = BTreeSet::new();
    collect(text, &mut words);
    words.into_iter().collect()
}

/// The words of an event: the words of its type, ids and actor, and of every text and number in its data; not the names
/// of fields.
///
/// - `line`: the event as a line of an exported log.
pub fn event_words(line: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    match serde_json::from_str(line) {
        Ok(Value::Object(fields)) => {
            let searched = fields.iter().filter(|(name, _)| !SKIPPED.contains(&name.as_str()));
            searched.for_each(|(_, value)| walk(value, &mut words));
        }
        // Nested deeper than the parser allows.
        Ok(_) | Err(_) => collect(line, &mut words),
    }
    if words.len() >= WORDS_MAX {
        words.insert(MORE_WORDS.to_owned());
    }
    words
}

fn walk(value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => collect(&number.to_string(), words),
        Value::String(text) => collect(text, words),
        Value::Array(items) => items.iter().for_each(|item| walk(item, words)),
        Value::Object(fields) => fields.values().for_each(|field| walk(field, words)),
    }
}

fn collect(text: &str, words: &mut BTreeSet<String>) {
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        if words.len() >= WORDS_MAX {
            return;
        }
        let lower = word.to_lowercase();
        // Conversion to lower case may add marks that are not letters.
        for part in lower.split(|c: char| !c.is_alphanumeric()) {
            if !part.is_empty() && part.len() <= WORD_BYTES_MAX {
                words.insert(part.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_and_names_of_fields_are_not() {
        let line = r#"{"seq":7,"type":"step_completed","time":"2026-11-22T05:00:00Z","step_id":"find-hotels",
            "data":{"outputs":{"city":"Zürich (CH)","price":129.5,"notes":["Quiet\nroom"]}}}"#;
        let words = event_words(line);
        for word in ["step", "completed", "find", "hotels", "zürich", "ch", "129", "5", "quiet", "room"] {
            assert!(words.contains(word), "{word}: {words:?}");
        }
        for word in ["city", "outputs", "7", "2026", "data"] {
            assert!(!words.contains(word), "{word}: {words:?}");
        }
    }

    #[test]
    fn long_and_many_words_are_left_out() {
        let long = "x".repeat(WORD_BYTES_MAX + 1);
        let many: Vec<String> = (0..WORDS_MAX + 10).map(|n| format!("w{n}")).collect();
        let line = serde_json::json!({"data": [long, many.join(" ")]}).to_string();
        let words = event_words(&line);
        assert_eq!(words.len(), WORDS_MAX + 1);
        assert!(words.contains(MORE_WORDS), "it says that there are more");
        assert!(!words.contains(&long));
        assert_eq!(query_words("Hotel, HOTEL  Paris-2"), ["2", "hotel", "paris"]);
    }

    #[test]
    fn a_line_too_deep_for_the_parser_has_words_all_the_same() {
        let line = format!("{{\"data\":{}\"needle\"{}}}", "[".repeat(200), "]".repeat(200));
        assert!(event_words(&line).contains("needle"));
    }
}

//! Compares a value with a part of it that is wanted.

use serde_json::Value;

/// Characters of a value in a difference.
const SHOWN_CHARS_MAX: usize = 200;
/// The first place where a value does not contain the wanted one: objects may have further fields, everything else is
/// equal.
pub(crate) fn first_mismatch(place: &str, wanted: &Value, actual: &Value) -> Option<String> {
    match (wanted, actual) {
        (Value::Object(wanted), Value::Object(actual)) => wanted.iter().find_map(|(name, wanted)| {
            let place = format!("{place}/{name}");
            match actual.get(name) {
                Some(actual) => first_mismatch(&place, wanted, actual),
                None => Some(format!("`{place}` is missing, expected {}", shown(wanted))),
            }
        }),
        (Value::Array(wanted), Value::Array(actual)) if wanted.len() == actual.len() => {
            let mut pairs = wanted.iter().zip(actual).enumerate();
            pairs.find_map(|(at, (wanted, actual))| first_mismatch(&format!("{place}/{at}"), wanted, actual))
        }
        (Value::Number(wanted), Value::Number(actual)) if wanted.as_f64() == actual.as_f64() => None,
        (wanted, actual) if wanted == actual => None,
        (wanted, actual) => Some(format!("`{place}` is {}, expected {}", shown(actual), shown(wanted))),
    }
}

/// A value in one line, cut when it is long.
pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= SHOWN_CHARS_MAX {
        return text;
    }
    format!("{}…", text.chars().take(SHOWN_CHARS_MAX).collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_part_is_found_in_a_whole_and_a_difference_has_its_place() {
        let whole = json!({"a": {"b": [1, {"c": 2, "d": 3}]}, "e": 1});
        assert_eq!(first_mismatch("o", &json!({"a": {"b": [1.0, {"c": 2}]}}), &whole), None);
        let found = |wanted| first_mismatch("o", &wanted, &whole).expect("they differ");
        assert_eq!(found(json!({"a": {"b": [1, {"c": 3}]}})), "`o/a/b/1/c` is 2, expected 3");
        assert_eq!(found(json!({"x": 1})), "`o/x` is missing, expected 1");
        assert!(found(json!({"a": {"b": [1]}})).starts_with("`o/a/b` is ["));
    }
}

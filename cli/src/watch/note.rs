//! Short texts for people: summaries of step outputs, reasons, failures.

use goalmill_common::failure::Failure;
use goalmill_common::json::Json;
use serde_json::Value;

/// Longest note, in characters.
const CHARS_MAX: usize = 72;
/// Longest reason, in characters.
const REASON_CHARS_MAX: usize = 240;
/// Fields that sum up outputs in words, the best first.
const WORDS: &[&str] = &["summary", "headline", "message", "answer", "text", "result"];
/// Fields that sum up outputs in money, the best first.
const MONEY: &[&str] = &["total", "total_cost", "total_price", "price", "amount", "cost"];

/// Amount and summary found in `outputs`; empty when there are none.
///
/// Looks at top-level fields only: money needs a `currency` beside it, or an object with `amount` and `currency`.
pub fn note(outputs: &Json) -> (String, String) {
    let Value::Object(fields) = outputs.value() else {
        return (String::new(), String::new());
    };
    let words = WORDS.iter().find_map(|name| fields.get(*name)?.as_str()).map(short).unwrap_or_default();
    let currency = fields.get("currency").and_then(Value::as_str);
    let money = MONEY.iter().find_map(|name| {
        let value = fields.get(*name)?;
        if value.is_number() {
            return Some((value.as_f64()?, currency?));
        }
        let inner = value.as_object()?;
        Some((inner.get("amount")?.as_f64()?, inner.get("currency")?.as_str()?))
    });
    (money.map(|(amount, currency)| format!("{amount:.2} {currency}")).unwrap_or_default(), words)
}

/// The message of a failure with its code.
pub fn why(failure: &Failure) -> String {
    format!("{} [{}]", reason(&failure.message), failure.code)
}

/// A reason after what happened; empty without one.
pub fn because(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {}", reason(text)) }
}

/// The first line of a reason, cut.
pub fn reason(text: &str) -> String {
    cut(text, REASON_CHARS_MAX)
}

/// The first line, cut to a length that fits beside a step; control characters are dropped.
pub fn short(text: &str) -> String {
    cut(text, CHARS_MAX)
}

/// The first line, cut to `chars_max` characters; control characters are dropped.
pub fn cut(text: &str, chars_max: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let mut out: String = line.chars().filter(|c| !c.is_control()).take(chars_max).collect();
    if line.chars().count() > chars_max {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (String, String) {
        note(&Json::from_text(text.into()).expect("it is JSON"))
    }

    #[test]
    fn money_needs_a_currency() {
        assert_eq!(of(r#"{"price": 612, "currency": "USD", "summary": "NYC → CDG"}"#).0, "612.00 USD");
        assert_eq!(of(r#"{"total": {"amount": 1517.4, "currency": "EUR"}}"#).0, "1517.40 EUR");
        assert_eq!(of(r#"{"price": 612}"#), (String::new(), String::new()));
        assert_eq!(of("[1]"), (String::new(), String::new()));
    }

    #[test]
    fn words_are_one_short_line_without_control_codes() {
        assert_eq!(of(r#"{"message": "ok\u001b[31m\nsecond"}"#).1, "ok[31m");
        assert_eq!(short(&"x".repeat(100)).chars().count(), CHARS_MAX + 1);
    }
}

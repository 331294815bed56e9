//! Durations as people write them.

use serde_json::Value;

/// What a bare number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
}

/// Reads `1500`, `1.5`, `500ms`, `30s`, `5m`, `1h30m`, `2 hours`, `1d` as milliseconds; `None` when it is no duration.
pub(crate) fn milliseconds(value: &Value, unit: Unit) -> Option<f64> {
    match value {
        Value::Number(number) => {
            let number = number.as_f64()?;
            Some(match unit {
                Unit::Seconds => number * 1_000.0,
                Unit::Milliseconds => number,
            })
        }
        Value::String(text) => spelled(text),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Reads a duration as plans have them, a number as seconds, in whole milliseconds; `None` when it is none, or negative.
pub fn duration_ms(value: &Value) -> Option<u64> {
    let ms = milliseconds(value, Unit::Seconds)?;
    (ms.is_finite() && ms >= 0.0).then(|| goalmill_common::number::whole_u64(ms.round()))
}

fn spelled(text: &str) -> Option<f64> {
    let mut rest = text.trim();
    let mut total = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let tail = tail.trim_start();
        let word = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (name, tail) = tail.split_at(word);
        total += number.parse::<f64>().ok()? * factor(name)?;
        rest = tail.trim_start();
    }
    Some(total)
}

fn factor(name: &str) -> Option<f64> {
    Some(match name.to_ascii_lowercase().as_str() {
        "ms" | "milliseconds" | "millisecond" | "millis" => 1.0,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000.0,
        "d" | "day" | "days" => 86_400_000.0,
        "w" | "week" | "weeks" => 604_800_000.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_are_read_with_their_units() {
        for (value, expected) in [
            (json!("500ms"), 500.0),
            (json!("30s"), 30_000.0),
            (json!("1.5 s"), 1_500.0),
            (json!("5m"), 300_000.0),
            (json!("1h 30m"), 5_400_000.0),
            (json!("2 days"), 172_800_000.0),
            (json!(2.5), 2_500.0),
        ] {
            assert_eq!(milliseconds(&value, Unit::Seconds), Some(expected), "{value}");
        }
        for value in [json!("3"), json!("s"), json!("3 parsecs"), json!("-3s"), json!(""), json!(true), json!("1..2s")]
        {
            assert_eq!(milliseconds(&value, Unit::Seconds), None, "{value}");
        }
    }
}

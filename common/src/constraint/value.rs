//! Values of constraints, from JSON or from a short text: `2,000 USD`, `at most 3 days`, `2027-05-01`.
//!
//! A text is understood as a whole or not at all: `venue rated at least 4 stars` stays a text.

use serde_json::{Map, Value};

use super::{Bound, ConstraintValue};
use crate::budget::COST_MAX;
use crate::time_zone::local_time_ms;

const DAY_S: f64 = 86_400.0;
/// Longer texts are for planners.
const TEXT_MAX: usize = 120;

/// Reads the value of a constraint and the side on which it limits.
pub fn parse_value(name: &str, value: &Value) -> (ConstraintValue, Bound) {
    let by_name = if name.starts_with("min_") || name.starts_with("minimum_") { Bound::AtLeast } else { Bound::AtMost };
    match value {
        Value::Object(fields) => parse_object(name, fields, by_name),
        Value::Number(_) => (with_unit_of(name, value.as_f64()), by_name),
        Value::String(text) => parse_text(name, text, by_name),
        Value::Array(items) => (one_of(items), Bound::AtMost),
        Value::Bool(_) | Value::Null => (ConstraintValue::Text(value.to_string()), by_name),
    }
}

fn parse_object(name: &str, fields: &Map<String, Value>, bound: Bound) -> (ConstraintValue, Bound) {
    let has = |key: &str| fields.get(key).filter(|value| !value.is_null());
    let currency = has("currency").and_then(Value::as_str).and_then(currency);
    let tz = has("tz").and_then(Value::as_str);
    let ends = |from: &str, to: &str| Some((day(has(from)?.as_str()?, false, tz)?, day(has(to)?.as_str()?, true, tz)?));
    if let Some((from_ms, to_ms)) = ends("from", "to").or_else(|| ends("start", "end")).filter(|(a, b)| a <= b) {
        return (ConstraintValue::Interval { from_ms, to_ms }, bound);
    }
    if let Some(items) = has("one_of").and_then(Value::as_array) {
        return (one_of(items), bound);
    }
    let (value, bound) = match (has("max"), has("min"), has("amount").or(has("value")).or(has("limit"))) {
        (Some(max), _, _) => (max, Bound::AtMost),
        (None, Some(min), _) => (min, Bound::AtLeast),
        (None, None, Some(value)) => (value, bound),
        (None, None, None) => return (ConstraintValue::Text(Value::Object(fields.clone()).to_string()), bound),
    };
    let unit = has("unit").and_then(Value::as_str);
    match (value, currency, unit) {
        (Value::String(text), ..) if tz.is_some() => {
            let (rest, side) = strip_bound(text.trim(), bound);
            let read = day(rest, true, tz).map(ConstraintValue::Date).or_else(|| interval(rest, tz));
            (read.unwrap_or_else(|| ConstraintValue::Text(text.to_owned())), side)
        }
        (Value::Number(_) | Value::String(_), Some(currency), _) => {
            let amount = value.as_f64().or_else(|| number(value.as_str()?));
            let money = |amount| ConstraintValue::Money { amount, currency: currency.to_owned() };
            (amount.map_or_else(|| ConstraintValue::Text(value.to_string()), money), bound)
        }
        (Value::Number(count), None, Some(unit)) => parse_text(name, &format!("{count} {unit}"), bound),
        (value, ..) if !value.is_object() => {
            let (value, side) = parse_value(name, value);
            (value, if bound == Bound::AtLeast { bound } else { side })
        }
        (value, ..) => (ConstraintValue::Text(value.to_string()), bound),
    }
}

fn one_of(items: &[Value]) -> ConstraintValue {
    let words: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
    match words.filter(|words| !words.is_empty() && words.len() <= 64) {
        Some(words) => ConstraintValue::OneOf(words),
        None => ConstraintValue::Text(Value::from(items.to_vec()).to_string()),
    }
}

fn parse_text(name: &str, text: &str, bound: Bound) -> (ConstraintValue, Bound) {
    let kept = || ConstraintValue::Text(text.to_owned());
    if text.len() > TEXT_MAX {
        return (kept(), bound);
    }
    let (rest, bound) = strip_bound(text.trim(), bound);
    let value = money(rest)
        .or_else(|| count(name, rest))
        .or_else(|| day(rest, true, None).map(ConstraintValue::Date))
        .or_else(|| duration(rest).map(ConstraintValue::Duration))
        .or_else(|| interval(rest, None));
    match value {
        Some(value) => (value, bound),
        None => (kept(), bound),
    }
}

/// Comparisons before a value.
const SIDES: [(&str, Bound); 22] = [
    ("<=", Bound::AtMost),
    ("≤", Bound::AtMost),
    ("<", Bound::AtMost),
    (">=", Bound::AtLeast),
    ("≥", Bound::AtLeast),
    (">", Bound::AtLeast),
    ("at most ", Bound::AtMost),
    ("no more than ", Bound::AtMost),
    ("not more than ", Bound::AtMost),
    ("less than ", Bound::AtMost),
    ("up to ", Bound::AtMost),
    ("maximum ", Bound::AtMost),
    ("max ", Bound::AtMost),
    ("under ", Bound::AtMost),
    ("below ", Bound::AtMost),
    ("within ", Bound::AtMost),
    ("by ", Bound::AtMost),
    ("before ", Bound::AtMost),
    ("at least ", Bound::AtLeast),
    ("minimum ", Bound::AtLeast),
    ("min ", Bound::AtLeast),
    ("more than ", Bound::AtLeast),
];

fn strip_bound(text: &str, bound: Bound) -> (&str, Bound) {
    let starts = |words: &str| text.get(..words.len()).is_some_and(|head| head.eq_ignore_ascii_case(words));
    match SIDES.iter().find(|(words, _)| starts(words)) {
        Some((words, side)) => (text[words.len()..].trim(), *side),
        None => (text, bound),
    }
}

/// Currencies by what people write for them.
const CURRENCIES: [(&str, &str); 25] = [
    ("$", "USD"),
    ("us$", "USD"),
    ("usd", "USD"),
    ("dollar", "USD"),
    ("dollars", "USD"),
    ("€", "EUR"),
    ("eur", "EUR"),
    ("euro", "EUR"),
    ("euros", "EUR"),
    ("£", "GBP"),
    ("gbp", "GBP"),
    ("pound", "GBP"),
    ("pounds", "GBP"),
    ("¥", "JPY"),
    ("jpy", "JPY"),
    ("yen", "JPY"),
    ("chf", "CHF"),
    ("cad", "CAD"),
    ("aud", "AUD"),
    ("cny", "CNY"),
    ("inr", "INR"),
    ("₹", "INR"),
    ("sek", "SEK"),
    ("nok", "NOK"),
    ("dkk", "DKK"),
];

fn currency(text: &str) -> Option<&'static str> {
    let text = text.trim().to_lowercase();
    CURRENCIES.iter().find(|(word, _)| *word == text).map(|(_, code)| *code)
}

/// `2,000 USD`, `$2000`, `EUR 1.5k`.
fn money(text: &str) -> Option<ConstraintValue> {
    let starts = text.find(|c: char| c.is_ascii_digit())?;
    let ends = text.rfind(|c: char| c.is_ascii_digit())? + 1;
    let (before, mut after) = (text[..starts].trim(), text[ends..].trim());
    let mut times = 1.0;
    for (letter, factor) in [("k", 1e3), ("m", 1e6), ("K", 1e3), ("M", 1e6)] {
        if let Some(rest) = after.strip_prefix(letter).filter(|rest| rest.is_empty() || rest.starts_with(' ')) {
            (after, times) = (rest.trim(), factor);
            break;
        }
    }
    let currency = match (before, after) {
        ("", word) | (word, "") => currency(word)?,
        (first, second) => currency(first).filter(|code| currency(second) == Some(code))?,
    };
    let amount = number(&text[starts..ends])? * times;
    (amount <= COST_MAX).then(|| ConstraintValue::Money { amount, currency: currency.to_owned() })
}

/// A number with commas between thousands. `2.000` could be two or two thousand: it is none.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let is_grouped = |mark: char| {
        let mut groups = text.split(mark);
        let first = groups.next().unwrap_or_default();
        let rest: Vec<&str> = groups.collect();
        let digits = |group: &str| group.bytes().all(|b| b.is_ascii_digit());
        !rest.is_empty()
            && (1..=3).contains(&first.len())
            && digits(first)
            && rest.iter().all(|g| g.len() == 3 && digits(g))
    };
    let plain = if text.contains(',') {
        let whole = text.split('.').next().unwrap_or(text);
        let fits = whole.split(',').skip(1).all(|group| group.len() == 3) && !whole.ends_with(',');
        fits.then(|| text.replace(',', ""))?
    } else if is_grouped('.') && !text.starts_with('0') {
        return None;
    } else {
        text.to_owned()
    };
    let is_number = plain.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    plain.parse::<f64>().ok().filter(|n| is_number && n.is_finite() && *n >= 0.0)
}

/// A bare number, in the unit that the name ends with.
fn count(name: &str, text: &str) -> Option<ConstraintValue> {
    number(text).map(|n| with_unit_of(name, Some(n)))
}

fn with_unit_of(name: &str, number: Option<f64>) -> ConstraintValue {
    let Some(number) = number.filter(|n| n.is_finite() && *n >= 0.0) else {
        return ConstraintValue::Text(String::new());
    };
    let words: Vec<&str> = name.rsplitn(2, '_').collect();
    let stem = words.get(1).copied().unwrap_or_default();
    let is_time = ["time", "timeout", "runtime", "elapsed"].iter().any(|word| stem.ends_with(word))
        || ["max", "time_limit", "limit"].contains(&stem) && words[0] != "days";
    match (words[0], currency(words[0])) {
        ("seconds" | "secs" | "s", _) if is_time => ConstraintValue::Duration(number),
        ("minutes" | "mins", _) if is_time => ConstraintValue::Duration(number * 60.0),
        ("hours", _) if is_time => ConstraintValue::Duration(number * 3_600.0),
        ("days", _) if is_time => ConstraintValue::Duration(number * DAY_S),
        (_, Some(code)) if !stem.is_empty() => ConstraintValue::Money { amount: number, currency: code.to_owned() },
        // A budget is in US dollars, as the budget of a plan is.
        ("budget" | "cost", None) => ConstraintValue::Money { amount: number, currency: "USD".into() },
        _ => ConstraintValue::Count(number),
    }
}

/// Seconds of `2 hours 30 minutes`, `90s`, `PT2H`; years and months have no length of their own.
fn duration(text: &str) -> Option<f64> {
    let span: jiff::Span = text.trim().parse().ok()?;
    if span.get_years() != 0 || span.get_months() != 0 || span.is_negative() {
        return None;
    }
    span.total((jiff::Unit::Second, jiff::SpanRelativeTo::days_are_24_hours())).ok()
}

/// Unix milliseconds of a day or of a moment. A day without a time is its beginning, or with `at_end` its end, in UTC or in
/// the zone `tz`, which also gives a time without an offset its meaning.
fn day(text: &str, at_end: bool, tz: Option<&str>) -> Option<u64> {
    let text = text.trim();
    if tz.is_none()
        && let Some(ms) = crate::clock::parse_rfc3339(text)
    {
        return Some(ms);
    }
    let date = text.parse::<jiff::civil::Date>().ok().filter(|_| text.len() == 10);
    match (date, tz) {
        (Some(date), tz) if at_end => local_time_ms(&format!("{date}T23:59:59.999"), tz.unwrap_or("UTC")).ok(),
        (Some(date), tz) => local_time_ms(&date.to_string(), tz.unwrap_or("UTC")).ok(),
        (None, Some(tz)) => local_time_ms(text, tz).ok(),
        (None, None) => None,
    }
}

/// `2027-05-01/2027-05-04`, `2027-05-01 to 2027-05-04`.
fn interval(text: &str, tz: Option<&str>) -> Option<ConstraintValue> {
    let (from, to) = text.split_once('/').or_else(|| text.split_once(" to ")).or_else(|| text.split_once(" - "))?;
    let (from_ms, to_ms) = (day(from, false, tz)?, day(to, true, tz)?);
    (from_ms <= to_ms).then_some(ConstraintValue::Interval { from_ms, to_ms })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn money_of(amount: f64, currency: &str) -> ConstraintValue {
        ConstraintValue::Money { amount, currency: currency.into() }
    }

    #[test]
    fn every_kind_of_value_is_read() {
        let cases = [
            ("budget", json!("2000 USD"), money_of(2_000.0, "USD"), Bound::AtMost),
            ("budget", json!("under $2,000.50"), money_of(2_000.5, "USD"), Bound::AtMost),
            ("budget", json!("EUR 1.5k"), money_of(1_500.0, "EUR"), Bound::AtMost),
            ("budget", json!({"amount": 20, "currency": "GBP"}), money_of(20.0, "GBP"), Bound::AtMost),
            ("budget", json!({"value": "6500 EUR", "priority": 9}), money_of(6_500.0, "EUR"), Bound::AtMost),
            ("budget", json!(100), money_of(100.0, "USD"), Bound::AtMost),
            ("budget_eur", json!(100), money_of(100.0, "EUR"), Bound::AtMost),
            ("max_time", json!("2 hours 30 minutes"), ConstraintValue::Duration(9_000.0), Bound::AtMost),
            ("max_time", json!("PT90S"), ConstraintValue::Duration(90.0), Bound::AtMost),
            ("stay", json!("at least 3 days"), ConstraintValue::Duration(259_200.0), Bound::AtLeast),
            ("max_time_minutes", json!(2), ConstraintValue::Duration(120.0), Bound::AtMost),
            ("duration_days", json!(3), ConstraintValue::Count(3.0), Bound::AtMost),
            ("min_sources", json!("5"), ConstraintValue::Count(5.0), Bound::AtLeast),
            ("sources", json!({"min": 5}), ConstraintValue::Count(5.0), Bound::AtLeast),
            ("day", json!("2027-01-01"), ConstraintValue::Date(1_798_847_999_999), Bound::AtMost),
            ("at", json!("2027-01-01T00:00:00Z"), ConstraintValue::Date(1_798_761_600_000), Bound::AtMost),
            (
                "dates",
                json!("2027-01-01/2027-01-02"),
                ConstraintValue::Interval { from_ms: 1_798_761_600_000, to_ms: 1_798_934_399_999 },
                Bound::AtMost,
            ),
            (
                "mode",
                json!(["train", "bus"]),
                ConstraintValue::OneOf(vec!["train".into(), "bus".into()]),
                Bound::AtMost,
            ),
        ];
        for (name, given, value, bound) in cases {
            assert_eq!(parse_value(name, &given), (value, bound), "{name}: {given}");
        }
    }

    #[test]
    fn what_is_not_certain_stays_a_text() {
        for text in
            ["cheap", "venue rated at least 4 stars", "2.000 EUR", "20 bananas", "October 14-15, 2027", "-5 USD"]
        {
            let (value, _) = parse_value("budget", &json!(text));
            assert_eq!(value, ConstraintValue::Text(text.into()), "{text}");
        }
        assert!(matches!(parse_value("budget", &json!(-5)).0, ConstraintValue::Text(_)));
    }

    #[test]
    fn a_day_or_a_time_may_be_local_to_a_zone() {
        let read = |value: Value| parse_value("deadline", &value).0;
        let end_of_day = crate::clock::parse_rfc3339("2027-05-03T21:59:59.999Z").expect("it is a time");
        let berlin = |value: &str| read(json!({"value": value, "tz": "Europe/Berlin"}));
        assert_eq!(berlin("2027-05-03"), ConstraintValue::Date(end_of_day));
        assert_eq!(berlin("by 2027-05-03T23:59:59.999"), ConstraintValue::Date(end_of_day));
        let from_ms = crate::clock::parse_rfc3339("2027-04-30T22:00:00Z").expect("it is a time");
        let interval = ConstraintValue::Interval { from_ms, to_ms: end_of_day };
        assert_eq!(berlin("2027-05-01/2027-05-03"), interval);
        assert_eq!(read(json!({"from": "2027-05-01", "to": "2027-05-03", "tz": "Europe/Berlin"})), interval);
        for text in ["2027-05-03T12:00:00Z", "soon"] {
            assert!(matches!(berlin(text), ConstraintValue::Text(_)), "{text}");
        }
    }
}

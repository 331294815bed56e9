//! Reads the facts that a caller states as constraints; they take precedence over the text.

use jiff::civil::Date;
use serde_json::{Map, Value};

use super::duration::Duration;
use super::money::Money;
use super::words::Text;
use super::{Facts, date, duration, money};

/// Takes over each constraint that is a fact. The others, and those whose value cannot be read, stay the caller's words:
/// templates see all of them by name, and [`Facts::requirements`] holds them.
pub(super) fn take_over(facts: &mut Facts, constraints: &Map<String, Value>, today: Date) {
    for (name, value) in constraints {
        // `{"value": "2000 USD", "priority": 9}`
        let value = value.get("value").unwrap_or(value);
        match name.as_str() {
            "budget" | "max_budget" | "budget_usd" | "cost_limit" => {
                facts.budget = budget(value).or(facts.budget.take());
            }
            "duration" | "duration_days" | "days" => facts.duration = lasting(value).or(facts.duration),
            "nights" => {
                if let Some(nights) = small(value) {
                    let days = facts.duration.map_or(nights, |duration| duration.days);
                    facts.duration = Some(Duration { days, nights });
                }
            }
            "month" | "start" | "start_date" | "end" | "end_date" | "deadline" | "due" | "due_date" => {
                take_over_date(facts, name, value.as_str().unwrap_or_default(), today);
            }
            "destination" | "city" | "to" | "place" => set_text(&mut facts.destination, value),
            "origin" | "from" => set_text(&mut facts.origin, value),
            "topic" => set_text(&mut facts.topic, value),
            "dataset" | "data" | "source" => set_text(&mut facts.dataset, value),
            "travellers" | "travelers" | "people" | "adults" => facts.travellers = small(value).or(facts.travellers),
            "files" => {
                let files = value.as_array().into_iter().flatten().filter_map(Value::as_str);
                let files: Vec<String> = files.map(str::to_owned).collect();
                facts.files = if files.is_empty() { std::mem::take(&mut facts.files) } else { files };
            }
            _ => {}
        }
    }
}

fn take_over_date(facts: &mut Facts, name: &str, text: &str, today: Date) {
    let (day, month) = date::read_alone(text, today);
    match name {
        "month" => facts.month = month.or(facts.month.take()),
        "start" | "start_date" => facts.start = day.or(facts.start),
        "end" | "end_date" => facts.end = day.or(facts.end),
        _ => {
            if day.is_some() {
                facts.deadline = day;
                facts.deadline_is_exclusive = false;
                facts.assumed.remove("deadline");
            }
        }
    }
}

fn set_text(fact: &mut Option<String>, value: &Value) {
    if let Some(text) = value.as_str().map(str::trim).filter(|text| !text.is_empty()) {
        *fact = Some(text.to_owned());
    }
}

fn small(value: &Value) -> Option<u32> {
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())?;
    u32::try_from(number).ok().filter(|n| (1..=366).contains(n))
}

fn budget(value: &Value) -> Option<Money> {
    match value {
        Value::Number(number) => money::read_alone(&number.to_string()),
        Value::String(text) => money::read_alone(text),
        Value::Object(fields) => {
            let amount = fields.get("amount").or_else(|| fields.get("max"))?;
            let currency = fields.get("currency").and_then(Value::as_str).unwrap_or_default();
            let digits = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
            money::read_alone(&format!("{digits} {currency}"))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) => None,
    }
}

fn lasting(value: &Value) -> Option<Duration> {
    if let Some(days) = small(value) {
        return Some(Duration { days, nights: days });
    }
    match value {
        Value::String(text) => duration::read_alone(&Text::new(text)),
        Value::Object(fields) => {
            let days = small(fields.get("days")?)?;
            Some(Duration { days, nights: fields.get("nights").and_then(small).unwrap_or(days) })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

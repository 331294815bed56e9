//! Reads the facts that a caller states as constraints; they take precedence over the text.

use serde_json::{Map, Value};

use super::words::Text;
use super::{Facts, date, duration, money, people};

/// Takes over each constraint that is a fact; the others are the caller's own and stay where they are.
pub(super) fn take_over(facts: &mut Facts, constraints: &Map<String, Value>, today: jiff::civil::Date) {
    for (name, value) in constraints {
        // `{"value": "2000 USD", "priority": 9}`
        let value = value.get("value").unwrap_or(value);
        match name.as_str() {
            "budget" | "max_budget" | "budget_usd" | "cost_limit" => {
                if let Some(budget) = budget(value) {
                    facts.budget = Some(budget);
                }
            }
            "duration" | "duration_days" | "days" => {
                if let Some(found) = lasting(value) {
                    facts.duration = Some(found);
                }
            }
            "nights" => {
                if let Some(nights) = small(value) {
                    let days = facts.duration.map_or(nights, |d| d.days);
                    facts.duration = Some(duration::Duration { days, nights });
                }
            }
            "month" | "date" | "dates" | "start" | "start_date" | "when" => {
                if let Some(text) = value.as_str() {
                    let when = date::read(&Text::new(&format!("in {text}")), today);
                    facts.month = when.month.or(facts.month.take());
                    facts.start = when.start.or(facts.start);
                    facts.end = when.end.or(facts.end);
                }
            }
            "deadline" | "due" | "due_date" => {
                if let Some(text) = value.as_str()
                    && let Some(found) = date::read(&Text::new(&format!("by {text}")), today).deadline
                {
                    facts.deadline = Some(found.date);
                    facts.deadline_is_exclusive = false;
                    facts.assumed.remove("deadline");
                }
            }
            "exclusions" | "exclude" | "without" | "avoid" => set_texts(&mut facts.exclusions, value),
            "inclusions" | "include" => set_texts(&mut facts.inclusions, value),
            "files" => set_texts(&mut facts.files, value),
            "formats" | "format" | "output_format" => set_texts(&mut facts.formats, value),
            "languages" | "language" => set_texts(&mut facts.languages, value),
            "options" => set_texts(&mut facts.options, value),
            "subtasks" | "tasks" => set_texts(&mut facts.subtasks, value),
            "participants" | "attendees" | "guests" => facts.people = small(value).or(facts.people),
            "destination" | "city" | "to" | "place" => set_text(&mut facts.destination, value),
            "origin" | "from" => set_text(&mut facts.origin, value),
            "topic" => set_text(&mut facts.topic, value),
            "dataset" | "data" | "source" => set_text(&mut facts.dataset, value),
            "travellers" | "travelers" | "people" | "adults" => {
                facts.travellers =
                    small(value).or_else(|| people::people(&Text::new(value.as_str()?))).or(facts.travellers);
            }
            _ => {}
        }
    }
}

/// Texts of a list, or one text.
fn set_texts(fact: &mut Vec<String>, value: &Value) {
    let texts: Vec<String> = match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Value::String(text) if !text.trim().is_empty() => vec![text.trim().to_owned()],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => Vec::new(),
    };
    if !texts.is_empty() {
        *fact = texts;
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

fn budget(value: &Value) -> Option<money::Money> {
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

fn lasting(value: &Value) -> Option<duration::Duration> {
    if let Some(days) = small(value) {
        return Some(duration::Duration { days, nights: days });
    }
    match value {
        Value::String(text) => duration::read(&Text::new(text)),
        Value::Object(fields) => {
            let days = small(fields.get("days")?)?;
            let nights = fields.get("nights").and_then(small).unwrap_or(days);
            Some(duration::Duration { days, nights })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

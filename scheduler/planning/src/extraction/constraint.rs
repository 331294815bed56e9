//! Reads the facts that a caller states as constraints; they take precedence over the text.

use jiff::civil::Date;
use serde_json::{Map, Value};

use super::journey::{Duration, Money, read_amount, read_length, read_month};
use super::{FACTS, GoalFacts};

/// Takes over each constraint that is a fact. The others, and those whose value cannot be read, stay in the words of the caller.
pub(super) fn take_over(facts: &mut GoalFacts, constraints: &Map<String, Value>, today: Date) {
    for (name, value) in constraints {
        // `{"value": "2000 USD", "priority": 9}`
        let is_read = take_over_fact(facts, name, value.get("value").unwrap_or(value), today);
        if !is_read || !FACTS.contains(&name.as_str()) {
            facts.own_constraints.insert(name.clone(), value.clone());
        }
    }
}

/// Whether the constraint is a fact that could be read.
fn take_over_fact(facts: &mut GoalFacts, name: &str, value: &Value, today: Date) -> bool {
    match name {
        "budget" | "max_budget" | "budget_usd" | "cost_limit" => set(&mut facts.budget, budget(value)),
        "duration" | "duration_days" | "days" => set(&mut facts.duration, lasting(value)),
        "nights" => {
            let days = facts.duration.map(|duration| duration.days);
            let stay = small(value).map(|nights| Duration { days: days.unwrap_or(nights), nights });
            set(&mut facts.duration, stay)
        }
        "month" => set(&mut facts.month, read_month(value.as_str().unwrap_or_default(), today)),
        "destination" | "city" | "to" | "place" => set(&mut facts.destination, text(value)),
        "origin" | "from" => set(&mut facts.origin, text(value)),
        "travellers" | "travelers" | "people" | "adults" => set(&mut facts.travellers, small(value)),
        _ => false,
    }
}

/// Replaces a fact if there is a value; whether there is one.
fn set<T>(fact: &mut Option<T>, value: Option<T>) -> bool {
    let is_read = value.is_some();
    *fact = value.or(fact.take());
    is_read
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn small(value: &Value) -> Option<u32> {
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())?;
    u32::try_from(number).ok().filter(|n| (1..=366).contains(n))
}

fn budget(value: &Value) -> Option<Money> {
    match value {
        Value::Number(number) => read_amount(&number.to_string()),
        Value::String(text) => read_amount(text),
        Value::Object(fields) => {
            let amount = fields.get("amount").or_else(|| fields.get("max"))?;
            let currency = fields.get("currency").and_then(Value::as_str).unwrap_or_default();
            let digits = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
            read_amount(&format!("{digits} {currency}"))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) => None,
    }
}

fn lasting(value: &Value) -> Option<Duration> {
    if let Some(days) = small(value) {
        return Some(Duration { days, nights: days });
    }
    match value {
        Value::String(text) => read_length(text),
        Value::Object(fields) => {
            let days = small(fields.get("days")?)?;
            Some(Duration { days, nights: fields.get("nights").and_then(small).unwrap_or(days) })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

//! Extracts constraints and facts from a goal's text: budget, time, place, people, counts, topic. The heuristics rather miss a
//! fact than invent one.

use std::collections::BTreeMap;

use goalmill_common::goal::Goal;
use jiff::civil::Date;
use serde::Serialize;
use serde_json::{Map, Number, Value};

mod constraint;
mod count;
mod date;
mod duration;
mod money;
mod place;
mod topic;
mod words;

pub use date::Month;
pub use duration::Duration;
pub use money::Money;

use words::Text;

/// Longest part of a description that is read, in bytes.
const READ_BYTES_MAX: usize = 16_384;

/// What was found in a goal; a fact that is not said is missing, never guessed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub month: Option<Month>,
    /// First day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Date>,
    /// Last day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Date>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// The places after the first, of a trip to several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub further_destinations: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub travellers: Option<u32>,
    /// How many of what: `{"restaurants": 5}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
}

impl Facts {
    /// Reads the description, then the constraints, which win.
    ///
    /// - `now_ms`: Unix milliseconds; `in May` is the next May from then, in UTC.
    pub fn read(goal: &Goal, now_ms: u64) -> Self {
        let today = date::day_of(now_ms);
        let text = Text::new(beginning(&goal.description));
        let mut facts = Self::of_text(&text, today);
        constraint::take_over(&mut facts, &goal.constraints, today);
        facts
    }

    fn of_text(text: &Text, today: Date) -> Self {
        let when = date::read(text, today);
        let mut destinations = place::read(text);
        let destination = (!destinations.destinations.is_empty()).then(|| destinations.destinations.remove(0));
        let duration = duration::read(text).or_else(|| between(when.start, when.end));
        let travellers = count::people(text);
        Self {
            budget: whole_budget(text, travellers, duration),
            duration,
            month: when.month,
            start: when.start,
            end: when.end,
            destination,
            further_destinations: destinations.destinations,
            origin: destinations.origin,
            travellers,
            counts: count::read(text),
            topic: topic::read(text),
            dataset: topic::dataset(text),
        }
    }

    /// The facts by name, with whole amounts as whole numbers.
    pub fn by_name(&self) -> Map<String, Value> {
        let Ok(Value::Object(mut facts)) = serde_json::to_value(self) else { return Map::new() };
        if let (Some(budget), Some(amount)) = (&self.budget, facts.get_mut("budget").and_then(|b| b.get_mut("amount")))
        {
            *amount = number(budget.amount);
        }
        facts
    }
}

/// A number as people write it: 2000, not 2000.0.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// A budget per head or day becomes one for all, where the text says how many.
fn whole_budget(text: &Text, travellers: Option<u32>, duration: Option<Duration>) -> Option<Money> {
    let (mut money, per) = money::read(text)?;
    let factor = match per {
        money::Per::Whole => 1,
        money::Per::Person => travellers.unwrap_or(1),
        money::Per::Day => duration?.days,
        money::Per::Other => return None,
    };
    money.amount *= f64::from(factor);
    Some(money)
}

/// The stay from the first to the last day.
fn between(start: Option<Date>, end: Option<Date>) -> Option<Duration> {
    let nights = u32::try_from(start?.until(end?).ok()?.get_days()).ok()?;
    (nights <= 366).then_some(Duration { days: nights + 1, nights: nights.max(1) })
}

fn beginning(text: &str) -> &str {
    let mut end = text.len().min(READ_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// 2026-11-21.
    const NOW_MS: u64 = 1_795_293_490_279;

    fn facts(description: &str, constraints: Value) -> Value {
        let constraints = constraints.as_object().cloned().unwrap_or_default();
        let goal = Goal { description: description.into(), constraints, ..Goal::default() };
        Value::Object(Facts::read(&goal, NOW_MS).by_name())
    }

    #[test]
    fn the_first_goal_of_every_reader_is_understood() {
        let found = facts("Plan a 3-day trip to Paris in May with a $2000 budget", json!({}));
        let expected = json!({
            "budget": {"amount": 2000, "currency": "USD"},
            "duration": {"days": 3, "nights": 3},
            "month": {"number": 5, "name": "May", "year": 2027},
            "destination": "Paris",
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn constraints_win_over_the_text() {
        let found = facts(
            "Plan a 3-day trip to Paris in May with a $2000 budget",
            json!({"budget": {"amount": 1500.5, "currency": "EUR"}, "duration_days": 4, "destination": "Rome", "month": "June",
                   "travellers": "2", "origin": "Boston", "colour": "blue"}),
        );
        let expected = json!({
            "budget": {"amount": 1500.5, "currency": "EUR"},
            "duration": {"days": 4, "nights": 4},
            "month": {"number": 6, "name": "June", "year": 2027},
            "destination": "Rome", "origin": "Boston", "travellers": 2,
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn constraints_that_make_no_sense_change_nothing() {
        let text = "a 3-day trip to Paris with a $2000 budget";
        let odd =
            json!({"budget": [], "duration": "soon", "destination": " ", "nights": -1, "month": 5, "travellers": {}});
        assert_eq!(facts(text, odd), facts(text, json!({})));
    }

    #[test]
    fn a_budget_per_head_or_day_is_multiplied() {
        let amount = |text: &str| facts(text, json!({}))["budget"]["amount"].clone();
        assert_eq!(amount("a trip for 2 people, budget of $500 per person"), 1000);
        assert_eq!(amount("3 days in Rome, up to $100 a day"), 300);
        assert_eq!(amount("Rome, up to $100 a day"), Value::Null);
    }

    #[test]
    fn the_dates_give_the_duration() {
        assert_eq!(facts("trip to Rome from May 3 to May 6", json!({}))["duration"], json!({"days": 4, "nights": 3}));
    }

    #[test]
    fn odd_texts_are_read_without_harm() {
        for text in [
            "",
            " ",
            "$",
            "-",
            "3-",
            "в Париж на 3 дня",
            "去巴黎三天",
            "İn İstanbul",
            "a\u{0}b",
            "🙂 for 2 🙂",
            "in",
            "to the",
        ] {
            facts(text, json!({}));
        }
        facts(&"ß".repeat(20_000), json!({}));
        facts(&"9-".repeat(20_000), json!({}));
        facts(&"twenty and ".repeat(5_000), json!({}));
    }
}

//! Extracts the facts of a journey from the text of a goal: budget, duration, month, places, travellers.
//!
//! A fact is read only when its meaning is certain. A clause that negates something or sets a condition gives no fact. The
//! certain way to state anything else is a constraint; planners hand the text to the steps as it is.

use std::sync::LazyLock;

use goalmill_common::goal::Goal;
use goalmill_common::number::whole_i64;
use goalmill_common::problem::Issue;
use jiff::civil::Date;
use regex::Regex;
use serde::Serialize;
use serde_json::{Map, Number, Value};

mod clause_text;
mod constraint;
mod journey;
mod request;

pub use journey::{Duration, Money, Month};
pub use request::GoalRequest;

use clause_text::{ClauseText, pattern, value_of};

/// Longest part of a description that is read, in bytes.
const READ_BYTES_MAX: usize = 16_384;

/// Most numbers that are reported as unread.
const UNREAD_MAX: usize = 8;

/// The facts by their names; a constraint of one of these names is read, or it is a requirement in the words of the caller.
const FACTS: [&str; 6] = ["budget", "duration", "month", "destination", "origin", "travellers"];

/// A number and the word behind it.
static NUMBERS: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?P<number>NUMBER)(?: ?\p{L}+(?:['’]\p{L}+)*)?"));

/// What was found in a goal; a fact that is not said is missing, never guessed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GoalFacts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub month: Option<Month>,
    /// Where a journey goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub travellers: Option<u32>,
    /// The main request in the words of the goal; for the texts of steps, no constraint.
    #[serde(skip)]
    pub subject: Option<String>,
    /// The words by which the kind of the goal is recognised.
    #[serde(skip)]
    pub request: GoalRequest,
    /// The constraints of the goal that are no facts or could not be read.
    #[serde(skip)]
    pub own_constraints: Map<String, Value>,
    /// The numbers of the text that belong to no fact.
    #[serde(skip)]
    pub unread: Vec<String>,
}

impl GoalFacts {
    /// Reads the description, then the constraints, which win.
    ///
    /// - `now_ms`: Unix milliseconds; `in May` is the next May from then, in UTC.
    pub fn from_goal(goal: &Goal, now_ms: u64) -> Self {
        let today = journey::day_of(now_ms);
        let mut facts = Self::of_text(&mut ClauseText::new(beginning(&goal.description)), today);
        constraint::take_over(&mut facts, &goal.constraints, today);
        facts
    }

    /// The facts that the constraints of a goal state, by name.
    pub fn stated(goal: &Goal, now_ms: u64) -> Map<String, Value> {
        let mut facts = Self::default();
        constraint::take_over(&mut facts, &goal.constraints, journey::day_of(now_ms));
        facts.by_name()
    }

    /// The order matters: what is read first is not read again, and ends the phrases that are read later.
    fn of_text(text: &mut ClauseText<'_>, today: Date) -> Self {
        let duration = journey::duration(text);
        let is_journey = duration.is_some() || journey::is_one(text);
        let travellers = is_journey.then(|| journey::travellers(text)).flatten();
        let (destination, origin) = journey::places(text);
        let month = journey::month(text, today);
        let budget = journey::budget(text);
        let (request, subject) = request::read_request(text);
        let (own_constraints, unread) = (Map::new(), unread_numbers(text));
        Self { budget, duration, month, destination, origin, travellers, subject, request, own_constraints, unread }
    }

    /// The facts and all other constraints, by name; empty when the goal has none.
    pub fn requirements(&self) -> Map<String, Value> {
        let mut requirements = self.by_name();
        requirements.extend(self.own_constraints.clone());
        requirements
    }

    /// What templates know: the facts, and the constraints of the goal that have names of their own.
    pub fn known(&self) -> Map<String, Value> {
        let mut known = self.by_name();
        let own = self.own_constraints.iter().filter(|(name, _)| !FACTS.contains(&name.as_str()));
        known.extend(own.map(|(name, value)| (name.clone(), value.clone())));
        known
    }

    /// The requirement that can be checked as a success criterion.
    pub fn criterion(&self) -> Option<String> {
        let budget = self.budget.as_ref()?;
        Some(format!("cost ≤ {} {}", number(budget.amount), budget.currency))
    }

    /// The numbers that were not understood, for the caller.
    pub fn issues(&self) -> Vec<Issue> {
        let unread = self.unread.iter().map(|part| Issue {
            code: "FACT_UNREAD".into(),
            pointer: "/description".into(),
            detail: format!("`{part}` was not understood as a fact; steps get the text as it is"),
            hint: "state it as a constraint".into(),
        });
        unread.collect()
    }

    /// The facts by name, with whole amounts as whole numbers.
    pub fn by_name(&self) -> Map<String, Value> {
        let Ok(Value::Object(mut facts)) = serde_json::to_value(self) else { return Map::new() };
        if let Some(amount) = facts.get_mut("budget").and_then(|budget| budget.get_mut("amount")) {
            *amount = amount.as_f64().map_or(Value::Null, number);
        }
        facts
    }
}

/// The one day that words name: `3 May`, `2027-05-06`; a day without a year is the next such day.
///
/// - `now_ms`: Unix milliseconds.
pub(crate) fn day_of_words(words: &str, now_ms: u64) -> Option<Date> {
    journey::read_day(words, journey::day_of(now_ms))
}

/// A number as people write it: 2000, not 2000.0.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return Value::from(whole_i64(value));
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// The numbers that no fact holds, with the word behind them; `one` and a number inside a name (`COVID-19`, `v2.4`) are none.
fn unread_numbers(text: &ClauseText<'_>) -> Vec<String> {
    let numbers = NUMBERS.captures_iter(text.source).filter(|found| {
        let at = found.get_match().start();
        let is_one = value_of(&found["number"]).is_none_or(|value| (value - 1.0).abs() < f64::EPSILON);
        journey::is_free(text, at) && !text.is_read(at) && !is_one
    });
    // A word with which another clause begins says nothing of the number.
    let shown = |found: regex::Captures<'_>| {
        let whole = found.get_match();
        let is_noun = text.clause_start(whole.end().saturating_sub(1)) <= whole.start();
        if is_noun { whole.as_str() } else { &found["number"] }.to_owned()
    };
    numbers.map(shown).take(UNREAD_MAX).collect()
}

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(READ_BYTES_MAX)]
}

#[cfg(test)]
mod tests;

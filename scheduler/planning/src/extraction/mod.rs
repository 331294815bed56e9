//! Extracts the facts of a journey from the text of a goal: budget, duration, month, places, travellers.
//!
//! A fact is read only when its meaning is certain. A clause that negates something or sets a condition gives no fact. The
//! certain way to state anything else is a constraint; planners hand the text to the steps as it is.

use goalmill_common::goal::Goal;
use goalmill_common::number::whole_i64;
use goalmill_common::problem::Issue;
use jiff::civil::Date;
use serde::Serialize;
use serde_json::{Map, Number, Value};

mod constraint;
mod date;
mod duration;
mod money;
mod place;
mod request;
mod travellers;
mod words;

pub use date::Month;
pub use duration::Duration;
pub use money::Money;
pub use request::GoalRequest;

use words::Text;

/// Longest part of a description that is read, in bytes.
const READ_BYTES_MAX: usize = 16_384;

/// Most numbers that are reported as unread.
const UNREAD_MAX: usize = 8;

/// The facts by their names; a constraint of one of these names is read, or it is a requirement in the words of the caller.
const FACTS: [&str; 6] = ["budget", "duration", "month", "destination", "origin", "travellers"];

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
    pub fn read(goal: &Goal, now_ms: u64) -> Self {
        let today = date::day_of(now_ms);
        let mut facts = Self::of_text(&Text::new(beginning(&goal.description)), today);
        constraint::take_over(&mut facts, &goal.constraints, today);
        facts
    }

    /// The facts that the constraints of a goal state, by name.
    pub fn stated(goal: &Goal, now_ms: u64) -> Map<String, Value> {
        let mut facts = Self::default();
        constraint::take_over(&mut facts, &goal.constraints, date::day_of(now_ms));
        facts.by_name()
    }

    /// The order matters: what is read first is not read again, and ends the phrases that are read later.
    fn of_text(text: &Text, today: Date) -> Self {
        let duration = duration::read(text);
        let is_journey = text.open().any(|at| duration::is_journey(text.lower(at)));
        let travellers = (is_journey || duration.is_some()).then(|| travellers::read(text)).flatten();
        let places = place::read(text);
        let month = date::month(text, today);
        let budget = money::read(text);
        Self {
            budget,
            duration,
            month,
            destination: places.destination,
            origin: places.origin,
            travellers,
            subject: request::subject(text),
            request: request::read(text),
            own_constraints: Map::new(),
            unread: unread_numbers(text),
        }
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
    date::read_alone(words, date::day_of(now_ms)).0
}

/// A number as people write it: 2000, not 2000.0.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return Value::from(whole_i64(value));
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// The numbers that no fact holds, with the word behind them; `one` and a number inside a name (`COVID-19`, `v2.4`) are none.
fn unread_numbers(text: &Text) -> Vec<String> {
    let (mut unread, mut next) = (Vec::new(), 0);
    for at in 0..text.words.len() {
        let is_name = text.is_glued(at) && (text.is_letters(at.wrapping_sub(1)) || text.before(at, 1) == "-");
        let is_known = at < next || is_name || text.is_read(at);
        let Some(number) = (!is_known).then(|| text.number(at)).flatten() else { continue };
        next = number.next;
        if (number.value - 1.0).abs() > f64::EPSILON && unread.len() < UNREAD_MAX {
            let noun = usize::from(text.is_letters(next) && text.clause_start(next) != next);
            unread.push(text.between(at, next + noun).to_owned());
        }
    }
    unread
}

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(READ_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// 2026-11-21.
    const NOW_MS: u64 = 1_795_293_490_279;

    fn read(description: &str, constraints: Value) -> GoalFacts {
        let constraints = constraints.as_object().cloned().unwrap_or_default();
        GoalFacts::read(&Goal { description: description.into(), constraints, ..Goal::default() }, NOW_MS)
    }

    fn facts(description: &str, constraints: Value) -> Value {
        Value::Object(read(description, constraints).by_name())
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
    fn all_facts_of_one_goal_are_read_together() {
        let text = "Plan a 4-day trip for two to Rome from Boston in May under 1500 euros";
        let expected = json!({
            "budget": {"amount": 1500, "currency": "EUR"}, "duration": {"days": 4, "nights": 4},
            "month": {"number": 5, "name": "May", "year": 2027}, "destination": "Rome", "origin": "Boston",
            "travellers": 2,
        });
        assert_eq!(facts(text, json!({})), expected);
        assert_eq!(read(text, json!({})).unread, Vec::<String>::new());
    }

    #[test]
    fn numbers_that_no_fact_holds_are_reported() {
        for (text, parts) in [
            ("Deliver 3 reports by 05/06/2027", "3 reports | 05 | 06 | 2027"),
            ("Write a 200-word summary of two papers", "200 | two papers"),
            ("Plan a trip to Paris, no more than 3 days", "3 days"),
            ("Write one report on COVID-19 for v2.4", ""),
            ("Plan a 3-day trip to Paris under $2000", ""),
        ] {
            assert_eq!(read(text, json!({})).unread.join(" | "), parts, "{text}");
        }
        assert_eq!(read(&"9 lives, ".repeat(50), json!({})).unread.len(), UNREAD_MAX);
    }

    #[test]
    fn constraints_win_over_the_text() {
        let found = facts(
            "Plan a 3-day trip to Paris in May with a $2000 budget",
            json!({"budget": {"amount": 1500.5, "currency": "EUR"}, "duration_days": 4, "destination": "Rome", "month": "June",
                   "travellers": "2", "origin": "Boston", "deadline": "2027-03-01", "colour": "blue"}),
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
    fn a_constraint_that_is_no_fact_is_a_requirement_in_the_words_of_the_caller() {
        let odd = json!({"duration": "soon", "exclusions": ["flying"], "topic": "rain", "month": 5, "budget": []});
        let facts = read("Write a poem", odd.clone());
        assert_eq!(facts.by_name(), Map::new());
        assert_eq!(Value::Object(facts.requirements()), odd);
        assert_eq!(
            Value::Object(facts.known()),
            json!({"topic": "rain", "exclusions": ["flying"]}),
            "templates use their defaults for facts that cannot be read"
        );
    }

    #[test]
    fn constraints_that_make_no_sense_change_nothing() {
        let text = "a 3-day trip to Paris with a $2000 budget";
        let odd =
            json!({"budget": [], "duration": "soon", "destination": " ", "nights": -1, "month": 5, "travellers": {}});
        assert_eq!(facts(text, odd), facts(text, json!({})));
    }

    #[test]
    fn what_is_negated_or_only_possible_is_no_fact() {
        for text in [
            "Plan something, but not in May and not to Paris",
            "Don't plan a 3-day trip to Paris for two with a $2000 budget",
            "Plan it without 3 guides and never under $2000",
            "Choose if a trip to Paris costs less than $500 and takes 3 days",
            "Our 3-day trip to Paris in May was cancelled",
        ] {
            assert_eq!(facts(text, json!({})), json!({}), "{text}");
        }
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
            "from",
            "by the",
            "\"",
        ] {
            facts(text, json!({}));
        }
        facts(&"ß".repeat(20_000), json!({}));
        facts(&"9-".repeat(20_000), json!({}));
        facts(&"twenty and ".repeat(5_000), json!({}));
        facts(&"to A from B not ".repeat(5_000), json!({}));
    }
}

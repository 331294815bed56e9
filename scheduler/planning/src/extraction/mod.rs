//! Extracts facts from the text of a goal: budget, duration, dates, destination, counts, topic, files.
//!
//! A fact is read only when its meaning is certain. A clause that negates something or sets a condition gives no fact. What no
//! reader reads is passed on word for word (`detail`).

use std::collections::BTreeMap;

use goalmill_common::goal::Goal;
use goalmill_common::number::whole_i64;
use goalmill_common::problem::Issue;
use jiff::civil::Date;
use serde::Serialize;
use serde_json::{Map, Number, Value};

mod constraint;
mod count;
mod date;
mod detail;
mod duration;
mod file;
mod money;
mod place;
mod request;
mod topic;
mod words;

pub use date::Month;
pub use detail::UnreadPart;
pub use duration::Duration;
pub use money::Money;
pub use request::GoalRequest;

use words::Text;

/// Longest part of a description that is read, in bytes.
const READ_BYTES_MAX: usize = 16_384;

/// The facts by their names; a constraint of one of these names is read, or it is a requirement in the words of the caller.
const FACTS: [&str; 15] = [
    "budget", "duration", "month", "start", "end", "deadline", "deadline_is_exclusive", "destination", "origin",
    "travellers", "counts", "details", "topic", "dataset", "files",
];

/// What was found in a goal; a fact that is not said is missing, never guessed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GoalFacts {
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
    /// The day by which the goal is to be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Date>,
    /// `before 3 May`: the day of the deadline is too late.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deadline_is_exclusive: bool,
    /// Where a journey goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub travellers: Option<u32>,
    /// How many of what: `{"restaurants": 5}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u32>,
    /// What the goal says besides and no other fact holds, in its own words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// A file or an address with data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// Files that the text names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The main request in the words of the goal; for the texts of steps, no constraint.
    #[serde(skip)]
    pub subject: Option<String>,
    /// The words by which the kind of the goal is recognised.
    #[serde(skip)]
    pub request: GoalRequest,
    /// What the text left open and was chosen here, by fact.
    #[serde(skip)]
    pub assumed: BTreeMap<&'static str, &'static str>,
    /// The constraints of the goal that are no facts or could not be read.
    #[serde(skip)]
    pub own_constraints: Map<String, Value>,
    /// What looks like a constraint and was not read.
    #[serde(skip)]
    pub unread: Vec<UnreadPart>,
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
        let when = date::read(text, today);
        let budget = money::read(text);
        let files = file::read(text);
        let topic = topic::read(text);
        let duration = duration::read(text);
        let is_journey = text.open().any(|at| duration::is_journey(text.lower(at)));
        let mut travellers = (is_journey || duration.is_some()).then(|| count::travellers(text)).flatten();
        let places = place::read(text);
        let month = date::month(text, today);
        let mut counts = count::read(text);
        if !is_journey && places.destination.is_none() {
            counts.extend(travellers.take().map(|people| ("people".to_owned(), people)));
        }
        let (details, unread) = detail::read(text, request::index(text));
        let deadline = when.deadline.as_ref();
        let assumed = deadline.and_then(|deadline| deadline.assumed).map(|what| ("deadline", what));
        Self {
            budget,
            duration: duration.or_else(|| when.span.and_then(between)),
            month,
            start: when.span.map(|(first, _)| first),
            end: when.span.map(|(_, last)| last),
            deadline: deadline.map(|deadline| deadline.date),
            deadline_is_exclusive: deadline.is_some_and(|deadline| deadline.is_exclusive),
            destination: places.destination,
            origin: places.origin,
            travellers,
            counts,
            details,
            topic,
            dataset: file::dataset(text.source),
            files,
            subject: request::subject(text),
            request: request::read(text),
            assumed: assumed.into_iter().collect(),
            own_constraints: Map::new(),
            unread,
        }
    }

    /// Everything that the goal says, by name: the facts, the details, and all other constraints; empty when it says nothing.
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

    /// The requirements that can be checked as success criteria.
    pub fn criteria(&self) -> Vec<String> {
        let deadline = self
            .deadline
            .map(|deadline| format!("done {} {deadline}", if self.deadline_is_exclusive { "before" } else { "by" }));
        let cost = self.budget.as_ref().map(|budget| format!("cost ≤ {} {}", number(budget.amount), budget.currency));
        deadline.into_iter().chain(cost).collect()
    }

    /// What the caller should know of the reading: parts that were not understood, and what was chosen where the text is open.
    pub fn issues(&self) -> Vec<Issue> {
        let unread = self.unread.iter().map(|part| Issue {
            code: "FACT_UNREAD".into(),
            pointer: "/description".into(),
            detail: format!("`{}` was not understood as a constraint; steps get it word for word", part.text),
            hint: "write money with its currency and dates as `by 2027-05-06`, or add it to the constraints".into(),
        });
        let assumed = self.assumed.iter().map(|(fact, what)| Issue {
            code: "FACT_ASSUMED".into(),
            pointer: format!("/constraints/{fact}"),
            detail: format!("the goal does not say `{fact}` to the day; taken: {what}"),
            hint: format!("say the day, or add `{fact}` to the constraints"),
        });
        unread.chain(assumed).collect()
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

/// A number as people write it: 2000, not 2000.0.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return Value::from(whole_i64(value));
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// The stay from the first to the last day.
fn between((start, end): (Date, Date)) -> Option<Duration> {
    let nights = u32::try_from(start.until(end).ok()?.get_days()).ok()?;
    (nights <= 366).then_some(Duration { days: nights + 1, nights: nights.max(1) })
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
        let text = "Plan a trip for two to Rome from Boston from 3 to 6 May under 1500 euros, find 5 restaurants by 1 March (plan.pdf)";
        let expected = json!({
            "budget": {"amount": 1500, "currency": "EUR"}, "duration": {"days": 4, "nights": 3},
            "start": "2027-05-03", "end": "2027-05-06", "deadline": "2027-03-01", "destination": "Rome",
            "origin": "Boston", "travellers": 2, "counts": {"restaurants": 5}, "files": ["plan.pdf"],
        });
        assert_eq!(facts(text, json!({})), expected);
        let text = "A 2-day workshop for 12 people, by 3 May and not in June";
        let expected = json!({
            "duration": {"days": 2, "nights": 2}, "deadline": "2027-05-03", "counts": {"people": 12},
            "details": ["not in June"],
        });
        assert_eq!(facts(text, json!({})), expected);
        let text = "Analyse orders.csv and write a report on sales";
        let expected = json!({
            "topic": "sales", "dataset": "orders.csv", "files": ["orders.csv"], "details": ["write a report on sales"],
        });
        assert_eq!(facts(text, json!({})), expected);
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
            "deadline": "2027-03-01", "destination": "Rome", "origin": "Boston", "travellers": 2,
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn a_constraint_that_is_no_fact_is_a_requirement_in_the_words_of_the_caller() {
        let odd = json!({"duration": "soon", "exclusions": ["flying"], "formats": "pdf", "month": 5, "budget": []});
        let facts = read("Write a poem about rain", odd.clone());
        assert_eq!(facts.by_name(), *json!({"topic": "rain"}).as_object().expect("it is an object"));
        let mut expected = odd;
        expected["topic"] = "rain".into();
        assert_eq!(Value::Object(facts.requirements()), expected);
        let expected = json!({"topic": "rain", "exclusions": ["flying"], "formats": "pdf"});
        assert_eq!(
            Value::Object(facts.known()),
            expected,
            "templates use their defaults for facts that cannot be read"
        );
        let facts =
            read("Check the lease (lease.pdf) by 3 May, in ink", json!({"details": ["twice"], "deadline": "soon"}));
        let expected = json!({"deadline": "soon", "files": ["lease.pdf"], "details": ["in ink", "twice"]});
        assert_eq!(Value::Object(facts.requirements()), expected);
        assert_eq!(facts.deadline.map(|day| day.to_string()), Some("2027-05-03".into()));
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
            "Don't plan a 3-day trip to Paris for two by 3 May with a $2000 budget",
            "Plan it without 3 guides and never under $2000",
            "Choose if a trip to Paris costs less than $500 and takes 3 days",
            "Write nothing about bees",
            "Our 3-day trip to Paris in May was cancelled",
        ] {
            let mut found = facts(text, json!({}));
            let details = found.as_object_mut().and_then(|facts| facts.remove("details"));
            assert_eq!(found, json!({}), "{text}");
            assert!(details.is_some(), "{text}");
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

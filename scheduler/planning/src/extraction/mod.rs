//! Extracts constraints and facts from a goal's text: budget, deadline, time, place, people, counts, limits, exclusions, formats,
//! topic, sub-tasks. The heuristics rather miss a fact than invent one.
//!
//! Each reader notes in the text which words it has read, so that a topic ends where a constraint begins, and what looks like
//! a constraint but was not read can be reported.

use std::collections::BTreeMap;

use goalmill_common::goal::Goal;
use goalmill_common::number::whole_i64;
use goalmill_common::problem::Issue;
use jiff::civil::Date;
use serde::Serialize;
use serde_json::{Map, Number, Value};

mod amount;
mod calendar_date;
mod constraint;
mod count;
mod date;
mod date_role;
mod detail;
mod duration;
mod exclusion;
mod file;
mod format;
mod inclusion;
mod lead_time;
mod limit;
mod manner;
mod money;
mod negation;
mod people;
#[cfg(test)]
mod phrases;
mod place;
mod place_names;
mod recurrence;
mod relative_date;
mod request;
mod request_verb;
mod sought;
mod subtask;
mod time;
mod topic;
mod unread;
mod venue;
mod words;

pub use calendar_date::Month;
pub use duration::Duration;
pub use money::{Money, Rate};
pub use request::GoalRequest;
pub use unread::UnreadPart;

use words::Text;

/// Longest part of a description that is read, in bytes.
const READ_BYTES_MAX: usize = 16_384;

/// What was found in a goal; a fact that is not said is missing, never guessed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Money>,
    /// A limit per month, night or unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
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
    /// The time of day of the deadline, when `time` is that of something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_time: Option<String>,
    /// A time of day, `17:00`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// When it ends on the day: `17:00` of `from 2 to 5 pm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<String>,
    /// How often: `every Monday`, `four times a week`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recurrence: Option<String>,
    /// How long one piece of it takes, when that is less than a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length_minutes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// Where something happens that is no journey.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The places after the first, of a trip to several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub further_destinations: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub travellers: Option<u32>,
    /// How many people it is for, when it is no journey.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub people: Option<u32>,
    /// How many of what: `{"restaurants": 5}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u32>,
    /// Upper limits: `{"pages": 10}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub at_most: BTreeMap<String, u64>,
    /// Lower limits: `{"sources": 3}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub at_least: BTreeMap<String, u64>,
    /// What is ruled out: `flying`, `touch the schema`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclusions: Vec<String>,
    /// What has to be there: `vegan option`, `keeping the existing tiles`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inclusions: Vec<String>,
    /// What the goal says besides and no other fact holds, in its own words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    /// Formats of the result: `pdf`, `csv`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub formats: Vec<String>,
    /// Languages of the result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub languages: Vec<String>,
    /// The language that is translated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_language: Option<String>,
    /// What is compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Sub-tasks that the goal lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subtasks: Vec<String>,
    /// Whether they are numbered, and so done one after the other.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub subtasks_in_order: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// Files that the text names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// What the goal asks to be done or made; for the texts of steps, no constraint.
    #[serde(skip)]
    pub subject: Option<String>,
    /// The words by which the kind of the goal is recognised.
    #[serde(skip)]
    pub request: GoalRequest,
    /// What the text left open and was chosen here, by fact.
    #[serde(skip)]
    pub assumed: BTreeMap<&'static str, &'static str>,
    /// What looks like a constraint and was not read.
    #[serde(skip)]
    pub unread: Vec<UnreadPart>,
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

    /// Everything that a result has to keep to, by name; empty when the goal sets no terms.
    pub fn requirements(&self) -> Map<String, Value> {
        const REQUIREMENTS: [&str; 26] = [
            "budget", "rate", "start", "end", "deadline", "deadline_is_exclusive", "deadline_time", "time", "end_time",
            "recurrence", "length_minutes", "duration", "month", "place", "destination", "people", "counts", "at_most",
            "at_least", "exclusions", "inclusions", "formats", "languages", "source_language", "files", "details",
        ];
        let mut facts = self.by_name();
        facts.retain(|name, _| REQUIREMENTS.contains(&name.as_str()));
        facts
    }

    /// The requirements as success criteria.
    pub fn criteria(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(deadline) = self.deadline {
            lines.push(format!("done {} {deadline}", if self.deadline_is_exclusive { "before" } else { "by" }));
        }
        if let Some(budget) = &self.budget {
            lines.push(format!("cost ≤ {} {}", number(budget.amount), budget.currency));
        }
        lines.extend(self.inclusions.iter().map(|what| format!("included: {what}")));
        lines.extend(self.exclusions.iter().map(|what| format!("ruled out: {what}")));
        lines.extend(self.at_most.iter().map(|(noun, n)| format!("at most {n} {noun}")));
        lines.extend(self.at_least.iter().map(|(noun, n)| format!("at least {n} {noun}")));
        if !self.formats.is_empty() {
            lines.push(format!("format: {}", self.formats.join(", ")));
        }
        if !self.languages.is_empty() {
            lines.push(format!("language: {}", self.languages.join(", ")));
        }
        lines
    }

    /// What the caller should know of the reading: parts that were not understood, and what was chosen where the text is open.
    pub fn issues(&self) -> Vec<Issue> {
        let unread = self.unread.iter().map(|part| Issue {
            code: "FACT_UNREAD".into(),
            pointer: "/description".into(),
            detail: format!("`{}` was not understood as a constraint", part.text),
            hint: format!("{}, or add it to the constraints", part.hint),
        });
        let assumed = self.assumed.iter().map(|(fact, what)| Issue {
            code: "FACT_ASSUMED".into(),
            pointer: format!("/constraints/{fact}"),
            detail: format!("the goal does not say `{fact}` to the day; taken: {what}"),
            hint: format!("say the day, or add `{fact}` to the constraints"),
        });
        unread.chain(assumed).collect()
    }

    /// The order matters: what is read first is not read again, and ends the phrases that are read later.
    fn of_text(text: &Text, today: Date) -> Self {
        let when = date::read(text, today);
        let recurrence = recurrence::read(text);
        let times = time::read(text);
        let duration = duration::read(text).or_else(|| between(when.start, when.end).filter(|_| !when.is_loose));
        let party = people::people(text);
        let group = people::group(text).filter(|_| party.is_none());
        let (budget, rate) = budget(text, party.or(group), duration);
        let limits = limit::read(text);
        let length_minutes = time::length_minutes(text);
        let formats = format::formats(text);
        let languages = format::languages(text);
        let mut counts = count::read(text);
        counts.retain(|noun, count| !limits.bounds(noun, *count));
        let exclusions = exclusion::read(text);
        let subtasks = subtask::read(text);
        let request = request::index(text);
        let inclusions = inclusion::read(text, request, !subtasks.items.is_empty());
        let mut places = place::read(text);
        let destination = (!places.destinations.is_empty()).then(|| places.destinations.remove(0));
        let mut unread = unread::read(text);
        if subtasks.left_out > 0 {
            let text = format!("{} more sub-tasks", subtasks.left_out);
            unread.push(UnreadPart { text, hint: "split the goal" });
        }
        let is_journey = destination.is_some() || place::tells_journey(text);
        let by_time = times.due.as_ref().filter(|_| recurrence.is_none()).map(|_| date::Deadline {
            date: when.start.filter(|_| when.end.is_none()).unwrap_or(today),
            is_exclusive: false,
            assumed: None,
        });
        let deadline = when.deadline.or(by_time);
        let assumed = deadline.as_ref().and_then(|deadline| deadline.assumed).map(|what| ("deadline", what));
        let mut facts = Self {
            budget,
            rate,
            duration,
            month: when.month,
            start: when.start,
            end: when.end,
            deadline: deadline.as_ref().map(|deadline| deadline.date),
            deadline_is_exclusive: deadline.is_some_and(|deadline| deadline.is_exclusive),
            deadline_time: times.due.filter(|due| times.of_day.as_ref() != Some(due)),
            end_time: times.end,
            time: times.of_day,
            recurrence,
            length_minutes,
            place: places.location.filter(|_| destination.is_none()),
            destination,
            further_destinations: places.destinations,
            origin: places.origin,
            travellers: party.filter(|_| is_journey),
            people: group.or(party.filter(|_| !is_journey)),
            counts,
            at_most: limits.at_most,
            at_least: limits.at_least,
            exclusions,
            inclusions,
            formats,
            languages: languages.to,
            source_language: languages.from,
            options: topic::options(text),
            subtasks: subtasks.items,
            subtasks_in_order: subtasks.in_order,
            topic: topic::read(text),
            dataset: topic::dataset(text),
            files: file::read(text.source),
            subject: request::subject(text),
            request: request::read(text),
            assumed: assumed.into_iter().collect(),
            unread,
            details: Vec::new(),
        };
        let lists = [&facts.subtasks, &facts.options, &facts.files, &facts.inclusions, &facts.exclusions];
        let known: Vec<&str> = lists.into_iter().flatten().chain(&facts.dataset).map(String::as_str).collect();
        facts.details = detail::read(text, request, &known);
        facts
    }

    /// The facts by name, with whole amounts as whole numbers.
    pub fn by_name(&self) -> Map<String, Value> {
        let Ok(Value::Object(mut facts)) = serde_json::to_value(self) else { return Map::new() };
        for money in ["budget", "rate"] {
            let Some(fields) = facts.get_mut(money).and_then(Value::as_object_mut) else { continue };
            for amount in ["amount", "amount_min"] {
                if let Some(held) = fields.get_mut(amount) {
                    *held = held.as_f64().map_or(Value::Null, number);
                }
            }
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

/// The budget and the rate. A budget per head or day becomes one for all, where the text says how many.
fn budget(text: &Text, people: Option<u32>, duration: Option<Duration>) -> (Option<Money>, Option<Rate>) {
    let Some((mut money, per)) = money::read(text) else { return (None, money::rate(text)) };
    let factor = match per {
        money::Per::Whole => Some(1),
        money::Per::Person => people.or_else(|| count::only(text)).or(Some(1)),
        money::Per::Day => duration.map(|stay| stay.days),
        money::Per::Other => None,
    };
    let Some(factor) = factor else {
        let rate =
            Rate { amount: money.amount, amount_min: money.amount_min, currency: money.currency, per: "day".into() };
        return (None, Some(rate));
    };
    money.amount *= f64::from(factor);
    money.amount_min = money.amount_min.map(|low| low * f64::from(factor));
    (Some(money), money::rate(text))
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
    fn a_negated_limit_is_no_exclusion() {
        let found = facts("Write the summary, don't make it longer than 3 pages", json!({}));
        assert_eq!(found, json!({"at_most": {"pages": 3}}));
        let found = facts("Find a connection, no flights with more than one stop", json!({}));
        let expected = json!({"at_most": {"stops": 1}, "details": ["no flights with more than one stop"]});
        assert_eq!(found, expected);
        let found = facts("Get a sofa. We can't spend more than 2k pounds, don't go over it", json!({}));
        assert_eq!(found["budget"], json!({"amount": 2000, "currency": "GBP"}));
    }

    #[test]
    fn inclusions_and_files_are_requirements() {
        let text = "Check the lease (lease.pdf), a summary is a must";
        let constraints = json!({"include": ["a list of risks"]}).as_object().cloned().unwrap_or_default();
        let of_text = Facts::read(&Goal { description: text.into(), ..Goal::default() }, NOW_MS);
        assert_eq!(
            of_text.requirements(),
            *json!({"inclusions": ["summary"], "files": ["lease.pdf"]}).as_object().expect("it is an object")
        );
        assert!(of_text.criteria().contains(&"included: summary".to_owned()));
        let goal = Goal { description: text.into(), constraints, ..Goal::default() };
        assert_eq!(Facts::read(&goal, NOW_MS).inclusions, ["a list of risks"]);
    }

    #[test]
    fn a_date_that_is_ruled_out_is_an_exclusion() {
        for (text, expected) in [
            ("Schedule the interviews, not on Wednesday", "Wednesday"),
            ("Paint the hall, except in August", "in August"),
            ("Find a slot for the call, but not on 24 December", "24 December"),
        ] {
            assert_eq!(facts(text, json!({})), json!({"exclusions": [expected]}), "{text}");
        }
    }

    #[test]
    fn the_dates_give_the_duration() {
        assert_eq!(facts("trip to Rome from May 3 to May 6", json!({}))["duration"], json!({"days": 4, "nights": 3}));
        for text in
            ["Hold the review next week", "Hold the review in the second week of March", "Launch the shop in Q2"]
        {
            let found = facts(text, json!({}));
            assert_eq!((found["start"].is_string(), &found["duration"]), (true, &Value::Null), "{text}");
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
        ] {
            facts(text, json!({}));
        }
        facts(&"ß".repeat(20_000), json!({}));
        facts(&"9-".repeat(20_000), json!({}));
        facts(&"twenty and ".repeat(5_000), json!({}));
    }
}

//! Reads the text of a goal by a language model, into the structured fields of the goal.
//!
//! Nothing is kept that the text does not state: a value stands in it word for word, or is the same amount, duration,
//! date or count as a few words of it. A field that the goal states itself always wins.

use std::collections::BTreeSet;
use std::ops::Range;

use goalmill_common::clock::rfc3339;
use goalmill_common::constraint::{Constraint, ConstraintValue, Measure, NOTES, constraints, parse_value};
use goalmill_common::criterion::Criterion;
use goalmill_common::event::{GoalChanged, ModelAsked};
use goalmill_common::goal::Goal;
use goalmill_common::problem::Issue;
use goalmill_common::text::pointer_part;
use goalmill_llm::{Purpose, ResponseFormat};
use goalmill_reader::ToolCatalogue;
use serde_json::{Map, Value, json};

use super::parse_answer::{self, ParsedAnswer};
use super::repair_loop::RepairLoop;
use super::{LlmDeps, day, goal_context};
use crate::PlanRequest;
use crate::extraction::day_of_words;

/// Most entries of each list of an answer.
const ENTRIES_MAX: usize = 16;
/// Characters of a name.
const NAME_CHARS_MAX: usize = 48;
/// Characters of a value.
const VALUE_CHARS_MAX: usize = 300;
/// Words of the text that may say an amount, a duration or a date.
const AMOUNT_WORDS_MAX: usize = 4;

/// What a model read in the text of a goal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GoalReading {
    /// The fields of the goal from now on; none when nothing was read.
    pub changed: Option<GoalChanged>,
    /// What was dropped, and why.
    pub notes: Vec<Issue>,
}

/// Asks a model once. Without an answer that can be read there are no fields, and a note says why.
pub(crate) async fn read_goal(deps: &LlmDeps, request: &PlanRequest) -> GoalReading {
    let goal = &request.goal;
    if deps.models.is_empty() {
        return unread("no model is configured");
    }
    let context = json!({"goal": goal_context(goal), "today": day(request.now_ms)});
    let prompt = match deps.prompts.render("goal", &context) {
        Ok(prompt) => prompt,
        Err(error) => return unread(&error.to_string()),
    };
    let (asks, planning) = (ModelAsked::GOAL_READER, &goal.planning);
    let mut repair_loop = RepairLoop::new(deps, &request.call_log, asks, &goal.budget, Purpose::Plan, planning);
    let limit = repair_loop.halve();
    let want = ResponseFormat::Json { name: "goal".into(), schema: schema().into() };
    let question = repair_loop.question(&prompt, want, Purpose::Plan);
    let answered = tokio::time::timeout(limit, repair_loop.complete(&prompt, &question)).await;
    request.call_log.close().await;
    let answer = match answered {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return unread(&error.to_string()),
        Err(_) => return unread(&format!("no answer within {} ms", limit.as_millis())),
    };
    match parse_answer::value(answer.content(), &ToolCatalogue::default(), answer.is_truncated()) {
        ParsedAnswer::Complete { value: Value::Object(fields), .. } => {
            let mut reading = StatedFields::new(goal, request.now_ms);
            reading.take_stated(&fields);
            reading.finish(answer.model)
        }
        ParsedAnswer::Complete { .. } => unread("the answer of the model has no fields"),
        ParsedAnswer::Truncated { .. } => unread("the answer of the model was cut"),
        ParsedAnswer::Unparseable { reason } => unread(&format!("the answer of the model cannot be read: {reason}")),
    }
}

fn unread(reason: &str) -> GoalReading {
    let note = Issue {
        code: "GOAL_NOT_READ".into(),
        pointer: "/description".into(),
        detail: format!("no model read the text of the goal: {reason}"),
        hint: "state the terms in `constraints`, `success_criteria` and `deadline`".into(),
    };
    GoalReading { changed: None, notes: vec![note] }
}

/// The fields of a goal, and those of an answer that its text states.
struct StatedFields<'a> {
    goal: &'a Goal,
    now_ms: u64,
    text: GoalText,
    fields: GoalChanged,
    notes: Vec<Issue>,
}

impl<'a> StatedFields<'a> {
    fn new(goal: &'a Goal, now_ms: u64) -> Self {
        let text = GoalText::new(&goal.description);
        Self { goal, now_ms, text, fields: GoalChanged::from_goal(goal), notes: Vec::new() }
    }

    fn take_stated(&mut self, answer: &Map<String, Value>) {
        for (name, value) in entries(answer.get("constraints")) {
            self.take_constraint(&name, value);
        }
        self.take_criteria(answer.get("success_criteria"));
        if let Some(deadline) = answer.get("deadline").and_then(text_of).filter(|text| !text.is_empty()) {
            self.take_deadline(&deadline);
        }
        for (name, value) in entries(answer.get("inputs")) {
            self.take_input(&name, value);
        }
    }

    fn take_constraint(&mut self, name: &str, value: Value) {
        let pointer = format!("/constraints/{}", pointer_part(name));
        let Some(value) = self.stated(name, &value, &pointer) else { return };
        let read = measures(&Map::from_iter([(name.to_owned(), value.clone())]));
        let given = measures(&self.goal.constraints);
        if name == NOTES {
            self.drop_field(&pointer, "a reading has no sentences for planners");
        } else if let Some(own) = self.goal.constraints.get(name) {
            self.keep_given(&pointer, own, &value);
        } else if read.iter().any(|measure| given.contains(measure)) || self.is_budgeted(&read) {
            self.drop_field(&pointer, "the goal states this limit under another name");
        } else if self.fields.constraints.insert(name.to_owned(), value).is_none() {
            self.fields.read.push(pointer);
        }
    }

    /// Whether the budget of the goal limits one of these.
    fn is_budgeted(&self, measures: &[Measure]) -> bool {
        let budget = &self.goal.budget;
        measures.iter().any(|measure| match measure {
            Measure::Tokens => budget.tokens.is_some(),
            Measure::Elapsed => budget.seconds.is_some(),
            Measure::Deadline => self.goal.deadline_ms.is_some(),
            Measure::Cost(_) | Measure::Named(_) => false,
        })
    }

    fn take_criteria(&mut self, listed: Option<&Value>) {
        let listed = listed.and_then(Value::as_array).into_iter().flatten().filter_map(text_of);
        let listed: Vec<String> = listed.filter(|text| !text.is_empty()).take(ENTRIES_MAX).collect();
        if !listed.is_empty() && !self.goal.success_criteria.is_empty() {
            return self.drop_field("/success_criteria", "the goal has criteria of its own");
        }
        for criterion in listed {
            let pointer = format!("/success_criteria/{}", self.fields.success_criteria.len());
            if !self.text.has(&criterion) {
                let reason = format!("`{}` does not stand in the text of the goal", shorten(&criterion));
                self.drop_field(&pointer, &reason);
            } else if self.fields.success_criteria.iter().all(|own| own.text() != criterion) {
                self.fields.success_criteria.push(Criterion::from(criterion));
                self.fields.read.push(pointer);
            }
        }
    }

    /// A deadline is a day that is computed here from the words of the text.
    fn take_deadline(&mut self, words: &str) {
        let pointer = "/deadline";
        if !self.text.has(words) {
            let reason = format!("`{}` does not stand in the text of the goal", shorten(words));
            return self.drop_field(pointer, &reason);
        }
        let Some(deadline_ms) = self.end_of(words) else {
            let reason = format!("`{}` is not one certain day", shorten(words));
            return self.drop_field(pointer, &reason);
        };
        let is_given = measures(&self.goal.constraints).contains(&Measure::Deadline);
        if let Some(own) = self.goal.deadline_ms {
            self.keep_given(pointer, &rfc3339(own).into(), &rfc3339(deadline_ms).into());
        } else if is_given {
            self.drop_field(pointer, "the goal states a deadline in its constraints");
        } else if deadline_ms <= self.now_ms {
            self.drop_field(pointer, &format!("`{}` has passed", shorten(words)));
        } else {
            self.fields.deadline_ms = Some(deadline_ms);
            self.fields.read.push(pointer.into());
        }
    }

    /// The end of the day that the words name, Unix milliseconds: `by 3 May`, `before 2027-05-06`.
    fn end_of(&self, words: &str) -> Option<u64> {
        let words = words.trim();
        let (lead, named) = words.split_once(' ').unwrap_or_default();
        let lead = lead.to_lowercase();
        let is_led = ["by", "before", "until", "due", "on"].contains(&lead.as_str());
        let day = day_of_words(if is_led { named } else { words }, self.now_ms);
        let day = if lead == "before" { day.and_then(|day| day.yesterday().ok()) } else { day };
        let day = day.map_or_else(|| words.to_owned(), |day| day.to_string());
        if let ConstraintValue::Date(ms) = parse_value("deadline", &day.into()).0 { Some(ms) } else { None }
    }

    fn take_input(&mut self, name: &str, value: Value) {
        let pointer = format!("/inputs/{}", pointer_part(name));
        let Some(value) = self.stated(name, &value, &pointer) else { return };
        if let Some(own) = self.goal.context.inputs.get(name) {
            self.keep_given(&pointer, own, &value);
        } else if self.fields.inputs.insert(name.to_owned(), value).is_none() {
            self.fields.read.push(pointer);
        }
    }

    /// The value, if its name can be used and the text states it.
    fn stated(&mut self, name: &str, value: &Value, pointer: &str) -> Option<Value> {
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_word) {
            self.drop_field(pointer, "the name is not a short word");
            return None;
        }
        let text = text_of(value).filter(|text| !text.is_empty())?;
        if text.chars().count() > VALUE_CHARS_MAX || !self.text.states(name, &text) {
            self.drop_field(pointer, &format!("`{}` does not stand in the text of the goal", shorten(&text)));
            return None;
        }
        let measured = measures(&Map::from_iter([(name.to_owned(), text.clone().into())]));
        if measured.iter().all(|measure| self.text.limits(name, &text, measure)) {
            return Some(if value.is_number() { value.clone() } else { text.into() });
        }
        self.drop_field(pointer, &format!("no word near `{}` makes it a limit", shorten(&text)));
        None
    }

    /// Notes that the text contradicts a field of the goal.
    fn keep_given(&mut self, pointer: &str, own: &Value, read: &Value) {
        if own != read {
            let reason =
                format!("the goal states `{}`, which wins over `{}`", shorten(&words(own)), shorten(&words(read)));
            self.drop_field(pointer, &reason);
        }
    }

    fn drop_field(&mut self, pointer: &str, reason: &str) {
        self.notes.push(Issue {
            code: "GOAL_FIELD_DROPPED".into(),
            pointer: pointer.into(),
            detail: format!("what a model read for `{}` was dropped: {reason}", pointer.trim_start_matches('/')),
            hint: "state the field in the goal if it is meant".into(),
        });
    }

    fn finish(self, model: String) -> GoalReading {
        let changed = (!self.fields.read.is_empty()).then_some(GoalChanged { model, ..self.fields });
        GoalReading { changed, notes: self.notes }
    }
}

/// What constraints limit.
fn measures(map: &Map<String, Value>) -> Vec<Measure> {
    constraints(map).iter().filter_map(Constraint::measure).collect()
}

/// The text of a goal, to look words up in.
struct GoalText {
    /// In lower case, with single spaces.
    plain: String,
    /// Words without punctuation around them; `3-day` is two.
    words: Vec<String>,
}

impl GoalText {
    fn new(text: &str) -> Self {
        let plain = plain(text);
        Self { words: words_of(&plain), plain }
    }

    /// Whether the words stand in the text, one after the other.
    fn has(&self, part: &str) -> bool {
        let part = plain(part);
        let part = part.trim_matches(PUNCTUATION);
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let ends = |at: usize| {
            let (before, after) = (self.plain[..at].chars().next_back(), self.plain[at + part.len()..].chars().next());
            let (first, last) = (part.chars().next(), part.chars().next_back());
            !((is_word(before) && is_word(first)) || (is_word(last) && is_word(after)))
        };
        !part.is_empty() && self.plain.match_indices(part).any(|(at, _)| ends(at))
    }

    /// Whether the text states the value of a constraint: word for word, or as the same amount in other words.
    fn states(&self, name: &str, value: &str) -> bool {
        if self.has(value) {
            return true;
        }
        let wanted = parse_value(name, &value.into()).0;
        if matches!(wanted, ConstraintValue::Text(_) | ConstraintValue::OneOf(_)) {
            return false;
        }
        self.places(name, &wanted).next().is_some()
    }

    /// The ranges of words that mean this value.
    fn places(&self, name: &str, wanted: &ConstraintValue) -> impl Iterator<Item = Range<usize>> {
        let ranges = (1..=AMOUNT_WORDS_MAX).flat_map(|length| (0..self.words.len()).map(move |at| at..at + length));
        let means = move |at: &Range<usize>| {
            self.words.get(at.clone()).is_some_and(|words| parse_value(name, &words.join(" ").into()).0 == *wanted)
        };
        ranges.filter(means)
    }

    /// Whether a word near the value makes it a limit of this measure; the measure of an agent needs none.
    fn limits(&self, name: &str, value: &str, measure: &Measure) -> bool {
        if matches!(measure, Measure::Named(_)) {
            return true;
        }
        let wanted = parse_value(name, &value.into()).0;
        let spelled = words_of(&plain(value));
        let length = spelled.len().max(1);
        let as_spelled = self
            .words
            .windows(length)
            .enumerate()
            .filter(|(_, words)| *words == spelled)
            .map(|(at, _)| at..at + length);
        let is_limit = |at: Range<usize>| {
            let before = &self.words[at.start.saturating_sub(WORDS_BEFORE)..at.start];
            let behind = &self.words[at.end..self.words.len().min(at.end + WORDS_BEHIND)];
            let leads =
                |word: &String| LIMIT_WORDS.contains(&word.as_str()) || limit_words(measure).contains(&word.as_str());
            let is_amount = !matches!(measure, Measure::Cost(_)) || !is_year(&self.words[at]);
            is_amount
                && (before.iter().any(leads) || behind.iter().any(|word| LIMIT_WORDS_BEHIND.contains(&word.as_str())))
        };
        self.places(name, &wanted).chain(as_spelled).any(is_limit)
    }
}

/// Words before and behind an amount that may make it a limit.
const WORDS_BEFORE: usize = 4;
const WORDS_BEHIND: usize = 3;
/// Words before an amount that make it a limit of whatever it measures.
const LIMIT_WORDS: [&str; 11] =
    ["under", "below", "within", "most", "max", "maximum", "limit", "limited", "than", "exceed", "exceeding"];
/// Words behind an amount that make it a limit.
const LIMIT_WORDS_BEHIND: [&str; 7] = ["budget", "max", "maximum", "most", "limit", "less", "total"];

/// Words before an amount that make it a limit of this measure.
fn limit_words(measure: &Measure) -> &'static [&'static str] {
    match measure {
        Measure::Cost(_) => &["budget", "cost", "costs", "spend", "spending", "price", "pay", "to"],
        Measure::Tokens => &["tokens", "token"],
        Measure::Elapsed => &["time", "take", "takes", "in", "finish", "done"],
        Measure::Deadline => &["by", "before", "until", "due", "deadline", "latest"],
        Measure::Named(_) => &[],
    }
}

/// Whether words are the number of a year, which is no amount of money.
fn is_year(words: &[String]) -> bool {
    matches!(words, [year] if year.len() == 4 && (year.starts_with("19") || year.starts_with("20")) && year.parse::<u16>().is_ok())
}

/// What stands around words and is none of their meaning.
const PUNCTUATION: [char; 14] = ['.', ',', ';', ':', '!', '?', '"', '\'', '(', ')', '`', '“', '”', ' '];

fn words_of(plain: &str) -> Vec<String> {
    let words = plain.split([' ', '-', '–', '/']).map(|word| word.trim_matches(PUNCTUATION).to_owned());
    words.filter(|word| !word.is_empty()).collect()
}

fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// The entries of a list of `{name, value}`, or of an object, with names in lower case.
fn entries(listed: Option<&Value>) -> Vec<(String, Value)> {
    let named = |name: &str, value: &Value| {
        let name = name.trim().to_lowercase().replace([' ', '-'], "_");
        (name, value.clone())
    };
    let all: Vec<(String, Value)> = match listed {
        Some(Value::Array(items)) => {
            items.iter().filter_map(|item| Some(named(item.get("name")?.as_str()?, item.get("value")?))).collect()
        }
        Some(Value::Object(map)) => map.iter().map(|(name, value)| named(name, value)).collect(),
        _ => Vec::new(),
    };
    let mut seen = BTreeSet::new();
    all.into_iter().filter(|(name, _)| seen.insert(name.clone())).take(ENTRIES_MAX).collect()
}

/// A text, or a number as one.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn shorten(text: &str) -> String {
    let short: String = text.chars().take(80).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

/// The fields of a goal that its text may state; every value is a text, because it is copied from the goal.
fn schema() -> Value {
    let text = json!({"type": "string"});
    let named = json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"name": text, "value": text},
            "required": ["name", "value"],
            "additionalProperties": false,
        },
    });
    json!({
        "type": "object",
        "properties": {
            "constraints": named,
            "success_criteria": {"type": "array", "items": text},
            "deadline": text,
            "inputs": named,
        },
        "required": ["constraints", "success_criteria", "deadline", "inputs"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_a_limit_if_a_word_near_it_says_so() {
        for (text, name, value, is_limit) in [
            ("Plan a trip under $2,000", "budget", "$2,000", true),
            ("Plan a trip with a $2000 budget", "budget", "2000 USD", true),
            ("Have it done in 2 hours", "max_time", "2 hours", true),
            ("Ship it by 2027-05-03", "deadline", "2027-05-03", true),
            ("Arrange 45-minute interviews with three people", "max_time", "45 minutes", false),
            ("Draft the 2027 budget", "budget", "2027", false),
            ("Sell the piano for 700 EUR", "budget", "700 EUR", false),
            ("Summarise what was said on 2027-05-03", "deadline", "2027-05-03", false),
        ] {
            let measured = measures(&Map::from_iter([(name.to_owned(), value.into())]));
            let [measure] = measured.as_slice() else { panic!("`{name}` is measured once: {measured:?}") };
            assert_eq!(GoalText::new(text).limits(name, value, measure), is_limit, "{text}");
        }
    }

    #[test]
    fn a_value_stands_in_the_text_or_is_the_same_amount() {
        let text = GoalText::new("Plan a 3-day trip to Paris in May, by train, for under $2,000 and within 2 hours");
        for (name, value) in [
            ("destination", "Paris"),
            ("budget", "$2,000"),
            ("budget", "2000 USD"),
            ("transport", "by train."),
            ("max_time", "2 hours"),
            ("duration", "3 days"),
            ("days", "3"),
        ] {
            assert!(text.states(name, value), "{name}: {value}");
        }
        for (name, value) in [
            ("destination", "Par"),
            ("destination", "Rome"),
            ("budget", "2000 EUR"),
            ("budget", "1500 USD"),
            ("start", "3 May"),
            ("travellers", "2000 people"),
            ("month", ""),
        ] {
            assert!(!text.states(name, value), "{name}: {value}");
        }
    }
}

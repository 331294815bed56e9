//! Extracts how often something is done: `every Monday`, `four times a week`, `each morning`, `…, weekly`.

use super::relative_date::weekday_at;
use super::words::{Text, WordKind};

/// The first recurrence, as it stands in the text.
pub(super) fn read(text: &Text) -> Option<String> {
    let (from, to) = (0..text.words.len()).find_map(|at| {
        let next = dated(text, at)
            .or_else(|| every(text, at))
            .or_else(|| plural_days(text, at))
            .or_else(|| times(text, at))
            .or_else(|| adverb(text, at))
            .or_else(|| issue(text, at))?;
        Some((at, next))
    })?;
    text.note_constraint(from, to);
    Some(text.between(from, to).to_owned())
}

/// `on the first Monday of every month`, `on the 1st of each month`
fn dated(text: &Text, at: usize) -> Option<usize> {
    (matches!(text.lower(at), "on" | "at") && text.lower(at + 1) == "the").then_some(())?;
    let of = (at + 2..at + 6).find(|i| text.lower(*i) == "of")?;
    let is_many = matches!(text.lower(of + 1), "every" | "each");
    (is_many && is_period(text.lower(of + 2))).then_some(of + 3)
}

/// `on Mondays and Fridays`, `on weekdays`
fn plural_days(text: &Text, at: usize) -> Option<usize> {
    let is_days = |i: usize| {
        let day = text.lower(i).strip_suffix('s').unwrap_or_default();
        let names =
            ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "weekday", "weekend"];
        names.contains(&day)
    };
    let is_negated = matches!(text.before(at, 1), "not" | "never" | "except");
    (text.lower(at) == "on" && is_days(at + 1) && !is_negated && text.negation_before(at).is_none()).then_some(())?;
    let mut next = at + 2;
    while matches!(text.lower(next), "and" | ",") && is_days(next + 1) {
        next += 2;
    }
    Some(next)
}

/// `every Monday`, `every other week`, `every 30 seconds`, `each morning`: the index after it.
fn every(text: &Text, at: usize) -> Option<usize> {
    let is_each = text.lower(at) == "each";
    (is_each || text.lower(at) == "every").then_some(())?;
    let mut next = at + 1;
    if ["other", "second", "third", "single", "working", "first", "last"].contains(&text.lower(next)) {
        next += 1;
    } else if let Some(number) = text.number(next) {
        next = number.next;
    }
    let is_unit = is_period(text.lower(next)) || is_small_unit(text.lower(next)) && !is_each;
    (is_unit || weekday_at(text, next).is_some()).then_some(())?;
    next += 1;
    // `every first Monday of the month`
    if text.lower(next) == "of" && text.lower(next + 1) == "the" && is_period(text.lower(next + 2)) {
        return Some(next + 3);
    }
    while matches!(text.lower(next), "and" | "," | "or")
        && weekday_at(text, next + 1).is_some()
        && weekday_at(text, next - 1).is_some()
    {
        next += 2;
    }
    Some(next)
}

/// `once a month`, `four times per week`, `three a day`.
fn times(text: &Text, at: usize) -> Option<usize> {
    if is_bounded(text, at) {
        return None;
    }
    let is_free = at == 0 || !matches!(text.words[at - 1].kind, WordKind::Sign) || !text.words[at].glued;
    let next = match text.lower(at) {
        "once" | "twice" => at + 1,
        _ => text
            .number(at)
            .filter(|n| is_free && n.value <= TIMES_MAX && !text.is_constraint(at))
            .map(|number| number.next)?,
    };
    let next = next + usize::from(matches!(text.lower(next), "times" | "x"));
    // `three short sessions a week`
    let is_noun = |i: &usize| !matches!(text.lower(*i), "a" | "per" | "each" | "every");
    let unit = (next..next + 2).take_while(is_noun).find(|i| UNITS.contains(&text.lower(*i).trim_end_matches('s')));
    let next = unit.map_or(next, |unit| unit + 1);
    let per = matches!(text.lower(next), "a" | "per" | "each" | "every");
    (per && is_period(text.lower(next + 1))).then_some(next + 2)
}

/// `no more than 5 days a week`, `at most twice a month`: an upper limit, for [`super::limit`] to read.
fn is_bounded(text: &Text, at: usize) -> bool {
    match text.before(at, 1) {
        "than" => matches!(text.before(at, 2), "more" | "longer"),
        "most" => matches!(text.before(at, 2), "at" | "the"),
        "to" => text.before(at, 2) == "up",
        word => matches!(word, "max" | "maximum" | "exceed"),
    }
}

/// `send it weekly`: at the end of a clause; before a noun it tells which thing is meant.
fn adverb(text: &Text, at: usize) -> Option<usize> {
    let ends = text.get(at + 1).is_none_or(|next| next.kind == WordKind::Sign && !next.glued || next.lower == ",");
    let ends = ends || text.ends_sentence(at + 1) || is_timed(text, at + 1);
    let is_adverb = [
        "hourly", "daily", "nightly", "weekly", "fortnightly", "biweekly", "monthly", "quarterly", "yearly", "annually",
    ]
    .contains(&text.lower(at));
    (is_adverb && ends && at > 0).then_some(at + 1)
}

/// `our choir needs a monthly newsletter`, `send me a weekly summary`: what comes out again and again.
fn issue(text: &Text, at: usize) -> Option<usize> {
    let is_adverb = ["daily", "weekly", "fortnightly", "biweekly", "monthly", "quarterly"].contains(&text.lower(at));
    let is_document = |i: usize| {
        [
            "newsletter", "report", "summary", "digest", "update", "bulletin", "overview", "roundup", "backup",
            "reminder", "call", "meeting", "session", "review", "workshop", "check", "lunch", "stand",
        ]
        .contains(&text.lower(i))
    };
    let is_new = matches!(text.before(at, 1), "a" | "an");
    let is_wanted = text.clause_before(at, 5).any(|i| {
        [
            "needs", "need", "send", "want", "wants", "publish", "start", "get", "email", "mail", "like", "set",
            "schedule", "organise", "organize", "hold", "arrange", "run",
        ]
        .contains(&text.lower(i))
    });
    (is_adverb && is_new && is_wanted && (at + 1..at + 6).take_while(|i| !text.ends_sentence(*i)).any(is_document))
        .then_some(at + 1)
}

/// `at 2am`, `by noon`, `on Mondays`: when, after how often.
fn is_timed(text: &Text, at: usize) -> bool {
    let when = text.get(at + 1);
    match text.lower(at) {
        "at" | "by" | "before" | "after" => when.is_some_and(|when| {
            matches!(when.kind, WordKind::Number(_)) || matches!(when.lower.as_str(), "noon" | "midnight" | "midday")
        }),
        "on" => when.is_some(),
        _ => false,
    }
}

/// Most times in a period that are taken for a recurrence.
const TIMES_MAX: f64 = 50.0;

/// What is done so many times: `three sessions a week`; not `ten orders a day`, which are counted.
const UNITS: &[&str] = &[
    "session", "run", "lesson", "clas", "classe", "meeting", "workout", "post", "article", "newsletter", "video",
    "call", "training", "walk", "visit", "evening", "morning", "afternoon", "day", "night", "meal", "episode",
    "update", "report", "dinner", "swim", "ride", "hike", "shift", "tweet",
];

pub(super) fn is_period(word: &str) -> bool {
    [
        "day", "days", "week", "weeks", "month", "months", "quarter", "year", "morning", "afternoon", "evening",
        "night", "weekday", "weekend", "fortnight",
    ]
    .contains(&word)
}

pub(super) fn is_small_unit(word: &str) -> bool {
    matches!(word, "hour" | "hours" | "minute" | "minutes" | "second" | "seconds")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recurrences_are_read_in_many_spellings() {
        for (text, expected) in [
            ("Every Monday at 8am send the sales", Some("Every Monday")),
            ("refresh it every 30 seconds", Some("every 30 seconds")),
            ("a call every other week", Some("every other week")),
            ("water them each morning", Some("each morning")),
            ("I can run four times a week", Some("four times a week")),
            ("once a month, on Fridays", Some("once a month")),
            ("send the report weekly.", Some("weekly")),
            ("run it nightly at 2am", Some("nightly")),
            ("send it weekly on Mondays", Some("weekly")),
            ("a weekly report", None),
            ("list every clause", None),
            ("each member gets one", None),
            ("$5 a day", None),
            ("45 minutes a day", None),
        ] {
            assert_eq!(read(&Text::new(text)).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn recurrences_are_read_as_people_write_them() {
        super::super::phrases::check(PHRASES, |facts| facts.recurrence.clone().unwrap_or_default());
    }

    const PHRASES: &[(&str, &str)] = &[
        ("Set up a monthly one-hour call with the Singapore office", "monthly"),
        ("Our choir needs a monthly newsletter", "monthly"),
        ("Send me a weekly summary of the sales", "weekly"),
        ("Fix the bug in a weekly report", ""),
        ("Nobody should work more than 5 days a week", ""),
        ("Post at most twice a week", ""),
        ("Train at least three times a week", "three times a week"),
        ("Water the plants every Monday", "every Monday"),
        ("Send it every Tuesday and Thursday", "every Tuesday and Thursday"),
        ("Post the menu on Mondays", "on Mondays"),
        ("Give lessons on Mondays and Fridays", "on Mondays and Fridays"),
        ("Send the bill each month", "each month"),
        ("I can train twice a week", "twice a week"),
        ("A training plan, three sessions a week", "three sessions a week"),
        ("Walk the dog once a day", "once a day"),
        ("Run the export daily at 8am", "daily"),
        ("Clean the tank every two weeks", "every two weeks"),
        ("Take the bins out every second Friday", "every second Friday"),
        ("Hold a meeting on the first Monday of every month", "on the first Monday of every month"),
        ("Report the figures monthly", "monthly"),
        ("Write six posts, one a week", "one a week"),
        ("Write one post a week", "one post a week"),
        ("A sitter for two evenings per week", "two evenings per week"),
        ("Open the shop on weekdays", "on weekdays"),
        ("Send me a joke every morning", "every morning"),
        ("Check the boiler quarterly", "quarterly"),
        ("Service the car every 6 months", "every 6 months"),
        ("Pay the staff fortnightly", "fortnightly"),
        ("Take a photo every other day", "every other day"),
        ("Pay the rent on the 1st of each month", "on the 1st of each month"),
        ("I can run 3x a week", "3x a week"),
        ("Teach five days a week", "five days a week"),
        ("Call every customer", ""),
        ("Summarise each chapter", ""),
        ("Practise 45 minutes a day", ""),
        ("Spend $5 a day", ""),
        ("10 orders a day come in, find out why", ""),
        ("Design a weekly magazine", ""),
        ("Cancel the daily newspaper", ""),
        ("Drive 60 km per hour", ""),
        ("Let in 15 people per hour", ""),
        ("Merge it once the tests pass", ""),
        ("Make it twice as fast", ""),
    ];
}

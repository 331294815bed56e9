//! Extracts durations: `3-day`, `two weeks`, `a weekend`.

use goalmill_common::number::{to_u32, whole_u64};
use serde::Serialize;

use super::date_role::is_over_the_last;
use super::people::is_person;
use super::subtask::is_bullet;
use super::time::is_told_length;
use super::words::{Text, WordKind};

/// A stay. Three days have three nights here unless the text counts the nights itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Duration {
    pub days: u32,
    pub nights: u32,
}

/// Longest stay that is taken for one.
const DAYS_MAX: f64 = 366.0;

/// Finds the first duration of a day or longer.
pub(super) fn read(text: &Text) -> Option<Duration> {
    (0..text.words.len())
        .filter(|at| !text.is_quoted(*at))
        .find_map(|at| counted(text, at).or_else(|| single(text, at)))
}

/// `3-day`, `two weeks`, `5 nights`, `a couple of days`.
fn counted(text: &Text, at: usize) -> Option<Duration> {
    let word = text.get(at)?;
    let inside = at > 0 && word.glued && text.words[at - 1].kind != WordKind::Sign;
    if inside || text.is_constraint(at) || is_point_in_time(text, at) {
        return None;
    }
    let (value, mut next) = match (text.lower(at), text.lower(at + 1), text.lower(at + 2)) {
        ("couple", "of", _) => (2.0, at + 2),
        ("few", _, _) => (3.0, at + 1),
        _ => text.number(at).map(|q| (q.value, q.next))?,
    };
    if text.lower(next) == "-" {
        next += 1;
    }
    if matches!(text.lower(next), "full" | "whole" | "long" | "short") {
        next += 1;
    }
    let unit = text.lower(next);
    let is_other = text.is_in_condition(at)
        || is_term(text, at)
        || is_rate_or_age(text, next + 1)
        || is_kept(text, at, next + 1)
        || is_told_length(text, at);
    // `two night nurses`
    let names_shift = unit == "night"
        && value > 1.0
        && (is_person(text.lower(next + 1)) || text.lower(next + 1).starts_with("shift"));
    if is_other || names_shift || is_bullet(text, at) {
        return None;
    }
    let nights = matches!(unit, "night" | "nights");
    let days = value * unit_days(unit)?;
    (1.0..=DAYS_MAX).contains(&days).then_some(())?;
    // Parts of a day are rounded up.
    let days = to_u32(whole_u64(days.ceil()));
    let nights = if nights { days } else { nights_named(text, next + 1).unwrap_or(days) };
    text.note(at, next + 1, super::words::Use::Fact);
    Some(Duration { days, nights })
}

/// `our notice period is three months`
fn is_term(text: &Text, at: usize) -> bool {
    text.before(at, 1) == "for" && text.before(at, 2) == "valid"
        || text.before(at, 1) == "is" && ["period", "notice", "warranty", "term", "lead"].contains(&text.before(at, 2))
}

/// `keep 30 days of history`: how much of it, not how long it takes.
fn is_kept(text: &Text, at: usize, next: usize) -> bool {
    let keeps = ["keep", "keeping", "retain", "retaining", "store", "storing", "hold", "retention"]
        .contains(&text.before(at, 1));
    let is_record = [
        "history", "logs", "data", "backups", "records", "sales", "footage", "downtime", "retention", "notice", "leave",
    ]
    .contains(&text.lower(next + 1));
    keeps || text.lower(next) == "of" && is_record
}

/// `3 days and 2 nights`, `3 days/2 nights`.
fn nights_named(text: &Text, mut at: usize) -> Option<u32> {
    if matches!(text.lower(at), "and" | "/" | "," | "(") {
        at += 1;
    }
    let number = text.number(at)?;
    (matches!(text.lower(number.next), "night" | "nights") && (1.0..=DAYS_MAX).contains(&number.value)).then_some(())?;
    Some(to_u32(whole_u64(number.value)))
}

/// `a weekend`, `a week in Rome`, `week-long`, `a fortnight`.
fn single(text: &Text, at: usize) -> Option<Duration> {
    let days = match text.lower(at) {
        "weekend" if matches!(text.before(at, 1), "this" | "next" | "last" | "every") => {
            if is_point_in_time(text, at) || text.before(at, 1) != "this" && text.before(at, 1) != "next" {
                return None;
            }
            2
        }
        "weekend" if names_what(text, at + 1) || is_over_the_last(text, at) => return None,
        "weekend" => 2 + u32::from(text.before(at, 1) == "long"),
        "fortnight" if text.before(at, 1) == "a" => 14,
        "weeklong" => 7,
        "week" if text.lower(at + 1) == "-" && text.lower(at + 2) == "long" => 7,
        "month" if text.lower(at + 1) == "-" && text.lower(at + 2) == "long" => 30,
        "week" | "day" | "month" if is_one(text, at) => match text.lower(at) {
            "week" => 7,
            "month" => 30,
            _ => 1,
        },
        _ => return None,
    };
    Some(Duration { days, nights: days })
}

/// `weekend shifts`, `a weekend babysitter`: which one, not how long.
fn names_what(text: &Text, at: usize) -> bool {
    let is_word = text.get(at).is_some_and(|word| word.kind == WordKind::Letters && !text.is_constraint(at));
    let is_stay = [
        "in", "trip", "trips", "away", "getaway", "break", "for", "to", "at", "on", "with", "without", "by", "near",
        "of", "outing", "retreat", "tour", "escape", "and", "or", "from", "around", "under", "before", "after",
        "between", "somewhere", "long", "city", "road", "hiking", "ski", "skiing", "camping", "camp", "family", "stay",
        "visit", "workshop", "course", "seminar", "festival", "party",
    ]
    .contains(&text.lower(at));
    is_word && !is_stay
}

/// Whether `a week` is a length, not a rate (`twice a week`) and not a date (`in a week`).
fn is_one(text: &Text, at: usize) -> bool {
    let (article, back) = match text.before(at, 1) {
        "whole" | "full" => (text.before(at, 2), 3),
        word => (word, 2),
    };
    let before = text.before(at, back);
    matches!(article, "a" | "one")
        && !is_rate_or_age(text, at + 1)
        && [
            "", ",", ".", "for", "plan", "spend", "spending", "over", "during", "of", "need", "want", "book", "have",
            "take", "about", "around", "with", "me", "us", "lasts", "lasting", "planning", "arrange", "organise",
            "organize",
        ]
        .contains(&before)
}

/// `in 3 days`, `last two weeks`, `every 3 days`, `day 3`: when, or how often, not how long.
fn is_point_in_time(text: &Text, at: usize) -> bool {
    let before = if text.before(at, 1) == "a" { text.before(at, 2) } else { text.before(at, 1) };
    ["in", "within", "last", "past", "previous", "every", "each", "than", "after"].contains(&before)
}

/// `3 days ago`, `5 days old`, `3 days per week`, `2 days' notice`, `30-day average`.
fn is_rate_or_age(text: &Text, mut at: usize) -> bool {
    if text.lower(at) == "-" || text.lower(at) == "'" || text.lower(at) == "’" {
        at += 1;
    }
    [
        "ago", "old", "per", "earlier", "later", "late", "early", "overdue", "behind", "beforehand", "apart", "notice",
        "before", "after", "average", "net", "money", "guarantee", "moving", "rolling", "warranty", "trial",
        "forecast", "deadline", "week",
    ]
    .contains(&text.lower(at))
}

fn unit_days(unit: &str) -> Option<f64> {
    match unit {
        "day" | "days" | "night" | "nights" => Some(1.0),
        "week" | "weeks" => Some(7.0),
        "weekend" | "weekends" => Some(2.0),
        "month" | "months" => Some(30.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(text: &str) -> Option<(u32, u32)> {
        read(&Text::new(text)).map(|d| (d.days, d.nights))
    }

    #[test]
    fn durations_are_read_in_many_spellings() {
        for (text, expected) in [
            ("Plan a 3-day trip to Paris in May with a $2000 budget", (3, 3)),
            ("a three day trip", (3, 3)),
            ("two weeks in Italy", (14, 14)),
            ("a weekend in Rome", (2, 2)),
            ("a long weekend", (3, 3)),
            ("next weekend in Rome", (2, 2)),
            ("for a week", (7, 7)),
            ("a week-long cruise", (7, 7)),
            ("spend a whole week in Oslo", (7, 7)),
            ("5 nights in Kyoto", (5, 5)),
            ("3 days and 2 nights", (3, 2)),
            ("3 days/2 nights", (3, 2)),
            ("a couple of days", (2, 2)),
            ("twenty-one days", (21, 21)),
            ("1.5 weeks", (11, 11)),
            ("for a fortnight", (14, 14)),
        ] {
            assert_eq!(days(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_times_are_no_duration() {
        for text in [
            "next week",
            "3 days ago",
            "orders arrive two days late",
            "three weeks overdue",
            "in 3 days",
            "twice a week",
            "a 3-day-old baby",
            "every 2 days",
            "last 7 days",
            "30-day moving average",
            "in a week",
            "within two days",
            "a 10-year bond",
            "in May",
            "500 days",
            "0 days",
            "3 daytime shows",
            "day 3",
            "sales of the past two weeks",
            "by end of day",
            "weekend shifts",
            "find a weekend babysitter",
            "keep 30 days of history",
            "the approval takes two weeks",
            "shorten the delivery to 3 days",
            "Onboard Ana:\n- draft a 30-day plan",
        ] {
            assert_eq!(days(text), None, "{text}");
        }
    }
}

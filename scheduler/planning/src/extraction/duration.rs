//! Reads how long a stay or an event is: `a 3-day trip`, `5 nights in Kyoto`, `a weekend in Rome`.

use goalmill_common::number::{to_u32, whole_u64};
use serde::Serialize;

use super::words::Text;

/// A stay. Three days have three nights here unless the text counts the nights itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Duration {
    pub days: u32,
    pub nights: u32,
}

/// Longest stay that is taken for one.
const DAYS_MAX: f64 = 366.0;

/// Whether the word names a journey or a stay somewhere.
pub(super) fn is_journey(word: &str) -> bool {
    JOURNEYS.contains(&word)
}

/// Whether the word names something that has a length.
pub(super) fn has_length(word: &str) -> bool {
    is_journey(word) || ["workshop", "course", "conference", "event", "festival", "sprint"].contains(&word)
}

const JOURNEYS: &[&str] = &[
    "trip", "holiday", "vacation", "tour", "visit", "stay", "break", "getaway", "journey", "retreat", "cruise", "hike",
    "honeymoon", "itinerary", "hotel", "weekend", "travel", "travelling", "traveling", "fly", "flying", "flight",
    "flights",
];

/// The first duration of a day or longer.
pub(super) fn read(text: &Text) -> Option<Duration> {
    text.open().find_map(|at| length_at(text, at))
}

/// Reads a length on its own, as a constraint of the goal has it: `3 days`, `two weeks`, `3 days, 2 nights`.
pub(super) fn read_alone(text: &Text) -> Option<Duration> {
    let (duration, _) = counted(text, 0)?;
    Some(duration)
}

fn length_at(text: &Text, at: usize) -> Option<Duration> {
    let (duration, next) = counted(text, at).or_else(|| single(text, at))?;
    let is_free = !(text.is_read(at) || text.is_glued(at) && at > text.clause_start(at));
    // `a 3-day business trip`
    let is_one_word = matches!(text.before(next, 1), "day" | "night" | "week" | "weekend");
    let is_of_a_stay = is_one_word && (next..next + 2).any(|i| has_length(text.lower(i)));
    // `5 days in Kyoto`
    let is_at_a_place = text.lower(next) == "in" && (text.is_capital(next + 1) || text.is_capital(next + 2));
    // `a trip for two weeks`, `a hotel for 2 nights`, `trip, 3 days`
    let first = at - usize::from(matches!(text.before(at, 1), "a" | "long"));
    let is_led = matches!(text.before(first, 1), "for" | "of") || first == text.clause_start(first);
    let is_behind_a_stay = is_led && (0..at).any(|i| !text.is_closed(i) && has_length(text.lower(i)));
    let is_point =
        ["in", "within", "last", "past", "every", "each", "than", "after", "next"].contains(&text.before(at, 1));
    let is_other = ["ago", "old", "late", "later", "per", "before", "after", "notice"].contains(&text.lower(next));
    let is_certain = is_free && !is_point && !is_other && (is_of_a_stay || is_at_a_place || is_behind_a_stay);
    is_certain.then(|| {
        text.mark(at, next);
        duration
    })
}

/// `3-day`, `two weeks`, `5 nights`, `3 days and 2 nights`, and the index after it.
fn counted(text: &Text, at: usize) -> Option<(Duration, usize)> {
    let (days, nights, next) = unit_at(text, at)?;
    let link = next + usize::from(matches!(text.lower(next), "and" | "/" | ","));
    let (nights, next) = match unit_at(text, link) {
        Some((more, true, next)) if !nights => (more, next),
        _ => (days, next),
    };
    Some((Duration { days, nights }, next))
}

/// A number of days, whether they are nights, and the index after the unit.
fn unit_at(text: &Text, at: usize) -> Option<(u32, bool, usize)> {
    let number = text.number(at)?;
    let unit = number.next + usize::from(text.lower(number.next) == "-");
    let (factor, nights) = match text.lower(unit) {
        "day" | "days" => (1.0, false),
        "night" | "nights" => (1.0, true),
        "week" | "weeks" => (7.0, false),
        _ => return None,
    };
    let days = number.value * factor;
    (days.fract() == 0.0 && (1.0..=DAYS_MAX).contains(&days)).then(|| (to_u32(whole_u64(days)), nights, unit + 1))
}

/// `a week`, `a weekend`, `a long weekend`, and the index after it.
fn single(text: &Text, at: usize) -> Option<(Duration, usize)> {
    let days = match text.lower(at) {
        "weekend" if matches!(text.before(at, 1), "a" | "long") => 2 + u32::from(text.before(at, 1) == "long"),
        "week" if text.before(at, 1) == "a" && matches!(text.before(at, 2), "" | "for" | "spend" | "plan" | "of") => 7,
        _ => return None,
    };
    Some((Duration { days, nights: days }, at + 1))
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
            ("a 3-day business trip", (3, 3)),
            ("two weeks in Italy", (14, 14)),
            ("a weekend in Rome", (2, 2)),
            ("a weekend trip", (2, 2)),
            ("a long weekend in Rome", (3, 3)),
            ("a trip for a week", (7, 7)),
            ("5 nights in Kyoto", (5, 5)),
            ("a trip, 3 days and 2 nights", (3, 2)),
            ("a trip of 3 days/2 nights", (3, 2)),
            ("a twenty-one-day tour", (21, 21)),
            ("find a hotel for 2 nights", (2, 2)),
            ("prepare the 2-week sprint", (14, 14)),
        ] {
            assert_eq!(days(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_times_are_no_duration() {
        for text in [
            "next week",
            "3 days ago",
            "a trip three weeks later",
            "a trip in 3 days",
            "twice a week",
            "a 3-day-old baby",
            "a trip every 2 days",
            "30-day moving average",
            "within two days",
            "no trip of more than 3 days",
            "a trip of no more than 3 days",
            "not a 3-day trip",
            "the site was down for 2 days",
            "keep 30 days of history",
            "the approval takes two weeks",
            "500 days in Rome",
            "0 days in Rome",
            "a trip of 1.5 weeks",
            "A 3-daytime show",
        ] {
            assert_eq!(days(text), None, "{text}");
        }
    }
}

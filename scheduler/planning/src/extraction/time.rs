//! Extracts times of day (`at 10:00`, `5 pm`) and lengths below a day (`90 minutes`, `a two-hour workshop`).

use goalmill_common::number::{to_u32, whole_u64};

use super::relative_date::is_time_of_day;
use super::words::{Text, Use, WordKind};

/// Half of a working day.
const HALF_DAY_MINUTES: u32 = 240;
/// Longest length that is taken for one, in minutes.
const MINUTES_MAX: f64 = 10_080.0;

/// Times of day, as `HH:MM`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// The first one that is no deadline, else the first one.
    pub of_day: Option<String>,
    /// `by noon`
    pub due: Option<String>,
    /// The end of a span: `from 2 to 5 pm`.
    pub end: Option<String>,
}

pub(super) fn read(text: &Text) -> Times {
    let mut times = Times::default();
    let mut at = 0;
    while at < text.words.len() {
        let Some((hour, minute, next)) = time_at(text, at) else {
            at += 1;
            continue;
        };
        if is_ruled_out(text, at) {
            at = span_end(text, at, next).map_or(next, |(_, end)| end);
            continue;
        }
        let is_due = text.before(at, 1) == "by" || text.before(at, 1) == "than" && text.before(at, 2) == "later";
        let span_end = span_end(text, at, next)
            .filter(|(end, ..)| (*end > (hour, minute) || is_overnight(hour, end.0)) && !is_due);
        let held = if is_due { &mut times.due } else { &mut times.of_day };
        let end = span_end.map_or(next, |(_, end)| end);
        // Of a range, the first time is that of the beginning.
        if held.is_none() {
            *held = Some(format!("{hour:02}:{minute:02}"));
            times.end = span_end.map(|((hour, minute), _)| format!("{hour:02}:{minute:02}"));
            text.note_constraint(at, end);
        }
        at = end;
    }
    times.of_day = times.of_day.or_else(|| times.due.clone());
    times
}

/// `between 11 pm and 4 am`
fn is_overnight(first: u32, last: u32) -> bool {
    first >= 18 && last <= 9
}

/// The time that ends the span which begins with the time before `next`, and the index after it.
fn span_end(text: &Text, at: usize, next: usize) -> Option<((u32, u32), usize)> {
    let links = match text.lower(next) {
        "to" | "-" | "–" | "until" | "till" => true,
        "and" => text.before(at, 1) == "between",
        _ => false,
    };
    let (hour, minute, end) = time_at(text, next + 1).filter(|_| links)?;
    Some(((hour, minute), end))
}

/// `nobody leaves before 9 am`, `no calls after 8 pm`: for [`super::exclusion`] to read.
fn is_ruled_out(text: &Text, at: usize) -> bool {
    // `it ends at 6 pm`
    if text.before(at, 1) == "at" && matches!(text.before(at, 2), "ends" | "finishes" | "closes") {
        return true;
    }
    // `no calls between 8 pm and 10 pm`
    if matches!(text.before(at, 1), "between" | "from")
        && (2..=4).any(|back| matches!(text.before(at, back), "no" | "not" | "never" | "without"))
    {
        return true;
    }
    let mut lead = at;
    // `not before 10:00 or after 16:00`
    while matches!(text.before(lead, 1), "before" | "after" | "past") {
        if text.negation_before(lead).is_some() {
            return true;
        }
        lead -= 1;
        if !matches!(text.before(lead, 1), "or" | "and") {
            return false;
        }
        lead -= 1;
        while lead > 0 && is_time_of_day(text, lead - 1) || text.before(lead, 1) == ":" {
            lead -= 1;
        }
    }
    false
}

fn time_at(text: &Text, at: usize) -> Option<(u32, u32, usize)> {
    let led =
        ["tomorrow", "today", "at", "by", "before", "until", "from", "till", "around"].contains(&text.before(at, 1));
    // `between 8 and 9 in the evening`
    let is_second = text.before(at, 1) == "and" && at.checked_sub(2).is_some_and(|first| digits(text, first).is_some());
    // `Thursday noon`
    let led = is_second || led || at > 0 && text.is_constraint(at - 1);
    match text.lower(at) {
        "noon" | "midday" if led => return Some((12, 0, at + 1)),
        "midnight" if led => return Some((0, 0, at + 1)),
        _ => {}
    }
    if let Some(found) = dotted(text, at).or_else(|| in_bare_span(text, at)) {
        return Some(found);
    }
    if let Some(found) = in_words(text, at).or_else(|| bare_hour(text, at)) {
        return Some(found);
    }
    let hour: u32 = digits(text, at)?;
    if let Some(marked) = first_of_two(text, at) {
        return Some((marked, 0, at + 1));
    }
    let (minute, next) = match text.lower(at + 1) {
        ":" if text.words[at + 1].glued && text.get(at + 2).is_some_and(|w| w.glued && w.text.len() == 2) => {
            (digits(text, at + 2)?, at + 3)
        }
        _ => (0, at + 1),
    };
    let (hour, next) = match (text.lower(next), text.lower(next + 1)) {
        ("am", _) if hour <= 12 => (hour % 12, next + 1),
        ("pm", _) if hour <= 12 => (hour % 12 + 12, next + 1),
        ("a", ".") if text.lower(next + 2) == "m" && hour <= 12 => (hour % 12, next + 4),
        ("p", ".") if text.lower(next + 2) == "m" && hour <= 12 => (hour % 12 + 12, next + 4),
        ("o'clock", _) => (hour, next + 1),
        ("in", "the") | ("at", "night") if next > at + 1 || led => match text.lower(next + 2) {
            "morning" => (hour, next + 3),
            "afternoon" | "evening" if hour < 12 => (hour + 12, next + 3),
            _ if next > at + 1 => (hour, next),
            _ => return None,
        },
        // `John 3:16`
        _ if next > at + 1 && !led && at > 0 && text.is_capital(at - 1) => return None,
        _ if next > at + 1 => (hour, next),
        _ => return None,
    };
    (hour < 24 && minute < 60).then_some((hour, minute, next))
}

/// `half past eight`, `quarter to three`
fn in_words(text: &Text, at: usize) -> Option<(u32, u32, usize)> {
    let minute = match text.lower(at) {
        "half" => 30,
        "quarter" => 15,
        _ => return None,
    };
    let hour = text.number(at + 2).filter(|hour| hour.value.fract() == 0.0 && (1.0..=12.0).contains(&hour.value))?;
    let value = to_u32(whole_u64(hour.value));
    let value = match text.lower(at + 1) {
        "past" => value,
        "to" if minute == 15 => value - 1,
        _ => return None,
    };
    let minute = if text.lower(at + 1) == "to" { 60 - minute } else { minute };
    // Nobody meets at three in the night.
    Some((if value < 7 || is_evening(text, at) { value + 12 } else { value }, minute, hour.next))
}

/// `Monday at 9`, `at 7 tomorrow`: an hour without a mark, beside a day.
fn bare_hour(text: &Text, at: usize) -> Option<(u32, u32, usize)> {
    // `every Friday at 4`
    let is_repeated = at > 2 && matches!(text.before(at, 3), "every" | "each");
    let hour = digits(text, at).filter(|hour| (7..24).contains(hour) || is_repeated && (1..7).contains(hour))?;
    let hour = if hour < 7 { hour + 12 } else { hour };
    let (next, day) = (text.lower(at + 1), at.checked_sub(2)?);
    let names_day = matches!(next, "tomorrow" | "today" | "tonight") || next == "on" && text.is_constraint(at + 2);
    let is_beside = names_day || text.is_constraint(day);
    let ends = text.get(at + 1).is_none_or(|word| {
        word.kind == WordKind::Sign && matches!(word.lower.as_str(), "," | "." | ";" | ")" | "!" | "?")
    }) && !text.get(at + 2).is_some_and(|word| word.glued)
        || ["tomorrow", "today", "tonight", "on", "for", "with", "and", "i", "we", "to", "please", "sharp", "but"]
            .contains(&next);
    (text.before(at, 1) == "at" && is_beside && ends).then_some(())?;
    Some((if hour < 12 && is_evening(text, at) { hour + 12 } else { hour }, 0, at + 1))
}

/// Whether a word for the evening stands near.
fn is_evening(text: &Text, at: usize) -> bool {
    (at.saturating_sub(8)..at + 6).any(|i| {
        ["dinner", "evening", "tonight", "party", "pub", "drinks", "concert", "cinema", "theatre", "supper"]
            .contains(&text.lower(i))
    })
}

/// The hour at `at` of `9 and 11 am`, `2-4 pm`.
fn first_of_two(text: &Text, at: usize) -> Option<u32> {
    matches!(text.lower(at + 1), "and" | "to" | "till" | "until" | "-" | "–").then_some(())?;
    let (first, second) = (digits(text, at)?, digits(text, at + 2)?);
    let part = if text.lower(at + 3) == "in" && text.lower(at + 4) == "the" {
        match text.lower(at + 5) {
            "morning" => "am",
            "afternoon" | "evening" => "pm",
            other => other,
        }
    } else {
        text.lower(at + 3)
    };
    match part {
        "am" if first < 12 => Some(first),
        "pm" if first < second && first < 12 => Some(first + 12),
        "pm" if first <= 12 => Some(first),
        _ => None,
    }
}

/// `from 3 to 5.30`: hours without a mark, when a day stands in the text; the afternoon is meant up to six.
fn in_bare_span(text: &Text, at: usize) -> Option<(u32, u32, usize)> {
    let links = ["to", "till", "until", "-", "–"];
    let is_first = text.before(at, 1) == "from" && links.contains(&text.lower(at + 1));
    let is_second = links.contains(&text.before(at, 1)) && text.before(at, 3) == "from";
    let hour = |at: usize| {
        let word = text.get(at).filter(|word| matches!(word.kind, WordKind::Number(_)))?;
        let (hour, minute) = word.text.split_once('.').unwrap_or((word.text, "00"));
        let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok().filter(|_| minute.len() == 2)?);
        ((1..24).contains(&hour) && minute < 60).then_some((hour, minute))
    };
    (is_first || is_second).then_some(())?;
    let (first, second) = if is_first { (at, at + 2) } else { (at - 2, at) };
    let (begin, end) = (hour(first)?, hour(second)?);
    let ends = text.get(second + 1).is_none_or(|next| {
        next.kind == WordKind::Sign && !matches!(next.lower.as_str(), ":" | "%" | "€" | "$" | "£" | "/" | "-")
            || ["on", "in", "at", "with", "and", "every"].contains(&next.lower.as_str())
    });
    let has_day = || (0..first).any(|i| text.is_constraint(i));
    (begin < end && ends && has_day()).then_some(())?;
    let (value, minute) = if is_first { begin } else { end };
    Some((if begin.0 < 7 { value + 12 } else { value }, minute, at + 1))
}

/// `7.30 pm`
fn dotted(text: &Text, at: usize) -> Option<(u32, u32, usize)> {
    let (hour, minute) = text.get(at)?.text.split_once('.').filter(|(_, minute)| minute.len() == 2)?;
    let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
    let hour = match text.lower(at + 1) {
        "am" => hour % 12,
        "pm" => hour % 12 + 12,
        _ => return None,
    };
    (hour < 24 && minute < 60).then_some((hour, minute, at + 2))
}

fn digits(text: &Text, at: usize) -> Option<u32> {
    let word = text.get(at).filter(|word| matches!(word.kind, WordKind::Number(_)) && word.text.len() <= 2)?;
    word.text.parse().ok()
}

/// The first length below a day, in minutes; those in [`super::limit`] are limits.
pub(super) fn length_minutes(text: &Text) -> Option<u32> {
    (0..text.words.len()).find_map(|at| length_at(text, at))
}

fn length_at(text: &Text, at: usize) -> Option<u32> {
    let word = text.get(at)?;
    let before = text.before(at, 1);
    let is_other = text.is_constraint(at)
        || ["every", "last", "past", "previous", "each", "after", "within", "in"].contains(&before)
        || at > 0 && word.glued && before != "("
        || is_told_length(text, at)
        || text.is_in_condition(at);
    if is_other {
        return None;
    }
    let (value, next) = match (text.lower(at), text.lower(at + 1), text.lower(at + 2)) {
        ("half", "an" | "a", "hour") => (0.5, at + 2),
        ("half", "-", "day") if text.words[at + 1].glued => {
            text.note(at, at + 3, Use::Fact);
            return Some(HALF_DAY_MINUTES);
        }
        ("half", "a", "day") => {
            text.note(at, at + 3, Use::Fact);
            return Some(HALF_DAY_MINUTES);
        }
        ("half", "-", "hour") => (0.5, at + 1),
        ("quarter", "of", "an") => (0.25, at + 3),
        ("an" | "one", "hour", "and") if text.lower(at + 3) == "a" && text.lower(at + 4) == "half" => (1.5, at + 1),
        ("an", "hour", _) if !matches!(before, "times" | "twice" | "once" | "dollars" | "euros" | "half") => {
            (1.0, at + 1)
        }
        _ => text.number(at).map(|q| (q.value, q.next))?,
    };
    let next = next + usize::from(text.lower(next) == "-");
    let minutes = value
        * match text.lower(next) {
            "minute" | "minutes" | "min" | "mins" => 1.0,
            "hour" | "hours" | "hr" | "hrs" => 60.0,
            "h" if text.words[next].glued => 60.0,
            _ => return None,
        };
    // `a 24-hour pharmacy`
    if minutes >= 1_440.0 && text.lower(next - 1) == "-" {
        return None;
    }
    // `30 hours a week` are those of a job.
    let is_load =
        matches!(text.lower(next + 1), "a" | "per") && matches!(text.lower(next + 2), "week" | "month" | "year");
    let is_age = is_load
        || ["ago", "old", "later", "earlier", "before", "after", "late", "early", "behind", "delayed"]
            .contains(&text.lower(next + 1))
        || INTERVALS.contains(&text.lower(next + 1));
    ((1.0..=MINUTES_MAX).contains(&minutes) && !is_age).then_some(())?;
    text.note(at, next + 1, Use::Constraint);
    Some(to_u32(whole_u64(minutes.round())))
}

/// What a length describes that is no work of the goal: `5-minute bars`.
const INTERVALS: &[&str] = &[
    "window", "windows", "interval", "intervals", "bars", "bins", "buckets", "steps", "resolution", "timeout", "delay",
];

/// `resample to 5 minutes`, `the build takes 40 minutes`: how long something else is, or is to become.
pub(super) fn is_told_length(text: &Text, at: usize) -> bool {
    match text.before(at, 1) {
        "to" => {
            let is_range = at > 1 && matches!(text.words[at - 2].kind, WordKind::Number(_));
            let is_kept = (2..=7).any(|back| {
                let word = text.before(at, back);
                ["keep", "limit", "limited", "restrict", "cap", "up", "extend", "extended"].contains(&word)
            });
            !is_range && !is_kept
        }
        // `from 40 minutes to 10`
        "from" => (at + 2..at + 4).any(|i| text.lower(i) == "to"),
        // `the shop was down for two hours`
        "for" => {
            let begin = text.clause_before(at, 6).find(|i| ["was", "were", "been"].contains(&text.lower(*i)));
            begin.is_some_and(|begin| {
                (begin + 1..at)
                    .any(|i| ["down", "offline", "out", "closed", "unavailable", "broken"].contains(&text.lower(i)))
            })
        }
        "takes" | "take" | "took" => {
            at > 1 && text.words[at - 2].kind == WordKind::Letters && !is_planned(text, at - 2)
        }
        _ => false,
    }
}

/// What the goal is about when somebody says how long it takes; a verb that leads on counts, too: `it should take an hour`.
fn is_planned(text: &Text, at: usize) -> bool {
    let noun = text.lower(at);
    [
        "it", "this", "that", "which", "and", "should", "may", "must", "can", "will", "to", "each", "workshop",
        "meeting", "session", "lesson", "call", "course", "class", "trip", "tour", "journey", "event", "training",
        "interview", "visit", "walk", "dinner", "party", "plan", "project", "talk", "presentation", "lecture", "film",
        "video", "ceremony",
    ]
    .contains(&noun)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day_are_read_in_many_spellings() {
        for (text, time) in [
            ("next Tuesday at 10:00", "10:00"),
            ("by 5 pm", "17:00"),
            ("at 5pm", "17:00"),
            ("at 9:30 am", "09:30"),
            ("at 12 a.m.", "00:00"),
            ("before noon", "12:00"),
            ("at 8 o'clock", "08:00"),
            ("at 7.30 pm", "19:30"),
        ] {
            assert_eq!(read(&Text::new(text)).of_day.as_deref(), Some(time), "{text}");
        }
        for text in ["nobody leaves before 9 am", "no calls after 8 pm", "no meetings before 10:00 or after 16:00"] {
            assert_eq!(read(&Text::new(text)), Times::default(), "{text}");
        }
        for text in ["a ratio of 3:1", "at 5", "version 10:2026", "25:00", "I am here", "high noon"] {
            assert_eq!(read(&Text::new(text)), Times::default(), "{text}");
        }
    }

    #[test]
    fn lengths_are_minutes() {
        for (text, minutes) in [
            ("a 45-minute lesson", 45),
            ("a two-hour workshop", 120),
            ("30 minutes each", 30),
            ("for half an hour", 30),
            ("an hour and a half", 90),
            ("takes an hour", 60),
            ("1.5 hours", 90),
            ("a 90 min call", 90),
            ("the workshop takes 40 minutes", 40),
            ("keep the call to 30 minutes", 30),
        ] {
            assert_eq!(length_minutes(&Text::new(text)), Some(minutes), "{text}");
        }
        for text in [
            "2 hours ago",
            "every 2 hours",
            "in the last 24 hours",
            "ten dollars an hour",
            "500 hours of work",
            "within two hours of Berlin",
            "resample the readings to 5 minutes",
            "bring it down from 40 minutes to 10 minutes",
            "our build takes 40 minutes",
            "draw 5-minute bars",
        ] {
            assert_eq!(length_minutes(&Text::new(text)), None, "{text}");
        }
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        super::super::phrases::check(TIMES, |facts| facts.time.clone().unwrap_or_default());
    }

    const TIMES: &[(&str, &str)] = &[
        ("Every Friday at 4 I want an overview of the invoices", "16:00"),
        ("Meet the landlord on Monday at 9", "09:00"),
        ("Post it every day at 7am", "07:00"),
        ("Wake me at half past eight", "08:30"),
        ("Call her tomorrow at 14:30", "14:30"),
        ("Send the figures by noon", "12:00"),
        ("Plan a lunch at 12.30 pm", "12:30"),
        ("A party for the office from 7pm", "19:00"),
        ("Book dinner on Friday at 8", "20:00"),
        ("Every Monday at 9 I want a summary", "09:00"),
        ("Take the bus at 10 a.m. sharp", "10:00"),
        ("Close the shop at 5 p.m.", "17:00"),
        ("Switch it over at midnight", "00:00"),
        ("Send the offer by 17:00 CET", "17:00"),
        ("Dinner at 6 in the evening", "18:00"),
        ("A walk at 9 in the morning", "09:00"),
        ("Meet at 9 o'clock", "09:00"),
        ("A workshop between 9 and 11 am", "09:00"),
        ("The train leaves 09:15", "09:15"),
        ("Kick-off 20:45", "20:45"),
        ("Send it at noon on Wednesday", "12:00"),
        ("The taxi comes at 7 tomorrow morning", "07:00"),
        ("A call with Siemens tomorrow at 10", "10:00"),
        ("The gate opens at 10.15am", "10:15"),
        ("The vet, 2:45 p.m.", "14:45"),
        ("Meet on Friday at quarter past three", "15:15"),
        ("Applications close on 13.12.2026 at 23:59", "23:59"),
        ("Set the aspect ratio to 16:9", ""),
        ("Open shops at 5 locations", ""),
        ("Keep the rate at 3 percent", ""),
        ("Explain Psalm 23:4", ""),
        ("Summarise John 3:16", ""),
        ("Offer 24/7 support", ""),
        ("Send nothing, no calls after 8 pm", ""),
        ("Sell them at 40 euros", ""),
        ("Meet at 5 Baker Street", ""),
        ("Sell it at 9 shops", ""),
    ];

    #[test]
    fn spans_of_the_day_have_two_ends() {
        super::super::phrases::check(SPANS, |facts| {
            let ends = [facts.time.as_deref(), facts.end_time.as_deref()];
            ends.into_iter().flatten().collect::<Vec<_>>().join(" ")
        });
    }

    const SPANS: &[(&str, &str)] = &[
        ("Update the server tonight between 11 pm and 4 am", "23:00 04:00"),
        ("My son turns 7 on Saturday 12 December, ten kids come from 3 to 5.30", "15:00 17:30"),
        ("Ten kids are coming from 2 till 5 pm", "14:00 17:00"),
        ("I can study between 8 and 9 in the evening", "20:00 21:00"),
        ("A party on Saturday from 2 to 5 pm", "14:00 17:00"),
        ("Slots between 16:00 and 20:00", "16:00 20:00"),
        ("A workshop between 9 and 11 am", "09:00 11:00"),
        ("A sitter from 6 pm to 11 pm", "18:00 23:00"),
        ("Open the desk 9:00-12:30", "09:00 12:30"),
        ("A course from 10 am until noon", "10:00 12:00"),
        ("A meeting tomorrow at 10:00, send it to 20 people", "10:00"),
        ("No calls between 8 pm and 10 pm", ""),
        ("A flight at 9:30 and a train at 14:10", "09:30"),
    ];

    #[test]
    fn lengths_are_read_as_people_write_them() {
        super::super::phrases::check(LENGTHS, |facts| {
            let days = facts.duration.iter().map(|stay| format!("{}d", stay.days));
            days.chain(facts.length_minutes.iter().map(|m| format!("{m}min"))).collect::<Vec<_>>().join(" ")
        });
    }

    const LENGTHS: &[(&str, &str)] = &[
        ("Plan a first aid course in two groups, half a day each", "240min"),
        ("Plan a half-day workshop", "240min"),
        ("A half-day hike near Kiel", "240min"),
        ("The shop was down for two hours, find out why", ""),
        ("Our servers were offline for 40 minutes last night", ""),
        ("Plan a walk for two hours", "120min"),
        ("Draft an ad for a cook, 20 hours a week", ""),
        ("Plan a week in Rome", "7d"),
        ("Two weeks in Peru with the kids", "14d"),
        ("A ten-day tour of Ireland", "10d"),
        ("Plan a long weekend in Oslo", "3d"),
        ("The course lasts six weeks", "42d"),
        ("A hotel for 3 nights", "3d"),
        ("Make a plan for her first 30 days", "30d"),
        ("Set up a three-month programme", "90d"),
        ("A meal plan, Monday to Friday", "5d"),
        ("Prepare a 90-minute session", "90min"),
        ("The talk takes an hour and a half", "90min"),
        ("A workshop, two hours long", "120min"),
        ("Set up a one-hour call", "60min"),
        ("Book a half-hour slot", "30min"),
        ("Prepare a 15 min demo", "15min"),
        ("Train the staff, each session 90 minutes", "90min"),
        ("Keep the survey open for a fortnight", "14d"),
        ("Practise 45 minutes a day", "45min"),
        ("Prepare a quarter of an hour on bees", "15min"),
        ("Give a 10-week course", "70d"),
        ("5 days and 4 nights in Bali", "5d"),
        ("Plan a six-hour hike", "360min"),
        ("A seminar of 2.5 hours", "150min"),
        ("A weekend at the sea", "2d"),
        ("A trip from 3 to 7 May", "5d"),
        ("Downtime can't exceed 4 hours", ""),
        ("Dishes with half an hour max to cook", ""),
        ("It broke 3 days ago", ""),
        ("Sort the photos from the last five years", ""),
        ("Find a club for a two-year-old", ""),
        ("Deliver it within three weeks", ""),
        ("Check the logs every 2 hours", ""),
        ("Keep 30 days of logs", ""),
        ("Offer a 30-day money-back guarantee", ""),
        ("Sell my five-year-old laptop", ""),
        ("Our notice period is three months, end the contract", ""),
        ("Find a 24-hour pharmacy", ""),
        ("Alert me if the load is high for more than 5 minutes", ""),
        ("Draft an ad for a nurse, 30 hours a week", ""),
        ("The train was 3 hours late, complain", ""),
        ("Review the film \"Seven Days in May\"", ""),
    ];
}

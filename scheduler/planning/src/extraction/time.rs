//! Extracts times of day (`at 10:00`, `5 pm`) and lengths below a day (`90 minutes`, `a two-hour workshop`).

use goalmill_common::number::{to_u32, whole_u64};

use super::relative_date::is_time_of_day;
use super::words::{Text, Use, WordKind};

/// Longest length that is taken for one, in minutes.
const MINUTES_MAX: f64 = 10_080.0;

/// The first time of day, as `HH:MM`.
pub(super) fn of_day(text: &Text) -> Option<String> {
    (0..text.words.len()).find_map(|at| {
        let (hour, minute, next) = time_at(text, at).filter(|_| !is_ruled_out(text, at))?;
        text.note_constraint(at, next);
        Some(format!("{hour:02}:{minute:02}"))
    })
}

/// `nobody leaves before 9 am`, `no calls after 8 pm`: for [`super::exclusion`] to read.
fn is_ruled_out(text: &Text, at: usize) -> bool {
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
    // `Thursday noon`
    let led = led || at > 0 && text.is_constraint(at - 1);
    match text.lower(at) {
        "noon" | "midday" if led => return Some((12, 0, at + 1)),
        "midnight" if led => return Some((0, 0, at + 1)),
        _ => {}
    }
    if let Some(found) = dotted(text, at) {
        return Some(found);
    }
    let hour: u32 = digits(text, at)?;
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
        _ if next > at + 1 => (hour, next),
        _ => return None,
    };
    (hour < 24 && minute < 60).then_some((hour, minute, next))
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
        || is_told_length(text, at);
    if is_other {
        return None;
    }
    let (value, next) = match (text.lower(at), text.lower(at + 1), text.lower(at + 2)) {
        ("half", "an" | "a", "hour") => (0.5, at + 2),
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
    let is_age = matches!(text.lower(next + 1), "ago" | "old" | "later" | "earlier" | "before" | "after")
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
        "interview", "visit", "walk", "dinner", "party", "plan", "project",
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
            assert_eq!(of_day(&Text::new(text)).as_deref(), Some(time), "{text}");
        }
        for text in ["nobody leaves before 9 am", "no calls after 8 pm", "no meetings before 10:00 or after 16:00"] {
            assert_eq!(of_day(&Text::new(text)), None, "{text}");
        }
        for text in ["a ratio of 3:1", "at 5", "version 10:2026", "25:00", "I am here", "high noon"] {
            assert_eq!(of_day(&Text::new(text)), None, "{text}");
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
}

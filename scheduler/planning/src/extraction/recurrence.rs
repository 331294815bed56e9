//! Extracts how often something is done: `every Monday`, `four times a week`, `each morning`, `…, weekly`.

use super::relative_date::weekday_at;
use super::words::{Text, WordKind};

/// The first recurrence, as it stands in the text.
pub(super) fn read(text: &Text) -> Option<String> {
    let (from, to) = (0..text.words.len()).find_map(|at| {
        let next = every(text, at).or_else(|| times(text, at)).or_else(|| adverb(text, at))?;
        Some((at, next))
    })?;
    text.note_constraint(from, to);
    Some(text.between(from, to).to_owned())
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
    (is_unit || weekday_at(text, next).is_some()).then_some(next + 1)
}

/// `once a month`, `four times per week`, `three a day`.
fn times(text: &Text, at: usize) -> Option<usize> {
    let is_free = at == 0 || !matches!(text.words[at - 1].kind, WordKind::Sign) || !text.words[at].glued;
    let next = match text.lower(at) {
        "once" | "twice" => at + 1,
        _ => text.number(at).filter(|_| is_free && !text.is_constraint(at)).map(|number| number.next)?,
    };
    let next = next + usize::from(text.lower(next) == "times");
    let per = matches!(text.lower(next), "a" | "per" | "each" | "every");
    (per && is_period(text.lower(next + 1))).then_some(next + 2)
}

/// `send it weekly`: at the end of a clause; before a noun it tells which thing is meant.
fn adverb(text: &Text, at: usize) -> Option<usize> {
    let ends = text.get(at + 1).is_none_or(|next| next.kind == WordKind::Sign && !next.glued || next.lower == ",");
    let ends = ends || text.ends_sentence(at + 1) || is_timed(text, at + 1);
    let is_adverb =
        ["hourly", "daily", "nightly", "weekly", "monthly", "quarterly", "yearly"].contains(&text.lower(at));
    (is_adverb && ends && at > 0).then_some(at + 1)
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

fn is_period(word: &str) -> bool {
    [
        "day", "days", "week", "weeks", "month", "months", "quarter", "year", "morning", "afternoon", "evening",
        "night", "weekday", "weekend", "fortnight",
    ]
    .contains(&word)
}

fn is_small_unit(word: &str) -> bool {
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
}

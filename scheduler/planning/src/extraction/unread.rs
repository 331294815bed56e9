//! Finds what looks like a constraint and was not read, so that it can be asked for.

use serde::Serialize;

use super::words::{Text, Use, WordKind};

/// Most parts that are reported.
const PARTS_MAX: usize = 5;
/// Words of a part after its number.
const AFTER_MAX: usize = 3;

/// A part of the goal that was not understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadPart {
    /// As it stands in the goal.
    pub text: String,
    /// How to say it.
    pub hint: &'static str,
}

/// Numbers after a word such as `by`, `under` or `at most`, and dates that can be read in two ways.
pub(super) fn read(text: &Text) -> Vec<UnreadPart> {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < text.words.len() && parts.len() < PARTS_MAX {
        match part_at(text, at) {
            Some((part, next)) => {
                parts.push(part);
                at = next;
            }
            None => at += 1,
        }
    }
    parts
}

fn part_at(text: &Text, at: usize) -> Option<(UnreadPart, usize)> {
    open_date(text, at).or_else(|| number_at(text, at)).or_else(|| urgency(text, at))
}

/// `before winter`, `by the launch`: a deadline that is no date.
fn open_date(text: &Text, at: usize) -> Option<(UnreadPart, usize)> {
    let is_lead = matches!(text.lower(at), "before" | "until" | "by") && text.read_as(at) == Use::Unread;
    let noun = at + 1 + usize::from(matches!(text.lower(at + 1), "the" | "our" | "my" | "next" | "this"));
    let is_event = [
        "winter", "spring", "summer", "autumn", "holidays", "launch", "rollout", "meeting", "event", "season", "trip",
        "fair", "exam", "wedding", "conference", "semester", "election", "opening", "kickoff", "sprint", "release",
    ]
    .contains(&text.lower(noun));
    // `before the rollout on 3 May` is a deadline that was read.
    let is_dated = (noun + 1..noun + 3).any(|i| text.is_constraint(i));
    (is_lead && is_event && !is_dated && !text.is_constraint(noun)).then(|| {
        let text = text.between(at, noun + 1).to_owned();
        (UnreadPart { text, hint: "say the day, such as `by 2027-05-06`" }, noun + 1)
    })
}

/// `as soon as possible`, `ASAP`: a deadline without a day.
fn urgency(text: &Text, at: usize) -> Option<(UnreadPart, usize)> {
    let next = match (text.lower(at), text.lower(at + 1), text.lower(at + 2), text.lower(at + 3)) {
        ("asap", ..) => at + 1,
        ("as", "soon", "as", "possible") => at + 4,
        _ => return None,
    };
    let text = text.between(at, next).to_owned();
    Some((UnreadPart { text, hint: "say the day, such as `by 2027-05-06`" }, next))
}

fn number_at(text: &Text, at: usize) -> Option<(UnreadPart, usize)> {
    let word = text.get(at).filter(|word| matches!(word.kind, WordKind::Number(_)))?;
    let is_unread =
        text.read_as(at) == Use::Unread && !(word.glued && at > 0 && text.words[at - 1].kind == WordKind::Letters);
    is_unread.then_some(())?;
    if let Some(next) = slashed(text, at) {
        let text = text.between(at, next).to_owned();
        return Some((UnreadPart { text, hint: "write a date as year, month and day: `2027-05-06`" }, next));
    }
    // `reduce it by 20 percent` is what the goal is about.
    if text.before(at, 1) == "by" && matches!(text.lower(at + 1), "%" | "percent") {
        return None;
    }
    let lead = lead_before(text, at)?;
    // `when we have less than 50 kg` limits nothing.
    if text.is_in_condition(lead) {
        return None;
    }
    let mut next = at + 1;
    while next < text.words.len()
        && next <= at + AFTER_MAX
        && text.words[next].kind == WordKind::Letters
        && text.read_as(next) == Use::Unread
    {
        next += 1;
    }
    let hint = "write money with its currency, dates as `2027-05-06`, and limits as `at most 5 pages`";
    Some((UnreadPart { text: text.between(lead, next).to_owned(), hint }, next))
}

/// `05/06/2027`, `5.6.`: a date that was not read.
fn slashed(text: &Text, at: usize) -> Option<usize> {
    let sign = text.lower(at + 1);
    let number = |i: usize| text.get(i).is_some_and(|w| w.glued && matches!(w.kind, WordKind::Number(_)));
    let is_date = matches!(sign, "/" | "-")
        && text.words[at + 1].glued
        && number(at + 2)
        && text.lower(at + 3) == sign
        && number(at + 4);
    is_date.then_some(at + 5)
}

/// The index of the words that make a number a limit or a date.
fn lead_before(text: &Text, at: usize) -> Option<usize> {
    let mut lead = at;
    while lead > 0 && matches!(text.before(lead, 1), "the" | "about" | "around" | "a") {
        lead -= 1;
    }
    match (text.before(lead, 2), text.before(lead, 1)) {
        ("at", "most" | "least") | ("up", "to") | ("more" | "less" | "later" | "longer" | "fewer", "than") => {
            Some(lead - 2)
        }
        (_, "under" | "below" | "within" | "by" | "until" | "before" | "max" | "maximum" | "minimum" | "budget") => {
            Some(lead - 1)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_were_not_read_are_reported() {
        let parts = |text: &str| read(&Text::new(text)).into_iter().map(|part| part.text).collect::<Vec<_>>();
        assert_eq!(parts("deliver it by 05/06/2027"), ["05/06/2027"]);
        assert_eq!(parts("repair the fence before winter"), ["before winter"]);
        assert_eq!(parts("replace the boiler ASAP, please"), ["ASAP"]);
        assert_eq!(parts("keep it under 2 bananas, please"), ["under 2 bananas"]);
        assert_eq!(parts("order more when we have less than 2 bananas"), Vec::<String>::new());
        assert_eq!(parts("a report on COVID-19 with 3 parts for Fortune 500"), Vec::<String>::new());
        assert_eq!(read(&Text::new(&"by 5 or ".repeat(50))).len(), PARTS_MAX);
    }
}

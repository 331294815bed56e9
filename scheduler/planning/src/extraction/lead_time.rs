//! Reads how long before an event something is due: `two days before`, `a week before it starts`, `a month in advance`.

use jiff::civil::Date;
use jiff::{Span as Length, ToSpan};

use super::calendar_date::DateSpan;
use super::words::Text;

/// Words between a lead time and the date it is counted from, or the verb that it belongs to, at most.
const CLAUSE_WORDS_MAX: usize = 12;

/// The length that ends before `end`: `two days`, `the week`.
fn length_before(text: &Text, end: usize) -> Option<Length> {
    let unit = end.checked_sub(1)?;
    let number = unit.checked_sub(1)?;
    let count = match text.lower(number) {
        "the" | "a" | "an" | "one" => 1.0,
        _ => text.number(number).filter(|quantity| quantity.next == unit).map(|quantity| quantity.value)?,
    };
    (count.fract() == 0.0 && (1.0..=366.0).contains(&count)).then_some(())?;
    let count = goalmill_common::number::whole_i64(count);
    match text.lower(unit) {
        "day" | "days" | "night" | "evening" => Some(count.days()),
        "week" | "weeks" => Some((count * 7).days()),
        "fortnight" => Some((count * 14).days()),
        "month" | "months" => Some(count.months()),
        _ => None,
    }
}

/// `two weeks before 20 December`, `the day before the meeting on 9 December`: the length before the date at `at`.
pub(super) fn before_date(text: &Text, at: usize) -> Option<usize> {
    let before = text.clause_before(at, CLAUSE_WORDS_MAX / 2).find(|i| text.lower(*i) == "before")?;
    length_before(text, before).map(|_| before)
}

/// The day that is meant when a lead time stands before the date.
pub(super) fn moved(text: &Text, at: usize, span: DateSpan) -> DateSpan {
    let length =
        before_date(text, at).filter(|_| !is_reminder(text, at)).and_then(|before| length_before(text, before));
    let day = match span {
        DateSpan::Day(day) | DateSpan::Days(day, _) => day,
        DateSpan::Month(_) | DateSpan::Within(_) => return span,
    };
    length.and_then(|length| day.checked_sub(length).ok()).map_or(span, DateSpan::Day)
}

/// `remind me two days before`: the date is that of an event.
pub(super) fn is_reminder(text: &Text, at: usize) -> bool {
    text.clause_before(at, CLAUSE_WORDS_MAX)
        .any(|i| ["remind", "notify", "alert", "warn", "ping"].contains(&text.lower(i)))
}

/// The day on which something has to be there that is wanted some time before the event.
///
/// - `event`: its first day.
pub(super) fn before_event(text: &Text, event: Date) -> Option<Date> {
    (2..text.words.len()).find_map(|at| {
        let end = match text.lower(at) {
            "before" | "beforehand" | "earlier" | "ahead" | "prior" => at,
            "advance" if text.before(at, 1) == "in" => at - 1,
            _ => return None,
        };
        let length = length_before(text, end).filter(|_| is_wanted(text, end) && !is_reminder(text, end))?;
        text.note_constraint(end - 2, at + 1);
        event.checked_sub(length).ok()
    })
}

/// Whether the clause is about something that has to be there.
fn is_wanted(text: &Text, at: usize) -> bool {
    text.clause_before(at, CLAUSE_WORDS_MAX).any(|i| {
        [
            "like", "need", "needs", "want", "ready", "done", "finished", "have", "send", "sent", "get", "deliver",
            "delivered", "out", "due", "complete", "completed", "printed", "arrive", "order", "submit", "submitted",
            "must", "should",
        ]
        .contains(&text.lower(i))
    })
}

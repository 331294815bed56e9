//! Reads calendar dates and what they are for: `by 3 May`, `before 2027-05-06`, `from 3 to 7 May`, `in May`.

use jiff::civil::Date;
use serde::Serialize;

use super::duration::has_length;
use super::words::{Text, Use};

/// A calendar month.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Month {
    /// 1 to 12.
    pub number: i8,
    pub name: &'static str,
    pub year: i16,
}

/// The dates of a goal.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct When {
    /// The first and the last day.
    pub span: Option<(Date, Date)>,
    pub deadline: Option<Deadline>,
}

/// The day by which something is to be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Deadline {
    pub date: Date,
    /// Whether the day itself is too late.
    pub is_exclusive: bool,
    /// What was chosen where the text is open.
    pub assumed: Option<&'static str>,
}

/// The day of a time in Unix milliseconds, in UTC; the last one that there is for a time beyond it.
pub(super) fn day_of(now_ms: u64) -> Date {
    let ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX).to_zoned(jiff::tz::TimeZone::UTC).date()
}

/// Two deadlines or two spans are none: which one is meant is not certain.
pub(super) fn read(text: &Text, today: Date) -> When {
    let span = only(text, |at| span_at(text, at, today));
    let deadline = only(text, |at| deadline_at(text, at, today));
    When { span, deadline }
}

/// `a trip in May`, `5 days in Rome in May`: the month of what has a length. It is read behind the other facts.
pub(super) fn month(text: &Text, today: Date) -> Option<Month> {
    only(text, |at| {
        let is_led = text.before(at, 1) == "in" && text.read_as(at) == Use::Unread;
        let before = at.checked_sub(2).filter(|before| text.clause_start(at) <= *before);
        let is_certain = before.is_none_or(|i| text.is_constraint(i) || has_length(text.lower(i)));
        month_at(text, at, today).filter(|_| is_led && is_certain)
    })
}

/// Reads one day or month on its own, as a constraint of the goal has it.
pub(super) fn read_alone(text: &str, today: Date) -> (Option<Date>, Option<Month>) {
    let text = Text::new(text);
    let is_whole = |next: usize| next == text.words.len();
    let day = day_at(&text, 0, today).filter(|(_, next)| is_whole(*next)).map(|(day, _)| day);
    let month = month_at(&text, 0, today).filter(|(_, next)| is_whole(*next)).map(|(month, _)| month);
    (day, month)
}

/// The value that `find` gives at one place of the text, or the same at several; it is noted as read.
fn only<T: PartialEq>(text: &Text, find: impl Fn(usize) -> Option<(T, usize)>) -> Option<T> {
    let (mut found, mut places, mut from) = (None, Vec::new(), 0);
    for at in text.open() {
        let Some((value, next)) = (at >= from).then(|| find(at)).flatten() else { continue };
        if found.as_ref().is_some_and(|held| *held != value) {
            return None;
        }
        (found, from) = (Some(value), next);
        places.push((at, next));
    }
    places.into_iter().for_each(|(at, next)| text.note_constraint(at, next));
    found
}

/// `by 3 May`, `before May`, `until 2027-05-06`, `due on May 3`, `deadline: 3 May`.
fn deadline_at(text: &Text, at: usize, today: Date) -> Option<(Deadline, usize)> {
    if text.read_as(at) != Use::Unread {
        return None;
    }
    let back = 1 + usize::from(matches!(text.before(at, 1), "the" | "on" | "is" | ":"));
    let lead = text.before(at, back);
    let is_exclusive = lead == "before";
    let is_deadline = match lead {
        "by" => true,
        // `3 days before 3 May`
        "before" => !["day", "days", "week", "weeks", "month", "months"].contains(&text.before(at, back + 1)),
        // `embargoed until 3 May`, `open until 3 May`: how long something stays so.
        "until" => {
            let state = text.before(at, back + 1);
            !state.ends_with("ed") && !["open", "valid", "away", "available", "free"].contains(&state)
        }
        "due" | "deadline" => true,
        _ => false,
    };
    is_deadline.then_some(())?;
    if let Some((date, next)) = day_at(text, at, today) {
        // A past day is an event, not a deadline.
        return (date >= today).then_some((Deadline { date, is_exclusive, assumed: None }, next));
    }
    let (month, next) = month_at(text, at, today)?;
    let first = Date::new(month.year, month.number, 1).ok()?;
    let (date, assumed) = match is_exclusive {
        true => (first, "the first day of the month"),
        false => (first.last_of_month(), "the last day of the month"),
    };
    Some((Deadline { date, is_exclusive, assumed: Some(assumed) }, next))
}

/// `from 3 to 7 May`, `from May 3 until May 6`, `between 3 and 7 May`.
fn span_at(text: &Text, at: usize, today: Date) -> Option<((Date, Date), usize)> {
    let lead = text.before(at, 1);
    matches!(lead, "from" | "between").then_some(())?;
    let is_link = |at: usize| {
        if lead == "between" { text.lower(at) == "and" } else { ["to", "until", "-", "–"].contains(&text.lower(at)) }
    };
    let (first, last, next) = match day_at(text, at, today) {
        Some((first, link)) if is_link(link) => {
            // `May 3 to 6`
            let of_month = || {
                let (day, next) = day_number(text, link + 1)?;
                Some((Date::new(first.year(), first.month(), day).ok()?, next))
            };
            let (last, next) = day_at(text, link + 1, first).or_else(of_month)?;
            (first, last, next)
        }
        Some(_) => return None,
        // `3 to 7 May`
        None => {
            let (day, link) = day_number(text, at).filter(|(_, link)| is_link(*link))?;
            let (last, next) = day_at(text, link + 1, today)?;
            (Date::new(last.year(), last.month(), day).ok()?, last, next)
        }
    };
    (first <= last && last >= today).then_some(((first, last), next))
}

/// `2027-05-03`, `3 May`, `3rd of May 2027`, `May 3, 2027`, and the index after it. A day without a year is the next such day.
fn day_at(text: &Text, at: usize, today: Date) -> Option<(Date, usize)> {
    if let Some(found) = iso_day(text, at) {
        return Some(found);
    }
    let (month, day, next) = match month_number(text, at) {
        Some(month) => {
            let (day, next) = day_number(text, at + 1)?;
            (month, day, next)
        }
        None => {
            let (day, next) = day_number(text, at)?;
            let of = next + usize::from(text.lower(next) == "of");
            (month_number(text, of)?, day, of + 1)
        }
    };
    let comma = usize::from(text.lower(next) == ",");
    if let Some(year) = year_at(text, next + comma) {
        return Some((Date::new(year, month, day).ok()?, next + comma + 1));
    }
    let mut years = (0..=4).filter_map(|ahead| Date::new(today.year().checked_add(ahead)?, month, day).ok());
    Some((years.find(|date| *date >= today)?, next))
}

fn iso_day(text: &Text, at: usize) -> Option<(Date, usize)> {
    let is_part = |i: usize| text.is_glued(i) && text.get(i).is_some_and(|word| word.text.len() == 2);
    let is_iso = text.get(at)?.text.len() == 4
        && text.lower(at + 1) == "-"
        && text.lower(at + 3) == "-"
        && [at + 1, at + 3].iter().all(|sign| text.is_glued(*sign))
        && is_part(at + 2)
        && is_part(at + 4);
    let date = text.between(at, at + 5).parse().ok().filter(|_| is_iso)?;
    Some((date, at + 5))
}

/// A day of a month, `3` or `3rd`, and the index after it.
fn day_number(text: &Text, at: usize) -> Option<(i8, usize)> {
    let word = text.get(at).filter(|word| text.is_number(at) && word.text.len() <= 2)?;
    let day = word.text.parse().ok().filter(|day| (1..=31).contains(day))?;
    let is_ordinal = text.is_glued(at + 1) && matches!(text.lower(at + 1), "st" | "nd" | "rd" | "th");
    Some((day, at + 1 + usize::from(is_ordinal)))
}

/// `May`, `May 2027`, and the index after it; a month without a year is the next such month.
fn month_at(text: &Text, at: usize, today: Date) -> Option<(Month, usize)> {
    let number = month_number(text, at)?;
    // `by June Smith`
    let is_name = text.is_capital(at) && text.is_capital(at + 1) || text.is_glued(at + 1);
    let name = MONTHS.get(usize::try_from(number).ok()?.checked_sub(1)?).filter(|_| !is_name)?;
    let (year, next) = match year_at(text, at + 1) {
        Some(year) => (year, at + 2),
        None => (today.year() + i16::from(number < today.month()), at + 1),
    };
    Some((Month { number, name, year }, next))
}

/// The number of a month's name, from 1.
pub(super) fn month_number(text: &Text, at: usize) -> Option<i8> {
    let word = text.get(at)?;
    let is_short = |name: &str| text.is_capital(at) && word.lower == name[..3].to_lowercase();
    let position = MONTHS.iter().position(|name| name.to_lowercase() == word.lower || is_short(name))?;
    i8::try_from(position + 1).ok()
}

fn year_at(text: &Text, at: usize) -> Option<i16> {
    let word = text.get(at).filter(|word| text.is_number(at) && word.text.len() == 4 && !word.glued)?;
    word.text.parse().ok().filter(|year| (1900..2200).contains(year))
}

const MONTHS: [&str; 12] = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A Saturday.
    const TODAY: Date = Date::constant(2026, 11, 21);

    fn when(text: &str) -> (When, Option<Month>) {
        let text = Text::new(text);
        (read(&text, TODAY), month(&text, TODAY))
    }

    #[test]
    fn the_words_before_a_date_make_it_a_deadline() {
        for (text, date, is_exclusive) in [
            ("by 12 October", "2027-10-12", false),
            ("by Oct 12", "2027-10-12", false),
            ("before December 15", "2026-12-15", true),
            ("until 5 December", "2026-12-05", false),
            ("the deadline is May 3rd", "2027-05-03", false),
            ("deadline: 3 May", "2027-05-03", false),
            ("due on 3rd of May 2028", "2028-05-03", false),
            ("finish it by 2027-02-01", "2027-02-01", false),
            ("by May 3, 2027", "2027-05-03", false),
            ("by June", "2027-06-30", false),
            ("before June", "2027-06-01", true),
            ("by 29 February", "2028-02-29", false),
        ] {
            let (found, month) = when(text);
            let deadline = found.deadline.as_ref().map(|d| (d.date.to_string(), d.is_exclusive));
            assert_eq!(deadline, Some((date.into(), is_exclusive)), "{text}");
            assert_eq!((found.span, month), (None, None), "{text}");
        }
    }

    #[test]
    fn spans_and_months_are_read() {
        for (text, first, last) in [
            ("from 3 to 7 May", "2027-05-03", "2027-05-07"),
            ("from May 3 to May 6", "2027-05-03", "2027-05-06"),
            ("from May 3 to 6", "2027-05-03", "2027-05-06"),
            ("from 3 May until 10 May", "2027-05-03", "2027-05-10"),
            ("between 1 and 5 March", "2027-03-01", "2027-03-05"),
            ("from 28 December to 3 January", "2026-12-28", "2027-01-03"),
            ("from 2027-05-03 to 2027-05-06", "2027-05-03", "2027-05-06"),
        ] {
            let (found, month) = when(text);
            let days = found.span.map(|(first, last)| (first.to_string(), last.to_string()));
            assert_eq!(days, Some((first.into(), last.into())), "{text}");
            assert_eq!((found.deadline, month), (None, None), "{text}");
        }
        let month = |text: &str| when(text).1.map(|month| (month.number, month.year));
        assert_eq!(month("a trip in May"), Some((5, 2027)));
        assert_eq!(month("a trip in December"), Some((12, 2026)));
        assert_eq!(month("a trip in May 2029"), Some((5, 2029)));
    }

    #[test]
    fn what_is_not_certain_is_not_read() {
        for text in [
            "you may visit museums",
            "May I ask for help?",
            "march on to Rome",
            "Theresa May",
            "by June Smith",
            "in May-like weather",
            "by 2027-02-30",
            "by 05/06/2027",
            "by 31 April",
            "the minutes from 3 November",
            "on 3 May",
            "embargoed until 3 May",
            "open until 5 December",
            "3 days before 3 May",
            "by 3 May 2020",
            "from 3 to 7 May 2020",
            "not before 3 May",
            "don't finish it by 3 May",
            "if you are done by 3 May",
            "not in May",
            "no trips from 3 to 7 May",
            "the film \"Seven Days in May\"",
            "by 3 May or by 5 May",
            "a trip in May or a trip in June",
            "the shops we opened in May",
            "the shop was open from 3 to 7 May",
            "from 7 to 3 May",
            "by 3",
        ] {
            assert_eq!(when(text), (When::default(), None), "{text}");
        }
    }

    #[test]
    fn the_days_at_the_end_of_time_do_not_overflow() {
        let last = day_of(u64::MAX);
        assert_eq!(read(&Text::new("by 3 May"), last), When::default());
        let month = month(&Text::new("in May"), last);
        assert!(month.is_none_or(|month| month.year >= last.year()));
    }
}

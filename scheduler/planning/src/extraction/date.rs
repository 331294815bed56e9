//! Extracts dates: `in May`, `2027-05-03`, `3rd of June`, `next week`, `May 3-10`.

use jiff::civil::{Date, Weekday};
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use serde::Serialize;

use super::words::{Text, WordKind};

/// A calendar month.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Month {
    /// 1 to 12.
    pub number: i8,
    pub name: &'static str,
    pub year: i16,
}

/// When, as exactly as the text says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct When {
    pub month: Option<Month>,
    /// First day.
    pub start: Option<Date>,
    /// Last day.
    pub end: Option<Date>,
}

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The day of `now_ms` (Unix milliseconds) in UTC.
pub(super) fn day_of(now_ms: u64) -> Date {
    let ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX).to_zoned(TimeZone::UTC).date()
}

pub(super) fn read(text: &Text, today: Date) -> When {
    let mut days: Vec<(usize, Date, usize)> = Vec::new();
    let mut month = None;
    let mut at = 0;
    while at < text.words.len() {
        if let Some((start, end)) = day_range(text, at, today) {
            return from_days(start, Some(end));
        }
        if let Some((day, next)) = day_at(text, at, today) {
            days.push((at, day, next));
            at = next;
            continue;
        }
        if let Some((found, next)) = month_at(text, at, today) {
            month = month.or(Some(found));
            at = next;
            continue;
        }
        at += 1;
    }
    match days.as_slice() {
        [] => match month {
            Some(_) => When { month, ..When::default() },
            None => relative(text, today).unwrap_or_default(),
        },
        [(_, day, _)] => from_days(*day, None),
        [(_, first, after), (second_at, second, _), ..] => {
            let second = &in_year_of(*first, *second);
            let linked = (*after..*second_at)
                .any(|i| matches!(text.lower(i), "to" | "until" | "till" | "through" | "-" | "–" | "and"));
            from_days(*first, (linked && second >= first).then_some(*second))
        }
    }
}

/// The second day of two in the year of the first: `from April 3, 2023 to April 4`.
fn in_year_of(first: Date, second: Date) -> Date {
    let same = Date::new(first.year(), second.month(), second.day()).ok();
    same.filter(|same| first.year() < second.year() && *same >= first).unwrap_or(second)
}

fn from_days(start: Date, end: Option<Date>) -> When {
    When { month: month(start.month(), start.year()), start: Some(start), end }
}

fn month(number: i8, year: i16) -> Option<Month> {
    let name = MONTHS.get(usize::try_from(number).ok()?.checked_sub(1)?)?;
    Some(Month { number, name, year })
}

/// The number of a month's name, from 1; short forms count when written with a capital.
fn month_number(text: &Text, at: usize) -> Option<i8> {
    let word = text.get(at)?;
    let position = MONTHS.iter().position(|name| {
        let name = name.to_lowercase();
        word.lower == name
            || (word.text.chars().next().is_some_and(char::is_uppercase)
                && (word.lower == name[..3] || (word.lower == "sept" && name == "september")))
    })?;
    i8::try_from(position + 1).ok()
}

fn year_at(text: &Text, at: usize) -> Option<i16> {
    let word = text.get(at)?;
    match word.kind {
        WordKind::Number(_)
            if word.text.len() == 4 && !text.words.get(at + 1).is_some_and(|w| w.glued && w.lower == "-") =>
        {
            word.text.parse().ok().filter(|year| (1900..2200).contains(year))
        }
        _ => None,
    }
}

/// A day of a month, `3` or `3rd`, and the index after it.
fn day_number(text: &Text, at: usize) -> Option<(i8, usize)> {
    let word = text.get(at)?;
    if !matches!(word.kind, WordKind::Number(_)) || word.text.len() > 2 {
        return None;
    }
    let day = word.text.parse().ok().filter(|day| (1..=31).contains(day))?;
    let ordinal = text.get(at + 1).is_some_and(|w| w.glued && matches!(w.lower.as_str(), "st" | "nd" | "rd" | "th"));
    Some((day, at + 1 + usize::from(ordinal)))
}

/// `May 3-10`, `3-10 May`, `3rd to 10th of May`.
fn day_range(text: &Text, at: usize, today: Date) -> Option<(Date, Date)> {
    let dash = |i: usize| matches!(text.lower(i), "-" | "–" | "to" | "until" | "through");
    if let Some(number) = month_number(text, at) {
        let (first, next) = day_number(text, at + 1)?;
        dash(next).then_some(())?;
        let (last, next) = day_number(text, next + 1)?;
        return range(number, first, last, year_after(text, next).0, today);
    }
    let (first, next) = day_number(text, at)?;
    dash(next).then_some(())?;
    let (last, mut next) = day_number(text, next + 1)?;
    if text.lower(next) == "of" {
        next += 1;
    }
    let number = month_number(text, next)?;
    range(number, first, last, year_after(text, next + 1).0, today)
}

fn range(month: i8, first: i8, last: i8, year: Option<i16>, today: Date) -> Option<(Date, Date)> {
    let start = dated(month, first, year, today)?;
    let end = Date::new(start.year(), month, last).ok()?;
    (end >= start).then_some((start, end))
}

fn year_after(text: &Text, at: usize) -> (Option<i16>, usize) {
    let comma = usize::from(text.lower(at) == ",");
    match year_at(text, at + comma) {
        Some(year) => (Some(year), at + comma + 1),
        None => (None, at),
    }
}

/// A day without a year is the next such day.
fn dated(month: i8, day: i8, year: Option<i16>, today: Date) -> Option<Date> {
    if let Some(year) = year {
        return Date::new(year, month, day).ok();
    }
    (0..=4).filter_map(|ahead| Date::new(today.year() + ahead, month, day).ok()).find(|date| *date >= today)
}

/// `2027-05-03`, `May 3, 2027`, `3rd of May`, `05/23/2027`.
fn day_at(text: &Text, at: usize, today: Date) -> Option<(Date, usize)> {
    let word = text.get(at)?;
    if let WordKind::Number(_) = word.kind {
        if let Some(found) = numeric(text, at) {
            return Some(found);
        }
        let (day, mut next) = day_number(text, at)?;
        if text.lower(next) == "of" {
            next += 1;
        }
        let number = month_number(text, next)?;
        let (year, next) = year_after(text, next + 1);
        return dated(number, day, year, today).map(|date| (date, next));
    }
    let number = month_number(text, at)?;
    let (day, next) = day_number(text, at + 1)?;
    if text.get(next).is_some_and(|w| w.glued && w.lower == "-") || counts_something(text, next) {
        return None;
    }
    let (year, next) = year_after(text, next);
    dated(number, day, year, today).map(|date| (date, next))
}

/// `in May 3 friends visit`: the number belongs to what follows.
fn counts_something(text: &Text, at: usize) -> bool {
    matches!(
        text.lower(at),
        "days"
            | "day"
            | "nights"
            | "weeks"
            | "week"
            | "people"
            | "adults"
            | "friends"
            | "persons"
            | "travellers"
            | "travelers"
    )
}

/// ISO dates, and slashes where only one reading is possible.
fn numeric(text: &Text, at: usize) -> Option<(Date, usize)> {
    let sign = text.lower(at + 1);
    let part = |i: usize| {
        let word = text.get(i)?;
        (matches!(word.kind, WordKind::Number(_)) && (i == at || word.glued)).then(|| word.text.parse::<i16>().ok())?
    };
    if !matches!(sign, "-" | "/") || text.lower(at + 3) != sign {
        return None;
    }
    let (a, b, c) = (part(at)?, part(at + 2)?, part(at + 4)?);
    let small = |n: i16| i8::try_from(n).ok();
    let date = match sign {
        "-" if text.words[at].text.len() == 4 => Date::new(a, small(b)?, small(c)?).ok()?,
        "/" if a > 31 => Date::new(a, small(b)?, small(c)?).ok()?,
        "/" if a > 12 => Date::new(c, small(b)?, small(a)?).ok()?,
        "/" if b > 12 || a == b => Date::new(c, small(a)?, small(b)?).ok()?,
        _ => return None,
    };
    (date.year() >= 1900).then_some((date, at + 5))
}

/// `in May`, `May 2027`, `next May`, `late June`.
fn month_at(text: &Text, at: usize, today: Date) -> Option<(Month, usize)> {
    let number = month_number(text, at)?;
    let (year, next) = year_after(text, at + 1);
    let before = text.before(at, 1);
    let before = if before == "of" && matches!(text.before(at, 2), "end" | "beginning" | "middle" | "start" | "month") {
        "in"
    } else {
        before
    };
    let led = matches!(
        before,
        "in" | "this"
            | "next"
            | "early"
            | "late"
            | "mid"
            | "during"
            | "by"
            | "until"
            | "before"
            | "after"
            | "since"
            | "for"
            | "from"
            | "of"
            | "last"
            | "around"
    ) || (before == "-" && text.before(at, 2) == "mid");
    let ambiguous = matches!(text.lower(at), "may" | "march" | "mar" | "jun" | "jan" | "april" | "june" | "august");
    let stands_free =
        text.is_capital(at) && !text.is_sentence_start(at) && !(ambiguous && at > 0 && text.is_capital(at - 1));
    if !(led || year.is_some() || stands_free || !ambiguous) {
        return None;
    }
    let year = year.unwrap_or_else(|| {
        let passed = number < today.month() || (before == "next" && number == today.month());
        let year = today.year() + i16::from(passed);
        if before == "last" { year - i16::from(number >= today.month() || passed) } else { year }
    });
    month(number, year).map(|month| (month, next))
}

/// `tomorrow`, `next week`, `this weekend`, `next month`, `in two weeks`, `next Friday`.
fn relative(text: &Text, today: Date) -> Option<When> {
    (0..text.words.len()).find_map(|at| {
        let (start, end) = match (text.before(at, 1), text.lower(at)) {
            ("after", "tomorrow") => (plus(today, 2)?, None),
            (_, "tomorrow") if text.lower(at + 1) != "and" || text.lower(at + 2) != "tomorrow" => {
                let day_after = text.before(at, 1) == "after" && text.before(at, 2) == "day";
                (plus(today, if day_after { 2 } else { 1 })?, None)
            }
            (_, "today" | "tonight")
                if !text.words[at].text.ends_with("'s") && !text.words[at].text.ends_with("’s") =>
            {
                (today, None)
            }
            ("next", "week") => {
                let monday = next_weekday(today, Weekday::Monday, true)?;
                (monday, Some(plus(monday, 6)?))
            }
            ("this", "weekend") => {
                let saturday = next_weekday(today, Weekday::Saturday, false)?;
                (saturday, Some(plus(saturday, 1)?))
            }
            ("next", "weekend") => {
                let monday = next_weekday(today, Weekday::Monday, true)?;
                let saturday = plus(monday, 5)?;
                (saturday, Some(plus(saturday, 1)?))
            }
            ("next", "month") => {
                let first = today.first_of_month().checked_add(1.month()).ok()?;
                return Some(When { month: month(first.month(), first.year()), ..When::default() });
            }
            ("this", "month") => {
                return Some(When { month: month(today.month(), today.year()), ..When::default() });
            }
            ("in", _) => (in_some_time(text, at, today)?, None),
            ("next" | "on" | "this" | "by" | "from", word) => (next_weekday(today, weekday(word)?, false)?, None),
            _ => return None,
        };
        Some(from_days(start, end))
    })
}

fn in_some_time(text: &Text, at: usize, today: Date) -> Option<Date> {
    let (value, next) = match text.lower(at) {
        "a" | "one" if text.number(at).is_none_or(|q| q.value == 1.0) => (1.0, at + 1),
        _ => text.number(at).map(|q| (q.value, q.next))?,
    };
    let days = match text.lower(next) {
        "day" | "days" => 1.0,
        "week" | "weeks" => 7.0,
        "month" | "months" => 30.0,
        _ => return None,
    } * value;
    (0.0..=3_650.0).contains(&days).then_some(())?;
    #[expect(clippy::cast_possible_truncation, reason = "at most ten years")]
    plus(today, days as i64)
}

fn plus(date: Date, days: i64) -> Option<Date> {
    date.checked_add(days.days()).ok()
}

/// The next such weekday: today counts unless `after`.
fn next_weekday(today: Date, weekday: Weekday, after: bool) -> Option<Date> {
    (i64::from(after)..=7).filter_map(|ahead| plus(today, ahead)).find(|date| date.weekday() == weekday)
}

fn weekday(word: &str) -> Option<Weekday> {
    match word {
        "monday" => Some(Weekday::Monday),
        "tuesday" => Some(Weekday::Tuesday),
        "wednesday" => Some(Weekday::Wednesday),
        "thursday" => Some(Weekday::Thursday),
        "friday" => Some(Weekday::Friday),
        "saturday" => Some(Weekday::Saturday),
        "sunday" => Some(Weekday::Sunday),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Saturday.
    fn today() -> Date {
        Date::constant(2026, 11, 21)
    }

    fn when(text: &str) -> When {
        read(&Text::new(text), today())
    }

    #[test]
    fn a_month_without_a_year_is_the_next_one() {
        for (text, number, year) in [
            ("Plan a 3-day trip to Paris in May with a $2000 budget", 5, 2027),
            ("in December", 12, 2026),
            ("in November", 11, 2026),
            ("next November", 11, 2027),
            ("in may", 5, 2027),
            ("May 2028", 5, 2028),
            ("Paris, May, $2000", 5, 2027),
            ("end of June", 6, 2027),
            ("mid-September", 9, 2027),
            ("in Sept 2027", 9, 2027),
            ("sales since January", 1, 2027),
            ("next month", 12, 2026),
        ] {
            let found = when(text);
            assert_eq!(found.month.map(|m| (m.number, m.year)), Some((number, year)), "{text}");
            assert_eq!(found.start, None, "{text}");
        }
    }

    #[test]
    fn days_are_read_in_many_spellings() {
        for (text, start) in [
            ("on 2027-05-03", "2027-05-03"),
            ("May 3", "2027-05-03"),
            ("May 3rd, 2028", "2028-05-03"),
            ("the 3rd of May", "2027-05-03"),
            ("3 May 2029", "2029-05-03"),
            ("23/05/2027", "2027-05-23"),
            ("05/23/2027", "2027-05-23"),
            ("tomorrow", "2026-11-22"),
            ("next week", "2026-11-23"),
            ("this weekend", "2026-11-21"),
            ("next weekend", "2026-11-28"),
            ("in two weeks", "2026-12-05"),
            ("in 10 days", "2026-12-01"),
            ("next Friday", "2026-11-27"),
            ("Nov 20", "2027-11-20"),
            ("Feb 29", "2028-02-29"),
        ] {
            assert_eq!(when(text).start.map(|d| d.to_string()), Some(start.into()), "{text}");
        }
    }

    #[test]
    fn ranges_have_two_ends() {
        for text in [
            "May 3-10",
            "3-10 May",
            "3rd to 10th of May",
            "from May 3 to May 10",
            "2027-05-03 to 2027-05-10",
            "from May 3, 2027 to May 10",
        ] {
            let found = when(text);
            let ends = (found.start.map(|d| d.to_string()), found.end.map(|d| d.to_string()));
            assert_eq!(ends, (Some("2027-05-03".into()), Some("2027-05-10".into())), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_not_read_as_one() {
        for text in [
            "you may visit museums",
            "May I ask for help?",
            "march on to Rome",
            "Theresa May",
            "2027-02-30",
            "05/06/2027",
            "at 3",
            "24/7 support",
            "5-3-2",
            "in today's world",
            "31 April",
            "a 3-day trip",
            "Feb 30",
        ] {
            assert_eq!(when(text).start, None, "{text}");
        }
        for text in ["you may visit museums", "May I ask for help?", "march on to Rome", "Theresa May"] {
            assert_eq!(when(text), When::default(), "{text}");
        }
    }

    #[test]
    fn the_days_at_the_end_of_time_do_not_overflow() {
        let last = day_of(u64::MAX);
        assert_eq!(read(&Text::new("in 10 days"), last), When::default());
        assert_eq!(read(&Text::new("next week, in May"), last).start, None);
    }
}

//! Reads dates as a calendar names them: `2027-05-03`, `3rd of June`, `12.10.2027`, `May 3-10`, `in May`.

use jiff::civil::Date;
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

/// A date at a place of the text.
#[derive(Clone, Debug)]
pub(super) struct DateMention {
    pub span: DateSpan,
    /// Index of the first word after it.
    pub next: usize,
    pub assumed: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub(super) enum DateSpan {
    Day(Date),
    Days(Date, Date),
    Month(Month),
    /// `within 3 days`: a deadline without a word that says so.
    Within(Date),
}

const MONTHS: [&str; 12] = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
];

pub(super) fn month(number: i8, year: i16) -> Option<Month> {
    let name = MONTHS.get(usize::try_from(number).ok()?.checked_sub(1)?)?;
    Some(Month { number, name, year })
}

/// The number of a month's name, from 1; short forms count when written with a capital.
pub(super) fn month_number(text: &Text, at: usize) -> Option<i8> {
    let word = text.get(at)?;
    // `children under 12 may not be filmed`
    if word.text == "may"
        && ["not", "be", "have", "only", "never", "use", "also", "still"].contains(&text.lower(at + 1))
    {
        return None;
    }
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
    let is_part = text.words.get(at + 1).is_some_and(|w| w.glued && w.lower == "-");
    if !matches!(word.kind, WordKind::Number(_)) || word.text.len() != 4 || is_part {
        return None;
    }
    word.text.parse().ok().filter(|year| (1900..2200).contains(year))
}

/// A day of a month, `3` or `3rd`, and the index after it.
pub(super) fn day_number(text: &Text, at: usize) -> Option<(i8, usize)> {
    let word = text.get(at)?;
    if !matches!(word.kind, WordKind::Number(_)) || word.text.len() > 2 {
        return None;
    }
    let day = word.text.parse().ok().filter(|day| (1..=31).contains(day))?;
    let ordinal = text.get(at + 1).is_some_and(|w| w.glued && matches!(w.lower.as_str(), "st" | "nd" | "rd" | "th"));
    Some((day, at + 1 + usize::from(ordinal)))
}

/// `May 3-10`, `3-10 May`, `3rd to 10th of May`.
pub(super) fn day_range(text: &Text, at: usize, today: Date) -> Option<(Date, Date, usize)> {
    let dash = |i: usize| matches!(text.lower(i), "-" | "–" | "to" | "until" | "through");
    if let Some(number) = month_number(text, at) {
        let (first, next) = day_number(text, at + 1)?;
        dash(next).then_some(())?;
        let (last, next) = day_number(text, next + 1)?;
        let (year, next) = year_after(text, next);
        return range(number, first, last, year, today).map(|(first, last)| (first, last, next));
    }
    let (first, mut next) = day_number(text, at)?;
    // `3, 5 and 9 May`
    let is_led = text.before(at, 1) == "on" || text.before(at, 1) == "the" && text.before(at, 2) == "on";
    while text.lower(next) == "," && is_led && day_number(text, next + 1).is_some() {
        next = day_number(text, next + 1).map_or(next + 1, |(_, after)| after);
    }
    let between = text.before(at, 1) == "between" && text.lower(next) == "and";
    let pair = matches!(text.lower(next), "and" | "&");
    // `5/6 December`
    let slash = text.lower(next) == "/" && text.words[next].glued;
    (dash(next) || between || pair || slash).then_some(())?;
    let (last, mut next) = day_number(text, next + 1)?;
    if text.lower(next) == "of" {
        next += 1;
    }
    let number = month_number(text, next)?;
    let (year, next) = year_after(text, next + 1);
    range(number, first, last, year, today).map(|(first, last)| (first, last, next))
}

fn range(month: i8, first: i8, last: i8, year: Option<i16>, today: Date) -> Option<(Date, Date)> {
    let start = dated(month, first, year, today)?;
    let end = Date::new(start.year(), month, last).ok()?;
    (end >= start).then_some((start, end))
}

pub(super) fn year_after(text: &Text, at: usize) -> (Option<i16>, usize) {
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
pub(super) fn day_at(text: &Text, at: usize, today: Date) -> Option<(Date, usize)> {
    let word = text.get(at)?;
    if let WordKind::Number(_) = word.kind {
        if let Some(found) = numeric(text, at, today) {
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
    ["days", "day", "nights", "weeks", "week", "people", "adults", "friends", "persons", "travellers", "travelers"]
        .contains(&text.lower(at))
}

/// ISO dates, and slashes where only one reading is possible.
fn numeric(text: &Text, at: usize, today: Date) -> Option<(Date, usize)> {
    dotted(text, at, today).or_else(|| signed(text, at))
}

/// `12.10.2027`: the day stands first.
fn dotted(text: &Text, at: usize, today: Date) -> Option<(Date, usize)> {
    let (day, month) = text.get(at)?.text.split_once('.')?;
    let is_led = matches!(text.before(at, 1), "by" | "until" | "before" | "on" | "from" | "due" | "latest" | "till");
    let ends = text.lower(at + 1) == "." && text.words[at + 1].glued;
    let (Ok(day_number), Ok(month_number)) = (day.parse(), month.parse()) else { return None };
    // `by 15.1.`: without a year, the dot behind the month belongs to it.
    if is_led && ends && !text.get(at + 2).is_some_and(|year| year.glued && year.kind != WordKind::Sign) {
        return dated(month_number, day_number, None, today).map(|date| (date, at + 2));
    }
    let year = text.get(at + 2).filter(|year| year.glued && year.text.len() == 4)?;
    (text.lower(at + 1) == "." && text.words[at + 1].glued).then_some(())?;
    let date = Date::new(year.text.parse().ok()?, month_number, day_number).ok()?;
    (date.year() >= 1900).then_some((date, at + 3))
}

fn signed(text: &Text, at: usize) -> Option<(Date, usize)> {
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
pub(super) fn month_at(text: &Text, at: usize, today: Date) -> Option<(Month, usize)> {
    let number = month_number(text, at)?;
    // `October's bank statement` says which one.
    if text.words[at].text.len() > text.words[at].lower.len() {
        return None;
    }
    let (year, next) = year_after(text, at + 1);
    let before = text.before(at, 1);
    let before = if before == "of" && matches!(text.before(at, 2), "end" | "beginning" | "middle" | "start" | "month") {
        "in"
    } else {
        before
    };
    let led = [
        "in", "this", "till", "than", "whole", "next", "early", "late", "mid", "during", "by", "until", "before",
        "after", "since", "for", "from", "of", "last", "around",
    ]
    .contains(&before)
        || (before == "-" && text.before(at, 2) == "mid");
    let ambiguous = ["may", "march", "mar", "jun", "jan", "april", "june", "august"].contains(&text.lower(at));
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

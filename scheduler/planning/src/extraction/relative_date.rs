//! Extracts dates that depend on the day: `tomorrow`, `next week`, `within 3 days`, `end of the month`, `before Christmas`.

use goalmill_common::number::whole_i64;
use jiff::civil::{Date, Weekday};
use jiff::{Span as Length, ToSpan};

use super::date::{DateMention, DateSpan, is_due, month, month_number, year_after};
use super::words::{Text, WordKind};

/// Furthest day that is taken for one, in days from today.
const DAYS_MAX: f64 = 3_650.0;

/// A date that begins at `at`.
pub(super) fn read(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    named_day(text, at, today)
        .or_else(|| within(text, at, today))
        .or_else(|| quarter(text, at, today))
        .or_else(|| ordinal_day(text, at, today))
        .or_else(|| named_weekday(text, at, today))
}

/// `end of June`, `month's end`, `EOD`: what would otherwise be read as a month alone.
pub(super) fn before_month(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    let certain = |date, next| Some(DateMention { span: DateSpan::Day(date), next, assumed: None });
    match text.lower(at) {
        "eod" | "cob" => return certain(today, at + 1),
        "eow" => return Some(week_end(today, 0, at + 1)),
        "eom" => return certain(today.last_of_month(), at + 1),
        "eoy" => return certain(today.last_of_year(), at + 1),
        "year" | "month" | "week" | "quarter" => {
            let dash = usize::from(text.lower(at + 1) == "-");
            let led = matches!(
                text.before(at, 1),
                "by" | "before" | "until" | "the" | "at" | "than" | "till" | "this" | "next"
            );
            (led && text.lower(at + 1 + dash) == "end").then_some(())?;
            return end_of_unit(text.lower(at), 0, today, at + 2 + dash);
        }
        "end" | "close" => {}
        _ => return None,
    }
    let mut next = at + 1;
    if text.lower(next) == "of" {
        next += 1;
    }
    if text.lower(next) == "business" {
        return certain(today, next + 1);
    }
    if matches!(text.lower(next), "the" | "this") {
        next += 1;
    }
    let ahead = i64::from(text.lower(next) == "next");
    if matches!(text.lower(next), "next" | "current") {
        next += 1;
    }
    if let Some(found) = end_of_unit(text.lower(next), ahead, today, next + 1) {
        return Some(found);
    }
    if let Some(DateMention { span: DateSpan::Days(_, last), next, .. }) = quarter_named(text, next, today) {
        return certain(last, next);
    }
    // `end of June` alone is a month; as a deadline it is a day.
    let led = matches!(
        (text.before(at, 1), text.before(at, 2)),
        ("by" | "until" | "before" | "till" | "than", _) | ("the", "by" | "until" | "before" | "till" | "than")
    );
    let number = month_number(text, next).filter(|_| led)?;
    let (year, next) = year_after(text, next + 1);
    let year = year.unwrap_or_else(|| today.year() + i16::from(number < today.month()));
    certain(Date::new(year, number, 1).ok()?.last_of_month(), next)
}

fn end_of_unit(unit: &str, ahead: i64, today: Date, next: usize) -> Option<DateMention> {
    let date = match unit {
        "day" | "today" => today,
        "week" => return Some(week_end(today, ahead, next)),
        "month" => today.first_of_month().checked_add(ahead.months()).ok()?.last_of_month(),
        "year" => Date::new(today.year().checked_add(i16::try_from(ahead).ok()?)?, 12, 31).ok()?,
        "quarter" => {
            let number = (today.month() - 1) / 3 + 1;
            let shifted = Date::new(today.year(), number * 3, 1).ok()?.checked_add((ahead * 3).months()).ok()?;
            shifted.last_of_month()
        }
        _ => return None,
    };
    Some(DateMention { span: DateSpan::Day(date), next, assumed: None })
}

/// The Friday of a week; its Sunday when Friday has passed.
fn week_end(today: Date, ahead: i64, next: usize) -> DateMention {
    let monday = today.saturating_sub(i64::from(today.weekday().to_monday_zero_offset()).days());
    let friday = monday.saturating_add((ahead * 7 + 4).days());
    let date = if friday < today { friday.saturating_add(2.days()) } else { friday };
    DateMention {
        span: DateSpan::Day(date),
        next,
        assumed: Some("the Friday of the week, or its Sunday when that has passed"),
    }
}

/// `tomorrow`, `next week`, `this weekend`, `Christmas`.
fn named_day(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    let day = |date| Some(DateMention { span: DateSpan::Day(date), next: at + 1, assumed: None });
    let days = |first: Date, count: i64| {
        Some(DateMention { span: DateSpan::Days(first, plus(first, count)?), next: at + 1, assumed: None })
    };
    let possessive = text.get(at)?.text.ends_with("'s") || text.get(at)?.text.ends_with("’s");
    match (text.before(at, 1), text.lower(at)) {
        ("after", "tomorrow") => day(plus(today, 2)?),
        (_, "tomorrow") => {
            let day_after = text.before(at, 1) == "after" && text.before(at, 2) == "day";
            day(plus(today, if day_after { 2 } else { 1 })?)
        }
        (_, "today" | "tonight") if !possessive => day(today),
        ("next", "week") => days(next_weekday(today, Weekday::Monday, true)?, 6),
        ("this", "weekend") => days(next_weekday(today, Weekday::Saturday, false)?, 1),
        ("the", "weekend") if matches!(text.before(at, 2), "by" | "before" | "until") => {
            days(next_weekday(today, Weekday::Saturday, false)?, 1)
        }
        ("next", "weekend") => days(plus(next_weekday(today, Weekday::Monday, true)?, 5)?, 1),
        ("next", "month") => {
            let first = today.first_of_month().checked_add(1.month()).ok()?;
            Some(DateMention {
                span: DateSpan::Month(month(first.month(), first.year())?),
                next: at + 1,
                assumed: None,
            })
        }
        ("this", "month") => Some(DateMention {
            span: DateSpan::Month(month(today.month(), today.year())?),
            next: at + 1,
            assumed: None,
        }),
        _ => feast(text, at, today),
    }
}

/// Feasts on the same day each year.
fn feast(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    if text.lower(at) == "easter" {
        return easter_at(text, at, today);
    }
    let (number, day, words) = match (text.lower(at), text.lower(at + 1)) {
        ("christmas", "eve") => (12, 24, 2),
        ("christmas", "day") => (12, 25, 2),
        ("christmas" | "xmas", _) => (12, 25, 1),
        ("new", "year") if text.lower(at + 2) == "eve" => (12, 31, 3),
        ("new", "year") if text.words.get(at + 1).is_some_and(|w| w.text.len() > 4) => (1, 1, 2),
        ("halloween", _) => (10, 31, 1),
        ("valentine", "day") => (2, 14, 2),
        _ => return None,
    };
    let led =
        matches!(text.before(at, 1), "by" | "before" | "until" | "till" | "on" | "at" | "than" | "after" | "from");
    let date = led.then(|| (0..=1).filter_map(|ahead| Date::new(today.year() + ahead, number, day).ok()))?;
    let date = date.into_iter().find(|date| *date >= today)?;
    Some(DateMention { span: DateSpan::Day(date), next: at + words, assumed: None })
}

/// `Easter`, `the Easter weekend`.
fn easter_at(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    let next = at + 1 + usize::from(matches!(text.lower(at + 1), "sunday" | "weekend" | "holidays"));
    let sunday = (0..=1).filter_map(|ahead| easter(today.year() + ahead)).find(|date| *date >= today)?;
    let span = match text.lower(at + 1) {
        "weekend" => DateSpan::Days(plus(sunday, -2)?, plus(sunday, 1)?),
        _ => DateSpan::Day(sunday),
    };
    Some(DateMention { span, next, assumed: None })
}

/// Easter Sunday of a year of the Gregorian calendar.
///
/// Source: J. Meeus, "Astronomical Algorithms", 1991, chapter 8.
fn easter(year: i16) -> Option<Date> {
    let year_number = i32::from(year);
    let (golden, century, rest) = (year_number % 19, year_number / 100, year_number % 100);
    let moon = (19 * golden + century - century / 4 - (century - (century + 8) / 25 + 1) / 3 + 15) % 30;
    let weekday = (32 + 2 * (century % 4) + 2 * (rest / 4) - moon - rest % 4) % 7;
    let correction = (golden + 11 * moon + 22 * weekday) / 451;
    let day = moon + weekday - 7 * correction + 114;
    Date::new(year, i8::try_from(day / 31).ok()?, i8::try_from(day % 31 + 1).ok()?).ok()
}

/// `within 3 days`, `in less than two weeks`, `in the next 10 days`: a deadline; `in two weeks`: a day.
fn within(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    let (from, is_limit) = match (text.lower(at), text.lower(at + 1), text.lower(at + 2)) {
        ("within", "the", "next" | "coming") => (at + 3, true),
        ("within", "the", _) | ("within" | "in", "under", _) => (at + 2, true),
        ("within", _, _) => (at + 1, true),
        ("in", "less" | "fewer", "than") | ("in", "at", "most") | ("in", "the", "next" | "coming") => (at + 3, true),
        ("in", "no" | "not", "more") => (at + 4, true),
        ("in", _, _) => (at + 1, false),
        _ => return None,
    };
    let (value, next) = match text.lower(from) {
        "a" | "one" if text.number(from).is_none_or(|q| q.value == 1.0) => (1.0, from + 1),
        "next" if is_limit => (1.0, from + 1),
        "week" | "month" | "quarter" | "year" if is_limit => (1.0, from),
        _ => text.number(from).map(|q| (q.value, q.next))?,
    };
    let (date, next) = after(text, value, next, today)?;
    // `in two days starting 4 January`: how long, not when.
    if !is_limit && matches!(text.lower(next), "starting" | "beginning" | "from") {
        return None;
    }
    let span = if is_limit || is_due(text.before(at, 1)) { DateSpan::Within(date) } else { DateSpan::Day(date) };
    Some(DateMention { span, next, assumed: None })
}

/// The day after a length of time whose unit stands at `at`.
fn after(text: &Text, value: f64, at: usize, today: Date) -> Option<(Date, usize)> {
    (0.0..=DAYS_MAX).contains(&value).then_some(())?;
    let whole = whole_i64(value.ceil());
    let add = |length: Length| today.checked_add(length).ok();
    let date = match text.lower(at) {
        "working" | "business" | "work" if matches!(text.lower(at + 1), "day" | "days") => {
            return Some((working_days(today, whole)?, at + 2));
        }
        "calendar" if matches!(text.lower(at + 1), "day" | "days") => return Some((plus(today, whole)?, at + 2)),
        "hour" | "hours" if whole >= 24 => plus(today, whole / 24)?,
        "day" | "days" => plus(today, whole)?,
        "week" | "weeks" => plus(today, whole * 7)?,
        "month" | "months" => add(whole.months())?,
        "quarter" | "quarters" => add((whole * 3).months())?,
        "year" | "years" if whole <= 10 => add(whole.years())?,
        _ => return None,
    };
    Some((date, at + 1))
}

fn working_days(today: Date, count: i64) -> Option<Date> {
    let mut date = today;
    for _ in 0..count {
        date = plus(date, 1)?;
        while matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday) {
            date = plus(date, 1)?;
        }
    }
    Some(date)
}

/// `in Q2`, `by Q3 2027`.
fn quarter(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    let led = matches!(text.before(at, 1), "in" | "by" | "before" | "until" | "during" | "till");
    led.then(|| quarter_named(text, at, today))?
}

fn quarter_named(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    let number = text.get(at + 1).filter(|number| number.glued && text.lower(at) == "q")?;
    let number: i8 = number.text.parse().ok().filter(|number| (1..=4).contains(number))?;
    let (year, next) = year_after(text, at + 2);
    let last = |year: i16| Date::new(year, number * 3, 1).ok().map(Date::last_of_month);
    let year = match year {
        Some(year) => year,
        None => today.year() + i16::from(last(today.year())? < today),
    };
    let first = Date::new(year, number * 3 - 2, 1).ok()?;
    Some(DateMention { span: DateSpan::Days(first, last(year)?), next, assumed: None })
}

/// `by the 15th`: the next such day.
fn ordinal_day(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    let led = text.before(at, 1) == "the"
        && matches!(text.before(at, 2), "by" | "before" | "until" | "till" | "on" | "from" | "than");
    let word = text.get(at).filter(|_| led)?;
    let ordinal = text.get(at + 1).is_some_and(|w| w.glued && matches!(w.lower.as_str(), "st" | "nd" | "rd" | "th"));
    let day: i8 = word.text.parse().ok().filter(|_| ordinal)?;
    let first = today.first_of_month();
    let dates = (0..=2_i64).filter_map(|ahead| {
        let month = first.checked_add(ahead.months()).ok()?;
        Date::new(month.year(), month.month(), day).ok()
    });
    let date = dates.into_iter().find(|date| *date >= today)?;
    matches!(word.kind, WordKind::Number(_)).then_some(DateMention {
        span: DateSpan::Day(date),
        next: at + 2,
        assumed: None,
    })
}

/// `Friday`, unless it is one of many or a past one.
fn named_weekday(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    let weekday = weekday(text.lower(at))?;
    let before = text.before(at, 1);
    // `the second Saturday in July` is not the next Saturday.
    let is_numbered = matches!(before, "first" | "second" | "third" | "fourth" | "fifth" | "other");
    let past_or_many = is_numbered
        || matches!(before, "every" | "each" | "last" | "past" | "a" | "any" | "since" | "per" | "black" | "good");
    let led =
        matches!(before, "next" | "on" | "this" | "by" | "from" | "to" | "until" | "before" | "for" | "due" | "than");
    (!past_or_many && (led || text.is_capital(at))).then_some(())?;
    let date = next_weekday(today, weekday, false)?;
    Some(DateMention { span: DateSpan::Day(date), next: at + 1, assumed: None })
}

pub(super) fn plus(date: Date, days: i64) -> Option<Date> {
    date.checked_add(days.days()).ok()
}

/// The next such weekday: today counts unless `after`.
fn next_weekday(today: Date, weekday: Weekday, after: bool) -> Option<Date> {
    (i64::from(after)..=7).filter_map(|ahead| plus(today, ahead)).find(|date| date.weekday() == weekday)
}

pub(super) fn weekday(word: &str) -> Option<Weekday> {
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

/// Whether the word at `at` is a part of a time of day: `5`, `pm`, `17:00`, `noon`.
pub(super) fn is_time_of_day(text: &Text, at: usize) -> bool {
    let marks = |word: &str| matches!(word, "am" | "pm" | "noon" | "midnight" | "o'clock");
    let (before, word, after) = (text.before(at, 1), text.lower(at), text.lower(at + 1));
    let digits = |word: Option<&super::words::Word>| {
        word.is_some_and(|w| matches!(w.kind, WordKind::Number(_)) && w.text.len() <= 2)
    };
    marks(word)
        || digits(text.get(at)) && (marks(after) || after == ":" || before == ":" && at > 1 && digits(text.get(at - 2)))
}

//! Extracts dates that depend on the day: `tomorrow`, `next week`, `within 3 days`, `end of the month`, `before Christmas`.

use goalmill_common::number::whole_i64;
use jiff::civil::{Date, Weekday};
use jiff::{Span as Length, ToSpan};

use super::calendar_date::{DateMention, DateSpan, month, month_number, year_after};
use super::date::mention_at;
use super::date_role::is_due;
use super::words::{Text, WordKind};

/// Furthest day that is taken for one, in days from today.
const DAYS_MAX: f64 = 3_650.0;

/// A date that begins at `at`.
pub(super) fn read(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    numbered_weekday(text, at, today)
        .or_else(|| named_day(text, at, today))
        .or_else(|| within(text, at, today))
        .or_else(|| quarter(text, at, today))
        .or_else(|| season(text, at, today))
        .or_else(|| ordinal_day(text, at, today))
        .or_else(|| named_weekday(text, at, today))
}

/// `end of June`, `month's end`, `EOD`: what would otherwise be read as a month alone.
pub(super) fn before_month(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    let certain = |date, next| Some(DateMention { span: DateSpan::Day(date), next, assumed: None });
    if let Some(next) = close_of_day(text, at) {
        return mention_at(text, next + usize::from(matches!(text.lower(next), "on" | "of" | ",")), today)
            .filter(|day| matches!(day.span, DateSpan::Day(_)))
            .or_else(|| certain(today, next));
    }
    match text.lower(at) {
        "eow" => return Some(week_end(today, 0, at + 1)),
        "eom" => return certain(today.last_of_month(), at + 1),
        "eoy" => return certain(today.last_of_year(), at + 1),
        "year" | "month" | "week" | "quarter" => {
            let dash = usize::from(text.lower(at + 1) == "-");
            let led =
                ["by", "before", "until", "the", "at", "than", "till", "this", "next"].contains(&text.before(at, 1));
            (led && text.lower(at + 1 + dash) == "end").then_some(())?;
            return end_of_unit(text.lower(at), 0, today, at + 2 + dash);
        }
        "start" | "beginning" | "middle" => return begin_of_month(text, at, today),
        "end" | "close" => {}
        _ => return None,
    }
    let mut next = at + 1;
    if text.lower(next) == "of" {
        next += 1;
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
    let (first, next) = first_of_named_month(text, next, today).filter(|_| leads_deadline(text, at))?;
    certain(first.last_of_month(), next)
}

/// `EOD`, `close of business`, `end of the day`: the index after it.
fn close_of_day(text: &Text, at: usize) -> Option<usize> {
    match (text.lower(at), text.lower(at + 1), text.lower(at + 2), text.lower(at + 3)) {
        ("eod" | "cob", ..) => Some(at + 1),
        ("end" | "close", "of", "business" | "day" | "today" | "play", _) => Some(at + 3),
        ("end" | "close", "of", "the", "day") => Some(at + 4),
        _ => None,
    }
}

/// `by the start of June`, `before the middle of next month`.
fn begin_of_month(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    (text.lower(at + 1) == "of" && leads_deadline(text, at)).then_some(())?;
    let next_month = || {
        let first = today.first_of_month().checked_add(1.month()).ok()?;
        (text.lower(at + 2) == "next" && text.lower(at + 3) == "month").then_some((first, at + 4))
    };
    let (first, next) = first_of_named_month(text, at + 2, today).or_else(next_month)?;
    let (date, assumed) = match text.lower(at) {
        "middle" => (plus(first, 14)?, "the 15th"),
        _ => (first, "the first day of the month"),
    };
    Some(DateMention { span: DateSpan::Day(date), next, assumed: Some(assumed) })
}

/// The first day of the month that is named at `at`, and the index after it.
fn first_of_named_month(text: &Text, at: usize, today: Date) -> Option<(Date, usize)> {
    let number = month_number(text, at)?;
    let (year, next) = year_after(text, at + 1);
    let year = year.unwrap_or_else(|| today.year() + i16::from(number < today.month()));
    Some((Date::new(year, number, 1).ok()?, next))
}

/// Whether `by`, `before` or `until` stands before, with or without an article.
fn leads_deadline(text: &Text, at: usize) -> bool {
    let back = 1 + usize::from(text.before(at, 1) == "the");
    matches!(text.before(at, back), "by" | "until" | "before" | "till" | "than")
}

/// `the second Tuesday of March`, `last Friday in June`, `the first weekend of next month`, `the first week of May`.
fn numbered_weekday(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    let (number, next) = ordinal_at(text, at).filter(|_| !matches!(text.before(at, 1), "every" | "each"))?;
    let link = next + 1;
    matches!(text.lower(link), "of" | "in").then_some(())?;
    let (months, after) = months_named(text, link + 1, today)?;
    let unit = text.lower(next);
    let mut found = months.into_iter().filter_map(|first| {
        let nth = |weekday| first.nth_weekday_of_month(number, weekday).ok();
        match unit {
            "weekend" => nth(Weekday::Saturday).and_then(|day| Some(DateSpan::Days(day, plus(day, 1)?))),
            "week" if number < 0 => Some(DateSpan::Days(plus(first.last_of_month(), -6)?, first.last_of_month())),
            "week" => {
                let monday = plus(first, i64::from(number - 1) * 7)?;
                Some(DateSpan::Days(monday, plus(monday, 6)?))
            }
            _ => nth(weekday_at(text, next)?).map(DateSpan::Day),
        }
    });
    let is_ahead = |span: &DateSpan| match span {
        DateSpan::Day(day) | DateSpan::Days(_, day) => *day >= today,
        DateSpan::Month(_) | DateSpan::Within(_) => false,
    };
    let span = found.find(is_ahead)?;
    let assumed = (unit == "week").then_some("seven days, counted from the first of the month");
    Some(DateMention { span, next: after, assumed })
}

/// `second`, `2nd`; −1 for `last`. With the index after it.
fn ordinal_at(text: &Text, at: usize) -> Option<(i8, usize)> {
    let number = match text.lower(at) {
        "first" => 1,
        "second" => 2,
        "third" => 3,
        "fourth" => 4,
        "fifth" => 5,
        "last" => -1,
        digits => {
            let number = digits.parse().ok().filter(|number| (1..=5).contains(number))?;
            let ending = text.get(at + 1).filter(|ending| ending.glued)?;
            return matches!(ending.lower.as_str(), "st" | "nd" | "rd" | "th").then_some((number, at + 2));
        }
    };
    Some((number, at + 1))
}

/// The first days of the months that are meant, nearest first: `March`, `next month`, `the month`. With the index after it.
fn months_named(text: &Text, at: usize, today: Date) -> Option<(Vec<Date>, usize)> {
    let this = today.first_of_month();
    let ahead = |months: i64| this.checked_add(months.months()).ok();
    match (text.lower(at), text.lower(at + 1)) {
        ("next", "month") => return Some((vec![ahead(1)?], at + 2)),
        ("the" | "this", "month") => return Some((vec![this, ahead(1)?], at + 2)),
        _ => {}
    }
    let number = month_number(text, at)?;
    let (year, next) = year_after(text, at + 1);
    let years = year.map_or_else(|| vec![today.year(), today.year() + 1], |year| vec![year]);
    Some((years.into_iter().filter_map(|year| Date::new(year, number, 1).ok()).collect(), next))
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
    let possessive = text.get(at)?.is_possessive();
    match (text.before(at, 1), text.lower(at)) {
        ("after", "tomorrow") => day(plus(today, 2)?),
        (_, "tomorrow") => {
            let day_after = text.before(at, 1) == "after" && text.before(at, 2) == "day";
            day(plus(today, if day_after { 2 } else { 1 })?)
        }
        (_, "today" | "tonight") if !possessive => day(today),
        ("next", "week") => days(next_weekday(today, Weekday::Monday, true)?, 6),
        ("this", "weekend") => days(next_weekday(today, Weekday::Saturday, false)?, 1),
        ("the", "weekend")
            if ["by", "before", "until", "over", "on", "at", "during"].contains(&text.before(at, 2))
                && !matches!(text.lower(at + 1), "of" | "in" | "before" | "after") =>
        {
            days(next_weekday(today, Weekday::Saturday, false)?, 1)
        }
        ("this", "evening" | "afternoon") if !possessive => day(today),
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
    if let Some(found) = thanksgiving_at(text, at, today) {
        return Some(found);
    }
    let (number, day, words) = match (text.lower(at), text.lower(at + 1)) {
        ("christmas", "eve") => (12, 24, 2),
        ("christmas", "day") => (12, 25, 2),
        ("christmas" | "xmas", _) => (12, 25, 1),
        ("new", "year") if text.lower(at + 2) == "eve" => (12, 31, 3),
        ("new", "year")
            if text.words.get(at + 1).is_some_and(|w| w.text.len() > 4)
                || matches!(text.before(at, 1), "before" | "by" | "until" | "over" | "after") =>
        {
            (1, 1, 2)
        }
        ("halloween", _) => (10, 31, 1),
        ("valentine", "day") => (2, 14, 2),
        _ => return None,
    };
    let date =
        leads_feast(text, at).then(|| (0..=1).filter_map(|ahead| Date::new(today.year() + ahead, number, day).ok()))?;
    let date = date.into_iter().find(|date| *date >= today)?;
    Some(DateMention { span: DateSpan::Day(date), next: at + words, assumed: None })
}

fn leads_feast(text: &Text, at: usize) -> bool {
    ["by", "before", "until", "till", "on", "at", "than", "after", "from", "for", "over", "around", "during"]
        .contains(&text.before(at, 1))
}

/// `before Thanksgiving`, `by Black Friday`: the fourth Thursday of November and the day after.
fn thanksgiving_at(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    let (days, words) = match (text.lower(at), text.lower(at + 1)) {
        ("thanksgiving", _) => (0, 1),
        ("black", "friday") => (1, 2),
        _ => return None,
    };
    let date = |ahead| {
        let november = Date::new(today.year() + ahead, 11, 1).ok()?;
        plus(november.nth_weekday_of_month(4, Weekday::Thursday).ok()?, days)
    };
    let date = (0..=1).filter_map(date).find(|date| *date >= today).filter(|_| leads_feast(text, at))?;
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
        "a" | "an" | "one" if text.number(from).is_none_or(|q| q.value == 1.0) => (1.0, from + 1),
        "next" if is_limit => (1.0, from + 1),
        "week" | "month" | "quarter" | "year" if is_limit => (1.0, from),
        _ => text.number(from).map(|q| (q.value, q.next))?,
    };
    let (date, next) = after(text, value, next, today)?;
    // `in two days starting 4 January`: how long, not when. `within a week of delivery`: not counted from today.
    let from_now = matches!(text.lower(next + 1), "now" | "today");
    let is_counted_from = match text.lower(next) {
        "starting" | "beginning" => !is_limit,
        "from" | "of" | "after" | "before" | "following" => !from_now,
        _ => false,
    };
    if is_counted_from {
        return None;
    }
    let is_deadline = is_limit || is_due(text.before(at, 1)) || is_needed(text, at) || is_effort(text, at, next);
    let span = if is_deadline { DateSpan::Within(date) } else { DateSpan::Day(date) };
    Some(DateMention { span, next, assumed: None })
}

/// `I need it in two weeks`, `have the report ready in 3 days`: by when, not on which day.
fn is_needed(text: &Text, at: usize) -> bool {
    let mut clause =
        (1..=6).map_while(|back| at.checked_sub(back).filter(|i| text.words[*i].kind == WordKind::Letters));
    clause.any(|i| match text.lower(i) {
        "need" | "want" => ["it", "this", "that", "them", "these", "everything", "the"].contains(&text.lower(i + 1)),
        word => is_due(word),
    })
}

/// `learn Spanish in three months`, `In a year I want to speak it`: the time for an effort, not the day on which it begins.
///
/// - `next`: the index after the time.
fn is_effort(text: &Text, at: usize, next: usize) -> bool {
    let is_long = matches!(text.lower(next - 1), "month" | "months" | "quarter" | "quarters" | "year" | "years");
    let subject = next + usize::from(text.lower(next) == ",");
    let is_wish = matches!(text.lower(subject), "i" | "we")
        && matches!(text.lower(subject + 1), "want" | "would" | "hope" | "aim" | "need");
    if text.is_sentence_start(at) {
        return is_wish;
    }
    let mut clause = (1..=EFFORT_WORDS_MAX).map_while(|back| {
        at.checked_sub(back).filter(|i| {
            // `save money for a trip in three months`
            let is_for_event = text.lower(*i) == "for" && matches!(text.lower(i + 1), "a" | "an" | "my" | "our");
            text.words[*i].kind != WordKind::Sign && !is_copula(text.lower(*i)) && !is_for_event
        })
    });
    clause.any(|i| {
        let word = text.lower(i);
        // `a run in three months` is an event.
        let is_thing = matches!(text.before(i, 1), "a" | "an" | "the" | "my" | "our" | "their");
        !is_thing && (ACHIEVES.contains(&word) || is_long && ACHIEVES_SLOWLY.contains(&word))
    })
}

/// Words between an effort and its time, at most.
const EFFORT_WORDS_MAX: usize = 10;

fn is_copula(word: &str) -> bool {
    ["is", "are", "starts", "begins", "happens", "comes", "opens", "that", "which"].contains(&word)
}

/// What takes a time and has a result at its end.
const ACHIEVES: &[&str] = &[
    "learn", "lose", "gain", "save", "reach", "master", "read", "double", "halve", "reduce", "improve", "become",
    "quit", "memorise", "memorize", "build", "develop", "cut", "increase", "earn", "raise", "translate", "design",
    "draft", "implement", "paint", "repaint", "renovate", "refactor", "repair", "fix",
];

/// The same, of verbs that in a few weeks name an event: `run a workshop in two weeks`.
const ACHIEVES_SLOWLY: &[&str] = &["run", "write", "speak", "play", "pass", "grow", "swim", "climb", "get", "pay"];

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
        "fortnight" | "fortnights" => plus(today, whole * 14)?,
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

/// `next spring`, `this summer`, `in the autumn of 2027`: its first and last day, by the calendar months.
fn season(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    let first_month: i8 = match text.lower(at) {
        "spring" => 3,
        "summer" => 6,
        "autumn" => 9,
        "winter" => 12,
        _ => return None,
    };
    let the = 1 + usize::from(text.before(at, 1) == "the");
    let is_next = text.before(at, 1) == "next";
    let led = is_next || text.before(at, 1) == "this" || matches!(text.before(at, the), "in" | "during" | "over");
    // `in spring clothes`
    let ends = text.get(at + 1).is_none_or(|next| {
        !matches!(next.kind, WordKind::Letters)
            || ["we", "i", "of", "with", "for", "and", "to", "at", "by", "on", "in", "please", "without"]
                .contains(&next.lower.as_str())
    });
    (led && ends).then_some(())?;
    let of = at + 1 + usize::from(text.lower(at + 1) == "of");
    let (year, next) = year_after(text, of);
    // `caring for plants in winter`: any winter.
    (is_next || text.before(at, 1) == "this" || year.is_some()).then_some(())?;
    let next = if year.is_some() { next } else { at + 1 };
    let first = |year: i16| Date::new(year, first_month, 1).ok();
    let last = |year: i16| Some(first(year)?.checked_add(2.months()).ok()?.last_of_month());
    let coming = today.year() + i16::from(last(today.year())? < today);
    let year = year.unwrap_or(if is_next && first(coming)? <= today { coming + 1 } else { coming });
    Some(DateMention { span: DateSpan::Days(first(year)?, last(year)?), next, assumed: None })
}

/// `by the 15th`: the next such day.
fn ordinal_day(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    let led = text.before(at, 1) == "the"
        && ["by", "before", "until", "till", "on", "from", "than"].contains(&text.before(at, 2));
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
    let weekday = weekday_at(text, at).filter(|_| !is_product(text, at))?;
    let before = text.before(at, 1);
    // `the second Saturday in July` is not the next Saturday.
    let is_numbered = matches!(before, "first" | "second" | "third" | "fourth" | "fifth" | "other");
    let past_or_many =
        is_numbered || ["every", "each", "last", "past", "a", "any", "since", "per", "black", "good"].contains(&before);
    let led = [
        "next", "on", "this", "by", "from", "to", "until", "before", "for", "due", "than", "eod", "cob", "business",
        "coming",
    ]
    .contains(&before);
    let is_short = text.get(at).is_some_and(|word| word.text.len() <= SHORT_WEEKDAY_MAX);
    (!past_or_many && (led || text.is_capital(at) && !is_short)).then_some(())?;
    // `next Wednesday` is never today.
    let date = next_weekday(today, weekday, before == "next")?;
    Some(DateMention { span: DateSpan::Day(date), next: at + 1, assumed: None })
}

/// `Asana, Trello and Monday`, `from Trello to Monday`, `Monday.com`: the name of a program.
fn is_product(text: &Text, at: usize) -> bool {
    let is_domain = text.lower(at + 1) == "." && text.get(at + 2).is_some_and(|end| end.glued);
    let is_name = |i: usize| {
        text.is_capital(i)
            && weekday_at(text, i).is_none()
            && month_number(text, i).is_none()
            && !text.is_sentence_start(i)
    };
    let is_after_name = at > 1 && is_name(at - 2);
    let is_joined = match text.before(at, 1) {
        "and" | "or" | "vs" | "versus" => is_after_name,
        "to" => is_after_name && text.before(at, 3) == "from",
        "compare" | "between" => text.is_capital(at + 2),
        // `a van called Monday Tacos`
        "on" | "by" | "next" | "this" | "until" | "from" | "before" | "for" | "of" => false,
        _ => {
            text.is_capital(at + 1)
                && at > 0
                && !text.is_sentence_start(at)
                && weekday_at(text, at + 1).is_none()
                && month_number(text, at + 1).is_none()
                && text.is_capital(at)
                && text.words[at].text.len() > SHORT_WEEKDAY_MAX
        }
    };
    is_domain || is_joined
}

pub(super) fn plus(date: Date, days: i64) -> Option<Date> {
    date.checked_add(days.days()).ok()
}

/// The next such weekday: today counts unless `after`.
fn next_weekday(today: Date, weekday: Weekday, after: bool) -> Option<Date> {
    (i64::from(after)..=7).filter_map(|ahead| plus(today, ahead)).find(|date| date.weekday() == weekday)
}

/// Longest short form of a weekday, `Thurs`, in letters.
const SHORT_WEEKDAY_MAX: usize = 5;

/// A weekday at `at`; short forms count when written with a capital.
pub(super) fn weekday_at(text: &Text, at: usize) -> Option<Weekday> {
    let short = || match text.get(at)?.text {
        "Mon" => Some(Weekday::Monday),
        "Tue" | "Tues" => Some(Weekday::Tuesday),
        "Wed" | "Weds" => Some(Weekday::Wednesday),
        "Thu" | "Thur" | "Thurs" => Some(Weekday::Thursday),
        "Fri" => Some(Weekday::Friday),
        "Sat" => Some(Weekday::Saturday),
        "Sun" => Some(Weekday::Sunday),
        _ => None,
    };
    weekday(text.lower(at)).or_else(short)
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

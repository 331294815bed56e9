//! Extracts dates: `in May`, `2027-05-03`, `3rd of June`, `next week`, `May 3-10`; the words around a date tell whether it
//! is a start, an end or a deadline.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::relative_date as relative;
use super::words::{Text, Use, WordKind};

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
    pub deadline: Option<Deadline>,
}

/// The day by which a goal is to be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Deadline {
    pub date: Date,
    /// `before 3 May`: the day itself is too late.
    pub is_exclusive: bool,
    /// What the text left open and was chosen here.
    pub assumed: Option<&'static str>,
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

/// What the words around a date make of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DateRole {
    Deadline {
        is_exclusive: bool,
    },
    /// `until` and `to`: a deadline, unless a start stands before it.
    Until,
    Plain,
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
    let mut when = When::default();
    let mut days: Vec<(usize, Date, usize)> = Vec::new();
    let mut range = None;
    let mut month = None;
    let mut at = 0;
    while at < text.words.len() {
        let Some(DateMention { span, next, assumed }) = mention_at(text, at, today) else {
            at += 1;
            continue;
        };
        if matches!(span, DateSpan::Day(_) | DateSpan::Days(..)) && is_reference(text, at, next) {
            at = next;
            continue;
        }
        let has_start = !days.is_empty() || range.is_some();
        let role = match (role(text, at, next), &span) {
            (_, DateSpan::Within(_)) => DateRole::Deadline { is_exclusive: false },
            (DateRole::Until, _) if !has_start => DateRole::Deadline { is_exclusive: false },
            (role, _) => role,
        };
        match (role, span) {
            (DateRole::Deadline { is_exclusive }, span) => {
                let part = part_of_month(text, at);
                if let Some(deadline) = deadline(&span, part, is_exclusive, assumed) {
                    // Of several, the last one is that of the whole.
                    when.deadline = when.deadline.filter(|held| held.date >= deadline.date).or(Some(deadline));
                    text.note_constraint(at, next);
                }
            }
            (_, DateSpan::Day(day) | DateSpan::Within(day)) => days.push((at, day, next)),
            (_, DateSpan::Days(first, last)) => {
                text.note_constraint(at, next);
                range = range.or(Some((first, last)));
            }
            (_, DateSpan::Month(found)) => {
                text.note(at, next, Use::Fact);
                month = month.or(Some(found));
            }
        }
        at = next;
    }
    for (at, _, next) in days.iter().take(2) {
        text.note_constraint(*at, *next);
    }
    let plain = match (range, days.as_slice()) {
        (Some((start, end)), _) => from_days(start, Some(end)),
        (None, []) => When { month, ..When::default() },
        (None, [(_, day, _)]) => from_days(*day, None),
        (None, [(_, first, after), (second_at, second, _), ..]) => {
            let second = &in_year_of(*first, *second);
            let next_week = || relative::plus(*second, 7).filter(|later| later > first);
            let named = relative::weekday(text.lower(*second_at)).is_some() && second < first;
            let second = &next_week().filter(|_| named).unwrap_or(*second);
            let linked = (*after..*second_at).any(|i| {
                matches!(
                    text.lower(i),
                    "to" | "until" | "till" | "through" | "-" | "–" | "and" | "returning" | "return" | "back"
                )
            });
            from_days(*first, (linked && second >= first).then_some(*second))
        }
    };
    When { deadline: when.deadline, ..plain }
}

/// The longest date at `at`.
fn mention_at(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    let certain = |span, next| Some(DateMention { span, next, assumed: None });
    if relative::weekday(text.lower(at)).is_some() {
        // `Friday, 4 December`
        let after = at + 1 + usize::from(text.lower(at + 1) == ",");
        if let Some((day, next)) = day_at(text, after, today) {
            return certain(DateSpan::Day(day), next);
        }
    }
    if let Some((start, end, next)) = day_range(text, at, today) {
        return certain(DateSpan::Days(start, end), next);
    }
    if let Some((day, next)) = day_at(text, at, today) {
        return certain(DateSpan::Day(day), next);
    }
    if let Some(found) = relative::before_month(text, at, today) {
        return Some(found);
    }
    if let Some((found, next)) = month_at(text, at, today) {
        return months(text, &found, next, today).or_else(|| certain(DateSpan::Month(found), next));
    }
    relative::read(text, at, today)
}

/// `January to March`: from the first day to the last.
fn months(text: &Text, first: &Month, next: usize, today: Date) -> Option<DateMention> {
    matches!(text.lower(next), "to" | "until" | "till" | "through" | "-" | "–").then_some(())?;
    let number = month_number(text, next + 1)?;
    if day_number(text, next + 2).is_some() {
        return None;
    }
    let (year, next) = year_after(text, next + 2);
    let start = Date::new(first.year, first.number, 1).ok()?;
    let year = year.unwrap_or(first.year + i16::from(number < first.number));
    let end = Date::new(year, number, 1).ok()?.last_of_month();
    let span = DateSpan::Days(start, end);
    (end >= start && start >= today.first_of_month()).then_some(DateMention { span, next, assumed: None })
}

/// - `part`: of the month, where the text names one.
fn deadline(
    span: &DateSpan,
    part: Option<PartOfMonth>,
    is_exclusive: bool,
    assumed: Option<&'static str>,
) -> Option<Deadline> {
    let (first, last) = match span {
        DateSpan::Day(day) | DateSpan::Within(day) => (*day, *day),
        DateSpan::Days(first, last) => (*first, *last),
        DateSpan::Month(month) => {
            if let Some(PartOfMonth { day, assumed }) = part {
                let date = Date::new(month.year, month.number, day).ok()?;
                return Some(Deadline { date, is_exclusive, assumed: Some(assumed) });
            }
            let first = Date::new(month.year, month.number, 1).ok()?;
            let assumed = (!is_exclusive).then_some("the last day of the month");
            let date = if is_exclusive { first } else { first.last_of_month() };
            return Some(Deadline { date, is_exclusive, assumed });
        }
    };
    Some(Deadline { date: if is_exclusive { first } else { last }, is_exclusive, assumed })
}

/// `early March`, `mid-March`.
struct PartOfMonth {
    day: i8,
    assumed: &'static str,
}

fn part_of_month(text: &Text, at: usize) -> Option<PartOfMonth> {
    match (text.before(at, 1), text.before(at, 2)) {
        ("mid", _) | ("-", "mid") => Some(PartOfMonth { day: 15, assumed: "the 15th" }),
        ("early", _) => Some(PartOfMonth { day: 10, assumed: "the 10th" }),
        _ => None,
    }
}

/// Whether a date says which thing is meant, or since when something is so: `the minutes from 3 November`, `since 1 May`.
fn is_reference(text: &Text, at: usize, next: usize) -> bool {
    let at = skip_modifiers(text, at);
    let goes_on =
        matches!(text.lower(next), "to" | "until" | "till" | "through" | "-" | "–" | "onwards" | "onward" | "on");
    match text.before(at, 1) {
        "since" | "dated" => true,
        "from" | "of" => !goes_on && RECORDS.contains(&text.before(at, 2)),
        _ => false,
    }
}

/// What bears the date of its making.
const RECORDS: &[&str] = &[
    "minutes",
    "notes",
    "letter",
    "letters",
    "mail",
    "mails",
    "email",
    "emails",
    "message",
    "messages",
    "invoice",
    "invoices",
    "bill",
    "bills",
    "receipt",
    "receipts",
    "report",
    "reports",
    "statement",
    "statements",
    "log",
    "logs",
    "figures",
    "numbers",
    "data",
    "photos",
    "pictures",
    "recording",
    "recordings",
    "transcript",
    "transcripts",
    "draft",
    "complaint",
    "complaints",
    "article",
    "articles",
    "file",
    "files",
    "backup",
    "decision",
    "decisions",
];

/// What the words before and after the date say about it.
fn role(text: &Text, at: usize, next: usize) -> DateRole {
    let inclusive = DateRole::Deadline { is_exclusive: false };
    let after = (text.lower(next), text.lower(next + 1), text.lower(next + 2));
    if matches!(after, ("at", "the", "latest") | ("latest" | "deadline", _, _) | ("at", "latest", _))
        || matches!(after, ("or", "earlier" | "sooner" | "before", _))
    {
        return inclusive;
    }
    let is_today = text.lower(at) == "today" && next == at + 1;
    let at = skip_modifiers(text, at);
    let (word, second, third) = (text.before(at, 1), text.before(at, 2), text.before(at, 3));
    match word {
        "by" => inclusive,
        "before" if second != "not" => DateRole::Deadline { is_exclusive: true },
        "to" if second == "prior" => DateRole::Deadline { is_exclusive: true },
        "of" if second == "ahead" => DateRole::Deadline { is_exclusive: true },
        "until" | "till" | "til" if second != "not" => DateRole::Until,
        "than" if second == "later" => inclusive,
        "on" if before_event(text, at) == Some("before") => DateRole::Deadline { is_exclusive: true },
        "on" if before_event(text, at).is_some() => inclusive,
        "due" | "deadline" | "latest" => inclusive,
        "on" | "is" | ":" | "for" | "of" | "at" | "=" | "," | "in" | "(" if is_due(second) => inclusive,
        ":" if second == "date" && is_due(third) => inclusive,
        "from" | "starting" | "as" | "of" | "since" | "beginning" => DateRole::Plain,
        // What is to be done today is not to be done later.
        _ if is_today => inclusive,
        _ => DateRole::Plain,
    }
}

/// `before the rollout on 3 May`: the word that makes the day of an event a deadline.
fn before_event<'t>(text: &'t Text, at: usize) -> Option<&'t str> {
    let clause = (2..=5).map_while(|back| at.checked_sub(back).filter(|i| text.words[*i].kind == WordKind::Letters));
    clause.map(|i| text.lower(i)).find(|word| matches!(*word, "before" | "until"))
}

/// `deadline`, and words for work that is done at its end: `ready on Monday`.
pub(super) fn is_due(word: &str) -> bool {
    matches!(
        word,
        "deadline"
            | "due"
            | "ready"
            | "finished"
            | "completed"
            | "done"
            | "delivered"
            | "submitted"
            | "deliver"
            | "delivery"
            | "submit"
            | "finish"
            | "complete"
    )
}

/// Steps over what stands between a date and the word that gives its role: `by 5 pm on Friday`, `until the next Monday`.
fn skip_modifiers(text: &Text, mut at: usize) -> usize {
    loop {
        let before = text.before(at, 1);
        let second = text.before(at, 2);
        at = match before {
            "the" | "this" | "next" | "coming" | "upcoming" | "following" | "early" | "late" | "mid" => at - 1,
            "-" if second == "mid" => at - 1,
            "on" | "," | "of" if relative::is_time_of_day(text, at.saturating_sub(2)) => at - 1,
            _ if relative::weekday(before).is_some() => at - 1,
            "," if relative::weekday(second).is_some() => at - 1,
            "pm" | "am" | "noon" | "midnight" => at - 1,
            _ if at > 0 && relative::is_time_of_day(text, at - 1) => at - 1,
            ":" if at > 1 && relative::is_time_of_day(text, at - 2) => at - 1,
            _ => return at,
        };
    }
}

/// The second day of two in the year of the first: `from April 3, 2023 to April 4`.
fn in_year_of(first: Date, second: Date) -> Date {
    let same = Date::new(first.year(), second.month(), second.day()).ok();
    same.filter(|same| first.year() < second.year() && *same >= first).unwrap_or(second)
}

fn from_days(start: Date, end: Option<Date>) -> When {
    When { month: month(start.month(), start.year()), start: Some(start), end, deadline: None }
}

pub(super) fn month(number: i8, year: i16) -> Option<Month> {
    let name = MONTHS.get(usize::try_from(number).ok()?.checked_sub(1)?)?;
    Some(Month { number, name, year })
}

/// The number of a month's name, from 1; short forms count when written with a capital.
pub(super) fn month_number(text: &Text, at: usize) -> Option<i8> {
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
    let is_part = text.words.get(at + 1).is_some_and(|w| w.glued && w.lower == "-");
    if !matches!(word.kind, WordKind::Number(_)) || word.text.len() != 4 || is_part {
        return None;
    }
    word.text.parse().ok().filter(|year| (1900..2200).contains(year))
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
fn day_range(text: &Text, at: usize, today: Date) -> Option<(Date, Date, usize)> {
    let dash = |i: usize| matches!(text.lower(i), "-" | "–" | "to" | "until" | "through");
    if let Some(number) = month_number(text, at) {
        let (first, next) = day_number(text, at + 1)?;
        dash(next).then_some(())?;
        let (last, next) = day_number(text, next + 1)?;
        let (year, next) = year_after(text, next);
        return range(number, first, last, year, today).map(|(first, last)| (first, last, next));
    }
    let (first, next) = day_number(text, at)?;
    let between = text.before(at, 1) == "between" && text.lower(next) == "and";
    (dash(next) || between).then_some(())?;
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
    dotted(text, at).or_else(|| signed(text, at))
}

/// `12.10.2027`: the day stands first.
fn dotted(text: &Text, at: usize) -> Option<(Date, usize)> {
    let (day, month) = text.get(at)?.text.split_once('.')?;
    let year = text.get(at + 2).filter(|year| year.glued && year.text.len() == 4)?;
    (text.lower(at + 1) == "." && text.words[at + 1].glued).then_some(())?;
    let date = Date::new(year.text.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()?;
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
            | "till"
            | "than"
            | "whole"
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
    fn the_words_around_a_date_make_it_a_deadline() {
        for (text, date, is_exclusive) in [
            ("by Friday", "2026-11-27", false),
            ("by 12 October", "2027-10-12", false),
            ("before December 15", "2026-12-15", true),
            ("until 5 December", "2026-12-05", false),
            ("no later than 10 January 2027", "2027-01-10", false),
            ("due next Wednesday", "2026-11-25", false),
            ("deadline: 12.10.2027", "2027-10-12", false),
            ("the deadline is May 3rd", "2027-05-03", false),
            ("on May 3 at the latest", "2027-05-03", false),
            ("within two weeks", "2026-12-05", false),
            ("within 3 months", "2027-02-21", false),
            ("within five working days", "2026-11-27", false),
            ("in less than 10 days", "2026-12-01", false),
            ("by the end of the month", "2026-11-30", false),
            ("until end of January", "2027-01-31", false),
            ("by the end of next week", "2026-11-27", false),
            ("by year's end", "2026-12-31", false),
            ("before Christmas", "2026-12-25", true),
            ("by 5 pm on Friday", "2026-11-27", false),
            ("by 5pm tomorrow", "2026-11-22", false),
            ("by EOD", "2026-11-21", false),
            ("by the 15th", "2026-12-15", false),
            ("by Friday, 4 December", "2026-12-04", false),
            ("ready on 1 March", "2027-03-01", false),
            ("by the end of Q1", "2027-03-31", false),
            ("by next week", "2026-11-29", false),
            ("by June", "2027-06-30", false),
            ("before June", "2027-06-01", true),
            ("finish it by 2027-02-01", "2027-02-01", false),
            ("by Easter", "2027-03-28", false),
            ("before the rollout on 3 May", "2027-05-03", true),
            ("within the next quarter", "2027-02-21", false),
            ("by mid-January", "2027-01-15", false),
            ("before early March", "2027-03-10", true),
            ("write the timeline today", "2026-11-21", false),
        ] {
            let found = when(text);
            let deadline = found.deadline.as_ref().map(|d| (d.date.to_string(), d.is_exclusive));
            assert_eq!(deadline, Some((date.into(), is_exclusive)), "{text}");
            assert_eq!((found.start, found.month), (None, None), "{text}");
        }
    }

    #[test]
    fn a_start_is_no_deadline() {
        for (text, start, end) in [
            ("from 3 May until 10 May", "2027-05-03", Some("2027-05-10")),
            ("starting January 4", "2027-01-04", None),
            ("on Saturday 28 November", "2026-11-28", None),
            ("from Monday to Wednesday", "2026-11-23", Some("2026-11-25")),
            ("between 1 and 5 March", "2027-03-01", Some("2027-03-05")),
            ("from January to March", "2027-01-01", Some("2027-03-31")),
            ("a flight on 14 May returning 18 May", "2027-05-14", Some("2027-05-18")),
            ("over the Easter weekend", "2027-03-26", Some("2027-03-29")),
            ("on Monday", "2026-11-23", None),
            ("tomorrow at 10:00", "2026-11-22", None),
            ("from 3 March on", "2027-03-03", None),
            ("starting today", "2026-11-21", None),
        ] {
            let found = when(text);
            assert_eq!(found.start.map(|d| d.to_string()), Some(start.into()), "{text}");
            assert_eq!(found.end.map(|d| d.to_string()), end.map(Into::into), "{text}");
            assert_eq!(found.deadline, None, "{text}");
        }
        let both = when("start on 1 March and finish by 15 March");
        assert_eq!(both.start.map(|d| d.to_string()), Some("2027-03-01".into()));
        assert_eq!(both.deadline.map(|d| d.date.to_string()), Some("2027-03-15".into()));
    }

    #[test]
    fn the_second_weekday_of_two_is_the_later_one() {
        let found = read(&Text::new("open from Monday to Friday"), Date::constant(2026, 11, 25));
        let ends = (found.start.map(|d| d.to_string()), found.end.map(|d| d.to_string()));
        assert_eq!(ends, (Some("2026-11-30".into()), Some("2026-12-04".into())));
    }

    #[test]
    fn a_weekday_that_is_numbered_is_not_the_next_one() {
        let found = when("a party on the second Saturday in July");
        assert_eq!((found.start, found.month.map(|month| month.number)), (None, Some(7)));
    }

    #[test]
    fn a_date_that_names_a_thing_is_no_date_of_the_goal() {
        for text in ["Check the minutes from 3 November", "the pull requests since 1 November", "a letter dated 3 May"]
        {
            assert_eq!(when(text), When::default(), "{text}");
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

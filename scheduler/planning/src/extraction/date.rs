//! Reads the month of a stay: `a trip in May`; and one day or month on its own.

use jiff::civil::Date;
use serde::Serialize;

use super::duration::has_length;
use super::words::Text;

/// A calendar month.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Month {
    /// 1 to 12.
    pub number: i8,
    pub name: &'static str,
    pub year: i16,
}

/// The day of a time in Unix milliseconds, in UTC; the last one that there is for a time beyond it.
pub(super) fn day_of(now_ms: u64) -> Date {
    let ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX).to_zoned(jiff::tz::TimeZone::UTC).date()
}

/// `a trip in May`, `5 days in Rome in May`: the month of what has a length. It is read behind the other facts.
pub(super) fn month(text: &Text, today: Date) -> Option<Month> {
    only(text, |at| {
        let is_led = text.before(at, 1) == "in" && !text.is_read(at);
        let before = at.checked_sub(2).filter(|before| text.clause_start(at) <= *before);
        let is_certain = before.is_none_or(|i| text.is_read(i) || has_length(text.lower(i)));
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
    places.into_iter().for_each(|(at, next)| text.mark(at, next));
    found
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

    fn month_of(text: &str) -> Option<(i8, i16)> {
        month(&Text::new(text), TODAY).map(|month| (month.number, month.year))
    }

    #[test]
    fn the_month_of_a_stay_is_read() {
        assert_eq!(month_of("a trip in May"), Some((5, 2027)));
        assert_eq!(month_of("a trip in December"), Some((12, 2026)));
        assert_eq!(month_of("a trip in May 2029"), Some((5, 2029)));
    }

    #[test]
    fn what_is_not_certainly_the_month_is_not_read() {
        for text in [
            "you may visit museums",
            "May I ask for help?",
            "march on to Rome",
            "Theresa May",
            "in May-like weather",
            "by May",
            "on 3 May",
            "not in May",
            "the film \"Seven Days in May\"",
            "a trip in May or a trip in June",
            "the shops we opened in May",
        ] {
            assert_eq!(month_of(text), None, "{text}");
        }
    }

    #[test]
    fn one_day_is_read_whole_or_not() {
        for (text, day) in [
            ("2027-05-03", "2027-05-03"),
            ("12 October", "2027-10-12"),
            ("Oct 12", "2027-10-12"),
            ("December 15", "2026-12-15"),
            ("3rd of May 2028", "2028-05-03"),
            ("May 3, 2027", "2027-05-03"),
            ("29 February", "2028-02-29"),
            ("2027-02-30", ""),
            ("31 April", ""),
            ("05/06/2027", ""),
            ("3 May or 4 May", ""),
            ("3", ""),
        ] {
            assert_eq!(read_alone(text, TODAY).0.map(|day| day.to_string()).unwrap_or_default(), day, "{text}");
        }
        assert_eq!(read_alone("June", TODAY).1.map(|month| month.year), Some(2027));
    }

    #[test]
    fn the_days_at_the_end_of_time_do_not_overflow() {
        let last = day_of(u64::MAX);
        assert_eq!(read_alone("3 May", last).0, None);
        let month = month(&Text::new("in May"), last);
        assert!(month.is_none_or(|month| month.year >= last.year()));
    }
}

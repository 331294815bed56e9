//! Extracts dates; the words around a date tell whether it is a start, an end or a deadline.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::calendar_date::{
    DateMention, DateSpan, Month, day_at, day_number, day_range, month, month_at, month_number, year_after,
};
use super::date_role::{
    DateRole, follows_record, is_of_a_state, is_past, is_prepared_for, is_record_of, is_reference, is_ruled_out,
    is_series, names_record, role,
};
use super::lead_time;
use super::relative_date as relative;
use super::words::{Text, Use};

/// When, as exactly as the text says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct When {
    pub month: Option<Month>,
    /// First day.
    pub start: Option<Date>,
    /// Last day.
    pub end: Option<Date>,
    pub deadline: Option<Deadline>,
    /// Whether it is some time between the first and the last day: `next week`, `in Q2`.
    pub is_loose: bool,
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

/// The day of `now_ms` (Unix milliseconds) in UTC.
pub(super) fn day_of(now_ms: u64) -> Date {
    let ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX).to_zoned(TimeZone::UTC).date()
}

pub(super) fn read(text: &Text, today: Date) -> When {
    let mut found = FoundDates::default();
    let mut at = 0;
    while at < text.words.len() {
        match mention_at(text, at, today).filter(|_| !text.is_quoted(at)) {
            Some(mention) => {
                let next = mention.next;
                found.take(text, at, mention, today);
                at = next;
            }
            None => at += 1,
        }
    }
    found.when(text, today)
}

/// A day with the index of its first word and that after it.
type Mentioned = (usize, Date, usize);

/// The dates of a text by what they are for.
#[derive(Default)]
struct FoundDates {
    days: Vec<Mentioned>,
    /// `over Easter`: they say less than a day does.
    feasts: Vec<Mentioned>,
    range: Option<(Date, Date)>,
    month: Option<Month>,
    deadline: Option<Deadline>,
    /// Whether a deadline is counted from a day: `within 5 days`.
    is_counted: bool,
    series_end: Option<Date>,
    is_loose: bool,
}

impl FoundDates {
    fn take(&mut self, text: &Text, at: usize, mention: DateMention, today: Date) {
        let DateMention { span, next, assumed } = mention;
        let is_month_pair = text.lower(at + 1) == "and" && matches!(span, DateSpan::Days(..));
        let names_a_record = match &span {
            DateSpan::Days(..) if is_month_pair => is_record_of(text, at),
            DateSpan::Day(_) | DateSpan::Days(..) => is_reference(text, at, next),
            DateSpan::Month(month) => {
                month.number != today.month() && (is_record_of(text, at) || names_record(text, at, next))
                    || follows_record(text, at)
            }
            DateSpan::Within(_) => false,
        };
        if names_a_record || is_ruled_out(text, at) || is_past(text, at, next, &span, today) {
            return;
        }
        let has_start = !self.days.is_empty() || self.range.is_some();
        let is_goal = !lead_time::is_reminder(text, at);
        let inclusive = DateRole::Deadline { is_exclusive: false };
        let role = match (role(text, at, next), &span) {
            (_, DateSpan::Within(_)) => inclusive,
            (DateRole::Deadline { .. }, _) if !is_goal => DateRole::Plain,
            (DateRole::Until, _) if !has_start && is_of_a_state(text, at) => return text.note(at, next, Use::Fact),
            (DateRole::Until, DateSpan::Day(day)) if !has_start && is_series(text, at) => {
                self.series_end = Some(*day);
                return text.note_constraint(at, next);
            }
            (DateRole::Until, _) if !has_start => inclusive,
            (role, _) => role,
        };
        let is_plain_day = matches!(role, DateRole::Plain) && matches!(span, DateSpan::Day(_));
        let is_ready_by = is_plain_day && is_goal && is_prepared_for(text, at, &span);
        let role = if is_ready_by { inclusive } else { role };
        let has_lead = lead_time::before_date(text, at).is_some() && is_goal;
        let (role, span) = (if has_lead { inclusive } else { role }, lead_time::moved(text, at, span));
        match (role, span) {
            (DateRole::Deadline { is_exclusive }, span) => {
                self.is_counted |= matches!(span, DateSpan::Within(_));
                let part = part_of_month(text, at);
                if let Some(deadline) = deadline(&span, part, is_exclusive, assumed) {
                    // Of several, the last one is that of the whole.
                    let held = self.deadline.take().filter(|held| held.date >= deadline.date);
                    self.deadline = held.or(Some(deadline));
                    text.note_constraint(at, next);
                }
            }
            (_, DateSpan::Day(day)) if is_week_of(text, at) => {
                self.range = self.range.or(relative::plus(day, 6).map(|last| (day, last)));
                self.is_loose = true;
            }
            (_, DateSpan::Day(day)) if is_over_feast(text, at) => self.feasts.push((at, day, next)),
            (_, DateSpan::Day(day) | DateSpan::Within(day)) => self.days.push((at, day, next)),
            (_, DateSpan::Days(first, _)) if is_period(text, at, next) && begins(text, at) => {
                self.days.push((at, first, next));
            }
            (_, DateSpan::Days(first, last)) => {
                text.note_constraint(at, next);
                self.is_loose = if self.range.is_none() { is_period(text, at, next) } else { self.is_loose };
                self.range = self.range.or(Some((first, last)));
            }
            (_, DateSpan::Month(found)) if begins_part(text, at) => {
                let day = part_of_month(text, at).map_or(1, |part| part.day);
                self.days.extend(Date::new(found.year, found.number, day).ok().map(|day| (at, day, next)));
            }
            (_, DateSpan::Month(found)) => {
                text.note(at, next, Use::Fact);
                self.month = self.month.take().or(Some(found));
            }
        }
    }

    fn when(self, text: &Text, today: Date) -> When {
        let days = if self.days.is_empty() { self.feasts } else { self.days };
        for (at, _, next) in days.iter().take(2) {
            text.note_constraint(*at, *next);
        }
        let plain = match (self.range, days.as_slice()) {
            (Some((start, end)), _) => from_days(start, Some(end)),
            (None, []) => When { month: self.month, ..When::default() },
            (None, [(_, day, _)]) => from_days(*day, None),
            (None, [first, second, ..]) => from_days(first.1, last_of_two(text, *first, *second)),
        };
        let is_begun = |at: usize| text.clause_before(at, 4).any(|i| text.lower(i).starts_with("start"));
        let starts = plain.start.filter(|_| self.is_counted && days.first().is_some_and(|(at, ..)| is_begun(*at)));
        let deadline = match (self.deadline, starts) {
            // `start on 10 January, finish within 5 days`
            (Some(deadline), Some(start)) if start > deadline.date => {
                let days = today.until(deadline.date).map_or(0, |length| i64::from(length.get_days()));
                Some(Deadline { date: relative::plus(start, days).unwrap_or(start), ..deadline })
            }
            (None, _) => plain.start.and_then(|start| lead_time::before_event(text, start)).map(|date| Deadline {
                date,
                is_exclusive: false,
                assumed: None,
            }),
            (deadline, _) => deadline,
        };
        When { deadline, is_loose: self.is_loose, end: plain.end.or(self.series_end), ..plain }
    }
}

/// The last day, when the second of two days ends what begins with the first: `out on 8 December, back on Thursday`.
fn last_of_two(text: &Text, (_, first, after): Mentioned, (second_at, second, _): Mentioned) -> Option<Date> {
    let second = in_year_of(first, second);
    let is_weekday = relative::weekday_at(text, second_at).is_some() && second < first;
    let weeks = first.since(second).map_or(1, |length| i64::from(length.get_days() / 7 + 1));
    let second = relative::plus(second, 7 * weeks).filter(|later| is_weekday && *later > first).unwrap_or(second);
    let is_linked = (after..second_at).any(|i| {
        ["to", "until", "till", "through", "-", "–", "and", "returning", "return", "back"].contains(&text.lower(i))
    });
    (is_linked && second >= first).then_some(second)
}

/// `the week of 7 December`
fn is_week_of(text: &Text, at: usize) -> bool {
    text.before(at, 1) == "of" && text.before(at, 2) == "week"
}

/// `over Easter`, `around Christmas`: about when.
fn is_over_feast(text: &Text, at: usize) -> bool {
    let is_feast = matches!(text.lower(at), "easter" | "christmas" | "xmas" | "thanksgiving" | "halloween" | "new");
    is_feast && matches!(text.before(at, 1), "over" | "around" | "during" | "for")
}

/// `running from mid January`: where a span of time begins.
fn begins_part(text: &Text, at: usize) -> bool {
    let back = match (text.before(at, 1), text.before(at, 2)) {
        ("mid" | "early", _) => 2,
        ("-", "mid") => 3,
        _ => return false,
    };
    matches!(text.before(at, back), "from" | "starting")
}

/// `starting the first week of January`: the first day is meant.
fn begins(text: &Text, at: usize) -> bool {
    let back = 1 + usize::from(text.before(at, 1) == "the");
    ["starting", "beginning", "start", "starts", "begin", "begins", "from", "commencing"]
        .contains(&text.before(at, back))
}

/// `next week`, `in the first week of May`, `in Q2`: a period in which a day is to be found, not the length of a stay.
fn is_period(text: &Text, at: usize, next: usize) -> bool {
    is_list_of_days(text, at, next)
        || (at..next)
            .any(|i| matches!(text.lower(i), "week" | "quarter" | "q" | "spring" | "summer" | "autumn" | "winter"))
}

/// `8 and 10 December`, `October and November`: single days, or months in which a day is to be found.
fn is_list_of_days(text: &Text, at: usize, next: usize) -> bool {
    let is_list = (at..next).any(|i| matches!(text.lower(i), "and" | "&"));
    let days = (at..next).filter_map(|i| day_number(text, i)).map(|(day, _)| day);
    let days: Vec<i8> = days.collect();
    let is_pair = matches!(days.as_slice(), [first, second] if *second == first + 1);
    is_list && !is_pair && text.before(at, 1) != "between"
}

/// The longest date at `at`, with the part of the day behind it: `Thursday noon`, `tomorrow evening`.
pub(super) fn mention_at(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    let mut found = date_at(text, at, today)?;
    let names_part =
        matches!(text.lower(found.next), "morning" | "noon" | "midday" | "afternoon" | "evening" | "night");
    if matches!(found.span, DateSpan::Day(_)) && names_part {
        found.next += 1;
    }
    Some(found)
}

fn date_at(text: &Text, at: usize, today: Date) -> Option<DateMention> {
    let certain = |span, next| Some(DateMention { span, next, assumed: None });
    if relative::weekday_at(text, at).is_some() {
        // `Friday, 4 December`
        let after = at + 1 + usize::from(matches!(text.lower(at + 1), "," | "."));
        let after = after + usize::from(text.lower(after) == "the");
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
    let is_pair = text.lower(next) == "and";
    (is_pair || matches!(text.lower(next), "to" | "until" | "till" | "through" | "-" | "–")).then_some(())?;
    let number = month_number(text, next + 1).filter(|number| !is_pair || *number == first.number % 12 + 1)?;
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

/// The second day of two in the year of the first: `from April 3, 2023 to April 4`.
fn in_year_of(first: Date, second: Date) -> Date {
    let same = Date::new(first.year(), second.month(), second.day()).ok();
    same.filter(|same| first.year() < second.year() && *same >= first).unwrap_or(second)
}

fn from_days(start: Date, end: Option<Date>) -> When {
    When { month: month(start.month(), start.year()), start: Some(start), end, ..When::default() }
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
            ("by 15.1. please", "2027-01-15", false),
            ("by Thursday noon", "2026-11-26", false),
            ("by Monday morning", "2026-11-23", false),
            ("by close of business on Friday", "2026-11-27", false),
            ("by EOD Tuesday", "2026-11-24", false),
            ("by Fri 4 Dec", "2026-12-04", false),
            ("before the second Tuesday of March", "2027-03-09", true),
            ("by the beginning of May", "2027-05-01", false),
            ("on or before 3 May", "2027-05-03", false),
            ("the due date is 3 May", "2027-05-03", false),
            ("to be handed in on 3 May", "2027-05-03", false),
            ("I need it in two weeks", "2026-12-05", false),
            ("have the draft ready in 3 days", "2026-11-24", false),
            ("within a fortnight", "2026-12-05", false),
            ("before Thanksgiving", "2026-11-26", true),
            ("I want to run a marathon in three months", "2027-02-21", false),
            ("learn the guitar in three months", "2027-02-21", false),
            ("help me lose 6 kilos in 10 weeks", "2027-01-30", false),
            ("translate the manual to Dutch in two weeks", "2026-12-05", false),
            ("raise at least 50 euros for the animal shelter in six months", "2027-05-21", false),
            ("In a year, I want to speak Italian", "2027-11-21", false),
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
            ("our party is in two weeks", "2026-12-05", None),
            ("run a workshop in two weeks", "2026-12-05", None),
            ("save money for a trip in three months", "2027-02-21", None),
            ("buy shoes for a run in three months", "2027-02-21", None),
            ("move it over the weekend", "2026-11-21", Some("2026-11-22")),
            ("embargoed until 3 May", "2027-05-03", None),
            ("on Saturday afternoon", "2026-11-21", None),
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
    fn the_next_weekday_is_never_today() {
        let wednesday = Date::constant(2026, 11, 25);
        let found = read(&Text::new("send it by next Wednesday"), wednesday);
        assert_eq!(found.deadline.map(|d| d.date.to_string()), Some("2026-12-02".into()));
        for (text, start) in [
            ("lunch next Wednesday", "2026-12-02"),
            ("lunch next Thursday", "2026-11-26"),
            ("lunch on Wednesday", "2026-11-25"),
        ] {
            assert_eq!(read(&Text::new(text), wednesday).start.map(|d| d.to_string()), Some(start.into()), "{text}");
        }
    }

    #[test]
    fn the_second_weekday_of_two_is_the_later_one() {
        let found = read(&Text::new("open from Monday to Friday"), Date::constant(2026, 11, 25));
        let ends = (found.start.map(|d| d.to_string()), found.end.map(|d| d.to_string()));
        assert_eq!(ends, (Some("2026-11-30".into()), Some("2026-12-04".into())));
    }

    #[test]
    fn a_weekday_that_is_numbered_is_a_day_of_its_month() {
        for (text, start, end) in [
            ("a party on the second Saturday in July", "2027-07-10", None),
            ("on the last Friday of November", "2026-11-27", None),
            ("on the 1st Monday of next month", "2026-12-07", None),
            ("on the first Tuesday of the month", "2026-12-01", None),
            ("on the third Thursday of May 2028", "2028-05-18", None),
            ("on the first weekend of March", "2027-03-06", Some("2027-03-07")),
            ("in the first week of May", "2027-05-01", Some("2027-05-07")),
        ] {
            let found = when(text);
            assert_eq!(found.start.map(|d| d.to_string()), Some(start.into()), "{text}");
            assert_eq!(found.end.map(|d| d.to_string()), end.map(Into::into), "{text}");
            assert_eq!(found.deadline, None, "{text}");
        }
        for text in ["the first Monday", "the last Friday we met", "every second Tuesday"] {
            assert_eq!(when(text).start, None, "{text}");
        }
    }

    #[test]
    fn a_date_that_names_a_thing_is_no_date_of_the_goal() {
        for text in [
            "Check the minutes from 3 November",
            "the pull requests since 1 November",
            "a letter dated 3 May",
            "reconcile October's bank statement",
            "add up the expenses for September",
            "find out why it stopped working after 10 November",
        ] {
            assert_eq!(when(text), When::default(), "{text}");
        }
    }

    #[test]
    fn a_time_that_another_event_starts_is_not_counted_from_today() {
        for text in ["within 30 days after the wedding", "within two hours of Berlin", "within a week of delivery"] {
            assert_eq!(when(text), When::default(), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_not_read_as_one() {
        for text in [
            "you may visit museums", "May I ask for help?", "march on to Rome", "Theresa May", "2027-02-30",
            "05/06/2027", "at 3", "24/7 support", "5-3-2", "in today's world", "31 April", "a 3-day trip", "Feb 30",
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

    #[test]
    fn days_of_events_are_read_as_people_write_them() {
        super::super::phrases::check(EVENTS, |facts| {
            let days = [facts.start, facts.end];
            days.iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join(" to ")
        });
    }

    const EVENTS: &[(&str, &str)] = &[
        ("On Tuesday between 14:00 and 15:30 nobody could log in. Write a timeline.", ""),
        ("Make the rota for our nurses. Anna is away from the 21st.", ""),
        ("Check our expense claims from January to June", ""),
        ("Move the drive over the weekend of 5/6 December", "2026-12-05 to 2026-12-06"),
        ("Write a guide to caring for houseplants in winter", ""),
        ("Plan a campaign running from mid January until the end of February", "2027-01-15 to 2027-02-28"),
        ("Redo our bathroom next spring", "2027-03-01 to 2027-05-31"),
        ("A customer day in the summer of 2028", "2028-06-01 to 2028-08-31"),
        ("Run a spring campaign", ""),
        ("Collect ideas for our summer party", ""),
        ("Reconcile the October bank statements", ""),
        ("After that mail on Tuesday, check our mailboxes", ""),
        ("The freezer broke down over the weekend", ""),
        ("Sort the October receipts by category", ""),
        ("Open from 9:00 to 17:00, closed on 24 December", ""),
        ("The shop must not be closed on 5 December, plan the work", ""),
        ("It must be ready, don't be late. The party is on 5 December", "2026-12-05"),
        ("Children under 12 may not be filmed", ""),
        ("Plan a trip on 12 may", "2027-05-12"),
        ("A coffee morning on the 5th, 12th and 19th of December", "2026-12-05 to 2026-12-19"),
        ("Prepare the interview on 3 March with the CEO", "2027-03-03"),
        ("Make me a study plan for my chemistry exam on 18 January", ""),
        ("Find a present for my dad's 70th birthday on 9 December", ""),
        ("Plan my dad's birthday on 9 December", "2026-12-09"),
        ("Find a caterer for our wedding on 3 July", "2027-07-03"),
        ("Make the rota. Nobody works on the 25th, we're closed", ""),
        ("Plan the tour, no deliveries on 3 May", ""),
        ("We're closed on 24 December. Plan the stock take", ""),
        ("Hold two evenings on 8 and 10 December", "2026-12-08 to 2026-12-10"),
        ("Plan tours on 3, 5 and 9 May", "2027-05-03 to 2027-05-09"),
        ("Clear the attic on 5 and 6 December", "2026-12-05 to 2026-12-06"),
        ("Hold a course in January and February", "2027-01-01 to 2027-02-28"),
        ("A report on the complaints from October and November", ""),
        ("Book a flight on 14 May, back on 21 May", "2027-05-14 to 2027-05-21"),
        ("The conference runs 3-5 March", "2027-03-03 to 2027-03-05"),
        ("Plan a party on Saturday 12 December at 8 pm", "2026-12-12"),
        ("Run the course starting next Monday", "2026-11-30"),
        ("He joins us on 1 February", "2027-02-01"),
        ("Run the ads from 1 to 14 February", "2027-02-01 to 2027-02-14"),
        ("Close the shop from 28 December to 3 January", "2026-12-28 to 2027-01-03"),
        ("Prepare me for a call with the bank tomorrow", "2026-11-27"),
        ("Plan shifts for the week of 7 December", "2026-12-07 to 2026-12-13"),
        ("A week in Rome over Easter, flying out on 25 March 2027", "2027-03-25"),
        ("Plan our wedding: 19.06.2027", "2027-06-19"),
        ("Go live on Tuesday, 1 December", "2026-12-01"),
        ("Hold the training in the first week of January", "2027-01-01 to 2027-01-07"),
        ("We leave on the 30th of December", "2026-12-30"),
        ("Plan dinner on New Year's Eve", "2026-12-31"),
        ("Redo the bath, start after New Year's", "2027-01-01"),
        ("One post a week starting the first week of January", "2027-01-01"),
        ("Move us on the 30th of January", "2027-01-30"),
        ("The fair takes place on March 9th, 2027", "2027-03-09"),
        ("Interview with Jo, Mon 7 Dec, 10:00", "2026-12-07"),
        ("Tidy the attic this weekend", "2026-11-28 to 2026-11-29"),
        ("Plan the summit, 6 to 8 October 2027 in Ghent", "2027-10-06 to 2027-10-08"),
        ("A trip between 10 and 20 July", "2027-07-10 to 2027-07-20"),
        ("Cook for six tonight", "2026-11-26"),
        ("Lunch with Ana the day after tomorrow", "2026-11-28"),
        ("Book a table on Valentine's Day", "2027-02-14"),
        ("Our offsite is in three weeks", "2026-12-17"),
        ("Switch over on the weekend of January 16-17", "2027-01-16 to 2027-01-17"),
        ("Compare Asana, Trello and Monday for us", ""),
        ("Migrate our boards from Trello to Monday.com", ""),
        ("Read the letter of 3 May", ""),
        ("Add up the sales since 1 January", ""),
        ("Call her every Monday", ""),
        ("Write about the Black Friday sales", ""),
        ("Find a Saturday job for my son", ""),
        ("Find a Sunday roast recipe", ""),
        ("Explain the 2024 elections", ""),
        ("Ask May about the key", ""),
        ("Write about Good Friday traditions in Spain", ""),
        ("Choose between Slack and Monday", ""),
        ("A party for her on Saturday the 23rd of January", "2027-01-23"),
        ("Hold the training on 3 and 4 March", "2027-03-03 to 2027-03-04"),
        ("Trains to Lille, out on Tuesday 8 December, back on Thursday", "2026-12-08 to 2026-12-10"),
        ("Design a logo for a van called Monday Tacos", ""),
        ("Find out why sales fell since we launched the shop on 3 November", ""),
        ("Update the rules, they changed on 1 January", ""),
        ("Review the film \"Seven Days in May\"", ""),
    ];
}

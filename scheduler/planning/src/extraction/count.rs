//! Reads counts and how many travel: `5 restaurants`, `three articles`, `for two`.

use std::collections::BTreeMap;

use goalmill_common::number::{to_u32, whole_u64};

use super::words::{Text, Use};

/// Largest count that is taken for one.
const COUNT_MAX: f64 = 1e9;
/// Largest group of travellers that a number alone stands for: `for two`.
const GROUP_MAX: u32 = 20;

/// Things by how many are wanted; the last word of the thing names it. Two counts of one thing are none.
pub(super) fn read(text: &Text) -> BTreeMap<String, u32> {
    let mut counts: BTreeMap<String, Option<u32>> = BTreeMap::new();
    let mut read = Vec::new();
    for at in text.open() {
        let Some((noun, count, next)) = count_at(text, at) else { continue };
        counts.entry(noun.clone()).and_modify(|held| *held = held.filter(|held| *held == count)).or_insert(Some(count));
        read.push((noun, at, next));
    }
    let counts: BTreeMap<String, u32> = counts.into_iter().filter_map(|(noun, count)| Some((noun, count?))).collect();
    for (noun, at, next) in read {
        if counts.contains_key(&noun) {
            text.note(at, next, Use::Fact);
        }
    }
    counts
}

/// How many travel: `for two`, `for 3 people`, `for 2 adults and 2 children`.
pub(super) fn travellers(text: &Text) -> Option<u32> {
    let (at, count, next) = text.open().filter(|at| text.lower(*at) == "for").find_map(|at| {
        let number = text.number(at + 1)?;
        let count = whole(number.value)?;
        if !PERSONS.contains(&text.lower(number.next)) {
            let is_range = text.lower(number.next) == "to" && text.number(number.next + 1).is_some();
            let is_alone = !text.is_letters(number.next) && !SIGNS.contains(&text.lower(number.next))
                || ["in", "to", "from", "with", "on", "at", "by", "under"].contains(&text.lower(number.next));
            return (is_alone && !is_range && count <= GROUP_MAX).then_some((at, count, number.next));
        }
        let more = text.number(number.next + 2).filter(|_| matches!(text.lower(number.next + 1), "and" | "+" | ","));
        let more = more
            .and_then(|more| Some((whole(more.value)?, more.next)))
            .filter(|(_, next)| PERSONS.contains(&text.lower(*next)));
        let (others, last) = more.unwrap_or((0, number.next));
        Some((at, count + others, last + 1))
    })?;
    text.note(at, next, Use::Constraint);
    Some(count)
}

const PERSONS: &[&str] =
    &["people", "persons", "person", "adults", "adult", "travellers", "travelers", "children", "kids", "guests"];

/// Signs that make a number something else than a group: `for 2-3`, `for 5 %`.
const SIGNS: &[&str] = &["-", "–", "%", "$", "€", "£", "/", ":"];

fn count_at(text: &Text, at: usize) -> Option<(String, u32, usize)> {
    // `COVID-19 articles`, `Fortune 500 companies`, `under 5 units`, `the last 3 years`
    let is_tied = text.is_glued(at) && !matches!(text.before(at, 1), "(" | "\"");
    let is_name = at > text.clause_start(at) && text.is_capital(at - 1) && !text.begins_sentence(at - 1);
    let is_range = matches!(text.before(at, 1), "and" | "or" | "to") && at > 1 && text.number(at - 2).is_some();
    let is_limit = is_range || LIMITS.contains(&text.before(at, 1));
    let is_year = text.is_number(at) && text.get(at).is_some_and(|word| word.text.len() == 4);
    if is_tied || is_name || is_limit || is_year || text.read_as(at) == Use::Constraint {
        return None;
    }
    let number = text.number(at)?;
    let count = whole(number.value)?;
    let noun =
        (number.next..number.next + 3).take_while(|i| may_describe(text, *i)).find(|i| is_plural(text.lower(*i)))?;
    // `30 hours per week`, `5 pages at most`
    let is_other = ["per", "a", "each", "max", "maximum", "minimum", "-", "/"].contains(&text.lower(noun + 1))
        || text.lower(noun + 1) == "at" && matches!(text.lower(noun + 2), "most" | "least")
        || text.lower(noun + 1) == "or" && matches!(text.lower(noun + 2), "more" | "less" | "fewer");
    (!is_other).then(|| (text.lower(noun).to_owned(), count, noun + 1))
}

/// Words before a number that is a limit, a position or the end of a range.
const LIMITS: &[&str] = &[
    "most", "least", "than", "under", "over", "below", "above", "within", "-", "–", "/", "last", "past", "next",
    "first", "every", "version", "chapter", "page", "section", "number", "max", "maximum", "minimum", "$", "€", "£",
    "#",
];

fn may_describe(text: &Text, at: usize) -> bool {
    let ends = [
        "in", "on", "at", "of", "for", "to", "from", "with", "and", "or", "the", "is", "are", "was", "by", "than",
        "times", "as", "that",
    ];
    text.is_letters(at)
        && text.read_as(at) == Use::Unread
        && !ends.contains(&text.lower(at))
        && !UNITS.contains(&text.lower(at))
}

/// Units measure instead of counting.
const UNITS: &[&str] = &[
    "days", "nights", "weeks", "months", "years", "hours", "minutes", "seconds", "day", "week", "month", "year",
    "hour", "minute", "euros", "dollars", "pounds", "km", "kilometers", "kilometres", "miles", "metres", "meters",
    "degrees", "grams", "kilos", "percent", "stars", "times",
];

fn is_plural(word: &str) -> bool {
    word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us") || word == "people"
}

fn whole(value: f64) -> Option<u32> {
    (value.fract() == 0.0 && (1.0..=COUNT_MAX).contains(&value)).then(|| to_u32(whole_u64(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> String {
        let found = read(&Text::new(text));
        found.iter().map(|(noun, count)| format!("{count} {noun}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn counts_are_read_and_limits_are_none() {
        for (text, expected) in [
            ("Find 5 restaurants", "5 restaurants"),
            ("Write three short articles", "3 articles"),
            ("a workshop for 30 people", "30 people"),
            ("Use 4 sources (3 studies)", "4 sources 3 studies"),
            ("Compare two used cars", "2 cars"),
            ("twenty-five slides on bees", "25 slides"),
            ("at most 5 pages", ""),
            ("5 pages at most", ""),
            ("no more than 3 offers", ""),
            ("at least 3 sources", ""),
            ("3 sources or more", ""),
            ("3-5 posts", ""),
            ("3 to 5 posts", ""),
            ("without 2 cars", ""),
            ("if 3 servers fail", ""),
            ("a report on COVID-19 articles", ""),
            ("the Fortune 500 companies", ""),
            ("2026 figures", ""),
            ("the last 3 years", ""),
            ("30 hours per week", ""),
            ("3 days in Rome", ""),
            ("5 cats and 5 dogs", "5 cats 5 dogs"),
            ("between 3 and 5 posts", ""),
            ("3 posts. 4 posts", ""),
        ] {
            assert_eq!(counts(text), expected, "{text}");
        }
    }

    #[test]
    fn travellers_are_counted() {
        let of = |text: &str| travellers(&Text::new(text));
        for (text, expected) in [
            ("a weekend in Rome for two", Some(2)),
            ("for 2 people", Some(2)),
            ("for 2 adults and 2 children", Some(4)),
            ("for four, please", Some(4)),
            ("for two weeks", None),
            ("for 3 days", None),
            ("for 2000 dollars", None),
            ("for 2000", None),
            ("for 2-3 people", None),
            ("for 3 to 5 days", None),
            ("not for two", None),
            ("for my wife and two kids", None),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }
}

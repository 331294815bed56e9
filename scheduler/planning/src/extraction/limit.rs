//! Extracts upper and lower limits: `at most 10 pages`, `no fewer than three offers`, `500 words max`.

use std::collections::BTreeMap;

use goalmill_common::number::whole_u64;

use super::amount::amount_at;
use super::words::{Text, WordKind};

/// Numbers by what they limit: `{"pages": 10}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StatedLimits {
    pub at_most: BTreeMap<String, u64>,
    pub at_least: BTreeMap<String, u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LimitSide {
    Most,
    Least,
}

/// Largest number that is taken for a limit.
const LIMIT_MAX: f64 = 1e12;

/// Finds all limits on other things than money and dates, which are read before.
pub(super) fn read(text: &Text) -> StatedLimits {
    let mut limits = StatedLimits::default();
    for at in 0..text.words.len() {
        if let Some((currency, amount, next)) = least_money(text, at) {
            limits.at_least.entry(currency).or_insert(amount);
            text.note_constraint(at, next);
            continue;
        }
        let Some((bound, from, number)) = before_number(text, at).or_else(|| after_number(text, at)) else { continue };
        if is_threshold(text, from) || text.is_in_condition(from) {
            continue;
        }
        // `five or fewer items`
        let noun = number.0 + 2 * usize::from(text.lower(number.0) == "or");
        let Some((noun, next)) = noun_at(text, noun) else { continue };
        let is_one = number.1 == 1 && !noun.contains(' ') && !noun.ends_with('s');
        let noun = if is_one { format!("{noun}s") } else { noun };
        let list = match bound {
            LimitSide::Most => &mut limits.at_most,
            LimitSide::Least => &mut limits.at_least,
        };
        list.entry(noun).or_insert(number.1);
        text.note_constraint(from, next);
    }
    limits
}

/// `for no less than 5.500 euros`: the currency, the amount and the index after it.
fn least_money(text: &Text, at: usize) -> Option<(String, u64, usize)> {
    let first = match (text.lower(at), text.lower(at + 1), text.lower(at + 2)) {
        ("no" | "not" | "never", "less" | "lower", "than") => at + 3,
        ("at", "least", _) => at + 2,
        _ => return None,
    };
    let amount = amount_at(text, first).filter(|amount| (0.0..=LIMIT_MAX).contains(&amount.value))?;
    let is_free = !text.is_constraint(amount.start) && !text.is_in_condition(at);
    let currency = amount.currency.filter(|_| is_free)?;
    let whole = whole_u64(amount.value);
    // `750 EUR per month`
    let unit = text.get(amount.next + 1).filter(|unit| unit.kind == WordKind::Letters);
    match unit.filter(|_| matches!(text.lower(amount.next), "per" | "a" | "/")) {
        Some(unit) => Some((format!("{currency} per {}", unit.lower), whole, amount.next + 2)),
        None => Some((currency.to_owned(), whole, amount.next)),
    }
}

/// `at most 10`: the index after the number and its value.
fn before_number(text: &Text, at: usize) -> Option<(LimitSide, usize, (usize, u64))> {
    let lead = (text.lower(at), text.lower(at + 1), text.lower(at + 2));
    let (bound, mut next) = match lead {
        (
            "no" | "not" | "never",
            "further" | "farther" | "older" | "later" | "wider" | "heavier" | "taller",
            "than",
        ) => (LimitSide::Most, at + 3),
        ("at", "most", _) | ("up", "to", _) | ("not" | "never", "exceeding" | "above" | "over", _) => {
            (LimitSide::Most, at + 2)
        }
        (
            "no" | "not" | "never" | "nothing" | "without",
            "more" | "longer" | "larger" | "bigger" | "greater" | "higher",
            "than",
        ) => (LimitSide::Most, at + 3),
        ("no" | "not" | "never", "less" | "fewer" | "shorter" | "smaller", "than") => (LimitSide::Least, at + 3),
        ("at", "least", _) => (LimitSide::Least, at + 2),
        ("a", "maximum" | "max", "of") => (LimitSide::Most, at + 3),
        ("a", "minimum", "of") => (LimitSide::Least, at + 3),
        ("maximum" | "max", "of", _) => (LimitSide::Most, at + 2),
        ("minimum" | "min", "of", _) => (LimitSide::Least, at + 2),
        ("max" | "min", ".", _) => (if text.lower(at) == "max" { LimitSide::Most } else { LimitSide::Least }, at + 2),
        ("maximum" | "max", _, _) => (LimitSide::Most, at + 1),
        ("minimum", _, _) => (LimitSide::Least, at + 1),
        ("less" | "fewer" | "shorter", "than", _) if is_in_negation(text, at) => (LimitSide::Least, at + 2),
        ("less" | "fewer" | "shorter", "than", _) if !negated(text, at) => (LimitSide::Most, at + 2),
        ("more" | "longer", "than", _) if is_in_negation(text, at) => (LimitSide::Most, at + 2),
        ("more" | "longer", "than", _) if !negated(text, at) => (LimitSide::Least, at + 2),
        ("under" | "below" | "≤", _, _) => (LimitSide::Most, at + 1),
        ("≥", _, _) => (LimitSide::Least, at + 1),
        _ => return None,
    };
    if matches!(text.lower(next), "a" | "the" | ":") {
        next += 1;
    }
    Some((bound, at, number(text, next)?))
}

/// `it must not lock the table for more than 5 seconds`, `nobody works more than 5 days`, `no flight with more than one stop`.
fn is_in_negation(text: &Text, at: usize) -> bool {
    let negation = text.negation_before(at).filter(|negation| negation + 1 < at);
    negation.is_some_and(|negation| !matches!(text.lower(negation), "no" | "without") || text.before(at, 1) == "with")
}

/// `flag anything under 5 units`, `delete logs older than`: which ones are meant, not what the result keeps to.
fn is_threshold(text: &Text, at: usize) -> bool {
    let noun = text.before(at, 1);
    let selects = (2..=4).any(|back| {
        ["flag", "mark", "highlight", "delete", "remove", "drop", "archive", "reorder", "filter"]
            .contains(&text.before(at, back))
    });
    matches!(noun, "anything" | "everything" | "something" | "those" | "ones")
        || selects && noun.len() > 3 && noun.ends_with('s')
}

fn negated(text: &Text, at: usize) -> bool {
    matches!(text.before(at, 1), "no" | "not" | "never" | "in")
}

/// `10 pages max`, `three or fewer`: the limit stands after the number.
fn after_number(text: &Text, at: usize) -> Option<(LimitSide, usize, (usize, u64))> {
    let number = number(text, at)?;
    // At most three words stand between the number and the word that makes it a limit.
    let bound = (number.0..number.0 + 4).find_map(|i| match (text.lower(i), text.lower(i + 1), text.lower(i + 2)) {
        ("max" | "maximum" | "tops", _, _) | ("at", "most", _) | ("at", "the", "most") => Some(LimitSide::Most),
        ("or", "less" | "fewer", _) => Some(LimitSide::Most),
        ("or", "more", _) | ("at", "least", _) | ("minimum", _, _) => Some(LimitSide::Least),
        _ => None,
    });
    let free = (number.0..number.0 + 4)
        .take_while(|i| !matches!(text.lower(*i), "max" | "maximum" | "tops" | "at" | "or" | "minimum"))
        .all(|i| text.get(i).is_some_and(|w| w.kind == WordKind::Letters && text.number(i).is_none()));
    bound.filter(|_| free && !text.is_constraint(at)).map(|bound| (bound, at, number))
}

fn number(text: &Text, at: usize) -> Option<(usize, u64)> {
    let is_tied = text.get(at)?.glued && at > 0 && !matches!(text.lower(at - 1), "(" | "." | ":");
    let number =
        text.number(at).filter(|n| !is_tied && (0.0..=LIMIT_MAX).contains(&n.value) && n.value.fract() == 0.0)?;
    let is_other = (at..number.next).any(|i| text.is_constraint(i));
    (!is_other).then(|| (number.next, whole_u64(number.value)))
}

/// What is limited: the words up to a plural or a unit.
fn noun_at(text: &Text, at: usize) -> Option<(String, usize)> {
    let first = text.get(at)?;
    if first.lower == "%" {
        return Some(("percent".into(), at + 1));
    }
    let mut next = at;
    while next < at + 3 {
        let word = text.get(next).filter(|w| w.kind == WordKind::Letters && !STOPS.contains(&w.lower.as_str()))?;
        next += 1;
        let ends =
            text.get(next).is_none_or(|after| after.kind != WordKind::Letters || STOPS.contains(&after.lower.as_str()));
        let is_plural = word.lower.len() > 2 && word.lower.ends_with('s') && !word.lower.ends_with("ss");
        if is_plural || ends {
            break;
        }
    }
    let name = text.between(at, next).to_lowercase();
    // `10 minutes of downtime`
    if text.lower(next) == "of"
        && text.get(next + 1).is_some_and(|w| w.kind == WordKind::Letters && !STOPS.contains(&w.lower.as_str()))
    {
        return Some((format!("{name} of {}", text.lower(next + 1)), next + 2));
    }
    Some((name, next))
}

const STOPS: &[&str] = &[
    "in", "on", "at", "for", "to", "from", "with", "and", "or", "the", "a", "an", "is", "are", "was", "by", "than",
    "per", "each", "max", "maximum", "minimum", "which", "that", "but", "as", "if", "of", "every", "total", "before",
    "until", "without", "must",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(text: &str) -> String {
        let found = read(&Text::new(text));
        let list = |sign: &str, of: &BTreeMap<String, u64>| {
            of.iter().map(|(noun, n)| format!("{sign}{n} {noun}")).collect::<Vec<_>>()
        };
        [list("<=", &found.at_most), list(">=", &found.at_least)].concat().join(", ")
    }

    #[test]
    fn limits_are_read_in_many_spellings() {
        for (text, expected) in [
            ("10 pages at most, as PDF", "<=10 pages"),
            ("no more than one page", "<=1 pages"),
            ("not more than 5 open questions", "<=5 open questions"),
            ("at most ten questions", "<=10 questions"),
            ("max. 500 words", "<=500 words"),
            ("500 words max", "<=500 words"),
            ("up to 20 slides", "<=20 slides"),
            ("with less than 10 minutes of downtime", "<=10 minutes of downtime"),
            ("at least 8 risks with countermeasures", ">=8 risks"),
            ("coverage of at least 90 percent", ">=90 percent"),
            ("three offers or more", ">=3 offers"),
            ("no fewer than 3 sources", ">=3 sources"),
            ("five or fewer items", "<=5 items"),
            ("nobody works more than 5 days in a row", "<=5 days"),
            ("must not lock it for more than 5 seconds", "<=5 seconds"),
            ("not further than 10 km from here", "<=10 km"),
            ("without more than 30 minutes of downtime", "<=30 minutes of downtime"),
            ("don't make it longer than 3 pages", "<=3 pages"),
            ("no flights with more than one stop", "<=1 stops"),
            ("no hotel with less than 3 stars", ">=3 stars"),
            ("under 200 lines", "<=200 lines"),
            ("sell it for no less than 5.500 euros", ">=5500 EUR"),
            ("at least $300 for the bike", ">=300 USD"),
            ("a rent of at least 750 EUR per month", ">=750 EUR per month"),
        ] {
            assert_eq!(limits(text), expected, "{text}");
        }
    }

    #[test]
    fn other_numbers_limit_nothing() {
        for text in [
            "10 pages",
            "flag anything under 5 units",
            "reorder when we have less than 50 kg",
            "call me if it takes more than 5 minutes",
            "stop once you have at least 20 answers",
            "delete rows with more than",
            "more than ever",
            "at most",
            "under the sea",
            "up to date",
            "at least try",
            "max",
            "in 3 days",
        ] {
            assert_eq!(limits(text), "", "{text}");
        }
    }
}

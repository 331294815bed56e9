//! Extracts upper and lower limits: `at most 10 pages`, `no fewer than three offers`, `500 words max`.

use std::collections::BTreeMap;

use goalmill_common::number::whole_u64;

use super::amount::amount_at;
use super::people::is_person;
use super::recurrence::is_period;
use super::words::{Text, WordKind};

/// Numbers by what they limit: `{"pages": 10}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StatedLimits {
    pub at_most: BTreeMap<String, u64>,
    pub at_least: BTreeMap<String, u64>,
}

impl StatedLimits {
    /// Whether so many of a thing are its upper limit, and no count.
    pub(super) fn bounds(&self, noun: &str, count: u32) -> bool {
        let noun = noun.split(' ').next().unwrap_or_default();
        self.at_most.iter().any(|(what, most)| *most == u64::from(count) && what.split(' ').any(|word| word == noun))
    }
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
        if let Some((low, high, noun, next)) = range_at(text, at) {
            let (noun, next) = over_time(text, noun, next);
            limits.at_least.entry(noun.clone()).or_insert(low);
            limits.at_most.entry(noun).or_insert(high);
            text.note_constraint(at, next);
            continue;
        }
        let Some((bound, from, number)) = before_number(text, at).or_else(|| after_number(text, at)) else { continue };
        if is_threshold(text, from) || text.is_in_condition(from) {
            continue;
        }
        let Some((noun, next)) = limited(text, from, &number) else { continue };
        let (noun, next) = over_time(text, noun, next);
        let is_one = number.value == 1 && !noun.contains(' ') && !noun.ends_with('s');
        let noun = if is_one { format!("{noun}s") } else { noun };
        let list = match bound {
            LimitSide::Most => &mut limits.at_most,
            LimitSide::Least => &mut limits.at_least,
        };
        list.entry(noun).or_insert(number.value);
        text.note_constraint(from, next);
    }
    limits
}

/// A number with the index after it; of `half an hour` and `a page`, with its unit.
struct Limit {
    value: u64,
    next: usize,
    unit: Option<String>,
}

/// `hours a day` as `hours per day`, `nights in a row`, with the index after it.
fn over_time(text: &Text, noun: String, next: usize) -> (String, usize) {
    let unit = text.lower(next + 1);
    match text.lower(next) {
        "in" if unit == "a" && text.lower(next + 2) == "row" => (format!("{noun} in a row"), next + 3),
        "a" | "an" | "per" | "each" | "every" if is_period(unit) || unit == "hour" => {
            (format!("{noun} per {unit}"), next + 2)
        }
        "running" => (format!("{noun} in a row"), next + 1),
        "each" | "apiece" => (format!("{noun} each"), next + 1),
        "per" if text.get(next + 1).is_some_and(|unit| unit.kind == WordKind::Letters) => {
            (format!("{noun} per {unit}"), next + 2)
        }
        _ => (noun, next),
    }
}

/// What is limited, and the index after it: `pages`, `hours of downtime`, `studies` of `studies, at least 20 of them`.
fn limited(text: &Text, from: usize, number: &Limit) -> Option<(String, usize)> {
    if let Some(unit) = &number.unit {
        return Some((unit.clone(), number.next));
    }
    if text.lower(number.next) == "of" && matches!(text.lower(number.next + 1), "them" | "these" | "those" | "which") {
        let noun = text.lower(text.plural_before(from)?);
        // `at least one of them vegan`
        let quality = text.get(number.next + 2).filter(|word| {
            word.kind == WordKind::Letters
                && !STOPS.contains(&word.lower.as_str())
                && text.get(number.next + 3).is_none_or(|next| next.kind == WordKind::Sign)
        });
        return Some(match quality {
            Some(quality) => (format!("{} {noun}", quality.lower), number.next + 3),
            None => (noun.to_owned(), number.next + 2),
        });
    }
    // `five or fewer items`
    let (noun, next) = noun_at(text, number.next + 2 * usize::from(text.lower(number.next) == "or"))
        .or_else(|| Some((people_of_group(text, from)?, number.next)))?;
    let noun = match noun.as_str() {
        "min" | "mins" => "minutes".to_owned(),
        "h" | "hr" | "hrs" => "hours".to_owned(),
        "sec" | "secs" => "seconds".to_owned(),
        _ => noun,
    };
    // `downtime can't exceed 4 hours`
    let of = of_what(text, from).filter(|_| TIMES.contains(&noun.as_str()));
    Some((of.map(|subject| format!("{noun} of {subject}")).unwrap_or(noun), next))
}

/// `in groups of no more than 8`: `people per group`.
fn people_of_group(text: &Text, from: usize) -> Option<String> {
    let group = text.before(from, 2).strip_suffix('s').filter(|_| text.before(from, 1) == "of")?;
    let group = if group == "classe" || group == "batche" { &group[..group.len() - 1] } else { group };
    let is_group = ["group", "team", "class", "batch", "table", "pair", "crew"].contains(&group);
    is_group.then(|| format!("people per {group}"))
}

const TIMES: &[&str] = &["hours", "minutes", "seconds", "milliseconds", "ms", "days", "weeks", "hour", "minute", "day"];

/// The one word before `must stay`, `can't exceed`.
fn of_what<'t>(text: &'t Text, from: usize) -> Option<&'t str> {
    let exceeds = text.lower(from) == "exceed";
    let is_verb = |word: &str| {
        ["stay", "remain", "be", "not", "must", "should", "can", "can't", "cannot", "mustn't", "shouldn't", "may", "to"]
            .contains(&word)
            || matches!(word, "has" | "have" | "needs" | "won't" | "will" | "is" | "never")
    };
    let verbs = text.clause_before(from, 4).take_while(|i| is_verb(text.lower(*i))).last();
    let verb =
        verbs.filter(|verb| exceeds || matches!(text.before(from, 1), "stay" | "remain" | "be") && *verb < from)?;
    let first = text.subject_before(verb)?;
    (first + 1 == verb).then(|| text.lower(first))
}

/// `800 to 1,000 words`, `between 10 and 15 songs`: the lower and the upper number, what they limit, and the index after it.
fn range_at(text: &Text, at: usize) -> Option<(u64, u64, String, usize)> {
    let is_joined = at > 0 && text.words[at].glued;
    let low = number(text, at).filter(|_| !is_joined)?;
    let links = match text.lower(low.next) {
        "to" | "-" | "–" => true,
        "and" => text.before(at, 1) == "between",
        _ => false,
    };
    let high =
        text.number(low.next + 1).filter(|high| links && high.value.fract() == 0.0 && high.value <= LIMIT_MAX)?;
    let high_value = whole_u64(high.value);
    let is_year = |value: u64| (1900..2200).contains(&value);
    let is_other =
        low.value >= high_value || is_year(low.value) && is_year(high_value) || text.is_constraint(low.next + 1);
    let has_currency = amount_at(text, low.next + 1).is_some_and(|amount| amount.currency.is_some());
    let (noun, next) = noun_at(text, high.next).filter(|_| !is_other && !has_currency)?;
    let is_thing = noun.len() > 3 && noun.ends_with('s') && !TIMES.contains(&noun.as_str());
    let is_stay = matches!(noun.as_str(), "nights" | "months" | "years" | "people" | "persons" | "adults" | "guests");
    (is_thing && !is_stay).then_some((low.value, high_value, noun, next))
}

/// `for no less than 5.500 euros`: the currency, the amount and the index after it.
fn least_money(text: &Text, at: usize) -> Option<(String, u64, usize)> {
    let first = match (text.lower(at), text.lower(at + 1), text.lower(at + 2)) {
        ("no" | "not" | "never", "less" | "lower", "than") => at + 3,
        ("at", "least", _) | ("minimum", "price" | "of", _) => at + 2,
        ("minimum", ..) => at + 1,
        // `raise 5,000 pounds`
        ("raise" | "collect" | "save" | "crowdfund", ..) if is_aim(text, at) => {
            at + 1 + usize::from(matches!(text.lower(at + 1), "about" | "around" | "roughly" | "some"))
        }
        _ => return None,
    };
    let amount = amount_at(text, first).filter(|amount| (0.0..=LIMIT_MAX).contains(&amount.value))?;
    let is_free = !text.is_constraint(amount.start) && !text.is_in_condition(at);
    let currency = amount.currency.filter(|_| is_free)?;
    let whole = whole_u64(amount.value);
    // `750 EUR per month`
    // `900 dollars of it every month`
    let per = amount.next + if text.lower(amount.next) == "of" { 2 } else { 0 };
    let unit = text.get(per + 1).filter(|unit| unit.kind == WordKind::Letters);
    match unit.filter(|_| matches!(text.lower(per), "per" | "a" | "/" | "every" | "each")) {
        Some(unit) => Some((format!("{currency} per {}", unit.lower), whole, per + 2)),
        None => Some((currency.to_owned(), whole, amount.next)),
    }
}

/// Whether a verb states what is to be reached: not so in `I can save 400 euros a month`.
fn is_aim(text: &Text, at: usize) -> bool {
    let is_able = ["can", "could", "i", "we", "already", "they", "you", "who", "that"].contains(&text.before(at, 1));
    !is_able && text.negation_before(at).is_none()
}

/// `at most 10`: the side, the index of its first word, and the number.
fn before_number(text: &Text, at: usize) -> Option<(LimitSide, usize, Limit)> {
    let lead = (text.lower(at), text.lower(at + 1), text.lower(at + 2));
    let (bound, mut next) = match lead {
        (
            "no" | "not" | "never",
            "further" | "farther" | "older" | "later" | "wider" | "heavier" | "taller",
            "than",
        ) => (LimitSide::Most, at + 3),
        ("at", "the", "most") => (LimitSide::Most, at + 3),
        ("exceed", ..) if text.negation_before(at).is_some() => (LimitSide::Most, at + 1),
        ("to", ..) if is_reduced(text, at) => (LimitSide::Most, at + 1),
        ("fit" | "fits", "on" | "in" | "into", _) => (LimitSide::Most, at + 2),
        ("at", "most", _) | ("up", "to", _) | ("not" | "never", "exceeding" | "above" | "over", _) => {
            (LimitSide::Most, at + 2)
        }
        (
            "no" | "not" | "never" | "nothing" | "nobody" | "none" | "without",
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
        ("minimum" | "min", _, _) => (LimitSide::Least, at + 1),
        ("less" | "fewer" | "shorter", "than", _) if is_in_negation(text, at) => (LimitSide::Least, at + 2),
        ("less" | "fewer" | "shorter", "than", _) if !negated(text, at) || is_in_a_moment(text, at) => {
            (LimitSide::Most, at + 2)
        }
        ("more" | "longer", "than", _) if is_in_negation(text, at) => (LimitSide::Most, at + 2),
        ("more" | "longer", "than", _) if !negated(text, at) => (LimitSide::Least, at + 2),
        ("above" | "over", ..) if matches!(text.before(at, 1), "stay" | "remain" | "stays" | "be") => {
            (LimitSide::Least, at + 1)
        }
        ("under" | "below" | "≤", _, _) => (LimitSide::Most, at + 1),
        ("≥", _, _) => (LimitSide::Least, at + 1),
        _ => return None,
    };
    if let Some(one) = one_at(text, next) {
        return Some((bound, at, one));
    }
    while matches!(text.lower(next), "a" | "the" | "top" | ":") {
        next += 1;
    }
    Some((bound, at, number(text, next)?))
}

/// `half an hour`, `a page`
fn one_at(text: &Text, at: usize) -> Option<Limit> {
    let limit = |value, unit: &str, next| Some(Limit { value, next, unit: Some(unit.to_owned()) });
    match (text.lower(at), text.lower(at + 1), text.lower(at + 2)) {
        // `at most twice a week`
        (often @ ("once" | "twice"), "a" | "per" | "every", _) => {
            limit(1 + u64::from(often == "twice"), "times", at + 1)
        }
        ("half", "an", "hour") => limit(30, "minutes", at + 3),
        ("a" | "an" | "one", unit @ ("hour" | "day" | "minute" | "week"), "of")
            if text.get(at + 3).is_some_and(|what| what.kind == WordKind::Letters) =>
        {
            limit(1, &format!("{unit}s of {}", text.lower(at + 3)), at + 4)
        }
        ("a" | "an" | "one", unit @ ("hour" | "day" | "week" | "month" | "minute" | "page" | "fortnight"), of)
            if of != "of" =>
        {
            limit(1, &format!("{unit}s"), at + 2)
        }
        _ => None,
    }
}

/// `keep it to two pages`, `limit the list to five items`
fn is_reduced(text: &Text, at: usize) -> bool {
    let verb = text.clause_before(at, 5).find(|i| {
        ["keep", "limit", "limited", "restrict", "restricted", "cap", "capped", "confine"].contains(&text.lower(*i))
    });
    let is_time = text.number(at + 1).is_some_and(|number| TIMES.contains(&text.lower(number.next)));
    verb.is_some() && !is_time
}

/// `it must not lock the table for more than 5 seconds`, `nobody works more than 5 days`, `no flight with more than one stop`.
fn is_in_negation(text: &Text, at: usize) -> bool {
    // `nobody should be without a desk for more than one day`
    if text.clause_before(at, 10).any(|i| text.lower(i) == "nobody" && text.begins_clause(i)) {
        return true;
    }
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
    // `children under 12 years`, `list the companies with more than 50 employees`
    let is_age = is_person(noun) && matches!(text.lower(at), "over" | "under" | "above" | "below");
    let has_with = noun == "with" && text.before(at, 2).ends_with('s') && text.lower(at) != "at";
    let lists = has_with
        && text.clause_before(at, 8).any(|i| ["list", "find", "show", "count", "collect"].contains(&text.lower(i)));
    is_age
        || lists
        || matches!(noun, "anything" | "everything" | "something" | "those" | "ones")
        || selects && noun.len() > 3 && noun.ends_with('s')
}

/// `load in less than 2 seconds`: no deadline.
fn is_in_a_moment(text: &Text, at: usize) -> bool {
    let unit = text.number(at + 2).map_or("", |number| text.lower(number.next));
    text.before(at, 1) == "in" && matches!(unit, "second" | "seconds" | "milliseconds" | "ms" | "minutes")
}

fn negated(text: &Text, at: usize) -> bool {
    matches!(text.before(at, 1), "no" | "not" | "never" | "in" | "nobody" | "none")
}

/// `10 pages max`, `three or fewer`: the limit stands after the number.
fn after_number(text: &Text, at: usize) -> Option<(LimitSide, usize, Limit)> {
    // `30 minutes a day max`: the first number is meant.
    let follows_unit = text.before(at, 1).ends_with('s') || at > 1 && text.number(at - 2).is_some();
    let number = one_at(text, at).filter(|_| !follows_unit).or_else(|| number(text, at))?;
    // At most three words stand between the number and the word that makes it a limit.
    let bound =
        (number.next..number.next + 4).find_map(|i| match (text.lower(i), text.lower(i + 1), text.lower(i + 2)) {
            // `ten posts of at most 100 words`
            ("max" | "maximum", ..) if amount_at(text, i + 1).is_some() => None,
            ("at", "most" | "least", _) if amount_at(text, i + 2).is_some() => None,
            ("max" | "maximum" | "tops", _, _) | ("at", "most", _) | ("at", "the", "most") => Some(LimitSide::Most),
            ("or", "less" | "fewer", _) => Some(LimitSide::Most),
            ("or", "more", _) | ("at", "least", _) | ("minimum", _, _) => Some(LimitSide::Least),
            _ => None,
        });
    let free = (number.next..number.next + 4)
        .take_while(|i| !matches!(text.lower(*i), "max" | "maximum" | "tops" | "at" | "or" | "minimum"))
        .all(|i| text.get(i).is_some_and(|w| w.kind == WordKind::Letters && text.number(i).is_none()));
    bound.filter(|_| free && !text.is_constraint(at)).map(|bound| (bound, at, number))
}

/// A whole number that is no amount of money and was not read yet.
fn number(text: &Text, at: usize) -> Option<Limit> {
    let is_tied = text.get(at)?.glued && at > 0 && !matches!(text.lower(at - 1), "(" | "." | ":");
    let number =
        text.number(at).filter(|n| !is_tied && (0.0..=LIMIT_MAX).contains(&n.value) && n.value.fract() == 0.0)?;
    let is_other = (at..number.next).any(|i| text.is_constraint(i))
        || amount_at(text, at).is_some_and(|amount| amount.currency.is_some());
    if is_other {
        return None;
    }
    // `60 000 km`
    let first = text.words[at].text;
    let group = text.get(number.next).filter(|group| !group.glued && group.text.len() == 3 && first.len() <= 3);
    let is_digit = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
    let thousands =
        group.filter(|group| is_digit(group.text) && is_digit(first)).and_then(|group| group.text.parse::<u64>().ok());
    let value = whole_u64(number.value);
    Some(match thousands {
        Some(rest) => Limit { value: value * 1_000 + rest, next: number.next + 1, unit: None },
        None => Limit { value, next: number.next, unit: None },
    })
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
    "until", "without", "must", "have", "has", "should", "need", "needs", "can", "will", "were", "be",
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
            ("nobody works more than 5 days in a row", "<=5 days in a row"),
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

    #[test]
    fn limits_are_read_as_people_write_them() {
        super::super::phrases::check(PHRASES, |facts| {
            let list = super::super::phrases::listed;
            [list("<=", &facts.at_most), list(">=", &facts.at_least)].concat().join(", ")
        });
    }

    const PHRASES: &[(&str, &str)] = &[
        ("Start a podcast, an episode every fortnight, none longer than 25 minutes", "<=25 minutes"),
        ("Three hot dishes, at least one of them vegan, for 50 people", ">=1 vegan dishes"),
        ("Water the plants at most twice a week", "<=2 times per week"),
        ("No more than once a month", "<=1 times per month"),
        ("Buy 15 office chairs for at most $250 each", ""),
        ("Write ten posts of at most 100 words", "<=100 words"),
        ("Practise at least 20 minutes a day", ">=20 minutes per day"),
        ("Make a study plan with no more than one hour a day", "<=1 hours per day"),
        ("Nobody should work more than 5 days a week", "<=5 days per week"),
        ("Post at most three times a week", "<=3 times per week"),
        ("Nobody takes more than two shifts per weekend", "<=2 shifts per weekend"),
        ("Up to 4 calls per hour", "<=4 calls per hour"),
        ("Drive no more than 300 km per day", "<=300 km per day"),
        ("No more than two night shifts in a row", "<=2 night shifts in a row"),
        ("It can't take longer than a week", "<=1 weeks"),
        ("Downtime can't exceed 4 hours", "<=4 hours of downtime"),
        ("Write a report, max 12 pages", "<=12 pages"),
        ("Write a summary, 500 words tops", "<=500 words"),
        ("Six posts, 800 to 1,000 words apiece", "<=1000 words each, >=800 words each"),
        ("Buy laptops, min 16 GB RAM each", ">=16 gb ram each"),
        ("Write four posts of no more than 500 words each", "<=500 words each"),
        ("Train the staff in groups of no more than 8", "<=8 people per group"),
        ("Split the classes into teams of at most five", "<=5 people per team"),
        ("Make the page load in less than 2 seconds", "<=2 seconds"),
        ("Move the wiki with no more than an hour of downtime", "<=1 hours of downtime"),
        ("At least two people have to be there", ">=2 people"),
        ("Plan the move, and nobody should be without a desk for more than one day", "<=1 days"),
        ("Raise 5,000 pounds for a playground", ">=5000 GBP"),
        ("Help me save 3,000 euros by June", ">=3000 EUR"),
        ("I can save 400 euros a month, plan my budget", ""),
        ("Find peer-reviewed studies, at least 20 of them", ">=20 studies"),
        ("Train them in groups of max 15 persons", "<=15 persons"),
        ("Dishes with half an hour max to cook", "<=30 minutes"),
        ("Make it no longer than a page", "<=1 pages"),
        ("It shouldn't take more than two hours", "<=2 hours"),
        ("Prepare fewer than ten slides", "<=10 slides"),
        ("Cite not fewer than three references", ">=3 references"),
        ("A survey with maximum ten questions", "<=10 questions"),
        ("Pick between 10 and 15 songs", "<=15 songs, >=10 songs"),
        ("Reach a minimum of 80 percent", ">=80 percent"),
        ("The file must be under 2 MB", "<=2 mb"),
        ("It must not be longer than 300 characters", "<=300 characters"),
        ("Keep it to two pages", "<=2 pages"),
        ("Limit it to five items", "<=5 items"),
        ("Find a house with 4 bedrooms or more", ">=4 bedrooms"),
        ("Find a flat, at least two bathrooms", ">=2 bathrooms"),
        ("The parcel can be no heavier than 8 kg", "<=8 kg"),
        ("Plan it with up to 3 revisions", "<=3 revisions"),
        ("It won't take longer than a week, please", "<=1 weeks"),
        ("It should fit on one page", "<=1 pages"),
        ("The renovation shouldn't take longer than three weeks", "<=3 weeks"),
        ("Latency must stay below 200 milliseconds", "<=200 milliseconds of latency"),
        ("Give me 3 to 5 names", "<=5 names, >=3 names"),
        ("Flag anything under 5 units", ""),
        ("We need it more than ever", ""),
        ("Call me if it takes more than 5 minutes", ""),
        ("Write a guide for people over 65", ""),
        ("List the top 10 songs", ""),
        ("At least try to fix it", ""),
        ("Meet between 9 and 11 am", ""),
        ("A trip from 3 to 7 May", ""),
        ("Find games for children under 12", ""),
        ("List companies with more than 50 employees", ""),
        ("Delete files bigger than 100 MB", ""),
        ("Salary up to 85k euros a year", ""),
        ("Bring it down from 40 minutes to 10 minutes", ""),
        ("30 minutes a day max", "<=30 minutes per day"),
        ("Walk 20 km a day at most", "<=20 km per day"),
        ("Nobody works more than 3 days in a row", "<=3 days in a row"),
        ("Find a car, less than 60 000 km", "<=60000 km"),
        ("Coverage has to stay above 85%", ">=85 percent"),
    ];
}

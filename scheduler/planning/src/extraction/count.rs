//! Extracts counts: `5 restaurants`, `three articles`, `for two`, `a family of four`.

use std::collections::BTreeMap;

use goalmill_common::number::{to_u32, whole_u64};

use super::words::{Text, WordKind};

/// Largest count that is taken for one.
const COUNT_MAX: f64 = 10_000.0;

/// Things by how many are wanted; the last word of the thing names it.
pub(super) fn read(text: &Text) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for at in 0..text.words.len() {
        if let Some((noun, count)) = count_at(text, at) {
            text.note(at, at + 1, super::words::Use::Fact);
            counts.entry(noun).or_insert(count);
        }
    }
    counts
}

/// The count of a text that counts one kind of thing: of `15 chairs for $250 each`, 15.
pub(super) fn only(text: &Text) -> Option<u32> {
    let counts: BTreeMap<String, u32> = (0..text.words.len()).filter_map(|at| count_at(text, at)).collect();
    counts.values().next().copied().filter(|_| counts.len() == 1)
}

fn count_at(text: &Text, at: usize) -> Option<(String, u32)> {
    if !may_count(text, at) {
        return None;
    }
    if let Some(found) = length_at(text, at) {
        return Some(found);
    }
    let first = text.number(at)?;
    let mut number = first;
    if matches!(text.lower(first.next), "-" | "to" | "or")
        && let Some(second) = text.number(first.next + 1)
    {
        number = second;
    }
    let count = whole(number.value)?;
    let noun = noun_at(text, number.next)?;
    Some((noun, count))
}

/// `a two-page report`, `one page`: the length of a text.
fn length_at(text: &Text, at: usize) -> Option<(String, u32)> {
    let number = text.number(at)?;
    let count = whole(number.value)?;
    let is_joined = text.lower(number.next) == "-" && text.get(number.next + 1).is_some_and(|unit| unit.glued);
    let unit = text.lower(number.next + usize::from(is_joined));
    let is_length = matches!(unit, "page" | "slide" | "paragraph" | "sentence")
        || is_joined && matches!(unit, "word" | "question" | "chapter" | "item" | "point");
    (is_length && (is_joined || count == 1)).then(|| (format!("{unit}s"), count))
}

/// Whether a number here can count things: not part of a name, an amount or a date.
fn may_count(text: &Text, at: usize) -> bool {
    let word = &text.words[at];
    if word.kind == WordKind::Sign {
        return false;
    }
    let year = matches!(word.kind, WordKind::Number(n) if (1900.0..2200.0).contains(&n) && word.text.len() == 4);
    if year || at > 0 && word.glued && !matches!(text.lower(at - 1), "(" | "\"" | "'" | "~") {
        return false;
    }
    if at == 0 {
        return true;
    }
    // `Fortune 500`, `iOS 18`
    let has_capital = text.has_case && text.words[at - 1].text.chars().any(char::is_uppercase);
    let tied_to_name = has_capital
        && !text.is_sentence_start(at)
        && !VERBS.contains(&text.lower(at - 1))
        && !text.is_imperative(at - 1);
    let signed = matches!(text.lower(at - 1), "$" | "€" | "£" | "#" | "¥" | "₹");
    // `flag anything under 5 units`: which ones are meant.
    let is_threshold = matches!(text.lower(at - 1), "under" | "over" | "above" | "below" | "beyond" | "than")
        && !text.is_constraint(at);
    let continues = word.kind == WordKind::Letters && text.number(at - 1).is_some_and(|q| q.next > at);
    let numbered = ["number", "no", "version", "chapter", "step", "page", "section", "level", "season"]
        .contains(&text.before(at, 1));
    !(tied_to_name || signed || is_threshold || continues || numbered)
}

/// The counted thing: a plural after at most two words that describe it. A measure describes it, too: `four one-hour sessions`.
fn noun_at(text: &Text, mut at: usize) -> Option<String> {
    for _ in 0..3 {
        if let Some(after) = measure_at(text, at) {
            at = after;
            continue;
        }
        let word = text.get(at).filter(|w| w.kind == WordKind::Letters)?;
        let lower = word.lower.as_str();
        if LINKS.contains(&lower) || UNITS.contains(&lower) {
            return None;
        }
        let plural = lower.len() > 3 && lower.ends_with('s') && !lower.ends_with("ss") && !lower.ends_with("us");
        if plural && !text.get(at + 1).is_some_and(|w| w.glued && w.lower == "'") {
            return Some(lower.to_owned());
        }
        at += 1;
        if text.lower(at) == "-" && text.get(at).is_some_and(|w| w.glued) {
            at += 1;
        }
    }
    None
}

/// The index after `one-hour`, `90-minute`, `two-page`.
fn measure_at(text: &Text, at: usize) -> Option<usize> {
    let next = text.number(at)?.next;
    let joined = |at: usize| text.get(at).is_some_and(|word| word.glued);
    let unit = text.get(next + 1).filter(|unit| unit.kind == WordKind::Letters)?;
    (text.lower(next) == "-" && joined(next) && unit.glued).then_some(next + 2)
}

fn whole(value: f64) -> Option<u32> {
    (value.fract() == 0.0 && (1.0..=COUNT_MAX).contains(&value)).then_some(())?;
    Some(to_u32(whole_u64(value)))
}

/// Words that begin a sentence without being part of a name: `Find 5 restaurants`, but not `Fortune 500`.
const VERBS: &[&str] = &[
    "find", "give", "list", "summarise", "summarize", "plan", "book", "write", "create", "make", "compare", "read",
    "get", "show", "suggest", "recommend", "pick", "choose", "collect", "gather", "analyse", "analyze", "translate",
    "search", "buy", "order", "send", "draft", "generate", "name", "visit", "review", "research", "the", "top", "at",
    "use", "i", "around", "about", "these", "those", "any", "some", "in", "for", "with", "select", "rank", "check",
    "download", "need",
];

/// Words that end what is counted.
const LINKS: &[&str] = &[
    "in", "on", "at", "of", "for", "to", "from", "with", "and", "or", "the", "a", "an", "is", "are", "was", "by",
    "than", "per", "times", "plus", "minus", "percent", "that", "which", "if", "as", "it", "this", "star", "st", "nd",
    "rd", "th", "k", "m", "am", "pm", "o", "x", "million", "thousand", "billion", "hundred", "years", "does", "has",
    "us", "s", "can", "can't", "cannot", "could", "will", "should", "need", "have", "had", "do", "don't", "were",
    "without", "not", "no",
];

/// Plurals that measure instead of counting.
const UNITS: &[&str] = &[
    "days", "day", "nights", "night", "weeks", "week", "weekends", "months", "month", "hours", "hour", "minutes",
    "minute", "seconds", "year", "dollars", "euros", "pounds", "bucks", "rupees", "francs", "miles", "meters",
    "metres", "kilometers", "kilometres", "kms", "feet", "inches", "degrees", "grams", "kilograms", "litres", "liters",
    "ounces", "pixels", "bytes", "points", "stars", "percents", "cents", "people", "persons", "adults", "children",
    "kids", "travellers", "travelers", "guests", "friends", "usd", "eur", "gbp", "ones", "others", "decades",
    "centuries", "quarters", "volts", "watts", "lbs",
];

/// How many people a goal is for: `for 30 participants`, `, 60 employees`, `a team of 12`.
pub(super) fn group(text: &Text) -> Option<u32> {
    let found: Option<(Option<(usize, usize)>, u32)> = (0..text.words.len()).find_map(|at| {
        let number = text.number(at).filter(|_| !is_part_of_word(text, at))?;
        if team_at(text, number.next) {
            return Some((None, whole(number.value)?));
        }
        let led = [
            "for", "with", ",", "of", "among", "(", "invite", "all", "to", "about", "around", "approximately", ".", "",
        ]
        .contains(&text.before(at, 1));
        let next = number.next + usize::from(!is_person(text.lower(number.next)));
        (led && is_person(text.lower(next)) && !text.is_constraint(at))
            .then(|| whole(number.value).map(|n| (Some((at, next + 1)), n)))?
    });
    let (read, people) = found?;
    // The team is a part of what the goal is about.
    if let Some((from, to)) = read {
        text.note_constraint(from, to);
    }
    Some(people)
}

/// `-person` of `a 12-person office`, not of `a 2-person tent`.
fn team_at(text: &Text, at: usize) -> bool {
    let is_joined = text.lower(at) == "-" && text.get(at + 1).is_some_and(|unit| unit.glued);
    let is_person = matches!(text.lower(at + 1), "person" | "people" | "man" | "woman" | "member" | "strong");
    let is_group = |noun: &str| {
        [
            "office", "team", "company", "firm", "business", "staff", "startup", "agency", "department", "group",
            "household", "family", "party", "crew", "class", "workshop", "dinner", "retreat", "committee", "studio",
            "shop", "practice", "clinic", "school", "club", "choir", "band", "board",
        ]
        .contains(&noun)
    };
    let noun = (at + 2..at + 4).any(|i| is_group(text.lower(i)));
    is_joined && is_person && noun
}

/// Whether a number continues what stands before it: not so in `(60 people)`.
fn is_part_of_word(text: &Text, at: usize) -> bool {
    text.words[at].glued && text.before(at, 1) != "("
}

pub(super) fn is_person(noun: &str) -> bool {
    [
        "people", "persons", "participants", "journalists", "investors", "donors", "parents", "neighbours",
        "neighbors", "attendees", "guests", "employees", "colleagues", "students", "pupils", "children", "kids",
        "members", "adults", "users", "customers", "visitors", "volunteers", "graders", "players", "delegates",
        "speakers", "nurses", "teachers", "engineers", "developers", "managers", "learners", "trainees", "staff",
        "workers", "respondents", "seats", "invitees", "teenagers", "seniors", "beginners", "clients", "patients",
        "residents", "tenants", "subscribers", "freelancers",
    ]
    .contains(&noun)
}

/// How many people travel.
pub(super) fn people(text: &Text) -> Option<u32> {
    let counted: u32 = (0..text.words.len())
        .filter_map(|at| {
            let people = people_at(text, at)?;
            text.note_constraint(at, text.number(at).map_or(at, |number| number.next + 1));
            Some(people)
        })
        .fold(0, u32::saturating_add);
    if counted > 0 {
        return Some(counted.min(1_000));
    }
    (0..text.words.len()).find_map(|at| {
        let people = group_at(text, at)?;
        let next = [at + 1, at + 2].into_iter().find_map(|i| text.number(i)).map_or(at + 1, |number| number.next);
        text.note_constraint(at, next);
        Some(people)
    })
}

/// `2 adults`, `three people`; a group's parts add up.
fn people_at(text: &Text, at: usize) -> Option<u32> {
    let word = text.get(at)?;
    let continues = at > 0 && (is_part_of_word(text, at) || text.number(at - 1).is_some_and(|q| q.next > at));
    if word.kind == WordKind::Sign || continues {
        return None;
    }
    let number = text.number(at)?;
    let noun = text.lower(number.next);
    // `the six of us`; `two of us are vegetarian` are a part.
    let is_whole = matches!(text.before(at, 1), "the" | "for" | "are" | "with");
    if noun == "of" && text.lower(number.next + 1) == "us" && is_whole {
        return whole(number.value);
    }
    let led = ["for", "with", "and", "of", ",", "are", "us", "we", "(", "+", ":"].contains(&text.before(at, 1));
    let always = ["adults", "adult", "travellers", "travelers", "guests", "traveller", "traveler"].contains(&noun);
    let led_only = ["people", "persons", "person", "children", "kids", "child", "kid", "friends"].contains(&noun);
    let friends = u32::from(noun == "friends" && matches!(text.before(at, 1), "with" | "and"));
    (always || led && led_only).then(|| whole(number.value)).flatten().map(|n| n + friends)
}

/// `for two`, `a family of four`, `my wife and I`, `a couple`, `solo`.
fn group_at(text: &Text, at: usize) -> Option<u32> {
    let word = text.lower(at);
    let of_number = || {
        let number = text.number(at + 2)?;
        (text.lower(at + 1) == "of" && !UNITS.contains(&text.lower(number.next))).then(|| whole(number.value))?
    };
    match word {
        "family" | "party" | "group" | "team" | "household" | "share" | "crew" | "band" | "choir" | "class"
        | "committee" => of_number(),
        "for" => {
            let number = text.number(at + 1)?;
            let ends = text.get(number.next).is_none_or(|next| {
                next.kind == WordKind::Sign && !["-", "%", "$", "€", "£", "/", ":"].contains(&next.lower.as_str())
                    || ["in", "to", "from", "with", "on", "and", "at"].contains(&next.lower.as_str())
            });
            (ends && number.value <= 20.0).then(|| whole(number.value))?
        }
        "alone" if (1..=6).any(|back| matches!(text.before(at, back), "leave" | "leaving" | "left")) => None,
        "solo" | "alone" => Some(1),
        "honeymoon" => Some(2),
        "couple" if matches!(text.before(at, 1), "a" | "our") && text.lower(at + 1) != "of" => Some(2),
        "wife" | "husband" | "partner" | "girlfriend" | "boyfriend" | "fiancee" if text.before(at, 1) == "my" => {
            Some(2)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> String {
        let counts = read(&Text::new(text));
        counts.iter().map(|(noun, n)| format!("{n} {noun}")).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn counts_are_read_in_many_spellings() {
        for (text, expected) in [
            ("find 5 restaurants in Rome", "5 restaurants"),
            ("Summarise three articles about llamas", "3 articles"),
            ("the top 10 papers", "10 papers"),
            ("at least five activities", "5 activities"),
            ("ten must-see museums", "10 museums"),
            ("5 good Italian restaurants and two cafes", "2 cafes, 5 restaurants"),
            ("5-10 sources", "10 sources"),
            ("twenty-five slides", "25 slides"),
            ("a dozen eggs", "12 eggs"),
            ("four one-hour sessions", "4 sessions"),
            ("two 90-minute lessons", "2 lessons"),
            ("a two-page report", "2 pages"),
            ("One page, bullet points", "1 pages"),
            ("a 300-word summary", "300 words"),
            ("Rent a hall. 20 chairs are needed", "20 chairs"),
        ] {
            assert_eq!(counts(text), expected, "{text}");
        }
    }

    #[test]
    fn other_numbers_count_nothing() {
        for text in [
            "a 3-day trip",
            "for 3 days",
            "the 2024 elections",
            "COVID-19 articles",
            "flag anything under 5 units",
            "users on iOS 18 can't upload photos",
            "get it below 15 without deleting tests",
            "Fortune 500 companies",
            "20% discounts",
            "$5 coffees",
            "3-star hotels",
            "3 star hotels",
            "5.5 restaurants",
            "100 meters",
            "Python 3 scripts",
            "chapter 3 themes",
            "2 people",
            "3 times",
            "h2o molecules",
            "99999999999 things",
        ] {
            assert_eq!(counts(text), "", "{text}");
        }
    }

    #[test]
    fn the_members_of_a_group_are_counted() {
        for (text, expected) in [
            ("move our 12-person office", Some(12)),
            ("a plan for a 40-strong sales team", Some(40)),
            ("buy a 2-person tent", None),
            ("a workshop for 30 participants", Some(30)),
        ] {
            assert_eq!(group(&Text::new(text)), expected, "{text}");
        }
    }

    #[test]
    fn people_are_counted() {
        let of = |text: &str| people(&Text::new(text));
        for (text, expected) in [
            ("a weekend in Rome for two", 2),
            ("for 2 people", 2),
            ("for a family of four", 4),
            ("2 adults and 2 children", 4),
            ("with my wife in May", 2),
            ("a solo trip", 1),
            ("a honeymoon in Bali", 2),
            ("a group of 5", 5),
            ("a flat share of five", 5),
            ("a party (60 people)", 60),
            ("with 3 friends", 4),
            ("dinner for the six of us", 6),
            ("meals for a family of five, two of us vegetarian", 5),
            ("romantic trip for a couple", 2),
        ] {
            assert_eq!(of(text), Some(expected), "{text}");
        }
        for text in [
            "for two weeks", "a couple of days", "for 3 days", "for 2000 dollars", "for 2000",
            "2000 people live there", "for 3-day", "leave the quotes alone",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}

//! Extracts counts: `5 restaurants`, `three articles`, `800 words each`.

use std::collections::BTreeMap;

use goalmill_common::number::{to_u32, whole_u64};

use super::recurrence::{is_period, is_small_unit};
use super::relative_date::weekday_at;
use super::words::{Quantity, Text, WordKind};

/// Largest count that is taken for one.
const COUNT_MAX: f64 = 1e9;

/// Things by how many are wanted; the last word of the thing names it.
pub(super) fn read(text: &Text) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for at in 0..text.words.len() {
        if let Some((noun, count)) = count_at(text, at) {
            text.note(at, at + 1, super::words::Use::Fact);
            counts.entry(noun).or_insert(count);
            if let Some(noun) = single_after(text, at) {
                counts.entry(noun).or_insert(1);
            }
        } else if let Some(noun) = single_before(text, at) {
            counts.entry(noun).or_insert(1);
        }
    }
    counts
}

/// The count of a text that counts one kind of thing: of `15 chairs for $250 each`, 15.
pub(super) fn only(text: &Text) -> Option<u32> {
    let each = (0..text.words.len()).find(|at| matches!(text.lower(*at), "each" | "apiece" | "piece"))?;
    let counts: Vec<(usize, String, u32)> =
        (0..text.words.len()).filter_map(|at| count_at(text, at).map(|(noun, count)| (at, noun, count))).collect();
    let is_one = counts.iter().all(|(_, noun, _)| *noun == counts[0].1);
    // `compare three suppliers, we need 60 chairs for 250 GBP apiece`: those of the same sentence.
    let first = (0..each).rev().find(|at| text.ends_sentence(*at)).unwrap_or_default();
    counts.iter().find(|(at, ..)| is_one || (first..each).contains(at)).map(|(_, _, count)| *count)
}

fn count_at(text: &Text, at: usize) -> Option<(String, u32)> {
    if !may_count(text, at) {
        return None;
    }
    if let Some(found) = load_at(text, at) {
        return Some(found);
    }
    if let Some(found) = length_at(text, at).or_else(|| crew_at(text, at)) {
        return Some(found);
    }
    let first = text.number(at)?;
    let mut number = first;
    if matches!(text.lower(first.next), "-" | "–" | "to" | "or")
        && let Some(second) = text.number(first.next + 1)
    {
        number = second;
    }
    let count = whole(number.value)?;
    if text.lower(number.next) == "of" && matches!(text.lower(number.next + 1), "them" | "these" | "those") {
        // `two of them should be vegetarian`, `two of them in wheelchairs`: a part.
        let ends = text.get(number.next + 2).is_none_or(|next| next.kind == WordKind::Sign || next.lower == "and");
        if !ends {
            return None;
        }
        return Some((text.lower(text.plural_before(at)?).to_owned(), count));
    }
    // `12,000 or so photos`
    let is_rough = text.lower(number.next) == "or" && text.lower(number.next + 1) == "so";
    // `all 28 of our mailboxes`
    let is_all = text.before(at, 1) == "all"
        && text.lower(number.next) == "of"
        && matches!(text.lower(number.next + 1), "our" | "the" | "my" | "your");
    let noun = noun_at(text, number.next + 2 * usize::from(is_rough || is_all))?;
    let is_display = text.lower(first.next.saturating_sub(1)) == "k" && DISPLAYS.contains(&text.lower(noun));
    let is_rate = matches!(text.lower(noun + 1), "a" | "per")
        && (is_period(text.lower(noun + 2)) || is_small_unit(text.lower(noun + 2)));
    (!is_display && !is_rate).then(|| (with_scope(text, text.lower(noun), noun + 1), count))
}

/// `words each`, `words per post`: what the number holds for, when that is not the whole.
fn with_scope(text: &Text, noun: &str, at: usize) -> String {
    let unit = text.get(at + 1).filter(|unit| unit.kind == WordKind::Letters);
    match (text.lower(at), unit) {
        ("each" | "apiece", None) => format!("{noun} each"),
        ("each" | "apiece", Some(unit)) if weekday_at(text, at + 1).is_none() && !is_period(&unit.lower) => {
            format!("{noun} each")
        }
        ("per", Some(unit)) => format!("{noun} per {}", unit.lower),
        _ => noun.to_owned(),
    }
}

/// `4k monitors`: how sharp they are.
const DISPLAYS: &[&str] = &["monitors", "screens", "displays", "videos", "cameras", "televisions", "runs", "races"];

/// `two developers and one QA engineer`, `three desks and a lamp`: the single thing behind those that are counted, as a plural.
fn single_after(text: &Text, at: usize) -> Option<String> {
    let number = text.number(at)?;
    let noun = noun_at(text, number.next)?;
    let is_listed = text.lower(noun + 1) == "and" && matches!(text.lower(noun + 2), "one" | "a" | "an");
    single_at(text, noun + 3).filter(|_| is_listed)
}

/// `one banner and two posters`
fn single_before(text: &Text, at: usize) -> Option<String> {
    (text.lower(at) == "one" && may_count(text, at)).then_some(())?;
    let and = (at + 2..at + 5).find(|i| text.lower(*i) == "and")?;
    let counted = text.number(and + 1).filter(|number| number.value > 1.0)?;
    noun_at(text, counted.next).and_then(|_| single_at(text, at + 1))
}

/// A noun of at most three words that ends its phrase.
fn single_at(text: &Text, at: usize) -> Option<String> {
    let ends = |i: usize| {
        text.get(i).is_none_or(|word| word.kind == WordKind::Sign || LINKS.contains(&word.lower.as_str()))
            || text.is_constraint(i)
    };
    let end = (at..at + 4).find(|i| ends(*i)).filter(|end| *end > at)?;
    let vague =
        ["few", "couple", "lot", "bit", "little", "number", "half", "third", "second", "budget", "person", "day"];
    let noun = text.lower(end - 1);
    let is_other = (at..end).any(|i| vague.contains(&text.lower(i)))
        || UNITS.contains(&noun)
        || ["baby", "child", "kid", "adult", "dog", "cat", "friend", "guest"].contains(&noun);
    (!is_other && noun.len() > 2 && !noun.ends_with('s')).then(|| {
        match noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u'])) {
            Some(stem) => format!("{stem}ies"),
            None => format!("{noun}s"),
        }
    })
}

/// `a nurse for 30 hours a week`, `we have two hours a week`, `study 30 minutes a day`: how much somebody works.
fn load_at(text: &Text, at: usize) -> Option<(String, u32)> {
    let half = Quantity { value: 30.0, next: at + 2 };
    // `half an hour a day`
    let is_half = text.lower(at) == "half" && text.lower(at + 1) == "an" && text.lower(at + 2) == "hour";
    let number = if is_half { half } else { text.number(at)? };
    let (unit, per, period) = (text.lower(number.next), text.lower(number.next + 1), text.lower(number.next + 2));
    let unit = if is_half { "minutes" } else { unit };
    let is_load = matches!(unit, "hours" | "minutes")
        && matches!(per, "a" | "per" | "each" | "every")
        && matches!(period, "day" | "week" | "month" | "evening" | "morning" | "weekday");
    let is_exercise = |i: usize| {
        let is_asked = text.begins_clause(i) || matches!(text.before(i, 1), "to" | "can" | "could" | "will" | "should");
        EXERCISES.contains(&text.lower(i)) && is_asked
    };
    let is_led = ["for", ",", "(", "of"].contains(&text.before(at, 1))
        || text.is_sentence_start(at)
        || at > 0 && text.ends_sentence(at - 1)
        || text
            .clause_before(at, 5)
            .any(|i| ["can", "could", "have", "got"].contains(&text.lower(i)) || is_exercise(i));
    // The length of a day's work is a length, too.
    let is_read = text.is_constraint(at) && period != "day";
    let is_told = text.clause_before(at, 10).any(|i| {
        ["spend", "spends", "spending", "waste", "wastes", "lose", "loses", "down", "save", "open"]
            .contains(&text.lower(i))
    });
    let count = whole(number.value).filter(|_| is_load && is_led && !is_told && !is_read)?;
    Some((format!("{unit} per {period}"), count))
}

/// `two people per shift`
fn crew_at(text: &Text, at: usize) -> Option<(String, u32)> {
    let number = text.number(at)?;
    let unit = text.get(number.next + 2).filter(|unit| unit.kind == WordKind::Letters)?;
    let is_crew = matches!(text.lower(number.next), "people" | "persons") && text.lower(number.next + 1) == "per";
    let count = whole(number.value).filter(|_| is_crew && !text.is_constraint(at))?;
    Some((format!("people per {}", unit.lower), count))
}

/// What is done for a while each day.
const EXERCISES: &[&str] = &[
    "study", "practise", "practice", "train", "learn", "exercise", "revise", "walk", "run", "read", "write", "work",
    "meditate", "swim", "cycle", "play",
];

/// `a two-page report`, `one page`: the length of a text.
fn length_at(text: &Text, at: usize) -> Option<(String, u32)> {
    let number = text.number(at)?;
    let count = whole(number.value)?;
    let is_joined = text.lower(number.next) == "-" && text.get(number.next + 1).is_some_and(|unit| unit.glued);
    let unit = text.lower(number.next + usize::from(is_joined));
    let is_length = matches!(unit, "page" | "slide" | "paragraph" | "sentence")
        || is_joined
            && matches!(
                unit,
                "word"
                    | "question"
                    | "chapter"
                    | "item"
                    | "point"
                    | "episode"
                    | "part"
                    | "module"
                    | "lesson"
                    | "session"
                    | "volume"
                    | "section"
            );
    let next = number.next + usize::from(is_joined) + 1;
    (is_length && (is_joined || count == 1)).then(|| (with_scope(text, &format!("{unit}s"), next), count))
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
        && (!VERBS.contains(&text.lower(at - 1)) || text.lower(at - 1) == "top" && text.is_capital(at - 1))
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

/// The index of the counted thing: a plural after at most two words that describe it. A measure describes it, too: `four one-hour sessions`.
fn noun_at(text: &Text, mut at: usize) -> Option<usize> {
    let mut words = 0;
    while words < 3 {
        words += 1;
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
        // `hands-on`
        if plural && !text.get(at + 1).is_some_and(|w| w.glued && matches!(w.lower.as_str(), "'" | "-")) {
            return Some(if is_compound(text, at) { at + 1 } else { at });
        }
        at += 1;
        // `full-time` describes like one word.
        if text.lower(at) == "-" && text.get(at).is_some_and(|w| w.glued) {
            at += 1;
            words -= 1;
        }
    }
    None
}

/// `sales assistants`, `sports clubs`: the plural describes the one behind it.
fn is_compound(text: &Text, at: usize) -> bool {
    let describes =
        ["sales", "sports", "goods", "arts", "news", "communications", "operations", "accounts", "customs", "savings"]
            .contains(&text.lower(at));
    let noun = text.lower(at + 1);
    describes && noun.len() > 3 && noun.ends_with('s') && !noun.ends_with("ss") && !LINKS.contains(&noun)
}

/// The index after `one-hour`, `90-minute`, `two-page`.
fn measure_at(text: &Text, at: usize) -> Option<usize> {
    let next = text.number(at)?.next;
    let joined = |at: usize| text.get(at).is_some_and(|word| word.glued);
    let unit = text.get(next + 1).filter(|unit| unit.kind == WordKind::Letters)?;
    (text.lower(next) == "-" && joined(next) && unit.glued).then_some(next + 2)
}

pub(super) fn whole(value: f64) -> Option<u32> {
    (value.fract() == 0.0 && (1.0..=COUNT_MAX).contains(&value)).then_some(())?;
    Some(to_u32(whole_u64(value)))
}

/// Words that begin a sentence without being part of a name: `Find 5 restaurants`, but not `Fortune 500`.
const VERBS: &[&str] = &[
    "find", "give", "list", "summarise", "summarize", "plan", "book", "write", "create", "make", "compare", "read",
    "get", "show", "suggest", "recommend", "pick", "choose", "collect", "gather", "analyse", "analyze", "translate",
    "search", "buy", "order", "send", "draft", "generate", "name", "visit", "review", "research", "the", "top", "at",
    "use", "i", "around", "about", "these", "those", "any", "some", "in", "for", "with", "select", "rank", "check",
    "download", "need", "it", "there", "we", "they", "this", "we've", "i've", "we're", "our", "all", "both", "my",
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
pub(super) const UNITS: &[&str] = &[
    "days", "day", "nights", "night", "weeks", "week", "weekends", "months", "month", "hours", "hour", "minutes",
    "minute", "seconds", "year", "dollars", "euros", "pounds", "bucks", "rupees", "francs", "miles", "meters",
    "metres", "kilometers", "kilometres", "kms", "feet", "inches", "degrees", "grams", "kilograms", "litres", "liters",
    "ounces", "pixels", "bytes", "points", "stars", "percents", "cents", "people", "persons", "adults", "children",
    "kids", "travellers", "travelers", "guests", "friends", "usd", "eur", "gbp", "ones", "others", "decades",
    "centuries", "quarters", "volts", "watts", "lbs",
];

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
    fn things_are_counted_as_people_write_them() {
        super::super::phrases::check(COUNTS, |facts| super::super::phrases::listed("", &facts.counts).join(", "));
    }

    const COUNTS: &[(&str, &str)] = &[
        ("A press release in German and English, one page each", "1 pages each"),
        ("A day out for 28 people, two of them in wheelchairs", ""),
        ("Make the rota: two people per shift", "2 people per shift"),
        ("I want to pass the exam. Half an hour a day is all I can manage.", "30 minutes per day"),
        ("Go through all 28 of our mailboxes", "28 mailboxes"),
        ("Write four blog posts, about 800 words each", "4 posts, 800 words each"),
        ("Make five slides with three pictures per slide", "3 pictures per slide, 5 slides"),
        ("Move the 12,000 or so photos to our server", "12000 photos"),
        ("We are moving. It's 18 desks and a small kitchen.", "18 desks, 1 kitchens"),
        ("I can study about two hours a day", "2 hours per day"),
        ("Practise 45 minutes a day", "45 minutes per day"),
        ("A lesson with one hands-on experiment", ""),
        ("Cook dinners in under 30 minutes. Two of them are vegetarian.", ""),
        ("They work 40 hours a week, suggest a better rota", ""),
        ("Hire two part-time sales assistants for the shop", "2 assistants"),
        ("Hire three full-time software engineers", "3 engineers"),
        ("Compare five sports clubs", "5 clubs"),
        ("Produce a six-episode podcast", "6 episodes"),
        ("Write a three-part series", "3 parts"),
        ("Record a ten-lesson course", "10 lessons"),
        ("Send two sales reports", "2 reports"),
        ("Find a cleaner for 16 hours a week", "16 hours per week"),
        ("We have two hours a week for it", "2 hours per week"),
        ("Hire a nurse, 30 hours per week", "30 hours per week"),
        ("We lose 5 hours a week, find out why", ""),
        ("Summarise it in no more than 300 words", ""),
        ("Write ten posts of at most 100 words", "10 posts"),
        ("Hire two senior developers and one QA engineer", "2 developers, 1 engineers"),
        ("Buy 25 laptops", "25 laptops"),
        ("Six blog posts on sleep", "6 posts"),
        ("Move about 1.2 million customer records", "1200000 records"),
        ("Order a dozen roses", "12 roses"),
        ("Print three copies", "3 copies"),
        ("List ten must-see sights", "10 sights"),
        ("Print 500 flyers", "500 flyers"),
        ("Draw four variants of the logo", "4 variants"),
        ("Collect 12 vegan recipes", "12 recipes"),
        ("Buy two dozen eggs", "24 eggs"),
        ("Print 10,000 leaflets", "10000 leaflets"),
        ("Sort something like 8,000 photos", "8000 photos"),
        ("Rent 20 chairs and five tables", "20 chairs, 5 tables"),
        ("Give me half a dozen ideas", "6 ideas"),
        ("Get 3 quotes", "3 quotes"),
        ("Design one banner and two posters", "1 banners, 2 posters"),
        ("Ask fifteen questions", "15 questions"),
        ("Show the ten worst problems", "10 problems"),
        ("Write 40 multiple-choice questions", "40 questions"),
        ("Write a two-page letter", "2 pages"),
        ("Plan three one-hour lessons", "3 lessons"),
        ("Find seven names for a cat", "7 names"),
        ("Send a hundred invitations", "100 invitations"),
        ("Audit our website's 15 most visited pages", "15 pages"),
        ("Buy three desks and a lamp", "3 desks, 1 lamps"),
        ("Plan a 3-day trip", ""),
        ("Review our Python 3 scripts", ""),
        ("Buy an iPhone 15 with accessories", ""),
        ("Play the Top 40 hits", ""),
        ("Find 20% discounts", ""),
        ("List 5-star hotels", ""),
        ("Explain the chapter 4 exercises", ""),
        ("Install the Windows 11 drivers", ""),
        ("Order COVID-19 tests", ""),
        ("Write about the Apollo 11 astronauts", ""),
        ("Train, three sessions a week", ""),
        ("Make flashcards for chapters of my book, 120 of them", "120 flashcards"),
    ];
}

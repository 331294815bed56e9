//! Finds how something is to be done or what state it is to be in: `staying in huts`, `fluent in German`, `the phones must be
//! working again`.

use super::words::{Text, Word, WordKind};

/// The words from the first to before the second index that state a manner at `at`.
///
/// - `phrase_end`: where the phrase that begins at an index ends.
pub(super) fn manner_at(text: &Text, at: usize, phrase_end: impl Fn(usize) -> usize) -> Option<(usize, usize)> {
    stay(text, at, &phrase_end)
        .or_else(|| fraction(text, at))
        .or_else(|| vehicle(text, at))
        .or_else(|| vicinity(text, at, &phrase_end))
        .or_else(|| feature(text, at, &phrase_end))
        .or_else(|| joined(text, at, &phrase_end))
        .or_else(|| skill(text, at))
        .or_else(|| state(text, at))
        .or_else(|| channel_only(text, at))
        .or_else(|| channels(text, at))
        .or_else(|| list_with_people(text, at, &phrase_end))
}

/// `weigh less than 1.5 kg`: a limit that is no whole number.
fn fraction(text: &Text, at: usize) -> Option<(usize, usize)> {
    let number = match (text.lower(at), text.lower(at + 1)) {
        ("less" | "more" | "lighter" | "smaller", "than") | ("at", "most" | "least") | ("up", "to") => at + 2,
        ("under" | "below" | "over", _) => at + 1,
        _ => return None,
    };
    let is_fraction = |word: &&Word| matches!(word.kind, WordKind::Number(value) if value.fract() > 0.0);
    text.get(number).filter(is_fraction).filter(|_| !text.is_constraint(number))?;
    let has_unit = text.get(number + 1).is_some_and(|unit| unit.kind == WordKind::Letters);
    let is_measured = matches!(text.before(at, 1), "weigh" | "weighs" | "be" | "measure" | "is");
    (has_unit && !text.is_in_condition(at)).then_some((at - usize::from(is_measured), number + 2))
}

/// `by train`: how people get there.
fn vehicle(text: &Text, at: usize) -> Option<(usize, usize)> {
    let is_vehicle = ["train", "bus", "bike", "bicycle", "car", "coach", "boat", "ferry", "rail"];
    let is_choice = matches!(text.lower(at + 2), "or" | "station" | "journey" | "times");
    let is_led = text.lower(at) == "by" && !matches!(text.before(at, 1), "hit" | "damaged" | "than" | "or" | "faster");
    (is_led && is_vehicle.contains(&text.lower(at + 1)) && !is_choice && text.negation_before(at).is_none())
        .then_some((at, at + 2))
}

/// `somewhere near the beach`, `within walking distance of the station`: what it is to be close to.
fn vicinity(text: &Text, at: usize, phrase_end: impl Fn(usize) -> usize) -> Option<(usize, usize)> {
    let thing = match (text.lower(at), text.lower(at + 1), text.lower(at + 2)) {
        ("near" | "by", ..) => at + 1,
        ("close" | "next", "to", _) => at + 2,
        ("within", "walking", "distance") => at + 4,
        _ => return None,
    };
    let is_sought = [
        "somewhere", "hotel", "flat", "apartment", "cottage", "house", "place", "room", "restaurant", "office",
        "cabin", "studio", "venue", "campsite", "pitch", "be",
    ]
    .contains(&text.before(at, 1));
    let has_article = matches!(text.lower(thing), "the" | "a" | "my" | "our");
    let is_thing = text.get(thing + 1).is_some_and(|word| word.kind == WordKind::Letters);
    let end = phrase_end(thing + 1);
    (is_sought && has_article && is_thing && end > thing + 1).then_some((at, end))
}

/// `a replacement that fits on the worktop`, `alternatives that also cover bicycles`: what the thing has to do.
fn feature(text: &Text, at: usize, phrase_end: impl Fn(usize) -> usize) -> Option<(usize, usize)> {
    let is_further = text.lower(at) == "and" && text.clause_before(at, 14).any(|i| text.lower(i) == "that");
    (matches!(text.lower(at), "that" | "which") || is_further).then_some(())?;
    let verb = at + 1 + usize::from(matches!(text.lower(at + 1), "also" | "can" | "will" | "still"));
    let object = text.lower(verb + 1);
    let is_feature = match text.lower(verb) {
        "fits" | "fit" if text.number(verb + 1).is_some() || object == "the" => true,
        "fits" | "fit" | "works" | "work" | "runs" | "run" => {
            ["on", "in", "into", "with", "under", "without"].contains(&object)
        }
        "has" | "have" => {
            ["a", "an", "at", "good", "enough"].contains(&object) || object.ends_with('s') && object.len() > 3
        }
        "covers" | "cover" | "supports" | "support" | "includes" | "include" | "accepts" | "accept" | "offers"
        | "offer" | "allows" | "allow" | "speaks" => !object.is_empty() && !object.ends_with("ed"),
        _ => return None,
    };
    // Of `the orders that have a mistake`, the clause says which ones.
    let thing = text.clause_before(at, 7).find(|i| {
        matches!(text.lower(*i), "a" | "an" | "some" | "alternatives" | "one" | "options" | "something")
            || text.number(*i).is_some()
    });
    let is_sought = text.clause_before(at, 14).any(|i| SEEKS.contains(&text.lower(i)));
    let end = phrase_end(verb);
    ((thing.is_some() || is_further) && is_feature && is_sought && end > verb + 1).then_some((verb, end))
}

/// Verbs that look for or make something which has to have a feature.
const SEEKS: &[&str] = &[
    "find", "buy", "get", "choose", "need", "want", "looking", "recommend", "suggest", "rent", "book", "build", "make",
    "pick", "order", "design", "create", "write", "plan", "hire",
];

/// `with at least 16 GB of RAM and a three-year warranty`: what stands beside a limit.
fn joined(text: &Text, at: usize, phrase_end: impl Fn(usize) -> usize) -> Option<(usize, usize)> {
    let has_article = matches!(text.lower(at + 1), "a" | "an");
    let follows = text.lower(at) == "and" && text.is_constraint(at.checked_sub(1)?);
    let is_with = text.clause_before(at, 12).any(|i| text.lower(i) == "with");
    let end = phrase_end(at + 2);
    (has_article && follows && is_with && (at + 3..at + 8).contains(&end)).then_some((at + 2, end))
}

/// `…, staying in huts`, `…, travelling by train`: how it is done.
fn stay(text: &Text, at: usize, phrase_end: impl Fn(usize) -> usize) -> Option<(usize, usize)> {
    let links: &[&str] = match text.lower(at) {
        "staying" | "sleeping" | "camping" => &["in", "at", "with"],
        "travelling" | "traveling" | "going" | "getting" => &["by"],
        "using" => &["public", "only", "the", "our", "a", "an"],
        _ => return None,
    };
    let is_stated = text.before(at, 1) == "," || text.is_constraint(at.checked_sub(1)?);
    let end = phrase_end(at + 1);
    (is_stated && links.contains(&text.lower(at + 1)) && end > at + 2).then_some((at, end))
}

/// `fluent German`, `fluent in Dutch`: what somebody has to be able to do.
fn skill(text: &Text, at: usize) -> Option<(usize, usize)> {
    let language = at + 1 + usize::from(text.lower(at + 1) == "in");
    (text.lower(at) == "fluent" && text.is_capital(language)).then_some((at, language + 1))
}

/// `the phones must be working again`: the state that something has to be in.
fn state(text: &Text, at: usize) -> Option<(usize, usize)> {
    let verb = must_be(text, at)?;
    let is_state = ["working", "available", "open", "online", "reachable", "running", "back", "up"];
    is_state.contains(&text.lower(verb)).then_some(())?;
    let rest = (verb + 1..verb + 4).take_while(|i| matches!(text.lower(*i), "again" | "and" | "running" | "online"));
    Some((text.subject_before(at)?, rest.last().map_or(verb + 1, |last| last + 1)))
}

/// The index after `must be`, `has to be`.
pub(super) fn must_be(text: &Text, at: usize) -> Option<usize> {
    match (text.lower(at), text.lower(at + 1)) {
        ("must" | "should", "be") => Some(at + 2),
        ("has" | "have" | "needs" | "need", "to") if text.lower(at + 2) == "be" => Some(at + 3),
        _ => None,
    }
}

/// `a campaign on Instagram and TikTok`: where it runs.
fn channels(text: &Text, at: usize) -> Option<(usize, usize)> {
    let runs = text
        .clause_before(at, 6)
        .any(|i| ["campaign", "advertise", "ads", "promote", "advertising", "promotion"].contains(&text.lower(i)));
    let is_joint = |i: usize| matches!(text.lower(i), "and" | "," | "&") && text.is_capital(i + 1);
    let end = (at + 1..at + 10).find(|i| !text.is_capital(*i) && !is_joint(*i) || text.is_constraint(*i))?;
    (matches!(text.lower(at), "on" | "via") && runs && end > at + 1).then_some((at, end))
}

/// `a campaign on Instagram only`: where, and nowhere else.
fn channel_only(text: &Text, at: usize) -> Option<(usize, usize)> {
    let is_link = matches!(text.lower(at), "on" | "via" | "through" | "by" | "from");
    let only = (at + 2..at + 6).find(|i| text.lower(*i) == "only")?;
    let is_name = (at + 1..only).all(|i| text.words[i].kind == WordKind::Letters && !text.is_constraint(i));
    let ends = text.get(only + 1).is_none_or(|next| next.kind == WordKind::Sign);
    (is_link && is_name && ends).then_some((at + 1, only + 1))
}

/// `minutes with a list of who has to do what`: a part that a clause describes.
fn list_with_people(text: &Text, at: usize, phrase_end: impl Fn(usize) -> usize) -> Option<(usize, usize)> {
    let is_part = matches!(text.lower(at + 2), "list" | "table" | "summary" | "overview" | "note" | "chart");
    let is_described = text.lower(at + 3) == "of" && matches!(text.lower(at + 4), "who" | "what" | "which" | "how");
    let is_led = text.lower(at) == "with" && matches!(text.lower(at + 1), "a" | "an");
    (is_led && is_part && is_described).then(|| (at + 2, phrase_end(at + 2)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn manners_are_read_as_people_write_them() {
        super::super::phrases::check(PHRASES, |facts| facts.inclusions.join(" | "));
    }

    const PHRASES: &[(&str, &str)] = &[
        ("Plan a hike in the Alps for five days, staying in huts", "staying in huts"),
        ("A weekend in Rome, travelling by train, under 500 euros", "travelling by train"),
        ("Plan my visits to the shops, using public transport", "using public transport"),
        ("Hire a nurse with a driving licence and fluent German", "driving licence and fluent German"),
        ("Hire a guide. She has to be fluent in Dutch.", "fluent in Dutch"),
        ("Move the office. The phones must be working again on Monday.", "phones must be working again"),
        ("Update the shop. The old pages have to be available by Friday.", "old pages have to be available"),
        ("Run a campaign for our shop on Instagram only", "Instagram only"),
        ("Send the invitation via email only, please", "email only"),
        ("Turn it into minutes with a list of who has to do what", "list of who has to do what"),
        ("Plan a week in Denmark in July, by train rather than by plane", "by train"),
        ("Find us a flat near the beach", "near the beach"),
        ("Book a hotel within walking distance of the station", "within walking distance of the station"),
        ("Find a fridge that fits on the existing worktop", "fits on the existing worktop"),
        ("Find three insurances that also cover bicycles", "cover bicycles"),
        ("Build me a plan that doesn't need apps and has a test every week", "has a test"),
        ("Buy laptops with at least 16 GB of RAM and a three-year warranty", "three-year warranty"),
        ("Which laptop should I buy? It has to weigh less than 1.5 kg", "weigh less than 1.5 kg"),
        ("Plan a campaign on Instagram and TikTok for our shop", "on Instagram and TikTok"),
        ("Looking for a second-hand cargo bike that fits two kids", "fits two kids"),
        ("I was hit by a car, write to the insurer", ""),
        ("Is it faster by car or by train?", ""),
        ("List the orders that have a mistake", ""),
        ("Fix the page that has a broken link", ""),
        ("Remove the account that works with the old key", ""),
        ("We are staying in huts and the roof leaks, complain", ""),
        ("Fix the export using the new library", ""),
        ("The server should be faster", ""),
        ("It happens on Mondays only when it rains", ""),
    ];
}

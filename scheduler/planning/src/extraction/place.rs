//! Reads where a journey goes and where it starts: `a trip to Paris from Boston`, `5 days in Kyoto`.

use super::date::month_number;
use super::duration::is_journey;
use super::words::Text;

/// Longest name of a place, in words.
const NAME_WORDS_MAX: usize = 5;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    pub destination: Option<String>,
    pub origin: Option<String>,
}

/// The places of a journey. A text that names two destinations has none: which one is meant is not certain.
pub(super) fn read(text: &Text) -> Places {
    let destination = only(text, |at| goes_to(text, at));
    let origin = only(text, |at| starts_from(text, at)).filter(|_| destination.is_some());
    Places { destination, origin }
}

fn only(text: &Text, is_led: impl Fn(usize) -> bool) -> Option<String> {
    let (mut found, mut places) = (None, Vec::new());
    for at in text.open().filter(|at| is_led(*at)) {
        let article = usize::from(text.lower(at + 1) == "the");
        let Some(next) = name_end(text, at + 1 + article) else { continue };
        let name = text.between(at + 1 + article, next).to_owned();
        // `to Paris and Rome`
        let is_one_of_several =
            matches!(text.lower(next), "and" | "or" | "then" | "," | "/" | "&") && text.is_capital(next + 1);
        if is_one_of_several || found.as_ref().is_some_and(|held| *held != name) {
            return None;
        }
        found = Some(name);
        places.push((at + 1, next));
    }
    places.into_iter().for_each(|(at, next)| text.mark(at, next));
    found
}

/// Whether the word at `at` leads to the destination: `to` of `trip to`, `in` of `3 days in`.
fn goes_to(text: &Text, at: usize) -> bool {
    // What stands between, such as `for two`, was read already.
    let nearest = |at| text.clause_before(at).find(|i| !text.is_read(*i)).map(|i| text.lower(i));
    match text.lower(at) {
        "to" => {
            // `from Boston to Paris`
            let is_origin = |i: &usize| text.lower(*i) == "from" && name_end(text, i + 1) == Some(at);
            let origin = text.clause_before(at).take(NAME_WORDS_MAX + 1).find(is_origin);
            nearest(origin.unwrap_or(at)).is_some_and(is_journey)
        }
        "in" => {
            let is_length = at > 0 && text.is_read(at - 1) && LENGTHS.contains(&text.lower(at - 1));
            is_length || nearest(at).is_some_and(is_journey)
        }
        _ => false,
    }
}

const LENGTHS: &[&str] = &["day", "days", "night", "nights", "week", "weeks", "weekend"];

/// Whether the word at `at` leads to the origin: `from` behind the journey, its destination or `flying`.
fn starts_from(text: &Text, at: usize) -> bool {
    let before = text.clause_before(at).find(|i| !text.is_read(*i) || text.is_capital(*i));
    let leads = |i: usize| is_journey(text.lower(i)) || matches!(text.lower(i), "leaving" | "departing");
    text.lower(at) == "from" && before.is_some_and(|i| leads(i) || text.is_read(i))
}

/// The index after a name that begins at `at`: capitalised words, up to a sign or a word that cannot belong to it.
fn name_end(text: &Text, at: usize) -> Option<usize> {
    let is_free = |i: usize| !text.is_read(i) && month_number(text, i).is_none();
    let mut next = at;
    while next < at + NAME_WORDS_MAX && text.is_capital(next) && is_free(next) {
        next += 1;
        // `Rio de Janeiro`, `Stratford-upon-Avon`
        if matches!(text.lower(next), "de" | "of" | "la" | "-") && text.is_capital(next + 1) && is_free(next + 1) {
            next += 1;
        }
    }
    // `Paris, Texas`
    if text.lower(next) == "," && text.is_capital(next + 1) && is_free(next + 1) && ends_name(text, next + 2) {
        next += 2;
    }
    let is_possessive =
        next > at && text.get(next - 1).is_some_and(|word| word.text.ends_with("'s") || word.text.ends_with("’s"));
    (next > at && !is_possessive && ends_name(text, next)).then_some(next)
}

/// Whether a name may end before `at`; `Berlin suppliers` is none.
fn ends_name(text: &Text, at: usize) -> bool {
    let is_sign = text.get(at).is_some() && !text.is_letters(at) && !text.is_number(at);
    let is_end = [
        "for", "in", "from", "with", "on", "at", "by", "under", "this", "next", "during", "over", "before", "until",
        "between", "and", "or", "to", "that", "is", "as", "please", "via", "within", "then", "up", "costing",
    ]
    .contains(&text.lower(at));
    // A glued sign, as in `monday.com`, goes on.
    text.clause_start(at) == at
        || is_sign && !(text.lower(at) == "." && text.is_glued(at + 1))
        || is_end
        || text.is_read(at)
}

#[cfg(test)]
mod tests {
    use super::super::duration;
    use super::*;

    fn places(text: &str) -> (String, String) {
        let text = Text::new(text);
        duration::read(&text);
        let found = read(&text);
        (found.destination.unwrap_or_default(), found.origin.unwrap_or_default())
    }

    #[test]
    fn destinations_and_origins_are_read() {
        for (text, destination, origin) in [
            ("Plan a 3-day trip to Paris in May with a $2000 budget", "Paris", ""),
            ("a trip to Paris, Texas for two", "Paris, Texas", ""),
            ("5 days in Kyoto", "Kyoto", ""),
            ("a weekend in Rome", "Rome", ""),
            ("a trip to the Grand Canyon next week", "Grand Canyon", ""),
            ("travel to Rio de Janeiro", "Rio de Janeiro", ""),
            ("fly from Boston to Paris", "Paris", "Boston"),
            ("a trip to Paris from New York in May", "Paris", "New York"),
            ("a trip from San Jose to Tokyo", "Tokyo", "San Jose"),
            ("a honeymoon in Santorini, flying from Athens", "Santorini", "Athens"),
            ("a trip to Rome in May, leaving from Boston", "Rome", "Boston"),
            ("a hotel in Rome for 2 nights", "Rome", ""),
            ("a trip to Rome instead of Paris, if possible to Oslo", "Rome", ""),
            ("a trip for 3 days to Oslo", "Oslo", ""),
        ] {
            assert_eq!(places(text), (destination.into(), origin.into()), "{text}");
        }
    }

    #[test]
    fn what_is_not_certainly_the_destination_is_not_read() {
        for text in [
            "not to Paris",
            "a trip, but not to Paris",
            "no trip to Paris",
            "a trip, not to Rome, to Paris or to Oslo",
            "I don't want to travel to Paris",
            "a trip to Paris or Rome",
            "a trip to Paris, Rome and Berlin",
            "a trip to Rome and a trip to Oslo",
            "a trip to Berlin suppliers",
            "a trip to Anna's house",
            "a trip to the dentist",
            "translate this to German",
            "write it in Python",
            "learn it in 2 days in Python",
            "Send the trip report to Anna",
            "move the tables from Oracle to Postgres",
            "go to Google and search",
            "a trip in May",
            "PLAN A TRIP TO PARIS",
            "",
        ] {
            assert_eq!(places(text), (String::new(), String::new()), "{text}");
        }
    }
}

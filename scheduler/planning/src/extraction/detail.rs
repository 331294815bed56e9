//! Finds what a goal says besides its request and no reader has read: it goes to every step in the words of the goal.

use serde::Serialize;

use super::words::{Text, Use};

/// Most details of one goal.
const DETAILS_MAX: usize = 8;
/// Longest detail, in characters.
const DETAIL_CHARS_MAX: usize = 200;
/// A clause is a detail when at least one of so many of its words is unread.
const UNREAD_SHARE: usize = 3;

/// A part of the goal that looks like a constraint and was not understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadPart {
    /// As it stands in the goal.
    pub text: String,
}

/// The clauses that say something which is in no other fact, in the order of the text. It is called after all readers.
///
/// Of the clause of the main request, the request itself is the goal; what stands behind a preposition may be a detail.
///
/// - `request`: the index of the word with which the main request begins.
pub(super) fn read(text: &Text, request: usize) -> (Vec<String>, Vec<UnreadPart>) {
    let (mut details, mut unread) = (Vec::new(), Vec::new());
    let (mut from, mut is_behind) = (0, false);
    while from < text.words.len() && details.len() < DETAILS_MAX {
        let is_request = text.clause_start(from) == text.clause_start(request) && !text.is_closed(request);
        let to =
            (from + 1..text.words.len()).find(|at| begins_piece(text, *at, is_request)).unwrap_or(text.words.len());
        let is_constraint = looks_like_constraint(text, from, to);
        // `a 200-word summary`: a number in the request itself is a detail, too.
        let has_number = (from..to).any(|at| text.is_number(at) && text.read_as(at) == Use::Unread);
        is_behind |= from > request && PREPOSITIONS.contains(&text.lower(from));
        let is_said = !is_request || is_behind || is_constraint || has_number;
        if let Some(detail) = is_said.then(|| detail(text, from, to)).flatten() {
            if is_constraint {
                unread.push(UnreadPart { text: detail.clone() });
            }
            details.push(detail);
        }
        from = to;
    }
    (details, unread)
}

/// Whether a clause begins at `at`; of the main request, also what stands behind a preposition or a fact.
fn begins_piece(text: &Text, at: usize, is_request: bool) -> bool {
    let turns = (text.read_as(at) == Use::Unread) != (text.read_as(at - 1) == Use::Unread);
    let is_first = PREPOSITIONS.contains(&text.lower(at))
        && !text
            .clause_before(at)
            .take_while(|i| text.read_as(*i) == Use::Unread)
            .any(|i| PREPOSITIONS.contains(&text.lower(i)));
    text.clause_start(at) == at || is_request && (is_first || turns)
}

/// The clause without its joints and signs, if it says something that was not read.
fn detail(text: &Text, mut from: usize, mut to: usize) -> Option<String> {
    let is_joint = |at: usize| {
        let is_sign = !text.is_letters(at) && !text.is_number(at) && !matches!(text.lower(at), "\"" | "$" | "€" | "£");
        is_sign || JOINTS.contains(&text.lower(at))
    };
    while from < to && is_joint(from) {
        from += 1;
    }
    while to > from && is_joint(to - 1) {
        to -= 1;
    }
    let says = |at: &usize| (text.is_letters(*at) || text.is_number(*at)) && !EMPTY.contains(&text.lower(*at));
    let words: Vec<usize> = (from..to).filter(says).collect();
    let unread = words.iter().filter(|at| text.read_as(**at) == Use::Unread).count();
    (unread > 0 && unread * UNREAD_SHARE >= words.len())
        .then(|| text.between(from, to).chars().take(DETAIL_CHARS_MAX).collect())
}

/// Whether a number is left behind a word such as `under`, or a day behind `by`, or a date that has two readings.
fn looks_like_constraint(text: &Text, from: usize, to: usize) -> bool {
    (from..to).filter(|at| text.read_as(*at) == Use::Unread).any(|at| {
        let before = |back| text.before(at, back);
        let is_number = text.number(at).is_some();
        let is_limit = LIMITS.contains(&before(1))
            || matches!(
                (before(2), before(1)),
                ("at", "most" | "least") | ("up", "to") | ("more" | "less" | "later" | "fewer" | "longer", "than")
            );
        let is_slashed =
            text.lower(at + 1) == "/" && text.is_glued(at + 1) && text.is_number(at + 2) && text.lower(at + 3) == "/";
        let is_day = DAYS.contains(&text.lower(at)) && ["by", "until", "before", "due"].contains(&before(1));
        is_number && (is_limit || is_slashed) || is_day || text.lower(at) == "asap"
    })
}

const LIMITS: &[&str] = &["under", "below", "within", "by", "until", "before", "max", "maximum", "minimum", "budget"];

const DAYS: &[&str] = &[
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "today", "tomorrow", "tonight",
    "next", "christmas", "easter", "winter", "spring", "summer", "autumn",
];

/// Words with which a part of a request begins that says how, when, where or for whom.
const PREPOSITIONS: &[&str] = &[
    "by", "with", "for", "in", "on", "at", "to", "from", "near", "via", "through", "under", "over", "within", "before",
    "until", "after", "during", "between", "against", "per", "into", "that", "which", "who", "so", "using", "only",
    "every", "as",
];

/// Words before and behind a clause that belong to none.
const JOINTS: &[&str] = &["and", "but", "so", "then", "also", "please", "because", "while", "or", "just", "thanks"];

/// Words that say nothing about a result by themselves.
const EMPTY: &[&str] = &[
    "a", "an", "the", "i", "we", "you", "it", "they", "me", "us", "them", "my", "our", "your", "their", "its", "this",
    "that", "is", "are", "be", "has", "have", "do", "can", "should", "must", "of", "in", "on", "at", "to", "for",
    "from", "with", "by", "and", "or", "but", "as", "up", "please", "thanks", "thank", "hi", "hello", "lot", "finish",
    "ready", "done", "budget", "deadline", "total", "max", "maximum",
];

#[cfg(test)]
mod tests {
    use goalmill_common::goal::Goal;

    use super::super::GoalFacts;
    use super::*;

    fn facts(text: &str) -> GoalFacts {
        GoalFacts::read(&Goal { description: text.into(), ..Goal::default() }, 1_795_293_490_279)
    }

    #[test]
    fn what_no_reader_reads_is_passed_on() {
        for (text, details) in [
            ("Plan a 3-day trip to Paris in May with a $2000 budget", ""),
            ("Plan a trip to Paris by train with my cat in May", "by train with my cat in May"),
            ("Plan a trip by train to Paris", "by train to Paris"),
            ("Plan a trip to Paris without flying", "without flying"),
            ("Don't plan a trip to Paris", "Don't plan a trip to Paris"),
            ("Plan a trip, not to Paris", "not to Paris"),
            ("Write a report on bees under 2 bananas", "under 2 bananas"),
            ("Write a report on bees, no more than 3 days", "no more than 3 days"),
            ("Plan a day out, two of them in wheelchairs", "two of them in wheelchairs"),
            ("Our web shop is down. Find out why, please.", "Find out why"),
            ("Draft the budget. It must not exceed $45,000.", "It must not exceed $45,000"),
            ("Write a 200-word summary", "Write a 200-word summary"),
            (
                "Our trip to Paris was cancelled. Plan a party by 3 May",
                "Our trip to Paris was cancelled | Plan a party by 3 May",
            ),
            ("Book a hotel in Kiel (sea view)", "sea view"),
            ("Find 5 restaurants by 3 May. Thanks a lot!", ""),
            ("Deliver it every Monday at 9 as a PDF", "every Monday at 9 as a PDF"),
            ("Write a poem for 12 children at most", "for 12 children at most"),
            ("", ""),
        ] {
            assert_eq!(facts(text).details.join(" | "), details, "{text}");
        }
    }

    #[test]
    fn parts_that_look_like_constraints_are_reported() {
        for (text, parts) in [
            ("Deliver the report by 05/06/2027", 1),
            ("Keep it under 2 bananas, please", 1),
            ("Replace the boiler by Friday", 1),
            ("Replace the boiler ASAP. Call me before Monday.", 2),
            ("Plan a trip to Paris by train", 0),
            ("A report on COVID-19 with 3 parts for Fortune 500", 0),
        ] {
            assert_eq!(facts(text).unread.len(), parts, "{text}: {:?}", facts(text).unread);
        }
    }

    #[test]
    fn details_are_few_and_short() {
        let facts = facts(&format!("Write a poem. {}", format!("{}. ", "Roses bloom ".repeat(40)).repeat(20)));
        assert_eq!(facts.details.len(), DETAILS_MAX);
        assert!(facts.details.iter().all(|detail| detail.chars().count() <= DETAIL_CHARS_MAX));
    }
}

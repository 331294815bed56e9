//! Finds what a goal says besides its request and no reader has read: it goes to every step in the words of the goal.

use super::negation::RELATIVES;
use super::words::{Text, Use, WordKind};

/// Most details of one goal.
const DETAILS_MAX: usize = 8;
/// Longest detail, in characters.
const DETAIL_CHARS_MAX: usize = 200;
/// A clause is a detail when at least one of so many of its words is unread.
const UNREAD_SHARE: usize = 3;

/// The clauses that say something which is in no other fact, in the order of the text. It is called after all readers.
///
/// - `request`: the index of the word with which the main request begins; its clause is the goal itself.
/// - `known`: the texts of other facts, such as sub-tasks.
pub(super) fn read(text: &Text, request: usize, known: &[&str]) -> Vec<String> {
    let mut details = Vec::new();
    let mut from = 0;
    while from < text.words.len() && details.len() < DETAILS_MAX {
        let to = (from + 1..text.words.len()).find(|at| begins_detail(text, *at)).unwrap_or(text.words.len());
        if !(from..to).contains(&request) {
            details.extend(detail(text, from, to, known));
        }
        from = to;
    }
    details
}

/// Whether a clause that stands for itself begins at `at`.
fn begins_detail(text: &Text, at: usize) -> bool {
    let before = &text.words[at - 1];
    let is_cut = matches!(before.lower.as_str(), "," | ";" | ":" | "(" | ")" | "–" | "—" | "-")
        && !text.words[at].glued
        || before.lower == "(";
    // `my sister and I`
    let is_pair = text.lower(at + 1) == "i" && (RELATIVES.contains(&before.lower.as_str()) || text.is_capital(at - 1));
    let is_joint = matches!(text.lower(at), "and" | "but" | "so" | "because" | "while")
        && (text.is_imperative(at + 1) || SUBJECTS.contains(&text.lower(at + 1)) && !is_pair);
    // `St. Anna`
    let is_saint = before.lower == "." && text.before(at, 2) == "st";
    text.ends_sentence(at - 1) && !is_saint || text.begins_line(at) || is_cut || is_joint
}

/// The clause without its joints and signs, if it says something that was not read.
fn detail(text: &Text, mut from: usize, mut to: usize, known: &[&str]) -> Option<String> {
    let is_sign =
        |at: usize| text.words[at].kind == WordKind::Sign && !matches!(text.lower(at), "\"" | "$" | "€" | "£");
    while from < to && (is_sign(from) || JOINTS.contains(&text.lower(from))) {
        from += 1;
    }
    while to > from && (is_sign(to - 1) || JOINTS.contains(&text.lower(to - 1))) {
        to -= 1;
    }
    let says = |at: &usize| text.words[*at].kind != WordKind::Sign && !EMPTY.contains(&text.lower(*at));
    let words: Vec<usize> = (from..to).filter(says).collect();
    let unread = words.iter().filter(|at| !is_read(text, **at, from)).count();
    let clause = text.between(from, to);
    // `first pack the boxes` says no more than `pack the boxes`.
    let says_no_more = |fact: &&str| clause.contains(*fact) && clause.len() < fact.len() + JOINT_BYTES_MAX;
    let is_known = known.iter().any(|fact| fact.contains(clause) || says_no_more(fact));
    (unread > 0 && unread * UNREAD_SHARE >= words.len() && !is_known)
        .then(|| clause.chars().take(DETAIL_CHARS_MAX).collect())
}

/// Whether a reader has read the word, or the number that counts it: `two pages`, `40 field reps`.
fn is_read(text: &Text, at: usize, from: usize) -> bool {
    let is_counted = || {
        let mut before = (from..at).rev().take(COUNTED_WORDS_MAX).take_while(|i| text.words[*i].kind != WordKind::Sign);
        before.any(|i| text.number(i).is_some() && text.read_as(i) != Use::Unread)
    };
    text.read_as(at) != Use::Unread || is_counted()
}

/// Words from a number to what it counts, at most.
const COUNTED_WORDS_MAX: usize = 2;

/// What a clause may have more than a fact that says the same, in bytes.
const JOINT_BYTES_MAX: usize = 10;

/// Words before and behind a clause that belong to none.
const JOINTS: &[&str] = &["and", "but", "so", "then", "also", "please", "because", "while", "or", "just", "thanks"];

/// Subjects of a clause of its own.
const SUBJECTS: &[&str] =
    &["i", "we", "it", "they", "he", "she", "there", "you", "i'm", "we're", "it's", "i'd", "we'd"];

/// Words that say nothing about a result by themselves.
const EMPTY: &[&str] = &[
    "a", "an", "the", "i", "we", "you", "it", "they", "he", "she", "me", "us", "them", "him", "her", "my", "our",
    "your", "their", "his", "its", "this", "that", "these", "those", "there", "here", "i'm", "we're", "it's", "i'd",
    "we'd", "i've", "we've", "is", "are", "was", "were", "be", "been", "am", "has", "have", "had", "do", "does", "did",
    "done", "can", "could", "would", "will", "should", "must", "may", "might", "need", "needs", "want", "like", "get",
    "got", "give", "tell", "make", "help", "know", "let", "think", "hope", "see", "go", "and", "or", "but", "so", "as",
    "if", "of", "in", "on", "at", "to", "for", "from", "with", "by", "about", "into", "than", "then", "when", "what",
    "how", "which", "who", "why", "where", "all", "any", "some", "every", "each", "both", "no", "not", "too", "also",
    "very", "really", "just", "please", "thanks", "thank", "hi", "hello", "hey", "ok", "up", "out", "back", "again",
    "now", "s", "everything", "anything", "something", "nothing", "plan", "idea", "ideas", "start", "best", "good",
    "one", "ones", "lot", "bit", "possible", "soon", "asap", "sure", "don't", "doesn't", "can't", "isn't", "won't",
    "whole", "total", "altogether", "most", "more", "less", "least", "only", "even", "still", "yet", "already",
    "ready", "max", "maximum", "limit", "budget", "deadline", "longer", "later", "latest", "earlier", "around",
    "roughly", "approximately", "exceed", "exceeding", "cost", "costs", "capped", "concerns", "come", "takes", "take",
    "lasts", "spend", "pay", "finished", "finish", "completed", "complete", "delivered", "delivery", "starting",
    "starts", "begins", "closing", "date", "enough", "absolute", "including", "tops", "file", "document", "result",
    "save", "put", "price", "apiece", "shouldn't", "mustn't", "dont", "cannot", "draft", "together", "right",
];

#[cfg(test)]
mod tests {
    #[test]
    fn what_no_reader_reads_is_passed_on() {
        super::super::phrases::check(PHRASES, |facts| facts.details.join(" | "));
    }

    const PHRASES: &[(&str, &str)] = &[
        ("My sister and I want to spend a weekend in Edinburgh, by train from York", "by train from York"),
        ("Draft the budget. It must not exceed $45,000.", ""),
        (
            "A campaign for our shop, refreshed every hour, for Lena and Tom only",
            "refreshed every hour | for Lena and Tom only",
        ),
        ("Plan a day out for 28 people, two of them in wheelchairs", "two of them in wheelchairs"),
        ("Order 12 chairs by Friday, under 250 euros apiece", ""),
        ("Write the summary, don't make it longer than 3 pages", ""),
        ("Help me apply for the course. The statement is the hard part.", "The statement is the hard part"),
        ("Our web shop was down last night. Find out why, please.", "Our web shop was down last night"),
        ("Onboard Ana: laptop, accounts, first project", ""),
        ("Compare Asana, Trello and Monday", ""),
        ("Book a hotel in Kiel (sea view)", "sea view"),
        ("Turn it into minutes and send them round", "send them round"),
        ("Plan a day out for 28 people. By coach from Exeter.", "By coach from Exeter"),
        ("Thanks a lot! Write a poem.", ""),
        ("", ""),
    ];

    #[test]
    fn details_are_few_and_short() {
        let goal = goalmill_common::goal::Goal {
            description: format!("Write a poem. {}", format!("{}. ", "Roses bloom ".repeat(40)).repeat(20)),
            ..Default::default()
        };
        let facts = super::super::Facts::read(&goal, 0);
        assert_eq!(facts.details.len(), super::DETAILS_MAX);
        assert!(facts.details.iter().all(|detail| detail.chars().count() <= super::DETAIL_CHARS_MAX));
    }
}

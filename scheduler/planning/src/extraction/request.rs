//! Finds the main request of a goal: the words by which its kind is recognised, and its subject.

use super::request_verb::is_request_verb;
use super::words::{Text, WordKind};

/// Most words of a request that say what kind of goal it is.
const WORDS_MAX: usize = 10;
/// Longest subject, in characters.
const SUBJECT_CHARS_MAX: usize = 160;

/// The words by which the kind of a goal is recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoalRequest {
    /// In lower case.
    pub words: Vec<String>,
    /// Whether it names a thing without saying what to do with it: `birthday party for 12 children`.
    pub is_nominal: bool,
}

/// Where the main request begins.
struct Start {
    at: usize,
    /// The verb that stands there; none when the request names a thing.
    verb: Option<String>,
}

/// The beginning of the main request: its first words without politeness, constraints and what it is about.
pub(super) fn read(text: &Text) -> GoalRequest {
    let Some(Start { at: start, verb }) = start(text) else { return GoalRequest::default() };
    let mut words: Vec<String> = verb.iter().cloned().collect();
    for at in start + words.len()..text.words.len() {
        if words.len() >= WORDS_MAX || at > start && ends_request(text, at, &words) {
            break;
        }
        if !text.is_constraint(at) && text.words[at].kind != WordKind::Sign {
            words.extend(text.lower(at).split('\'').map(str::to_owned));
        }
    }
    let is_nominal = verb.is_none() && !words.iter().any(|word| is_finite_verb(word));
    GoalRequest { words, is_nominal }
}

/// The index of the word with which the main request begins.
pub(super) fn index(text: &Text) -> usize {
    start(text).map_or(0, |start| start.at)
}

/// What the goal asks to be done or made: the words after its first verb, up to the first constraint.
pub(super) fn subject(text: &Text) -> Option<String> {
    let found = start(text)?;
    let mut start = found.at + usize::from(found.verb.is_some());
    while ["a", "an", "the", "me", "us", "up", "together", "out", "for", "on", "some"].contains(&text.lower(start)) {
        start += 1;
    }
    let end = (start..text.words.len()).find(|at| ends_subject(text, *at, start)).unwrap_or(text.words.len());
    let subject = text.between(start, end).trim_matches(['"', '“', '”', '\'', ' ']);
    let subject: String = subject.chars().take(SUBJECT_CHARS_MAX).collect();
    (!subject.is_empty()).then_some(subject)
}

/// The first sentence that asks for something; else the first one.
fn start(text: &Text) -> Option<Start> {
    let list = (1..text.words.len()).find(|at| begins_bullet(text, *at)).unwrap_or(text.words.len());
    let begins =
        |at: &usize| *at == 0 || text.ends_sentence(at - 1) || text.lower(at - 1) == ";" || text.begins_line(*at);
    // `Must run for a week`: a condition.
    let is_condition = |at: &usize| matches!(text.lower(*at), "must" | "should" | "shall");
    let starts: Vec<usize> = (0..list)
        .filter(begins)
        .filter(|at| !is_condition(at))
        .map(|at| helped(text, skip_politeness(text, at)))
        .collect();
    let asks = |at: &usize| {
        let verb = verb_at(text, *at).filter(|_| !is_side_request(text, *at))?;
        Some(Start { at: *at, verb: Some(verb) })
    };
    let first = starts.first().filter(|at| text.get(**at).is_some());
    starts.iter().find_map(asks).or_else(|| first.map(|at| Start { at: *at, verb: None }))
}

fn verb_at(text: &Text, at: usize) -> Option<String> {
    // `The export failed.`
    let is_thing = matches!(text.before(at, 1), "the" | "our" | "my" | "this" | "your" | "their");
    if is_thing {
        return None;
    }
    if text.is_imperative(at) { Some(text.lower(at).to_owned()) } else { gerund(text, at) }
}

/// The verb of `we are moving …`.
fn gerund(text: &Text, at: usize) -> Option<String> {
    let led = matches!(text.before(at, 1), "we're" | "i'm" | "are" | "am");
    let stem = text.lower(at).strip_suffix("ing").filter(|_| led)?;
    let doubled = stem.get(..stem.len().saturating_sub(1)).unwrap_or_default();
    [stem.to_owned(), format!("{stem}e"), doubled.to_owned()].into_iter().find(|verb| is_request_verb(verb))
}

/// `make sure that …`, `keep it short`: how something is done, not what.
fn is_side_request(text: &Text, at: usize) -> bool {
    match text.lower(at) {
        "keep" | "use" | "include" | "let" => true,
        "make" => text.lower(at + 1) == "sure",
        "do" => text.lower(at + 1) == "not",
        _ => false,
    }
}

/// `- order shelves`, `1. stop it`: a line of a list, which is no request of its own.
fn begins_bullet(text: &Text, at: usize) -> bool {
    text.begins_line(at) && (text.words[at].kind != WordKind::Letters || text.lower(at + 1) == ")")
}

/// `help our shelter raise money`: the index of what somebody is helped to do.
fn helped(text: &Text, at: usize) -> usize {
    let is_helped = (1..=2).any(|back| text.before(at, back) == "help");
    let verb = (at + 1..at + 4).find(|i| text.is_imperative(*i));
    verb.filter(|_| is_helped && !text.is_imperative(at)).unwrap_or(at)
}

/// The index after `please`, `can you`, `I need to`, and after a constraint that stands first: `by Friday, …`.
fn skip_politeness(text: &Text, mut at: usize) -> usize {
    while text.is_constraint(at) && !text.is_imperative(at)
        || [
            "please", "pls", "plz", "someone", "somebody", "anyone", "anybody", "can", "could", "would", "you", "we",
            "i", "i'd", "we'd", "like", "to", "help", "me", "us", "need", "want", "have", "let's", "must", "should",
            "kindly", "hi", "hello", ",", "-", "•", "i'm", "we're", "am", "are", "going", "it's", "time", "first",
            "hey", "team", "all", "my", "the", "a", "an", "our", "also", "now", "asap", "urgent", "urgently",
        ]
        .contains(&text.lower(at))
    {
        at += 1;
    }
    at
}

/// Whether the words that tell the kind end before `at`: what follows is what it is about, what it is for, or another request.
fn ends_request(text: &Text, at: usize, words: &[String]) -> bool {
    let checks = words.first().is_some_and(|verb| {
        ["check", "review", "scan", "search", "examine", "inspect", "assess"].contains(&verb.as_str())
    });
    let prepares = ["prepare", "ready", "apply", "train", "study", "look", "search", "ask", "plan", "looking", "shop"]
        .contains(&text.before(at, 1));
    match text.lower(at) {
        "about" | "regarding" | "concerning" | ";" | "because" => true,
        ":" => text.get(at + 1).is_none_or(|after| !after.glued),
        "on" => words.len() >= 3,
        "for" => words.len() >= 3 && !prepares && !checks,
        "and" | "then" | "," => text.is_imperative(at + 1),
        _ => text.ends_sentence(at) || text.begins_line(at),
    }
}

fn is_finite_verb(word: &str) -> bool {
    let tells = [
        "is", "are", "was", "were", "has", "had", "does", "did", "will", "went", "keeps", "cannot", "can't", "fails",
        "happened", "don't",
    ]
    .contains(&word);
    tells || word.len() > 4 && word.ends_with("ed")
}

fn ends_subject(text: &Text, at: usize, start: usize) -> bool {
    if text.ends_sentence(at) || text.is_constraint(at) || at > start && text.begins_line(at) {
        return true;
    }
    match text.lower(at) {
        ":" => text.get(at + 1).is_none_or(|after| !after.glued),
        ";" | "(" | "," | "–" | "—" | "because" | "so" | "which" => true,
        "-" => !text.words[at].glued,
        "and" | "then" | "to" => text.is_imperative(at + 1),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_end_where_a_constraint_begins() {
        for (text, expected) in [
            ("Plan the launch of our app, no ads", "launch of our app"),
            ("Please set up a backup of the file server and test it", "backup of the file server"),
            ("The page is down. Fix the login bug: it fails", "login bug"),
            ("I need a birthday party for my daughter", "birthday party for my daughter"),
        ] {
            let read = Text::new(text);
            super::super::exclusion::read(&read);
            assert_eq!(subject(&read).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(subject(&Text::new("")), None);
    }

    #[test]
    fn the_main_request_says_what_kind_of_goal_it_is() {
        for (text, expected, is_nominal) in [
            ("Could you please write a report on hiring?", "write a report", false),
            ("We're moving our mail to the cloud. Make sure nothing is lost.", "move our mail to the cloud", false),
            ("The shop is slow; find out why", "find out why", false),
            ("Birthday party for 12 children", "birthday party for 12 children", true),
            ("Our API started returning errors", "api started returning errors", false),
            ("Get ready: pack, then leave", "get ready", false),
            ("Produce a video for the trade fair", "produce a video", false),
            ("Prepare for the audit", "prepare for the audit", false),
            ("The export failed. Find the reason", "find the reason", false),
        ] {
            let found = read(&Text::new(text));
            assert_eq!((found.words.join(" ").as_str(), found.is_nominal), (expected, is_nominal), "{text}");
        }
        assert_eq!(read(&Text::new("")), GoalRequest::default());
    }
}

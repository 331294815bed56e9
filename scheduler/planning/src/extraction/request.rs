//! Finds the main request of a goal: the words by which its kind is recognised, and its subject.

use std::sync::LazyLock;

use regex::Regex;

use super::clause_text::{ClauseText, is_making, pattern};

/// Most words of a request that say what kind of goal it is.
const WORDS_MAX: usize = 10;
/// Longest subject, in characters.
const SUBJECT_CHARS_MAX: usize = 160;

static WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"\d+(?:[.,'’]\d+)*|\p{L}+(?:['’]\p{L}+)*"));
static POLITE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)^(?:please|can|could|would|you|we|i|i['’]d|we['’]d|like|to|help|me|us|need|want|let['’]s|must|should|hi|hello|hey|the|an?|our|my)$",
    )
});

/// The words by which the kind of a goal is recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoalRequest {
    /// In lower case.
    pub words: Vec<String>,
}

impl GoalRequest {
    /// Whether it begins with a verb such as `plan` or `write`.
    pub fn is_making(&self) -> bool {
        self.words.first().is_some_and(|word| is_making(word))
    }
}

/// The first words of the first sentence, without polite words and facts; and the main request in the words of the goal, up to
/// the first fact or sign.
pub(super) fn read_request(text: &ClauseText<'_>) -> (GoalRequest, Option<String>) {
    let words = || WORD.find_iter(text.source);
    let is_first = |word: &regex::Match<'_>| !POLITE.is_match(word.as_str()) && !text.is_read(word.start());
    let Some(start) = words().find(is_first).or(words().next()).map(|word| word.start()) else {
        return (GoalRequest::default(), None);
    };
    let end = text.sentence_end(start);
    let own = words().filter(|word| (start..end).contains(&word.start()) && !text.is_read(word.start()));
    let lower = own.take(WORDS_MAX).map(|word| word.as_str().to_lowercase().replace('’', "'"));
    let lower = lower.flat_map(|word| word.trim_end_matches("'s").split('\'').map(str::to_owned).collect::<Vec<_>>());
    let ends = |at: &usize| text.is_read(*at) || *at > start && text.clause_start(*at) == *at;
    let end = (start..text.source.len()).find(ends).unwrap_or(text.source.len());
    let subject = text.source.get(start..end).unwrap_or_default();
    let subject = subject.trim_end_matches(['.', ',', ':', ';', '!', '?', '(', ' ', '-', '\n']);
    let subject: String = subject.chars().take(SUBJECT_CHARS_MAX).collect();
    (GoalRequest { words: lower.collect() }, (!subject.is_empty()).then_some(subject))
}

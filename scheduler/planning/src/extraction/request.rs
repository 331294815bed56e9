//! Finds the main request of a goal: the words by which its kind is recognised, and its subject.

use super::words::{Text, is_making};

/// Most words of a request that say what kind of goal it is.
const WORDS_MAX: usize = 10;
/// Longest subject, in characters.
const SUBJECT_CHARS_MAX: usize = 160;

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

/// The first words of the first sentence, without polite words and constraints.
pub(super) fn read(text: &Text) -> GoalRequest {
    let start = index(text);
    let is_word = |at: &usize| (text.is_letters(*at) || text.is_number(*at)) && !text.is_read(*at);
    let words = (start..sentence_end(text, start)).filter(is_word).take(WORDS_MAX);
    GoalRequest { words: words.flat_map(|at| text.lower(at).split('\'').map(str::to_owned)).collect() }
}

/// The index of the word with which the main request begins.
pub(super) fn index(text: &Text) -> usize {
    let is_polite = |at: &usize| POLITE.contains(&text.lower(*at)) || text.is_read(*at);
    (0..text.words.len()).find(|at| !is_polite(at)).unwrap_or(0)
}

/// The main request in the words of the goal, up to the first constraint or sign.
pub(super) fn subject(text: &Text) -> Option<String> {
    let start = index(text);
    let ends = |at: &usize| text.is_read(*at) || *at > start && text.clause_start(*at) == *at;
    let end = (start..text.words.len()).find(ends).unwrap_or(text.words.len());
    let subject = text.between(start, end).trim_end_matches(['.', ',', ':', ';', '!', '?', '(', ' ']);
    let subject: String = subject.chars().take(SUBJECT_CHARS_MAX).collect();
    (!subject.is_empty()).then_some(subject)
}

fn sentence_end(text: &Text, start: usize) -> usize {
    (start + 1..text.words.len()).find(|at| text.begins_sentence(*at)).unwrap_or(text.words.len())
}

const POLITE: &[&str] = &[
    "please", "can", "could", "would", "you", "we", "i", "i'd", "we'd", "like", "to", "help", "me", "us", "need",
    "want", "let's", "must", "should", "hi", "hello", "hey", ",", "-", "the", "a", "an", "our", "my",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_request_says_what_kind_of_goal_it_is() {
        for (text, words, subject) in [
            ("Could you please write a report on hiring?", "write a report on hiring", "write a report on hiring"),
            ("Fix the login bug: it fails. Then tell me.", "fix the login bug it fails", "Fix the login bug"),
            ("Our export failed", "export failed", "export failed"),
            ("Birthday party for 12 children", "birthday party for 12 children", "Birthday party for 12 children"),
            ("", "", ""),
        ] {
            let read_text = Text::new(text);
            let found = read(&read_text);
            assert_eq!(found.words.join(" "), words, "{text}");
            assert_eq!(super::subject(&read_text).unwrap_or_default(), subject, "{text}");
        }
        let long = Text::new("run one two three four five six seven eight nine ten eleven");
        assert_eq!(read(&long).words.len(), WORDS_MAX);
        assert!(read(&long).is_making() && !read(&Text::new("Birthday party")).is_making());
    }
}

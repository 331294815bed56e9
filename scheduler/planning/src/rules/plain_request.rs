//! The first sentence of a goal as a request: a second reading for goals whose main request no rule recognises.

use super::words;
use crate::extraction::GoalRequest;

/// Most words of the request.
const WORDS_MAX: usize = 16;

/// Words before the request: `could you please …`, `we have to …`.
const LEADING: &[&str] = &[
    "please", "pls", "can", "could", "would", "you", "someone", "somebody", "we", "i", "d", "ll", "like", "to", "help",
    "me", "us", "need", "want", "have", "ve", "got", "let", "s", "must", "should", "kindly", "hi", "hello", "hey",
    "how", "do", "the", "a", "an", "our", "my",
];

/// The first words of the first sentence, without politeness and numbers.
pub(super) fn read(goal: &str) -> GoalRequest {
    let spoken = words(first_sentence(goal)).into_iter().filter(|word| word.chars().any(char::is_alphabetic));
    let words = spoken.skip_while(|word| LEADING.contains(&word.as_str())).take(WORDS_MAX).collect();
    named(&GoalRequest { words, is_nominal: false }, goal)
}

/// Words before a thing that somebody has.
const OWNERS: &[&str] = &["our", "my", "the", "this", "his", "her", "their"];

/// The request with the word that makes its first word a name: `our book fair` books nothing.
pub(super) fn named(request: &GoalRequest, goal: &str) -> GoalRequest {
    let mut request = request.clone();
    let begin = &request.words[..request.words.len().min(2)];
    let words = words(goal);
    let at = words.windows(begin.len().max(1)).position(|window| window == begin);
    let owner = at.and_then(|at| words.get(at.checked_sub(1)?)).filter(|word| OWNERS.contains(&word.as_str()));
    if let Some(owner) = owner {
        request.words.insert(0, owner.clone());
    }
    request
}

/// Whether a request begins with a thing that somebody has.
pub(super) fn begins_with_owner(request: &GoalRequest) -> bool {
    request.words.first().is_some_and(|word| OWNERS.contains(&word.as_str()))
}

fn first_sentence(text: &str) -> &str {
    let text = text.trim_start();
    let ends = |(at, c): &(usize, char)| match c {
        '\n' => true,
        '.' | '!' | '?' | ';' => text[at + c.len_utf8()..].chars().next().is_none_or(char::is_whitespace),
        _ => false,
    };
    let end = text.char_indices().find(ends).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sentence_is_read_without_politeness_and_numbers() {
        for (goal, expected) in [
            (
                "We have to move about 1.2 million records to Postgres. No downtime!",
                "move about million records to postgres",
            ),
            (
                "Redo our bathroom for between 8 and 10 thousand dollars. Start in May",
                "redo our bathroom for between and thousand dollars",
            ),
            ("  please help", ""),
            ("Summer campaign\n- posters", "summer campaign"),
            ("", ""),
        ] {
            let read = read(goal);
            assert_eq!((read.words.join(" ").as_str(), read.is_nominal), (expected, false), "{goal}");
        }
        assert_eq!(read("Our book fair needs helpers").words.join(" "), "our book fair needs helpers");
        assert_eq!(read(&"word ".repeat(50)).words.len(), WORDS_MAX);
    }
}

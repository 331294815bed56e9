//! The requests of a goal that stand behind a situation: `our dog pulls on the lead, can you find us a trainer`.

use super::words;
use crate::extraction::GoalRequest;

/// Most words of a request.
const WORDS_MAX: usize = 16;
/// Most requests, and most parts of the text in which they are sought.
const REQUESTS_MAX: usize = 12;
const CLAUSES_MAX: usize = 200;

/// How people begin to ask for something. What follows is a verb, or a thing if an article follows.
const ASKING: &[&str] = &[
    "can you", "could you", "would you", "can somebody", "can someone", "could somebody", "could someone", "please",
    "we need", "i need", "we want", "i want", "we d like", "i d like", "we would like", "i would like", "we d love",
    "i d love", "we would love", "i would love", "we have to", "i have to", "we must", "i must", "we should",
    "i should", "we ve got to", "i ve got to", "somebody has to", "someone has to", "somebody should",
    "someone should", "somebody must", "someone must", "help me", "help us", "we re looking for", "i m looking for",
    "we are looking for", "i am looking for", "she needs", "he needs", "they need",
];

/// `what we need`, `if I have to`: no request.
const SUBORDINATE: &[&str] = &[
    "that", "which", "who", "what", "when", "if", "because", "as", "where", "than", "whether", "everything", "all",
    "things", "until", "before", "after", "how", "like", "since", "while", "unless", "once", "why",
];

/// Words that begin a part which says no more what kind of request it is.
const ENDING: &[&str] = &["that", "which", "where", "so", "because", "who", "if", "when", "about"];

/// Words between the beginning of a request and its verb.
const LINKING: &[&str] = &["you", "me", "us", "to", "please", "get", "have", "help", "also"];

/// Words between the beginning of a request and its thing.
const ARTICLES: &[&str] = &["a", "an", "the", "our", "my", "some", "another", "new", "proper", "one"];

/// The requests in a goal, in their order: after `can you`, `we need`, and clauses that begin with a verb.
///
/// - `is_verb`: whether words begin with a verb that asks for something.
pub(super) fn read(goal: &str, is_verb: impl Fn(&[String]) -> bool) -> Vec<GoalRequest> {
    let mut requests: Vec<GoalRequest> = clauses(goal)
        .take(CLAUSES_MAX)
        .filter_map(|clause| {
            let words = words(clause);
            match (0..words.len()).find_map(|at| asking_at(&words, at)) {
                Some(behind) => Some(requested(&words[behind..])),
                None if is_verb(&words) => Some(GoalRequest { words, is_nominal: false }),
                None => passive(&words, &is_verb),
            }
        })
        .take(REQUESTS_MAX)
        .collect();
    for request in &mut requests {
        let end = request.words.iter().skip(1).position(|word| ENDING.contains(&word.as_str())).map(|at| at + 1);
        request.words.truncate(end.unwrap_or(WORDS_MAX).min(WORDS_MAX));
    }
    // `Test it first`: what `it` is, another clause says.
    let is_back_reference = |request: &GoalRequest| {
        matches!(request.words.get(1).map(String::as_str), None | Some("it" | "them" | "this" | "that"))
    };
    requests.retain(|request| !is_back_reference(request));
    requests
}

/// The parts of a text between signs; `15,000` is one word.
///
/// A list is no part: its lines say how something is done.
fn clauses(text: &str) -> impl Iterator<Item = &str> {
    let begins_item = |line: &str| line.trim_start().starts_with(|c: char| "-*•".contains(c) || c.is_ascii_digit());
    let list = text.match_indices('\n').map(|(at, _)| at).find(|at| begins_item(&text[at + 1..]));
    let text = &text[..list.unwrap_or(text.len())];
    let mut inside = text.char_indices().peekable();
    let mut ends = Vec::new();
    while let Some((at, c)) = inside.next() {
        let before_space = inside.peek().is_none_or(|(_, next)| next.is_whitespace());
        if c == '\n' || ".!?;:,–—-".contains(c) && before_space {
            ends.push(at + c.len_utf8());
        }
    }
    ends.push(text.len());
    let starts = [0].into_iter().chain(ends.clone());
    starts.zip(ends).map(|(start, end)| &text[start..end])
}

/// The index behind the words that ask for something, if they stand at `at`.
fn asking_at(words: &[String], at: usize) -> Option<usize> {
    if at > 0 && SUBORDINATE.contains(&words[at - 1].as_str()) {
        return None;
    }
    let length = |asking: &str| {
        let mut rest = words[at..].iter();
        asking.split(' ').all(|word| rest.next().is_some_and(|w| w == word)).then(|| asking.split(' ').count())
    };
    ASKING.iter().find_map(|asking| length(asking)).map(|length| at + length)
}

/// `The lease has to be terminated` as `terminate the lease`.
fn passive(words: &[String], is_verb: impl Fn(&[String]) -> bool) -> Option<GoalRequest> {
    const MUST: &[&str] = &["to", "must", "should", "can", "could"];
    let be = (1..words.len()).find(|at| words[*at] == "be" && MUST.contains(&words[at - 1].as_str()))?;
    let participle = words.get(be + 1)?;
    let thing = words[..be].iter().filter(|word| !["has", "have", "needs", "need", "to"].contains(&word.as_str()));
    let rest: Vec<String> = thing.chain(&words[be + 2..]).cloned().collect();
    stems(participle).into_iter().find_map(|stem| {
        let words: Vec<String> = [stem].into_iter().chain(rest.iter().cloned()).collect();
        is_verb(&words).then_some(GoalRequest { words, is_nominal: false })
    })
}

/// The verbs that a participle may belong to: `terminated`, `fixed`, `planned`, `sold`.
fn stems(participle: &str) -> Vec<String> {
    const IRREGULAR: &[(&str, &str)] = &[
        ("sold", "sell"),
        ("written", "write"),
        ("rewritten", "rewrite"),
        ("built", "build"),
        ("found", "find"),
        ("made", "make"),
        ("done", "do"),
        ("redone", "redo"),
        ("sent", "send"),
        ("bought", "buy"),
        ("taught", "teach"),
        ("put", "put"),
        ("cut", "cut"),
        ("taken", "take"),
        ("brought", "bring"),
        ("drawn", "draw"),
        ("held", "hold"),
        ("swept", "sweep"),
        ("let", "let"),
        ("given", "give"),
        ("shot", "shoot"),
        ("fed", "feed"),
    ];
    if let Some((_, verb)) = IRREGULAR.iter().find(|(form, _)| *form == participle) {
        return vec![(*verb).to_owned()];
    }
    let Some(stem) = participle.strip_suffix("ed") else { return Vec::new() };
    let single = stem.get(..stem.len().saturating_sub(1)).unwrap_or_default();
    vec![stem.to_owned(), format!("{stem}e"), single.to_owned(), format!("{single}y")]
}

/// What is asked for: `to find a plumber` is an action, `a new roof` a thing.
fn requested(words: &[String]) -> GoalRequest {
    let skipped = |word: &&String| LINKING.contains(&word.as_str()) || ARTICLES.contains(&word.as_str());
    let length = words.iter().take_while(skipped).count();
    let is_nominal = words[..length].iter().any(|word| ARTICLES.contains(&word.as_str()));
    GoalRequest { words: words[length..].to_vec(), is_nominal }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_behind_a_situation_are_found() {
        let is_verb = |words: &[String]| words.first().is_some_and(|word| word == "find" || word == "get");
        for (goal, expected) in [
            ("Our dog pulls on the lead, can you find us a trainer?", "find us a trainer"),
            ("We are nine in the shop and I need a rota for May where nobody is alone.", "+rota for may"),
            ("The gutters are blocked, find somebody who cleans them", "find somebody"),
            ("For our club we'd like to raise 15,000 euros by May", "raise 15 000 euros by may"),
            ("The hall is loud and somebody has to organise it.", ""),
            ("It is all that we need", ""),
            ("Open the shop:\n- find a till\n- get a sign", ""),
            ("", ""),
        ] {
            let shown = |r: &GoalRequest| format!("{}{}", if r.is_nominal { "+" } else { "" }, r.words.join(" "));
            assert_eq!(read(goal, is_verb).iter().map(shown).collect::<Vec<_>>().join("; "), expected, "{goal}");
        }
        assert_eq!(read(&"Find us a trainer. ".repeat(100), is_verb).len(), REQUESTS_MAX);
    }
}

//! Reads what a text is to be about: `a report on heat pumps`, `research the history of tea`.

use super::words::{Text, Use, is_making};

/// Longest topic, in characters.
const TOPIC_CHARS_MAX: usize = 300;

/// The words after `research`, `report on`, `articles about`, up to a sign, a constraint or the next request.
pub(super) fn read(text: &Text) -> Option<String> {
    let start = text.open().find_map(|at| start_at(text, at))?;
    let start = start + usize::from(text.lower(start) == "the");
    let end = (start..text.words.len()).find(|at| ends_topic(text, *at)).unwrap_or(text.words.len());
    let topic: String = text.between(start, end).chars().take(TOPIC_CHARS_MAX).collect();
    text.note(start, end, Use::Fact);
    (!topic.is_empty()).then_some(topic)
}

fn start_at(text: &Text, at: usize) -> Option<usize> {
    let next = text.lower(at + 1);
    let is_about = |word: &str| matches!(word, "about" | "regarding" | "concerning");
    let start = match text.lower(at) {
        "research" | "investigate" if is_request(text, at) => {
            at + 1 + usize::from(matches!(next, "on" | "into") || is_about(next))
        }
        word if TEXTS.contains(&word) && (is_about(next) || matches!(next, "on" | "of" | "into")) => at + 2,
        word if is_about(word) && !text.is_number(at + 1) => at + 1,
        _ => return None,
    };
    // `what is known about the topic of bees`
    let start = start + if text.lower(start) == "the" && text.lower(start + 1) == "topic" { 3 } else { 0 };
    let is_pronoun = ["it", "this", "that", "them", "us", "me", "you"].contains(&text.lower(start));
    (text.is_letters(start) && !is_pronoun && !text.is_closed(start)).then_some(start)
}

fn is_request(text: &Text, at: usize) -> bool {
    at == text.clause_start(at) || matches!(text.before(at, 1), "please" | "to" | "and" | "then")
}

const TEXTS: &[&str] = &[
    "report", "overview", "survey", "essay", "briefing", "summary", "review", "research", "literature", "presentation",
    "talk", "post", "posts", "guide", "paper", "papers", "article", "articles", "sources", "studies", "findings",
];

fn ends_topic(text: &Text, at: usize) -> bool {
    let is_sign = !text.is_letters(at) && !text.is_number(at) && !text.is_glued(at);
    let is_stop = matches!(text.lower(at), "," | ":" | "(" | "." | "?" | "!" | ";" | "\"") && !text.is_glued(at + 1);
    let is_next = matches!(text.lower(at), "and" | "then") && is_making(text.lower(at + 1));
    // `in 3 pages`, `for 12 people`
    let is_measure = ["for", "in", "from"].contains(&text.lower(at)) && text.number(at + 1).is_some();
    is_sign
        || is_measure
        || is_stop
        || is_next
        || text.is_closed(at)
        || text.is_constraint(at)
        || text.begins_sentence(at)
        || ENDS.contains(&text.lower(at))
}

/// Words that begin a constraint rather than go on with a topic.
const ENDS: &[&str] = &["with", "by", "under", "below", "within", "until", "before"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_end_where_something_else_begins() {
        for (text, expected) in [
            ("Research the history of tea and write a report with sources", "history of tea"),
            ("Write a report on solid-state batteries, 3 pages", "solid-state batteries"),
            ("Find recent papers on graph neural networks and summarise them", "graph neural networks"),
            ("Write a poem about rain.", "rain"),
            ("Please research the topic of bees", "bees"),
            ("Write an article about monday.com for me", "monday.com for me"),
            ("Write an article about our trip to Rome in 3 pages", "our trip to Rome"),
            ("Write about it", ""),
            ("Write nothing about bees", ""),
            ("Our research team met", ""),
            ("about 5 euros", ""),
        ] {
            assert_eq!(read(&Text::new(text)).unwrap_or_default(), expected, "{text}");
        }
    }
}

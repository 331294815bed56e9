//! Extracts the topic of a text and the data that it names.

use super::words::{Text, WordKind};

/// Longest topic, in characters.
const TOPIC_CHARS_MAX: usize = 300;

/// What is to be found out: the words after `research`, `report on`, `articles about`, …
pub(super) fn read(text: &Text) -> Option<String> {
    let start = (0..text.words.len()).find_map(|at| topic_start(text, at))?;
    let end = (start..text.words.len()).find(|at| ends_topic(text, *at, start)).unwrap_or(text.words.len());
    let (first, last) = (text.get(start)?, text.get(end.checked_sub(1)?)?);
    (end > start).then_some(())?;
    let topic = text.source[first.start..last.end].trim_matches(['"', '“', '”', '\'', ' ']);
    let topic: String = topic.chars().take(TOPIC_CHARS_MAX).collect();
    (!topic.is_empty()).then_some(topic)
}

fn topic_start(text: &Text, at: usize) -> Option<usize> {
    let (word, next) = (text.lower(at), text.lower(at + 1));
    let after_link = |from: usize| {
        let mut from = from;
        while matches!(
            text.lower(from),
            "the" | "about" | "on" | "into" | "topic" | "of" | ":" | "regarding" | "subject"
        ) {
            from += 1;
        }
        text.get(from).is_some().then_some(from)
    };
    match word {
        "about" | "regarding" | "concerning" => {
            after_link(at + 1).filter(|_| !matches!(text.get(at + 1).map(|w| w.kind), Some(WordKind::Number(_))))
        }
        "research" | "investigate" | "compare" | "summarise" | "summarize" | "explore" | "study" | "review"
            if is_verb_here(text, at) =>
        {
            let articles = matches!(next, "and" | "or" | "," | "paper" | "papers" | "articles" | "data" | "team");
            (!articles && !has_topic_later(text, at)).then(|| after_link(at + 1))?
        }
        "report" | "overview" | "survey" | "essay" | "briefing" | "summary" | "review" | "research" | "literature"
        | "information" | "papers" | "articles" | "article" | "sources" | "studies" | "findings"
            if matches!(next, "on" | "about" | "of" | "into" | "regarding") =>
        {
            after_link(at + 2)
        }
        "known" if next == "about" => after_link(at + 2),
        _ => None,
    }
}

fn is_verb_here(text: &Text, at: usize) -> bool {
    text.is_sentence_start(at) || matches!(text.before(at, 1), "to" | "please" | "and" | "," | "me" | "then" | "you")
}

/// `Summarise three articles about llamas`: the topic stands after the thing.
fn has_topic_later(text: &Text, at: usize) -> bool {
    (at + 1..(at + 8).min(text.words.len())).any(|i| matches!(text.lower(i), "about" | "regarding" | "concerning"))
}

fn ends_topic(text: &Text, at: usize, start: usize) -> bool {
    let word = &text.words[at];
    let next = text.lower(at + 1);
    match word.lower.as_str() {
        "." => text.get(at + 1).is_none_or(|after| !after.glued),
        "?" | "!" | ";" | "\n" => true,
        "," | "and" => matches!(
            next,
            "and"
                | "write"
                | "then"
                | "with"
                | "summarise"
                | "summarize"
                | "send"
                | "give"
                | "using"
                | "create"
                | "make"
                | "produce"
                | "cite"
        ),
        "with" => {
            matches!(next, "a" | "sources" | "citations" | "references")
                && (text.lower(at + 2) == "budget" || next != "a")
        }
        "by" | "before" | "within" => {
            matches!(next, "tomorrow" | "monday" | "tuesday" | "wednesday" | "thursday" | "friday" | "next")
        }
        "in" => {
            matches!(text.get(at + 1).map(|w| w.kind), Some(WordKind::Number(_)))
                && matches!(text.lower(at + 2), "words" | "pages" | "sentences" | "days" | "bullet")
        }
        "for" => next == "me" && at > start,
        _ => false,
    }
}

/// The data a text names: a file, an address, or `the sales data`.
pub(super) fn dataset(text: &Text) -> Option<String> {
    text.source.split_whitespace().find_map(file).or_else(|| named_data(text))
}

fn file(word: &str) -> Option<String> {
    const ENDINGS: [&str; 10] =
        [".csv", ".tsv", ".xlsx", ".xls", ".parquet", ".json", ".jsonl", ".sqlite", ".db", ".sql"];
    let word = word
        .trim_matches(|c: char| matches!(c, '"' | '\'' | '`' | '(' | ')' | ',' | ';' | '“' | '”' | '?' | '!' | '.'));
    let lower = word.to_lowercase();
    let is_file = ENDINGS.iter().any(|ending| lower.len() > ending.len() && lower.ends_with(ending));
    let is_address =
        ["https://", "http://", "s3://", "gs://", "postgres://"].iter().any(|scheme| lower.starts_with(scheme));
    (is_file || is_address).then(|| word.to_owned())
}

/// The words before `data`, up to three.
fn named_data(text: &Text) -> Option<String> {
    let at = (0..text.words.len()).find(|at| {
        let word = text.lower(*at);
        matches!(word, "data" | "dataset" | "spreadsheet" | "logs" | "records" | "figures" | "transactions")
            && !matches!(
                text.lower(at + 1),
                "analysis" | "analyst" | "science" | "scientist" | "structure" | "structures" | "type" | "types"
            )
    })?;
    let mut first = at;
    while at - first < 3 && first > 0 {
        let before = &text.words[first - 1];
        if before.kind == WordKind::Sign || STOPS.contains(&before.lower.as_str()) {
            break;
        }
        first -= 1;
    }
    let pointed_at = matches!(text.before(at, 1), "the" | "this" | "my" | "our" | "these" | "a");
    if first == at && !pointed_at {
        return None;
    }
    let mut last = at;
    if matches!(text.lower(at + 1), "of" | "from" | "for" | "on" | "about")
        && text.get(at + 2).is_some_and(|w| w.kind != WordKind::Sign)
    {
        last = at + 2;
    }
    Some(text.source[text.words[first].start..text.words[last].end].to_owned())
}

const STOPS: &[&str] = &[
    "the",
    "a",
    "an",
    "this",
    "that",
    "our",
    "my",
    "your",
    "analyse",
    "analyze",
    "of",
    "in",
    "from",
    "on",
    "with",
    "and",
    "visualise",
    "visualize",
    "plot",
    "clean",
    "explore",
    "load",
    "to",
    "for",
    "some",
    "these",
    "all",
    "using",
    "into",
    "examine",
    "process",
    "me",
    "is",
    "any",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_read_in_many_spellings() {
        for (text, expected) in [
            ("Research the history of tea", "history of tea"),
            ("Write a report on solid-state batteries.", "solid-state batteries"),
            ("Summarise three articles about llamas", "llamas"),
            ("Find recent papers on graph neural networks and write a summary", "graph neural networks"),
            ("Compare Kafka and Redis Streams", "Kafka and Redis Streams"),
            ("Please research quantum computing with sources", "quantum computing"),
            ("What is known about dark task?", "dark task"),
            ("Give me an overview of the EU AI Act in 500 words", "EU AI Act"),
            ("research v1.2 of the protocol. Be quick.", "v1.2 of the protocol"),
        ] {
            assert_eq!(read(&Text::new(text)).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_has_no_topic_gives_none() {
        for text in ["", "Plan a trip", "about", "research", "it takes about 5 minutes", "the research team"] {
            assert_eq!(read(&Text::new(text)), None, "{text}");
        }
    }

    #[test]
    fn data_is_found_by_file_or_by_name() {
        for (text, expected) in [
            ("Analyse sales.csv and plot it", Some("sales.csv")),
            ("Analyse 'data/sales.xlsx'.", Some("data/sales.xlsx")),
            ("Load https://example.org/x?a=1 please", Some("https://example.org/x?a=1")),
            ("Analyse the quarterly sales data", Some("quarterly sales data")),
            ("find trends in the data of 2024", Some("data of 2024")),
            ("do a data analysis", None),
            ("vast amounts of data", None),
            (".csv", None),
        ] {
            assert_eq!(dataset(&Text::new(text)).as_deref(), expected, "{text}");
        }
    }
}

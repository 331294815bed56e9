//! The text of a goal: its clauses, what of it may hold facts, and which parts were read as facts.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// In place of each byte of a clause from which no fact is read.
const CLOSED: u8 = 0;
/// In place of each byte that is part of a fact; patterns know it as `\x01`.
const READ: u8 = 1;

/// Verbs with which people ask for something to be made or done.
const MAKING: &str = "analy[sz]e|arrange|book|build|check|compare|compile|complete|create|deploy|design|develop|draft|find|fix|\
    gather|generate|get|give|hold|host|implement|improve|make|organi[sz]e|outline|perform|plan|prepare|produce|propose|\
    provide|publish|run|schedule|send|set|suggest|summari[sz]e|test|update|write";
/// Words of a clause that rules something out, holds only sometimes, or tells the past.
const CLOSING: &str = "no|not|never|nobody|nothing|none|neither|nor|without|except|excluding|cannot|cant|dont|wont|avoid|\
    avoiding|skip|instead|rather|unless|if|when|whenever|was|were|had|did|ago|\\p{L}+n['’]t";
/// A number in digits or in words.
const NUMBER: &str = r"(?:(?:\d{1,3}(?:[.,'’]\d{3}\b)+(?:[.,]\d{1,2}\b)?|\d+(?:\.\d+|,\d{1,2})?)(?i: (?:SCALE)\b)?|(?i:\b(?:WORD)(?:[ -](?:WORD))*\b))";
const NUMBER_WORDS: [&str; 32] = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty", "thirty", "forty",
    "fifty", "sixty", "seventy", "eighty", "ninety", "dozen", "hundred", "thousand", "million",
];

/// A pattern in which `NUMBER`, `MAKING` and `CLOSING` stand for those above.
pub(super) fn pattern(text: &str) -> Regex {
    let text = text.replace("NUMBER", NUMBER).replace("WORD", &NUMBER_WORDS.join("|"));
    let text = text.replace("SCALE", &NUMBER_WORDS[28..].join("|"));
    let text = text.replace("MAKING", MAKING).replace("CLOSING", CLOSING);
    Regex::new(&text).expect("it is a pattern")
}

/// Where a clause begins: behind a match that is a sign, at one that is a word.
static TURN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)[.!?;]+(?:\s+|$)|\s*\n\s*|[,:)•–—]\s+|\s-\s+|\(|\b(?:but|without|except|unless|if|when|whenever|instead|rather|excluding|because)\b|\b(?:and|then|or)\s+(?:MAKING|CLOSING)\b|\bwith no\b",
    )
});
static CLOSES: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)\b(?:CLOSING)\b"));
/// A clause behind a comma that continues with what the one before it rules out.
static CONTINUES: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)^(?:to|in|or|nor|and|for|by|before)\b|\bor\b"));
static QUOTED: LazyLock<Regex> = LazyLock::new(|| pattern(r#""[^"]*"|[“„][^”“]*[”“]"#));
/// Words that introduce a fact and belong to it.
static LEADS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)(?:(?:\b(?:an?|the|of|for|with|by|before|until|from|in|on|at|to|up|most|under|below|within|less|than|max|maximum|about|around|is|due|costs?|spend|between)|:)\s+)+$",
    )
});
static MAKES: LazyLock<Regex> = LazyLock::new(|| pattern("^(?:MAKING)$"));
static LETTERS: LazyLock<Regex> = LazyLock::new(|| pattern(r"\p{Ll}"));

pub(super) struct ClauseText<'a> {
    pub source: &'a str,
    /// The source, with what may not be read and what was read written over.
    pub open: String,
    /// Where clauses begin, in bytes.
    clauses: Vec<usize>,
    /// Whether capitals say anything: not so in a text without any lower case letter.
    pub has_case: bool,
}

impl<'a> ClauseText<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        let is_word = |at: usize| source[at..].starts_with(|c: char| c.is_alphabetic());
        let turns = TURN.find_iter(source);
        let turns = turns.map(|turn| {
            if is_word(turn.start()) {
                (turn.start(), false)
            } else {
                (turn.end(), turn.as_str().contains(['.', '!', '?', ';', '\n']))
            }
        });
        let starts: Vec<(usize, bool)> = std::iter::once((0, true)).chain(turns).collect();
        let clauses = starts.iter().map(|(at, _)| *at).collect();
        let mut text = Self { source, open: source.to_owned(), clauses, has_case: LETTERS.is_match(source) };
        let mut is_closed = false;
        for (n, (at, is_sentence)) in starts.iter().enumerate() {
            let end = starts.get(n + 1).map_or(source.len(), |(next, _)| *next);
            let clause = &source[*at..end];
            is_closed = CLOSES.is_match(clause) || is_closed && !is_sentence && CONTINUES.is_match(clause);
            if is_closed {
                text.write_over(*at..end, CLOSED);
            }
        }
        QUOTED.find_iter(source).for_each(|quote| text.write_over(quote.range(), CLOSED));
        text
    }

    fn write_over(&mut self, range: Range<usize>, byte: u8) {
        let length = range.len();
        self.open.replace_range(range, &char::from(byte).to_string().repeat(length));
    }

    /// Notes a part as a fact, with the words before it that introduce it: `for at most` before `300 EUR`.
    pub(super) fn mark(&mut self, range: Range<usize>) {
        let before = &self.open[self.clause_start(range.start)..range.start];
        let lead = LEADS.find(before).map_or(0, |lead| lead.as_str().len());
        self.write_over(range.start - lead..range.end, READ);
    }

    /// Whether the byte is part of a fact.
    pub(super) fn is_read(&self, at: usize) -> bool {
        self.open.as_bytes().get(at) == Some(&READ)
    }

    pub(super) fn clause_start(&self, at: usize) -> usize {
        self.clauses[self.clauses.partition_point(|start| *start <= at).saturating_sub(1)]
    }

    /// What stands before a place in its clause.
    pub(super) fn before(&self, at: usize) -> &str {
        self.open[self.clause_start(at)..at].trim_end()
    }

    /// Where the sentence ends that holds a place.
    pub(super) fn sentence_end(&self, at: usize) -> usize {
        let is_end = |start: &&usize| {
            let sign = self.source[..**start].trim_end_matches([' ', '\t']);
            **start > at && sign.ends_with(['.', '!', '?', ';', '\n'])
        };
        self.clauses.iter().find(is_end).copied().unwrap_or(self.source.len())
    }
}

/// The word at the end of a text, in lower case; the last sign when it ends with one.
pub(super) fn last_word(text: &str) -> String {
    let word = &text[text.trim_end_matches(char::is_alphanumeric).len()..];
    if word.is_empty() { text.chars().next_back().map(String::from).unwrap_or_default() } else { word.to_lowercase() }
}

/// Whether a word is a verb with which people ask for something to be made or done.
pub(super) fn is_making(word: &str) -> bool {
    MAKES.is_match(word)
}

/// The value of a number in digits or in words. Three digits behind a sign are thousands.
pub(super) fn value_of(number: &str) -> Option<f64> {
    let (mut total, mut part) = (0.0, 0.0_f64);
    for word in number.to_lowercase().split([' ', '-']) {
        let Some(at) = NUMBER_WORDS.iter().position(|known| *known == word) else {
            part = value_of_digits(word)?;
            continue;
        };
        let value = f64::from(u32::try_from(at).ok()?);
        match at {
            0..20 => part += value,
            20..28 => part += (value - 18.0) * 10.0,
            28 => part = part.max(1.0) * 12.0,
            29 => part = part.max(1.0) * 100.0,
            _ => {
                total += part.max(1.0) * if at == 30 { 1e3 } else { 1e6 };
                part = 0.0;
            }
        }
    }
    Some(total + part)
}

fn value_of_digits(number: &str) -> Option<f64> {
    let number = number.replace(['\'', '’'], "");
    let digits = |text: &str| text.replace(['.', ','], "");
    match number.rfind(['.', ',']).filter(|at| number.len() - at != 4) {
        Some(at) => format!("{}.{}", digits(&number[..at]), &number[at + 1..]).parse().ok(),
        None => digits(&number).parse().ok(),
    }
}

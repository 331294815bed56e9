//! Splits the text of a goal into words, numbers, signs and clauses, and reads numbers in words.

use std::cell::RefCell;

/// A piece of the text with its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Word<'a> {
    pub text: &'a str,
    /// In lower case, without a possessive ending.
    pub lower: String,
    pub kind: WordKind,
    /// Whether nothing stands between it and the piece before.
    pub glued: bool,
    /// Byte offset of its first character.
    pub start: usize,
    /// Byte offset after its last character.
    pub end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum WordKind {
    Letters,
    Number(f64),
    Sign,
}

/// The text of a goal in pieces.
pub(super) struct Text<'a> {
    pub source: &'a str,
    pub words: Vec<Word<'a>>,
    /// Whether capitals say anything: not so in a text without any lower case letter.
    has_case: bool,
    /// For each word, whether it is part of a fact.
    read: RefCell<Vec<bool>>,
    /// For each word, the index at which its clause begins.
    clauses: Vec<usize>,
    /// For each word, whether no fact is read from it: [`Text::is_closed`].
    closed: Vec<bool>,
}

/// A number and the index after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quantity {
    pub value: f64,
    pub next: usize,
}

impl<'a> Text<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        let words = split(source);
        let read = RefCell::new(vec![false; words.len()]);
        let has_case = source.chars().any(char::is_lowercase);
        let mut text = Self { source, words, has_case, read, clauses: Vec::new(), closed: Vec::new() };
        let mut first = 0;
        for at in 0..text.words.len() {
            if text.begins_clause(at) {
                first = at;
            }
            text.clauses.push(first);
        }
        text.closed = text.closed_words();
        text
    }

    /// The words from which facts may be read.
    pub(super) fn open(&self) -> impl Iterator<Item = usize> {
        (0..self.words.len()).filter(|at| !self.closed[*at])
    }

    /// Whether the word stands in a clause with a negation, a condition or the past, or in quotation marks: no fact is read from it.
    pub(super) fn is_closed(&self, at: usize) -> bool {
        self.closed.get(at).copied().unwrap_or_default()
    }

    /// The index at which the clause of a word begins.
    pub(super) fn clause_start(&self, at: usize) -> usize {
        self.clauses.get(at).copied().unwrap_or(self.words.len())
    }

    /// The words of the clause before `at`, nearest first.
    pub(super) fn clause_before(&self, at: usize) -> impl Iterator<Item = usize> {
        (self.clause_start(at)..at).rev()
    }

    /// Marks the words from `from` to before `to` as parts of a fact, with those that introduce it: `for at most` before `300 EUR`.
    pub(super) fn mark(&self, mut from: usize, to: usize) {
        while from > self.clause_start(from) && LEADS.contains(&self.lower(from - 1)) && !self.words[from - 1].glued {
            from -= 1;
        }
        let mut read = self.read.borrow_mut();
        let to = to.min(read.len());
        if let Some(words) = read.get_mut(from..to) {
            words.fill(true);
        }
    }

    /// Whether the word is part of a fact.
    pub(super) fn is_read(&self, at: usize) -> bool {
        self.read.borrow().get(at).copied().unwrap_or_default()
    }

    /// The source from the word `from` to before the word `to`.
    pub(super) fn between(&self, from: usize, to: usize) -> &'a str {
        match (self.words.get(from), to.checked_sub(1).and_then(|last| self.words.get(last))) {
            (Some(first), Some(last)) if first.start < last.end => &self.source[first.start..last.end],
            _ => "",
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<&Word<'a>> {
        self.words.get(index)
    }

    /// The word in lower case; empty past either end.
    pub(super) fn lower(&self, index: usize) -> &str {
        self.words.get(index).map_or("", |word| word.lower.as_str())
    }

    /// The word so many places before `index`, in lower case; empty before the start.
    pub(super) fn before(&self, index: usize, back: usize) -> &str {
        index.checked_sub(back).map_or("", |i| self.lower(i))
    }

    pub(super) fn is_letters(&self, index: usize) -> bool {
        self.words.get(index).is_some_and(|word| word.kind == WordKind::Letters)
    }

    pub(super) fn is_number(&self, index: usize) -> bool {
        self.words.get(index).is_some_and(|word| matches!(word.kind, WordKind::Number(_)))
    }

    pub(super) fn is_glued(&self, index: usize) -> bool {
        self.words.get(index).is_some_and(|word| word.glued)
    }

    /// Whether the word begins with a capital that means something.
    pub(super) fn is_capital(&self, index: usize) -> bool {
        let is_upper = |word: &Word<'_>| word.text.chars().next().is_some_and(char::is_uppercase);
        self.has_case && self.is_letters(index) && self.words.get(index).is_some_and(is_upper)
    }

    /// Whether a sentence ends with the word before `at`, or a line does.
    pub(super) fn begins_sentence(&self, at: usize) -> bool {
        let (Some(word), Some(before)) = (self.get(at), at.checked_sub(1).and_then(|i| self.get(i))) else {
            return true;
        };
        let is_end = matches!(before.lower.as_str(), "." | "!" | "?" | ";") && !word.glued;
        is_end || self.source[before.end..word.start].contains('\n')
    }

    /// Whether a clause begins at `at`: a sentence, a line, or what stands behind a comma, a bracket or `but`.
    fn begins_clause(&self, at: usize) -> bool {
        let sign = self.before(at, 1);
        let is_cut = matches!(sign, "," | ":" | ")" | "–" | "—" | "-" | "•") && !self.is_glued(at) || sign == "(";
        let is_turn = CLAUSE_BEGINNINGS.contains(&self.lower(at));
        let next = self.lower(at + 1);
        let is_next = match self.lower(at) {
            "and" | "then" | "or" => is_making(next) || CLOSING.contains(&next) || next.ends_with("n't"),
            "with" => next == "no",
            _ => false,
        };
        self.begins_sentence(at) || is_cut || is_turn || is_next
    }

    fn closed_words(&self) -> Vec<bool> {
        let closes = |at: usize| {
            let word = self.lower(at);
            CLOSING.contains(&word) || word.ends_with("n't")
        };
        let mut closed = vec![false; self.words.len()];
        let (mut from, mut was_closed) = (0, false);
        while from < self.words.len() {
            let to = (from + 1..self.words.len()).find(|at| self.clauses[*at] == *at).unwrap_or(self.words.len());
            // `not to Rome, to Paris or to Oslo`
            let continues = was_closed
                && !self.begins_sentence(from)
                && (CONTINUING.contains(&self.lower(from)) || (from..to).any(|at| self.lower(at) == "or"));
            was_closed = continues || (from..to).any(closes);
            closed[from..to].fill(was_closed);
            from = to;
        }
        let mut open = None;
        for (at, word) in self.words.iter().enumerate() {
            open = match (word.lower.as_str(), open) {
                ("\"" | "“" | "„", None) => Some(at),
                ("\"" | "”", Some(first)) => {
                    closed[first..at].fill(true);
                    None
                }
                (_, open) => open,
            };
        }
        closed
    }

    /// Reads a number at `index`, in digits or in words: `2,000.50`, `twenty-five`, `a thousand`.
    pub(super) fn number(&self, index: usize) -> Option<Quantity> {
        match self.get(index)?.kind {
            WordKind::Number(value) => {
                let factor = if self.is_glued(index + 1) && self.lower(index + 1) == "k" {
                    Some(1_000.0)
                } else {
                    scale(self.lower(index + 1))
                };
                let next = index + 1 + usize::from(factor.is_some());
                Some(Quantity { value: value * factor.unwrap_or(1.0), next })
            }
            WordKind::Letters => self.number_in_words(index),
            WordKind::Sign => None,
        }
    }

    fn number_in_words(&self, index: usize) -> Option<Quantity> {
        let (mut next, mut total, mut part) = (index, 0.0, None);
        if matches!(self.lower(index), "a" | "an") && scale(self.lower(index + 1)).is_some() {
            part = Some(1.0);
            next += 1;
        }
        while let Some(word) = self.get(next) {
            if let Some(value) = unit(&word.lower) {
                if part.is_some_and(|p: f64| p % 100.0 != 0.0 && !(p % 10.0 == 0.0 && value < 10.0)) {
                    break;
                }
                part = Some(part.unwrap_or(0.0) + value);
            } else if let (Some(factor), Some(held)) = (scale(&word.lower), part) {
                if factor < 1_000.0 {
                    part = Some(held * factor);
                } else {
                    total += held * factor;
                    part = Some(0.0);
                }
            } else if matches!(word.lower.as_str(), "-" | "and")
                && part.is_some()
                && unit(self.lower(next + 1)).is_some_and(|u| self.joins(next, part.unwrap_or(0.0) + total, u))
            {
                next += 1;
                continue;
            } else {
                break;
            }
            next += 1;
        }
        part.map(|held| Quantity { value: total + held, next })
    }

    /// Whether `twenty - five` or `hundred and five` is one number; `two and three` is not.
    fn joins(&self, sign: usize, before: f64, after: f64) -> bool {
        match self.lower(sign) {
            "-" => before % 100.0 >= 20.0 && before % 10.0 == 0.0 && after < 10.0 && self.words[sign].glued,
            _ => before >= 100.0 && before % 100.0 == 0.0 && after < 100.0,
        }
    }
}

/// Whether a word is a verb with which people ask for something to be made or done.
pub(super) fn is_making(word: &str) -> bool {
    MAKING.contains(&word)
}

const MAKING: &[&str] = &[
    "analyse", "analyze", "arrange", "book", "build", "check", "compare", "compile", "complete", "create", "deploy",
    "design", "develop", "draft", "find", "fix", "gather", "generate", "get", "give", "hold", "host", "implement",
    "improve", "make", "organise", "organize", "outline", "perform", "plan", "prepare", "produce", "propose",
    "provide", "publish", "run", "schedule", "send", "set", "suggest", "summarise", "summarize", "test", "update",
    "write",
];

/// Words with which a clause begins in the middle of a sentence.
const CLAUSE_BEGINNINGS: &[&str] =
    &["but", "without", "except", "unless", "if", "when", "whenever", "instead", "rather", "excluding", "because"];

/// Words of a clause from which no fact is read, because it rules something out, holds only sometimes, or tells the past.
const CLOSING: &[&str] = &[
    "no", "not", "never", "nobody", "nothing", "none", "neither", "nor", "without", "except", "excluding", "cannot",
    "cant", "dont", "wont", "avoid", "avoiding", "skip", "instead", "rather", "unless", "if", "when", "whenever",
    "was", "were", "had", "did", "ago",
];

/// Words with which a clause goes on after a comma.
const CONTINUING: &[&str] = &["to", "in", "or", "nor", "and", "for", "by", "before"];

/// Words that introduce a constraint and belong to it.
const LEADS: &[&str] = &[
    "a", "an", "the", "of", "for", "with", "by", "before", "until", "from", "in", "on", "at", "to", "up", "most",
    "under", "below", "within", "less", "than", "max", "maximum", "about", "around", "is", "due", "deadline", "budget",
    "cost", "costs", "spend", "starting", "between", ":", "ready", "finished", "done",
];

fn split(source: &str) -> Vec<Word<'_>> {
    let mut words: Vec<Word<'_>> = Vec::new();
    let mut at = 0;
    while let Some(first) = source[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let rest = &source[at..];
        let (length, kind) = if first.is_ascii_digit() {
            number_at(rest)
        } else if first.is_alphabetic() {
            (letters_at(rest), WordKind::Letters)
        } else {
            (first.len_utf8(), WordKind::Sign)
        };
        let text = &source[at..at + length];
        let glued = words.last().is_some_and(|before| before.end == at);
        words.push(Word { text, lower: plain(text), kind, glued, start: at, end: at + length });
        at += length;
    }
    words
}

/// Length of the letters at the start, with apostrophes and marks inside.
fn letters_at(text: &str) -> usize {
    let mut length = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let inside = matches!(c, '\'' | '’') && chars.peek().is_some_and(|(_, next)| next.is_alphabetic());
        if !(c.is_alphabetic() || inside) {
            break;
        }
        length = at + c.len_utf8();
    }
    length
}

/// Length and value of the number at the start: digits, thousands in groups of three, a decimal part.
fn number_at(text: &str) -> (usize, WordKind) {
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut length = digits(0);
    if length <= 3 {
        // `2,000`, `1'200`
        while text[length..].starts_with([',', '\'']) && digits(length + 1) == 3 {
            length += 4;
        }
    }
    if text[length..].starts_with('.') && digits(length + 1) > 0 {
        length += 1 + digits(length + 1);
    }
    let value = text[..length].replace([',', '\''], "").parse().unwrap_or(f64::INFINITY);
    (length, WordKind::Number(value))
}

fn plain(text: &str) -> String {
    let lower = text.to_lowercase().replace('’', "'");
    lower.strip_suffix("'s").map(str::to_owned).unwrap_or(lower)
}

fn unit(word: &str) -> Option<f64> {
    const SMALL: [&str; 20] = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
        "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
    ];
    const TENS: [&str; 8] = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
    let place = |list: &[&str]| list.iter().position(|w| *w == word).and_then(|i| u8::try_from(i).ok()).map(f64::from);
    place(&SMALL).or_else(|| place(&TENS).map(|i| (i + 2.0) * 10.0))
}

fn scale(word: &str) -> Option<f64> {
    match word {
        "dozen" => Some(12.0),
        "hundred" => Some(100.0),
        "thousand" => Some(1_000.0),
        "million" => Some(1_000_000.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_number(text: &str) -> Option<f64> {
        let text = Text::new(text);
        (0..text.words.len()).find_map(|i| text.number(i)).map(|q| q.value)
    }

    #[test]
    fn numbers_are_read_in_digits_and_in_words() {
        for (text, value) in [
            ("2,000.50 it", 2000.5),
            ("2000", 2000.0),
            ("1,234,567", 1_234_567.0),
            ("1'200 CHF", 1200.0),
            ("2,00", 2.0),
            ("3.", 3.0),
            ("twenty-five", 25.0),
            ("two thousand five hundred", 2500.0),
            ("a thousand", 1000.0),
            ("one hundred and five", 105.0),
            ("two dozen", 24.0),
            ("fifteen hundred", 1500.0),
            ("two and three", 2.0),
        ] {
            assert_eq!(first_number(text), Some(value), "{text}");
        }
        assert_eq!(first_number("a day in the sun"), None);
        assert_eq!(first_number(&"9".repeat(400)), Some(f64::INFINITY));
    }

    #[test]
    fn pieces_know_their_place_and_their_neighbours() {
        let text = Text::new("a 3-day trip to Paris's Café");
        let pieces: Vec<_> = text.words.iter().map(|w| (w.lower.as_str(), w.glued)).collect();
        let expected = [
            ("a", false),
            ("3", false),
            ("-", true),
            ("day", true),
            ("trip", false),
            ("to", false),
            ("paris", false),
            ("café", false),
        ];
        assert_eq!(pieces, expected);
    }
}

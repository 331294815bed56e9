//! Splits a goal's text into words, numbers and signs, and reads numbers in words.

use std::cell::RefCell;

use super::request_verb::is_request_verb;

/// What a reader has made of a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// Nothing yet.
    #[default]
    Unread,
    /// A part of a fact that describes the thing itself, such as a count.
    Fact,
    /// A part of a constraint, such as a deadline: a phrase before it ends here.
    Constraint,
}

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

impl Word<'_> {
    /// Whether the word has a possessive ending: `mum's`.
    pub(super) fn is_possessive(&self) -> bool {
        self.text.ends_with("'s") || self.text.ends_with("’s")
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum WordKind {
    Letters,
    Number(f64),
    Sign,
}

/// A goal's text in pieces.
pub(super) struct Text<'a> {
    pub source: &'a str,
    pub words: Vec<Word<'a>>,
    /// Whether capitals say anything: not so in a text without any lower case letter.
    pub has_case: bool,
    uses: RefCell<Vec<Use>>,
    /// The words in quotation marks.
    quoted: Vec<bool>,
}

/// A number and the index after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quantity {
    pub value: f64,
    pub next: usize,
}

impl<'a> Text<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        let mut words: Vec<Word<'a>> = Vec::new();
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
        let has_case = source.chars().any(char::is_lowercase);
        let uses = RefCell::new(vec![Use::Unread; words.len()]);
        let quoted = quoted(&words);
        Self { source, words, has_case, uses, quoted }
    }

    /// Whether the word is quoted: a title or what somebody says is no term of the goal.
    pub(super) fn is_quoted(&self, at: usize) -> bool {
        self.quoted.get(at).copied().unwrap_or_default()
    }

    /// Notes what the words from `from` to before `to` were read as.
    pub(super) fn note(&self, from: usize, to: usize, read_as: Use) {
        let mut uses = self.uses.borrow_mut();
        let to = to.min(uses.len());
        for held in uses.get_mut(from..to).into_iter().flatten() {
            *held = (*held).max(read_as);
        }
    }

    /// Notes a constraint together with the words that introduce it: `for at most` before `300 EUR`.
    pub(super) fn note_constraint(&self, mut from: usize, to: usize) {
        // Not the end of `check-in`.
        while from > 0 && LEADS.contains(&self.lower(from - 1)) && !self.words[from - 1].glued {
            from -= 1;
        }
        self.note(from, to, Use::Constraint);
    }

    pub(super) fn read_as(&self, at: usize) -> Use {
        self.uses.borrow().get(at).copied().unwrap_or_default()
    }

    pub(super) fn is_constraint(&self, at: usize) -> bool {
        self.read_as(at) == Use::Constraint
    }

    /// The source from the word `from` to before the word `to`.
    pub(super) fn between(&self, from: usize, to: usize) -> &'a str {
        match (self.words.get(from), to.checked_sub(1).and_then(|last| self.words.get(last))) {
            (Some(first), Some(last)) if first.start < last.end => &self.source[first.start..last.end],
            _ => "",
        }
    }

    /// Whether the word ends a sentence or a line.
    pub(super) fn ends_sentence(&self, at: usize) -> bool {
        let Some(word) = self.words.get(at) else { return true };
        match word.lower.as_str() {
            "!" | "?" => true,
            "." => self.words.get(at + 1).is_none_or(|after| !after.glued),
            _ => false,
        }
    }

    /// Whether a line ends before the word.
    pub(super) fn begins_line(&self, at: usize) -> bool {
        let Some(word) = self.words.get(at) else { return true };
        let before = at.checked_sub(1).map_or(0, |i| self.words[i].end);
        self.source[before..word.start].contains('\n')
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

    /// Whether the word begins with a capital that means something.
    pub(super) fn is_capital(&self, index: usize) -> bool {
        self.has_case
            && self
                .words
                .get(index)
                .is_some_and(|w| w.kind == WordKind::Letters && w.text.chars().next().is_some_and(char::is_uppercase))
    }

    /// Whether the word is one that asks for something to be done: `write`, `send`.
    pub(super) fn is_imperative(&self, index: usize) -> bool {
        is_request_verb(self.lower(index))
    }

    /// The index of the word that negates the clause before `index`: `we can't pay more than`; at most eight words back.
    pub(super) fn negation_before(&self, index: usize) -> Option<usize> {
        let is_inside =
            |i: &usize| self.words[*i].kind == WordKind::Letters && !matches!(self.lower(*i), "and" | "but");
        let mut clause = (1..=NEGATION_WORDS_MAX).map_while(|back| index.checked_sub(back).filter(|i| is_inside(i)));
        clause.find(|i| NEGATIONS.contains(&self.lower(*i)))
    }

    /// Whether the clause before `index` is a condition: `when we have less than`, `if it falls below`; at most twelve words back.
    pub(super) fn is_in_condition(&self, index: usize) -> bool {
        let is_inside = |i: &usize| self.words[*i].kind != WordKind::Sign || self.lower(*i) == "%";
        let mut clause = (1..=CONDITION_WORDS_MAX).map_while(|back| index.checked_sub(back).filter(is_inside));
        clause.any(|i| matches!(self.lower(i), "when" | "whenever" | "if" | "once" | "unless"))
    }

    /// Whether a clause begins at `index`: a sentence, a line, or what follows a comma or `and`.
    pub(super) fn begins_clause(&self, index: usize) -> bool {
        self.is_sentence_start(index) && !self.words.get(index).is_some_and(|word| word.glued && index > 0)
            || self.begins_line(index)
            || [",", ";", ")", "–", "—", "and", "but"].contains(&self.before(index, 1))
    }

    /// The words of the clause before `index`, nearest first; a sign ends it, unless it stands inside a word.
    pub(super) fn clause_before(&self, index: usize, words_max: usize) -> impl Iterator<Item = usize> {
        let is_inside = |i: &usize| {
            let is_joint = self.words[*i].glued && self.words.get(i + 1).is_some_and(|next| next.glued);
            self.words[*i].kind != WordKind::Sign || is_joint
        };
        (1..=words_max).map_while(move |back| index.checked_sub(back).filter(is_inside))
    }

    /// What is told of before the verb at `verb`: `a walk-in shower` of `a walk-in shower is a must`, without its article.
    pub(super) fn subject_before(&self, verb: usize) -> Option<usize> {
        let ends = |i: &usize| ["and", "but", "because", "so", "that", "then", "while", "or"].contains(&self.lower(*i));
        let mut first = self.clause_before(verb, SUBJECT_WORDS_MAX).take_while(|i| !ends(i)).last()?;
        while ["a", "an", "the", "our", "my", "any", "all", "some", "please", "also"].contains(&self.lower(first)) {
            first += 1;
        }
        let is_pronoun = ["it", "this", "that", "he", "she", "they", "we", "i", "you", "which", "what", "who", "there"]
            .contains(&self.lower(first));
        (first < verb && !is_pronoun && !self.is_constraint(first)).then_some(first)
    }

    /// The index of the plural that `them` before `index` stands for: `studies, at least 20 of them`; at most 14 words back.
    pub(super) fn plural_before(&self, index: usize) -> Option<usize> {
        const NO_NOUNS: &[&str] = &[
            "this", "his", "its", "always", "sometimes", "does", "minutes", "hours", "days", "weeks", "euros",
            "dollars",
        ];
        let is_plural = |i: &usize| {
            let word = self.lower(*i);
            word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") && !NO_NOUNS.contains(&word)
        };
        // `flashcards for the chapters`: not what stands behind a preposition.
        let is_free = |i: &usize| {
            let is_link = |word: &str| ["for", "of", "in", "to", "from", "on", "by", "at"].contains(&word);
            !is_link(self.before(*i, 1)) && !is_link(self.before(*i, 2))
        };
        (1..=14).map_while(|back| index.checked_sub(back)).find(|i| is_plural(i) && is_free(i))
    }

    /// Whether a sentence begins at `index`.
    pub(super) fn is_sentence_start(&self, index: usize) -> bool {
        index == 0 || [".", "!", "?", ":", "\"", "“", "(", "-", "•"].contains(&self.before(index, 1))
    }

    /// Reads a number at `index`, in digits or in words: `2,000.50`, `twenty-five`, `a thousand`.
    pub(super) fn number(&self, index: usize) -> Option<Quantity> {
        match self.get(index)?.kind {
            WordKind::Number(value) => {
                let after = self.get(index + 1);
                let is_thousands = after.is_some_and(|word| word.glued && word.text == "k");
                let factor = if is_thousands { Some(1_000.0) } else { scale(self.lower(index + 1)) };
                let next = index + 1 + usize::from(factor.is_some());
                Some(Quantity { value: value * factor.unwrap_or(1.0), next })
            }
            WordKind::Letters => self.number_in_words(index),
            WordKind::Sign => None,
        }
    }

    fn number_in_words(&self, index: usize) -> Option<Quantity> {
        // `half a million`
        if self.lower(index) == "half" && self.lower(index + 1) == "a" {
            return scale(self.lower(index + 2)).map(|factor| Quantity { value: factor / 2.0, next: index + 3 });
        }
        let mut next = index;
        let mut total = 0.0;
        let mut part = None;
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
                if factor == 100.0 || factor == 12.0 {
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

/// Longest subject of a clause, in words.
const SUBJECT_WORDS_MAX: usize = 8;

/// Which words stand between two quotation marks, with at least two of them.
fn quoted(words: &[Word]) -> Vec<bool> {
    let mut quoted = vec![false; words.len()];
    let mut open = None;
    for (at, word) in words.iter().enumerate() {
        open = match (word.lower.as_str(), open) {
            ("\"" | "“" | "„", None) | ("“" | "„", Some(_)) => Some(at),
            ("\"" | "”", Some(first)) => {
                if at > first + 2 {
                    quoted[first + 1..at].fill(true);
                }
                None
            }
            (_, open) => open,
        };
    }
    quoted
}

/// Words of a condition before its number, at most.
const CONDITION_WORDS_MAX: usize = 12;

/// Words between a negation and what it negates, at most.
const NEGATION_WORDS_MAX: usize = 8;

const NEGATIONS: &[&str] = &[
    "no", "not", "never", "nobody", "nothing", "without", "don't", "dont", "doesn't", "mustn't", "shouldn't", "cannot",
    "can't", "cant", "wont", "doesnt", "shouldnt", "isn't", "won't", "wouldn't", "avoid", "avoiding",
];

/// Words that introduce a constraint and belong to it.
const LEADS: &[&str] = &[
    "by", "before", "until", "till", "from", "to", "on", "at", "for", "with", "a", "an", "the", "of", "under", "below",
    "within", "max", "maximum", "most", "more", "than", "no", "not", "up", "about", "around", "less", "fewer", "least",
    "minimum", "as", "in", "into", "later", "latest", "earlier", "starting", "beginning", "due", "deadline", "is",
    "over", "next", "this", "coming", "exceeding", "ready", "delivered", "longer", "costing", "starts", "begins",
    "between",
];

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

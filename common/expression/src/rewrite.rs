//! Rewrites expressions before they run, where the template language answers silently.
//!
//! - `a < b` becomes a test that refuses values of different types, also in chains such as `0 < a < 10`.
//! - A path with a `default`, or with `is defined`, may end at any depth: it becomes one look-up that gives "undefined".
//! - What stands for a boolean (`not x`, `x if y`, the parts of a condition) may not be a text that says no, such as
//!   "false", which would count as true.

use std::ops::Range;

use crate::tokens::{Token, Tokens};

/// The filter that follows a path as far as it goes.
pub(crate) const PATH: &str = "path";
/// The filter that refuses texts that say no.
pub(crate) const TRUTH: &str = "truth";

/// Words of the language that join expressions.
const JOINING: &[&str] = &["and", "or", "not", "in", "if", "else", "is"];

/// What the expression becomes; `None` when nothing changes.
///
/// - `text`: what the places of the tokens point into.
/// - `from`: the first token of the expression.
/// - `is_condition`: whether only the truth of the whole counts.
pub(crate) fn rewrite(text: &str, tokens: &Tokens<'_>, from: usize, is_condition: bool) -> Option<String> {
    let concerns = |token: &Token<'_>| match token {
        Token::Sign(c) => matches!(c, '<' | '>'),
        Token::Name(word) => is_default(word) || is_existence(word) || matches!(*word, "and" | "or" | "not" | "if"),
        Token::Text { .. } | Token::Number(_) | Token::Power => false,
    };
    let is_block = is_condition && from > 0;
    if !is_block && !tokens.list[from..].iter().any(concerns) {
        return None;
    }
    let rewriter = Rewriter { text, tokens, ends: closing(&tokens.list)? };
    Some(rewriter.expression(from..tokens.list.len(), is_condition))
}

/// Whether the path that begins at a place may end early.
pub(crate) fn is_covered(tokens: &Tokens<'_>, start: usize) -> bool {
    let Some(ends) = closing(&tokens.list) else { return false };
    let rewriter = Rewriter { text: "", tokens, ends };
    let mut at = start + 1;
    loop {
        at = match rewriter.token(at) {
            Some(Token::Sign('.')) => at + 2,
            Some(Token::Sign('[')) => rewriter.ends[at] + 1,
            _ => return rewriter.is_covered(at, tokens.list.len()),
        };
    }
}

/// The comparisons of an expression: what stands left, the operator, what stands right.
pub(crate) fn comparisons(tokens: &Tokens<'_>, range: Range<usize>) -> Vec<[Range<usize>; 3]> {
    let Some(ends) = closing(&tokens.list) else { return Vec::new() };
    let rewriter = Rewriter { text: "", tokens, ends };
    let mut found = Vec::new();
    rewriter.collect(range, &mut found);
    found
}

/// The places of closing brackets by those of their opening ones; `None` when they do not match.
fn closing(list: &[Token<'_>]) -> Option<Vec<usize>> {
    let mut ends = vec![0; list.len()];
    let mut open = Vec::new();
    for (at, token) in list.iter().enumerate() {
        match token {
            Token::Sign('(' | '[' | '{') => open.push(at),
            Token::Sign(')' | ']' | '}') => ends[open.pop()?] = at,
            Token::Sign(_) | Token::Name(_) | Token::Text { .. } | Token::Number(_) | Token::Power => {}
        }
    }
    open.is_empty().then_some(ends)
}

fn is_default(word: &str) -> bool {
    matches!(word, "default" | "d")
}

/// Whether a word joins expressions.
pub(crate) fn is_joining(word: &str) -> bool {
    JOINING.contains(&word)
}

fn is_existence(word: &str) -> bool {
    matches!(word, "defined" | "undefined")
}

struct Rewriter<'t> {
    text: &'t str,
    tokens: &'t Tokens<'t>,
    ends: Vec<usize>,
}

/// A comparison: where its operator stands, with how many tokens.
struct Operator {
    at: Range<usize>,
    /// The test that takes its place.
    test: Option<&'static str>,
}

impl Rewriter<'_> {
    fn token(&self, at: usize) -> Option<Token<'_>> {
        self.tokens.list.get(at).copied()
    }

    /// The word of the language at a place, if it is not a name there.
    fn word(&self, at: usize) -> Option<&str> {
        let Some(Token::Name(word)) = self.token(at) else { return None };
        let before = at.checked_sub(1).and_then(|at| self.token(at));
        let is_test = match before {
            Some(Token::Name("is")) => word != "not",
            Some(Token::Name("not")) => at >= 2 && self.token(at - 2) == Some(Token::Name("is")),
            _ => false,
        };
        let is_name = is_test || matches!(before, Some(Token::Sign('.' | '|')));
        (is_joining(word) && !is_name).then_some(word)
    }

    /// The places outside of brackets.
    fn top(&self, range: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let found = (at < range.end).then_some(at)?;
            at = self.ends[found].max(found) + 1;
            Some(found)
        })
    }

    fn find(&self, range: Range<usize>, word: &str) -> Option<usize> {
        self.top(range).find(|at| self.word(*at) == Some(word))
    }

    fn expression(&self, range: Range<usize>, is_condition: bool) -> String {
        let Some(at) = self.find(range.clone(), "if") else { return self.any(range, is_condition, "or") };
        let value = self.any(range.start..at, false, "or");
        match self.find(at + 1..range.end, "else") {
            Some(other) => {
                let condition = self.expression(at + 1..other, true);
                format!("{value} if {condition} else {}", self.expression(other + 1..range.end, is_condition))
            }
            None => format!("{value} if {}", self.expression(at + 1..range.end, true)),
        }
    }

    /// Parts that are joined by `or`, or else by `and`.
    fn any(&self, range: Range<usize>, is_condition: bool, word: &str) -> String {
        let mut parts = Vec::new();
        let mut from = range.start;
        for at in self.top(range.clone()).filter(|at| self.word(*at) == Some(word)).chain([range.end]) {
            parts.push(if word == "or" {
                self.any(from..at, is_condition, "and")
            } else {
                self.negation(from..at, is_condition)
            });
            from = at + 1;
        }
        parts.join(&format!(" {word} "))
    }

    fn negation(&self, range: Range<usize>, is_condition: bool) -> String {
        if !range.is_empty() && self.word(range.start) == Some("not") {
            return format!("not {}", self.negation(range.start + 1..range.end, true));
        }
        self.comparison(range, is_condition)
    }

    fn comparison(&self, range: Range<usize>, is_condition: bool) -> String {
        let operators = self.operators(range.clone());
        if operators.is_empty() {
            return self.truth(range, is_condition);
        }
        let mut operands = Vec::new();
        let mut from = range.start;
        for Operator { at, .. } in &operators {
            operands.push(self.operand(from..at.start));
            from = at.end;
        }
        operands.push(self.operand(from..range.end));
        let pair = |n: usize| {
            let (operator, left, right) = (&operators[n], &operands[n], &operands[n + 1]);
            match operator.test {
                Some(test) => format!("({left}) is {test} ({right})"),
                None => format!("{left} {} {right}", self.plain(operator.at.clone())),
            }
        };
        if operators.iter().all(|operator| operator.test.is_none()) {
            return (0..operators.len()).fold(operands[0].clone(), |text, n| {
                format!("{text} {} {}", self.plain(operators[n].at.clone()), operands[n + 1])
            });
        }
        let pairs: Vec<String> = (0..operators.len()).map(pair).collect();
        if pairs.len() == 1 { pairs.concat() } else { format!("({})", pairs.join(" and ")) }
    }

    fn operators(&self, range: Range<usize>) -> Vec<Operator> {
        let mut found: Vec<Operator> = Vec::new();
        for at in self.top(range) {
            if found.last().is_some_and(|last| last.at.contains(&at)) {
                continue;
            }
            let joined = self.tokens.is_joined(at + 1).then(|| self.token(at + 1)).flatten();
            let (length, test) = match (self.token(at), joined) {
                (Some(Token::Sign('<')), Some(Token::Sign('='))) => (2, Some("le")),
                (Some(Token::Sign('>')), Some(Token::Sign('='))) => (2, Some("ge")),
                (Some(Token::Sign('<')), _) => (1, Some("lt")),
                (Some(Token::Sign('>')), _) => (1, Some("gt")),
                (Some(Token::Sign('=' | '!')), Some(Token::Sign('='))) => (2, None),
                _ => match self.word(at) {
                    Some("in") => (1, None),
                    Some("not") => (2, None),
                    _ => continue,
                },
            };
            found.push(Operator { at: at..at + length, test });
        }
        found
    }

    /// Collects comparisons, also those inside of brackets.
    fn collect(&self, range: Range<usize>, found: &mut Vec<[Range<usize>; 3]>) {
        let is_end = |at: usize| {
            let word = matches!(self.word(at), Some("and" | "or" | "if" | "else"))
                || self.word(at) == Some("not") && self.word(at + 1) != Some("in");
            let sign = matches!(self.token(at), Some(Token::Sign(',' | ':')));
            word || sign || self.token(at) == Some(Token::Sign('=')) && self.is_assignment(at)
        };
        let mut from = range.start;
        for end in self.top(range.clone()).filter(|at| is_end(*at)).chain([range.end]) {
            let operators = self.operators(from..end);
            let mut left = from;
            for (n, operator) in operators.iter().enumerate() {
                let next = operators.get(n + 1).map_or(end, |next| next.at.start);
                found.push([left..operator.at.start, operator.at.clone(), operator.at.end..next]);
                left = operator.at.end;
            }
            from = end + 1;
        }
        for open in self.top(range).filter(|at| self.ends[*at] > 0) {
            self.collect(open + 1..self.ends[open], found);
        }
    }

    /// A value that stands for a boolean, where it does.
    fn truth(&self, range: Range<usize>, is_condition: bool) -> String {
        if !is_condition || range.is_empty() {
            return self.operand(range);
        }
        let is_group = self.token(range.start) == Some(Token::Sign('(')) && self.ends[range.start] + 1 == range.end;
        if is_group && !self.has_comma(range.start + 1..range.end - 1) {
            return format!("({})", self.expression(range.start + 1..range.end - 1, true));
        }
        let is_test = self.find(range.clone(), "is").is_some();
        let operand = self.operand(range);
        if is_test { operand } else { format!("(({operand}) | {TRUTH})") }
    }

    fn has_comma(&self, range: Range<usize>) -> bool {
        self.top(range).any(|at| self.token(at) == Some(Token::Sign(',')))
    }

    /// What the operators above stand between: values, paths, filters, arithmetic.
    fn operand(&self, range: Range<usize>) -> String {
        let mut out = String::new();
        let mut at = range.start;
        while at < range.end {
            if at > range.start && !self.tokens.is_joined(at) {
                out.push(' ');
            }
            if let Some((path, end)) = self.covered_path(at, range.end) {
                out.push_str(&path);
                at = end;
            } else if self.ends[at] > 0 {
                out.push_str(&self.group(at));
                at = self.ends[at] + 1;
            } else {
                out.push_str(&self.text[self.tokens.places[at].clone()]);
                at += 1;
            }
        }
        out
    }

    /// Brackets with what is inside: expressions between commas, colons and the `=` of named arguments.
    fn group(&self, open: usize) -> String {
        let close = self.ends[open];
        let mut out = self.plain(open..open + 1).to_owned();
        let mut from = open + 1;
        for at in self.top(open + 1..close).chain([close]) {
            let is_end = match self.token(at) {
                Some(Token::Sign(',' | ':')) => true,
                Some(Token::Sign('=')) => self.is_assignment(at),
                _ => at == close,
            };
            if is_end {
                out.push_str(&self.expression(from..at, false));
                out.push_str(self.plain(at..at + 1));
                if at != close && self.token(at) == Some(Token::Sign(',')) {
                    out.push(' ');
                }
                from = at + 1;
            }
        }
        out
    }

    /// Whether a `=` gives a named argument, and is no part of an operator.
    fn is_assignment(&self, at: usize) -> bool {
        let is_sign = |at: usize| matches!(self.token(at), Some(Token::Sign('=' | '!' | '<' | '>')));
        let is_operator =
            self.tokens.is_joined(at) && is_sign(at - 1) || self.tokens.is_joined(at + 1) && is_sign(at + 1);
        !is_operator
    }

    fn plain(&self, range: Range<usize>) -> &str {
        let places = &self.tokens.places;
        &self.text[places[range.start].start..places[range.end - 1].end]
    }

    /// A path that begins here and has a default, as one look-up, and where it ends.
    fn covered_path(&self, start: usize, end: usize) -> Option<(String, usize)> {
        let before = start.checked_sub(1).and_then(|at| self.token(at));
        if matches!(before, Some(Token::Sign('.' | '|') | Token::Name("is"))) || self.word(start).is_some() {
            return None;
        }
        let (base, mut at) = match self.token(start)? {
            Token::Name(name) => (name.to_owned(), start + 1),
            Token::Sign('(') => (self.group(start), self.ends[start] + 1),
            Token::Sign(_) | Token::Text { .. } | Token::Number(_) | Token::Power => return None,
        };
        let mut parts = Vec::new();
        while at < end {
            match (self.token(at)?, self.token(at + 1)) {
                (Token::Sign('.'), Some(Token::Name(name))) => {
                    parts.push(format!("'{name}'"));
                    at += 2;
                }
                (Token::Sign('.'), Some(Token::Number(number))) => {
                    parts.push(number.to_owned());
                    at += 2;
                }
                (Token::Sign('['), Some(_)) if self.is_index(at) => {
                    parts.push(self.expression(at + 1..self.ends[at], false));
                    at = self.ends[at] + 1;
                }
                _ => break,
            }
        }
        let is_covered = !parts.is_empty() && self.is_covered(at, end);
        is_covered.then(|| (format!("({base} | {PATH}({}))", parts.join(", ")), at))
    }

    /// Whether brackets hold one index, and no slice.
    fn is_index(&self, open: usize) -> bool {
        let inside = open + 1..self.ends[open];
        !inside.is_empty() && !self.top(inside).any(|at| matches!(self.token(at), Some(Token::Sign(':' | ','))))
    }

    /// Whether `default` or `is defined` follows, perhaps after other filters.
    fn is_covered(&self, mut at: usize, end: usize) -> bool {
        while at + 1 < end && self.token(at) == Some(Token::Sign('|')) {
            match self.token(at + 1) {
                Some(Token::Name(name)) if is_default(name) => return true,
                _ => at += 2,
            }
            if self.token(at) == Some(Token::Sign('(')) {
                at = self.ends[at] + 1;
            }
        }
        let test = match self.word(at).filter(|_| at < end) {
            Some("is") if self.token(at + 1) == Some(Token::Name("not")) => self.token(at + 2),
            Some("is") => self.token(at + 1),
            _ => None,
        };
        matches!(test, Some(Token::Name(name)) if is_existence(name))
    }
}

//! Splits expressions into tokens.

use std::ops::Range;

use crate::{ExpressionError, invalid};

/// Most tokens of one `{{ … }}` or `{% … %}`.
const TOKENS_MAX: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    /// A word.
    Name(&'a str),
    /// Without its quotes; `plain` when no escapes are in it.
    Text { text: &'a str, plain: bool },
    /// Digits.
    Number(&'a str),
    /// `**`.
    Power,
    /// One character of punctuation.
    Sign(char),
}

/// The tokens of one expression, and where each of them stands in its text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens<'a> {
    pub(crate) list: Vec<Token<'a>>,
    pub(crate) places: Vec<Range<usize>>,
}

impl Tokens<'_> {
    /// Whether a token follows the one before it without a space.
    pub(crate) fn is_joined(&self, at: usize) -> bool {
        at > 0 && at < self.places.len() && self.places[at - 1].end == self.places[at].start
    }
}

/// Splits into tokens up to `end` outside of brackets; says where `end` (with its dash) begins.
pub(crate) fn tokens<'a>(text: &'a str, end: Option<&str>) -> Result<(Tokens<'a>, usize), ExpressionError> {
    let mut out = Tokens::default();
    let mut open = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let c = rest.chars().next().expect("inside the text");
        if let Some(end) = end
            && open == 0
        {
            if rest.starts_with(end) {
                return Ok((out, at));
            }
            if matches!(c, '-' | '+') && rest[1..].starts_with(end) {
                return Ok((out, at + 1));
            }
        }
        if out.list.len() >= TOKENS_MAX {
            return Err(invalid(format!(
                "an expression has more than {TOKENS_MAX} parts; split it over several steps"
            )));
        }
        let (token, length) = match c {
            c if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            'a'..='z' | 'A'..='Z' | '_' => {
                let length = run_length(rest, |c| c.is_ascii_alphanumeric() || c == '_');
                (Token::Name(&rest[..length]), length)
            }
            '0'..='9' => {
                let length = run_length(rest, |c| c.is_ascii_digit() || c == '_');
                (Token::Number(&rest[..length]), length)
            }
            '"' | '\'' => {
                let (length, plain) = quoted(rest, c)?;
                (Token::Text { text: &rest[1..length - 1], plain }, length)
            }
            '*' if rest[1..].starts_with('*') => (Token::Power, 2),
            c if c.is_ascii_punctuation() => {
                match c {
                    '(' | '[' | '{' => open += 1,
                    ')' | ']' | '}' => open = open.saturating_sub(1),
                    _ => {}
                }
                (Token::Sign(c), 1)
            }
            c => return Err(invalid(format!("unexpected character `{c}`"))),
        };
        out.list.push(token);
        out.places.push(at..at + length);
        at += length;
    }
    match end {
        Some(end) => Err(invalid(format!("an expression is not closed with `{end}`"))),
        None => Ok((out, at)),
    }
}

fn run_length(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

/// Length of a quoted text with its quotes, and whether it has no escapes.
fn quoted(text: &str, quote: char) -> Result<(usize, bool), ExpressionError> {
    let mut plain = true;
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            plain = false;
            chars.next();
        } else if c == quote {
            return Ok((at + 1, plain));
        }
    }
    Err(invalid("a quoted text does not end"))
}

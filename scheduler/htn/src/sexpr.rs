//! Parses s-expressions with source locations, with bounded nesting and size and without recursion.

use crate::model::{ParseError, SourceLocation};

/// Deepest nesting that is read; later passes recurse over it.
const DEPTH_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SexprKind {
    Word(String),
    List(Vec<Sexpr>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sexpr {
    pub place: SourceLocation,
    pub node: SexprKind,
}

impl Sexpr {
    pub fn word(&self) -> Option<&str> {
        match &self.node {
            SexprKind::Word(word) => Some(word),
            SexprKind::List(_) => None,
        }
    }

    pub fn list(&self) -> Option<&[Sexpr]> {
        match &self.node {
            SexprKind::Word(_) => None,
            SexprKind::List(items) => Some(items),
        }
    }

    /// The first word of a list, in lower case.
    pub fn head(&self) -> Option<String> {
        self.list()?.first()?.word().map(str::to_ascii_lowercase)
    }

    pub fn expect_word(&self, what: &str) -> Result<&str, ParseError> {
        self.word().ok_or_else(|| self.wrong(format!("a list stands where {what} is expected; write a word")))
    }

    pub fn expect_list(&self, what: &str) -> Result<&[Sexpr], ParseError> {
        self.list().ok_or_else(|| {
            self.wrong(format!(
                "`{}` stands where {what} is expected; put it in brackets",
                self.word().unwrap_or_default()
            ))
        })
    }

    pub fn wrong(&self, detail: impl Into<String>) -> ParseError {
        ParseError::new(self.place, detail)
    }
}

/// Reads the one expression that the text holds; `;` begins a comment.
pub(crate) fn parse_sexpr(text: &str) -> Result<Sexpr, ParseError> {
    let mut open: Vec<(SourceLocation, Vec<Sexpr>)> = Vec::new();
    let mut root: Option<Sexpr> = None;
    let mut place = SourceLocation { line: 1, column: 1 };
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let here = place;
        let taken = match next {
            ';' => rest.find('\n').unwrap_or(rest.len()),
            '(' | ')' => 1,
            c if c.is_whitespace() => c.len_utf8(),
            _ => rest.find(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ';')).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(taken);
        rest = after;
        for c in token.chars() {
            if c == '\n' {
                place = SourceLocation { line: place.line + 1, column: 1 };
            } else {
                place.column += 1;
            }
        }
        let done = match next {
            '(' if open.len() == DEPTH_MAX => {
                return Err(ParseError::new(here, format!("brackets are nested more than {DEPTH_MAX} deep")));
            }
            '(' => {
                open.push((here, Vec::new()));
                continue;
            }
            ')' => match open.pop() {
                Some((place, items)) => Sexpr { place, node: SexprKind::List(items) },
                // Some published problems end in a bracket too many.
                None if root.is_some() => continue,
                None => return Err(ParseError::new(here, "`)` closes nothing")),
            },
            c if c == ';' || c.is_whitespace() => continue,
            _ => Sexpr { place: here, node: SexprKind::Word(token.to_owned()) },
        };
        match open.last_mut() {
            Some((_, items)) => items.push(done),
            None if root.is_none() => root = Some(done),
            None => return Err(done.wrong("there is more text after the end of the definition; delete it")),
        }
    }
    match (open.pop(), root) {
        (Some((place, _)), _) => Err(ParseError::new(place, "`(` is never closed")),
        (None, Some(root)) => Ok(root),
        (None, None) => Err(ParseError::new(place, "the text is empty; `(define …)` is expected")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_columns_from_one() {
        let read = parse_sexpr("; a comment\n (a\n  (b c))").expect("the brackets match");
        let items = read.list().expect("it is a list");
        assert_eq!(read.place, SourceLocation { line: 2, column: 2 });
        assert_eq!(items[1].place, SourceLocation { line: 3, column: 3 });
        assert_eq!(items[1].list().map(<[Sexpr]>::len), Some(2));
    }

    #[test]
    fn faults_are_told_with_their_place() {
        for (text, told) in [
            ("", "1:1: the text is empty; `(define …)` is expected"),
            ("(a\n (b)", "1:1: `(` is never closed"),
            (" )", "1:2: `)` closes nothing"),
            ("(a) b", "1:5: there is more text after the end of the definition; delete it"),
        ] {
            assert_eq!(parse_sexpr(text).map_err(|e| e.to_string()), Err(told.to_owned()));
        }
        assert!(parse_sexpr(&"(".repeat(1_000)).is_err_and(|e| e.to_string().contains("nested")));
        assert!(parse_sexpr("(a (é ü))").is_ok());
    }
}

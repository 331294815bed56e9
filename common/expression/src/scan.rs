//! Reads the tokens of a template without running it: what it may use, and which steps it sees.
//!
//! Deliberately stricter than the template language: whatever cannot be told from the text alone is refused,
//! so that nothing can grow without limit and no step is seen that the text does not name.

use crate::{ExpressionError, StepRef, filters};

/// Most tokens of one `{{ … }}` or `{% … %}`.
const TOKENS_MAX: usize = 200;
/// Most `{{ … }}` and `{% … %}` of one text.
const REGIONS_MAX: usize = 1_000;
/// Most `for` and `if` around one place, and most `elif` of one text.
const DEPTH_MAX: usize = 16;

/// Which names a text may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SeenNames {
    /// Those of a plan: `goal` and `steps.ID`.
    #[default]
    Plan,
    /// Those that the caller gives values.
    Any,
}

/// What the text of a template shows.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    names: SeenNames,
    pub refs: Vec<StepRef>,
    pub uses_goal: bool,
    /// Whether the step's own inputs are spoken of; only cache keys see them.
    pub uses_inputs: bool,
    pub has_loop: bool,
    /// Whether there is only one expression and it is a path, such as `steps.a.outputs.x`: certainly well formed.
    pub is_path: bool,
    /// The inside of the only expression, when there is nothing else in the text.
    pub whole: Option<std::ops::Range<usize>>,
}

impl Scan {
    /// The work units of a text that sees so many bytes of data. A loop has fewer over much data, because each of its
    /// turns may look at all of it.
    pub fn fuel(&self, fuel: u64, bytes: usize) -> u64 {
        let share = if self.has_loop { 1 + bytes as u64 / (64 << 10) } else { 1 };
        (fuel / share).max(1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    Name(&'a str),
    /// Without its quotes; `plain` when no escapes are in it.
    Text {
        text: &'a str,
        plain: bool,
    },
    Number,
    Power,
    Sign(char),
}

/// Scans a text with `{{ … }}` and `{% … %}` in it.
pub(crate) fn template(text: &str, names: SeenNames) -> Result<Scan, ExpressionError> {
    let mut scan = Scan { names, ..Scan::default() };
    let mut blocks = Blocks::default();
    let mut regions = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find('{') {
        let open = at + found;
        let is_block = match text.as_bytes().get(open + 1) {
            Some(b'{') => false,
            Some(b'%') => true,
            Some(b'#') => {
                let Some(end) = text[open + 2..].find("#}") else {
                    return Err(invalid(
                        "`{#` opens a comment that never ends; for the characters, write `{{ '{#' }}`",
                    ));
                };
                at = open + 2 + end + 2;
                continue;
            }
            _ => {
                at = open + 1;
                continue;
            }
        };
        regions += 1;
        if regions > REGIONS_MAX {
            return Err(invalid(format!("more than {REGIONS_MAX} expressions in one text")));
        }
        let inside = open + 2 + usize::from(matches!(text.as_bytes().get(open + 2), Some(b'-' | b'+')));
        let (tokens, end) = tokens(&text[inside..], Some(if is_block { "%}" } else { "}}" }))?;
        let close = inside + end;
        at = close + 2;
        if !is_block {
            if text[..open].trim().is_empty() && text[at..].trim().is_empty() {
                // The dash of `-}}` belongs to the braces.
                let length = text[inside..close].trim_end_matches(['-', '+']).len();
                scan.whole = Some(inside..inside + length);
                scan.is_path = is_path(&tokens);
            }
            check(&tokens, &mut scan)?;
            continue;
        }
        if blocks.enter(&tokens, &mut scan)? {
            let Some(end) = raw_end(&text[at..]) else {
                return Err(invalid("`{% raw %}` without `{% endraw %}`"));
            };
            at += end;
        }
    }
    Ok(scan)
}

/// Scans a bare expression.
pub(crate) fn bare(text: &str, names: SeenNames) -> Result<Scan, ExpressionError> {
    let mut scan = Scan { names, ..Scan::default() };
    let (tokens, _) = tokens(text, None)?;
    check(&tokens, &mut scan)?;
    scan.is_path = is_path(&tokens);
    Ok(scan)
}

/// Where a raw section ends, past its closing tag.
fn raw_end(text: &str) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find("{%") {
        let start = at + found + 2;
        let rest = text[start..].trim_start_matches(['-', '+']).trim_start();
        if let Some(tail) = rest.strip_prefix("endraw") {
            let tail = tail.trim_start().trim_start_matches(['-', '+']);
            if let Some(after) = tail.strip_prefix("%}") {
                return Some(text.len() - after.len());
            }
        }
        at = start;
    }
    None
}

/// Splits into tokens up to `end` outside of brackets; says where `end` (with its dash) begins.
fn tokens<'a>(text: &'a str, end: Option<&str>) -> Result<(Vec<Token<'a>>, usize), ExpressionError> {
    let mut out = Vec::new();
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
        if out.len() >= TOKENS_MAX {
            return Err(invalid(format!(
                "an expression has more than {TOKENS_MAX} parts; split it over several steps"
            )));
        }
        let length = match c {
            c if c.is_whitespace() => c.len_utf8(),
            'a'..='z' | 'A'..='Z' | '_' => {
                let length = run(rest, |c| c.is_ascii_alphanumeric() || c == '_');
                out.push(Token::Name(&rest[..length]));
                length
            }
            '0'..='9' => {
                out.push(Token::Number);
                run(rest, |c| c.is_ascii_digit() || c == '_')
            }
            '"' | '\'' => {
                let (length, plain) = quoted(rest, c)?;
                out.push(Token::Text { text: &rest[1..length - 1], plain });
                length
            }
            '*' if rest[1..].starts_with('*') => {
                out.push(Token::Power);
                2
            }
            c if c.is_ascii_punctuation() => {
                match c {
                    '(' | '[' | '{' => open += 1,
                    ')' | ']' | '}' => open = open.saturating_sub(1),
                    _ => {}
                }
                out.push(Token::Sign(c));
                1
            }
            c => return Err(invalid(format!("unexpected character `{c}`"))),
        };
        at += length;
    }
    match end {
        Some(end) => Err(invalid(format!("an expression is not closed with `{end}`"))),
        None => Ok((out, at)),
    }
}

fn run(text: &str, belongs: impl Fn(char) -> bool) -> usize {
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

/// The blocks that are open.
#[derive(Default)]
struct Blocks {
    open: usize,
    elifs: usize,
}

impl Blocks {
    /// Checks a `{% … %}`; says whether it opens raw text.
    fn enter(&mut self, tokens: &[Token<'_>], scan: &mut Scan) -> Result<bool, ExpressionError> {
        let Some((Token::Name(word), rest)) = tokens.split_first().map(|(first, rest)| (*first, rest)) else {
            return Err(invalid("`{% %}` needs one of `if`, `elif`, `else`, `endif`, `for`, `endfor`, `raw`"));
        };
        match word {
            "raw" if rest.is_empty() => return Ok(true),
            "else" | "break" | "continue" => {}
            "endif" | "endfor" => self.open = self.open.saturating_sub(1),
            "if" | "elif" => {
                if word == "if" {
                    self.open += 1;
                } else {
                    self.elifs += 1;
                }
                check(rest, scan)?;
            }
            "for" => {
                self.open += 1;
                scan.has_loop = true;
                check_loop(rest, scan)?;
            }
            other => {
                return Err(invalid(format!(
                    "`{{% {other} %}}` is not available; use `if`, `for`, or another step for it"
                )));
            }
        }
        if self.open > DEPTH_MAX || self.elifs > DEPTH_MAX {
            return Err(invalid(format!("more than {DEPTH_MAX} blocks inside each other")));
        }
        Ok(false)
    }
}

/// A loop goes over a path in the data, never over something computed: so nothing can grow from turn to turn.
fn check_loop(tokens: &[Token<'_>], scan: &mut Scan) -> Result<(), ExpressionError> {
    let Some(at) = tokens.iter().position(|t| *t == Token::Name("in")) else {
        return Err(invalid("write `{% for x in steps.a.outputs.list %}`"));
    };
    let condition = tokens.iter().position(|t| *t == Token::Name("if")).unwrap_or(tokens.len());
    let path = tokens.get(at + 1..condition).unwrap_or_default();
    let path = path.strip_suffix(&[Token::Sign('|'), Token::Name("items")]).unwrap_or(path);
    let is_path = !path.is_empty()
        && path.iter().all(|t| match t {
            Token::Name(word) => *word != "recursive",
            Token::Text { .. } | Token::Number => true,
            Token::Sign(c) => matches!(c, '.' | '[' | ']'),
            Token::Power => false,
        })
        && matches!(path[0], Token::Name(_));
    if !is_path || tokens.contains(&Token::Name("recursive")) {
        return Err(invalid("a loop goes over a plain path, as in `{% for x in steps.a.outputs.list %}`"));
    }
    check(path, scan)?;
    check(tokens.get(condition + 1..).unwrap_or_default(), scan)
}

fn is_path(tokens: &[Token<'_>]) -> bool {
    let Some((Token::Name("steps" | "goal"), mut rest)) = tokens.split_first() else {
        return false;
    };
    loop {
        rest = match rest {
            [] => return true,
            [Token::Sign('.'), Token::Name(_), rest @ ..] => rest,
            [Token::Sign('['), Token::Text { plain: true, .. }, Token::Sign(']'), rest @ ..] => rest,
            _ => return false,
        };
    }
}

/// Words that may stand before a bracket without being called.
const KEYWORDS: &[&str] = &["and", "or", "not", "in", "if", "else", "elif", "is"];

fn check(tokens: &[Token<'_>], scan: &mut Scan) -> Result<(), ExpressionError> {
    let mut multiplies = false;
    let mut builds = false;
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map(|i| tokens[i]);
        let after = tokens.get(at + 1).copied();
        match *token {
            Token::Sign('*') => multiplies = true,
            Token::Sign('~') => builds = true,
            Token::Text { .. } => builds |= before != Some(Token::Sign('[')) || after != Some(Token::Sign(']')),
            Token::Name(word) => match before {
                Some(Token::Sign('.')) if after == Some(Token::Sign('(')) => {
                    return Err(invalid(format!("`.{word}()` is not available; use a filter, as in `x | {word}`")));
                }
                Some(Token::Sign('.')) => {}
                Some(Token::Sign('|')) => {
                    filters::check_filter(word).map_err(invalid)?;
                    builds |= !filters::ARITHMETIC.contains(&word);
                }
                Some(Token::Name("is")) if word != "not" => filters::check_test(word).map_err(invalid)?,
                Some(Token::Name("not")) if at >= 2 && tokens[at - 2] == Token::Name("is") => {
                    filters::check_test(word).map_err(invalid)?;
                }
                _ if word == "steps" && scan.names == SeenNames::Plan => scan.refs.push(step(&tokens[at + 1..])?),
                _ if word == "goal" => scan.uses_goal = true,
                _ if word == "inputs" => scan.uses_inputs = true,
                _ if after == Some(Token::Sign('(')) && !KEYWORDS.contains(&word) => {
                    return Err(invalid(format!("there is no function `{word}`; filters are written `x | {word}`")));
                }
                _ => {}
            },
            Token::Sign(_) | Token::Number | Token::Power => {}
        }
    }
    if multiplies && builds {
        return Err(invalid(
            "`*` cannot stand beside text, `~` or text filters; compute in one expression, format in another",
        ));
    }
    Ok(())
}

/// The step that is named after `steps`.
fn step(rest: &[Token<'_>]) -> Result<StepRef, ExpressionError> {
    let (id, rest) = match rest {
        [Token::Sign('.'), Token::Name(id), rest @ ..] => (*id, rest),
        [Token::Sign('['), Token::Text { text, plain: true }, Token::Sign(']'), rest @ ..] => (*text, rest),
        _ => {
            return Err(invalid("name the step itself, as in `steps.flights.outputs` or `steps['step-1'].outputs`"));
        }
    };
    let field = match rest {
        [Token::Sign('.'), Token::Name(field), ..]
        | [Token::Sign('['), Token::Text { text: field, plain: true }, Token::Sign(']'), ..] => Some(*field),
        _ => None,
    };
    match field {
        None | Some("outputs" | "status" | "partial") => {}
        Some(other) => {
            // `steps.step-1.outputs` reads as a subtraction.
            return Err(invalid(format!(
                "a step has `outputs`, `status` and `partial`, not `{other}`: write `steps['{id}'].outputs.{other}`"
            )));
        }
    }
    if field.is_none() && rest.first() == Some(&Token::Sign('-')) {
        return Err(invalid(format!("a step id with a dash is written in brackets, as in `steps['{id}-…'].outputs`")));
    }
    Ok(StepRef { step: id.into(), field: field.map(str::to_owned) })
}

fn invalid(message: impl Into<String>) -> ExpressionError {
    ExpressionError::new("INVALID_EXPRESSION", message)
}

//! The paths and literals of expressions.

use goalmill_common::status::StepStatus;

use crate::tokens::{Token, Tokens};
use crate::{ExpressionError, hints, invalid};

/// Whether there is only a path, such as `steps.a.outputs.x`.
pub(crate) fn is_path(tokens: &[Token<'_>], locals: &[String]) -> bool {
    let Some((Token::Name(root), mut rest)) = tokens.split_first() else { return false };
    if !is_root(root, locals) {
        return false;
    }
    loop {
        rest = match rest {
            [] => return true,
            [Token::Sign('.'), Token::Name(_), rest @ ..] => rest,
            [Token::Sign('['), Token::Text { plain: true, .. }, Token::Sign(']'), rest @ ..] => rest,
            _ => return false,
        };
    }
}

/// The path that is all there is, perhaps with a default.
pub(crate) fn passed_on(list: &[Token<'_>], locals: &[String]) -> Option<Vec<String>> {
    let (parts, end) = path_parts(list, locals)?;
    match &list[end..] {
        [] | [Token::Sign('|'), Token::Name("default" | "d")] => Some(parts),
        [Token::Sign('|'), Token::Name("default" | "d"), Token::Sign('('), rest @ .., Token::Sign(')')] => {
            rest.iter().all(|t| !matches!(t, Token::Sign('(' | ')' | ',' | '='))).then_some(parts)
        }
        _ => None,
    }
}

/// The parts of a path as far as the text tells them, and where they end.
///
/// - `locals`: names that begin a path besides `steps`, `goal` and `inputs`.
pub(crate) fn path_parts(list: &[Token<'_>], locals: &[String]) -> Option<(Vec<String>, usize)> {
    let Some(Token::Name(root)) = list.first() else { return None };
    if !is_root(root, locals) {
        return None;
    }
    let mut parts = vec![(*root).to_owned()];
    let mut at = 1;
    loop {
        let (part, length) = match &list[at..] {
            [Token::Sign('.'), Token::Name(name) | Token::Number(name), ..] => (*name, 2),
            [Token::Sign('['), Token::Text { text, plain: true }, Token::Sign(']'), ..] => (*text, 3),
            [Token::Sign('['), Token::Number(number), Token::Sign(']'), ..] => (*number, 3),
            _ => return Some((parts, at)),
        };
        parts.push(part.to_owned());
        at += length;
    }
}

fn is_root(name: &str, locals: &[String]) -> bool {
    matches!(name, "steps" | "goal" | "inputs") || locals.iter().any(|local| local == name)
}

/// Refuses numbers that 64 bits do not hold: they would be rounded.
pub(crate) fn check_number(tokens: &Tokens<'_>, at: usize, digits: &str) -> Result<(), ExpressionError> {
    let next = if tokens.is_joined(at + 1) { tokens.list.get(at + 1) } else { None };
    let is_fraction = at > 0 && tokens.is_joined(at) && tokens.list[at - 1] == Token::Sign('.');
    let digits = digits.replace('_', "");
    let fits = match next {
        _ if is_fraction => true,
        Some(Token::Sign('.')) => true,
        Some(Token::Name(exponent)) => format!("{digits}{exponent}").parse::<f64>().map_or(true, f64::is_finite),
        _ => digits.parse::<u64>().is_ok(),
    };
    if fits { Ok(()) } else { Err(invalid(format!("the number `{digits}` does not fit into 64 bits"))) }
}

/// Refuses the comparison of a status with a word that is none.
///
/// - `list`: begins with `steps`.
/// - `before`: what stands before it.
pub(crate) fn check_status(list: &[Token<'_>], before: &[Token<'_>]) -> Result<(), ExpressionError> {
    let end = path_parts(list, &[]).map_or(list.len(), |(_, end)| end);
    let after = match &list[end..] {
        [Token::Sign('=' | '!'), Token::Sign('='), rest @ ..] => &rest[..rest.len().min(1)],
        [Token::Name("in"), rest @ ..] | [Token::Name("not"), Token::Name("in"), rest @ ..] => rest,
        [Token::Name("is"), Token::Name("not"), Token::Name(_), rest @ ..] => rest,
        [Token::Name("is"), Token::Name(_), rest @ ..] => rest,
        _ => &[],
    };
    let mut words: Vec<&str> = Vec::new();
    for token in after {
        match token {
            Token::Text { text, .. } => words.push(text),
            Token::Sign('(' | '[' | ',') => {}
            Token::Sign(_) | Token::Name(_) | Token::Number(_) | Token::Power => break,
        }
    }
    if let [Token::Text { text, .. }, Token::Sign('=' | '!'), Token::Sign('=')] = before {
        words.push(text);
    }
    match words.into_iter().find(|word| StepStatus::parse(word).is_none()) {
        Some(wrong) => Err(invalid(format!("a step has no status `{wrong}`; {}", hints::status_instead_of(wrong)))),
        None => Ok(()),
    }
}

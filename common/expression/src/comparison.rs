//! The values that an expression compares, as far as its text tells their types.

use std::ops::Range;

use crate::tokens::{Token, Tokens};
use crate::{ExpressionError, invalid, rewrite};

/// The type of a value, as far as a text or a schema tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    Text,
    Number,
    Boolean,
    List,
    Object,
}

impl ValueType {
    /// The type with its article.
    pub fn described(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::List => "a list",
            Self::Object => "an object",
        }
    }

    /// The type of JSON Schema's name; `None` for `null` and for names that there are not.
    pub fn of_schema(name: &str) -> Option<Self> {
        match name {
            "string" => Some(Self::Text),
            "number" | "integer" => Some(Self::Number),
            "boolean" => Some(Self::Boolean),
            "array" => Some(Self::List),
            "object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The text tells its type.
    Typed(ValueType),
    /// A path to an output: the names after `steps`.
    Output(Vec<String>),
    /// Anything.
    Other,
}

/// A comparison by `==` or `!=`, or by order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedOperands {
    pub left: Operand,
    pub right: Operand,
    pub is_order: bool,
}

/// Collects the comparisons of an expression; an order that no values can have is refused.
pub(crate) fn collect_comparisons(
    tokens: &Tokens<'_>,
    range: Range<usize>,
    found: &mut Vec<ComparedOperands>,
) -> Result<(), ExpressionError> {
    for [left, operator, right] in rewrite::comparisons(tokens, range) {
        let is_order = match tokens.list[operator.start] {
            Token::Sign('<' | '>') => true,
            Token::Sign(_) => false,
            Token::Name(_) | Token::Text { .. } | Token::Number(_) | Token::Power => continue,
        };
        let (left, right) = (operand(&tokens.list[left]), operand(&tokens.list[right]));
        if let (Operand::Typed(a), Operand::Typed(b)) = (&left, &right)
            && is_order
            && (a != b || *a == ValueType::Object)
        {
            let (a, b) = (a.described(), b.described());
            return Err(invalid(format!("{a} and {b} have no order; convert one, as in `x | int` or `x | string`")));
        }
        found.push(ComparedOperands { left, right, is_order });
    }
    Ok(())
}

fn operand(list: &[Token<'_>]) -> Operand {
    let typed = match list {
        [Token::Text { .. }] => Some(ValueType::Text),
        [Token::Number(_)] | [Token::Number(_), Token::Sign('.'), Token::Number(_)] => Some(ValueType::Number),
        [Token::Sign('-'), Token::Number(_)] => Some(ValueType::Number),
        [Token::Name("true" | "false" | "True" | "False")] => Some(ValueType::Boolean),
        [Token::Name("now")] => Some(ValueType::Text),
        [Token::Sign('('), inside @ .., Token::Sign(')')] if is_group(inside) => return operand(inside),
        [Token::Name("steps"), ..] if list.iter().all(is_path_token) => return output(list),
        _ => filtered(list),
    };
    typed.map_or(Operand::Other, Operand::Typed)
}

fn is_group(inside: &[Token<'_>]) -> bool {
    !inside.iter().any(|token| matches!(token, Token::Sign('(' | ')' | ',')))
}

fn is_path_token(token: &Token<'_>) -> bool {
    match token {
        Token::Name(_) | Token::Text { .. } | Token::Number(_) => true,
        Token::Sign(c) => matches!(c, '.' | '[' | ']'),
        Token::Power => false,
    }
}

fn output(list: &[Token<'_>]) -> Operand {
    let parts: Vec<String> = list
        .iter()
        .skip(1)
        .filter_map(|token| match token {
            Token::Name(part) | Token::Number(part) | Token::Text { text: part, .. } => Some((*part).to_owned()),
            Token::Sign(_) | Token::Power => None,
        })
        .collect();
    match parts.get(1).map(String::as_str) {
        Some("status") => Operand::Typed(ValueType::Text),
        Some("partial") => Operand::Typed(ValueType::Boolean),
        _ => Operand::Output(parts),
    }
}

/// The type that the last filter gives.
fn filtered(list: &[Token<'_>]) -> Option<ValueType> {
    let mut depth = 0_usize;
    let mut last = None;
    for (at, token) in list.iter().enumerate() {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']' | '}') => depth = depth.saturating_sub(1),
            Token::Sign('|') if depth == 0 => last = Some(at),
            // What a sum or a difference gives depends on more than the last filter.
            Token::Sign('+' | '-' | '*' | '/' | '%' | '~') | Token::Power if depth == 0 => return None,
            Token::Sign(_) | Token::Name(_) | Token::Text { .. } | Token::Number(_) | Token::Power => {}
        }
    }
    let Some(Token::Name(name)) = list.get(last? + 1) else { return None };
    match *name {
        "int" | "float" | "length" | "count" | "round" | "abs" | "parse_time" => Some(ValueType::Number),
        "string" | "lower" | "upper" | "title" | "capitalize" | "trim" | "replace" | "join" | "tojson"
        | "urlencode" | "format_time" => Some(ValueType::Text),
        "bool" | "matches" => Some(ValueType::Boolean),
        "list" | "sort" | "map" | "select" | "reject" | "selectattr" | "rejectattr" | "split" | "lines" | "unique" => {
            Some(ValueType::List)
        }
        _ => None,
    }
}

//! Hints that replace words and operators of other languages.

use goalmill_common::status::StepStatus;

use crate::tokens::{Token, Tokens};
use crate::{ExpressionError, invalid};

/// Names from other languages, and what to write for `x.name()`, `name(x)` or `x | name`.
const NAMES: &[(&str, &str)] = &[
    ("len", "x | length"),
    ("size", "x | length"),
    ("contains", "'part' in x"),
    ("includes", "'part' in x"),
    ("has", "'part' in x"),
    ("indexof", "'part' in x"),
    ("startswith", "x is startingwith('part')"),
    ("starts_with", "x is startingwith('part')"),
    ("endswith", "x is endingwith('part')"),
    ("ends_with", "x is endingwith('part')"),
    ("tolowercase", "x | lower"),
    ("lowercase", "x | lower"),
    ("lcase", "x | lower"),
    ("touppercase", "x | upper"),
    ("uppercase", "x | upper"),
    ("ucase", "x | upper"),
    ("strip", "x | trim"),
    ("str", "x | string"),
    ("tostring", "x | string"),
    ("to_string", "x | string"),
    ("text", "x | string"),
    ("parseint", "x | int"),
    ("to_int", "x | int"),
    ("integer", "x | int"),
    ("number", "x | float"),
    ("parsefloat", "x | float"),
    ("to_float", "x | float"),
    ("boolean", "x | bool"),
    ("to_bool", "x | bool"),
    ("json_parse", "x | fromjson"),
    ("from_json", "x | fromjson"),
    ("parse_json", "x | fromjson"),
    ("parsejson", "x | fromjson"),
    ("fromiso8601", "x | parse_time"),
    ("strptime", "x | parse_time"),
    ("to_datetime", "x | parse_time"),
    ("strftime", "x | format_time('%Y-%m-%d')"),
    ("date", "x | format_time('%Y-%m-%d')"),
    ("timedelta", "x | add_duration('3d')"),
    ("regex_match", "x | matches('^a')"),
    ("regex", "x | matches('^a')"),
    ("match", "x | matches('^a')"),
    ("now", "now"),
    ("json", "x | tojson"),
    ("to_json", "x | tojson"),
    ("stringify", "x | tojson"),
    ("keys", "x | list"),
    ("values", "x | items"),
    ("entries", "x | items"),
    ("sorted", "x | sort"),
    ("order_by", "x | sort(attribute='name')"),
    ("filter", "x | selectattr('name', 'eq', 1)"),
    ("where", "x | selectattr('name', 'eq', 1)"),
    ("pluck", "x | map(attribute='name')"),
    ("avg", "(x | sum) / (x | length)"),
    ("average", "(x | sum) / (x | length)"),
    ("mean", "(x | sum) / (x | length)"),
    ("coalesce", "x | default(1)"),
    ("ifnull", "x | default(1)"),
    ("get", "x.name | default(1)"),
    ("slice", "x[0:3]"),
    ("substring", "x[0:3]"),
    ("substr", "x[0:3]"),
    ("uniq", "x | unique"),
    ("distinct", "x | unique"),
    ("urlquote", "x | urlencode"),
    ("escape", "x | urlencode"),
    ("splitlines", "x | lines"),
];

/// Words from other languages that stand alone.
const WORDS: &[(&str, &str)] = &[
    ("null", "none"),
    ("nil", "none"),
    ("undefined", "x is undefined"),
    ("AND", "and"),
    ("OR", "or"),
    ("NOT", "not"),
    ("IN", "in"),
    ("TRUE", "true"),
    ("FALSE", "false"),
    ("NULL", "none"),
    ("NONE", "none"),
];

/// What to write for a name of another language.
pub(crate) fn instead_of(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, write)| *write)
}

/// What to write for a word of another language.
pub(crate) fn word_instead_of(word: &str) -> Option<&'static str> {
    WORDS.iter().find(|(known, _)| *known == word).map(|(_, write)| *write)
}

/// Words for the end of a step from other systems, and ours.
const STATUSES: &[(&str, StepStatus)] = &[
    ("success", StepStatus::Completed),
    ("successful", StepStatus::Completed),
    ("succeeded", StepStatus::Completed),
    ("complete", StepStatus::Completed),
    ("done", StepStatus::Completed),
    ("finished", StepStatus::Completed),
    ("ok", StepStatus::Completed),
    ("passed", StepStatus::Completed),
    ("error", StepStatus::Failed),
    ("errored", StepStatus::Failed),
    ("failure", StepStatus::Failed),
    ("fail", StepStatus::Failed),
    ("timeout", StepStatus::Failed),
    ("timed_out", StepStatus::Failed),
    ("skip", StepStatus::Skipped),
    ("omitted", StepStatus::Skipped),
    ("canceled", StepStatus::Cancelled),
    ("aborted", StepStatus::Cancelled),
];

/// What to write for the status of another system.
pub(crate) fn status_instead_of(word: &str) -> String {
    let known = STATUSES.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)).map(|(_, status)| status.as_str());
    let words = || StepStatus::ALL.iter().map(|status| status.as_str());
    match known.or_else(|| goalmill_common::suggest::nearest(word, words())) {
        Some(status) => format!("write `{status}`"),
        None => format!("there are {}", words().collect::<Vec<_>>().join(", ")),
    }
}

/// Refuses operators of other languages; the error has the word to write.
pub(crate) fn check_operators(tokens: &Tokens<'_>) -> Result<(), ExpressionError> {
    let sign = |at: usize| match tokens.list.get(at) {
        Some(Token::Sign(c)) => Some(*c),
        Some(Token::Name(_) | Token::Text { .. } | Token::Number(_) | Token::Power) | None => None,
    };
    let joined = |at: usize| if tokens.is_joined(at) { sign(at) } else { None };
    for at in 0..tokens.list.len() {
        let (here, next, third) = (sign(at), joined(at + 1), joined(at + 1).and_then(|_| joined(at + 2)));
        let (operator, write) = match (here, next, third) {
            (Some('='), Some('='), Some('=')) => ("===", "`==`"),
            (Some('!'), Some('='), Some('=')) => ("!==", "`!=`"),
            (Some('='), Some('~'), _) => ("=~", "`x | matches('part')`, which takes a regular expression"),
            (Some('!'), Some('~'), _) => ("!~", "`not x | matches('part')`, which takes a regular expression"),
            (Some('='), Some('>'), _) => ("=>", "`>=`"),
            (Some('='), Some('<'), _) => ("=<", "`<=`"),
            (Some('<'), Some('>'), _) => ("<>", "`!=`"),
            (Some('&'), Some('&'), _) => ("&&", "`and`"),
            (Some('|'), Some('|'), _) => ("||", "`or`, or `x | default(1)` for a value that may be missing"),
            (Some('?'), Some('?'), _) => ("??", "`x | default(1)`"),
            (Some('?'), Some('.'), _) => ("?.", "`x.name | default(1)`, which covers a path that ends anywhere"),
            (Some('?'), _, _) => ("? :", "`a if condition else b`"),
            (Some('&'), _, _) => ("&", "`and`"),
            (Some('!'), next, _) if next != Some('=') => ("!", "`not`"),
            (Some('^'), _, _) => ("^", "`**` for a power"),
            _ => continue,
        };
        return Err(invalid(format!("there is no operator `{operator}`; write {write}")));
    }
    Ok(())
}

/// Refuses one `=` outside of the arguments of a filter: it compares nothing.
pub(crate) fn check_equals(tokens: &Tokens<'_>) -> Result<(), ExpressionError> {
    let mut open = 0_usize;
    let is_part = |at: usize| matches!(tokens.list.get(at), Some(Token::Sign('=' | '!' | '<' | '>')));
    for (at, token) in tokens.list.iter().enumerate() {
        match token {
            Token::Sign('(' | '[' | '{') => open += 1,
            Token::Sign(')' | ']' | '}') => open = open.saturating_sub(1),
            Token::Sign('=') if open == 0 => {
                let is_operator =
                    tokens.is_joined(at) && is_part(at - 1) || tokens.is_joined(at + 1) && is_part(at + 1);
                if !is_operator {
                    return Err(invalid("`=` compares nothing; write `==`"));
                }
            }
            Token::Sign(_) | Token::Name(_) | Token::Text { .. } | Token::Number(_) | Token::Power => {}
        }
    }
    Ok(())
}

/// What the errors above tell to write.
#[cfg(test)]
pub(crate) fn forms() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(_, write)| *write)
}

//! Reads the condition of a loop: comparisons of values, joined by `&&` and `||`.

use crate::import::conversion::path;

/// Operators of a condition, and those of an expression here.
const OPERATORS: [(&str, &str); 6] =
    [("&&", " and "), ("||", " or "), ("===", " == "), ("==", " == "), ("!==", " != "), ("!=", " != ")];

/// When a loop ends, and after how many iterations at most, from the condition under which it goes on; `None` for a
/// condition that is more than comparisons.
///
/// - `name`: of the loop.
pub(super) fn loop_end(script: &str, name: &str) -> Option<(String, Option<u32>)> {
    let (mut out, mut rest, mut max) = (String::new(), condition(script.trim())?.trim(), None);
    while !rest.is_empty() {
        let after = if let Some(reference) = rest.strip_prefix("$.") {
            let (value, after) = value(reference, name)?;
            if value == "iteration" {
                max = max.or_else(|| bound(after));
            }
            out.push_str(&value);
            after
        } else {
            let (text, after) = token(rest)?;
            out.push_str(text);
            after
        };
        rest = after;
    }
    if out.trim().is_empty() {
        return None;
    }
    // With a bound and further conditions the loop ends at the bound in any case; with one of several conditions it may go on.
    let max = max.filter(|_| !out.contains(" or "));
    Some((format!("not ({})", out.split_whitespace().collect::<Vec<_>>().join(" ")), max))
}

/// The condition of a script, which may stand in `if (…) { true; } else { false; }`.
fn condition(script: &str) -> Option<&str> {
    let Some(rest) = script.strip_prefix("if") else { return Some(script.trim_end_matches(';')) };
    let rest = rest.trim_start().strip_prefix('(')?;
    let mut depth = 1_usize;
    let end = rest.char_indices().find_map(|(at, c)| {
        depth = match c {
            '(' => depth + 1,
            ')' => depth - 1,
            _ => depth,
        };
        (depth == 0).then_some(at)
    })?;
    let tail: String = rest[end + 1..].chars().filter(|c| !c.is_whitespace() && *c != ';').collect();
    (tail == "{true}else{false}" || tail == "trueelsefalse").then_some(&rest[..end])
}

/// The value that a reference without `$.` reads, as an expression, and what follows it: `iteration` for that of the loop,
/// and the outputs of tasks.
fn value<'t>(reference: &'t str, name: &str) -> Option<(String, &'t str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_.[]'\"".contains(c);
    let (text, after) = reference.split_at(reference.find(|c| !is_part(c)).unwrap_or(reference.len()));
    let flat = text.replace(['"', '\''], "").replace('[', ".").replace(']', "");
    let mut parts = flat.split('.');
    let root = parts.next()?;
    if root != name {
        return Some((path("outputs", std::iter::once(root).chain(parts)), after));
    }
    let is_iteration = parts.next()? == "iteration" && parts.next().is_none();
    is_iteration.then(|| ("iteration".to_owned(), after))
}

/// The number that `< 3` compares with.
fn bound(text: &str) -> Option<u32> {
    let number = text.trim_start().strip_prefix('<')?.trim_start();
    number[..number.bytes().take_while(u8::is_ascii_digit).count()].parse().ok()
}

/// The first operator, text, sign or word as it stands in an expression, and what follows it.
fn token(text: &str) -> Option<(&str, &str)> {
    let operator = |(theirs, ours): &(_, &'static str)| Some((*ours, text.strip_prefix(theirs)?));
    if let Some(found) = OPERATORS.iter().find_map(operator) {
        return Some(found);
    }
    let first = text.chars().next()?;
    let length = match first {
        '\'' | '"' => text[1..].find(first)? + 2,
        c if c.is_ascii_digit() || "<>=().- ".contains(c) => 1,
        _ => {
            let length = text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len());
            matches!(&text[..length], "true" | "false").then_some(length)?
        }
    };
    Some(text.split_at(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_loops_become_their_ends() {
        let end = |script: &str| loop_end(script, "loop");
        let classic = "if ( $.loop['iteration'] < 3 ) { true; } else { false; }";
        assert_eq!(end(classic), Some(("not (iteration < 3)".into(), Some(3))));
        let both = "$.loop['iteration'] < 5 && $.poll['status'] != 'DONE'";
        assert_eq!(end(both), Some(("not (iteration < 5 and outputs.poll.status != 'DONE')".into(), Some(5))));
        assert_eq!(end("$.poll.n < 5 || false"), Some(("not (outputs.poll.n < 5 or false)".into(), None)));
        let either = "$.loop['iteration'] < 5 || $.poll['status'] != 'DONE'";
        assert_eq!(end(either), Some(("not (iteration < 5 or outputs.poll.status != 'DONE')".into(), None)));
        for other in ["", "f($.x)", "truely", "$.loop['iteration'] < n", "if (true) { false; }", "(function(){})()"] {
            assert_eq!(end(other), None, "{other}");
        }
    }
}

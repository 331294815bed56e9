//! Reads the tokens of a template without running it: what it may use, and which steps it sees.
//!
//! Deliberately stricter than the template language: whatever the text alone does not determine is refused,
//! so that nothing can grow without limit and no step is seen that the text does not name.

use std::ops::Range;

use crate::comparison::{ComparedOperands, collect_comparisons};
use crate::path::{check_number, check_status, is_path, passed_on, path_parts};
use crate::rewritten_text::RewrittenText;
use crate::tokens::{Token, Tokens, tokens};
use crate::{ExpressionError, StepRef, hints, invalid, rewrite, signatures};

/// Most `{{ … }}` and `{% … %}` of one text.
const REGIONS_MAX: usize = 1_000;
/// Most `for` and `if` around one place, and most `elif` of one text.
const DEPTH_MAX: usize = 16;

/// Which names a text may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SeenNames {
    /// Those of a plan: `goal`, `inputs` and `steps.ID`.
    #[default]
    Plan,
    /// Those that the caller gives values.
    Any,
}

/// A path that a text names: `steps.a.outputs.rows`, up to the first part that the text does not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPath {
    /// `steps`, `goal` or `inputs`, and the names after it.
    pub parts: Vec<String>,
    /// Whether the path may end early: a `default` or `is defined` follows.
    pub has_default: bool,
}

/// What the text of a template shows.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    names: SeenNames,
    /// Names that a text of a plan may use besides.
    locals: Vec<String>,
    /// Those of them that it uses.
    pub used_locals: Vec<String>,
    /// Whether comparisons are collected.
    with_comparisons: bool,
    pub refs: Vec<StepRef>,
    pub paths: Vec<SeenPath>,
    pub comparisons: Vec<ComparedOperands>,
    /// What runs instead of the text, where the two differ.
    pub code: Option<String>,
    /// What runs instead of the only expression.
    pub whole_code: Option<String>,
    /// The path that is the only expression, perhaps with a default: its value is passed on as it is.
    pub passed_on: Option<Vec<String>>,
    pub uses_goal: bool,
    /// Whether it reads the time.
    pub uses_now: bool,
    /// Whether it reads inputs: those of the plan, or in some places those of a step.
    pub uses_inputs: bool,
    pub has_loop: bool,
    /// Whether there is only one expression and it is a path, such as `steps.a.outputs.x`: certainly well formed.
    pub is_path: bool,
    /// The inside of the only expression, when there is nothing else in the text.
    pub whole: Option<Range<usize>>,
}

impl Scan {
    /// The work units of a text that sees so many bytes of data. A loop has fewer over much data, because each of its
    /// turns may look at all of it.
    pub fn fuel(&self, fuel: u64, bytes: usize) -> u64 {
        let share = if self.has_loop { 1 + bytes as u64 / (64 << 10) } else { 1 };
        (fuel / share).max(1)
    }
}

/// Scans a text with `{{ … }}` and `{% … %}` in it.
pub(crate) fn template(text: &str, names: SeenNames) -> Result<Scan, ExpressionError> {
    template_with(text, Scan { names, ..Scan::default() })
}

/// Scans a text of a plan.
///
/// - `locals`: names that it may use besides `goal`, `inputs` and `steps`.
/// - `with_comparisons`: whether comparisons are collected.
pub(crate) fn plan_template(text: &str, locals: &[&str], with_comparisons: bool) -> Result<Scan, ExpressionError> {
    template_with(text, Scan { with_comparisons, locals: owned(locals), ..Scan::default() })
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn template_with(text: &str, mut scan: Scan) -> Result<Scan, ExpressionError> {
    let mut code = RewrittenText::new(text);
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
        if is_block {
            let (is_raw, condition) = blocks.enter(&tokens, &mut scan)?;
            if let Some(from) = condition {
                code.rewrite(inside, &tokens, from, true);
            }
            if is_raw {
                let Some(end) = raw_end(&text[at..]) else {
                    return Err(invalid("`{% raw %}` without `{% endraw %}`"));
                };
                at += end;
            }
            continue;
        }
        check_range(&tokens, 0..tokens.list.len(), &mut scan)?;
        let rewritten = code.rewrite(inside, &tokens, 0, false);
        if text[..open].trim().is_empty() && text[at..].trim().is_empty() {
            // The dash of `-}}` belongs to the braces.
            let length = text[inside..close].trim_end_matches(['-', '+']).len();
            scan.whole = Some(inside..inside + length);
            scan.whole_code = rewritten;
            scan.is_path = is_path(&tokens.list, &scan.locals);
            scan.passed_on = passed_on(&tokens.list, &scan.locals);
        }
    }
    scan.code = code.end();
    Ok(scan)
}

/// Scans a bare expression.
///
/// - `is_condition`: whether only its truth counts.
pub(crate) fn bare(text: &str, names: SeenNames, is_condition: bool) -> Result<Scan, ExpressionError> {
    bare_with(text, is_condition, Scan { names, ..Scan::default() })
}

/// Scans a condition of a plan, as [`plan_template`] a text.
pub(crate) fn plan_condition(text: &str, locals: &[&str], with_comparisons: bool) -> Result<Scan, ExpressionError> {
    bare_with(text, true, Scan { with_comparisons, locals: owned(locals), ..Scan::default() })
}

fn bare_with(text: &str, is_condition: bool, mut scan: Scan) -> Result<Scan, ExpressionError> {
    let (tokens, _) = tokens(text, None)?;
    check_range(&tokens, 0..tokens.list.len(), &mut scan)?;
    scan.is_path = is_path(&tokens.list, &scan.locals);
    scan.code = rewrite::rewrite(text, &tokens, 0, is_condition);
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

/// The blocks that are open.
#[derive(Default)]
struct Blocks {
    open: usize,
    elifs: usize,
}

impl Blocks {
    /// Checks a `{% … %}`; says whether it opens raw text, and where its condition begins.
    fn enter(&mut self, tokens: &Tokens<'_>, scan: &mut Scan) -> Result<(bool, Option<usize>), ExpressionError> {
        let list = &tokens.list;
        let Some(Token::Name(word)) = list.first().copied() else {
            return Err(invalid("`{% %}` needs one of `if`, `elif`, `else`, `endif`, `for`, `endfor`, `raw`"));
        };
        let mut condition = None;
        match word {
            "raw" if list.len() == 1 => return Ok((true, None)),
            "else" | "break" | "continue" => {}
            "endif" | "endfor" => self.open = self.open.saturating_sub(1),
            "if" | "elif" => {
                if word == "if" {
                    self.open += 1;
                } else {
                    self.elifs += 1;
                }
                check_range(tokens, 1..list.len(), scan)?;
                condition = Some(1);
            }
            "for" => {
                self.open += 1;
                scan.has_loop = true;
                condition = check_loop(tokens, scan)?;
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
        Ok((false, condition))
    }
}

/// A loop goes over a path in the data, never over something computed: so nothing can grow from turn to turn. Says where
/// its condition begins.
fn check_loop(tokens: &Tokens<'_>, scan: &mut Scan) -> Result<Option<usize>, ExpressionError> {
    let list = &tokens.list;
    let Some(at) = list.iter().position(|t| *t == Token::Name("in")) else {
        return Err(invalid("write `{% for x in steps.a.outputs.list %}`"));
    };
    let condition = list.iter().position(|t| *t == Token::Name("if")).unwrap_or(list.len());
    let mut end = condition.max(at + 1);
    if list[at + 1..end].ends_with(&[Token::Sign('|'), Token::Name("items")]) {
        end -= 2;
    }
    let path = &list[at + 1..end];
    let is_path = !path.is_empty()
        && path.iter().all(|t| match t {
            Token::Name(word) => *word != "recursive",
            Token::Text { .. } | Token::Number(_) => true,
            Token::Sign(c) => matches!(c, '.' | '[' | ']'),
            Token::Power => false,
        })
        && matches!(path[0], Token::Name(_));
    if !is_path || list.contains(&Token::Name("recursive")) {
        return Err(invalid("a loop goes over a plain path, as in `{% for x in steps.a.outputs.list %}`"));
    }
    check_range(tokens, at + 1..end, scan)?;
    let condition = (condition + 1 < list.len()).then_some(condition + 1);
    check_range(tokens, condition.unwrap_or(list.len())..list.len(), scan)?;
    Ok(condition)
}

/// Words that may stand before a bracket without being called.
const KEYWORDS: &[&str] = &["and", "or", "not", "in", "if", "else", "elif", "is"];

fn check_range(tokens: &Tokens<'_>, range: Range<usize>, scan: &mut Scan) -> Result<(), ExpressionError> {
    let list = &tokens.list[..range.end];
    let mut multiplies = false;
    let mut builds = false;
    hints::check_operators(tokens)?;
    for at in range.clone() {
        let before = (at > range.start).then(|| list[at - 1]);
        let after = list.get(at + 1).copied();
        match list[at] {
            Token::Sign('*') => multiplies = true,
            Token::Sign('~') => builds = true,
            Token::Text { .. } => builds |= before != Some(Token::Sign('[')) || after != Some(Token::Sign(']')),
            Token::Name(word) => match before {
                Some(Token::Sign('.')) if after == Some(Token::Sign('(')) => {
                    return Err(signatures::no_function(&format!(".{word}()"), word));
                }
                Some(Token::Sign('.')) => {}
                Some(Token::Sign('|')) => {
                    signatures::check_filter(tokens, at, word)?;
                    builds |= !signatures::ARITHMETIC.contains(&word);
                }
                Some(Token::Name("is")) if word != "not" => signatures::check_test(tokens, at, word)?,
                Some(Token::Name("not")) if at >= 2 && list[at - 2] == Token::Name("is") => {
                    signatures::check_test(tokens, at, word)?;
                }
                _ => check_name(tokens, at, word, after, scan)?,
            },
            Token::Number(digits) => check_number(tokens, at, digits)?,
            Token::Sign(_) | Token::Power => {}
        }
    }
    if multiplies && builds {
        return Err(invalid(
            "`*` cannot stand beside text, `~` or text filters; compute in one expression, format in another",
        ));
    }
    hints::check_equals(tokens)?;
    if scan.with_comparisons {
        collect_comparisons(tokens, range, &mut scan.comparisons)?;
    }
    Ok(())
}

/// Checks a name that begins a path or a call.
fn check_name(
    tokens: &Tokens<'_>,
    at: usize,
    word: &str,
    after: Option<Token<'_>>,
    scan: &mut Scan,
) -> Result<(), ExpressionError> {
    let list = &tokens.list;
    match word {
        "steps" if scan.names == SeenNames::Plan => {
            let seen = step(&list[at + 1..])?;
            if seen.field.as_deref() == Some("status") {
                check_status(&list[at..], list.get(at.wrapping_sub(3)..at).unwrap_or_default())?;
            }
            scan.refs.push(seen);
        }
        "goal" => scan.uses_goal = true,
        _ if scan.locals.iter().any(|local| local == word) => {
            scan.used_locals.push(word.to_owned());
            scan.uses_inputs |= word == "inputs";
        }
        "inputs" => scan.uses_inputs = true,
        "now" if scan.names == SeenNames::Plan && after != Some(Token::Sign('(')) => scan.uses_now = true,
        _ if after == Some(Token::Sign('(')) && !KEYWORDS.contains(&word) => {
            return Err(signatures::no_function(word, word));
        }
        _ => {}
    }
    if scan.names == SeenNames::Plan
        && let Some((parts, _)) = path_parts(&list[at..], &scan.locals)
    {
        let has_default = rewrite::is_covered(tokens, at);
        scan.paths.push(SeenPath { parts, has_default });
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
        None | Some("outputs" | "status" | "partial" | "failure") => {}
        Some(other) => {
            // `steps.step-1.outputs` reads as a subtraction.
            return Err(invalid(format!(
                "a step has `outputs`, `status`, `partial` and `failure`, not `{other}`: write `steps['{id}'].outputs.{other}`"
            )));
        }
    }
    if field.is_none() && rest.first() == Some(&Token::Sign('-')) {
        return Err(invalid(format!("a step id with a dash is written in brackets, as in `steps['{id}-…'].outputs`")));
    }
    Ok(StepRef { step: id.into(), field: field.map(str::to_owned) })
}

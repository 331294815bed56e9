//! Translates references in the notation of other plan formats into expressions.
//!
//! `<node-0>`, `<step_2>`, `#E1`, `$1`, `${step1.output}`, `<GENERATED>-0`: each only where a step can be meant, and a
//! number only when one way to count (from 0 or from 1) leads every one of them to an earlier step. What is a reference
//! and leads nowhere is an issue: as plain text it would let its step run too early.

use goalmill_common::problem::Issue;
use goalmill_plan::validate::names::{self, only_slip};
use goalmill_plan::validate::path::spelled;
use serde_json::Value;

use super::context::{RepairContext, collect};

/// A reference in a foreign notation.
#[derive(Clone, Debug, PartialEq)]
struct Foreign {
    step: usize,
    pointer: String,
    at: std::ops::Range<usize>,
    /// What stands there.
    text: String,
    /// The id, as far as it is spelled: `step_2`, `E1`, `3`.
    name: String,
    /// The number at its end.
    number: Option<usize>,
    /// Names behind it: `.output.price` without the first when that only says `output`.
    path: Vec<String>,
}

pub(super) fn translate(work: &mut RepairContext<'_>) {
    let found = found(work);
    if found.is_empty() {
        return;
    }
    let base = base(work, &found);
    let targets: Vec<(Foreign, String)> =
        found.into_iter().filter_map(|f| named(work, &f, base).map(|id| (f, id))).collect();
    write(work, targets);
}

/// Whether the draft has references in another notation.
pub(super) fn is_used(work: &RepairContext<'_>) -> bool {
    !found(work).is_empty()
}

/// References in another notation that are still there, in the draft and in the plans inside its steps.
pub(super) fn unresolved(work: &RepairContext<'_>) -> Vec<Issue> {
    let found = found(work);
    let may_be_price = may_be_prices(work, &found);
    let mut issues: Vec<Issue> =
        found.iter().filter(|foreign| !may_be_price || !foreign.is_like_price()).map(leads_nowhere).collect();
    for step in (0..work.steps.len()).filter(|step| !work.has(*step, "use")) {
        let at = work.place(step, "plan");
        let Some(Ok(inner)) = work.field(step, "plan").map(|inner| RepairContext::of(inner.clone(), work.rules)) else {
            continue;
        };
        let outer = |issue: Issue| Issue { pointer: format!("{at}{}", issue.pointer), ..issue };
        issues.extend(unresolved(&inner).into_iter().map(outer));
    }
    issues
}

fn leads_nowhere(foreign: &Foreign) -> Issue {
    Issue {
        code: "REF_UNKNOWN_STEP".into(),
        pointer: foreign.pointer.clone(),
        detail: format!("the reference `{}` does not say which step it means", foreign.text),
        hint: "write `{{ steps['ID'].outputs }}` with the id of an earlier step".into(),
    }
}

/// `$5` is a reference only when it can lead to an earlier step; otherwise it is a price.
fn may_be_prices(work: &RepairContext<'_>, found: &[Foreign]) -> bool {
    let mut prices = found.iter().filter(|foreign| foreign.is_like_price());
    prices.any(|f| spelled_id(work, &f.name).is_none() && f.number.is_none_or(|number| number > f.step))
}

impl Foreign {
    /// `$5`: a dollar and a number, nothing else.
    fn is_like_price(&self) -> bool {
        self.text.starts_with('$') && self.text[1..].bytes().all(|b| b.is_ascii_digit())
    }
}

fn found(work: &RepairContext<'_>) -> Vec<Foreign> {
    let mut found = Vec::new();
    for step in 0..work.steps.len() {
        let Some(inputs) = work.field(step, "inputs") else { continue };
        let mut texts = Vec::new();
        collect(inputs, &work.place(step, "inputs"), &mut texts);
        for (pointer, text) in texts {
            if !text.contains("{{") && !text.contains("{%") {
                scan(text, |at, name, path| {
                    let (number, text) = (trailing_number(&name), text[at.clone()].to_owned());
                    found.push(Foreign { step, pointer: pointer.clone(), at, text, name, number, path });
                });
            }
        }
    }
    found
}

fn write(work: &mut RepairContext<'_>, mut targets: Vec<(Foreign, String)>) {
    targets.sort_by(|a, b| (&a.0.pointer, b.0.at.start).cmp(&(&b.0.pointer, a.0.at.start)));
    let mut at = 0;
    while at < targets.len() {
        let pointer = targets[at].0.pointer.clone();
        let Some(Value::String(text)) = work.draft.pointer(&pointer) else { return };
        let mut text = text.clone();
        while at < targets.len() && targets[at].0.pointer == pointer {
            let (foreign, id) = &targets[at];
            let mut expression = format!("{{{{ {}.outputs", spelled(id));
            for name in &foreign.path {
                expression.push_str(&format!("['{name}']"));
            }
            expression.push_str(" }}");
            text.replace_range(foreign.at.clone(), &expression);
            at += 1;
        }
        let why = "a reference in the notation of another format".to_owned();
        work.replace(&pointer, Value::String(text), "REFERENCE_NOTATION", why);
    }
}

/// The step that is meant: by its id, else by its number.
fn named(work: &RepairContext<'_>, foreign: &Foreign, base: Option<usize>) -> Option<String> {
    if let Some(id) = spelled_id(work, &foreign.name) {
        return Some(id);
    }
    let step = foreign.number?.checked_sub(base?)?;
    (step < foreign.step).then(|| work.id(step))
}

fn spelled_id(work: &RepairContext<'_>, name: &str) -> Option<String> {
    let numbers = work.numbers();
    let normal = |text: &str| text.to_ascii_lowercase().replace(['-', ' '], "_");
    if numbers.contains_key(name) {
        return Some(name.to_owned());
    }
    let mut same = numbers.keys().filter(|id| normal(id) == normal(name));
    match (same.next(), same.next()) {
        (Some(only), None) => Some(only.clone()),
        (None, _) if names::number_of_step(name).is_some_and(|number| numbers.contains_key(number)) => {
            names::number_of_step(name).map(str::to_owned)
        }
        (None, _) => only_slip(name, numbers.keys().map(String::as_str)).map(str::to_owned),
        (Some(_), Some(_)) => None,
    }
}

/// Where numbers count from: the one of 0 and 1 with which each leads to an earlier step. Prices do not count.
fn base(work: &RepairContext<'_>, found: &[Foreign]) -> Option<usize> {
    let may_be_price = may_be_prices(work, found);
    let is_counted = |f: &&Foreign| !(may_be_price && f.is_like_price()) && spelled_id(work, &f.name).is_none();
    let numbered: Vec<_> = found.iter().filter(is_counted).filter_map(|f| Some((f.number?, f.step))).collect();
    let holds = |base: usize| {
        numbered.iter().all(|(number, step)| number.checked_sub(base).is_some_and(|target| target < *step))
    };
    match (holds(0), holds(1)) {
        (true, false) => Some(0),
        (false, true) => Some(1),
        // Both fit only when no reference is telling.
        (true, true) | (false, false) => None,
    }
}

fn trailing_number(name: &str) -> Option<usize> {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name[name.len() - digits..].parse().ok()
}

/// Words that a number of a step stands behind.
const WORDS: &[&str] =
    &["node", "step", "task", "subtask", "generated", "output_of_step", "output of step", "result of step"];

/// Finds foreign references in a text.
fn scan(text: &str, mut take: impl FnMut(std::ops::Range<usize>, String, Vec<String>)) {
    let whole = text.trim();
    let start = text.len() - text.trim_start().len();
    if let Some((name, path)) = dollar(whole) {
        take(start..start + whole.len(), name, path);
        return;
    }
    let mut at = 0;
    while let Some(offset) = text[at..].find(['<', '#', '$']) {
        let from = at + offset;
        at = from + 1;
        if let Some((name, path, length)) = braced(&text[from..]) {
            take(from..from + length, name, path);
            at = from + length;
            continue;
        }
        let found = if text[from..].starts_with('<') { angle(&text[from..]) } else { evidence(&text[from..]) };
        if let Some((name, length)) = found {
            let (path, more) = dotted(&text[from + length..]);
            take(from..from + length + more, name, path);
            at = from + length + more;
        }
    }
}

/// `<node-0>`, `<GENERATED>-0`: the name and the bytes it takes.
fn angle(text: &str) -> Option<(String, usize)> {
    let close = text.find('>').filter(|close| *close <= 64)?;
    let inside = text[1..close].trim();
    let lower = inside.to_ascii_lowercase();
    if lower == "generated" {
        let digits: String = text[close + 1..].strip_prefix('-')?.chars().take_while(char::is_ascii_digit).collect();
        return (!digits.is_empty()).then(|| (format!("GENERATED-{digits}"), close + 2 + digits.len()));
    }
    let stem = lower.trim_end_matches(|c: char| c.is_ascii_digit());
    let word = stem.trim_end_matches(['-', '_', ' ']);
    (stem.len() < lower.len() && WORDS.contains(&word)).then(|| (inside.to_owned(), close + 1))
}

/// `#E1`, and not the colour `#E1E1E1`.
fn evidence(text: &str) -> Option<(String, usize)> {
    let rest = text.strip_prefix("#E")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let is_over = !rest[digits.len()..].starts_with(|c: char| c.is_alphanumeric());
    (!digits.is_empty() && is_over).then(|| (format!("E{digits}"), 2 + digits.len()))
}

/// `${find.findings}` inside a text: a name, a path behind it, and the bytes they take. Without a path or a number it is
/// a variable of a shell.
fn braced(text: &str) -> Option<(String, Vec<String>, usize)> {
    let inside = text.strip_prefix("${")?;
    let close = inside.find('}').filter(|close| *close <= 128)?;
    let inside = inside[..close].trim();
    let end = inside.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))).unwrap_or(inside.len());
    let (name, tail) = inside.split_at(end);
    let (path, length) = dotted(tail);
    let is_reference = !name.is_empty() && length == tail.len() && !tail.is_empty();
    is_reference.then(|| (name.to_owned(), path, close + 3))
}

/// `$1`, `$step1.output.price`, `${step1.output}`: only as a whole text, since prices have dollars too.
fn dollar(text: &str) -> Option<(String, Vec<String>)> {
    let rest = text.strip_prefix('$')?;
    let (rest, is_braced) = match rest.strip_prefix('{').and_then(|r| r.strip_suffix('}')) {
        Some(inside) => (inside.trim(), true),
        None => (rest, false),
    };
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))).unwrap_or(rest.len());
    let (name, tail) = rest.split_at(end);
    let (path, length) = dotted(tail);
    let is_price = !is_braced
        && (name.len() > 2 && name.bytes().all(|b| b.is_ascii_digit())
            || !path.is_empty() && name.parse::<u64>().is_ok());
    (!name.is_empty() && length == tail.len() && !is_price && trailing_number(name).is_some())
        .then(|| (name.to_owned(), path))
}

/// `.output.price`: the names, without a first one that only says which side of the step is meant.
fn dotted(text: &str) -> (Vec<String>, usize) {
    let mut path = Vec::new();
    let mut at = 0;
    while let Some(rest) = text[at..].strip_prefix('.') {
        let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        if length == 0 || !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            break;
        }
        path.push(rest[..length].to_owned());
        at += 1 + length;
    }
    if path.first().is_some_and(|first| matches!(first.as_str(), "output" | "outputs" | "result" | "results")) {
        path.remove(0);
    }
    (path, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notations_are_told_from_text() {
        let names = |text: &str| {
            let mut names = Vec::new();
            scan(text, |_, name, path| names.push(std::iter::once(name).chain(path).collect::<Vec<_>>().join(".")));
            names
        };
        assert_eq!(names("<node-0>"), ["node-0"]);
        assert_eq!(names("compare <node-0>.output.text with <node-1>"), ["node-0.text", "node-1"]);
        assert_eq!(names("#E1 and #E12"), ["E1", "E12"]);
        assert_eq!(names("$2"), ["2"]);
        assert_eq!(names("${step1.output}"), ["step1"]);
        assert_eq!(names("<GENERATED>-3"), ["GENERATED-3"]);
        assert_eq!(names("about ${find.findings} and ${pay.output.sum}"), ["find.findings", "pay.sum"]);
        for text in [
            "costs $2", "$2000", "$19.99", "#E1E1E1", "${HOME}/x", "${x", "<b>bold</b>", "<input text>", "#Expensive",
            "a < b > c", "$", "${",
        ] {
            assert!(names(text).is_empty(), "{text}");
        }
    }
}

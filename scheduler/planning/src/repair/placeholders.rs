//! Replaces placeholders in inputs, such as `<Meeting Room ID>`, by references to the step that gives the value.
//!
//! A reference is certain when exactly one earlier step declares an output of that name. A value that no step of the plan
//! declares is asked of a person before the step starts. A placeholder with several readings stays and is an issue.

use std::collections::BTreeSet;
use std::ops::Range;

use goalmill_common::problem::Issue;
use goalmill_plan::validate::names::{normal, stem, words};
use goalmill_plan::validate::path::spelled;
use serde_json::{Map, Value, json};

use super::context::{RepairContext, collect, unescape};

/// Longest placeholder, in characters.
const CHARS_MAX: usize = 80;
/// Words of a placeholder that do not tell which value is meant.
const PASSED: [&str; 16] = [
    "the", "a", "an", "of", "from", "your", "selected", "obtained", "chosen", "returned", "generated", "actual",
    "insert", "previous", "result", "value",
];
/// Elements of HTML: a text that is one of them is no placeholder.
const ELEMENTS: [&str; 24] = [
    "a", "b", "i", "p", "br", "hr", "li", "ol", "ul", "td", "tr", "th", "em", "h1", "h2", "h3", "div", "pre", "html",
    "body", "head", "span", "table", "strong",
];

/// A placeholder in a text of an input.
struct Placeholder {
    at: Range<usize>,
    name: String,
}

/// What a placeholder can mean.
enum Meaning {
    /// The output of one earlier step: an expression.
    Output(String),
    /// Several earlier steps give it.
    Several(Vec<String>),
    /// No earlier step says that it gives it.
    Unknown,
}

pub(super) fn resolve(work: &mut RepairContext<'_>) {
    for step in 0..work.steps.len() {
        let open = refer(work, step);
        if !open.is_empty() {
            ask(work, step, open);
        }
    }
}

/// Writes the references that are certain; gives the inputs with placeholders that no step gives, and their names.
fn refer(work: &mut RepairContext<'_>, step: usize) -> Vec<(String, Vec<String>)> {
    let place = work.place(step, "inputs");
    let Some(inputs) = work.field(step, "inputs").filter(|inputs| inputs.is_object()) else { return Vec::new() };
    let mut texts = Vec::new();
    collect(inputs, &place, &mut texts);
    let mut changes = Vec::new();
    let mut open: Vec<(String, Vec<String>)> = Vec::new();
    for (pointer, text) in texts {
        let mut became = text.to_owned();
        for placeholder in scan(text).into_iter().rev() {
            match meaning(work, step, &placeholder.name) {
                Meaning::Output(expression) => became.replace_range(placeholder.at, &expression),
                Meaning::Several(_) => {}
                Meaning::Unknown => {
                    let key = input_of(&pointer, &place);
                    match open.iter_mut().find(|(known, _)| *known == key) {
                        Some((_, names)) => names.insert(0, placeholder.name),
                        None => open.push((key, vec![placeholder.name])),
                    }
                }
            }
        }
        if became != text {
            changes.push((pointer, became));
        }
    }
    for (pointer, became) in changes {
        let why = "the only earlier step that gives a value of this name".to_owned();
        work.replace(&pointer, became.into(), "PLACEHOLDER_REFERENCE", why);
    }
    open
}

/// The input that a place in the inputs is part of.
fn input_of(pointer: &str, inputs: &str) -> String {
    let below = pointer.strip_prefix(inputs).unwrap_or_default();
    unescape(below.split('/').nth(1).unwrap_or_default())
}

/// Lets a person be asked for values before the step starts. A step that asks something already stays as it is.
fn ask(work: &mut RepairContext<'_>, step: usize, open: Vec<(String, Vec<String>)>) {
    let needs_worker = !matches!(work.text(step, "kind").as_str(), "message" | "finish" | "internal" | "plan");
    if work.has(step, "ask") || work.has(step, "plan") || !needs_worker {
        return;
    }
    let question = match open.as_slice() {
        [(key, names)] => json!({"question": format!("What is {}?", quoted(names)), "into": key}),
        _ => {
            let names: Vec<String> = open.iter().flat_map(|(_, names)| names.clone()).collect();
            let properties: Map<String, Value> =
                open.iter().map(|(key, names)| (key.clone(), json!({"description": names.join(", ")}))).collect();
            let required: Vec<&String> = open.iter().map(|(key, _)| key).collect();
            let schema = json!({"type": "object", "properties": properties, "required": required});
            json!({"question": format!("What are {}?", quoted(&names)), "into": "*", "schema": schema})
        }
    };
    let why = "no earlier step gives these values, so a person is asked".to_owned();
    work.set(step, "ask", question, "PLACEHOLDER_ASKED", why);
}

fn quoted(names: &[String]) -> String {
    let mut known = BTreeSet::new();
    let names: Vec<String> =
        names.iter().filter(|name| known.insert(name.as_str())).map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Placeholders that are still there and that no person is asked for.
pub(super) fn unresolved(work: &RepairContext<'_>) -> Vec<Issue> {
    let mut issues = Vec::new();
    for step in 0..work.steps.len() {
        let place = work.place(step, "inputs");
        let Some(inputs) = work.field(step, "inputs").filter(|inputs| inputs.is_object()) else { continue };
        let mut texts = Vec::new();
        collect(inputs, &place, &mut texts);
        for (pointer, text) in texts {
            let is_asked = is_asked(work, step, &input_of(&pointer, &place));
            for placeholder in scan(text).into_iter().filter(|_| !is_asked) {
                issues.push(issue(&pointer, &placeholder.name, meaning(work, step, &placeholder.name)));
            }
        }
    }
    issues
}

/// Whether a person gives this input.
fn is_asked(work: &RepairContext<'_>, step: usize, input: &str) -> bool {
    let Some(ask) = work.field(step, "ask") else { return false };
    match ask["into"].as_str() {
        Some("*") => ask.pointer("/schema/properties").is_some_and(|properties| properties.get(input).is_some()),
        into => into == Some(input),
    }
}

fn issue(pointer: &str, name: &str, meaning: Meaning) -> Issue {
    let hint = match meaning {
        Meaning::Several(ids) => {
            format!("it can be of {}: write `{{{{ steps['ID'].outputs }}}}` with one", ids.join(", "))
        }
        Meaning::Output(_) | Meaning::Unknown => {
            "write the value, or `{{ steps['ID'].outputs }}` with the id of an earlier step".to_owned()
        }
    };
    Issue {
        code: "REF_UNKNOWN_STEP".into(),
        pointer: pointer.into(),
        detail: format!("the placeholder `<{name}>` does not say where its value comes from"),
        hint,
    }
}

fn meaning(work: &RepairContext<'_>, step: usize, name: &str) -> Meaning {
    let wanted = distinctive_words(name);
    let mut exact: Vec<(usize, String)> = Vec::new();
    let mut by_action: Vec<(usize, String)> = Vec::new();
    for earlier in (0..work.steps.len()).filter(|earlier| work.rank[*earlier] < work.rank[step]) {
        let Some(outputs) = work.action_entry(earlier).and_then(|action_entry| action_entry.outputs.as_ref()) else {
            continue;
        };
        let Some(properties) = outputs.get("properties").and_then(Value::as_object) else { continue };
        for (key, schema) in properties {
            let titles = ["title", "description"].into_iter().filter_map(|field| schema.get(field)?.as_str());
            if std::iter::once(key.as_str()).chain(titles).any(|given| distinctive_words(given) == wanted) {
                exact.push((earlier, key.clone()));
            } else if is_of_action(&wanted, key, &work.action(earlier)) {
                by_action.push((earlier, key.clone()));
            }
        }
    }
    let found = if exact.is_empty() { by_action } else { exact };
    match found.as_slice() {
        [] => Meaning::Unknown,
        [(earlier, key)] => Meaning::Output(format!("{{{{ {}.outputs['{key}'] }}}}", spelled(&work.id(*earlier)))),
        _ => Meaning::Several(found.iter().map(|(earlier, _)| format!("`{}`", work.id(*earlier))).collect()),
    }
}

/// The words that distinguish the value.
fn distinctive_words(name: &str) -> Vec<String> {
    let all = words(name);
    let distinct: Vec<String> =
        all.iter().filter(|word| !PASSED.contains(&word.as_str()) && *word != "s").cloned().collect();
    if distinct.is_empty() { all } else { distinct }
}

/// `Meeting Room ID` is the output `id` of `book_meeting_room`: its words are words of the action, then of the output.
fn is_of_action(wanted: &[String], output: &str, action: &str) -> bool {
    let output = words(output);
    let Some(head) = wanted.strip_suffix(output.as_slice()).filter(|head| !head.is_empty()) else { return false };
    let action: BTreeSet<String> = words(action).iter().map(|word| stem(word)).collect();
    head.iter().all(|word| action.contains(&stem(word)))
}

/// Placeholders in a text: the whole text, or parts of several words.
fn scan(text: &str) -> Vec<Placeholder> {
    if text.contains("{{") || text.contains("{%") {
        return Vec::new();
    }
    let whole = text.trim();
    let start = text.len() - text.trim_start().len();
    if let Some(name) = inside(whole) {
        return vec![Placeholder { at: start..start + whole.len(), name }];
    }
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(from) = text[at..].find('<').map(|offset| at + offset) {
        at = from + 1;
        let Some(to) = text[at..].find('>').map(|offset| at + offset + 1) else { break };
        let name = inside(&text[from..to]).filter(|name| {
            name.contains(' ') || name.chars().filter(|c| !c.is_ascii()).count() > 1 || name.contains('_')
        });
        if let Some(name) = name {
            found.push(Placeholder { at: from..to, name });
            at = to;
        }
    }
    found
}

/// The name in `<name>`, `[Your Name]` or `{name}`; none for an element of HTML, a list, or code.
fn inside(text: &str) -> Option<String> {
    let (inner, is_angle) = match (text.strip_prefix('<').and_then(|t| t.strip_suffix('>')), text) {
        (Some(inner), _) => (inner, true),
        (None, text) => {
            let brackets = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).filter(|t| t.contains(' '));
            (brackets.or_else(|| text.strip_prefix('{').and_then(|t| t.strip_suffix('}')))?, false)
        }
    };
    let is_plain =
        |c: char| c.is_alphanumeric() || matches!(c, ' ' | '_' | '-' | '\'' | '\u{2019}' | '.' | '/' | '(' | ')');
    let is_element = is_angle && ELEMENTS.contains(&inner.to_ascii_lowercase().as_str());
    let is_name = inner == inner.trim()
        && inner.starts_with(char::is_alphabetic)
        && !inner.ends_with('/')
        && inner.chars().count() <= CHARS_MAX
        && inner.chars().all(is_plain);
    (is_name && !is_element && !normal(inner).is_empty()).then(|| inner.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_told_from_markup_and_code() {
        let names = |text: &str| scan(text).into_iter().map(|found| found.name).collect::<Vec<_>>();
        assert_eq!(names("<Meeting Room ID>"), ["Meeting Room ID"]);
        assert_eq!(names(" <location> "), ["location"]);
        assert_eq!(names("[Your Name]"), ["Your Name"]);
        assert_eq!(names("{meeting_room_id}"), ["meeting_room_id"]);
        assert_eq!(names("Dear <user name>, on <the date>"), ["user name", "the date"]);
        for text in [
            "<b>bold</b>", "<br>", "<br/>", "<p class=\"x\">", "a < b and c > d", "[1, 2]", "[INFO]", "{\"a\": 1}",
            "{{ steps.a.outputs }}", "<>", "{}", "<http://x.y>", "text",
        ] {
            assert_eq!(names(text), [] as [&str; 0], "{text}");
        }
    }
}

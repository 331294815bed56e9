//! Prompts of other planners: templates whose names are known when the document is read.

use serde_json::{Map, Value};

use super::context::Conversion;

/// What a prompt may name, and what it means.
pub(super) type PromptNames<'a> = [(&'a str, String)];

/// A template with its names filled in; the first unknown name otherwise.
///
/// `{{ name }}` is a name if it looks like one, `{name}` only if it is known: braces stand in examples of JSON too.
pub(super) fn fill_in(template: &str, names: &PromptNames<'_>) -> Result<String, String> {
    let known = |name: &str| names.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        let (marks, close) = if rest[open..].starts_with("{{") { (2, "}}") } else { (1, "}") };
        let inner = &rest[open + marks..];
        let end = inner.find(close).filter(|end| is_name(inner[..*end].trim()));
        match end.map(|end| (inner[..end].trim(), known(inner[..end].trim()), &inner[end + marks..])) {
            Some((_, Some(value), after)) => {
                out.push_str(value);
                rest = after;
            }
            Some((name, None, _)) if marks == 2 => return Err(name.to_owned()),
            Some(_) | None => {
                out.push_str(&rest[open..open + marks]);
                rest = inner;
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// A path of names: `goal`, `state.topic`.
fn is_name(text: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    text.split('.').all(is_part)
}

/// Fills the prompt of a planner in: it may name the goal and the settings that stand beside it.
///
/// - `place`: where the prompt was said.
/// - `goal`: its description.
pub(super) fn planning_prompt(
    conversion: &mut Conversion<'_>,
    planning: &mut Map<String, Value>,
    place: &str,
    goal: &str,
) {
    let Some(Value::String(template)) = planning.get("prompt").cloned() else { return };
    // Such a prompt is a template of ours.
    if template.lines().any(|line| line.trim() == "--- user ---") {
        return;
    }
    let setting = |name: &str| planning.get(name).map(|value| value.as_str().map_or(value.to_string(), str::to_owned));
    let goal_names = ["goal", "query", "objective", "task"].map(|name| (name, Some(goal.to_owned())));
    let settings = [
        ("max_subtasks", setting("max_steps")),
        ("max_steps", setting("max_steps")),
        ("max_depth", setting("max_depth")),
        ("strategy", setting("strategy")),
    ];
    let named = goal_names.into_iter().chain(settings);
    let names: Vec<(&str, String)> = named.filter_map(|(name, value)| Some((name, value?))).collect();
    match fill_in(&template, &names) {
        Ok(prompt) => drop(planning.insert("prompt".into(), prompt.into())),
        // The state of its workflow lacks it.
        Err(name) if conversion.rewrite.is_refused(&name) => {}
        Err(name) => {
            let known = names.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let detail = format!("the prompt names `{name}`, which has no value here");
            let hint = format!(
                "write its value into the prompt; known are {known}, and agents, actions and limits are in every prompt"
            );
            conversion.rewrite.refuse("INVALID_VALUE", place, detail, hint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_in_and_other_braces_stay() {
        let names = [("goal", "Brew {{ tea }}".to_owned()), ("state.n", "3".to_owned())];
        for (template, expected) in [
            ("Plan {{ goal }}, {goal}!", Ok("Plan Brew {{ tea }}, Brew {{ tea }}!")),
            ("In {{state.n}} steps, as {\"steps\": [{\"id\": 1}]}", Ok("In 3 steps, as {\"steps\": [{\"id\": 1}]}")),
            ("{{\"a\": 1}} {other} {", Ok("{{\"a\": 1}} {other} {")),
            ("{{ tools }}", Err("tools")),
        ] {
            let filled = fill_in(template, &names);
            assert_eq!(filled.as_deref().map_err(String::as_str), expected, "{template}");
        }
    }
}

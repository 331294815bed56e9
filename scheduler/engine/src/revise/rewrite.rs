//! Rewrites what refers to a replaced step: dependencies and expressions.

use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::plan::{ExpressionTextMut, Step};
use goalmill_expression as expression;
use serde_json::Value;

/// Renames `old` to `new` in the step's expressions.
fn rename(step: &mut Step, old: &StepId, new: &StepId) {
    for text in step.expressions_mut() {
        match text {
            ExpressionTextMut::Text(text) => *text = renamed(text, old, new),
            ExpressionTextMut::Value(json) if expression::is_plain(json.text()) => {}
            ExpressionTextMut::Value(json) => {
                let mut value = json.value();
                if walk(&mut value, old, new) {
                    *json = Json::from_value(&value);
                }
            }
        }
    }
}

/// Renames in every template of a value. Returns whether anything changed.
fn walk(value: &mut Value, old: &StepId, new: &StepId) -> bool {
    match value {
        Value::String(text) if !expression::is_plain(text) => {
            let next = renamed(text, old, new);
            let changed = next != *text;
            *text = next;
            changed
        }
        Value::Array(items) => items.iter_mut().fold(false, |changed, item| walk(item, old, new) | changed),
        Value::Object(map) => map.values_mut().fold(false, |changed, item| walk(item, old, new) | changed),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// `steps.old` and `steps["old"]` become `steps["new"]`, outside of longer words.
fn renamed(text: &str, old: &StepId, new: &StepId) -> String {
    const STEPS: &str = "steps";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(STEPS) {
        let (before, found) = rest.split_at(start);
        out.push_str(before);
        let begins = !out.chars().next_back().is_some_and(|c| is_word(c) || c == '.');
        let after = &found[STEPS.len()..];
        match named(after, old.as_str()).filter(|_| begins) {
            Some(length) => {
                out.push_str("steps[\"");
                out.push_str(new.as_str());
                out.push_str("\"]");
                rest = &after[length..];
            }
            None => {
                out.push_str(STEPS);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Length of the step reference at the start of `text`: `.old`, `["old"]`, `['old']`.
fn named(text: &str, old: &str) -> Option<usize> {
    if let Some(rest) = text.strip_prefix('.').and_then(|rest| rest.strip_prefix(old)) {
        return (!rest.starts_with(is_word)).then_some(1 + old.len());
    }
    ["\"", "'"].iter().find_map(|quote| {
        let whole = format!("[{quote}{old}{quote}]");
        text.starts_with(&whole).then_some(whole.len())
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Replaces one dependency of a step by others.
pub(super) fn redirect(step: &mut Step, old: &StepId, new: &[StepId]) {
    step.dependencies.retain(|id| id != old);
    for id in new {
        if !step.dependencies.contains(id) {
            step.dependencies.push(id.clone());
        }
    }
    if let Some(allowed) = step.dependency_status.remove(old) {
        step.dependency_status.extend(new.iter().map(|id| (id.clone(), allowed.clone())));
    }
    if let [new] = new {
        rename(step, old, new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_name_a_step_is_found_and_no_other_word() {
        let to = |text: &str| renamed(text, &"a".into(), &"b-2".into());
        assert_eq!(to("{{ steps.a.outputs.x }}"), "{{ steps[\"b-2\"].outputs.x }}");
        assert_eq!(to("steps['a'].outputs > steps[\"a\"].n"), "steps[\"b-2\"].outputs > steps[\"b-2\"].n");
        assert_eq!(
            to("{{ steps.ab.outputs }} {{ my_steps.a }} {{ steps }}"),
            "{{ steps.ab.outputs }} {{ my_steps.a }} {{ steps }}"
        );
        assert_eq!(to("{{ x.steps.a }}"), "{{ x.steps.a }}");
    }

    #[test]
    fn every_field_with_expressions_is_rewritten() {
        let old = "steps.a.outputs.n";
        let mut step: Step = serde_json::from_value(serde_json::json!({
            "id": "c", "when": old, "repeat": {"until": old, "max": 2}, "ask": {"question": format!("{{{{ {old} }}}}?")},
            "for_each": {"items": [format!("{{{{ {old} }}}}")]}, "inputs": {"x": format!("{{{{ {old} }}}}")},
            "wait": {"until": format!("{{{{ {old} }}}}"), "key": format!("{{{{ {old} }}}}")},
            "cache": {"key": format!("{{{{ {old} }}}}"), "ttl_ms": 1},
        }))
        .expect("a step with every field");
        rename(&mut step, &"a".into(), &"b".into());
        let text = serde_json::to_string(&step).expect("a step is JSON");
        assert_eq!((text.matches("steps[").count(), text.contains("steps.a")), (8, false), "{text}");
    }

    #[test]
    fn inputs_are_rewritten_at_any_depth_and_text_without_expressions_is_not() {
        let inputs = serde_json::json!({"p": ["{{ steps.a.outputs.x }}"], "q": "steps.a stays"});
        let mut step = Step {
            inputs: Json::from_value(&inputs),
            when: Some("steps.a.outputs.n > 1".into()),
            ..Step::new("s", "w")
        };
        rename(&mut step, &"a".into(), &"b".into());
        assert_eq!(
            step.inputs.value(),
            serde_json::json!({"p": ["{{ steps[\"b\"].outputs.x }}"], "q": "steps.a stays"})
        );
        assert_eq!(step.when.as_deref(), Some("steps[\"b\"].outputs.n > 1"));
    }
}

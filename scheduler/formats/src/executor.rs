//! `subtask_executor` of the form `actions`: who does the steps of a plan, and with which prompt.

use serde_json::{Map, Value, json};

use super::context::{Conversion, object_under};
use super::prompts::fill_in;
use goalmill_plan::validate::step_field;

/// The field of [`executor_fields`] that is no field of a step: the prompt of its agent.
pub(super) const PROMPT: &str = "prompt";

/// Names of the prompt.
const PROMPTS: [&str; 6] = ["prompt", "prompt_template", "task", "query", "message", "input"];

/// What each step gets from the executor, each with the place where it was said.
pub(super) fn executor_fields(
    conversion: &mut Conversion<'_>,
    executor: &Value,
    before: &str,
) -> Vec<(&'static str, Value, String)> {
    let mut fields = Vec::new();
    let action = ["action", "type"].into_iter().find_map(|key| Some((key, executor.get(key)?.as_str()?)));
    match action {
        None | Some((_, "agent.dispatch")) => {}
        Some((_, "llm.call")) => fields.push(("kind", json!("llm"), before.to_owned())),
        Some((key, other)) => {
            let detail = format!("`{other}` does no steps here");
            let hint = "write `agent.dispatch` with an `agent`, or `llm.call`";
            conversion.rewrite.refuse("INVALID_VALUE", &format!("{before}/{key}"), detail, hint);
        }
    }
    let parts = executor.as_object().into_iter().flatten().filter(|(key, _)| !is_known(key));
    for (key, _) in parts {
        refuse_setting(conversion, before, key);
    }
    for (key, value) in executor.get("with").and_then(Value::as_object).into_iter().flatten() {
        let place = format!("{before}/with/{key}");
        match key.as_str() {
            "agent" | "agent_type" | "name" => {
                fields.retain(|(name, _, _)| *name != "kind");
                fields.push(("agent_type", value.clone(), place));
            }
            key if PROMPTS.contains(&key) && value.is_string() => fields.push((PROMPT, value.clone(), place)),
            key => refuse_setting(conversion, &format!("{before}/with"), key),
        }
    }
    fields
}

fn is_known(key: &str) -> bool {
    matches!(key, "action" | "type" | "with")
}

fn refuse_setting(conversion: &mut Conversion<'_>, at: &str, key: &str) {
    let detail = format!("`{key}` cannot be said of the executor: an agent has its own model and parameters");
    let hint = "remove it, and name with `agent` an agent type whose settings have it";
    conversion.rewrite.refuse("UNKNOWN_FIELD", &format!("{at}/{key}"), detail, hint);
}

/// Gives a step its prompt as an input, unless that is its description, which each agent gets.
pub(super) fn give_prompt(
    conversion: &mut Conversion<'_>,
    step: &mut Map<String, Value>,
    at: &str,
    (template, before): (&Value, &str),
) {
    let field = |name: &str| {
        let found = step.iter().find(|(key, _)| step_field(key) == Some(name)).map(|(_, value)| value);
        found.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (description, id) = (field("description"), field("id"));
    let mut names: Vec<(&str, String)> = vec![("goal", "{{ goal.description }}".to_owned())];
    names.extend(
        ["subtask.description", "step.description", "task.description", "description", "subtask"]
            .map(|name| (name, description.clone())),
    );
    names.extend(["subtask.id", "step.id", "task.id"].map(|name| (name, id.clone())));
    match fill_in(template.as_str().unwrap_or_default(), &names) {
        Ok(prompt) if prompt.trim() == description.trim() => {}
        Ok(prompt) => {
            if let Some(inputs) = object_under(step, "inputs") {
                inputs.entry("prompt").or_insert(json!(prompt));
                conversion.rewrite.moved(format!("{at}/inputs/prompt"), before.to_owned());
            }
        }
        Err(name) => {
            let detail = format!("the prompt names `{name}`, which has no value here");
            let hint = "known are `goal`, `subtask.id` and `subtask.description`; results of earlier steps are the input `results`";
            conversion.rewrite.refuse("INVALID_VALUE", before, detail, hint);
        }
    }
}

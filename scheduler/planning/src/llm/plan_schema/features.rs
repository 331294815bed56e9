//! Features of plans besides steps with an action: the words of prompts and the fields of schemas, from one list.

use goalmill_common::plan::DependencyStatus;
use goalmill_common::planning::PlanFeature;
use serde_json::{Map, Value, json};

use super::PlanVocabulary;
use super::schema_parts::{FieldSchema, object, one_of, open_object};

/// Bytes of the names of agents and actions in a schema that no server enforces; the prompt lists them.
const NAMES_BYTES_MAX: usize = 2_048;

/// The words of prompts for each feature, in the order of the list.
pub fn lines(features: &[PlanFeature]) -> Vec<&'static str> {
    PlanFeature::ALL.iter().filter(|feature| features.contains(feature)).map(|feature| line(*feature)).collect()
}

fn line(feature: PlanFeature) -> &'static str {
    match feature {
        PlanFeature::Conditions => {
            r#"`"when": "steps.ID.outputs.FIELD > 3"`: the step is skipped unless the condition is true. Conditions have `==`, `!=`, `<`, `>`, `not`, `and`, `or`, and texts in single quotes. They see steps in `dependencies` only."#
        }
        PlanFeature::Statuses => {
            r#"`{"step": "ID", "is": ["failed"]}` in `dependencies`, in place of an id: the step runs only if that one has failed. Other statuses are `completed` and `skipped`."#
        }
        PlanFeature::Approvals => r#"`"approve": true`: a person must allow the step before it runs."#,
        PlanFeature::Questions => {
            r#"A step that asks a person has `"ask": {"question": "…"}`, without agent, action and inputs. Its outputs are the answer: `"{{ steps.ID.outputs }}"`. With `"schema": {"type": "boolean"}` the answer is yes or no."#
        }
        PlanFeature::Maps => {
            r#"Work that is the same for each item of a list is one step, not many: `"for_each": "{{ steps.ID.outputs.LIST }}"` or a list that the goal names, and `"{{ item }}"` in its inputs. Its outputs are a list. Several steps for each item are one step without agent and action: `"kind": "plan", "for_each": …, "inputs": {"item": "{{ item }}"}, "plan": {"steps": […]}`. The steps inside read the item as `"{{ goal.metadata.inputs.item }}"`."#
        }
        PlanFeature::Loops => {
            r#"`"repeat": {"until": "outputs.score > 0.8", "max": 5, "delay": "10m"}`: the step runs again until the condition about its outputs is true. `delay` may be left out. Inputs may read the time before: `"{{ previous.outputs.FIELD | default(steps.ID.outputs.FIELD) }}"`."#
        }
        PlanFeature::Waits => {
            r#"A step that only waits has `"kind": "wait"` and `"wait": {"for": "3d"}`, `{"until": "2027-12-04T10:00:00Z"}` or `{"event": "payment", "timeout": "2d"}`, without agent, action and inputs."#
        }
        PlanFeature::Undo => {
            r#"`"undo": {"agent_type": …, "action": …, "inputs": {"id": "{{ outputs.FIELD }}"}}` takes the step back when the plan fails. It reads the outputs of its step."#
        }
        PlanFeature::Always => {
            r#"`"always": true`: the step runs at the end whatever happens. It has no dependencies, and none depends on it."#
        }
    }
}

/// Statuses that a dependency may name.
pub(super) fn statuses() -> Value {
    let statuses: Vec<String> = DependencyStatus::ALL.iter().map(|status| status.as_str().to_owned()).collect();
    json!({"type": "array", "items": one_of(&statuses), "minItems": 1, "maxItems": statuses.len()})
}

/// A question of a step; an answer without a schema is anything.
pub(super) fn question(text: Value) -> Value {
    let kinds = ["string", "boolean", "integer", "number"].map(str::to_owned);
    let schema = object([("type", one_of(&kinds))]);
    let mut question = object([("question", text), ("schema", schema)]);
    question["required"] = json!(["question"]);
    question
}

/// The ways to wait.
pub(super) fn waits(duration: &Value, time: &Value, event: &Value) -> [(&'static str, Value); 3] {
    let event = object([("event", event.clone()), ("timeout", duration.clone())]);
    [("wait", object([("for", duration.clone())])), ("until", object([("until", time.clone())])), ("event", event)]
}

/// Iterations of a step.
pub(super) fn repeat(until: Value, max: Value, delay: Value) -> Value {
    let mut repeat = object([("until", until), ("max", max), ("delay", delay)]);
    repeat["required"] = json!(["until", "max"]);
    repeat
}

/// The fields of a feature on a step with an action, where no grammar bounds their texts.
///
/// - `undo`: what may take a step back.
pub(super) fn action_fields(feature: PlanFeature, undo: impl FnOnce() -> Value) -> Vec<FieldSchema> {
    let text = || json!({"type": "string"});
    match feature {
        PlanFeature::Conditions => vec![("when", text())],
        PlanFeature::Approvals => vec![("approve", json!({"type": "boolean"}))],
        PlanFeature::Maps => {
            vec![("for_each", json!({"anyOf": [text(), {"type": "array", "items": text()}]}))]
        }
        PlanFeature::Loops => vec![("repeat", repeat(text(), json!({"type": "integer"}), text()))],
        PlanFeature::Undo => vec![("undo", undo())],
        PlanFeature::Always => vec![("always", json!({"type": "boolean"}))],
        PlanFeature::Statuses | PlanFeature::Questions | PlanFeature::Waits => Vec::new(),
    }
}

/// A step for prompts and for the parameters of tools: all fields in one object, and no server enforces it.
pub fn loose_step(vocabulary: &PlanVocabulary) -> Value {
    let text = || json!({"type": "string"});
    let texts = || json!({"type": "array", "items": text()});
    let names = vocabulary.names();
    let is_long = names.iter().map(|names| names.to_string().len()).sum::<usize>() > NAMES_BYTES_MAX;
    let [agent, action] = if is_long { [text(), text()] } else { names };
    let mut properties = Map::new();
    let mut add = |name: &str, schema: Value| drop(properties.insert(name.to_owned(), schema));
    for name in ["id", "description"] {
        add(name, text());
    }
    add("agent_type", agent.clone());
    add("action", action.clone());
    add("inputs", open_object());
    let has = |feature| vocabulary.features.contains(&feature);
    let dependency = if has(PlanFeature::Statuses) {
        json!({"anyOf": [text(), {"type": "object", "properties": {"step": text(), "is": texts()}, "required": ["step", "is"]}]})
    } else {
        text()
    };
    add("dependencies", json!({"type": "array", "items": dependency}));
    add("phase", text());
    add("kind", one_of(&["tool", "llm", "message", "finish", "plan", "wait"].map(str::to_owned)));
    let undo =
        json!({"type": "object", "properties": {"agent_type": text(), "action": text(), "inputs": open_object()}});
    for feature in &vocabulary.features {
        action_fields(*feature, || undo.clone()).into_iter().for_each(|(name, schema)| add(name, schema));
    }
    if has(PlanFeature::Questions) {
        add("ask", question(text()));
    }
    if has(PlanFeature::Waits) {
        let wait = json!({"for": text(), "until": text(), "event": text(), "timeout": text()});
        add("wait", json!({"type": "object", "properties": wait}));
    }
    if has(PlanFeature::Maps) && vocabulary.nested {
        add("plan", open_object());
    }
    if !vocabulary.plans.is_empty() {
        add("use", vocabulary.plan_names());
    }
    let mut required = vec!["id", "description", "dependencies"];
    if vocabulary.fallbacks {
        add("fallback", json!({"type": "object", "properties": {"agent_type": agent, "action": action}}));
        required.push("fallback");
    }
    json!({"type": "object", "properties": properties, "required": required})
}

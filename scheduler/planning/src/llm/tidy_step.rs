//! Gives a step the fields of a step, in whichever layout a model wrote it.

use goalmill_common::id::is_id;
use goalmill_plan::validate::step_field;
use goalmill_reader::ToolCatalogue;
use serde_json::{Map, Value, json};

use crate::repair::Edit;

/// What models say about a step or a plan besides it; nothing depends on it.
const REMARKS: [&str; 12] = [
    "thought", "thoughts", "reasoning", "rationale", "explanation", "comment", "comments", "note", "notes", "step",
    "step_number", "remove",
];
/// Fields that hold the text of a step, best first.
const TEXTS: [&str; 17] = [
    "step", "text", "step_description", "task_description", "action_description", "step_text", "step_name", "subtask",
    "sub_task", "subgoal", "sub_goal", "plan_step", "goal", "details", "detail", "content", "purpose",
];
/// Fields that hold the number of a step, best first.
const NUMBERS: [&str; 8] = ["step_number", "step_no", "step_num", "step_index", "step", "number", "no", "index"];
/// Actions that say whether there is a tool, and name none.
const FLAGS: [&str; 14] =
    ["", "0", "1", "-", "none", "null", "nil", "n/a", "na", "no", "yes", "false", "true", "no tool"];

/// One step, wherever it stands.
pub fn tidy_step(step: &mut Value, at: &str, catalogue: &ToolCatalogue, edits: &mut Vec<Edit>) {
    open_text(step, at, edits);
    open_envelope(step, at, edits);
    let Some(map) = step.as_object_mut() else { return };
    open_work(map);
    open_function(map, at, edits);
    name_is_action(map, at, catalogue, edits);
    number_is_id(map, at, edits);
    text_is_description(map, at, edits);
    drop_flag(map, at, edits);
    open_inputs(map, at, edits);
    drop_remarks(map, at, step_field, edits);
}

/// A step that is a text and nothing else is a step with that description.
fn open_text(step: &mut Value, at: &str, edits: &mut Vec<Edit>) {
    let Some(text) = step.as_str().map(str::trim).filter(|text| !text.is_empty()) else { return };
    let became = json!({ "description": text });
    let was = std::mem::replace(step, became.clone());
    edits.push(Edit::new("STEP_FROM_TEXT", at, was, became, "the text says what is to be done"));
}

/// `{"type": "step", "step": {…}}` is the step inside, when nothing else stands beside it.
fn open_envelope(step: &mut Value, at: &str, edits: &mut Vec<Edit>) {
    let Some(map) = step.as_object() else { return };
    let is_said = |key: &str| map.get(key).is_none_or(|word| word == "step");
    let is_alone = map.keys().all(|key| matches!(key.as_str(), "step" | "type" | "event"));
    let Some(inner) = map.get("step").filter(|inner| inner.is_object() && is_alone) else { return };
    if !is_said("type") || !is_said("event") {
        return;
    }
    let inner = inner.clone();
    let was = std::mem::replace(step, inner.clone());
    edits.push(Edit::new("STEP_OPENED", at, was, inner, "the step stands inside an object that only says so"));
}

/// `{"id": …, "work": {"agent_type": …, "action": …, "inputs": …}}` is how the strict form of the schema asks for a step, so it
/// is no edit. In the plan inside a step it is the same.
fn open_work(map: &mut Map<String, Value>) {
    if let Some(Value::Object(work)) = map.get("work")
        && work.keys().all(|key| step_field(key).is_some() && !map.contains_key(key))
        && let Some(Value::Object(work)) = map.remove("work")
    {
        map.extend(work);
    }
    let inside = map.get_mut("plan").and_then(|plan| plan.get_mut("steps")).and_then(Value::as_array_mut);
    inside.into_iter().flatten().filter_map(Value::as_object_mut).for_each(open_work);
}

/// `{"type": "function", "function": {"name": …, "arguments": …}}` is a step with that action.
fn open_function(map: &mut Map<String, Value>, at: &str, edits: &mut Vec<Edit>) {
    if !map.get("function").is_some_and(|f| f.get("name").is_some_and(Value::is_string)) {
        return;
    }
    let Some(Value::Object(mut function)) = map.remove("function") else { return };
    let was = Value::Object(function.clone());
    let action = function.remove("name").unwrap_or_default();
    let inputs = match function.remove("arguments").or_else(|| function.remove("parameters")) {
        Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        Some(inputs) => inputs,
        None => json!({}),
    };
    let became = json!({"action": action, "inputs": inputs});
    map.insert("action".into(), action);
    map.insert("inputs".into(), inputs);
    edits.push(Edit::new("CALL_OPENED", &format!("{at}/function"), was, became, "a call is a step with that action"));
}

/// `name` is the action of a step that has none, if the catalogue knows it.
fn name_is_action(map: &mut Map<String, Value>, at: &str, catalogue: &ToolCatalogue, edits: &mut Vec<Edit>) {
    if has(map, "action") || catalogue.is_empty() {
        return;
    }
    let Some(name) = map.get("name").and_then(Value::as_str) else { return };
    let Some(action) = catalogue.find(name) else { return };
    let became = Value::String(action.name.clone());
    if let Some(was) = map.remove("name") {
        map.insert("action".into(), became.clone());
        edits.push(Edit::new("ACTION_FROM_NAME", &format!("{at}/name"), was, became, "an action has this name"));
    }
}

/// The number of a step that has no id is its id.
fn number_is_id(map: &mut Map<String, Value>, at: &str, edits: &mut Vec<Edit>) {
    if has(map, "id") {
        return;
    }
    let Some((key, id)) = NUMBERS.iter().find_map(|key| Some((*key, id_in(map.get(*key)?)?))) else { return };
    rename(map, key, "id", id.clone());
    let was = id.clone();
    edits.push(Edit::new("ID_FROM_NUMBER", &format!("{at}/{key}"), was, id, "the steps are known by their numbers"));
}

/// `3`, `"1.2"`, `"s3"`, `"Step 3"`: the id that a number of a step is. Other texts are no numbers of steps.
fn id_in(value: &Value) -> Option<Value> {
    let text = match value {
        Value::Number(number) => number.as_u64()?.to_string(),
        Value::String(text) => text.trim().trim_end_matches(['.', ')', ':']).to_ascii_lowercase(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let stem = text.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &text[stem.len()..];
    if number.is_empty() || number.starts_with('.') || !is_id(number) {
        return None;
    }
    match stem.trim_end_matches(['-', '_', ' ', '#']) {
        "" => Some(number.into()),
        "task" | "subtask" | "step" | "s" | "t" | "e" | "n" | "node" => {
            let id = value.as_str()?.trim().trim_end_matches(['.', ')', ':']).replace(' ', "-");
            is_id(&id).then(|| id.into())
        }
        _ => None,
    }
}

/// The text of a step is its description.
fn text_is_description(map: &mut Map<String, Value>, at: &str, edits: &mut Vec<Edit>) {
    let is_text = |key: &&&str| step_field(key).is_none() && map.get(**key).is_some_and(is_words);
    let Some(key) = TEXTS.iter().find(is_text).copied() else { return };
    let was = map[key].clone();
    let description = map.keys().find(|name| step_field(name) == Some("description")).cloned();
    let text = was.as_str().unwrap_or_default().trim();
    let why = "the text of a step is its description";
    // A `task` of several words is a description too.
    let task = map.get("task").and_then(Value::as_str).filter(|task| task.contains(char::is_whitespace));
    let known = description.as_ref().and_then(|name| map[name].as_str()).or(task);
    let became = match known.map(str::trim) {
        Some("") | None => text.to_owned(),
        Some(known) if known.contains(text) => known.to_owned(),
        Some(known) => format!("{text}: {known}"),
    };
    match description {
        Some(name) => {
            map.remove(key);
            map.insert(name, became.clone().into());
        }
        None => rename(map, key, "description", became.clone().into()),
    }
    edits.push(Edit::new("TEXT_IS_DESCRIPTION", &format!("{at}/{key}"), was, became.into(), why));
}

fn is_words(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty() && id_in(value).is_none())
}

/// `"tool": "0"` says that the step needs no tool of its own, or that it needs one, and names none.
fn drop_flag(map: &mut Map<String, Value>, at: &str, edits: &mut Vec<Edit>) {
    let is_flag = |value: &Value| match value {
        Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => FLAGS.contains(&text.trim().to_ascii_lowercase().as_str()),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    };
    let flags = map.iter().filter(|(key, value)| step_field(key) == Some("action") && is_flag(value));
    let keys: Vec<String> = flags.map(|(key, _)| key.clone()).collect();
    for key in keys {
        if let Some(was) = map.remove(&key) {
            edits.push(Edit::new("ACTION_DROPPED", &format!("{at}/{key}"), was, Value::Null, "it names no action"));
        }
    }
}

/// Inputs that are the text of an object are that object; an empty text is none.
fn open_inputs(map: &mut Map<String, Value>, at: &str, edits: &mut Vec<Edit>) {
    let Some(key) = map.keys().find(|key| step_field(key) == Some("inputs")).cloned() else { return };
    let Some(text) = map[&key].as_str().map(str::trim) else { return };
    let became = match text {
        "" => json!({}),
        _ => match serde_json::from_str::<Value>(text) {
            Ok(object @ Value::Object(_)) => object,
            Ok(_) | Err(_) => return,
        },
    };
    if let Some(was) = map.insert(key.clone(), became.clone()) {
        edits.push(Edit::new("INPUTS_OPENED", &format!("{at}/{key}"), was, became, "the inputs stand in a text"));
    }
}

fn has(map: &Map<String, Value>, field: &str) -> bool {
    map.keys().any(|key| step_field(key) == Some(field))
}

/// Puts a field under another name in its place.
fn rename(map: &mut Map<String, Value>, key: &str, name: &str, value: Value) {
    let entries = std::mem::take(map).into_iter();
    *map = entries.map(|(k, v)| if k == key { (name.to_owned(), value.clone()) } else { (k, v) }).collect();
}

pub fn drop_remarks(
    map: &mut Map<String, Value>,
    at: &str,
    known: fn(&str) -> Option<&'static str>,
    edits: &mut Vec<Edit>,
) {
    let remarks: Vec<String> = map.keys().filter(|key| known(key).is_none() && is_remark(key)).cloned().collect();
    for key in remarks {
        if let Some(was) = map.remove(&key) {
            edits.push(Edit::new(
                "REMARK_DROPPED",
                &format!("{at}/{key}"),
                was,
                Value::Null,
                "it says nothing to be done",
            ));
        }
    }
}

fn is_remark(key: &str) -> bool {
    REMARKS.iter().any(|remark| key.eq_ignore_ascii_case(remark))
}

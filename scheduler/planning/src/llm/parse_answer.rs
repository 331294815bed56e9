//! Parses a model's answer into a draft of a plan, including layouts that only models use.

use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use goalmill_common::text::pointer_part;
use goalmill_formats::{DraftKind, convert_draft};
use goalmill_plan::document;
use goalmill_plan::validate::{own_id, plan_field, step_field};
use goalmill_reader::{ReaderLimits, Reading, ToolCatalogue, Verdict, parse_value};
use serde_json::{Map, Value, json};

use super::tidy_step::{drop_remarks, tidy_step};
use crate::repair::Edit;
use crate::stage::StageOutcome;

/// What was read of an answer.
#[derive(Clone, Debug)]
pub enum ParsedAnswer {
    /// A whole value, taken out of the reading, with what was changed to see a plan in it.
    Complete {
        value: Value,
        reading: Reading,
        edits: Vec<Edit>,
        /// Ids of steps that a correction takes out.
        removes: Vec<String>,
    },
    /// The answer ends in the middle; nothing is made of it.
    Truncated {
        reading: Reading,
    },
    Unparseable {
        reason: String,
    },
}

impl ParsedAnswer {
    /// How the stage of reading ended, for metrics.
    pub fn outcome(&self) -> StageOutcome {
        match self {
            Self::Complete { reading, edits, .. } if reading.verdict == Verdict::Exact && edits.is_empty() => {
                StageOutcome::Ok
            }
            Self::Complete { .. } => StageOutcome::Repaired,
            Self::Truncated { .. } | Self::Unparseable { .. } => StageOutcome::Error,
        }
    }
}

/// Reads an answer.
///
/// - `is_cut`: the server says that the answer was cut, whatever it looks like.
pub fn value(text: &str, catalogue: &ToolCatalogue, is_cut: bool) -> ParsedAnswer {
    of_reading(parse_value(text, catalogue, &ReaderLimits::default()), is_cut)
}

/// The same of a reading.
pub fn of_reading(mut reading: Reading, is_cut: bool) -> ParsedAnswer {
    match reading.verdict {
        Verdict::Unreadable { reason } => ParsedAnswer::Unparseable { reason: reason.to_string() },
        Verdict::Truncated { .. } => ParsedAnswer::Truncated { reading },
        Verdict::Exact | Verdict::Repaired if is_cut => ParsedAnswer::Truncated { reading },
        Verdict::Exact | Verdict::Repaired => match reading.value.take() {
            Some(value) => ParsedAnswer::Complete { value, reading, edits: Vec::new(), removes: Vec::new() },
            None => ParsedAnswer::Unparseable { reason: "no value was found in the text".into() },
        },
    }
}

/// Reads an answer as a draft of a plan.
///
/// - `kind`: an answer, or a correction of one.
pub fn parse_plan_answer(text: &str, catalogue: &ToolCatalogue, is_cut: bool, kind: DraftKind) -> ParsedAnswer {
    let read = |text: &str| of_plan(parse_value(text, catalogue, &ReaderLimits::default()), catalogue, is_cut, kind);
    let Some(joined) = document::join_stream(text).filter(|joined| joined.has_other_lines && !is_cut) else {
        return read(text);
    };
    let mut parsed = read(&joined.plan.to_string());
    if let ParsedAnswer::Complete { edits, .. } = &mut parsed {
        let why = "a stream of steps with its end is one plan";
        edits.insert(0, Edit::new("FORMAT_CONVERTED", "", json!("stream"), Value::Null, why));
    }
    parsed
}

/// The same of a reading.
pub fn of_plan(reading: Reading, catalogue: &ToolCatalogue, is_cut: bool, kind: DraftKind) -> ParsedAnswer {
    match of_reading(reading, is_cut) {
        ParsedAnswer::Complete { value, reading, .. } => {
            let removes = removes(&value);
            let mut draft = document(value, &reading);
            let mut edits = Vec::new();
            tidy(&mut draft, catalogue, &mut edits);
            let converted = convert_draft(draft, &Limits::default(), kind);
            let note = |note: &Issue| Edit::new(&note.code, &note.pointer, Value::Null, Value::Null, &note.detail);
            edits.extend(converted.notes.iter().map(note));
            let draft = converted.document;
            ParsedAnswer::Complete { value: draft, reading, edits, removes }
        }
        other @ (ParsedAnswer::Truncated { .. } | ParsedAnswer::Unparseable { .. }) => other,
    }
}

/// What a correction takes out.
fn removes(value: &Value) -> Vec<String> {
    let ids = value.get("remove").and_then(Value::as_array);
    ids.into_iter().flatten().filter_map(|id| id.as_str().map(str::to_owned)).collect()
}

/// The document that holds the steps.
fn document(value: Value, reading: &Reading) -> Value {
    let has_steps = |map: &Map<String, Value>| {
        map.keys().any(|key| matches!(plan_field(key), Some("steps" | "phases")))
            || map.get("plan").is_some_and(|plan| plan.is_object() || plan.is_array())
    };
    if value.as_object().is_some_and(has_steps) {
        value
    } else if value.is_array() || value.as_object().is_some_and(is_numbered) {
        json!({ "steps": value })
    } else if reading.items.is_empty() {
        value
    } else {
        json!({"steps": reading.items.iter().map(|item| item.value.clone()).collect::<Vec<_>>()})
    }
}

/// `{"step_1": {…}, "step_2": {…}}`: every key is the number of a step.
fn is_numbered(map: &Map<String, Value>) -> bool {
    let is_number = |key: &str| {
        let word = key.trim_end_matches(|c: char| c.is_ascii_digit());
        let word = word.trim_end_matches(['_', '-', ' ']).to_ascii_lowercase();
        key.ends_with(|c: char| c.is_ascii_digit()) && matches!(word.as_str(), "" | "step" | "task" | "subtask")
    };
    !map.is_empty() && map.iter().all(|(key, step)| is_number(key) && (step.is_object() || step.is_string()))
}

/// Takes remarks out and gives calls the fields of steps.
fn tidy(draft: &mut Value, catalogue: &ToolCatalogue, edits: &mut Vec<Edit>) {
    let Some(map) = draft.as_object_mut() else { return };
    drop_remarks(map, "", plan_field, edits);
    let keys: Vec<String> = map.keys().filter(|key| plan_field(key) == Some("steps")).cloned().collect();
    if let (true, Some(inner)) = (keys.is_empty(), map.get_mut("plan")) {
        tidy_steps(inner, "/plan", catalogue, edits);
        let inner = inner.as_object_mut().into_iter().flatten();
        for (key, steps) in inner.filter(|(key, _)| plan_field(key) == Some("steps")) {
            tidy_steps(steps, &format!("/plan/{key}"), catalogue, edits);
        }
    }
    for key in keys {
        if let Some(steps) = map.get_mut(&key) {
            tidy_steps(steps, &format!("/{key}"), catalogue, edits);
        }
    }
}

/// The steps of a list, or of an object with their ids.
fn tidy_steps(steps: &mut Value, at: &str, catalogue: &ToolCatalogue, edits: &mut Vec<Edit>) {
    match steps {
        Value::Array(items) => {
            for (index, step) in items.iter_mut().enumerate() {
                tidy_step(step, &format!("{at}/{index}"), catalogue, edits);
            }
        }
        Value::Object(map) if map.keys().all(|key| plan_field(key).is_none()) => {
            for (id, step) in map.iter_mut() {
                tidy_step(step, &format!("{at}/{}", pointer_part(id)), catalogue, edits);
            }
        }
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The list of steps of a draft that has one, and where it stands; none when steps lie in phases or an object.
pub fn steps(draft: &Value) -> Option<(String, &Vec<Value>)> {
    let mut at = String::new();
    let mut document = draft;
    loop {
        let map = document.as_object()?;
        let own = map.iter().find(|(key, _)| plan_field(key) == Some("steps"));
        if map.keys().any(|key| plan_field(key) == Some("phases")) {
            return None;
        }
        if let Some((key, value)) = own {
            return value.as_array().map(|steps| (format!("{at}/{key}"), steps));
        }
        at.push_str("/plan");
        document = map.get("plan")?;
        if let Some(steps) = document.as_array() {
            return Some((at, steps));
        }
    }
}

/// Puts corrected steps into a draft: under their ids, new ones before the first step that names them, or last.
///
/// - `frozen`: ids of steps that stay as they are.
pub fn merge(draft: &Value, corrections: &Value, remove: &[String], frozen: &[String]) -> Value {
    let Some((at, steps)) = steps(draft) else { return corrections.clone() };
    let mut merged = steps.clone();
    let is_frozen = |id: &str| frozen.iter().any(|known| known == id);
    merged.retain(|step| own_id(step).is_none_or(|id| is_frozen(&id) || !remove.contains(&id)));
    let fresh = self::steps(corrections).map(|(_, steps)| steps.clone()).unwrap_or_default();
    for step in fresh {
        let Some(name) = own_id(&step) else {
            merged.push(step);
            continue;
        };
        if is_frozen(&name) {
            continue;
        }
        match merged.iter().position(|known| own_id(known).as_ref() == Some(&name)) {
            Some(place) => merged[place] = corrected(step, &merged[place]),
            None => match merged.iter().position(|known| needs(known, &name)) {
                Some(place) => merged.insert(place, step),
                None => merged.push(step),
            },
        }
    }
    let mut whole = draft.clone();
    if let Some(list) = whole.pointer_mut(&at) {
        *list = Value::Array(merged);
    }
    whole
}

/// A corrected step: it is whole, so one that says nothing of dependencies has none, also if it had some.
fn corrected(mut step: Value, before: &Value) -> Value {
    let names = |step: &Value| {
        step.as_object().is_some_and(|map| map.keys().any(|key| step_field(key) == Some("dependencies")))
    };
    if !names(&step)
        && names(before)
        && let Some(map) = step.as_object_mut()
    {
        map.insert("dependencies".into(), json!([]));
    }
    step
}

fn needs(step: &Value, name: &str) -> bool {
    let Some(map) = step.as_object() else { return false };
    map.iter().filter(|(key, _)| step_field(key) == Some("dependencies")).any(|(_, list)| match list {
        Value::Array(items) => items.iter().any(|item| item.as_str() == Some(name)),
        Value::String(text) => text == name,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(text: &str) -> (Value, Vec<String>) {
        let catalogue = ToolCatalogue::from_schemas([("find_flights", None)]);
        match parse_plan_answer(text, &catalogue, false, DraftKind::Answer) {
            ParsedAnswer::Complete { value, edits, .. } => (value, edits.into_iter().map(|edit| edit.code).collect()),
            other @ (ParsedAnswer::Truncated { .. } | ParsedAnswer::Unparseable { .. }) => panic!("{other:?}"),
        }
    }

    #[test]
    fn layouts_of_models_become_documents_with_steps_and_every_change_is_told() {
        assert_eq!(draft(r#"[{"id": "a"}]"#), (json!({"steps": [{"id": "a"}]}), vec![]));
        let (value, edits) =
            draft(r#"{"thought": "hm", "steps": [{"id": "a", "reasoning": "x", "name": "find_flights"}]}"#);
        assert_eq!(value, json!({"steps": [{"id": "a", "action": "find_flights"}]}));
        assert_eq!(edits, ["REMARK_DROPPED", "ACTION_FROM_NAME", "REMARK_DROPPED"]);
        let (value, edits) =
            draft(r#"[{"id": "a", "function": {"name": "find_flights", "arguments": "{\"to\": \"Rome\"}"}}]"#);
        assert_eq!(value, json!({"steps": [{"id": "a", "action": "find_flights", "inputs": {"to": "Rome"}}]}));
        assert_eq!(edits, ["CALL_OPENED"]);
    }

    #[test]
    fn the_text_of_a_step_its_number_and_its_inputs_are_kept() {
        let raw = "[{'step': '1.1 Find a flight', 'tool': 'find_flights', 'param': {'to': 'Rome'}}, {'step': '1.2 Tell', 'tool': '0'}]";
        let (value, edits) = draft(raw);
        let expected = json!({"steps": [
            {"description": "1.1 Find a flight", "tool": "find_flights", "param": {"to": "Rome"}},
            {"description": "1.2 Tell"},
        ]});
        assert_eq!(value, expected);
        assert_eq!(edits, ["TEXT_IS_DESCRIPTION", "TEXT_IS_DESCRIPTION", "ACTION_DROPPED"]);
        let (value, _) = draft(
            r#"{"plan": [{"step": 2, "text": "Book", "description": "A room", "tool_input": "{"n": 1}"}, "Tell me"]}"#,
        );
        let expected = json!({"plan": {"steps": [
            {"id": "2", "description": "Book: A room", "tool_input": {"n": 1}},
            {"description": "Tell me"},
        ]}});
        assert_eq!(value, expected);
        let (value, _) = draft(r#"{"step_1": {"task": "book a room"}, "step_2": "Tell me"}"#);
        assert_eq!(value, json!({"steps": {"step_1": {"task": "book a room"}, "step_2": {"description": "Tell me"}}}));
    }

    #[test]
    fn a_correction_that_leaves_a_field_out_takes_it_out() {
        let before =
            json!({"steps": [{"id": "a"}, {"id": "b", "dependencies": ["a"], "action": "no", "when": "true"}]});
        let gone = merge(&before, &json!({"steps": [{"id": "b", "action": "do"}]}), &[], &[]);
        assert_eq!(gone["steps"][1], json!({"id": "b", "action": "do", "dependencies": []}));
        let none = merge(&before, &json!({"steps": [{"id": "b", "dependencies": []}]}), &[], &[]);
        assert_eq!(none["steps"][1], json!({"id": "b", "dependencies": []}));
    }

    #[test]
    fn a_correction_in_a_form_with_an_order_of_its_own_adds_no_order() {
        let before = json!({"planId": "p", "steps": [{"id": "approve", "type": "tool", "toolId": "ask"},
                                                     {"id": "pay", "type": "tool", "toolId": "bank", "dependencies": ["approve"]}]});
        let answer = r#"{"planId": "p", "steps": [{"id": "approve", "type": "tool", "toolId": "find_flights"},
                                                  {"id": "pay", "type": "tool", "toolId": "find_flights"}]}"#;
        let ParsedAnswer::Complete { value, .. } =
            parse_plan_answer(answer, &ToolCatalogue::default(), false, DraftKind::Correction)
        else {
            panic!("it is complete");
        };
        let merged = merge(&before, &value, &[], &[]);
        assert_eq!(merged["steps"][1]["dependencies"], json!([]), "{merged}");
        assert!(merged["steps"][0].get("dependencies").is_none(), "{merged}");
    }

    #[test]
    fn a_step_inside_an_object_that_only_says_so_is_the_step() {
        let lines = concat!(
            r#"{"type": "step", "step": {"id": "a", "name": "find_flights"}}"#,
            "\n",
            r#"{"type": "step", "step": {"id": "b", "dependencies": ["a"]}}"#,
        );
        let (value, edits) = draft(lines);
        let expected = json!({"steps": [{"id": "a", "action": "find_flights"}, {"id": "b", "dependencies": ["a"]}]});
        assert_eq!(value, expected);
        assert_eq!(edits, ["STEP_OPENED", "ACTION_FROM_NAME", "STEP_OPENED"]);
    }

    #[test]
    fn a_cut_answer_is_no_plan_even_if_it_can_be_read() {
        let whole = r#"{"steps": [{"id": "a"}]}"#;
        assert!(matches!(
            parse_plan_answer(whole, &ToolCatalogue::default(), true, DraftKind::Answer),
            ParsedAnswer::Truncated { .. }
        ));
        assert!(matches!(
            parse_plan_answer(&whole[..20], &ToolCatalogue::default(), false, DraftKind::Answer),
            ParsedAnswer::Truncated { .. }
        ));
        assert!(matches!(
            parse_plan_answer("no idea", &ToolCatalogue::default(), false, DraftKind::Answer),
            ParsedAnswer::Unparseable { .. }
        ));
    }

    #[test]
    fn corrections_find_their_places_and_leave_frozen_steps_alone() {
        let before = json!({"name": "n", "steps": [{"id": "a"}, {"id": "b", "dependencies": ["x"]}, {"id": "c"}]});
        let fixes = json!({"steps": [{"id": "b", "dependencies": ["x"], "action": "do"}, {"id": "x"}, {"id": "a", "action": "no"}]});
        let merged = merge(&before, &fixes, &["c".into(), "a".into()], &["a".into()]);
        let expected = json!({"name": "n", "steps": [{"id": "a"}, {"id": "x"}, {"id": "b", "dependencies": ["x"], "action": "do"}]});
        assert_eq!(merged, expected);
    }
}

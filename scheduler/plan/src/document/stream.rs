//! Streams of steps: one JSON object a line, as models and planners write them.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::fields::snake;
use crate::validate::own_id;

/// Lines of a stream that are read.
const LINES_MAX: usize = 10_000;

/// A line of a stream that is no step.
enum StreamLine {
    Step(Value),
    Finish(Value),
    Reasoning,
}

fn line(value: &Value) -> Option<StreamLine> {
    let map = value.as_object()?;
    let word = map.get("type").and_then(Value::as_str).unwrap_or_default();
    if let Some(step) = map.get("step").filter(|step| step.is_object() && matches!(word, "" | "step")) {
        return Some(StreamLine::Step(step.clone()));
    }
    if let Some(finish) = map.get("finish") {
        return Some(StreamLine::Finish(finish.clone()));
    }
    match word {
        "partial" | "reasoning" if !map.contains_key("id") => Some(StreamLine::Reasoning),
        "finish" if !map.contains_key("id") => {
            let rest: Map<String, Value> =
                map.iter().filter(|(key, _)| *key != "type").map(|(k, v)| (k.clone(), v.clone())).collect();
            Some(StreamLine::Finish(Value::Object(rest)))
        }
        _ if map.len() == 1 && map.keys().all(|key| snake(key) == "partial_reasoning") => Some(StreamLine::Reasoning),
        _ if map.contains_key("id") => Some(StreamLine::Step(value.clone())),
        _ => None,
    }
}

/// The plan of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinedStream {
    pub plan: Value,
    /// Whether reasoning or an end stood among the steps.
    pub has_other_lines: bool,
}

/// The plan in a stream of this form: one JSON object a line, with reasoning and an end among the steps.
///
/// None when the text is no such stream, or when a line of it is none of these.
pub fn join_stream(text: &str) -> Option<JoinedStream> {
    let mut steps = Vec::new();
    let (mut marks, mut others) = (0, 0);
    let mut finish = None;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("```"));
    for (n, text) in lines.enumerate() {
        if n >= LINES_MAX || !text.starts_with('{') {
            return None;
        }
        let value: Value = serde_json::from_str(text.trim_end_matches(',')).ok()?;
        let is_bare = value.get("id").is_some() && value.get("step").is_none();
        marks += usize::from(!is_bare);
        match line(&value)? {
            StreamLine::Step(step) => steps.push(step),
            StreamLine::Finish(value) => {
                others += 1;
                finish = Some(value);
            }
            StreamLine::Reasoning => others += 1,
        }
    }
    if steps.is_empty() || marks == 0 {
        return None;
    }
    if let Some(finish) = finish {
        let taken: BTreeSet<String> = steps.iter().filter_map(own_id).collect();
        let id = ["finish", "finish_plan", "the_finish"].into_iter().find(|id| !taken.contains(*id))?;
        let has_finish = steps.iter().any(|step| step.get("type").is_some_and(|word| *word == "finish"));
        if !has_finish {
            let inputs = if finish.is_object() { finish } else { json!({ "result": finish }) };
            steps.push(json!({"id": id, "type": "finish", "input": inputs}));
        }
    }
    let has_other_lines = others > 0;
    let mut plan = json!({ "steps": steps });
    if has_other_lines {
        // The mark of the form, for steps that have none themselves.
        plan["planId"] = json!("stream");
    }
    Some(JoinedStream { plan, has_other_lines })
}

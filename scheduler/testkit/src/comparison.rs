//! The first difference between a recorded plan and its repetition.

use std::collections::BTreeMap;

use goalmill_common::event::{Event, PlanEvent, Record, StepEvent};
use goalmill_common::failure::Failure;
use goalmill_common::json::Json;
use goalmill_common::redaction::MASK;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::value_match::shown;

/// Where a repetition first differs from the log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogDifference {
    /// Number of the event in the recorded log; of the repetition if the log has no such event.
    pub seq: u64,
    /// The step; none for the plan as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    pub attempt: u32,
    /// The place of the value, such as `outputs/price`; `event` when another event came.
    pub field: String,
    pub recorded: Value,
    pub repeated: Value,
    /// Why the attempt or step of the repetition failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl LogDifference {
    /// Whether the repetition has no event where the log has one.
    pub fn is_end_of_log(&self) -> bool {
        self.repeated.is_null() && self.field == "event"
    }
}

impl std::fmt::Display for LogDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.step, self.attempt) {
            (Some(step), 0) => write!(f, "step `{step}`")?,
            (Some(step), attempt) => write!(f, "step `{step}`, attempt {attempt}")?,
            (None, _) => f.write_str("the plan")?,
        }
        let (field, repeated, recorded) = (&self.field, shown(&self.repeated), shown(&self.recorded));
        write!(f, ": `{field}` is {repeated}, {recorded} in the log (event {})", self.seq)?;
        self.failure.as_ref().map_or(Ok(()), |failure| write!(f, "; {failure}"))
    }
}

/// What of an event is compared.
struct Fact {
    seq: u64,
    attempt: u32,
    fields: Map<String, Value>,
    failure: Option<String>,
}

/// Compares what happened to each step and to the plan, in its order. Times, costs and draws of random numbers do not
/// count, nor does the order in which independent steps went on.
pub fn first_difference(recorded: &[Record], repeated: &[Record]) -> Option<LogDifference> {
    let (recorded, repeated) = (facts(recorded), facts(repeated));
    let names: std::collections::BTreeSet<&Option<String>> = recorded.keys().chain(repeated.keys()).collect();
    let none = Vec::new();
    let differences = names.into_iter().filter_map(|step| {
        let (a, b) = (recorded.get(step).unwrap_or(&none), repeated.get(step).unwrap_or(&none));
        difference_of(step.as_ref(), a, b)
    });
    // A missing event of the log comes after what is in both.
    differences.min_by_key(|(is_extra, difference)| (*is_extra, difference.seq)).map(|(_, difference)| difference)
}

/// The first difference of one step, and whether the log has no such event.
fn difference_of(step: Option<&String>, recorded: &[Fact], repeated: &[Fact]) -> Option<(bool, LogDifference)> {
    let make = |fact: &Fact, field: String, recorded: Value, repeated: Value| LogDifference {
        seq: fact.seq,
        step: step.cloned(),
        attempt: fact.attempt,
        field,
        recorded,
        repeated,
        failure: None,
    };
    for (a, b) in recorded.iter().zip(repeated) {
        if let Some((field, recorded, repeated)) = differing("", &a.fields.clone().into(), &b.fields.clone().into()) {
            let failure = b.failure.clone();
            return Some((false, LogDifference { failure, ..make(a, field, recorded, repeated) }));
        }
    }
    let event = |fact: &Fact| fact.fields.get("event").cloned().unwrap_or_default();
    if let Some(missing) = recorded.get(repeated.len()) {
        return Some((false, make(missing, "event".into(), event(missing), Value::Null)));
    }
    let extra = repeated.get(recorded.len())?;
    Some((
        true,
        LogDifference { failure: extra.failure.clone(), ..make(extra, "event".into(), Value::Null, event(extra)) },
    ))
}

fn facts(log: &[Record]) -> BTreeMap<Option<String>, Vec<Fact>> {
    let mut facts: BTreeMap<Option<String>, Vec<Fact>> = BTreeMap::new();
    for record in log {
        let (step, attempt) = match &record.event {
            Event::Plan(_) => (None, 0),
            Event::Step { step, attempt, .. } => (Some(step.to_string()), *attempt),
        };
        if let Some(Value::Object(mut fields)) = compared(&record.event) {
            fields.insert("event".into(), record.event.type_name().into());
            let failure = failure_of(&record.event).map(|failure| format!("{}: {}", failure.code, failure.message));
            facts.entry(step).or_default().push(Fact { seq: record.seq, attempt, fields, failure });
        }
    }
    facts
}

fn failure_of(event: &Event) -> Option<&Failure> {
    let Event::Step { event, .. } = event else { return None };
    if let StepEvent::Failed(failed) = event {
        Some(&failed.failure)
    } else if let StepEvent::Retrying(retrying) = event {
        Some(&retrying.failure)
    } else {
        None
    }
}

/// The fields of an event that a repetition has to give again; `None` for events that do not count.
fn compared(event: &Event) -> Option<Value> {
    match event {
        Event::Plan(event) => compared_of_plan(event),
        Event::Step { event, .. } => compared_of_step(event),
    }
}

fn compared_of_plan(event: &PlanEvent) -> Option<Value> {
    if let PlanEvent::Revised(revised) = event {
        return Some(json!({"added": revised.added, "removed": revised.removed, "modified": revised.modified}));
    }
    if let PlanEvent::Completed(ended) | PlanEvent::Failed(ended) | PlanEvent::Cancelled(ended) = event {
        return Some(json!({"status": ended.status, "code": ended.failure.as_ref().map(|failure| &failure.code)}));
    }
    None
}

fn compared_of_step(event: &StepEvent) -> Option<Value> {
    Some(if let StepEvent::Queued(queued) = event {
        let inputs = queued.inputs.as_ref().filter(|inputs| is_comparable(inputs)).map(Json::value);
        json!({"agent_type": queued.agent_type, "action": queued.action, "inputs": inputs})
    } else if let StepEvent::Completed(completed) = event {
        json!({"outputs": completed.outputs.value()})
    } else if let StepEvent::Iterated(iterated) = event {
        json!({"outputs": iterated.outputs.value()})
    } else if let StepEvent::Undone(undone) = event {
        let code = undone.failure.as_ref().map(|failure| &failure.code);
        json!({"outputs": undone.outputs.as_ref().map(Json::value), "code": code})
    } else if let StepEvent::Retrying(retrying) = event {
        json!({"code": retrying.failure.code})
    } else if let StepEvent::Failed(failed) = event {
        json!({"code": failed.failure.code})
    } else if let StepEvent::Skipped(skipped) = event {
        json!({"cause": skipped.cause})
    } else if let StepEvent::Cancelled(_) = event {
        json!({})
    } else {
        return None;
    })
}

/// Whether recorded inputs are there in full.
fn is_comparable(inputs: &Json) -> bool {
    !inputs.text().contains(MASK) && !inputs.text().contains("\"$blob\"")
}

/// The first place where two values differ. Missing inputs, which are not recorded or masked, differ from nothing.
fn differing(place: &str, recorded: &Value, repeated: &Value) -> Option<(String, Value, Value)> {
    match (recorded, repeated) {
        (Value::Object(a), Value::Object(b)) => {
            let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            // Another event says more than its fields.
            let first = names.contains(&"event".to_owned()).then_some("event");
            let rest = names.iter().map(|name| name.as_str()).filter(|name| Some(*name) != first);
            first.into_iter().chain(rest).find_map(|name| {
                let (a, b) = (a.get(name).unwrap_or(&Value::Null), b.get(name).unwrap_or(&Value::Null));
                if place.is_empty() && name == "inputs" && (a.is_null() || b.is_null()) {
                    return None;
                }
                let place = if place.is_empty() { name.to_owned() } else { format!("{place}/{name}") };
                differing(&place, a, b)
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(at, (a, b))| differing(&format!("{place}/{at}"), a, b))
        }
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => None,
        (a, b) if a == b => None,
        (a, b) => Some((place.to_owned(), a.clone(), b.clone())),
    }
}

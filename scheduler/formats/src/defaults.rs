//! Defaults that belong to a form: what its authors mean when they say nothing.
//!
//! Forms differ from ours in one default, the order of execution. Everything else that a document leaves out (retries,
//! time limits, what becomes of a failure) has our default; `docs/formats.md` lists both.

use goalmill_common::document_format::DocumentFormat;
use serde_json::{Map, Value, json};

use super::DraftKind;
use super::context::{Conversion, LISTS};
use goalmill_plan::validate::plan_field;

/// The strategy of plans that name none, and what a form calls it; none where order is given otherwise.
///
/// Phases and edges are an order already.
pub(super) fn sequential_by_default(format: Option<DocumentFormat>) -> Option<&'static str> {
    match format? {
        DocumentFormat::Subtasks => Some("`execution_strategy: parallel`"),
        DocumentFormat::PlanAndExecute => Some("`execution_mode: parallel`"),
        DocumentFormat::Actions => Some("`parallel: true`"),
        DocumentFormat::Phases | DocumentFormat::Nodes => None,
    }
}

/// Gives a plan the strategy of its form, unless it names one.
pub(super) fn set_default_strategy(conversion: &mut Conversion<'_>, map: &mut Map<String, Value>, at: &str) {
    let Some(otherwise) = sequential_by_default(conversion.format) else { return };
    if conversion.kind != DraftKind::Document || strategy(map).is_some() {
        return;
    }
    map.insert("strategy".into(), json!("sequential"));
    let hint = format!("say {otherwise} for steps that may run at the same time");
    conversion.rewrite.note_default(at, "strategy", "is `sequential`, the default of this form", hint);
}

/// Gives the plans inside the strategy of the plan around them, unless they name one.
pub(super) fn sub_plans(conversion: &Conversion<'_>, plan: &mut Map<String, Value>) {
    if sequential_by_default(conversion.format).is_some() {
        inherit(plan);
    }
}

/// Writes out the strategy of the plans inside, as the reader of these forms would take them from the plan around them.
pub(super) fn inherit(plan: &mut Map<String, Value>) {
    let Some(outer) = strategy(plan).cloned() else { return };
    let phases = plan.get_mut("phases").and_then(Value::as_array_mut);
    let mut lists: Vec<&mut Value> = phases
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
        .flat_map(|phase| phase.iter_mut().filter(|(key, _)| LISTS.contains(&key.as_str())).map(|(_, list)| list))
        .collect();
    if lists.is_empty() {
        lists = plan.iter_mut().filter(|(key, _)| LISTS.contains(&key.as_str())).map(|(_, list)| list).collect();
    }
    let steps = lists.into_iter().filter_map(Value::as_array_mut).flatten();
    for inner in steps.filter_map(|step| step.get_mut("plan")?.as_object_mut()) {
        if strategy(inner).is_none() {
            inner.insert("strategy".into(), outer.clone());
        }
        inherit(inner);
    }
}

/// What a plan says about its order.
fn strategy(map: &Map<String, Value>) -> Option<&Value> {
    map.iter().find(|(key, value)| plan_field(key) == Some("strategy") && !value.is_null()).map(|(_, value)| value)
}

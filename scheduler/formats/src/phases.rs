//! The form `phases`: phases and steps in an `order` of their own.

use goalmill_common::document_format::DocumentFormat;
use serde_json::{Map, Value};

use super::context::{Conversion, LISTS};
use goalmill_plan::document::snake;

/// State of a phase, in snake case.
const PHASE_STATE: [&str; 6] = ["status", "created_at", "updated_at", "started_at", "completed_at", "result"];

/// Puts phases and their steps into their order.
pub(super) fn order_phases(conversion: &mut Conversion<'_>, map: &mut Map<String, Value>, at: &str) {
    let Some(Value::Array(phases)) = map.get_mut("phases") else { return };
    if !phases.iter().all(Value::is_object) {
        return;
    }
    sort(conversion, phases, &format!("{at}/phases"));
    for (index, phase) in phases.iter_mut().enumerate() {
        let at = format!("{at}/phases/{index}");
        let Some(phase) = phase.as_object_mut() else { continue };
        conversion.drop_state(phase, &at, "phase", &PHASE_STATE);
        phase.retain(|key, _| !matches!(snake(key).as_ref(), "plan_id" | "order"));
        let own = phase.get("id").cloned();
        if own.is_some() && phase.get("name") == own.as_ref() {
            phase.shift_remove("name");
        }
        for key in LISTS {
            let Some(Value::Array(steps)) = phase.get_mut(key) else { continue };
            let at = format!("{at}/{key}");
            sort(conversion, steps, &at);
            for (n, step) in steps.iter_mut().enumerate() {
                let Some(step) = step.as_object_mut() else { continue };
                let keys: Vec<String> = step.keys().filter(|key| snake(key) == "phase_id").cloned().collect();
                for key in keys {
                    let named = step.shift_remove(&key).filter(|id| !id.is_null() && Some(id) != own.as_ref());
                    let Some(named) = named else { continue };
                    let place = conversion.rewrite.original(&format!("{at}/{n}/{key}"));
                    let detail = format!("the step stands in another phase than {named}");
                    conversion.rewrite.refuse(
                        "CONFLICTING_FIELDS",
                        &place,
                        detail,
                        "move the step, or remove the field",
                    );
                }
            }
        }
    }
}

/// Sorts by `order`; what has none keeps its place behind what stands before it.
fn sort(conversion: &mut Conversion<'_>, items: &mut Vec<Value>, at: &str) {
    let mut last = f64::MIN;
    let mut keyed: Vec<(f64, usize, Value)> = std::mem::take(items)
        .into_iter()
        .enumerate()
        .map(|(index, item)| {
            last = item.get("order").and_then(Value::as_f64).unwrap_or(last);
            (last, index, item)
        })
        .collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let moved: Vec<(String, String)> = keyed
        .iter()
        .enumerate()
        .filter(|(place, (_, before, _))| place != before)
        .map(|(place, (_, before, _))| {
            (format!("{at}/{place}"), conversion.rewrite.original(&format!("{at}/{before}")))
        })
        .collect();
    moved.into_iter().for_each(|(place, before)| conversion.rewrite.moved(place, before));
    items.extend(keyed.into_iter().map(|(_, _, item)| item));
}

/// `order` has done its work; a plan's id says nothing in a step.
pub(super) fn step(conversion: &mut Conversion<'_>, map: &mut Map<String, Value>, at: &str) {
    if conversion.format.is_some() {
        map.shift_remove("order");
    }
    if conversion.is(DocumentFormat::Phases) {
        let keys: Vec<String> = map.keys().filter(|key| snake(key) == "plan_id").cloned().collect();
        for key in keys {
            conversion.rewrite.drop_field(map, at, "step", &key, "the step stands in its plan");
        }
    }
}

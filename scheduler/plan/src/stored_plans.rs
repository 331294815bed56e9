//! Steps of a draft that use stored plans: finds them, and puts the documents in their places.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::stored_plan::StoredPlanRef;
use goalmill_common::text::pointer_part;
use serde_json::{Map, Value};

/// The field of a step that names a stored plan.
const USE: &str = "use";
/// The field of a step that holds a plan.
const PLAN: &str = "plan";
/// All names of that field.
const PLAN_FIELDS: [&str; 3] = [PLAN, "sub_plan", "subplan"];

/// The use of a stored plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlanUse {
    /// JSON Pointer to the field.
    pub pointer: String,
    pub plan: StoredPlanRef,
}

/// The steps of a draft that use a stored plan and have no `plan` yet. What is no reference is left to validation.
pub fn uses(draft: &Value) -> BTreeSet<PlanUse> {
    let mut found = BTreeSet::new();
    let mut draft = draft.clone();
    walk_plan(&mut draft, &mut String::new(), &mut |pointer, step| {
        if let Some(plan) = used(step) {
            found.insert(PlanUse { pointer: format!("{pointer}/{USE}"), plan });
        }
        true
    });
    found
}

/// Whether a text may use stored plans: whether it has the word.
pub fn may_use(text: &[u8]) -> bool {
    text.windows(USE.len()).any(|window| window == USE.as_bytes())
}

/// Gives each step that uses a known stored plan its version and its document. Plans inside these are left alone.
///
/// - `known`: by reference as it is written, the version and the document.
pub fn put_documents(draft: &mut Value, known: &BTreeMap<StoredPlanRef, (StoredPlanRef, Value)>) {
    walk_plan(draft, &mut String::new(), &mut |_, step| {
        let Some((version, document)) = used(step).and_then(|plan| known.get(&plan)) else { return true };
        step.insert(USE.into(), version.to_string().into());
        step.insert(PLAN.into(), document.clone());
        false
    });
}

/// Takes the plans out of the steps that use a stored plan; gives the places of these steps.
pub fn take_documents(draft: &mut Value) -> BTreeSet<String> {
    let mut places = BTreeSet::new();
    walk_plan(draft, &mut String::new(), &mut |pointer, step| {
        if step.get(USE).and_then(Value::as_str).and_then(StoredPlanRef::parse).is_none() {
            return true;
        }
        let taken = PLAN_FIELDS.iter().filter(|key| step.shift_remove(**key).is_some()).count();
        if taken > 0 {
            places.insert(pointer.to_owned());
        }
        false
    });
    places
}

fn used(step: &Map<String, Value>) -> Option<StoredPlanRef> {
    if is_plan_field(step) {
        return None;
    }
    StoredPlanRef::parse(step.get(USE)?.as_str()?)
}

fn is_plan_field(step: &Map<String, Value>) -> bool {
    PLAN_FIELDS.iter().any(|key| step.contains_key(*key))
}

/// What is done with a step and its place; says whether plans inside it are looked at.
type Visit<'v> = dyn FnMut(&str, &mut Map<String, Value>) -> bool + 'v;

fn walk_plan(plan: &mut Value, at: &mut String, visit: &mut Visit<'_>) {
    match plan {
        Value::Array(_) => walk_steps(plan, at, visit),
        Value::Object(fields) => {
            for (key, value) in fields {
                below(at, key, |at| match key.as_str() {
                    "steps" | "subtasks" | "sub_tasks" | "tasks" | "nodes" | "always" | "finally" => {
                        walk_steps(value, at, visit);
                    }
                    "phases" | "stages" => walk_phases(value, at, visit),
                    PLAN => walk_plan(value, at, visit),
                    _ => {}
                });
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn walk_phases(phases: &mut Value, at: &mut String, visit: &mut Visit<'_>) {
    for (n, phase) in phases.as_array_mut().into_iter().flatten().enumerate() {
        below(at, &n.to_string(), |at| walk_plan(phase, at, visit));
    }
}

fn walk_steps(steps: &mut Value, at: &mut String, visit: &mut Visit<'_>) {
    match steps {
        Value::Array(items) => {
            for (n, step) in items.iter_mut().enumerate() {
                below(at, &n.to_string(), |at| walk_step(step, at, visit));
            }
        }
        Value::Object(fields) => {
            for (id, step) in fields {
                below(at, id, |at| walk_step(step, at, visit));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn walk_step(step: &mut Value, at: &mut String, visit: &mut Visit<'_>) {
    let Value::Object(fields) = step else { return };
    if !visit(at, fields) {
        return;
    }
    for (key, value) in fields {
        below(at, key, |at| match key.as_str() {
            PLAN | "sub_plan" | "subplan" => walk_plan(value, at, visit),
            "undo" | "compensate" | "compensation" | "on_undo" => walk_step(value, at, visit),
            _ => {}
        });
    }
}

fn below(at: &mut String, key: &str, walk: impl FnOnce(&mut String)) {
    let length = at.len();
    at.push('/');
    at.push_str(&pointer_part(key));
    walk(at);
    at.truncate(length);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pointers(draft: &Value) -> Vec<String> {
        uses(draft).into_iter().map(|found| found.pointer).collect()
    }

    #[test]
    fn only_fields_of_steps_are_uses() {
        let draft = json!({
            "use": "a",
            "metadata": {"use": "a"},
            "steps": [{"id": "x", "use": "a", "inputs": {"use": "a", "plan": {"steps": [{"use": "a"}]}}}],
            "always": {"y": {"use": "b@2"}},
            "phases": [{"steps": [{"id": "z", "plan": {"steps": [{"id": "w", "undo": {"use": "c"}}]}}]}],
        });
        let expected = ["/always/y/use", "/phases/0/steps/0/plan/steps/0/undo/use", "/steps/0/use"];
        assert_eq!(pointers(&draft), expected);
        assert!(may_use(draft.to_string().as_bytes()) && !may_use(b"{\"steps\": []}"));
    }

    #[test]
    fn a_document_is_put_beside_its_version_and_is_not_looked_into() {
        let mut draft = json!([{"id": "x", "use": "a"}, {"id": "y", "use": "b"}, {"id": "z", "use": "two words"}]);
        let plan = |text: &str| StoredPlanRef::parse(text).expect("it is a reference");
        let document = json!({"steps": [{"id": "inner", "use": "a"}]});
        put_documents(&mut draft, &BTreeMap::from([(plan("a"), (plan("a@7"), document.clone()))]));
        assert_eq!(draft[0], json!({"id": "x", "use": "a@7", "plan": document}));
        assert_eq!(pointers(&draft), ["/0/plan/steps/0/use", "/1/use"]);
        assert_eq!(take_documents(&mut draft), ["/0".to_owned()].into());
        assert_eq!(draft[0], json!({"id": "x", "use": "a@7"}));
    }
}

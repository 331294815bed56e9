//! Makes a case smaller while it stays a finding of the same kind.

use serde_json::Value;

use crate::case::Case;
use crate::comparison::{Finding, Verdict, check_engine};

/// Fields without which a document is harder to read, or has random times.
const KEPT: [&str; 4] = ["id", "agent_type", "action", "retry"];

/// Removes steps, fields and acts while `is_same` says that the finding is still the same. Returns the smallest case.
pub fn shrink(case: Case, is_same: &dyn Fn(&Finding) -> bool) -> Case {
    let mut smallest = case;
    loop {
        let before = smallest.clone();
        let mut next = 0;
        while let Some(smaller) = candidate(&smallest, next) {
            if smaller != smallest && is_found(&smaller, is_same) {
                smallest = smaller;
            } else {
                next += 1;
            }
        }
        if smallest == before {
            return smallest;
        }
    }
}

fn is_found(case: &Case, is_same: &dyn Fn(&Finding) -> bool) -> bool {
    match check_engine(case) {
        Verdict::Found(finding) => is_same(&finding),
        Verdict::Invalid(_) | Verdict::Undecided(_) | Verdict::Kept(_) => false,
    }
}

/// The case with one thing less, the largest things first; `None` after the last one.
fn candidate(case: &Case, n: usize) -> Option<Case> {
    let mut whole = serde_json::to_value(case).expect("a case is plain data");
    let mut pointers = Vec::new();
    list(&whole, String::new(), &mut pointers);
    pointers.sort_by_key(|pointer| pointer.matches('/').count());
    remove(&mut whole, pointers.get(n)?);
    // What cannot be missing stays.
    Some(serde_json::from_value(whole).unwrap_or_else(|_| case.clone()))
}

fn list(value: &Value, pointer: String, pointers: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(items) => items.iter().enumerate().map(|(n, value)| (n.to_string(), value)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
    };
    for (name, child) in children {
        let pointer = format!("{pointer}/{name}");
        if !KEPT.contains(&name.as_str()) {
            pointers.push(pointer.clone());
        }
        list(child, pointer, pointers);
    }
}

/// Removes what stands at a pointer; a step also from the dependencies of others.
fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    let removed = match value.pointer_mut(parent) {
        Some(Value::Object(fields)) => fields.shift_remove(&name.replace("~1", "/").replace("~0", "~")),
        Some(Value::Array(items)) => name.parse::<usize>().ok().filter(|n| *n < items.len()).map(|n| items.remove(n)),
        _ => None,
    };
    if let Some(id) = removed.as_ref().and_then(|removed| removed.get("id")).cloned() {
        forget(value, &id);
    }
}

fn forget(value: &mut Value, id: &Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::Array(dependencies)) = fields.get_mut("depends_on") {
                dependencies.retain(|dependency| dependency != id && dependency.get("step") != Some(id));
            }
            fields.values_mut().for_each(|field| forget(field, id));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| forget(item, id)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

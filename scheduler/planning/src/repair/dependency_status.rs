//! Repairs dependencies with a status: `{step, is}`.
//!
//! Words that may mean several statuses, such as `done`, stay as they are.

use goalmill_plan::validate::names::only_slip;
use serde_json::{Map, Value, json};

use super::context::{DEPENDENCY_KEYS, RepairContext};

/// Statuses, and other words for each.
const STATUSES: [(&str, &[&str]); 3] = [
    ("completed", &["complete", "succeeded", "succeed", "succeeds", "success", "successful", "passed", "ok"]),
    ("failed", &["failure", "fail", "fails", "failing", "error", "errored"]),
    ("skipped", &["skip", "skips"]),
];
/// Names of the statuses of a dependency.
const IS: [&str; 4] = ["is", "status", "statuses", "outcome"];

pub(super) fn repair(work: &mut RepairContext<'_>) {
    for step in 0..work.steps.len() {
        let list = work.place(step, "dependencies");
        if let Some(one @ Value::Object(map)) = work.field(step, "dependencies")
            && has_key(map, &DEPENDENCY_KEYS)
        {
            let became = json!([one]);
            work.replace(&list, became, "DEPENDENCY_LISTED", "dependencies are a list".to_owned());
        }
        let count = work.field(step, "dependencies").and_then(Value::as_array).map_or(0, Vec::len);
        for index in 0..count {
            let at = format!("{list}/{index}");
            open(work, &at);
            for key in IS {
                rename(work, &format!("{at}/{key}"));
            }
        }
        let statuses = work.field(step, "dependency_status").and_then(Value::as_object);
        let ids: Vec<String> = statuses.into_iter().flat_map(Map::keys).cloned().collect();
        for id in ids {
            let at = work.place(step, "dependency_status");
            rename(work, &format!("{at}/{}", goalmill_common::text::pointer_part(&id)));
        }
    }
}

fn has_key(map: &Map<String, Value>, keys: &[&str]) -> bool {
    keys.iter().any(|key| map.contains_key(*key))
}

/// `{"pay": "failed"}` is `{"step": "pay", "is": ["failed"]}` where `pay` is a step and the rest are statuses.
fn open(work: &mut RepairContext<'_>, at: &str) {
    let Some(Value::Object(map)) = work.draft.pointer(at) else { return };
    let Some((id, words)) = map.iter().next().filter(|_| map.len() == 1) else { return };
    if has_key(map, &DEPENDENCY_KEYS) || has_key(map, &IS) || !work.numbers().contains_key(id) {
        return;
    }
    let Some(statuses) = statuses(words) else { return };
    let became = json!({"step": id, "is": statuses});
    work.replace(at, became, "DEPENDENCY_OPENED", "the key is the id of a step".to_owned());
}

/// Names the statuses as they are called.
fn rename(work: &mut RepairContext<'_>, at: &str) {
    let Some(words) = work.draft.pointer(at) else { return };
    let is_status = |word: &Value| word.as_str().is_some_and(|word| STATUSES.iter().any(|(status, _)| *status == word));
    let is_right = match words {
        Value::Array(items) => items.iter().all(is_status),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => is_status(words),
    };
    if let Some(statuses) = statuses(words).filter(|_| !is_right) {
        work.replace(at, json!(statuses), "STATUS_RENAMED", "another word for a status of a step".to_owned());
    }
}

/// The statuses that words mean; none when one of them is not clear.
fn statuses(words: &Value) -> Option<Vec<&'static str>> {
    match words {
        Value::String(text) => {
            let text = text.to_ascii_lowercase().replace(" or ", ",");
            text.split([',', '|']).map(|word| status(word.trim())).collect()
        }
        Value::Array(items) => items.iter().map(|item| status(&item.as_str()?.trim().to_ascii_lowercase())).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

fn status(word: &str) -> Option<&'static str> {
    let known = STATUSES.iter().find(|(status, others)| *status == word || others.contains(&word));
    known.map(|(status, _)| *status).or_else(|| only_slip(word, STATUSES.map(|(status, _)| status)))
}

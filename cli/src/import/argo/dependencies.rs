//! Reads the expression that says what a task of a graph waits for.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::import::conversion::step_id;

/// The dependencies that an expression over tasks and their outcomes means, and whether one of them is enough.
///
/// - `is_task`: whether there is a task of this name.
pub(super) fn dependencies_of(text: &str, is_task: impl Fn(&str) -> bool) -> Option<(Vec<Value>, bool)> {
    let mut found: Vec<Value> = Vec::new();
    let groups: Vec<&str> = text.split("&&").map(str::trim).collect();
    let is_alone = groups.len() == 1;
    let mut is_any = false;
    for group in groups {
        let bare = group.strip_prefix('(').and_then(|group| group.strip_suffix(')')).unwrap_or(group);
        let mut statuses: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for term in bare.split("||").map(str::trim) {
            let (name, outcome) = term.split_once('.').unwrap_or((term, ""));
            let status = match outcome {
                "" => &["completed", "skipped"][..],
                "Succeeded" => &["completed"],
                "Failed" | "Errored" => &["failed"],
                "Skipped" | "Omitted" => &["skipped"],
                _ => return None,
            };
            is_task(name).then_some(())?;
            statuses.entry(name).or_default().extend(status);
        }
        is_any |= statuses.len() > 1;
        for (name, mut wanted) in statuses {
            wanted.sort_unstable();
            wanted.dedup();
            found.push(match wanted[..] {
                ["completed", "skipped"] => step_id(name).into(),
                _ => json!({"step": step_id(name), "is": wanted}),
            });
        }
    }
    (is_alone || !is_any).then_some((found, is_any))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_over_outcomes_become_dependencies() {
        let read = |text: &str| dependencies_of(text, |name| ["A", "B"].contains(&name));
        let is = |step: &str, statuses: &[&str]| json!({"step": step, "is": statuses});
        assert_eq!(read("A && B.Succeeded"), Some((vec![json!("A"), is("B", &["completed"])], false)));
        assert_eq!(
            read("(A.Succeeded || A.Failed) && B"),
            Some((vec![is("A", &["completed", "failed"]), json!("B")], false))
        );
        assert_eq!(read("A.Failed || B.Errored"), Some((vec![is("A", &["failed"]), is("B", &["failed"])], true)));
        for other in ["!A", "A.AnySucceeded", "C", "A && (A || B)", "", "A.Daemoned"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}

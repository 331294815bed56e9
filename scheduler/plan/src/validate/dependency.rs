//! The dependencies of a step: ids, or ids with the statuses that let the step start.

use goalmill_common::id::StepId;
use goalmill_common::plan::{DependencyStatus, OnFailure, Plan, Step};
use serde_json::{Map, Value};

use super::graph::StepNumbers;
use super::origin::{Dependency, DependencyPlace, StepOrigin};
use super::step_id::id_text;
use crate::document::{DocumentPath, Fields, Table, ValidationContext, shorten, text, wrong_type};

const DEPENDENCY: &Table = &[("step", &["id", "task", "name"]), ("is", &["status", "statuses", "outcome"])];

/// Reads `dependencies`, and the statuses that are named in it or in `dependency_status`.
pub(super) fn read_dependencies<'v>(fields: &Fields<'v, '_>, step: &mut Step) -> Vec<Dependency<'v>> {
    let dependencies = dependencies(fields, step);
    let Some(field) = fields.get("dependency_status") else { return dependencies };
    let at = fields.at.key(field.key);
    let Value::Object(map) = field.value else {
        wrong_type(fields.context, &at, field.value, "an object with statuses by the id of the dependency");
        return dependencies;
    };
    for (id, words) in map {
        insert(fields.context, &at.key(id), step, id, words);
    }
    dependencies
}

/// Drops statuses of steps that are no dependencies, once the edges of the plan are known.
pub(super) fn drop_unused(context: &ValidationContext<'_>, steps: &mut [Step], origins: &[StepOrigin<'_>]) {
    for (step, origin) in steps.iter_mut().zip(origins) {
        let at = DocumentPath::Pointer(&origin.at);
        let at = at.key("dependency_status");
        step.dependency_status.retain(|id, _| {
            let is_used = origin.dependencies.iter().any(|dependency| dependency.id == *id);
            if !is_used {
                let detail =
                    format!("`{}` is no dependency of the step; its statuses are ignored", shorten(id.as_str()));
                context.warn(
                    "UNUSED_FIELD",
                    &at.key(id.as_str()),
                    detail,
                    "remove them, or list the step under `dependencies`",
                );
            }
            is_used
        });
    }
}

fn dependencies<'v>(fields: &Fields<'v, '_>, step: &mut Step) -> Vec<Dependency<'v>> {
    let Some(field) = fields.get("dependencies") else { return Vec::new() };
    let at = fields.at.key(field.key);
    let limit = fields.context.limits.dependencies_max;
    match field.value {
        Value::Array(items) if items.len() > limit => {
            let detail = format!("{} dependencies, at most {limit} are allowed", items.len());
            fields.context.error("TOO_MANY_DEPENDENCIES", &at, detail, "join some of them in a step between");
            Vec::new()
        }
        Value::Array(items) => {
            let mut out = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                let at = at.item(index);
                match (item, id_text(item)) {
                    // Some formats write "none" as -1.
                    (Value::Number(number), _) if number.as_i64() == Some(-1) => {}
                    (_, Some(id)) => out.push(Dependency::item(id, field.key, index)),
                    (Value::Object(map), None) => {
                        let id = with_status(fields.context, &at, map, step);
                        out.extend(id.map(|id| Dependency::item(id, field.key, index)));
                    }
                    (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_), None) => {
                        wrong_type(fields.context, &at, item, "the id of a step, or `{step, is}`");
                    }
                }
            }
            out
        }
        Value::String(list) => list
            .split([',', ' '])
            .filter(|id| !id.is_empty())
            .map(|id| Dependency { id: id.into(), place: DependencyPlace::Field { key: field.key } })
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => match id_text(field.value) {
            Some(id) => vec![Dependency { id: id.into(), place: DependencyPlace::Field { key: field.key } }],
            None => {
                wrong_type(fields.context, &at, field.value, "a list of step ids");
                Vec::new()
            }
        },
    }
}

/// Reads `{step: c, is: [failed]}`; returns the id.
fn with_status(
    context: &ValidationContext<'_>,
    at: &DocumentPath<'_>,
    map: &Map<String, Value>,
    step: &mut Step,
) -> Option<String> {
    let inside = Fields::from_map(context, at, map, DEPENDENCY);
    let Some(field) = inside.get("step") else {
        let hint = "name the step, as in `{\"step\": \"book\", \"is\": [\"failed\"]}`";
        context.error("MISSING_FIELD", &at.key("step"), "a dependency with a status needs `step`", hint);
        return None;
    };
    let Some(id) = id_text(field.value) else {
        wrong_type(context, &at.key(field.key), field.value, "the id of a step");
        return None;
    };
    if let Some(field) = inside.get("is") {
        insert(context, &at.key(field.key), step, &id, field.value);
    }
    Some(id)
}

/// Reads the statuses of one dependency: a word, or a list of words.
fn insert(context: &ValidationContext<'_>, at: &DocumentPath<'_>, step: &mut Step, id: &str, words: &Value) {
    let mut found: Vec<DependencyStatus> = match words {
        Value::Array(words) => {
            words.iter().enumerate().filter_map(|(n, word)| read_status(context, &at.item(n), word, id)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            read_status(context, at, words, id).into_iter().collect()
        }
    };
    if words.as_array().is_some_and(Vec::is_empty) {
        let hint = "name `completed`, `failed` or `skipped`, or write the id of the step alone";
        context.error("INVALID_VALUE", at, format!("no status of `{}` lets the step start", shorten(id)), hint);
    }
    found.sort_unstable();
    found.dedup();
    if found.is_empty() {
        return;
    }
    let before = step.dependency_status.insert(StepId::from(id), found.clone());
    if before.is_some_and(|before| before != found) {
        let detail = format!("the statuses of `{}` are given twice and differ", shorten(id));
        context.error("CONFLICTING_FIELDS", at, detail, "name the step once, with all statuses in one list");
    }
}

fn read_status(
    context: &ValidationContext<'_>,
    at: &DocumentPath<'_>,
    word: &Value,
    id: &str,
) -> Option<DependencyStatus> {
    let given = text(context, at, word)?;
    match given.trim().to_ascii_lowercase().as_str() {
        "completed" | "succeeded" | "success" => return Some(DependencyStatus::Completed),
        "failed" | "failure" => return Some(DependencyStatus::Failed),
        "skipped" => return Some(DependencyStatus::Skipped),
        "undone" => {
            let hint = format!("put the step under `always`, and let it depend on `{}:undo`", shorten(id));
            let detail = format!("`{}` is undone after the outcome of the plan is known", shorten(id));
            context.error("INVALID_VALUE", at, detail, hint);
        }
        other => {
            let detail = format!("a dependency does not end as `{}`", shorten(other));
            context.error("INVALID_VALUE", at, detail, "name `completed`, `failed` or `skipped`");
        }
    }
    None
}

/// Checks that each dependency can have a status that is named.
pub(super) fn check_dependency_statuses(
    context: &ValidationContext<'_>,
    plan: &Plan,
    origins: &[StepOrigin<'_>],
    index: &StepNumbers,
) {
    for (spec, origin) in plan.steps.iter().zip(origins).filter(|(spec, _)| !spec.dependency_status.is_empty()) {
        for (d, dependency) in origin.dependencies.iter().enumerate() {
            let allowed = spec.dependency_status.get(&dependency.id).map(Vec::as_slice);
            let Some(other) = index.get(&dependency.id).map(|at| &plan.steps[*at as usize]) else { continue };
            if allowed == Some(&[DependencyStatus::Failed]) && other.on_failure == OnFailure::Skip {
                let detail = format!("`{}` is never failed: its `on_failure` is `skip`", other.id);
                let hint = format!("name `skipped`, or remove `on_failure` of `{}`", other.id);
                origin.with_dependency(d, |at| context.error("STATUS_IMPOSSIBLE", at, detail, hint));
            }
        }
    }
}

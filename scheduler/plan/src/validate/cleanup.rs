//! Clean-up steps: `always` of the plan, `undo` of a step.

use goalmill_common::id::{ID_CHARS_MAX, StepId};
use goalmill_common::plan::{Plan, Step, StepKind, UndoOn};
use goalmill_expression::{self as expression, Facts};
use serde_json::Value;

use super::graph::StepNumbers;
use super::origin::StepOrigin;
use crate::document::{DocumentPath, Fields, ValidationContext, text};

/// `book:undo`, shortened where that would be too long.
pub(super) fn undo_id(target: &StepId) -> StepId {
    let room = ID_CHARS_MAX - ":undo".len();
    format!("{}:undo", target.as_str().get(..room).unwrap_or(target.as_str())).into()
}

/// Reads the outcomes after which a plan is undone: a word, or a list of words.
pub(super) fn undo_on(fields: &Fields<'_, '_>) -> Option<Vec<UndoOn>> {
    let field = fields.get("undo_on")?;
    let at = fields.at.key(field.key);
    let words = if let Value::Array(items) = field.value {
        items.iter().enumerate().map(|(n, item)| (at.item(n).pointer(), item)).collect()
    } else {
        vec![(at.pointer(), field.value)]
    };
    let mut outcomes = Vec::new();
    for (pointer, word) in words {
        let at = DocumentPath::Pointer(&pointer);
        match text(fields.context, &at, word)?.trim() {
            "failed" => outcomes.push(UndoOn::Failed),
            "cancelled" | "canceled" => outcomes.push(UndoOn::Cancelled),
            other => {
                let detail = format!("steps are not undone after `{}`", crate::document::shorten(other));
                fields.context.error("INVALID_VALUE", &at, detail, "use `failed`, `cancelled`, both, or `[]`");
            }
        }
    }
    Some(outcomes)
}

/// Checks that the clean-up steps of a plan and its other steps do not wait for each other.
pub(super) fn check_cleanup_order(
    context: &ValidationContext<'_>,
    plan: &Plan,
    origins: &[StepOrigin<'_>],
    index: &StepNumbers,
) {
    if !plan.steps.iter().any(Step::is_cleanup) {
        return;
    }
    for (spec, origin) in plan.steps.iter().zip(origins) {
        for (d, dependency) in origin.dependencies.iter().enumerate() {
            let Some(other) = index.get(&dependency.id).map(|at| &plan.steps[*at as usize]) else { continue };
            let (detail, hint) = if spec.undoes.is_some() {
                let detail = format!("the undo step of `{}` waits for nothing", origin_id(spec));
                (detail, "remove it; undo steps run one at a time, the last step that began first".to_owned())
            } else if spec.is_cleanup() && !other.is_cleanup() {
                let detail = format!("clean-up step `{}` runs when `{}` is final anyway", spec.id, other.id);
                (detail, format!("remove it; `steps.{}` can be read without it", other.id))
            } else if !spec.is_cleanup() && other.is_cleanup() {
                let detail = format!("`{}` is a clean-up step: it runs after the outcome of the plan", other.id);
                (detail, format!("put `{}` under `always` too, or remove the dependency", spec.id))
            } else {
                continue;
            };
            origin.with_dependency(d, |at| context.error("CLEANUP_DEPENDENCY", at, detail, hint));
        }
        check_alone(context, plan, spec, origin, index);
    }
}

fn origin_id(undo: &Step) -> &str {
    undo.undoes.as_ref().map_or("", StepId::as_str)
}

/// Whether inputs or condition name the goal or a step: the items of a map do not see them.
fn sees_other_steps(spec: &Step) -> bool {
    let names = spec.names();
    let is_other = |facts: Facts| {
        facts.paths.iter().any(|path| path.parts.first().is_some_and(|root| root == "goal" || root == "steps"))
    };
    let condition = spec.when.as_ref().and_then(|when| expression::examine_condition(when, &names).ok());
    let mut found = condition.is_some_and(is_other);
    expression::visit_templates(&spec.inputs.value(), &mut |text| {
        found |= expression::examine(text, &names).is_ok_and(is_other);
    });
    found
}

/// What one clean-up step may not have.
fn check_alone(
    context: &ValidationContext<'_>,
    plan: &Plan,
    spec: &Step,
    origin: &StepOrigin<'_>,
    index: &StepNumbers,
) {
    if !spec.is_cleanup() {
        return;
    }
    let wrong = |key: &str, detail: String, hint: &str| {
        origin.with_key(key, |at| context.error("INVALID_VALUE", at, detail, hint));
    };
    if let Some(target) = &spec.undoes {
        let undone = index.get(target).map(|at| &plan.steps[*at as usize]);
        match undone {
            None => wrong("", format!("there is no step `{target}` to undo"), "name a step of this plan in `undoes`"),
            Some(step) if step.is_cleanup() => {
                wrong("", format!("`{target}` is a clean-up step, which is not undone"), "remove the undo step");
            }
            Some(_) => {}
        }
    }
    if spec.undoes_map() && sees_other_steps(spec) {
        let hint = "pass what it needs on in the `inputs` of the map";
        wrong("", "the undo step of a map sees `inputs` and `outputs` of its item, and `plan`".into(), hint);
    }
    if spec.phase.is_some() {
        wrong(origin.phase_key, "a clean-up step belongs to no phase".into(), "remove it");
    }
    if spec.kind == StepKind::Finish {
        let hint = "use `kind: message` or `kind: internal`";
        wrong("", "a `finish` step gives the result of the plan, and clean-up steps run after it".into(), hint);
    }
}

//! Warns of conditions that may not say what their author means: what runs after a skip, and comparisons that can never
//! be true.

use std::collections::BTreeSet;

use goalmill_common::id::StepId;
use goalmill_common::plan::{DependencyStatus, Join, OnFailure, Plan, Step};
use goalmill_expression::{ComparedOperands, Facts, Operand, ValueType};
use serde_json::Value;

use super::graph::StepNumbers;
use super::origin::StepOrigin;
use crate::document::{DocumentPath, ValidationContext};

/// What the expressions of one step say about other steps.
#[derive(Default)]
pub(super) struct StepReads {
    /// Steps whose outputs are read without a default, and where first.
    unguarded: Vec<(u32, String)>,
    /// Steps whose status is asked for, or whose outputs may be missing.
    guarded: BTreeSet<u32>,
}

impl StepReads {
    pub(super) fn add(&mut self, facts: &Facts, index: &StepNumbers, at: &DocumentPath<'_>) {
        for path in &facts.paths {
            let [root, id, rest @ ..] = path.parts.as_slice() else { continue };
            let Some(&step) = index.get(id.as_str()).filter(|_| root == "steps") else { continue };
            if path.has_default || rest.first().is_some_and(|field| field == "status") {
                self.guarded.insert(step);
            } else if rest.len() > 1 && rest.first().is_some_and(|field| field == "outputs") {
                self.unguarded.push((step, at.pointer()));
            }
        }
    }
}

/// Refuses a condition that asks whether a dependency has failed, where the step never starts after that.
pub(super) fn check_failed_dependencies(
    context: &ValidationContext<'_>,
    plan: &Plan,
    (step, origin): (usize, &StepOrigin<'_>),
    needs: &[u32],
) {
    let (spec, Some(rules)) = (&plan.steps[step], context.rules) else { return };
    let Some(when) = spec.when.as_deref().filter(|_| spec.join == Join::All) else { return };
    let blocks = |other: &&Step| {
        other.on_failure == OnFailure::Abort
            && !spec.dependency_status.contains_key(&other.id)
            && asks_for_failure(when, &other.id)
    };
    let Some(other) = needs.iter().map(|need| &plan.steps[*need as usize]).find(blocks) else { return };
    origin.with_key(origin.when_key, |at| {
        let detail =
            format!("step `{}` never starts after a failure of `{}`, so this is never true", spec.id, other.id);
        let hint = format!(
            r#"write `{{"step": "{}", "is": ["failed"]}}` in the dependencies, without the condition"#,
            other.id
        );
        context.weigh(rules.weights.outputs, "STATUS_IMPOSSIBLE", at, detail, hint);
    });
}

/// Whether a condition, or a part of it that must be true, is `steps.ID.status == 'failed'`.
fn asks_for_failure(when: &str, id: &StepId) -> bool {
    let asked = [format!("steps.{id}.status=='failed'"), format!("steps['{id}'].status=='failed'")];
    let is_asked = |part: &str| {
        let part: String = part.chars().filter(|c| !c.is_whitespace() && !matches!(c, '(' | ')')).collect();
        asked.contains(&part)
    };
    !when.contains(" or ") && when.replace('"', "'").split(" and ").any(is_asked)
}

/// Warns of a step that continues, or fails, after the skip of a step that has a condition.
pub(super) fn warn_of_skips(
    context: &ValidationContext<'_>,
    plan: &Plan,
    (step, origin): (usize, &StepOrigin<'_>),
    needs: &[u32],
    reads: &StepReads,
) {
    let spec = &plan.steps[step];
    let allowed = |other: u32| spec.dependency_status.get(&plan.steps[other as usize].id);
    let is_never_done = |other: u32| allowed(other).is_some_and(|all| !all.contains(&DependencyStatus::Completed));
    if let Some((other, pointer)) =
        reads.unguarded.iter().find(|(other, _)| is_never_done(*other) && !reads.guarded.contains(other))
    {
        let other = &plan.steps[*other as usize].id;
        let detail = format!("step `{}` reads outputs of `{other}`, and runs only when that has none", spec.id);
        let hint = format!("read `steps['{other}'].failure`, or write `| default(…)` after the path");
        return context.error("STATUS_IMPOSSIBLE", &DocumentPath::Pointer(pointer), detail, hint);
    }
    let may_skip = |other: u32| match allowed(other) {
        Some(all) => all.len() > 1,
        None => {
            let other: &Step = &plan.steps[other as usize];
            other.when.is_some() && other.when != spec.when
        }
    };
    let unguarded = reads.unguarded.iter().find(|(other, _)| may_skip(*other) && !reads.guarded.contains(other));
    if let Some((other, pointer)) = unguarded {
        let other = &plan.steps[*other as usize].id;
        context.warn(
            "CONDITIONAL_OUTPUTS",
            &DocumentPath::Pointer(pointer),
            format!(
                "step `{}` reads outputs of `{other}`, which has none when it is {}: the step fails",
                spec.id,
                if spec.dependency_status.contains_key(other) { "not completed" } else { "skipped by its `when`" },
            ),
            format!("write `| default(…)` after the path, or set `when` to `{}`", ran(other.as_str())),
        );
        return;
    }
    let [only] = needs else { return };
    if spec.when.is_none() && allowed(*only).is_none() && may_skip(*only) && !reads.guarded.contains(only) {
        let other = &plan.steps[*only as usize].id;
        origin.with_key("", |at| {
            context.warn(
                "RUNS_AFTER_SKIP",
                at,
                format!("step `{}` also runs when its only dependency `{other}` is skipped by its `when`", spec.id),
                format!("if it must run only after `{other}` ran, set `when` to `{}`", ran(other.as_str())),
            );
        });
    }
}

/// The condition that a step ran to its end.
fn ran(id: &str) -> String {
    let is_name = id.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_name { format!("steps.{id}.status == 'completed'") } else { format!("steps['{id}'].status == 'completed'") }
}

/// Warns of comparisons of different types: such values are never equal, and have no order.
pub(super) fn warn_of_types(
    context: &ValidationContext<'_>,
    plan: &Plan,
    index: &StepNumbers,
    at: &DocumentPath<'_>,
    comparisons: &[ComparedOperands],
) {
    for comparison in comparisons {
        let types = (type_of(&comparison.left, plan, index), type_of(&comparison.right, plan, index));
        let (Some(left), Some(right)) = types else { continue };
        if left == right {
            continue;
        }
        let (a, b) = (left.described(), right.described());
        let what = if comparison.is_order { "have no order: the step fails" } else { "are never equal" };
        let hint = "convert one of them, as in `x | int`, `x | string` or `x | bool`";
        context.warn("MIXED_TYPES", at, format!("the expression compares {a} with {b}, which {what}"), hint);
    }
}

/// The type of a side of a comparison, as its text or the `output_schema` of a step tells it.
fn type_of(operand: &Operand, plan: &Plan, index: &StepNumbers) -> Option<ValueType> {
    let parts = match operand {
        Operand::Typed(known) => return Some(*known),
        Operand::Output(parts) => parts,
        Operand::Other => return None,
    };
    let [id, field, path @ ..] = parts.as_slice() else { return None };
    let step = plan.steps.get(*index.get(id.as_str()).filter(|_| field == "outputs")? as usize)?;
    if step.for_each.is_some() {
        return None;
    }
    let mut schema = step.output_schema.as_ref()?.value();
    for part in path {
        schema = schema.get_mut("properties")?.get_mut(part)?.take();
    }
    ValueType::of_schema(schema.get("type").and_then(Value::as_str)?)
}

#[cfg(test)]
mod tests {
    use goalmill_common::limits::Limits;
    use serde_json::json;

    use crate::validate::validate_plan;

    /// Codes and pointers of the warnings of a plan with these steps.
    fn warnings(steps: &serde_json::Value) -> Vec<(String, String)> {
        let valid = validate_plan(&json!({"steps": steps}), &Limits::default()).unwrap_or_else(|e| panic!("{e:?}"));
        valid.warnings().iter().map(|issue| (issue.code.clone(), issue.pointer.clone())).collect()
    }

    fn warning(code: &str, pointer: &str) -> Vec<(String, String)> {
        vec![(code.to_owned(), pointer.to_owned())]
    }

    #[test]
    fn a_step_after_a_conditional_one_alone_is_warned_of() {
        let a = json!({"id": "a", "agent_type": "w"});
        let check = json!({"id": "b-1", "agent_type": "w", "dependencies": ["a"], "when": "steps.a.outputs.n > 1"});
        let next = |change: serde_json::Value| {
            let mut step = json!({"id": "c", "agent_type": "w", "dependencies": ["b-1"]});
            step.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            json!([a, check, step])
        };
        assert_eq!(warnings(&next(json!({}))), warning("RUNS_AFTER_SKIP", "/steps/2"));
        let reads = json!({"inputs": {"x": "{{ steps['b-1'].outputs.x }}"}});
        assert_eq!(warnings(&next(reads)), warning("CONDITIONAL_OUTPUTS", "/steps/2/inputs/x"));
        // What the warnings tell to write.
        for said in [
            json!({"when": "steps['b-1'].status == 'completed'"}),
            json!({"when": "steps['b-1'].status == 'completed'", "inputs": {"x": "{{ steps['b-1'].outputs.x }}"}}),
            json!({"inputs": {"x": "{{ steps['b-1'].outputs.x | default(1) }}"}}),
            json!({"when": "steps.a.outputs.n > 1", "inputs": {"x": "{{ steps['b-1'].outputs.x }}"}}),
            json!({"dependencies": ["a", "b-1"]}),
        ] {
            assert_eq!(warnings(&next(said.clone())), [], "{said}");
        }
    }

    #[test]
    fn a_comparison_of_different_types_is_warned_of() {
        let schema = json!({"properties": {"n": {"type": "integer"}, "t": {"type": "string"}}});
        let plan = |when: &str| {
            json!([
                {"id": "a", "agent_type": "w", "output_schema": schema},
                {"id": "b", "agent_type": "w", "dependencies": ["a"], "when": when},
            ])
        };
        for when in [
            "steps.a.outputs.n == '3'",
            "steps.a.outputs.t > 3",
            "(steps.a.outputs.n | string) != 3",
            "steps.a.partial == 'true'",
            "true and (steps.a.outputs.t == 1 or false)",
        ] {
            assert_eq!(warnings(&plan(when)), warning("MIXED_TYPES", "/steps/1/when"), "{when}");
        }
        for when in ["steps.a.outputs.n == 3", "steps.a.outputs.x == '3'", "steps.a.outputs.t | int == 3"] {
            assert_eq!(warnings(&plan(when)), [], "{when}");
        }
    }
}

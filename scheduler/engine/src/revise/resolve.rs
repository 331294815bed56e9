//! Resolves a list of changes into added, modified, removed, skipped and restarted steps: the one way in which a change
//! of a plan becomes what happens to its steps, from all that ask for one: planners, people, hooks, streams.

use std::collections::BTreeSet;

use goalmill_common::event::SkipCause;
use goalmill_common::id::StepId;
use goalmill_common::limits::Limits;
use goalmill_common::number::to_usize;
use goalmill_common::plan::{Plan, Step, StepKind};
use goalmill_common::problem::Issue;
use goalmill_common::revision::Change;
use goalmill_common::status::StepStatus;
use goalmill_plan::document::issue;
use goalmill_plan::states::ValidPlan;
use goalmill_plan::validate::{Rules, validate_plan, validate_plan_by};
use serde_json::{Map, Value, json};

use super::revision_draft::RevisionDraft;
use crate::budget::plan_size::steps_written;
use crate::graph::{StepIndex, dependencies};
use crate::revise::delta::Delta;
use crate::revise::{delta, routing};
use crate::{PlanState, sub_plan};

/// Resolves the changes and validates the resulting plan; on errors returns every issue.
///
/// It holds for this state only: what is applied later is resolved again.
///
/// - `rules`: what the resulting plan is validated against, besides its form.
pub(crate) fn resolve(
    state: &PlanState,
    changes: &[Change],
    limits: &Limits,
    rules: Option<&Rules<'_>>,
) -> Result<Delta, Vec<Issue>> {
    let mut draft = RevisionDraft::new(state, limits);
    for (n, change) in changes.iter().enumerate() {
        draft.apply_change(n, change);
    }
    let (mut delta, issues) = draft.finish();
    if !issues.is_empty() {
        return Err(issues);
    }
    if delta.is_empty() {
        let hint = "say what is to be added, changed, removed, skipped or tried again";
        return Err(vec![issue("NO_CHANGE", "/changes", "the changes leave the plan as it is", hint)]);
    }
    let most = limits.steps_max.saturating_mul(2);
    if steps_written(state.plan.steps().chain(&delta.added)) > most {
        let detail = format!("with the steps that were replaced the plan would have more than {most} steps");
        return Err(vec![issue("TOO_MANY_STEPS", "/changes", detail, "submit the remaining steps as a separate plan")]);
    }
    pull_back(&mut delta, state);
    delta.restore_definitions(state);
    let valid = validate(state, &delta, &limits.inside(sub_plan::depth(state)), rules)?;
    delta.take_dependencies(valid.plan());
    delta.warnings = valid.warnings().to_vec();
    Ok(delta)
}

/// Adds steps that must restart too: those skipped because of a restarting step, and those whose dependencies are
/// open again.
fn pull_back(delta: &mut Delta, state: &PlanState) {
    let added: BTreeSet<&StepId> = delta.added.iter().map(|step| &step.id).collect();
    let place = |id: &StepId| state.graph.find(id.as_str());
    let mut restarted = std::mem::take(&mut delta.restarted);
    loop {
        let reopened = |id: &StepId| added.contains(id) || place(id).is_some_and(|d| restarted.contains(&d));
        let is_met = |spec: &Step, id: &StepId| {
            place(id).is_some_and(|d| {
                let is_skipped = delta.skipped.contains_key(&d);
                is_skipped && spec.is_met_by(id, StepStatus::Skipped, true)
                    || !is_skipped && !reopened(id) && dependencies::is_met(state, spec, d)
            })
        };
        let next: Vec<StepIndex> = state
            .indices()
            .filter(|i| !restarted.contains(i) && !delta.skipped.contains_key(i))
            .filter(|i| {
                let Some(spec) = delta.spec(state, *i) else { return false };
                let step = &state.steps[*i];
                if let Some(cause) = step.run().cause() {
                    return cause == SkipCause::DependencyFailed && spec.dependencies.iter().any(reopened);
                }
                if !step.status().is_unlocked() {
                    return false;
                }
                let mut once: Vec<&StepId> = spec.dependencies.iter().collect();
                once.sort_unstable();
                once.dedup();
                let met = once.iter().filter(|id| is_met(spec, id)).count();
                met < crate::graph::needed(once.len(), spec.join)
            })
            .collect();
        if next.is_empty() {
            break;
        }
        restarted.extend(next);
    }
    delta.restarted = restarted;
}

/// Returns an issue when a revision that a failed step triggered changes neither that step nor
/// all of its dependents.
pub(super) fn ignored_failure(state: &PlanState, delta: &Delta) -> Option<Issue> {
    let id = state.waiting.replan()?.step.as_ref()?;
    let failed = state.graph.find(id.as_str())?;
    if state.steps[failed].status() != StepStatus::Failed {
        return None;
    }
    let is_touched = |i: StepIndex| {
        let is_changed = delta.modified.contains_key(&i) || delta.removed.contains(&i);
        is_changed || delta.skipped.contains_key(&i) || delta.restarted.contains(&i)
    };
    let waits = |i: &StepIndex| state.plan.step(*i).dependencies.contains(id);
    let mut waiting = state.indices().filter(waits).peekable();
    if is_touched(failed) || waiting.peek().is_some() && waiting.all(is_touched) {
        return None;
    }
    let detail = format!("the changes affect neither the failed step `{id}` nor all of its dependents");
    let hint = format!("try `{id}` again, change, replace, remove or skip it, or answer `abort`");
    Some(issue("FAILED_STEP_UNTOUCHED", "/changes", detail, hint))
}

/// Validates the resulting plan. Final steps are represented without their inputs and former
/// dependencies.
fn validate(
    state: &PlanState,
    delta: &Delta,
    limits: &Limits,
    rules: Option<&Rules<'_>>,
) -> Result<ValidPlan, Vec<Issue>> {
    let (document, unrouted) = document(state, delta);
    let rules = rules.map(|rules| Rules { inputs: state.accepted.goal.input_names(), ..rules.clone() });
    let valid = match &rules {
        Some(rules) => validate_plan_by(&document, limits, rules),
        None => validate_plan(&document, limits),
    };
    match valid {
        Ok(valid) if unrouted.is_empty() => Ok(valid),
        Ok(_) => Err(unrouted),
        Err(issues) => Err(issues.into_iter().chain(unrouted).collect()),
    }
}

/// The resulting plan, and an issue for each step without an agent type.
fn document(state: &PlanState, delta: &Delta) -> (Value, Vec<Issue>) {
    let mut steps = Map::new();
    let live: BTreeSet<&StepId> =
        state.indices().filter_map(|i| delta.spec(state, i)).chain(&delta.added).map(|step| &step.id).collect();
    let mut unrouted = Vec::new();
    for i in state.indices() {
        let Some(spec) = delta.spec(state, i) else { continue };
        let is_over = state.steps[i].status().is_final() && !delta.restarted.contains(&i);
        let undone = spec.undoes.as_ref().and_then(|id| state.graph.find(id.as_str()));
        let is_gone = undone.is_some_and(|undone| delta.spec(state, undone).is_none());
        if is_over || is_gone || delta.skipped.contains_key(&i) {
            steps.insert(spec.id.to_string(), shown(spec, &live));
        } else {
            steps.insert(spec.id.to_string(), written(spec));
            unrouted.extend(delta.modified.contains_key(&i).then(|| unroutable(spec)).flatten());
        }
    }
    for spec in &delta.added {
        steps.insert(spec.id.to_string(), written(spec));
        unrouted.extend(unroutable(spec));
    }
    let mut phases = state.plan.definition().phases.clone();
    for added in &delta.phases {
        phases.insert(to_usize(added.place).min(phases.len()), delta::phase_of(added));
    }
    let mut document = Map::from_iter([("steps".to_owned(), Value::Object(steps))]);
    if !phases.is_empty() {
        document.insert("phases".into(), json!(phases));
    }
    (Value::Object(document), unrouted)
}

fn written(spec: &Step) -> Value {
    let mut value = serde_json::to_value(spec).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        // The id is the key.
        fields.remove("id");
    }
    value
}

/// A final step as a node of the graph: its agent and policy are not checked again.
fn shown(spec: &Step, live: &BTreeSet<&StepId>) -> Value {
    let dependencies: Vec<&StepId> = spec.dependencies.iter().filter(|id| live.contains(id)).collect();
    let mut fields = Map::from_iter([
        ("kind".to_owned(), json!(StepKind::Internal)),
        ("dependencies".to_owned(), json!(dependencies)),
    ]);
    if let Some(phase) = &spec.phase {
        fields.insert("phase".into(), json!(phase));
    }
    Value::Object(fields)
}

/// Returns an issue when a step, or one inside its plan, has no agent type.
fn unroutable(spec: &Step) -> Option<Issue> {
    let is_open = |plan: &Plan| routing::steps_of(plan).any(routing::is_unrouted);
    let inside = spec.plan.as_deref().is_some_and(is_open);
    (routing::is_unrouted(spec) || inside).then(|| {
        let detail = format!("step `{}` has no agent type", spec.id);
        issue("AGENT_UNROUTED", &format!("/steps/{}/agent_type", spec.id), detail, "name an agent type")
    })
}

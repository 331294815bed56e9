//! Forks: a new plan that continues from the state of another one.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::command::Submit;
use goalmill_common::event::ReplanTriggered;
use goalmill_common::goal::Goal;
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::revision::{Fork, Trigger};
use goalmill_common::status::StepStatus;

use crate::graph::StepIndex;
use crate::revise::replan_context;
use crate::{PlanState, Rejection};

/// Returns the submission of a plan that continues from `state`, which may be the fold of any prefix of a log.
///
/// Results of completed steps are kept, except those of `step`, of steps whose work was undone, and of what follows from
/// them.
///
/// - `now`: the same plan as it is now.
/// - `submission`: the new plan's idempotency key.
pub fn fork(
    state: &PlanState,
    now: &PlanState,
    step: Option<&StepId>,
    submission: String,
    source: String,
) -> Result<Submit, Rejection> {
    let accepted = &state.accepted;
    if !state.origin.created {
        return Err(Rejection::not_allowed("there is no plan to fork yet"));
    }
    // What was taken out is undone, too, and what followed from it stayed as it was.
    let is_there = |i: &StepIndex| state.steps[*i].status() != StepStatus::Revised;
    let mut again: BTreeSet<StepIndex> = state.indices().filter(|i| is_there(i) && was_undone(now, *i)).collect();
    if let Some(id) = step {
        let i = state.graph.find(id.as_str()).filter(is_there);
        again.insert(i.ok_or_else(|| Rejection::UnknownStep { step: id.clone() })?);
    }
    let again = with_descendants(state, again);
    let is_kept = |i: &StepIndex| !again.contains(i) && !state.plan.step(*i).is_cleanup();
    let kept = state.indices().filter(is_kept).filter_map(|i| {
        let at = &state.steps[i];
        let outputs = at.outputs().cloned().filter(|_| at.status() == StepStatus::Completed)?;
        Some((state.plan.step(i).id.clone(), outputs))
    });
    let kept: BTreeMap<StepId, Json> = kept.collect();
    let is_partial = |i: &StepIndex| state.steps[*i].is_partial() && kept.contains_key(&state.plan.step(*i).id);
    let partial = state.indices().filter(is_partial);
    let partial = partial.map(|i| (state.plan.step(i).id.clone(), state.steps[i].errors().to_vec())).collect();
    let fork = Fork {
        plan: accepted.plan_id.clone(),
        revision: state.revision,
        step: step.cloned(),
        kept,
        partial,
        calls: BTreeMap::new(),
        replan: None,
    };
    let planned = state.planned_as_this(replan_context::live_plan(state));
    // The deadline and the start of the other plan do not apply.
    let goal = Goal { deadline_ms: None, start_at_ms: None, ..accepted.goal.clone() };
    Ok(Submit { fork: Some(Box::new(fork)), ..Submit::new(goal, Some(planned), submission, source) })
}

/// Whether this is the replan at the beginning of a fork that only one planner may answer: without an answer there
/// is nothing to run.
pub(crate) fn is_for_one_planner(state: &PlanState, replan: &ReplanTriggered) -> bool {
    let fork = state.origin.fork.as_ref().and_then(|fork| fork.replan.as_ref());
    let runs_in_engine =
        state.revision == 0 && replan.trigger == Trigger::UserRequest.as_str() && fork == Some(&replan.reason);
    runs_in_engine && state.accepted.goal.planning.planner_only
}

/// Whether what a step did was undone, is undone now, or is to be undone by a clean-up that has begun.
pub fn was_step_undone(state: &PlanState, step: &StepId) -> bool {
    let is_undone = |i| was_undone(state, i) || state.cleanup.is_running() && !state.graph.undos_of(i).is_empty();
    state.graph.find(step.as_str()).is_some_and(is_undone)
}

/// Whether what a step did was undone, or was to be.
fn was_undone(state: &PlanState, i: StepIndex) -> bool {
    let has_begun = |undo: &StepIndex| state.steps[*undo].queued_ms() > 0;
    state.inner.was_undone(i) || state.graph.undos_of(i).iter().any(has_begun)
}

/// Steps and all steps that depend on them, directly or indirectly.
fn with_descendants(state: &PlanState, mut all: BTreeSet<StepIndex>) -> BTreeSet<StepIndex> {
    let mut next: Vec<StepIndex> = all.iter().copied().collect();
    while let Some(i) = next.pop() {
        next.extend(state.graph.dependents(i).iter().copied().filter(|d| all.insert(*d)));
    }
    all
}

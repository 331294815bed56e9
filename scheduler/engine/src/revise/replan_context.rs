//! The context of a replan, as planners see it.

use goalmill_common::event::ReplanTriggered;
use goalmill_common::goal::Budget;
use goalmill_common::limits::Limits;
use goalmill_common::plan::Plan;
use goalmill_common::replan_situation::{Situation, StepSituation};
use goalmill_common::status::StepStatus;

use crate::attempt::step_result::StepResult;
use crate::budget::call_budget;
use crate::revise::revising;
use crate::{PlanState, budget, constraints};

/// Describes the plan for a planner that revises it. A function of the state alone; `None` before there is
/// a plan.
pub fn replan_context(state: &PlanState, limits: &Limits) -> Option<Situation> {
    if !state.origin.created {
        return None;
    }
    let accepted = &state.accepted;
    let replan = state.waiting.replan().cloned().unwrap_or_else(ReplanTriggered::default);
    let (budget, taken) = (budget::tighter_budget(state), call_budget::taken_by_steps(state));
    let live = state.plan.steps().zip(&state.steps).filter(|(_, step)| step.status() != StepStatus::Revised);
    let steps = live.map(|(spec, step)| {
        let at = StepSituation {
            status: step.status(),
            attempt: step.attempt(),
            outputs: step.outputs().cloned(),
            failure: step.failure().cloned(),
            may_be_done: step.may_have_acted(),
            adjustments: step.run().result().and_then(StepResult::adjustments).cloned(),
        };
        (spec.id.clone(), at)
    });
    let (mut goal, relaxed) = (accepted.goal.clone(), constraints::relaxed(state));
    goal.constraints.retain(|name, _| !relaxed.contains(name));
    Some(Situation {
        plan_id: accepted.plan_id.clone(),
        revision: state.revision + 1,
        goal,
        relaxed,
        steps: steps.collect(),
        plan: live_plan(state),
        trigger: replan.trigger,
        step: replan.step,
        reason: replan.reason,
        hint: replan.hint,
        information: replan.information,
        chosen: None,
        options: replan.options,
        confidence: state.origin.confidence,
        confidence_floor: revising::policy(state).confidence_floor,
        revisions: state.revising.records.clone(),
        revisions_left: revising::revisions_left(state, limits.revisions_max),
        usage: state.usage,
        left: Budget {
            tokens: budget.tokens.map(|most| most.saturating_sub(taken.tokens)),
            cost: budget.cost.map(|most| (most - taken.cost).max(0.0)),
            seconds: budget.seconds,
        },
        deadline_ms: accepted.deadline_ms,
        refused: state.revising.refused.clone(),
        answers: state.revising.answers.clone(),
    })
}

/// The current plan as it is defined, without removed steps and dependencies on them.
pub fn live_plan(state: &PlanState) -> Plan {
    let mut plan = Plan::clone(state.plan.definition());
    if state.revising.records.iter().all(|record| record.removed.is_empty()) {
        return plan;
    }
    let gone = |id: &goalmill_common::id::StepId| {
        let i = state.graph.find(id.as_str());
        i.is_some_and(|i| state.steps[i].status() == StepStatus::Revised)
    };
    plan.steps.retain(|step| !gone(&step.id) && !step.undoes.as_ref().is_some_and(gone));
    for step in &mut plan.steps {
        step.dependencies.retain(|id| !gone(id));
    }
    plan
}

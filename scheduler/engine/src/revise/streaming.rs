//! Streamed plans: a plan that runs while its planner still writes it. Steps arrive one by one, then the plan is closed
//! as complete or broken.

use goalmill_common::event::{PlanEvent, PlanExtended, StepAdded};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::{AUTO, AgentType};
use goalmill_common::json::Json;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::problem::Issue;
use goalmill_common::revision::{Change, Trigger};
use goalmill_common::status::PlanStatus;

use crate::attempt::failure;
use crate::decide::{Turn, not_allowed};
use crate::graph::unlock;
use crate::revise::trigger;
use crate::{Closing, Rejection, revise};

/// Adds steps to a streamed plan.
pub(crate) fn add_steps(turn: &mut Turn<'_>, steps: Vec<Step>) -> Result<(), Rejection> {
    check_streaming(turn)?;
    let add = |step: &Step| Change::AddStep { step: Box::new(step.clone()), before: Vec::new() };
    let changes: Vec<Change> = steps.iter().map(add).collect();
    let delta = revise::resolve(turn.state, &changes, &turn.context.limits, None).map_err(|issues| {
        let reason = "the steps do not fit the plan".into();
        Rejection::Invalid { reason, issues }
    })?;
    for step in &delta.added {
        turn.emit_added(StepAdded { step: step.clone() });
    }
    let added = delta.added.iter().map(|step| step.id.clone()).collect();
    turn.emit_plan(PlanEvent::Extended(Box::new(PlanExtended { added, open: true, ..PlanExtended::default() })));
    if turn.is_active() {
        unlock::unlock_steps(turn);
    }
    Ok(())
}

pub(crate) fn close_plan(turn: &mut Turn<'_>, closing: Closing) -> Result<(), Rejection> {
    check_streaming(turn)?;
    match closing {
        Closing::Whole { confidence, provenance, warnings, routes } => {
            let confidence = Some(revise::confidence_of_whole(turn.state, confidence));
            let whole = PlanExtended { confidence, provenance, warnings, routes, ..PlanExtended::default() };
            turn.emit_plan(PlanEvent::Extended(Box::new(whole)));
            if turn.is_active() {
                unlock::unlock_steps(turn);
            }
        }
        Closing::Broken { reason, issues, provenance } => replan_unfinished(turn, reason, issues, provenance),
    }
    Ok(())
}

/// Closes a streamed plan whose rest is missing, and replans what remains.
pub(crate) fn replan_unfinished(turn: &mut Turn<'_>, reason: String, issues: Vec<Issue>, provenance: Option<Json>) {
    let broken = PlanExtended { warnings: issues, provenance, ..PlanExtended::default() };
    turn.emit_plan(PlanEvent::Extended(Box::new(broken)));
    if turn.state.status == PlanStatus::AwaitingApproval {
        return failure::fail_plan(turn, Failure::new(FailureClass::Permanent, "PLANNING_FAILED", reason));
    }
    trigger::replan(turn, Trigger::IncompletePlan, None, reason);
}

fn check_streaming(turn: &Turn<'_>) -> Result<(), Rejection> {
    if revise::is_plan_open(turn.state) { Ok(()) } else { Err(not_allowed("the plan is already complete")) }
}

/// The steps of a plan and of the plans inside it.
pub(crate) fn steps_of(plan: &Plan) -> Box<dyn Iterator<Item = &Step> + '_> {
    Box::new(plan.steps.iter().flat_map(|step| {
        let below: Box<dyn Iterator<Item = &Step> + '_> = match &step.plan {
            Some(plan) => steps_of(plan),
            None => Box::new(std::iter::empty()),
        };
        std::iter::once(step).chain(below)
    }))
}

/// Whether the router has not chosen yet.
pub(crate) fn is_unrouted(step: &Step) -> bool {
    step.kind.needs_worker() && matches!(step.agent_type.as_str(), "" | AUTO)
}

/// Assigns `agent_type` to every step without one.
pub(crate) fn route_to(plan: &mut Plan, agent_type: &AgentType) {
    for step in &mut plan.steps {
        if is_unrouted(step) {
            step.agent_type = agent_type.clone();
        }
        if let Some(inner) = &mut step.plan {
            route_to(inner, agent_type);
        }
    }
}

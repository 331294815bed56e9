//! Streamed plans: a plan that runs while its planner still writes it. Steps arrive one by one, then the plan is closed
//! as complete or broken.

use goalmill_common::event::{PlanEvent, PlanExtended, StepAdded};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::plan::Step;
use goalmill_common::problem::Issue;
use goalmill_common::revision::{Change, Trigger};
use goalmill_common::status::PlanStatus;

use crate::cleanup::plan_end;
use crate::revise::resolve::resolve;
use crate::revise::{revising, trigger};
use crate::turn::Turn;
use crate::{Closing, Rejection, progress};

/// Adds steps to a streamed plan.
pub(crate) fn add_steps(turn: &mut Turn<'_>, steps: Vec<Step>) -> Result<(), Rejection> {
    check_streaming(turn)?;
    let add = |step: &Step| Change::AddStep { step: Box::new(step.clone()), before: Vec::new() };
    let changes: Vec<Change> = steps.iter().map(add).collect();
    let delta = resolve(turn.state, &changes, &turn.context.limits, None).map_err(|issues| {
        let reason = "the steps do not fit the plan".into();
        Rejection::Invalid { reason, issues }
    })?;
    for step in &delta.added {
        turn.emit_added(StepAdded { step: step.clone() });
    }
    let added = delta.added.iter().map(|step| step.id.clone()).collect();
    turn.emit_plan(PlanEvent::Extended(Box::new(PlanExtended { added, open: true, ..PlanExtended::default() })));
    if turn.is_active() {
        progress::unlock_steps(turn);
    }
    Ok(())
}

pub(crate) fn close_plan(turn: &mut Turn<'_>, closing: Closing) -> Result<(), Rejection> {
    check_streaming(turn)?;
    match closing {
        Closing::Whole { confidence, provenance, warnings, routes } => {
            let confidence = Some(revising::confidence_of_whole(turn.state, confidence));
            let whole = PlanExtended { confidence, provenance, warnings, routes, ..PlanExtended::default() };
            turn.emit_plan(PlanEvent::Extended(Box::new(whole)));
            if turn.is_active() {
                progress::unlock_steps(turn);
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
        return plan_end::fail_plan(turn, Failure::new(FailureClass::Permanent, "PLANNING_FAILED", reason));
    }
    trigger::replan(turn, Trigger::IncompletePlan, None, reason);
}

fn check_streaming(turn: &Turn<'_>) -> Result<(), Rejection> {
    if revising::is_plan_open(turn.state) {
        Ok(())
    } else {
        Err(Rejection::not_allowed("the plan is already complete"))
    }
}

//! Answers of the planners for the first plan, and how that plan starts.

use std::sync::Arc;

use goalmill_common::clock::rfc3339;
use goalmill_common::command::Planned;
use goalmill_common::config::HookPoint;
use goalmill_common::event::{
    ApprovalRequested, GoalChanged, ModelAnswered, ModelAsked, PlanCreated, PlanEvent, PlanValidated, PlanningFailed,
    Reason, ToolsCalled,
};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Budget;
use goalmill_common::json::Json;
use goalmill_common::json_limits::COST_MAX;
use goalmill_common::plan::{Approval, Plan, Step};
use goalmill_common::problem::Issue;
use goalmill_common::revision::{Fork, Trigger};
use goalmill_common::status::PlanStatus;

use crate::budget::model_calls;
use crate::budget::plan_size::steps_written;
use crate::calls::callback::missing_address;
use crate::cleanup::plan_end;
use crate::due_time::after;
use crate::graph::PlanGraph;
use crate::people::hook;
use crate::revise::trigger;
use crate::turn::Turn;
use crate::{EngineContext, PlanAnswer, Rejection, delayed_start, progress};

/// Starts the plan that planners answered with.
pub(crate) fn planned(turn: &mut Turn<'_>, revision: u32, answer: PlanAnswer) -> Result<(), Rejection> {
    if model_calls::asked_of_planners(turn.state) != Some(revision) {
        return Err(Rejection::StaleRevision { revision: turn.state.revision });
    }
    match answer {
        PlanAnswer::Failed { reason, issues, provenance } => planning_failed(turn, reason, issues, provenance),
        PlanAnswer::Plan(planned) => match refusal(turn.context, &planned.plan) {
            Some(reason) => planning_failed(turn, reason, Vec::new(), planned.provenance),
            None => start_plan(turn, *planned, None, false),
        },
        PlanAnswer::Open(planned) => match refusal(turn.context, &planned.plan) {
            Some(reason) => planning_failed(turn, reason, Vec::new(), planned.provenance),
            None => start_plan(turn, *planned, None, true),
        },
        PlanAnswer::Revision(_) => {
            let reason = "a planner returned a revision before there is a plan";
            planning_failed(turn, reason.into(), Vec::new(), None);
        }
    }
    Ok(())
}

/// Records a model call; refused when its planner is no longer awaited.
pub(crate) fn model_asked(turn: &mut Turn<'_>, asked: ModelAsked) -> Result<(), Rejection> {
    if !model_calls::awaits_planners(turn.state, asked.revision) && !model_calls::awaits_judge(turn.state, &asked) {
        return Err(Rejection::StaleRevision { revision: turn.state.revision });
    }
    let repeated = turn.state.calls.is_open(&asked);
    let reserved = asked.reserved.bounded();
    turn.emit_plan(PlanEvent::ModelAsked(Box::new(ModelAsked { reserved, repeated, ..asked })));
    Ok(())
}

/// Records the tool calls of a planner's model; refused when the planner is no longer awaited.
pub(crate) fn tools_called(turn: &mut Turn<'_>, called: Box<ToolsCalled>) -> Result<(), Rejection> {
    if !model_calls::awaits_planners(turn.state, called.revision) {
        return Err(Rejection::StaleRevision { revision: turn.state.revision });
    }
    turn.emit_plan(PlanEvent::ToolsCalled(called));
    Ok(())
}

/// Records the result of a model call. Its usage counts as long as the plan is not final.
pub(crate) fn model_answered(turn: &mut Turn<'_>, answered: ModelAnswered) {
    let usage = answered.usage.bounded();
    turn.emit_plan(PlanEvent::ModelAnswered(Box::new(ModelAnswered { usage, ..answered })));
}

pub(crate) fn start_plan(turn: &mut Turn<'_>, mut planned: Planned, fork: Option<Box<Fork>>, open: bool) {
    if planned.plan.approve.is_none() && turn.state.accepted.goal.planning.require_approval {
        planned.plan.approve = Some(Approval::default());
    }
    let confidence = confidence_of(&planned);
    if let Some(changed) = planned.goal {
        change_goal(turn, *changed);
    }
    turn.emit_plan(PlanEvent::PlanCreated(Box::new(PlanCreated {
        plan: Arc::new(planned.plan),
        planner: planned.planner,
        confidence,
        provenance: planned.provenance,
        open,
        fork,
    })));
    turn.emit_plan(PlanEvent::PlanValidated(Box::new(PlanValidated {
        warnings: planned.warnings,
        routes: planned.routes,
        critical_path_seconds: turn.state.critical_path_seconds(),
    })));
    // A streamed plan runs before it is whole: it is not streamed where hooks decide.
    if !open && hook::ask_plan_hooks(turn, HookPoint::OnPlanGenerated) || request_approval(turn) {
        return;
    }
    start_steps(turn);
}

/// Records other fields of the goal.
pub(crate) fn change_goal(turn: &mut Turn<'_>, changed: GoalChanged) {
    let longest = after(turn.state.created_ms(), turn.context.limits.plan_ms_max);
    let due_ms = changed.deadline_ms.map_or(longest, |deadline| deadline.min(longest));
    turn.emit_plan(PlanEvent::GoalChanged(Box::new(GoalChanged { due_ms, ..changed })));
}

/// Requests the approval of a created plan. Returns whether it needs one.
pub(crate) fn request_approval(turn: &mut Turn<'_>) -> bool {
    let Some(approval) = turn.state.plan.definition().approve else { return false };
    let limit_ms = approval.limit_ms.min(turn.context.limits.approval_ms_max);
    let due_ms = turn.after(limit_ms);
    turn.emit_plan(PlanEvent::ApprovalRequested(Box::new(ApprovalRequested { due_ms })));
    hook::ask_plan_hooks(turn, HookPoint::OnPlanApproved);
    true
}

/// Starts the first steps. A fork may be replanned first.
pub(crate) fn start_steps(turn: &mut Turn<'_>) {
    if hold_until_start(turn) {
        return;
    }
    let replan_reason = turn.state.origin.fork.as_ref().and_then(|fork| fork.replan.clone());
    if let Some(reason) = replan_reason {
        trigger::replan(turn, Trigger::UserRequest, None, reason.clone());
        let is_only = turn.state.accepted.goal.planning.planner_only;
        if is_only && turn.state.status != PlanStatus::Replanning {
            return trigger::fail_without_revisions(turn, &reason);
        }
    }
    progress::unlock_steps(turn);
}

pub(crate) fn planning_failed(turn: &mut Turn<'_>, reason: String, issues: Vec<Issue>, provenance: Option<Json>) {
    let failed = PlanningFailed { reason: reason.clone(), aborted: false, issues, provenance };
    turn.emit_plan(PlanEvent::PlanningFailed(Box::new(failed)));
    plan_end::fail_plan(turn, Failure::new(FailureClass::Permanent, "PLANNING_FAILED", reason));
}

/// Pauses a plan that is ready to start before its time. Returns whether it did.
fn hold_until_start(turn: &mut Turn<'_>) -> bool {
    let Some(start_ms) = delayed_start::awaited_start_ms(turn.state).filter(|start_ms| *start_ms > turn.now_ms) else {
        return false;
    };
    turn.emit_plan(PlanEvent::Paused(Reason::boxed(format!("it starts at {}", rfc3339(start_ms)))));
    true
}

/// The confidence of a planner, less a tenth for each soft constraint that the estimates break.
fn confidence_of(planned: &Planned) -> f64 {
    let broken = planned.warnings.iter().filter(|issue| issue.code == "CONSTRAINT_AT_RISK").count();
    let confidence = planned.confidence - 0.1 * broken as f64;
    if confidence.is_finite() { (confidence.max(0.0) * 10_000.0).round() / 10_000.0 } else { 0.0 }
}

/// Why a plan cannot be run at all; a validated plan never is refused.
pub(crate) fn refusal(context: &EngineContext, plan: &Plan) -> Option<String> {
    let (steps, most) = (steps_written(&plan.steps), context.limits.steps_max);
    if steps > most {
        return Some(format!("the plan has {steps} steps, more than `steps_max` ({most})"));
    }
    let no_address = || plan.steps.iter().find_map(|step| missing_address(context, step));
    PlanGraph::new(plan).err().or_else(|| invalid_number(plan)).or_else(no_address)
}

/// Returns which number of a plan is not finite: the log could not store it.
fn invalid_number(plan: &Plan) -> Option<String> {
    if !is_budget(&plan.budget) {
        return Some("the plan's budget is not a number".into());
    }
    let policy = plan.revision.clone().unwrap_or_default();
    if ![policy.threshold, policy.confidence_floor, policy.budget_low].into_iter().all(f64::is_finite) {
        return Some("the plan's `revision` has a share that is not a number".into());
    }
    let is_odd = |step: &&Step| {
        let estimates = [step.estimates.seconds, step.estimates.cost];
        !step.retry.factor.is_finite() || estimates.into_iter().flatten().any(|n| !is_amount(n))
    };
    let step = plan.steps.iter().find(is_odd)?;
    Some(format!("step `{}` has a retry factor or an estimate that is not a number", step.id))
}

fn is_amount(amount: f64) -> bool {
    (0.0..=COST_MAX).contains(&amount)
}

pub(crate) fn is_budget(budget: &Budget) -> bool {
    [budget.cost, budget.seconds].into_iter().flatten().all(is_amount)
}

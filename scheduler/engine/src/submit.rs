//! Submission and initial planning: a goal is accepted, a plan is created, validated and started.

use std::sync::Arc;

use goalmill_common::command::{Planned, Submit};
use goalmill_common::config::HookPoint;
use goalmill_common::event::{
    ApprovalRequested, Event, GoalAccepted, GoalChanged, ModelAnswered, ModelAsked, PlanCreated, PlanEvent,
    PlanValidated, PlanningFailed, Record, ToolsCalled,
};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Budget;
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::json_limits::COST_MAX;
use goalmill_common::plan::{Approval, Plan, Step};
use goalmill_common::problem::Issue;
use goalmill_common::revision::{Fork, Trigger};
use goalmill_common::status::PlanStatus;

use crate::budget::plan_size::{count_steps, steps_written};
use crate::calls::callback::missing_address;
use crate::decide::{Turn, after, decide, not_allowed};
use crate::delayed_start::with_start;
use crate::graph::PlanGraph;
use crate::{Decision, Effect, EngineContext, Envelope, PlanAnswer, PlanState, Rejection, SubmitCommand};

/// The result of [`submit()`].
pub type Submitted = Result<(PlanState, Decision), Rejection>;

/// The two entry points of the engine: tests replace them to inject faults.
#[derive(Clone, Copy)]
pub struct Engine {
    pub submit: fn(&EngineContext, Envelope<SubmitCommand>) -> Submitted,
    pub decide: fn(&mut PlanState, &EngineContext, Envelope) -> Result<Decision, Rejection>,
}

impl Default for Engine {
    fn default() -> Self {
        Self { submit, decide }
    }
}

/// Begins a plan: the first event creates its state. Reads no clock and draws no number, as [`decide()`].
pub fn submit(context: &EngineContext, envelope: Envelope<SubmitCommand>) -> Result<(PlanState, Decision), Rejection> {
    let Envelope { now_ms, random, actor, family, command } = envelope;
    let (accepted, beginning) = accept(context, now_ms, command)?;
    let record = Record { seq: 1, time_ms: now_ms, actor, event: Event::Plan(accepted) };
    let mut state = PlanState::new(&record).expect("the first event is `goal_accepted`");
    let mut turn = Turn::begin_with(&mut state, record, context, random);
    turn.join_family(family);
    match beginning {
        Beginning::Plan { planned, fork } => {
            // The plan that starts it has counted them.
            turn.size_before = count_steps(&planned.plan);
            turn.start(*planned, fork, false);
        }
        Beginning::Planning => turn.effects.push(Effect::Plan { revision: 0 }),
        Beginning::Refused(reason) => turn.planning_failed(reason, Vec::new(), None),
    }
    let decision = turn.end();
    Ok((state, decision))
}

/// How an accepted goal begins.
enum Beginning {
    /// With a plan, which may continue another one.
    Plan { planned: Box<Planned>, fork: Option<Box<Fork>> },
    /// Planners are asked.
    Planning,
    /// A sub-plan that is refused must still tell its parent.
    Refused(String),
}

/// Checks a submission, and makes its first event.
fn accept(
    context: &EngineContext,
    now_ms: u64,
    submission: SubmitCommand,
) -> Result<(PlanEvent, Beginning), Rejection> {
    let SubmitCommand { plan_id, salt, submit } = submission;
    let refusal = refusal_of(context, &submit);
    if let (Some(reason), None) = (&refusal, &submit.parent) {
        return Err(not_allowed(reason.clone()));
    }
    let beginning = match (refusal, submit.plan) {
        (Some(reason), _) => Beginning::Refused(reason),
        (None, Some(planned)) => Beginning::Plan { planned: Box::new(planned), fork: submit.fork },
        (None, None) => Beginning::Planning,
    };
    let goal = with_start(submit.goal, now_ms);
    let start_ms = goal.start_at_ms.map_or(now_ms, |start_ms| start_ms.max(now_ms));
    let (longest, is_inside) = (after(start_ms, context.limits.plan_ms_max), submit.parent.is_some());
    let accepted = GoalAccepted {
        plan_id,
        // What undoes items may run for longer than the plan around it, which began before.
        deadline_ms: goal.deadline_ms.map_or(longest, |due_ms| if is_inside { due_ms } else { due_ms.min(longest) }),
        goal,
        submission: submit.submission,
        source: submit.source,
        secret: String::new(),
        salt,
        fingerprint: submit.fingerprint,
        entry: submit.entry,
        parent: submit.parent,
        traceparent: submit.traceparent,
    };
    Ok((PlanEvent::GoalAccepted(Box::new(accepted)), beginning))
}

fn refusal_of(context: &EngineContext, submit: &Submit) -> Option<String> {
    if let Some(reason) = submit.plan.as_ref().and_then(|planned| refusal(context, &planned.plan)) {
        return Some(reason);
    }
    if !is_budget(&submit.goal.budget) {
        return Some("the goal's budget is not a number".into());
    }
    if let Some(reason) = submit.fork.as_deref().and_then(|fork| fork_mismatch(fork, submit.plan.as_ref())) {
        return Some(reason);
    }
    let is_too_deep = submit.parent.as_ref().is_some_and(|parent| parent.depth > context.limits.depth_max);
    is_too_deep.then(|| "plans are nested deeper than `depth_max`".into())
}

/// Why a plan cannot be run at all; a validated plan never is refused.
fn refusal(context: &EngineContext, plan: &Plan) -> Option<String> {
    let (steps, most) = (steps_written(&plan.steps), context.limits.steps_max);
    if steps > most {
        return Some(format!("the plan has {steps} steps, more than `steps_max` ({most})"));
    }
    let no_address = || plan.steps.iter().find_map(|step| missing_address(context, step));
    PlanGraph::new(plan).err().or_else(|| invalid_number(plan)).or_else(no_address)
}

impl Turn<'_> {
    /// Starts the plan that planners answered with.
    pub(crate) fn planned(&mut self, revision: u32, answer: PlanAnswer) -> Result<(), Rejection> {
        if self.state.asked_of_planners() != Some(revision) {
            return Err(Rejection::StaleRevision { revision: self.state.revision });
        }
        match answer {
            PlanAnswer::Failed { reason, issues, provenance } => self.planning_failed(reason, issues, provenance),
            PlanAnswer::Plan(planned) => match refusal(self.context, &planned.plan) {
                Some(reason) => self.planning_failed(reason, Vec::new(), planned.provenance),
                None => self.start(*planned, None, false),
            },
            PlanAnswer::Open(planned) => match refusal(self.context, &planned.plan) {
                Some(reason) => self.planning_failed(reason, Vec::new(), planned.provenance),
                None => self.start(*planned, None, true),
            },
            PlanAnswer::Revision(_) => {
                let reason = "a planner returned a revision before there is a plan";
                self.planning_failed(reason.into(), Vec::new(), None);
            }
        }
        Ok(())
    }

    /// Records a model call; refused when its planner is no longer awaited.
    pub(crate) fn model_asked(&mut self, asked: ModelAsked) -> Result<(), Rejection> {
        if !self.state.awaits_planners(asked.revision) && !self.state.awaits_judge(&asked) {
            return Err(Rejection::StaleRevision { revision: self.state.revision });
        }
        let repeated = self.state.calls.is_open(&asked);
        let reserved = asked.reserved.bounded();
        self.emit_plan(PlanEvent::ModelAsked(Box::new(ModelAsked { reserved, repeated, ..asked })));
        Ok(())
    }

    /// Records the tool calls of a planner's model; refused when the planner is no longer awaited.
    pub(crate) fn tools_called(&mut self, called: Box<ToolsCalled>) -> Result<(), Rejection> {
        if !self.state.awaits_planners(called.revision) {
            return Err(Rejection::StaleRevision { revision: self.state.revision });
        }
        self.emit_plan(PlanEvent::ToolsCalled(called));
        Ok(())
    }

    /// Records the result of a model call. Its usage counts as long as the plan is not final.
    pub(crate) fn model_answered(&mut self, answered: ModelAnswered) {
        let usage = answered.usage.bounded();
        self.emit_plan(PlanEvent::ModelAnswered(Box::new(ModelAnswered { usage, ..answered })));
    }

    fn start(&mut self, mut planned: Planned, fork: Option<Box<Fork>>, open: bool) {
        if planned.plan.approve.is_none() && self.state.accepted.goal.planning.require_approval {
            planned.plan.approve = Some(Approval::default());
        }
        let confidence = confidence_of(&planned);
        if let Some(changed) = planned.goal {
            self.change_goal(*changed);
        }
        self.emit_plan(PlanEvent::PlanCreated(Box::new(PlanCreated {
            plan: Arc::new(planned.plan),
            planner: planned.planner,
            confidence,
            provenance: planned.provenance,
            open,
            fork,
        })));
        self.emit_plan(PlanEvent::PlanValidated(Box::new(PlanValidated {
            warnings: planned.warnings,
            routes: planned.routes,
            critical_path_seconds: self.state.critical_path_seconds(),
        })));
        // A streamed plan runs before it is whole: it is not streamed where hooks decide.
        if !open && self.ask_plan_hooks(HookPoint::OnPlanGenerated) || self.request_approval() {
            return;
        }
        self.start_steps();
    }

    /// Records other fields of the goal.
    pub(crate) fn change_goal(&mut self, changed: GoalChanged) {
        let longest = after(self.state.created_ms(), self.context.limits.plan_ms_max);
        let due_ms = changed.deadline_ms.map_or(longest, |deadline| deadline.min(longest));
        self.emit_plan(PlanEvent::GoalChanged(Box::new(GoalChanged { due_ms, ..changed })));
    }

    /// Requests the approval of a created plan. Returns whether it needs one.
    pub(crate) fn request_approval(&mut self) -> bool {
        let Some(approval) = self.state.plan.definition().approve else { return false };
        let limit_ms = approval.limit_ms.min(self.context.limits.approval_ms_max);
        let due_ms = self.after(limit_ms);
        self.emit_plan(PlanEvent::ApprovalRequested(Box::new(ApprovalRequested { due_ms })));
        self.ask_plan_hooks(HookPoint::OnPlanApproved);
        true
    }

    /// Starts the first steps. A fork may be replanned first.
    pub(crate) fn start_steps(&mut self) {
        if self.hold_until_start() {
            return;
        }
        let replan_reason = self.state.origin.fork.as_ref().and_then(|fork| fork.replan.clone());
        if let Some(reason) = replan_reason {
            self.replan(Trigger::UserRequest, None, reason.clone());
            let is_only = self.state.accepted.goal.planning.planner_only;
            if is_only && self.state.status != PlanStatus::Replanning {
                return self.end_revisions(&reason);
            }
        }
        self.unlock_steps();
    }

    fn planning_failed(&mut self, reason: String, issues: Vec<Issue>, provenance: Option<Json>) {
        let failed = PlanningFailed { reason: reason.clone(), aborted: false, issues, provenance };
        self.emit_plan(PlanEvent::PlanningFailed(Box::new(failed)));
        self.fail_plan(Failure::new(FailureClass::Permanent, "PLANNING_FAILED", reason));
    }
}

/// The confidence of a planner, less a tenth for each soft constraint that the estimates break.
fn confidence_of(planned: &Planned) -> f64 {
    let broken = planned.warnings.iter().filter(|issue| issue.code == "CONSTRAINT_AT_RISK").count();
    let confidence = planned.confidence - 0.1 * broken as f64;
    if confidence.is_finite() { (confidence.max(0.0) * 10_000.0).round() / 10_000.0 } else { 0.0 }
}

/// Returns why a fork cannot keep its results or calls: the plan lacks a step.
fn fork_mismatch(fork: &Fork, planned: Option<&Planned>) -> Option<String> {
    let has = |id: &StepId| planned.is_some_and(|planned| planned.plan.steps.iter().any(|step| step.id == *id));
    let missing = fork.kept.keys().chain(fork.calls.keys()).find(|id| !has(id))?;
    Some(format!("the fork keeps what step `{missing}` did, which is not in the plan"))
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

fn is_budget(budget: &Budget) -> bool {
    [budget.cost, budget.seconds].into_iter().flatten().all(is_amount)
}

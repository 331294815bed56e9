//! How a plan begins: a goal is accepted, a plan comes, a person agrees.

use std::sync::Arc;

use goalmill_common::command::{Planned, Submit};
use goalmill_common::event::{
    ApprovalRequested, GoalAccepted, ModelAnswered, ModelAsked, PlanCreated, PlanEvent, PlanRejected, PlanValidated,
    PlanningFailed, Reason,
};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::foreign::COST_MAX;
use goalmill_common::goal::Budget;
use goalmill_common::id::{PlanId, StepId};
use goalmill_common::json::Json;
use goalmill_common::plan::{Approval, Plan, Step};
use goalmill_common::problem::Issue;
use goalmill_common::revision::{Fork, Trigger};
use goalmill_common::status::PlanStatus;

use crate::decide::{Turn, not_allowed};
use crate::graph::Graph;
use crate::{Effect, PlanAnswer, Rejection};

impl Turn<'_> {
    pub(crate) fn submit(&mut self, plan_id: PlanId, secret: String, submit: Submit) -> Result<(), Rejection> {
        if self.state.born.is_some() {
            return Err(Rejection::Exists);
        }
        let unfit = submit.plan.as_ref().and_then(|planned| self.refusal(&planned.plan));
        let odd = (!is_budget(&submit.goal.budget)).then(|| "the goal's budget is no number".to_owned());
        let unfit = unfit.or(odd);
        let too_deep = submit.parent.as_ref().is_some_and(|parent| parent.depth > self.context.limits.depth_max);
        let unfit = unfit.or_else(|| submit.fork.as_deref().and_then(|fork| misfit(fork, submit.plan.as_ref())));
        let unfit = unfit.or_else(|| too_deep.then(|| "plans are nested deeper than `depth_max`".into()));
        if let (Some(reason), None) = (&unfit, &submit.parent) {
            return Err(not_allowed(reason.clone()));
        }
        let (planned, fork) = (submit.plan, submit.fork);
        let longest = self.after(self.context.limits.plan_ms_max);
        self.emit_plan(PlanEvent::GoalAccepted(Box::new(GoalAccepted {
            plan_id,
            deadline_ms: submit.goal.deadline_ms.map_or(longest, |deadline| deadline.min(longest)),
            goal: submit.goal,
            submission: submit.submission,
            source: submit.source,
            secret,
            fingerprint: submit.fingerprint,
            parent: submit.parent,
            traceparent: submit.traceparent,
        })));
        match (unfit, planned) {
            // A sub-plan that is refused must still tell its parent.
            (Some(reason), _) => self.planning_failed(reason, Vec::new(), None),
            (None, Some(planned)) => self.start(planned, fork, false),
            (None, None) => self.effects.push(Effect::Plan { revision: 0 }),
        }
        Ok(())
    }

    pub(crate) fn planned(&mut self, revision: u32, answer: PlanAnswer) -> Result<(), Rejection> {
        let is_replan = self.state.waiting.replan().is_some() && revision == self.state.revision + 1;
        if is_replan {
            return self.revised(answer);
        }
        if self.state.asked_of_planners() != Some(revision) {
            return Err(Rejection::StaleRevision { revision: self.state.revision });
        }
        match answer {
            PlanAnswer::Failed { reason, issues, provenance } => self.planning_failed(reason, issues, provenance),
            PlanAnswer::Plan(planned) => match self.refusal(&planned.plan) {
                Some(reason) => self.planning_failed(reason, Vec::new(), planned.provenance),
                None => self.start(*planned, None, false),
            },
            PlanAnswer::Open(planned) => match self.refusal(&planned.plan) {
                Some(reason) => self.planning_failed(reason, Vec::new(), planned.provenance),
                None => self.start(*planned, None, true),
            },
            PlanAnswer::Revision(_) => {
                let reason = "a planner gave changes where there is no plan";
                self.planning_failed(reason.into(), Vec::new(), None);
            }
        }
        Ok(())
    }

    /// A planner is about to ask a model; refused when nobody waits for its plan any more.
    pub(crate) fn model_asked(&mut self, asked: ModelAsked) -> Result<(), Rejection> {
        if !self.state.awaits_planners(asked.revision) {
            return Err(Rejection::StaleRevision { revision: self.state.revision });
        }
        let repeated = self.state.calls.is_open(&asked);
        let reserved = asked.reserved.bounded();
        self.emit_plan(PlanEvent::ModelAsked(Box::new(ModelAsked { reserved, repeated, ..asked })));
        Ok(())
    }

    /// What a call took counts whatever has become of the plan, as long as it is not final.
    pub(crate) fn model_answered(&mut self, answered: ModelAnswered) {
        let usage = answered.usage.bounded();
        self.emit_plan(PlanEvent::ModelAnswered(Box::new(ModelAnswered { usage, ..answered })));
    }

    /// Why a plan cannot be run at all; a validated plan never is refused.
    fn refusal(&self, plan: &Plan) -> Option<String> {
        let most = self.context.limits.steps_max;
        if plan.steps.len() > most {
            return Some(format!("the plan has {} steps, more than `steps_max` ({most})", plan.steps.len()));
        }
        Graph::of(plan).err().or_else(|| not_numbers(plan))
    }

    fn start(&mut self, mut planned: Planned, fork: Option<Box<Fork>>, open: bool) {
        if planned.plan.approve.is_none() && self.wants_approval() {
            planned.plan.approve = Some(Approval::default());
        }
        let approve = planned.plan.approve;
        self.emit_plan(PlanEvent::PlanCreated(Box::new(PlanCreated {
            plan: Arc::new(planned.plan),
            planner: planned.planner,
            confidence: if planned.confidence.is_finite() { planned.confidence } else { 0.0 },
            provenance: planned.provenance,
            open,
            fork,
        })));
        self.emit_plan(PlanEvent::PlanValidated(Box::new(PlanValidated {
            warnings: planned.warnings,
            routes: planned.routes,
            critical_path_seconds: self.state.critical_path_seconds(),
        })));
        match approve {
            Some(approval) => {
                let limit_ms = approval.limit_ms.min(self.context.limits.approval_ms_max);
                let due_ms = self.after(limit_ms);
                self.emit_plan(PlanEvent::ApprovalRequested(Box::new(ApprovalRequested { due_ms })));
            }
            None => self.set_off(),
        }
    }

    /// Whether the goal says that a person must agree to its plan, whoever makes it.
    fn wants_approval(&self) -> bool {
        self.state.accepted().is_some_and(|accepted| accepted.goal.planning.require_approval)
    }

    pub(crate) fn approve(&mut self, reason: String) {
        self.emit_plan(PlanEvent::Approved(Reason::boxed(reason)));
        self.set_off();
    }

    /// Lets the first steps go; what remains of a fork may be planned anew before that.
    fn set_off(&mut self) {
        let anew = self.state.origin.fork.as_ref().and_then(|fork| fork.replan.clone());
        if let Some(reason) = anew {
            self.replan(Trigger::UserRequest, None, reason.clone());
            let is_only = self.state.accepted().is_some_and(|accepted| accepted.goal.planning.planner_only);
            if is_only && self.state.status != PlanStatus::Replanning {
                return self.end_revisions(&reason);
            }
        }
        self.begin_steps();
    }

    pub(crate) fn reject(&mut self, reason: String) {
        let cancelled = self.open_steps();
        self.emit_plan(PlanEvent::Rejected(Box::new(PlanRejected { reason, cancelled })));
    }

    fn planning_failed(&mut self, reason: String, issues: Vec<Issue>, provenance: Option<Json>) {
        let failed = PlanningFailed { reason: reason.clone(), issues, provenance };
        self.emit_plan(PlanEvent::PlanningFailed(Box::new(failed)));
        self.fail_plan(Failure::new(FailureClass::Permanent, "PLANNING_FAILED", reason));
    }
}

/// Why results cannot be kept: the plan has no such step.
fn misfit(fork: &Fork, planned: Option<&Planned>) -> Option<String> {
    let has = |id: &StepId| planned.is_some_and(|planned| planned.plan.steps.iter().any(|step| step.id == *id));
    let missing = fork.kept.keys().find(|id| !has(id))?;
    Some(format!("a result of step `{missing}` is kept, which the plan does not have"))
}

/// Says which number of a plan is none: it could not be read back from the log.
fn not_numbers(plan: &Plan) -> Option<String> {
    if !is_budget(&plan.budget) {
        return Some("the plan's budget is no number".into());
    }
    let policy = plan.revision.unwrap_or_default();
    if ![policy.threshold, policy.confidence_floor, policy.budget_low].into_iter().all(f64::is_finite) {
        return Some("the plan's `revision` has a share that is no number".into());
    }
    let is_odd = |step: &&Step| {
        let estimates = [step.estimates.seconds, step.estimates.cost];
        !step.retry.factor.is_finite() || estimates.into_iter().flatten().any(|n| !is_amount(n))
    };
    let step = plan.steps.iter().find(is_odd)?;
    Some(format!("step `{}` has a retry factor or an estimate that is no number", step.id))
}

fn is_amount(amount: f64) -> bool {
    (0.0..=COST_MAX).contains(&amount)
}

fn is_budget(budget: &Budget) -> bool {
    [budget.cost, budget.seconds].into_iter().flatten().all(is_amount)
}

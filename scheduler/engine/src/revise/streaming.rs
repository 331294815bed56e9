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

use crate::decide::{Turn, not_allowed};
use crate::{Closing, Rejection, revise};

impl Turn<'_> {
    /// Adds steps to a streamed plan.
    pub(crate) fn add_steps(&mut self, steps: Vec<Step>) -> Result<(), Rejection> {
        self.check_streaming()?;
        let add = |step: &Step| Change::AddStep { step: Box::new(step.clone()), before: Vec::new() };
        let changes: Vec<Change> = steps.iter().map(add).collect();
        let delta = revise::resolve(self.state, &changes, &self.context.limits, None).map_err(|issues| {
            let reason = "the steps do not fit the plan".into();
            Rejection::Invalid { reason, issues }
        })?;
        for step in &delta.added {
            self.emit_added(StepAdded { step: step.clone() });
        }
        let added = delta.added.iter().map(|step| step.id.clone()).collect();
        self.emit_plan(PlanEvent::Extended(Box::new(PlanExtended { added, open: true, ..PlanExtended::default() })));
        if self.is_active() {
            self.unlock_steps();
        }
        Ok(())
    }

    pub(crate) fn close(&mut self, closing: Closing) -> Result<(), Rejection> {
        self.check_streaming()?;
        match closing {
            Closing::Whole { confidence, provenance, warnings, routes } => {
                let confidence = Some(self.state.confidence_of_whole(confidence));
                let whole = PlanExtended { confidence, provenance, warnings, routes, ..PlanExtended::default() };
                self.emit_plan(PlanEvent::Extended(Box::new(whole)));
                if self.is_active() {
                    self.unlock_steps();
                }
            }
            Closing::Broken { reason, issues, provenance } => self.replan_unfinished(reason, issues, provenance),
        }
        Ok(())
    }

    /// Closes a streamed plan whose rest is missing, and replans what remains.
    pub(crate) fn replan_unfinished(&mut self, reason: String, issues: Vec<Issue>, provenance: Option<Json>) {
        let broken = PlanExtended { warnings: issues, provenance, ..PlanExtended::default() };
        self.emit_plan(PlanEvent::Extended(Box::new(broken)));
        if self.state.status == PlanStatus::AwaitingApproval {
            return self.fail_plan(Failure::new(FailureClass::Permanent, "PLANNING_FAILED", reason));
        }
        self.replan(Trigger::IncompletePlan, None, reason);
    }

    fn check_streaming(&self) -> Result<(), Rejection> {
        if self.state.is_open() { Ok(()) } else { Err(not_allowed("the plan is already complete")) }
    }
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

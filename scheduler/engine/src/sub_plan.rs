//! Plans inside plans: a `plan` step begins one and waits for its end.

use goalmill_common::command::{Planned, Submit, Verb};
use goalmill_common::event::{Parent, StepCompleted, StepEvent, StepQueued, StepStarted};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::{Budget, Goal, Planning, Usage};
use goalmill_common::id::{PlanId, StepId};
use goalmill_common::json::Json;
use goalmill_common::plan::{Kind, Strategy};
use goalmill_common::status::{PlanStatus, StepStatus};
use serde_json::{Map, Value};

use crate::attempt::step_timeout;
use crate::decide::Turn;
use crate::graph::{StepIndex, to_u32};
use crate::token::Key;
use crate::verb::PLAN_TIMEOUT;
use crate::{Effect, PlanState, Rejection, render};

impl Turn<'_> {
    /// Begins the plan that a ready step stands for.
    pub(crate) fn start_sub_plan(&mut self, i: StepIndex) {
        let depth = self.state.depth() + 1;
        if depth > self.context.limits.depth_max {
            let message = format!("its plan would be nested {depth} deep, more than `depth_max`");
            return self.give_up(i, Failure::new(FailureClass::Permanent, "DEPTH_EXCEEDED", message), 0.0, 0);
        }
        let inputs = match render::inputs(self.state, i, &self.context.limits) {
            Ok(inputs) => inputs,
            Err(failure) => return self.give_up(i, failure, 0.0, 0),
        };
        let due_ms = self.sub_plan_due(i);
        let agent_type = "".into();
        self.emit_next(i, StepEvent::Queued(Box::new(StepQueued { agent_type, due_ms, cache_key: None })));
        let started = StepStarted { worker: None, started_ms: self.now_ms, due_ms };
        self.emit_step(i, StepEvent::Started(Box::new(started)));
        self.effects.extend(self.state.sub_plan(i, &inputs));
    }

    /// Asks the plan that a step stands for what is asked of its parent.
    pub(crate) fn ask_sub_plan(&mut self, i: StepIndex, verb: Verb) {
        let plan_id = self.state.sub_plan_id(i);
        self.effects.extend(plan_id.map(|plan_id| Effect::AskSubPlan { plan_id, verb }));
    }

    /// The same of all plans that steps in flight stand for.
    pub(crate) fn ask_sub_plans(&mut self, verb: &Verb) {
        let is_plan = |step: &StepIndex| self.state.plan.steps[*step].kind == Kind::Plan;
        let flying: Vec<StepIndex> = self.state.flights().filter(is_plan).collect();
        for step in flying {
            self.ask_sub_plan(step, verb.clone());
        }
    }

    /// A plan inside the plan has no limit of its own but the plan's, unless the step names one.
    fn sub_plan_due(&self, i: StepIndex) -> u64 {
        let timeout_ms = self.state.plan.steps[i].timeout_ms;
        let most = self.state.accepted().map_or(u64::MAX, |accepted| accepted.deadline_ms);
        let due_ms = timeout_ms.map_or(most, |timeout_ms| self.after(timeout_ms).min(most));
        due_ms.max(1)
    }

    /// Whether a plan had all the time that its step names.
    fn is_out_of_time(&self, i: StepIndex) -> bool {
        let (spec, step) = (&self.state.plan.steps[i], &self.state.steps[i]);
        spec.timeout_ms.is_some() && self.now_ms + 1 >= step.due_ms
    }

    pub(crate) fn sub_plan_ended(
        &mut self,
        step: &StepId,
        attempt: u32,
        status: PlanStatus,
        outputs: Json,
        usage: Usage,
        failure: Option<Failure>,
    ) -> Result<(), Rejection> {
        let i = self.find(step)?;
        let at = &self.state.steps[i];
        let awaited = at.status == StepStatus::Running && at.attempt == attempt;
        if !awaited || self.state.plan.steps[i].kind != Kind::Plan {
            return Err(Rejection::StaleAttempt { step: step.clone(), attempt });
        }
        let cost = usage.bounded().cost;
        let failure = match status {
            PlanStatus::Completed | PlanStatus::Partial => self.unfit(i, &outputs),
            PlanStatus::Planning
            | PlanStatus::AwaitingApproval
            | PlanStatus::Running
            | PlanStatus::Replanning
            | PlanStatus::Paused
            | PlanStatus::Failed
            | PlanStatus::Cancelled
            | PlanStatus::Rejected => Some(match failure {
                Some(failure) if failure.code == PLAN_TIMEOUT && self.is_out_of_time(i) => step_timeout(),
                Some(failure) => failure,
                None => Failure::new(FailureClass::Permanent, "SUB_PLAN_FAILED", format!("its plan was {status}")),
            }),
        };
        match failure {
            // The sub-plan has retried what could be retried: doing all of it again is not tried.
            Some(failure) => self.give_up(i, failure, cost, usage.tokens),
            None => {
                let completed = StepCompleted { outputs, cost, tokens: usage.tokens, ..StepCompleted::default() };
                self.emit_step(i, StepEvent::Completed(Box::new(completed)));
            }
        }
        self.settle();
        Ok(())
    }
}

impl PlanState {
    /// Plans above this one.
    pub fn depth(&self) -> u32 {
        self.parent().map_or(0, |parent| parent.depth)
    }

    /// The id of the plan that the step's current attempt stands for.
    pub(crate) fn sub_plan_id(&self, i: StepIndex) -> Option<PlanId> {
        let born = self.born.as_ref()?;
        let (spec, step) = (&self.plan.steps[i], &self.steps[i]);
        Some(Key::sub_plan(&born.accepted.plan_id, &spec.id, step.attempt))
    }

    /// What begins the plan of a running `plan` step. The step's inputs are in the new goal's `metadata.inputs`. Its
    /// deadline is a millisecond before its step's: it ends first, and the step knows what it has cost.
    pub(crate) fn sub_plan(&self, i: StepIndex, inputs: &Json) -> Option<Effect> {
        let born = self.born.as_ref()?;
        let (spec, step) = (&self.plan.steps[i], &self.steps[i]);
        let plan_id = self.sub_plan_id(i)?;
        let mut metadata = Map::new();
        metadata.insert("inputs".into(), inputs.value());
        // Who plans the whole plans its parts, and they change as it may; what a person has not seen yet is shown.
        let planning = Planning {
            require_approval: spec.plan.is_none() && born.accepted.goal.planning.require_approval,
            ..born.accepted.goal.planning.clone()
        };
        let description =
            if spec.description.is_empty() { format!("step `{}`", spec.id) } else { spec.description.clone() };
        let goal = Goal {
            description,
            constraints: born.accepted.goal.constraints.clone(),
            deadline_ms: Some(step.due_ms.min(born.accepted.deadline_ms).saturating_sub(1)),
            priority: self.priority(i),
            budget: self.share_of_budget(i),
            tenant: born.accepted.goal.tenant.clone(),
            planning,
            metadata,
            ..Goal::default()
        };
        let plan = spec.plan.as_ref().map(|plan| Planned {
            plan: plan.as_ref().clone(),
            planner: self.origin.planner.clone(),
            confidence: self.origin.confidence,
            provenance: None,
            warnings: Vec::new(),
            routes: Vec::new(),
        });
        let depth = self.depth() + 1;
        let parent =
            Parent { plan: born.accepted.plan_id.clone(), step: spec.id.clone(), attempt: step.attempt, depth };
        let submit = Submit {
            goal,
            plan,
            submission: plan_id.to_string(),
            fingerprint: String::new(),
            source: format!("urn:goalmill:plan:{}", born.accepted.plan_id),
            parent: Some(parent),
            traceparent: born.accepted.traceparent.clone(),
            fork: None,
        };
        Some(Effect::StartSubPlan { plan_id, submit: Box::new(submit) })
    }

    /// What the plan that a step stands for may use up: an equal share of what is left, for each plan that may run
    /// beside it. So plans side by side cannot use up more than there is, and plans one after the other get it all.
    fn share_of_budget(&self, i: StepIndex) -> Budget {
        let all = self.budget();
        if all.tokens.is_none() && all.cost.is_none() {
            return Budget::default();
        }
        let is_alone = self.plan.strategy == Strategy::Sequential || self.plan.max_parallel == Some(1);
        let shares = if is_alone { 1 } else { 1 + self.sub_plans_beside(i) };
        Budget {
            tokens: all.tokens.map(|tokens| tokens.saturating_sub(self.usage.tokens) / u64::from(shares)),
            cost: all.cost.map(|cost| (cost - self.usage.cost).max(0.0) / f64::from(shares)),
            seconds: None,
        }
    }

    /// Unfinished `plan` steps that neither come after step `i` nor belong to another phase.
    fn sub_plans_beside(&self, i: StepIndex) -> u32 {
        let mut after = vec![false; self.steps.len()];
        let mut open = vec![i];
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut after[at.as_usize()], true) {
                open.extend(self.graph.dependents(at));
            }
        }
        let is_beside = |j: &StepIndex| {
            let at = j.as_usize();
            !after[at]
                && self.plan.steps[at].kind == Kind::Plan
                && !self.steps[at].status.is_final()
                && self.graph.phase(*j) == self.graph.phase(i)
        };
        to_u32(self.indices().filter(is_beside).count())
    }

    /// What a final plan gives to the step it stands for: the outputs of its last completed `finish` step, or else
    /// those of all completed steps that nothing depends on, by step id.
    pub(crate) fn rolled_up(&self) -> Json {
        let done = || self.plan.steps.iter().zip(&self.steps).enumerate().rev();
        let finish = done().find(|(_, (spec, step))| spec.kind == Kind::Finish && step.outputs.is_some());
        if let Some((_, (_, step))) = finish {
            return step.outputs.clone().unwrap_or_default();
        }
        let mut outputs: Vec<(String, Value)> = Vec::new();
        for (i, (spec, step)) in done() {
            if let (Some(json), []) = (&step.outputs, self.graph.dependents(StepIndex::new(i))) {
                outputs.push((spec.id.to_string(), json.value()));
            }
        }
        Value::Object(outputs.into_iter().rev().collect()).into()
    }
}

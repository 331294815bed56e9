//! Sub-plans: a `plan` step starts one and waits for its end.

pub(crate) mod decompose;
pub(crate) mod family;
pub(crate) mod family_queue;
pub(crate) mod inner_plans;
pub(crate) mod kept_plans;
pub(crate) mod loop_iterations;
pub(crate) mod loops;
pub(crate) mod map;

use goalmill_common::command::{Planned, Submit, Verb};
use goalmill_common::event::{Parent, StepCompleted, StepEvent, StepQueued, StepStarted};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::{Budget, Goal, Planning};
use goalmill_common::goal_context::GoalContext;
use goalmill_common::id::{PlanId, StepId};
use goalmill_common::json::{Json, json_bytes};
use goalmill_common::plan::{Collect, Plan, StepKind};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_common::stored_plan::STORED_PLAN;
use goalmill_plan::validate::with_defaults;
use serde_json::{Map, Value};

use crate::SubPlanEnd;
use crate::attempt::output_check::schema_mismatch;
use crate::attempt::report::Spent;
use crate::attempt::step_timeout;
use crate::cleanup::in_quotes;
use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::render::payload_loads::HeldOutcome;
use crate::requests::PLAN_TIMEOUT;
use crate::state::StepState;
use crate::sub_plan::family::FamilyRequest;
use crate::sub_plan::kept_plans::release;
use crate::token::TokenKey;
use crate::{Command, PlanState, Rejection};

impl Turn<'_> {
    /// Starts the sub-plan of a ready step.
    pub(crate) fn start_sub_plan(&mut self, i: StepIndex) {
        let depth = self.state.depth() + 1;
        if depth > self.depth_max() {
            let message = format!("its plan would be nested {depth} deep, more than `depth_max`");
            return self.give_up(i, Failure::new(FailureClass::Permanent, "DEPTH_EXCEEDED", message), Spent::default());
        }
        if !self.expand(i) {
            return;
        }
        let inputs = match self.expressions(i).inputs() {
            Ok(inputs) => inputs,
            Err(why) => return self.put_off(i, why),
        };
        let inputs = match self.inputs_of_plan(i, inputs) {
            Ok(inputs) => inputs,
            Err(failure) => return self.give_up(i, failure, Spent::default()),
        };
        let plan_bytes = self.state.sub_plan_bytes(i, &inputs);
        if let Err(failure) = self.check_family_bytes(plan_bytes) {
            return self.give_up(i, failure, Spent::default());
        }
        self.forget_payloads(i);
        self.work.add(usize::try_from(plan_bytes).unwrap_or(usize::MAX), 0);
        let due_ms = self.sub_plan_due(i);
        let budget = self.state.share_of_budget(i);
        self.emit_queued(i, StepQueued { budget, plan_bytes, ..StepQueued::new("".into(), due_ms) }, &inputs);
        let started = StepStarted { worker: None, started_ms: self.now_ms, due_ms };
        self.emit_step(i, StepEvent::Started(Box::new(started)));
        self.requests.push(self.state.sub_plan(i, &inputs));
    }

    /// The inputs with the defaults of the plan's `input_schema`, or why they do not match it.
    fn inputs_of_plan(&self, i: StepIndex, inputs: Json) -> Result<Json, Failure> {
        let plan = self.state.plan.step(i).plan.as_ref();
        let Some(schema) = plan.and_then(|plan| plan.input_schema.as_ref()) else { return Ok(inputs) };
        let inputs = Json::from(with_defaults(schema, inputs.value()));
        match schema_mismatch(schema, &inputs) {
            None => Ok(inputs),
            Some(mismatch) => {
                let message = format!("the inputs do not match the `input_schema` of the plan: {mismatch}");
                Err(Failure::new(FailureClass::Permanent, "INPUT_INVALID", message))
            }
        }
    }

    /// Plans inside plans at most: of the goal, within the limits of the installation.
    pub(crate) fn depth_max(&self) -> u32 {
        let most = self.context.limits.depth_max;
        self.state.accepted.goal.planning.max_depth.unwrap_or(most).min(most)
    }

    /// Sends a request to the sub-plan of a step.
    pub(crate) fn ask_sub_plan(&mut self, i: StepIndex, verb: Verb) {
        let plan = self.state.sub_plan_id(i);
        let command = Box::new(Command::Verb(verb));
        self.requests.push(FamilyRequest::Give { plan, command });
    }

    /// Stops the plan of a step, or of one of its calls, which reports its end.
    pub(crate) fn stop_sub_plan(&mut self, i: StepIndex) {
        let (plan, parent) = (self.state.sub_plan_id(i), Box::new(self.state.as_parent(i)));
        self.requests.push(FamilyRequest::Stop { plan, parent });
    }

    /// Sends a request to all running sub-plans.
    pub(crate) fn ask_sub_plans(&mut self, verb: &Verb) {
        let running: Vec<StepIndex> = self.state.indices().filter(|i| self.state.has_sub_plan(*i)).collect();
        for step in running {
            self.ask_sub_plan(step, verb.clone());
        }
    }

    /// The time limit of a sub-plan: the step's `timeout`, and the plan's deadline.
    fn sub_plan_due(&self, i: StepIndex) -> u64 {
        let spec = self.state.plan.step(i);
        // What undoes the items of a map that a revision took out may continue after the deadline.
        let longer_ms = if spec.undoes.is_some() { self.context.limits.cleanup_ms } else { 0 };
        let (timeout_ms, most) = (spec.timeout_ms, self.state.end_due_ms().saturating_add(longer_ms));
        let due_ms = timeout_ms.map_or(most, |timeout_ms| self.after(timeout_ms).min(most));
        due_ms.max(1)
    }

    /// Whether a sub-plan used up the time limit of its step.
    fn is_out_of_time(&self, i: StepIndex) -> bool {
        let (spec, step) = (self.state.plan.step(i), &self.state.steps[i]);
        // Not by the deadline of the plan, which may come before.
        spec.timeout_ms.is_some_and(|limit_ms| self.now_ms + 1 >= step.started_ms().saturating_add(limit_ms))
    }

    /// The failure of a step whose sub-plan ended without success.
    fn sub_plan_failure(&self, i: StepIndex, status: PlanStatus, failure: Option<Failure>) -> Failure {
        match failure {
            Some(failure) if failure.code == PLAN_TIMEOUT && self.is_out_of_time(i) => step_timeout(),
            Some(failure) => failure,
            None if self.is_out_of_time(i) => step_timeout(),
            None => Failure::new(FailureClass::Permanent, "SUB_PLAN_FAILED", format!("its plan was {status}")),
        }
    }

    pub(crate) fn sub_plan_ended(&mut self, step: &StepId, attempt: u32, end: SubPlanEnd) -> Result<(), Rejection> {
        let i = self.find(step)?;
        let is_stopped = self.state.inner.is_stopped(i, attempt);
        if is_stopped && end.is_kept {
            // Then it is released, and ends.
            return Err(Rejection::StaleAttempt { step: step.clone(), attempt });
        }
        if is_stopped || self.state.inner.is_kept(i, attempt) {
            // After a restart it says again that it is kept.
            if !end.is_kept {
                self.kept_plan_ended(i, attempt, end);
            }
            return Ok(());
        }
        let ends_with_plan = self.state.is_stopping(i) && !self.state.plan.step(i).is_cleanup();
        if ends_with_plan && self.state.steps[i].attempt() == attempt {
            self.inside_ended(i, end);
            return Ok(());
        }
        let at = &self.state.steps[i];
        if at.attempt() == attempt
            && at.run().awaits_plan()
            && let Some(call) = self.waiting_call(i)
        {
            if end.is_kept {
                self.requests.push(release(self.state.sub_plan_id(i), Box::new(self.state.as_parent(i))));
            }
            self.call_plan_ended(i, call, end);
            self.propagate();
            return Ok(());
        }
        let awaited = at.status() == StepStatus::Running && at.attempt() == attempt;
        if !awaited || self.state.plan.step(i).kind != StepKind::Plan {
            return Err(Rejection::StaleAttempt { step: step.clone(), attempt });
        }
        let is_done = matches!(end.status, PlanStatus::Completed | PlanStatus::Partial);
        let again = || HeldOutcome::SubPlan { step: step.clone(), attempt, end: Box::new(end.clone()) };
        if is_done && self.hold_for_outputs(i, &end.outputs, again) {
            return Ok(());
        }
        if end.is_kept {
            self.keep_inside(i);
        }
        let SubPlanEnd { status, outputs, usage, failure, items, not_undone, is_kept: _ } = end;
        let usage = usage.bounded();
        let at = &self.state.steps[i];
        let duration_ms = Some(self.now_ms.saturating_sub(at.started_ms()));
        let spent = Spent { cost: usage.cost, tokens: usage.tokens, split: None, duration_ms };
        let partial = status == PlanStatus::Partial;
        // All items of a map were to be undone.
        let is_done = is_done && !(partial && self.state.plan.step(i).undoes.is_some());
        let failure_inside = failure.clone().filter(|_| is_done);
        let failure = if is_done {
            self.output_mismatch(i, &outputs).map(Failure::with_unknown_outcome)
        } else {
            Some(self.sub_plan_failure(i, status, failure)).map(|failure| with_not_undone(failure, &not_undone))
        };
        match failure {
            // The sub-plan has done its own retries: the step is not retried.
            Some(failure) => self.give_up(i, failure, spent),
            None => {
                let errors: Vec<Failure> = failure_inside.into_iter().collect();
                let completed = StepCompleted { outputs, items, partial, errors, ..spent.into_completed() };
                let completed = self.ask_hooks_after(i, completed).and_then(|completed| self.iterate(i, completed));
                if let Some(completed) = completed {
                    self.emit_step(i, StepEvent::Completed(Box::new(completed)));
                }
            }
        }
        self.propagate();
        Ok(())
    }
}

/// Names the clean-up steps of a plan that did not succeed in its failure.
fn with_not_undone(mut failure: Failure, not_undone: &[String]) -> Failure {
    if !not_undone.is_empty() {
        failure.message.push_str(&format!("; clean-up steps that did not succeed: {}", in_quotes(not_undone)));
    }
    failure
}

/// What a plan inside another one is to do.
pub(crate) struct SubPlanRequest {
    pub(crate) description: String,
    pub(crate) inputs: Value,
    /// Planners make one without it.
    pub(crate) plan: Option<Plan>,
    pub(crate) budget: Budget,
    pub(crate) require_approval: bool,
}

impl PlanState {
    /// Number of plans above this one.
    pub fn depth(&self) -> u32 {
        self.parent().map_or(0, |parent| parent.depth)
    }

    /// The outermost plan around this one, or this one.
    pub fn family(&self) -> &PlanId {
        self.parent().map_or(&self.accepted.plan_id, Parent::family)
    }

    /// The id of the sub-plan of the step's current attempt, or of the call that ended it.
    pub(crate) fn sub_plan_id(&self, i: StepIndex) -> PlanId {
        let (spec, step) = (self.plan.step(i), &self.steps[i]);
        TokenKey::sub_plan(&self.accepted.plan_id, &spec.id, step.attempt())
    }

    /// Bytes of the plan of a step, and of its goal.
    fn sub_plan_bytes(&self, i: StepIndex, inputs: &Json) -> u64 {
        let (spec, goal) = (self.plan.step(i), &self.accepted.goal);
        let copied = json_bytes(&goal.constraints) + json_bytes(&goal.context);
        let plan = spec.plan.as_deref().map_or(0, json_bytes);
        (copied + plan + inputs.text().len() + spec.description.len()) as u64
    }

    /// Returns the submission of a step's sub-plan. The step's inputs are in the goal's `metadata.inputs`. Its
    /// deadline is a millisecond before the step's, so it ends first and its cost is known.
    pub(crate) fn sub_plan(&self, i: StepIndex, inputs: &Json) -> FamilyRequest {
        let spec = self.plan.step(i);
        let description =
            if spec.description.is_empty() { format!("step `{}`", spec.id) } else { spec.description.clone() };
        self.start_of_sub_plan(
            i,
            SubPlanRequest {
                description,
                inputs: inputs.value(),
                plan: spec.plan.as_deref().cloned(),
                budget: self.budget_of_sub_plan(i),
                // Only a sub-plan that is not written yet needs its own approval.
                require_approval: spec.plan.is_none() && self.accepted.goal.planning.require_approval,
            },
        )
    }

    /// Starts a plan inside this one, which inherits its goal's options.
    pub(crate) fn start_of_sub_plan(&self, i: StepIndex, request: SubPlanRequest) -> FamilyRequest {
        let (spec, step) = (self.plan.step(i), &self.steps[i]);
        let id = self.sub_plan_id(i);
        let SubPlanRequest { description, inputs, plan, budget, require_approval } = request;
        let due_ms = step.due_ms().unwrap_or_default();
        let deadline_ms = if spec.undoes.is_some() { due_ms } else { due_ms.min(self.end_due_ms()) };
        let mut metadata = Map::new();
        metadata.insert("inputs".into(), inputs);
        if let Some(stored) = &spec.stored {
            metadata.insert(STORED_PLAN.into(), stored.as_str().into());
        }
        let planning = Planning { require_approval, ..self.accepted.goal.planning.clone() };
        let goal = Goal {
            description,
            constraints: self.accepted.goal.constraints.clone(),
            deadline_ms: Some(deadline_ms.saturating_sub(1)),
            priority: self.priority(i),
            budget,
            namespace: self.accepted.goal.namespace.clone(),
            planning,
            context: GoalContext { inputs: Map::new(), ..self.accepted.goal.context.clone() },
            metadata,
            ..Goal::default()
        };
        let plan = plan.map(|plan| Planned {
            plan,
            planner: self.origin.planner.clone(),
            confidence: self.origin.confidence,
            provenance: None,
            warnings: Vec::new(),
            routes: Vec::new(),
            goal: None,
        });
        let parent = self.as_parent(i);
        let submit = Submit {
            parent: Some(parent),
            traceparent: self.accepted.traceparent.clone(),
            ..Submit::new(goal, plan, id.to_string(), format!("urn:goalmill:plan:{}", self.accepted.plan_id))
        };
        FamilyRequest::Start { plan: id, submit: Box::new(submit) }
    }

    /// What the plan of a step's current attempt knows of the step.
    pub(crate) fn as_parent(&self, i: StepIndex) -> Parent {
        Parent {
            plan: self.accepted.plan_id.clone(),
            step: self.plan.step(i).id.clone(),
            attempt: self.steps[i].attempt(),
            depth: self.depth() + 1,
            root: self.parent().map(|parent| parent.family().clone()),
        }
    }

    /// Returns a sub-plan's outputs for its parent's step: those of its last completed `finish` step, or else
    /// those of all completed steps that nothing depends on, by step id. A plan with `collect: list` gives a list.
    pub(crate) fn sub_plan_outputs(&self) -> Json {
        if self.plan.definition().collect == Collect::List {
            let steps = self.plan.steps().zip(&self.steps).filter(|(spec, _)| !spec.is_cleanup());
            let outputs = |step: &StepState| step.outputs().map_or(Value::Null, Json::value);
            return Value::Array(steps.map(|(_, step)| outputs(step)).collect()).into();
        }
        let all = || self.plan.steps().zip(&self.steps).enumerate().rev();
        let done = || all().filter(|(_, (spec, _))| !spec.is_cleanup());
        let finish = done().find(|(_, (spec, step))| spec.kind == StepKind::Finish && step.outputs().is_some());
        if let Some((_, (_, step))) = finish {
            return step.outputs().cloned().unwrap_or_default();
        }
        let mut outputs: Vec<(String, Value)> = Vec::new();
        for (i, (spec, step)) in done() {
            if let (Some(json), []) = (&step.outputs(), self.graph.dependents(StepIndex::new(i))) {
                outputs.push((spec.id.to_string(), json.value()));
            }
        }
        Value::Object(outputs.into_iter().rev().collect()).into()
    }
}

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

use crate::attempt::output_check::schema_mismatch;
use crate::attempt::report::Spent;
use crate::attempt::{failure, recording, step_timeout};
use crate::calls::call_plan;
use crate::cleanup::in_quotes;
use crate::decide::Turn;
use crate::graph::{StepIndex, unlock};
use crate::people::hook;
use crate::render::payload_loads::HeldOutcome;
use crate::render::payloads;
use crate::requests::PLAN_TIMEOUT;
use crate::state::StepState;
use crate::sub_plan::family::FamilyRequest;
use crate::sub_plan::kept_plans::release;
use crate::token::TokenKey;
use crate::{Command, PlanState, Rejection, SubPlanEnd, attempt, budget, calls, cleanup};
pub use kept_plans::{awaits_inside, is_kept};

/// Starts the sub-plan of a ready step.
pub(crate) fn start_sub_plan(turn: &mut Turn<'_>, i: StepIndex) {
    let depth = depth(turn.state) + 1;
    if depth > depth_max(turn) {
        let message = format!("its plan would be nested {depth} deep, more than `depth_max`");
        return failure::give_up(
            turn,
            i,
            Failure::new(FailureClass::Permanent, "DEPTH_EXCEEDED", message),
            Spent::default(),
        );
    }
    if !map::expand_map(turn, i) {
        return;
    }
    let inputs = match turn.expressions(i).inputs() {
        Ok(inputs) => inputs,
        Err(why) => return payloads::put_off(turn, i, why),
    };
    let inputs = match inputs_of_plan(turn, i, inputs) {
        Ok(inputs) => inputs,
        Err(failure) => return failure::give_up(turn, i, failure, Spent::default()),
    };
    let plan_bytes = sub_plan_bytes(turn.state, i, &inputs);
    if let Err(failure) = family::check_family_bytes(turn, plan_bytes) {
        return failure::give_up(turn, i, failure, Spent::default());
    }
    payloads::forget_payloads(turn, i);
    turn.work.add(usize::try_from(plan_bytes).unwrap_or(usize::MAX), 0);
    let due_ms = sub_plan_due(turn, i);
    let budget = budget::share_of_budget(turn.state, i);
    recording::emit_queued(turn, i, StepQueued { budget, plan_bytes, ..StepQueued::new("".into(), due_ms) }, &inputs);
    let started = StepStarted { worker: None, started_ms: turn.now_ms, due_ms };
    turn.emit_step(i, StepEvent::Started(Box::new(started)));
    turn.requests.push(sub_plan_request(turn.state, i, &inputs));
}

/// The inputs with the defaults of the plan's `input_schema`, or why they do not match it.
fn inputs_of_plan(turn: &Turn<'_>, i: StepIndex, inputs: Json) -> Result<Json, Failure> {
    let plan = turn.state.plan.step(i).plan.as_ref();
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
pub(crate) fn depth_max(turn: &Turn<'_>) -> u32 {
    let most = turn.context.limits.depth_max;
    turn.state.accepted.goal.planning.max_depth.unwrap_or(most).min(most)
}

/// Sends a request to the sub-plan of a step.
pub(crate) fn ask_sub_plan(turn: &mut Turn<'_>, i: StepIndex, verb: Verb) {
    let plan = sub_plan_id(turn.state, i);
    let command = Box::new(Command::Verb(verb));
    turn.requests.push(FamilyRequest::Give { plan, command });
}

/// Stops the plan of a step, or of one of its calls, which reports its end.
pub(crate) fn stop_sub_plan(turn: &mut Turn<'_>, i: StepIndex) {
    let (plan, parent) = (sub_plan_id(turn.state, i), Box::new(as_parent(turn.state, i)));
    turn.requests.push(FamilyRequest::Stop { plan, parent });
}

/// Sends a request to all running sub-plans.
pub(crate) fn ask_sub_plans(turn: &mut Turn<'_>, verb: &Verb) {
    let running: Vec<StepIndex> = turn.state.indices().filter(|i| call_plan::has_sub_plan(turn.state, *i)).collect();
    for step in running {
        ask_sub_plan(turn, step, verb.clone());
    }
}

/// The time limit of a sub-plan: the step's `timeout`, and the plan's deadline.
fn sub_plan_due(turn: &Turn<'_>, i: StepIndex) -> u64 {
    let spec = turn.state.plan.step(i);
    // What undoes the items of a map that a revision took out may continue after the deadline.
    let longer_ms = if spec.undoes.is_some() { turn.context.limits.cleanup_ms } else { 0 };
    let (timeout_ms, most) = (spec.timeout_ms, cleanup::end_due_ms(turn.state).saturating_add(longer_ms));
    let due_ms = timeout_ms.map_or(most, |timeout_ms| turn.after(timeout_ms).min(most));
    due_ms.max(1)
}

/// Whether a sub-plan used up the time limit of its step.
fn is_out_of_time(turn: &Turn<'_>, i: StepIndex) -> bool {
    let (spec, step) = (turn.state.plan.step(i), &turn.state.steps[i]);
    // Not by the deadline of the plan, which may come before.
    spec.timeout_ms.is_some_and(|limit_ms| turn.now_ms + 1 >= step.started_ms().saturating_add(limit_ms))
}

/// The failure of a step whose sub-plan ended without success.
fn sub_plan_failure(turn: &Turn<'_>, i: StepIndex, status: PlanStatus, failure: Option<Failure>) -> Failure {
    match failure {
        Some(failure) if failure.code == PLAN_TIMEOUT && is_out_of_time(turn, i) => step_timeout(),
        Some(failure) => failure,
        None if is_out_of_time(turn, i) => step_timeout(),
        None => Failure::new(FailureClass::Permanent, "SUB_PLAN_FAILED", format!("its plan was {status}")),
    }
}

pub(crate) fn sub_plan_ended(
    turn: &mut Turn<'_>,
    step: &StepId,
    attempt: u32,
    end: SubPlanEnd,
) -> Result<(), Rejection> {
    let i = turn.find(step)?;
    let is_stopped = turn.state.inner.is_stopped(i, attempt);
    if is_stopped && end.is_kept {
        // Then it is released, and ends.
        return Err(Rejection::StaleAttempt { step: step.clone(), attempt });
    }
    if is_stopped || turn.state.inner.is_kept(i, attempt) {
        // After a restart it says again that it is kept.
        if !end.is_kept {
            kept_plans::kept_plan_ended(turn, i, attempt, end);
        }
        return Ok(());
    }
    let ends_with_plan = cleanup::is_stopping(turn.state, i) && !turn.state.plan.step(i).is_cleanup();
    if ends_with_plan && turn.state.steps[i].attempt() == attempt {
        cleanup::inside_ended(turn, i, end);
        return Ok(());
    }
    let at = &turn.state.steps[i];
    if at.attempt() == attempt
        && at.run().awaits_plan()
        && let Some(call) = calls::waiting_call(turn, i)
    {
        if end.is_kept {
            turn.requests.push(release(sub_plan_id(turn.state, i), Box::new(as_parent(turn.state, i))));
        }
        call_plan::call_plan_ended(turn, i, call, end);
        unlock::propagate(turn);
        return Ok(());
    }
    let awaited = at.status() == StepStatus::Running && at.attempt() == attempt;
    if !awaited || turn.state.plan.step(i).kind != StepKind::Plan {
        return Err(Rejection::StaleAttempt { step: step.clone(), attempt });
    }
    let is_done = matches!(end.status, PlanStatus::Completed | PlanStatus::Partial);
    let again = || HeldOutcome::SubPlan { step: step.clone(), attempt, end: Box::new(end.clone()) };
    if is_done && payloads::hold_for_outputs(turn, i, &end.outputs, again) {
        return Ok(());
    }
    if end.is_kept {
        kept_plans::keep_inside(turn, i);
    }
    let SubPlanEnd { status, outputs, usage, failure, items, not_undone, is_kept: _ } = end;
    let usage = usage.bounded();
    let at = &turn.state.steps[i];
    let duration_ms = Some(turn.now_ms.saturating_sub(at.started_ms()));
    let spent = Spent { cost: usage.cost, tokens: usage.tokens, split: None, duration_ms };
    let partial = status == PlanStatus::Partial;
    // All items of a map were to be undone.
    let is_done = is_done && !(partial && turn.state.plan.step(i).undoes.is_some());
    let failure_inside = failure.clone().filter(|_| is_done);
    let failure = if is_done {
        attempt::output_mismatch(turn, i, &outputs).map(Failure::with_unknown_outcome)
    } else {
        Some(sub_plan_failure(turn, i, status, failure)).map(|failure| with_not_undone(failure, &not_undone))
    };
    match failure {
        // The sub-plan has done its own retries: the step is not retried.
        Some(failure) => failure::give_up(turn, i, failure, spent),
        None => {
            let errors: Vec<Failure> = failure_inside.into_iter().collect();
            let completed = StepCompleted { outputs, items, partial, errors, ..spent.into_completed() };
            let completed =
                hook::ask_hooks_after(turn, i, completed).and_then(|completed| loops::iterate(turn, i, completed));
            if let Some(completed) = completed {
                turn.emit_step(i, StepEvent::Completed(Box::new(completed)));
            }
        }
    }
    unlock::propagate(turn);
    Ok(())
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

/// Number of plans above this one.
pub fn depth(state: &PlanState) -> u32 {
    state.parent().map_or(0, |parent| parent.depth)
}

/// The outermost plan around this one, or this one.
pub fn family(state: &PlanState) -> &PlanId {
    state.parent().map_or(&state.accepted.plan_id, Parent::family)
}

/// The id of the sub-plan of the step's current attempt, or of the call that ended it.
pub(crate) fn sub_plan_id(state: &PlanState, i: StepIndex) -> PlanId {
    let (spec, step) = (state.plan.step(i), &state.steps[i]);
    TokenKey::sub_plan(&state.accepted.plan_id, &spec.id, step.attempt())
}

/// Bytes of the plan of a step, and of its goal.
fn sub_plan_bytes(state: &PlanState, i: StepIndex, inputs: &Json) -> u64 {
    let (spec, goal) = (state.plan.step(i), &state.accepted.goal);
    let copied = json_bytes(&goal.constraints) + json_bytes(&goal.context);
    let plan = spec.plan.as_deref().map_or(0, json_bytes);
    (copied + plan + inputs.text().len() + spec.description.len()) as u64
}

/// Returns the submission of a step's sub-plan. The step's inputs are in the goal's `metadata.inputs`. Its
/// deadline is a millisecond before the step's, so it ends first and its cost is known.
pub(crate) fn sub_plan_request(state: &PlanState, i: StepIndex, inputs: &Json) -> FamilyRequest {
    let spec = state.plan.step(i);
    let description =
        if spec.description.is_empty() { format!("step `{}`", spec.id) } else { spec.description.clone() };
    start_of_sub_plan(
        state,
        i,
        SubPlanRequest {
            description,
            inputs: inputs.value(),
            plan: spec.plan.as_deref().cloned(),
            budget: budget::budget_of_sub_plan(state, i),
            // Only a sub-plan that is not written yet needs its own approval.
            require_approval: spec.plan.is_none() && state.accepted.goal.planning.require_approval,
        },
    )
}

/// Starts a plan inside this one, which inherits its goal's options.
pub(crate) fn start_of_sub_plan(state: &PlanState, i: StepIndex, request: SubPlanRequest) -> FamilyRequest {
    let (spec, step) = (state.plan.step(i), &state.steps[i]);
    let id = sub_plan_id(state, i);
    let SubPlanRequest { description, inputs, plan, budget, require_approval } = request;
    let due_ms = step.due_ms().unwrap_or_default();
    let deadline_ms = if spec.undoes.is_some() { due_ms } else { due_ms.min(cleanup::end_due_ms(state)) };
    let mut metadata = Map::new();
    metadata.insert("inputs".into(), inputs);
    if let Some(stored) = &spec.stored {
        metadata.insert(STORED_PLAN.into(), stored.as_str().into());
    }
    let planning = Planning { require_approval, ..state.accepted.goal.planning.clone() };
    let goal = Goal {
        description,
        constraints: state.accepted.goal.constraints.clone(),
        deadline_ms: Some(deadline_ms.saturating_sub(1)),
        priority: state.priority(i),
        budget,
        namespace: state.accepted.goal.namespace.clone(),
        planning,
        context: GoalContext { inputs: Map::new(), ..state.accepted.goal.context.clone() },
        metadata,
        ..Goal::default()
    };
    let plan = plan.map(|plan| Planned {
        plan,
        planner: state.origin.planner.clone(),
        confidence: state.origin.confidence,
        provenance: None,
        warnings: Vec::new(),
        routes: Vec::new(),
        goal: None,
    });
    let parent = as_parent(state, i);
    let submit = Submit {
        parent: Some(parent),
        traceparent: state.accepted.traceparent.clone(),
        ..Submit::new(goal, plan, id.to_string(), format!("urn:goalmill:plan:{}", state.accepted.plan_id))
    };
    FamilyRequest::Start { plan: id, submit: Box::new(submit) }
}

/// What the plan of a step's current attempt knows of the step.
pub(crate) fn as_parent(state: &PlanState, i: StepIndex) -> Parent {
    Parent {
        plan: state.accepted.plan_id.clone(),
        step: state.plan.step(i).id.clone(),
        attempt: state.steps[i].attempt(),
        depth: depth(state) + 1,
        root: state.parent().map(|parent| parent.family().clone()),
    }
}

/// Returns a sub-plan's outputs for its parent's step: those of its last completed `finish` step, or else
/// those of all completed steps that nothing depends on, by step id. A plan with `collect: list` gives a list.
pub(crate) fn sub_plan_outputs(state: &PlanState) -> Json {
    if state.plan.definition().collect == Collect::List {
        let steps = state.plan.steps().zip(&state.steps).filter(|(spec, _)| !spec.is_cleanup());
        let outputs = |step: &StepState| step.outputs().map_or(Value::Null, Json::value);
        return Value::Array(steps.map(|(_, step)| outputs(step)).collect()).into();
    }
    let all = || state.plan.steps().zip(&state.steps).enumerate().rev();
    let done = || all().filter(|(_, (spec, _))| !spec.is_cleanup());
    let finish = done().find(|(_, (spec, step))| spec.kind == StepKind::Finish && step.outputs().is_some());
    if let Some((_, (_, step))) = finish {
        return step.outputs().cloned().unwrap_or_default();
    }
    let mut outputs: Vec<(String, Value)> = Vec::new();
    for (i, (spec, step)) in done() {
        if let (Some(json), []) = (&step.outputs(), state.graph.dependents(StepIndex::new(i))) {
            outputs.push((spec.id.to_string(), json.value()));
        }
    }
    Value::Object(outputs.into_iter().rev().collect()).into()
}

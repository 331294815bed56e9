//! Sub-plans: a `plan` step starts one and waits for its end.

pub(crate) mod decompose;
pub(crate) mod family;
pub(crate) mod family_limits;
pub(crate) mod family_plans;
pub(crate) mod family_queue;
pub(crate) mod inner_plans;
pub(crate) mod kept_plans;
pub(crate) mod launch;
pub(crate) mod loop_iterations;
pub(crate) mod loops;
pub(crate) mod map;
pub(crate) mod notices;
pub(crate) mod orders;

use goalmill_common::call::CallWaitKind;
use goalmill_common::command::Submit;
use goalmill_common::event::{Parent, StepSuspended};
use goalmill_common::failure::Failure;
use goalmill_common::goal::{Budget, Goal, Planning};
use goalmill_common::goal_context::GoalContext;
use goalmill_common::id::PlanId;
use goalmill_common::json::{Json, json_bytes};
use goalmill_common::plan::{Collect, Plan, StepKind};
use goalmill_common::stored_plan::STORED_PLAN;
use serde_json::{Map, Value};

use crate::cleanup::in_quotes;
use crate::graph::StepIndex;
use crate::state::StepState;
use crate::sub_plan::family_plans::FamilyRequest;
use crate::token::TokenKey;
use crate::{PlanState, budget, cleanup};

/// Characters of the description of a call's plan.
const DESCRIPTION_CHARS_MAX: usize = 1_000;
pub use kept_plans::awaits_inside;

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
fn start_of_sub_plan(state: &PlanState, i: StepIndex, request: SubPlanRequest) -> FamilyRequest {
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
    let plan = plan.map(|plan| state.planned_as_this(plan));
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

/// Whether a plan runs for this step: in its place, or for one of its calls.
pub(crate) fn has_sub_plan(state: &PlanState, i: StepIndex) -> bool {
    let step = &state.steps[i];
    step.run().awaits_plan() || (step.status().is_in_flight() && state.plan.step(i).kind == StepKind::Plan)
}

/// Starts the plan that a call of the step waits for.
pub(crate) fn plan_of_call(state: &PlanState, i: StepIndex) -> Option<FamilyRequest> {
    let (spec, step) = (state.plan.step(i), &state.steps[i]);
    let StepSuspended { call, plan, .. } = step.run().suspended_for(CallWaitKind::Plan)?;
    let given = step.grant().map(|grant| grant.left).unwrap_or_default();
    let text: String = call.wait.text.chars().take(DESCRIPTION_CHARS_MAX).collect();
    Some(start_of_sub_plan(
        state,
        i,
        SubPlanRequest {
            description: if text.is_empty() { format!("call {} of step `{}`", call.n, spec.id) } else { text },
            inputs: call.wait.inputs.as_ref().map_or(Value::Null, Json::value),
            plan: plan.as_deref().cloned(),
            budget: Budget { tokens: given.tokens, cost: given.cost, seconds: None },
            // Nobody has seen this plan before.
            require_approval: state.accepted.goal.planning.require_approval,
        },
    ))
}

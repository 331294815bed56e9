//! An attempt: its task, its idempotency key, and the files about its life.

pub(crate) mod acknowledge;
pub(crate) mod cancel;
pub(crate) mod cards;
pub(crate) mod completion;
pub(crate) mod dispatch;
pub(crate) mod failed_attempt;
pub(crate) mod failure;
pub(crate) mod fallback;
pub(crate) mod lost;
pub(crate) mod open_failures;
pub(crate) mod output_check;
pub(crate) mod recording;
pub(crate) mod report;
pub(crate) mod result_cache;
pub(crate) mod retry;
pub(crate) mod spent;
pub(crate) mod step_result;
pub(crate) mod step_run;
pub(crate) mod step_state;
pub(crate) mod step_timer;

use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::AgentType;
use goalmill_common::json::Json;
use goalmill_common::task::Task;

use crate::calls::callback;
use crate::cleanup::done_work;
use crate::graph::StepIndex;
use crate::render::Unrendered;
use crate::{EngineContext, PlanState, render};

/// Returns the task of a step's last attempt, or why its inputs cannot be rendered.
pub fn task(state: &PlanState, i: StepIndex, context: &EngineContext) -> Option<Result<Task, Failure>> {
    let agent_type = state.queue(i)?.clone();
    let inputs = render::inputs_of_attempt(state, i, &context.limits);
    Some(inputs.map(|inputs| task_of(state, i, agent_type, inputs, context)).map_err(Unrendered::into_failure))
}

fn task_of(state: &PlanState, i: StepIndex, agent_type: AgentType, inputs: Json, context: &EngineContext) -> Task {
    let (spec, step) = (state.plan.step(i), &state.steps[i]);
    let accepted = &state.accepted;
    Task {
        plan: accepted.plan_id.clone(),
        family: state.parent().map(|parent| parent.family().clone()),
        step: spec.id.clone(),
        attempt: step.attempt(),
        token: state.token(i, context.token_key).expect("the step exists"),
        agent_type,
        action: state.action(i).unwrap_or_default().to_owned(),
        description: spec.description.clone(),
        inputs,
        expected_outputs: spec.expected_outputs.clone(),
        expected_output: spec.expected_output.clone(),
        output_schema: spec.output_schema.clone(),
        timeout_ms: spec.run_limit_ms(&context.limits),
        lease_ms: context.task_lease_ms,
        reply: context.reply.clone(),
        idempotency_key: idempotency_key(state, i),
        calls: step.calls().recorded().to_vec(),
        callback: callback::task_callback(state, i, context),
        budget: state.steps[i].grant().map(|grant| grant.left),
        traceparent: accepted.traceparent.clone(),
    }
}

/// The same for all attempts at the same work: one for each iteration, one for each other work that a revision made of the
/// step, and in an undo step one for all that it undoes.
fn idempotency_key(state: &PlanState, i: StepIndex) -> String {
    let mut key = format!("{}:{}", state.accepted.plan_id, state.plan.step(i).id);
    if let n @ 1.. = state.steps[i].edition() {
        key.push_str(&format!("^{}", n + 1));
    }
    if let n @ 1.. = done_work::undone(state, i) {
        key.push_str(&format!("@{}", n + 1));
    }
    if let n @ 2.. = state.steps[i].iterations().current() {
        key.push_str(&format!("~{n}"));
    }
    key
}

/// The failure of an attempt that exceeded its time limit.
pub(crate) fn step_timeout() -> Failure {
    Failure::new(FailureClass::Timeout, "STEP_TIMEOUT", "the attempt exceeded its time limit")
}

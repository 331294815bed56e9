//! Steps whose agent has accepted the task and reports the outcome later: they hold no worker and no slot meanwhile.

use goalmill_common::callback::TaskCallback;
use goalmill_common::id::AttemptToken;
use goalmill_common::plan::Step;

use crate::graph::StepIndex;
use crate::{EngineContext, PlanState, TokenKey};

/// The worker that the log names for what comes by callback.
pub(crate) const CALLBACK: &str = "callback";

/// Why a step with `callback: true` cannot be sent: its agent would not know where to report.
pub(crate) fn missing_address(context: &EngineContext, step: &Step) -> Option<String> {
    let id = &step.id;
    (step.callback && context.callback_base.is_empty()).then(|| {
        format!("step `{id}` has `callback: true`, and agents cannot reach this scheduler: set `api.callback_url`")
    })
}

/// The digest of the report that came for this attempt by callback.
pub fn received_callback(state: &PlanState, i: StepIndex, attempt: u32) -> Option<&str> {
    state.steps.get(i.as_usize())?.callback()?.digest(attempt)
}

/// The token that the callback of an attempt must bring; `None` for a step without one.
pub fn callback_token(state: &PlanState, i: StepIndex, attempt: u32, key: TokenKey) -> Option<AttemptToken> {
    let spec = state.plan.get(i).filter(|spec| spec.callback)?;
    Some(key.callback_token(&state.accepted, &spec.id, attempt))
}

/// Where the current attempt's outcome may be sent.
pub(crate) fn task_callback(state: &PlanState, i: StepIndex, context: &EngineContext) -> Option<TaskCallback> {
    let attempt = state.steps[i].attempt();
    let token = callback_token(state, i, attempt, context.token_key)?;
    let (base, plan, step) = (&context.callback_base, state.id(), &state.plan.step(i).id);
    Some(TaskCallback { url: format!("{base}/v1/callbacks/{plan}/{step}/{attempt}"), token })
}

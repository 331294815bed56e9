//! Steps that wait for a time or an event: they hold no worker, no place in `max_parallel` and no resource.

pub(crate) mod event_store;
pub mod family_events;
pub(crate) mod received;
pub(crate) mod step_wait;

use goalmill_common::clock::rfc3339;
use goalmill_common::status::StepStatus;
use goalmill_common::view::WaitView;

use crate::PlanState;
use crate::graph::StepIndex;
use crate::wait::event_store::AwaitedEvent;

/// The wait of a step for an event, also if it has ended.
pub fn event_wait(state: &PlanState, i: StepIndex) -> Option<WaitView> {
    let step = state.steps.get(i.as_usize())?;
    let AwaitedEvent { name: event, key } = step.awaited()?.clone();
    let due_ms = step.due_ms().unwrap_or(state.accepted.deadline_ms);
    let (plan_id, step_id) = (state.id().clone(), state.plan.step(i).id.clone());
    Some(WaitView { plan_id, step_id, namespace: state.namespace(), event, key, due_at: rfc3339(due_ms) })
}

/// Name and key of the event that a step waits for.
pub(crate) fn awaited_event(state: &PlanState, i: StepIndex) -> Option<(&str, &str)> {
    let step = &state.steps[i];
    let awaited = step.awaited().filter(|_| step.status() == StepStatus::Waiting)?;
    Some((&awaited.name, &awaited.key))
}

/// The steps that wait for an event, in the order of the plan.
pub(crate) fn steps_awaiting(state: &PlanState, name: &str, key: &str) -> impl Iterator<Item = StepIndex> {
    state.indices().filter(move |i| awaited_event(state, *i) == Some((name, key)))
}

/// The event in words.
pub(crate) fn named_event(name: &str, key: &str) -> String {
    if key.is_empty() { format!("the event `{name}`") } else { format!("the event `{name}` with the key `{key}`") }
}

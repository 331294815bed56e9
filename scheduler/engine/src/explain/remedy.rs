//! Root causes and remedies.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::failure::TASK_MISSING;
use goalmill_common::id::{AgentType, WorkerId};
use goalmill_common::plan::StepKind;
use goalmill_common::status::{PlanStatus, StepStatus};

use super::elapsed;
use crate::graph::StepIndex;
use crate::people::waiting::Waiting;
use crate::revise::revising;
use crate::{PlanState, delayed_start, sub_plan, wait};

/// What a plan's log does not contain: the state of queues and workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainContext {
    /// Every queue that is served or holds something.
    pub queues: BTreeMap<AgentType, AgentHealth>,
    /// Live workers, including draining ones.
    pub workers: BTreeSet<WorkerId>,
    /// Queues in quarantine, and what is wrong with each.
    pub quarantined: BTreeMap<AgentType, String>,
    /// A lost task is retried after this time, in milliseconds.
    pub lease_ms: u64,
}

/// The state of an agent type's queue and workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentHealth {
    /// Live workers that take tasks.
    pub workers: u32,
    /// Their slots.
    pub slots: u32,
    /// Slots in use, by any agent type.
    pub busy: u32,
    /// Tasks that no worker has taken.
    pub waiting: u64,
    /// Tasks that workers have taken.
    pub running: u64,
    /// Whether the queue is paused.
    pub paused: bool,
}

/// The root cause of a chain, and a hint.
#[derive(Default)]
pub(crate) struct RootCause {
    pub(crate) because: Option<String>,
    pub(crate) hint: String,
}

impl RootCause {
    fn only(hint: impl Into<String>) -> Self {
        Self { because: None, hint: hint.into() }
    }

    fn new(because: String, hint: impl Into<String>) -> Self {
        Self { because: Some(because), hint: hint.into() }
    }
}

/// Returns the root cause of a step.
pub(crate) fn root_cause(state: &PlanState, i: StepIndex, around: Option<&ExplainContext>) -> RootCause {
    let (id, plan) = (&state.plan.step(i).id, state.id().as_str());
    match state.steps[i].status() {
        StepStatus::AwaitingApproval if state.steps[i].run().question().is_some() => {
            RootCause::only(format!("answer it: `goalmill step answer {plan} {id} ANSWER`"))
        }
        StepStatus::AwaitingApproval if state.steps[i].run().awaits_hook() => RootCause::only(format!(
            "wait for the hook, or see `goalmill step approve {plan} {id}` and `goalmill step skip {plan} {id}`"
        )),
        StepStatus::AwaitingApproval => {
            RootCause::only(format!("`goalmill step approve {plan} {id}`, or `goalmill step reject {plan} {id}`"))
        }
        StepStatus::Queued => {
            around.map_or_else(|| RootCause::only(hint_for_queue(state, i)), |around| queued(state, i, around))
        }
        StepStatus::Running => running(state, i, around),
        StepStatus::Pending | StepStatus::Blocked | StepStatus::Ready | StepStatus::Retrying
            if state.status != PlanStatus::Running =>
        {
            RootCause::only(hint_for_plan(state, plan))
        }
        StepStatus::Ready => ready(state, i, around),
        StepStatus::Retrying if state.steps[i].run().awaits_plan() => {
            let inner = sub_plan::sub_plan_id(state, i);
            RootCause::only(format!("see what its plan waits for: `goalmill explain {inner}`"))
        }
        StepStatus::Retrying if state.steps[i].run().needs().is_some() => RootCause::only(format!(
            "wait for the steps in flight to end, or skip it: `goalmill step skip {plan} {id}`"
        )),
        StepStatus::Waiting if wait::awaited_event(state, i).is_some() => {
            let (event, key) = wait::awaited_event(state, i).unwrap_or_default();
            let key = if key.is_empty() { String::new() } else { format!(" --key '{key}'") };
            RootCause::only(format!(
                "send it: `goalmill event send {event} --plan {plan}{key} --data JSON`, or go on without it: \
                 `goalmill step skip {plan} {id}`"
            ))
        }
        StepStatus::Waiting if state.steps[i].run().awaits_callback() => RootCause::only(format!(
            "wait, or record the outcome by hand: `goalmill step complete {plan} {id} --outputs JSON`, or go on \
             without it: `goalmill step skip {plan} {id}`"
        )),
        StepStatus::Waiting => RootCause::only(format!("wait, or go on without it: `goalmill step skip {plan} {id}`")),
        StepStatus::Retrying => RootCause::only(format!(
            "try it at once: `goalmill step retry {plan} {id}`, or skip it: `goalmill step skip {plan} {id}`"
        )),
        StepStatus::Pending
        | StepStatus::Blocked
        | StepStatus::Completed
        | StepStatus::Failed
        | StepStatus::Skipped
        | StepStatus::Cancelled
        | StepStatus::Revised => RootCause::default(),
    }
}

/// The hint for a plan that blocks its steps itself.
fn hint_for_plan(state: &PlanState, plan: &str) -> String {
    if let Some(asked) = revising::open_question(state) {
        return format!("answer it: `goalmill plan answer {plan} {} ANSWER`", asked.id);
    }
    if revising::proposed(state).is_some() {
        return format!("`goalmill plan approve {plan}`, or `goalmill plan reject {plan}`");
    }
    match state.status {
        PlanStatus::AwaitingApproval if matches!(state.waiting, Waiting::Hook { .. }) => {
            format!("wait for the hook, or end the plan: `goalmill plan cancel {plan}`")
        }
        PlanStatus::AwaitingApproval => {
            format!("`goalmill plan approve {plan}`, or `goalmill plan reject {plan}`")
        }
        PlanStatus::Paused if delayed_start::start_due_ms(state).is_some() => {
            format!("wait, or start it: `goalmill plan resume {plan}`")
        }
        PlanStatus::Paused => format!("resume the plan: `goalmill plan resume {plan}`"),
        PlanStatus::Replanning if state.waiting.is_for_person() => format!(
            "continue without the failed step: `goalmill plan approve {plan}`; or fail the plan: `goalmill plan reject {plan}`"
        ),
        PlanStatus::Planning | PlanStatus::Replanning => {
            format!("wait for the planner, or end the plan: `goalmill plan cancel {plan}`")
        }
        PlanStatus::Running
        | PlanStatus::Completed
        | PlanStatus::Partial
        | PlanStatus::Failed
        | PlanStatus::Cancelled
        | PlanStatus::Rejected => String::new(),
    }
}

fn hint_for_queue(state: &PlanState, i: StepIndex) -> String {
    let queue = state.queue(i).map_or("", |queue| queue.as_str());
    format!("start workers for it: `goalmill worker --agents {queue}`")
}

fn ready(state: &PlanState, i: StepIndex, around: Option<&ExplainContext>) -> RootCause {
    let wait = "wait for room, or start more workers";
    let (Some(around), Some(queue)) = (around, state.queue(i)) else {
        return RootCause::only(wait);
    };
    if queue.as_str().is_empty() {
        return RootCause::default();
    }
    if let Some(root) = quarantined(queue, around) {
        return root;
    }
    let serving = around.queues.get(queue).copied().unwrap_or_default();
    if serving.paused {
        let hint = format!("resume it: `goalmill queue resume {queue}`");
        return RootCause::new(format!("the queue `{queue}` is paused"), hint);
    }
    if serving.workers == 0 {
        return RootCause::new(format!("no live worker serves `{queue}`"), hint_for_queue(state, i));
    }
    RootCause::only(wait)
}

/// The root cause of a queued step.
fn queued(state: &PlanState, i: StepIndex, around: &ExplainContext) -> RootCause {
    let Some(queue) = state.queue(i) else { return RootCause::default() };
    if let Some(root) = quarantined(queue, around) {
        return root;
    }
    let AgentHealth { workers, slots, busy, waiting, running, paused: _ } =
        around.queues.get(queue).copied().unwrap_or_default();
    let lease = elapsed(0, around.lease_ms);
    if waiting == 0 && running == 0 {
        let because = format!("the queue `{queue}` holds no task: its entry or stream was deleted [{TASK_MISSING}]");
        let hint = format!("wait: once it has been missing for {lease}, the step is sent again");
        return RootCause::new(because, hint);
    }
    if waiting == 0 {
        let because = format!(
            "a worker has taken it and said nothing yet; if that worker is gone, its lease ends within {lease}, \
             and the step is tried again"
        );
        let hint =
            if workers == 0 { hint_for_queue(state, i) } else { format!("wait {lease}: {} `{queue}`", serve(workers)) };
        return RootCause::new(because, hint);
    }
    if workers == 0 {
        return RootCause::new(format!("no live worker serves `{queue}`"), hint_for_queue(state, i));
    }
    let free = slots.saturating_sub(busy);
    if free == 0 {
        let because = format!("all {slots} slots for `{queue}` are busy ({workers} workers)");
        return RootCause::new(because, format!("wait, or {}", hint_for_queue(state, i)));
    }
    let because = format!("{} `{queue}`, with {free} of {slots} slots free", serve(workers));
    RootCause::new(because, "wait for a worker to take it; otherwise see `goalmill doctor`")
}

fn running(state: &PlanState, i: StepIndex, around: Option<&ExplainContext>) -> RootCause {
    let (spec, step) = (state.plan.step(i), &state.steps[i]);
    let plan = state.id().as_str();
    if spec.kind == StepKind::Plan {
        let own = sub_plan::sub_plan_id(state, i);
        return RootCause::only(format!("see `goalmill explain {own}`"));
    }
    if let (Some(around), Some(worker)) = (around, step.worker())
        && !around.workers.contains(worker)
    {
        let lease = elapsed(0, around.lease_ms);
        let because = format!("worker `{worker}` has no recent heartbeat: its lease ends within {lease}");
        let hint = match state.queue(i).and_then(|queue| around.queues.get(queue)) {
            Some(serving) if serving.workers > 0 => {
                format!("wait {lease}: the step is then tried again by another")
            }
            Some(_) | None => hint_for_queue(state, i),
        };
        return RootCause::new(because, hint);
    }
    RootCause::only(format!("wait, or skip it: `goalmill step skip {plan} {}`", spec.id))
}

fn serve(workers: u32) -> String {
    if workers == 1 { "1 live worker serves".into() } else { format!("{workers} live workers serve") }
}

/// The root cause of a step whose queue is quarantined.
fn quarantined(queue: &AgentType, around: &ExplainContext) -> Option<RootCause> {
    let problem = around.quarantined.get(queue)?;
    let because = format!("the queue `{queue}` is in quarantine: {problem}");
    Some(RootCause::new(because, "see `goalmill doctor`; the queue recovers when its key is free"))
}

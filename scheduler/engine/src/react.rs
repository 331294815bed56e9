//! Derives the effects of an event, and after a restart those that may not have run.

use goalmill_common::event::{Event, PlanEvent, Record, StepEvent};
use goalmill_common::plan::StepKind;
use goalmill_common::revision::Trigger;
use goalmill_common::status::StepStatus;

use crate::graph::StepIndex;
use crate::render;
use crate::state::at;
use crate::{Effect, EngineContext, PlanState, Timer};

/// Adds the effects of `record`, which the state has already folded.
pub(crate) fn react(state: &PlanState, record: &Record, effects: &mut Vec<Effect>) {
    match &record.event {
        Event::Plan(event) => react_plan(state, event, effects),
        Event::Step { step, event, .. } => {
            if becomes_ready(event) {
                let i = state.step_index(step).filter(|i| !state.runs_in_engine(*i));
                effects.extend(i.map(Effect::Ready));
            }
        }
    }
}

fn react_plan(state: &PlanState, event: &PlanEvent, effects: &mut Vec<Effect>) {
    match event {
        PlanEvent::GoalAccepted(accepted) => {
            effects.push(Effect::Answer { submission: accepted.submission.clone() });
        }
        // The better plan is at hand: no planner is asked.
        PlanEvent::ReplanTriggered(replan) if replan.trigger == Trigger::BetterPlan.as_str() => {}
        PlanEvent::ReplanTriggered(replan) if replan.trigger != Trigger::AskUser.as_str() => {
            effects.push(Effect::Plan { revision: state.revision + 1 });
        }
        PlanEvent::RevisionRefused(refused) if refused.due_ms > 0 => {
            effects.push(Effect::Plan { revision: state.revision + 1 });
        }
        PlanEvent::QuestionAnswered(_) => effects.push(Effect::Plan { revision: state.revision + 1 }),
        PlanEvent::Rejected(_) | PlanEvent::Completed(_) | PlanEvent::Failed(_) | PlanEvent::Cancelled(_) => {
            effects.extend(roll_up(state));
            effects.push(Effect::Ended);
        }
        PlanEvent::ModelAsked(_)
        | PlanEvent::ModelAnswered(_)
        | PlanEvent::PlanningFailed(_)
        | PlanEvent::PlanCreated(_)
        | PlanEvent::PlanValidated(_)
        | PlanEvent::ApprovalRequested(_)
        | PlanEvent::Approved(_)
        | PlanEvent::PhaseAdded(_)
        | PlanEvent::PhaseStarted(_)
        | PlanEvent::PhaseCompleted(_)
        | PlanEvent::PhaseFailed(_)
        | PlanEvent::PhaseSkipped(_)
        | PlanEvent::ReplanTriggered(_)
        | PlanEvent::RevisionProposed(_)
        | PlanEvent::RevisionRefused(_)
        | PlanEvent::QuestionAsked(_)
        | PlanEvent::Revised(_)
        | PlanEvent::Extended(_)
        | PlanEvent::Quarantined(_)
        | PlanEvent::Paused(_)
        | PlanEvent::Resumed(_) => {}
    }
}

fn becomes_ready(event: &StepEvent) -> bool {
    match event {
        StepEvent::Ready | StepEvent::Approved(_) | StepEvent::Released(_) => true,
        StepEvent::Added(_)
        | StepEvent::Modified(_)
        | StepEvent::Removed(_)
        | StepEvent::Blocked(_)
        | StepEvent::ApprovalRequested(_)
        | StepEvent::QuestionAsked(_)
        | StepEvent::Answered(_)
        | StepEvent::Recalled(_)
        | StepEvent::Decomposed(_)
        | StepEvent::Queued(_)
        | StepEvent::Started(_)
        | StepEvent::Progress(_)
        | StepEvent::Completed(_)
        | StepEvent::Retrying(_)
        | StepEvent::Failed(_)
        | StepEvent::Skipped(_)
        | StepEvent::Cancelled(_) => false,
    }
}

/// Returns, after a restart, the effects that may not have run. Visits every step.
pub fn pending(state: &PlanState, context: &EngineContext) -> Vec<Effect> {
    let mut effects = Vec::new();
    effects.push(Effect::Answer { submission: state.submission().to_owned() });
    if state.is_final() {
        effects.extend(roll_up(state));
        return effects;
    }
    effects.push(Effect::Timer(Timer::Plan, state.plan_due()));
    effects.extend(state.asked_of_planners().map(|revision| Effect::Plan { revision }));
    effects.extend(state.is_open().then_some(Effect::Close));
    effects.extend(state.is_cut().then_some(Effect::Continue));
    for (i, step) in state.steps.iter().enumerate() {
        let i = StepIndex::new(i);
        effects.extend(at(step.due_ms).map(|due| Effect::Timer(Timer::Step(i), Some(due))));
        if step.status == StepStatus::Ready && !state.runs_in_engine(i) {
            effects.push(Effect::Ready(i));
        }
        if step.status == StepStatus::Running && state.plan.steps[i].kind == StepKind::Plan {
            let inputs = render::inputs(state, i, &context.limits).unwrap_or_default();
            effects.extend(state.sub_plan(i, &inputs));
        }
    }
    effects
}

fn roll_up(state: &PlanState) -> Option<Effect> {
    let parent = state.parent()?.clone();
    let failure = state.ended().and_then(|ended| ended.failure.clone());
    Some(Effect::RollUp {
        parent,
        status: state.status,
        outputs: state.sub_plan_outputs(),
        usage: state.usage,
        failure,
    })
}

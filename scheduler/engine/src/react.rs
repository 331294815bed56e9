//! Derives the effects of an event, and after a restart those that may not have run.

use goalmill_common::config::HookPoint;
use goalmill_common::criterion::JudgeKind;
use goalmill_common::event::{Event, HookDecision, PlanEvent, Record, StepEvent};
use goalmill_common::id::StepId;
use goalmill_common::plan::StepKind;
use goalmill_common::revision::Trigger;
use goalmill_common::status::StepStatus;

use crate::budget::model_calls;
use crate::graph::StepIndex;
use crate::render::Unrendered;
use crate::sub_plan::family;
use crate::sub_plan::family_plans::FamilyRequest;
use crate::{Decision, Effect, EngineContext, PlanState, Timer, criteria, render, sub_plan, wait};

/// Adds the effects of `record`, which the state has already folded, and what it asks of the plan's family. A `Turn` offers
/// ready steps.
pub(crate) fn react(state: &PlanState, record: &Record, effects: &mut Vec<Effect>, requests: &mut Vec<FamilyRequest>) {
    match &record.event {
        Event::Plan(event) => {
            react_plan(state, event, effects);
            if event.ends_plan() || matches!(event, PlanEvent::Kept(_)) {
                requests.extend(family::report_end(state));
            }
        }
        Event::Step { step, event, .. } => {
            if let StepEvent::HookAsked(_) = event {
                effects.extend(state.step_index(step).map(|i| Effect::AskHooks { step: Some(i) }));
            }
            react_to_wait(state, step, event, effects);
        }
    }
}

/// Registers a wait for an event that has begun, and removes one that has ended.
fn react_to_wait(state: &PlanState, step: &StepId, event: &StepEvent, effects: &mut Vec<Effect>) {
    if let StepEvent::WaitStarted(started) = event {
        let i = state.step_index(step).filter(|_| !started.event.is_empty());
        effects.extend(i.map(|step| Effect::AwaitEvent { step }));
    } else if event.ends_step()
        && let Some(step) = state.step_index(step).filter(|i| wait::event_wait(state, *i).is_some())
    {
        // The wait that it took in the same decision is not registered.
        let begins = |effect: &Effect| *effect == Effect::AwaitEvent { step };
        match effects.iter().position(begins) {
            Some(place) => drop(effects.remove(place)),
            None => effects.push(Effect::StopAwaiting { step }),
        }
    }
}

fn react_plan(state: &PlanState, event: &PlanEvent, effects: &mut Vec<Effect>) {
    if let PlanEvent::HookAsked(_) = event {
        effects.push(Effect::AskHooks { step: None });
    } else if asks_planners(event) {
        effects.push(Effect::Plan { revision: state.revision + 1 });
    } else if matches!(event, PlanEvent::JudgementRequested(requested) if requested.judge == JudgeKind::Model) {
        effects.push(Effect::Judge);
    } else if event.ends_plan() {
        effects.push(Effect::Ended);
    }
}

fn asks_planners(event: &PlanEvent) -> bool {
    if let PlanEvent::ReplanTriggered(replan) = event {
        // The better plan is at hand, or a person decides: no planner is asked.
        ![Trigger::BetterPlan, Trigger::AskUser].iter().any(|trigger| replan.trigger == trigger.as_str())
    } else if let PlanEvent::RevisionRefused(refused) = event {
        refused.due_ms > 0
    } else if let PlanEvent::HookDecided(decided) = event {
        decided.point == HookPoint::OnRevisionNeeded && decided.decision != HookDecision::Refuse
    } else {
        matches!(event, PlanEvent::QuestionAnswered(_))
    }
}

/// Returns, after a restart, the effects that may not have run, and the requests to the family that may not have been
/// decided. Visits every step.
pub fn pending(state: &PlanState, context: &EngineContext) -> Decision {
    let (mut effects, mut family) = (Vec::new(), Vec::new());
    if state.is_final() || state.is_kept() {
        family.extend(family::report_end(state));
        return Decision { effects, family, ..Decision::default() };
    }
    effects.push(Effect::Timer(Timer::Plan, state.plan_due()));
    effects.extend(model_calls::asked_of_planners(state).map(|revision| Effect::Plan { revision }));
    let judge = criteria::awaited_judgement(state).filter(|(judge, _)| *judge == JudgeKind::Model);
    effects.extend(judge.map(|_| Effect::Judge));
    family.extend(family::close_stream(state));
    effects.extend(state.is_cut().then_some(Effect::Continue));
    effects.extend(state.waiting.hook().map(|_| Effect::AskHooks { step: None }));
    for (i, step) in state.steps.iter().enumerate() {
        let i = StepIndex::new(i);
        effects.extend(step.due_ms().map(|due| Effect::Timer(Timer::Step(i), Some(due))));
        if step.run().hooks().is_some() {
            effects.push(match render::inputs_of_attempt(state, i, &context.limits) {
                Err(Unrendered::Needs(payloads)) => Effect::LoadPayloads { step: Some(i), payloads },
                Ok(_) | Err(Unrendered::Failed(_)) => Effect::AskHooks { step: Some(i) },
            });
        }
        if wait::awaited_event(state, i).is_some() {
            effects.push(Effect::AwaitEvent { step: i });
        }
        if step.status() == StepStatus::Ready && state.is_offered(i) {
            effects.push(Effect::Ready(i));
        }
        if step.run().awaits_plan() {
            family.extend(sub_plan::plan_of_call(state, i));
        }
        if step.status() == StepStatus::Running && state.plan.step(i).kind == StepKind::Plan {
            match render::inputs_of_attempt(state, i, &context.limits) {
                Err(Unrendered::Needs(payloads)) => effects.push(Effect::LoadPayloads { step: Some(i), payloads }),
                inputs => family.push(sub_plan::sub_plan_request(state, i, &inputs.unwrap_or_default())),
            }
        }
    }
    Decision { effects, family, ..Decision::default() }
}

//! Events from outside in a family: the outermost plan remembers which of them were taken, so one event ends one wait.
//!
//! The plan of each iteration, item and call keeps its own events, and reports every one that it gets to the plans
//! above it.

use goalmill_common::command::Verb;
use goalmill_common::event::{EventTaken, PlanEvent};
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::id::{PlanId, StepId};

use crate::decide::{Turn, not_allowed};
use crate::sub_plan::family::{FamilyPlans, FamilyTurn, decide_alone, outermost, plan_above, settle_family};
use crate::{Command, PlanState, Rejection};

/// Whether a plan's family has had the event with this id.
pub fn family_has_event<P: FamilyPlans>(plans: &P, key: P::Key, id: &str) -> bool {
    plans.plan_state(key).has_event(id) || plans.plan_state(outermost(plans, key)).has_event(id)
}

/// Decides a command to a plan, and what follows from it for its family.
pub fn decide_in_family<P: FamilyPlans>(
    plans: &mut P,
    key: P::Key,
    actor: Option<&str>,
    command: Command,
) -> Result<(), Rejection> {
    if let Command::Verb(Verb::SendEvent { event, waiting_only }) = command {
        return send_event(plans, key, actor, event, waiting_only);
    }
    let decision = decide_alone(plans, key, actor, command)?;
    settle_family(plans, key, decision);
    Ok(())
}

/// Decides an event that was sent to a plan. It ends the first wait that it fits, of the plan or of a plan inside it.
fn send_event<P: FamilyPlans>(
    plans: &mut P,
    key: P::Key,
    actor: Option<&str>,
    event: Box<ExternalEvent>,
    waiting_only: bool,
) -> Result<(), Rejection> {
    let state = plans.plan_state(key);
    let is_of_family = plans.plan_state(outermost(plans, key)).has_event(&event.id);
    if is_of_family && !state.has_event(&event.id) {
        let reason = "its outermost plan has taken the event for another wait";
        return if waiting_only { Err(not_allowed(reason)) } else { Ok(()) };
    }
    let mut mismatch = None;
    let waiting = if is_of_family { Vec::new() } else { waiting_inside(plans, key, &event) };
    for inside in waiting {
        let verb = Verb::SendEvent { event: event.clone(), waiting_only: true };
        match decide_alone(plans, inside, actor, Command::Verb(verb)) {
            Ok(decision) => {
                settle_family(plans, inside, decision);
                return Ok(());
            }
            Err(rejection) => mismatch = mismatch.or(Some(rejection)),
        }
    }
    if let Some(rejection) = mismatch {
        return Err(rejection);
    }
    let decision = decide_alone(plans, key, actor, Command::Verb(Verb::SendEvent { event, waiting_only }))?;
    settle_family(plans, key, decision);
    Ok(())
}

/// The plan and the plans inside it that wait for an event, each before those inside it, in the order of their steps.
fn waiting_inside<P: FamilyPlans>(plans: &P, key: P::Key, event: &ExternalEvent) -> Vec<P::Key> {
    let (mut waiting, mut open) = (Vec::new(), vec![key]);
    while let Some(key) = open.pop() {
        let state = plans.plan_state(key);
        waiting.extend(state.awaits_event(&event.name, &event.key).then_some(key));
        let inside = state.indices().filter(|i| state.has_sub_plan(*i));
        let inside: Vec<P::Key> = inside.filter_map(|i| plans.find_plan(&state.sub_plan_id(i))).collect();
        open.extend(inside.into_iter().rev());
    }
    waiting
}

impl<P: FamilyPlans> FamilyTurn<'_, P> {
    /// Reports an event that a plan has got to the outermost plan, and to those between that keep it.
    pub(crate) fn report_event(&mut self, plan: &PlanId, id: &str) {
        let mut above = self.plans.find_plan(plan).and_then(|key| plan_above(self.plans, key));
        while let Some(key) = above {
            above = plan_above(self.plans, key);
            let state = self.plans.plan_state(key);
            if above.is_none() || state.keeps_event(id) {
                let (to, plan) = (state.id().clone(), plan.clone());
                self.give(&to, Command::EventTaken(EventTaken { id: id.to_owned(), plan }));
            }
        }
    }

    /// Gives a wait that has begun the first event that fits it, of those that the plans above keep.
    pub(crate) fn claim_event(&mut self, plan: &PlanId, name: &str, key: &str) {
        let Some(waiting) = self.plans.find_plan(plan) else { return };
        let mut above = plan_above(self.plans, waiting);
        while let Some(keeper) = above {
            let kept: Vec<ExternalEvent> = self.plans.plan_state(keeper).kept_events(name, key).cloned().collect();
            for event in kept {
                let id = event.id.clone();
                let verb = Verb::SendEvent { event: Box::new(event), waiting_only: true };
                if let Ok(decision) = self.decide(waiting, Command::Verb(verb)) {
                    self.apply(waiting, decision);
                    // Another wait may claim before the request of this decision is handled.
                    return self.report_event(plan, &id);
                }
            }
            above = plan_above(self.plans, keeper);
        }
    }
}

impl Turn<'_> {
    /// A plan inside this one has an event, which is for no other wait.
    pub(crate) fn event_taken(&mut self, taken: EventTaken) {
        if !self.state.has_event(&taken.id) || self.state.keeps_event(&taken.id) {
            self.emit_plan(PlanEvent::EventTaken(Box::new(taken)));
        }
    }
}

impl PlanState {
    /// Whether a step of the plan waits for an event.
    pub fn awaits_event(&self, name: &str, key: &str) -> bool {
        self.steps_awaiting(name, key).next().is_some()
    }

    /// Whether this step of the plan waits for an event.
    pub fn step_awaits_event(&self, step: &StepId, name: &str, key: &str) -> bool {
        self.step_index(step).is_some_and(|i| self.awaited_event(i) == Some((name, key)))
    }

    /// Whether the plan, or a plan inside it, has had the event with this id.
    pub(crate) fn has_event(&self, id: &str) -> bool {
        self.events.as_ref().is_some_and(|events| events.has(id))
    }

    fn keeps_event(&self, id: &str) -> bool {
        self.events.as_ref().is_some_and(|events| events.keeps(id))
    }

    /// The events of a name and a key for which no step of the plan has waited yet, the first one first.
    pub(crate) fn kept_events<'e>(&'e self, name: &'e str, key: &'e str) -> impl Iterator<Item = &'e ExternalEvent> {
        self.events.iter().flat_map(move |events| events.of(name, key))
    }
}

//! Dispatch: ready steps become tasks, the most urgent first, as far as the quota of their agent type allows.

use goalmill_common::event::{Event, Record, StepEvent};
use goalmill_common::hash::HashMap;
use goalmill_common::id::{AgentType, Namespace};
use goalmill_common::status::StepStatus;
use goalmill_engine::{
    Command, FamilyCommand, PlanState, StepIndex, can_dispatch_in_family, family_members, has_room_in_family,
};

use super::ShardState;
use crate::Slot;
use crate::active_plan::ActivePlan;
use crate::observer::NamespaceCounter;
use crate::quota::Quota;
use crate::ready_set::{Offers, Place, Taken, Urgency};

impl ShardState {
    /// Dispatches the most urgent step whose queue is open, again and again, while the turn has room. Parked steps are
    /// offered when no other can be sent.
    pub(crate) fn dispatch(&mut self, quota: &dyn Quota) {
        self.has_more = false;
        let mut offers = Offers::default();
        self.ready.touch_all();
        while let Some(agent_type) = self.next_queue(&mut offers, quota) {
            let Some((place, reserved)) = self.take_ready(&agent_type, &mut offers) else { continue };
            let Place { slot, step, .. } = place;
            let command = FamilyCommand::Decide { key: slot, command: Command::Dispatch(step) };
            let decided = self.decide_in_family(None, command);
            if let (Some(in_use), Some(namespace)) = (&self.namespaces, &reserved) {
                in_use.unreserve(namespace);
            }
            if let Err(rejection) = decided {
                tracing::error!("a ready step cannot be dispatched: {rejection}");
            }
            self.continue_plan(slot, step);
        }
    }

    /// The queue of the most urgent step that may be sent, while the turn has room.
    fn next_queue(&mut self, offers: &mut Offers, quota: &dyn Quota) -> Option<AgentType> {
        loop {
            for agent_type in self.ready.take_touched() {
                let urgency = self.urgency(&agent_type, offers, quota);
                offers.set(agent_type, urgency);
            }
            let Some((urgency, agent_type)) = offers.first().cloned() else {
                if self.offer_parked(quota) {
                    continue;
                }
                return None;
            };
            if !self.turn.has_room_for_tasks(self.tasks_max) || self.is_out_of_time() {
                self.has_more = true;
                return None;
            }
            let current = self.urgency(&agent_type, offers, quota);
            if current.as_ref() == Some(&urgency) {
                return Some(agent_type);
            }
            // Its queue is full, or its namespace had steps meanwhile.
            offers.set(agent_type, current);
        }
    }

    /// Offers parked steps of plans with room whose first step waits for a queue without quota.
    fn offer_parked(&mut self, quota: &dyn Quota) -> bool {
        let mut is_any = false;
        for slot in self.ready.parked() {
            let has_room = |plan: &ActivePlan| self.has_place(slot) && self.has_room(plan.state.namespace_name());
            if self.plans.get(&slot).is_some_and(|plan| has_room(plan)) {
                let outstanding = &self.outstanding;
                let out = |agent_type: &AgentType| outstanding.get(agent_type).copied().unwrap_or(0);
                is_any |= self.ready.unpark_open(slot, |agent_type| out(agent_type) < quota.in_flight_max(agent_type));
            }
        }
        is_any
    }

    /// Whether steps of a namespace may be sent.
    pub(super) fn has_room(&self, namespace: &str) -> bool {
        self.namespaces.as_ref().is_none_or(|in_use| in_use.has_room(namespace))
    }

    /// How urgent the next step of an agent type is; `None` when none can be sent.
    fn urgency(&self, agent_type: &AgentType, offers: &Offers, quota: &dyn Quota) -> Option<Urgency> {
        let is_open = self.is_open(agent_type, quota);
        is_open.then(|| self.ready.urgency(agent_type, offers, self.room_of_namespaces(agent_type)))?
    }

    /// Whether the queue of an agent type has room.
    fn is_open(&self, agent_type: &AgentType, quota: &dyn Quota) -> bool {
        self.outstanding.get(agent_type).copied().unwrap_or(0) < quota.in_flight_max(agent_type)
    }

    /// What says whether steps of a namespace may be sent. Steps without an agent type are with no worker.
    fn room_of_namespaces(&self, agent_type: &AgentType) -> impl Fn(&str) -> bool {
        let in_use = self.namespaces.as_ref().filter(|_| !agent_type.as_str().is_empty());
        move |name| in_use.is_none_or(|in_use| in_use.has_room(name))
    }

    /// Takes the next step of an agent type, and a place in its namespace, or puts it where it waits.
    fn take_ready(&mut self, agent_type: &AgentType, offers: &mut Offers) -> Option<(Place, Option<Namespace>)> {
        let in_use = self.namespaces.as_ref().filter(|_| !agent_type.as_str().is_empty());
        let has_room = |name: &str| in_use.is_none_or(|in_use| in_use.has_room(name));
        let taken = self.ready.pop(agent_type, has_room)?;
        let (slot, step) = (taken.place.slot, taken.place.step);
        let plan = self.plans.get(&slot)?;
        if !is_current(&plan.state, agent_type, &taken) {
            return None;
        }
        let has_place = self.has_place(slot);
        if !has_place || !can_dispatch_in_family(self, slot, step) {
            let excluded = has_place;
            self.ready.park(agent_type, taken, excluded);
            if excluded {
                self.ready.unpark(slot, false);
            }
            return None;
        }
        let reserved = in_use.map(|_| Namespace::from(taken.namespace.as_str()));
        if let (Some(in_use), Some(namespace)) = (&self.namespaces, &reserved)
            && !in_use.reserve(namespace)
        {
            // Another shard was faster.
            self.ready.put_back(agent_type, taken);
            return None;
        }
        offers.count(&taken.namespace);
        Some((taken.place, reserved))
    }

    /// After a dispatch: notes a step whose outputs are looked up in the cache, and offers the next step of the plan.
    fn continue_plan(&mut self, slot: Slot, step: StepIndex) {
        let Some(plan) = self.plans.get_mut(&slot) else { return };
        if plan.state.step(step).is_some_and(|step| step.status == StepStatus::Ready) {
            plan.lookups.insert(step);
        }
        if self.has_place(slot) {
            self.ready.unpark(slot, false);
        }
    }

    /// A step has ended: steps of its plan may continue, and those of the plans around and inside it.
    pub(super) fn offer_again(&mut self, slot: Slot) {
        self.ready.unpark(slot, true);
        for member in family_members(self, slot) {
            self.ready.unpark(member, true);
        }
    }

    /// Whether the limits of a plan, and of those around it, allow one more of its steps.
    fn has_place(&self, slot: Slot) -> bool {
        self.plans.contains_key(&slot) && has_room_in_family(self, slot)
    }
}

/// Whether a step is still ready as it was added: a revision may have given it another priority, and added it again.
fn is_current(state: &PlanState, agent_type: &AgentType, taken: &Taken) -> bool {
    let step = taken.place.step;
    state.step(step).is_some_and(|step| step.status == StepStatus::Ready)
        && state.queue(step) == Some(agent_type)
        && state.priority(step).0 == taken.priority.0
}

/// Counts steps in flight from events. Returns queues that may still hold tasks of stopped attempts.
pub(super) fn track_in_flight(
    in_flight: &mut HashMap<(Slot, StepIndex), AgentType>,
    outstanding: &mut HashMap<AgentType, u32>,
    mut namespaces: Option<&mut (dyn NamespaceCounter + 'static)>,
    slot: Slot,
    state: &PlanState,
    records: &[Record],
) -> Vec<AgentType> {
    let mut stopped = Vec::new();
    for record in records {
        let Event::Step { step, event, .. } = &record.event else { continue };
        if let StepEvent::Queued(queued) = event {
            let sent = state.step_index(step).filter(|_| !queued.agent_type.as_str().is_empty());
            let Some(index) = sent else { continue };
            in_flight.insert((slot, index), queued.agent_type.clone());
            if let Some(in_use) = namespaces.as_deref_mut() {
                in_use.add_step(&state.namespace());
            }
            match outstanding.get_mut(&queued.agent_type) {
                Some(count) => *count += 1,
                None => {
                    outstanding.insert(queued.agent_type.clone(), 1);
                }
            }
        } else if event.frees_worker()
            && let Some(index) = state.step_index(step)
            && let Some(agent_type) = in_flight.remove(&(slot, index))
            && let Some(count) = outstanding.get_mut(&agent_type)
        {
            *count -= 1;
            if let Some(in_use) = namespaces.as_deref_mut() {
                in_use.remove_step(&state.namespace());
            }
            if event.abandons_attempt() {
                stopped.push(agent_type);
            }
        }
    }
    stopped
}

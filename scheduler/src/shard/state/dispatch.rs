//! Dispatch: ready steps become tasks, as far as the quota of their agent type allows.

use goalmill_common::event::{Event, Record, StepEvent};
use goalmill_common::hash::HashMap;
use goalmill_common::id::{AgentType, Namespace};
use goalmill_common::status::StepStatus;
use goalmill_engine::{Command, PlanState, StepIndex};

use super::ShardState;
use crate::namespace_limits::ShardUse;
use crate::shard::Slot;
use crate::shard::quota::Quota;

impl ShardState {
    /// Dispatches ready steps while the turn has room and the quota of their agent type is not used up.
    pub(crate) fn dispatch(&mut self, quota: &dyn Quota) {
        self.has_more = false;
        loop {
            self.dispatch_offered(quota);
            if self.has_more || !self.offer_parked(quota) {
                return;
            }
        }
    }

    /// Offers parked steps of plans with room whose first step waits for a queue without quota.
    fn offer_parked(&mut self, quota: &dyn Quota) -> bool {
        let mut is_any = false;
        for slot in self.ready.parked() {
            let has_room = |state: &PlanState| state.has_room() && self.has_room(state.namespace_name());
            if self.plans.get(&slot).is_some_and(|plan| has_room(&plan.state)) {
                let out = |agent_type: &AgentType| self.outstanding.get(agent_type).copied().unwrap_or(0);
                is_any |= self.ready.unpark_open(slot, |agent_type| out(agent_type) < quota.in_flight_max(agent_type));
            }
        }
        is_any
    }

    /// Whether steps of a namespace may be sent.
    pub(super) fn has_room(&self, namespace: &str) -> bool {
        self.namespaces.as_ref().is_none_or(|in_use| in_use.has_room(namespace))
    }

    fn dispatch_offered(&mut self, quota: &dyn Quota) {
        for agent_type in self.ready.agent_types() {
            let in_flight_max = quota.in_flight_max(&agent_type);
            while self.outstanding.get(&agent_type).copied().unwrap_or(0) < in_flight_max {
                if !self.turn.has_room_for_tasks(self.tasks_max) || self.is_out_of_time() {
                    self.has_more = true;
                    break;
                }
                // Steps without an agent type are with no worker.
                let in_use = self.namespaces.as_ref().filter(|_| !agent_type.as_str().is_empty());
                let has_room = |name: &str| in_use.is_none_or(|in_use| in_use.has_room(name));
                let Some(taken) = self.ready.pop(&agent_type, has_room) else { break };
                let (slot, step) = (taken.place.slot, taken.place.step);
                let Some(state) = self.plans.get(&slot).map(|held| &held.state) else { continue };
                if state.step(step).is_none_or(|step| step.status != StepStatus::Ready) {
                    continue;
                }
                if !state.can_dispatch(step) {
                    let excluded = state.has_room();
                    self.ready.park(&agent_type, taken, excluded);
                    if excluded {
                        self.ready.unpark(slot, false);
                    }
                    continue;
                }
                let reserved = in_use.map(|_| Namespace::from(taken.namespace.as_str()));
                if let (Some(in_use), Some(namespace)) = (&self.namespaces, &reserved)
                    && !in_use.reserve(namespace)
                {
                    // Another shard was faster.
                    self.ready.put_back(&agent_type, taken);
                    continue;
                }
                let decided = self.handle_command(slot, None, Command::Dispatch(step));
                if let (Some(in_use), Some(namespace)) = (&self.namespaces, &reserved) {
                    in_use.unreserve(namespace);
                }
                if let Err(rejection) = decided {
                    tracing::error!("a ready step cannot be dispatched: {rejection}");
                    continue;
                }
                if self.plans.get(&slot).is_some_and(|plan| plan.state.has_room()) {
                    self.ready.unpark(slot, false);
                }
            }
        }
    }
}

/// Counts steps in flight from events. Returns queues that may still hold tasks of stopped attempts.
pub(super) fn track_in_flight(
    in_flight: &mut HashMap<(Slot, StepIndex), AgentType>,
    outstanding: &mut HashMap<AgentType, u32>,
    mut namespaces: Option<&mut ShardUse>,
    slot: Slot,
    state: &PlanState,
    records: &[Record],
) -> Vec<AgentType> {
    let mut stopped = Vec::new();
    for record in records {
        let Event::Step { step, event, .. } = &record.event else { continue };
        let Some(index) = state.step_index(step) else { continue };
        if let StepEvent::Queued(queued) = event {
            if queued.agent_type.as_str().is_empty() {
                continue;
            }
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

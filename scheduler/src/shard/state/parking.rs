//! Plans that only wait leave memory, and come back when something concerns them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use goalmill_common::id::PlanId;
use goalmill_engine::{Effect, PlanState, StepIndex, Timer, pending};

use super::ShardState;
use crate::shard::Slot;
use crate::shard::active_plan::ActivePlan;
use crate::shard::parked_plans::ParkedPlan;

/// Plans that come back in one turn because they are due.
const DUE_MAX: usize = 256;

impl ShardState {
    /// Parks plans that have nothing to do for longer than `park_ms`; 0 parks none.
    pub(crate) fn set_parking(&mut self, park_ms: u64) {
        self.park_ms = park_ms;
    }

    /// Parks a plan whose events are written if it only waits.
    pub(super) fn park_if_idle(&mut self, slot: Slot) {
        let Some(plan) = self.plans.get(&slot).filter(|plan| self.park_ms > 0 && plan.is_settled()) else { return };
        let state = &plan.state;
        let Some(due_ms) = state.next_due().filter(|due| *due > self.now_ms.saturating_add(self.park_ms)) else {
            return;
        };
        if state.in_flight() > 0 || state.parent().is_some() || !self.only_waits(slot) {
            return;
        }
        let parked = ParkedPlan::new(state.status(), state.updated_ms(), due_ms, state.waits());
        let id = state.id().clone();
        let steps = (0..state.len()).map(|n| Timer::Step(StepIndex::new(n)));
        self.timers.forget(slot, steps);
        self.ready.forget(slot);
        self.slots.remove(&id);
        self.plans.remove(&slot);
        self.parked.insert(id, parked);
    }

    /// Whether a takeover would find nothing to do for the plan but to wait.
    fn only_waits(&self, slot: Slot) -> bool {
        let waits = |effect: &Effect| match effect {
            Effect::Timer(_, due) => due.is_none_or(|due| due > self.now_ms),
            Effect::Answer { .. } | Effect::AwaitEvent { .. } => true,
            Effect::Send(_)
            | Effect::StoreInputs { .. }
            | Effect::Acknowledge { .. }
            | Effect::Ready(_)
            | Effect::Room
            | Effect::Continue
            | Effect::Ended
            | Effect::Plan { .. }
            | Effect::Judge
            | Effect::CacheLookup { .. }
            | Effect::CacheStore { .. }
            | Effect::LoadPayloads { .. }
            | Effect::AskHooks { .. }
            | Effect::StopAwaiting { .. }
            | Effect::Cancel(_)
            | Effect::DeadLetter { .. } => false,
        };
        let pending = pending(&self.plans[&slot].state, &self.context);
        !pending.has_requests() && pending.effects.iter().all(waits)
    }

    pub(crate) fn is_parked(&self, plan: &PlanId) -> bool {
        self.parked.contains(plan)
    }

    /// Parked plans that are due, some of many.
    pub(crate) fn parked_due(&self) -> Vec<PlanId> {
        self.parked.due(self.clock.now_ms(), DUE_MAX).cloned().collect()
    }

    /// Takes a parked plan back, as folded from its log.
    pub(crate) fn unpark(&mut self, state: PlanState) {
        if !self.parked.remove(state.id()) {
            return;
        }
        let slot = self.hold_plan(ActivePlan::new(state));
        // It is parked again once this is written, if nothing has come of it.
        self.behind.push_back((self.now_ms, slot));
        let state = &self.plans[&slot].state;
        self.marker.begin(Some(state.id()));
        let named = catch_unwind(AssertUnwindSafe(|| pending(state, &self.context)));
        self.marker.end();
        match named {
            // All else was done before it was parked.
            Ok(decision) => {
                let timers = decision.effects.into_iter().filter(|effect| matches!(effect, Effect::Timer(..)));
                self.apply_effects(slot, timers.collect());
            }
            Err(_) => self.broken = Some(state.id().clone()),
        }
    }
}

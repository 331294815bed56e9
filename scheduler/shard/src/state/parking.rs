//! Plans that only wait leave memory, and come back when something concerns them.

use goalmill_common::id::{Namespace, PlanId};
use goalmill_common::park_mark::ParkMark;
use goalmill_engine::{Effect, FamilyCommand, FamilyQueue, PlanState, StepIndex, Timer, pending, sub_plan};

use super::ShardState;
use crate::Slot;
use crate::active_plan::ActivePlan;
use crate::parked_plans::ParkedPlan;

/// A plan that a former owner has parked.
pub struct UnreadPlan {
    pub plan: PlanId,
    pub mark: ParkMark,
    pub namespace: Namespace,
}

/// Plans that come back in one turn because they are due.
const DUE_MAX: usize = 256;

impl ShardState {
    /// Parks plans that have nothing to do for longer than `park_ms`; 0 parks none.
    pub fn set_parking(&mut self, park_ms: u64) {
        self.park_ms = park_ms;
    }

    /// Parks a plan whose events are written if it only waits; its mark is written before.
    pub(super) fn park_if_idle(&mut self, slot: Slot) {
        let Some(mark) = self.idle_mark(slot) else { return };
        if !self.plans[&slot].is_marked() {
            self.write_mark(slot, mark);
            return;
        }
        let state = &self.plans[&slot].state;
        let id = state.id().clone();
        let steps = (0..state.len()).map(|n| Timer::Step(StepIndex::new(n)));
        self.timers.forget(slot, steps);
        self.ready.forget(slot);
        self.slots.remove(&id);
        self.plans.remove(&slot);
        self.parked.insert(id, ParkedPlan::new(&mark, false));
    }

    /// A wait of the plan is registered.
    pub(super) fn end_registration(&mut self, plan: &PlanId) {
        let Some(slot) = self.slots.get(plan).copied() else { return };
        self.plans.get_mut(&slot).expect("every slot has a plan").end_effect();
        // Its last commit may still be written, so it is parked after the one with its mark.
        if let Some(mark) = self.idle_mark(slot) {
            self.write_mark(slot, mark);
        }
    }

    fn write_mark(&mut self, slot: Slot, mark: ParkMark) {
        let Some(plan) = self.plans.get_mut(&slot) else { return };
        plan.set_mark(mark);
        self.turn.changed.extend(plan.enter_turn().then_some(slot));
    }

    /// The mark of a plan that may be parked.
    fn idle_mark(&self, slot: Slot) -> Option<ParkMark> {
        let plan = self.plans.get(&slot).filter(|plan| self.park_ms > 0 && plan.is_settled())?;
        let state = &plan.state;
        let due_ms = state.next_due().filter(|due| *due > self.now_ms.saturating_add(self.park_ms))?;
        if state.in_flight() > 0 || state.parent().is_some() || sub_plan::awaits_inside(state) || !self.only_waits(slot)
        {
            return None;
        }
        let (seq, updated_ms) = (state.seq(), state.updated_ms());
        Some(ParkMark { seq, due_ms, updated_ms, status: state.status(), waits: state.waits() })
    }

    /// Parks plans that a former owner has parked.
    pub fn add_parked(&mut self, plans: Vec<UnreadPlan>) {
        for UnreadPlan { plan, mark, namespace } in plans {
            if let Some(in_use) = &mut self.namespaces {
                in_use.add_plan(&namespace, &plan);
            }
            self.parked.insert(plan, ParkedPlan::new(&mark, true));
        }
    }

    /// Whether a takeover would find nothing to do for the plan but to wait.
    fn only_waits(&self, slot: Slot) -> bool {
        let waits = |effect: &Effect| match effect {
            Effect::Timer(_, due) => due.is_none_or(|due| due > self.now_ms),
            Effect::AwaitEvent { .. } => true,
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

    /// Whether memory has only the place of the plan.
    pub fn is_parked(&self, plan: &PlanId) -> bool {
        self.parked.contains(plan)
    }

    /// Parked plans that are due, some of many.
    pub fn parked_due(&self) -> Vec<PlanId> {
        self.parked.due(self.clock.now_ms(), DUE_MAX).cloned().collect()
    }

    /// A parked plan cannot be read: it is not worked on. It counts for its namespace until its shard is recovered.
    pub fn quarantine_parked(&mut self, plan: PlanId) {
        self.parked.remove(&plan);
        self.quarantined.insert(plan);
    }

    /// Takes a parked plan back, as folded from its log. Returns whether this owner had not read the log before.
    pub fn unpark(&mut self, state: PlanState) -> bool {
        let Some(was_unread) = self.parked.remove(state.id()) else { return false };
        let slot = self.hold_plan(ActivePlan::unparked(state));
        // It is parked again once this is written, if nothing has come of it.
        self.behind.push_back((self.now_ms, slot));
        // All else was done before it was parked.
        let resumed = self.call_engine(None, FamilyCommand::Resume { key: slot }, &FamilyQueue::default());
        let effects = resumed.map(|(_, decision)| decision.effects).unwrap_or_default();
        let timers = effects.into_iter().filter(|effect| matches!(effect, Effect::Timer(..)));
        timers.for_each(|timer| self.apply_effect(slot, timer));
        was_unread
    }
}

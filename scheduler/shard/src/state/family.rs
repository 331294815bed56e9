//! The plans of a shard, as the engine reaches them: whatever a family decides belongs to the same turn.

use goalmill_common::command::Submit;
use goalmill_common::id::PlanId;
use goalmill_common::problem::Problem;
use goalmill_engine::{Command, Decision, Envelope, FamilyPlans, FamilyUse, PlanState, Rejection, SubmitCommand};

use super::dispatch::track_in_flight;
use super::inputs::rejection_problem;
use super::{ShardState, run_engine};
use crate::Slot;
use crate::active_plan::ActivePlan;

impl FamilyPlans for ShardState {
    type Key = Slot;

    fn find_plan(&self, plan: &PlanId) -> Option<Slot> {
        self.slots.get(plan).copied()
    }

    fn plan_state(&self, slot: Slot) -> &PlanState {
        &self.plans[&slot].state
    }

    fn looked_up(&self, slot: Slot) -> u32 {
        self.plans[&slot].looked_up()
    }

    fn decide_command(
        &mut self,
        slot: Slot,
        actor: Option<&str>,
        command: Command,
        family: FamilyUse,
    ) -> Result<Decision, Rejection> {
        let plan = self.plans.get_mut(&slot).expect("callers look the slot up first");
        let (now_ms, random, actor) = (self.now_ms, self.random.draw(), actor.map(Into::into));
        let envelope = Envelope { now_ms, random, actor, family, command };
        let id = plan.state.id().clone();
        let decide = || (self.engine.decide)(&mut plan.state, &self.context, envelope);
        run_engine(self.observer.as_ref(), &mut self.broken, &id, decide).unwrap_or_else(|| Err(panicked()))
    }

    fn submit_plan(
        &mut self,
        plan: PlanId,
        actor: String,
        submit: Box<Submit>,
        family: FamilyUse,
    ) -> Result<(Slot, Decision), Problem> {
        if self.quarantined.contains(&plan) {
            return Err(self.plan_absent(&plan));
        }
        let command = SubmitCommand { plan_id: plan.clone(), salt: self.random.token(), submit: *submit };
        let (now_ms, random, actor) = (self.now_ms, self.random.draw(), Some(actor));
        let envelope = Envelope { now_ms, random, actor, family, command };
        let submit = || (self.engine.submit)(&self.context, envelope);
        let submitted = run_engine(self.observer.as_ref(), &mut self.broken, &plan, submit);
        let (state, decision) =
            submitted.unwrap_or_else(|| Err(panicked())).map_err(|rejection| rejection_problem(&rejection))?;
        Ok((self.insert_plan(ActivePlan::submitted(state)), decision))
    }

    /// Adds the events of a decision to the turn, and applies its effects.
    fn apply_decision(&mut self, slot: Slot, decision: Decision) {
        let plan = self.plans.get_mut(&slot).expect("callers have the plan");
        if !decision.records.is_empty() {
            self.turn.add_bytes(decision.records.iter().map(|record| record.event.weight()).sum());
            self.turn.changed.extend(plan.enter_turn().then_some(slot));
            let stopped = track_in_flight(
                &mut self.in_flight,
                &mut self.outstanding,
                self.namespaces.as_deref_mut(),
                slot,
                &plan.state,
                &decision.records,
            );
            self.stopped.extend(stopped);
            plan.add_records(decision.records);
        }
        for effect in decision.effects {
            self.apply_effect(slot, effect);
        }
    }

    fn note_rejection(&mut self, plan: &PlanId, rejection: &Rejection) {
        tracing::debug!(plan_id = %plan, "plan {plan} rejected the request of another plan of its family: {rejection}");
    }
}

fn panicked() -> Rejection {
    Rejection::NotAllowed { reason: "the engine panicked over the plan".into() }
}

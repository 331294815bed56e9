//! The decisions of a family in one turn: the engine decides one command after the other, and the shard takes what it
//! decided.

use goalmill_common::event::Record;
use goalmill_common::id::PlanId;
use goalmill_common::problem::Problem;
use goalmill_common::status::PlanStatus;
use goalmill_engine::{
    Decision, Envelope, FamilyCommand, FamilyPlans, FamilyQueue, PlanState, Rejection, SubmitCommand, pending,
};

use super::dispatch::track_in_flight;
use super::{ShardState, run_engine};
use crate::Slot;
use crate::active_plan::ActivePlan;

/// The actor of the first event of a sub-plan.
const SUBMITTER: &str = "engine";

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

    fn refusal(&self, plan: &PlanId) -> Option<Problem> {
        self.quarantined.contains(plan).then(|| self.plan_absent(plan))
    }
}

impl ShardState {
    /// Decides a command, and then what each decision asks of its family. Returns the status of the plan after the first
    /// decision.
    pub(crate) fn decide_in_family(
        &mut self,
        actor: Option<&str>,
        first: FamilyCommand<Slot>,
    ) -> Result<PlanStatus, Rejection> {
        let mut family = FamilyQueue::default();
        let (mut status, mut rejected) = (None, None);
        let mut next = Some(family.address(self, first)?);
        while let Some(command) = next {
            // What follows from the first decision has no actor.
            match self.call_engine(actor.filter(|_| status.is_none()), command, &family) {
                Ok((slot, mut decision)) => {
                    status = status.or_else(|| Some(self.plans[&slot].state.status()));
                    family.take_requests(&mut decision);
                    self.add_records(slot, decision.records);
                    for effect in decision.effects {
                        self.apply_effect(slot, effect);
                    }
                }
                Err(rejection) => {
                    rejected = rejected.or(Some(rejection));
                    family.reject();
                }
            }
            next = family.next(self);
        }
        status.ok_or_else(|| rejected.expect("a command that decides nothing is rejected"))
    }

    /// Lets the engine decide a command. All calls of the engine that may change a plan are here.
    pub(super) fn call_engine(
        &mut self,
        actor: Option<&str>,
        command: FamilyCommand<Slot>,
        family: &FamilyQueue,
    ) -> Result<(Slot, Decision), Rejection> {
        let now_ms = self.now_ms;
        match command {
            FamilyCommand::Decide { key: slot, command } => {
                let family = family.family_use(self, Some(slot));
                let plan = self.plans.get_mut(&slot).expect("callers look the slot up first");
                let (random, actor) = (self.random.draw(), actor.map(Into::into));
                let envelope = Envelope { now_ms, random, actor, family, command };
                let id = plan.state.id().clone();
                let decide = || (self.engine.decide)(&mut plan.state, &self.context, envelope);
                let decided = run_engine(self.observer.as_ref(), &mut self.broken, &id, decide)?;
                let rejected =
                    |rejection: &_| tracing::debug!(plan_id = %id, "plan {id} rejects a command: {rejection}");
                Ok((slot, decided.inspect_err(rejected)?))
            }
            FamilyCommand::Submit { plan, submit } => {
                let around = submit.parent.as_ref().and_then(|parent| self.find_plan(&parent.plan));
                let family = family.family_use(self, around);
                let actor = Some(actor.unwrap_or(SUBMITTER).to_owned());
                let command = SubmitCommand { plan_id: plan.clone(), salt: self.random.token(), submit: *submit };
                let envelope = Envelope { now_ms, random: self.random.draw(), actor, family, command };
                let submit = || (self.engine.submit)(&self.context, envelope);
                let (state, decision) = run_engine(self.observer.as_ref(), &mut self.broken, &plan, submit)??;
                Ok((self.insert_plan(ActivePlan::submitted(state)), decision))
            }
            FamilyCommand::Resume { key: slot } => {
                let state = &self.plans[&slot].state;
                let pending = || pending(state, &self.context);
                let decision = run_engine(self.observer.as_ref(), &mut self.broken, state.id(), pending)?;
                Ok((slot, decision))
            }
        }
    }

    /// Adds the events of a decision to the turn.
    fn add_records(&mut self, slot: Slot, records: Vec<Record>) {
        if records.is_empty() {
            return;
        }
        let plan = self.plans.get_mut(&slot).expect("callers have the plan");
        self.turn.add_bytes(records.iter().map(|record| record.event.weight()).sum());
        self.turn.changed.extend(plan.enter_turn().then_some(slot));
        let stopped = track_in_flight(
            &mut self.in_flight,
            &mut self.outstanding,
            self.namespaces.as_deref_mut(),
            slot,
            &plan.state,
            &records,
        );
        self.stopped.extend(stopped);
        plan.add_records(records);
    }
}

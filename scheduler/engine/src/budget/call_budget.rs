//! Budgets of calls: what the calls of an attempt, or a sub-plan, may use up is reserved before they are made.
//!
//! Each attempt gets a part of the unused budget with its task, without being asked. A worker that needs more for its
//! next call ends the attempt (`suspended`), and the step continues once there is room. So the parts in flight and what
//! was used are never more than the limit, on however many workers the steps run.

use goalmill_common::call::{CallBudget, CallNeeds, SuspendedCall};
use goalmill_common::constraint::Measure;
use goalmill_common::event::{StepEvent, StepSuspended};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::{Budget, Usage};
use goalmill_common::id::WorkerId;
use goalmill_common::number::whole_u64;
use goalmill_common::plan::Strategy;
use goalmill_common::status::StepStatus;

use crate::PlanState;
use crate::attempt::report::Spent;
use crate::budget::BUDGET_EXCEEDED;
use crate::budget::reservations::CallGrant;
use crate::decide::Turn;
use crate::graph::StepIndex;

/// An attempt that waited gets room for so many calls like the one that it waited for, if there is plenty.
const CALLS_AHEAD: u32 = 4;

impl PlanState {
    /// Folds what an event does to the grant of a step, whose status has changed already.
    pub(crate) fn fold_grant(&mut self, i: StepIndex, event: &StepEvent) {
        self.reservations.set_waiting(i, self.steps[i].run().needs().is_some());
        if let (StepEvent::CallRecorded(call), Some(before)) = (event, self.steps[i].grant().copied()) {
            let mut after = before;
            after.spend(Usage { tokens: call.tokens(), cost: call.cost });
            // Both are counted, so that the sum never loses its last grant in between.
            self.reservations.add_grant(&after);
            self.reservations.remove_grant(&before);
            self.steps[i].set_grant(Some(after));
            return;
        }
        let given = if let StepEvent::Queued(queued) = event {
            queued.budget
        } else if let StepEvent::Suspended(suspended) = event {
            suspended.budget
        } else {
            None
        };
        let step = &self.steps[i];
        let keeps = given.is_none() && (step.status().is_in_flight() || step.run().awaits_plan());
        // What an attempt that has ended did not use is given back.
        if !keeps && let Some(grant) = self.steps[i].set_grant(None) {
            self.reservations.remove_grant(&grant);
        }
        if let Some(left) = given {
            let estimates = self.plan.step(i).estimates;
            let estimated = if self.steps[i].status().is_in_flight() {
                Usage { tokens: estimates.tokens.unwrap_or(0), cost: estimates.cost.unwrap_or(0.0) }
            } else {
                Usage::default()
            };
            let grant = CallGrant { left, estimated };
            self.reservations.add_grant(&grant);
            self.steps[i].set_grant(Some(grant));
        }
    }

    /// What is neither used nor reserved by others than this step: of the budget, and of hard constraints.
    pub(crate) fn unreserved(&self, i: StepIndex) -> Budget {
        let budget = self.budget();
        let (mut tokens, mut cost) = (budget.tokens, budget.cost);
        for (measure, limit) in self.hard_limits() {
            if *measure == Measure::Tokens {
                tokens = Some(tokens.unwrap_or(u64::MAX).min(whole_u64(limit)));
            } else {
                let left = limit - self.measured_beside_usage(measure);
                cost = Some(cost.unwrap_or(f64::MAX).min(left.max(0.0)));
            }
        }
        if tokens.is_none() && cost.is_none() {
            return Budget::default();
        }
        let taken = self.taken_beside(i);
        Budget {
            tokens: tokens.map(|most| most.saturating_sub(taken.tokens)),
            cost: cost.map(|most| (most - taken.cost).max(0.0)),
            seconds: None,
        }
    }

    /// What is used, and what steps in flight may still use up.
    pub(crate) fn taken_by_steps(&self) -> Usage {
        let mut taken = self.usage;
        let reserved = self.reservations.all();
        taken.add(reserved.cost, reserved.tokens);
        taken
    }

    /// What is used, reserved by other steps, and asked for by planners.
    fn taken_beside(&self, i: StepIndex) -> Usage {
        let mut taken = self.taken_by_steps();
        for call in self.calls.open() {
            taken.add(call.reserved.cost, call.reserved.tokens);
        }
        for needs in self.needs_of_resumed(i) {
            taken.add(needs.cost, needs.tokens);
        }
        let mut own = self.steps[i].grant().map(CallGrant::extra).unwrap_or_default();
        if self.steps[i].status().is_in_flight() {
            let estimates = self.plan.step(i).estimates;
            own.add(estimates.cost.unwrap_or(0.0), estimates.tokens.unwrap_or(0));
        }
        Usage { tokens: taken.tokens.saturating_sub(own.tokens), cost: (taken.cost - own.cost).max(0.0) }
    }

    /// What other steps wanted that waited for the budget, and are ready to continue.
    fn needs_of_resumed(&self, i: StepIndex) -> impl Iterator<Item = CallNeeds> {
        let is_resumed = move |j: &&StepIndex| **j != i && self.steps[**j].status() == StepStatus::Ready;
        let needs = |j: &StepIndex| self.steps[*j].run().needs();
        self.reservations.waiting().iter().filter(is_resumed).filter_map(needs)
    }

    /// Whether another step than this one has reserved something.
    fn is_reserved_beside(&self, i: StepIndex) -> bool {
        self.needs_of_resumed(i).next().is_some()
            || self.reservations.grants() > u32::from(self.steps[i].grant().is_some())
            || self.reservations.has_estimates()
    }

    /// Steps that may run beside this one.
    fn steps_beside(&self, i: StepIndex) -> u32 {
        let ended = self.counts.completed + self.counts.failed + self.counts.skipped;
        let own = u32::from(!self.steps[i].status().is_final());
        self.width().saturating_sub(1).min(self.counts.total.saturating_sub(ended + own))
    }

    /// What the calls of the step's next attempt may use up: its estimate, an equal share beside the other steps and the
    /// planners, or what it waits for. `None` when nothing limits the plan.
    pub(crate) fn next_grant(&self, i: StepIndex) -> Option<CallBudget> {
        let room = self.unreserved(i);
        if room.tokens.is_none() && room.cost.is_none() {
            return None;
        }
        let shares = 2 + self.steps_beside(i);
        let estimates = self.plan.step(i).estimates;
        let needs = self.steps[i].run().needs().unwrap_or_default();
        let tokens = room.tokens.map(|room| match needs.tokens {
            0 => (room / u64::from(shares)).max(estimates.tokens.unwrap_or(0).min(room)),
            needs if needs > room => room,
            needs => (room / 2).min(needs.saturating_mul(u64::from(CALLS_AHEAD))).max(needs),
        });
        let cost = room.cost.map(|room| match needs.cost {
            needs if needs <= 0.0 => (room / f64::from(shares)).max(estimates.cost.unwrap_or(0.0).min(room)),
            needs if needs > room => room,
            needs => (room / 2.0).min(needs * f64::from(CALLS_AHEAD)).max(needs),
        });
        let is_short =
            room.tokens.is_some_and(|room| needs.tokens > room) || room.cost.is_some_and(|room| needs.cost > room);
        Some(CallBudget { tokens, cost, last: is_short && !self.is_reserved_beside(i) })
    }

    /// Whether the next attempt of a step that waits for the budget is of use: there is room for its call, or there will
    /// never be more.
    fn may_go_on(&self, i: StepIndex, needs: CallNeeds) -> bool {
        let room = self.unreserved(i);
        let fits =
            room.tokens.is_none_or(|room| needs.tokens <= room) && room.cost.is_none_or(|room| needs.cost <= room);
        fits || !self.is_reserved_beside(i)
    }

    /// Whether a sub-plan may start: something is left for it, or never will be.
    pub(crate) fn has_room_for_plan(&self, i: StepIndex) -> bool {
        let room = self.unreserved(i);
        let is_empty = room.tokens == Some(0) || room.cost.is_some_and(|room| room <= 0.0);
        !is_empty || !self.is_reserved_beside(i)
    }

    /// What the plan of a call may use up: an equal share beside the other steps.
    ///
    /// - `spent`: by the attempt that ends, and not counted yet.
    pub(crate) fn budget_of_call(&self, i: StepIndex, spent: Usage) -> Option<CallBudget> {
        let mut room = self.unreserved(i);
        room.tokens = room.tokens.map(|room| room.saturating_sub(spent.tokens));
        room.cost = room.cost.map(|room| (room - spent.cost).max(0.0));
        if room.tokens.is_none() && room.cost.is_none() {
            return None;
        }
        let is_alone =
            self.plan.definition().strategy == Strategy::Sequential || self.plan.definition().max_parallel == Some(1);
        let shares = if is_alone { 1 } else { 1 + self.steps_beside(i) };
        let tokens = room.tokens.map(|room| room / u64::from(shares));
        Some(CallBudget { tokens, cost: room.cost.map(|room| room / f64::from(shares)), last: false })
    }
}

impl Turn<'_> {
    /// Ends an attempt whose next call does not fit into what it was given. The step continues once there is room; it fails
    /// when there is nothing more to wait for.
    pub(crate) fn suspend_for_budget(&mut self, i: StepIndex, call: SuspendedCall, worker: WorkerId, spent: Spent) {
        let needs = call.wait.needs.unwrap_or_default();
        let is_hopeless = self.state.steps[i].grant().is_none_or(|grant| grant.left.last);
        if is_hopeless {
            return self.give_up(i, self.call_too_large(i, needs), spent);
        }
        let due_ms = self.after(self.context.limits.queue_ms_max);
        let Spent { cost, tokens, split: usage, .. } = spent;
        let suspended = StepSuspended { cost, tokens, usage, ..StepSuspended::new(call, worker, due_ms) };
        self.emit_step(i, StepEvent::Suspended(Box::new(suspended)));
        self.continue_within_budget();
    }

    /// Lets steps continue that wait for the budget, as far as there is room.
    pub(crate) fn continue_within_budget(&mut self) {
        if self.state.reservations.waiting().is_empty() || !self.is_active() {
            return;
        }
        for i in self.state.reservations.waiting().clone() {
            let needs = self.state.steps[i].run().needs().unwrap_or_default();
            if self.status_of(i) == StepStatus::Retrying && self.state.may_go_on(i, needs) {
                self.emit_step(i, StepEvent::Ready);
            }
        }
    }

    /// The budget had no room for a call in time.
    pub(crate) fn end_budget_wait(&mut self, i: StepIndex, waiting: &SuspendedCall) {
        let failure = self.call_too_large(i, waiting.wait.needs.unwrap_or_default());
        self.emit_step(i, StepEvent::Ready);
        self.give_up(i, failure, Spent::default());
    }

    fn call_too_large(&self, i: StepIndex, needs: CallNeeds) -> Failure {
        let room = self.state.unreserved(i);
        let tokens = room.tokens.map(|room| format!("{} tokens, and {room} are left", needs.tokens));
        let cost = room.cost.map(|room| format!("{} dollars, and {room} are left", needs.cost));
        let parts: Vec<String> = tokens.into_iter().chain(cost).collect();
        let message = format!("the next call may use up {}", parts.join("; "));
        Failure::new(FailureClass::ConstraintViolation, BUDGET_EXCEEDED, message)
    }
}

//! Recorded calls of a step: its next attempt gets their outcomes back instead of making them again.

use goalmill_common::call::CALL_NAME_MAX;
use goalmill_common::event::{CallsDiscarded, StepEvent};
use goalmill_common::failure::Failure;
use goalmill_common::json_limits;
use goalmill_common::plan::Estimates;
use goalmill_common::report::Report;
use goalmill_common::status::StepStatus;

use crate::attempt::Spent;
use crate::decide::Turn;
use crate::graph::{StepIndex, to_usize};
use crate::recorded_calls::{StepCalls, Successor};
use crate::{PlanState, Rejection};

impl PlanState {
    /// What the step is estimated to spend beside its recorded calls, which the next attempt does not make again.
    pub(crate) fn estimates_left(&self, i: StepIndex) -> Estimates {
        let mut left = self.plan.steps[i].estimates;
        for call in self.steps[i].calls() {
            left.cost = left.cost.map(|cost| (cost - call.cost).max(0.0));
            left.tokens = left.tokens.map(|tokens| tokens.saturating_sub(call.tokens()));
        }
        left
    }
}

impl Turn<'_> {
    /// Records a finished call. Only the successor of the last one is new; another name, or other inputs, drop what was
    /// recorded.
    ///
    /// Over a limit nothing is recorded: the worker knows the same limits and ends the attempt.
    pub(crate) fn record_call(&mut self, i: StepIndex, report: &Report) -> Result<(), Rejection> {
        let stale = || Rejection::StaleAttempt { step: report.step.clone(), attempt: report.attempt };
        let call = report.call.as_deref().ok_or_else(stale)?;
        let limits = &self.context.limits;
        let outcome = call.outcome.as_ref();
        let is_valid = outcome.is_none_or(|json| json_limits::check_json(json, limits.nesting_max).is_ok())
            && outcome.is_none_or(|json| json.text().len() <= limits.inline_bytes_max)
            && json_limits::check_usage(Some(call.cost), Some(call.tokens())).is_ok()
            && call.name.chars().count() <= CALL_NAME_MAX
            && call.inputs.as_ref().is_none_or(|inputs| inputs.len() <= CALL_NAME_MAX)
            && call.error.as_ref().is_none_or(|error| error.message.len() <= limits.inline_bytes_max);
        let empty = StepCalls::default();
        let known = self.state.steps[i].details.as_ref().map_or(&empty, |details| &details.calls);
        let place = known.place(call);
        let kept = if place == Successor::Other { 0 } else { known.bytes };
        let is_within = call.n <= limits.calls_max && kept.saturating_add(call.bytes()) <= limits.calls_bytes_max;
        if !is_valid || !is_within || place == Successor::Stale {
            return Err(stale());
        }
        let recorded = known.recorded.get(to_usize(call.n).wrapping_sub(1)).map(|known| known.name.clone());
        if self.status_of(i) == StepStatus::Queued {
            self.started(i, report);
        }
        if let Some(recorded) = recorded {
            let called = Some(call.name.clone());
            self.emit_step(i, StepEvent::CallsDiscarded(Box::new(CallsDiscarded { from: call.n, recorded, called })));
        }
        self.emit_step(i, StepEvent::CallRecorded(Box::new(call.clone())));
        Ok(())
    }

    /// Fails an attempt whose outputs are refused. The same calls would give the same outputs again: they are dropped.
    pub(crate) fn refuse_outputs(&mut self, i: StepIndex, failure: Failure, spent: Spent) {
        if let Some(first) = self.state.steps[i].calls().first() {
            let discarded = CallsDiscarded { from: 1, recorded: first.name.clone(), called: None };
            self.emit_step(i, StepEvent::CallsDiscarded(Box::new(discarded)));
        }
        self.fail_attempt(i, failure, spent);
    }
}

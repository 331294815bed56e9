//! Recorded calls of a step: its next attempt gets their outcomes back instead of making them again.

use goalmill_common::call::RecordedCall;
use goalmill_common::event::{CallsDiscarded, StepEvent};
use goalmill_common::json_limits;
use goalmill_common::report::Report;
use goalmill_common::status::StepStatus;

use crate::Rejection;
use crate::decide::Turn;
use crate::graph::{StepIndex, to_usize};
use crate::state::StepState;

/// Characters of a call's name.
const NAME_CHARS_MAX: usize = 200;

/// The recorded calls of one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StepCalls {
    /// The call `n` stands at `n - 1`.
    recorded: Vec<RecordedCall>,
    bytes: usize,
}

impl StepCalls {
    pub(crate) fn recorded(&self) -> &[RecordedCall] {
        &self.recorded
    }

    fn push(&mut self, call: RecordedCall) {
        self.bytes = self.bytes.saturating_add(call.bytes());
        self.recorded.push(call);
    }

    fn discard(&mut self, from: u32) {
        self.recorded.truncate(to_usize(from).saturating_sub(1));
        self.bytes = self.recorded.iter().map(RecordedCall::bytes).sum();
    }
}

/// What becomes of a reported call.
#[derive(Debug, PartialEq, Eq)]
enum Successor {
    /// It is the next one.
    Next,
    /// It has the number of a call with another name.
    Other,
    /// It is recorded already, or one before it is missing.
    Stale,
}

impl StepCalls {
    fn place(&self, call: &RecordedCall) -> Successor {
        let at = to_usize(call.n);
        match self.recorded.get(at.wrapping_sub(1)) {
            Some(known) if known.name != call.name => Successor::Other,
            Some(_) => Successor::Stale,
            None if at == self.recorded.len() + 1 => Successor::Next,
            None => Successor::Stale,
        }
    }
}

/// Folds what an event of a step does to its recorded calls.
pub(crate) fn fold(step: &mut StepState, event: &StepEvent) {
    match event {
        StepEvent::CallRecorded(call) => step.details().calls.push((**call).clone()),
        StepEvent::CallsDiscarded(discarded) => step.details().calls.discard(discarded.from),
        // Another agent, or another task, makes other calls.
        StepEvent::Retrying(retrying) if retrying.fallback => clear(step),
        StepEvent::Recalled(_) | StepEvent::Decomposed(_) => clear(step),
        _ if event.ends_step() => clear(step),
        _ => {}
    }
}

/// Forgets the calls of a step that has ended or changes.
pub(crate) fn clear(step: &mut StepState) {
    if let Some(details) = &mut step.details {
        details.calls = StepCalls::default();
    }
}

impl Turn<'_> {
    /// Records a finished call. Only the successor of the last one is new; another name drops what was recorded.
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
            && call.name.chars().count() <= NAME_CHARS_MAX
            && self.state.seq < limits.events_max / 2;
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
            let called = call.name.clone();
            self.emit_step(i, StepEvent::CallsDiscarded(Box::new(CallsDiscarded { from: call.n, recorded, called })));
        }
        self.emit_step(i, StepEvent::CallRecorded(Box::new(call.clone())));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(n: u32, name: &str) -> RecordedCall {
        RecordedCall { n, name: name.into(), ..RecordedCall::default() }
    }

    #[test]
    fn only_the_successor_is_new() {
        let mut calls = StepCalls::default();
        assert_eq!(calls.place(&call(0, "a")), Successor::Stale);
        assert_eq!(calls.place(&call(2, "a")), Successor::Stale);
        for n in 1..=3 {
            assert_eq!(calls.place(&call(n, "a")), Successor::Next);
            calls.push(call(n, "a"));
        }
        assert_eq!((calls.place(&call(2, "a")), calls.place(&call(2, "b"))), (Successor::Stale, Successor::Other));
        calls.discard(2);
        assert_eq!((calls.recorded().len(), calls.bytes), (1, 1));
        assert_eq!(calls.place(&call(2, "b")), Successor::Next);
    }
}

//! Recorded calls of a step, and what came by callback, as the state keeps them.

use std::collections::BTreeSet;

use goalmill_common::call::{LeftOutCalls, RecordedCall};
use goalmill_common::event::{CallbackReceived, StepEvent};
use goalmill_common::json::Json;
use goalmill_common::number::to_usize;

/// The recorded calls of one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StepCalls {
    /// The call `n` stands at `n - 1`.
    recorded: Vec<RecordedCall>,
    bytes: usize,
    /// How many were recorded when an attempt began, the most of all attempts.
    begun_with: usize,
    /// Numbers of the calls that waited in vain: nobody decided in time, or their plan did not complete.
    in_vain: BTreeSet<u32>,
}

impl StepCalls {
    /// The calls that a step of a fork begins with.
    pub(crate) fn kept(recorded: Vec<RecordedCall>) -> Self {
        let bytes = recorded.iter().map(RecordedCall::bytes).sum();
        Self { recorded, bytes, ..Self::default() }
    }

    pub(crate) fn fold(&mut self, event: &StepEvent) {
        if let StepEvent::CallRecorded(call) = event {
            self.push((**call).clone());
        } else if let StepEvent::Resumed(resumed) = event {
            let has_error = |outcome: &Json| outcome.value().get("error").is_some();
            if resumed.by_default || resumed.call.outcome.as_ref().is_some_and(has_error) {
                self.in_vain.insert(resumed.call.n);
            }
            self.push(resumed.call.clone());
        } else if let StepEvent::CallsDiscarded(discarded) = event {
            self.discard(discarded.from, discarded.called.is_none());
        } else if let StepEvent::Queued(_) = event {
            self.begin_attempt();
        } else if event.drops_calls() {
            *self = Self::default();
        }
    }

    /// Bytes of the recorded calls.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The recorded calls, by their numbers from 1.
    pub(crate) fn recorded(&self) -> &[RecordedCall] {
        &self.recorded
    }

    /// The calls with which another plan may begin: those that gave something, without cost.
    pub(crate) fn paid(&self) -> impl Iterator<Item = RecordedCall> {
        let mut left_out = LeftOutCalls::default();
        let gave = self.recorded.iter().filter(move |call| {
            let gives = call.error.is_none() && !self.in_vain.contains(&call.n);
            if !gives {
                left_out.add(call);
            }
            gives && !left_out.contain(call)
        });
        gave.map(|call| RecordedCall { cost: 0.0, usage: None, ..call.clone() })
    }

    /// The recorded call of this number.
    pub(crate) fn get(&self, n: u32) -> Option<&RecordedCall> {
        self.recorded.get(to_usize(n).wrapping_sub(1))
    }

    fn push(&mut self, call: RecordedCall) {
        self.bytes = self.bytes.saturating_add(call.bytes());
        self.recorded.push(call);
    }

    /// Drops the call `from` and all later ones.
    ///
    /// - `is_refused`: the outputs that they led to were refused, so that all of them are new again.
    fn discard(&mut self, from: u32, is_refused: bool) {
        self.recorded.truncate(to_usize(from).saturating_sub(1));
        self.bytes = self.recorded.iter().map(RecordedCall::bytes).sum();
        self.in_vain.retain(|n| *n < from);
        if is_refused {
            self.begun_with = 0;
        }
    }

    /// An attempt begins.
    fn begin_attempt(&mut self) {
        self.begun_with = self.begun_with.max(self.recorded.len());
    }

    /// Whether the attempt has recorded a call that no attempt before it had. A call that replaces another one is none, so
    /// that losses are counted in the end.
    pub(crate) fn has_progress(&self) -> bool {
        self.recorded.len() > self.begun_with
    }
}

/// What becomes of a reported call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Successor {
    /// It is the next one.
    Next,
    /// It has the number of a call with another name or other inputs.
    Other,
    /// It is recorded already, or one before it is missing.
    Stale,
}

impl StepCalls {
    pub(crate) fn place(&self, call: &RecordedCall) -> Successor {
        match self.get(call.n) {
            Some(known) if !known.is_same(&call.name, call.inputs.as_deref()) => Successor::Other,
            Some(_) => Successor::Stale,
            None if to_usize(call.n) == self.recorded.len() + 1 => Successor::Next,
            None => Successor::Stale,
        }
    }
}

/// What came by callback.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReceivedCallback {
    attempt: u32,
    /// Of its report.
    digest: String,
}

impl ReceivedCallback {
    pub(crate) fn new(attempt: u32, received: &CallbackReceived) -> Self {
        Self { attempt, digest: received.digest.clone() }
    }

    /// The digest of the report for this attempt.
    pub(crate) fn digest(&self, attempt: u32) -> Option<&str> {
        (self.attempt == attempt).then_some(self.digest.as_str())
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
        calls.discard(2, false);
        assert_eq!((calls.recorded().len(), calls.bytes()), (1, 1));
        assert_eq!(calls.place(&call(2, "b")), Successor::Next);
    }

    #[test]
    fn progress_is_a_call_that_no_attempt_had() {
        let mut calls = StepCalls::default();
        assert!(!calls.has_progress());
        calls.push(call(1, "a"));
        assert!(calls.has_progress());
        calls.begin_attempt();
        assert!(!calls.has_progress());
        calls.discard(1, false);
        calls.push(call(1, "b"));
        assert!(!calls.has_progress(), "it replaces another one");
        calls.push(call(2, "b"));
        assert!(calls.has_progress());
        calls.begin_attempt();
        calls.discard(1, true);
        calls.push(call(1, "a"));
        assert!(calls.has_progress(), "what was refused is made again");
    }
}

//! Recorded calls of a step, as the state keeps them.

use goalmill_common::call::RecordedCall;
use goalmill_common::number::to_usize;

/// The recorded calls of one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StepCalls {
    /// The call `n` stands at `n - 1`.
    pub(crate) recorded: Vec<RecordedCall>,
    pub(crate) bytes: usize,
}

impl StepCalls {
    pub(crate) fn recorded(&self) -> &[RecordedCall] {
        &self.recorded
    }

    pub(crate) fn push(&mut self, call: RecordedCall) {
        self.bytes = self.bytes.saturating_add(call.bytes());
        self.recorded.push(call);
    }

    pub(crate) fn discard(&mut self, from: u32) {
        self.recorded.truncate(to_usize(from).saturating_sub(1));
        self.bytes = self.recorded.iter().map(RecordedCall::bytes).sum();
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
        let at = to_usize(call.n);
        match self.recorded.get(at.wrapping_sub(1)) {
            Some(known) if !known.is_same(&call.name, call.inputs.as_deref()) => Successor::Other,
            Some(_) => Successor::Stale,
            None if at == self.recorded.len() + 1 => Successor::Next,
            None => Successor::Stale,
        }
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

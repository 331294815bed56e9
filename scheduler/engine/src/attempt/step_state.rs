//! The state of one step.

use goalmill_common::call::{CallWaitKind, RecordedCall, SuspendedCall};
use goalmill_common::event::{HookAsked, SkipCause, StepEvent, StepSuspended};
use goalmill_common::failure::Failure;
use goalmill_common::id::WorkerId;
use goalmill_common::json::Json;
use goalmill_common::report::SuggestedAdjustment;
use goalmill_common::status::StepStatus;

use crate::budget::reservations::CallGrant;
use crate::calls::recorded_calls::StepCalls;
use crate::people::step_hooks::StepHooks;

/// The state of one step. Kept small: rarely used fields are in `details`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepState {
    pub(crate) status: StepStatus,
    /// Whether the step uses its fallback.
    pub(crate) fallback: bool,
    /// Whether its outputs are incomplete.
    pub(crate) partial: bool,
    /// The last attempt; 0 before the first.
    pub(crate) attempt: u32,
    /// Failed attempts since the last fallback.
    pub(crate) failures: u32,
    pub(crate) lost: u32,
    /// How often a revision made other work of it, once it had been sent.
    pub(crate) edition: u32,
    /// Dependencies that are not final.
    pub(crate) open: u32,
    /// Dependencies that are satisfied.
    pub(crate) met: u32,
    /// The timer of the status, Unix milliseconds; 0 for none.
    pub(crate) due_ms: u64,
    pub(crate) queued_ms: u64,
    /// The number of the event that first sent it, or ran it in the engine; 0 before.
    pub(crate) sent: u64,
    /// The number of the event that first ended it; 0 before.
    pub(crate) ended: u64,
    pub(crate) started_ms: u64,
    pub(crate) finished_ms: u64,
    pub(crate) worker: Option<WorkerId>,
    pub(crate) outputs: Option<Json>,
    pub(crate) details: Option<Box<StepDetails>>,
}

/// Fields that few steps need.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StepDetails {
    /// The failure of the last failed attempt.
    pub(crate) failure: Option<Failure>,
    /// Whether an attempt of this iteration may have done its work, though it did not complete.
    pub(crate) may_have_acted: bool,
    /// Why it was skipped, blocked or cancelled.
    pub(crate) reason: String,
    pub(crate) cause: Option<SkipCause>,
    pub(crate) progress: Option<f64>,
    pub(crate) message: Option<String>,
    /// The question to a person.
    pub(crate) question: Option<String>,
    /// The answer of a person.
    pub(crate) answer: Option<Json>,
    /// The `adjustments` of its report.
    pub(crate) adjustments: Option<Json>,
    /// What is missing in its outputs.
    pub(crate) errors: Vec<Failure>,
    /// What its agent would change.
    pub(crate) suggested: Vec<SuggestedAdjustment>,
    /// Its outputs are cached under this key.
    pub(crate) cache_key: Option<String>,
    /// What the hooks say about it.
    pub(crate) hooks: StepHooks,
    /// Its recorded calls, until it ends or changes.
    pub(crate) calls: StepCalls,
    /// What the calls of the attempt in flight, or the plan of a call, may still use up.
    pub(crate) grant: Option<CallGrant>,
    /// The iterations that are done, and the outputs of the last one.
    pub(crate) iterated: Option<(u32, Json)>,
    /// The name and key of the event that it waits for.
    pub(crate) awaited_event: Option<Box<(String, String)>>,
    /// The attempt of the last callback, and the digest of its report.
    pub(crate) callback: Option<Box<(u32, String)>>,
    /// Since when its agents ask to wait, one attempt after the other.
    pub(crate) told_to_wait: Option<ToldToWait>,
}

/// A step whose agents ask to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ToldToWait {
    /// The first time, Unix milliseconds.
    pub(crate) since_ms: u64,
    /// How often.
    pub(crate) times: u32,
}

impl StepState {
    pub(crate) fn new(dependencies: u32) -> Self {
        Self {
            status: StepStatus::Pending,
            fallback: false,
            edition: 0,
            partial: false,
            attempt: 0,
            failures: 0,
            lost: 0,
            open: dependencies,
            met: 0,
            due_ms: 0,
            queued_ms: 0,
            sent: 0,
            ended: 0,
            started_ms: 0,
            finished_ms: 0,
            worker: None,
            outputs: None,
            details: None,
        }
    }

    /// The number of the current iteration, from 1.
    pub(crate) fn iteration(&self) -> u32 {
        self.details.as_ref().and_then(|details| details.iterated.as_ref()).map_or(0, |(done, _)| *done) + 1
    }

    pub(crate) fn details(&mut self) -> &mut StepDetails {
        self.details.get_or_insert_default()
    }

    /// Forgets what belongs to the status that the step leaves: its timer, reason, cause and question.
    pub(crate) fn leave_status(&mut self) {
        self.due_ms = 0;
        if let Some(details) = &mut self.details {
            details.reason.clear();
            (details.cause, details.question) = (None, None);
        }
    }

    /// Since when its agents ask to wait.
    pub(crate) fn told_to_wait(&self) -> Option<ToldToWait> {
        self.details.as_ref().and_then(|details| details.told_to_wait)
    }

    /// Whether a revision passes the step over.
    pub(crate) fn is_left_out(&self) -> bool {
        self.status == StepStatus::Skipped && self.cause() == Some(SkipCause::Revision)
    }

    /// Whether an attempt of this iteration may have done its work, though it did not complete.
    pub(crate) fn may_have_acted(&self) -> bool {
        self.details.as_ref().is_some_and(|details| details.may_have_acted)
    }

    /// Why it was skipped.
    pub(crate) fn cause(&self) -> Option<SkipCause> {
        self.details.as_ref().and_then(|details| details.cause)
    }

    /// What the hooks say about it; `None` if they were never asked.
    pub(crate) fn hooks(&self) -> Option<&StepHooks> {
        self.details.as_ref().map(|details| &details.hooks)
    }

    /// The open question to the hooks.
    pub(crate) fn asked_hooks(&self) -> Option<&HookAsked> {
        self.hooks().and_then(StepHooks::asked)
    }

    pub(crate) fn clear_hooks(&mut self) {
        if let Some(details) = &mut self.details {
            details.hooks = StepHooks::default();
        }
    }

    /// Folds what an event does to its recorded calls.
    pub(crate) fn fold_calls(&mut self, event: &StepEvent) {
        if let StepEvent::CallRecorded(call) = event {
            // It made progress.
            self.details().told_to_wait = None;
            self.details().calls.push((**call).clone());
        } else if let StepEvent::Resumed(resumed) = event {
            self.details().calls.push(resumed.call.clone());
        } else if let StepEvent::CallsDiscarded(discarded) = event {
            self.details().calls.discard(discarded.from, discarded.called.is_none());
        } else if let StepEvent::Queued(_) = event {
            if let Some(details) = &mut self.details {
                details.calls.begin_attempt();
            }
        } else if event.drops_calls() {
            self.clear_calls();
        }
    }

    /// Folds the wait of a call: it is a question, or a reason to agree or refuse.
    pub(crate) fn fold_suspended(&mut self, suspended: &StepSuspended) {
        (self.due_ms, self.worker) = (suspended.due_ms, None);
        if suspended.call.wait.kind == CallWaitKind::Callback {
            return;
        }
        let (details, wait) = (self.details(), &suspended.call.wait);
        details.calls.suspend(suspended);
        match wait.kind {
            CallWaitKind::Approval | CallWaitKind::Plan | CallWaitKind::Budget | CallWaitKind::Callback => {
                details.reason.clone_from(&wait.text);
            }
            CallWaitKind::Answer => details.question = Some(wait.text.clone()),
        }
    }

    /// Forgets its recorded calls, and what one of them waits for: it has ended, or changes.
    pub(crate) fn clear_calls(&mut self) {
        if let Some(details) = &mut self.details
            && std::mem::take(&mut details.calls).suspended().is_some()
        {
            details.question = None;
        }
    }

    /// Lost workers that count against the step if the worker of this attempt is lost: the attempt counts only if it
    /// recorded no new call.
    pub(crate) fn losses(&self) -> u32 {
        let has_progress = self.details.as_ref().is_some_and(|details| details.calls.has_progress());
        self.lost.saturating_add(u32::from(!has_progress))
    }

    /// Its recorded calls, by their numbers from 1.
    pub(crate) fn calls(&self) -> &[RecordedCall] {
        self.details.as_ref().map_or(&[], |details| details.calls.recorded())
    }

    /// Its recorded call of this number.
    pub(crate) fn recorded_call(&self, n: u32) -> Option<&RecordedCall> {
        self.calls().get(goalmill_common::number::to_usize(n).wrapping_sub(1))
    }

    /// Bytes of its recorded calls.
    pub(crate) fn calls_bytes(&self) -> usize {
        self.details.as_ref().map_or(0, |details| details.calls.bytes())
    }

    /// The call that waits.
    pub(crate) fn suspended(&self) -> Option<&SuspendedCall> {
        self.details.as_ref().and_then(|details| details.calls.suspended())
    }

    /// What a call of the step waits for, if no person decides about it.
    pub(crate) fn awaited_by_call(&self) -> Option<&str> {
        let wait = &self.suspended()?.wait;
        (!wait.kind.is_for_person()).then_some(wait.text.as_str())
    }

    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.details.as_ref().and_then(|details| details.failure.as_ref())
    }

    /// What is missing in its outputs, and why.
    pub(crate) fn errors(&self) -> &[Failure] {
        self.details.as_ref().map_or(&[], |details| &details.errors)
    }

    pub(crate) fn reason(&self) -> &str {
        self.details.as_ref().map_or("", |details| &details.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_stays_small() {
        assert!(size_of::<StepState>() <= 128, "{} bytes", size_of::<StepState>());
    }
}

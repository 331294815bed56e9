//! The state of one step.

use std::mem;
use std::sync::LazyLock;

use goalmill_common::call::RecordedCall;
use goalmill_common::event::{SkipCause, StepEvent, StepProgress, StepQueued, StepRetrying};
use goalmill_common::failure::{Failure, FailureClass, TASK_MISSING};
use goalmill_common::id::WorkerId;
use goalmill_common::json::Json;
use goalmill_common::status::StepStatus;

use crate::attempt::step_result::StepResult;
use crate::attempt::step_run::{StepEnd, StepRun};
use crate::budget::reservations::CallGrant;
use crate::calls::recorded_calls::{ReceivedCallback, StepCalls};
use crate::graph::open_dependencies::OpenDependencies;
use crate::people::step_decisions::StepDecisions;
use crate::sub_plan::loop_iterations::Iterations;
use crate::wait::event_store::AwaitedEvent;

/// The state of one step: where it stands, and what outlives that. Kept small: what few steps need is in `details`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StepState {
    run: StepRun,
    dependencies: OpenDependencies,
    /// The last attempt; 0 before the first.
    attempt: u32,
    /// Failed attempts since the last fallback.
    failures: u32,
    lost: u32,
    /// How often a revision made other work of it, once it had been sent.
    edition: u32,
    /// Whether it uses its fallback.
    fallback: bool,
    /// Whether its outputs, or those of an iteration, are incomplete.
    partial: bool,
    /// When the last attempt was queued, Unix milliseconds; 0 before.
    queued_ms: u64,
    /// When it began, Unix milliseconds; 0 before.
    started_ms: u64,
    /// The worker of the last attempt.
    worker: Option<WorkerId>,
    /// The number of the event that first sent it, or ran it in the engine; 0 before.
    sent: u64,
    /// The number of the event that first ended it; 0 before.
    ended: u64,
    details: Option<Box<StepDetails>>,
}

/// What few steps need.
#[derive(Clone, Debug, Default, PartialEq)]
struct StepDetails {
    /// The failure of the last failed attempt.
    failure: Option<Failure>,
    /// Whether an attempt of this iteration may have done its work, though it did not complete.
    may_have_acted: bool,
    /// Since when its agents ask to wait, one attempt after the other.
    told_to_wait: Option<ToldToWait>,
    /// Share that the last attempt reported as done.
    progress: Option<f64>,
    message: Option<String>,
    /// Its outputs are cached under this key.
    cache_key: Option<String>,
    /// Its recorded calls, until it ends or changes.
    calls: StepCalls,
    callback: Option<ReceivedCallback>,
    decisions: StepDecisions,
    /// What the calls of the attempt in flight, or the plan of a call, may still use up.
    grant: Option<CallGrant>,
    iterations: Iterations,
    /// The event that it waits for, or waited for last.
    awaited: Option<AwaitedEvent>,
}

/// A step whose agents ask to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ToldToWait {
    /// The first time, Unix milliseconds.
    pub(super) since_ms: u64,
    /// How often.
    pub(super) times: u32,
}

impl ToldToWait {
    /// They ask once more.
    pub(crate) fn again(before: Option<Self>, now_ms: u64) -> Self {
        let Self { since_ms, times } = before.unwrap_or(Self { since_ms: now_ms, times: 0 });
        Self { since_ms, times: times.saturating_add(1) }
    }
}

/// The details of a step that needs none.
static NO_DETAILS: LazyLock<StepDetails> = LazyLock::new(StepDetails::default);

impl StepState {
    /// - `dependencies`: how many are open.
    pub(crate) fn new(dependencies: u32) -> Self {
        Self { dependencies: OpenDependencies::new(dependencies, 0), ..Self::default() }
    }

    /// Folds an event that [`crate::step_transition`] allows.
    ///
    /// - `seq`, `time_ms`: of the event.
    pub(crate) fn fold(&mut self, seq: u64, time_ms: u64, attempt: u32, event: &StepEvent) {
        if self.sent == 0 && attempt > 0 {
            self.sent = seq;
        }
        self.attempt = attempt;
        self.fold_attempt(time_ms, event);
        self.fold_rest(event);
        self.run = mem::take(&mut self.run).after(event, time_ms);
        if self.ended == 0 && self.status().is_final() {
            self.ended = seq;
        }
    }

    /// Folds what an event does to its attempts.
    fn fold_attempt(&mut self, time_ms: u64, event: &StepEvent) {
        // What was handed back or recalled while it ran may be done.
        let is_cut = event.abandons_attempt() || matches!(event, StepEvent::Released(_) | StepEvent::Recalled(_));
        if event.failure().is_some_and(Failure::may_be_done) || is_cut && self.started_ms > 0 {
            self.details_mut().may_have_acted = true;
        }
        if let StepEvent::Queued(queued) = event {
            self.queue(time_ms, queued);
        } else if let StepEvent::Started(started) = event {
            self.worker.clone_from(&started.worker);
            self.started_ms = started.started_ms;
        } else if let StepEvent::Progress(progress) = event {
            self.note_progress(progress);
        } else if let StepEvent::CallRecorded(_) = event {
            // It made progress.
            self.details_mut().told_to_wait = None;
        } else if let StepEvent::Suspended(_) = event {
            self.worker = None;
        } else if let StepEvent::Completed(completed) = event {
            self.partial |= completed.partial;
        } else if let StepEvent::Retrying(retrying) = event {
            self.retry(time_ms, retrying);
        } else if let StepEvent::Decomposed(_) = event {
            self.begin_again();
        } else if let StepEvent::Iterated(iterated) = event {
            self.begin_next_work();
            self.partial |= iterated.partial;
        } else if let StepEvent::Undone(_) = event {
            self.begin_next_work();
        } else if let StepEvent::Failed(failed) = event {
            self.details_mut().failure = Some(failed.failure.clone());
        } else if let StepEvent::Skipped(skipped) = event
            && let Some(failure) = &skipped.failure
        {
            self.details_mut().failure = Some(failure.clone());
        }
    }

    /// Folds what an event does to the state of other concepts.
    fn fold_rest(&mut self, event: &StepEvent) {
        if let StepEvent::CallbackReceived(received) = event {
            let callback = ReceivedCallback::new(self.attempt, received);
            self.details_mut().callback = Some(callback);
        } else if let StepEvent::WaitStarted(started) = event
            && !started.event.is_empty()
        {
            self.details_mut().awaited = Some(AwaitedEvent::new(started));
        } else if matches!(event, StepEvent::Answered(_) | StepEvent::HookDecided(_) | StepEvent::Resumed(_)) {
            self.details.get_or_insert_default();
        }
        let Some(details) = &mut self.details else { return };
        details.calls.fold(event);
        if matches!(event, StepEvent::CallRecorded(_)) && details.calls.has_progress() {
            self.lost = 0;
        }
        details.decisions.fold(event, self.run.hooks());
        details.iterations.fold(event);
    }

    fn queue(&mut self, time_ms: u64, queued: &StepQueued) {
        self.queued_ms = time_ms;
        (self.started_ms, self.worker) = (0, None);
        if queued.cache_key.is_some() {
            self.details_mut().cache_key.clone_from(&queued.cache_key);
        }
        if let Some(details) = &mut self.details {
            (details.progress, details.message) = (None, None);
        }
    }

    fn note_progress(&mut self, progress: &StepProgress) {
        let details = self.details_mut();
        details.progress = progress.progress.or(details.progress);
        details.message = progress.message.clone().or(details.message.take());
    }

    fn retry(&mut self, time_ms: u64, retrying: &StepRetrying) {
        let losses = self.losses();
        let details = self.details.get_or_insert_default();
        details.failure = Some(retrying.failure.clone());
        let wait = retrying.told_to_wait.then(|| ToldToWait::again(details.told_to_wait, time_ms));
        details.told_to_wait = wait;
        if retrying.told_to_wait {
            // It uses no retry.
        } else if retrying.failure.class != FailureClass::Lost {
            self.failures += 1;
        } else if retrying.failure.code != TASK_MISSING {
            self.lost = losses;
        }
        if retrying.fallback {
            (self.fallback, self.failures) = (true, 0);
        }
    }

    /// The next attempt has all retries again.
    fn begin_again(&mut self) {
        (self.failures, self.lost, self.fallback) = (0, 0, false);
        if let Some(details) = &mut self.details {
            details.told_to_wait = None;
        }
    }

    /// The next iteration, or the next piece of work to undo, begins as if there had been no attempt.
    fn begin_next_work(&mut self) {
        self.begin_again();
        let details = self.details_mut();
        (details.failure, details.may_have_acted) = (None, false);
    }

    fn details(&self) -> &StepDetails {
        self.details.as_deref().unwrap_or(&NO_DETAILS)
    }

    fn details_mut(&mut self) -> &mut StepDetails {
        self.details.get_or_insert_default()
    }
}

/// What the end of the plan, a fork or a revision makes of a step.
impl StepState {
    /// The plan ends.
    pub(crate) fn cancel(&mut self, time_ms: u64) {
        self.run = StepRun::cancelled("", time_ms);
    }

    /// The plan is a fork, and keeps what the step gave.
    pub(crate) fn keep(&mut self, result: StepResult, is_partial: bool, time_ms: u64) {
        self.run = StepRun::Ended { finished_ms: time_ms, how: StepEnd::Completed(result) };
        self.partial = is_partial;
    }

    /// The plan is a fork whose step begins with these calls.
    pub(crate) fn keep_calls(&mut self, calls: Vec<RecordedCall>) {
        self.details_mut().calls = StepCalls::kept(calls);
    }

    /// A blocked step may start.
    pub(crate) fn unblock(&mut self) {
        if let StepRun::Blocked { .. } = self.run {
            self.run = StepRun::Pending;
        }
    }

    /// A revision changes the step: another task makes other calls.
    ///
    /// - `is_other_work`: whether its attempts are to do other work.
    pub(crate) fn change(&mut self, is_other_work: bool) {
        self.edition += u32::from(is_other_work);
        self.run.drop_call();
        if let Some(details) = &mut self.details {
            details.calls = StepCalls::default();
        }
    }

    /// A revision lets the step begin again; what is known of its attempts stays.
    pub(crate) fn restart(&mut self) {
        let Self { attempt, edition, queued_ms, sent, .. } = *self;
        let details = self.details.take().filter(|details| details.failure.is_some() || details.may_have_acted);
        let details = details.map(|details| {
            let StepDetails { failure, may_have_acted, .. } = *details;
            Box::new(StepDetails { failure, may_have_acted, ..StepDetails::default() })
        });
        *self = Self { attempt, edition, queued_ms, sent, details, ..Self::default() };
    }

    /// A revision passes the step over. Older logs have no event for it.
    pub(crate) fn pass_over(&mut self, time_ms: u64) {
        if !self.is_left_out() {
            self.run = StepRun::skipped(SkipCause::Revision, "skipped by a revision", time_ms);
        }
    }

    /// A revision removes the step; what it gave stays.
    pub(crate) fn remove(&mut self, time_ms: u64) {
        let how = StepEnd::Revised(self.run.result().cloned());
        self.run = StepRun::Ended { finished_ms: time_ms, how };
    }

    pub(crate) fn dependencies_mut(&mut self) -> &mut OpenDependencies {
        &mut self.dependencies
    }

    /// Changes the grant, and returns the one before.
    pub(crate) fn set_grant(&mut self, grant: Option<CallGrant>) -> Option<CallGrant> {
        if self.details.is_none() && grant.is_none() {
            return None;
        }
        mem::replace(&mut self.details_mut().grant, grant)
    }
}

impl StepState {
    pub(crate) fn status(&self) -> StepStatus {
        self.run.status()
    }

    pub(crate) fn run(&self) -> &StepRun {
        &self.run
    }

    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.run.due_ms()
    }

    pub(crate) fn dependencies(&self) -> OpenDependencies {
        self.dependencies
    }

    pub(crate) fn attempt(&self) -> u32 {
        self.attempt
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Lost workers that count against the step if the worker of this attempt is lost: those since its last new call.
    pub(crate) fn losses(&self) -> u32 {
        self.lost.saturating_add(u32::from(!self.calls().has_progress()))
    }

    pub(crate) fn edition(&self) -> u32 {
        self.edition
    }

    pub(crate) fn has_fallen_back(&self) -> bool {
        self.fallback
    }

    pub(crate) fn is_partial(&self) -> bool {
        self.partial
    }

    pub(crate) fn queued_ms(&self) -> u64 {
        self.queued_ms
    }

    pub(crate) fn started_ms(&self) -> u64 {
        self.started_ms
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }

    pub(crate) fn worker(&self) -> Option<&WorkerId> {
        self.worker.as_ref()
    }

    pub(crate) fn outputs(&self) -> Option<&Json> {
        self.run.result().map(StepResult::outputs)
    }

    /// What is missing in its outputs, and why.
    pub(crate) fn errors(&self) -> &[Failure] {
        self.run.result().map_or(&[], StepResult::errors)
    }

    /// Whether a revision passes the step over.
    pub(crate) fn is_left_out(&self) -> bool {
        self.run.cause() == Some(SkipCause::Revision)
    }

    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.details().failure.as_ref()
    }

    pub(crate) fn may_have_acted(&self) -> bool {
        self.details().may_have_acted
    }

    pub(crate) fn told_to_wait(&self) -> Option<ToldToWait> {
        self.details().told_to_wait
    }

    pub(crate) fn progress(&self) -> Option<f64> {
        self.details().progress
    }

    pub(crate) fn message(&self) -> Option<&str> {
        self.details().message.as_deref()
    }

    pub(crate) fn cache_key(&self) -> Option<&str> {
        self.details().cache_key.as_deref()
    }

    pub(crate) fn calls(&self) -> &StepCalls {
        &self.details().calls
    }

    pub(crate) fn callback(&self) -> Option<&ReceivedCallback> {
        self.details().callback.as_ref()
    }

    pub(crate) fn decisions(&self) -> &StepDecisions {
        &self.details().decisions
    }

    pub(crate) fn grant(&self) -> Option<&CallGrant> {
        self.details().grant.as_ref()
    }

    pub(crate) fn iterations(&self) -> &Iterations {
        &self.details().iterations
    }

    pub(crate) fn awaited(&self) -> Option<&AwaitedEvent> {
        self.details().awaited.as_ref()
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

//! The failure of a step, and its failure policy.

use goalmill_common::event::{SkipCause, StepEvent, StepFailed, StepSkipped};
use goalmill_common::failure::Failure;
use goalmill_common::plan::OnFailure;
use goalmill_common::revision::Trigger;

use crate::attempt::open_failures;
use crate::attempt::spent::Spent;
use crate::cleanup::{done_work, plan_end, undo};
use crate::graph::StepIndex;
use crate::render;
use crate::render::payloads;
use crate::revise::revising::trigger_of;
use crate::revise::trigger;
use crate::turn::Turn;

/// Fails or skips a step by its failure policy. The caller propagates.
pub(crate) fn give_up(turn: &mut Turn<'_>, i: StepIndex, failure: Failure, spent: Spent) {
    if undo::fail_undo(turn, i, &failure, spent) {
        return;
    }
    // An undo step fails for what it could not undo first.
    let failure = done_work::failed_undos(turn.state, i, 1).unwrap_or(failure);
    fail_step(turn, i, failure, spent);
}

/// The same for an undo step that is through with everything.
pub(crate) fn fail_step(turn: &mut Turn<'_>, i: StepIndex, failure: Failure, spent: Spent) {
    let on_failure = open_failures::failure_policy(turn.state, i, failure.class);
    let Spent { cost, tokens, split: usage, duration_ms } = spent;
    if on_failure == OnFailure::Skip {
        let reason = format!("it failed: {}", failure.message);
        let cause = SkipCause::FailurePolicy;
        let skipped = StepSkipped { cause, reason, failure: Some(failure), cost, tokens, usage, duration_ms };
        return turn.emit_step(i, StepEvent::Skipped(Box::new(skipped)));
    }
    let failed = StepFailed { failure: failure.clone(), cost, tokens, usage, duration_ms };
    turn.emit_step(i, StepEvent::Failed(Box::new(failed)));
    // A failure supersedes an optional replan; a required one defers it.
    if on_failure == OnFailure::Abort || !is_replan_required(turn) {
        apply_failure_policy(turn, i, failure);
    }
}

/// Applies the failure policy of a failed step to the plan.
pub(crate) fn apply_failure_policy(turn: &mut Turn<'_>, i: StepIndex, failure: Failure) {
    match open_failures::failure_policy(turn.state, i, failure.class) {
        OnFailure::Abort => plan_end::fail_plan(turn, open_failures::plan_failure(&turn.id_of(i), failure)),
        OnFailure::Skip | OnFailure::Continue => {}
        OnFailure::Replan => trigger::replan(turn, trigger_of(&failure), Some(i), failure.message),
        OnFailure::AskUser => trigger::replan(turn, Trigger::AskUser, Some(i), failure.message),
    }
}

/// Whether the plan is replanned and cannot continue without a revision.
pub(crate) fn is_replan_required(turn: &Turn<'_>) -> bool {
    turn.state.waiting.replan().is_some_and(|replan| !open_failures::is_replan_optional(replan))
}

/// Ends a decision that could not be made: it fails the step, or waits for payloads.
pub(crate) fn put_off(turn: &mut Turn<'_>, i: StepIndex, why: render::Unrendered) {
    match why {
        render::Unrendered::Failed(failure) => give_up(turn, i, failure, Spent::default()),
        render::Unrendered::Needs(payloads) => payloads::ask_payloads(turn, Some(i), payloads),
    }
}

//! The transition tables: which event is allowed in which status, and the next status. Exhaustive: a new status or
//! event is a compile error here.

use goalmill_common::config::HookPoint;
use goalmill_common::event::{HookDecision, PlanEvent, SkipCause, StepEvent};
use goalmill_common::id::StepId;
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::PlanState;
use crate::graph::StepIndex;
use crate::graph::open_dependencies::JoinState;

/// Returns the next status of a step; `None` when `event` is not allowed in `status`.
pub fn step_transition(status: StepStatus, event: &StepEvent) -> Option<StepStatus> {
    use StepStatus as S;
    match event {
        // The step is not there yet.
        StepEvent::Added(_) => None,
        // They take effect with the `plan_revised` that follows.
        StepEvent::Modified(_) => is_changeable(status).then_some(status),
        // A completed step only if it can be undone.
        StepEvent::Removed(_) => (is_changeable(status) || status == S::Completed).then_some(status),
        StepEvent::Ready => from(status, &[S::Pending, S::Retrying], S::Ready),
        StepEvent::Blocked(_) => from(status, &[S::Pending], S::Blocked),
        StepEvent::ApprovalRequested(_) => from(status, &[S::Pending], S::AwaitingApproval),
        StepEvent::HookAsked(asked) => match asked.point {
            // Results of the cache and of steps that the engine runs have no attempt that is running.
            HookPoint::OnStepComplete => from(status, &[S::Ready, S::Running, S::Waiting], S::AwaitingApproval),
            HookPoint::OnStepStart => from(status, &[S::Pending, S::AwaitingApproval], S::AwaitingApproval),
            HookPoint::OnPlanGenerated | HookPoint::OnPlanApproved | HookPoint::OnRevisionNeeded => None,
        },
        StepEvent::HookDecided(decided) => {
            let goes_on = decided.point == HookPoint::OnStepStart && decided.decision != HookDecision::Hold;
            let next = if goes_on { S::Pending } else { S::AwaitingApproval };
            from(status, &[S::AwaitingApproval], next)
        }
        StepEvent::Approved(_) => from(status, &[S::AwaitingApproval], S::Ready),
        StepEvent::QuestionAsked(_) => from(status, &[S::Pending], S::AwaitingApproval),
        StepEvent::Answered(_) => from(status, &[S::AwaitingApproval], S::Pending),
        StepEvent::Recalled(_) => from(status, &[S::Ready, S::Queued, S::Running, S::Retrying], S::Pending),
        StepEvent::Decomposed(_) => from(status, &[S::Running], S::Ready),
        StepEvent::Expanded(_) => from(status, &[S::Ready], S::Ready),
        StepEvent::Queued(_) => from(status, &[S::Ready], S::Queued),
        StepEvent::Started(_) => from(status, &[S::Queued], S::Running),
        StepEvent::Progress(_) => from(status, &[S::Running], S::Running),
        StepEvent::Retrying(_) => from(status, &[S::Queued, S::Running, S::Waiting, S::AwaitingApproval], S::Retrying),
        StepEvent::Iterated(_) => from(status, &[S::Running, S::Waiting, S::AwaitingApproval], S::Retrying),
        StepEvent::Undone(_) => unless_final(status, S::Pending),
        StepEvent::Measured(_) | StepEvent::CallRecorded(_) => from(status, &[S::Running], S::Running),
        StepEvent::CallsDiscarded(_) => from(status, &[S::Running, S::Waiting, S::AwaitingApproval], status),
        StepEvent::Suspended(suspended) => from(status, &[S::Running], suspended.call.wait.kind.status()),
        StepEvent::CallbackReceived(_) => from(status, &[S::Running, S::Waiting], status),
        StepEvent::Resumed(_) => from(status, &[S::AwaitingApproval, S::Retrying], S::Ready),
        StepEvent::WaitStarted(_) => from(status, &[S::Ready], S::Waiting),
        StepEvent::Released(_) => from(status, &[S::Queued, S::Running], S::Ready),
        // The last iteration of a loop has ended, and its condition is not true.
        StepEvent::Failed(_) => (may_fail(status) || status == S::Retrying).then_some(S::Failed),
        StepEvent::Completed(_) => unless_final(status, S::Completed),
        // A revision may pass over a step that failed.
        StepEvent::Skipped(skipped) if skipped.cause == SkipCause::Revision => {
            is_changeable(status).then_some(S::Skipped)
        }
        StepEvent::Skipped(_) => unless_final(status, S::Skipped),
        StepEvent::Cancelled(_) => unless_final(status, S::Cancelled),
    }
}

/// Whether a step has what an event needs besides the status of the step: a step starts only in a running plan, in a phase
/// that has begun, and when its join is satisfied.
pub(crate) fn has_what_it_needs(state: &PlanState, i: StepIndex, event: &StepEvent) -> bool {
    let may_start = || state.join_state(i) == JoinState::Met && state.is_phase_open(i);
    match event {
        StepEvent::Ready => state.steps[i].status() != StepStatus::Pending || may_start(),
        StepEvent::HookAsked(asked) => asked.point == HookPoint::OnStepComplete || may_start(),
        StepEvent::HookDecided(decided) => state.steps[i].run().hooks().is_some_and(|asked| asked.id == decided.id),
        StepEvent::ApprovalRequested(_) | StepEvent::QuestionAsked(_) => may_start(),
        StepEvent::Blocked(_) => state.join_state(i) == JoinState::Impossible,
        StepEvent::Expanded(_) => state.plan.step(i).for_each.is_some(),
        StepEvent::Queued(_) => state.status == PlanStatus::Running && state.is_free(i),
        // Logs of earlier builds undo an iteration twice that was sent again.
        StepEvent::Undone(_) => state.plan.step(i).undoes.is_some(),
        StepEvent::Added(_)
        | StepEvent::Modified(_)
        | StepEvent::Removed(_)
        | StepEvent::Approved(_)
        | StepEvent::Answered(_)
        | StepEvent::Recalled(_)
        | StepEvent::Decomposed(_)
        | StepEvent::Started(_)
        | StepEvent::Progress(_)
        | StepEvent::Measured(_)
        | StepEvent::CallRecorded(_)
        | StepEvent::CallsDiscarded(_)
        | StepEvent::WaitStarted(_)
        | StepEvent::Completed(_)
        | StepEvent::Suspended(_)
        | StepEvent::CallbackReceived(_)
        | StepEvent::Resumed(_)
        | StepEvent::Retrying(_)
        | StepEvent::Iterated(_)
        | StepEvent::Released(_)
        | StepEvent::Failed(_)
        | StepEvent::Skipped(_)
        | StepEvent::Cancelled(_) => true,
    }
}

/// Returns the next status of a plan; `None` when `event` is not allowed in `status`.
///
/// The first event, `goal_accepted`, creates the plan and is no transition.
pub fn plan_transition(status: PlanStatus, event: &PlanEvent) -> Option<PlanStatus> {
    use PlanStatus as S;
    let planning = || (status == S::Planning).then_some(S::Planning);
    let active = || matches!(status, S::Running | S::Replanning | S::Paused).then_some(status);
    let begun = || active().or((status == S::AwaitingApproval).then_some(status));
    match event {
        PlanEvent::GoalAccepted(_) => None,
        PlanEvent::PhaseAdded(_) | PlanEvent::Extended(_) => begun(),
        PlanEvent::RevisionProposed(_)
        | PlanEvent::RevisionRefused(_)
        | PlanEvent::QuestionAsked(_)
        | PlanEvent::QuestionAnswered(_) => (status == S::Replanning).then_some(status),
        PlanEvent::Revised(_) => begun().map(|status| if status == S::Replanning { S::Running } else { status }),
        PlanEvent::ModelAsked(_)
        | PlanEvent::ModelAnswered(_)
        | PlanEvent::ToolsCalled(_)
        | PlanEvent::FamilyGrew(_)
        | PlanEvent::EventReceived(_)
        | PlanEvent::EventTaken(_)
        | PlanEvent::Quarantined(_) => (!status.is_final()).then_some(status),
        PlanEvent::PlanningFailed(_) => matches!(status, S::Planning | S::Replanning).then_some(status),
        PlanEvent::PlanCreated(_) => planning(),
        PlanEvent::GoalChanged(_) => matches!(status, S::Planning | S::AwaitingApproval).then_some(status),
        PlanEvent::PlanValidated(_) => planning().map(|_| S::Running),
        PlanEvent::ApprovalRequested(_) => (status == S::Running).then_some(S::AwaitingApproval),
        PlanEvent::HookAsked(asked) => match asked.point {
            HookPoint::OnPlanGenerated => (status == S::Running).then_some(S::AwaitingApproval),
            HookPoint::OnPlanApproved => (status == S::AwaitingApproval).then_some(status),
            HookPoint::OnStepStart | HookPoint::OnStepComplete | HookPoint::OnRevisionNeeded => None,
        },
        PlanEvent::HookDecided(decided) => match decided.point {
            HookPoint::OnPlanGenerated => (status == S::AwaitingApproval).then_some(S::Running),
            HookPoint::OnPlanApproved => (status == S::AwaitingApproval).then_some(status),
            HookPoint::OnRevisionNeeded => (status == S::Replanning).then_some(status),
            HookPoint::OnStepStart | HookPoint::OnStepComplete => None,
        },
        PlanEvent::Approved(_) => (status == S::AwaitingApproval).then_some(S::Running),
        PlanEvent::Rejected(_) => (status == S::AwaitingApproval).then_some(S::Rejected),
        PlanEvent::PhaseStarted(_)
        | PlanEvent::PhaseCompleted(_)
        | PlanEvent::PhaseFailed(_)
        | PlanEvent::PhaseSkipped(_) => active(),
        PlanEvent::ConstraintChanged(_) | PlanEvent::CriteriaJudged(_) => active(),
        PlanEvent::JudgementRequested(_) => matches!(status, S::Running | S::Paused).then_some(status),
        PlanEvent::ReplanTriggered(_) => active().map(|_| S::Replanning),
        PlanEvent::CleanupStarted(_) | PlanEvent::Kept(_) => active().map(|_| S::Running),
        PlanEvent::InnerPlanKept(_) | PlanEvent::InnerPlanStopped(_) | PlanEvent::InnerPlanUndone(_) => active(),
        PlanEvent::Paused(_) => (status == S::Running).then_some(S::Paused),
        PlanEvent::Resumed(_) => matches!(status, S::Paused | S::Replanning).then_some(S::Running),
        PlanEvent::Completed(end) => {
            let fits = matches!(end.status, S::Completed | S::Partial);
            (matches!(status, S::Running | S::Paused) && fits).then_some(end.status)
        }
        PlanEvent::Failed(end) => (!status.is_final() && end.status == S::Failed).then_some(S::Failed),
        PlanEvent::Cancelled(end) => (!status.is_final() && end.status == S::Cancelled).then_some(S::Cancelled),
    }
}

/// Whether a step in this status may fail for good.
pub(crate) fn may_fail(status: StepStatus) -> bool {
    use StepStatus as S;
    matches!(status, S::Pending | S::Ready | S::AwaitingApproval | S::Waiting | S::Queued | S::Running)
}

fn from(status: StepStatus, allowed: &[StepStatus], to: StepStatus) -> Option<StepStatus> {
    allowed.contains(&status).then_some(to)
}

/// Whether a revision may change a step: completed steps stay as they are.
pub(crate) fn is_changeable(status: StepStatus) -> bool {
    !status.is_final() || matches!(status, StepStatus::Failed | StepStatus::Skipped)
}

fn unless_final(status: StepStatus, to: StepStatus) -> Option<StepStatus> {
    (!status.is_final()).then_some(to)
}

/// Why a log cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error("event {found} follows event {}: the log has a gap or is out of order", .expected - 1)]
    Gap { expected: u64, found: u64 },
    #[error("event {seq} comes before `goal_accepted`")]
    NotBegun { seq: u64 },
    #[error("event {seq} comes after the plan's end")]
    AfterEnd { seq: u64 },
    #[error("event {seq} names step `{step}`, which does not exist")]
    UnknownStep { seq: u64, step: StepId },
    #[error("event {seq} (`{event}`) cannot happen to a plan that is {status}")]
    PlanMove { seq: u64, event: &'static str, status: PlanStatus },
    #[error("event {seq} (`{event}`) cannot happen to step `{step}`, which is {status}")]
    StepMove { seq: u64, event: &'static str, step: StepId, status: StepStatus },
    #[error("event {seq} (`{event}`) is about attempt {found} of step `{step}`, not {expected}")]
    Attempt { seq: u64, event: &'static str, step: StepId, expected: u32, found: u32 },
    #[error("event {seq} (`{event}`) comes too early")]
    TooEarly { seq: u64, event: &'static str },
    #[error("event {seq} brings a plan that cannot run: {reason}")]
    BadPlan { seq: u64, reason: String },
}

#[cfg(test)]
mod tests {
    use goalmill_common::event::PlanEnded;

    use super::*;

    #[test]
    fn a_revision_ends_replanning_and_leaves_every_other_status() {
        let revised = PlanEvent::Revised(Box::default());
        assert_eq!(plan_transition(PlanStatus::Replanning, &revised), Some(PlanStatus::Running));
        for status in [PlanStatus::AwaitingApproval, PlanStatus::Running, PlanStatus::Paused] {
            assert_eq!(plan_transition(status, &revised), Some(status));
        }
    }

    #[test]
    fn a_plan_ends_only_as_its_event_says() {
        let wrong = PlanEvent::Completed(ended(PlanStatus::Failed));
        assert_eq!(plan_transition(PlanStatus::Running, &wrong), None);
        let partial = PlanEvent::Completed(ended(PlanStatus::Partial));
        assert_eq!(plan_transition(PlanStatus::Running, &partial), Some(PlanStatus::Partial));
        let wrong = PlanEvent::Failed(ended(PlanStatus::Cancelled));
        assert_eq!(plan_transition(PlanStatus::Running, &wrong), None);
    }

    fn ended(status: PlanStatus) -> Box<PlanEnded> {
        Box::new(PlanEnded { status, failure: None, reason: String::new(), cancelled: Vec::new() })
    }
}

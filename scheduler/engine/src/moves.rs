//! The move tables: which event may happen where, and where it leads. Total, so that a new status or event is a
//! compile error here.

use goalmill_common::event::{PlanEvent, StepEvent};
use goalmill_common::status::{PlanStatus, StepStatus};

/// Where `event` leads a step that stands at `status`; `None`: it cannot happen there.
pub fn step_move(status: StepStatus, event: &StepEvent) -> Option<StepStatus> {
    use StepStatus as S;
    match event {
        // Revisions make these; none is accepted here.
        StepEvent::Added(_) | StepEvent::Modified(_) | StepEvent::Removed(_) => None,
        StepEvent::Ready => from(status, &[S::Pending, S::Retrying], S::Ready),
        StepEvent::Blocked(_) => from(status, &[S::Pending], S::Blocked),
        StepEvent::ApprovalRequested(_) => from(status, &[S::Pending], S::AwaitingApproval),
        StepEvent::Approved(_) => from(status, &[S::AwaitingApproval], S::Ready),
        StepEvent::Queued(_) => from(status, &[S::Ready], S::Queued),
        StepEvent::Started(_) => from(status, &[S::Queued], S::Running),
        StepEvent::Progress(_) => from(status, &[S::Running], S::Running),
        StepEvent::Retrying(_) => from(status, &[S::Queued, S::Running], S::Retrying),
        StepEvent::Released(_) => from(status, &[S::Queued, S::Running], S::Ready),
        StepEvent::Failed(_) => from(
            status,
            &[S::Pending, S::Ready, S::AwaitingApproval, S::Queued, S::Running],
            S::Failed,
        ),
        StepEvent::Completed(_) => unless_final(status, S::Completed),
        StepEvent::Skipped(_) => unless_final(status, S::Skipped),
        StepEvent::Cancelled(_) => unless_final(status, S::Cancelled),
    }
}

/// Where `event` leads a plan that stands at `status`; `None`: it cannot happen there.
///
/// The first event, `goal_accepted`, is no move: before it there is no plan.
pub fn plan_move(status: PlanStatus, event: &PlanEvent) -> Option<PlanStatus> {
    use PlanStatus as S;
    let planning = || (status == S::Planning).then_some(S::Planning);
    let active = || matches!(status, S::Running | S::Replanning | S::Paused).then_some(status);
    match event {
        // A revision makes the last two; none is accepted here.
        PlanEvent::GoalAccepted(_) | PlanEvent::PhaseAdded(_) | PlanEvent::Revised(_) => None,
        PlanEvent::PlanningFailed(_) => {
            matches!(status, S::Planning | S::Replanning).then_some(status)
        }
        PlanEvent::PlanCreated(_) => planning(),
        PlanEvent::PlanValidated(_) => planning().map(|_| S::Running),
        PlanEvent::ApprovalRequested(_) => (status == S::Running).then_some(S::AwaitingApproval),
        PlanEvent::Approved(_) => (status == S::AwaitingApproval).then_some(S::Running),
        PlanEvent::Rejected(_) => (status == S::AwaitingApproval).then_some(S::Rejected),
        PlanEvent::PhaseStarted(_)
        | PlanEvent::PhaseCompleted(_)
        | PlanEvent::PhaseFailed(_)
        | PlanEvent::PhaseSkipped(_) => active(),
        PlanEvent::ReplanTriggered(_) => active().map(|_| S::Replanning),
        PlanEvent::Paused(_) => (status == S::Running).then_some(S::Paused),
        PlanEvent::Resumed(_) => matches!(status, S::Paused | S::Replanning).then_some(S::Running),
        PlanEvent::Completed(end) => {
            let fits = matches!(end.status, S::Completed | S::Partial);
            (matches!(status, S::Running | S::Paused) && fits).then_some(end.status)
        }
        PlanEvent::Failed(end) => {
            (!status.is_final() && end.status == S::Failed).then_some(S::Failed)
        }
        PlanEvent::Cancelled(end) => {
            (!status.is_final() && end.status == S::Cancelled).then_some(S::Cancelled)
        }
    }
}

fn from(status: StepStatus, allowed: &[StepStatus], to: StepStatus) -> Option<StepStatus> {
    allowed.contains(&status).then_some(to)
}

fn unless_final(status: StepStatus, to: StepStatus) -> Option<StepStatus> {
    (!status.is_final()).then_some(to)
}

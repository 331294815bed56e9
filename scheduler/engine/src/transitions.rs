//! The transition tables: which event is allowed in which status, and the next status. Exhaustive: a new status or
//! event is a compile error here.

use goalmill_common::config::HookPoint;
use goalmill_common::event::{HookDecision, PlanEvent, SkipCause, StepEvent};
use goalmill_common::status::{PlanStatus, StepStatus};

/// Returns the next status of a step; `None` when `event` is not allowed in `status`.
pub fn step_transition(status: StepStatus, event: &StepEvent) -> Option<StepStatus> {
    use StepStatus as S;
    match event {
        // The step is not there yet.
        StepEvent::Added(_) => None,
        // They take effect with the `plan_revised` that follows.
        StepEvent::Modified(_) | StepEvent::Removed(_) => is_changeable(status).then_some(status),
        StepEvent::Ready => from(status, &[S::Pending, S::Retrying], S::Ready),
        StepEvent::Blocked(_) => from(status, &[S::Pending], S::Blocked),
        StepEvent::ApprovalRequested(_) => from(status, &[S::Pending], S::AwaitingApproval),
        StepEvent::HookAsked(asked) => match asked.point {
            // Results of the cache and of steps that the engine runs have no attempt that is running.
            HookPoint::OnStepComplete => from(status, &[S::Ready, S::Running], S::AwaitingApproval),
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
        StepEvent::Recalled(_) => from(status, &[S::Queued, S::Running, S::Retrying], S::Pending),
        StepEvent::Decomposed(_) => from(status, &[S::Running], S::Ready),
        StepEvent::Queued(_) => from(status, &[S::Ready], S::Queued),
        StepEvent::Started(_) => from(status, &[S::Queued], S::Running),
        StepEvent::Progress(_) => from(status, &[S::Running], S::Running),
        StepEvent::Retrying(_) => from(status, &[S::Queued, S::Running, S::AwaitingApproval], S::Retrying),
        StepEvent::Measured(_) | StepEvent::CallRecorded(_) => from(status, &[S::Running], S::Running),
        StepEvent::CallsDiscarded(_) => from(status, &[S::Running, S::AwaitingApproval], status),
        StepEvent::Suspended(suspended) => {
            let waits_for_person = suspended.call.wait.kind.is_for_person();
            from(status, &[S::Running], if waits_for_person { S::AwaitingApproval } else { S::Retrying })
        }
        StepEvent::Resumed(_) => from(status, &[S::AwaitingApproval, S::Retrying], S::Ready),
        StepEvent::Released(_) => from(status, &[S::Queued, S::Running], S::Ready),
        StepEvent::Failed(_) => {
            from(status, &[S::Pending, S::Ready, S::AwaitingApproval, S::Queued, S::Running], S::Failed)
        }
        StepEvent::Completed(_) => unless_final(status, S::Completed),
        // A revision may pass over a step that failed.
        StepEvent::Skipped(skipped) if skipped.cause == SkipCause::Revision => {
            is_changeable(status).then_some(S::Skipped)
        }
        StepEvent::Skipped(_) => unless_final(status, S::Skipped),
        StepEvent::Cancelled(_) => unless_final(status, S::Cancelled),
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
        | PlanEvent::Quarantined(_) => (!status.is_final()).then_some(status),
        PlanEvent::PlanningFailed(_) => matches!(status, S::Planning | S::Replanning).then_some(status),
        PlanEvent::PlanCreated(_) => planning(),
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

#[cfg(test)]
mod tests {
    use goalmill_common::call::{CallWait, CallWaitKind, RecordedCall, SuspendedCall};
    use goalmill_common::constraint::ConstraintStatus;
    use goalmill_common::criterion::JudgeKind;
    use goalmill_common::event::{
        ApprovalRequested, CallsDiscarded, ConstraintChanged, GoalAccepted, HookAsked, HookDecided, JudgementRequested,
        PhaseAdded, PhaseNamed, PlanCreated, PlanEnded, PlanValidated, QuestionAnswered, QuestionAsked, Reason,
        RevisionProposed, RevisionRefused, StepAdded, StepAnswered, StepCompleted, StepDecomposed, StepFailed,
        StepModified, StepProgress, StepQuestion, StepQueued, StepReleased, StepResumed, StepRetrying, StepSkipped,
        StepStarted, StepSuspended,
    };
    use goalmill_common::failure::{Failure, FailureClass};
    use goalmill_common::goal::{Goal, Usage};
    use goalmill_common::json::Json;
    use goalmill_common::plan::{Question, Step};
    use goalmill_common::revision::{Proposal, RevisionStrategy};

    use super::*;

    /// Event, where it may happen, where it leads.
    const STEP_MOVES: &[(&str, &str, &str)] = &[
        ("step_added", "", ""),
        ("step_modified", "pending blocked ready queued running retrying awaiting_approval failed skipped", "="),
        ("step_removed", "pending blocked ready queued running retrying awaiting_approval failed skipped", "="),
        ("step_ready", "pending retrying", "ready"),
        ("step_blocked", "pending", "blocked"),
        ("step_approval_requested", "pending", "awaiting_approval"),
        ("step_hook_asked", "pending awaiting_approval", "awaiting_approval"),
        ("step_hook_decided", "awaiting_approval", "pending"),
        ("step_approved", "awaiting_approval", "ready"),
        ("step_question_asked", "pending", "awaiting_approval"),
        ("step_question_answered", "awaiting_approval", "pending"),
        ("step_recalled", "queued running retrying", "pending"),
        ("step_decomposed", "running", "ready"),
        ("step_queued", "ready", "queued"),
        ("step_started", "queued", "running"),
        ("step_progress", "running", "running"),
        ("step_measured", "running", "running"),
        ("call_recorded", "running", "running"),
        ("calls_discarded", "running awaiting_approval", "="),
        ("step_suspended", "running", "awaiting_approval"),
        ("step_resumed", "retrying awaiting_approval", "ready"),
        ("step_completed", "pending blocked ready queued running retrying awaiting_approval", "completed"),
        ("step_retrying", "queued running awaiting_approval", "retrying"),
        ("step_released", "queued running", "ready"),
        ("step_failed", "pending ready queued running awaiting_approval", "failed"),
        ("step_skipped", "pending blocked ready queued running retrying awaiting_approval", "skipped"),
        ("step_cancelled", "pending blocked ready queued running retrying awaiting_approval", "cancelled"),
    ];

    /// Event, where it may happen, where it leads; `=` leaves the status as it is.
    const PLAN_MOVES: &[(&str, &str, &str)] = &[
        ("goal_accepted", "", ""),
        ("model_asked", "planning awaiting_approval running replanning paused", "="),
        ("model_answered", "planning awaiting_approval running replanning paused", "="),
        ("tools_called", "planning awaiting_approval running replanning paused", "="),
        ("planning_failed", "planning replanning", "="),
        ("plan_created", "planning", "="),
        ("plan_validated", "planning", "running"),
        ("plan_approval_requested", "running", "awaiting_approval"),
        ("hook_asked", "running", "awaiting_approval"),
        ("hook_decided", "awaiting_approval", "running"),
        ("plan_approved", "awaiting_approval", "running"),
        ("plan_rejected", "awaiting_approval", "rejected"),
        ("phase_added", "awaiting_approval running replanning paused", "="),
        ("phase_started", "running replanning paused", "="),
        ("phase_completed", "running replanning paused", "="),
        ("phase_failed", "running replanning paused", "="),
        ("phase_skipped", "running replanning paused", "="),
        ("replan_triggered", "running replanning paused", "replanning"),
        ("revision_proposed", "replanning", "="),
        ("revision_refused", "replanning", "="),
        ("question_asked", "replanning", "="),
        ("question_answered", "replanning", "="),
        ("plan_revised", "awaiting_approval running replanning paused", "= running"),
        ("plan_extended", "awaiting_approval running replanning paused", "="),
        ("family_grew", "planning awaiting_approval running replanning paused", "="),
        ("constraint_changed", "running replanning paused", "="),
        ("judgement_requested", "running paused", "="),
        ("criteria_judged", "running replanning paused", "="),
        ("plan_paused", "running", "paused"),
        ("plan_resumed", "paused replanning", "running"),
        ("plan_quarantined", "planning awaiting_approval running replanning paused", "="),
        ("plan_completed", "running paused", "completed"),
        ("plan_failed", "planning awaiting_approval running replanning paused", "failed"),
        ("plan_cancelled", "planning awaiting_approval running replanning paused", "cancelled"),
    ];

    #[test]
    fn a_step_moves_as_the_table_says_and_not_otherwise() {
        let names: Vec<&str> = STEP_MOVES.iter().map(|(name, _, _)| *name).collect();
        assert_eq!(names, StepEvent::TYPES);
        for (event, (name, allowed, to)) in step_events().iter().zip(STEP_MOVES) {
            assert_eq!(event.type_name(), *name);
            for status in StepStatus::ALL {
                let stays = || StepStatus::parse(to).unwrap_or(*status);
                let expected = allowed.split(' ').any(|word| word == status.as_str()).then(stays);
                assert_eq!(step_transition(*status, event), expected, "{name} at {status}");
            }
        }
    }

    #[test]
    fn a_plan_moves_as_the_table_says_and_not_otherwise() {
        let names: Vec<&str> = PLAN_MOVES.iter().map(|(name, _, _)| *name).collect();
        assert_eq!(names, PlanEvent::TYPES);
        for (event, (name, allowed, to)) in plan_events().iter().zip(PLAN_MOVES) {
            assert_eq!(event.type_name(), *name);
            for status in PlanStatus::ALL {
                // A revision ends `replanning`, and leaves every other status as it is.
                let ends = to == &"= running" && *status == PlanStatus::Replanning;
                let stays = || if ends { PlanStatus::Running } else { PlanStatus::parse(to).unwrap_or(*status) };
                let expected = allowed.split(' ').any(|word| word == status.as_str()).then(stays);
                assert_eq!(plan_transition(*status, event), expected, "{name} at {status}");
            }
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

    fn step_events() -> Vec<StepEvent> {
        let failure = || Failure::new(FailureClass::Transient, "X", "x");
        let added = || Box::new(StepAdded { step: Step::new("a", "w") });
        vec![
            StepEvent::Added(added()),
            StepEvent::Modified(Box::new(StepModified { step: Step::new("a", "w"), before: None })),
            StepEvent::Removed(Reason::boxed("")),
            StepEvent::Ready,
            StepEvent::Blocked(Reason::boxed("")),
            StepEvent::ApprovalRequested(Box::new(ApprovalRequested { due_ms: 1 })),
            StepEvent::HookAsked(Box::new(asked(HookPoint::OnStepStart))),
            StepEvent::HookDecided(Box::new(decided(HookPoint::OnStepStart))),
            StepEvent::Approved(Reason::boxed("")),
            StepEvent::QuestionAsked(Box::new(StepQuestion { question: String::new(), due_ms: 1 })),
            StepEvent::Answered(Box::new(StepAnswered {
                answer: Json::null(),
                by_default: false,
                reason: String::new(),
            })),
            StepEvent::Recalled(Reason::boxed("")),
            StepEvent::Decomposed(Box::new(StepDecomposed::new(""))),
            StepEvent::Queued(Box::new(StepQueued::new("w".into(), 1))),
            StepEvent::Started(Box::new(StepStarted { worker: None, started_ms: 1, due_ms: 1 })),
            StepEvent::Progress(Box::new(StepProgress { progress: None, message: None })),
            StepEvent::Measured(Box::default()),
            StepEvent::CallRecorded(Box::default()),
            StepEvent::CallsDiscarded(Box::new(CallsDiscarded { from: 1, recorded: String::new(), called: None })),
            StepEvent::Suspended(Box::new(suspended())),
            StepEvent::Resumed(Box::new(StepResumed::new(RecordedCall::default(), false))),
            StepEvent::Completed(Box::new(StepCompleted { outputs: Json::null(), ..StepCompleted::default() })),
            StepEvent::Retrying(Box::new(StepRetrying::new(failure(), 1))),
            StepEvent::Released(Box::new(StepReleased { worker: "w".into() })),
            StepEvent::Failed(Box::new(StepFailed::new(failure()))),
            StepEvent::Skipped(Box::new(StepSkipped::new(SkipCause::Person))),
            StepEvent::Cancelled(Reason::boxed("")),
        ]
    }

    #[expect(clippy::unnecessary_box_returns, reason = "the events hold it boxed")]
    fn constraint_changed() -> Box<ConstraintChanged> {
        Box::new(ConstraintChanged {
            constraint: String::new(),
            status: ConstraintStatus::Low,
            priority: 5,
            hard: false,
            measure: String::new(),
            measured: 0.0,
            limit: 0.0,
            unit: String::new(),
            reason: String::new(),
        })
    }

    fn plan_events() -> Vec<PlanEvent> {
        let phase = || Box::new(PhaseNamed { phase: "one".into() });
        vec![
            PlanEvent::GoalAccepted(Box::new(GoalAccepted {
                plan_id: "p0-1".into(),
                goal: Goal::default(),
                submission: String::new(),
                source: String::new(),
                secret: String::new(),
                fingerprint: String::new(),
                parent: None,
                traceparent: None,
                deadline_ms: 1,
            })),
            PlanEvent::ModelAsked(Box::default()),
            PlanEvent::ModelAnswered(Box::default()),
            PlanEvent::ToolsCalled(Box::default()),
            PlanEvent::PlanningFailed(Box::default()),
            PlanEvent::PlanCreated(Box::new(PlanCreated {
                plan: std::sync::Arc::default(),
                planner: String::new(),
                confidence: 1.0,
                provenance: None,
                open: false,
                fork: None,
            })),
            PlanEvent::PlanValidated(Box::new(PlanValidated {
                warnings: Vec::new(),
                routes: Vec::new(),
                critical_path_seconds: 0.0,
            })),
            PlanEvent::ApprovalRequested(Box::new(ApprovalRequested { due_ms: 1 })),
            PlanEvent::HookAsked(Box::new(asked(HookPoint::OnPlanGenerated))),
            PlanEvent::HookDecided(Box::new(decided(HookPoint::OnPlanGenerated))),
            PlanEvent::Approved(Reason::boxed("")),
            PlanEvent::Rejected(Box::default()),
            PlanEvent::PhaseAdded(Box::new(PhaseAdded {
                phase: "one".into(),
                description: String::new(),
                checkpoint: false,
                place: 0,
            })),
            PlanEvent::PhaseStarted(phase()),
            PlanEvent::PhaseCompleted(phase()),
            PlanEvent::PhaseFailed(phase()),
            PlanEvent::PhaseSkipped(phase()),
            PlanEvent::ReplanTriggered(Box::default()),
            PlanEvent::RevisionProposed(Box::new(RevisionProposed {
                revision: 1,
                proposal: Proposal::new(RevisionStrategy::Edit, Vec::new()),
                changes: Vec::new(),
                widens: Vec::new(),
                confidence_before: 1.0,
                confidence_after: 1.0,
                due_ms: 1,
            })),
            PlanEvent::RevisionRefused(Box::new(RevisionRefused {
                revision: 1,
                strategy: RevisionStrategy::Edit,
                reason: String::new(),
                issues: Vec::new(),
                due_ms: 0,
                usage: Usage::default(),
            })),
            PlanEvent::QuestionAsked(Box::new(QuestionAsked {
                id: "q1".into(),
                question: Question { question: String::new(), schema: None, default: None, limit_ms: 1, into: None },
                due_ms: 1,
                usage: Usage::default(),
            })),
            PlanEvent::QuestionAnswered(Box::new(QuestionAnswered {
                id: "q1".into(),
                answer: Json::null(),
                by_default: false,
                reason: String::new(),
                due_ms: 1,
            })),
            PlanEvent::Revised(Box::default()),
            PlanEvent::Extended(Box::default()),
            PlanEvent::FamilyGrew(Box::default()),
            PlanEvent::ConstraintChanged(constraint_changed()),
            PlanEvent::JudgementRequested(Box::new(JudgementRequested {
                judge: JudgeKind::Model,
                criteria: Vec::new(),
                due_ms: 1,
            })),
            PlanEvent::CriteriaJudged(Box::default()),
            PlanEvent::Paused(Reason::boxed("")),
            PlanEvent::Resumed(Reason::boxed("")),
            PlanEvent::Quarantined(Reason::boxed("")),
            PlanEvent::Completed(ended(PlanStatus::Completed)),
            PlanEvent::Failed(ended(PlanStatus::Failed)),
            PlanEvent::Cancelled(ended(PlanStatus::Cancelled)),
        ]
    }

    fn ended(status: PlanStatus) -> Box<PlanEnded> {
        Box::new(PlanEnded { status, failure: None, reason: String::new(), cancelled: Vec::new() })
    }

    fn suspended() -> StepSuspended {
        let wait = CallWait::new(CallWaitKind::Approval, "");
        let call = SuspendedCall { n: 1, name: String::new(), inputs: None, wait };
        StepSuspended::new(call, "w".into(), 1)
    }

    fn asked(point: HookPoint) -> HookAsked {
        HookAsked { id: String::new(), point, completed: None }
    }

    fn decided(point: HookPoint) -> HookDecided {
        HookDecided {
            id: String::new(),
            point,
            decision: HookDecision::Allow,
            hook: String::new(),
            by_default: false,
            reason: String::new(),
            issues: Vec::new(),
            inputs: None,
            failure: None,
            strategy: None,
            hint: String::new(),
            due_ms: 0,
        }
    }
}

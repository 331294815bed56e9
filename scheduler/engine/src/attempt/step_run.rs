//! Where a step stands, with what belongs to its status.

use goalmill_common::call::{CallNeeds, CallWaitKind};
use goalmill_common::event::{HookAsked, SkipCause, StepEvent, StepSuspended};
use goalmill_common::status::StepStatus;

use crate::attempt::step_result::StepResult;
use crate::people::decider::Decider;

/// Where a step stands. What belongs to a status is forgotten with it.
///
/// - `due_ms`: when the status ends in any case, Unix milliseconds; 0 for never.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum StepRun {
    #[default]
    Pending,
    Blocked {
        reason: Box<str>,
    },
    AwaitingApproval(Decider),
    /// `needs`: what the call wants for which the step waited for the budget.
    Ready {
        needs: Option<CallNeeds>,
    },
    Queued {
        due_ms: u64,
    },
    Running {
        due_ms: u64,
    },
    Waiting {
        due_ms: u64,
    },
    Retrying {
        due_ms: u64,
    },
    /// A call waits. What for decides the status.
    Suspended(Box<StepSuspended>),
    /// `finished_ms`: when it became final, Unix milliseconds.
    Ended {
        finished_ms: u64,
        how: StepEnd,
    },
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StepEnd {
    Completed(StepResult),
    Failed,
    Skipped {
        cause: SkipCause,
        reason: Box<str>,
    },
    Cancelled {
        reason: Box<str>,
    },
    /// A revision removed it. What it gave before stays.
    Revised(Option<StepResult>),
}

impl StepRun {
    pub(crate) fn status(&self) -> StepStatus {
        match self {
            Self::Pending => StepStatus::Pending,
            Self::Blocked { .. } => StepStatus::Blocked,
            Self::AwaitingApproval(_) => StepStatus::AwaitingApproval,
            Self::Ready { .. } => StepStatus::Ready,
            Self::Queued { .. } => StepStatus::Queued,
            Self::Running { .. } => StepStatus::Running,
            Self::Waiting { .. } => StepStatus::Waiting,
            Self::Retrying { .. } => StepStatus::Retrying,
            Self::Suspended(suspended) => suspended.call.wait.kind.status(),
            Self::Ended { how, .. } => match how {
                StepEnd::Completed(_) => StepStatus::Completed,
                StepEnd::Failed => StepStatus::Failed,
                StepEnd::Skipped { .. } => StepStatus::Skipped,
                StepEnd::Cancelled { .. } => StepStatus::Cancelled,
                StepEnd::Revised(_) => StepStatus::Revised,
            },
        }
    }

    /// Where the step stands after an event that [`crate::step_transition`] allows.
    pub(crate) fn after(self, event: &StepEvent, time_ms: u64) -> Self {
        match event {
            StepEvent::Added(_)
            | StepEvent::Modified(_)
            | StepEvent::Removed(_)
            | StepEvent::Expanded(_)
            | StepEvent::Measured(_)
            | StepEvent::Progress(_)
            | StepEvent::CallRecorded(_)
            | StepEvent::CallsDiscarded(_)
            | StepEvent::CallbackReceived(_) => self,
            StepEvent::Answered(_) | StepEvent::Recalled(_) | StepEvent::Undone(_) => Self::Pending,
            StepEvent::Blocked(why) => Self::Blocked { reason: why.reason.as_str().into() },
            StepEvent::ApprovalRequested(request) => {
                Self::AwaitingApproval(Decider::Approval { due_ms: request.due_ms })
            }
            StepEvent::QuestionAsked(asked) => {
                let question = asked.question.as_str().into();
                Self::AwaitingApproval(Decider::Answer { due_ms: asked.due_ms, question })
            }
            StepEvent::HookAsked(asked) => Self::AwaitingApproval(Decider::Hooks(asked.clone())),
            StepEvent::HookDecided(decided) => {
                Decider::after_hook(decided).map_or(Self::Pending, Self::AwaitingApproval)
            }
            StepEvent::Ready => Self::Ready { needs: self.needs() },
            StepEvent::Approved(_) | StepEvent::Decomposed(_) | StepEvent::Resumed(_) | StepEvent::Released(_) => {
                Self::Ready { needs: None }
            }
            StepEvent::Queued(queued) => Self::Queued { due_ms: queued.due_ms },
            StepEvent::Started(started) => Self::Running { due_ms: started.due_ms },
            StepEvent::WaitStarted(started) => Self::Waiting { due_ms: started.due_ms },
            StepEvent::Retrying(retrying) => Self::Retrying { due_ms: retrying.due_ms },
            StepEvent::Iterated(iterated) => Self::Retrying { due_ms: iterated.due_ms },
            StepEvent::Suspended(suspended) => Self::Suspended(suspended.clone()),
            StepEvent::Completed(completed) => Self::Ended {
                finished_ms: completed.finished_ms.unwrap_or(time_ms),
                how: StepEnd::Completed(StepResult::from_completed(completed)),
            },
            StepEvent::Failed(_) => Self::Ended { finished_ms: time_ms, how: StepEnd::Failed },
            StepEvent::Skipped(skipped) => Self::skipped(skipped.cause, &skipped.reason, time_ms),
            StepEvent::Cancelled(why) => Self::cancelled(&why.reason, time_ms),
        }
    }

    pub(crate) fn skipped(cause: SkipCause, reason: &str, finished_ms: u64) -> Self {
        Self::Ended { finished_ms, how: StepEnd::Skipped { cause, reason: reason.into() } }
    }

    pub(crate) fn cancelled(reason: &str, finished_ms: u64) -> Self {
        Self::Ended { finished_ms, how: StepEnd::Cancelled { reason: reason.into() } }
    }

    /// Forgets the call that waits: a revision has changed the step.
    pub(crate) fn drop_call(&mut self) {
        if let Self::Ready { needs } = self {
            *needs = None;
        } else if let Self::Suspended(suspended) = self
            && suspended.call.wait.kind.is_for_person()
        {
            *self = Self::AwaitingApproval(Decider::Approval { due_ms: suspended.due_ms });
        }
    }

    /// When the status ends in any case, Unix milliseconds.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        let due_ms = match self {
            Self::AwaitingApproval(decider) => decider.due_ms(),
            Self::Queued { due_ms }
            | Self::Running { due_ms }
            | Self::Waiting { due_ms }
            | Self::Retrying { due_ms } => *due_ms,
            Self::Suspended(suspended) => suspended.due_ms,
            Self::Pending | Self::Blocked { .. } | Self::Ready { .. } | Self::Ended { .. } => 0,
        };
        (due_ms > 0).then_some(due_ms)
    }

    /// When it became final, Unix milliseconds.
    pub(crate) fn finished_ms(&self) -> Option<u64> {
        if let Self::Ended { finished_ms, .. } = self { Some(*finished_ms) } else { None }
    }

    /// What it gave, also if a revision has removed it since.
    pub(crate) fn result(&self) -> Option<&StepResult> {
        let Self::Ended { how, .. } = self else { return None };
        if let StepEnd::Completed(result) | StepEnd::Revised(Some(result)) = how { Some(result) } else { None }
    }

    /// The call that waits.
    pub(crate) fn suspended(&self) -> Option<&StepSuspended> {
        if let Self::Suspended(suspended) = self { Some(suspended) } else { None }
    }

    /// The call that waits, if it is for this.
    pub(crate) fn suspended_for(&self, kind: CallWaitKind) -> Option<&StepSuspended> {
        self.suspended().filter(|suspended| suspended.call.wait.kind == kind)
    }

    /// Whether a call waits for its plan.
    pub(crate) fn awaits_plan(&self) -> bool {
        self.suspended_for(CallWaitKind::Plan).is_some()
    }

    /// Whether the step waits for a callback.
    pub(crate) fn awaits_callback(&self) -> bool {
        self.suspended_for(CallWaitKind::Callback).is_some()
    }

    /// What a call wants that waits for the budget, or may be made next.
    pub(crate) fn needs(&self) -> Option<CallNeeds> {
        if let Self::Ready { needs } = self {
            return *needs;
        }
        self.suspended_for(CallWaitKind::Budget)?.call.wait.needs
    }

    /// Whether the step waits for hooks, or is held by one.
    pub(crate) fn awaits_hook(&self) -> bool {
        matches!(self, Self::AwaitingApproval(Decider::Hooks(_) | Decider::Held { .. }))
    }

    /// Whether a person decides or answers before the step continues; hooks decide about outputs.
    pub(crate) fn awaits_person(&self) -> bool {
        let decides_outputs = self.hooks().is_some_and(|asked| asked.completed.is_some());
        self.status() == StepStatus::AwaitingApproval && !decides_outputs
    }

    /// The open question to the hooks.
    pub(crate) fn hooks(&self) -> Option<&HookAsked> {
        if let Self::AwaitingApproval(Decider::Hooks(asked)) = self { Some(asked) } else { None }
    }

    /// The question to a person.
    pub(crate) fn question(&self) -> Option<&str> {
        if let Self::AwaitingApproval(Decider::Answer { question, .. }) = self {
            return Some(question);
        }
        self.suspended_for(CallWaitKind::Answer).map(|suspended| suspended.call.wait.text.as_str())
    }

    /// Why it was skipped.
    pub(crate) fn cause(&self) -> Option<SkipCause> {
        if let Self::Ended { how: StepEnd::Skipped { cause, .. }, .. } = self { Some(*cause) } else { None }
    }

    /// Why it is blocked, is held, waits for its call, was skipped or cancelled; empty otherwise.
    pub(crate) fn reason(&self) -> &str {
        if let Self::Blocked { reason }
        | Self::AwaitingApproval(Decider::Held { reason, .. })
        | Self::Ended { how: StepEnd::Skipped { reason, .. } | StepEnd::Cancelled { reason }, .. } = self
        {
            return reason;
        }
        let suspended = self.suspended().filter(|suspended| suspended.call.wait.kind != CallWaitKind::Answer);
        suspended.map_or("", |suspended| &suspended.call.wait.text)
    }
}

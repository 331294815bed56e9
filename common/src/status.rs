//! Statuses of plans and steps.

use serde::{Deserialize, Serialize};

use crate::word_enum::word_enum;

word_enum! {
    /// Where a plan stands; the last five are final.
    PlanStatus {
        /// A planner is at work.
        Planning = "planning",
        /// A person must agree before it runs.
        AwaitingApproval = "awaiting_approval",
        /// Steps go out and come back.
        Running = "running",
        /// A planner is at work on what remains.
        Replanning = "replanning",
        /// Nothing new starts; what runs may finish.
        Paused = "paused",
        /// All that had to be done is done.
        Completed = "completed",
        /// Ended with failures that its policy allows.
        Partial = "partial",
        /// Ended with a failure that its policy does not allow, or without a plan.
        Failed = "failed",
        /// Cancelled by a person, or with the plan that it belongs to.
        Cancelled = "cancelled",
        /// Rejected by a person.
        Rejected = "rejected",
    }
}

word_enum! {
    /// Where a step stands; the last five are final.
    StepStatus {
        /// Dependencies are open.
        Pending = "pending",
        /// A dependency failed and a decision is awaited.
        Blocked = "blocked",
        /// May be handed out.
        Ready = "ready",
        /// On a stream.
        Queued = "queued",
        /// A worker has it.
        Running = "running",
        /// Waits out a backoff.
        Retrying = "retrying",
        /// Waits for a time, without a worker.
        Waiting = "waiting",
        /// A person must agree, or answer, before it continues.
        AwaitingApproval = "awaiting_approval",
        /// Done, with outputs.
        Completed = "completed",
        /// Its attempts and those of its fallback are used up.
        Failed = "failed",
        /// Passed over; why decides whether its dependents may run.
        Skipped = "skipped",
        /// Ended with its plan, or before it began.
        Cancelled = "cancelled",
        /// Replaced by a revision.
        Revised = "revised",
    }
}

word_enum! {
    /// Where a phase stands; the last three are final.
    PhaseStatus {
        /// Earlier phases have open steps, or the plan does not run yet.
        Pending = "pending",
        /// Its steps may start.
        Running = "running",
        /// All of its steps are final, and some are completed.
        Completed = "completed",
        /// A step failed, or the plan ended before the phase did.
        Failed = "failed",
        /// It ended without a completed step.
        Skipped = "skipped",
    }
}

word_enum! {
    /// What a status means to people. Clients show the statuses of a group in one colour.
    StatusGroup {
        /// Has not begun, or ended without a result that counts.
        Idle = "idle",
        /// Begins when there is room.
        Next = "next",
        /// Is at work.
        Busy = "busy",
        /// Waits for a person.
        Person = "person",
        /// Is held up, or ended with less than all.
        Warn = "warn",
        /// Ended as it should.
        Good = "good",
        /// Ended without what it should give.
        Bad = "bad",
    }
}

word_enum! {
    /// The rough statuses that a step is counted under.
    ProgressGroup {
        /// Not started.
        Pending = "pending",
        /// On its way, or waiting out a backoff.
        InProgress = "in_progress",
        /// Done, with outputs.
        Completed = "completed",
        /// Failed for good.
        Failed = "failed",
        /// Ended without having been done.
        Skipped = "skipped",
    }
}

impl PlanStatus {
    /// Whether nothing can change any more.
    pub fn is_final(self) -> bool {
        match self {
            Self::Planning | Self::AwaitingApproval | Self::Running | Self::Replanning | Self::Paused => false,
            Self::Completed | Self::Partial | Self::Failed | Self::Cancelled | Self::Rejected => true,
        }
    }

    /// What it means to people.
    pub fn group(self) -> StatusGroup {
        match self {
            Self::Cancelled => StatusGroup::Idle,
            Self::Planning | Self::Running | Self::Replanning => StatusGroup::Busy,
            Self::AwaitingApproval => StatusGroup::Person,
            Self::Paused | Self::Partial => StatusGroup::Warn,
            Self::Completed => StatusGroup::Good,
            Self::Failed | Self::Rejected => StatusGroup::Bad,
        }
    }
}

impl StepStatus {
    /// Whether nothing can change any more.
    pub fn is_final(self) -> bool {
        match self {
            Self::Pending
            | Self::Blocked
            | Self::Ready
            | Self::Queued
            | Self::Running
            | Self::Retrying
            | Self::Waiting
            | Self::AwaitingApproval => false,
            Self::Completed | Self::Failed | Self::Skipped | Self::Cancelled | Self::Revised => true,
        }
    }

    /// What it means to people.
    pub fn group(self) -> StatusGroup {
        match self {
            Self::Pending | Self::Skipped | Self::Cancelled | Self::Revised => StatusGroup::Idle,
            Self::Ready | Self::Queued => StatusGroup::Next,
            Self::Running | Self::Waiting => StatusGroup::Busy,
            Self::AwaitingApproval => StatusGroup::Person,
            Self::Blocked | Self::Retrying => StatusGroup::Warn,
            Self::Completed => StatusGroup::Good,
            Self::Failed => StatusGroup::Bad,
        }
    }

    /// One character for it in a terminal.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Completed => "✓",
            Self::Failed => "✗",
            Self::Skipped => "○",
            Self::Cancelled => "⊘",
            Self::Revised => "~",
            Self::Retrying => "↻",
            Self::Running => "▶",
            Self::Queued => "»",
            Self::Waiting => "◷",
            Self::Blocked => "!",
            Self::AwaitingApproval => "?",
            Self::Ready | Self::Pending => "·",
        }
    }

    /// Its icon on the page: a path of SVG in a square of 16.
    pub fn icon(self) -> &'static str {
        match self {
            Self::Pending => "M4 8h8",
            Self::Blocked => "M4 4l8 8M4 12a5.7 5.7 0 1 1 8-8a5.7 5.7 0 0 1-8 8",
            Self::Ready => "M5 3.5l7 4.5-7 4.5z",
            Self::Queued => "M3.5 4.5h9M3.5 8h9M3.5 11.5h5",
            Self::Running => "M8 2.5a5.5 5.5 0 1 1-5.5 5.5M8 5v3l2.2 1.6",
            Self::Retrying => "M12.5 5.5A5.2 5.2 0 1 0 13 9M12.8 2.5v3.2H9.6",
            Self::Waiting => "M4.5 2.5h7M4.5 13.5h7M5.5 2.5c0 4 5 7 5 11M10.5 2.5c0 4-5 7-5 11",
            Self::AwaitingApproval => "M8 7.2a2.3 2.3 0 1 0 0-4.6a2.3 2.3 0 0 0 0 4.6M3.6 13.5a4.4 4.4 0 0 1 8.8 0",
            Self::Completed => "M3.5 8.5l3 3 6-7",
            Self::Failed => "M4.2 4.2l7.6 7.6M11.8 4.2l-7.6 7.6",
            Self::Skipped => "M3.5 4l4.5 4-4.5 4M8 4l4.5 4L8 12",
            Self::Cancelled => "M4.5 4.5h7v7h-7z",
            Self::Revised => "M3.5 12.5l.8-3L10.7 3l2.3 2.3-6.4 6.4z",
        }
    }

    /// What it is counted under.
    pub fn progress_group(self) -> ProgressGroup {
        match self {
            Self::Pending | Self::Blocked | Self::Ready | Self::AwaitingApproval => ProgressGroup::Pending,
            Self::Queued | Self::Running | Self::Retrying | Self::Waiting => ProgressGroup::InProgress,
            Self::Completed => ProgressGroup::Completed,
            Self::Failed => ProgressGroup::Failed,
            Self::Skipped | Self::Cancelled | Self::Revised => ProgressGroup::Skipped,
        }
    }

    /// Whether its dependencies were met, and it has not ended.
    pub fn is_unlocked(self) -> bool {
        match self {
            Self::Ready | Self::Queued | Self::Running | Self::Retrying | Self::Waiting | Self::AwaitingApproval => {
                true
            }
            Self::Pending
            | Self::Blocked
            | Self::Completed
            | Self::Failed
            | Self::Skipped
            | Self::Cancelled
            | Self::Revised => false,
        }
    }

    /// Whether an attempt is with a worker, or on its way there.
    pub fn is_in_flight(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }
}

/// How many steps stand where; the six numbers plan-action formats ask for, and the progress made of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Counts {
    /// All of the plan's steps.
    pub total: u32,
    /// Not started: pending, blocked, ready, awaiting approval.
    pub pending: u32,
    /// Queued, running, waiting, or waiting out a backoff.
    pub in_progress: u32,
    /// Done, with outputs.
    pub completed: u32,
    /// Failed for good.
    pub failed: u32,
    /// Skipped, cancelled or revised.
    pub skipped: u32,
}

impl Counts {
    /// Adds one step in `status`.
    pub fn add(&mut self, status: StepStatus) {
        self.total += 1;
        *self.slot(status) += 1;
    }

    /// Moves one step from `old` to `new`.
    pub fn shift(&mut self, old: StepStatus, new: StepStatus) {
        *self.slot(old) -= 1;
        *self.slot(new) += 1;
    }

    /// Share of steps that are final, 0 to 1; an empty plan is done.
    pub fn progress(&self) -> f64 {
        if self.total == 0 {
            return 1.0;
        }
        f64::from(self.completed + self.failed + self.skipped) / f64::from(self.total)
    }

    fn slot(&mut self, status: StepStatus) -> &mut u32 {
        match status.progress_group() {
            ProgressGroup::Pending => &mut self.pending,
            ProgressGroup::InProgress => &mut self.in_progress,
            ProgressGroup::Completed => &mut self.completed,
            ProgressGroup::Failed => &mut self.failed,
            ProgressGroup::Skipped => &mut self.skipped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back() {
        for s in PlanStatus::ALL {
            assert_eq!(PlanStatus::parse(s.as_str()), Some(*s));
            assert_eq!(serde_json::to_string(s).expect("a status is text"), format!("\"{s}\""));
        }
        for s in StepStatus::ALL {
            assert_eq!(StepStatus::parse(s.as_str()), Some(*s));
            assert_eq!(serde_json::to_string(s).expect("a status is text"), format!("\"{s}\""));
        }
    }
}

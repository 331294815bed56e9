//! The kind of an event. The tables of events give each type its kind; everything else derives from it.

use super::{Event, PlanEvent, StepEvent};
use crate::failure::Failure;
use crate::goal::Usage;
use crate::id::StepId;

/// What an event of a plan is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanEventKind {
    /// The goal itself.
    Submission,
    /// The making of the plan or of a change, without changing the plan.
    Planning,
    /// The plan, or a plan inside it, gets steps, or is checked.
    Creation,
    /// A person or a hook decides about the plan before it runs, or a hook about a change.
    Approval,
    /// A phase begins or ends.
    Phase,
    /// A change is asked for, discussed, or refused.
    Replanning,
    /// Takes staged steps and phases into the plan, or stages a phase.
    Change,
    /// Where the plan stands with the constraints and criteria of its goal.
    Contract,
    /// The plan is stopped, continues, or gets an event from outside.
    Control,
    /// The last event of the plan.
    End,
}

/// What an event of a step means for the step and its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepEventKind {
    /// Staged: takes effect with the `plan_revised` or `plan_extended` that follows.
    Change,
    /// The step waits: for a decision, an answer, or its turn.
    Wait,
    /// The step may be handed out.
    Ready,
    /// An attempt begins.
    AttemptBegin,
    /// An attempt continues.
    AttemptProgress,
    /// An attempt ends, and the step continues.
    AttemptEnd,
    /// The step is final, and so is its attempt, if there is one.
    End,
}

impl PlanEvent {
    /// Whether it is the last event of the plan.
    pub fn ends_plan(&self) -> bool {
        self.kind() == PlanEventKind::End
    }

    /// Whether it may follow staged changes.
    pub fn takes_changes(&self) -> bool {
        self.kind() == PlanEventKind::Change
    }

    /// Whether the planners have written the whole plan.
    pub fn completes_planning(&self) -> bool {
        matches!(self, Self::PlanCreated(created) if !created.open)
            || matches!(self, Self::Extended(extended) if !extended.open)
    }

    /// Whether the plan no longer waits for what the planners were asked to change.
    pub fn answers_replanning(&self) -> bool {
        self.kind() == PlanEventKind::Replanning
            || matches!(self, Self::PlanningFailed(_) | Self::Revised(_) | Self::Resumed(_))
    }

    /// The phase that it names.
    pub fn phase(&self) -> Option<&str> {
        if let Self::PhaseStarted(named)
        | Self::PhaseCompleted(named)
        | Self::PhaseFailed(named)
        | Self::PhaseSkipped(named) = self
        {
            Some(&named.phase)
        } else if let Self::PhaseAdded(added) = self {
            Some(&added.phase)
        } else {
            None
        }
    }

    /// The steps that the event moves although they have no event of their own, in the order of the plan.
    pub fn moved_steps(&self) -> impl Iterator<Item = &StepId> {
        let (first, second): (&[StepId], &[StepId]) =
            if let Self::Completed(end) | Self::Failed(end) | Self::Cancelled(end) = self {
                (&end.cancelled, &[])
            } else if let Self::CleanupStarted(started) = self {
                (&started.outcome.cancelled, &[])
            } else if let Self::Rejected(rejected) = self {
                (&rejected.cancelled, &[])
            } else if let Self::Revised(revised) = self {
                (&revised.restarted, &revised.skipped)
            } else {
                (&[], &[])
            };
        first.iter().chain(second)
    }
}

impl StepEvent {
    /// Whether it is staged for the `plan_revised` or `plan_extended` that follows.
    pub fn is_change(&self) -> bool {
        self.kind() == StepEventKind::Change
    }

    /// Whether the step may be handed out from now on.
    pub fn makes_ready(&self) -> bool {
        self.kind() == StepEventKind::Ready || matches!(self, Self::Released(_) | Self::Decomposed(_))
    }

    /// Whether the step's next attempt begins.
    pub fn begins_attempt(&self) -> bool {
        self.kind() == StepEventKind::AttemptBegin
    }

    /// Whether the step is executed from this event on, or was executed in it.
    pub fn executes(&self) -> bool {
        self.begins_attempt() || matches!(self, Self::Completed(_))
    }

    /// Whether the attempt that was in flight has ended.
    pub fn ends_attempt(&self) -> bool {
        matches!(self.kind(), StepEventKind::AttemptEnd | StepEventKind::End)
    }

    /// Whether the worker is done with the attempt: it has ended, or waits for the hooks.
    pub fn frees_worker(&self) -> bool {
        self.ends_attempt() || matches!(self, Self::HookAsked(asked) if asked.completed.is_some())
    }

    /// Whether the step is final.
    pub fn ends_step(&self) -> bool {
        self.kind() == StepEventKind::End
    }

    /// Whether the step ends without the outcome of its worker, so that a task may be left on a queue.
    pub fn abandons_attempt(&self) -> bool {
        matches!(self, Self::Skipped(_) | Self::Cancelled(_))
    }

    /// Whether dependents count the step as done.
    pub fn satisfies_dependents(&self) -> bool {
        matches!(self, Self::Completed(_)) || matches!(self, Self::Skipped(skipped) if skipped.cause.satisfies())
    }

    /// How the attempt ended, in one word: `completed`, `retrying`, `recalled`; `None` while it runs.
    pub fn outcome(&self) -> Option<&'static str> {
        self.ends_attempt().then(|| self.type_name().trim_start_matches("step_"))
    }

    /// What the attempt failed with.
    pub fn failure(&self) -> Option<&Failure> {
        if let Self::Retrying(retrying) = self {
            Some(&retrying.failure)
        } else if let Self::Failed(failed) = self {
            Some(&failed.failure)
        } else if let Self::Skipped(skipped) = self {
            skipped.failure.as_ref()
        } else if let Self::Undone(undone) = self {
            undone.failure.as_ref()
        } else {
            None
        }
    }

    /// Whether the recorded calls of the step are dropped: another agent, or another task, makes other calls.
    pub fn drops_calls(&self) -> bool {
        let is_other_agent = if let Self::Retrying(retrying) = self { retrying.fallback } else { false };
        is_other_agent
            || matches!(self, Self::Recalled(_) | Self::Decomposed(_) | Self::Iterated(_) | Self::Undone(_))
            || self.ends_step()
    }

    /// When the attempt ended by its worker's clock, Unix milliseconds, where the worker said so.
    pub fn finished_ms(&self) -> Option<u64> {
        if let Self::Completed(completed) = self { completed.finished_ms } else { None }
    }

    /// What the attempt took, as its worker reported.
    pub fn usage(&self) -> Usage {
        let (cost, tokens) = if let Self::Completed(completed) = self {
            (completed.cost, completed.tokens)
        } else if let Self::Retrying(retrying) = self {
            (retrying.cost, retrying.tokens)
        } else if let Self::Failed(failed) = self {
            (failed.cost, failed.tokens)
        } else if let Self::Skipped(skipped) = self {
            (skipped.cost, skipped.tokens)
        } else if let Self::Iterated(iterated) = self {
            (iterated.cost, iterated.tokens)
        } else if let Self::Undone(undone) = self {
            (undone.cost, undone.tokens)
        } else if let Self::Cancelled(cancelled) = self {
            (cancelled.cost, cancelled.tokens)
        } else if let Self::Decomposed(decomposed) = self {
            (decomposed.cost, decomposed.tokens)
        } else if let Self::CallRecorded(call) = self {
            (call.cost, call.tokens())
        } else if let Self::Suspended(suspended) = self {
            (suspended.cost, suspended.tokens)
        } else if let Self::Resumed(resumed) = self {
            (resumed.cost, resumed.tokens)
        } else {
            (0.0, 0)
        };
        Usage { tokens, cost }
    }
}

impl Event {
    /// Whether it is the last event of the plan.
    pub fn ends_plan(&self) -> bool {
        match self {
            Self::Plan(event) => event.ends_plan(),
            Self::Step { .. } => false,
        }
    }

    /// Whether something happened to a step by it: to this one alone, or to several that the event lists.
    pub fn concerns(&self, id: &str) -> bool {
        match self {
            Self::Step { step, .. } => step.as_str() == id,
            Self::Plan(event) => event.moved_steps().any(|step| step.as_str() == id),
        }
    }
}

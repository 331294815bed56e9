//! Metrics of committed events.

use goalmill_common::event::{Event, PlanEvent, StepEvent};
use goalmill_common::revision::{RevisionStrategy, Trigger};
use metrics::{Counter, counter};

pub(super) struct EventCounters {
    completed: Counter,
}

impl EventCounters {
    pub(super) fn new() -> Self {
        Self { completed: ended("completed") }
    }

    pub(super) fn count(&self, event: &Event) {
        match event {
            Event::Plan(event) => count_plan(event),
            Event::Step { event, .. } => self.count_step(event),
        }
    }

    fn count_step(&self, event: &StepEvent) {
        match event {
            StepEvent::Completed(completed) => {
                self.completed.increment(1);
                if completed.tokens > 0 {
                    counter!("goalmill_step_tokens_total").increment(completed.tokens);
                }
                if completed.cost > 0.0 {
                    counter!("goalmill_step_cost_microdollars_total").increment((completed.cost * 1e6).round() as u64);
                }
            }
            StepEvent::Failed(_) => ended("failed").increment(1),
            StepEvent::Skipped(_) => ended("skipped").increment(1),
            StepEvent::Retrying(retrying) => {
                let class = retrying.failure.class.as_str();
                counter!("goalmill_step_retries_total", "class" => class).increment(1);
            }
            StepEvent::Approved(_) => approval("approved", "step"),
            StepEvent::Added(_)
            | StepEvent::Modified(_)
            | StepEvent::Removed(_)
            | StepEvent::Ready
            | StepEvent::Blocked(_)
            | StepEvent::ApprovalRequested(_)
            | StepEvent::QuestionAsked(_)
            | StepEvent::Answered(_)
            | StepEvent::Recalled(_)
            | StepEvent::Decomposed(_)
            | StepEvent::Queued(_)
            | StepEvent::Started(_)
            | StepEvent::Released(_)
            | StepEvent::Progress(_)
            | StepEvent::Cancelled(_) => {}
        }
    }
}

fn ended(outcome: &'static str) -> Counter {
    counter!("goalmill_steps_ended_total", "outcome" => outcome)
}

fn approval(decision: &'static str, of: &'static str) {
    counter!("goalmill_approvals_total", "decision" => decision, "of" => of).increment(1);
}

fn count_plan(event: &PlanEvent) {
    match event {
        PlanEvent::Revised(revised) => {
            let strategy = revised.strategy.map_or("unknown", RevisionStrategy::as_str);
            let trigger = Trigger::parse(&revised.trigger).map_or("unknown", Trigger::as_str);
            counter!("goalmill_replans_total", "trigger" => trigger, "strategy" => strategy).increment(1);
        }
        PlanEvent::Failed(ended) => {
            if ended.failure.as_ref().is_some_and(|failure| failure.code == "MAX_REVISIONS_EXCEEDED") {
                counter!("goalmill_replan_limit_hits_total").increment(1);
            }
        }
        PlanEvent::Approved(_) => approval("approved", "plan"),
        PlanEvent::Rejected(_) => approval("rejected", "plan"),
        PlanEvent::GoalAccepted(_)
        | PlanEvent::ModelAsked(_)
        | PlanEvent::ModelAnswered(_)
        | PlanEvent::PlanningFailed(_)
        | PlanEvent::PlanCreated(_)
        | PlanEvent::PlanValidated(_)
        | PlanEvent::ApprovalRequested(_)
        | PlanEvent::PhaseAdded(_)
        | PlanEvent::PhaseStarted(_)
        | PlanEvent::PhaseCompleted(_)
        | PlanEvent::PhaseFailed(_)
        | PlanEvent::PhaseSkipped(_)
        | PlanEvent::ReplanTriggered(_)
        | PlanEvent::RevisionProposed(_)
        | PlanEvent::RevisionRefused(_)
        | PlanEvent::QuestionAsked(_)
        | PlanEvent::QuestionAnswered(_)
        | PlanEvent::Extended(_)
        | PlanEvent::Quarantined(_)
        | PlanEvent::Paused(_)
        | PlanEvent::Resumed(_)
        | PlanEvent::Completed(_)
        | PlanEvent::Cancelled(_) => {}
    }
}

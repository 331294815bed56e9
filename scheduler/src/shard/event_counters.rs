//! Metrics of committed events.

use goalmill_common::event::{Event, PlanEvent, StepEvent};
use goalmill_common::goal::Usage;
use goalmill_common::number::microdollars;
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
        let usage = event.usage();
        if event.failure().is_none() {
            count_usage(usage);
        } else if usage.cost > 0.0 {
            counter!("goalmill_step_wasted_microdollars_total").increment(microdollars(usage.cost));
        }
        if let StepEvent::Completed(_) = event {
            self.completed.increment(1);
        } else if let StepEvent::Failed(_) = event {
            ended("failed").increment(1);
        } else if let StepEvent::Skipped(_) = event {
            ended("skipped").increment(1);
        } else if let StepEvent::Retrying(retrying) = event {
            if retrying.told_to_wait {
                counter!("goalmill_step_rate_limit_waits_total").increment(1);
            } else {
                let class = retrying.failure.class.as_str();
                counter!("goalmill_step_retries_total", "class" => class).increment(1);
            }
        } else if let StepEvent::Suspended(suspended) = event {
            let kind = suspended.call.wait.kind.as_str();
            counter!("goalmill_call_waits_total", "for" => kind).increment(1);
        } else if let StepEvent::Approved(_) = event {
            approval("approved", "step");
        }
    }
}

fn count_usage(Usage { cost, tokens }: Usage) {
    if tokens > 0 {
        counter!("goalmill_step_tokens_total").increment(tokens);
    }
    if cost > 0.0 {
        counter!("goalmill_step_cost_microdollars_total").increment(microdollars(cost));
    }
}

fn ended(outcome: &'static str) -> Counter {
    counter!("goalmill_steps_ended_total", "outcome" => outcome)
}

fn approval(decision: &'static str, of: &'static str) {
    counter!("goalmill_approvals_total", "decision" => decision, "of" => of).increment(1);
}

fn count_plan(event: &PlanEvent) {
    if let PlanEvent::Revised(revised) = event {
        let strategy = revised.strategy.map_or("unknown", RevisionStrategy::as_str);
        let trigger = Trigger::parse(&revised.trigger).map_or("unknown", Trigger::as_str);
        counter!("goalmill_replans_total", "trigger" => trigger, "strategy" => strategy).increment(1);
    } else if let PlanEvent::Failed(ended) = event {
        if ended.failure.as_ref().is_some_and(|failure| failure.code == "MAX_REVISIONS_EXCEEDED") {
            counter!("goalmill_replan_limit_hits_total").increment(1);
        }
    } else if let PlanEvent::Approved(_) = event {
        approval("approved", "plan");
    } else if let PlanEvent::Rejected(_) = event {
        approval("rejected", "plan");
    }
}

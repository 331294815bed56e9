//! What a scheduler learns from its shards: marks of decisions for the watchdog, and counts of written events.

use std::sync::Arc;

use goalmill_common::event::{Event, Record, StepEvent};
use goalmill_common::id::PlanId;
use goalmill_common::task::Task;
use goalmill_engine::PlanState;
use goalmill_shard::ShardObserver;

use super::event_counters::EventCounters;
use crate::dead_letter_counter::OTHER;
use crate::scheduler::Scheduler;
use crate::watchdog::DecisionMarker;
use crate::{quality, traces};

/// The scheduler as the observer of one shard.
pub(super) struct WrittenEvents {
    scheduler: Arc<Scheduler>,
    marker: DecisionMarker,
    counters: EventCounters,
}

impl WrittenEvents {
    pub(super) fn new(scheduler: Arc<Scheduler>, marker: DecisionMarker) -> Self {
        Self { scheduler, marker, counters: EventCounters::new() }
    }

    fn count_undo_failures(&self, state: &PlanState, records: &[Record]) {
        let failures = records.iter().filter(|record| is_failed_undo(state, &record.event)).count() as u64;
        if failures > 0 {
            let namespaces = self.scheduler.namespaces.as_ref();
            let label = namespaces.and_then(|limits| limits.label(&state.namespace()));
            let label = label.unwrap_or_else(|| OTHER.to_owned());
            metrics::counter!("goalmill_undo_failures_total", "plans_namespace" => label).increment(failures);
        }
    }
}

impl ShardObserver for WrittenEvents {
    fn begin_decision(&self, plan: &PlanId) {
        self.marker.begin(Some(plan));
    }

    fn end_decision(&self) {
        self.marker.end();
    }

    fn prepare_task(&self, task: &mut Task) {
        if self.scheduler.traces.is_some() {
            traces::set_execution_context(task);
        }
    }

    fn note_written(&self, state: &PlanState, records: &[Record], ends: bool) {
        records.iter().for_each(|record| self.counters.count(&record.event));
        self.count_undo_failures(state, records);
        self.scheduler.stats.record(state, records);
        if !records.is_empty() {
            self.scheduler.hooks.notify(state.id().as_str(), records);
        }
        if !ends {
            return;
        }
        quality::count_ended(state);
        metrics::counter!("goalmill_plans_ended_total", "status" => state.status().as_str()).increment(1);
        if let Some(traces) = &self.scheduler.traces
            && traces::sampled(state.accepted().traceparent.as_deref()).is_some()
        {
            traces.ended(state.id().clone());
        }
    }
}

fn is_failed_undo(state: &PlanState, event: &Event) -> bool {
    match event {
        Event::Step { step, event: StepEvent::Failed(_), .. } => {
            let step = state.step_index(step).and_then(|i| state.step(i));
            step.is_some_and(|step| step.spec.undoes.is_some())
        }
        Event::Step { .. } | Event::Plan(_) => false,
    }
}

//! Compares queued steps with the content of the task streams.

use goalmill_common::failure::{Failure, FailureClass, TASK_MISSING};
use goalmill_common::hash::HashSet;
use goalmill_common::id::{AgentType, AttemptToken, EntryId, WorkerId};
use goalmill_common::report::{Report, What};
use goalmill_common::status::StepStatus;
use goalmill_engine::{Command, FamilyCommand, StepIndex};

use super::ShardState;
use crate::Slot;
use crate::post_commit::StoreUpdate;
use crate::task_scan::{Scan, Suspects, TaskHead};

impl ShardState {
    /// The queues that need a scan; valid once all earlier decisions are written.
    pub(super) fn suspects(&mut self) -> Suspects {
        let waited = |slot, step| self.queued_since(slot, step).map(|since| self.now_ms.saturating_sub(since));
        let is_overdue = |slot, step| waited(slot, step).is_some_and(|ms| ms >= self.context.task_lease_ms);
        let overdue = self.in_flight.iter().filter(|((slot, step), _)| is_overdue(*slot, *step));
        let overdue = overdue.map(|(_, agent_type)| agent_type.clone()).collect();
        Suspects { written_ms: self.now_ms, overdue, stopped: std::mem::take(&mut self.stopped) }
    }

    /// Removes tasks of finished attempts and resends missing tasks.
    pub(super) fn reconcile(&mut self, scan: Scan) {
        let over = scan.tasks.iter().filter(|task| !self.is_current(&task.head)).map(|task| task.entry.clone());
        let over: Vec<EntryId> = over.collect();
        if !over.is_empty() {
            self.add_update(StoreUpdate::DiscardTasks { agent_type: scan.agent_type.clone(), entries: over });
        }
        if scan.is_whole {
            let found = scan.tasks.iter().map(|task| &task.head.token).collect();
            for (slot, step) in self.missing(&scan.agent_type, scan.written_ms, &found) {
                self.resend(slot, step, &scan.agent_type);
            }
        }
    }

    /// When a step was queued, Unix milliseconds, if no worker has taken it.
    fn queued_since(&self, slot: Slot, step: StepIndex) -> Option<u64> {
        let step = self.plans.get(&slot)?.state.step(step)?;
        step.queued_ms.filter(|_| step.status == StepStatus::Queued)
    }

    /// Whether a task belongs to a current attempt; tasks of quarantined plans count as current.
    fn is_current(&self, task: &TaskHead) -> bool {
        let Some(slot) = self.slots.get(&task.plan) else { return self.quarantined.contains(&task.plan) };
        let Some(state) = self.plans.get(slot).map(|held| &held.state) else { return true };
        let Some(index) = state.step_index(&task.step) else { return false };
        let is_in_flight = state.step(index).is_some_and(|step| step.status.is_in_flight());
        is_in_flight && state.token(index, self.context.token_key).as_ref() == Some(&task.token)
    }

    /// Steps that were queued before `written_ms` and whose task was not found, in the order of their plans.
    fn missing(
        &self,
        agent_type: &AgentType,
        written_ms: u64,
        found: &HashSet<&AttemptToken>,
    ) -> Vec<(Slot, StepIndex)> {
        let is_missing = |slot: Slot, step: StepIndex| {
            let is_written = self.queued_since(slot, step).is_some_and(|since| since < written_ms);
            let token = self.plans.get(&slot).and_then(|plan| plan.state.token(step, self.context.token_key));
            is_written && token.is_some_and(|token| !found.contains(&token))
        };
        let on_queue = self.in_flight.iter().filter(|(_, queue)| *queue == agent_type).map(|(place, _)| *place);
        let mut missing: Vec<(Slot, StepIndex)> = on_queue.filter(|(slot, step)| is_missing(*slot, *step)).collect();
        missing.sort_unstable_by_key(|(slot, step)| (*slot, step.0));
        missing
    }

    /// Ends an attempt whose task is missing, so that a new attempt follows. A worker that still runs the task is
    /// cancelled, and its reports are rejected by their token.
    fn resend(&mut self, slot: Slot, step: StepIndex, agent_type: &AgentType) {
        let Some(state) = self.plans.get(&slot).map(|held| &held.state) else { return };
        let (plan, Some(at), Some(token)) = (state.id(), state.step(step), state.token(step, self.context.token_key))
        else {
            return;
        };
        let message = format!("the queue `{agent_type}` does not hold the task: its entry or stream was deleted");
        let (worker, entry) = (WorkerId::from("reconciliation"), EntryId::start());
        let report = Report {
            plan: plan.clone(),
            step: at.spec.id.clone(),
            attempt: at.attempt,
            token: token.clone(),
            failure: Some(Failure::new(FailureClass::Lost, TASK_MISSING, message)),
            ..Report::on_none(agent_type.clone(), entry, worker, What::Lost)
        };
        tracing::warn!(plan_id = %report.plan, "the task of step `{}` was missing on its stream; a new attempt follows", report.step);
        metrics::counter!("goalmill_tasks_missing_total").increment(1);
        self.add_update(StoreUpdate::CancelAttempt(token));
        let command = FamilyCommand::Decide { key: slot, command: Command::Report(Box::new(report)) };
        if let Err(rejection) = self.decide_in_family(None, command) {
            tracing::error!("a missing task cannot be resent: {rejection}");
        }
    }
}

//! Pending requests of a plan to people: decisions, with their deadlines and defaults, and answers.

use goalmill_common::clock::rfc3339;
use goalmill_common::criterion::JudgeKind;
use goalmill_common::plan::ApprovalDefault;
use goalmill_common::view::{DecisionView, WaitSummary};

use crate::PlanState;
use crate::graph::StepIndex;
use crate::people::waiting::Waiting;
use crate::state::StepState;

impl PlanState {
    /// How much the plan needs from people, and when the first of it is decided without them.
    pub(crate) fn wait_summary(&self) -> Option<WaitSummary> {
        if self.is_final() {
            return None;
        }
        let plan = self.awaits_person().then(|| self.waiting.due_ms());
        let steps = self.steps.iter().filter(|step| step.run().awaits_person()).map(StepState::due_ms);
        let mut summary = WaitSummary { count: 0, due_at: None };
        let mut first_ms = None;
        for due_ms in plan.into_iter().chain(steps) {
            summary.count = summary.count.saturating_add(1);
            first_ms = first_ms.into_iter().chain(due_ms).min();
        }
        summary.due_at = first_ms.map(rfc3339);
        (summary.count > 0).then_some(summary)
    }

    /// Whether a person decides or answers for the plan as a whole.
    fn awaits_person(&self) -> bool {
        matches!(self.waiting, Waiting::Approval { .. } | Waiting::Judgement { judge: JudgeKind::Person, .. })
            || self.waiting.is_for_person()
    }

    /// The decision about the plan as a whole, or about its proposal.
    pub(crate) fn decision_view(&self) -> Option<DecisionView> {
        let (default, failed_step) = if let Waiting::Approval { .. } = self.waiting {
            (self.plan.definition().approve.unwrap_or_default().default, None)
        } else if self.proposed().is_some() {
            (self.policy().approve.unwrap_or_default().default, None)
        } else {
            (ApprovalDefault::Reject, self.open_decision()?.step.clone())
        };
        let due_at = self.waiting.due_ms().map(rfc3339);
        Some(DecisionView { failed_step, due_at, default: Some(default) })
    }

    /// The approval that a step waits for.
    pub(crate) fn step_decision_view(&self, i: StepIndex) -> Option<DecisionView> {
        let step = &self.steps[i];
        let run = step.run();
        if run.question().is_some() || !run.awaits_person() {
            return None;
        }
        let approval = self.plan.step(i).approve.unwrap_or_default();
        let default = run.suspended().is_none().then_some(approval.default);
        Some(DecisionView { failed_step: None, due_at: step.due_ms().map(rfc3339), default })
    }
}

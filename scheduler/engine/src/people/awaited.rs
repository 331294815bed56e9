//! Pending requests of a plan to people: decisions, with their deadlines and defaults, and answers.

use goalmill_common::clock::rfc3339;
use goalmill_common::criterion::JudgeKind;
use goalmill_common::plan::ApprovalDefault;
use goalmill_common::view::{DecisionView, WaitSummary};

use crate::PlanState;
use crate::graph::StepIndex;
use crate::people::waiting::Waiting;
use crate::revise::revising;
use crate::state::StepState;

/// How much the plan needs from people, and when the first of it is decided without them.
pub(crate) fn wait_summary(state: &PlanState) -> Option<WaitSummary> {
    if state.is_final() {
        return None;
    }
    let plan = awaits_person(state).then(|| state.waiting.due_ms());
    let steps = state.steps.iter().filter(|step| step.run().awaits_person()).map(StepState::due_ms);
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
fn awaits_person(state: &PlanState) -> bool {
    matches!(state.waiting, Waiting::Approval { .. } | Waiting::Judgement { judge: JudgeKind::Person, .. })
        || state.waiting.is_for_person()
}

/// The decision about the plan as a whole, or about its proposal.
pub(crate) fn decision_view(state: &PlanState) -> Option<DecisionView> {
    let (default, failed_step) = if let Waiting::Approval { .. } = state.waiting {
        (state.plan.definition().approve.unwrap_or_default().default, None)
    } else if revising::proposed(state).is_some() {
        (revising::policy(state).approve.unwrap_or_default().default, None)
    } else {
        (ApprovalDefault::Reject, state.open_decision()?.step.clone())
    };
    let due_at = state.waiting.due_ms().map(rfc3339);
    Some(DecisionView { failed_step, due_at, default: Some(default) })
}

/// The approval that a step waits for.
pub(crate) fn step_decision_view(state: &PlanState, i: StepIndex) -> Option<DecisionView> {
    let step = &state.steps[i];
    let run = step.run();
    if run.question().is_some() || !run.awaits_person() {
        return None;
    }
    let approval = state.plan.step(i).approve.unwrap_or_default();
    let default = run.suspended().is_none().then_some(approval.default);
    Some(DecisionView { failed_step: None, due_at: step.due_ms().map(rfc3339), default })
}

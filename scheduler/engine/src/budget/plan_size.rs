//! The size of a plan with the plans inside it: its steps, and the bytes that it keeps.

use goalmill_common::event::{FamilyGrew, StepEvent};
use goalmill_common::json::{Json, json_bytes};
use goalmill_common::plan::{Plan, Step, StepKind};

/// How often the text of a plan inside counts: it is in the log of the step that starts it and in its own log, and its
/// owner has it in memory.
const COPIES: u64 = 3;
/// What a plan inside counts besides: as much may it have in outputs before it reports any.
const UNREPORTED_BYTES: u64 = 1 << 10;

/// The size of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlanSize {
    /// Its steps, and those of the plans that were written inside it or submitted by calls: see [`count_steps`].
    steps: u64,
    /// By how much the plans inside it grew after they began; counted in the outermost plan only.
    family_steps: u64,
    /// Of all outputs that steps ever gave.
    outputs_bytes: u64,
    /// What the plans that started inside it count: see [`counted_bytes`].
    plans_bytes: u64,
    /// Of all inputs that the log records.
    recorded_bytes: u64,
    /// What the plans inside it report; counted in the outermost plan only.
    family_bytes: u64,
}

impl PlanSize {
    /// The size of a plan that begins.
    pub(crate) fn new(plan: &Plan) -> Self {
        Self { steps: count_steps(plan), ..Self::default() }
    }

    /// Folds what the event of a step adds, but for a plan in the place of the step: see [`Self::replace`].
    pub(crate) fn fold(&mut self, event: &StepEvent) {
        if let StepEvent::Completed(completed) = event {
            self.add_outputs(&completed.outputs);
        } else if let StepEvent::Iterated(iterated) = event {
            self.add_outputs(&iterated.outputs);
        } else if let StepEvent::Queued(queued) = event {
            self.plans_bytes = self.plans_bytes.saturating_add(counted_bytes(queued.plan_bytes));
            if let Some(inputs) = &queued.inputs {
                let bytes = (inputs.text().len() as u64).saturating_add(queued.inputs_bytes);
                self.recorded_bytes = self.recorded_bytes.saturating_add(bytes);
            }
        } else if let StepEvent::Suspended(suspended) = event
            && let Some(plan) = suspended.plan.as_deref()
        {
            self.steps = self.steps.saturating_add(1 + count_steps(plan));
            self.plans_bytes = self.plans_bytes.saturating_add(counted_bytes(json_bytes(plan) as u64));
        }
    }

    /// Counts outputs of a step.
    pub(crate) fn add_outputs(&mut self, outputs: &Json) {
        self.outputs_bytes = self.outputs_bytes.saturating_add(outputs.text().len() as u64);
    }

    /// Counts so many steps instead of those before.
    pub(crate) fn replace(&mut self, before: u64, after: u64) {
        self.steps = self.steps.saturating_add(after).saturating_sub(before);
    }

    /// Counts what a plan inside has more.
    pub(crate) fn grow(&mut self, grown: &FamilyGrew) {
        self.family_steps = self.family_steps.saturating_add(grown.steps);
        self.family_bytes = self.family_bytes.saturating_add(grown.bytes);
    }

    /// Steps of the plan itself.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Steps of an outermost plan and of all plans inside it.
    pub(crate) fn steps_with_family(&self) -> u64 {
        self.steps.saturating_add(self.family_steps)
    }

    /// Bytes of all inputs that the log records.
    pub(crate) fn recorded_bytes(&self) -> u64 {
        self.recorded_bytes
    }

    /// Bytes of all outputs that the steps ever gave, and of the plans that started inside the plan. Recorded inputs have
    /// a limit of their own in each plan, and count here where a family may have many plans.
    ///
    /// - `is_inside`: whether the plan is inside another one.
    pub(crate) fn kept_bytes(&self, is_inside: bool) -> u64 {
        let recorded = if is_inside { self.recorded_bytes } else { 0 };
        self.plans_bytes.saturating_add(self.outputs_bytes).saturating_add(recorded)
    }

    /// The same, and what the plans inside report.
    pub(crate) fn total_bytes(&self, is_inside: bool) -> u64 {
        self.kept_bytes(is_inside).saturating_add(self.family_bytes)
    }
}

/// What a plan inside counts towards the bytes of its family; 0 without one.
///
/// - `bytes`: of the texts of the plan and of its goal.
pub(crate) fn counted_bytes(bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { bytes.saturating_mul(COPIES).saturating_add(UNREPORTED_BYTES) }
}

/// How many of its bytes a plan inside reports: rounded down by at most an eighth, or to a kilobyte, so that it reports
/// rarely.
pub(crate) fn reported_bytes(bytes: u64) -> u64 {
    let unit = (bytes.checked_next_power_of_two().unwrap_or(bytes) >> 4).max(UNREPORTED_BYTES);
    bytes - bytes % unit
}

/// Steps as far as `limits.steps_max` goes: an undo step belongs to its step.
pub(crate) fn steps_written<'s>(steps: impl IntoIterator<Item = &'s Step>) -> usize {
    steps.into_iter().filter(|step| step.undoes.is_none()).count()
}

/// Steps of a plan and of the plans that are written inside it; each of these counts as one step more.
pub(crate) fn count_steps(plan: &Plan) -> u64 {
    plan.steps.iter().map(count_step).sum()
}

/// A step with the plan that is written inside it.
pub(crate) fn count_step(step: &Step) -> u64 {
    match (&step.plan, step.kind) {
        (Some(inner), _) => 2 + count_steps(inner),
        (None, StepKind::Plan) => 2,
        (None, _) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_growing_plan_reports_rarely_and_little_too_late() {
        let mut reports = 0;
        for bytes in (0..4 << 20).step_by(100) {
            let (before, after) = (reported_bytes(bytes), reported_bytes(bytes + 100));
            assert!(before <= after && bytes - before <= (bytes / 8).max(UNREPORTED_BYTES), "{bytes}: {before}");
            reports += u32::from(after > before);
        }
        assert!(reports < 200, "{reports}");
    }
}

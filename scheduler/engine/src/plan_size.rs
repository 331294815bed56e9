//! The size of a plan with the plans that are written inside it.

use goalmill_common::plan::{Plan, Step, StepKind};

/// How often the text of a plan inside counts: it is in the log of the step that starts it and in its own log, and its
/// owner has it in memory.
const COPIES: u64 = 3;
/// What a plan inside counts besides: as much may it have in outputs before it reports any.
const UNREPORTED_BYTES: u64 = 1 << 10;

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

//! Checks of budgets and limits in a turn.

use goalmill_common::failure::{Failure, FailureClass};

use crate::budget::BUDGET_EXCEEDED;
use crate::constraints::checks;
use crate::graph::StepIndex;
use crate::state::StepState;
use crate::sub_plan::family;
use crate::turn::Turn;
use crate::{budget, delayed_start};

/// What of the budget of the plan is used up.
pub(crate) fn exceeded_budget(turn: &Turn<'_>) -> Option<Failure> {
    let (budget, usage) = (budget::tighter_budget(turn.state), turn.state.usage);
    let tokens = budget.tokens.filter(|most| usage.tokens > *most);
    let cost = budget.cost.filter(|most| usage.cost > *most);
    let message = match (tokens, cost) {
        (Some(most), _) => format!("{} tokens used, {most} allowed", usage.tokens),
        (None, Some(most)) => format!("{} dollars used, {most} allowed", usage.cost),
        (None, None) => return None,
    };
    let failure = Failure::new(FailureClass::ConstraintViolation, BUDGET_EXCEEDED, message);
    (!turn.state.is_done()).then_some(failure)
}

/// The failures of steps, if they are more than the plan allows.
pub(crate) fn exceeded_failures(turn: &Turn<'_>) -> Option<Failure> {
    let failed = turn.state.counts.failed;
    let most = turn.state.plan.definition().failures_max.filter(|most| failed > *most)?;
    let first = turn.state.steps.iter().find_map(StepState::failure);
    let why = first.map(|failure| format!("; the first: {}", failure.message)).unwrap_or_default();
    let message = format!("{failed} steps failed, at most {most} may{why}");
    Some(Failure::new(FailureClass::Permanent, "FAILURES_EXCEEDED", message))
}

/// The outputs of the plan, and the plans inside it with theirs, if they have too many bytes.
pub(crate) fn exceeded_outputs(turn: &Turn<'_>) -> Option<Failure> {
    let (bytes, most) = (family::total_bytes(turn.state), turn.context.limits.plan_outputs_bytes_max);
    if bytes <= most as u64 || turn.state.is_done() {
        return None;
    }
    let message = format!(
        "the outputs of its steps, and the plans inside it with theirs, have {bytes} bytes together, more than \
         `limits.plan_outputs_bytes_max` ({most}); hand large data on by reference"
    );
    Some(Failure::new(FailureClass::ConstraintViolation, "PLAN_OUTPUTS_TOO_LARGE", message))
}

/// Why a step must not start: what it would use up. Clean-up steps are not held to what the plan may spend.
pub(crate) fn cannot_afford(turn: &Turn<'_>, i: StepIndex) -> Option<Failure> {
    if turn.state.cleanup.is_running() {
        return None;
    }
    checks::would_break(turn, i).or_else(|| budget::would_exceed_budget(turn.state, i))
}

pub(crate) fn low_budget(turn: &Turn<'_>, share: f64) -> Option<String> {
    let (budget, usage) = (budget::tighter_budget(turn.state), turn.state.usage);
    let used = |used: f64, most: Option<f64>| most.filter(|most| *most > 0.0 && used > *most * share);
    if let Some(most) = used(usage.cost, budget.cost) {
        return Some(format!("{:.2} of {most:.2} dollars used", usage.cost));
    }
    if let Some(most) = used(usage.tokens as f64, budget.tokens.map(|most| most as f64)) {
        return Some(format!("{} of {most:.0} tokens used", usage.tokens));
    }
    let seconds = turn.now_ms.saturating_sub(delayed_start::time_begins_ms(turn.state)) as f64 / 1_000.0;
    match used(seconds, budget.seconds) {
        Some(most) => Some(format!("{seconds:.0} of {most:.0} seconds used")),
        None => checks::low_constraint(turn),
    }
}

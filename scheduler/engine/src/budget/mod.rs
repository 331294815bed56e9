//! Budgets: what a plan may spend, and what is left.

pub(crate) mod call_budget;
pub(crate) mod capacity;
pub(crate) mod exceeded;
pub(crate) mod model_calls;
pub(crate) mod places;
pub(crate) mod plan_size;
pub(crate) mod reservations;
pub(crate) mod work_limit;

use goalmill_common::call::CallBudget;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::{Budget, Usage};
use goalmill_common::number::{to_u32, whole_u64};
use goalmill_common::plan::Strategy;

use crate::graph::StepIndex;
use crate::{PlanState, calls, delayed_start};
pub use model_calls::model_answers;

/// A plan or step ends with this code when its budget is used up, or would be.
pub(crate) const BUDGET_EXCEEDED: &str = "BUDGET_EXCEEDED";

/// Returns the plan's budget: the tighter of the goal's and the plan's own limits.
pub(crate) fn tighter_budget(state: &PlanState) -> Budget {
    let goal = state.accepted.goal.budget;
    let own = state.plan.definition().budget;
    Budget {
        tokens: goal.tokens.into_iter().chain(own.tokens).min(),
        cost: goal.cost.into_iter().chain(own.cost).reduce(f64::min),
        seconds: goal.seconds.into_iter().chain(own.seconds).reduce(f64::min),
    }
}

/// Whether the budget has room for the step beside the steps in flight: their estimates are reserved, and so is what
/// their calls may use up where the step has an estimate of its own. A step that can never fit is let through, and
/// fails when it is dispatched.
pub(crate) fn fits_budget(state: &PlanState, i: StepIndex) -> bool {
    if state.cleanup.is_running() || state.reservations.is_empty() {
        return true;
    }
    let reserved = reserved_against(state, i);
    let (budget, usage, own) = (tighter_budget(state), state.usage, calls::estimates_left(state, i));
    let tokens = own.tokens.unwrap_or(0);
    let cost = own.cost.unwrap_or(0.0);
    let fits_tokens = budget.tokens.is_none_or(|most| {
        let alone = usage.tokens.saturating_add(tokens);
        alone > most || alone.saturating_add(reserved.tokens) <= most
    });
    let fits_cost = budget.cost.is_none_or(|most| {
        let alone = usage.cost + cost;
        alone > most || alone + reserved.cost <= most
    });
    fits_tokens && fits_cost
}

/// Returns why a step must not start: what it is estimated to spend would exceed the budget. Nothing is refused by
/// its estimate once a person has agreed to a revision, because its estimates were shown beside the budget.
pub(crate) fn would_exceed_budget(state: &PlanState, i: StepIndex) -> Option<Failure> {
    if state.revising.estimates_agreed {
        return None;
    }
    let mut own = calls::estimates_left(state, i);
    if own.tokens.is_none() && own.cost.is_none() {
        return None;
    }
    if let Some(repeat) = &state.plan.step(i).repeat {
        // All iterations that it may have.
        let left = repeat.max.saturating_sub(state.steps[i].iterations().current()) + 1;
        own.tokens = own.tokens.map(|tokens| tokens.saturating_mul(u64::from(left)));
        own.cost = own.cost.map(|cost| cost * f64::from(left));
    }
    let (budget, usage) = (tighter_budget(state), state.usage);
    let tokens = budget.tokens.zip(own.tokens).filter(|(most, own)| usage.tokens.saturating_add(*own) > *most);
    let cost = budget.cost.zip(own.cost).filter(|(most, own)| *own > 0.0 && usage.cost + own > *most);
    let message = match (tokens, cost) {
        (Some((most, own)), _) => {
            format!("{} tokens used and {own} tokens estimated exceed the budget of {most}", usage.tokens)
        }
        (None, Some((most, own))) => {
            format!("{} dollars used and {own} dollars estimated exceed the budget of {most}", usage.cost)
        }
        (None, None) => return None,
    };
    Some(Failure::new(FailureClass::ConstraintViolation, BUDGET_EXCEEDED, message))
}

/// Returns the end of the budgeted time, Unix milliseconds; `u64::MAX` without a time budget.
pub(crate) fn budget_due_ms(state: &PlanState) -> u64 {
    let Some(seconds) = tighter_budget(state).seconds.filter(|s| s.is_finite() && *s >= 0.0) else {
        return u64::MAX;
    };
    delayed_start::time_begins_ms(state).saturating_add(whole_u64(seconds * 1_000.0))
}

/// Returns what a sub-plan may use up: an equal share of what is neither used nor reserved for each sub-plan that may
/// run in parallel, and one for all other steps. So they cannot exceed the budget together, and a sub-plan that runs
/// alone gets all of it.
pub(crate) fn share_of_budget(state: &PlanState, i: StepIndex) -> Option<CallBudget> {
    let all = tighter_budget(state);
    if all.tokens.is_none() && all.cost.is_none() {
        return None;
    }
    let shares = if state.plan.definition().strategy == Strategy::Sequential { 1 } else { 1 + shares_beside(state, i) };
    let room = call_budget::unreserved(state, i);
    Some(CallBudget {
        tokens: all.tokens.and(room.tokens).map(|room| room / u64::from(shares)),
        cost: all.cost.and(room.cost).map(|room| room / f64::from(shares)),
        last: false,
    })
}

/// The budget of the sub-plan of a step in flight: what was reserved for it when it started.
pub(crate) fn budget_of_sub_plan(state: &PlanState, i: StepIndex) -> Budget {
    let given =
        state.steps[i].grant().map(|grant| grant.left).or_else(|| share_of_budget(state, i)).unwrap_or_default();
    Budget { tokens: given.tokens, cost: given.cost, seconds: None }
}

/// What steps in flight reserve, as far as this step must leave it alone.
pub(crate) fn reserved_against(state: &PlanState, i: StepIndex) -> Usage {
    let own = state.plan.step(i).estimates;
    if own.tokens.is_none() && own.cost.is_none() {
        return state.reservations.estimates();
    }
    state.reservations.all()
}

/// Shares of the steps that may start beside step `i`: those of the same phase that do not depend on it. Each `plan`
/// step has one, all others together have one.
fn shares_beside(state: &PlanState, i: StepIndex) -> u32 {
    let mut after = vec![false; state.steps.len()];
    let mut open = vec![i];
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut after[at.as_usize()], true) {
            open.extend(state.graph.dependents(at));
        }
    }
    let is_beside = |j: &StepIndex| {
        let at = j.as_usize();
        !after[at]
            && !state.runs_inline(*j)
            && !state.steps[at].status().is_final()
            && !state.steps[at].status().is_in_flight()
            && state.graph.phase(*j) == state.graph.phase(i)
    };
    let is_plan = |j: &StepIndex| state.plan.step(*j).starts_plan();
    let (plans, others): (Vec<_>, Vec<_>) = state.indices().filter(is_beside).partition(is_plan);
    to_u32(plans.len()) + u32::from(!others.is_empty())
}

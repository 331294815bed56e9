//! Detects revisions that widen what the plan may do.

use goalmill_common::plan::{ApprovalDefault, Step};
use goalmill_common::problem::Issue;
use goalmill_plan::document::issue;

use crate::graph::StepIndex;
use crate::revise::delta::Delta;
use crate::{PlanState, budget};

/// Returns what the revision widens: removed approvals, and estimates beyond the budget. Effects of actions are known
/// to the caller only: see [`goalmill_common::revision::Proposal::widens`].
pub(super) fn widens(state: &PlanState, delta: &Delta) -> Vec<Issue> {
    let mut issues = approvals(state, delta);
    issues.extend(spend(state, delta));
    issues
}

fn approvals(state: &PlanState, delta: &Delta) -> Vec<Issue> {
    let hint = "keep `approve` as it was, or let the policy ask a person";
    let dropped = |step: &Step, how: &str| {
        let detail = format!("step `{}` needed a person's approval, and {how}", step.id);
        issue("APPROVAL_DROPPED", &format!("/steps/{}/approve", step.id), detail, hint)
    };
    let mut issues = Vec::new();
    for (i, after) in &delta.modified {
        let before = state.plan.defined(*i);
        let silent = |step: &Step| step.approve.is_some_and(|approve| approve.default == ApprovalDefault::Approve);
        if before.approve.is_some() && (after.approve.is_none() || (silent(after) && !silent(before))) {
            issues.push(dropped(before, "would no longer need it"));
        }
    }
    let asks = |step: &Step| step.approve.is_some();
    for i in &delta.removed {
        let before = state.plan.defined(*i);
        let is_open = !state.steps[*i].status().is_final();
        if is_open && asks(before) && !delta.added.is_empty() && !delta.added.iter().any(asks) {
            issues.push(dropped(before, "its replacement does not"));
        }
    }
    issues
}

/// Compares the estimates of open steps with the remaining budget.
fn spend(state: &PlanState, delta: &Delta) -> Vec<Issue> {
    let budget = budget::tighter_budget(state);
    if budget.cost.is_none() && budget.tokens.is_none() {
        return Vec::new();
    }
    let all = || state.indices();
    let is_open = |i: &StepIndex| !state.steps[*i].status().is_final();
    let before = sum(all().filter(is_open).map(|i| state.plan.defined(i)));
    let stays = |i: &StepIndex| (is_open(i) && !delta.skipped.contains_key(i)) || delta.restarted.contains(i);
    let after = sum(all().filter(stays).filter_map(|i| delta.spec(state, i)).chain(&delta.added));
    let hint = "choose what fits the budget, or let the policy ask a person";
    let mut issues = Vec::new();
    if let Some(most) = budget.cost
        && after.0 > before.0
        && state.usage.cost + after.0 > most
    {
        let detail =
            format!("{:.2} dollars are used and {:.2} more estimated, {most} are allowed", state.usage.cost, after.0);
        issues.push(issue("BUDGET_WIDENED", "/budget/cost", detail, hint));
    }
    if let Some(most) = budget.tokens
        && after.1 > before.1
        && state.usage.tokens.saturating_add(after.1) > most
    {
        let detail =
            format!("{} tokens are used and {} more estimated, {most} are allowed", state.usage.tokens, after.1);
        issues.push(issue("BUDGET_WIDENED", "/budget/tokens", detail, hint));
    }
    issues
}

/// Estimated dollars and tokens.
fn sum<'a>(steps: impl Iterator<Item = &'a Step>) -> (f64, u64) {
    steps.fold((0.0, 0), |(cost, tokens), step| {
        let own = step.estimates.cost.filter(|cost| cost.is_finite()).unwrap_or(0.0);
        (cost + own, tokens.saturating_add(step.estimates.tokens.unwrap_or(0)))
    })
}

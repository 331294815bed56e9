//! What a plan would take, against what goal and plan allow.

use goalmill_common::goal::Budget;
use goalmill_common::plan::{Plan, Step};

use super::catalogue::Catalogue;
use super::graph::critical_path_by;
use crate::draft::{At, Cx};

/// What a plan is expected to take. Steps of which nothing is known count nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    /// US dollars of all steps.
    pub cost: f64,
    pub tokens: u64,
    /// Seconds on the longest path, with free workers.
    pub seconds: f64,
    /// The product of the success rates of all steps, retries counted: 1 where none is known.
    pub success: f64,
}

/// Adds up estimates; where a step has none, what its agent declared or was measured at counts.
pub fn forecast(plan: &Plan, catalogue: Option<&Catalogue>) -> Forecast {
    let mut total = Forecast { success: 1.0, ..Forecast::default() };
    add(plan, catalogue, &mut total);
    total.seconds = critical_path_by(plan, &|step| seconds(step, catalogue));
    total
}

fn add(plan: &Plan, catalogue: Option<&Catalogue>, total: &mut Forecast) {
    for step in &plan.steps {
        if let Some(inner) = &step.plan {
            add(inner, catalogue, total);
        }
        let offer = offer(step, catalogue);
        total.cost += step.estimates.cost.or(offer.map(|o| o.cost)).unwrap_or(0.0);
        total.tokens = total.tokens.saturating_add(step.estimates.tokens.unwrap_or(0));
        if let Some(offer) = offer {
            let fails = (1.0 - offer.success_rate).clamp(0.0, 1.0);
            let attempts = i32::try_from(step.retry.max.min(100)).unwrap_or(0) + 1;
            total.success *= 1.0 - fails.powi(attempts);
        }
    }
}

fn offer<'c>(step: &Step, catalogue: Option<&'c Catalogue>) -> Option<&'c super::catalogue::Offer> {
    catalogue.filter(|_| !step.kind.is_inline()).and_then(|c| c.offer(step.agent_type.as_str()))
}

fn seconds(step: &Step, catalogue: Option<&Catalogue>) -> Option<f64> {
    let latency = || offer(step, catalogue).and_then(|o| o.latency_ms).map(|ms| ms as f64 / 1_000.0);
    step.estimates.seconds.or_else(latency)
}

/// - `allowed`: what the goal allows.
pub(super) fn check(cx: &Cx<'_>, at: &At<'_>, plan: &Plan, allowed: &Budget, catalogue: Option<&Catalogue>) {
    let limits = [&plan.budget, allowed];
    if limits.iter().all(|b| b.cost.is_none() && b.tokens.is_none() && b.seconds.is_none()) {
        return;
    }
    let total = forecast(plan, catalogue);
    for (whose, budget) in [("the plan's", &plan.budget), ("the goal's", allowed)] {
        let sums = [
            ("cost", "US dollars", total.cost, budget.cost),
            ("tokens", "tokens", total.tokens as f64, budget.tokens.map(|n| n as f64)),
            ("seconds", "seconds", total.seconds, budget.seconds),
        ];
        for (name, unit, sum, limit) in sums {
            let Some(limit) = limit.filter(|limit| sum > *limit) else { continue };
            let detail = format!("the steps are estimated at {sum} {unit}, {whose} budget is {limit}");
            let mend = "use fewer or cheaper steps, or raise the budget";
            cx.error("BUDGET_EXCEEDED", &at.key("budget").key(name), detail, mend);
        }
    }
}

//! Compares the estimates of a plan with the budgets of goal and plan.

use goalmill_common::command::Planned;
use goalmill_common::constraint::{Bound, Constraint, Measure};
use goalmill_common::goal::Budget;
use goalmill_common::plan::{Plan, Step, StepKind};
use goalmill_common::view::{Preview, SecondsFrom};

use super::catalogue::{Catalogue, Measured};
use super::graph::critical_path_by;
use crate::document::{DocumentPath, ValidationContext};

/// What a plan is expected to take. Steps of which nothing is known count nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    /// US dollars of all steps.
    pub cost: f64,
    pub tokens: u64,
    /// Seconds on the longest path, with free workers.
    pub seconds: f64,
    /// Where the seconds of the steps come from.
    pub seconds_from: SecondsFrom,
    /// The product of the success rates of all steps, retries counted: 1 where none is known.
    pub success: f64,
}

/// Where the expected duration of a step comes from.
#[derive(Clone, Copy)]
enum Source {
    Measured,
    Estimated,
    Declared,
}

/// Adds up estimates; where a step has none, what its agent declared counts. What was measured of a step's action comes
/// before its estimate if the action takes about as long each time, and else before what its agent declared.
pub fn forecast(plan: &Plan, catalogue: Option<&Catalogue>) -> Forecast {
    let mut total = Forecast { success: 1.0, ..Forecast::default() };
    add(plan, catalogue, &mut total);
    total.seconds = critical_path_by(plan, &|step| seconds(step, catalogue).map(|(seconds, _)| seconds));
    total
}

/// A plan that is in order, with what it would take.
pub fn preview(planned: Planned, catalogue: Option<&Catalogue>) -> Preview {
    let Forecast { cost, seconds, seconds_from, .. } = forecast(&planned.plan, catalogue);
    Preview::from_planned(planned, seconds, seconds_from, cost)
}

fn add(plan: &Plan, catalogue: Option<&Catalogue>, total: &mut Forecast) {
    for step in &plan.steps {
        if let Some(inner) = &step.plan {
            add(inner, catalogue, total);
        }
        count(step, catalogue, &mut total.seconds_from);
        let agent_entry = agent_entry(step, catalogue);
        total.cost += step.estimates.cost.or(agent_entry.map(|o| o.cost)).unwrap_or(0.0);
        total.tokens = total.tokens.saturating_add(step.estimates.tokens.unwrap_or(0));
        if let Some(agent_entry) = agent_entry {
            let fails = (1.0 - agent_entry.success_rate).clamp(0.0, 1.0);
            let attempts = i32::try_from(step.retry.max.min(100)).unwrap_or(0) + 1;
            total.success *= 1.0 - fails.powi(attempts);
        }
    }
}

fn agent_entry<'c>(step: &Step, catalogue: Option<&'c Catalogue>) -> Option<&'c super::catalogue::AgentEntry> {
    catalogue.filter(|_| !step.kind.is_inline()).and_then(|c| c.agent(step.agent_type.as_str()))
}

fn seconds(step: &Step, catalogue: Option<&Catalogue>) -> Option<(f64, Source)> {
    let measured = catalogue.filter(|_| runs_as_task(step)).and_then(|c| c.measured(&step.agent_type, &step.action));
    let seconds = |measured: Measured| (measured.ms as f64 / 1_000.0, Source::Measured);
    let estimated = || step.estimates.seconds.map(|seconds| (seconds, Source::Estimated));
    let declared = || {
        let ms = agent_entry(step, catalogue)?.latency_ms?;
        Some((ms as f64 / 1_000.0, Source::Declared))
    };
    let steady = measured.filter(|measured| measured.is_steady).map(seconds);
    steady.or_else(estimated).or_else(|| measured.map(seconds)).or_else(declared)
}

fn count(step: &Step, catalogue: Option<&Catalogue>, from: &mut SecondsFrom) {
    let count = match seconds(step, catalogue) {
        Some((_, Source::Measured)) => &mut from.measured,
        Some((_, Source::Estimated)) => &mut from.estimated,
        Some((_, Source::Declared)) => &mut from.declared,
        // What a step takes is what the steps inside it take, and those were counted.
        None if step.plan.is_some() || step.kind.is_inline() => return,
        None => &mut from.unknown,
    };
    *count += 1;
}

fn runs_as_task(step: &Step) -> bool {
    step.plan.is_none() && step.kind != StepKind::Plan && !step.kind.is_inline()
}

/// Checks the forecast of a plan against the constraints of its goal. A broken hard constraint makes the plan invalid, a
/// broken soft one is a warning that lowers the plan's confidence.
pub(super) fn check_constraints(
    context: &ValidationContext<'_>,
    plan: &Plan,
    constraints: &[Constraint],
    seconds_left: Option<f64>,
    catalogue: Option<&Catalogue>,
) {
    if constraints.is_empty() && seconds_left.is_none() {
        return;
    }
    let total = forecast(plan, catalogue);
    let root = DocumentPath::ROOT;
    if let Some(left) = seconds_left.filter(|left| total.seconds > *left) {
        let detail =
            format!("the longest path takes {:.0} s, and {left:.0} s are left until the deadline", total.seconds);
        context.error(
            "CONSTRAINT_BROKEN",
            &root.key("deadline_ms"),
            detail,
            "use fewer or faster steps, or a later deadline",
        );
    }
    let at = root.key("constraints");
    for constraint in constraints.iter().filter(|constraint| constraint.bound == Bound::AtMost) {
        let sum = match constraint.measure() {
            Some(Measure::Cost(currency)) if currency == "USD" => total.cost,
            Some(Measure::Tokens) => total.tokens as f64,
            Some(Measure::Elapsed) => total.seconds,
            Some(Measure::Cost(_) | Measure::Deadline | Measure::Named(_)) | None => continue,
        };
        let Some(limit) = constraint.limit().filter(|limit| sum > *limit) else { continue };
        let unit = constraint.unit();
        let detail = format!("the steps are estimated at {sum} {unit}, the limit is {limit} {unit}");
        let at = at.key(&constraint.name);
        if constraint.hard {
            context.error("CONSTRAINT_BROKEN", &at, detail, "use fewer or cheaper steps, or raise the limit");
        } else {
            context.warn("CONSTRAINT_AT_RISK", &at, detail, "use fewer or cheaper steps, or raise the limit");
        }
    }
}

/// - `allowed`: what the goal allows.
pub(super) fn check_budget(
    context: &ValidationContext<'_>,
    at: &DocumentPath<'_>,
    plan: &Plan,
    allowed: &Budget,
    catalogue: Option<&Catalogue>,
) {
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
            let hint = "use fewer or cheaper steps, or raise the budget";
            context.error("BUDGET_EXCEEDED", &at.key("budget").key(name), detail, hint);
        }
    }
}

//! Watches the constraints of a goal: measures add up, and limits are reserved.

pub(crate) mod checks;
pub(crate) mod constraint_monitor;
pub(crate) mod result_amount;

use goalmill_common::command::SUBMITTED;
use goalmill_common::constraint::{
    AMOUNT, Constraint, ConstraintStatus, ConstraintView, LOW_SHARE, Measure, constraints, cost_measure,
};
use goalmill_common::event::ConstraintChanged;

use crate::constraints::constraint_monitor::{ConstraintMonitor, WatchedConstraint};
use crate::graph::StepIndex;
use crate::{PlanState, budget, calls};

/// A plan or step ends with this code when a hard constraint is broken, or would be.
pub(crate) const CONSTRAINT_BROKEN: &str = "CONSTRAINT_BROKEN";

pub(crate) fn measured_amount(state: &PlanState, monitor: &ConstraintMonitor, measure: &Measure, now_ms: u64) -> f64 {
    let named = |name: &str| monitor.measures.get(name).copied().unwrap_or(0.0);
    match measure {
        Measure::Cost(currency) if currency == "USD" => state.usage.cost + named(&cost_measure(currency)),
        Measure::Cost(currency) => named(&cost_measure(currency)),
        Measure::Tokens => state.usage.tokens as f64,
        Measure::Elapsed => now_ms.saturating_sub(state.created_ms) as f64 / 1_000.0,
        Measure::Deadline => now_ms as f64,
        Measure::Named(name) => named(name),
    }
}

/// The hard limits of cost in US dollars and of tokens that are not broken.
pub(crate) fn hard_limits(state: &PlanState) -> impl Iterator<Item = (&Measure, f64)> {
    let watched = state.monitor.iter().flat_map(|monitor| &monitor.watched);
    let hard = watched.filter(|watched| watched.constraint.hard && watched.is_open());
    hard.filter(|watched| match &watched.measure {
        Measure::Cost(currency) => currency == "USD",
        Measure::Tokens => true,
        Measure::Elapsed | Measure::Deadline | Measure::Named(_) => false,
    })
    .map(|watched| (&watched.measure, watched.limit))
}

/// A cost beside the one that the usage counts.
pub(crate) fn measured_beside_usage(state: &PlanState, measure: &Measure) -> f64 {
    state.monitor.as_deref().map_or(0.0, |monitor| measured_amount(state, monitor, measure, 0) - state.usage.cost)
}

/// The next moment at which time alone changes a constraint, Unix milliseconds; `None` while the plan cannot react.
pub(crate) fn constraint_due_ms(state: &PlanState) -> Option<u64> {
    let monitor = state.monitor.as_deref().filter(|_| state.status == goalmill_common::status::PlanStatus::Running)?;
    let timed = monitor.watched.iter().filter(|watched| watched.is_open() && watched.is_timed());
    let share = |watched: &WatchedConstraint| if watched.status == ConstraintStatus::Met { LOW_SHARE } else { 1.0 };
    // A limit is passed in the millisecond after it.
    timed.map(|watched| watched.due_ms(state.created_ms, share(watched)).saturating_add(1)).min()
}

/// Whether the step may start beside the steps in flight: their estimates are reserved. A step that can never fit
/// is let through, and fails when it is dispatched.
pub(crate) fn fits_reservations(state: &PlanState, i: StepIndex) -> bool {
    let is_reserved = !state.cleanup.is_running() && !state.reservations.is_empty();
    let Some(monitor) = state.monitor.as_deref().filter(|_| is_reserved) else { return true };
    let reserved_now = budget::reserved_against(state, i);
    monitor.watched.iter().filter(|watched| watched.constraint.hard && watched.is_open()).all(|watched| {
        let (used, own) = (measured_amount(state, monitor, &watched.measure, 0), estimate(state, i, &watched.measure));
        let reserved = match &watched.measure {
            Measure::Cost(currency) if currency == "USD" => reserved_now.cost,
            Measure::Tokens => reserved_now.tokens as f64,
            Measure::Cost(_) | Measure::Elapsed | Measure::Deadline | Measure::Named(_) => return true,
        };
        used + own > watched.limit || used + reserved + own <= watched.limit
    })
}

fn estimate(state: &PlanState, i: StepIndex, measure: &Measure) -> f64 {
    let estimates = calls::estimates_left(state, i);
    match measure {
        Measure::Cost(currency) if currency == "USD" => estimates.cost.unwrap_or(0.0),
        Measure::Tokens => estimates.tokens.unwrap_or(0) as f64,
        // Dependents follow: what counts is the longest path that begins with the step.
        Measure::Elapsed if estimates.seconds.is_some() => state.rank(i),
        Measure::Deadline if estimates.seconds.is_some() => state.rank(i) * 1_000.0,
        Measure::Cost(_) | Measure::Elapsed | Measure::Deadline | Measure::Named(_) => 0.0,
    }
}

/// Every constraint of the goal with its state, for views.
///
/// - `now_ms`: the time that durations and deadlines are measured at; the end of a plan that has ended.
pub fn constraint_views(state: &PlanState, now_ms: u64) -> Vec<ConstraintView> {
    let all = constraints(&state.accepted.goal.constraints);
    all.iter().map(|constraint| constraint_view(state, constraint, now_ms)).collect()
}

fn constraint_view(state: &PlanState, constraint: &Constraint, now_ms: u64) -> ConstraintView {
    let monitor = state.monitor.as_deref();
    let watched = monitor.and_then(|m| m.watched.iter().find(|w| w.constraint.name == constraint.name));
    let mut view = ConstraintView::not_measured(constraint);
    let (Some(monitor), Some(watched)) = (monitor, watched) else {
        view.reason = "a text for planners: nothing measures it".into();
        return view;
    };
    let measured = measured_amount(state, monitor, &watched.measure, now_ms);
    watched.measure.as_str().clone_into(&mut view.measure);
    view.measured = Some(measured);
    view.status = watched.status;
    view.reason.clone_from(&watched.reason);
    if watched.constraint.limits_result() {
        show_result_amount(state, watched, measured, &mut view);
    }
    let is_unreported = matches!(&watched.measure, Measure::Named(name) if !monitor.measures.contains_key(name));
    if is_unreported && watched.status == ConstraintStatus::Met {
        view.status = ConstraintStatus::NotMeasured;
        view.measured = None;
        view.reason = format!("no agent reported a measure `{}`", watched.measure.as_str());
    }
    view
}

/// Shows the amount of the result, if it is known. What the run has spent tells only whether a limit is low or
/// broken; where agents report what things cost themselves, as those of a submitted plan may, it is all there is.
fn show_result_amount(state: &PlanState, watched: &WatchedConstraint, spent: f64, view: &mut ConstraintView) {
    if let Some(amount) = watched.amount {
        AMOUNT.clone_into(&mut view.measure);
        view.measured = Some(amount);
        return;
    }
    let unit = watched.constraint.unit();
    let is_named = watched.constraint.of.is_some();
    let reason = match result_amount::amount_in_outputs(state, unit, watched.limit) {
        Err(reason) if !is_named => reason,
        _ if spent == 0.0 || state.origin.planner != SUBMITTED => {
            format!("no output says what the result costs; the run has spent {spent} {unit}")
        }
        _ => return,
    };
    if watched.status == ConstraintStatus::Met {
        AMOUNT.clone_into(&mut view.measure);
        (view.status, view.measured, view.reason) = (ConstraintStatus::NotMeasured, None, reason);
    }
}

/// Names of the constraints that were relaxed.
pub(crate) fn relaxed(state: &PlanState) -> Vec<String> {
    let watched = state.monitor.iter().flat_map(|monitor| &monitor.watched);
    let relaxed = watched.filter(|watched| watched.status == ConstraintStatus::Relaxed);
    relaxed.map(|watched| watched.constraint.name.clone()).collect()
}

fn changed(watched: &WatchedConstraint, status: ConstraintStatus, measured: f64, reason: String) -> ConstraintChanged {
    ConstraintChanged {
        constraint: watched.constraint.name.clone(),
        status,
        priority: watched.constraint.priority,
        hard: watched.constraint.hard,
        measure: watched.measure.as_str().to_owned(),
        measured,
        limit: watched.limit,
        unit: watched.constraint.unit().to_owned(),
        reason,
    }
}

fn describe(event: &ConstraintChanged) -> String {
    let ConstraintChanged { constraint, measured, limit, unit, status, .. } = event;
    if event.measure == Measure::Deadline.as_str() {
        return format!("constraint `{constraint}` is {status}");
    }
    format!("constraint `{constraint}` is {status}: {measured} of {limit} {unit}").trim_end().to_owned()
}

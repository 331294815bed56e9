//! Watches the constraints of a goal: measures add up, limits are reserved, and a broken hard limit stops the plan or
//! starts a replan.

pub(crate) mod constraint_monitor;
pub(crate) mod result_amount;

use goalmill_common::command::SUBMITTED;
use goalmill_common::constraint::{
    AMOUNT, Bound, Constraint, ConstraintStatus, ConstraintView, LOW_SHARE, Measure, constraints, cost_measure,
};
use goalmill_common::event::{ConstraintChanged, PlanEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::revision::Trigger;

use crate::attempt::failure;
use crate::constraints::constraint_monitor::{ConstraintMonitor, WatchedConstraint};
use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::revise::trigger;
use crate::{PlanState, budget, calls, revise};

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

/// Records the next constraint that has become low or broken, and acts on it. Returns whether there was one.
pub(crate) fn check_constraints(turn: &mut Turn<'_>) -> bool {
    let Some(monitor) = turn.state.monitor.as_deref() else { return false };
    // A plan that waits for a required revision cannot act: the constraint is checked again after it.
    if !turn.is_active() || failure::is_replan_required(turn) {
        return false;
    }
    let now_ms = turn.now_ms;
    let next = monitor.watched.iter().filter(|watched| watched.is_open()).find_map(|watched| {
        let measured = measured_amount(turn.state, monitor, &watched.measure, now_ms);
        let is_low = match watched.measure {
            Measure::Elapsed | Measure::Deadline => now_ms > watched.due_ms(turn.state.created_ms, LOW_SHARE),
            Measure::Cost(_) | Measure::Tokens | Measure::Named(_) => measured > watched.limit * LOW_SHARE,
        };
        let status = if measured > watched.limit {
            ConstraintStatus::Broken
        } else if is_low && watched.status == ConstraintStatus::Met {
            ConstraintStatus::Low
        } else {
            return None;
        };
        Some((changed(watched, status, measured, String::new()), watched.constraint.hard))
    });
    let Some((event, is_hard)) = next else { return false };
    let is_broken = event.status == ConstraintStatus::Broken;
    let reason = describe(&event);
    turn.emit_plan(PlanEvent::ConstraintChanged(Box::new(event)));
    if is_broken && is_hard {
        handle_broken_limit(turn, reason);
    }
    true
}

/// A hard limit is passed: planners are asked for a revision, or the plan fails.
fn handle_broken_limit(turn: &mut Turn<'_>, reason: String) {
    let may_replan = turn.state.plan.definition().revision.is_some() && !turn.state.is_done();
    if may_replan && revise::revisions_left(turn.state, turn.context.limits.revisions_max) > 0 {
        relax(turn, &reason);
        return trigger::replan(turn, Trigger::ConstraintViolation, None, reason);
    }
    failure::fail_plan(turn, Failure::new(FailureClass::ConstraintViolation, CONSTRAINT_BROKEN, reason));
}

/// Gives up the soft constraint with the lowest priority, so that a revision has room.
pub(crate) fn relax(turn: &mut Turn<'_>, reason: &str) {
    let Some(monitor) = turn.state.monitor.as_deref() else { return };
    let soft = monitor.watched.iter().filter(|watched| !watched.constraint.hard);
    let open = soft.filter(|watched| watched.status != ConstraintStatus::Relaxed);
    let Some(lowest) = open.min_by_key(|watched| watched.constraint.priority) else { return };
    let measured = measured_amount(turn.state, monitor, &lowest.measure, turn.now_ms);
    let event = changed(lowest, ConstraintStatus::Relaxed, measured, format!("given up: {reason}"));
    turn.emit_plan(PlanEvent::ConstraintChanged(Box::new(event)));
}

/// Returns why a step must not start: its estimate would break a hard constraint.
pub(crate) fn would_break(turn: &Turn<'_>, i: StepIndex) -> Option<Failure> {
    let monitor = turn.state.monitor.as_deref()?;
    let hard = monitor.watched.iter().filter(|watched| watched.constraint.hard && watched.is_open());
    let broken = hard.map(|watched| {
        let own = estimate(turn.state, i, &watched.measure);
        (watched, measured_amount(turn.state, monitor, &watched.measure, turn.now_ms), own)
    });
    let (watched, used, own) = broken.filter(|(_, _, own)| *own > 0.0).find(|(w, used, own)| used + own > w.limit)?;
    let unit = watched.constraint.unit();
    let message = match watched.measure {
        Measure::Deadline => {
            let late = (used + own - watched.limit) / 1_000.0;
            format!("constraint `{}`: the steps from here on would end {late:.0} s late", watched.constraint.name)
        }
        Measure::Cost(_) | Measure::Tokens | Measure::Elapsed | Measure::Named(_) => format!(
            "constraint `{}`: {used} {unit} used and {own} {unit} estimated exceed the limit of {} {unit}",
            watched.constraint.name, watched.limit
        ),
    };
    Some(Failure::new(FailureClass::ConstraintViolation, CONSTRAINT_BROKEN, message))
}

/// Compares what the result costs with its limits at the plan's end, and returns why a hard one is broken.
pub(crate) fn check_amounts(turn: &mut Turn<'_>) -> Option<String> {
    let monitor = turn.state.monitor.as_deref()?;
    let limits = &turn.context.limits;
    let of_result = monitor.watched.iter().filter(|watched| watched.constraint.limits_result());
    let known = of_result.filter(|watched| watched.status != ConstraintStatus::Relaxed).filter_map(|watched| {
        let found = result_amount::amount_said(turn.state, &watched.constraint, watched.limit, limits).ok()??;
        (watched.amount != Some(found.amount)).then_some((watched, found))
    });
    let events: Vec<ConstraintChanged> = known
        .map(|(watched, found)| {
            let status = match found.amount {
                amount if amount > watched.limit || watched.status == ConstraintStatus::Broken => {
                    ConstraintStatus::Broken
                }
                amount if amount > watched.limit * LOW_SHARE => ConstraintStatus::Low,
                _ => watched.status,
            };
            let event = changed(watched, status, found.amount, found.path);
            ConstraintChanged { measure: AMOUNT.to_owned(), ..event }
        })
        .collect();
    let is_broken = |event: &&ConstraintChanged| event.hard && event.measured > event.limit;
    let broken = events.iter().find(is_broken).map(describe);
    for event in events {
        turn.emit_plan(PlanEvent::ConstraintChanged(Box::new(event)));
    }
    broken
}

/// Checks floors at the plan's end, and returns why a hard one is broken.
pub(crate) fn check_floors(turn: &mut Turn<'_>) -> Option<String> {
    let monitor = turn.state.monitor.as_deref()?;
    let floors = monitor.watched.iter().filter(|watched| watched.constraint.bound == Bound::AtLeast);
    let broken: Vec<ConstraintChanged> = floors
        .filter(|watched| watched.status == ConstraintStatus::Met)
        .filter_map(|watched| {
            let measured = measured_amount(turn.state, monitor, &watched.measure, turn.now_ms);
            let is_broken = measured < watched.limit;
            is_broken.then(|| changed(watched, ConstraintStatus::Broken, measured, String::new()))
        })
        .collect();
    let hard = broken.iter().find(|event| event.hard).map(describe);
    for event in broken {
        turn.emit_plan(PlanEvent::ConstraintChanged(Box::new(event)));
    }
    hard
}

/// Why a revision should save: a constraint is low.
pub(crate) fn low_constraint(turn: &Turn<'_>) -> Option<String> {
    let monitor = turn.state.monitor.as_deref()?;
    let low = monitor.watched.iter().find(|watched| watched.status == ConstraintStatus::Low)?;
    let measured = measured_amount(turn.state, monitor, &low.measure, turn.now_ms);
    Some(describe(&changed(low, ConstraintStatus::Low, measured, String::new())))
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

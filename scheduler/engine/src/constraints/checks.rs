//! Checks of constraints in a turn.

use goalmill_common::constraint::{AMOUNT, Bound, ConstraintStatus, LOW_SHARE, Measure};
use goalmill_common::event::{ConstraintChanged, PlanEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::revision::Trigger;

use crate::attempt::failure;
use crate::cleanup::plan_end;
use crate::constraints;
use crate::constraints::{CONSTRAINT_BROKEN, result_amount};
use crate::graph::StepIndex;
use crate::revise::{revising, trigger};
use crate::turn::Turn;

/// Records the next constraint that has become low or broken, and acts on it. Returns whether there was one.
pub(crate) fn check_constraints(turn: &mut Turn<'_>) -> bool {
    let Some(monitor) = turn.state.monitor.as_deref() else { return false };
    // A plan that waits for a required revision cannot act: the constraint is checked again after it.
    if !turn.is_active() || failure::is_replan_required(turn) {
        return false;
    }
    let now_ms = turn.now_ms;
    let next = monitor.watched.iter().filter(|watched| watched.is_open()).find_map(|watched| {
        let measured = constraints::measured_amount(turn.state, monitor, &watched.measure, now_ms);
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
        Some((constraints::changed(watched, status, measured, String::new()), watched.constraint.hard))
    });
    let Some((event, is_hard)) = next else { return false };
    let is_broken = event.status == ConstraintStatus::Broken;
    let reason = constraints::describe(&event);
    turn.emit_plan(PlanEvent::ConstraintChanged(Box::new(event)));
    if is_broken && is_hard {
        handle_broken_limit(turn, reason);
    }
    true
}

/// A hard limit is passed: planners are asked for a revision, or the plan fails.
fn handle_broken_limit(turn: &mut Turn<'_>, reason: String) {
    let may_replan = turn.state.plan.definition().revision.is_some() && !turn.state.is_done();
    if may_replan && revising::revisions_left(turn.state, turn.context.limits.revisions_max) > 0 {
        relax(turn, &reason);
        return trigger::replan(turn, Trigger::ConstraintViolation, None, reason);
    }
    plan_end::fail_plan(turn, Failure::new(FailureClass::ConstraintViolation, CONSTRAINT_BROKEN, reason));
}

/// Gives up the soft constraint with the lowest priority, so that a revision has room.
fn relax(turn: &mut Turn<'_>, reason: &str) {
    let Some(monitor) = turn.state.monitor.as_deref() else { return };
    let soft = monitor.watched.iter().filter(|watched| !watched.constraint.hard);
    let open = soft.filter(|watched| watched.status != ConstraintStatus::Relaxed);
    let Some(lowest) = open.min_by_key(|watched| watched.constraint.priority) else { return };
    let measured = constraints::measured_amount(turn.state, monitor, &lowest.measure, turn.now_ms);
    let event = constraints::changed(lowest, ConstraintStatus::Relaxed, measured, format!("given up: {reason}"));
    turn.emit_plan(PlanEvent::ConstraintChanged(Box::new(event)));
}

/// Returns why a step must not start: its estimate would break a hard constraint.
pub(crate) fn would_break(turn: &Turn<'_>, i: StepIndex) -> Option<Failure> {
    let monitor = turn.state.monitor.as_deref()?;
    let hard = monitor.watched.iter().filter(|watched| watched.constraint.hard && watched.is_open());
    let broken = hard.map(|watched| {
        let own = constraints::estimate(turn.state, i, &watched.measure);
        (watched, constraints::measured_amount(turn.state, monitor, &watched.measure, turn.now_ms), own)
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
            let event = constraints::changed(watched, status, found.amount, found.path);
            ConstraintChanged { measure: AMOUNT.to_owned(), ..event }
        })
        .collect();
    let is_broken = |event: &&ConstraintChanged| event.hard && event.measured > event.limit;
    let broken = events.iter().find(is_broken).map(constraints::describe);
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
            let measured = constraints::measured_amount(turn.state, monitor, &watched.measure, turn.now_ms);
            let is_broken = measured < watched.limit;
            is_broken.then(|| constraints::changed(watched, ConstraintStatus::Broken, measured, String::new()))
        })
        .collect();
    let hard = broken.iter().find(|event| event.hard).map(constraints::describe);
    for event in broken {
        turn.emit_plan(PlanEvent::ConstraintChanged(Box::new(event)));
    }
    hard
}

/// Why a revision should save: a constraint is low.
pub(crate) fn low_constraint(turn: &Turn<'_>) -> Option<String> {
    let monitor = turn.state.monitor.as_deref()?;
    let low = monitor.watched.iter().find(|watched| watched.status == ConstraintStatus::Low)?;
    let measured = constraints::measured_amount(turn.state, monitor, &low.measure, turn.now_ms);
    Some(constraints::describe(&constraints::changed(low, ConstraintStatus::Low, measured, String::new())))
}

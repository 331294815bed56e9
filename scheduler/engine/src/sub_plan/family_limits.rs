//! Limits of the whole family of a plan, and what a turn adds to it.

use goalmill_common::event::FamilyGrew;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::plan::{Plan, Step};

use crate::budget::plan_size::{count_step, count_steps, counted_bytes, reported_bytes};
use crate::sub_plan::family;
use crate::sub_plan::family_plans::{FamilyRequest, FamilyUse};
use crate::turn::Turn;

/// Plans inside plans at most: of the goal, within the limits of the installation.
pub(crate) fn depth_max(turn: &Turn<'_>) -> u32 {
    let most = turn.context.limits.depth_max;
    turn.state.accepted.goal.planning.max_depth.unwrap_or(most).min(most)
}

pub(crate) fn join_family(turn: &mut Turn<'_>, family: FamilyUse) {
    (turn.family, turn.work) = (family, family.work);
}

/// Tells the outermost plan how many steps and bytes this one has more.
pub(crate) fn report_growth(turn: &mut Turn<'_>) {
    if turn.state.parent().is_none() {
        return;
    }
    let steps = turn.state.size.steps().saturating_sub(turn.size_before);
    let bytes = reported_bytes(family::kept_bytes(turn.state)).saturating_sub(reported_bytes(turn.bytes_before));
    if steps > 0 || bytes > 0 {
        let grown = FamilyGrew { steps, bytes };
        turn.requests.push(FamilyRequest::Grow { plan: turn.state.id().clone(), grown });
    }
}

/// Says why no plan may start inside this one.
pub(crate) fn check_family_room(turn: &Turn<'_>, plan: Option<&Plan>) -> Result<(), Failure> {
    check_family_steps(turn, plan.map_or(0, count_steps))
}

/// Says why the plan of a map's items may not start, before it is made.
pub(crate) fn check_room_of_items(turn: &Turn<'_>, item: &Step, items: usize) -> Result<(), Failure> {
    check_family_steps(turn, count_step(item).saturating_mul(items as u64))
}

fn check_family_steps(turn: &Turn<'_>, steps: u64) -> Result<(), Failure> {
    let steps = turn.family.steps.saturating_add(1).saturating_add(steps);
    if steps > family_steps_max(turn) { Err(family_too_large(turn)) } else { Ok(()) }
}

/// Says why no plan of so many bytes, with its goal, may start inside this one. Clean-up is not held to it.
pub(crate) fn check_family_bytes(turn: &Turn<'_>, bytes: u64) -> Result<(), Failure> {
    let most = turn.context.limits.plan_outputs_bytes_max;
    let grown = family::kept_bytes(turn.state).saturating_sub(turn.bytes_before);
    let all = turn.family.bytes.saturating_add(grown).saturating_add(counted_bytes(bytes));
    if all <= most as u64 || turn.state.cleanup.is_running() {
        return Ok(());
    }
    let message = format!(
        "with one more plan of {bytes} bytes, the plan and the plans inside it would have more than {most} bytes \
         of plans and outputs together (`limits.plan_outputs_bytes_max`)"
    );
    Err(Failure::new(FailureClass::Permanent, "FAMILY_TOO_LARGE", message))
}

pub(crate) fn family_steps_max(turn: &Turn<'_>) -> u64 {
    u64::try_from(turn.context.limits.family_steps_max).unwrap_or(u64::MAX)
}

pub(crate) fn family_too_large(turn: &Turn<'_>) -> Failure {
    let most = turn.context.limits.family_steps_max;
    let message = format!(
        "the plan and the plans inside it would have more than {most} steps together (`limits.family_steps_max`)"
    );
    Failure::new(FailureClass::Permanent, "FAMILY_TOO_LARGE", message)
}

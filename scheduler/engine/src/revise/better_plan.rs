//! Better plans: a slower planner returns a plan with more confidence than the running one.

use goalmill_common::command::Planned;
use goalmill_common::revision::Trigger;
use goalmill_common::status::PlanStatus;

use crate::revise::{propose, revising, trigger};
use crate::turn::Turn;
use crate::{PlanAnswer, Rejection};

/// Applies the plan as a revision of what remains, by the plan's revision policy. A plan with no more confidence,
/// or one that arrives after a revision, is refused.
pub(crate) fn take_better_plan(turn: &mut Turn<'_>, planned: Planned) -> Result<(), Rejection> {
    if turn.state.status != PlanStatus::Running || turn.state.is_done() || revising::is_plan_open(turn.state) {
        return Err(Rejection::NotDue);
    }
    if turn.state.revision > 0 {
        return Err(Rejection::StaleRevision { revision: turn.state.revision });
    }
    let before = turn.state.origin.confidence;
    // NaN is no better.
    if planned.confidence.partial_cmp(&before) != Some(std::cmp::Ordering::Greater) {
        let reason = format!("its confidence is {:.2}, and that of the running plan {before:.2}", planned.confidence);
        return Err(Rejection::not_allowed(reason));
    }
    let reason = format!("planner `{}` answered with more confidence", planned.planner);
    trigger::replan(turn, Trigger::BetterPlan, None, reason);
    if revising::has_better_plan(turn.state) {
        propose::revised(turn, PlanAnswer::Plan(Box::new(planned)))
    } else {
        Ok(())
    }
}

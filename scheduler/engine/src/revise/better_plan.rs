//! Better plans: a slower planner returns a plan with more confidence than the running one.

use goalmill_common::command::Planned;
use goalmill_common::revision::Trigger;
use goalmill_common::status::PlanStatus;

use crate::decide::{Turn, not_allowed};
use crate::{PlanAnswer, PlanState, Rejection};

impl Turn<'_> {
    /// Applies the plan as a revision of what remains, by the plan's revision policy. A plan with no more confidence,
    /// or one that arrives after a revision, is refused.
    pub(crate) fn better_plan(&mut self, planned: Planned) -> Result<(), Rejection> {
        if self.state.status != PlanStatus::Running || self.state.is_done() || self.state.is_open() {
            return Err(Rejection::NotDue);
        }
        if self.state.revision > 0 {
            return Err(Rejection::StaleRevision { revision: self.state.revision });
        }
        let before = self.state.origin.confidence;
        // NaN is no better.
        if planned.confidence.partial_cmp(&before) != Some(std::cmp::Ordering::Greater) {
            let reason =
                format!("its confidence is {:.2}, and that of the running plan {before:.2}", planned.confidence);
            return Err(not_allowed(reason));
        }
        let reason = format!("planner `{}` answered with more confidence", planned.planner);
        self.replan(Trigger::BetterPlan, None, reason);
        if self.state.has_better_plan() { self.revised(PlanAnswer::Plan(Box::new(planned))) } else { Ok(()) }
    }
}

impl PlanState {
    /// Whether the current replan is about a better plan: no planner is asked, and it is optional.
    pub(crate) fn has_better_plan(&self) -> bool {
        self.waiting.is_for(Trigger::BetterPlan)
    }
}

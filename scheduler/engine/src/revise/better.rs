//! A better plan for a plan that runs: it comes from a planner that was still asked when a faster one's plan began.

use goalmill_common::command::Planned;
use goalmill_common::revision::Trigger;
use goalmill_common::status::PlanStatus;

use crate::decide::{Turn, not_allowed};
use crate::{PlanAnswer, PlanState, Rejection};

impl Turn<'_> {
    /// Takes the plan as a revision of what remains, by the plan's own policy for revisions. A plan that is no better,
    /// or that comes when the running plan was revised, is refused and changes nothing.
    pub(crate) fn better_plan(&mut self, planned: Planned) -> Result<(), Rejection> {
        if self.state.status != PlanStatus::Running || self.state.is_done() || self.state.is_open() {
            return Err(Rejection::NotDue);
        }
        if self.state.revision > 0 {
            return Err(Rejection::StaleRevision { revision: self.state.revision });
        }
        let before = self.state.origin.confidence;
        // Not a number is no better.
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
    /// Whether the revision at hand is a better plan: no planner is asked, and nothing depends on it.
    pub(crate) fn has_better_plan(&self) -> bool {
        self.waiting.is_for(Trigger::BetterPlan)
    }
}

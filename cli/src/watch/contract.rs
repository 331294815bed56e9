//! Where a plan stands with the constraints and criteria of its goal.

use std::collections::BTreeMap;

use goalmill_common::constraint::{Constraint, ConstraintStatus, ConstraintView, constraints};
use goalmill_common::criterion::{CriterionVerdict, list_verdicts};
use goalmill_common::event::{ConstraintChanged, CriteriaJudged};
use goalmill_common::goal::Goal;

/// What the events said so far.
#[derive(Clone, Debug, Default)]
pub struct Contract {
    /// By the constraint's name.
    changes: BTreeMap<String, ConstraintChanged>,
    /// By the criterion's id.
    verdicts: BTreeMap<String, CriterionVerdict>,
}

impl Contract {
    pub fn change(&mut self, changed: &ConstraintChanged) {
        self.changes.insert(changed.constraint.clone(), changed.clone());
    }

    pub fn judge(&mut self, judged: &CriteriaJudged) {
        self.verdicts.extend(judged.verdicts.iter().map(|verdict| (verdict.criterion.clone(), verdict.clone())));
    }

    /// A revision makes every verdict void.
    pub fn restart(&mut self) {
        self.verdicts.clear();
    }

    /// The constraints of the goal; the measured value is the one at the last change.
    pub fn constraints(&self, goal: &Goal) -> Vec<ConstraintView> {
        let view = |constraint: Constraint| {
            let mut view = ConstraintView::not_measured(&constraint);
            if let Some(measure) = constraint.measure() {
                view.status = ConstraintStatus::Met;
                measure.as_str().clone_into(&mut view.measure);
            }
            if let Some(changed) = self.changes.get(&constraint.name) {
                (view.status, view.measured) = (changed.status, Some(changed.measured));
                view.reason.clone_from(&changed.reason);
            }
            view
        };
        constraints(&goal.constraints).into_iter().map(view).collect()
    }

    /// The verdict on each criterion of the goal, in its order.
    pub fn criteria(&self, goal: &Goal) -> Vec<CriterionVerdict> {
        list_verdicts(&goal.success_criteria, &self.verdicts)
    }
}

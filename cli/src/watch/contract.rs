//! Where a plan stands with the constraints and criteria of its goal.

use std::collections::BTreeMap;

use goalmill_common::constraint::{Bound, ConstraintStatus, ConstraintView, constraints};
use goalmill_common::criterion::{CriterionVerdict, Judgement, criterion_id};
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
        let view = |constraint: goalmill_common::constraint::Constraint| {
            let (changed, measure) = (self.changes.get(&constraint.name), constraint.measure());
            let unchanged = if measure.is_some() { ConstraintStatus::Met } else { ConstraintStatus::NotMeasured };
            ConstraintView {
                priority: constraint.priority,
                hard: constraint.hard,
                status: changed.map_or(unchanged, |changed| changed.status),
                measure: measure.map(|measure| measure.as_str().to_owned()).unwrap_or_default(),
                measured: changed.map(|changed| changed.measured),
                limit: constraint.limit(),
                unit: constraint.unit().to_owned(),
                at_least: constraint.bound == Bound::AtLeast,
                reason: changed.map(|changed| changed.reason.clone()).unwrap_or_default(),
                name: constraint.name,
            }
        };
        constraints(&goal.constraints).into_iter().map(view).collect()
    }

    /// The verdict on each criterion of the goal, in its order.
    pub fn criteria(&self, goal: &Goal) -> Vec<CriterionVerdict> {
        let verdict = |(place, criterion)| {
            let criterion: &goalmill_common::criterion::Criterion = criterion;
            let id = criterion_id(criterion, place);
            self.verdicts.get(&id).cloned().unwrap_or_else(|| CriterionVerdict {
                criterion: id,
                description: criterion.text().to_owned(),
                verdict: Judgement::NotJudged,
                judge: None,
                by: String::new(),
                evidence: String::new(),
            })
        };
        goal.success_criteria.iter().enumerate().map(verdict).collect()
    }
}

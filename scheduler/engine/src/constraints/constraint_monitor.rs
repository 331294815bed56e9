//! The measured constraints of a plan, and what its steps reported.

use goalmill_common::constraint::{
    AMOUNT, Bound, Constraint, ConstraintStatus, MEASURES_MAX, Measure, Measures, constraints,
};
use goalmill_common::event::ConstraintChanged;
use goalmill_common::goal::Goal;
use goalmill_common::number::whole_u64;

/// The constraints that are measured, and the measures.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ConstraintMonitor {
    pub(crate) watched: Vec<WatchedConstraint>,
    /// What agents reported beside cost in US dollars and tokens.
    pub(crate) measures: Measures,
}

/// A measured constraint and where the plan stands with it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WatchedConstraint {
    pub(crate) constraint: Constraint,
    pub(crate) measure: Measure,
    pub(crate) limit: f64,
    pub(crate) status: ConstraintStatus,
    /// Why it was relaxed.
    pub(crate) reason: String,
    /// What the result costs, once outputs say it.
    pub(crate) amount: Option<f64>,
}

impl WatchedConstraint {
    fn new(constraint: Constraint) -> Option<Self> {
        let (measure, limit) = (constraint.measure()?, constraint.limit()?);
        Some(Self { constraint, measure, limit, status: ConstraintStatus::Met, reason: String::new(), amount: None })
    }

    /// Whether it may still be broken by more of its measure.
    pub(crate) fn is_open(&self) -> bool {
        let is_open = matches!(self.status, ConstraintStatus::Met | ConstraintStatus::Low);
        is_open && self.constraint.bound == Bound::AtMost
    }

    pub(crate) fn is_timed(&self) -> bool {
        matches!(self.measure, Measure::Elapsed | Measure::Deadline)
    }

    /// The moment at which this share of a timed constraint is used, Unix milliseconds.
    pub(crate) fn due_ms(&self, created_ms: u64, share: f64) -> u64 {
        let whole = match self.measure {
            Measure::Deadline => (self.limit - created_ms as f64).max(0.0),
            Measure::Elapsed | Measure::Cost(_) | Measure::Tokens | Measure::Named(_) => self.limit * 1_000.0,
        };
        created_ms.saturating_add(whole_u64((whole * share).ceil()))
    }
}

impl ConstraintMonitor {
    /// The monitor of a goal; `None` when nothing is measured.
    ///
    /// - `is_part`: the plan is a sub-plan. Its part of a floor may be small: only the parent checks floors.
    pub(crate) fn new(goal: &Goal, is_part: bool) -> Option<Box<Self>> {
        if goal.constraints.is_empty() {
            return None;
        }
        let all = constraints(&goal.constraints).into_iter();
        let own = all.filter(|constraint| !is_part || constraint.bound == Bound::AtMost);
        let watched: Vec<WatchedConstraint> = own.filter_map(WatchedConstraint::new).collect();
        (!watched.is_empty()).then(|| Box::new(Self { watched, ..Self::default() }))
    }

    /// Adds what a step reported.
    pub(crate) fn add(&mut self, measures: &Measures) {
        for (name, amount) in measures {
            if self.measures.len() < MEASURES_MAX || self.measures.contains_key(name) {
                *self.measures.entry(name.clone()).or_default() += amount;
            }
        }
    }

    pub(crate) fn change(&mut self, changed: &ConstraintChanged) {
        for watched in self.watched.iter_mut().filter(|watched| watched.constraint.name == changed.constraint) {
            watched.status = changed.status;
            if changed.measure == AMOUNT {
                watched.amount = Some(changed.measured);
            }
            watched.reason.clone_from(&changed.reason);
        }
    }
}

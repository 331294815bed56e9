//! The state of one plan.

/// A step's place in its plan, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepIndex(pub u32);

/// Everything known about one plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanState {}

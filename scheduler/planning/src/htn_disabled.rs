//! Stands in for the planner `htn` in builds without the feature `htn`.

use std::sync::Arc;

use goalmill_common::config::{Feature, PlannerSettings};

use crate::Planner;

pub(crate) fn planner(_: &PlannerSettings) -> Result<Arc<dyn Planner>, String> {
    Err(Feature::Htn.missing("planner.order").to_string())
}

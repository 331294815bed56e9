//! Validates the requirements of a goal on each step: dependencies and fallbacks.

use goalmill_common::plan::{Plan, StepKind};

use super::origin::StepOrigin;
use crate::document::{DocumentPath, ValidationContext};

/// What a goal requires of the steps of its plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// In a plan of several steps, each step depends on another one or is a dependency of one.
    pub dependencies: bool,
    /// Each step that a worker does has a fallback.
    pub fallbacks: bool,
}

/// Reports steps without what is required.
pub(super) fn check_requirements(context: &ValidationContext<'_>, plan: &Plan, origins: &[StepOrigin<'_>]) {
    let Requirements { dependencies, fallbacks } =
        context.planner_rules().map(|rules| rules.requires).unwrap_or_default();
    let error = |origin: &StepOrigin<'_>, field: &str, detail: String, hint: &str| {
        context.error("MISSING_FIELD", &DocumentPath::Pointer(&origin.at).key(field), detail, hint);
    };
    if dependencies && plan.steps.len() > 1 {
        let needed: std::collections::BTreeSet<&str> =
            plan.steps.iter().flat_map(|step| step.dependencies.iter().map(|id| id.as_str())).collect();
        let is_alone = |step: &goalmill_common::plan::Step| {
            step.dependencies.is_empty() && !needed.contains(step.id.as_str()) && step.kind != StepKind::Internal
        };
        for (step, origin) in plan.steps.iter().zip(origins).filter(|(step, _)| is_alone(step)) {
            let detail = format!("step `{}` has no dependencies and is a dependency of no step", step.id);
            error(origin, "dependencies", detail, "name the steps that it needs, or let a step depend on it");
        }
    }
    if fallbacks {
        let lacks = |step: &goalmill_common::plan::Step| step.kind.needs_worker() && step.fallback.is_none();
        for (step, origin) in plan.steps.iter().zip(origins).filter(|(step, _)| lacks(step)) {
            let detail = format!("step `{}` has no fallback", step.id);
            error(origin, "fallback", detail, "give `fallback` with another `agent_type` or `action`");
        }
    }
}

#[cfg(test)]
mod tests {
    use goalmill_common::limits::Limits;
    use goalmill_common::problem::Issue;
    use serde_json::{Value, json};

    use super::*;
    use crate::validate::{Rules, validate_plan_by};

    fn places(steps: &Value, requires: Requirements) -> Vec<String> {
        let rules = Rules { requires, ..Rules::default() };
        let issues = validate_plan_by(&json!({ "steps": steps }), &Limits::default(), &rules).err().unwrap_or_default();
        issues.into_iter().map(|Issue { code, pointer, .. }| format!("{code} {pointer}")).collect()
    }

    #[test]
    fn a_step_that_stands_alone_is_reported_where_dependencies_are_required() {
        let requires = Requirements { dependencies: true, ..Requirements::default() };
        let steps = json!([
            {"id": "a", "agent_type": "x"},
            {"id": "b", "agent_type": "x", "dependencies": ["a"]},
            {"id": "c", "agent_type": "x"},
        ]);
        assert_eq!(places(&steps, requires), ["MISSING_FIELD /steps/2/dependencies"]);
        assert_eq!(places(&steps, Requirements::default()), [""; 0]);
        assert_eq!(places(&json!([{"id": "a", "agent_type": "x"}]), requires), [""; 0], "it is the only one");
    }

    #[test]
    fn a_step_of_a_worker_without_a_fallback_is_reported_where_fallbacks_are_required() {
        let requires = Requirements { fallbacks: true, ..Requirements::default() };
        let steps = json!([
            {"id": "a", "agent_type": "x", "fallback": {"agent_type": "y"}},
            {"id": "b", "agent_type": "x"},
            {"id": "c", "kind": "message", "description": "done"},
        ]);
        assert_eq!(places(&steps, requires), ["MISSING_FIELD /steps/1/fallback"]);
    }
}

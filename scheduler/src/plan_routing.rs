//! Routes the plans of planners.

use goalmill_common::problem::Issue;
use goalmill_plan::states::{RoutedPlan, ValidPlan};
use goalmill_plan::validate::Weight;
use goalmill_planning::stage::{self, PlanningStage, StageOutcome};
use goalmill_planning::{PlanRequest, pipeline};
use tokio::time::Instant;

use crate::directory::Directory;

/// Routes a planner's plan, and lets its steps ask for revisions.
pub(crate) fn route(directory: &Directory, valid: ValidPlan, request: &PlanRequest) -> Result<RoutedPlan, Vec<Issue>> {
    let set = |plan: &mut goalmill_common::plan::Plan| {
        pipeline::enable_revisions(plan, &request.goal);
        request.goal.execution.apply_to(plan);
    };
    valid.with_policies(set).route(|plan| {
        let begun = Instant::now();
        let routed = directory.route(plan, &request.terms.policy);
        let outcome = if routed.is_ok() { StageOutcome::Ok } else { StageOutcome::Invalid };
        stage::count("router", PlanningStage::Route, outcome, begun.elapsed());
        let (routes, odd) = routed?;
        Ok((routes, weigh_unserved(odd, request.terms.weights.no_worker)?))
    })
}

/// Warnings of the router; those about missing live workers have the weight of the settings.
fn weigh_unserved(odd: Vec<Issue>, weight: Weight) -> Result<Vec<Issue>, Vec<Issue>> {
    let (unserved, rest): (Vec<Issue>, Vec<Issue>) = odd.into_iter().partition(|issue| issue.code == "NO_LIVE_WORKER");
    match weight {
        Weight::Ignore => Ok(rest),
        Weight::Error if !unserved.is_empty() => Err(unserved),
        Weight::Warning | Weight::Error => Ok(rest.into_iter().chain(unserved).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_without_a_live_worker_weighs_what_the_settings_say() {
        let issue = |code: &str| Issue {
            code: code.into(),
            ..goalmill_plan::validate::no_live_worker(&"a".into(), "/steps/0".into())
        };
        let odd = || vec![issue("APPROVAL_REQUIRED"), issue("NO_LIVE_WORKER")];
        let codes = |issues: &[Issue]| issues.iter().map(|issue| issue.code.clone()).collect::<Vec<_>>();
        let told = |weight| weigh_unserved(odd(), weight).map(|told| codes(&told)).map_err(|wrong| codes(&wrong));
        assert_eq!(told(Weight::Ignore), Ok(vec!["APPROVAL_REQUIRED".into()]));
        assert_eq!(told(Weight::Warning), Ok(vec!["APPROVAL_REQUIRED".into(), "NO_LIVE_WORKER".into()]));
        assert_eq!(told(Weight::Error), Err(vec!["NO_LIVE_WORKER".into()]));
        assert_eq!(weigh_unserved(vec![issue("APPROVAL_REQUIRED")], Weight::Error).map(|told| told.len()), Ok(1));
    }
}

//! The revision policy of planned goals.

use goalmill_common::goal::Goal;
use goalmill_common::plan::{OnFailure, Plan, RevisionPolicy, Step};

/// Enables revisions: a step whose failure would end the plan asks for one.
///
/// The policy is the goal's `planning.revision`. A policy that the planner has set takes precedence; that of an iterative
/// plan counts only for the fields that the goal does not name.
pub fn enable_revisions(plan: &mut Plan, goal: &Goal) {
    if plan.revision.is_some() && !plan.is_iterative() {
        return;
    }
    let own = plan.revision.take().unwrap_or_default();
    plan.revision = Some(match goal.planning.revision.clone() {
        Some(goal) => merge_policies(own, goal),
        None => own,
    });
    enable_step_revisions(&mut plan.steps);
}

/// Sets steps whose failure would end the plan to ask for a revision.
pub fn enable_step_revisions(steps: &mut [Step]) {
    for step in steps.iter_mut().filter(|step| step.on_failure == OnFailure::Abort) {
        step.on_failure = OnFailure::Replan;
    }
}

/// The goal's policy; for fields with the default value, the plan's own counts.
fn merge_policies(own: RevisionPolicy, goal: RevisionPolicy) -> RevisionPolicy {
    let default = RevisionPolicy::default();
    let pick = |goal: f64, default: f64, own: f64| if goal == default { own } else { goal };
    RevisionPolicy {
        max: goal.max.or(own.max),
        threshold: pick(goal.threshold, default.threshold, own.threshold),
        confidence_floor: pick(goal.confidence_floor, default.confidence_floor, own.confidence_floor),
        budget_low: pick(goal.budget_low, default.budget_low, own.budget_low),
        approve: goal.approve.or(own.approve),
        widen: if goal.widen == default.widen { own.widen } else { goal.widen },
        strategy: goal.strategy.or(own.strategy),
        model: goal.model.or(own.model),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn the_goal_s_own_fields_win_over_the_policy_of_an_iterative_plan_only() {
        let goal = json!({"planning": {"revision": {"approve": {}, "max": 2}}});
        let goal: Goal = serde_json::from_value(goal).expect("it is a goal");
        let set = RevisionPolicy { confidence_floor: 0.0, ..RevisionPolicy::default() };
        let iterative = Map::from_iter([("planning".to_owned(), json!("iterative"))]);
        let mut plan = Plan { revision: Some(set.clone()), metadata: iterative, ..Plan::default() };
        enable_revisions(&mut plan, &goal);
        let policy = plan.revision.expect("it has one");
        assert!(policy.approve.is_some() && policy.max == Some(2) && policy.confidence_floor == 0.0, "{policy:?}");
        let mut plan = Plan { revision: Some(set.clone()), ..Plan::default() };
        enable_revisions(&mut plan, &goal);
        assert_eq!(plan.revision, Some(set), "a rule or domain decides for itself");
    }
}

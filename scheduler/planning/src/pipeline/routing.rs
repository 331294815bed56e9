//! Routes the plans of planners and the changes of revisions.

use std::sync::Arc;

use goalmill_common::id::{AgentType, StepId};
use goalmill_common::json::Json;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::problem::Issue;
use goalmill_common::revision::Change;
use goalmill_plan::states::{RoutedPlan, Routing, ValidPlan};
use goalmill_plan::validate::{Policy, Weight};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::enable_revisions;
use crate::PlanRequest;
use crate::stage::{self, PlanningStage, StageOutcome};

/// Chooses the agent types of `auto` steps. Returns the choices and warnings, or an issue for each step that no agent type fits.
pub type RouteSteps = Arc<dyn Fn(&mut Plan, &Policy) -> Result<Routing, Vec<Issue>> + Send + Sync>;

/// Routes a planner's plan, and lets its steps request revisions.
pub(crate) fn route_plan(
    route: &RouteSteps,
    valid: ValidPlan,
    request: &PlanRequest,
) -> Result<RoutedPlan, Vec<Issue>> {
    let set = |plan: &mut Plan| {
        enable_revisions(plan, &request.goal);
        request.goal.execution.apply_to(plan);
    };
    valid.with_policies(set).route(|plan| {
        let begun = Instant::now();
        let routed = route(plan, &request.terms.policy);
        let outcome = if routed.is_ok() { StageOutcome::Ok } else { StageOutcome::Invalid };
        stage::count("router", PlanningStage::Route, outcome, begun.elapsed());
        let (routes, warnings) = routed?;
        Ok((routes, weigh_unserved(warnings, request.terms.weights.no_worker)?))
    })
}

/// Warnings of the router; those about missing live workers have the weight of the settings.
fn weigh_unserved(warnings: Vec<Issue>, weight: Weight) -> Result<Vec<Issue>, Vec<Issue>> {
    let (unserved, rest): (Vec<Issue>, Vec<Issue>) =
        warnings.into_iter().partition(|issue| issue.code == "NO_LIVE_WORKER");
    match weight {
        Weight::Ignore => Ok(rest),
        Weight::Error if !unserved.is_empty() => Err(unserved),
        Weight::Warning | Weight::Error => Ok(rest.into_iter().chain(unserved).collect()),
    }
}

/// Routes the `auto` steps of the changes of a revision, and checks those that get another agent type, action or
/// fallback.
///
/// - `live`: the plan that is revised.
/// - `route`: routes a plan of the steps of one change, which is given by its index.
pub fn route_changes<E>(
    live: &Plan,
    changes: &mut [Change],
    mut route: impl FnMut(usize, &mut Plan) -> Result<(), E>,
) -> Result<(), E> {
    let find = |id: &StepId| live.steps.iter().find(|step| step.id == *id);
    for (n, change) in changes.iter_mut().enumerate() {
        let mut routed = |steps: &[Step]| {
            let mut plan = Plan { steps: steps.to_vec(), ..Plan::default() };
            route(n, &mut plan).map(|()| plan.steps)
        };
        match change {
            Change::AddStep { step, .. } | Change::ModifyStep { step } => {
                **step = routed(std::slice::from_ref(step))?.remove(0);
            }
            Change::ReplaceStep { with: steps, .. } | Change::AddPhase { steps, .. } => *steps = routed(steps)?,
            Change::DecomposeStep { plan: Some(plan), .. } => plan.steps = routed(&plan.steps)?,
            Change::RetryStep { step, agent_type, action, .. } if agent_type.is_some() || action.is_some() => {
                let Some(own) = find(step) else { continue };
                let action = action.as_ref().unwrap_or(&own.action).clone();
                let other = agent_type.as_ref().unwrap_or(&own.agent_type).clone();
                // The fallback stays as it is.
                let step = Step { agent_type: other, action, fallback: None, ..own.clone() };
                let chosen = routed(&[step])?.remove(0).agent_type;
                if let Some(agent_type) = agent_type {
                    *agent_type = chosen;
                }
            }
            Change::SetFields { step, fields } => {
                let Some(changed) = find(step).and_then(|own| assigned_step(own, fields)) else { continue };
                let step = routed(std::slice::from_ref(&changed))?.remove(0);
                if step.agent_type != changed.agent_type {
                    fields.insert("agent_type".into(), step.agent_type.as_str().into());
                }
                if step.fallback != changed.fallback {
                    fields.insert("fallback".into(), Json::from_value(&step.fallback).value());
                }
            }
            Change::RetryStep { .. }
            | Change::DecomposeStep { plan: None, .. }
            | Change::RemoveStep { .. }
            | Change::SkipStep { .. }
            | Change::Order { .. }
            | Change::SkipPhase { .. } => {}
        }
    }
    Ok(())
}

/// The step as the fields change it, if they say who does what.
fn assigned_step(own: &Step, fields: &Map<String, Value>) -> Option<Step> {
    if !["agent_type", "action", "fallback"].iter().any(|name| fields.contains_key(*name)) {
        return None;
    }
    let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    let fallback = match fields.get("fallback") {
        // A fallback of another form is refused when the change is applied.
        Some(given) => serde_json::from_value(given.clone()).unwrap_or_default(),
        None => own.fallback.clone(),
    };
    Some(Step {
        agent_type: text("agent_type").map_or_else(|| own.agent_type.clone(), AgentType::from),
        action: text("action").unwrap_or_else(|| own.action.clone()),
        description: text("description").unwrap_or_else(|| own.description.clone()),
        fallback,
        ..own.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_that_asks_for_routing_is_routed_at_its_own_index() {
        let step = |id: &str, agent: &str| Step { action: "look".into(), ..Step::new(id, agent) };
        let live = Plan { steps: vec![step("own", "a")], ..Plan::default() };
        let auto = || AgentType::from("auto");
        let mut changes = vec![
            Change::RemoveStep { step: "own".into() },
            Change::AddStep { step: Box::new(step("new", "auto")), before: Vec::new() },
            Change::RetryStep { step: "own".into(), agent_type: Some(auto()), action: None, inputs: None },
            Change::SetFields {
                step: "own".into(),
                fields: Map::from_iter([("agent_type".to_owned(), Value::from("auto"))]),
            },
            Change::ReplaceStep { step: "own".into(), with: vec![step("b", "auto"), step("c", "auto")] },
        ];
        let mut seen = Vec::new();
        let routed = route_changes(&live, &mut changes, |n, plan| {
            seen.push((n, plan.steps.len()));
            plan.steps.iter_mut().for_each(|step| step.agent_type = format!("for-{}", step.id).as_str().into());
            Ok::<_, ()>(())
        });
        assert_eq!((routed, seen), (Ok(()), vec![(1, 1), (2, 1), (3, 1), (4, 2)]));
        let text = serde_json::to_string(&changes).expect("changes always have a JSON text");
        assert!(!text.contains("auto"), "{text}");
        assert_eq!(text.matches("for-own").count(), 2, "the step that is tried again, and the one with other fields");
        let refused = route_changes(
            &live,
            &mut [Change::AddStep { step: Box::new(step("x", "auto")), before: vec![] }],
            |n, _| Err(n),
        );
        assert_eq!(refused, Err(0));
    }

    #[test]
    fn a_choice_without_a_live_worker_weighs_what_the_settings_say() {
        let issue = |code: &str| Issue {
            code: code.into(),
            ..goalmill_plan::validate::no_live_worker(&"a".into(), "/steps/0".into())
        };
        let warnings = || vec![issue("APPROVAL_REQUIRED"), issue("NO_LIVE_WORKER")];
        let codes = |issues: &[Issue]| issues.iter().map(|issue| issue.code.clone()).collect::<Vec<_>>();
        let told = |weight| weigh_unserved(warnings(), weight).map(|told| codes(&told)).map_err(|wrong| codes(&wrong));
        assert_eq!(told(Weight::Ignore), Ok(vec!["APPROVAL_REQUIRED".into()]));
        assert_eq!(told(Weight::Warning), Ok(vec!["APPROVAL_REQUIRED".into(), "NO_LIVE_WORKER".into()]));
        assert_eq!(told(Weight::Error), Err(vec!["NO_LIVE_WORKER".into()]));
        assert_eq!(weigh_unserved(vec![issue("APPROVAL_REQUIRED")], Weight::Error).map(|told| told.len()), Ok(1));
    }
}

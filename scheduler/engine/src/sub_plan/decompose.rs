//! Decomposition on demand: an agent reports that a step is too complex, or returns a sub-plan for it.

use std::collections::BTreeSet;

use goalmill_common::event::{StepDecomposed, StepEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::AgentType;
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::plan::Plan;
use goalmill_common::problem::Issue;
use goalmill_common::report::{Report, What};
use goalmill_plan::schema::SCHEMA_BYTES_MAX;
use goalmill_plan::validate;

use crate::attempt::failure;
use crate::attempt::spent::Spent;
use crate::graph::StepIndex;
use crate::revise::routing;
use crate::sub_plan;
use crate::sub_plan::family_limits;
use crate::turn::Turn;

/// Failure code of a step that is too complex for one agent.
pub const TOO_COMPLEX: &str = "TOO_COMPLEX";

/// Refuses a plan of an agent that has steps for others than those that the worker allows.
fn check_agents(plan: Option<&Plan>, allowed: &[String]) -> Result<(), Failure> {
    let is_allowed = |agent: &AgentType| allowed.iter().any(|allowed| allowed == "*" || allowed == agent.as_str());
    let forbidden = plan.and_then(|plan| agents_of(plan).into_iter().find(|agent| !is_allowed(agent)));
    let Some(agent) = forbidden else { return Ok(()) };
    let message = format!(
        "the agent answered with a plan that has steps for `{agent}`; \
         name it in `sub_plans` of the agent's settings to allow that"
    );
    Err(Failure::new(FailureClass::Permanent, "SUB_PLAN_NOT_ALLOWED", message))
}

/// Who does the steps of a plan and of the plans inside it, also as a fallback.
fn agents_of(plan: &Plan) -> BTreeSet<&AgentType> {
    let mut agents = BTreeSet::new();
    for step in &plan.steps {
        if step.kind.needs_worker() {
            agents.insert(&step.agent_type);
            agents.extend(step.fallback.iter().filter_map(|fallback| fallback.agent_type.as_ref()));
        }
        agents.extend(step.plan.iter().flat_map(|inner| agents_of(inner)));
    }
    agents
}

/// Turns the step into a `plan` step if the report asks for that. Returns whether it did. An invalid sub-plan fails
/// the attempt.
pub(crate) fn decompose_step(turn: &mut Turn<'_>, i: StepIndex, report: &Report, spent: Spent) -> bool {
    let sub_plan = report.sub_plan.as_ref().filter(|plan| !plan.is_null());
    let is_too_complex =
        report.what == What::Failed && report.failure.as_ref().is_some_and(|failure| failure.code == TOO_COMPLEX);
    if sub_plan.is_none() && !is_too_complex {
        return false;
    }
    if sub_plan::depth(turn.state) >= family_limits::depth_max(turn) {
        // At `depth_max` a failure stays a failure, and a sub-plan without outputs is one.
        return match report.outputs {
            Some(_) => false,
            None if is_too_complex => false,
            None => {
                let message = "the sub-plan would exceed `depth_max`";
                failure::give_up(turn, i, Failure::new(FailureClass::Permanent, "DEPTH_EXCEEDED", message), spent);
                true
            }
        };
    }
    let plan = validate_sub_plan(turn, i, sub_plan);
    let plan = plan.and_then(|plan| check_agents(plan.as_ref(), &report.sub_plans).map(|()| plan));
    match plan.and_then(|plan| family_limits::check_family_room(turn, plan.as_ref()).map(|()| plan)) {
        Ok(plan) => {
            let reason = report.failure.as_ref().map_or("the agent returned a sub-plan", |failure| &failure.message);
            let reason = reason.chars().take(1_000).collect();
            let Spent { cost, tokens, split: usage, duration_ms } = spent;
            let plan = plan.map(Box::new);
            let decomposed = StepDecomposed { plan, reason, cost, tokens, usage, duration_ms };
            turn.emit_step(i, StepEvent::Decomposed(Box::new(decomposed)));
        }
        Err(failure) => failure::give_up(turn, i, failure, spent),
    }
    true
}

/// Validates the agent's plan. Steps without an agent type are assigned to the agent itself.
pub(crate) fn validate_sub_plan(
    turn: &Turn<'_>,
    i: StepIndex,
    sub_plan: Option<&Json>,
) -> Result<Option<Plan>, Failure> {
    let Some(json) = sub_plan else { return Ok(None) };
    let invalid = |message: String| {
        let message = message.chars().take(1_000).collect::<String>();
        Failure::new(FailureClass::Permanent, "SUB_PLAN_INVALID", message)
    };
    let limits = &turn.context.limits;
    if json.text().len() > limits.plan_bytes_max {
        return Err(invalid(format!("the plan has {} bytes, more than `plan_bytes_max`", json.text().len())));
    }
    // It is validated in the loop of the shard.
    let schemas_bytes_max = limits.schemas_bytes_max.min(SCHEMA_BYTES_MAX);
    let limits = Limits { schemas_bytes_max, ..limits.inside(sub_plan::depth(turn.state) + 1) };
    let issues_text = |issues: &[Issue]| {
        let words: Vec<String> = issues.iter().map(|i| format!("{} at {}: {}", i.code, i.pointer, i.detail)).collect();
        invalid(format!("the sub-plan of the agent is invalid: {}", words.join("; ")))
    };
    let valid = validate::validate_plan(&json.value(), &limits).map_err(|issues| issues_text(&issues))?;
    let agent_type = &turn.state.plan.step(i).agent_type;
    let mut plan = valid.into_plan();
    routing::route_to(&mut plan, agent_type);
    if let Some(refusal) = turn.context.cards.refusal_of_plan(&plan) {
        return Err(invalid(format!("the sub-plan of the agent is invalid: {}", refusal.message)));
    }
    validate::permit_all(&mut plan, &turn.context.policy).map_err(|issues| issues_text(&issues))?;
    Ok(Some(plan))
}

/// Whether a step may be decomposed.
pub(crate) fn may_decompose(turn: &Turn<'_>, i: StepIndex) -> bool {
    turn.state.plan.step(i).kind.needs_worker()
}

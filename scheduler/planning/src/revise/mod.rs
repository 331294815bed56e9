//! Revisions without a model: what a failure says decides the strategy, what the plan and the agents offer the change.
//!
//! Nothing is made up: other agents come from the registry, other inputs from what reports suggest, from switches that
//! an action declares, or from results that are there. What cannot be helped like that is given up.

mod agent;
mod budget;
mod case;
mod nearby;
mod rest;

use goalmill_common::command::Proposal;
use goalmill_common::json::Json;
use goalmill_common::plan::{Plan, Question};
use goalmill_common::revision::{Change, RevisionStrategy, Trigger};
use serde_json::json;

use super::{PlanningError, ReviseRequest};

use case::{Case, Cause};

/// How long a person has for a question, in milliseconds.
const ANSWER_MS: u64 = 24 * 3_600_000;

/// One way out of a situation; none when it is not possible.
type Way = fn(&Case<'_>) -> Option<Proposal>;

/// Proposes a change, or says that there is nothing to change.
///
/// - `anew`: makes the rules' own plan for the goal, for a plan whose rest never came.
pub(crate) fn revise(request: &ReviseRequest, anew: impl FnOnce() -> Option<Plan>) -> Result<Proposal, PlanningError> {
    let situation = &request.situation;
    let Some(trigger) = Trigger::parse(&situation.trigger) else {
        return Err(PlanningError::new(format!("`{}` is no trigger that rules know", situation.trigger)));
    };
    let anew = if trigger == Trigger::IncompletePlan { anew() } else { None };
    let case = Case::of(request, trigger, anew);
    if let Some(proposal) = rest::answered(&case) {
        return Ok(proposal);
    }
    let refused = |strategy| situation.refused.iter().any(|refusal| refusal.strategy == strategy);
    let found = ways(&case).iter().filter_map(|way| way(&case)).find(|proposal| !refused(proposal.strategy));
    match found {
        Some(proposal) => Ok(proposal),
        None if trigger.is_optional() => Err(PlanningError::new("rules see nothing to change")),
        None if !refused(RevisionStrategy::Abort) => {
            let summary = format!("rules see no way on: {}", situation.reason);
            Ok(proposal(RevisionStrategy::Abort, Vec::new(), summary))
        }
        None => Err(PlanningError::new(format!("rules see no way on: {}", situation.reason))),
    }
}

/// What is tried, in this order.
fn ways(case: &Case<'_>) -> &'static [Way] {
    match case.trigger {
        Trigger::StepFailure | Trigger::UnexpectedResult | Trigger::ConstraintViolation | Trigger::AskUser => {
            match case.cause() {
                Cause::Unavailable => &[agent::other, nearby::suggested, nearby::recover, rest::skip, rest::ask],
                Cause::TooComplex => &[rest::decompose, agent::other, rest::skip, rest::ask],
                Cause::NoResult => &[nearby::suggested, nearby::wider, agent::other, rest::skip, rest::ask],
                Cause::OverLimit => &[nearby::fitted, budget::cheaper, rest::ask_budget, rest::skip],
                Cause::Unexpected => &[nearby::fitted, agent::other, rest::skip, rest::ask],
                Cause::Other => &[nearby::suggested, nearby::recover, agent::other, rest::skip, rest::ask],
            }
        }
        Trigger::NewInformation => &[nearby::informed],
        Trigger::BudgetLow => &[rest::save],
        Trigger::FailureRate => &[agent::others],
        Trigger::IncompletePlan => &[rest::plan_anew],
        Trigger::UserRequest => &[rest::as_told],
        Trigger::PhaseCheckpoint | Trigger::BetterPlan | Trigger::Edit => &[],
    }
}

fn proposal(strategy: RevisionStrategy, changes: Vec<Change>, summary: impl Into<String>) -> Proposal {
    let provenance = Some(Json::of(&json!({"reviser": "rules", "version": 1})));
    Proposal { summary: summary.into(), planner: "rules".into(), provenance, ..Proposal::new(strategy, changes) }
}

/// A question to a person before the planners are asked again.
fn question(text: String, schema: &serde_json::Value, default: Option<Json>) -> Proposal {
    let question =
        Question { question: text.clone(), schema: Some(Json::of(schema)), default, limit_ms: ANSWER_MS, into: None };
    Proposal { question: Some(question), ..proposal(RevisionStrategy::AskUser, Vec::new(), text) }
}

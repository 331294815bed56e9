//! Revisions without a model: only what is certain.
//!
//! Other agents come from the registry and have the same action, other inputs from what reports suggest or from switches
//! that an action declares, and a person is asked where people are in the loop. What cannot be helped like that is given up.

mod other_agent;
mod other_inputs;
mod replan_case;
mod restructure;

use goalmill_common::command::Proposal;
use goalmill_common::json::Json;
use goalmill_common::plan::{Plan, Question};
use goalmill_common::revision::{Change, RevisionStrategy, Trigger};
use serde_json::json;

use super::{PlanningError, ReviseRequest};

pub(crate) use other_agent::substitute_issues;
use replan_case::ReplanCase;

/// How long a person has for a question, in milliseconds.
const ANSWER_MS: u64 = 24 * 3_600_000;

/// One way out of a situation; none when it is not possible.
type StrategyFn = fn(&ReplanCase<'_>) -> Option<Proposal>;

/// Proposes a change, or says that there is nothing to change.
///
/// - `new_plan`: makes the rules' own plan for the goal, for the one who wants what remains planned again; never the generic one.
pub(crate) fn revise(
    request: &ReviseRequest,
    new_plan: impl FnOnce() -> Option<Plan>,
) -> Result<Proposal, PlanningError> {
    let situation = &request.situation;
    let Some(trigger) = Trigger::parse(&situation.trigger) else {
        return Err(PlanningError::new(format!("`{}` is no trigger that rules know", situation.trigger)));
    };
    let wanted = wanted_strategy(request, trigger);
    if trigger == Trigger::IncompletePlan {
        // Only the planner that wrote the beginning knows the rest.
        return Err(PlanningError::new("rules do not write the rest of another planner's plan"));
    }
    let plans_again = wanted == Some(RevisionStrategy::ReplanRemaining);
    let new_plan = if plans_again { new_plan() } else { None };
    let case = ReplanCase::new(request, trigger, new_plan);
    if let Some(proposal) = restructure::answered(&case) {
        return Ok(proposal);
    }
    if let Some(chosen) = situation.chosen {
        return chosen_way(&case, chosen);
    }
    let refused = |strategy| situation.refused.iter().any(|refusal| refusal.strategy == strategy);
    let is_wanted = |proposal: &Proposal| Some(proposal.strategy) == wanted;
    let preferred = wanted.filter(|strategy| !refused(*strategy)).and_then(|strategy| {
        if strategy == RevisionStrategy::Abort {
            Some(proposal(strategy, Vec::new(), format!("as the plan wants: {}", situation.reason)))
        } else {
            ways_of(strategy).iter().filter_map(|way| way(&case)).find(is_wanted)
        }
    });
    let usual = || ways(&case).iter().filter_map(|way| way(&case)).find(|proposal| !refused(proposal.strategy));
    match preferred.or_else(usual) {
        Some(proposal) => Ok(proposal),
        None if trigger.is_optional() => Err(PlanningError::new("rules see nothing to change")),
        None if !refused(RevisionStrategy::Abort) => {
            let summary = format!("rules see no way on: {}", situation.reason);
            Ok(proposal(RevisionStrategy::Abort, Vec::new(), summary))
        }
        None => Err(PlanningError::new(format!("rules see no way on: {}", situation.reason))),
    }
}

/// The revision by the strategy that a hook chose, whatever the cause is.
fn chosen_way(case: &ReplanCase<'_>, chosen: RevisionStrategy) -> Result<Proposal, PlanningError> {
    if chosen == RevisionStrategy::Abort {
        return Ok(proposal(chosen, Vec::new(), "a hook chose to abort"));
    }
    let all = ways(case).iter().chain(EVERY_WAY);
    let found = all.filter_map(|way| way(case)).find(|proposal| proposal.strategy == chosen);
    found.ok_or_else(|| PlanningError::new(format!("rules see no revision with the strategy `{chosen}`")))
}

/// Every way out of a failure.
const EVERY_WAY: &[StrategyFn] = &[
    other_agent::other,
    other_inputs::suggested,
    other_inputs::wider,
    other_inputs::recover,
    restructure::decompose,
    restructure::skip,
    restructure::ask,
];

/// What is tried after a failure that may pass, or a loss: what its agent wants comes after another agent.
const AGENT_FAILED: &[StrategyFn] = &[
    restructure::decompose_as_suggested,
    other_agent::other,
    other_inputs::suggested,
    other_inputs::wider_as_suggested,
    other_inputs::recover,
    restructure::skip,
    restructure::ask,
];

/// What is tried after any other failure.
const STEP_FAILED: &[StrategyFn] = &[
    restructure::decompose_as_suggested,
    other_inputs::suggested,
    other_inputs::wider_as_suggested,
    other_inputs::recover,
    other_agent::other,
    restructure::ask_budget_as_suggested,
    restructure::skip,
    restructure::ask,
];

/// The strategy that is tried first: a person's, or of the plan's policy where something has to be done.
fn wanted_strategy(request: &ReviseRequest, trigger: Trigger) -> Option<RevisionStrategy> {
    let situation = &request.situation;
    if trigger.is_optional() { situation.options.strategy } else { situation.wanted_strategy() }
}

/// The ways of one strategy, in this order.
fn ways_of(strategy: RevisionStrategy) -> &'static [StrategyFn] {
    match strategy {
        RevisionStrategy::RetryWithAgent => &[other_agent::other, other_agent::others],
        RevisionStrategy::Decompose => &[restructure::decompose],
        RevisionStrategy::Workaround => &[other_inputs::suggested, other_inputs::wider, other_inputs::recover],
        RevisionStrategy::Adjust => &[other_inputs::suggested, other_inputs::informed],
        RevisionStrategy::ReplanRemaining => &[restructure::plan_again],
        RevisionStrategy::InsertRecovery => &[other_inputs::recover],
        RevisionStrategy::SkipAndContinue => &[restructure::skip, restructure::save],
        RevisionStrategy::AskUser => &[restructure::ask, restructure::ask_budget],
        RevisionStrategy::Abort | RevisionStrategy::Edit => &[],
    }
}

/// What is tried, in this order.
fn ways(case: &ReplanCase<'_>) -> &'static [StrategyFn] {
    match case.trigger {
        // The whole plan is past a limit: what it can do without is left out.
        Trigger::ConstraintViolation if case.situation.step.is_none() => &[restructure::save],
        Trigger::StepFailure | Trigger::UnexpectedResult | Trigger::ConstraintViolation | Trigger::AskUser => {
            if case.failure().is_some_and(|failure| failure.class.is_retryable()) { AGENT_FAILED } else { STEP_FAILED }
        }
        Trigger::NewInformation | Trigger::PartialSuccess => &[other_inputs::informed, restructure::as_suggested],
        Trigger::BudgetLow => &[restructure::save],
        Trigger::FailureRate => &[other_agent::others],
        Trigger::UserRequest => &[restructure::as_requested],
        Trigger::IncompletePlan
        | Trigger::CriterionUnmet
        | Trigger::PhaseCheckpoint
        | Trigger::BetterPlan
        | Trigger::Edit => &[],
    }
}

fn proposal(strategy: RevisionStrategy, changes: Vec<Change>, summary: impl Into<String>) -> Proposal {
    let provenance = Some(Json::from_value(&json!({"reviser": "rules", "version": 1})));
    Proposal { summary: summary.into(), planner: "rules".into(), provenance, ..Proposal::new(strategy, changes) }
}

/// A question to a person before the planners are asked again.
fn question(text: String, schema: &serde_json::Value, default: Option<Json>) -> Proposal {
    let question = Question {
        question: text.clone(),
        schema: Some(Json::from_value(schema)),
        default,
        limit_ms: ANSWER_MS,
        into: None,
    };
    Proposal { question: Some(question), ..proposal(RevisionStrategy::AskUser, Vec::new(), text) }
}

//! The revision pipeline: asks the planners in order for a change of a running plan.

use std::time::Duration;

use goalmill_common::command::Proposal;
use goalmill_common::config::WeightSettings;
use goalmill_common::goal::Usage;
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use goalmill_common::replan_situation::Refusal;
use goalmill_common::revision::{Change, RevisionStrategy, Trigger};
use goalmill_engine::{PlanState, validate_revision};
use goalmill_plan::validate::{Catalogue, Policy, Rules, Weight};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::refusal::{self, RefusalReason};
use super::{enable_step_revisions, route_changes};
use crate::pipeline::Pipeline;
use crate::planned_rules::requirements;
use crate::revise::substitute_issues;
use crate::stage::{PlanningStage, StageOutcome, Stages};
use crate::{Planner, PlanningError, ReviseRequest};

/// How often one planner is asked: once more with what was wrong the first time.
const TRIES: usize = 2;

/// What proposals are validated against, besides the terms of the request.
pub struct RevisionRules<'a> {
    /// The plan that is revised.
    pub state: &'a PlanState,
    /// The limits of the installation.
    pub limits: &'a Limits,
    /// The agents and workers that are there.
    pub catalogue: Catalogue,
}

impl Pipeline {
    /// The first proposal that holds. The issues of those before it are given to the next planner, by
    /// `situation.refused`; what they took is added up in the one that is taken.
    pub async fn revise(
        &self,
        mut request: ReviseRequest,
        rules: &RevisionRules<'_>,
    ) -> Result<Proposal, PlanningError> {
        let stages = Stages::default();
        let begun = Instant::now();
        let mut tried = Vec::new();
        let mut usage = Usage::default();
        let mut chosen = self.chosen(&request.situation.goal);
        if request.situation.trigger == Trigger::IncompletePlan.as_str() {
            // A plan that broke off is completed by its own planner only.
            chosen.retain(|planner| planner.name() == rules.state.planner());
        }
        for (at, planner) in chosen.iter().enumerate() {
            for _ in 0..TRIES {
                let proposal =
                    match self.ask_revision(planner.as_ref(), &request, &stages, self.revision_timeout(begun)).await {
                        Ok(proposal) => proposal,
                        Err(refusal) => {
                            tried.push(refusal);
                            break;
                        }
                    };
                usage.add(proposal.usage.cost, proposal.usage.tokens);
                let begun = Instant::now();
                let mut proposal = Proposal { usage, ..proposal };
                let is_whole = proposal.changes.is_empty() && request.situation.wants_part();
                let held = if is_whole { Ok(()) } else { self.validate_proposal(&mut proposal, &request, rules) };
                match held {
                    Ok(()) => {
                        stages.note(planner.name(), PlanningStage::Validate, StageOutcome::Ok, begun);
                        proposal.planner = planner.name().into();
                        proposal.provenance = Some(account(&proposal, &tried, &stages));
                        return Ok(proposal);
                    }
                    Err(issues) => {
                        stages.note(planner.name(), PlanningStage::Validate, StageOutcome::Invalid, begun);
                        let reason = format!("`{}` would not be valid", proposal.strategy);
                        request.situation.refused.push(Refusal {
                            strategy: proposal.strategy,
                            reason: reason.clone(),
                            issues: issues.clone(),
                        });
                        let account = proposal.provenance.as_ref().map(Json::value);
                        let (planner, why) = (planner.name(), RefusalReason::Invalid);
                        tried.push(refusal::PlannerRefusal { planner, why, reason, issues, account });
                    }
                }
            }
            if let (Some(next), Some(refusal)) = (chosen.get(at + 1), tried.last()) {
                refusal.falls_back_to(next.as_ref());
            }
        }
        Err(refusal::no_revision(tried, &stages))
    }

    /// Routes the steps of a proposal, validates it, and records what it widens.
    fn validate_proposal(
        &self,
        proposal: &mut Proposal,
        request: &ReviseRequest,
        rules: &RevisionRules<'_>,
    ) -> Result<(), Vec<Issue>> {
        if matches!(proposal.strategy, RevisionStrategy::Abort | RevisionStrategy::AskUser) {
            return Ok(());
        }
        check_strategy(request.situation.chosen, proposal.strategy)?;
        let issues = substitute_issues(request, &proposal.changes);
        if !issues.is_empty() {
            return Err(issues);
        }
        let live = &request.situation.plan;
        let mut routes = Vec::new();
        route_changes(live, &mut proposal.changes, |n, plan| {
            // The policy is checked on the whole plan afterwards.
            let routed = (self.route)(plan, &Policy::default()).map_err(|issues| under_change(issues, n))?;
            routes.extend(routed.0);
            Ok::<_, Vec<Issue>>(())
        })?;
        proposal.routes.extend(routes);
        if live.revision.is_some() {
            proposal.changes.iter_mut().for_each(enable_revisions_of_added);
        }
        let planning = &request.situation.goal.planning;
        let allowed = Rules {
            in_order: false,
            weights: WeightSettings { outputs: Weight::Warning, ..request.terms.weights },
            policy: &request.terms.policy,
            requires: requirements(planning),
            // The parts of an iterative plan are counted one by one.
            steps_max: planning.max_steps.filter(|_| !live.is_iterative()),
            ..Rules::planned(&rules.catalogue)
        };
        let warnings = validate_revision(rules.state, &proposal.changes, rules.limits, &allowed)?;
        proposal.widens.extend(warnings.into_iter().filter(|issue| issue.code == "APPROVAL_REQUIRED"));
        Ok(())
    }

    async fn ask_revision(
        &self,
        planner: &dyn Planner,
        request: &ReviseRequest,
        stages: &Stages,
        limit: Duration,
    ) -> Result<Proposal, refusal::PlannerRefusal> {
        let begun = Instant::now();
        let answer = match tokio::time::timeout(limit, planner.revise(request)).await {
            Ok(answer) => answer.map_err(|error| refusal::refusal(planner, error, &request.call_log)),
            Err(_) => Err(self.too_late(planner, &request.call_log)),
        };
        request.call_log.close().await;
        stages.note(
            planner.name(),
            PlanningStage::Ask,
            if answer.is_ok() { StageOutcome::Ok } else { StageOutcome::Error },
            begun,
        );
        answer
    }
}

/// Refuses a strategy other than the one that a hook chose.
fn check_strategy(chosen: Option<RevisionStrategy>, strategy: RevisionStrategy) -> Result<(), Vec<Issue>> {
    let Some(chosen) = chosen.filter(|chosen| *chosen != strategy) else { return Ok(()) };
    Err(vec![Issue {
        code: "INVALID_VALUE".into(),
        pointer: "/strategy".into(),
        detail: format!("the strategy is `{strategy}`, and a hook chose `{chosen}`"),
        hint: format!("propose a revision with the strategy `{chosen}`"),
    }])
}

/// Issues of the steps of change `n`, which the router sees as a plan.
fn under_change(issues: Vec<Issue>, n: usize) -> Vec<Issue> {
    let moved = |issue: Issue| Issue { pointer: format!("/changes/{n}{}", issue.pointer), ..issue };
    issues.into_iter().map(moved).collect()
}

/// Added steps of a plan with revisions request a revision when they fail, as its first steps do.
fn enable_revisions_of_added(change: &mut Change) {
    match change {
        Change::AddStep { step, .. } => enable_step_revisions(std::slice::from_mut(step)),
        Change::ReplaceStep { with: steps, .. } | Change::AddPhase { steps, .. } => enable_step_revisions(steps),
        // Existing steps keep their policy.
        Change::ModifyStep { .. }
        | Change::RetryStep { .. }
        | Change::DecomposeStep { .. }
        | Change::SetFields { .. }
        | Change::RemoveStep { .. }
        | Change::SkipStep { .. }
        | Change::Order { .. }
        | Change::SkipPhase { .. } => {}
    }
}

fn account(proposal: &Proposal, tried: &[refusal::PlannerRefusal], stages: &Stages) -> Json {
    let mut account = match proposal.provenance.as_ref().map(Json::value) {
        Some(Value::Object(fields)) => fields,
        Some(other) => Map::from_iter([("account".to_owned(), other)]),
        None => Map::new(),
    };
    account.insert("planner".into(), proposal.planner.clone().into());
    account.insert("stages".into(), stages.account());
    if !tried.is_empty() {
        account.insert("tried".into(), tried.iter().map(refusal::PlannerRefusal::to_json).collect());
    }
    Json::from_value(&account)
}

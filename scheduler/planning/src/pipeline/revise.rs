//! The revision pipeline: asks the planners in order for a change of a running plan.

use std::time::Duration;

use goalmill_common::command::Proposal;
use goalmill_common::goal::Usage;
use goalmill_common::json::Json;
use goalmill_common::problem::Issue;
use goalmill_common::revision::{Refusal, RevisionStrategy};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::refusal::{self, RefusalReason};
use crate::pipeline::Pipeline;
use crate::stage::{PlanningStage, StageOutcome, Stages};
use crate::{Planner, PlanningError, ReviseRequest};

/// How often one planner is asked: once more with what was wrong the first time.
const TRIES: usize = 2;

/// Says what is wrong with a proposal; routes its steps and notes what it widens.
pub type ValidateProposal<'a> = &'a (dyn Fn(&mut Proposal) -> Result<(), Vec<Issue>> + Send + Sync);

impl Pipeline {
    /// The first proposal that holds. What was wrong with those before it is told to the next planner, by
    /// `situation.refused`; what they took is added up in the one that is taken.
    pub async fn revise(
        &self,
        mut request: ReviseRequest,
        consider: ValidateProposal<'_>,
    ) -> Result<Proposal, PlanningError> {
        let stages = Stages::default();
        let begun = Instant::now();
        let mut tried = Vec::new();
        let mut usage = Usage::default();
        let chosen = self.chosen(&request.situation.goal);
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
                let held = if is_whole { Ok(()) } else { holds(&mut proposal, consider) };
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

/// Strategies without changes have nothing to be checked.
fn holds(proposal: &mut Proposal, consider: ValidateProposal<'_>) -> Result<(), Vec<Issue>> {
    match proposal.strategy {
        RevisionStrategy::Abort | RevisionStrategy::AskUser => Ok(()),
        RevisionStrategy::RetryWithAgent
        | RevisionStrategy::Decompose
        | RevisionStrategy::Workaround
        | RevisionStrategy::Adjust
        | RevisionStrategy::ReplanRemaining
        | RevisionStrategy::InsertRecovery
        | RevisionStrategy::SkipAndContinue
        | RevisionStrategy::Edit => consider(proposal),
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
    Json::of(&account)
}

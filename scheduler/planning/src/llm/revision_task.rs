//! The revision task for the repair loop.

use goalmill_common::command::Proposal;
use goalmill_common::config::PlanningStrategy;
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::plan::Step;
use goalmill_common::planning::PlanFeature;
use goalmill_common::problem::Issue;
use goalmill_common::replan_situation::{Situation, StepSituation};
use goalmill_common::revision::{Change, RevisionStrategy};
use goalmill_common::status::StepStatus;
use goalmill_llm::{Purpose, ResponseFormat};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::parse_answer::{self, ParsedAnswer};
use super::plan_schema::{KnownStep, PlanVocabulary, RevisedPlan, features};
use super::plan_task::verdict;
use super::prompt_data::PromptData;
use super::prompt_store::{Prompt, PromptError};
use super::repair_loop::{DraftVerdict, GenerationTask, RepairLoop};
use super::{LlmDeps, ToolShortlist, day, goal_context};
use crate::parse_proposal::parse_proposal;
use crate::provenance::Round;
use crate::replan_context::ReplanContext;
use crate::stage::{self, PlanningStage, StageOutcome};
use crate::{PlanningError, ReviseRequest};

/// Characters of a result, a failure or a step in a prompt.
const TEXT_CHARS_MAX: usize = 600;

/// Asks for a change until one holds.
pub async fn propose(deps: &LlmDeps, request: &ReviseRequest) -> Result<Proposal, PlanningError> {
    let planning = request.situation.planning();
    let data = deps.prompt_data(&request.situation.goal, &[]).await;
    let left = &request.situation.left;
    let mut repair_loop = RepairLoop::new(deps, &request.call_log, "llm", left, Purpose::Replan, &planning);
    let task = fitting(deps, request, data, &repair_loop)?;
    let mut proposal = repair_loop.run(&task, None).await?.output;
    if !request.call_log.is_written() {
        proposal.usage = repair_loop.usage();
    }
    let spent = repair_loop.spend.spent();
    let mut head = json!({"planner": "llm", "actions_left_out": task.shortlist.left_out});
    if let Some(data) = task.data.account() {
        head["context"] = data;
    }
    proposal.provenance = Some(Json::from_value(&repair_loop.provenance.close(head, &spent)));
    proposal.planner = "llm".into();
    if task.is_iterative {
        keep_going(&mut proposal);
    } else if proposal.changes.is_empty() && needs_changes(proposal.strategy) {
        return Err(PlanningError::new("the model sees nothing to change"));
    }
    Ok(proposal)
}

/// The task whose question, with a short answer, fits into what is left: with fewer actions, at last without data. The
/// smallest one when none fits; its reservation is refused.
fn fitting<'a>(
    deps: &'a LlmDeps,
    request: &'a ReviseRequest,
    data: PromptData,
    repair_loop: &RepairLoop<'_>,
) -> Result<RevisionTask<'a>, PlanningError> {
    let mut actions = deps.settings.actions_max;
    let mut data = Some(data);
    loop {
        let task = RevisionTask::new(deps, request, data.clone().unwrap_or_default(), actions);
        let prompt = task.first(None).map_err(|error| PlanningError::new(error.to_string()))?;
        let question = repair_loop.question(&prompt, task.want(None), Purpose::Replan);
        if repair_loop.fits(&question) || actions == 0 {
            return Ok(task);
        }
        actions /= 2;
        if actions == 0 {
            (actions, data) = if data.take().is_some() { (1, None) } else { (0, None) };
        }
    }
}

/// The next part of an iterative plan ends as the first one does: in a checkpoint. Only the model's word that nothing
/// is missing ends the plan, not a flag that it forgot.
pub fn keep_going(proposal: &mut Proposal) {
    let is_phase = |change: &&mut Change| matches!(change, Change::AddPhase { .. });
    if let Some(Change::AddPhase { phase, .. }) = proposal.changes.iter_mut().rev().find(is_phase) {
        phase.checkpoint = true;
    }
}

/// Whether a proposal of this kind does nothing without changes.
pub fn needs_changes(strategy: RevisionStrategy) -> bool {
    !matches!(strategy, RevisionStrategy::Abort | RevisionStrategy::AskUser)
}

/// The change that is wanted.
struct RevisionTask<'a> {
    deps: &'a LlmDeps,
    request: &'a ReviseRequest,
    data: PromptData,
    shortlist: ToolShortlist,
    actions: goalmill_reader::ToolCatalogue,
    replan: ReplanContext<'a>,
    is_iterative: bool,
}

impl<'a> RevisionTask<'a> {
    fn new(deps: &'a LlmDeps, request: &'a ReviseRequest, data: PromptData, actions_max: usize) -> Self {
        let situation = &request.situation;
        let words = format!("{} {}", situation.goal.description, situation.reason);
        let shortlist = ToolShortlist::choose(&request.agents, &words, actions_max);
        let is_iterative = situation.wants_part();
        Self {
            deps,
            request,
            data,
            actions: shortlist.catalogue(),
            shortlist,
            replan: ReplanContext::new(request),
            is_iterative,
        }
    }

    /// What the plan may use.
    fn features(&self) -> Vec<PlanFeature> {
        self.deps.settings_for(&self.request.situation.planning()).features
    }
}

impl GenerationTask for RevisionTask<'_> {
    type Output = Proposal;

    fn first(&self, note: Option<&str>) -> Result<Prompt, PromptError> {
        let mut context = situation_context(&self.request.situation);
        context["agents"] = self.shortlist.context();
        context["stored_plans"] = self.request.terms.stored_plans.context();
        context["iterative"] = self.is_iterative.into();
        context["features"] = json!(features::lines(&self.features()));
        context["limits"] = super::limits_context(&self.request.limits);
        context["note"] = note.into();
        context["today"] = day(self.request.now_ms).into();
        Ok(self.data.add_to(self.deps.prompts.render("revise", &context)?))
    }

    fn critique(&self, draft: &Value, issues: &[Issue], note: Option<&str>) -> Result<Prompt, PromptError> {
        let listed: Vec<Value> = issues
            .iter()
            .map(|issue| json!({"place": issue.pointer, "detail": issue.detail, "hint": issue.hint}))
            .collect();
        let context = json!({"whole": true, "features": features::lines(&self.features()), "wrong": draft.to_string(), "issues": listed, "note": note,
                             "agents": self.shortlist.context(),
                             "stored_plans": self.request.terms.stored_plans.context(), "goal": goal_context(&self.request.situation.goal)});
        self.deps.prompts.render("critique", &context)
    }

    fn evaluate_answer(
        &self,
        text: &str,
        is_cut: bool,
        _before: Option<&Value>,
        round: &mut Round,
    ) -> DraftVerdict<Proposal> {
        let begun = Instant::now();
        let written = parse_answer::value(text, &self.actions, is_cut);
        stage::count("llm", PlanningStage::Read, written.outcome(), begun.elapsed());
        let (value, reading) = match written {
            ParsedAnswer::Complete { value, reading, .. } => (value, reading),
            ParsedAnswer::Truncated { reading } => {
                round.syntax_repairs = reading.edits;
                return DraftVerdict::Unparseable { reason: "it was cut; write less".into() };
            }
            ParsedAnswer::Unparseable { reason } => return DraftVerdict::Unparseable { reason },
        };
        round.verdict = verdict(&reading);
        round.syntax_repairs = reading.edits;
        let is_wrapped = value.as_object().is_some_and(|map| map.len() == 1 && map.contains_key("proposal"));
        let value = if is_wrapped { &value["proposal"] } else { &value };
        let begun = Instant::now();
        let held = parse_proposal(value, &self.replan, &self.actions, &mut round.repairs);
        let outcome = match &held {
            Ok(_) if round.repairs.is_empty() => StageOutcome::Ok,
            Ok(_) => StageOutcome::Repaired,
            Err(_) => StageOutcome::Invalid,
        };
        stage::count("llm", PlanningStage::Repair, outcome, begun.elapsed());
        match held {
            Ok(proposal) => DraftVerdict::Valid(proposal),
            Err((draft, issues)) => DraftVerdict::Invalid { draft, issues },
        }
    }

    fn want(&self, _before: Option<&Value>) -> ResponseFormat {
        let situation = &self.request.situation;
        let planning = situation.planning();
        let is_open = |id: &StepId| situation.steps.get(id).is_none_or(|step| step.status != StepStatus::Completed);
        let ids = situation.plan.steps.iter().map(|step| &step.id);
        let may_nest = self.request.limits.depth_max > 0;
        let settings = self.deps.settings_for(&planning);
        let known = |step: &Step| KnownStep {
            id: step.id.to_string(),
            agent_type: step.agent_type.to_string(),
            action: step.action.clone(),
            is_map: step.for_each.is_some(),
        };
        let plan = RevisedPlan {
            steps: situation.plan.steps.iter().map(known).collect(),
            open: ids.filter(|id| is_open(id)).map(StepId::to_string).collect(),
            phases: situation.plan.phases.iter().map(|phase| phase.id.clone()).collect(),
            may_nest,
        };
        let vocabulary = PlanVocabulary {
            agents: self.shortlist.agents.clone(),
            plans: self.request.terms.stored_plans.views().cloned().collect(),
            fallbacks: planning.require_fallbacks,
            parts: may_nest && settings.strategy == PlanningStrategy::Hierarchical,
            nested: may_nest,
            features: settings.features,
            output_tokens_max: settings.output_tokens_max,
        };
        ResponseFormat::Json { name: "revision".into(), schema: vocabulary.revision(plan) }
    }
}

/// A situation as templates see it.
pub fn situation_context(situation: &Situation) -> Value {
    let specs: Vec<(&str, Value)> = situation
        .plan
        .steps
        .iter()
        .map(|step| (step.id.as_str(), serde_json::to_value(step).unwrap_or_default()))
        .collect();
    let of = |wanted: fn(&StepSituation) -> bool| -> Vec<Value> {
        let at = |id: &str| situation.steps.iter().find(|(known, _)| known.as_str() == id).map(|(_, step)| step);
        let entry = |(id, spec): &(&str, Value)| {
            let step = at(id).filter(|step| wanted(step))?;
            let failure = step.failure.as_ref().map(|failure| format!("{}: {}", failure.code, failure.message));
            let outputs = step.outputs.as_ref().map(|outputs| short(outputs.text()));
            Some(json!({"id": id, "status": step.status, "attempt": step.attempt, "outputs": outputs,
                        "failure": failure.map(|text| short(&text)), "spec": short(&spec.to_string())}))
        };
        specs.iter().filter_map(entry).collect()
    };
    let phases = situation.plan.phases.iter().map(|phase| phase.id.as_str()).collect::<Vec<_>>().join(", ");
    let left = &situation.left;
    json!({
        "goal": goal_context(&situation.goal),
        "trigger": situation.trigger.replace('_', " "),
        "step": situation.step,
        "reason": short(&situation.reason),
        "hint": short(&hint(situation)),
        "information": situation.information.as_ref().map(|information| short(information.text())),
        "answers": situation.answers.iter().map(|a| json!({"question": a.question, "answer": short(a.answer.text())})).collect::<Vec<_>>(),
        "completed": of(|step| step.status == StepStatus::Completed),
        "failed": of(|step| step.failure.is_some() && step.status != StepStatus::Completed),
        "remaining": of(|step| !step.status.is_final() && step.failure.is_none()),
        "phases": phases,
        "strategy_wanted": situation.wanted_strategy(),
        "require": super::requirements_context(&situation.goal.planning),
        "confidence": format!("{:.2}", situation.confidence),
        "confidence_floor": format!("{:.2}", situation.confidence_floor),
        "revisions_left": situation.revisions_left,
        "left": if left.is_unlimited() { Value::Null } else { json!(left).to_string().into() },
        "refused": situation.refused.iter().map(|refusal| json!({
            "strategy": refusal.strategy, "reason": refusal.reason,
            "issues": refusal.issues.iter().map(|issue| format!("{}: {}", issue.pointer, issue.detail)).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    })
}

/// What people and hooks request.
fn hint(situation: &Situation) -> String {
    let Some(chosen) = situation.chosen else { return situation.hint.clone() };
    format!("the strategy must be `{chosen}`. {}", situation.hint)
}

fn short(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

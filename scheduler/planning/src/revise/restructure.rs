//! Decomposes or skips a step, plans the rest again, or asks a person.

use goalmill_common::command::Proposal;
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::plan::{Join, OnFailure, Step, StepKind};
use goalmill_common::revision::{Change, RevisionStrategy, Trigger};
use goalmill_common::status::StepStatus;
use serde_json::{Map, Value, json};

use super::replan_case::{FailureCategory, ReplanCase, category, inputs};
use super::{other_agent, proposal, question};

/// Inputs that say how much may be spent.
const BUDGETS: [&str; 4] = ["budget", "max_total", "limit", "total_budget"];

/// The step becomes a plan of smaller ones, which the planners make from its description.
pub(super) fn decompose(case: &ReplanCase<'_>) -> Option<Proposal> {
    decomposed(case.step()?)
}

/// The same, where the failure or its agent says that the step is too complex.
pub(super) fn decompose_as_suggested(case: &ReplanCase<'_>) -> Option<Proposal> {
    (case.cause() == Some(FailureCategory::TooComplex)).then(|| decompose(case))?
}

fn decomposed(step: &Step) -> Option<Proposal> {
    let step = Some(step).filter(|step| step.kind != StepKind::Plan && !step.description.is_empty())?;
    let change = Change::DecomposeStep { step: step.id.clone(), plan: None };
    let summary = format!("`{}` becomes a plan of smaller steps", step.id);
    Some(proposal(RevisionStrategy::Decompose, vec![change], summary))
}

/// Does without the step, where the plan can: failures are allowed, or those who wait for it have enough others, and
/// no step reads what it would have given.
pub(super) fn skip(case: &ReplanCase<'_>) -> Option<Proposal> {
    let step = case.step()?;
    let mut dependents = case.dependents(&step.id).peekable();
    let enough = dependents.peek().is_some() && dependents.all(|step| step.join != Join::All);
    if !(case.situation.plan.continue_on_failure || enough) || case.is_read(&step.id) {
        return None;
    }
    Some(skipped(step))
}

fn skipped(step: &Step) -> Proposal {
    let reason = "the plan can do without it".to_owned();
    let change = Change::SkipStep { step: step.id.clone(), reason };
    proposal(RevisionStrategy::SkipAndContinue, vec![change], format!("the plan goes on without `{}`", step.id))
}

/// Saves what is left of a budget: steps are left out that may fail anyway and that no step waits for.
pub(super) fn save(case: &ReplanCase<'_>) -> Option<Proposal> {
    let steps = case.situation.plan.steps.iter().filter(|step| {
        let waits = case.at(&step.id).is_some_and(|at| matches!(at.status, StepStatus::Pending | StepStatus::Ready));
        let optional = matches!(step.on_failure, OnFailure::Skip | OnFailure::Continue);
        waits && optional && !step.kind.is_inline() && case.dependents(&step.id).next().is_none()
    });
    let reason = "to save what is left of the budget".to_owned();
    let changes: Vec<Change> =
        steps.map(|step| Change::SkipStep { step: step.id.clone(), reason: reason.clone() }).collect();
    let summary = format!("{} steps are left out that the plan can do without", changes.len());
    (!changes.is_empty()).then(|| proposal(RevisionStrategy::SkipAndContinue, changes, summary))
}

/// Asks a person how to continue, where the plan's policy has people in the loop.
pub(super) fn ask(case: &ReplanCase<'_>) -> Option<Proposal> {
    let step = case.step()?;
    case.situation.plan.revision.as_ref().and_then(|policy| policy.approve)?;
    let text = format!("step `{}` failed: {}. Try it again, skip it, or give up?", step.id, case.situation.reason);
    Some(question(text, &json!({"enum": ["retry", "skip", "abort"]}), Some(Json::from_value("abort"))))
}

/// Asks how much may be spent, where the step has an input for that and people are in the loop.
pub(super) fn ask_budget(case: &ReplanCase<'_>) -> Option<Proposal> {
    let step = case.step()?;
    case.situation.plan.revision.as_ref().and_then(|policy| policy.approve)?;
    budget_of(step)?;
    let text = format!("{}. How much may it cost?", case.situation.reason);
    Some(question(text, &json!({"type": "number", "exclusiveMinimum": 0}), None))
}

/// The same, where the failure says that too much would be spent.
pub(super) fn ask_budget_as_suggested(case: &ReplanCase<'_>) -> Option<Proposal> {
    (case.cause() == Some(FailureCategory::OverLimit)).then(|| ask_budget(case))?
}

fn budget_of(step: &Step) -> Option<&'static str> {
    let given = inputs(step);
    BUDGETS.into_iter().find(|name| given.get(*name).is_some_and(Value::is_number))
}

/// What a person answered to the question of this very revision.
pub(super) fn answered(case: &ReplanCase<'_>) -> Option<Proposal> {
    let answer = case.situation.answers.last()?.answer.value();
    let step = case.step()?;
    if answer.is_number() {
        let mut given = inputs(step);
        given.insert(budget_of(step)?.to_owned(), answer.clone());
        let change = retry(&step.id, Some(Json::from_value(&given)));
        return Some(proposal(RevisionStrategy::Adjust, vec![change], format!("a person allows {answer}")));
    }
    match answer.as_str()? {
        "retry" => Some(proposal(
            RevisionStrategy::Workaround,
            vec![retry(&step.id, None)],
            format!("a person wants `{}` tried again", step.id),
        )),
        "skip" => Some(skipped(step)),
        "abort" => Some(proposal(RevisionStrategy::Abort, Vec::new(), "a person gives up")),
        _ => None,
    }
}

fn retry(step: &StepId, inputs: Option<Json>) -> Change {
    Change::RetryStep { step: step.clone(), agent_type: None, action: None, inputs }
}

/// The rest of a plan that never came, from the rules' own plan for the goal.
pub(super) fn plan_again(case: &ReplanCase<'_>) -> Option<Proposal> {
    let new_plan = case.new_plan.as_ref()?;
    let mut changes = Vec::new();
    for step in &new_plan.steps {
        match case.at(&step.id).map(|at| at.status) {
            None => changes.push(Change::AddStep { step: Box::new(step.clone()), before: Vec::new() }),
            Some(StepStatus::Completed | StepStatus::Queued | StepStatus::Running) => {}
            Some(_) if case.find(&step.id) == Some(step) => {}
            Some(_) => changes.push(Change::ModifyStep { step: Box::new(step.clone()) }),
        }
    }
    let wanted = |id: &StepId| new_plan.steps.iter().any(|step| step.id == *id);
    let waits = |id: &StepId| {
        case.at(id).is_some_and(|at| matches!(at.status, StepStatus::Pending | StepStatus::Blocked | StepStatus::Ready))
    };
    let open = case.situation.plan.steps.iter().filter(|step| waits(&step.id) && !wanted(&step.id));
    changes.extend(open.map(|step| Change::RemoveStep { step: step.id.clone() }));
    let summary = "what never came is planned by rules, around what ran";
    (!changes.is_empty()).then(|| proposal(RevisionStrategy::ReplanRemaining, changes, summary))
}

/// What a person wants, where the hint names a step to be left out or to be decomposed, or an agent type for it.
pub(super) fn as_requested(case: &ReplanCase<'_>) -> Option<Proposal> {
    by_words(case, &case.situation.hint, None, "a person wants")
}

/// The same for what an agent suggests in words.
pub(super) fn as_suggested(case: &ReplanCase<'_>) -> Option<Proposal> {
    let suggested = case.suggested();
    suggested.iter().find_map(|one| by_words(case, &one.description, one.step.as_ref(), "an agent suggests"))
}

/// - `about`: the step that is meant besides those that the text names.
/// - `who`: who wants it, for the summary.
fn by_words(case: &ReplanCase<'_>, text: &str, about: Option<&StepId>, who: &str) -> Option<Proposal> {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-' || c == '.'))
        .filter(|w| !w.is_empty())
        .collect();
    let named = |word: &str| words.contains(&word.to_lowercase().as_str());
    let open = |step: &&Step| case.at(&step.id).is_some_and(|at| !at.status.is_final());
    let is_meant = |step: &&Step| named(step.id.as_str()) || about == Some(&step.id);
    let meant: Vec<&Step> = case.situation.plan.steps.iter().filter(open).filter(is_meant).collect();
    // A sentence may speak of leaving something else out: what begins with the word means the step.
    let is_out = words.first().is_some_and(|word| ["skip", "omit", "drop"].contains(word));
    if is_out && !meant.is_empty() {
        let reason = format!("{who} it left out");
        let changes: Vec<Change> =
            meant.iter().map(|step| Change::SkipStep { step: step.id.clone(), reason: reason.clone() }).collect();
        return Some(proposal(RevisionStrategy::SkipAndContinue, changes, reason));
    }
    let [step] = meant.as_slice() else { return None };
    if category(text) == Some(FailureCategory::TooComplex) {
        return decomposed(step);
    }
    let agent = case.request.agents.iter().find(|agent| named(agent.agent_type.as_str()))?;
    let is_person = case.trigger == Trigger::UserRequest;
    let may_take_over = other_agent::may_change_agent(case, step) && agent.action(&step.action).is_some();
    if !is_person && !may_take_over {
        return None;
    }
    let fields = Map::from_iter([("agent_type".to_owned(), agent.agent_type.as_str().into())]);
    let change = Change::SetFields { step: step.id.clone(), fields };
    let summary = format!("{who} `{}` done by `{}`", step.id, agent.agent_type);
    Some(proposal(RevisionStrategy::RetryWithAgent, vec![change], summary))
}

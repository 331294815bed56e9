//! Judges the success criteria of a goal: by expressions and steps first, then by a model or a person.

pub(crate) mod implied_criteria;
pub(crate) mod judging;
pub(crate) mod step_verdict;

use std::collections::BTreeMap;

use goalmill_common::criterion::{
    CriteriaPolicy, Criterion, CriterionVerdict, JudgeKind, Judgement, criterion_id, list_verdicts,
};
use goalmill_common::event::{CriteriaJudged, JudgementRequested, PlanEvent};
use goalmill_common::json::Json;
use goalmill_common::plan::Question;
use goalmill_common::revision::Trigger;
use goalmill_common::status::PlanStatus;
use goalmill_expression as expression;
use serde_json::{Value, json};

use crate::constraints::result_amount::output_paths;
use crate::criteria::judging::{Judged, clipped};
use crate::criteria::step_verdict::{judged_by_step, verdict_of};
use crate::decide::Turn;
use crate::graph::unlock;
use crate::people::waiting::Waiting;
use crate::render::payloads;
use crate::revise::trigger;
use crate::{PlanState, Rejection, people, render, requests, revise};

/// How long the verdict of a model is awaited, in milliseconds.
const MODEL_MS: u64 = 300_000;
/// Words that say that a budget is kept.
const WITHIN: [&str; 9] =
    ["within", "in budget", "under", "below", "not exceed", "not over", "keep", "kept", "respect"];
/// Longest value in the evidence of an expression, in characters.
const VALUE_CHARS_MAX: usize = 60;
/// Most values that the evidence of an expression lists.
const VALUES_MAX: usize = 8;

fn all_criteria(state: &PlanState) -> impl Iterator<Item = (String, &Criterion)> {
    state.accepted.goal.success_criteria.iter().enumerate().map(|(place, c)| (criterion_id(c, place), c))
}

/// The verdict on each criterion of the goal, in its order, then on those that its text implies.
pub fn verdicts(state: &PlanState) -> Vec<CriterionVerdict> {
    let mut verdicts = own_verdicts(state);
    verdicts.extend(verdicts_on(state, &state.origin.implied));
    verdicts
}

/// The verdict on each criterion that the caller named: only these decide how a plan ends.
fn own_verdicts(state: &PlanState) -> Vec<CriterionVerdict> {
    verdicts_on(state, &state.accepted.goal.success_criteria)
}

fn verdicts_on(state: &PlanState, criteria: &[Criterion]) -> Vec<CriterionVerdict> {
    let known = state.judging.as_deref().map(|judging| &judging.verdicts);
    list_verdicts(criteria, known.unwrap_or(&BTreeMap::new()))
}

/// Who is asked to judge now, and the verdicts so far on the criteria that wait for it.
pub fn awaited_judgement(state: &PlanState) -> Option<(JudgeKind, Vec<CriterionVerdict>)> {
    let Waiting::Judgement { judge, criteria, .. } = &state.waiting else { return None };
    let open = verdicts(state).into_iter().filter(|verdict| criteria.contains(&verdict.criterion));
    Some((*judge, open.collect()))
}

/// The question to a person about the first criterion that waits for one.
pub fn criterion_question(state: &PlanState) -> Option<(String, Question)> {
    let Waiting::Judgement { judge: JudgeKind::Person, criteria, .. } = &state.waiting else { return None };
    let id = criteria.first()?;
    let (_, criterion) = all_criteria(state).find(|(other, _)| other == id)?;
    let known = state.judging.as_deref().and_then(|judging| judging.verdicts.get(id));
    let known = known.map(|v| format!(" Judged {} before: {}", v.verdict, v.evidence)).unwrap_or_default();
    let question = Question {
        question: format!("Is this criterion met: {}?{known}", criterion.text()),
        schema: Some(Json::from_value(&answer_schema())),
        default: None,
        limit_ms: 0,
        into: None,
    };
    Some((id.clone(), question))
}

/// Judges what expressions and steps can, then asks a model or a person. Returns whether the plan has to wait.
pub(crate) fn judge_criteria(turn: &mut Turn<'_>) -> bool {
    if turn.state.accepted.goal.success_criteria.is_empty() {
        return !turn.state.origin.implied.is_empty() && judge_now(turn, None);
    }
    if matches!(turn.state.waiting, Waiting::Judgement { .. }) {
        return true;
    }
    if judge_now(turn, None) {
        return true;
    }
    let policy = turn.state.accepted.goal.criteria;
    let judging = turn.state.judging.as_deref().cloned().unwrap_or_default();
    let of = |wanted: &[Judgement]| -> Vec<String> {
        let verdicts = own_verdicts(turn.state).into_iter();
        verdicts.filter(|verdict| wanted.contains(&verdict.verdict)).map(|verdict| verdict.criterion).collect()
    };
    let open = of(&[Judgement::NotJudged]);
    if turn.context.judge_model && !judging.model_asked && !open.is_empty() {
        return request_judgement(turn, JudgeKind::Model, open, MODEL_MS);
    }
    let doubtful = of(&[Judgement::NotJudged, Judgement::Unmet]);
    if policy == CriteriaPolicy::Ask && !judging.person_asked && !doubtful.is_empty() {
        return request_judgement(turn, JudgeKind::Person, doubtful, turn.context.limits.approval_ms_max);
    }
    let unmet = of(&[Judgement::Unmet]);
    let may_revise = turn.state.plan.definition().revision.is_some()
        && turn.state.status == PlanStatus::Running
        && revise::revisions_left(turn.state, turn.context.limits.revisions_max) > 0;
    if policy == CriteriaPolicy::Require && may_revise && !judging.revision_asked && !unmet.is_empty() {
        let texts = own_verdicts(turn.state).into_iter().filter(|verdict| unmet.contains(&verdict.criterion));
        let texts: Vec<String> = texts.map(|v| format!("{} ({})", v.description, v.evidence)).collect();
        let reason = clipped(&format!("not met: {}", texts.join("; ")));
        trigger::replan(turn, Trigger::CriterionUnmet, None, reason);
        return true;
    }
    false
}

/// How the plan ends by its criteria.
pub(crate) fn status_by_criteria(turn: &Turn<'_>, status: PlanStatus) -> PlanStatus {
    if turn.state.accepted.goal.criteria != CriteriaPolicy::Require {
        return status;
    }
    let verdicts = own_verdicts(turn.state);
    let count = |wanted: Judgement| verdicts.iter().filter(|verdict| verdict.verdict == wanted).count();
    match (count(Judgement::Unmet), count(Judgement::Met)) {
        (0, _) => status,
        (_, 0) => PlanStatus::Failed,
        (_, _) => PlanStatus::Partial,
    }
}

/// Judges by expressions and steps, and records verdicts that are new. Returns whether others wait for payloads.
///
/// - `phase`: the phase whose checkpoint it is.
pub(crate) fn judge_now(turn: &mut Turn<'_>, phase: Option<&str>) -> bool {
    let mut needed = Vec::new();
    let known = turn.state.judging.as_deref().map(|judging| judging.verdicts.clone()).unwrap_or_default();
    let implied = turn.state.origin.implied.iter().map(|criterion| (criterion.id.clone(), criterion));
    let found = all_criteria(turn.state).chain(implied).filter_map(|(id, criterion)| {
        // The verdict of a person or a model stands until the plan is revised.
        let is_settled = |v: &CriterionVerdict| matches!(v.judge, Some(JudgeKind::Person | JudgeKind::Model));
        if known.get(&id).is_some_and(is_settled) {
            return None;
        }
        let by_step = judged_by_step(turn.state, &id, criterion);
        let verdict = match by_step.map_or_else(|| judged_by_expression(turn, &id, criterion), |v| v.map(Some)) {
            Ok(verdict) => verdict.or_else(|| judged_by_amount(turn, &id, criterion))?,
            Err(payloads) => match &turn.state.loads.criteria_failure {
                Some(failure) => not_judged(&id, criterion, &failure.message),
                None => {
                    needed.extend(payloads);
                    return None;
                }
            },
        };
        (known.get(&id) != Some(&verdict)).then_some(verdict)
    });
    let verdicts: Vec<CriterionVerdict> = found.collect();
    if !verdicts.is_empty() {
        let phase = phase.map(str::to_owned);
        turn.emit_plan(PlanEvent::CriteriaJudged(Box::new(CriteriaJudged {
            verdicts,
            phase,
            ..CriteriaJudged::default()
        })));
    }
    let waits = !needed.is_empty();
    if waits {
        payloads::ask_payloads(turn, None, needed);
    }
    waits
}

fn judged_by_expression(turn: &Turn<'_>, id: &str, criterion: &Criterion) -> Judged<Option<CriterionVerdict>> {
    let Some(check) = criterion.check.as_deref() else { return Ok(None) };
    let refs = match expression::condition_references(check) {
        Ok(refs) => refs,
        Err(error) => return Ok(Some(not_judged(id, criterion, &error.message))),
    };
    // At a checkpoint some of the steps that it names have not ended.
    let is_ready = refs.iter().all(|r| {
        let i = turn.state.graph.find(&r.step);
        i.is_none_or(|i| turn.state.steps[i].status().is_final())
    });
    if !is_ready {
        return Ok(None);
    }
    let limits = &turn.context.limits;
    let values = || {
        let value = |path: &str| Some(format!("{path} = {}", short(&render::path(turn.state, path, limits).ok()?)));
        output_paths(check).filter_map(value).take(VALUES_MAX).collect::<Vec<_>>().join(", ")
    };
    let (verdict, evidence) = match render::criterion(turn.state, turn.now_ms, check, limits) {
        Ok(true) => (Judgement::Met, values()),
        Ok(false) => (Judgement::Unmet, values()),
        Err(error) if error.code == expression::PAYLOAD_NEEDED => return Err(error.payloads),
        Err(error) if error.code == expression::PAYLOAD_TOO_LARGE => {
            return Ok(Some(not_judged(id, criterion, &error.message)));
        }
        // The caller meant an output that is there; a planner only expected it.
        Err(_) if turn.state.origin.implied.iter().any(|implied| implied.id == id) => return Ok(None),
        Err(error) => (Judgement::Unmet, format!("the expression has no value: {}", error.message)),
    };
    Ok(Some(verdict_on(id, criterion, verdict, Some(JudgeKind::Expression), &evidence)))
}

/// Judges a criterion such as `total cost within budget` by what the result costs, if outputs say it.
fn judged_by_amount(turn: &Turn<'_>, id: &str, criterion: &Criterion) -> Option<CriterionVerdict> {
    let text = criterion.description.to_lowercase();
    let is_about_budget = criterion.check.is_none()
        && text.contains("budget")
        && WITHIN.iter().any(|word| text.contains(word))
        && !text.contains(|c: char| c.is_ascii_digit());
    let monitor = turn.state.monitor.as_deref().filter(|_| is_about_budget)?;
    let mut limits = monitor.watched.iter().filter(|watched| watched.constraint.limits_result());
    let (watched, None) = (limits.next()?, limits.next()) else { return None };
    let amount = watched.amount?;
    let verdict = if amount <= watched.limit { Judgement::Met } else { Judgement::Unmet };
    let evidence = format!("{amount} of {} {}", watched.limit, watched.constraint.unit());
    Some(verdict_on(id, criterion, verdict, Some(JudgeKind::Expression), &evidence))
}

fn request_judgement(turn: &mut Turn<'_>, judge: JudgeKind, criteria: Vec<String>, wait_ms: u64) -> bool {
    let due_ms = turn.after(wait_ms);
    turn.emit_plan(PlanEvent::JudgementRequested(Box::new(JudgementRequested { judge, criteria, due_ms })));
    true
}

/// Takes the verdicts of a model.
pub(crate) fn judged(turn: &mut Turn<'_>, judged: CriteriaJudged) -> Result<(), Rejection> {
    let Some((JudgeKind::Model, asked)) = awaited_judgement(turn.state) else {
        return Err(requests::refuse_plan(turn, "no verdict of a model is awaited"));
    };
    let verdicts = judged.verdicts.into_iter().filter_map(|verdict| {
        let description = asked.iter().find(|open| open.criterion == verdict.criterion)?.description.clone();
        Some(CriterionVerdict {
            description,
            judge: (verdict.verdict != Judgement::NotJudged).then_some(JudgeKind::Model),
            evidence: clipped(&verdict.evidence),
            ..verdict
        })
    });
    let verdicts = verdicts.collect();
    let (usage, reason) = (judged.usage.bounded(), clipped(&judged.reason));
    turn.emit_plan(PlanEvent::CriteriaJudged(Box::new(CriteriaJudged { verdicts, phase: None, usage, reason })));
    unlock::propagate(turn);
    Ok(())
}

/// Takes a person's verdict on a criterion that waits for one; `false` when `id` names none.
pub(crate) fn judge_by_person(turn: &mut Turn<'_>, id: &str, answer: &Json, reason: &str) -> Result<bool, Rejection> {
    let Some((JudgeKind::Person, asked)) = awaited_judgement(turn.state) else { return Ok(false) };
    let Some(open) = asked.into_iter().find(|verdict| verdict.criterion == id) else { return Ok(false) };
    people::check_answer(turn, Some(&Json::from_value(&answer_schema())), answer)?;
    let given = answer.value();
    let evidence = given.get("evidence").and_then(Value::as_str).unwrap_or(reason);
    let verdict = CriterionVerdict {
        verdict: verdict_of(&given).unwrap_or(Judgement::NotJudged),
        judge: Some(JudgeKind::Person),
        by: turn.actor().unwrap_or_default().to_owned(),
        evidence: clipped(evidence),
        ..open
    };
    let judged = CriteriaJudged { verdicts: vec![verdict], ..CriteriaJudged::default() };
    turn.emit_plan(PlanEvent::CriteriaJudged(Box::new(judged)));
    unlock::propagate(turn);
    Ok(true)
}

/// There was no verdict in time: the criteria stay as they are.
pub(crate) fn end_judgement(turn: &mut Turn<'_>) {
    let reason = "no verdict came in time".to_owned();
    turn.emit_plan(PlanEvent::CriteriaJudged(Box::new(CriteriaJudged { reason, ..CriteriaJudged::default() })));
    unlock::propagate(turn);
}

fn not_judged(id: &str, criterion: &Criterion, why: &str) -> CriterionVerdict {
    verdict_on(id, criterion, Judgement::NotJudged, None, why)
}

fn verdict_on(
    id: &str,
    criterion: &Criterion,
    verdict: Judgement,
    judge: Option<JudgeKind>,
    evidence: &str,
) -> CriterionVerdict {
    CriterionVerdict {
        criterion: id.to_owned(),
        description: criterion.text().to_owned(),
        verdict,
        judge,
        by: String::new(),
        evidence: clipped(evidence),
    }
}

fn answer_schema() -> Value {
    json!({"anyOf": [
        {"enum": ["met", "unmet", true, false]},
        {
            "type": "object", "required": ["verdict"], "additionalProperties": false,
            "properties": {"verdict": {"enum": ["met", "unmet"]}, "evidence": {"type": "string"}}
        }
    ]})
}

/// A value in evidence: a list by its length, a text by its beginning.
fn short(value: &str) -> String {
    if let Ok(Value::Array(items)) = serde_json::from_str(value) {
        return format!("{} items", items.len());
    }
    match value.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

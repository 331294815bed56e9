//! Judges the success criteria, or asks for their judgement.

use goalmill_common::criterion::{CriteriaPolicy, Criterion, CriterionVerdict, JudgeKind, Judgement};
use goalmill_common::event::{CriteriaJudged, JudgementRequested, PlanEvent};
use goalmill_common::revision::Trigger;
use goalmill_common::status::PlanStatus;
use goalmill_expression as expression;
use serde_json::Value;

use crate::constraints::result_amount::output_paths;
use crate::criteria::judging::{Judged, clipped};
use crate::criteria::step_verdict::judged_by_step;
use crate::people::waiting::Waiting;
use crate::render::payloads;
use crate::revise::{revising, trigger};
use crate::turn::Turn;
use crate::{criteria, render};

/// How long the verdict of a model is awaited, in milliseconds.
const MODEL_MS: u64 = 300_000;
/// Words that say that a budget is kept.
const WITHIN: [&str; 9] =
    ["within", "in budget", "under", "below", "not exceed", "not over", "keep", "kept", "respect"];
/// Longest value in the evidence of an expression, in characters.
const VALUE_CHARS_MAX: usize = 60;
/// Most values that the evidence of an expression lists.
const VALUES_MAX: usize = 8;

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
        let verdicts = criteria::own_verdicts(turn.state).into_iter();
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
        && revising::revisions_left(turn.state, turn.context.limits.revisions_max) > 0;
    if policy == CriteriaPolicy::Require && may_revise && !judging.revision_asked && !unmet.is_empty() {
        let texts = criteria::own_verdicts(turn.state).into_iter().filter(|verdict| unmet.contains(&verdict.criterion));
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
    let verdicts = criteria::own_verdicts(turn.state);
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
    let found = criteria::all_criteria(turn.state).chain(implied).filter_map(|(id, criterion)| {
        // The verdict of a person or a model stands until the plan is revised.
        let is_settled = |v: &CriterionVerdict| matches!(v.judge, Some(JudgeKind::Person | JudgeKind::Model));
        if known.get(&id).is_some_and(is_settled) {
            return None;
        }
        let by_step = judged_by_step(turn.state, &id, criterion);
        let verdict = match by_step.map_or_else(|| judged_by_expression(turn, &id, criterion), |v| v.map(Some)) {
            Ok(verdict) => verdict.or_else(|| judged_by_amount(turn, &id, criterion))?,
            Err(payloads) => match &turn.state.loads.criteria_failure {
                Some(failure) => criteria::not_judged(&id, criterion, &failure.message),
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
        Err(error) => return Ok(Some(criteria::not_judged(id, criterion, &error.message))),
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
            return Ok(Some(criteria::not_judged(id, criterion, &error.message)));
        }
        // The caller meant an output that is there; a planner only expected it.
        Err(_) if turn.state.origin.implied.iter().any(|implied| implied.id == id) => return Ok(None),
        Err(error) => (Judgement::Unmet, format!("the expression has no value: {}", error.message)),
    };
    Ok(Some(criteria::verdict_on(id, criterion, verdict, Some(JudgeKind::Expression), &evidence)))
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
    Some(criteria::verdict_on(id, criterion, verdict, Some(JudgeKind::Expression), &evidence))
}

fn request_judgement(turn: &mut Turn<'_>, judge: JudgeKind, criteria: Vec<String>, wait_ms: u64) -> bool {
    let due_ms = turn.after(wait_ms);
    turn.emit_plan(PlanEvent::JudgementRequested(Box::new(JudgementRequested { judge, criteria, due_ms })));
    true
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

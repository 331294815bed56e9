//! Verdicts that were asked for.

use goalmill_common::criterion::{CriterionVerdict, JudgeKind, Judgement};
use goalmill_common::event::{CriteriaJudged, PlanEvent};
use goalmill_common::json::Json;
use serde_json::Value;

use crate::criteria::judging::clipped;
use crate::criteria::step_verdict::verdict_of;
use crate::people::questions;
use crate::turn::Turn;
use crate::{Rejection, criteria, progress, refusals};

/// Takes the verdicts of a model.
pub(crate) fn take_verdicts(turn: &mut Turn<'_>, judged: CriteriaJudged) -> Result<(), Rejection> {
    let Some((JudgeKind::Model, asked)) = criteria::awaited_judgement(turn.state) else {
        return Err(refusals::refuse_plan(turn, "no verdict of a model is awaited"));
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
    progress::propagate(turn);
    Ok(())
}

/// Takes a person's verdict on a criterion that waits for one; `false` when `id` names none.
pub(crate) fn judge_by_person(turn: &mut Turn<'_>, id: &str, answer: &Json, reason: &str) -> Result<bool, Rejection> {
    let Some((JudgeKind::Person, asked)) = criteria::awaited_judgement(turn.state) else { return Ok(false) };
    let Some(open) = asked.into_iter().find(|verdict| verdict.criterion == id) else { return Ok(false) };
    questions::check_answer(turn, Some(&Json::from_value(&criteria::answer_schema())), answer)?;
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
    progress::propagate(turn);
    Ok(true)
}

/// There was no verdict in time: the criteria stay as they are.
pub(crate) fn end_judgement(turn: &mut Turn<'_>) {
    let reason = "no verdict came in time".to_owned();
    turn.emit_plan(PlanEvent::CriteriaJudged(Box::new(CriteriaJudged { reason, ..CriteriaJudged::default() })));
    progress::propagate(turn);
}

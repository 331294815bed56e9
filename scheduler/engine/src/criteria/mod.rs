//! Success criteria of a goal, and the verdicts on them.

pub(crate) mod implied_criteria;
pub(crate) mod judged;
pub(crate) mod judgement;
pub(crate) mod judging;
pub(crate) mod step_verdict;

use std::collections::BTreeMap;

use goalmill_common::criterion::{Criterion, CriterionVerdict, JudgeKind, Judgement, criterion_id, list_verdicts};
use goalmill_common::json::Json;
use goalmill_common::plan::Question;
use serde_json::{Value, json};

use crate::PlanState;
use crate::criteria::judging::clipped;
use crate::people::waiting::Waiting;

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

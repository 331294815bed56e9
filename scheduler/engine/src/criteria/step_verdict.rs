//! The verdict of a step that judges a criterion.

use goalmill_common::blob_ref;
use goalmill_common::criterion::{Criterion, CriterionVerdict, JudgeKind, Judgement};
use goalmill_common::status::StepStatus;
use goalmill_expression::NeededPayload;
use serde_json::Value;

use crate::PlanState;
use crate::criteria::judging::{Judged, clipped};
use crate::render::payloads::in_outputs;

/// Fields of a step's outputs that are read for a verdict.
const VERDICT_FIELDS: &[&str] = &["verdicts", "verdict", "met", "passed", "evidence", "reason", "explanation"];

/// The verdict of a completed step that judges the criterion: `{verdicts: {id: …}}`, `{verdict: "met"}` or `{met: true}`.
pub(crate) fn judged_by_step(state: &PlanState, id: &str, criterion: &Criterion) -> Option<Judged<CriterionVerdict>> {
    let judges = |(_, spec): &(usize, &goalmill_common::plan::Step)| spec.judges.iter().any(|judged| judged == id);
    let (i, spec) = state.plan.steps().enumerate().rfind(judges)?;
    let step = &state.steps[i];
    if step.status() != StepStatus::Completed {
        return None;
    }
    let mut outputs = step.outputs()?.value();
    let needed = load_verdict(state, spec.id.as_str(), &mut outputs);
    if !needed.is_empty() {
        return Some(Err(needed));
    }
    let own = match outputs.get("verdicts") {
        Some(Value::Object(by_id)) => by_id.get(id),
        Some(Value::Array(list)) => list.iter().find(|entry| entry.get("criterion").is_some_and(|c| c == id)),
        Some(_) | None => Some(&outputs),
    };
    let verdict = own.and_then(verdict_of);
    let evidence =
        own.and_then(|own| ["evidence", "reason", "explanation"].iter().find_map(|key| own.get(key)?.as_str()));
    Some(Ok(CriterionVerdict {
        criterion: id.to_owned(),
        description: criterion.text().to_owned(),
        verdict: verdict.unwrap_or(Judgement::NotJudged),
        judge: verdict.map(|_| JudgeKind::Step),
        by: spec.id.to_string(),
        evidence: match (verdict, evidence) {
            (None, _) => "the outputs of the step have no verdict".into(),
            (Some(_), evidence) => clipped(evidence.unwrap_or_default()),
        },
    }))
}

/// Puts loaded payloads into outputs that hold a verdict; returns those that are not loaded.
fn load_verdict(state: &PlanState, step: &str, outputs: &mut Value) -> Vec<NeededPayload> {
    let loaded = state.loads.loaded_for(None);
    let mut needed = Vec::new();
    let mut load = |place: &mut Value| {
        blob_ref::replace(place, &mut |key| {
            let payload = loaded.and_then(|payloads| payloads.get(key));
            if payload.is_none() {
                needed.push(in_outputs(step, key));
            }
            payload.map(|payload| payload.json().clone())
        });
    };
    if blob_ref::key(outputs).is_some() {
        load(outputs);
    }
    for field in VERDICT_FIELDS {
        outputs.get_mut(*field).map(&mut load);
    }
    needed
}

pub(crate) fn verdict_of(value: &Value) -> Option<Judgement> {
    let met = |met: bool| if met { Judgement::Met } else { Judgement::Unmet };
    match value {
        Value::Bool(holds) => Some(met(*holds)),
        Value::String(word) => Judgement::parse(word),
        Value::Object(fields) => ["verdict", "met", "passed"].iter().find_map(|key| verdict_of(fields.get(*key)?)),
        Value::Null | Value::Number(_) | Value::Array(_) => None,
    }
}

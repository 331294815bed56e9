//! The verifier: a model reviews valid plans for steps that cannot work and for reaching the goal.
//!
//! A model's opinion, and taken as one: what it objects to is criticised once, and reported. It refuses nothing, so a model
//! that fails, or has no time, leaves the plan as it is.

use futures_util::future::join_all;
use goalmill_common::number::milliseconds;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::problem::Issue;
use goalmill_llm::{Completion, ModelError, Purpose, ResponseFormat};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout};

use super::parse_answer::{self, ParsedAnswer};
use super::plan_task::{PlanTask, ValidDraft, is_reviewed, verdict};
use super::prompt_store::PromptError;
use super::repair_loop::{AcceptedDraft, DraftVerdict, RepairLoop};
use crate::provenance::Round;

/// Findings of one review that count.
const FINDINGS_MAX: usize = 20;
/// Characters of a reason.
const REASON_CHARS_MAX: usize = 600;

/// What a review objects to.
#[derive(Clone, Debug, PartialEq)]
struct Finding {
    /// The step's place; none when it is about the whole plan.
    at: Option<usize>,
    is_error: bool,
    reason: String,
}

impl Finding {
    fn issue(&self, at: Option<usize>) -> Issue {
        let (code, hint) = if self.is_error {
            ("REVIEW_ERROR", "change it, or what it builds on, so that the goal can be reached")
        } else {
            ("REVIEW_WARNING", "")
        };
        let pointer = at.map(|at| format!("/steps/{at}")).unwrap_or_default();
        Issue { code: code.into(), pointer, detail: self.reason.clone(), hint: hint.into() }
    }
}

/// The plan to take, with what a review says of it, and whether it was changed for that, or for the advice of validation.
///
/// Of several plans the one with the fewest errors found is taken. Looking takes half of the time that is left at most, and
/// so does correcting.
pub async fn reviewed(
    repair_loop: &mut RepairLoop<'_>,
    task: &mut PlanTask<'_>,
    accepted: AcceptedDraft<ValidDraft>,
) -> (ValidDraft, bool) {
    if !is_reviewed(&repair_loop.settings) {
        return correct(repair_loop, task, accepted.output, accepted.model, Vec::new()).await;
    }
    let mut plans = vec![(accepted.output, accepted.model)];
    for (good, by) in accepted.others {
        if plans.iter().all(|(known, _)| known.plan != good.plan) {
            plans.push((good, by));
        }
    }
    let begun = Instant::now();
    let until = repair_loop.until;
    let limit = repair_loop.halve();
    let found = timeout(limit, look(repair_loop, task, &plans)).await.unwrap_or_else(|_| {
        let limit_ms = milliseconds(begun.elapsed());
        let error = ModelError::OutOfTime { limit_ms };
        repair_loop
            .provenance
            .note(json!({"template": {"id": "review"}, "error": {"code": error.code(), "detail": error.to_string()}}));
        Vec::new()
    });
    // What looking left of its half is there for correcting.
    repair_loop.until = until;
    let found = found.into_iter().chain(std::iter::repeat(None));
    let best = plans.into_iter().zip(found).min_by_key(|(_, findings)| rank(findings.as_deref()));
    let ((good, by), findings) = best.expect("there is a plan");
    correct(repair_loop, task, good, by, findings.unwrap_or_default()).await
}

/// Errors found; those without a review come between those without and those with errors.
fn rank(findings: Option<&[Finding]>) -> (usize, bool) {
    (findings.into_iter().flatten().filter(|finding| finding.is_error).count(), findings.is_none())
}

/// A warning of validation that a model gets: a plan with a map is shorter, and steps that run cannot become one.
fn advice(task: &PlanTask<'_>, good: &ValidDraft) -> Vec<Issue> {
    let is_unrolled = |issue: &&Issue| issue.code == "UNROLLED_STEPS" && !issue.pointer.contains("/plan/");
    let warnings = good.valid.warnings().iter().filter(|_| task.frozen.is_empty());
    warnings.filter(is_unrolled).cloned().collect()
}

/// Criticises what a review calls an error, and steps that could be a map. What comes of that is not reviewed again; when
/// nothing does, the plan stays.
async fn correct(
    repair_loop: &mut RepairLoop<'_>,
    task: &mut PlanTask<'_>,
    mut good: ValidDraft,
    by: String,
    findings: Vec<Finding>,
) -> (ValidDraft, bool) {
    let errors: Vec<Issue> = findings.iter().filter(|f| f.is_error).map(|f| f.issue(f.at)).collect();
    let advice = advice(task, &good);
    if !errors.is_empty() || !advice.is_empty() {
        task.holds = true;
        let draft = serde_json::to_value(&good.plan).expect("a plan always has a JSON form");
        let has_advice_only = errors.is_empty();
        let issues = errors.into_iter().chain(advice).collect();
        let begun = (DraftVerdict::Invalid { draft, issues }, by);
        let limit = repair_loop.halve();
        if let Ok(Ok(AcceptedDraft { output: mut better, .. })) =
            timeout(limit, repair_loop.run(task, Some(begun))).await
            && (!has_advice_only || self::advice(task, &better).is_empty())
        {
            better.warnings.extend(standing(&findings, &good.plan, &better.plan));
            let is_changed = better.plan != good.plan;
            return (better, is_changed);
        }
    }
    good.warnings.extend(standing(&findings, &good.plan, &good.plan));
    (good, false)
}

/// Asks for a review of each plan; none where there was no answer that can be read.
async fn look(
    repair_loop: &mut RepairLoop<'_>,
    task: &PlanTask<'_>,
    plans: &[(ValidDraft, String)],
) -> Vec<Option<Vec<Finding>>> {
    let prompts: Result<Vec<_>, PromptError> = plans.iter().map(|(good, _)| task.review(&good.plan)).collect();
    let prompts = match prompts {
        Ok(prompts) => prompts,
        Err(error) => {
            repair_loop.provenance.note(json!({"template": {"id": "review"}, "error": {"detail": error.to_string()}}));
            return Vec::new();
        }
    };
    let want = ResponseFormat::Json { name: "review".into(), schema: schema().into() };
    let questions: Vec<_> =
        prompts.iter().map(|prompt| repair_loop.question(prompt, want.clone(), Purpose::Review)).collect();
    let asked = prompts.iter().zip(&questions).map(|(prompt, question)| repair_loop.complete(prompt, question));
    let answers: Vec<Result<Completion, ModelError>> = join_all(asked).await;
    let mut all = Vec::new();
    for ((answer, (good, _)), (prompt, question)) in answers.into_iter().zip(plans).zip(prompts.iter().zip(&questions))
    {
        all.push(match answer {
            Ok(answer) => {
                let mut round = Round::default();
                let read = parse_findings(task, &answer, &good.plan.steps, &mut round);
                let judged = match &read {
                    Ok(_) => DraftVerdict::Valid(()),
                    Err(reason) => DraftVerdict::Unparseable { reason: reason.clone() },
                };
                repair_loop.record_verdict(prompt, question.tier, &answer, &judged, round);
                read.ok()
            }
            Err(error) => {
                repair_loop.provenance.failed(prompt, question.tier, &error);
                None
            }
        });
    }
    all
}

/// What an answer objects to, or why it cannot be read.
fn parse_findings(
    task: &PlanTask<'_>,
    answer: &Completion,
    steps: &[Step],
    round: &mut Round,
) -> Result<Vec<Finding>, String> {
    let begun = Instant::now();
    let written = parse_answer::value(answer.content(), &task.actions, answer.is_truncated());
    task.was_read(&written, begun);
    let (value, reading) = match written {
        ParsedAnswer::Complete { value, reading, .. } => (value, reading),
        ParsedAnswer::Truncated { .. } => return Err("it was cut".into()),
        ParsedAnswer::Unparseable { reason } => return Err(reason),
    };
    round.verdict = verdict(&reading);
    round.syntax_repairs = reading.edits;
    let list = if let Value::Object(mut map) = value { map.remove("findings") } else { Some(value) };
    let Some(Value::Array(list)) = list else { return Err("it has no list of `findings`".into()) };
    let findings: Vec<Finding> = list
        .iter()
        .filter_map(Value::as_object)
        .filter_map(|stated| finding(stated, steps))
        .take(FINDINGS_MAX)
        .collect();
    round.issues = findings.iter().map(|finding| finding.issue(finding.at)).collect();
    Ok(findings)
}

/// - `steps`: of the plan; a finding about none of them is about the whole.
fn finding(stated: &Map<String, Value>, steps: &[Step]) -> Option<Finding> {
    let text = |key: &str| stated.get(key).and_then(Value::as_str).unwrap_or_default().trim();
    let reason: String = text("reason").chars().take(REASON_CHARS_MAX).collect();
    let at = steps.iter().position(|step| step.id.as_str() == text("step"));
    (!reason.is_empty()).then(|| Finding { at, is_error: text("severity").eq_ignore_ascii_case("error"), reason })
}

/// What is still to be said of `after`: findings about steps that are as they were, and those about the whole if all are.
fn standing(findings: &[Finding], before: &Plan, after: &Plan) -> Vec<Issue> {
    let standing = |finding: &Finding| match finding.at {
        Some(at) => {
            let at = after.steps.iter().position(|step| Some(step) == before.steps.get(at))?;
            Some(finding.issue(Some(at)))
        }
        None => (before.steps == after.steps).then(|| finding.issue(None)),
    };
    findings.iter().filter_map(standing).collect()
}

/// The form of a review, as servers are asked for it.
fn schema() -> Value {
    let text = json!({"type": "string"});
    let finding = json!({
        "type": "object",
        "properties": {"step": text, "severity": {"type": "string", "enum": ["error", "warning"]}, "reason": text},
        "required": ["step", "severity", "reason"],
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "properties": {"findings": {"type": "array", "items": finding}},
        "required": ["findings"],
        "additionalProperties": false,
    })
}

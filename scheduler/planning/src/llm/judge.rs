//! Judges success criteria by a language model, from the results of a plan.

use std::sync::Arc;

use goalmill_common::criterion::{CriterionVerdict, JudgeKind, Judgement};
use goalmill_common::event::{CriteriaJudged, ModelAsked};
use goalmill_common::goal::{Budget, Goal, Usage};
use goalmill_llm::{Purpose, ResponseFormat};
use goalmill_reader::ToolCatalogue;
use serde_json::{Map, Value, json};

use super::parse_answer::{self, ParsedAnswer};
use super::redact::redact;
use super::repair_loop::RepairLoop;
use super::{LlmDeps, goal_context};
use crate::CallLog;

/// Characters of one step's result that the model sees.
const RESULT_CHARS_MAX: usize = 4_000;
/// Characters of all results that the model sees.
const RESULTS_CHARS_MAX: usize = 32_000;

/// Asks a model whether criteria are met.
#[derive(Clone)]
pub struct CriteriaJudge(Arc<LlmDeps>);

impl CriteriaJudge {
    pub fn new(deps: Arc<LlmDeps>) -> Self {
        Self(deps)
    }

    /// The verdicts on `criteria`. Without an answer that can be read there are none, and the reason says why.
    ///
    /// - `results`: outputs by step id.
    /// - `left`: what the plan may still spend.
    /// - `call_log`: records the model calls; what they take is then charged by it, and not by the verdicts.
    pub async fn judge(
        &self,
        goal: &Goal,
        criteria: &[CriterionVerdict],
        results: &Map<String, Value>,
        left: &Budget,
        call_log: &CallLog,
    ) -> CriteriaJudged {
        let asked: Vec<Value> = criteria
            .iter()
            .map(|criterion| json!({"id": criterion.criterion, "text": criterion.description}))
            .collect();
        let context = json!({"goal": goal_context(goal), "criteria": asked, "results": result_lines(results)});
        let prompt = match self.0.prompts.render("judge", &context) {
            Ok(prompt) => prompt,
            Err(error) => return failed(error.to_string(), Usage::default()),
        };
        let repair_loop = RepairLoop::new(&self.0, call_log, ModelAsked::JUDGE, left, Purpose::Review, &goal.planning);
        let want = ResponseFormat::Json { name: "verdicts".into(), schema: schema().into() };
        let question = repair_loop.question(&prompt, want, Purpose::Review);
        let answer = repair_loop.complete(&prompt, &question).await;
        let usage = if call_log.is_written() { Usage::default() } else { repair_loop.usage() };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return failed(format!("no model judged: {error}"), usage),
        };
        match parse_answer::value(answer.content(), &ToolCatalogue::default(), answer.is_truncated()) {
            ParsedAnswer::Complete { value, .. } => {
                let verdicts = parse_verdicts(&value, criteria, &answer.model);
                let reason = if verdicts.is_empty() { "the answer of the model has no verdicts" } else { "" };
                CriteriaJudged { verdicts, phase: None, usage, reason: reason.into() }
            }
            ParsedAnswer::Truncated { .. } => failed("the answer of the model was cut".into(), usage),
            ParsedAnswer::Unparseable { reason } => failed(format!("the answer cannot be read: {reason}"), usage),
        }
    }
}

fn failed(reason: String, usage: Usage) -> CriteriaJudged {
    CriteriaJudged { reason, usage, ..CriteriaJudged::default() }
}

/// One line for each step, without what looks like a secret.
fn result_lines(results: &Map<String, Value>) -> Vec<String> {
    let mut left = RESULTS_CHARS_MAX;
    let line = |(step, outputs): (&String, &Value)| {
        let text: String = redact(&outputs.to_string()).chars().take(RESULT_CHARS_MAX.min(left)).collect();
        left -= text.chars().count();
        format!("{step}: {text}")
    };
    results.iter().map(line).collect()
}

fn parse_verdicts(answer: &Value, criteria: &[CriterionVerdict], model: &str) -> Vec<CriterionVerdict> {
    let listed = answer.get("verdicts").unwrap_or(answer).as_array().into_iter().flatten();
    listed
        .filter_map(|entry| {
            let id = entry.get("criterion")?.as_str()?;
            let asked = criteria.iter().find(|criterion| criterion.criterion == id)?;
            let verdict = Judgement::parse(entry.get("verdict")?.as_str()?)?;
            Some(CriterionVerdict {
                verdict,
                judge: Some(JudgeKind::Model),
                by: model.to_owned(),
                evidence: entry.get("evidence").and_then(Value::as_str).unwrap_or_default().to_owned(),
                ..asked.clone()
            })
        })
        .collect()
}

fn schema() -> Value {
    let text = json!({"type": "string"});
    let verdict = json!({
        "type": "object",
        "properties": {
            "criterion": text, "evidence": text,
            "verdict": {"type": "string", "enum": ["met", "unmet", "not_judged"]},
        },
        "required": ["criterion", "verdict", "evidence"],
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "properties": {"verdicts": {"type": "array", "items": verdict}},
        "required": ["verdicts"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(id: &str) -> CriterionVerdict {
        CriterionVerdict {
            criterion: id.into(),
            description: "it is short".into(),
            verdict: Judgement::NotJudged,
            judge: None,
            by: String::new(),
            evidence: String::new(),
        }
    }

    #[test]
    fn only_verdicts_on_what_was_asked_count() {
        let answer = json!({"verdicts": [
            {"criterion": "c1", "verdict": "met", "evidence": "a: 40 words"},
            {"criterion": "c9", "verdict": "met", "evidence": ""},
            {"criterion": "c2", "verdict": "perhaps", "evidence": ""},
        ]});
        let verdicts = parse_verdicts(&answer, &[asked("c1"), asked("c2")], "small");
        let found: Vec<_> = verdicts.iter().map(|v| (v.criterion.as_str(), v.verdict, v.by.as_str())).collect();
        assert_eq!(found, [("c1", Judgement::Met, "small")]);
    }

    #[test]
    fn results_are_cut() {
        let results: Map<String, Value> = (0..20).map(|n| (format!("s{n}"), "x".repeat(9_000).into())).collect();
        let lines = result_lines(&results);
        assert!(lines.iter().map(String::len).sum::<usize>() < RESULTS_CHARS_MAX + 200, "{}", lines.len());
    }
}

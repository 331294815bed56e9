//! The answer of one model to one goal, read from the planning trace.

use goalmill_common::json::Json;
use goalmill_common::plan::Plan;
use goalmill_common::problem::{Issue, Problem};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The code of an answer that holds no plan.
const UNPARSEABLE: &str = "UNPARSEABLE";
/// The code of an answer that ended at its limit of tokens.
const TRUNCATED: &str = "TRUNCATED";
/// The outcome of a round that was valid.
const VALID: &str = "valid";

/// How a plan came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOutcome {
    /// The first answer is a valid plan.
    First,
    /// A later answer is.
    Repaired,
    #[default]
    Invalid,
}

impl AnswerOutcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Repaired => "repaired",
            Self::Invalid => "invalid",
        }
    }
}

/// One goal, asked once of one model.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EvaluatedAnswer {
    pub model: String,
    /// Counted from 1, in the order of the file.
    pub goal: usize,
    pub text: String,
    /// Counted from 1.
    pub repeat: u32,
    pub outcome: AnswerOutcome,
    /// Steps of the plan.
    pub steps: usize,
    /// Answers of the model.
    pub answers: usize,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// US dollars.
    pub cost: f64,
    pub seconds: f64,
    /// What was wrong with the first answer that was not valid; one entry for an answer that cannot be used at all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
    /// Expectations of the goal that the plan does not meet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unmet: Vec<String>,
    #[serde(skip)]
    pub has_expectations: bool,
}

/// What a trace says of its calls.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TraceUsage {
    input_tokens: u64,
    output_tokens: u64,
    cost: f64,
}

impl EvaluatedAnswer {
    /// - `plan`: none if no answer was valid.
    /// - `trace`: of the plan, or of the failure.
    /// - `problem`: of the failure.
    pub fn new(plan: Option<&Plan>, trace: Option<Json>, problem: Option<Problem>) -> Self {
        let mut trace = trace.map(|trace| trace.value()).unwrap_or_default();
        if plan.is_none() {
            // Only one planner was asked.
            trace = trace["tried"][0].take();
        }
        let usage = TraceUsage::deserialize(&trace["usage"]).unwrap_or_default();
        let rounds: Vec<&Value> =
            trace["rounds"].as_array().into_iter().flatten().filter(|round| is_call(round)).collect();
        let outcome = match (plan, rounds.first()) {
            (None, _) => AnswerOutcome::Invalid,
            (Some(_), Some(first)) if first["outcome"] == VALID => AnswerOutcome::First,
            (Some(_), _) => AnswerOutcome::Repaired,
        };
        let bad = rounds.iter().find(|round| round["outcome"] != VALID);
        let mut issues = bad.map(|round| round_issues(round)).unwrap_or_default();
        if let (true, Some(problem)) = (issues.is_empty(), problem) {
            issues.push(only(problem.code.as_str(), &problem.detail));
        }
        Self {
            outcome,
            steps: plan.map_or(0, |plan| plan.steps.len()),
            answers: rounds.iter().filter(|round| round.get("error").is_none()).count(),
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cost: usage.cost,
            issues,
            ..Self::default()
        }
    }

    pub fn is_valid(&self) -> bool {
        self.outcome != AnswerOutcome::Invalid
    }

    /// Whether the plan is valid and meets what is expected of it.
    pub fn is_met(&self) -> bool {
        self.is_valid() && self.unmet.is_empty()
    }

    /// What is wrong with it first, in words.
    pub fn first_issue(&self) -> Option<String> {
        let issue = self.issues.first().map(|issue| match issue.pointer.as_str() {
            "" => format!("{}: {}", issue.code, issue.detail),
            place => format!("{} at {place}: {}", issue.code, issue.detail),
        });
        issue.or_else(|| self.unmet.first().cloned())
    }
}

/// Whether an entry of the trace is a question to a model about the plan.
fn is_call(round: &Value) -> bool {
    round.get("error").is_some() || round["outcome"].as_str().is_some_and(|outcome| !outcome.is_empty())
}

fn round_issues(round: &Value) -> Vec<Issue> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(error) = round.get("error") {
        return vec![only(&word(&error["code"]), &word(&error["detail"]))];
    }
    let issues = Vec::<Issue>::deserialize(&round["issues"]).unwrap_or_default();
    if !issues.is_empty() {
        return issues;
    }
    let code = if round["outcome"] == "truncated" { TRUNCATED } else { UNPARSEABLE };
    vec![only(code, &word(&round["verdict"]))]
}

fn only(code: &str, detail: &str) -> Issue {
    Issue { code: code.into(), pointer: String::new(), detail: detail.into(), hint: String::new() }
}

#[cfg(test)]
mod tests {
    use goalmill_common::problem::ErrorCode;
    use serde_json::json;

    use super::*;

    fn plan() -> Plan {
        serde_json::from_value(json!({"steps": [{"id": "s1", "agent_type": "a"}]})).expect("it is a plan")
    }

    fn valid() -> Value {
        json!({"template": {"id": "plan"}, "outcome": "valid", "raw": "{}"})
    }

    fn invalid() -> Value {
        json!({"template": {"id": "plan"}, "outcome": "invalid", "issues": [
            {"code": "UNKNOWN_AGENT_TYPE", "pointer": "/steps/0/agent_type", "detail": "no `oracle`", "hint": "use another"}]})
    }

    fn usage() -> Value {
        json!({"input_tokens": 700, "output_tokens": 30, "cost": 0.002})
    }

    fn of_plan(rounds: &[Value]) -> EvaluatedAnswer {
        EvaluatedAnswer::new(Some(&plan()), Some(Json::from_value(&json!({"rounds": rounds, "usage": usage()}))), None)
    }

    fn of_failure(rounds: &[Value]) -> EvaluatedAnswer {
        let trace = Json::from_value(&json!({"tried": [{"planner": "llm", "rounds": rounds, "usage": usage()}]}));
        EvaluatedAnswer::new(None, Some(trace), Some(Problem::new(ErrorCode::PlanningFailed, "no plan")))
    }

    #[test]
    fn a_plan_is_valid_at_first_or_after_repair() {
        let first = of_plan(&[valid()]);
        assert_eq!((first.outcome, first.answers, first.steps), (AnswerOutcome::First, 1, 1));
        assert_eq!((first.input_tokens, first.output_tokens, first.first_issue()), (700, 30, None));
        let repaired = of_plan(&[invalid(), valid()]);
        assert_eq!((repaired.outcome, repaired.answers), (AnswerOutcome::Repaired, 2));
        assert_eq!(repaired.first_issue().as_deref(), Some("UNKNOWN_AGENT_TYPE at /steps/0/agent_type: no `oracle`"));
    }

    #[test]
    fn a_failure_says_what_the_model_did_first() {
        let codes = |rounds: &[Value]| of_failure(rounds).issues.into_iter().map(|i| i.code).collect::<Vec<_>>();
        assert_eq!(codes(&[invalid(), invalid()]), ["UNKNOWN_AGENT_TYPE"]);
        assert_eq!(codes(&[json!({"outcome": "unparseable", "verdict": "no steps"})]), [UNPARSEABLE]);
        assert_eq!(codes(&[json!({"outcome": "truncated", "verdict": "it was cut"})]), [TRUNCATED]);
        assert_eq!(codes(&[json!({"error": {"code": "LLM_TIMEOUT", "detail": "too late"}})]), ["LLM_TIMEOUT"]);
        assert_eq!(codes(&[]), ["PLANNING_FAILED"]);
        let failed = of_failure(&[invalid()]);
        assert_eq!((failed.outcome, failed.output_tokens, failed.steps), (AnswerOutcome::Invalid, 30, 0));
        assert!(!failed.is_met());
    }

    #[test]
    fn notes_and_reviews_are_no_answers() {
        let notes = [json!({"begun": ["s1"]}), json!({"template": {"id": "review"}, "outcome": ""})];
        let rounds: Vec<Value> = notes.into_iter().chain([valid()]).collect();
        assert_eq!((of_plan(&rounds).outcome, of_plan(&rounds).answers), (AnswerOutcome::First, 1));
    }
}

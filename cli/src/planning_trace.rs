//! Formats the questions and answers of each planner for people.

use goalmill_common::json::Json;
use serde_json::Value;

/// Most lines shown; the JSON form of the error has all of it.
const LINES_MAX: usize = 40;
/// Longest answer shown, in characters.
const ANSWER_CHARS_MAX: usize = 160;

/// The lines of a planning trace.
pub fn lines(trace: &Json) -> Vec<String> {
    let trace = trace.value();
    let mut lines = Vec::new();
    for planner in trace["tried"].as_array().into_iter().flatten() {
        lines.push(format!("planner `{}`: {}", word(&planner["planner"]), word(&planner["reason"])));
        let rounds = planner["rounds"].as_array().into_iter().flatten();
        lines.extend(rounds.zip(1..).flat_map(|(round, number)| round_lines(round, number)));
    }
    if lines.len() > LINES_MAX {
        lines.truncate(LINES_MAX);
        lines.push("… all of it: -o json".into());
    }
    lines
}

/// A question to a model, and its answer.
fn round_lines(round: &Value, number: usize) -> Vec<String> {
    let prompt: usize = round["prompt"].as_array().into_iter().flatten().map(|text| word(text).chars().count()).sum();
    if prompt == 0 && round.get("template").is_none() {
        return Vec::new();
    }
    let template = word(&round["template"]["id"]);
    let mut lines = vec![format!("  {number}. asked by template `{template}`, {prompt} characters")];
    if let Some(error) = round.get("error") {
        lines.push(format!("     no answer: {} [{}]", word(&error["detail"]), word(&error["code"])));
        return lines;
    }
    let (model, outcome) = (word(&round["model"]), word(&round["outcome"]));
    let answer = word(&round["raw"]);
    let mut shown: String = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((at, _)) = shown.char_indices().nth(ANSWER_CHARS_MAX) {
        shown.truncate(at);
        shown.push('…');
    }
    lines.push(format!("     `{model}` answered ({outcome}): {shown}"));
    let issues = round["issues"].as_array().into_iter().flatten().take(3);
    lines.extend(issues.map(|issue| format!("     {} at {}", word(&issue["code"]), word(&issue["pointer"]))));
    lines
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_planner_says_what_it_was_asked_and_answered() {
        let trace = json!({"tried": [
            {"planner": "llm", "reason": "the plan is not valid", "rounds": [
                {"template": {"id": "plan"}, "prompt": ["You plan.", "Goal"], "model": "m", "outcome": "unparseable", "raw": "I\n would not"},
                {"template": {"id": "critique"}, "prompt": ["x"], "error": {"code": "LLM_TIMEOUT", "detail": "too late"}}]},
            {"planner": "htn", "reason": "no domain matched", "issues": []}]});
        let want = "planner `llm`: the plan is not valid
  1. asked by template `plan`, 13 characters
     `m` answered (unparseable): I would not
  2. asked by template `critique`, 1 characters
     no answer: too late [LLM_TIMEOUT]
planner `htn`: no domain matched";
        assert_eq!(lines(&Json::from_value(&trace)).join("\n"), want);
    }
}

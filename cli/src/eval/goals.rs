//! The file of goals of an evaluation.

use goalmill_common::limits::Limits;
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_plan::validate;
use serde_json::{Value, json};

use super::expectation::{Expectation, issue};
use crate::commands::input;
use crate::commands::submit::at_file;
use crate::exit::Failed;

/// Longest file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most goals of a file.
const GOALS_MAX: usize = 500;
/// The field of a file that is an object.
const FILE_FIELD: &str = "goals";

/// A goal, and what its plan should be like.
#[derive(Debug)]
pub struct EvaluationGoal {
    /// As it is submitted.
    pub document: Value,
    /// In words.
    pub text: String,
    pub expect: Expectation,
}

/// Reads a list of goals, or an object with the list `goals`.
pub fn read_goals(file: &str) -> Result<Vec<EvaluationGoal>, Failed> {
    let text = input::read_bounded(file, FILE_BYTES_MAX)?;
    parse(&input::parse(file, &text)?).map_err(|issues| {
        let problem = Problem::new(ErrorCode::InvalidGoal, "the goals cannot be evaluated").with_errors(issues);
        at_file(problem.into(), file, &text)
    })
}

fn parse(document: &Value) -> Result<Vec<EvaluationGoal>, Vec<Issue>> {
    let (place, list) = match document.as_object() {
        Some(fields) => (format!("/{FILE_FIELD}"), fields.get(FILE_FIELD)),
        None => (String::new(), Some(document)),
    };
    let hint = "write a list of goals: texts, or objects with the fields of a goal and `expect`";
    let Some(Value::Array(list)) = list else {
        return Err(vec![issue(&place, "there is no list of goals", hint)]);
    };
    if let Some(unknown) = document.as_object().and_then(|fields| fields.keys().find(|name| *name != FILE_FIELD)) {
        return Err(vec![issue(&format!("/{unknown}"), &format!("the field `{unknown}` is unknown"), hint)]);
    }
    match list.len() {
        0 => return Err(vec![issue(&place, "the list has no goals", hint)]),
        many if many > GOALS_MAX => {
            let detail = format!("the list has {many} goals, at most {GOALS_MAX} are evaluated");
            return Err(vec![issue(&place, &detail, "divide it into several files")]);
        }
        _ => {}
    }
    let mut issues = Vec::new();
    let mut goals = Vec::new();
    for (at, entry) in list.iter().enumerate() {
        match goal(entry) {
            Ok(goal) => goals.push(goal),
            Err(found) => issues.extend(
                found.into_iter().map(|issue| Issue { pointer: format!("{place}/{at}{}", issue.pointer), ..issue }),
            ),
        }
    }
    if issues.is_empty() { Ok(goals) } else { Err(issues) }
}

fn goal(entry: &Value) -> Result<EvaluationGoal, Vec<Issue>> {
    let mut draft = entry.clone();
    let expect = draft.as_object_mut().and_then(|fields| fields.remove("expect")).unwrap_or_default();
    let parsed = validate::goal(&draft, &Limits::default());
    let expect = Expectation::parse(&expect).map_err(|mut issue| {
        issue.pointer.insert_str(0, "/expect");
        issue
    });
    match (parsed, expect) {
        (Ok(goal), Ok(expect)) => {
            let document = if draft.is_string() { json!({ "description": draft }) } else { draft };
            Ok(EvaluationGoal { document, text: goal.description, expect })
        }
        (goal, expect) => Err(goal.err().into_iter().flatten().chain(expect.err()).collect()),
    }
}

/// Says which goal the server refused.
pub fn at(mut failed: Failed, file: &str, number: usize) -> Failed {
    if let Some(problem) = failed.problem.as_mut().filter(|problem| !problem.errors.is_empty()) {
        problem.detail = format!("{file}: goal {number}: {}", problem.detail);
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(document: &Value) -> Vec<(String, String)> {
        let issues = parse(document).expect_err("the file is at fault");
        issues.into_iter().map(|issue| (issue.pointer, issue.detail)).collect()
    }

    #[test]
    fn goals_are_texts_or_objects_in_a_list_or_below_a_name() {
        let list = json!([
            "Knit a sweater",
            {"description": "Knit", "priority": 3, "expect": {"steps_max": 2}},
            {"goal": "Knit", "constraints": {"colour": "red"}},
        ]);
        for document in [list.clone(), json!({ "goals": list })] {
            let goals = parse(&document).expect("the goals are valid");
            let texts: Vec<&str> = goals.iter().map(|goal| goal.text.as_str()).collect();
            assert_eq!(texts, ["Knit a sweater", "Knit", "Knit"]);
            assert_eq!((goals[0].expect.is_empty(), goals[1].expect.is_empty()), (true, false));
            assert_eq!(goals[1].document, json!({"description": "Knit", "priority": 3}), "`expect` is not submitted");
        }
    }

    #[test]
    fn each_mistake_has_its_place() {
        let found = refused(&json!({"goals": [
            "Knit", {"description": "Knit", "priority": 99}, {"description": "Knit", "expect": {"step_max": 1}}, 7, "",
        ]}));
        let places: Vec<&str> = found.iter().map(|(pointer, _)| pointer.as_str()).collect();
        assert_eq!(places, ["/goals/1/priority", "/goals/2/expect", "/goals/3", "/goals/4"]);
        assert!(found[1].1.contains("`step_max`"), "{found:?}");
        assert_eq!(
            refused(&json!([{"description": "x", "expect": {"criteria": ["steps |"]}}]))[0].0,
            "/0/expect/criteria/0"
        );
    }

    #[test]
    fn a_file_is_a_bounded_list() {
        for (document, part) in [
            (json!([]), "no goals"),
            (json!({"goals": []}), "no goals"),
            (json!("Knit"), "no list"),
            (json!({"goal": "Knit"}), "no list"),
            (json!({"goals": ["Knit"], "models": []}), "`models` is unknown"),
            (json!(vec!["Knit"; GOALS_MAX + 1]), "501 goals"),
        ] {
            let found = refused(&document);
            assert!(found.len() == 1 && found[0].1.contains(part), "{document}: {found:?}");
        }
    }
}

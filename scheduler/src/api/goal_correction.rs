//! Parses corrections of a goal: its fields as in a goal, where `null` takes a value away.

use goalmill_common::command::GoalCorrection;
use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use goalmill_plan::validate;
use serde_json::{Map, Value, json};

use super::edit::issue;

const FIELDS: [&str; 5] = ["constraints", "success_criteria", "deadline", "tz", "inputs"];

/// The correction; its values are validated as those of a goal.
pub(super) fn parse(given: &Value, limits: &Limits) -> Result<GoalCorrection, Vec<Issue>> {
    let Some(fields) = given.as_object().filter(|fields| !fields.is_empty()) else {
        let hint = "send an object with `constraints`, `success_criteria`, `deadline` or `inputs`";
        return Err(vec![issue("INVALID_VALUE", "/goal", "the correction has no fields", hint)]);
    };
    if let Some(name) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        let hint = "send `constraints`, `success_criteria`, `deadline` or `inputs`";
        let detail = format!("`{name}` of a goal cannot be corrected");
        return Err(vec![issue("UNKNOWN_FIELD", &format!("/goal/{name}"), detail, hint)]);
    }
    let deadline = fields.get("deadline");
    let document = json!({
        "description": "a correction",
        "constraints": without_nulls(fields.get("constraints")),
        "success_criteria": fields.get("success_criteria").filter(|criteria| !criteria.is_null()).unwrap_or(&json!([])),
        "deadline": deadline,
        "tz": fields.get("tz"),
        "context": {"inputs": without_nulls(fields.get("inputs"))},
    });
    let goal =
        validate::goal(&document, limits).map_err(|issues| issues.into_iter().map(in_request).collect::<Vec<_>>())?;
    let nulls = |name: &str| {
        let map = fields.get(name).and_then(Value::as_object).into_iter().flatten();
        map.filter(|(_, value)| value.is_null()).map(|(name, _)| (name.clone(), Value::Null)).collect::<Map<_, _>>()
    };
    Ok(GoalCorrection {
        constraints: goal.constraints.into_iter().chain(nulls("constraints")).collect(),
        success_criteria: fields.contains_key("success_criteria").then_some(goal.success_criteria),
        deadline_ms: deadline.map(|_| goal.deadline_ms.unwrap_or_default()),
        inputs: goal.context.inputs.into_iter().chain(nulls("inputs")).collect(),
    })
}

/// An object without the values that are taken away; anything else as it is.
fn without_nulls(value: Option<&Value>) -> Value {
    match value {
        Some(Value::Object(map)) => map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        Some(other) => other.clone(),
        None => json!({}),
    }
}

fn in_request(issue: Issue) -> Issue {
    let place = issue.pointer.strip_prefix("/context").unwrap_or(&issue.pointer);
    Issue { pointer: format!("/goal{place}"), ..issue }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(given: Value) -> Result<GoalCorrection, Vec<Issue>> {
        parse(&given, &Limits::default())
    }

    #[test]
    fn values_are_those_of_a_goal_and_null_takes_one_away() {
        let given = json!({"constraints": {"budget": "1500 USD", "month": null}, "deadline": null, "inputs": {"file": "a.csv"}});
        let correction = parsed(given).expect("it is valid");
        assert_eq!(Value::Object(correction.constraints), json!({"budget": "1500 USD", "month": null}));
        assert_eq!((correction.deadline_ms, correction.success_criteria), (Some(0), None));
        assert_eq!(correction.inputs["file"], "a.csv");
        let criteria = parsed(json!({"success_criteria": ["it is short"]})).expect("it is valid").success_criteria;
        assert_eq!(criteria.map(|criteria| criteria.len()), Some(1));
    }

    #[test]
    fn what_is_no_field_or_no_value_of_a_goal_is_refused() {
        for (given, pointer) in [
            (json!({}), "/goal"),
            (json!("less"), "/goal"),
            (json!({"description": "another"}), "/goal/description"),
            (json!({"deadline": "soon"}), "/goal/deadline"),
            (json!({"constraints": {"budget": {"value": 5, "priority": 11}}}), "/goal/constraints/budget/priority"),
        ] {
            let issues = parsed(given).expect_err("it is not valid");
            assert_eq!(issues[0].pointer, pointer, "{issues:?}");
        }
    }
}

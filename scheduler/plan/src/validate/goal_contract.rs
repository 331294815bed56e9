//! Constraints and success criteria of a goal: in a map or a list, as sentences or objects.

use goalmill_common::constraint::{ConstraintValue, NOTES, parse_value};
use goalmill_common::criterion::{CriteriaPolicy, Criterion, criterion_id};
use goalmill_common::id::is_id;
use serde_json::{Map, Value};

use super::policy;
use crate::document::{
    DocumentPath, DocumentZone, Fields, Table, ValidationContext, ZONE_ALIASES, shorten, text, wrong_type,
};
use goalmill_expression as expression;

const CONSTRAINT: &Table = &[
    ("name", &["type", "constraint", "id"]),
    ("value", &["limit", "amount", "max"]),
    ("min", &[]),
    ("currency", &[]),
    ("unit", &[]),
    ("priority", &[]),
    ("hard", &["required", "mandatory"]),
    ("description", &[]),
    ("of", &["measured_by"]),
    ("tz", ZONE_ALIASES),
];

const CRITERION: &Table =
    &[("id", &["name"]), ("description", &["criterion", "text"]), ("check", &["expression", "condition"])];

/// Most constraints, and most criteria, of a goal.
const CONTRACT_MAX: usize = 64;

/// Constraints by name. A list of `{type, value, priority}` becomes a map; sentences are kept under `notes`.
pub(super) fn read_constraints(fields: &Fields<'_, '_>) -> Map<String, Value> {
    let Some(field) = fields.get("constraints") else { return Map::new() };
    let at = fields.at.key(field.key);
    let found = match field.value {
        Value::String(_) => Map::from_iter([(NOTES.to_owned(), field.value.clone())]),
        Value::Array(items) => read_list(fields.context, &at, items),
        Value::Object(map) => {
            for (name, value) in map {
                let at = at.key(name);
                check_weight(fields.context, &at, value);
                if let Some((map, tz)) = value.as_object().and_then(|map| Some((map, map.get("tz")?))) {
                    check_zone(fields.context, &at.key("tz"), tz, map);
                }
            }
            map.clone()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => free(fields, "constraints"),
    };
    check_count(fields.context, &at, found.len());
    found
}

fn read_list(context: &ValidationContext<'_>, at: &DocumentPath<'_>, items: &[Value]) -> Map<String, Value> {
    let (mut found, mut notes) = (Map::new(), Vec::new());
    for (i, item) in items.iter().enumerate() {
        let at = at.item(i);
        let Value::Object(map) = item else {
            if text(context, &at, item).is_some() {
                notes.push(item.clone());
            }
            continue;
        };
        let fields = Fields::from_map(context, &at, map, CONSTRAINT);
        check_weight(context, &at, item);
        let Some(name) = fields.text("name") else {
            if fields.get("name").is_none() {
                let hint = "name what is limited: `{\"type\": \"budget\", \"value\": \"2000 USD\"}`";
                context.error("MISSING_FIELD", &at.key("type"), "a constraint needs a `type`", hint);
            }
            continue;
        };
        let mut kept = Map::new();
        for name in ["value", "min", "currency", "unit", "priority", "hard", "description", "of", "tz"] {
            if let Some(field) = fields.get(name) {
                kept.insert(name.to_owned(), field.value.clone());
            }
        }
        if let Some(field) = fields.get("tz") {
            check_zone(context, &at.key(field.key), field.value, &kept);
        }
        let value = if kept.len() == 1 && kept.contains_key("value") { kept.remove("value") } else { None };
        found.insert(unused_name(&found, &name), value.unwrap_or(Value::Object(kept)));
    }
    if !notes.is_empty() {
        found.insert(NOTES.to_owned(), Value::Array(notes));
    }
    found
}

/// Two constraints of one type are two constraints: `time`, `time_2`.
fn unused_name(found: &Map<String, Value>, name: &str) -> String {
    let mut candidates = std::iter::once(name.to_owned()).chain((2..).map(|n| format!("{name}_{n}")));
    candidates.find(|candidate| !found.contains_key(candidate)).expect("there are more names than constraints")
}

fn check_weight(context: &ValidationContext<'_>, at: &DocumentPath<'_>, value: &Value) {
    let Value::Object(map) = value else { return };
    if let Some(priority) = map.get("priority").filter(|value| !value.is_null()) {
        let fits = priority.as_u64().is_some_and(|n| (1..=10).contains(&n));
        if !fits {
            let hint = "give a whole number from 1 (relaxed first) to 10; 8 and more are hard";
            context.error("OUT_OF_RANGE", &at.key("priority"), format!("`{priority}` is not in 1..=10"), hint);
        }
    }
    if let Some(hard) = map.get("hard").filter(|value| !value.is_null() && !value.is_boolean()) {
        wrong_type(context, &at.key("hard"), hard, "true or false");
    }
    if let Some(of) = map.get("of").filter(|value| !value.is_null()) {
        check_of(context, &at.key("of"), of);
    }
    for name in ["amount", "value", "max", "min"] {
        if map.get(name).and_then(Value::as_f64).is_some_and(|amount| amount < 0.0) {
            context.error("OUT_OF_RANGE", &at.key(name), "a limit is not negative", "give a number from 0");
        }
    }
}

/// The zone of a local day or time.
fn check_zone(context: &ValidationContext<'_>, at: &DocumentPath<'_>, tz: &Value, constraint: &Map<String, Value>) {
    let Some(name) = text(context, at, tz) else { return };
    if !DocumentZone::is_known(context, at, &name) {
        return;
    }
    let (read, _) = parse_value("", &Value::Object(constraint.clone()));
    if !matches!(read, ConstraintValue::Date(_) | ConstraintValue::Interval { .. }) {
        let detail = "`tz` is the zone of a local day or time, and the constraint has none";
        let hint = "write the value as in `2027-01-31` or `2027-01-31T12:00:00`, or remove `tz`";
        context.error("CONFLICTING_FIELDS", at, detail, hint);
    }
}

/// The expression that reads the amount of the result.
fn check_of(context: &ValidationContext<'_>, at: &DocumentPath<'_>, of: &Value) {
    let Some(of) = text(context, at, of) else { return };
    let hint = "name an output with the amount: `steps.total.outputs.sum`";
    match expression::condition_references(&of) {
        Err(error) => context.error(error.code, at, error.message, hint),
        Ok(refs) if refs.is_empty() => {
            context.error("INVALID_EXPRESSION", at, format!("`{}` reads no output", shorten(&of)), hint);
        }
        Ok(_) => {}
    }
}

fn check_count(context: &ValidationContext<'_>, at: &DocumentPath<'_>, count: usize) {
    if count > CONTRACT_MAX {
        let detail = format!("{count} are more than {CONTRACT_MAX}");
        context.error("OUT_OF_RANGE", at, detail, "put together what belongs together");
    }
}

/// Criteria: a sentence, an expression over outputs, or an object each. Ids stand once.
pub(super) fn read_criteria(fields: &Fields<'_, '_>) -> Vec<Criterion> {
    let Some(field) = fields.get("success_criteria") else { return Vec::new() };
    let at = fields.at.key(field.key);
    let criteria: Vec<Criterion> = if let Value::Array(items) = field.value {
        items.iter().enumerate().filter_map(|(i, item)| criterion(fields.context, &at.item(i), item)).collect()
    } else {
        criterion(fields.context, &at, field.value).into_iter().collect()
    };
    check_count(fields.context, &at, criteria.len());
    let ids: Vec<String> = criteria.iter().enumerate().map(|(i, criterion)| criterion_id(criterion, i)).collect();
    if let Some(i) = (1..ids.len()).find(|i| ids[..*i].contains(&ids[*i])) {
        let detail = format!("criterion `{}` stands twice", shorten(&ids[i]));
        fields.context.error("INVALID_ID", &at.item(i), detail, "give each criterion an id of its own");
    }
    criteria
}

fn criterion(context: &ValidationContext<'_>, at: &DocumentPath<'_>, value: &Value) -> Option<Criterion> {
    let Value::Object(map) = value else {
        let text = text(context, at, value)?;
        let text = text.trim();
        // An expression that names an output judges itself.
        let read = expression::examine_condition(text, &[]);
        if let Err(error) = &read
            && text.contains("steps.")
            && [".outputs", ".status"].iter().any(|field| text.contains(field))
        {
            let hint = "write a condition over outputs: `steps.total.outputs.sum <= 2000`";
            context.error(error.code, at, error.message.clone(), hint);
        }
        let is_check = read.is_ok_and(|facts| !facts.refs.is_empty());
        return Some(Criterion {
            description: if is_check { String::new() } else { text.to_owned() },
            check: is_check.then(|| text.to_owned()),
            ..Criterion::default()
        });
    };
    let fields = Fields::from_map(context, at, map, CRITERION);
    let id = fields.text("id").unwrap_or_default();
    if !id.is_empty() && !is_id(&id) {
        let hint = "use a letter or digit, then up to 127 of letters, digits, `.`, `_`, `:`, `-`";
        context.error("INVALID_ID", &at.key("id"), format!("`{}` is not an id", shorten(&id)), hint);
    }
    let check = fields.text("check");
    if let Some(error) = check.as_deref().and_then(|check| expression::examine_condition(check, &[]).err()) {
        let hint = "write a condition over outputs: `steps.total.outputs.sum <= 2000`";
        context.error(error.code, &at.key("check"), error.message, hint);
    }
    let description = fields.text("description").unwrap_or_default();
    if description.is_empty() && check.is_none() && fields.slips.is_empty() {
        let hint = "say what must be true at the end";
        context.error("MISSING_FIELD", &at.key("description"), "a criterion needs a `description` or a `check`", hint);
    }
    Some(Criterion { id, description, check })
}

pub(super) fn read_policy(fields: &Fields<'_, '_>) -> CriteriaPolicy {
    let words =
        [("report", CriteriaPolicy::Report), ("require", CriteriaPolicy::Require), ("ask", CriteriaPolicy::Ask)];
    policy::word(fields, "criteria", &words).unwrap_or_default()
}

/// The fields of an object that may have any.
pub(super) fn free(fields: &Fields<'_, '_>, name: &str) -> Map<String, Value> {
    let Some(field) = fields.get(name) else { return Map::new() };
    if let Value::Object(map) = field.value {
        map.clone()
    } else {
        wrong_type(fields.context, &fields.at.key(field.key), field.value, "an object");
        Map::new()
    }
}

#[cfg(test)]
mod tests {
    use goalmill_common::limits::Limits;
    use serde_json::json;

    use super::*;

    fn read(goal: Value) -> Result<goalmill_common::goal::Goal, Vec<(String, String)>> {
        let issues = |issues: Vec<goalmill_common::problem::Issue>| {
            issues.into_iter().map(|issue| (issue.code, issue.pointer)).collect()
        };
        crate::validate::goal(&goal, &Limits::default()).map_err(issues)
    }

    #[test]
    fn a_list_of_constraints_becomes_a_map() {
        let list = json!([
            {"type": "budget", "value": "2000 USD", "priority": 9}, {"type": "time", "value": "2 hours"},
            {"type": "time", "value": "in May"}, "no night trains"
        ]);
        let goal = read(json!({"description": "x", "constraints": list})).expect("it is valid");
        let wanted = json!({
            "budget": {"value": "2000 USD", "priority": 9}, "time": "2 hours", "time_2": "in May",
            "notes": ["no night trains"]
        });
        assert_eq!(Value::Object(goal.constraints), wanted);
    }

    #[test]
    fn wrong_weights_are_named() {
        let issues =
            |constraints: Value| read(json!({"description": "x", "constraints": constraints})).expect_err("bad");
        let found = issues(json!({"budget": {"amount": 5, "priority": 11}}));
        assert_eq!(found, [("OUT_OF_RANGE".into(), "/constraints/budget/priority".into())]);
        let found = issues(json!([{"type": "budget", "value": 5, "hard": "yes"}]));
        assert_eq!(found, [("WRONG_TYPE".into(), "/constraints/0/hard".into())]);
        let found = issues(json!([{"value": 5}, {"type": "a", "value": -1}]));
        let wanted = [("MISSING_FIELD", "/constraints/0/type"), ("OUT_OF_RANGE", "/constraints/1/value")];
        assert_eq!(found, wanted.map(|(code, at)| (code.to_owned(), at.to_owned())));
    }

    #[test]
    fn criteria_are_sentences_expressions_or_objects() {
        let criteria = json!([
            "The moon is made of cheese", "steps.budget.outputs.total <= 2000",
            {"id": "booked", "description": "it is booked", "check": "steps.book.outputs.ok"}
        ]);
        let goal = read(json!({"description": "x", "success_criteria": criteria, "criteria": "require"}));
        let goal = goal.expect("it is valid");
        let checks: Vec<Option<&str>> = goal.success_criteria.iter().map(|c| c.check.as_deref()).collect();
        assert_eq!(checks, [None, Some("steps.budget.outputs.total <= 2000"), Some("steps.book.outputs.ok")]);
        assert_eq!(goal.criteria, CriteriaPolicy::Require);
        let twice = json!([{"id": "c2", "description": "a"}, "b"]);
        let found = read(json!({"description": "x", "success_criteria": twice})).expect_err("the id stands twice");
        assert_eq!(found, [("INVALID_ID".into(), "/success_criteria/1".into())]);
        let broken = json!([{"check": "steps.a.outputs.x <="}]);
        let found = read(json!({"description": "x", "success_criteria": broken})).expect_err("it is no expression");
        assert_eq!(found, [("INVALID_EXPRESSION".into(), "/success_criteria/0/check".into())]);
    }
}

//! Converts the flags of an edit to an API request.

use goalmill_common::id::PlanId;
use goalmill_formats::checked_revision_changes;
use goalmill_plan::foreign;
use serde_json::{Map, Value, json};

use super::input;
use crate::args::ChangeArgs;
use crate::context::CommandContext;
use crate::exit::{Exit, Failed};

/// The edit as the fields `plan` or `changes`, and `goal`, of a request.
pub async fn body(context: &CommandContext, plan: &PlanId, args: &ChangeArgs) -> Result<Map<String, Value>, Failed> {
    let mut body = if let Some(file) = &args.file {
        from_file(plan, file, input::value(file)?)?
    } else {
        let document = context.client.graph(plan).await?;
        Map::from_iter([("changes".to_owned(), Value::Array(changes(args, &document)?))])
    };
    if !args.constraint.is_empty() {
        body.insert("goal".into(), json!({"constraints": corrected(&args.constraint)?}));
    }
    Ok(body)
}

/// The corrected constraints; one without a value is taken away.
fn corrected(given: &[String]) -> Result<Map<String, Value>, Failed> {
    let entry = |text: &String| split(text, "NAME=VALUE").map(|(name, value)| (name.to_owned(), value_of(value)));
    given.iter().map(entry).collect()
}

/// A list holds changes, and so does a revision of another planner; anything else is the changed plan.
fn from_file(plan: &PlanId, file: &str, value: Value) -> Result<Map<String, Value>, Failed> {
    if foreign::is_revision(&value) {
        return checked_revision_changes(&value, plan.as_str())
            .map(|changes| Map::from_iter([("changes".to_owned(), Value::Array(changes))]))
            .map_err(|issues| {
                let said = issues.iter().map(|issue| format!("{} at {}: {}", issue.detail, issue.pointer, issue.hint));
                Failed::invalid(format!("{file}: {}", said.collect::<Vec<_>>().join("; ")))
            });
    }
    Ok(of_value(value))
}

/// The body of an edit by changes or by the whole plan.
fn of_value(value: Value) -> Map<String, Value> {
    let (name, value) = match value {
        Value::Array(_) => ("changes", value),
        Value::Object(mut fields) if fields.len() == 1 && fields.contains_key("changes") => {
            ("changes", fields.remove("changes").unwrap_or_default())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => ("plan", value),
    };
    Map::from_iter([(name.to_owned(), value)])
}

fn changes(args: &ChangeArgs, document: &Value) -> Result<Vec<Value>, Failed> {
    let mut changes = Vec::new();
    let mut set: Vec<(String, Map<String, Value>)> = Vec::new();
    for text in &args.set {
        let (path, value) = split(text, "STEP.FIELD=VALUE")?;
        let (step, field) = addressed(document, path)?;
        let place = set.iter().position(|(id, _)| id == step).unwrap_or(set.len());
        if place == set.len() {
            set.push((step.to_owned(), Map::new()));
        }
        let own = step_of(document, step);
        put(&mut set[place].1, own, field, value);
    }
    changes.extend(set.into_iter().map(|(step, fields)| json!({"set_fields": {"step": step, "fields": fields}})));
    for text in &args.depends {
        let (step, on) = split(text, "STEP=STEPS")?;
        let on: Vec<&str> = on.split(',').map(str::trim).filter(|id| !id.is_empty()).collect();
        changes.push(json!({"set_fields": {"step": step, "fields": {"dependencies": on}}}));
    }
    if !args.order.is_empty() {
        changes.push(json!({"order": {"steps": args.order}}));
    }
    changes.extend(args.skip.iter().map(|step| json!({"skip_step": {"step": step}})));
    changes.extend(args.remove.iter().map(|step| json!({"remove_step": {"step": step}})));
    Ok(changes)
}

/// Sets a field or a value inside it; the rest of the field stays.
fn put(fields: &mut Map<String, Value>, own: Option<&Value>, path: &str, text: &str) {
    let value = value_of(text);
    let Some((field, inner)) = path.split_once('.') else {
        fields.insert(path.to_owned(), value);
        return;
    };
    let before = || own.and_then(|own| own.get(field)).filter(|value| value.is_object()).cloned();
    let field = fields.entry(field).or_insert_with(|| before().unwrap_or_else(|| json!({})));
    let mut at = field;
    let names: Vec<&str> = inner.split('.').collect();
    let (last, outer) = names.split_last().expect("splitting always gives a part");
    for name in outer {
        if !at[*name].is_object() {
            at[*name] = json!({});
        }
        at = &mut at[*name];
    }
    if value.is_null() {
        at.as_object_mut().map(|at| at.remove(*last));
    } else {
        at[*last] = value;
    }
}

/// Inputs by step, of `STEP.NAME=VALUE`.
pub fn inputs(texts: &[String], document: &Value) -> Result<Map<String, Value>, Failed> {
    let mut all = Map::new();
    for text in texts {
        let (path, value) = split(text, "STEP.NAME=VALUE")?;
        let (step, name) = addressed(document, path)?;
        all.entry(step).or_insert_with(|| json!({}))[name] = value_of(value);
    }
    Ok(all)
}

/// JSON, or else a string; empty text is `null`.
fn value_of(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { serde_json::from_str(text).unwrap_or_else(|_| text.into()) }
}

fn split<'t>(text: &'t str, form: &str) -> Result<(&'t str, &'t str), Failed> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    parts.ok_or_else(|| Failed::new(Exit::Usage, format!("`{text}` is not of the form `{form}`")))
}

/// The step id at the start of a path, and the rest. Ids may contain dots: the longest match counts.
fn addressed<'t>(document: &Value, path: &'t str) -> Result<(&'t str, &'t str), Failed> {
    let steps = document.get("steps").and_then(Value::as_array).into_iter().flatten();
    let ids = steps.filter_map(|step| step.get("id")?.as_str());
    let fits = ids.filter(|id| path.strip_prefix(id).is_some_and(|rest| rest.len() > 1 && rest.starts_with('.')));
    match fits.map(str::len).max() {
        Some(length) => Ok((&path[..length], &path[length + 1..])),
        // The validation of the edit reports the unknown step with a suggestion.
        None => path.split_once('.').filter(|(step, field)| !step.is_empty() && !field.is_empty()).ok_or_else(|| {
            Failed::new(Exit::Usage, format!("`{path}` names no field of a step")).help("spell it `STEP.FIELD`")
        }),
    }
}

fn step_of<'d>(document: &'d Value, id: &str) -> Option<&'d Value> {
    document.get("steps")?.as_array()?.iter().find(|step| step.get("id").and_then(Value::as_str) == Some(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        json!({"steps": [{"id": "a", "inputs": {"x": 1, "y": {"z": 2}}}, {"id": "a.b"}]})
    }

    #[test]
    fn flags_become_changes_that_keep_what_they_do_not_name() {
        let args = ChangeArgs {
            set: vec!["a.inputs.x=5".into(), "a.inputs.y.w=hi".into(), "a.timeout=30s".into(), "a.b.when=".into()],
            depends: vec!["a=a.b".into()],
            order: vec!["a.b".into(), "a".into()],
            skip: vec!["a".into()],
            ..ChangeArgs::default()
        };
        let changes = changes(&args, &document()).expect("the flags are right");
        assert_eq!(
            changes,
            [
                json!({"set_fields": {"step": "a", "fields": {"inputs": {"x": 5, "y": {"z": 2, "w": "hi"}}, "timeout": "30s"}}}),
                json!({"set_fields": {"step": "a.b", "fields": {"when": null}}}),
                json!({"set_fields": {"step": "a", "fields": {"dependencies": ["a.b"]}}}),
                json!({"order": {"steps": ["a.b", "a"]}}),
                json!({"skip_step": {"step": "a"}}),
            ]
        );
    }

    #[test]
    fn what_has_not_the_form_is_a_usage_error() {
        for text in ["a", "=1", "a=1", "a.=1"] {
            let args = ChangeArgs { set: vec![text.into()], ..ChangeArgs::default() };
            assert_eq!(changes(&args, &document()).expect_err("it is refused").exit, Exit::Usage, "{text}");
        }
    }

    #[test]
    fn a_file_holds_a_plan_or_a_list_of_changes() {
        assert!(of_value(json!([{}])).contains_key("changes"));
        assert!(of_value(json!({"changes": []})).contains_key("changes"));
        assert!(of_value(json!({"steps": []})).contains_key("plan"));
    }
}

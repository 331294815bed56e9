//! The inputs of a plan, against the schema that it declares.

use goalmill_common::goal::{Goal, INPUTS};
use goalmill_common::json::Json;
use goalmill_common::plan::Plan;
use goalmill_common::problem::Issue;
use goalmill_common::suggest::nearest;
use goalmill_common::text::pointer_part;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

use super::inputs::{LISTED_MAX, collect, is_asked, is_excused, is_wholly_open};
use super::origin::StepOrigin;
use crate::document::{DocumentPath, InputsRead, ValidationContext, issue, shorten};
use crate::schema::Schema;

/// The inputs of the plans inside a plan, against the schemas that those declare.
pub(super) fn check_sub_plans(context: &ValidationContext<'_>, plan: &Plan, origins: &[StepOrigin<'_>]) {
    for (step, origin) in plan.steps.iter().zip(origins) {
        let Some(schema) = step.plan.as_ref().and_then(|plan| plan.input_schema.as_ref()) else { continue };
        let given = origin.inputs.cloned().unwrap_or_else(|| Value::Object(Map::new()));
        if is_wholly_open(&given) {
            continue;
        }
        let mut places = Vec::new();
        collect(&given, &mut String::new(), &mut places);
        let is_certain = |pointer: &str, kind: &ValidationErrorKind| {
            !is_excused(pointer, kind, &places) && !is_asked(step, pointer, kind)
        };
        let issues = input_issues(schema, &with_defaults(schema, given.clone()), is_certain);
        for Issue { code, pointer, detail, hint } in issues {
            origin.with_key(origin.inputs_key, |at| {
                let pointer = format!("{}{pointer}", at.pointer());
                context.error(&code, &DocumentPath::Pointer(&pointer), detail, hint);
            });
        }
    }
}

/// The inputs of a plan, with the `default` of each property of its schema that is missing.
pub fn with_defaults(schema: &Json, mut inputs: Value) -> Value {
    let schema = schema.value();
    let properties = schema.get("properties").and_then(Value::as_object);
    if let (Value::Object(given), Some(properties)) = (&mut inputs, properties) {
        for (name, property) in properties {
            if let Some(default) = property.get("default").filter(|_| !given.contains_key(name)) {
                given.insert(name.clone(), default.clone());
            }
        }
    }
    inputs
}

/// Adds the defaults of the plan's schema to the inputs that its goal has, and checks them.
pub fn give_inputs(goal: &mut Goal, plan: &Plan) -> Result<(), Vec<Issue>> {
    let Some(schema) = &plan.input_schema else { return Ok(()) };
    let given = goal.metadata.remove(INPUTS).unwrap_or_else(|| Value::Object(Map::new()));
    let inputs = with_defaults(schema, given);
    let issues: Vec<Issue> = input_issues(schema, &inputs, |_, _| true)
        .into_iter()
        .map(|issue| Issue { pointer: format!("/{INPUTS}{}", issue.pointer), ..issue })
        .collect();
    goal.metadata.insert(INPUTS.into(), inputs);
    if issues.is_empty() { Ok(()) } else { Err(issues) }
}

/// Checks the names of the inputs that the expressions of a plan read.
///
/// - `given`: what the plan gets besides the defaults of its schema; `None` while it is not known.
pub(super) fn check_read(context: &ValidationContext<'_>, plan: Option<&Plan>, given: Option<&[String]>) {
    let InputsRead { places, optional } = context.take_inputs_read();
    let schema = plan.and_then(|plan| plan.input_schema.as_ref()).map(Json::value).unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object);
    let declared = |name: &String| properties.is_some_and(|properties| properties.contains_key(name));
    let has_default = |name: &String| schema.pointer(&format!("/properties/{}/default", pointer_part(name))).is_some();
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    for (name, pointer) in places.iter().filter(|(name, _)| !optional.contains(*name)) {
        if given.map_or_else(|| declared(name), |given| given.contains(name) || has_default(name)) {
            continue;
        }
        let at = DocumentPath::Pointer(pointer);
        let known = given.into_iter().flatten().chain(properties.into_iter().flat_map(Map::keys));
        let near = nearest(name, known.map(String::as_str)).filter(|_| !declared(name));
        let shown = shorten(name);
        match near {
            Some(near) => {
                let detail = format!("the plan has no input `{shown}`");
                context.error("INPUT_UNKNOWN", &at, detail, format!("did you mean `{near}`?"));
            }
            None if given.is_some() || is_closed => {
                let detail = format!("the plan reads the input `{shown}`, which it does not get");
                let hint = match context.planner_rules() {
                    Some(rules) if rules.in_order => "write the value itself".to_owned(),
                    Some(_) | None => format!("{}, or write `| default(…)` after the path", how_to_give(&shown)),
                };
                context.error("INPUT_MISSING", &at, detail, hint);
            }
            None => {}
        }
    }
}

/// How an input is given to a plan.
fn how_to_give(name: &str) -> String {
    format!("add it to the inputs of the plan, with `goalmill run` by `--input {name}=…`")
}

fn input_issues(schema: &Json, inputs: &Value, is_certain: impl Fn(&str, &ValidationErrorKind) -> bool) -> Vec<Issue> {
    let hint = "give what the `input_schema` of the plan asks for";
    let one = |pointer: String, detail: String| issue("INPUT_INVALID", &pointer, detail, hint);
    let compiled = match Schema::cached_outputs(schema) {
        Ok(compiled) => compiled,
        Err(unusable) => return vec![one(String::new(), format!("they cannot be checked: {}", unusable.detail))],
    };
    let validator = match compiled.for_value(inputs) {
        Ok(validator) => validator,
        Err(much) => return vec![one(String::new(), format!("they cannot be checked: {much}"))],
    };
    let errors = validator.iter_errors(inputs).map(|error| (error.instance_path().to_string(), error));
    let certain = errors.filter(|(pointer, error)| is_certain(pointer, error.kind())).take(LISTED_MAX);
    certain
        .map(|(pointer, error)| {
            if let ValidationErrorKind::Required { property } = error.kind()
                && let Some(name) = property.as_str()
            {
                let pointer = format!("{pointer}/{}", pointer_part(name));
                let path = shorten(pointer[1..].replace('/', ".").as_str()).to_string();
                let outermost = path.split('.').next().unwrap_or_default();
                return issue(
                    "INPUT_MISSING",
                    &pointer,
                    format!("the plan needs the input `{path}`"),
                    how_to_give(outermost),
                );
            }
            one(pointer, format!("the plan does not take this: {}", shorten(&error.to_string())))
        })
        .collect()
}

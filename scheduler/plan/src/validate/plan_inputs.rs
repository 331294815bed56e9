//! The inputs of a plan, against the schema that it declares.

use goalmill_common::json::Json;
use goalmill_common::plan::Plan;
use goalmill_common::problem::Issue;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

use super::inputs::{LISTED_MAX, collect, is_asked, is_excused, is_wholly_open};
use super::origin::Origin;
use crate::document::{DocumentPath, ValidationContext, issue, shorten};
use crate::schema::Schema;

/// The inputs of the plans inside a plan, against the schemas that those declare.
pub(super) fn check_sub_plans(context: &ValidationContext<'_>, plan: &Plan, origins: &[Origin<'_>]) {
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

/// Why the inputs of a plan do not match its schema; pointers lead into the inputs.
pub fn check_inputs(schema: &Json, inputs: &Value) -> Vec<Issue> {
    input_issues(schema, inputs, |_, _| true)
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
        .map(|(pointer, error)| one(pointer, format!("the plan does not take this: {}", shorten(&error.to_string()))))
        .collect()
}

//! The inputs of a plan that flags give.

use goalmill_client::Document;
use goalmill_common::json_limits;
use goalmill_common::limits::Limits;
use goalmill_plan::document::{self, Format};
use serde_json::{Map, Value, json};

use super::input;
use crate::exit::{Exit, Failed};

/// The inputs of flags of the form `name=value` (the value is JSON, or else a text) or `@file`.
pub(super) fn plan_inputs(flags: &[String]) -> Result<Map<String, Value>, Failed> {
    let mut inputs = Map::new();
    for flag in flags {
        if let Some(file) = flag.strip_prefix('@') {
            let Value::Object(fields) = input::value(file)? else {
                return Err(Failed::new(Exit::Usage, format!("`{file}` holds no inputs, which are an object")));
            };
            inputs.extend(fields);
        } else {
            let (name, value) = name_and_value("input", flag)?;
            inputs.insert(name.to_owned(), json_or_text(value));
        }
    }
    Ok(inputs)
}

/// The plan with these inputs besides its own.
pub(super) fn with_inputs(plan: Document, inputs: Map<String, Value>) -> Document {
    // The server says what is wrong with a document that cannot be read.
    match document::parse_document(plan.text.as_bytes(), Format::Auto, &Limits::default()) {
        Ok(mut draft) => {
            document::add_inputs(&mut draft, inputs);
            Document { text: draft.to_string(), media: "application/json" }
        }
        Err(_) => plan,
    }
}

/// The parts of a flag of the form `name=value`.
///
/// - `what`: what the flag gives.
pub(super) fn name_and_value<'t>(what: &str, text: &'t str) -> Result<(&'t str, &'t str), Failed> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    parts.ok_or_else(|| Failed::new(Exit::Usage, format!("the {what} `{text}` is not of the form `name=value`")))
}

/// The value of a flag: JSON, or else a text.
pub(super) fn json_or_text(value: &str) -> Value {
    json_limits::parse(value).unwrap_or_else(|_| json!(value))
}

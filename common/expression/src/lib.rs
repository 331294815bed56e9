//! One language, a closed part of Jinja, evaluated with limits on work and size.
//!
//! - In a plan: `{{ steps.flights.outputs.best.price }}` in inputs, `when: steps.a.outputs.hits > 0`. Such an expression
//!   sees `goal`, `inputs` and the steps that it names, nothing else: which ones, its text alone tells. What was rendered is never
//!   rendered again.
//! - In prompts, rules, system prompts of agents and the executor `transform`, with the values that the caller gives
//!   ([`Evaluator`]).

mod comparison;
mod facts;
mod filters;
mod hints;
mod meter;
mod order;
mod path;
mod payload;
mod render;
mod rewrite;
mod rewritten_text;
mod scan;
mod scope;
mod signatures;
mod template;
mod times;
mod tokens;
mod value;

use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::text;
use serde_json::Value as JsonValue;

pub use comparison::{ComparedOperands, Operand, ValueType};
pub use facts::{Facts, examine, examine_condition};
pub use meter::WorkMeter;
pub use payload::{NeededPayload, PAYLOAD_NEEDED, PAYLOAD_TOO_LARGE, Payload, Payloads};
pub use scan::SeenPath;
pub use scope::{Scope, ScopedStep};
pub use template::{Evaluator, Missing, TemplateValues};

use render::{Render, unresolved};
use scan::{Scan, SeenNames};

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExpressionError {
    /// `INVALID_EXPRESSION` (its text is wrong), `REF_UNRESOLVED` (nothing is where it points),
    /// `TEMPLATE_FUEL_EXHAUSTED`, `OUTPUT_TOO_LARGE`, `PAYLOAD_TOO_LARGE`, [`PAYLOAD_NEEDED`], `EXPRESSION_FAILED` (the
    /// values do not fit it).
    pub code: &'static str,
    pub message: String,
    /// With [`PAYLOAD_NEEDED`]: what to load before the expression is evaluated again.
    pub payloads: Vec<NeededPayload>,
}

impl ExpressionError {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), payloads: Vec::new() }
    }
}

/// A step that an expression sees, and what of it: `outputs`, `status`, or all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepRef {
    pub step: String,
    pub field: Option<String>,
}

/// Says whether a text is taken as it is.
pub fn is_plain(text: &str) -> bool {
    !text.contains("{{") && !text.contains("{%")
}

/// The steps that a text with `{{ … }}` sees; also checks that it is well formed.
pub fn references(text: &str) -> Result<Vec<StepRef>, ExpressionError> {
    if is_plain(text) {
        return Ok(Vec::new());
    }
    references_seeing(text, &[])
}

/// The same of a text that may use more names.
pub fn references_seeing(text: &str, names: &[&str]) -> Result<Vec<StepRef>, ExpressionError> {
    if is_plain(text) { Ok(Vec::new()) } else { Ok(scan_seeing(text, names)?.refs) }
}

/// The steps that a bare expression sees, as `when` has it; also checks that it is well formed.
pub fn condition_references(text: &str) -> Result<Vec<StepRef>, ExpressionError> {
    Ok(scan_bare(bare(text)?, &[])?.refs)
}

/// Renders the expressions in a step's inputs, in strings at any depth.
///
/// A string that is one expression becomes its value, of whatever type; in any other string the values are
/// written as text. Inputs without expressions come back as they are. The whole result has at most
/// `payload_bytes_max` bytes; each expression has `fuel_max` work units, less when there are many.
pub fn render(inputs: &Json, scope: &Scope<'_>, limits: &Limits) -> Result<Json, ExpressionError> {
    if is_plain(inputs.text()) {
        return Ok(inputs.clone());
    }
    let mut value = inputs.value();
    let mut templates = 0_u64;
    visit_templates(&value, &mut |_| templates += 1);
    if templates == 0 {
        return Ok(inputs.clone());
    }
    let fuel = (limits.fuel_max * 16 / templates.max(16)).max(1);
    let mut render = Render::new(scope, limits, fuel);
    render.walk(&mut value, &mut String::new())?;
    render.used.end()?;
    let rendered = Json::from_value(&value);
    if rendered.text().len() > limits.payload_bytes_max { Err(too_large()) } else { Ok(rendered) }
}

/// Calls `visit` with every text in a value that holds expressions.
pub fn visit_templates(value: &JsonValue, visit: &mut dyn FnMut(&str)) {
    match value {
        JsonValue::String(text) if !is_plain(text) => visit(text),
        JsonValue::Array(items) => items.iter().for_each(|item| visit_templates(item, visit)),
        JsonValue::Object(fields) => fields.values().for_each(|field| visit_templates(field, visit)),
        JsonValue::String(_) | JsonValue::Null | JsonValue::Bool(_) | JsonValue::Number(_) => {}
    }
}

/// A value that renders to itself: texts with braces are written as one expression each.
pub fn literal(value: &JsonValue) -> JsonValue {
    match value {
        JsonValue::String(text) if !is_plain(text) => JsonValue::String(literal_text(text)),
        JsonValue::Array(items) => items.iter().map(literal).collect(),
        JsonValue::Object(fields) => fields.iter().map(|(name, field)| (name.clone(), literal(field))).collect(),
        JsonValue::String(_) | JsonValue::Null | JsonValue::Bool(_) | JsonValue::Number(_) => value.clone(),
    }
}

/// A text that renders to this one.
pub fn literal_text(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let quoted = JsonValue::from(text).to_string().replace('{', "\\u007b").replace('}', "\\u007d");
    format!("{{{{ {quoted} }}}}")
}

/// Renders one text, such as a question.
pub fn render_text(text: &str, scope: &Scope<'_>, limits: &Limits) -> Result<String, ExpressionError> {
    if is_plain(text) {
        return Ok(text.to_owned());
    }
    Render::new(scope, limits, limits.fuel_max).whole_text(text, &scan_seeing(text, &scope.names())?)
}

/// Whether a text speaks of inputs; a text that is not well formed does not.
pub fn sees_inputs(text: &str) -> bool {
    !is_plain(text) && scan::template(text, SeenNames::Plan).is_ok_and(|scan| scan.uses_inputs)
}

/// Evaluates a condition. A value that is not there is an error, not false; test it with `is defined`.
pub fn is_true(when: &str, scope: &Scope<'_>, limits: &Limits) -> Result<bool, ExpressionError> {
    let text = bare(when)?;
    let scan = scan_bare(text, &scope.names())?;
    scope.count(text, &scan)?;
    let mut render = Render::new(scope, limits, limits.fuel_max);
    let value = render.evaluate(scan.code.as_deref().unwrap_or(text), &scan)?;
    render.used.end()?;
    if value.is_undefined() {
        return Err(unresolved(when, scope, &scan));
    }
    order::check_truth(value)
        .map(|value| value.is_true())
        .map_err(|e| ExpressionError::new("EXPRESSION_FAILED", described(&e)))
}

/// A condition without the braces that some write around it.
fn bare(text: &str) -> Result<&str, ExpressionError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ExpressionError::new("INVALID_EXPRESSION", "the expression is empty"));
    }
    if !text.starts_with("{{") {
        return Ok(text);
    }
    match scan::template(text, SeenNames::Plan)?.whole {
        Some(inside) => Ok(text[inside].trim()),
        None => Err(ExpressionError::new("INVALID_EXPRESSION", "a condition is one expression, without other text")),
    }
}

/// - `names`: what the text may use besides `goal`, `inputs` and `steps`.
fn scan_seeing(text: &str, names: &[&str]) -> Result<Scan, ExpressionError> {
    let scan = scan::plan_template(text, names, false)?;
    if scan.is_path {
        return Ok(scan);
    }
    let environment = filters::environment();
    let template = environment.template_from_str(text).map_err(|e| wrong(&e))?;
    check_names(template.undeclared_variables(false), &scan, names)?;
    Ok(scan)
}

fn scan_bare(text: &str, names: &[&str]) -> Result<Scan, ExpressionError> {
    let scan = scan::plan_condition(text, names, false)?;
    if scan.is_path {
        return Ok(scan);
    }
    let environment = filters::environment();
    let expression = environment.compile_expression(text).map_err(|e| wrong(&e))?;
    check_names(expression.undeclared_variables(false), &scan, names)?;
    Ok(scan)
}

fn check_names(used: std::collections::HashSet<String>, scan: &Scan, allowed: &[&str]) -> Result<(), ExpressionError> {
    let used: std::collections::BTreeSet<String> = used.into_iter().collect();
    for name in used {
        let seen = match name.as_str() {
            "steps" => !scan.refs.is_empty(),
            "goal" => scan.uses_goal,
            "inputs" => scan.uses_inputs,
            "now" => scan.uses_now,
            other => allowed.contains(&other),
        };
        if !seen {
            let hint = hints::word_instead_of(&name).map_or_else(
                || match only_in(&name) {
                    Some(place) => place.to_owned(),
                    None => "expressions see `goal`, `inputs` and `steps`, a step id with a dash as `steps['a-b']`"
                        .to_owned(),
                },
                |write| format!("write `{write}`"),
            );
            return Err(ExpressionError::new("INVALID_EXPRESSION", format!("there is no `{name}`; {hint}")));
        }
    }
    Ok(())
}

/// Where a name can be used that is not seen here.
fn only_in(name: &str) -> Option<&'static str> {
    match name {
        "item" | "index" => Some("only a step with `for_each` sees it"),
        "iteration" | "previous" => Some("only a step with `repeat` sees it"),
        "plan" => Some("only `always` and undo steps see it"),
        _ => None,
    }
}

fn too_large() -> ExpressionError {
    ExpressionError::new("OUTPUT_TOO_LARGE", "the rendered inputs are larger than `payload_bytes_max`")
}

fn invalid(message: impl Into<String>) -> ExpressionError {
    ExpressionError::new("INVALID_EXPRESSION", message)
}

fn wrong(error: &minijinja::Error) -> ExpressionError {
    ExpressionError::new("INVALID_EXPRESSION", described(error))
}

fn described(error: &minijinja::Error) -> String {
    error.detail().map_or_else(|| error.kind().to_string(), str::to_owned)
}

/// At most 64 characters of what somebody wrote.
fn shorten(text: &str) -> String {
    text::shorten(text.trim(), 64).into_owned()
}

#[cfg(test)]
mod right_or_refused_tests;
#[cfg(test)]
mod tests;

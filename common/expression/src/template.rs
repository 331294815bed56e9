//! Templates and expressions with values of any names, for prompts, rules, system prompts and `transform`.

use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde_json::Value as JsonValue;

use crate::scan::{self, Scan, SeenNames};
use crate::value::{self, Capped};
use crate::{ExpressionError, described, filters, shorten, wrong};

/// What a name without a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// An error, unless a default is given.
    Error,
    /// Empty, and so is everything below it.
    Empty,
}

/// The values that a text sees, an object by name.
#[derive(Clone, Debug)]
pub struct TemplateValues(minijinja::Value);

impl TemplateValues {
    pub fn new(values: &JsonValue) -> Self {
        Self(minijinja::Value::from(Serde(values)))
    }

    /// Bytes as JSON.
    fn bytes(&self) -> usize {
        serde_json::to_string(&self.0).map_or(usize::MAX, |text| text.len())
    }
}

/// Renders and evaluates texts.
#[derive(Clone, Debug)]
pub struct Evaluator {
    environment: Environment<'static>,
    fuel: u64,
    bytes_max: usize,
}

impl Evaluator {
    /// - `fuel`: work units of one text; fewer for a loop over much data.
    /// - `bytes_max`: of what one text becomes.
    pub fn new(missing: Missing, fuel: u64, bytes_max: usize) -> Self {
        let mut environment = filters::environment().clone();
        environment.set_undefined_behavior(match missing {
            Missing::Error => UndefinedBehavior::Strict,
            Missing::Empty => UndefinedBehavior::Chainable,
        });
        Self { environment, fuel, bytes_max }
    }

    /// Checks that a text with `{{ … }}` and `{% … %}` is well formed.
    pub fn check_template(text: &str) -> Result<(), ExpressionError> {
        scan::template(text, SeenNames::Any)?;
        filters::environment().template_from_str(text).map(drop).map_err(|e| wrong(&e))
    }

    /// Checks that a bare expression is well formed.
    pub fn check_expression(text: &str) -> Result<(), ExpressionError> {
        scan::bare(text, SeenNames::Any, false)?;
        filters::environment().compile_expression(text).map(drop).map_err(|e| wrong(&e))
    }

    /// Renders a text with `{{ … }}` and `{% … %}`.
    pub fn render(&self, text: &str, values: &TemplateValues) -> Result<String, ExpressionError> {
        let scan = scan::template(text, SeenNames::Any)?;
        let environment = self.environment(&scan, values);
        let template = environment.template_from_str(scan.code.as_deref().unwrap_or(text)).map_err(|e| wrong(&e))?;
        let mut out = Capped { text: Vec::new(), left: self.bytes_max };
        template.render_captured_to(&values.0, &mut out).map_err(|e| self.failure(text, &e))?;
        Ok(String::from_utf8_lossy(&out.text).into_owned())
    }

    /// Evaluates a bare expression; `None`: it has no value.
    pub fn evaluate(&self, text: &str, values: &TemplateValues) -> Result<Option<JsonValue>, ExpressionError> {
        let scan = scan::bare(text, SeenNames::Any, false)?;
        let environment = self.environment(&scan, values);
        let expression = environment.compile_expression(scan.code.as_deref().unwrap_or(text)).map_err(|e| wrong(&e))?;
        let found = expression.eval(&values.0).map_err(|e| self.failure(text, &e))?;
        if found.is_undefined() {
            return Ok(None);
        }
        value::to_json(&found, &mut self.bytes_max.clone()).map(Some)
    }

    fn environment(&self, scan: &Scan, values: &TemplateValues) -> Environment<'static> {
        let mut environment = self.environment.clone();
        let bytes = if scan.has_loop { values.bytes() } else { 0 };
        environment.set_fuel(Some(scan.fuel(self.fuel, bytes)));
        environment
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the enum of the library is not exhaustive")]
    fn failure(&self, text: &str, error: &minijinja::Error) -> ExpressionError {
        let fuel = self.fuel;
        match error.kind() {
            ErrorKind::OutOfFuel => ExpressionError::new(
                "TEMPLATE_FUEL_EXHAUSTED",
                format!("the text takes more work than {fuel} units allow"),
            ),
            ErrorKind::WriteFailure => {
                let message = format!("the text becomes larger than {} bytes", self.bytes_max);
                ExpressionError::new("OUTPUT_TOO_LARGE", message)
            }
            ErrorKind::UndefinedError => ExpressionError::new(
                "REF_UNRESOLVED",
                format!(
                    "a value in `{}` is missing; write `| default(…)` directly after the path to it",
                    shorten(text)
                ),
            ),
            ErrorKind::SyntaxError => wrong(error),
            _ => ExpressionError::new("EXPRESSION_FAILED", described(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn evaluator(missing: Missing) -> Evaluator {
        Evaluator::new(missing, 10_000, 1_000)
    }

    #[test]
    fn values_of_any_name_are_seen() {
        let values = TemplateValues::new(&json!({"steps": [{"id": "a"}, {"id": "b"}], "n": 2, "off": false}));
        let text = "{% for step in steps %}{{ step.id }}{% endfor %} {{ n * 2 }} {{ off }} {{ none.at.all }}.";
        assert_eq!(evaluator(Missing::Empty).render(text, &values).as_deref(), Ok("ab 4 false ."));
        let refused = evaluator(Missing::Error).render(text, &values).expect_err("a value is missing");
        assert_eq!(refused.code, "REF_UNRESOLVED");
        assert_eq!(evaluator(Missing::Error).evaluate("{'m': n + 1}", &values), Ok(Some(json!({"m": 3}))));
        assert_eq!(evaluator(Missing::Empty).evaluate("nothing.here", &values), Ok(None));
    }

    #[test]
    fn prompts_take_texts_and_missing_values_as_they_are() {
        let values = TemplateValues::new(&json!({"word": "no", "n": 3}));
        let text =
            "{% if word %}said{% endif %} {% if n > 2 and not gone %}many{% endif %} {{ gone.deep | default(1) }}";
        assert_eq!(evaluator(Missing::Empty).render(text, &values).as_deref(), Ok("said many 1"));
        assert_eq!(
            evaluator(Missing::Empty).evaluate("gone > 2 or gone | default([]) | length == 0", &values),
            Ok(Some(json!(true)))
        );
        let refused = evaluator(Missing::Error).evaluate("1 if word > 2 else 0", &values).expect_err("types differ");
        assert_eq!(refused.code, "EXPRESSION_FAILED");
    }

    #[test]
    fn a_text_can_take_neither_memory_nor_time_without_limit() {
        let list: Vec<u64> = (0..2_000).collect();
        let values = TemplateValues::new(&json!({"x": "x".repeat(200), "list": list}));
        let code = |text: &str| evaluator(Missing::Empty).render(text, &values).expect_err("it is too much").code;
        for doubling in [
            "{% set x = x ~ x %}{% set x = x ~ x %}{{ x }}",
            "{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f(x) }}",
            "{{ range(100000) }}",
        ] {
            assert_eq!(code(doubling), "INVALID_EXPRESSION", "{doubling}");
        }
        assert_eq!(code("{% for a in list %}{{ x }}{% endfor %}"), "OUTPUT_TOO_LARGE");
        let nested = "{% for a in list %}{% for b in list %}{% if a == b %}{% endif %}{% endfor %}{% endfor %}";
        assert_eq!(code(nested), "TEMPLATE_FUEL_EXHAUSTED");
    }
}

//! Renders values and texts within limits on work, size and stored payloads.

use goalmill_common::limits::Limits;
use minijinja::{Environment, ErrorKind};
use serde_json::Value as JsonValue;

use crate::payload::PayloadUse;
use crate::scan::Scan;
use crate::scope::Scope;
use crate::value::{self, Capped};
use crate::{ExpressionError, described, filters, is_plain, scan_seeing, shorten, too_large, wrong};

/// The rendering of one value or text, with what is left of its limits.
pub(super) struct Render<'s, 'a> {
    scope: &'s Scope<'a>,
    fuel: u64,
    left: usize,
    pub(super) used: PayloadUse,
    /// Bytes of stored payloads that may be read.
    read_max: usize,
}

impl<'s, 'a> Render<'s, 'a> {
    pub(super) fn new(scope: &'s Scope<'a>, limits: &Limits, fuel: u64) -> Self {
        let (left, read_max) = (limits.payload_bytes_max, limits.expression_bytes_max);
        Self { scope, fuel, left, used: PayloadUse::default(), read_max }
    }

    /// Renders in place; `at` is the JSON Pointer of `value`, for errors.
    pub(super) fn walk(&mut self, value: &mut JsonValue, at: &mut String) -> Result<(), ExpressionError> {
        let depth = at.len();
        match value {
            JsonValue::String(text) if !is_plain(text) => {
                let rendered = self.string(text).map_err(|e| located(e, at))?;
                *value = rendered;
            }
            JsonValue::Array(items) => {
                for (i, item) in items.iter_mut().enumerate() {
                    at.push('/');
                    at.push_str(&i.to_string());
                    self.walk(item, at)?;
                    at.truncate(depth);
                }
            }
            JsonValue::Object(map) => {
                for (key, item) in map.iter_mut() {
                    at.push('/');
                    at.push_str(key);
                    self.walk(item, at)?;
                    at.truncate(depth);
                }
            }
            JsonValue::String(_) | JsonValue::Null | JsonValue::Bool(_) | JsonValue::Number(_) => {}
        }
        Ok(())
    }

    fn string(&mut self, text: &str) -> Result<JsonValue, ExpressionError> {
        let scan = scan_seeing(text, &self.scope.names())?;
        self.scope.count(text, &scan)?;
        if let Some(value) = scan.passed_on.as_deref().and_then(|parts| self.scope.stored_value(parts)) {
            value::spend(&mut self.left, value.to_string().len())?;
            return Ok(value);
        }
        let Some(inside) = scan.whole.clone() else {
            return self.text(text, &scan).map(JsonValue::String);
        };
        let value = self.evaluate(scan.whole_code.as_deref().unwrap_or_else(|| text[inside].trim()), &scan)?;
        if self.used.is_waiting() {
            return Ok(JsonValue::Null);
        }
        if value.is_undefined() {
            return Err(unresolved(text, self.scope, &scan));
        }
        value::to_json(&value, &mut self.left)
    }

    /// A text that is all there is to render.
    pub(super) fn whole_text(mut self, text: &str, scan: &Scan) -> Result<String, ExpressionError> {
        self.scope.count(text, scan)?;
        let rendered = self.text(text, scan)?;
        self.used.end().map(|()| rendered)
    }

    fn text(&mut self, text: &str, scan: &Scan) -> Result<String, ExpressionError> {
        let (context, environment) = self.prepare(scan)?;
        if self.used.is_waiting() {
            return Ok(String::new());
        }
        let template = environment.template_from_str(scan.code.as_deref().unwrap_or(text)).map_err(|e| wrong(&e))?;
        let mut out = Capped { text: Vec::new(), left: self.left };
        let (meter, granted) = (self.scope.meter(), environment.fuel().unwrap_or_default());
        let rendered = meter.evaluate_metered(|| {
            template.render_captured_to(context, &mut out).map(|captured| captured.state().fuel_levels())
        });
        let rendered = rendered.inspect(|levels| meter.add(levels.map_or(0, |(consumed, _)| consumed)));
        let rendered = rendered.map(drop).inspect_err(|_| meter.add(granted));
        match rendered {
            Ok(()) => {
                self.left = out.left;
                Ok(String::from_utf8_lossy(&out.text).into_owned())
            }
            Err(e) => Err(self.failure(text, &e, scan)),
        }
    }

    /// The value of an expression; nothing while payloads are not loaded.
    pub(super) fn evaluate(&mut self, text: &str, scan: &Scan) -> Result<minijinja::Value, ExpressionError> {
        let (context, environment) = self.prepare(scan)?;
        if self.used.is_waiting() {
            return Ok(minijinja::Value::UNDEFINED);
        }
        let expression = environment.compile_expression(text).map_err(|e| wrong(&e))?;
        self.scope.meter().evaluate_metered(|| expression.eval(context)).map_err(|e| self.failure(text, &e, scan))
    }

    /// What a text sees, and where it runs.
    fn prepare(&mut self, scan: &Scan) -> Result<(minijinja::Value, Environment<'static>), ExpressionError> {
        let (context, used) = self.scope.context(scan)?;
        self.used.add(used, self.read_max)?;
        let mut environment = filters::environment().clone();
        let bytes = if scan.has_loop { self.scope.bytes(scan) + self.used.bytes() } else { 0 };
        environment.set_fuel(Some(self.scope.meter().fuel(scan.fuel(self.fuel, bytes))));
        Ok((context, environment))
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the enum of the library is not exhaustive")]
    fn failure(&self, text: &str, error: &minijinja::Error, scan: &Scan) -> ExpressionError {
        match error.kind() {
            ErrorKind::OutOfFuel => {
                let message = "the expression takes more work than `limits.fuel_max` allows";
                ExpressionError::new("TEMPLATE_FUEL_EXHAUSTED", message)
            }
            ErrorKind::WriteFailure => too_large(),
            ErrorKind::UndefinedError => unresolved(text, self.scope, scan),
            ErrorKind::SyntaxError => wrong(error),
            _ if scan.paths.iter().any(|path| !path.has_default && self.scope.early_end(path).is_some()) => {
                unresolved(text, self.scope, scan)
            }
            _ => ExpressionError::new("EXPRESSION_FAILED", described(error)),
        }
    }
}

/// Names what is missing, where the text tells it.
pub(super) fn unresolved(text: &str, scope: &Scope<'_>, scan: &Scan) -> ExpressionError {
    let message = match scan.refs.iter().find(|r| !scope.knows(&r.step)) {
        Some(r) => format!("unknown step `{}`", r.step),
        None => scan.paths.iter().filter(|path| !path.has_default).find_map(|path| scope.early_end(path)).unwrap_or_else(
            || {
                let text = shorten(text);
                format!(
                    "a value in `{text}` is missing, such as the first item of an empty list: test it with `is defined`, \
                     or write the default directly after it, as in `(x | first | default(0)) + 1`"
                )
            },
        ),
    };
    ExpressionError::new("REF_UNRESOLVED", message)
}

fn located(error: ExpressionError, at: &str) -> ExpressionError {
    ExpressionError::new(error.code, format!("inputs{at}: {}", error.message))
}

//! Fills `${ … }` of a rule's plan at planning time; `{{ … }}` is for the engine, at the step's time.
//!
//! A text that is one `${ … }` keeps the value's type. A text with an unknown value is left out, with its key.
//! Values are data: braces in them are written so that the engine renders them back as they were.

use goalmill_expression::{Evaluator, Missing, TemplateValues};
use serde_json::{Map, Value};

/// Work units of one expression.
const FUEL: u64 = 10_000;
/// Bytes of one value.
const BYTES_MAX: usize = 1 << 20;

/// Whether the engine will render the result once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Later {
    Rendered,
    AsItIs,
}

/// A piece of a template's text.
enum Piece<'a> {
    Text(&'a str),
    Expression(&'a str),
}

/// Renders a template with facts by name.
pub(crate) struct TemplateRenderer {
    evaluator: Evaluator,
    facts: TemplateValues,
}

impl TemplateRenderer {
    pub(crate) fn new(facts: &Map<String, Value>) -> Self {
        let facts = TemplateValues::new(&Value::Object(facts.clone()));
        Self { evaluator: Evaluator::new(Missing::Empty, FUEL, BYTES_MAX), facts }
    }

    /// A text for people; `None` when it has an unknown value.
    pub(crate) fn line(&self, text: &str) -> Result<Option<String>, String> {
        Ok(self.text(text, Later::AsItIs)?.map(|value| plain(&value)))
    }

    /// A plan. Only a step's inputs and conditions are rendered again by the engine.
    pub(crate) fn render_rule_plan(&self, plan: &Value) -> Result<Value, String> {
        Ok(self.value(plan, Later::AsItIs)?.unwrap_or(Value::Null))
    }

    fn value(&self, value: &Value, later: Later) -> Result<Option<Value>, String> {
        match value {
            Value::String(text) => self.text(text, later),
            Value::Array(items) => {
                let items = items.iter().filter_map(|item| self.value(item, later).transpose());
                items.collect::<Result<_, _>>().map(|items| Some(Value::Array(items)))
            }
            Value::Object(fields) => {
                let mut rendered = Map::new();
                for (name, field) in fields {
                    let rendered_again = matches!(name.as_str(), "inputs" | "when" | "cache");
                    let later = if rendered_again { Later::Rendered } else { later };
                    if let Some(field) = self.value(field, later)? {
                        rendered.insert(name.clone(), field);
                    }
                }
                Ok(Some(Value::Object(rendered)))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(Some(value.clone())),
        }
    }

    fn text(&self, text: &str, later: Later) -> Result<Option<Value>, String> {
        let pieces = pieces(text)?;
        if let [Piece::Expression(expression)] = pieces.as_slice() {
            return Ok(self.evaluate(expression)?.map(|value| escaped(value, later)));
        }
        let mut out = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Expression(expression) => match self.evaluate(expression)? {
                    Some(value) => out.push_str(&plain(&escaped(value, later))),
                    None => return Ok(None),
                },
            }
        }
        Ok(Some(Value::String(out)))
    }

    /// `None`: a fact that the expression needs is not known.
    fn evaluate(&self, expression: &str) -> Result<Option<Value>, String> {
        let value = self.evaluator.evaluate(expression, &self.facts).map_err(|e| format!("`{expression}`: {e}"))?;
        Ok(value.filter(|value| !value.is_null()))
    }
}

/// Checks that the expressions in a text are well formed.
pub(super) fn check_template_text(text: &str) -> Result<(), String> {
    for piece in pieces(text)? {
        if let Piece::Expression(expression) = piece {
            Evaluator::check_expression(expression).map_err(|e| format!("`{expression}`: {e}"))?;
        }
    }
    Ok(())
}

/// As [`check_template_text`], for every text of a template; the error begins with the place.
pub(crate) fn check_all(value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) => check_template_text(text).map_err(|e| format!(": {e}")),
        Value::Array(items) => {
            items.iter().enumerate().try_for_each(|(i, item)| check_all(item).map_err(|e| format!("[{i}]{e}")))
        }
        Value::Object(fields) => {
            fields.iter().try_for_each(|(name, field)| check_all(field).map_err(|e| format!(".{name}{e}")))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (expression, behind) = after.split_once('}').ok_or_else(|| format!("`{text}`: `${{` without `}}`"))?;
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        pieces.push(Piece::Expression(expression.trim()));
        rest = behind;
    }
    if !rest.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

fn plain(value: &Value) -> String {
    if let Value::String(text) = value { text.clone() } else { value.to_string() }
}

/// Writes data so that the engine gives it back as it is.
pub fn literal(value: Value) -> Value {
    escaped(value, Later::Rendered)
}

/// Writes opening braces of a value as expressions that give them back.
fn escaped(value: Value, later: Later) -> Value {
    match value {
        Value::String(text) if later == Later::Rendered => Value::String(escape(&text)),
        Value::Array(items) => items.into_iter().map(|item| escaped(item, later)).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, field)| (name, escaped(field, later))).collect::<Map<_, _>>().into()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

/// Writes a text so that the engine renders it back as it is.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let opens = c == '{' && matches!(chars.peek(), None | Some('{' | '%' | '#'));
        if opens {
            out.push_str("{{ \"{\" }}");
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(plan: Value, facts: Value) -> Value {
        let facts = facts.as_object().cloned().unwrap_or_default();
        TemplateRenderer::new(&facts).render_rule_plan(&plan).expect("the template is well formed")
    }

    #[test]
    fn values_keep_their_type_and_expressions_for_later_survive() {
        let plan = json!({"inputs": {"n": "${ n }", "all": "${ budget }", "text": "for ${ n } at ${ city }", "later": "{{ steps.a.outputs.x }}"}});
        let facts = json!({"n": 3, "city": "Rome", "budget": {"amount": 2.5}});
        let expected = json!({"inputs": {"n": 3, "all": {"amount": 2.5}, "text": "for 3 at Rome", "later": "{{ steps.a.outputs.x }}"}});
        assert_eq!(render(plan, facts), expected);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let plan = json!({"a": "${ x }", "b": "at ${ x.y.z }", "c": ["${ x }", "d"], "e": "${ x | default(5) }"});
        assert_eq!(render(plan, json!({})), json!({"c": ["d"], "e": 5}));
    }

    #[test]
    fn braces_in_values_reach_the_step_as_data() {
        let evil = "{{ steps.a.outputs.secret }}{% if 1 %}{# x #}{";
        let rendered =
            render(json!({"inputs": {"x": "${ t }", "y": "say ${ t }!"}, "description": "${ t }"}), json!({"t": evil}));
        let evaluator = Evaluator::new(Missing::Error, FUEL, BYTES_MAX);
        let again = |text: &Value| {
            let nothing = TemplateValues::new(&json!({}));
            evaluator.render(text.as_str().unwrap_or_default(), &nothing).expect("it is a template")
        };
        assert_eq!(again(&rendered["inputs"]["x"]), evil);
        assert_eq!(again(&rendered["inputs"]["y"]), format!("say {evil}!"));
        assert_eq!(rendered["description"], evil);
    }

    #[test]
    fn faults_in_templates_are_named_with_their_place() {
        let fault = check_all(&json!({"steps": [{"inputs": {"x": "${ a b }"}}]})).expect_err("it is no expression");
        assert!(fault.starts_with(".steps[0].inputs.x: `a b`"), "{fault}");
        assert!(check_template_text("${ open").is_err());
    }
}

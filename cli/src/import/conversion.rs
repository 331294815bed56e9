//! What a conversion has in common with others: places in a foreign document, and what has no equal here.

use goalmill_common::problem::Issue;
use goalmill_common::text::pointer_part;
use goalmill_plan::document::duration::duration_ms;
use serde_json::{Map, Value};

/// Steps that a conversion makes at most.
const STEPS_MAX: usize = 10_000;

/// A value in a foreign document, and its place.
#[derive(Clone, Debug)]
pub struct Place<'v> {
    pub value: &'v Value,
    /// JSON Pointer.
    pub pointer: String,
}

impl<'v> Place<'v> {
    pub fn root(value: &'v Value) -> Self {
        Self { value, pointer: String::new() }
    }

    /// A field that is there and not null.
    pub fn get(&self, key: &str) -> Option<Self> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(Self { value, pointer: format!("{}/{}", self.pointer, pointer_part(key)) })
    }

    /// The text of a field.
    pub fn text(&self, key: &str) -> Option<&'v str> {
        self.value.get(key).and_then(Value::as_str)
    }

    /// The items of a list; none of another value.
    pub fn items(&self) -> Vec<Self> {
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items.map(|(n, value)| Self { value, pointer: format!("{}/{n}", self.pointer) }).collect()
    }

    /// The fields of an object; none of another value.
    pub fn fields(&self) -> Vec<(&'v str, Self)> {
        let fields = self.value.as_object().into_iter().flatten();
        let place = |(key, value): (&'v String, &'v Value)| {
            (key.as_str(), Self { value, pointer: format!("{}/{}", self.pointer, pointer_part(key)) })
        };
        fields.map(place).collect()
    }
}

/// What a conversion found.
#[derive(Debug, Default)]
pub struct Findings {
    /// What has no equal; with any, there is no plan.
    pub refused: Vec<Issue>,
    /// What is left out, and what is different here.
    pub notes: Vec<Issue>,
    steps: usize,
}

impl Findings {
    /// Something that has no equal here.
    pub fn no_equal(&mut self, place: &Place<'_>, what: impl AsRef<str>, hint: &str) {
        let detail = format!("{} has no equal here", what.as_ref());
        self.refuse(place, "NO_EQUAL", detail, hint);
    }

    pub fn refuse(&mut self, place: &Place<'_>, code: &str, detail: impl Into<String>, hint: &str) {
        let (code, pointer) = (code.to_owned(), place.pointer.clone());
        let issue = Issue { code, pointer, detail: detail.into(), hint: hint.to_owned() };
        if !self.refused.contains(&issue) {
            self.refused.push(issue);
        }
    }

    pub fn note(&mut self, place: &Place<'_>, detail: impl Into<String>) {
        let (code, pointer) = ("FORMAT_CONVERTED".to_owned(), place.pointer.clone());
        let note = Issue { code, pointer, detail: detail.into(), hint: String::new() };
        // A template is converted once for each call.
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Notes the fields that say nothing about the run, and refuses those that are neither known nor of that kind.
    pub fn check_fields(&mut self, place: &Place<'_>, known: &[&str], ignored: &[&str]) {
        for (key, field) in place.fields() {
            if known.contains(&key) || field.value.is_null() {
                continue;
            }
            if ignored.contains(&key) {
                self.note(
                    &field,
                    format!("`{key}` is left out: it says nothing about the order or the data of the steps"),
                );
            } else {
                self.no_equal(&field, format!("`{key}`"), "remove it, or write by hand what it is for");
            }
        }
    }

    /// Counts a step; says whether there may be one more.
    pub fn count_step(&mut self, place: &Place<'_>) -> bool {
        self.steps += 1;
        if self.steps == STEPS_MAX + 1 {
            let hint = "import its parts one by one, and store them: goalmill plan put";
            self.refuse(place, "TOO_MANY_STEPS", format!("the plan would have more than {STEPS_MAX} steps"), hint);
        }
        self.steps <= STEPS_MAX
    }
}

/// An object of these fields, without those that are null.
pub fn object<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    let given = fields.into_iter().filter(|(_, value)| !value.is_null());
    given.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A path into the outputs of steps or the like: `a.b`, or `a['b-c']` where a part is no name.
pub fn path<'p>(root: &str, parts: impl IntoIterator<Item = &'p str>) -> String {
    let mut text = root.to_owned();
    for part in parts {
        let is_name = part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if is_name {
            text.push('.');
            text.push_str(part);
        } else if part.bytes().all(|byte| byte.is_ascii_digit()) && !part.is_empty() {
            text.push_str(&format!("[{part}]"));
        } else {
            text.push_str(&format!("['{}']", part.replace(['\'', '\\', '{', '}'], "_")));
        }
    }
    text
}

/// An id of a step as near to a name as the alphabet of ids allows.
pub fn step_id(name: &str) -> String {
    let id: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect();
    let id = id.trim_start_matches(['.', '_', '-']).to_owned();
    if id.is_empty() { "step".to_owned() } else { id }
}

/// A text as it stands between quotes in an expression.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// A text that renders to itself.
pub fn literal(text: &str) -> String {
    let has_braces = text.contains("{{") || text.contains("{%") || text.contains("{#");
    if has_braces { format!("{{% raw %}}{text}{{% endraw %}}") } else { text.to_owned() }
}

/// The value with each of its texts converted.
pub fn convert_texts(place: &Place<'_>, convert: &mut impl FnMut(&str, &Place<'_>) -> String) -> Value {
    match place.value {
        Value::String(text) => convert(text, place).into(),
        Value::Array(_) => place.items().iter().map(|item| convert_texts(item, convert)).collect(),
        Value::Object(_) => {
            let fields = place.fields();
            let converted = fields.iter().map(|(key, field)| ((*key).to_owned(), convert_texts(field, convert)));
            converted.collect::<Map<_, _>>().into()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => place.value.clone(),
    }
}

/// The text with each tag between these marks converted; a tag that is not closed ends the text. A text without tags
/// renders to itself.
///
/// - `convert`: what stands for a tag; `None` leaves it out.
pub fn convert_tags(
    text: &str,
    (open, close): (&str, &str),
    mut convert: impl FnMut(&str) -> Option<String>,
) -> String {
    if !text.contains(open) {
        return literal(text);
    }
    let (mut out, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(open) {
        out.push_str(&rest[..start]);
        let Some(length) = rest[start..].find(close) else { break };
        out.extend(convert(&rest[start + open.len()..start + length]));
        rest = &rest[start + length + close.len()..];
    }
    out.push_str(rest);
    out
}

/// Conditions of which all must be true.
pub fn all_of(conditions: &[String]) -> Option<String> {
    match conditions {
        [] => None,
        [only] => Some(only.clone()),
        many => Some(many.iter().map(|one| format!("({one})")).collect::<Vec<_>>().join(" and ")),
    }
}

/// Whole seconds of a text such as `10s`, `5m`, `1h30m`, `2 days`, `20`.
pub fn seconds(text: &str) -> Option<u64> {
    let text = text.trim();
    text.parse().ok().or_else(|| duration_ms(&text.into()).filter(|ms| ms % 1_000 == 0).map(|ms| ms / 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_ids_and_durations_are_written_as_ours() {
        assert_eq!(path("steps", ["a", "b-c", "0", "x"]), "steps.a['b-c'][0].x");
        assert_eq!((step_id("say hi"), step_id("-x"), step_id("…")), ("say_hi".into(), "x".into(), "step".into()));
        assert_eq!(quoted(r"it's \"), r"'it\'s \\'");
        for (text, expected) in [
            ("20", Some(20)),
            ("1h30m", Some(5_400)),
            ("2 days 3 hrs", Some(183_600)),
            ("1.5s", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}

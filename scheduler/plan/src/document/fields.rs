//! The fields of an object under the names that people give them.

use std::borrow::Cow;

use goalmill_common::number::whole_u64;
use serde_json::{Map, Value};

use super::{DocumentPath, ValidationContext, absent, shorten};
use super::{Unit, milliseconds};

/// Names of fields: the canonical one, then the others that are accepted, best first.
pub(crate) type Table = [(&'static str, &'static [&'static str])];

/// A field as it was given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'v> {
    /// As spelled in the document.
    pub key: &'v str,
    pub value: &'v Value,
}

/// An object whose fields are known by their canonical names.
pub(crate) struct Fields<'v, 'a> {
    pub context: &'a ValidationContext<'a>,
    pub at: &'a DocumentPath<'a>,
    found: Vec<(&'static str, Field<'v>)>,
    /// Canonical names that an unknown field probably stands for.
    pub slips: Vec<&'static str>,
}

impl<'v, 'a> Fields<'v, 'a> {
    /// Sorts the fields by `table`; reports what is unknown and what is given twice under different names.
    ///
    /// `null` counts as not given.
    pub(crate) fn from_map(
        context: &'a ValidationContext<'a>,
        at: &'a DocumentPath<'a>,
        map: &'v Map<String, Value>,
        table: &'static Table,
    ) -> Self {
        let mut fields = Self { context, at, found: Vec::with_capacity(map.len()), slips: Vec::new() };
        for (key, value) in map {
            match canonical(key, table) {
                None => fields.unknown(key, table),
                Some(_) if value.is_null() => {}
                Some(name) => fields.add(name, Field { key, value }),
            }
        }
        fields
    }

    fn add(&mut self, name: &'static str, field: Field<'v>) {
        let Some((_, first)) = self.found.iter().find(|(known, _)| *known == name) else {
            self.found.push((name, field));
            return;
        };
        if first.value != field.value {
            let detail = format!("`{}` and `{}` say different things about `{name}`", first.key, field.key);
            self.context.error("CONFLICTING_FIELDS", &self.at.key(field.key), detail, "keep one of them");
        }
    }

    fn unknown(&mut self, key: &str, table: &'static Table) {
        let detail = format!("there is no field `{}` here", shorten(key));
        if let Some(instead) = absent::instead(&snake(key)) {
            return self.context.error("UNKNOWN_FIELD", &self.at.key(key), detail, instead);
        }
        let names = table.iter().flat_map(|(name, others)| std::iter::once(name).chain(others.iter())).copied();
        let near = if self.context.may_guess() { goalmill_common::suggest::nearest(key, names) } else { None };
        if let Some(near) = near {
            self.slips.extend(canonical(near, table));
        }
        let hint = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None if canonical("metadata", table).is_some() => {
                "remove it, or put it under `metadata`, where it is kept and does nothing".to_owned()
            }
            None => "remove it".to_owned(),
        };
        self.context.error("UNKNOWN_FIELD", &self.at.key(key), detail, hint);
    }

    pub(crate) fn get(&self, name: &str) -> Option<Field<'v>> {
        self.found.iter().find(|(known, _)| *known == name).map(|(_, field)| *field)
    }

    /// A text, without what is wrong with it: `None` when missing or wrong.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        let field = self.get(name)?;
        text(self.context, &self.at.key(field.key), field.value)
    }

    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        let field = self.get(name)?;
        let flag = field.value.as_bool();
        if flag.is_none() {
            wrong_type(self.context, &self.at.key(field.key), field.value, "true or false");
        }
        flag
    }

    /// A whole number within limits.
    pub(crate) fn count(&self, name: &str, min: u64, max: u64) -> Option<u64> {
        let field = self.get(name)?;
        count(self.context, &self.at.key(field.key), field.value, min, max)
    }

    /// A number that is not negative.
    pub(crate) fn amount(&self, name: &str) -> Option<f64> {
        let field = self.get(name)?;
        let at = self.at.key(field.key);
        let Some(amount) = field.value.as_f64() else {
            wrong_type(self.context, &at, field.value, "a number");
            return None;
        };
        if !(0.0..=AMOUNT_MAX).contains(&amount) {
            self.context.error(
                "OUT_OF_RANGE",
                &at,
                format!("`{amount}` is not in 0..={AMOUNT_MAX}"),
                "give a number in that range",
            );
            return None;
        }
        Some(amount)
    }

    /// A duration in milliseconds; a bare number counts in `unit`.
    pub(crate) fn duration(&self, name: &str, unit: Unit, min: u64, max: u64, code: &str) -> Option<u64> {
        let field = self.get(name)?;
        let at = self.at.key(field.key);
        duration(self.context, &at, field.value, unit, min, max, code)
    }
}

/// Largest amount of anything: numbers above are slips.
const AMOUNT_MAX: f64 = goalmill_common::json_limits::COST_MAX;

/// The canonical name behind one that is accepted.
pub(crate) fn canonical(key: &str, table: &'static Table) -> Option<&'static str> {
    let find =
        |key: &str| table.iter().find(|(name, others)| *name == key || others.contains(&key)).map(|(name, _)| *name);
    find(key).or_else(|| match snake(key) {
        Cow::Owned(snake) => find(&snake),
        Cow::Borrowed(_) => None,
    })
}

/// `dependsOn`, `depends-on` and `DependsOn` as `depends_on`.
pub fn snake(key: &str) -> Cow<'_, str> {
    if !key.contains(|c: char| c.is_ascii_uppercase() || c == '-' || c == ' ') {
        return key.into();
    }
    let mut out = String::with_capacity(key.len() + 2);
    let mut before = '_';
    for c in key.chars() {
        if c.is_ascii_uppercase() && before != '_' && !before.is_ascii_uppercase() {
            out.push('_');
        }
        let c = if matches!(c, '-' | ' ') { '_' } else { c };
        out.push(c.to_ascii_lowercase());
        before = c;
    }
    out.into()
}

pub(crate) fn wrong_type(context: &ValidationContext<'_>, at: &DocumentPath<'_>, value: &Value, wanted: &str) {
    let given = match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    context.error("WRONG_TYPE", at, format!("expected {wanted}, found {given}"), format!("give {wanted}"));
}

pub(crate) fn text(context: &ValidationContext<'_>, at: &DocumentPath<'_>, value: &Value) -> Option<String> {
    let Value::String(text) = value else {
        wrong_type(context, at, value, "text");
        return None;
    };
    let limit = context.limits.text_chars_max;
    if text.len() > limit && text.chars().nth(limit).is_some() {
        context.error(
            "TEXT_TOO_LONG",
            at,
            format!("the text has more than {limit} characters"),
            "shorten it, or pass it as an input",
        );
        return None;
    }
    Some(text.clone())
}

pub(crate) fn count(
    context: &ValidationContext<'_>,
    at: &DocumentPath<'_>,
    value: &Value,
    min: u64,
    max: u64,
) -> Option<u64> {
    if !value.is_number() {
        wrong_type(context, at, value, "a whole number");
        return None;
    }
    let whole = value.as_u64().or_else(|| {
        // YAML and some models write whole numbers as `3.0`.
        value.as_f64().filter(|f| f.fract() == 0.0 && (0.0..9e15).contains(f)).map(whole_u64)
    });
    match whole {
        Some(n) if (min..=max).contains(&n) => Some(n),
        None if value.as_f64().is_some_and(|f| f.fract() != 0.0) => {
            wrong_type(context, at, value, "a whole number");
            None
        }
        Some(_) | None => {
            context.error(
                "OUT_OF_RANGE",
                at,
                format!("`{value}` is not in {min}..={max}"),
                "give a number in that range",
            );
            None
        }
    }
}

pub(crate) fn duration(
    context: &ValidationContext<'_>,
    at: &DocumentPath<'_>,
    value: &Value,
    unit: Unit,
    min: u64,
    max: u64,
    code: &str,
) -> Option<u64> {
    if !value.is_number() && !value.is_string() {
        wrong_type(context, at, value, "a duration such as `30s`");
        return None;
    }
    let Some(ms) = milliseconds(value, unit) else {
        let given = shorten(value.as_str().unwrap_or_default());
        context.error(
            code,
            at,
            format!("`{given}` is not a duration"),
            "write a number with a unit: `500ms`, `30s`, `5m`, `1h`",
        );
        return None;
    };
    let rounded = ms.round();
    if rounded < min as f64 || rounded > max as f64 {
        context.error(
            "OUT_OF_RANGE",
            at,
            format!("{ms} ms is not in {min}..={max} ms"),
            "give a duration in that range",
        );
        return None;
    }
    Some(whole_u64(rounded))
}

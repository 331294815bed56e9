//! Ids of steps: read, checked, proposed.

use goalmill_common::id::is_id;
use serde_json::Value;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::step_fields::step_field;
use crate::document::{DocumentPath, Fields, ValidationContext, shorten, wrong_type};

/// An id as text: numbers are ids too.
pub fn id_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The id that a step gives itself.
pub fn own_id(step: &Value) -> Option<String> {
    let (_, id) = step.as_object()?.iter().find(|(key, _)| step_field(key) == Some("id"))?;
    id_text(id)
}

pub(super) fn id(fields: &Fields<'_, '_>, key: Option<&str>) -> Option<String> {
    let given = fields.get("id");
    let Some(field) = given.or_else(|| if key.is_none() { fields.get("name") } else { None }) else {
        let Some(key) = key else {
            fields.context.error(
                "MISSING_FIELD",
                &fields.at.key("id"),
                "a step needs an `id`",
                "give each step an id of its own",
            );
            return None;
        };
        return checked_id(fields.context, fields.at, key);
    };
    let at = fields.at.key(field.key);
    match id_text(field.value) {
        Some(id) => checked_id(fields.context, &at, &id),
        None => {
            wrong_type(fields.context, &at, field.value, "text or a whole number");
            None
        }
    }
}

fn checked_id(context: &ValidationContext<'_>, at: &DocumentPath<'_>, id: &str) -> Option<String> {
    if is_id(id) {
        return Some(id.to_owned());
    }
    let detail = format!("`{}` is not an id", shorten(id));
    context.error("INVALID_ID", at, detail, id_hint(id));
    None
}

/// The alphabet of ids, with a proposal.
pub(super) fn id_hint(id: &str) -> String {
    let rule = "use a letter or digit, then up to 127 of letters, digits, `.`, `_`, `:`, `-`";
    format!("{rule}; for example `{}`", proposed_id(id))
}

/// Longest id that is proposed, in characters.
const PROPOSED_CHARS_MAX: usize = 64;

/// An id as near to a text as the alphabet of ids allows: without accents, words joined by `_`. Where nothing that can
/// be read is left of it, `step` with its digits.
fn proposed_id(text: &str) -> String {
    let mut slug = String::new();
    for c in text.trim().nfkd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase) {
        match c {
            'ß' => slug.push_str("ss"),
            'æ' => slug.push_str("ae"),
            'œ' => slug.push_str("oe"),
            'ø' => slug.push('o'),
            'ł' => slug.push('l'),
            'đ' | 'ð' => slug.push('d'),
            'þ' => slug.push_str("th"),
            'ı' => slug.push('i'),
            '.' | ':' | '-' => slug.push(c),
            c if c.is_ascii_alphanumeric() => slug.push(c),
            _ if !slug.ends_with('_') => slug.push('_'),
            _ => {}
        }
        if slug.len() >= PROPOSED_CHARS_MAX {
            break;
        }
    }
    let slug = slug.trim_matches(['_', '.', ':', '-']);
    if slug.contains(|c: char| c.is_ascii_alphabetic()) && is_id(slug) {
        return slug.to_owned();
    }
    let digits: String = slug.chars().filter(char::is_ascii_digit).take(9).collect();
    if digits.is_empty() { "step".to_owned() } else { format!("step-{digits}") }
}

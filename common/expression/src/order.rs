//! Order and truth of values: what cannot be compared or read is an error, never an answer.

use std::cmp::Ordering;

use goalmill_common::text;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, UndefinedBehavior, Value};

/// Texts that mean no, in any case; an empty text is one of them.
const NO: &[&str] = &["false", "no", "off", "n", "f", "0", ""];
/// Texts that mean yes, in any case.
const YES: &[&str] = &["true", "yes", "on", "y", "t", "1"];

/// Longest value that an error quotes, in characters.
const QUOTED_CHARS_MAX: usize = 40;

/// Reads a text as a boolean by the table of the documentation; `None` for any other text.
pub(crate) fn read_bool(text: &str) -> Option<bool> {
    let is_one_of = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(text.trim()));
    if is_one_of(NO) { Some(false) } else { is_one_of(YES).then_some(true) }
}

/// The filter `bool`.
pub(crate) fn to_bool(value: &Value) -> Result<bool, Error> {
    match value.as_str() {
        Some(text) => read_bool(text).ok_or_else(|| {
            failed(format!(
                "{} is no boolean: a text is read as `true`, `yes`, `on`, `1` or `false`, `no`, `off`, `0`; for others \
                 compare, as in `x == 'done'`",
                described(value)
            ))
        }),
        None => Ok(value.is_true()),
    }
}

/// The filter before what stands for a boolean; prompts, whose missing values are empty, take any text.
pub(crate) fn truth(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    if is_strict(state) { check_truth(value) } else { Ok(value) }
}

/// Whether a missing value is an error.
pub(crate) fn is_strict(state: &State<'_, '_>) -> bool {
    state.env().undefined_behavior() == UndefinedBehavior::Strict
}

/// Gives the value back, unless it is a text that says no and yet would count as true.
pub(crate) fn check_truth(value: Value) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) if !text.is_empty() && read_bool(text) == Some(false) => Err(failed(format!(
            "{} counts as true, as every text that is not empty: write `| bool` to read it, or compare it",
            described(&value)
        ))),
        _ => Ok(value),
    }
}

/// The tests `lt`, `gt`, `le` and `ge`, which the operators become.
pub(crate) fn compare(state: &State<'_, '_>, a: &Value, b: &Value, holds: fn(Ordering) -> bool) -> Result<bool, Error> {
    if a.is_undefined() || b.is_undefined() {
        return if is_strict(state) { Err(Error::from(ErrorKind::UndefinedError)) } else { Ok(false) };
    }
    check_comparable(a, b, 0)?;
    Ok(holds(a.cmp(b)))
}

/// Checks that two values have an order.
fn check_comparable(a: &Value, b: &Value, depth: usize) -> Result<(), Error> {
    match (a.kind(), b.kind()) {
        (ValueKind::Number, ValueKind::Number) if !is_nan(a) && !is_nan(b) => Ok(()),
        (ValueKind::String, ValueKind::String) | (ValueKind::Bool, ValueKind::Bool) => Ok(()),
        (ValueKind::Seq | ValueKind::Iterable, ValueKind::Seq | ValueKind::Iterable) if depth < 8 => {
            for (a, b) in a.try_iter()?.zip(b.try_iter()?) {
                check_comparable(&a, &b, depth + 1)?;
                if a != b {
                    break;
                }
            }
            Ok(())
        }
        _ => Err(failed(format!("{} and {} have no order{}", described(a), described(b), advice(a, b)))),
    }
}

fn is_nan(value: &Value) -> bool {
    f64::try_from(value.clone()).is_ok_and(f64::is_nan)
}

fn advice(a: &Value, b: &Value) -> &'static str {
    let is = |kind: ValueKind| a.kind() == kind || b.kind() == kind;
    if is(ValueKind::Undefined) {
        "; leave out what is missing with `selectattr('name', 'defined')`"
    } else if is(ValueKind::None) {
        "; test the value with `is none` first"
    } else if is(ValueKind::String) && is(ValueKind::Number) {
        ": write `| int` or `| float` after the text"
    } else if is(ValueKind::Seq) && is(ValueKind::Number) {
        ": `| length` counts the items of a list"
    } else {
        ": compare values of one type"
    }
}

/// Checks that the items of a list, or what stands in them under `attribute`, have an order.
///
/// - `attribute`: names with dots, several with commas.
pub(crate) fn check_orderable(list: &Value, attribute: Option<&str>, has_default: bool) -> Result<(), Error> {
    let Ok(items) = list.try_iter() else { return Ok(()) };
    let items: Vec<Value> = items.collect();
    let keys: Vec<&str> = attribute.map_or_else(|| vec![""], |names| names.split(',').map(str::trim).collect());
    for key in keys {
        let mut values = items.iter().map(|item| if key.is_empty() { item.clone() } else { value_at(item, key) });
        let Some(first) = values.next() else { return Ok(()) };
        let rest = values.filter(|value| !(has_default && value.is_undefined()));
        if items.len() == 1 {
            check_comparable(&first, &first, 0)?;
        }
        for value in rest {
            check_comparable(&first, &value, 0)?;
        }
    }
    Ok(())
}

/// What stands under a name with dots; undefined when nothing does.
fn value_at(item: &Value, path: &str) -> Value {
    path.split('.').fold(item.clone(), |value, part| {
        let part = part.parse::<usize>().map_or_else(|_| Value::from(part), Value::from);
        look_up(&value, &part)
    })
}

/// What a path ends at; undefined when it ends early.
pub(crate) fn follow(value: &Value, parts: &[Value]) -> Value {
    parts.iter().fold(value.clone(), |value, part| look_up(&value, part))
}

fn look_up(value: &Value, part: &Value) -> Value {
    if matches!(value.kind(), ValueKind::Undefined | ValueKind::None) || part.is_undefined() {
        return Value::UNDEFINED;
    }
    value.get_item(part).unwrap_or(Value::UNDEFINED)
}

/// A number for the filters `int` and `float`, which read texts, and refuse what is no number.
pub(crate) fn check_number(value: &Value) -> Result<(), Error> {
    let is_number = match value.as_str() {
        Some(text) => text.trim().parse::<f64>().is_ok_and(f64::is_finite),
        None => matches!(value.kind(), ValueKind::Number | ValueKind::Bool),
    };
    if is_number {
        return Ok(());
    }
    Err(failed(format!("{} is no number; give a default, as in `x | int(default=0)`", described(value))))
}

/// A value and its type, as errors name them.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum of the library is not exhaustive")]
pub(crate) fn described(value: &Value) -> String {
    let shown = |value: &Value| text::shorten(&value.to_string(), QUOTED_CHARS_MAX).into_owned();
    match value.kind() {
        ValueKind::String => format!("\"{}\" (a text)", shown(value)),
        ValueKind::Number => format!("{} (a number)", shown(value)),
        ValueKind::Bool => format!("{} (a boolean)", if value.is_true() { "true" } else { "false" }),
        ValueKind::None => "null".into(),
        ValueKind::Undefined => "a missing value".into(),
        ValueKind::Seq | ValueKind::Iterable => match value.len() {
            Some(items) => format!("a list with {items} items"),
            None => "a list".into(),
        },
        ValueKind::Map => "an object".into(),
        _ => format!("a {}", value.kind()),
    }
}

pub(crate) fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

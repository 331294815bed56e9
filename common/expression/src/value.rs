//! From the values of the expression language to JSON.

use minijinja::Value;
use minijinja::value::ValueKind;
use serde_json::{Map, Number, Value as JsonValue};

use crate::ExpressionError;

const DEPTH_MAX: usize = 128;

/// Turns a result into JSON of the same type.
///
/// - `left`: bytes that may still be written; what is written is taken off.
pub(crate) fn to_json(value: &Value, left: &mut usize) -> Result<JsonValue, ExpressionError> {
    convert(value, left, 0)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum of the library is not exhaustive")]
fn convert(value: &Value, left: &mut usize, depth: usize) -> Result<JsonValue, ExpressionError> {
    spend(left, 1 + value.as_str().map_or(4, str::len))?;
    if depth > DEPTH_MAX {
        return Err(failed("the result is nested too deep"));
    }
    match value.kind() {
        ValueKind::Undefined => Err(ExpressionError::new("REF_UNRESOLVED", "the expression has no value")),
        ValueKind::None => Ok(JsonValue::Null),
        ValueKind::Bool => Ok(JsonValue::Bool(value.is_true())),
        ValueKind::Number => number(value),
        ValueKind::String => Ok(JsonValue::String(value.as_str().unwrap_or_default().to_owned())),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().map_err(|e| failed(e.to_string()))?;
            items.map(|item| convert(&item, left, depth + 1)).collect::<Result<_, _>>().map(JsonValue::Array)
        }
        ValueKind::Map => {
            let keys = value.try_iter().map_err(|e| failed(e.to_string()))?;
            let mut map = Map::new();
            for key in keys {
                let name = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                spend(left, name.len() + 4)?;
                let item = value.get_item(&key).map_err(|e| failed(e.to_string()))?;
                map.insert(name, convert(&item, left, depth + 1)?);
            }
            Ok(JsonValue::Object(map))
        }
        other => Err(failed(format!("a result of type {other} has no JSON form"))),
    }
}

fn number(value: &Value) -> Result<JsonValue, ExpressionError> {
    if value.is_integer() {
        if let Ok(n) = i64::try_from(value.clone()) {
            return Ok(n.into());
        }
        return match u64::try_from(value.clone()) {
            Ok(n) => Ok(n.into()),
            Err(_) => Err(failed(format!("the number {value} does not fit into 64 bits"))),
        };
    }
    let float = f64::try_from(value.clone()).map_err(|e| failed(e.to_string()))?;
    Number::from_f64(float).map(JsonValue::Number).ok_or_else(|| failed("the result is not a finite number"))
}

pub(crate) fn spend(left: &mut usize, bytes: usize) -> Result<(), ExpressionError> {
    match left.checked_sub(bytes) {
        Some(rest) => {
            *left = rest;
            Ok(())
        }
        None => {
            Err(ExpressionError::new("OUTPUT_TOO_LARGE", "the rendered inputs are larger than `payload_bytes_max`"))
        }
    }
}

fn failed(message: impl Into<String>) -> ExpressionError {
    ExpressionError::new("EXPRESSION_FAILED", message)
}

/// Takes what is written until there is too much.
pub(crate) struct Capped {
    pub(crate) text: Vec<u8>,
    pub(crate) left: usize,
}

impl std::io::Write for &mut Capped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::FileTooLarge)?;
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

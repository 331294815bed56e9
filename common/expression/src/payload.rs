//! Stored payloads: what an expression reads of them must be loaded first.

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::Serde;
use serde_json::Value as JsonValue;

use crate::ExpressionError;

/// A stored payload that expressions read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededPayload {
    /// The path to it, such as `steps.a.outputs.text`.
    pub path: String,
    /// Its key in the store.
    pub key: String,
    pub bytes: usize,
}

/// A loaded payload. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload(Arc<LoadedJson>);

#[derive(Debug, PartialEq)]
struct LoadedJson {
    json: JsonValue,
    value: Value,
    bytes: usize,
}

impl Payload {
    /// Reads the JSON text of a payload.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let json: JsonValue = serde_json::from_str(text)?;
        let value = Value::from(Serde(&json));
        Ok(Self(Arc::new(LoadedJson { json, value, bytes: text.len() })))
    }

    /// The payload as JSON.
    pub fn json(&self) -> &JsonValue {
        &self.0.json
    }

    /// Bytes of its JSON text.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    pub(crate) fn value(&self) -> Value {
        self.0.value.clone()
    }
}

/// Loaded payloads by their keys.
pub type Payloads = BTreeMap<String, Payload>;

/// The payloads that the expressions of one step read.
#[derive(Default)]
pub(crate) struct PayloadUse {
    bytes: BTreeMap<String, usize>,
    missing: Vec<NeededPayload>,
}

impl PayloadUse {
    /// Adds payloads, and those of them that are not loaded.
    ///
    /// - `bytes_max`: of all of them together.
    pub(crate) fn add(&mut self, used: Vec<(NeededPayload, bool)>, bytes_max: usize) -> Result<(), ExpressionError> {
        for (payload, is_loaded) in used {
            self.bytes.insert(payload.key.clone(), payload.bytes);
            let sum = self.bytes();
            if sum > bytes_max {
                return Err(too_large(&payload, sum, bytes_max));
            }
            if !is_loaded && !self.missing.iter().any(|known| known.key == payload.key) {
                self.missing.push(payload);
            }
        }
        Ok(())
    }

    /// The error that asks for what is not loaded.
    pub(crate) fn end(&mut self) -> Result<(), ExpressionError> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let payloads = std::mem::take(&mut self.missing);
        let message = format!("`{}` is stored and not loaded", payloads[0].path);
        Err(ExpressionError { payloads, ..ExpressionError::new(PAYLOAD_NEEDED, message) })
    }

    /// Whether something is not loaded.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// The code of an error that lists payloads to load; after that the expression has a value.
pub const PAYLOAD_NEEDED: &str = "PAYLOAD_NEEDED";
/// The code of an error about payloads that are too large to load.
pub const PAYLOAD_TOO_LARGE: &str = "PAYLOAD_TOO_LARGE";

/// Bytes as JSON of payloads that a field has, and what to do.
fn too_large(payload: &NeededPayload, sum: usize, bytes_max: usize) -> ExpressionError {
    let NeededPayload { path, bytes, .. } = payload;
    let others =
        if sum > *bytes { format!(", {sum} bytes with the other stored fields that are read") } else { String::new() };
    ExpressionError::new(
        PAYLOAD_TOO_LARGE,
        format!(
            "`{path}` has {bytes} bytes{others}; expressions of one step read at most `limits.expression_bytes_max` \
             ({bytes_max}): read a smaller field, pass the value on as `{{{{ {path} }}}}` alone, or raise the limit"
        ),
    )
}

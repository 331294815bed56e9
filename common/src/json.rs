//! Opaque JSON: payloads are carried as the text that they arrived as.

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Opaque JSON text. Cheap to clone; parsed only where its content is needed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Arc<RawValue>);

impl Json {
    /// Checks that `text` is JSON, and stores it unchanged.
    pub fn from_text(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(|raw| Self(raw.into()))
    }

    /// Writes `value` as JSON text.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Self {
        Self(serde_json::value::to_raw_value(value).expect("plain data always has a JSON text").into())
    }

    /// `null`.
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned().into())
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        static EMPTY: LazyLock<Json> = LazyLock::new(|| Json::from_text("{}".into()).expect("an empty object is JSON"));
        EMPTY.clone()
    }

    /// The JSON text, as it came in.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Parses the text. What agents gave is checked when it comes in ([`crate::json_limits`]); other text that no reader
    /// takes is shown as the text that it is, never as `null`.
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_str(self.text()).unwrap_or_else(|_| serde_json::Value::String(self.text().to_owned()))
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        self.text() == "null"
    }

    /// Whether it is `{}`, written without spaces.
    pub fn is_empty_object(&self) -> bool {
        self.text() == "{}"
    }
}

/// Reads a field that may be missing: `null` that is given is a value like any other.
pub fn read_given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// Bytes of the JSON text of a value, which is not kept.
pub fn json_bytes<T: Serialize + ?Sized>(value: &T) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).expect("types of this workspace have a JSON text");
    count.0
}

impl Default for Json {
    fn default() -> Self {
        Self::empty_object()
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}
impl Eq for Json {}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self::from_value(&value)
    }
}

impl schemars::JsonSchema for Json {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AnyJson".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!(true)
    }
    fn inline_schema() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_cannot_be_read_is_not_taken_for_null() {
        let text = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let json = Json::from_text(text.clone()).expect("it is JSON");
        assert_eq!(json.value(), serde_json::Value::String(text));
    }
}

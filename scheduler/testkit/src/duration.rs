//! Durations in test files.

use std::borrow::Cow;

use goalmill_plan::document::duration::duration_ms;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Longest duration in a test file, in milliseconds: ten years.
const DURATION_MS_MAX: u64 = 3_660 * 86_400_000;

/// A duration in milliseconds, written as plans write them: `500ms`, `30s`, `2 days`; a number counts seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TestDuration(pub u64);

impl<'de> Deserialize<'de> for TestDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        duration_ms(&value).filter(|ms| *ms <= DURATION_MS_MAX).map(Self).ok_or_else(|| {
            D::Error::custom(format!("`{value}` is no duration up to ten years: write `500ms`, `30s` or `2d`"))
        })
    }
}

impl JsonSchema for TestDuration {
    fn schema_name() -> Cow<'static, str> {
        "TestDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "number"],
            "description": "A duration: `500ms`, `30s`, `2 days`; a number counts seconds.",
        })
    }
}

/// A duration for people: `3d 2h`, `1m 5s`, `250ms`; the two largest units.
pub fn duration_text(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
    let mut rest = ms;
    let mut parts = Vec::new();
    for (size, name) in units {
        if rest >= size {
            parts.push(format!("{}{name}", rest / size));
            rest %= size;
        }
    }
    parts.truncate(2);
    if parts.is_empty() { "0ms".into() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_spoken() {
        let read = |text: &str| serde_json::from_str::<TestDuration>(text).map(|duration| duration.0);
        assert_eq!(read("\"2 days\"").expect("it is one"), 172_800_000);
        assert_eq!(read("1.5").expect("it is one"), 1_500);
        assert!(read("\"11 parsecs\"").is_err() && read("-1").is_err() && read("\"4000d\"").is_err());
        assert_eq!(
            (duration_text(0), duration_text(250), duration_text(93_784_005)),
            ("0ms".into(), "250ms".into(), "1d 2h".into())
        );
    }
}

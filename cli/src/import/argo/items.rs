//! The items of a call that is repeated for each of a list.

use serde_json::Value;

use super::ArgoConverter;
use super::scope::ArgoScope;
use crate::import::conversion::Place;

impl ArgoConverter<'_> {
    /// The list that a call is made for each item of.
    pub(super) fn items(&mut self, call: &Place<'_>, scope: &ArgoScope) -> Option<Value> {
        if let Some(items) = call.get("withItems") {
            return Some(self.value(&items, scope));
        }
        if let Some(parameter) = call.get("withParam") {
            let text = self.scalar(&parameter, scope);
            let whole = text.trim().strip_prefix("{{").and_then(|text| text.strip_suffix("}}"));
            let whole = whole.filter(|inside| !inside.contains("}}"));
            if whole.is_none() {
                self.findings.no_equal(
                    &parameter,
                    "a list that is put together from texts",
                    "name one parameter or one output",
                );
            }
            return whole.map(|inside| {
                let value = inside.trim();
                format!("{{{{ ({value} | fromjson) if {value} is string else {value} }}}}").into()
            });
        }
        let sequence = call.get("withSequence")?;
        self.findings.check_fields(&sequence, &["count", "start", "end"], &[]);
        let number = |key: &str| {
            let value = sequence.value.get(key)?;
            value.as_u64().or_else(|| value.as_str()?.parse().ok())
        };
        let start = number("start").unwrap_or(0);
        let end = number("end").or_else(|| Some((start + number("count")?).saturating_sub(1)));
        match end.filter(|end| *end >= start && end - start < 10_000) {
            Some(end) => Some((start..=end).map(|n| Value::from(n.to_string())).collect()),
            None => {
                self.findings.no_equal(&sequence, "this sequence", "give numbers as `start`, `end` or `count`");
                None
            }
        }
    }
}

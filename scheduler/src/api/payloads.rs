//! Large payloads in answers: `?whole=true` puts them in the place of their references.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::blob_ref;
use goalmill_common::id::PlanId;
use goalmill_common::json::Json;
use serde_json::Value;

use super::Api;
use super::query_parameters::RawParameters;
use super::response::ApiError;
use crate::plan_reader::family_of;
use crate::run_blocking::run_blocking_if_large;

/// Bytes of the payloads of one answer; the first one that does not fit, and those after it, stay references. One payload
/// always fits.
const WHOLE_BYTES_MAX: usize = 16 << 20;
/// Payloads of one answer.
const WHOLE_PAYLOADS_MAX: usize = 1_000;

/// The name of the parameter.
pub(super) const WHOLE: &str = "whole";

/// Reads the parameter `whole`; without it, references stay what they are.
pub(super) fn parse_whole(given: &mut RawParameters) -> bool {
    given.flag(WHOLE)
}

/// What one answer may still read.
struct PayloadBudget {
    bytes: usize,
    payloads: usize,
}

impl PayloadBudget {
    /// Takes a payload, or leaves nothing for others if it does not fit.
    ///
    /// - `said`: the bytes that its reference says.
    fn begin_payload(&mut self, said: usize) -> bool {
        let fits = said <= self.bytes && self.payloads > 0;
        self.payloads = if fits { self.payloads - 1 } else { 0 };
        fits
    }

    /// Takes the bytes of a payload that was read: its reference may say fewer.
    fn end_payload(&mut self, bytes: usize) -> bool {
        let left = self.bytes.checked_sub(bytes);
        match left {
            Some(left) => self.bytes = left,
            None => self.payloads = 0,
        }
        left.is_some()
    }
}

/// Puts the payloads of one answer in their places.
pub(super) struct PayloadFill<'a> {
    api: &'a Api,
    plan: PlanId,
    /// The outermost plan around it, once a payload needs it.
    family: Option<PlanId>,
    left: PayloadBudget,
}

impl<'a> PayloadFill<'a> {
    pub(super) fn new(api: &'a Api, plan: PlanId) -> Self {
        let bytes = WHOLE_BYTES_MAX.max(api.scheduler.settings.limits.payload_bytes_max);
        Self { api, plan, family: None, left: PayloadBudget { bytes, payloads: WHOLE_PAYLOADS_MAX } }
    }

    /// Replaces the references in a value. Those whose payload has expired stay, and those from the first one on that does
    /// not fit.
    pub(super) async fn fill(&mut self, value: &mut Value) -> Result<(), ApiError> {
        let mut references = Vec::new();
        find_references(value, &mut references);
        let mut contents = BTreeMap::new();
        for (key, bytes) in references {
            if contents.contains_key(&key) {
                continue;
            }
            if !self.left.begin_payload(bytes) {
                break;
            }
            if let Some(content) = self.read_payload(&key).await? {
                contents.insert(key, content);
            }
        }
        blob_ref::replace(value, &mut |key| contents.get(key).cloned());
        Ok(())
    }

    /// As [`PayloadFill::fill`], for JSON that was not parsed.
    pub(super) async fn fill_json(&mut self, json: &mut Json) -> Result<(), ApiError> {
        if self.left.payloads > 0 && blob_ref::may_contain(json) {
            let mut value = json.value();
            self.fill(&mut value).await?;
            *json = Json::from_value(&value);
        }
        Ok(())
    }

    async fn read_payload(&mut self, key: &str) -> Result<Option<Value>, ApiError> {
        let Some(text) = self.payload_text(key).await? else { return Ok(None) };
        if !self.left.end_payload(text.len()) {
            return Ok(None);
        }
        Ok(run_blocking_if_large(text.len(), move || serde_json::from_str(&text).ok()).await)
    }

    /// Reads a payload. The store would find the family again for each one.
    async fn payload_text(&mut self, key: &str) -> Result<Option<String>, ApiError> {
        let (plans, broker) = (&self.api.scheduler.plans, self.api.scheduler.broker.as_ref());
        if !broker.keys().is_blob_of(&self.plan, key) {
            let family = match &mut self.family {
                Some(family) => family,
                unknown => unknown.insert(family_of(broker, &self.plan).await?),
            };
            if broker.keys().is_blob_of(family, key)
                && let Some(text) = plans.payload(family, key).await?
            {
                return Ok(Some(text));
            }
        }
        // The archive has the payloads of a family with each of its plans.
        Ok(plans.payload(&self.plan, key).await?)
    }
}

/// The references in a value, in order: their keys, and the bytes that they say.
fn find_references(value: &Value, found: &mut Vec<(String, usize)>) {
    if let Some(key) = blob_ref::key(value) {
        return found.push((key.to_owned(), blob_ref::bytes(value)));
    }
    match value {
        Value::Object(fields) => fields.values().for_each(|field| find_references(field, found)),
        Value::Array(items) => items.iter().for_each(|item| find_references(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Copies the large values that a plan takes from another one: it reads payloads of its own family only, and the other plan
/// may be in the archive.
///
/// Returns how many of them are no longer stored; their references stay as they are.
///
/// - `from`, `to`: the other plan, and the new one.
pub(super) async fn copy_kept<'a>(
    api: &Api,
    from: &PlanId,
    to: &PlanId,
    results: impl Iterator<Item = &'a mut Json>,
) -> Result<usize, ApiError> {
    let mut gone = 0;
    let (broker, kept_ms) = (&api.scheduler.broker, api.scheduler.settings.limits.plan_ms_max);
    let mut copied = BTreeMap::new();
    for result in results.filter(|result| blob_ref::may_contain(result)) {
        let mut value = result.value();
        let mut keys = BTreeSet::new();
        blob_ref::visit(&value, &mut |key| {
            keys.insert(key.to_owned());
        });
        for key in keys.into_iter().filter(|key| !copied.contains_key(key)).collect::<Vec<_>>() {
            let Some(content) = api.scheduler.plans.payload(from, &key).await? else {
                gone += 1;
                continue;
            };
            let Some(own) = broker.keys().plan_blob(to, &api.scheduler.random.token()) else { continue };
            broker.put_blob(&own, content.as_bytes(), kept_ms).await?;
            copied.insert(key, blob_ref::to_json(&own, content.len()).value());
        }
        blob_ref::replace(&mut value, &mut |key| copied.get(key).cloned());
        *result = Json::from_value(&value);
    }
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_is_read_after_a_payload_that_does_not_fit() {
        let mut left = PayloadBudget { bytes: 10, payloads: 5 };
        assert!(left.begin_payload(6) && left.end_payload(6));
        assert!(!left.begin_payload(5), "it is not read: its reference says that it does not fit");
        assert!(!left.begin_payload(1), "a smaller one follows one that did not fit");

        let mut left = PayloadBudget { bytes: 10, payloads: 5 };
        assert!(left.begin_payload(0) && !left.end_payload(11), "its reference said too few bytes");
        assert!(!left.begin_payload(1));

        let mut left = PayloadBudget { bytes: 10, payloads: 1 };
        assert!(left.begin_payload(1) && left.end_payload(1) && !left.begin_payload(1));
    }

    #[test]
    fn references_are_found_in_order_with_their_bytes() {
        let mut found = Vec::new();
        let value = json!({"a": [{"$blob": "z", "bytes": 3}, 7], "b": {"c": {"$blob": "a"}}});
        find_references(&value, &mut found);
        assert_eq!(found, [("z".to_owned(), 3), ("a".to_owned(), 0)]);
    }
}

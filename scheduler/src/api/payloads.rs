//! Large payloads in answers: `?whole=true` puts them in the place of their references.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::blob_ref;
use goalmill_common::id::PlanId;
use goalmill_common::json::Json;
use serde_json::Value;

use super::Api;
use super::query_parameters::RawParameters;
use super::response::ApiError;
use crate::run_blocking::run_blocking_if_large;

/// Bytes of the payloads of one answer; those that do not fit stay references. One payload always fits.
const WHOLE_BYTES_MAX: usize = 16 << 20;
/// Payloads of one answer.
const WHOLE_PAYLOADS_MAX: usize = 1_000;

/// The name of the parameter.
pub(super) const WHOLE: &str = "whole";

/// Reads the parameter `whole`; without it, references stay what they are.
pub(super) fn parse_whole(given: &mut RawParameters) -> bool {
    given.flag(WHOLE)
}

/// Puts the payloads of one answer in their places.
pub(super) struct PayloadFill<'a> {
    api: &'a Api,
    plan: PlanId,
    bytes_left: usize,
    payloads_left: usize,
}

impl<'a> PayloadFill<'a> {
    pub(super) fn new(api: &'a Api, plan: PlanId) -> Self {
        let bytes_left = WHOLE_BYTES_MAX.max(api.scheduler.settings.limits.payload_bytes_max);
        Self { api, plan, bytes_left, payloads_left: WHOLE_PAYLOADS_MAX }
    }

    /// Replaces the references in a value. Those whose payload has expired, or does not fit, stay.
    pub(super) async fn fill(&mut self, value: &mut Value) -> Result<(), ApiError> {
        let mut keys = BTreeSet::new();
        blob_ref::visit(value, &mut |key| {
            keys.insert(key.to_owned());
        });
        let mut contents = BTreeMap::new();
        for key in keys {
            if let Some(content) = self.read_payload(&key).await? {
                contents.insert(key, content);
            }
        }
        blob_ref::replace(value, &mut |key| contents.get(key).cloned());
        Ok(())
    }

    /// As [`PayloadFill::fill`], for JSON that was not parsed.
    pub(super) async fn fill_json(&mut self, json: &mut Json) -> Result<(), ApiError> {
        if blob_ref::may_contain(json) {
            let mut value = json.value();
            self.fill(&mut value).await?;
            *json = Json::from_value(&value);
        }
        Ok(())
    }

    async fn read_payload(&mut self, key: &str) -> Result<Option<Value>, ApiError> {
        if self.payloads_left == 0 {
            return Ok(None);
        }
        self.payloads_left -= 1;
        let Some(text) = self.api.scheduler.plans.payload(&self.plan, key).await? else { return Ok(None) };
        let Some(left) = self.bytes_left.checked_sub(text.len()) else { return Ok(None) };
        self.bytes_left = left;
        Ok(run_blocking_if_large(text.len(), move || serde_json::from_str(&text).ok()).await)
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

//! Loads stored payloads that expressions read, outside of the shard's loop.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use goalmill_broker::BrokerError;
use goalmill_common::blob_ref;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::PlanId;
use goalmill_common::text::shorten;
use goalmill_engine::{Command, LoadedPayload, NeededPayload, Payload, StepIndex};
use serde_json::Value;

use crate::plan_reader::is_payload_of;
use crate::run_blocking::run_blocking_if_large;
use crate::scheduler::Scheduler;

/// Payloads that a model is shown in one prompt, and the characters of each.
const SHOWN_MAX: usize = 32;
const SHOWN_CHARS_MAX: usize = 4_000;

/// Waits between attempts to read one while the store does not answer.
const WAIT_MIN: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Loads payloads that a step reads, or the criteria of the plan.
pub(crate) async fn load_payloads(
    scheduler: &Scheduler,
    plan: &PlanId,
    step: Option<StepIndex>,
    needed: Vec<NeededPayload>,
) -> Command {
    let mut payloads = Vec::with_capacity(needed.len());
    for payload in needed {
        payloads.push(load(scheduler, plan, payload).await);
    }
    Command::PayloadsLoaded { step, payloads }
}

/// Puts the beginning of stored payloads into outputs that a model reads, in the place of their references.
pub(crate) async fn show_payloads(scheduler: &Scheduler, plan: &PlanId, value: &mut Value) {
    let mut keys = BTreeSet::new();
    blob_ref::visit(value, &mut |key| {
        keys.insert(key.to_owned());
    });
    let mut shown = BTreeMap::new();
    for key in keys.into_iter().take(SHOWN_MAX) {
        let needed = NeededPayload { path: "a result".into(), key, bytes: 0 };
        let (key, loaded) = load(scheduler, plan, needed).await;
        shown
            .insert(key, loaded.map_or_else(|failure| format!("({})", failure.message), |payload| beginning(&payload)));
    }
    blob_ref::replace(value, &mut |key| {
        Some(shown.get(key).cloned().unwrap_or_else(|| "(a large value that is not shown)".into()).into())
    });
}

fn beginning(payload: &Payload) -> String {
    let json = payload.json();
    let whole = json.as_str().map_or_else(|| json.to_string(), str::to_owned);
    shorten(&whole, SHOWN_CHARS_MAX).into_owned()
}

/// Asks the store until it answers.
async fn load(scheduler: &Scheduler, plan: &PlanId, needed: NeededPayload) -> LoadedPayload {
    let NeededPayload { path, key, .. } = needed;
    let mut wait = WAIT_MIN;
    loop {
        match load_payload(scheduler, plan, &path, &key).await {
            Ok(loaded) => return (key, loaded),
            Err(error) => {
                tracing::warn!(plan_id = %plan, "a payload of plan {plan} cannot be read yet: {error}");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(WAIT_MAX);
            }
        }
    }
}

/// The outer error is the store's, the inner one says why there is no such payload.
async fn load_payload(
    scheduler: &Scheduler,
    plan: &PlanId,
    path: &str,
    key: &str,
) -> Result<Result<Payload, Failure>, BrokerError> {
    let failed = |code: &str, what: &str| {
        let message = format!("`{path}` {what}");
        Ok(Err(Failure::new(FailureClass::Permanent, code, message)))
    };
    if !is_payload_of(scheduler.broker.as_ref(), plan, key).await? {
        return failed("BLOB_INVALID", "refers to a key that is not that of a payload of this plan");
    }
    if let Some(payload) = scheduler.payloads.get(key) {
        return Ok(Ok(payload));
    }
    let Some(bytes) = scheduler.broker.get_blob(key).await? else {
        return failed("BLOB_MISSING", "has expired: its stored value is gone");
    };
    let most = scheduler.settings.limits.payload_bytes_max;
    if bytes.len() > most {
        let what = format!("has {} bytes, more than `limits.payload_bytes_max` ({most})", bytes.len());
        return failed("PAYLOAD_TOO_LARGE", &what);
    }
    let parsed = run_blocking_if_large(bytes.len(), move || {
        String::from_utf8(bytes).ok().and_then(|text| Payload::parse(&text).ok())
    });
    let Some(payload) = parsed.await else {
        return failed("BLOB_INVALID", "is stored as something that is not JSON");
    };
    scheduler.payloads.add(key, &payload);
    Ok(Ok(payload))
}

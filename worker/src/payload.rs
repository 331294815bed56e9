//! Payloads too large to carry: outputs go by reference, references in inputs are read before the execution.
//!
//! A reference is `{"$blob": "<key>", "bytes": <n>}`, anywhere in the JSON.

use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::keys;
use goalmill_common::task::Task;
use serde_json::{Value, json};

use crate::executor::Outcome;
use crate::worker::Worker;

/// How long a blob is kept: a day, in milliseconds.
const BLOB_TTL_MS: u64 = 24 * 3_600_000;

/// The task with its references replaced; `None` when it has none.
pub(crate) async fn resolve(worker: &Worker, task: &Task) -> Result<Option<Task>, Failure> {
    if !task.inputs.text().contains("\"$blob\"") {
        return Ok(None);
    }
    let mut inputs = task.inputs.value();
    let mut bytes = task.inputs.text().len();
    while let Some(place) = reference(&mut inputs) {
        let blob = read(worker, place).await?;
        bytes += blob.len();
        if bytes > worker.limits.payload_bytes_max {
            let message = format!("the inputs have more than {} bytes", worker.limits.payload_bytes_max);
            return Err(Failure::new(FailureClass::Permanent, "INPUT_TOO_LARGE", message));
        }
        *place = serde_json::from_slice(&blob).map_err(|e| {
            Failure::new(FailureClass::Permanent, "BLOB_INVALID", format!("a referenced input is not JSON: {e}"))
        })?;
    }
    Ok(Some(Task { inputs: inputs.into(), ..task.clone() }))
}

/// The first reference in a value.
fn reference(value: &mut Value) -> Option<&mut Value> {
    if value.get("$blob").is_some_and(Value::is_string) {
        return Some(value);
    }
    match value {
        Value::Object(map) => map.values_mut().find_map(reference),
        Value::Array(items) => items.iter_mut().find_map(reference),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

async fn read(worker: &Worker, place: &Value) -> Result<Vec<u8>, Failure> {
    let key = place["$blob"].as_str().unwrap_or_default();
    if !key.starts_with(keys::BLOBS) {
        let message = format!("`{key}` is not the key of a blob");
        return Err(Failure::new(FailureClass::Permanent, "BLOB_INVALID", message));
    }
    match worker.broker.get_blob(key).await {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => {
            let message = format!("the input `{key}` is not kept any more");
            Err(Failure::new(FailureClass::Permanent, "BLOB_MISSING", message))
        }
        Err(e) => Err(Failure::new(FailureClass::Transient, "BLOB_UNAVAILABLE", e.to_string())),
    }
}

/// Puts large outputs aside, and refuses those that are too large.
///
/// Tries for as long as the attempt may take: the work is done, only its result is still in the way.
pub(crate) async fn pack(worker: &Worker, task: &Task, mut outcome: Outcome) -> Result<Outcome, Failure> {
    let bytes = outcome.outputs.text().len();
    if bytes <= worker.limits.inline_bytes_max {
        return Ok(outcome);
    }
    if bytes > worker.limits.payload_bytes_max {
        let message = format!("the outputs have {bytes} bytes, at most {} are taken", worker.limits.payload_bytes_max);
        return Err(Failure::new(FailureClass::Permanent, "OUTPUT_TOO_LARGE", message));
    }
    let shard = task.plan.shard().expect("tasks without a shard are buried on arrival");
    let key = keys::blob(shard, task.token.as_str());
    let mut failures = 0;
    while let Err(e) = worker.broker.put_blob(&key, outcome.outputs.text().as_bytes(), BLOB_TTL_MS).await {
        failures += 1;
        worker.link.lost(&e.to_string());
        tokio::time::sleep(worker.backoff(failures)).await;
    }
    outcome.outputs = Json::of(&json!({"$blob": key, "bytes": bytes}));
    Ok(outcome)
}

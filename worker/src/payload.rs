//! Large payloads: outputs are stored as blobs, blob references in inputs are resolved before the execution.

use goalmill_common::blob_ref;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::limits::TaskLimits;
use goalmill_common::task::Task;
use goalmill_common::text::shorten;
use serde_json::Value;

use crate::executor::ExecutionResult;
use crate::worker::Worker;

/// Smaller fields are not stored as blobs: their references would be no shorter.
const FIELD_BYTES_MIN: usize = 512;
/// Characters of a key in a message.
const KEY_CHARS_MAX: usize = 200;

/// The task with its references replaced; `None` when it has none.
pub(crate) async fn resolve_references(worker: &Worker, task: &Task) -> Result<Option<Task>, Failure> {
    if !blob_ref::may_contain(&task.inputs) {
        return Ok(None);
    }
    let mut inputs = task.inputs.value();
    let mut bytes = task.inputs.text().len();
    while let Some(place) = find_reference(&mut inputs) {
        let blob = read_blob(worker, task, place).await?;
        bytes += blob.len();
        let most = worker.limits().payload_bytes_max;
        if bytes > most {
            let message = format!("the inputs have more than {most} bytes (`limits.payload_bytes_max`)");
            return Err(Failure::new(FailureClass::Permanent, "INPUT_TOO_LARGE", message));
        }
        *place = serde_json::from_slice(&blob).map_err(|e| {
            Failure::new(FailureClass::Permanent, "BLOB_INVALID", format!("a referenced input is not JSON: {e}"))
        })?;
    }
    Ok(Some(Task { inputs: inputs.into(), ..task.clone() }))
}

/// The first reference in a value.
fn find_reference(value: &mut Value) -> Option<&mut Value> {
    if blob_ref::key(value).is_some() {
        return Some(value);
    }
    match value {
        Value::Object(map) => map.values_mut().find_map(find_reference),
        Value::Array(items) => items.iter_mut().find_map(find_reference),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// The JSON that a reference stands for.
pub(crate) async fn read_json(worker: &Worker, task: &Task, reference: &Json) -> Result<Json, Failure> {
    let bytes = read_blob(worker, task, &reference.value()).await?;
    let text = String::from_utf8(bytes).ok().and_then(|text| Json::from_text(text).ok());
    text.ok_or_else(|| Failure::new(FailureClass::Permanent, "BLOB_INVALID", "a recorded outcome is not JSON"))
}

/// Reads a blob of the task's own family: the author of the inputs may name the keys of other plans.
async fn read_blob(worker: &Worker, task: &Task, place: &Value) -> Result<Vec<u8>, Failure> {
    let key = blob_ref::key(place).unwrap_or_default();
    if !worker.broker.keys().is_blob_of(task.family(), key) {
        let message = format!("`{}` is not the key of a blob of this plan", shorten(key, KEY_CHARS_MAX));
        return Err(Failure::new(FailureClass::Permanent, "BLOB_INVALID", message));
    }
    match worker.broker.get_blob(key).await {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => {
            let message = format!("the input `{}` has expired", shorten(key, KEY_CHARS_MAX));
            Err(Failure::new(FailureClass::Permanent, "BLOB_MISSING", message))
        }
        Err(e) => Err(Failure::new(FailureClass::Transient, "BLOB_UNAVAILABLE", e.to_string())),
    }
}

/// Stores large outputs as blobs, and refuses outputs over the limit.
///
/// Of an object, the largest fields are stored until the rest fits inline: conditions and other steps can read the rest.
/// Any other value is stored as a whole.
pub(crate) async fn offload_outputs(
    worker: &Worker,
    task: &Task,
    mut outcome: ExecutionResult,
) -> Result<ExecutionResult, Failure> {
    let bytes = outcome.outputs.text().len();
    let TaskLimits { inline_bytes_max, payload_bytes_max, .. } = worker.limits();
    if bytes <= inline_bytes_max {
        return Ok(outcome);
    }
    if bytes > payload_bytes_max {
        let most = format!("at most {payload_bytes_max} are taken (`limits.payload_bytes_max`)");
        let message = format!("the outputs have {bytes} bytes, {most}");
        return Err(Failure::new(FailureClass::Permanent, "OUTPUT_TOO_LARGE", message));
    }
    let mut outputs = outcome.outputs.value();
    if let Value::Object(fields) = &mut outputs {
        let mut sizes: Vec<(usize, String)> =
            fields.iter().map(|(name, value)| (Json::from_value(value).text().len(), name.clone())).collect();
        sizes.sort_by(|a, b| b.cmp(a));
        let mut left = bytes;
        let name_of_blob = worker.random.token();
        let large = sizes.into_iter().take_while(|(size, _)| *size >= FIELD_BYTES_MIN);
        for (n, (size, name)) in large.enumerate() {
            if left <= inline_bytes_max {
                break;
            }
            let field = fields.get_mut(&name).expect("it was just listed");
            let reference = store_blob(worker, task, &format!("{name_of_blob}-{n}"), &Json::from_value(field)).await;
            left = left - size + reference.text().len();
            *field = reference.value();
        }
        outcome.outputs = Json::from_value(&outputs);
    }
    if outcome.outputs.text().len() > inline_bytes_max {
        outcome.outputs = store_blob(worker, task, &worker.random.token(), &outcome.outputs).await;
    }
    Ok(outcome)
}

/// Stores a value for the longest lifetime of a plan; returns its reference.
///
/// Retries until the attempt's time limit: the work is done and only its result is missing.
///
/// - `name`: of the blob, unguessable, and no token of an attempt: it is read in the log.
pub(crate) async fn store_blob(worker: &Worker, task: &Task, name: &str, value: &Json) -> Json {
    let key = worker.broker.keys().plan_blob(task.family(), name).expect("tasks without a shard are dead letters");
    let (text, kept_ms) = (value.text(), worker.blob_ms);
    let mut failures = 0;
    while let Err(e) = worker.broker.put_blob(&key, text.as_bytes(), kept_ms).await {
        failures += 1;
        worker.connection.set_lost(&e);
        tokio::time::sleep(worker.backoff(failures)).await;
    }
    blob_ref::to_json(&key, text.len())
}

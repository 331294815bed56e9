//! The fields of an agent's answer, and the failures of those that are not valid.

use std::collections::BTreeMap;

use goalmill_common::error_body::clean_text;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use serde::de::DeserializeOwned;

/// Characters of an agent's message that are kept.
const MESSAGE_CHARS_MAX: usize = 500;
/// How to configure agents without envelopes.
pub(super) const RAW: &str = "if this is no envelope, set `answer` to `raw` in the agent's settings";

/// The fields of an object, unread.
pub(super) type Fields = BTreeMap<String, Json>;

pub(super) fn field<T: DeserializeOwned>(fields: &mut Fields, name: &str, wanted: &str) -> Result<Option<T>, Failure> {
    let Some(json) = fields.remove(name) else { return Ok(None) };
    let wrong = |_| invalid(&format!("is not valid at `/{name}`: it must be {wanted}; {RAW}"));
    serde_json::from_str(json.text()).map_err(wrong)
}

pub(super) fn invalid(what: &str) -> Failure {
    Failure::new(FailureClass::Permanent, "ANSWER_INVALID", format!("the agent's answer {what}"))
}

/// A foreign text in one short line, without what looks like a credential.
pub fn clip(text: &str) -> String {
    let flat = clean_text(text, []);
    match flat.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &flat[..end]),
        None => flat,
    }
}

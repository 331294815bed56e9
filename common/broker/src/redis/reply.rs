//! Parses replies without copying payloads.

use goalmill_common::id::EntryId;
use goalmill_common::wire::Fields;
use redis::Value;

use super::Result;
use crate::{BrokerError, Entry, LogEntry};

/// The items of a list; none for nil.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum of the library is not exhaustive")]
pub(super) fn list(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(items) => Ok(items),
        Value::Nil => Ok(Vec::new()),
        other => Err(unexpected("a list", &other)),
    }
}

/// A list of exactly two.
pub(super) fn pair(value: Value) -> Result<(Value, Value)> {
    let mut items = list(value)?.into_iter();
    match (items.next(), items.next(), items.next()) {
        (Some(first), Some(second), None) => Ok((first, second)),
        _ => Err(BrokerError::Corrupt("a reply is not a pair".into())),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum of the library is not exhaustive")]
pub(super) fn bytes(value: Value) -> Result<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.into_bytes()),
        Value::Int(number) => Ok(number.to_string().into_bytes()),
        Value::Nil => Ok(Vec::new()),
        other => Err(unexpected("bytes", &other)),
    }
}

/// Text; bytes that are not UTF-8 are replaced.
pub(super) fn text(value: Value) -> Result<String> {
    Ok(lossy(bytes(value)?))
}

pub(super) fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

/// Entries as `XRANGE` gives them. One that is gone has no fields.
pub(super) fn entries(value: Value) -> Result<Vec<Entry>> {
    list(value)?.into_iter().map(entry).collect()
}

fn entry(value: Value) -> Result<Entry> {
    let (id, values) = pair(value)?;
    let mut values = list(values)?.into_iter();
    let mut fields = Fields::with_capacity(values.len() / 2);
    while let (Some(name), Some(value)) = (values.next(), values.next()) {
        fields.push((text(name)?, bytes(value)?));
    }
    Ok(Entry { id: EntryId::from(text(id)?), fields })
}

/// Keys and their entries as `XREAD` gives them.
pub(super) fn streams(value: Value) -> Result<Vec<(String, Vec<Entry>)>> {
    list(value)?
        .into_iter()
        .map(|stream| {
            let (key, found) = pair(stream)?;
            Ok((text(key)?, entries(found)?))
        })
        .collect()
}

/// The entries of a reply about one stream.
pub(super) fn only_stream(value: Value) -> Result<Vec<Entry>> {
    Ok(streams(value)?.into_iter().next().map(|(_, entries)| entries).unwrap_or_default())
}

/// The bytes of a field, taken out; empty when there is none.
pub(super) fn take_field(fields: &mut Fields, name: &str) -> Vec<u8> {
    fields.iter_mut().find(|(field, _)| field == name).map(|(_, bytes)| std::mem::take(bytes)).unwrap_or_default()
}

/// An entry of a plan's log.
pub(super) fn log_entry(mut entry: Entry) -> LogEntry {
    LogEntry {
        last_seq: entry.id.parts().0,
        time: lossy(take_field(&mut entry.fields, "time")),
        events: lossy(take_field(&mut entry.fields, "events")),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum of the library is not exhaustive")]
fn unexpected(wanted: &str, got: &Value) -> BrokerError {
    let kind = match got {
        Value::Nil => "nil",
        Value::Int(_) => "a number",
        Value::BulkString(_) | Value::SimpleString(_) | Value::Okay => "text",
        Value::Array(_) => "a list",
        _ => "something else",
    };
    BrokerError::Corrupt(format!("a reply is {kind} instead of {wanted}"))
}

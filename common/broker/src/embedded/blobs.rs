//! Blobs, and what is stored as blobs: fields.

use std::collections::BTreeMap;

use goalmill_common::command::fingerprint;

use crate::FieldsPage;

use super::deadlines::Expiring;
use super::memory_store::MemoryStore;

impl MemoryStore {
    pub(super) fn put_blob(&mut self, key: &str, bytes: &[u8], ttl_ms: u64, now: u64) {
        self.blobs.insert(key.into(), bytes.into());
        self.deadlines.set(Expiring::Blob(key.into()), now.saturating_add(ttl_ms));
    }

    pub(super) fn blob(&self, key: &str) -> Option<Vec<u8>> {
        self.blobs.get(key).cloned()
    }

    pub(super) fn remove_blob(&mut self, key: &str) {
        self.blobs.remove(key);
        self.deadlines.clear(&Expiring::Blob(key.into()));
    }

    pub(super) fn put_field(&mut self, key: &str, field: &str, value: &str) {
        self.blobs.insert(field_key(key, field), value.into());
    }

    pub(super) fn add_field(&mut self, key: &str, field: &str, value: &str) -> bool {
        let is_new = self.field(key, field).is_none();
        if is_new {
            self.put_field(key, field, value);
        }
        is_new
    }

    pub(super) fn field(&self, key: &str, field: &str) -> Option<String> {
        self.blobs.get(&field_key(key, field)).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    pub(super) fn fields(&self, key: &str) -> BTreeMap<String, String> {
        let start = field_key(key, "");
        let fields = self.blobs.range(start.clone()..).map_while(|(name, value)| {
            let field = name.strip_prefix(&start)?;
            Some((field.to_owned(), String::from_utf8_lossy(value).into_owned()))
        });
        fields.collect()
    }

    /// Pages are in the order of the fields' fingerprints: where the next one begins names none of them.
    pub(super) fn fields_page(&self, key: &str, after: &str, limit: usize) -> FieldsPage {
        let fields = self.fields(key).into_iter();
        let mut fields: Vec<(String, (String, String))> = fields
            .map(|pair| (fingerprint(key, pair.0.as_bytes()), pair))
            .filter(|(place, _)| place.as_str() > after)
            .collect();
        fields.sort();
        let is_last = fields.len() <= limit;
        fields.truncate(limit.max(1));
        let next = fields.last().filter(|_| !is_last).map(|(place, _)| place.clone());
        FieldsPage { fields: fields.into_iter().map(|(_, pair)| pair).collect(), next }
    }

    pub(super) fn remove_field(&mut self, key: &str, field: &str) -> bool {
        self.blobs.remove(&field_key(key, field)).is_some()
    }
}

/// Fields are stored among the blobs, without a deadline, so that the form of a snapshot stays the same. No key has the
/// separator.
fn field_key(key: &str, field: &str) -> String {
    [key, "\0", field].concat()
}

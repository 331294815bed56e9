//! Blobs, and what is stored as blobs: fields, and events that are kept.

use std::collections::BTreeMap;

use goalmill_common::id::Namespace;

use crate::KeptEvent;

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

    pub(super) fn keep_event(&mut self, event: &KeptEvent, now: u64) -> bool {
        let KeptEvent { namespace, topic, id, text, retention_ms, most } = event;
        let key = [&kept_key(namespace, topic), id.as_str()].concat();
        if self.blobs.contains_key(&key) {
            return true;
        }
        if self.kept_of(namespace).take(*most).count() == *most {
            return false;
        }
        // They are sorted by the time at which they came.
        self.put_blob(&key, format!("{now:020}{text}").as_bytes(), *retention_ms, now);
        true
    }

    /// The kept events of all topics of a namespace, by their keys.
    pub(super) fn kept_of(&self, namespace: &Namespace) -> impl Iterator<Item = &String> {
        let all = namespace_key(namespace);
        self.blobs.range(all.clone()..).map(|(key, _)| key).take_while(move |key| key.starts_with(&all))
    }

    pub(super) fn kept_events(&self, namespace: &Namespace, topic: &str) -> Vec<String> {
        let start = kept_key(namespace, topic);
        let blobs = self.blobs.range(start.clone()..).take_while(|(key, _)| key.starts_with(&start));
        let mut events: Vec<String> = blobs.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect();
        events.sort();
        events.into_iter().map(|event| event.chars().skip(20).collect()).collect()
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

    pub(super) fn remove_field(&mut self, key: &str, field: &str) -> bool {
        self.blobs.remove(&field_key(key, field)).is_some()
    }
}

/// What the keys of the kept events of a topic begin with: they are blobs, so that the form of a snapshot stays the same.
fn kept_key(namespace: &Namespace, topic: &str) -> String {
    [&namespace_key(namespace), topic, "\0"].concat()
}

/// What the keys of the kept events of a namespace begin with. The separator keeps `red` apart from `reds`.
fn namespace_key(namespace: &Namespace) -> String {
    ["events\0", namespace.as_str(), "\0"].concat()
}

/// Fields are stored among the blobs, without a deadline, so that the form of a snapshot stays the same. No key has the
/// separator.
fn field_key(key: &str, field: &str) -> String {
    [key, "\0", field].concat()
}

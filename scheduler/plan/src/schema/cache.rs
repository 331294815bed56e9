//! Compiled schemas, kept for the next value: one cache of the process, bounded in bytes.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use goalmill_common::hash::HashMap;
use goalmill_common::json::Json;

use super::{Schema, Unusable};

/// Estimated bytes of all schemas that are kept. A schema that is in use stays in memory besides.
const CACHE_BYTES_MAX: usize = 64 << 20;
/// Bytes of the entry of a schema, besides its text.
const ENTRY_BYTES: usize = 512;

static CACHE: LazyLock<Mutex<SchemaCache>> = LazyLock::new(Mutex::default);

type Compiled = Result<Arc<Schema>, Unusable>;

impl Schema {
    /// As [`Schema::of_outputs`], and kept for the next time.
    pub fn cached_outputs(schema: &Json) -> Result<Arc<Self>, Unusable> {
        cached(schema, false)
    }

    /// As [`Schema::of_inputs`], and kept for the next time.
    pub fn cached_inputs(schema: &Json) -> Result<Arc<Self>, Unusable> {
        cached(schema, true)
    }
}

fn cached(schema: &Json, checks_formats: bool) -> Compiled {
    if let Some(known) = lock().get(schema.text(), checks_formats) {
        return known;
    }
    let compiled = Schema::compile(&schema.value(), checks_formats).map(Arc::new);
    lock().put(schema.text(), checks_formats, &compiled, CACHE_BYTES_MAX);
    compiled
}

fn lock() -> MutexGuard<'static, SchemaCache> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Cached {
    compiled: Compiled,
    bytes: usize,
    used: u64,
}

/// The entries that were used last.
#[derive(Default)]
struct SchemaCache {
    /// By text: without and with `format`s.
    entries: [HashMap<Box<str>, Cached>; 2],
    bytes: usize,
    /// Counts the uses.
    clock: u64,
}

impl SchemaCache {
    fn get(&mut self, text: &str, checks_formats: bool) -> Option<Compiled> {
        self.clock += 1;
        let found = self.entries[usize::from(checks_formats)].get_mut(text)?;
        found.used = self.clock;
        Some(found.compiled.clone())
    }

    fn put(&mut self, text: &str, checks_formats: bool, compiled: &Compiled, most: usize) {
        let bytes = ENTRY_BYTES + text.len() + compiled.as_ref().map_or(0, |schema| schema.bytes);
        if bytes > most / 2 {
            return;
        }
        if self.bytes + bytes > most {
            self.evict(most / 2);
        }
        let entry = Cached { compiled: compiled.clone(), bytes, used: self.clock };
        let before = self.entries[usize::from(checks_formats)].insert(text.into(), entry);
        self.bytes = self.bytes + bytes - before.map_or(0, |before| before.bytes);
    }

    /// Drops what was used longest ago until `most` bytes are left.
    fn evict(&mut self, most: usize) {
        let mut uses: Vec<(u64, usize)> =
            self.entries.iter().flat_map(HashMap::values).map(|entry| (entry.used, entry.bytes)).collect();
        uses.sort_unstable_by(|a, b| b.cmp(a));
        let mut kept = 0;
        let oldest = uses.iter().take_while(|(_, bytes)| {
            kept += bytes;
            kept <= most
        });
        let oldest = oldest.last().map_or(u64::MAX, |(used, _)| *used);
        for entries in &mut self.entries {
            entries.retain(|_, entry| entry.used >= oldest);
        }
        self.bytes = self.entries.iter().flat_map(HashMap::values).map(|entry| entry.bytes).sum();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_cache_keeps_what_was_used_last_within_its_bytes() {
        let mut cache = SchemaCache::default();
        let text = |n: usize| Json::from_value(&json!({"const": n}));
        let most = 40_000;
        for n in 0..100 {
            let compiled = Schema::of_outputs(&text(n).value()).map(Arc::new);
            assert!(cache.get(text(n).text(), false).is_none());
            cache.put(text(n).text(), false, &compiled, most);
            assert!(cache.bytes <= most);
            assert!(cache.get(text(0).text(), false).is_some(), "it is used all the time");
            assert!(cache.get(text(n).text(), false).is_some(), "it has just been put in");
        }
        assert!(cache.get(text(1).text(), false).is_none() && cache.get(text(0).text(), true).is_none());
    }

    #[test]
    fn a_schema_larger_than_the_cache_is_not_kept() {
        let mut cache = SchemaCache::default();
        let compiled = Schema::of_outputs(&json!({})).map(Arc::new);
        cache.put("{}", false, &compiled, 100);
        assert_eq!((cache.bytes, cache.get("{}", false).is_none()), (0, true));
    }
}

//! A bounded cache whose entries expire.

use std::collections::{HashMap, VecDeque};

/// Evicts expired entries, and the oldest entry when it is full.
#[derive(Debug)]
pub(super) struct TtlCache<V> {
    ttl_ms: u64,
    entries_max: usize,
    entries: HashMap<String, (u64, V)>,
    /// Insertion time and key, oldest first.
    order: VecDeque<(u64, String)>,
}

impl<V: Clone> TtlCache<V> {
    pub(super) fn new(ttl_ms: u64, entries_max: usize) -> Self {
        Self { ttl_ms, entries_max, entries: HashMap::new(), order: VecDeque::new() }
    }

    pub(super) fn get(&self, key: &str, now_ms: u64) -> Option<V> {
        let (since, value) = self.entries.get(key)?;
        (now_ms.saturating_sub(*since) < self.ttl_ms).then(|| value.clone())
    }

    pub(super) fn put(&mut self, key: String, value: V, now_ms: u64) {
        if self.entries_max == 0 {
            return;
        }
        self.entries.insert(key.clone(), (now_ms, value));
        self.order.push_back((now_ms, key));
        while let Some((since, key)) = self.order.front() {
            let is_old = now_ms.saturating_sub(*since) >= self.ttl_ms;
            if !is_old && self.order.len() <= self.entries_max {
                break;
            }
            // A key that was inserted again has a later entry.
            if self.entries.get(key).is_some_and(|(current, _)| current == since) {
                self.entries.remove(key);
            }
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_expire_and_the_oldest_is_evicted() {
        let mut cache = TtlCache::new(100, 2);
        cache.put("a".into(), 1, 0);
        assert_eq!(cache.get("a", 99), Some(1));
        assert_eq!(cache.get("a", 100), None);
        cache.put("b".into(), 2, 10);
        cache.put("c".into(), 3, 20);
        assert_eq!((cache.get("a", 20), cache.get("b", 20), cache.get("c", 20)), (None, Some(2), Some(3)));
        cache.put("b".into(), 4, 30);
        cache.put("b".into(), 5, 200);
        assert_eq!((cache.get("b", 200), cache.get("c", 200)), (Some(5), None));
    }
}

//! Events that are kept. They are blobs, so that the form of a snapshot stays the same.
//!
//! A value is the time at which the event came, with 20 digits, and the event. The first digit says whether a plan has
//! taken it.

use std::cmp::Reverse;

use goalmill_common::id::Namespace;

use super::deadlines::Expiring;
use super::memory_store::MemoryStore;
use crate::{Keeping, KeptEvent, KeptHead};

/// Digits before an event.
const TIME_DIGITS: usize = 20;
/// The first digit of an event that was taken: milliseconds do not reach it.
const TAKEN: u8 = b'1';

impl MemoryStore {
    pub(super) fn keep_event(&mut self, event: &KeptEvent, now: u64) -> Keeping {
        let KeptEvent { namespace, topic, id, text, retention_ms, most } = event;
        let key = event_key(namespace, topic, id);
        if self.blobs.contains_key(&key) {
            return Keeping::Known;
        }
        if self.count_kept(namespace) >= *most {
            return Keeping::Full;
        }
        // Events of one millisecond stay in the order in which they came.
        let last = self.places(&topic_key(namespace, topic)).map(|(_, value)| time_of(value)).max();
        let time = last.map_or(now, |last| now.max(last + 1));
        self.put_blob(&key, format!("{time:020}{text}").as_bytes(), *retention_ms, now);
        Keeping::New
    }

    /// How many events a namespace keeps that no plan has taken.
    pub(super) fn count_kept(&self, namespace: &Namespace) -> usize {
        self.places(&namespace_key(namespace)).filter(|(_, value)| value.first() != Some(&TAKEN)).count()
    }

    pub(super) fn kept_events(&self, namespace: &Namespace, topic: &str, after: &str, limit: usize) -> Vec<KeptHead> {
        let start = topic_key(namespace, topic);
        let heads = self.places(&start).filter_map(|(key, value)| head_of(&start, key, value));
        let mut heads: Vec<KeptHead> = heads.filter(|head| head.place.as_str() > after).collect();
        heads.sort_by(|a, b| a.place.cmp(&b.place));
        heads.truncate(limit);
        heads
    }

    pub(super) fn earlier_events(&self, event: &KeptEvent, within_ms: u64, limit: usize) -> Vec<KeptHead> {
        let start = topic_key(&event.namespace, &event.topic);
        let own = self.blobs.get(&event_key(&event.namespace, &event.topic, &event.id));
        let own = own.map_or(0, |value| time_of(value));
        let is_earlier = |value: &Vec<u8>| {
            let time = time_of(value);
            value.first() != Some(&TAKEN) && time < own && time >= own.saturating_sub(within_ms)
        };
        let earlier = self.places(&start).filter(|(_, value)| is_earlier(value));
        let mut earlier: Vec<KeptHead> = earlier.filter_map(|(key, value)| head_of(&start, key, value)).collect();
        earlier.sort_by(|a, b| a.place.cmp(&b.place));
        earlier.split_off(earlier.len().saturating_sub(limit))
    }

    pub(super) fn kept_event(&self, namespace: &Namespace, topic: &str, id: &str) -> Option<String> {
        let value = self.blobs.get(&event_key(namespace, topic, id))?;
        Some(String::from_utf8_lossy(value.get(TIME_DIGITS..)?).into_owned())
    }

    /// The blob of an event that is noted as taken: its key, its value and how long it stays.
    pub(super) fn taken_blob(&self, event: &KeptEvent, now: u64) -> Option<(String, Vec<u8>, u64)> {
        let key = event_key(&event.namespace, &event.topic, &event.id);
        let mut value = self.blobs.get(&key).filter(|value| value.first() != Some(&TAKEN))?.clone();
        *value.first_mut()? = TAKEN;
        let ttl_ms = self.deadlines.at_ms(&Expiring::Blob(key.clone()))?.saturating_sub(now);
        Some((key, value, ttl_ms))
    }

    /// The keys of taken events that a namespace has above `most`, the oldest.
    pub(super) fn taken_above(&self, namespace: &Namespace, most: usize) -> Vec<String> {
        let taken = self.places(&namespace_key(namespace)).filter(|(_, value)| value.first() == Some(&TAKEN));
        let mut taken: Vec<(u64, &String)> = taken.map(|(key, value)| (time_of(value), key)).collect();
        taken.sort_by_key(|(time, _)| Reverse(*time));
        taken.into_iter().skip(most).map(|(_, key)| key.clone()).collect()
    }

    fn places<'a>(&'a self, start: &str) -> impl Iterator<Item = (&'a String, &'a Vec<u8>)> + use<'a> {
        let start = start.to_owned();
        self.blobs.range(start.clone()..).take_while(move |(key, _)| key.starts_with(&start))
    }
}

fn head_of(start: &str, key: &str, value: &[u8]) -> Option<KeptHead> {
    Some(KeptHead { place: format!("{:020}", time_of(value)), id: key.strip_prefix(start)?.to_owned() })
}

/// When an event came, Unix milliseconds.
fn time_of(value: &[u8]) -> u64 {
    let digits = value.get(1..TIME_DIGITS).unwrap_or_default();
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

pub(super) fn event_key(namespace: &Namespace, topic: &str, id: &str) -> String {
    [&topic_key(namespace, topic), id].concat()
}

fn topic_key(namespace: &Namespace, topic: &str) -> String {
    [&namespace_key(namespace), topic, "\0"].concat()
}

/// What the keys of the kept events of a namespace begin with. The separator keeps `red` apart from `reds`.
fn namespace_key(namespace: &Namespace) -> String {
    ["events\0", namespace.as_str(), "\0"].concat()
}

//! A stream and a consumer group, with the ids and the pending lists of Redis.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use goalmill_common::id::{EntryId, WorkerId};
use serde::{Deserialize, Serialize};

/// An entry's id: milliseconds and a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Id(pub u64, pub u64);

impl Id {
    pub(super) fn parse(id: &EntryId) -> Self {
        let (ms, n) = id.parts();
        Self(ms, n)
    }

    pub(super) fn write(self) -> EntryId {
        format!("{}-{}", self.0, self.1).into()
    }
}

/// Entries in the order of their ids.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stream<T> {
    entries: VecDeque<(Id, T)>,
    last: Id,
}

impl<T> Default for Stream<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), last: Id::default() }
    }
}

impl<T> Stream<T> {
    /// Appends under an id that is larger than all before, also when the clock stands still or goes back.
    pub(super) fn append(&mut self, now: u64, entry: T) -> Id {
        self.last = if now > self.last.0 { Id(now, 0) } else { Id(self.last.0, self.last.1 + 1) };
        self.entries.push_back((self.last, entry));
        self.last
    }

    pub(super) fn after(&self, id: Id) -> impl Iterator<Item = &(Id, T)> {
        self.entries.range(self.place_after(id)..)
    }

    pub(super) fn count_after(&self, id: Id) -> usize {
        self.entries.len() - self.place_after(id)
    }

    /// When the last entry was appended, Unix milliseconds; 0 when there never was one.
    pub(super) fn last_ms(&self) -> u64 {
        self.last.0
    }

    pub(super) fn newest(&self) -> impl Iterator<Item = &(Id, T)> {
        self.entries.iter().rev()
    }

    pub(super) fn get(&self, id: Id) -> Option<&T> {
        let place = self.entries.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.entries.get(place).map(|(_, entry)| entry)
    }

    /// Drops one entry; `false` when it is not there.
    pub(super) fn remove(&mut self, id: Id) -> bool {
        match self.entries.binary_search_by_key(&id, |(id, _)| *id) {
            Ok(place) => self.entries.remove(place).is_some(),
            Err(_) => false,
        }
    }

    /// Drops entries up to `id` and `id` itself.
    pub(super) fn drop_through(&mut self, id: Id) {
        self.entries.drain(..self.place_after(id));
    }

    pub(super) fn keep_newest(&mut self, count: usize) {
        self.entries.drain(..self.entries.len().saturating_sub(count));
    }

    /// Drops entries below `id`.
    pub(super) fn drop_below(&mut self, id: Id) {
        self.entries.drain(..self.entries.partition_point(|(at, _)| *at < id));
    }

    fn place_after(&self, id: Id) -> usize {
        self.entries.partition_point(|(at, _)| *at <= id)
    }
}

/// One delivered and not acknowledged entry.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Pending {
    consumer: WorkerId,
    touched_ms: u64,
}

/// Who has which entry of a stream, and since when.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ConsumerGroup {
    delivered: Id,
    pending: BTreeMap<Id, Pending>,
    /// The same by age, so that looking for lost entries does not read the fresh ones.
    by_age: BTreeSet<(u64, Id)>,
}

impl ConsumerGroup {
    pub(super) fn delivered(&self) -> Id {
        self.delivered
    }

    pub(super) fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// Hands an entry that follows all delivered ones to `consumer`.
    pub(super) fn deliver(&mut self, id: Id, consumer: &WorkerId, now: u64) {
        self.delivered = id;
        self.touch(id, consumer.clone(), now);
    }

    /// Takes up to `limit` entries that no consumer touched for `idle_ms`, in the order of their ids.
    pub(super) fn reclaim(&mut self, consumer: &WorkerId, idle_ms: u64, limit: usize, now: u64) -> Vec<Id> {
        let Some(before) = now.checked_sub(idle_ms) else { return Vec::new() };
        let mut ids: Vec<Id> =
            self.by_age.iter().take_while(|(touched, _)| *touched <= before).take(limit).map(|(_, id)| *id).collect();
        ids.sort_unstable();
        for id in &ids {
            self.touch(*id, consumer.clone(), now);
        }
        ids
    }

    /// Renews the lease if it still is the consumer's.
    pub(super) fn extend(&mut self, id: Id, consumer: &WorkerId, now: u64) -> bool {
        let theirs = self.pending.get(&id).is_some_and(|p| p.consumer == *consumer);
        if theirs {
            self.touch(id, consumer.clone(), now);
        }
        theirs
    }

    pub(super) fn acknowledge(&mut self, id: Id) {
        if let Some(pending) = self.pending.remove(&id) {
            self.by_age.remove(&(pending.touched_ms, id));
        }
    }

    /// Entries that `consumer` has, after `id`.
    pub(super) fn history(&self, consumer: &WorkerId, after: Id, count: usize) -> Vec<Id> {
        let later = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        let theirs = self.pending.range(later).filter(|(_, p)| p.consumer == *consumer);
        theirs.map(|(id, _)| *id).take(count).collect()
    }

    /// Drops from `stream` what was delivered and acknowledged by all, from its start.
    pub(super) fn trim<T>(&self, stream: &mut Stream<T>) {
        match self.pending.first_key_value() {
            Some((oldest, _)) => stream.drop_below(*oldest),
            None => stream.drop_through(self.delivered),
        }
    }

    /// Ends all leases: the processes that had the entries have ended.
    pub(super) fn end_leases(&mut self) {
        self.by_age = self.pending.keys().map(|id| (0, *id)).collect();
        self.pending.values_mut().for_each(|pending| pending.touched_ms = 0);
    }

    fn touch(&mut self, id: Id, consumer: WorkerId, now: u64) {
        if let Some(old) = self.pending.insert(id, Pending { consumer, touched_ms: now }) {
            self.by_age.remove(&(old.touched_ms, id));
        }
        self.by_age.insert((now, id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_also_while_the_clock_stands_or_goes_back() {
        let mut stream = Stream::default();
        let ids = [5, 5, 5, 3, 6, 1].map(|now| stream.append(now, ()));
        assert_eq!(ids, [Id(5, 0), Id(5, 1), Id(5, 2), Id(5, 3), Id(6, 0), Id(6, 1)]);
        assert_eq!(ids.map(|id| Id::parse(&id.write())), ids);
    }

    #[test]
    fn trimming_stops_at_the_oldest_entry_that_somebody_has() {
        let (mut stream, mut group) = (Stream::default(), ConsumerGroup::default());
        let ids = [1, 2, 3, 4].map(|now| stream.append(now, now));
        for id in &ids[..3] {
            group.deliver(*id, &"w".into(), 9);
        }
        group.acknowledge(ids[0]);
        group.acknowledge(ids[2]);
        group.trim(&mut stream);
        assert_eq!(stream.after(Id::default()).map(|(id, _)| *id).collect::<Vec<_>>(), ids[1..]);
        group.acknowledge(ids[1]);
        group.trim(&mut stream);
        assert_eq!(stream.after(Id::default()).map(|(id, _)| *id).collect::<Vec<_>>(), ids[3..]);
    }

    #[test]
    fn a_clock_that_went_back_reclaims_nothing_early() {
        let (mut stream, mut group) = (Stream::default(), ConsumerGroup::default());
        let id = stream.append(1_000, ());
        group.deliver(id, &"w".into(), 1_000);
        assert!(group.reclaim(&"reaper".into(), 100, 9, 50).is_empty());
        assert!(group.reclaim(&"reaper".into(), 100, 9, 1_099).is_empty());
        assert_eq!(group.reclaim(&"reaper".into(), 100, 9, 1_100), [id]);
        assert!(!group.extend(id, &"w".into(), 1_101));
    }
}

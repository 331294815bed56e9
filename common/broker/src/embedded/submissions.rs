//! Submissions, and the answers to them.

use goalmill_common::id::{EntryId, WorkerId};
use goalmill_common::wire::Fields;

use crate::Entry;

use super::deadlines::Expiring;
use super::memory_store::{DAY_MS, MemoryStore};
use super::signals::Topic;
use super::stream::Id;

impl MemoryStore {
    pub(super) fn submit(&mut self, fields: &Fields, now: u64) -> EntryId {
        let id = self.submissions.append(now, fields.clone());
        self.signals.ring(&Topic::Submissions);
        id.write()
    }

    pub(super) fn take_submissions(&mut self, consumer: &WorkerId, count: usize, now: u64) -> Vec<Entry> {
        let new = self.submissions.after(self.schedulers_group.delivered()).take(count);
        let taken: Vec<Id> = new.map(|(id, _)| *id).collect();
        for id in &taken {
            self.schedulers_group.deliver(*id, consumer, now);
        }
        self.submission_entries(taken)
    }

    /// What `consumer` took before and has not acknowledged; it is fresh again then.
    pub(super) fn retake_submissions(&mut self, consumer: &WorkerId, after: Id, count: usize, now: u64) -> Vec<Entry> {
        let ids = self.schedulers_group.history(consumer, after, count);
        for id in &ids {
            self.schedulers_group.extend(*id, consumer, now);
        }
        self.submission_entries(ids)
    }

    pub(super) fn reclaim_submissions(&mut self, consumer: &str, idle_ms: u64, limit: usize, now: u64) -> Vec<Entry> {
        let ids = self.schedulers_group.reclaim(&consumer.into(), idle_ms, limit, now);
        self.submission_entries(ids)
    }

    pub(super) fn acknowledge_submissions(&mut self, ids: &[EntryId]) {
        for id in ids {
            self.schedulers_group.acknowledge(Id::parse(id));
        }
        self.schedulers_group.trim(&mut self.submissions);
    }

    fn submission_entries(&self, ids: Vec<Id>) -> Vec<Entry> {
        let entry = |id: Id| Entry { id: id.write(), fields: self.submissions.get(id).cloned().unwrap_or_default() };
        ids.into_iter().map(entry).collect()
    }

    pub(super) fn answer(&mut self, answers: &[(String, String)], now: u64) {
        for (id, answer) in answers {
            self.answers.insert(id.clone(), answer.clone());
            self.deadlines.set(Expiring::Answer(id.clone()), now + DAY_MS);
        }
    }

    pub(super) fn answers(&self, ids: &[String]) -> Vec<Option<String>> {
        ids.iter().map(|id| self.answers.get(id).cloned()).collect()
    }
}

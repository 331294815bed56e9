//! Waiting readers and broadcast messages. Not part of the stored state.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use goalmill_common::id::{AgentType, PlanId, ShardId};
use tokio::sync::Notify;

use crate::Broadcast;

/// Messages kept for a subscriber that does not read; older ones are dropped.
const MESSAGES_MAX: usize = 4_096;

/// What a reader can wait for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    Inbox(ShardId),
    Submissions,
    Tasks(AgentType),
    Log(PlanId),
    Messages,
}

/// Waiting readers by topic, and subscribers with their unread messages, both by reader number.
#[derive(Clone, Debug, Default)]
pub(super) struct TopicSignals {
    readers: u64,
    waiting: BTreeMap<Topic, BTreeMap<u64, Arc<Notify>>>,
    subscribers: BTreeMap<u64, VecDeque<Broadcast>>,
}

impl TopicSignals {
    /// A number for a new reader.
    pub(super) fn next_reader(&mut self) -> u64 {
        self.readers += 1;
        self.readers
    }

    pub(super) fn wait(&mut self, topic: &Topic, reader: u64, notify: &Arc<Notify>) {
        self.waiting.entry(topic.clone()).or_default().insert(reader, Arc::clone(notify));
    }

    pub(super) fn stop_waiting(&mut self, topic: &Topic, reader: u64) {
        if let Some(readers) = self.waiting.get_mut(topic) {
            readers.remove(&reader);
            if readers.is_empty() {
                self.waiting.remove(topic);
            }
        }
    }

    /// Wakes those who wait for `topic`, in the order in which they were opened.
    pub(super) fn ring(&self, topic: &Topic) {
        for notify in self.waiting.get(topic).into_iter().flat_map(BTreeMap::values) {
            notify.notify_one();
        }
    }

    /// Returns whether the reader was no subscriber before.
    pub(super) fn subscribe(&mut self, reader: u64) -> bool {
        let new = !self.subscribers.contains_key(&reader);
        self.subscribers.entry(reader).or_default();
        new
    }

    pub(super) fn unsubscribe(&mut self, reader: u64) {
        self.subscribers.remove(&reader);
    }

    pub(super) fn publish(&mut self, message: &Broadcast) {
        for unread in self.subscribers.values_mut() {
            if unread.len() == MESSAGES_MAX {
                unread.pop_front();
            }
            unread.push_back(message.clone());
        }
        self.ring(&Topic::Messages);
    }

    pub(super) fn take_messages(&mut self, reader: u64) -> Vec<Broadcast> {
        self.subscribers.get_mut(&reader).map(std::mem::take).unwrap_or_default().into()
    }
}

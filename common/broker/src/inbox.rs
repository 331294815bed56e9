//! A shard's inbox: reports of workers and requests of schedulers, each on a stream of its own.

use goalmill_common::id::EntryId;
use goalmill_common::wire::{Fields, Inbox, InboxStream};

/// The last entry of each stream of an inbox that was handled or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxCursor {
    pub reports: EntryId,
    pub requests: EntryId,
}

impl InboxCursor {
    /// The place before the first entries.
    pub fn start() -> Self {
        Self { reports: EntryId::start(), requests: EntryId::start() }
    }

    /// Moves to an entry that was read later.
    pub fn advance(&mut self, entry: &InboxEntry) {
        match entry.stream {
            InboxStream::Reports => self.reports = entry.id.clone(),
            InboxStream::Requests => self.requests = entry.id.clone(),
        }
    }

    /// Moves to the last entry of each stream.
    pub fn advance_past(&mut self, entries: &[InboxEntry]) {
        for stream in [InboxStream::Reports, InboxStream::Requests] {
            if let Some(last) = entries.iter().rfind(|entry| entry.stream == stream) {
                self.advance(last);
            }
        }
    }
}

impl Default for InboxCursor {
    fn default() -> Self {
        Self::start()
    }
}

/// One entry of an inbox. Entries of different streams may have the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxEntry {
    pub stream: InboxStream,
    pub id: EntryId,
    pub fields: Fields,
}

impl InboxEntry {
    /// What it says.
    pub fn parse(&self) -> Inbox {
        Inbox::from_fields(self.stream, &self.fields)
    }
}

/// Brings entries of both streams, each in its order, into the order in which they were sent.
pub(crate) fn sort_by_time(entries: &mut [InboxEntry]) {
    if entries.first().is_some_and(|first| entries.iter().any(|entry| entry.stream != first.stream)) {
        entries.sort_by_cached_key(|entry| (entry.id.parts(), entry.stream));
    }
}

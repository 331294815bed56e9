//! Entries of the inbox that change nothing: they are counted, and logged with a bound.

use goalmill_common::id::ShardId;
use goalmill_common::text::shorten;

use crate::message::InboxPlace;

/// A program that may write to the stream may write any number of such entries.
const WARNING_INTERVAL_MS: u64 = 60_000;
/// Characters of a reason, which may quote the entry.
const REASON_CHARS_MAX: usize = 200;

/// The ignored entries of one shard.
#[derive(Default)]
pub(crate) struct IgnoredEntries {
    warned_ms: Option<u64>,
    /// Entries since the last warning.
    unmentioned: u64,
}

impl IgnoredEntries {
    /// Counts an entry that cannot be read.
    pub(crate) fn add_unreadable(&mut self, shard: ShardId, place: &InboxPlace, reason: &str, now_ms: u64) {
        metrics::counter!("goalmill_reports_ignored_total", "reason" => "unreadable").increment(1);
        let reason = shorten(reason, REASON_CHARS_MAX);
        self.warn(shard, place, &format!("cannot be read: {reason}"), now_ms);
    }

    /// Counts a request among the reports.
    pub(crate) fn add_misplaced(&mut self, shard: ShardId, place: &InboxPlace, now_ms: u64) {
        metrics::counter!("goalmill_reports_ignored_total", "reason" => "request").increment(1);
        let why =
            "is refused: it is a request, and only schedulers make requests, on a stream that workers cannot write";
        self.warn(shard, place, why, now_ms);
    }

    fn warn(&mut self, shard: ShardId, place: &InboxPlace, what: &str, now_ms: u64) {
        self.unmentioned += 1;
        if self.warned_ms.is_some_and(|at| now_ms < at + WARNING_INTERVAL_MS) {
            return;
        }
        self.warned_ms = Some(now_ms);
        let (stream, entry, ignored) = (place.stream.as_str(), &place.id, std::mem::take(&mut self.unmentioned));
        tracing::warn!(
            %shard, %entry, ignored,
            "entry {entry} of the {stream} of shard {shard} {what} ({ignored} entries ignored since the last warning)"
        );
    }
}

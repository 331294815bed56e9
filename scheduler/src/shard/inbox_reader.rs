//! Reads a shard's inbox ahead of its loop.

use std::sync::Arc;

use goalmill_broker::{BrokerError, InboxCursor, InboxEntry, Reader};
use goalmill_common::id::ShardId;
use goalmill_common::wire::Inbox;
use goalmill_shard::InboxPlace;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::scheduler::Scheduler;

/// The place of an entry.
pub(super) fn place_of(InboxEntry { stream, id, fields: _ }: InboxEntry) -> InboxPlace {
    InboxPlace { stream, id }
}

/// Entries that were read in one call, or why reading ended.
pub(super) type InboxBatch = Result<Vec<(InboxPlace, Inbox)>, BrokerError>;

/// Reads the inbox after the entries `after` and sends parsed entries in batches, until stopped or until a read fails.
pub(super) async fn read_inbox(
    scheduler: Arc<Scheduler>,
    mut reader: Box<dyn Reader>,
    shard: ShardId,
    mut after: InboxCursor,
    batches: mpsc::Sender<InboxBatch>,
    stop: CancellationToken,
) {
    let (count, block_ms) = (scheduler.settings.scheduler.inbox_batch, scheduler.settings.redis.block_ms);
    while !stop.is_cancelled() {
        let batch = match reader.inbox(shard, &after, count, block_ms).await {
            Ok(entries) if entries.is_empty() => continue,
            Ok(entries) => {
                after.advance_past(&entries);
                let parsed = |entry: InboxEntry| {
                    let inbox = entry.parse();
                    (place_of(entry), inbox)
                };
                Ok(entries.into_iter().map(parsed).collect())
            }
            Err(error) => Err(error),
        };
        let failed = batch.is_err();
        if batches.send(batch).await.is_err() || failed {
            return;
        }
    }
}

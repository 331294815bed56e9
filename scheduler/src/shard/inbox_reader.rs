//! Reads a shard's inbox ahead of its loop.

use std::sync::Arc;

use goalmill_broker::{BrokerError, Entry, Reader};
use goalmill_common::id::{EntryId, ShardId};
use goalmill_common::wire::Inbox;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::scheduler::Scheduler;

/// Entries that were read at once, or why reading ended.
pub(super) type InboxBatch = Result<Vec<(EntryId, Inbox)>, BrokerError>;

/// Reads the inbox after entry `after` and sends parsed entries in batches, until stopped or until a read fails.
pub(super) async fn read_inbox(
    scheduler: Arc<Scheduler>,
    mut reader: Box<dyn Reader>,
    shard: ShardId,
    mut after: EntryId,
    batches: mpsc::Sender<InboxBatch>,
    stop: CancellationToken,
) {
    let (count, block_ms) = (scheduler.settings.scheduler.inbox_batch, scheduler.settings.redis.block_ms);
    while !stop.is_cancelled() {
        let batch = match reader.inbox(shard, &after, count, block_ms).await {
            Ok(entries) if entries.is_empty() => continue,
            Ok(entries) => {
                after = entries.last().expect("it is not empty").id.clone();
                Ok(entries.into_iter().map(|Entry { id, fields }| (id, Inbox::from_fields(&fields))).collect())
            }
            Err(error) => Err(error),
        };
        let failed = batch.is_err();
        if batches.send(batch).await.is_err() || failed {
            return;
        }
    }
}

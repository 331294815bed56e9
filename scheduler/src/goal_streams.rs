//! Moves submissions from the streams of namespaces to the common stream, marked with their namespace.
//!
//! A submission that was moved twice is one plan, because its id decides.

use std::sync::Arc;

use goalmill_broker::BrokerError;
use goalmill_common::id::{EntryId, Namespace};
use goalmill_common::wire::{ENTRY_FIELD, Fields, NAMESPACE_FIELD};

use crate::inbox_poll::{BATCH, InboxPoll};
use crate::scheduler::Scheduler;
use crate::shard::OwnedShards;

/// Runs until stopped; only the owner of shard 0 moves submissions.
pub(crate) async fn run(scheduler: Arc<Scheduler>, shards: Arc<OwnedShards>) {
    let streams = &scheduler.settings.scheduler.goal_streams;
    let namespaces: Vec<Namespace> = streams.iter().map(|name| name.as_str().into()).collect();
    let mut poll = InboxPoll::new(&scheduler, &shards);
    while poll.next_turn().await {
        let mut most = Ok(0);
        for namespace in &namespaces {
            match move_submissions(&scheduler, namespace).await {
                Ok(moved) => most = most.map(|most| moved.max(most)),
                Err(error) => {
                    most = Err(format!("submissions of the namespace `{namespace}` cannot be read: {error}"));
                }
            }
        }
        poll.end_turn(most);
    }
}

/// Moves the first submissions of a stream; returns how many.
async fn move_submissions(scheduler: &Scheduler, namespace: &Namespace) -> Result<usize, BrokerError> {
    let broker = scheduler.broker.as_ref();
    // Not in a foreign installation.
    scheduler.health.last_error()?;
    let entries = broker.namespace_submissions(namespace, BATCH).await?;
    let count = entries.len();
    let mut moved = Vec::with_capacity(count);
    let mut result = Ok(count);
    for entry in entries {
        if let Err(error) = broker.submit(&mark(entry.fields, namespace, &entry.id)).await {
            result = Err(error);
            break;
        }
        moved.push(entry.id);
    }
    broker.remove_namespace_submissions(namespace, &moved).await?;
    result
}

/// The fields with the namespace and the id of the entry, whatever the producer wrote.
fn mark(mut fields: Fields, namespace: &Namespace, entry: &EntryId) -> Fields {
    fields.retain(|(name, _)| name != NAMESPACE_FIELD && name != ENTRY_FIELD);
    fields.push((NAMESPACE_FIELD.into(), namespace.as_str().into()));
    fields.push((ENTRY_FIELD.into(), entry.as_str().into()));
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_producer_cannot_choose_another_namespace() {
        let field = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        let fields = vec![field(NAMESPACE_FIELD, "blue"), field("id", "x"), field(NAMESPACE_FIELD, "blue")];
        let marked = vec![field("id", "x"), field(NAMESPACE_FIELD, "red"), field(ENTRY_FIELD, "1-0")];
        assert_eq!(mark(fields, &"red".into(), &"1-0".into()), marked);
    }
}

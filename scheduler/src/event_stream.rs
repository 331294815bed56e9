//! Takes events from outside from the stream that other programs write.
//!
//! An event that was taken twice reaches a plan once, because its id decides.

use std::sync::Arc;

use goalmill_broker::{BrokerError, Entry};
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::id::{Namespace, is_id};
use goalmill_common::json::Json;

use crate::event_delivery::send_event;
use crate::inbox_poll::{BATCH, InboxPoll};
use crate::scheduler::Scheduler;
use crate::shard::OwnedShards;

/// Runs until stopped; only the owner of shard 0 takes events.
pub(crate) async fn run(scheduler: Arc<Scheduler>, shards: Arc<OwnedShards>) {
    let mut poll = InboxPoll::new(&scheduler, &shards);
    while poll.next_turn().await {
        let taken = take_events(&scheduler, &shards).await;
        poll.end_turn(taken.map_err(|error| format!("events from outside cannot be read: {error}")));
    }
}

/// Takes the first events of the stream; returns how many.
async fn take_events(scheduler: &Scheduler, shards: &OwnedShards) -> Result<usize, BrokerError> {
    // Not in a foreign installation.
    scheduler.health.last_error()?;
    let entries = scheduler.broker.sent_events(BATCH).await?;
    let mut taken = Vec::with_capacity(entries.len());
    for entry in entries {
        let id = entry.id.clone();
        match parse_event(entry) {
            Ok((namespace, event)) => match send_event(scheduler, shards, &namespace, "redis", Box::new(event)).await {
                Ok(_) => {}
                Err(problem) if problem.code.is_retryable() => break,
                Err(problem) => tracing::warn!(entry = %id, "event {id} is refused: {}", problem.detail),
            },
            Err(reason) => tracing::warn!(entry = %id, "event {id} is refused: {reason}"),
        }
        taken.push(id);
    }
    scheduler.broker.remove_sent_events(&taken).await?;
    Ok(taken.len())
}

/// Reads the fields `name`, `key`, `data`, `id` and `namespace`. Without an `id` that of the entry counts.
fn parse_event(entry: Entry) -> Result<(Namespace, ExternalEvent), String> {
    let mut event =
        ExternalEvent { id: entry.id.to_string(), name: String::new(), key: String::new(), data: Json::default() };
    let mut namespace = Namespace::default();
    for (name, bytes) in entry.fields {
        let text = String::from_utf8(bytes).map_err(|_| format!("its field `{name}` is no UTF-8"))?;
        match name.as_str() {
            "name" => event.name = text,
            "key" => event.key = text,
            "id" => event.id = text,
            "data" => event.data = Json::from_text(text).map_err(|_| "its field `data` is no JSON".to_owned())?,
            "namespace" if is_id(&text) => namespace = text.as_str().into(),
            "namespace" => return Err("its field `namespace` is no name of a namespace".into()),
            // Fields of later versions.
            _ => {}
        }
    }
    Ok((namespace, event))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(fields: &[(&str, &str)]) -> Result<(Namespace, ExternalEvent), String> {
        let fields = fields.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
        parse_event(Entry { id: "7-0".into(), fields })
    }

    #[test]
    fn an_entry_is_an_event_and_its_id_that_of_the_event_if_it_has_none() {
        let (namespace, event) =
            parse(&[("name", "payment"), ("key", "17"), ("data", "{\"paid\":true}")]).expect("it is one");
        assert_eq!((namespace, event.id.as_str(), event.data.text()), (Namespace::default(), "7-0", "{\"paid\":true}"));
        let (namespace, event) = parse(&[("name", "x"), ("id", "e1"), ("namespace", "red")]).expect("it is one");
        assert_eq!((namespace.as_str(), event.id.as_str()), ("red", "e1"));
        assert!(parse(&[("name", "x"), ("data", "{")]).is_err());
        assert!(parse(&[("name", "x"), ("namespace", "two words")]).is_err());
    }
}

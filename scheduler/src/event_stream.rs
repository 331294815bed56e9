//! Takes events from outside from the stream that other programs write.
//!
//! An event that was taken twice reaches a plan once, because its id decides. An entry that cannot be taken yet holds up
//! only later ones of its namespace, name and key, which must not overtake it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::Entry;
use goalmill_common::external_event::{ExternalEvent, topic};
use goalmill_common::id::{EntryId, Namespace, is_id};
use goalmill_common::json::Json;
use goalmill_common::problem::{ErrorCode, Problem};
use tokio::time::Instant;

use crate::event_delivery::send_event;
use crate::inbox_poll::{BATCH, InboxPoll};
use crate::scheduler::Scheduler;
use crate::shard::OwnedShards;

/// How long an entry that cannot be taken is tried again.
const TRIED: Duration = Duration::from_mins(10);
/// The place before the first entry.
const START: &str = "0-0";

/// Namespace and topic of events.
type Lane = (Namespace, String);

/// Runs until stopped; only the owner of shard 0 takes events.
pub(crate) async fn run(scheduler: Arc<Scheduler>, shards: Arc<OwnedShards>) {
    let mut poll = InboxPoll::new(&scheduler, &shards);
    let mut stream = EventStream::new();
    while poll.next_turn().await {
        let read = stream.take_events(&scheduler, &shards).await;
        poll.end_turn(read.map_err(|error| format!("events from outside cannot be read: {}", error.detail)));
    }
}

/// Walks over the stream, again and again.
struct EventStream {
    /// The last entry that was read.
    after: EntryId,
    /// Lanes with an entry that could not be taken, with the time of its first try.
    held: BTreeMap<Lane, Instant>,
    /// Those with such an entry in this walk.
    held_now: BTreeSet<Lane>,
}

impl EventStream {
    fn new() -> Self {
        Self { after: START.into(), held: BTreeMap::new(), held_now: BTreeSet::new() }
    }

    /// Takes the next events of the stream; returns how many entries were read.
    async fn take_events(&mut self, scheduler: &Scheduler, shards: &OwnedShards) -> Result<usize, Problem> {
        // Not in a foreign installation.
        scheduler.health.last_error()?;
        let entries = scheduler.broker.sent_events(&self.after, BATCH).await?;
        let (count, last) = (entries.len(), entries.last().map(|entry| entry.id.clone()));
        let mut done = Vec::with_capacity(count);
        let taken = self.take_entries(scheduler, shards, entries, &mut done).await;
        scheduler.broker.remove_sent_events(&done).await?;
        taken?;
        match last {
            Some(last) if count == BATCH => self.after = last,
            Some(_) | None => {
                self.after = START.into();
                let held_now = std::mem::take(&mut self.held_now);
                self.held.retain(|lane, _| held_now.contains(lane));
            }
        }
        Ok(count)
    }

    /// Takes entries one after the other; `done` gets those that are not needed any more.
    async fn take_entries(
        &mut self,
        scheduler: &Scheduler,
        shards: &OwnedShards,
        entries: Vec<Entry>,
        done: &mut Vec<EntryId>,
    ) -> Result<(), Problem> {
        for entry in entries {
            let id = entry.id.clone();
            let (namespace, event) = match parse_event(entry) {
                Ok(parsed) => parsed,
                Err(reason) => {
                    tracing::warn!(entry = %id, "event {id} is refused: {reason}");
                    done.push(id);
                    continue;
                }
            };
            let lane = (namespace, topic(&event.name, &event.key));
            if self.held_now.contains(&lane) {
                continue;
            }
            match send_event(scheduler, shards, &lane.0, "redis", Box::new(event)).await {
                Ok(_) => drop(self.held.remove(&lane)),
                Err(problem) if is_of_store(&problem) => return Err(problem),
                Err(problem) if problem.code.is_retryable() && self.hold(&id, &lane, &problem) => continue,
                Err(problem) => tracing::warn!(entry = %id, "event {id} is refused: {}", problem.detail),
            }
            done.push(id);
        }
        Ok(())
    }

    /// Leaves an entry in the stream, and with it the later ones of its lane. `false` if it was tried long enough.
    fn hold(&mut self, id: &EntryId, lane: &Lane, problem: &Problem) -> bool {
        let mut of_namespace = self.held.range((lane.0.clone(), String::new())..);
        if of_namespace.next().is_none_or(|((namespace, _), _)| *namespace != lane.0) {
            tracing::warn!(
                entry = %id, namespace = %lane.0,
                "event {id} of the namespace `{}` is not taken yet: {}", lane.0, problem.detail
            );
        }
        if self.held.entry(lane.clone()).or_insert_with(Instant::now).elapsed() >= TRIED {
            self.held.remove(lane);
            return false;
        }
        self.held_now.insert(lane.clone());
        true
    }
}

/// Whether the store as a whole is the reason, which is the same for every entry.
fn is_of_store(problem: &Problem) -> bool {
    matches!(
        problem.code,
        ErrorCode::StoreUnavailable | ErrorCode::MemoryPressure | ErrorCode::DataLost | ErrorCode::UnsafeStore
    )
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

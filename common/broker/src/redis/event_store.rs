//! Events from outside: those that are kept, and the stream of those that other programs send.

use goalmill_common::external_event::ExternalEvent;
use goalmill_common::id::{EntryId, Namespace};
use redis::{Value, cmd};

use super::connections::Connections;
use super::functions::Function;
use super::{Result, reply};
use crate::{Entry, Keeping, KeptEvent, KeptHead};

impl Connections {
    pub(super) async fn keep_event(&self, event: &KeptEvent) -> Result<Keeping> {
        let KeptEvent { namespace, topic, id, text, retention_ms, most } = event;
        let keys = [
            self.keys.kept_events(namespace),
            self.keys.kept_events_of(namespace, topic),
            self.keys.kept_event(namespace, topic, id),
        ];
        let mut call = Function::KeepEvent.on(&keys);
        call.arg(topic).arg(id).arg(text).arg(retention_ms).arg(most);
        Ok(match self.call::<u8>(&call).await? {
            0 => Keeping::Full,
            1 => Keeping::New,
            _ => Keeping::Known,
        })
    }

    pub(super) async fn kept_events(
        &self,
        namespace: &Namespace,
        topic: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<KeptHead>> {
        let from = if after.is_empty() { "-".to_owned() } else { format!("({after}") };
        let mut read = cmd("XRANGE");
        read.arg(self.keys.kept_events_of(namespace, topic)).arg(from).arg("+").arg("COUNT").arg(limit);
        Ok(reply::entries(self.ask(&read).await?)?.into_iter().map(head_of).collect())
    }

    pub(super) async fn kept_event(
        &self,
        namespace: &Namespace,
        topic: &str,
        head: &KeptHead,
    ) -> Result<Option<String>> {
        let text: Option<String> = self.ask(cmd("GET").arg(self.keys.kept_event(namespace, topic, &head.id))).await?;
        if text.is_some() {
            return Ok(text);
        }
        let mut read = cmd("XRANGE");
        read.arg(self.keys.kept_events_of(namespace, topic)).arg(&head.place).arg(&head.place);
        let entry = reply::entries(self.ask(&read).await?)?.pop();
        Ok(entry.map(|entry| event_in(entry.fields)).filter(|text| !text.is_empty()))
    }

    pub(super) async fn earlier_events(
        &self,
        event: &KeptEvent,
        within_ms: u64,
        limit: usize,
    ) -> Result<Vec<KeptHead>> {
        let KeptEvent { namespace, topic, id, .. } = event;
        let mut read = cmd("XREVRANGE");
        read.arg(self.keys.kept_events_of(namespace, topic)).arg("+").arg("-").arg("COUNT").arg(limit + 1);
        let last: Vec<KeptHead> = reply::entries(self.ask(&read).await?)?.into_iter().map(head_of).collect();
        let Some(own) = last.iter().position(|head| head.id == *id) else { return Ok(Vec::new()) };
        let came_ms = |head: &KeptHead| head.place.split('-').next().and_then(|ms| ms.parse::<u64>().ok()).unwrap_or(0);
        let from_ms = came_ms(&last[own]).saturating_sub(within_ms);
        let mut earlier: Vec<KeptHead> =
            last.into_iter().skip(own + 1).take_while(|head| came_ms(head) >= from_ms).collect();
        if earlier.is_empty() {
            return Ok(earlier);
        }
        let members: Vec<String> = earlier.iter().map(|head| member(topic, &head.id)).collect();
        let kept: Vec<Option<f64>> =
            self.ask(cmd("ZMSCORE").arg(self.keys.kept_events(namespace)).arg(members)).await?;
        let mut kept = kept.into_iter();
        earlier.retain(|_| kept.next().flatten().is_some());
        earlier.reverse();
        Ok(earlier)
    }

    pub(super) async fn take_event(&self, event: &KeptEvent) -> Result<()> {
        let KeptEvent { namespace, topic, id, text: _, retention_ms, most } = event;
        let mut call = Function::TakeEvent.on(&[self.keys.kept_events(namespace), self.keys.taken_events(namespace)]);
        call.arg(member(topic, id)).arg(retention_ms).arg(most);
        let oldest: Vec<String> = self.call(&call).await?;
        let keys = oldest.iter().filter_map(|member| member.split_once(' '));
        let keys: Vec<String> = keys.map(|(topic, id)| self.keys.kept_event(namespace, topic, id)).collect();
        if keys.is_empty() {
            return Ok(());
        }
        self.ask::<Value>(cmd("UNLINK").arg(keys)).await?;
        Ok(())
    }

    pub(super) async fn forget_event(&self, event: &KeptEvent) -> Result<()> {
        let KeptEvent { namespace, topic, id, .. } = event;
        self.ask::<Value>(cmd("UNLINK").arg(self.keys.kept_event(namespace, topic, id))).await?;
        self.ask::<Value>(cmd("ZREM").arg(self.keys.kept_events(namespace)).arg(member(topic, id))).await?;
        Ok(())
    }

    pub(super) async fn count_kept_events(&self, namespace: &Namespace) -> Result<u64> {
        let mut read = cmd("ZCARD");
        read.arg(self.keys.kept_events(namespace));
        self.ask(&read).await
    }

    pub(super) async fn sent_events(&self, after: &EntryId, limit: usize) -> Result<Vec<Entry>> {
        let mut read = cmd("XRANGE");
        read.arg(self.keys.sent_events()).arg(format!("({after}")).arg("+").arg("COUNT").arg(limit);
        reply::entries(self.ask(&read).await?)
    }

    pub(super) async fn remove_sent_events(&self, ids: &[EntryId]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let mut remove = cmd("XDEL");
        remove.arg(self.keys.sent_events());
        for id in ids {
            remove.arg(id.as_str());
        }
        self.ask::<Value>(&remove).await?;
        Ok(())
    }
}

/// The name of an event in the sets of a namespace.
fn member(topic: &str, id: &str) -> String {
    [topic, " ", id].concat()
}

fn head_of(mut entry: Entry) -> KeptHead {
    let id = reply::lossy(reply::take_field(&mut entry.fields, "id"));
    let id = if id.is_empty() { id_of(&event_in(entry.fields)) } else { id };
    KeptHead { place: entry.id.to_string(), id }
}

/// The event in an entry of a former version, which has its data.
fn event_in(mut fields: Vec<(String, Vec<u8>)>) -> String {
    reply::lossy(reply::take_field(&mut fields, "event"))
}

fn id_of(text: &str) -> String {
    serde_json::from_str::<ExternalEvent>(text).map(|event| event.id).unwrap_or_default()
}

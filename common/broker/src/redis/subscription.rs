//! Subscribes to broadcast messages.

use std::pin::Pin;
use std::time::Duration;

use goalmill_common::id::{AgentType, AttemptToken};
use goalmill_common::keys::Keys;
use redis::{PushInfo, PushKind};
use tokio::sync::futures::Notified;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::connection::Connection;
use super::dialer::Dialer;
use super::error::to_broker_error;
use super::{Result, reply};
use crate::{Broadcast, BrokerError};

/// A connection that is subscribed to some channels.
pub(super) struct Subscription {
    /// Keeps the connection open.
    connection: Connection,
    pushes: UnboundedReceiver<PushInfo>,
    keys: Keys,
}

impl Subscription {
    /// Subscribes to all broadcast messages.
    pub(super) async fn open(dialer: &Dialer, keys: &Keys) -> Result<Self> {
        Self::open_channels(dialer, keys, &[keys.cancel(), keys.agents_changed()]).await
    }

    /// Subscribes to a scheduler's own channel, which carries no messages.
    pub(super) async fn open_presence(dialer: &Dialer, keys: &Keys, scheduler: &str) -> Result<Self> {
        Self::open_channels(dialer, keys, &[keys.presence(scheduler)]).await
    }

    async fn open_channels(dialer: &Dialer, keys: &Keys, channels: &[String]) -> Result<Self> {
        let (sender, pushes) = unbounded_channel();
        let mut connection = dialer.dial_messages(sender).await?;
        connection.subscribe(channels).await.map_err(to_broker_error)?;
        Ok(Self { connection, pushes, keys: keys.clone() })
    }

    /// Returns the messages since the last call; waits up to `block_ms` for the first, or until `woken`.
    ///
    /// After an error the subscription must be dropped.
    pub(super) async fn listen(&mut self, block_ms: u64, woken: Pin<&mut Notified<'_>>) -> Result<Vec<Broadcast>> {
        let messages = self.received()?;
        if !messages.is_empty() || block_ms == 0 {
            return Ok(messages);
        }
        let wait = tokio::time::sleep(Duration::from_millis(block_ms));
        tokio::pin!(wait, woken);
        loop {
            tokio::select! {
                biased;
                push = self.pushes.recv() => {
                    let mut messages = Vec::from_iter(parse_push(&self.keys, push)?);
                    messages.extend(self.received()?);
                    if !messages.is_empty() {
                        return Ok(messages);
                    }
                }
                () = self.connection.ended() => return Err(left()),
                () = &mut woken => return Ok(Vec::new()),
                () = &mut wait => return Ok(Vec::new()),
            }
        }
    }

    /// Whether the connection has ended, or leads to a former primary: no subscriber receives what is published there.
    pub(super) fn is_broken(&mut self) -> bool {
        self.received().is_err()
    }

    /// The messages that have arrived.
    fn received(&mut self) -> Result<Vec<Broadcast>> {
        if self.connection.is_former() {
            return Err(left());
        }
        let mut messages = Vec::new();
        loop {
            let push = match self.pushes.try_recv() {
                Ok(push) => Some(push),
                Err(TryRecvError::Empty) => return Ok(messages),
                Err(TryRecvError::Disconnected) => None,
            };
            messages.extend(parse_push(&self.keys, push)?);
        }
    }
}

fn left() -> BrokerError {
    BrokerError::Unavailable("the service has another primary".into())
}

/// Parses a push: `None` when it is not a message of ours, an error when it is the last.
fn parse_push(keys: &Keys, push: Option<PushInfo>) -> Result<Option<Broadcast>> {
    match push {
        Some(push) if push.kind == PushKind::Message => Ok(parse_message(keys, push.data)),
        Some(push) if push.kind != PushKind::Disconnection => Ok(None),
        _ => Err(BrokerError::Unavailable("the connection for messages broke".into())),
    }
}

fn parse_message(keys: &Keys, data: Vec<redis::Value>) -> Option<Broadcast> {
    let mut data = data.into_iter();
    let channel = reply::text(data.next()?).ok()?;
    let payload = reply::text(data.next()?).ok()?;
    if channel == keys.cancel() {
        Some(Broadcast::Cancel(payload.split_whitespace().map(AttemptToken::from).collect()))
    } else {
        (channel == keys.agents_changed()).then(|| Broadcast::AgentsChanged(AgentType::from(payload)))
    }
}

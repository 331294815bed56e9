//! Follows a plan's events, from the API's stream or from the log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::{Broker, Reader};
use goalmill_client::Client;
use goalmill_common::clock::parse_rfc3339;
use goalmill_common::event::{Record, read_entry};
use goalmill_common::id::PlanId;
use goalmill_common::number::milliseconds;
use goalmill_common::sse::SseParser;
use reqwest::Response;
use tokio::time::timeout;
use tracing::debug;

use crate::exit::{Exit, Failed};

/// Silence after which a stream is reopened; the server sends comments more often.
const SILENCE: Duration = Duration::from_mins(1);
/// Pause between attempts to reopen the stream.
const PAUSE: Duration = Duration::from_millis(500);
/// Consecutive attempts before the server counts as lost.
const TRIES: u32 = 20;
/// Entries read from a log in one call.
const BATCH: usize = 500;

/// Source of events.
pub enum Source {
    Api(Client),
    Log(Arc<dyn Broker>),
}

/// Follows one plan. The caller stops asking once it has seen a final event.
pub struct Follow {
    plan: PlanId,
    /// Sequence number of the last returned event.
    seq: u64,
    ready: VecDeque<Record>,
    feed: Feed,
}

/// What is read from.
enum Feed {
    Api { client: Client, stream: Option<Box<(Response, SseParser)>>, tries: u32 },
    Log(Box<dyn Reader>),
}

impl Follow {
    /// Starts after event `after`.
    pub async fn open(source: Source, plan: PlanId, after: u64) -> Result<Self, Failed> {
        let feed = match source {
            Source::Api(client) => Feed::Api { client, stream: None, tries: 0 },
            Source::Log(broker) => Feed::Log(broker.reader().await?),
        };
        Ok(Self { plan, seq: after, ready: VecDeque::new(), feed })
    }

    /// The next event; waits for it.
    ///
    /// Every event is returned once and in order; repetitions of a reopened stream are dropped.
    pub async fn next(&mut self) -> Result<Record, Failed> {
        loop {
            while let Some(record) = self.ready.pop_front() {
                if record.seq > self.seq {
                    self.seq = record.seq;
                    return Ok(record);
                }
            }
            self.fill().await?;
        }
    }

    /// Whether the last returned event is the last of the log. What an earlier one asks may be answered since.
    pub async fn is_current(&mut self) -> Result<bool, Failed> {
        if self.ready.is_empty() && matches!(self.feed, Feed::Log(_)) {
            self.read_log(Duration::from_millis(1)).await?;
        }
        if self.ready.iter().any(|record| record.seq > self.seq) {
            return Ok(false);
        }
        match &self.feed {
            Feed::Log(_) => Ok(true),
            Feed::Api { client, .. } => Ok(client.plan(&self.plan).await?.summary.seq <= self.seq),
        }
    }

    /// Reads what follows in the log; waits for it at most so long.
    async fn read_log(&mut self, patience: Duration) -> Result<(), Failed> {
        let Feed::Log(reader) = &mut self.feed else { return Ok(()) };
        for entry in reader.log(&self.plan, self.seq, BATCH, milliseconds(patience)).await? {
            let time_ms = parse_rfc3339(&entry.time).unwrap_or_default();
            self.ready.extend(read_entry(&entry.events, time_ms).map_err(unreadable)?);
        }
        Ok(())
    }

    async fn fill(&mut self) -> Result<(), Failed> {
        match &mut self.feed {
            Feed::Log(_) => self.read_log(Duration::from_secs(1)).await,
            Feed::Api { client, stream, tries } => {
                if stream.is_none() {
                    let response = reopen(client, &self.plan, self.seq, tries).await?;
                    *stream = Some(Box::new((response, SseParser::default())));
                }
                let Some(open) = stream else { return Ok(()) };
                let (response, parser) = open.as_mut();
                match timeout(SILENCE, response.chunk()).await {
                    Ok(Ok(Some(bytes))) => {
                        *tries = 0;
                        let mut events = Vec::new();
                        parser.push(&bytes, &mut events);
                        for event in events {
                            self.ready.push_back(Record::from_line(&event.data).map_err(unreadable)?);
                        }
                    }
                    Ok(Ok(None) | Err(_)) | Err(_) => {
                        debug!("the event stream of {} broke off after event {}", self.plan, self.seq);
                        *stream = None;
                    }
                }
                Ok(())
            }
        }
    }
}

fn unreadable(error: goalmill_common::event::LogError) -> Failed {
    Failed::other(error).help("client and server may be of different versions")
}

/// Opens the stream. The client repeats the request while the server is away; a server whose streams break off soon counts
/// as lost after some attempts.
async fn reopen(client: &Client, plan: &PlanId, after: u64, tries: &mut u32) -> Result<Response, Failed> {
    if *tries > 0 {
        tokio::time::sleep(PAUSE).await;
    }
    *tries += 1;
    if *tries >= TRIES {
        return Err(Failed::new(Exit::Unreachable, format!("the event stream of plan {plan} broke off")));
    }
    Ok(client.event_stream(plan, after).await?)
}

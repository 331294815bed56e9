//! Reads a plan's log, page by page, and folds it.

use goalmill_broker::{Broker, BrokerError, LogEntry};
use goalmill_common::clock::parse_rfc3339;
use goalmill_common::event::{LogError, Record, read_entry};
use goalmill_common::id::PlanId;
use goalmill_engine::{PlanState, ReplayError, apply};

use crate::heavy::heavy;

/// Log entries read at once.
const PAGE: usize = 500;

/// Why a plan's state cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Broker(#[from] BrokerError),
    #[error("its log cannot be read: {0}")]
    Log(#[from] LogError),
    #[error("its log cannot be folded: {0}")]
    Replay(#[from] ReplayError),
}

/// A plan's state as its log tells it; `None` when there is no such plan.
pub(crate) async fn read(broker: &dyn Broker, plan: &PlanId) -> Result<Option<PlanState>, ReadError> {
    let mut state = PlanState::default();
    let mut pages = Pages::new(broker, plan);
    while let Some(entries) = pages.next().await? {
        state = heavy(bytes(&entries), move || fold(state, &entries)).await?;
    }
    Ok((state.seq() > 0).then_some(state))
}

/// A plan's log from its beginning, a page at a time.
pub(crate) struct Pages<'a> {
    broker: &'a dyn Broker,
    plan: &'a PlanId,
    /// Number of the last event that was read.
    after: u64,
    is_over: bool,
}

impl<'a> Pages<'a> {
    pub(crate) fn new(broker: &'a dyn Broker, plan: &'a PlanId) -> Self {
        Self { broker, plan, after: 0, is_over: false }
    }

    /// The next entries; `None` after the last ones.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<LogEntry>>, BrokerError> {
        if self.is_over {
            return Ok(None);
        }
        let entries = self.broker.log(self.plan, self.after, PAGE).await?;
        self.is_over = entries.len() < PAGE;
        self.after = entries.last().map_or(self.after, |entry| entry.last_seq);
        Ok(Some(entries))
    }
}

/// What the entries weigh, for [`heavy`].
pub(crate) fn bytes(entries: &[LogEntry]) -> usize {
    entries.iter().map(|entry| entry.events.len()).sum()
}

fn fold(mut state: PlanState, entries: &[LogEntry]) -> Result<PlanState, ReadError> {
    for entry in entries {
        for record in records(entry)? {
            apply(&mut state, &record)?;
        }
    }
    Ok(state)
}

/// The events of one log entry.
pub(crate) fn records(entry: &LogEntry) -> Result<Vec<Record>, LogError> {
    let time_ms = parse_rfc3339(&entry.time).ok_or(LogError::NoTime { seq: entry.last_seq })?;
    read_entry(&entry.events, time_ms)
}

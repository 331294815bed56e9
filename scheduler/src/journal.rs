//! Reads a plan's log and folds it.

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
    loop {
        let entries = broker.log(plan, state.seq(), PAGE).await?;
        let is_last = entries.len() < PAGE;
        let bytes = entries.iter().map(|entry| entry.events.len()).sum();
        state = heavy(bytes, move || fold(state, &entries)).await?;
        if is_last {
            return Ok((state.seq() > 0).then_some(state));
        }
    }
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

//! Reads a plan's event log, page by page, and folds it into the plan's state.

use goalmill_broker::{BrokerError, LogEntry};
use goalmill_common::clock::parse_rfc3339;
use goalmill_common::event::{LogError, Record, read_entry};
use goalmill_common::id::PlanId;
use goalmill_engine::{PlanState, ReplayError, replay};

use crate::plan_reader::PlanReader;
use crate::run_blocking::run_blocking_if_large;

/// Log entries read in one call.
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

/// Folds a plan's log; `None` if there is no such plan.
pub(crate) async fn read_plan_state(plans: &dyn PlanReader, plan: &PlanId) -> Result<Option<PlanState>, ReadError> {
    let mut state = None;
    let mut pages = Pages::new(plans, plan);
    while let Some(entries) = pages.next().await? {
        state = run_blocking_if_large(size_bytes(&entries), move || fold(state, &entries)).await?;
    }
    Ok(state)
}

/// Folds a plan's log up to the first event of which `ends` is true, or to its end; `None` if there is no such plan.
pub(crate) async fn read_plan_state_until(
    plans: &dyn PlanReader,
    plan: &PlanId,
    ends: impl Fn(&Record) -> bool,
) -> Result<Option<PlanState>, ReadError> {
    let mut state = None;
    let mut pages = Pages::new(plans, plan);
    while let Some(entries) = pages.next().await? {
        for entry in &entries {
            for record in parse_records(entry)? {
                if ends(&record) {
                    return Ok(state);
                }
                replay(&mut state, &record)?;
            }
        }
    }
    Ok(state)
}

/// A plan's log from its beginning, a page at a time.
pub(crate) struct Pages<'a> {
    plans: &'a dyn PlanReader,
    plan: &'a PlanId,
    /// Number of the last event that was read.
    after: u64,
    is_over: bool,
}

impl<'a> Pages<'a> {
    pub(crate) fn new(plans: &'a dyn PlanReader, plan: &'a PlanId) -> Self {
        Self { plans, plan, after: 0, is_over: false }
    }

    /// The next entries; `None` after the last ones.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<LogEntry>>, BrokerError> {
        if self.is_over {
            return Ok(None);
        }
        let entries = self.plans.log(self.plan, self.after, PAGE).await?;
        self.is_over = entries.len() < PAGE;
        self.after = entries.last().map_or(self.after, |entry| entry.last_seq);
        Ok(Some(entries))
    }
}

/// Size of the entries in bytes, for [`run_blocking_if_large`].
pub(crate) fn size_bytes(entries: &[LogEntry]) -> usize {
    entries.iter().map(|entry| entry.events.len()).sum()
}

/// The state after these entries, which follow those of `state`.
pub(crate) fn fold(mut state: Option<PlanState>, entries: &[LogEntry]) -> Result<Option<PlanState>, ReadError> {
    for entry in entries {
        for record in parse_records(entry)? {
            replay(&mut state, &record)?;
        }
    }
    Ok(state)
}

/// The events of one log entry.
pub(crate) fn parse_records(entry: &LogEntry) -> Result<Vec<Record>, LogError> {
    let time_ms = parse_rfc3339(&entry.time).ok_or(LogError::NoTime { seq: entry.last_seq })?;
    read_entry(&entry.events, time_ms)
}

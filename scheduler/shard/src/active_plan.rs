//! One active plan in its owner's memory, with its unwritten events.

use std::collections::BTreeSet;

use goalmill_common::clock::rfc3339;
use goalmill_common::commit::{Activity, PlanWrite};
use goalmill_common::event::Record;
use goalmill_common::goal::Usage;
use goalmill_common::number::to_u32;
use goalmill_common::park_mark::ParkMark;
use goalmill_engine::{PlanState, StepIndex, SummarySnapshot};

/// How outdated the index and the summary may be, in milliseconds.
pub(crate) const INDEX_MS: u64 = 1_000;

pub(crate) struct ActivePlan {
    pub(crate) state: PlanState,
    /// Number of revision requests. Answers to earlier ones are stale.
    pub(crate) revision_requests: u32,
    /// Number of the last written event.
    written: u64,
    /// Whether this owner has written the plan.
    is_ours: bool,
    /// The written summary; `None` until it is known.
    shown: Option<SummarySnapshot>,
    /// Last update of index and summary, Unix milliseconds.
    indexed_ms: u64,
    unwritten: Vec<Record>,
    /// Whether the plan is part of the turn.
    is_in_turn: bool,
    /// Whether a later write of the summary is scheduled.
    is_awaited: bool,
    /// The part of its use that was counted for its namespace.
    counted: Usage,
    /// Waits for events that are being registered, and loads of payloads whose answer is awaited.
    effects_out: u32,
    /// The mark of a plan that is to be parked once it is written.
    mark: Option<ParkMark>,
    /// Number of the event after which the written mark was made.
    marked: Option<u64>,
    /// Dispatched steps whose outputs are looked up in the cache. Each keeps a place in the plan.
    pub(crate) lookups: BTreeSet<StepIndex>,
    /// A client of the stream has submitted the plan again, which came in another way: it gets a result, too.
    pub(crate) has_stream_client: bool,
}

impl ActivePlan {
    /// A submitted plan, of which nothing is written.
    pub(crate) fn submitted(state: PlanState) -> Self {
        Self { written: 0, ..Self::new(state) }
    }

    pub(crate) fn new(state: PlanState) -> Self {
        let (written, counted) = (state.seq(), state.usage());
        Self {
            state,
            revision_requests: 0,
            written,
            is_ours: false,
            shown: None,
            indexed_ms: 0,
            unwritten: Vec::new(),
            is_in_turn: false,
            is_awaited: false,
            counted,
            effects_out: 0,
            mark: None,
            marked: None,
            lookups: BTreeSet::new(),
            has_stream_client: false,
        }
    }

    /// Whether a client of the stream gets the result.
    pub(crate) fn needs_result(&self) -> bool {
        self.state.is_final() && (self.has_stream_client || self.state.accepted().entry.is_some())
    }

    /// Number of dispatched steps whose outputs are looked up in the cache.
    pub(crate) fn looked_up(&self) -> u32 {
        to_u32(self.lookups.len())
    }

    /// Adds the plan to the turn; returns whether it was not part of it.
    pub(crate) fn enter_turn(&mut self) -> bool {
        !std::mem::replace(&mut self.is_in_turn, true)
    }

    /// Adds events for the next commit.
    pub(crate) fn add_records(&mut self, records: Vec<Record>) {
        if self.unwritten.is_empty() {
            self.unwritten = records;
        } else {
            self.unwritten.extend(records);
        }
    }

    /// What the plan has used since the last call, if anything.
    pub(crate) fn take_spent(&mut self) -> Option<Usage> {
        let usage = self.state.usage();
        let counted = std::mem::replace(&mut self.counted, usage);
        let tokens = usage.tokens.saturating_sub(counted.tokens);
        let cost = (usage.cost - counted.cost).max(0.0);
        (tokens > 0 || cost > 0.0).then_some(Usage { tokens, cost })
    }

    /// Whether the summary is outdated; called when its scheduled write is due.
    pub(crate) fn is_summary_due(&mut self) -> bool {
        self.is_awaited = false;
        self.is_behind()
    }

    fn is_behind(&self) -> bool {
        self.shown.as_ref().is_none_or(|shown| self.state.is_ahead_of(shown))
    }

    /// Whether the summary is outdated and no write is scheduled; schedules it.
    pub(crate) fn needs_summary_later(&mut self) -> bool {
        self.is_behind() && !std::mem::replace(&mut self.is_awaited, true)
    }

    /// A plan that was parked: its summary has its mark.
    pub(crate) fn unparked(state: PlanState) -> Self {
        Self { marked: Some(state.seq()), ..Self::new(state) }
    }

    /// Whether all that there is to write of the plan is written, all its waits are registered, and nothing is loaded for it.
    pub(crate) fn is_settled(&self) -> bool {
        let is_written = self.written == self.state.seq() && self.unwritten.is_empty() && !self.is_in_turn;
        let is_idle = self.lookups.is_empty() && self.effects_out == 0 && !self.has_stream_client;
        is_written && !self.is_awaited && !self.is_behind() && is_idle
    }

    pub(crate) fn begin_effect(&mut self) {
        self.effects_out += 1;
    }

    pub(crate) fn end_effect(&mut self) {
        self.effects_out = self.effects_out.saturating_sub(1);
    }

    /// Whether the mark of the plan as it is now is written.
    pub(crate) fn is_marked(&self) -> bool {
        self.marked == Some(self.state.seq())
    }

    /// Has the mark written with the next commit, unless there are new events by then.
    pub(crate) fn set_mark(&mut self, mark: ParkMark) {
        self.mark = Some(mark);
    }

    /// When the plan changed, Unix milliseconds.
    fn changed_ms(&self) -> u64 {
        self.unwritten.first().map_or(self.state.updated_ms(), |record| record.time_ms)
    }

    /// Whether this change updates index and summary: the first and the last do, those of status and revision, and one per
    /// second between.
    fn updates_summary(&self) -> bool {
        self.state.is_final()
            || self.unwritten.is_empty()
            || self.changed_ms() >= self.indexed_ms + INDEX_MS
            || self.shown.as_ref().is_none_or(|shown| self.state.needs_summary_update(shown))
    }

    /// The summary and the unwritten events for the next commit, where they are not encoded yet.
    pub(crate) fn write(&mut self, retention_ms: u64) -> (PlanWrite, Vec<Record>) {
        let time_ms = self.changed_ms();
        let (updates_summary, time) = (self.updates_summary(), rfc3339(time_ms));
        let mut summary = Vec::new();
        if updates_summary {
            summary = self.state.summary_fields(self.shown.as_ref());
            self.shown = Some(self.state.shown());
            summary.push(("updated", time.clone()));
            if let Some(mark) = self.mark.take_if(|mark| mark.seq == self.state.seq()) {
                self.marked = Some(mark.seq);
                summary.push((ParkMark::FIELD, mark.text()));
            }
            self.indexed_ms = self.indexed_ms.max(time_ms);
        }
        let activity = if self.state.is_final() {
            Activity::Ends { retention_ms }
        } else if self.written == 0 {
            Activity::Begins
        } else {
            Activity::Continues
        };
        let records = std::mem::take(&mut self.unwritten);
        let base_seq = std::mem::replace(&mut self.written, self.state.seq());
        self.is_in_turn = false;
        let write = PlanWrite {
            plan: self.state.id().clone(),
            base_seq,
            follows: std::mem::replace(&mut self.is_ours, true),
            last_seq: self.written,
            time,
            events: Vec::new(),
            summary,
            activity,
            index_ms: if updates_summary { time_ms } else { 0 },
            result: None,
        };
        (write, records)
    }
}

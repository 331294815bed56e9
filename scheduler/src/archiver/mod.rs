//! Archiver: copies plans that ended to the archive, with their whole logs, and lets their keys expire after that.
//!
//! It reads the index of each shard that this process owns, from its position on. The position is stored with the rows, so
//! a crash loses nothing; plans that are read again are skipped by the store, so nothing is copied twice.

mod payloads;
mod retention;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use self::payloads::PlanPayloads;
use goalmill_archive::{ArchiveBatch, ArchiveError, ArchiveStore, EventRow, PlanPart, PlanRow, RevisionRow, StepRow};
use goalmill_broker::{BrokerError, LogEntry};
use goalmill_common::clock::parse_rfc3339;
use goalmill_common::id::{Namespace, PlanId, ShardId};
use goalmill_common::json::Json;
use goalmill_common::number::milliseconds;
use goalmill_common::status::PlanStatus;
use goalmill_engine::{PlanState, replay, revise};
use metrics::{counter, gauge};
use tokio::time::Instant;

pub(crate) use self::retention::ArchiveRetention;
use crate::event_log;
use crate::run_blocking::run_blocking_if_large;
use crate::scheduler::Scheduler;
use crate::shard::OwnedShards;

/// Index entries per read.
const PAGE: usize = 500;
/// Log entries per read.
const LOG_PAGE: usize = 100;
/// Bytes of events after which a batch is written, whatever its number of events.
const BATCH_BYTES: usize = 4 << 20;
/// How far behind its position a shard's index is read again: the last commits may be late, and clocks may differ.
const OVERLAP_MS: u64 = 10_000;
/// The same for the first read of a shard: the process before may have ended before it let keys expire.
const FIRST_OVERLAP_MS: u64 = 600_000;
/// How often the whole index is read, for plans that came later than the overlap.
const WHOLE: Duration = Duration::from_hours(1);
/// Longest wait after a failure.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// While commits are made, the archiver pauses so many times as long as its last batch took.
const PAUSES: u32 = 3;
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Copies the plans of the shards that are owned here.
pub(crate) struct Archiver {
    scheduler: Arc<Scheduler>,
    shards: Arc<OwnedShards>,
    store: Arc<dyn ArchiveStore>,
    walks: BTreeMap<ShardId, IndexWalk>,
    pause: CommitPause,
}

/// Leaves the machine and the store to running plans, if there are any.
#[derive(Default)]
struct CommitPause {
    /// The scheduler's number of commits at the last batch.
    commits: u64,
}

impl CommitPause {
    /// Waits if commits were made since the last call.
    ///
    /// - `took`: how long the batch took.
    async fn wait(&mut self, scheduler: &Scheduler, took: Duration) {
        let commits = *scheduler.commits.borrow();
        if std::mem::replace(&mut self.commits, commits) != commits {
            tokio::time::sleep((took * PAUSES).min(PAUSE_MAX)).await;
        }
    }
}

/// How far the index of a shard was read.
struct IndexWalk {
    position_ms: u64,
    /// When the next read starts, Unix milliseconds.
    from_ms: u64,
    /// When the whole index was read, or the shard was taken.
    whole_at: Instant,
    /// Plans within the overlap that need nothing more, with their places in the index.
    done: BTreeMap<PlanId, u64>,
}

/// A batch that is being collected.
struct PendingBatch {
    batch: ArchiveBatch,
    events: usize,
    bytes: usize,
    /// Plans whose last part is in the batch, and when they ended.
    ended: Vec<(PlanId, u64)>,
}

/// Why a round ended early.
#[derive(Debug, thiserror::Error)]
enum ArchiverError {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

impl Archiver {
    pub(crate) fn new(scheduler: Arc<Scheduler>, shards: Arc<OwnedShards>, store: Arc<dyn ArchiveStore>) -> Self {
        Self { scheduler, shards, store, walks: BTreeMap::new(), pause: CommitPause::default() }
    }

    /// Runs until stopped. After a failure it waits, longer each time, and continues where it was.
    pub(crate) async fn run(mut self) {
        let scheduler = self.scheduler.clone();
        let interval = Duration::from_millis(scheduler.settings.archive.interval_ms);
        let (mut wait, mut whole_ms) = (interval, scheduler.clock.now_ms());
        while let Some(done) = scheduler.stop.run_until_cancelled(Box::pin(self.round())).await {
            match done {
                Ok(()) => {
                    scheduler.health.set_archive(None);
                    if wait > interval {
                        tracing::info!("the archive can be written again");
                    }
                    (wait, whole_ms) = (interval, scheduler.clock.now_ms());
                    gauge!("goalmill_archive_lag_seconds").set(0.0);
                }
                Err(error) => {
                    if let ArchiverError::Archive(error) = &error {
                        scheduler.health.set_archive(Some(error.to_string()));
                    }
                    counter!("goalmill_archive_errors_total").increment(1);
                    let lag = Duration::from_millis(scheduler.clock.now_ms().saturating_sub(whole_ms));
                    gauge!("goalmill_archive_lag_seconds").set(lag.as_secs_f64());
                    if wait == interval {
                        tracing::warn!(
                            "finished plans cannot be archived, and are kept in the store until then: {error}"
                        );
                    }
                    let jitter = scheduler.random.below(milliseconds(interval) + 1);
                    wait = (wait * 2).min(BACKOFF_MAX).max(interval) + Duration::from_millis(jitter);
                }
            }
            tokio::select! {
                biased;
                () = scheduler.stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Archives everything that has ended in the shards owned here.
    async fn round(&mut self) -> Result<(), ArchiverError> {
        let owned = self.shards.ids();
        self.walks.retain(|shard, _| owned.contains(shard));
        for shard in owned {
            if !self.walks.contains_key(&shard) {
                let position_ms = self.store.position(shard).await?;
                let from_ms = position_ms.saturating_sub(FIRST_OVERLAP_MS);
                let walk = IndexWalk { position_ms, from_ms, whole_at: Instant::now(), done: BTreeMap::new() };
                self.walks.insert(shard, walk);
            }
            self.read_index(shard).await?;
        }
        Ok(())
    }

    /// Reads the index of a shard to its end.
    async fn read_index(&mut self, shard: ShardId) -> Result<(), ArchiverError> {
        let walk = self.walks.get_mut(&shard).expect("the shard is walked");
        if walk.whole_at.elapsed() >= WHOLE {
            (walk.from_ms, walk.whole_at) = (0, Instant::now());
        }
        let (mut from_ms, mut limit) = (walk.from_ms, PAGE);
        loop {
            let page = self.scheduler.broker.plans_since(shard, from_ms, limit).await?;
            let is_last = page.len() < limit;
            let last_ms = page.last().map_or(from_ms, |(_, changed_ms)| *changed_ms);
            self.archive_page(shard, page, last_ms).await?;
            let walk = self.walks.get_mut(&shard).expect("the shard is walked");
            walk.position_ms = walk.position_ms.max(last_ms);
            walk.from_ms = last_ms.min(walk.position_ms.saturating_sub(OVERLAP_MS));
            let needed_ms = walk.from_ms;
            walk.done.retain(|_, changed_ms| *changed_ms >= needed_ms);
            if is_last {
                walk.from_ms = walk.position_ms.saturating_sub(OVERLAP_MS);
                return Ok(());
            }
            // A millisecond may hold more plans than a page.
            (from_ms, limit) = if last_ms > from_ms { (last_ms, PAGE) } else { (from_ms, limit * 2) };
        }
    }

    /// Archives those plans of one page of the index that have ended.
    async fn archive_page(
        &mut self,
        shard: ShardId,
        page: Vec<(PlanId, u64)>,
        position_ms: u64,
    ) -> Result<(), ArchiverError> {
        let done = &self.walks[&shard].done;
        let fresh: BTreeMap<PlanId, u64> =
            page.into_iter().filter(|(plan, changed_ms)| done.get(plan) != Some(changed_ms)).collect();
        let plans: Vec<PlanId> = fresh.keys().cloned().collect();
        let statuses = self.scheduler.broker.statuses(&plans).await?;
        let is_final = |status: &Option<PlanStatus>| status.is_some_and(PlanStatus::is_final);
        let ended: Vec<PlanId> =
            plans.into_iter().zip(&statuses).filter(|(_, status)| is_final(status)).map(|(plan, _)| plan).collect();
        if ended.is_empty() {
            return Ok(());
        }
        let archived = self.store.archived(&ended).await?;
        let (known, new): (Vec<PlanId>, Vec<PlanId>) =
            ended.into_iter().partition(|plan| archived.get(plan) == fresh.get(plan));
        // The process that archived them may have ended before it let them expire.
        self.let_expire(
            shard,
            known.into_iter().map(|plan| (fresh[&plan], plan)).map(|(at, plan)| (plan, at)).collect(),
        )
        .await?;
        let mut pending = PendingBatch::new(shard);
        for plan in new {
            let changed_ms = fresh[&plan];
            self.collect_plan(&mut pending, plan, changed_ms).await?;
        }
        pending.batch.position_ms = position_ms;
        self.write(&mut pending).await
    }

    /// Adds a plan to the batch, which is written whenever it is full.
    async fn collect_plan(
        &mut self,
        pending: &mut PendingBatch,
        plan: PlanId,
        changed_ms: u64,
    ) -> Result<(), ArchiverError> {
        let broker = self.scheduler.broker.clone();
        let mut payloads = PlanPayloads::new(self.scheduler.settings.archive.plan_payloads_bytes_max);
        let (mut after, mut state, mut is_first) = (0, None, true);
        loop {
            let entries = broker.log(&plan, after, LOG_PAGE).await?;
            let is_last = entries.len() < LOG_PAGE;
            after = entries.last().map_or(after, |entry| entry.last_seq);
            let bytes = event_log::size_bytes(&entries);
            let read = run_blocking_if_large(bytes, move || read_entries(state, &entries)).await;
            let (events, folded) = match read {
                Ok(read) => read,
                Err(error) => {
                    tracing::error!(plan_id = %plan, "plan {plan} cannot be archived, and stays in the store: {error}");
                    pending.batch.parts.retain(|part| part.plan != plan);
                    return Ok(());
                }
            };
            let end = if is_last { self.plan_row(&plan, after, folded.as_ref()).await? } else { None };
            if is_last && end.is_none() {
                // It has expired, or runs again under its id.
                pending.batch.parts.retain(|part| part.plan != plan);
                return Ok(());
            }
            state = folded;
            let mut part = PlanPart { plan: plan.clone(), changed_ms, is_first, events, blobs: Vec::new(), end };
            for key in payloads.unseen(&part.events) {
                let Some(blob) = payloads.read_payload(broker.as_ref(), &plan, key).await? else { continue };
                pending.bytes += blob.content.len();
                part.blobs.push(blob);
                if pending.bytes >= BATCH_BYTES {
                    let blobs = std::mem::take(&mut part.blobs);
                    let (plan, is_first) = (plan.clone(), std::mem::take(&mut part.is_first));
                    let events = Vec::new();
                    pending.batch.parts.push(PlanPart { plan, changed_ms, is_first, events, blobs, end: None });
                    self.write(pending).await?;
                }
            }
            pending.events += part.events.len();
            pending.bytes += bytes;
            pending.batch.parts.push(part);
            is_first = false;
            if is_last {
                pending.ended.push((plan.clone(), changed_ms));
            }
            if pending.events >= self.scheduler.settings.archive.batch_events || pending.bytes >= BATCH_BYTES {
                self.write(pending).await?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// The row of a plan that has ended with event `last_seq`.
    async fn plan_row(
        &self,
        plan: &PlanId,
        last_seq: u64,
        state: Option<&PlanState>,
    ) -> Result<Option<PlanRow>, ArchiverError> {
        let summary = self.scheduler.broker.summary(plan).await?;
        let text = |name: &str| summary.get(name).map(String::as_str);
        let time = |name: &str| text(name).and_then(parse_rfc3339);
        let is_whole = last_seq > 0 && text("seq").and_then(|seq| seq.parse().ok()) == Some(last_seq);
        let Some(finished_ms) = time("finished").filter(|_| is_whole) else { return Ok(None) };
        let (steps, revisions) = state.map(|state| (step_rows(state), revision_rows(state))).unwrap_or_default();
        Ok(Some(PlanRow {
            namespace: text("namespace").map_or_else(Namespace::default, Namespace::from),
            status: text("status").unwrap_or_default().to_owned(),
            name: text("name").unwrap_or_default().to_owned(),
            revision: text("revision").and_then(|revision| revision.parse().ok()).unwrap_or(0),
            events: last_seq,
            created_ms: time("created").unwrap_or(finished_ms),
            finished_ms,
            steps,
            revisions,
            summary,
        }))
    }

    /// Writes the batch, then lets the plans that it completes expire.
    async fn write(&mut self, pending: &mut PendingBatch) -> Result<(), ArchiverError> {
        let begun = Instant::now();
        if pending.batch.parts.is_empty() {
            return Ok(());
        }
        let shard = pending.batch.shard;
        self.store.append(&pending.batch).await?;
        counter!("goalmill_archive_events_total").increment(pending.events as u64);
        counter!("goalmill_archive_plans_total").increment(pending.ended.len() as u64);
        let PendingBatch { ended, .. } = std::mem::replace(pending, PendingBatch::new(shard));
        self.let_expire(shard, ended).await?;
        self.pause.wait(&self.scheduler, begun.elapsed()).await;
        Ok(())
    }

    /// Sets when the keys of archived plans expire: `scheduler.retention_ms` after their end.
    async fn let_expire(&mut self, shard: ShardId, plans: Vec<(PlanId, u64)>) -> Result<(), ArchiverError> {
        let (now_ms, retention_ms) = (self.scheduler.clock.now_ms(), self.scheduler.settings.scheduler.retention_ms);
        let after = |ended_ms: u64| ended_ms.saturating_add(retention_ms).saturating_sub(now_ms);
        let expiring: Vec<(PlanId, u64)> =
            plans.iter().map(|(plan, ended_ms)| (plan.clone(), after(*ended_ms))).collect();
        self.scheduler.broker.expire_plans(&expiring).await?;
        self.walks.get_mut(&shard).expect("the shard is walked").done.extend(plans);
        Ok(())
    }
}

impl PendingBatch {
    fn new(shard: ShardId) -> Self {
        let batch = ArchiveBatch { shard, parts: Vec::new(), position_ms: 0 };
        Self { batch, events: 0, bytes: 0, ended: Vec::new() }
    }
}

/// The events of log entries, and the state after them; without a state if they cannot be folded.
fn read_entries(
    mut state: Option<PlanState>,
    entries: &[LogEntry],
) -> Result<(Vec<EventRow>, Option<PlanState>), goalmill_common::event::LogError> {
    let mut events = Vec::new();
    for entry in entries {
        for record in event_log::parse_records(entry)? {
            let is_start = record.seq == 1;
            if (is_start || state.is_some()) && replay(&mut state, &record).is_err() {
                state = None;
            }
            events.push(EventRow::new(&record, entry.last_seq, record.to_line()));
        }
    }
    Ok((events, state))
}

fn step_rows(state: &PlanState) -> Vec<StepRow> {
    let time = |text: Option<String>| text.as_deref().and_then(parse_rfc3339);
    let steps = state.view(false).steps;
    let row = |step: goalmill_common::view::StepView| StepRow {
        step: step.id,
        agent_type: step.agent_type,
        action: step.action,
        status: step.status.as_str().to_owned(),
        attempts: step.attempt,
        phase: step.phase,
        started_ms: time(step.started_at),
        finished_ms: time(step.finished_at),
    };
    steps.into_iter().map(row).collect()
}

fn revision_rows(state: &PlanState) -> Vec<RevisionRow> {
    let rows = revise::revisions(state).iter().map(|record| RevisionRow {
        revision: record.revision,
        time_ms: record.time_ms,
        trigger: record.trigger.clone(),
        data: Json::from_value(record).text().to_owned(),
    });
    rows.map(|row| (row.revision, row)).collect::<BTreeMap<_, _>>().into_values().collect()
}

//! The interface of a back end: everything that the other packages may ask of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::id::{AgentType, AttemptToken, EntryId, Namespace, PlanId, ShardId, WorkerId};
use goalmill_common::keys::Keys;
use goalmill_common::shard_load::Loads;
use goalmill_common::status::PlanStatus;
use goalmill_common::wire::Fields;

use crate::{
    Broadcast, BrokerError, Claim, Commit, Committed, DeadLetter, Delivery, Entry, FieldsPage, Health, InboxCursor,
    InboxEntry, Install, Keeping, KeptEvent, KeptHead, LiveSchedulers, LogEntry, Meta, Ownership, ParkMark, QueueState,
    RefusedEntry, Registry, StreamResult,
};

type Result<T> = std::result::Result<T, BrokerError>;

/// How long cancelled attempts are stored, in milliseconds: longer than a task may wait for a worker.
pub(crate) const CANCELLED_MS: u64 = 25 * 3_600_000;
/// Answers and results are kept for so long, in milliseconds.
pub(crate) const ANSWERS_MS: u64 = 24 * 3_600_000;

/// A back end. Cheap to share; every method may be called from many tasks concurrently.
///
/// Methods that write are idempotent unless their docs deny it. A call that fails with [`BrokerError::Unavailable`] may
/// have had its effect. The back end itself never sends anything again.
#[async_trait]
pub trait Broker: Send + Sync + 'static {
    /// The keys of this installation.
    fn keys(&self) -> &Keys;

    // --- the installation -------------------------------------------------------------------------

    /// Checks the server, creates the installation when there is none, and returns it.
    ///
    /// After the first success a missing or different instance id is [`BrokerError::DataLost`], here and in
    /// [`Broker::check_health`]; nothing is re-created silently.
    async fn open(&self, install: &Install) -> Result<Meta>;
    /// Reads the installation, without creating one.
    async fn meta(&self) -> Result<Option<Meta>>;
    /// Checks that the back end answers, is safe, and has the same installation as before.
    async fn check_health(&self) -> Result<Health>;

    // --- ownership of shards ----------------------------------------------------------------------

    async fn owner(&self, shard: ShardId) -> Result<Option<Ownership>>;
    /// Acquires the shard if token and beat of its ownership are as the claimant saw them; commit number and beat start
    /// at 0. `true` also when `claim.token` owns the shard already, because a reply was lost; then nothing is reset.
    async fn acquire(&self, shard: ShardId, claim: &Claim) -> Result<bool>;
    /// Renews the ownership: the beat moves by 1, as with each applied commit. `false` when the token is not the owner's.
    async fn renew(&self, shard: ShardId, token: &str) -> Result<bool>;
    /// Releases the shard, if the token is the owner's.
    async fn release(&self, shard: ShardId, token: &str) -> Result<()>;

    /// Checks that commits can be written now: the server takes writes, all commands are permitted, and the
    /// installation's keys have the right types. A back end without such limits always succeeds.
    async fn probe(&self, _shards: u16) -> Result<()> {
        Ok(())
    }

    // --- the journal ------------------------------------------------------------------------------

    /// Writes one batch, whole or not at all. May be sent again after [`BrokerError::Unavailable`]; also when
    /// memory is short.
    async fn commit(&self, commit: &Commit) -> Result<Committed>;
    /// The last entries of its inbox that the shard has handled.
    async fn cursor(&self, shard: ShardId) -> Result<InboxCursor>;
    /// Plans of the shard that are not final.
    async fn active(&self, shard: ShardId) -> Result<Vec<PlanId>>;
    /// The log after event `after_seq`, at most `limit` entries, oldest first.
    async fn log(&self, plan: &PlanId, after_seq: u64, limit: usize) -> Result<Vec<LogEntry>>;
    /// The plan's summary; empty when there is no such plan. Its `seq` is the number of the log's last event.
    async fn summary(&self, plan: &PlanId) -> Result<BTreeMap<String, String>>;
    /// The statuses of these plans, in order; `None` for a plan that does not exist.
    async fn statuses(&self, plans: &[PlanId]) -> Result<Vec<Option<PlanStatus>>> {
        let mut statuses = Vec::with_capacity(plans.len());
        for plan in plans {
            let summary = self.summary(plan).await?;
            statuses.push(summary.get("status").and_then(|status| PlanStatus::parse(status)));
        }
        Ok(statuses)
    }
    /// The statuses of these plans with the fingerprints of what began them, in order.
    async fn begun(&self, plans: &[PlanId]) -> Result<Vec<Option<(PlanStatus, String)>>> {
        let mut begun = Vec::with_capacity(plans.len());
        for plan in plans {
            let mut summary = self.summary(plan).await?;
            let status = summary.get("status").and_then(|status| PlanStatus::parse(status));
            begun.push(status.map(|status| (status, summary.remove("fingerprint").unwrap_or_default())));
        }
        Ok(begun)
    }
    /// The marks in the summaries of these plans that hold, with the namespaces of the plans, in order; `None` for a plan
    /// whose log must be read.
    async fn park_marks(&self, plans: &[PlanId]) -> Result<Vec<Option<(ParkMark, Namespace)>>> {
        let mut marks = Vec::with_capacity(plans.len());
        for plan in plans {
            let mark = ParkMark::in_summary(&self.summary(plan).await?);
            marks.push(match mark {
                Some((mark, namespace)) if self.log(plan, mark.seq, 1).await?.is_empty() => Some((mark, namespace)),
                Some(_) | None => None,
            });
        }
        Ok(marks)
    }
    /// Plans of a shard, last changed first: those with an index below `before_ms`, at most `limit`.
    async fn plans(&self, shard: ShardId, before_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>>;
    /// Plans of a shard, first changed first: those with an index of `from_ms` or later, at most `limit`.
    async fn plans_since(&self, shard: ShardId, from_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>>;
    /// Lets logs and summaries of plans that are final expire, each after so many milliseconds; plans that do not exist are ignored.
    async fn expire_plans(&self, plans: &[(PlanId, u64)]) -> Result<()>;
    /// Removes index entries older than `before_ms` whose summary has expired. Returns how many.
    async fn sweep_index(&self, shard: ShardId, before_ms: u64) -> Result<u64>;

    // --- submissions ------------------------------------------------------------------------------

    /// Appends a submission; refused when memory is short. Not idempotent by itself: its `id` field is.
    async fn submit(&self, fields: &Fields) -> Result<EntryId>;
    /// The first entries of the stream of a namespace, at most `limit`. A back end that other programs cannot write to has
    /// none.
    async fn namespace_submissions(&self, _namespace: &Namespace, _limit: usize) -> Result<Vec<Entry>> {
        Ok(Vec::new())
    }
    /// Removes entries of the stream of a namespace.
    async fn remove_namespace_submissions(&self, _namespace: &Namespace, _ids: &[EntryId]) -> Result<()> {
        Ok(())
    }
    /// Moves submissions that were not acknowledged for `idle_ms` to `consumer`, and returns them.
    async fn reclaim_submissions(&self, consumer: &str, idle_ms: u64, limit: usize) -> Result<Vec<Entry>>;
    /// Schedulers that hold submissions which they have not acknowledged. Empty for a back end that does not know who is
    /// present.
    async fn submission_holders(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
    /// Moves submissions that `holder` has not touched for `idle_ms` to `consumer`, and returns them.
    async fn take_over_submissions(
        &self,
        _holder: &str,
        _consumer: &str,
        _idle_ms: u64,
        _limit: usize,
    ) -> Result<Vec<Entry>> {
        Ok(Vec::new())
    }
    /// Acknowledges submissions, and trims the stream.
    async fn acknowledge_submissions(&self, ids: &[EntryId]) -> Result<()>;
    /// Stores answers (submission id, JSON) for 24 h, but for those of submissions whose plan has ended and whose answer
    /// says so.
    async fn answer(&self, answers: &[(String, String)]) -> Result<()>;
    /// Reads answers, in the order asked for.
    async fn answers(&self, ids: &[String]) -> Result<Vec<Option<String>>>;
    /// Answers refused submissions, and lists them for a week; of many of a namespace the last ones. Not idempotent. A back
    /// end that other programs cannot write to lists nothing.
    async fn refuse(&self, refused: &[RefusedEntry]) -> Result<()> {
        let answers: Vec<_> = refused
            .iter()
            .flat_map(|refused| {
                let own = (refused.answered_as.clone(), refused.problem.clone());
                std::iter::once(own).chain(refused.other_answer.clone())
            })
            .collect();
        self.answer(&answers).await
    }
    /// The last refused submissions of a namespace, newest first, at most `limit`.
    async fn refused(&self, _namespace: &Namespace, _limit: usize) -> Result<Vec<Entry>> {
        Ok(Vec::new())
    }
    /// Whether a result is stored for this submission. A back end that other programs cannot write to needs none.
    async fn has_result(&self, _submission: &str) -> Result<bool> {
        Ok(true)
    }
    /// Stores a result for 24 h, unless there is one.
    async fn put_result(&self, _result: &StreamResult) -> Result<()> {
        Ok(())
    }
    /// Removes the results of submissions that were refused and are accepted now.
    async fn remove_results(&self, _submissions: &[String]) -> Result<()> {
        Ok(())
    }

    // --- events from outside ----------------------------------------------------------------------

    /// Keeps an event, unless its topic has one with the same id.
    async fn keep_event(&self, event: &KeptEvent) -> Result<Keeping>;
    /// The kept events of a topic without their data, in the order in which they came, at most `limit`.
    ///
    /// - `after`: [`KeptHead::place`] of the last one of the page before; empty for the first page.
    async fn kept_events(&self, namespace: &Namespace, topic: &str, after: &str, limit: usize)
    -> Result<Vec<KeptHead>>;
    /// A kept event as JSON; `None` if it is kept no longer.
    async fn kept_event(&self, namespace: &Namespace, topic: &str, head: &KeptHead) -> Result<Option<String>>;
    /// The kept events of the same topic that came at most `within_ms` before this one and that no plan has taken, oldest
    /// first; of many the last `limit`.
    async fn earlier_events(&self, event: &KeptEvent, within_ms: u64, limit: usize) -> Result<Vec<KeptHead>>;
    /// Notes that a plan has taken a kept event: plans that wait later get it too, but it does not count for
    /// [`KeptEvent::most`]. At most as many taken ones stay, the newest.
    async fn take_event(&self, event: &KeptEvent) -> Result<()>;
    /// Forgets a kept event.
    async fn forget_event(&self, event: &KeptEvent) -> Result<()>;
    /// How many events a namespace keeps that no plan has taken.
    async fn count_kept_events(&self, namespace: &Namespace) -> Result<u64>;
    /// Entries of the stream of events behind `after`, oldest first, at most `limit`. A back end that other programs
    /// cannot write to has none.
    async fn sent_events(&self, _after: &EntryId, _limit: usize) -> Result<Vec<Entry>> {
        Ok(Vec::new())
    }
    /// Removes entries of the stream of events.
    async fn remove_sent_events(&self, _ids: &[EntryId]) -> Result<()> {
        Ok(())
    }

    // --- inboxes ----------------------------------------------------------------------------------

    /// Appends reports to a shard's inbox. Not idempotent: receivers refuse duplicates.
    async fn send(&self, shard: ShardId, fields: &Fields) -> Result<()>;
    /// Appends a request of a scheduler to a shard's inbox, on the stream that workers cannot write. Not idempotent.
    async fn send_request(&self, shard: ShardId, fields: &Fields) -> Result<()>;

    // --- tasks ------------------------------------------------------------------------------------

    /// Creates the task stream and its group, from the stream's start, unless they exist.
    async fn open_queue(&self, agent_type: &AgentType) -> Result<()>;
    /// Extends the worker's leases; returns, in order, whether each is the worker's.
    async fn extend(&self, worker: &WorkerId, leases: &[(AgentType, EntryId)]) -> Result<Vec<bool>>;
    /// Reclaims at most `limit` tasks whose lease ran out, `idle_ms` after its last extension. Their consumer is then
    /// `reaper`, so that they are returned again after `idle_ms` unless they are acknowledged.
    async fn reclaim(&self, agent_type: &AgentType, idle_ms: u64, limit: usize) -> Result<Vec<Delivery>>;
    /// The entries of a task stream after `after`, oldest first, at most `limit`, delivered to a worker or not.
    async fn tasks(&self, agent_type: &AgentType, after: &EntryId, limit: usize) -> Result<Vec<Delivery>>;
    /// Removes entries that were not delivered to a worker. Returns how many.
    async fn discard_tasks(&self, agent_type: &AgentType, entries: &[EntryId]) -> Result<u64>;
    /// Trims the stream below the oldest entry that is needed, and removes consumers that were idle for an hour.
    async fn trim(&self, agent_type: &AgentType) -> Result<()>;
    /// The counts of every task stream.
    async fn queues(&self) -> Result<Vec<QueueState>>;
    /// Pauses or resumes a queue: schedulers send nothing new to a paused one. Its entries stay.
    async fn pause_queue(&self, agent_type: &AgentType, paused: bool) -> Result<()>;
    async fn paused_queues(&self) -> Result<BTreeSet<AgentType>>;

    /// Publishes the loads of these shards; the last value of a shard counts. A back end of one process may ignore it.
    async fn share_loads(&self, _loads: &[(ShardId, Loads)]) -> Result<()> {
        Ok(())
    }
    /// The loads that shards have published last.
    async fn loads(&self) -> Result<BTreeMap<ShardId, Loads>> {
        Ok(BTreeMap::new())
    }

    // --- cancellation -----------------------------------------------------------------------------

    /// Publishes these attempts to all workers, to be stopped, and stores them for 25 h for workers that missed it.
    async fn cancel(&self, tokens: &[AttemptToken]) -> Result<()>;
    /// The attempts that were cancelled in the last 25 h.
    async fn cancelled(&self) -> Result<Vec<AttemptToken>>;

    // --- registry ---------------------------------------------------------------------------------

    /// Registers an agent type, or changes it, and broadcasts that.
    async fn register(&self, agent: &Agent) -> Result<()>;
    async fn agents(&self) -> Result<Registry>;
    /// Removes an agent type and its queue, if only its name is known, no task waits or runs, it has no dead letters, and
    /// it got no task for `unused_ms`. Returns whether it was removed.
    async fn remove_agent_type(&self, agent_type: &AgentType, unused_ms: u64) -> Result<bool>;
    /// Records a worker's heartbeat at the back end's time, and returns that time, Unix milliseconds.
    async fn record_worker_heartbeat(&self, beat: &WorkerBeat) -> Result<u64>;
    /// Deregisters a worker and clears its drain request.
    async fn deregister_worker(&self, worker: &WorkerId) -> Result<()>;
    /// Asks a worker to drain; it checks with each heartbeat. The request expires after 24 h.
    async fn request_drain(&self, worker: &WorkerId) -> Result<()>;
    async fn drain_requested(&self, worker: &WorkerId) -> Result<bool>;
    /// The live workers, by [`WorkerBeat::is_live`]; one whose heartbeat has no interval is live for `within_ms`.
    async fn workers(&self, within_ms: u64) -> Result<Vec<WorkerBeat>>;
    /// Records a scheduler's heartbeat and returns those seen in the last `within_ms`.
    ///
    /// - `format`: of the logs that it writes. Among schedulers of another format a new one is not recorded. A back end of
    ///   one process may ignore it.
    async fn record_scheduler_heartbeat(&self, id: &str, format: u32, within_ms: u64) -> Result<LiveSchedulers>;
    async fn deregister_scheduler(&self, id: &str) -> Result<()>;
    /// Holds a connection open that shows other schedulers that this process lives; called with each heartbeat.
    async fn announce_presence(&self, _id: &str) -> Result<()> {
        Ok(())
    }
    /// Whether these schedulers hold such a connection, in order: it ends together with their process. Always `true` for a
    /// back end that does not know.
    async fn are_present(&self, ids: &[String]) -> Result<Vec<bool>> {
        Ok(vec![true; ids.len()])
    }

    // --- dead letters and blobs -------------------------------------------------------------------

    /// Appends a dead letter; about the last 10,000 of an agent type stay. Not idempotent.
    async fn add_dead_letter(&self, letter: &DeadLetter) -> Result<()>;
    /// The newest dead letters of an agent type.
    async fn dead_letters(&self, agent_type: &AgentType, limit: usize) -> Result<Vec<(EntryId, DeadLetter)>>;
    /// Removes a dead letter; `false` when it does not exist.
    async fn discard_dead_letter(&self, agent_type: &AgentType, entry: &EntryId) -> Result<bool>;
    /// Stores a payload under `key` for `ttl_ms`.
    async fn put_blob(&self, key: &str, bytes: &[u8], ttl_ms: u64) -> Result<()>;
    async fn get_blob(&self, key: &str) -> Result<Option<Vec<u8>>>;

    /// Removes a blob before its time.
    async fn remove_blob(&self, key: &str) -> Result<()>;

    // --- fields -----------------------------------------------------------------------------------

    /// Sets a field of the hash `key`; it stays until it is removed. Refused when memory is short.
    async fn put_field(&self, key: &str, field: &str, value: &str) -> Result<()>;
    /// Sets a field of the hash `key` unless it exists; `false` when it does. Refused when memory is short.
    async fn add_field(&self, key: &str, field: &str, value: &str) -> Result<bool>;
    async fn get_field(&self, key: &str, field: &str) -> Result<Option<String>>;
    /// All fields of the hash `key`.
    async fn fields(&self, key: &str) -> Result<BTreeMap<String, String>>;
    /// About `limit` fields of the hash `key`, in no order. Each one that is there all the time is in some page, perhaps in
    /// two.
    ///
    /// - `after`: [`FieldsPage::next`] of the page before; empty for the first page.
    async fn fields_page(&self, key: &str, after: &str, limit: usize) -> Result<FieldsPage>;
    /// Removes a field; `false` when it does not exist.
    async fn remove_field(&self, key: &str, field: &str) -> Result<bool>;

    // --- the result cache --------------------------------------------------------------------------

    /// Stores a step's outputs under a cache key for `ttl_ms`; the last write counts. Refused when memory is short.
    async fn cache_put(&self, cache_key: &str, outputs: &str, ttl_ms: u64) -> Result<()> {
        self.put_blob(&self.keys().cached_result(cache_key), outputs.as_bytes(), ttl_ms).await
    }
    /// The outputs under a cache key, if there are any.
    async fn cache_get(&self, cache_key: &str) -> Result<Option<String>> {
        let outputs = self.get_blob(&self.keys().cached_result(cache_key)).await?;
        Ok(outputs.and_then(|bytes| String::from_utf8(bytes).ok()))
    }

    // --- waiting ----------------------------------------------------------------------------------

    /// Opens a reader with a connection of its own.
    async fn reader(&self) -> Result<Box<dyn Reader>>;
}

/// Reads that wait: for `block_ms` milliseconds, or not at all when it is 0.
///
/// One reader serves one loop; its futures must be awaited, never dropped: a dropped read may have consumed entries.
/// Use its [`Waker`] to end a wait.
#[async_trait]
pub trait Reader: Send {
    /// Entries of a shard's inbox after `after`, at most `count` of each stream, in the order in which they were sent;
    /// waits up to `block_ms` for the first.
    async fn inbox(
        &mut self,
        shard: ShardId,
        after: &InboxCursor,
        count: usize,
        block_ms: u64,
    ) -> Result<Vec<InboxEntry>>;
    /// New submissions for this scheduler. The first call after opening, or after one that failed, returns those that it
    /// had received before and not acknowledged, if there are any. An entry that is gone has no fields.
    async fn submissions(&mut self, consumer: &str, count: usize, block_ms: u64) -> Result<Vec<Entry>>;
    /// New tasks for this worker, at most `count` in all; a missing queue is opened. Waits up to `block_ms` for the first.
    async fn pull(
        &mut self,
        worker: &WorkerId,
        agent_types: &[AgentType],
        count: usize,
        block_ms: u64,
    ) -> Result<Vec<Delivery>>;
    /// New entries of a plan's log after event `after_seq`; waits up to `block_ms` for the first.
    async fn log(&mut self, plan: &PlanId, after_seq: u64, limit: usize, block_ms: u64) -> Result<Vec<LogEntry>>;
    /// The broadcasts since the last call; the first call subscribes and returns immediately.
    async fn messages(&mut self, block_ms: u64) -> Result<Vec<Broadcast>>;
    /// Ends this reader's waits from elsewhere.
    fn waker(&self) -> Arc<dyn Waker>;
}

/// Ends a wait.
#[async_trait]
pub trait Waker: Send + Sync {
    /// Makes the reader's current wait, if any, return immediately with nothing.
    async fn wake(&self);
}

//! Membership: schedulers find each other by heartbeats and share the shards evenly.
//!
//! A scheduler takes a shard that has no owner, or whose token and beat have not changed for `shard_lease_ms` on this
//! process's monotonic clock. The clock of Redis is not used, so that a clock step moves no shard. The former owner may
//! still be alive: its next commit is fenced, because the token has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::{BrokerError, Claim, InboxCursor, LiveSchedulers, Ownership};
use goalmill_common::id::ShardId;
use goalmill_engine::{Cards, EngineContext};
use goalmill_shard::{ShardMessage, ShardState, Turns};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::fenced_commit::CommitMetrics;
use super::outbox::Outbox;
use super::presence::Presence;
use super::recover::RecoveredPlans;
use super::shard_loop::{LoopEnd, LoopIo, ShardLoop};
use super::takeover::CarefulTakeover;
use super::written_events::WrittenEvents;
use super::{OwnedShards, recover};
use crate::namespace_limits::ShardUse;
use crate::quarantine::{self, QuarantineRecord};
use crate::scheduler::{Scheduler, input_recording};

/// Messages that wait for a loop.
const MESSAGES_WAITING: usize = 4_096;
/// Wait after the first round that failed or followed a lost shard; it doubles up to a quarter of the time between
/// two heartbeats, so that work continues soon after the store does.
const RETRY: Duration = Duration::from_millis(50);

/// Keeps this scheduler's share of the shards running.
pub(crate) struct Membership {
    scheduler: Arc<Scheduler>,
    shards: Arc<OwnedShards>,
    running: BTreeMap<ShardId, Running>,
    /// Ownerships of other schedulers, and since when they have not changed.
    seen: BTreeMap<ShardId, (Ownership, Instant)>,
    /// Detects schedulers whose process has ended.
    presence: Presence,
    dead: BTreeSet<String>,
    /// The last token under which this process has taken each shard.
    tokens: BTreeMap<ShardId, String>,
    /// Notified when a loop ends: a lost shard is taken again immediately.
    ended: Arc<Notify>,
    /// Rounds in a row that failed or followed a lost shard.
    failures: u32,
    /// Whether schedulers of another build share the shards.
    is_waiting: bool,
    /// When the store confirmed a heartbeat last, by its time.
    confirmed_ms: Option<u64>,
}

struct Running {
    release: CancellationToken,
    /// Gives `None` if the loop panicked.
    task: JoinHandle<Option<LoopEnd>>,
}

impl Membership {
    pub(crate) fn new(scheduler: Arc<Scheduler>, shards: Arc<OwnedShards>) -> Self {
        Self {
            scheduler,
            shards,
            running: BTreeMap::new(),
            seen: BTreeMap::new(),
            presence: Presence::default(),
            dead: BTreeSet::new(),
            tokens: BTreeMap::new(),
            ended: Arc::default(),
            failures: 0,
            is_waiting: false,
            confirmed_ms: None,
        }
    }

    /// Runs until stopped, then releases all shards.
    pub(crate) async fn run(mut self) {
        let heartbeat = Duration::from_millis(self.scheduler.settings.scheduler.heartbeat_ms);
        let mut silent = false;
        while !self.scheduler.stop.is_cancelled() {
            let has_lost = self.collect_ended().await;
            let balanced = self.balance().await;
            self.failures = if has_lost || balanced.is_err() { self.failures.saturating_add(1) } else { 0 };
            match balanced {
                Ok(()) => silent = false,
                Err(error) if !silent => {
                    tracing::warn!("shards cannot be shared: {error}");
                    silent = true;
                }
                Err(_) => {}
            }
            self.pause(heartbeat).await;
        }
        self.leave().await;
    }

    /// Waits for the next heartbeat: for a shorter time while a scheduler may be dead or those of another build may end, or
    /// after a round that failed or followed a lost shard, because work stands still until the shard is taken again.
    async fn pause(&mut self, heartbeat: Duration) {
        let heartbeat = if self.presence.is_waiting() || self.is_waiting { heartbeat / 4 } else { heartbeat };
        let retry = RETRY.saturating_mul(2_u32.saturating_pow(self.failures.saturating_sub(1)));
        let heartbeat = if self.failures > 0 { retry.min(heartbeat / 4) } else { heartbeat };
        let jitter = self.scheduler.random.below(u64::try_from(heartbeat.as_millis() / 4).unwrap_or(0) + 1);
        let wait = heartbeat * 3 / 4 + Duration::from_millis(jitter);
        tokio::select! {
           biased;
            () = self.scheduler.stop.cancelled() => {}
            () = self.ended.notified(), if self.failures == 0 => {}
            () = tokio::time::sleep(wait) => {}
        }
    }

    /// One round: sends a heartbeat, takes shards of this share, releases the others. Nothing in a foreign installation.
    async fn balance(&mut self) -> Result<(), BrokerError> {
        let broker = self.scheduler.broker.clone();
        let checked = match self.scheduler.store_clock.check_store(broker.as_ref()).await {
            Ok(_) => self.scheduler.token_secret.keep(broker.as_ref()).await,
            Err(error) => Err(error),
        };
        if let Err(error) = checked {
            if matches!(error, BrokerError::DataLost(_)) {
                self.release_all();
            }
            return Err(error);
        }
        let alive = self.find_sharing().await?;
        let place = alive.iter().position(|id| *id == self.scheduler.id).unwrap_or(0);
        let is_ours = |n: u16| !alive.is_empty() && usize::from(n) % alive.len() == place;
        let shares: BTreeSet<ShardId> = (0..self.scheduler.shards).filter(|n| is_ours(*n)).map(ShardId).collect();
        for n in 0..self.scheduler.shards {
            let shard = ShardId(n);
            let ours = is_ours(n);
            match (ours, self.running.get(&shard)) {
                (true, None) => self.try_take(shard).await?,
                (false, Some(running)) => running.release.cancel(),
                (false, None) => self.observe(shard).await?,
                (true, Some(_)) => {}
            }
        }
        // Observations of a former owner are dropped when its shard is taken.
        let elsewhere = shares.iter().filter(|shard| self.seen.contains_key(shard)).copied().collect();
        self.shards.ownership.set(shares, elsewhere);
        Ok(())
    }

    /// Sends a heartbeat; returns who shares the shards, this scheduler among them. None while schedulers of another build
    /// share them: one of the two could not read the logs of the other.
    async fn find_sharing(&mut self) -> Result<Vec<String>, BrokerError> {
        let broker = self.scheduler.broker.as_ref();
        let settings = &self.scheduler.settings.scheduler;
        let (id, format) = (&self.scheduler.id, self.shards.log_format);
        let live = broker.record_scheduler_heartbeat(id, format, settings.shard_lease_ms).await?;
        let confirmed_ms = std::mem::replace(&mut self.confirmed_ms, live.now_ms);
        if let Some(confirmed_ms) = confirmed_ms.filter(|confirmed_ms| live.has_lost(*confirmed_ms)) {
            let lost_ms = live.before_ms.map(|before_ms| confirmed_ms - before_ms);
            self.shards.ownership.report_lost_writes(lost_ms);
            // What the loops remember is not what is stored.
            self.release_all();
        }
        let LiveSchedulers { mut sharing, others, .. } = live;
        broker.announce_presence(id).await?;
        let patience = Duration::from_millis(settings.heartbeat_ms) * 5 / 4;
        let all: Vec<String> = sharing.iter().chain(others.iter().map(|(other, _)| other)).cloned().collect();
        self.dead = self.presence.find_dead(broker, &all, patience).await?;
        for (other, _) in &others {
            // Its shards are taken when their leases have run out.
            if self.dead.remove(other) {
                broker.deregister_scheduler(other).await?;
            }
        }
        self.shards.ownership.set_builds(builds_text(format, sharing.is_empty(), &others));
        self.is_waiting = sharing.is_empty();
        // A scheduler whose presence is not seen yet lives all the same.
        sharing.retain(|other| other == id || !self.dead.contains(other));
        Ok(sharing)
    }

    /// Takes a shard of this share if it has no live owner.
    async fn try_take(&mut self, shard: ShardId) -> Result<(), BrokerError> {
        let owner = self.scheduler.broker.owner(shard).await?;
        if self.is_alive(shard, owner.as_ref()) { Ok(()) } else { self.acquire(shard, owner).await }
    }

    /// Observes the owner of another share, so that its silence counts from now.
    async fn observe(&mut self, shard: ShardId) -> Result<(), BrokerError> {
        let owner = self.scheduler.broker.owner(shard).await?;
        self.is_alive(shard, owner.as_ref());
        Ok(())
    }

    /// Records the observed owner of a shard; returns whether it has changed within a lease.
    ///
    /// An ownership of this scheduler without a loop, and one without a holder, belong to loops that have ended: their
    /// leases are not awaited.
    fn is_alive(&mut self, shard: ShardId, owner: Option<&Ownership>) -> bool {
        let Some(owner) = owner.filter(|owner| owner.holder != self.scheduler.id) else {
            self.seen.remove(&shard);
            return false;
        };
        if owner.holder.is_empty() {
            return false;
        }
        let lease = Duration::from_millis(self.scheduler.settings.scheduler.shard_lease_ms);
        match self.seen.get(&shard) {
            Some((seen, since)) if seen == owner => since.elapsed() < lease && !self.dead.contains(&owner.holder),
            Some(_) | None => {
                self.seen.insert(shard, (owner.clone(), Instant::now()));
                true
            }
        }
    }

    async fn acquire(&mut self, shard: ShardId, seen: Option<Ownership>) -> Result<(), BrokerError> {
        let token = self.scheduler.random.token();
        // By token and not by holder: a restarted process may have the same name.
        let is_orphaned = seen.as_ref().is_some_and(|owner| self.tokens.get(&shard) != Some(&owner.token));
        let claim = Claim { holder: self.scheduler.id.clone(), token: token.clone(), seen };
        if !self.scheduler.broker.acquire(shard, &claim).await? {
            return Ok(());
        }
        metrics::counter!("goalmill_shards_taken_total").increment(1);
        self.seen.remove(&shard);
        self.tokens.insert(shard, token.clone());
        let (to_loop, messages) = mpsc::channel(MESSAGES_WAITING);
        let release = CancellationToken::new();
        let (scheduler, shards) = (self.scheduler.clone(), self.shards.clone());
        let start = ShardStart { scheduler, shards, shard, token, is_orphaned, release: release.clone() };
        let ended = self.ended.clone();
        let task = self.scheduler.loops.spawn_ending(format!("shard {shard}"), async move {
            let end = start.run(to_loop, messages).await;
            ended.notify_one();
            end
        });
        self.running.insert(shard, Running { release, task });
        Ok(())
    }

    /// Collects loops that have ended; the next round takes their shards again. Returns whether a shard was lost.
    async fn collect_ended(&mut self) -> bool {
        let mut has_lost = false;
        let ended: Vec<ShardId> = self.running.iter().filter(|(_, r)| r.task.is_finished()).map(|(s, _)| *s).collect();
        for shard in ended {
            let Some(running) = self.running.remove(&shard) else { continue };
            match running.task.await {
                Ok(Some(LoopEnd::Released)) => tracing::info!(%shard, "shard {shard} was released"),
                Ok(Some(LoopEnd::Lost(why))) => {
                    self.shards.ownership.lose(shard, why.clone());
                    has_lost = true;
                    metrics::counter!("goalmill_shards_lost_total").increment(1);
                    tracing::warn!(%shard, "shard {shard} was lost: {why}");
                }
                // A new owner recovers it carefully, because this one died over it.
                Ok(None) | Err(_) => {}
            }
        }
        has_lost
    }

    fn release_all(&self) {
        for running in self.running.values() {
            running.release.cancel();
        }
    }

    async fn leave(&mut self) {
        self.release_all();
        for (shard, running) in std::mem::take(&mut self.running) {
            if let Err(error) = running.task.await {
                tracing::error!(%shard, "the loop of shard {shard} failed: {error}");
            }
        }
        if let Err(error) = self.scheduler.broker.deregister_scheduler(&self.scheduler.id).await {
            tracing::debug!("the scheduler could not be deregistered: {error}");
        }
    }
}

/// What schedulers of another build mean for this one; empty without such.
///
/// - `waits`: whether they share the shards, and not this one.
fn builds_text(format: u32, waits: bool, others: &[(String, u32)]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let names: Vec<String> = others.iter().map(|(id, format)| format!("{id} (log format {format})")).collect();
    let names = names.join(", ");
    if waits {
        format!(
            "this scheduler owns no shard, because it writes log format {format}, and these share the shards: {names}; \
             it takes the shards when they have ended"
        )
    } else {
        format!(
            "this scheduler writes log format {format}, and these run beside it: {names}; stop them, because they may \
             be unable to read its plans"
        )
    }
}

/// A shard that was just taken.
struct ShardStart {
    scheduler: Arc<Scheduler>,
    shards: Arc<OwnedShards>,
    shard: ShardId,
    token: String,
    /// Whether the previous owner died.
    is_orphaned: bool,
    release: CancellationToken,
}

/// The initial state of a new owner.
struct RecoveredShard {
    cursor: InboxCursor,
    plans: RecoveredPlans,
    takeover: Option<CarefulTakeover>,
    /// Number of the last commit under the token.
    number: u64,
}

impl ShardStart {
    /// Recovers the shard, carefully if the previous owner died.
    async fn recover(&self) -> Result<RecoveredShard, BrokerError> {
        let (scheduler, shard, broker) = (&self.scheduler, self.shard, self.scheduler.broker.as_ref());
        let cursor = broker.cursor(shard).await?;
        let mut record = QuarantineRecord::load(broker, shard).await?;
        let mut takeover = None;
        if self.is_orphaned {
            takeover = Some(
                CarefulTakeover::prepare(scheduler, self.shards.trial.as_ref(), shard, record.clone(), &cursor).await?,
            );
        } else if record.in_hand.take().is_some() {
            record.store(broker, shard).await?;
        }
        let known = takeover.as_mut().map_or(&mut record, CarefulTakeover::quarantine_record);
        scheduler.add_quarantined(known.quarantined.keys().cloned());
        let is_recorded =
            quarantine::record_in_logs(broker, shard, &self.token, known, scheduler.clock.now_ms()).await?;
        if is_recorded {
            known.store(broker, shard).await?;
        }
        let plans = recover::plans(scheduler, shard, takeover.as_mut()).await?;
        Ok(RecoveredShard { cursor, plans, takeover, number: u64::from(is_recorded) })
    }

    /// Recovers the shard and runs its loop.
    async fn run(self, to_loop: mpsc::Sender<ShardMessage>, messages: mpsc::Receiver<ShardMessage>) -> LoopEnd {
        let RecoveredShard { cursor, plans, mut takeover, number } = match self.recover().await {
            Ok(recovered) => recovered,
            Err(error) => return LoopEnd::Lost(error.to_string()),
        };
        let Self { scheduler, shards, shard, token, release, is_orphaned: _ } = self;
        let mut state = new_state(&scheduler, &shards, shard);
        let RecoveredPlans { states, parked } = plans;
        scheduler.replay_stats(scheduler.stats.with_notes(&states));
        state.add_parked(parked);
        let slots = state.add_recovered(states);
        for slot in slots {
            let plan = state.id_at(slot).cloned();
            match (&mut takeover, plan) {
                (Some(takeover), Some(plan)) if state.is_busy(slot) => takeover.waiting.push_back((slot, plan)),
                (Some(_) | None, _) => state.resume_plan(slot),
            }
        }
        tracing::info!(%shard, plans = state.plans_count(), "shard {shard} is ours, with {} running plans", state.plans_count());
        shards.insert(shard, to_loop.clone());
        let heartbeat = Duration::from_millis(scheduler.settings.scheduler.heartbeat_ms);
        let turns = Turns::new(state, token.clone(), number, heartbeat, Duration::ZERO);
        let window_changes = scheduler.directory.window_changes();
        scheduler.namespaces.iter().for_each(|limits| limits.listen(&window_changes));
        let outbox = Outbox { scheduler: scheduler.clone(), to_loop, searches: Arc::default() };
        let shard_loop = ShardLoop {
            scheduler,
            shards: shards.clone(),
            shard,
            token,
            turns,
            cursor,
            messages,
            window_changes,
            outbox,
            release,
            takeover,
            metrics: CommitMetrics::new(),
            io: LoopIo::default(),
            begun: Instant::now(),
        };
        let end = shard_loop.run().await;
        shards.remove(shard);
        end
    }
}

/// The state of a shard without plans.
fn new_state(scheduler: &Arc<Scheduler>, shards: &OwnedShards, shard: ShardId) -> ShardState {
    let context = EngineContext {
        judge_model: scheduler.planners.judge().is_some(),
        limits: scheduler.settings.limits.clone(),
        policy: scheduler.policy.as_ref().clone(),
        cards: Cards::from_lookup(scheduler.directory.clone()),
        hooks: scheduler.hooks.decided_points(),
        task_lease_ms: scheduler.settings.scheduler.task_lease_ms,
        reply: scheduler.broker.keys().reports(shard),
        callback_base: scheduler.settings.api.callback_url.trim_end_matches('/').to_owned(),
        token_key: scheduler.token_secret.key(),
        recording: input_recording(&scheduler.settings.record, scheduler.broker.keys(), shard),
    };
    let retention_ms = scheduler.retention_ms();
    let mut state = ShardState::new(shard, context, scheduler.clock.clone(), scheduler.random.clone(), retention_ms);
    state.set_keys(scheduler.broker.keys().clone());
    state.set_parking(scheduler.settings.scheduler.park_ms);
    state.set_quarantined(scheduler.quarantined_plans());
    scheduler.namespaces.iter().for_each(|limits| state.limit_namespaces(Box::new(ShardUse::new(limits.clone()))));
    state.use_engine(scheduler.engine);
    let marker = shards.decisions.register(shard);
    state.set_observer(Box::new(WrittenEvents::new(scheduler.clone(), marker)));
    state
}

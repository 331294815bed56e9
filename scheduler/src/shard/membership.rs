//! Which shards run here: schedulers find each other by heartbeats and share the shards evenly.
//!
//! A shard is taken when nobody owns it, or when its owner's token and beat have not moved for `shard_lease_ms` on
//! this process's monotonic clock. Redis's clock plays no part, so that a stepped clock moves no shard. The old
//! owner may still be alive: its next commit is refused, because the token has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::{BrokerError, Claim, Ownership};
use goalmill_common::id::{EntryId, ShardId};
use goalmill_common::keys;
use goalmill_engine::{Context, PlanState};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::caution::Caution;
use super::owned::Owned;
use super::presence::Presence;
use super::run::{End, Loop};
use super::{Loops, Poison, poison, recover};
use crate::outcomes;
use crate::site::Site;

/// Inputs from within the process that wait for a loop.
const LOCALS_WAITING: usize = 4_096;

/// Keeps this scheduler's share of the shards running.
pub(crate) struct Membership {
    site: Arc<Site>,
    loops: Loops,
    running: BTreeMap<ShardId, Running>,
    /// Foreign ownerships, and since when they have not moved.
    seen: BTreeMap<ShardId, (Ownership, Instant)>,
    /// Schedulers whose process has ended, by their connections.
    presence: Presence,
    gone: BTreeSet<String>,
    /// The last token under which this process has taken each shard.
    tokens: BTreeMap<ShardId, String>,
}

struct Running {
    release: CancellationToken,
    task: JoinHandle<End>,
}

impl Membership {
    pub(crate) fn new(site: Arc<Site>, loops: Loops) -> Self {
        Self {
            site,
            loops,
            running: BTreeMap::new(),
            seen: BTreeMap::new(),
            presence: Presence::default(),
            gone: BTreeSet::new(),
            tokens: BTreeMap::new(),
        }
    }

    /// Runs until stopped, then gives all shards up.
    pub(crate) async fn run(mut self) {
        let heartbeat = Duration::from_millis(self.site.settings.scheduler.heartbeat_ms);
        let mut silent = false;
        while !self.site.stop.is_cancelled() {
            self.collect_ended().await;
            match self.share().await {
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

    /// Waits for the next heartbeat; less long while it is not clear who is still there.
    async fn pause(&mut self, heartbeat: Duration) {
        let heartbeat = if self.presence.is_waiting() { heartbeat / 4 } else { heartbeat };
        let jitter = self.site.random.below(u64::try_from(heartbeat.as_millis() / 4).unwrap_or(0) + 1);
        let wait = heartbeat * 3 / 4 + Duration::from_millis(jitter);
        tokio::select! {
           biased;
            () = self.site.stop.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }

    /// One round: show life, take what is ours, give up what is not; nothing in an installation we do not know.
    async fn share(&mut self) -> Result<(), BrokerError> {
        let broker = self.site.broker.clone();
        if let Err(error) = broker.check().await {
            if matches!(error, BrokerError::DataLost(_)) {
                self.give_up_all();
            }
            return Err(error);
        }
        let settings = &self.site.settings.scheduler;
        let mut alive = broker.beat_scheduler(&self.site.id, settings.shard_lease_ms).await?;
        let patience = Duration::from_millis(settings.heartbeat_ms) * 5 / 4;
        broker.show_presence(&self.site.id).await?;
        self.gone = self.presence.look(broker.as_ref(), &alive, patience).await?;
        alive.retain(|id| !self.gone.contains(id));
        let place = alive.iter().position(|id| *id == self.site.id).unwrap_or(0);
        let is_ours = |n: u16| usize::from(n) % alive.len().max(1) == place;
        let shares: BTreeSet<ShardId> = (0..self.site.shards).filter(|n| is_ours(*n)).map(ShardId).collect();
        for n in 0..self.site.shards {
            let shard = ShardId(n);
            let ours = is_ours(n);
            match (ours, self.running.get(&shard)) {
                (true, None) => self.try_take(shard).await?,
                (false, Some(running)) => running.release.cancel(),
                (false, None) => self.observe(shard).await?,
                (true, Some(_)) => {}
            }
        }
        // What was seen of a foreign owner is forgotten when its shard is taken.
        let elsewhere = shares.iter().filter(|shard| self.seen.contains_key(shard)).copied().collect();
        self.site.share.set(shares, elsewhere);
        Ok(())
    }

    /// Takes a shard that is ours if nobody owns it, or if its owner has shown no life for a whole lease.
    async fn try_take(&mut self, shard: ShardId) -> Result<(), BrokerError> {
        let owner = self.site.broker.owner(shard).await?;
        if self.is_alive(shard, owner.as_ref()) { Ok(()) } else { self.take(shard, owner).await }
    }

    /// Looks at a shard of another scheduler, so that its silence counts from now and not from its successor's turn.
    async fn observe(&mut self, shard: ShardId) -> Result<(), BrokerError> {
        let owner = self.site.broker.owner(shard).await?;
        self.is_alive(shard, owner.as_ref());
        Ok(())
    }

    /// Notes what was seen of a shard's owner; says whether it has moved within a lease.
    ///
    /// An ownership of our own without a loop is a loop that has ended, and one without a holder that of a process that
    /// has: neither lease is awaited.
    fn is_alive(&mut self, shard: ShardId, owner: Option<&Ownership>) -> bool {
        let Some(owner) = owner.filter(|owner| owner.holder != self.site.id) else {
            self.seen.remove(&shard);
            return false;
        };
        if owner.holder.is_empty() {
            return false;
        }
        let lease = Duration::from_millis(self.site.settings.scheduler.shard_lease_ms);
        match self.seen.get(&shard) {
            Some((seen, since)) if seen == owner => since.elapsed() < lease && !self.gone.contains(&owner.holder),
            Some(_) | None => {
                self.seen.insert(shard, (owner.clone(), Instant::now()));
                true
            }
        }
    }

    async fn take(&mut self, shard: ShardId, seen: Option<Ownership>) -> Result<(), BrokerError> {
        let token = self.site.random.token();
        // Not by the name of the holder: a process that was started again may have the name that it had before.
        let is_orphaned = seen.as_ref().is_some_and(|owner| self.tokens.get(&shard) != Some(&owner.token));
        let claim = Claim { holder: self.site.id.clone(), token: token.clone(), seen };
        if !self.site.broker.acquire(shard, &claim).await? {
            return Ok(());
        }
        self.seen.remove(&shard);
        self.tokens.insert(shard, token.clone());
        let (to_self, locals) = mpsc::channel(LOCALS_WAITING);
        let release = CancellationToken::new();
        let (site, loops) = (self.site.clone(), self.loops.clone());
        let begin = Begin { site, loops, shard, token, is_orphaned, release: release.clone() };
        let task = self.site.tasks.spawn(begin.run(to_self, locals));
        self.running.insert(shard, Running { release, task });
        Ok(())
    }

    /// Notes the loops that have ended; the next round takes their shards again, if they are still ours.
    async fn collect_ended(&mut self) {
        let ended: Vec<ShardId> = self.running.iter().filter(|(_, r)| r.task.is_finished()).map(|(s, _)| *s).collect();
        for shard in ended {
            let Some(running) = self.running.remove(&shard) else { continue };
            match running.task.await {
                Ok(End::Released) => tracing::info!(%shard, "shard {shard} was given up"),
                Ok(End::Lost(why)) => {
                    self.site.share.lose(shard, why.clone());
                    metrics::counter!("goalmill_shards_lost_total").increment(1);
                    tracing::warn!(%shard, "shard {shard} was lost: {why}");
                }
                Err(error) => tracing::error!(%shard, "the loop of shard {shard} failed: {error}"),
            }
        }
    }

    fn give_up_all(&self) {
        for running in self.running.values() {
            running.release.cancel();
        }
    }

    async fn leave(&mut self) {
        self.give_up_all();
        for (shard, running) in std::mem::take(&mut self.running) {
            if let Err(error) = running.task.await {
                tracing::error!(%shard, "the loop of shard {shard} failed: {error}");
            }
        }
        if let Err(error) = self.site.broker.forget_scheduler(&self.site.id).await {
            tracing::debug!("no good-bye: {error}");
        }
    }
}

/// A shard that was just taken.
struct Begin {
    site: Arc<Site>,
    loops: Loops,
    shard: ShardId,
    token: String,
    /// Whether the owner before died.
    is_orphaned: bool,
    release: CancellationToken,
}

/// What a new owner starts from.
struct Recovered {
    cursor: EntryId,
    plans: Vec<PlanState>,
    caution: Option<Caution>,
    /// Number of the last commit under the token.
    number: u64,
}

impl Begin {
    /// Reads the shard back, after a dead owner with care.
    async fn recover(&self) -> Result<Recovered, BrokerError> {
        let (site, shard, broker) = (&self.site, self.shard, self.site.broker.as_ref());
        let cursor = broker.cursor(shard).await?;
        let mut poison = Poison::read(broker, shard).await?;
        let mut caution = None;
        if self.is_orphaned {
            caution = Some(Caution::prepare(site, shard, poison.clone(), &cursor).await?);
        } else if poison.in_hand.take().is_some() {
            poison.write(broker, shard).await?;
        }
        let known = caution.as_mut().map_or(&mut poison, Caution::poison);
        site.keep_out(known.quarantined.keys().cloned());
        let is_recorded = poison::record(broker, shard, &self.token, known, site.clock.now_ms()).await?;
        if is_recorded {
            known.write(broker, shard).await?;
        }
        let plans = recover::plans(site, shard, caution.as_mut()).await?;
        Ok(Recovered { cursor, plans, caution, number: u64::from(is_recorded) })
    }

    /// Rebuilds the shard's state and runs its loop.
    async fn run(self, to_self: mpsc::Sender<super::Local>, locals: mpsc::Receiver<super::Local>) -> End {
        let Recovered { cursor, plans, mut caution, number } = match self.recover().await {
            Ok(recovered) => recovered,
            Err(error) => return End::Lost(error.to_string()),
        };
        let Self { site, loops, shard, token, release, is_orphaned: _ } = self;
        let context = Context {
            limits: site.settings.limits.clone(),
            policy: site.policy.as_ref().clone(),
            task_lease_ms: site.settings.scheduler.task_lease_ms,
            reply: keys::reports(shard),
        };
        let retention_ms = site.settings.scheduler.retention_ms;
        let mut owned = Owned::new(shard, context, site.clock.clone(), site.random.clone(), retention_ms);
        if !site.hooks.is_empty() {
            owned.tell_hooks();
        }
        owned.leave_alone(site.left_alone());
        if site.traces.is_some() {
            owned.trace();
        }
        owned.tell_outcomes(site.outcomes.clone());
        owned.tell_watchdog(site.hands.of(shard));
        owned.decide_with(site.decide);
        outcomes::remember(&site, &plans);
        let slots = owned.hold_all(plans);
        for slot in slots {
            let plan = owned.plan(slot).cloned();
            match (&mut caution, plan) {
                (Some(caution), Some(plan)) if owned.is_busy(slot) => caution.waiting.push_back((slot, plan)),
                (Some(_) | None, _) => owned.begin(slot),
            }
        }
        tracing::info!(%shard, plans = owned.len(), "shard {shard} is ours, with {} running plans", owned.len());
        loops.insert(shard, to_self.clone());
        let commit_seconds = metrics::histogram!("goalmill_commit_seconds");
        let window_changes = site.directory.window_changes();
        let made = Loop {
            site,
            shard,
            token,
            number,
            owned,
            cursor,
            locals,
            window_changes,
            to_self,
            release,
            commit_seconds,
            left_over: Vec::new(),
            caution,
            let_in: None,
        };
        let end = made.run().await;
        loops.remove(shard);
        end
    }
}

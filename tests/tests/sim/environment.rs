//! The environment of a run: the server, its faults, the auditor and the trace.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use goalmill_broker::embedded::{Embedded, Snapshot};
use goalmill_broker::{Broker, BrokerError, Commit, Committed, Delivery, InboxCursor};
use goalmill_common::clock::{Clock, parse_rfc3339};
use goalmill_common::event::{read_entry, write_entry};
use goalmill_common::id::{AgentType, EntryId, ShardId, WorkerId};
use goalmill_common::wire::{Fields, Inbox, InboxStream};
use goalmill_engine::TokenKey;
use goalmill_spec::Does;
use tokio::time::Instant;

use crate::auditor::{AuditState, Auditor};
use crate::faults::{Fate, Faults};
use crate::rng::Rng;
use crate::scripted_agents::ScriptedAgents;
use crate::trace::Trace;

/// A bug of the network or the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkBug {
    /// Commits are written whoever sends them and whatever they follow.
    FenceAndSequence,
    /// The cursor moves when an entry is read, not in the commit that deals with it.
    CursorInCommit,
    /// Marks of parked plans are believed although their logs go on.
    OutdatedMark,
}

/// Calls after which a run counts as a livelock.
const CALLS_MAX: u64 = 400_000;

/// The start of virtual time, Unix milliseconds.
const BEGIN_MS: u64 = 1_800_000_000_000;

pub struct Environment {
    pub broker: Embedded,
    pub clock: Clock,
    pub faults: Faults,
    pub network_bug: Option<NetworkBug>,
    injects_faults: AtomicBool,
    epoch: AtomicU64,
    calls: AtomicU64,
    rng: Rng,
    auditor: Mutex<Auditor>,
    agents: Mutex<ScriptedAgents>,
    trace: Mutex<Trace>,
}

/// A snapshot of the server and of the auditor.
#[derive(Clone)]
pub struct ServerSnapshot {
    server: Snapshot,
    audit_state: AuditState,
    agents: ScriptedAgents,
}

impl Environment {
    pub fn new(rng: &Rng, faults: Faults, network_bug: Option<NetworkBug>, verbose: bool) -> Self {
        let begun = Instant::now();
        let clock = Clock::from_fn(move || {
            BEGIN_MS + u64::try_from(begun.elapsed().as_millis()).expect("a run is shorter than that")
        });
        Self {
            broker: Embedded::in_memory(clock.clone()).expect("there is no file to fail"),
            clock,
            faults,
            network_bug,
            injects_faults: AtomicBool::new(true),
            epoch: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            rng: rng.split(),
            auditor: Mutex::default(),
            agents: Mutex::default(),
            trace: Mutex::new(Trace::new(verbose)),
        }
    }

    pub fn auditor(&self) -> MutexGuard<'_, Auditor> {
        self.auditor.lock().expect("nobody panics with it")
    }

    pub fn agents(&self) -> MutexGuard<'_, ScriptedAgents> {
        self.agents.lock().expect("nobody panics with it")
    }

    pub fn trace(&self) -> MutexGuard<'_, Trace> {
        self.trace.lock().expect("nobody panics with it")
    }

    /// Milliseconds since the start.
    pub fn at_ms(&self) -> u64 {
        self.clock.now_ms() - BEGIN_MS
    }

    /// Ends fault injection.
    pub fn calm(&self) {
        self.injects_faults.store(false, Ordering::Relaxed);
    }

    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Draws the fate of the next call, and its delay in milliseconds.
    pub fn fate(&self) -> (Fate, u64) {
        let calls = 1 + self.calls.fetch_add(1, Ordering::Relaxed);
        assert!(calls < CALLS_MAX, "{calls} calls within {} ms: it is a livelock", self.at_ms());
        if self.injects_faults.load(Ordering::Relaxed) {
            (self.faults.fate(&self.rng), self.faults.delay_ms(&self.rng))
        } else {
            (Fate::Well, Faults::default().delay_ms(&self.rng))
        }
    }

    /// For how long a process stands still in the middle of a commit, if it does: then another owner may be faster.
    pub fn stops_in_commit(&self) -> Option<u64> {
        let may = self.injects_faults.load(Ordering::Relaxed) && self.faults.pauses;
        (may && self.rng.permille(12)).then(|| self.rng.between(2_000, 7_000))
    }

    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Carries out what a process asks to be written.
    pub async fn commit(&self, commit: &Commit) -> Result<Committed, BrokerError> {
        let forged;
        let commit = if self.network_bug == Some(NetworkBug::FenceAndSequence) {
            forged = self.unfenced(commit).await?;
            &forged
        } else {
            commit
        };
        let done = self.broker.commit(commit).await?;
        let secrets = self.broker.fields(&self.broker.keys().secrets()).await?;
        let mut auditor = self.auditor();
        auditor.token_key = secrets.values().next().map(|secret| TokenKey::new(secret)).or(auditor.token_key);
        auditor.count(match done {
            Committed::Applied => "applied",
            Committed::Duplicate => "duplicate",
            Committed::Fenced => "fenced",
            Committed::Gap(_) => "gap",
        });
        if done == Committed::Applied {
            auditor.applied(commit, self.clock.now_ms());
        }
        drop(auditor);
        if done == Committed::Applied && self.agents().has_plans() {
            self.agents().applied(commit, self.clock.now_ms());
        }
        Ok(done)
    }

    /// The commit as a server without fence and sequence check would take it.
    async fn unfenced(&self, commit: &Commit) -> Result<Commit, BrokerError> {
        let mut commit = commit.clone();
        let Some(owner) = self.broker.owner(commit.shard).await? else { return Ok(commit) };
        let auditor = self.auditor();
        commit.number = auditor.number(commit.shard, &owner.token) + 1;
        commit.token = owner.token;
        for write in &mut commit.plans {
            let count = write.last_seq - write.base_seq;
            write.base_seq = auditor.seq(&write.plan);
            write.last_seq = write.base_seq + count;
            if write.events.is_empty() {
                continue;
            }
            let time_ms = parse_rfc3339(&write.time).expect("commits carry a time");
            let records = read_entry(&String::from_utf8_lossy(&write.events), time_ms).expect("commits carry events");
            write.events = write_entry(&renumbered(records, write.base_seq));
        }
        Ok(commit)
    }

    pub async fn cursor(&self, shard: ShardId) -> Result<InboxCursor, BrokerError> {
        if self.network_bug == Some(NetworkBug::CursorInCommit)
            && let Some(read) = self.auditor().read_to(shard)
        {
            return Ok(read);
        }
        self.broker.cursor(shard).await
    }

    pub async fn send(&self, shard: ShardId, fields: &Fields) -> Result<(), BrokerError> {
        self.broker.send(shard, fields).await?;
        if let Inbox::Reports(reports) = Inbox::from_fields(InboxStream::Reports, fields) {
            self.auditor().sent(shard, fields, &reports);
        }
        Ok(())
    }

    /// Extends leases, but for those of attempts that are to be lost.
    pub async fn extend(&self, worker: &WorkerId, leases: &[(AgentType, EntryId)]) -> Result<Vec<bool>, BrokerError> {
        let are_kept: Vec<bool> = leases.iter().map(|lease| !self.is_to_be_lost(lease)).collect();
        let kept = leases.iter().zip(&are_kept).filter(|(_, is_kept)| **is_kept).map(|(lease, _)| lease.clone());
        let mut extended = self.broker.extend(worker, &kept.collect::<Vec<_>>()).await?.into_iter();
        Ok(are_kept.into_iter().map(|is_kept| is_kept && extended.next().unwrap_or(false)).collect())
    }

    fn is_to_be_lost(&self, lease: &(AgentType, EntryId)) -> bool {
        let Some((plan, step, attempt)) = self.auditor().attempt(lease) else { return false };
        self.agents().act(&plan, &step, attempt).is_some_and(|act| act.does == Does::Lost)
    }

    pub fn delivered(&self, deliveries: &[Delivery]) {
        self.auditor().delivered(deliveries);
    }

    pub fn past(&self) -> ServerSnapshot {
        let agents = self.agents().clone();
        ServerSnapshot { server: self.broker.snapshot(), audit_state: self.auditor().keep(), agents }
    }

    /// The server is what it was: every connection breaks. Says whether it still holds the same installation.
    pub async fn turn_back(&self, past: &ServerSnapshot) -> bool {
        let before = self.broker.meta().await.expect("looking never fails");
        self.broker.restore(&past.server);
        self.auditor().turn_back(past.audit_state.clone());
        self.agents().clone_from(&past.agents);
        self.epoch.fetch_add(1, Ordering::Relaxed);
        self.auditor().count("turned back");
        before.is_none() || self.broker.meta().await.expect("looking never fails") == before
    }
}

fn renumbered(mut records: Vec<goalmill_common::event::Record>, base_seq: u64) -> Vec<goalmill_common::event::Record> {
    for (record, seq) in records.iter_mut().zip(base_seq + 1..) {
        record.seq = seq;
    }
    records
}

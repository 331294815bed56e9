//! Writes one batch of one shard with one call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use goalmill_common::id::{AgentType, EntryId, ShardId};
use goalmill_common::keys::{self, Keys};
use redis::cmd;

use super::Result;
use super::connections::Connections;
use super::functions::Function;
use crate::verbs::ANSWERS_MS;
use crate::{Activity, BrokerError, Commit, Committed, KeyTypeMismatch, StreamResult};

/// The longest time Redis may keep something, in milliseconds: ten years.
pub(super) const RETENTION_MS_MAX: u64 = 10 * 365 * 24 * 3_600_000;

/// The longest wait for a replica to confirm that it has a plan, in milliseconds.
const REPLICA_WAIT_MS: u64 = 1_000;

impl Connections {
    pub(super) async fn commit(&self, commit: &Commit) -> Result<Committed> {
        if let Some(gap) = find_gap(commit) {
            return Ok(Committed::Gap(gap));
        }
        let keys = self.commit_keys(commit);
        let answer: String = self.commits(commit.shard).call(&call(commit, &keys)).await?;
        let committed = match answer.split_once(' ').unwrap_or((answer.as_str(), "")) {
            ("OK", _) => Committed::Applied,
            ("DUP", _) => Committed::Duplicate,
            ("FENCED", _) => Committed::Fenced,
            ("GAP", why) => Committed::Gap(why.to_owned()),
            ("TYPE", found) => return Err(BrokerError::WrongType(type_mismatches(found, &keys))),
            _ => return Err(BrokerError::Corrupt(format!("a commit was answered with `{answer}`"))),
        };
        let begins = commit.plans.iter().any(|plan| plan.activity == Activity::Begins);
        if begins && matches!(committed, Committed::Applied | Committed::Duplicate) {
            self.await_replica(commit, &committed).await?;
        }
        Ok(committed)
    }

    /// The keys that a commit touches, in the order in which the function takes them.
    fn commit_keys(&self, commit: &Commit) -> Vec<String> {
        let mut keys = Vec::from(shard_keys(&self.keys, commit.shard));
        for plan in &commit.plans {
            let summary = self.keys.plan(&plan.plan);
            keys.push(keys::events_of(&summary));
            keys.push(summary);
        }
        let agent_types: BTreeSet<_> = agent_types(commit).collect();
        keys.extend(agent_types.into_iter().map(|agent_type| self.task_stream(agent_type)));
        for result in results(commit) {
            keys.push(self.keys.result(&result.submission));
            keys.push(self.keys.answer(&result.submission));
        }
        keys
    }

    /// Waits until a replica has what was committed, where the server is set up to refuse writes without replicas.
    ///
    /// The server looks at its replicas before a write only. A replica that is promoted at that moment never gets it.
    async fn await_replica(&self, commit: &Commit, committed: &Committed) -> Result<()> {
        if !self.needs_replicas.load(Ordering::Relaxed) {
            return Ok(());
        }
        let connection = self.commits(commit.shard);
        if *committed == Committed::Duplicate {
            // WAIT is about the last write of this connection, and the commit may have come over another one.
            connection.call::<bool>(Function::Renew.on(&[self.keys.owner(commit.shard)]).arg(&commit.token)).await?;
        }
        let replicas: u64 = connection.ask(cmd("WAIT").arg(1).arg(REPLICA_WAIT_MS)).await?;
        if replicas > 0 {
            return Ok(());
        }
        Err(BrokerError::refused("NOREPLICAS", "no replica has confirmed the write"))
    }
}

/// Parses `number found wanted …`; numbers count the keys from 1.
pub(super) fn type_mismatches(found: &str, keys: &[String]) -> Vec<KeyTypeMismatch> {
    let words: Vec<&str> = found.split(' ').collect();
    let read = |words: &[&str]| {
        let [number, found, wanted] = words else { return None };
        let key = keys.get(number.parse::<usize>().ok()?.checked_sub(1)?)?.clone();
        Some(KeyTypeMismatch { key, found: (*found).to_owned(), wanted: (*wanted).to_owned() })
    };
    words.chunks(3).filter_map(read).collect()
}

/// What does not follow, as far as it can be checked without Redis.
fn find_gap(commit: &Commit) -> Option<String> {
    let mut seen = BTreeSet::new();
    if let Some(cursor) = commit.cursor.iter().chain(&commit.requests_cursor).find(|cursor| !is_entry_id(cursor)) {
        return Some(format!("the cursor `{cursor}` is not an entry's id"));
    }
    commit.plans.iter().find_map(|plan| {
        if !plan.goes_on() {
            return Some(format!("plan `{}` would go from {} to {}", plan.plan, plan.base_seq, plan.last_seq));
        }
        (!seen.insert(&plan.plan)).then(|| format!("plan `{}` is written twice", plan.plan))
    })
}

/// The keys of a shard, in the order in which functions take them.
pub(super) fn shard_keys(keys: &Keys, shard: ShardId) -> [String; 7] {
    [
        keys.owner(shard),
        keys.active(shard),
        keys.index(shard),
        keys.cursor(shard),
        keys.reports(shard),
        keys.requests_cursor(shard),
        keys.requests(shard),
    ]
}

/// The agent types whose queues a commit touches, with repetitions.
fn agent_types(commit: &Commit) -> impl Iterator<Item = &AgentType> {
    let types = commit.tasks.iter().map(|task| &task.agent_type);
    types.chain(commit.acknowledged.iter().map(|(agent_type, _)| agent_type))
}

/// Builds the call; `functions.lua` says what goes where.
fn call(commit: &Commit, keys: &[String]) -> redis::Cmd {
    let streams = Streams::new(commit);
    let (count, bytes) = room(commit, keys);
    let mut call = Function::Commit.sized(keys, count, bytes);
    call.arg(&commit.token)
        .arg(commit.number)
        .arg(commit.cursor.as_ref().map_or("", EntryId::as_str))
        .arg(u8::from(commit.full_check))
        .arg(commit.plans.len())
        .arg(commit.tasks.len())
        .arg(streams.places.len())
        .arg(commit.requests_cursor.as_ref().map_or("", EntryId::as_str));
    let mut time = "";
    for plan in &commit.plans {
        let flags = Flags {
            activity: plan.activity,
            has_base: !plan.follows || commit.full_check,
            is_indexed: plan.index_ms > 0,
            has_time: plan.time != time,
            values: 2 * plan.summary.len(),
        };
        call.arg(flags.number()).arg(plan.last_seq).arg(&plan.events);
        if flags.has_base {
            call.arg(plan.base_seq);
        }
        if let Activity::Ends { retention_ms } = plan.activity {
            call.arg(retention_ms.min(RETENTION_MS_MAX));
        }
        if flags.is_indexed {
            call.arg(plan.index_ms);
        }
        if flags.has_time {
            call.arg(&plan.time);
            time = &plan.time;
        }
        if plan.activity != Activity::Continues || flags.is_indexed {
            call.arg(plan.plan.as_str());
        }
        for (field, value) in &plan.summary {
            call.arg(field).arg(value);
        }
    }
    for task in &commit.tasks {
        call.arg(streams.places[&task.agent_type]).arg(&task.data);
    }
    for ids in &streams.acknowledged {
        call.arg(ids.len());
        for id in ids {
            call.arg(id.as_str());
        }
    }
    for result in results(commit) {
        call.arg(ANSWERS_MS).arg(&result.answer).arg(2 * result.fields.len());
        for (field, value) in &result.fields {
            call.arg(field).arg(value);
        }
    }
    call
}

/// What clients of the stream get, in the order of the plans.
fn results(commit: &Commit) -> impl Iterator<Item = &StreamResult> {
    commit.plans.iter().filter_map(|plan| plan.result.as_deref())
}

/// About how many keys and arguments a commit has, and their bytes: a call of megabytes that grows is copied over and over.
fn room(commit: &Commit, keys: &[String]) -> (usize, usize) {
    let (mut count, mut bytes) = (keys.len() + 8, keys.iter().map(String::len).sum::<usize>() + 100);
    for plan in &commit.plans {
        count += 7 + 2 * plan.summary.len();
        bytes += 100 + plan.events.len() + plan.summary.iter().map(|(f, value)| f.len() + value.len()).sum::<usize>();
    }
    for result in results(commit) {
        count += 3 + 2 * result.fields.len();
        bytes += 40 + result.answer.len() + result.fields.iter().map(|(f, value)| f.len() + value.len()).sum::<usize>();
    }
    count += 2 * commit.tasks.len() + 2 * commit.acknowledged.len();
    bytes += commit.tasks.iter().map(|task| task.data.len() + 4).sum::<usize>() + 24 * commit.acknowledged.len();
    (count, bytes)
}

/// Which arguments a plan's write has. Each argument costs the server more than the work that it asks for, and most
/// plans need few of them.
struct Flags {
    activity: Activity,
    /// Whether the end of its log is to be compared.
    has_base: bool,
    is_indexed: bool,
    /// Another time than the plan before.
    has_time: bool,
    /// Fields of the summary, and their values.
    values: usize,
}

impl Flags {
    fn number(&self) -> usize {
        let activity = match self.activity {
            Activity::Continues => 0,
            Activity::Begins => 1,
            Activity::Ends { .. } => 2,
        };
        let extras =
            4 * usize::from(self.is_indexed) + 8 * usize::from(self.has_time) + 16 * usize::from(self.has_base);
        activity + extras + 32 * self.values
    }
}

/// The task streams of a commit, each once, and what is acknowledged on it.
struct Streams<'a> {
    /// Counted from 1, in the order of the keys.
    places: BTreeMap<&'a AgentType, usize>,
    acknowledged: Vec<Vec<&'a EntryId>>,
}

impl<'a> Streams<'a> {
    fn new(commit: &'a Commit) -> Self {
        let types: BTreeSet<_> = agent_types(commit).collect();
        let mut acknowledged = vec![Vec::new(); types.len()];
        let places: BTreeMap<_, _> = types.into_iter().enumerate().map(|(at, t)| (t, at + 1)).collect();
        for (agent_type, id) in &commit.acknowledged {
            // An id that a worker made up would make the call fail half-way.
            if is_entry_id(id) {
                acknowledged[places[agent_type] - 1].push(id);
            }
        }
        Self { places, acknowledged }
    }
}

/// Whether Redis takes the text as an id: `<ms>-<n>`.
pub(super) fn is_entry_id(id: &EntryId) -> bool {
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u64>().is_ok();
    id.as_str().split_once('-').is_some_and(|(ms, n)| number(ms) && number(n))
}

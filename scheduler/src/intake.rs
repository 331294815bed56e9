//! Reads submissions from the stream that clients write to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::{Broker, BrokerError, Entry, Reader};
use goalmill_common::command::{Request, Submit};
use goalmill_common::id::{EntryId, Namespace, PlanId, base32};
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::wire::{BadSubmission, Inbox, Submission, first_entry};
use goalmill_shard::{BegunPlan, ShardMessage, StatusSnapshot, StoreUpdate, stream_answers};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::busy_poll::busy_poll;
use crate::scheduler::Scheduler;
use crate::shard::{OwnedShards, Presence};
use crate::{effects, shard_client, submission};

/// Submissions per read.
const BATCH: usize = 256;
/// Schedulers that may die over the same submission before it is rejected.
const TRIES_MAX: usize = 3;
/// How long the count of them is stored, in milliseconds: one day.
const TRIES_KEPT_MS: u64 = 24 * 3_600_000;
/// Wait after a failure.
const PAUSE: Duration = Duration::from_millis(500);

/// Runs until stopped.
pub(crate) async fn run(scheduler: Arc<Scheduler>, shards: Arc<OwnedShards>) {
    let mut is_failing = false;
    let process = base32(u128::from(scheduler.random.draw()), 8);
    while !scheduler.stop.is_cancelled() {
        match read_stream(&scheduler, &shards, &process).await {
            Ok(()) => is_failing = false,
            Err(error) => {
                if !is_failing {
                    tracing::warn!("submissions cannot be read: {error}");
                }
                is_failing = true;
                tokio::select! {
                    biased;
                    () = scheduler.stop.cancelled() => {}
                    () = tokio::time::sleep(PAUSE) => {}
                }
            }
        }
    }
}

async fn read_stream(scheduler: &Arc<Scheduler>, shards: &OwnedShards, process: &str) -> Result<(), BrokerError> {
    let mut reader = scheduler.broker.reader().await?;
    let waker = reader.waker();
    let ended = CancellationToken::new();
    let wake = {
        let (stop, ended) = (scheduler.stop.clone(), ended.clone());
        async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => waker.wake().await,
                () = ended.cancelled() => {}
            }
        }
    };
    let waking = scheduler.tasks.spawn(wake);
    let result = follow(scheduler, shards, process, reader.as_mut()).await;
    ended.cancel();
    drop(waking.await);
    result
}

async fn follow(
    scheduler: &Arc<Scheduler>,
    shards: &OwnedShards,
    process: &str,
    reader: &mut dyn Reader,
) -> Result<(), BrokerError> {
    let mut looked = Instant::now();
    let mut orphans = Orphans { presence: Presence::default(), looked };
    let block_ms = scheduler.settings.redis.block_ms.min(scheduler.settings.scheduler.heartbeat_ms);
    // The first entries may be pending from a run of this scheduler that died.
    let first = reader.submissions(&scheduler.id, BATCH, scheduler.settings.redis.block_ms).await?;
    handle_claimed(scheduler, shards, process, first).await?;
    while !scheduler.stop.is_cancelled() {
        let entries = reader.submissions(&scheduler.id, BATCH, block_ms).await?;
        handle_entries(scheduler, shards, entries).await?;
        handle_claimed(scheduler, shards, process, orphans.claim(scheduler).await?).await?;
        // Pending entries of a suspended scheduler are claimed after the same time as its shards.
        let abandoned_ms = scheduler.settings.scheduler.shard_lease_ms;
        if looked.elapsed() >= Duration::from_millis(abandoned_ms / 3) {
            looked = Instant::now();
            let abandoned = scheduler.broker.reclaim_submissions(&scheduler.id, abandoned_ms, BATCH).await?;
            handle_claimed(scheduler, shards, process, abandoned).await?;
        }
    }
    Ok(())
}

/// Pending submissions of schedulers whose process has ended.
struct Orphans {
    presence: Presence,
    looked: Instant,
}

impl Orphans {
    /// Claims the submissions of schedulers that have been absent for as long as their shards are awaited.
    async fn claim(&mut self, scheduler: &Scheduler) -> Result<Vec<Entry>, BrokerError> {
        let heartbeat_ms = scheduler.settings.scheduler.heartbeat_ms;
        let heartbeat = Duration::from_millis(heartbeat_ms);
        if self.looked.elapsed() < heartbeat {
            return Ok(Vec::new());
        }
        self.looked = Instant::now();
        let broker = scheduler.broker.as_ref();
        let mut holders = broker.submission_holders().await?;
        holders.retain(|holder| *holder != scheduler.id);
        let mut orphans = Vec::new();
        for dead in self.presence.find_dead(broker, &holders, heartbeat * 5 / 4).await? {
            // The idle time excludes those that another scheduler claims at this moment.
            orphans.extend(broker.take_over_submissions(&dead, &scheduler.id, heartbeat_ms, BATCH).await?);
        }
        Ok(orphans)
    }
}

/// Handles submissions that a scheduler may have died over. Each is counted beforehand; one over which several
/// schedulers died is rejected.
async fn handle_claimed(
    scheduler: &Arc<Scheduler>,
    shards: &OwnedShards,
    process: &str,
    entries: Vec<Entry>,
) -> Result<(), BrokerError> {
    if entries.is_empty() {
        return Ok(());
    }
    let broker = scheduler.broker.as_ref();
    let mut tries = Tries::load(broker, process).await?;
    for entry in entries {
        let id = entry.id.clone();
        let died = tries.count(broker, process, &id).await?;
        let taken = if died >= TRIES_MAX {
            tracing::error!(entry = %id, "submission {id} rejected: {TRIES_MAX} schedulers died over it");
            metrics::counter!("goalmill_submissions_quarantined_total").increment(1);
            effects::write_updates(scheduler.clone(), reject(&entry, quarantined_submission(&entry), None)).await;
            Ok(())
        } else {
            handle_entries(scheduler, shards, vec![entry]).await
        };
        // This process survived the submission.
        tries.forget(broker, &id).await?;
        taken?;
    }
    Ok(())
}

/// The answer to a submission over which schedulers died.
fn quarantined_submission(entry: &Entry) -> BadSubmission {
    let id = match Submission::from_fields(&entry.id, &entry.fields) {
        Ok(submission) => submission.answer_id(),
        Err(bad) => bad.id,
    };
    let detail = format!("{TRIES_MAX} schedulers died while they read it; please report this bug");
    BadSubmission { id, problem: Problem::new(ErrorCode::PlanQuarantined, detail) }
}

/// The processes that claimed each submission and may have died over it: the value of
/// [`Keys::submission_tries`](goalmill_common::keys::Keys::submission_tries).
#[derive(Default)]
struct Tries(BTreeMap<EntryId, BTreeSet<String>>);

impl Tries {
    /// - `process`: this one. Its earlier tries do not count, because it is alive.
    async fn load(broker: &dyn Broker, process: &str) -> Result<Self, BrokerError> {
        let bytes = broker.get_blob(&broker.keys().submission_tries()).await?.unwrap_or_default();
        let mut tries: BTreeMap<EntryId, BTreeSet<String>> = serde_json::from_slice(&bytes).unwrap_or_default();
        tries.retain(|_, processes| {
            processes.remove(process);
            !processes.is_empty()
        });
        Ok(Self(tries))
    }

    /// Records, before it is parsed, that this process handles the submission. Returns how many others did.
    async fn count(&mut self, broker: &dyn Broker, process: &str, entry: &EntryId) -> Result<usize, BrokerError> {
        let processes = self.0.entry(entry.clone()).or_default();
        processes.insert(process.to_owned());
        let others = processes.len() - 1;
        self.write(broker).await?;
        Ok(others)
    }

    async fn forget(&mut self, broker: &dyn Broker, entry: &EntryId) -> Result<(), BrokerError> {
        self.0.remove(entry);
        self.write(broker).await
    }

    async fn write(&self, broker: &dyn Broker) -> Result<(), BrokerError> {
        let text = serde_json::to_vec(&self.0).expect("plain data always has a JSON text");
        match broker.put_blob(&broker.keys().submission_tries(), &text, TRIES_KEPT_MS).await {
            Err(BrokerError::OutOfMemory) => Ok(()),
            written => written,
        }
    }
}

async fn handle_entries(
    scheduler: &Arc<Scheduler>,
    shards: &OwnedShards,
    entries: Vec<Entry>,
) -> Result<(), BrokerError> {
    if entries.is_empty() {
        return Ok(());
    }
    let (at, at_ms) = (Instant::now(), scheduler.clock.steady_ms());
    let mut batch = SubmissionBatch { scheduler, shards, at_ms, shortage: None, updates: Vec::new() };
    let read: Vec<ReadEntry> = entries.into_iter().map(ReadEntry::from_entry).collect();
    let ids: Vec<String> = read.iter().map(|read| read.answered_as.clone()).collect();
    // These ids have their namespace already.
    let plans: Vec<PlanId> = ids.iter().map(|id| PlanId::derive(scheduler.shards, &Namespace::default(), id)).collect();
    // Not in a foreign installation, which would reject the commits anyway.
    scheduler.health.last_error()?;
    let mut read = read.into_iter();
    let look = async { tokio::try_join!(scheduler.broker.answers(&ids), scheduler.broker.begun(&plans)) };
    // The first is parsed while the store is asked; on an idle system there is no other.
    let first = async {
        tokio::task::yield_now().await;
        parse_next(scheduler, &mut read).await
    };
    let both = async { tokio::join!(biased; look, first) };
    let (looked, mut first) = busy_poll(at + scheduler.busy_poll, both).await;
    let (answered, begun) = looked?;
    let short = scheduler.health.check_admission().err();
    batch.shortage = short.filter(|problem| problem.code == ErrorCode::MemoryPressure);
    for (answer, begun) in answered.into_iter().zip(begun) {
        let next = match first.take() {
            Some(first) => Some(first),
            None => parse_next(scheduler, &mut read).await,
        };
        let Some(parsed) = next else { break };
        let begun = begun.map(|(status, fingerprint)| BegunPlan { status, fingerprint });
        batch.submit(parsed, begun, answer.is_some()).await?;
    }
    if !batch.updates.is_empty() {
        effects::write_updates(scheduler.clone(), batch.updates).await;
    }
    Ok(())
}

/// An entry of the stream, and what it submits.
struct ReadEntry {
    entry: Entry,
    /// See [`Submission::answer_id`].
    answered_as: String,
    submission: Result<Submission, Problem>,
}

impl ReadEntry {
    fn from_entry(entry: Entry) -> Self {
        match Submission::from_fields(&entry.id, &entry.fields) {
            Ok(submission) => Self { entry, answered_as: submission.answer_id(), submission: Ok(submission) },
            Err(BadSubmission { id, problem }) => Self { entry, answered_as: id, submission: Err(problem) },
        }
    }
}

/// A submission that is read.
struct ParsedSubmission {
    entry: Entry,
    bytes: usize,
    admitted: Result<Submit, BadSubmission>,
}

/// Submissions that are handled together.
struct SubmissionBatch<'a> {
    scheduler: &'a Arc<Scheduler>,
    shards: &'a OwnedShards,
    /// When the store was asked about the plans, by [`goalmill_common::clock::Clock::steady_ms`].
    at_ms: u64,
    /// Why new plans are refused.
    shortage: Option<Problem>,
    updates: Vec<StoreUpdate>,
}

impl SubmissionBatch<'_> {
    /// Sends a submission to its shard, or refuses it.
    ///
    /// - `begun`: the plan, if it exists.
    /// - `is_answered`: whether its id has an answer, which is a refusal if there is no plan.
    async fn submit(
        &mut self,
        parsed: ParsedSubmission,
        begun: Option<BegunPlan>,
        is_answered: bool,
    ) -> Result<(), BrokerError> {
        let ParsedSubmission { entry, bytes, admitted } = parsed;
        let submit = match admitted.and_then(|submit| self.admit(submit, bytes, begun.is_some())) {
            Ok(submit) => submit,
            Err(bad) => {
                let plan = |id: &str| PlanId::derive(self.scheduler.shards, &Namespace::default(), id);
                let begun = begun.map(|begun| (plan(&bad.id), begun));
                self.updates.extend(reject(&entry, bad, begun));
                return Ok(());
            }
        };
        if is_answered && begun.is_none() {
            self.scheduler.broker.remove_results(std::slice::from_ref(&submit.submission)).await?;
        }
        metrics::counter!("goalmill_goals_submitted_total", "source" => "redis").increment(1);
        let request = shard_client::submit_request(self.scheduler, "redis", &Namespace::default(), submit);
        if let Some(traces) = &self.scheduler.traces {
            let (received_ms, now_ms) = (entry.id.parts().0, self.scheduler.clock.now_ms());
            traces.submitted(&request.plan, request.traceparent(), "redis", received_ms, now_ms);
        }
        let snapshot = StatusSnapshot { at_ms: self.at_ms, begun };
        send_to_shard(self.scheduler, self.shards, entry.id, request, snapshot, &mut self.updates).await
    }

    /// Counts a submission of a new plan for its namespace, or refuses it. Submissions of existing plans are answered; new
    /// plans must not use the memory of running ones.
    fn admit(&self, submit: Submit, bytes: usize, exists: bool) -> Result<Submit, BadSubmission> {
        if exists {
            return Ok(submit);
        }
        let refused = |submit: Submit, problem| Err(BadSubmission { id: submit.submission, problem });
        if let Some(problem) = &self.shortage {
            return refused(submit, problem.clone());
        }
        let Some(limits) = &self.scheduler.namespaces else { return Ok(submit) };
        let namespace = submit.goal.namespace.clone().unwrap_or_default();
        let plan = PlanId::derive(self.scheduler.shards, &Namespace::default(), &submit.submission);
        match limits.admit(&namespace, &plan, bytes) {
            Ok(()) => Ok(submit),
            Err(problem) => refused(submit, problem),
        }
    }
}

/// Parses the next submission.
async fn parse_next(
    scheduler: &Arc<Scheduler>,
    read: &mut impl Iterator<Item = ReadEntry>,
) -> Option<ParsedSubmission> {
    let ReadEntry { entry, answered_as, submission } = read.next()?;
    let bytes = submission.as_ref().map_or(0, |submission| submission.data.len());
    let admitted = match submission {
        Ok(submission) => {
            let first = first_entry(&entry.id, &entry.fields);
            submission::parse_submission(scheduler, first, submission).await
        }
        Err(problem) => Err(problem),
    };
    let admitted = admitted.map_err(|problem| BadSubmission { id: answered_as, problem });
    Some(ParsedSubmission { entry, bytes, admitted })
}

/// Sends a submission to its shard. Its entry is acknowledged once the plan, or the request, is stored.
async fn send_to_shard(
    scheduler: &Scheduler,
    shards: &OwnedShards,
    entry: EntryId,
    request: Request,
    snapshot: StatusSnapshot,
    updates: &mut Vec<StoreUpdate>,
) -> Result<(), BrokerError> {
    let Some(shard) = request.plan.shard() else { return Ok(()) };
    if let Some(local) = shards.get(shard) {
        let request = Box::new(request);
        let submission = ShardMessage::Request { request, reply: None, entry: Some(entry), snapshot: Some(snapshot) };
        if local.send(submission).await.is_err() {
            tracing::debug!("shard {shard} has just moved; the submission will be claimed again");
        }
        return Ok(());
    }
    scheduler.broker.send_request(shard, &Inbox::Request(Box::new(request)).fields()).await?;
    updates.push(StoreUpdate::AcknowledgeSubmission(entry));
    Ok(())
}

/// Answers and lists a submission that is refused.
///
/// - `begun`: the plan that has its id, which keeps its answer.
fn reject(entry: &Entry, bad: BadSubmission, begun: Option<(PlanId, BegunPlan)>) -> Vec<StoreUpdate> {
    let BadSubmission { id, problem } = bad;
    let is_full = matches!(problem.code, ErrorCode::MemoryPressure | ErrorCode::NamespaceLimitReached);
    let reason = if is_full { problem.code.as_str() } else { "schema" };
    metrics::counter!("goalmill_goals_rejected_total", "reason" => reason).increment(1);
    let mut refused = stream_answers::refused_entry(&entry.id, &entry.fields, id, &problem);
    if let Some((plan, BegunPlan { status, .. })) = begun {
        let answer = |refused| stream_answers::accepted(plan, status, Vec::new(), Some(refused));
        refused = stream_answers::beside_plan(refused, first_entry(&entry.id, &entry.fields), &problem, answer);
    }
    vec![StoreUpdate::Refuse(Box::new(refused)), StoreUpdate::AcknowledgeSubmission(entry.id.clone())]
}

#[cfg(test)]
mod tests {
    use goalmill_broker::embedded;
    use goalmill_common::clock::Clock;

    use super::*;

    #[tokio::test]
    async fn a_process_that_lives_has_not_died_however_often_it_takes_a_submission_over() {
        let broker = embedded::open(None, Clock::system()).expect("it opens");
        let broker = broker.as_ref();
        let entry = EntryId::from("1-0");
        for _ in 0..=TRIES_MAX {
            // The reply to the write is lost: the submission is claimed and the record read again.
            let mut tries = Tries::load(broker, "one").await.expect("it can be read");
            assert_eq!(tries.count(broker, "one", &entry).await.expect("it is written"), 0);
        }
        for (others, process) in [(1, "two"), (2, "three"), (3, "four")] {
            let mut tries = Tries::load(broker, process).await.expect("it can be read");
            let count = tries.count(broker, process, &entry).await.expect("it is written");
            assert_eq!(count, others, "each of them may have died over it");
        }
    }
}

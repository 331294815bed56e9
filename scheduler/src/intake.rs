//! Takes submissions from the stream that any client may write to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::{Broker, BrokerError, Entry, Reader};
use goalmill_common::command::{Request, Submit};
use goalmill_common::id::{EntryId, Namespace, PlanId, base32, is_id};
use goalmill_common::keys;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::wire::{BadSubmission, Inbox, Submission};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::busy_poll::busy_poll;
use crate::effects::{StoreUpdate, answer_json};
use crate::scheduler::Scheduler;
use crate::shard::{OwnedShards, Presence, ShardMessage, StatusSnapshot};
use crate::{effects, shard_client, submission};

/// Submissions read at once.
const BATCH: usize = 256;
/// Schedulers that may die with the same submission in hand before it is refused.
const TRIES_MAX: usize = 3;
/// Their count is kept for so long, in milliseconds: a day.
const TRIES_KEPT_MS: u64 = 24 * 3_600_000;
/// Wait after a failure.
const PAUSE: Duration = Duration::from_millis(500);

/// Runs until stopped.
pub(crate) async fn run(scheduler: Arc<Scheduler>, shards: Arc<OwnedShards>) {
    let mut silent = false;
    let process = base32(u128::from(scheduler.random.draw()), 8);
    while !scheduler.stop.is_cancelled() {
        match read(&scheduler, &shards, &process).await {
            Ok(()) => silent = false,
            Err(error) => {
                if !silent {
                    tracing::warn!("submissions cannot be read: {error}");
                }
                silent = true;
                tokio::select! {
                    biased;
                    () = scheduler.stop.cancelled() => {}
                    () = tokio::time::sleep(PAUSE) => {}
                }
            }
        }
    }
}

async fn read(scheduler: &Arc<Scheduler>, shards: &OwnedShards, process: &str) -> Result<(), BrokerError> {
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
    // The first may be those that this scheduler had taken when it died under the same name.
    let first = reader.submissions(&scheduler.id, BATCH, scheduler.settings.redis.block_ms).await?;
    retake(scheduler, shards, process, first).await?;
    while !scheduler.stop.is_cancelled() {
        let entries = reader.submissions(&scheduler.id, BATCH, block_ms).await?;
        take(scheduler, shards, entries).await?;
        retake(scheduler, shards, process, orphans.take_over(scheduler).await?).await?;
        // What a scheduler has taken that is held, and not dealt with, is taken over when its shards are.
        let abandoned_ms = scheduler.settings.scheduler.shard_lease_ms;
        if looked.elapsed() >= Duration::from_millis(abandoned_ms / 3) {
            looked = Instant::now();
            let abandoned = scheduler.broker.reclaim_submissions(&scheduler.id, abandoned_ms, BATCH).await?;
            retake(scheduler, shards, process, abandoned).await?;
        }
    }
    Ok(())
}

/// Submissions that were taken by schedulers whose process has ended.
struct Orphans {
    presence: Presence,
    looked: Instant,
}

impl Orphans {
    /// Takes over what they had, as soon as they have been absent for as long as is awaited for their shards.
    async fn take_over(&mut self, scheduler: &Scheduler) -> Result<Vec<Entry>, BrokerError> {
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
        for gone in self.presence.look(broker, &holders, heartbeat * 5 / 4).await? {
            // Another scheduler that takes them over at this moment has touched them.
            orphans.extend(broker.take_over_submissions(&gone, &scheduler.id, heartbeat_ms, BATCH).await?);
        }
        Ok(orphans)
    }
}

/// Takes submissions that a scheduler may have died over, one by one, each counted beforehand: one that was in hand
/// when several died is refused.
async fn retake(
    scheduler: &Arc<Scheduler>,
    shards: &OwnedShards,
    process: &str,
    entries: Vec<Entry>,
) -> Result<(), BrokerError> {
    if entries.is_empty() {
        return Ok(());
    }
    let broker = scheduler.broker.as_ref();
    let mut tries = Tries::read(broker, process).await?;
    for entry in entries {
        let id = entry.id.clone();
        let died = tries.count(broker, process, &id).await?;
        let taken = if died >= TRIES_MAX {
            tracing::error!(entry = %id, "submission {id} is refused: {TRIES_MAX} schedulers died over it");
            metrics::counter!("goalmill_submissions_quarantined_total").increment(1);
            effects::write_updates(scheduler.clone(), refuse(id.clone(), poisonous(&entry))).await;
            Ok(())
        } else {
            take(scheduler, shards, vec![entry]).await
        };
        // This process lives, whatever became of the submission.
        tries.forget(broker, &id).await?;
        taken?;
    }
    Ok(())
}

/// The answer to a submission over which schedulers died.
fn poisonous(entry: &Entry) -> BadSubmission {
    let id = entry.fields.iter().find(|(name, _)| name == "id");
    let id = id.and_then(|(_, bytes)| String::from_utf8(bytes.clone()).ok()).filter(|id| is_id(id));
    let detail = format!("{TRIES_MAX} schedulers died while they read it; please report this bug");
    BadSubmission { id, problem: Problem::new(ErrorCode::PlanQuarantined, detail) }
}

/// Which processes took submissions over from schedulers that died, and have not been seen to live after that: the
/// value of [`keys::SUBMISSION_TRIES`].
#[derive(Default)]
struct Tries(BTreeMap<EntryId, BTreeSet<String>>);

impl Tries {
    /// - `process`: this one. What it has noted before is void, because it lives.
    async fn read(broker: &dyn Broker, process: &str) -> Result<Self, BrokerError> {
        let bytes = broker.get_blob(keys::SUBMISSION_TRIES).await?.unwrap_or_default();
        let mut tries: BTreeMap<EntryId, BTreeSet<String>> = serde_json::from_slice(&bytes).unwrap_or_default();
        tries.retain(|_, processes| {
            processes.remove(process);
            !processes.is_empty()
        });
        Ok(Self(tries))
    }

    /// Notes that this process has the submission in hand, before it is looked at. Returns how many others had it.
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
        match broker.put_blob(keys::SUBMISSION_TRIES, &text, TRIES_KEPT_MS).await {
            Err(BrokerError::OutOfMemory) => Ok(()),
            written => written,
        }
    }
}

async fn take(scheduler: &Arc<Scheduler>, shards: &OwnedShards, entries: Vec<Entry>) -> Result<(), BrokerError> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut updates = Vec::new();
    let mut good = Vec::new();
    for entry in entries {
        match Submission::from_fields(&entry.fields) {
            Ok(submission) => good.push((entry.id, submission)),
            Err(bad) => updates.extend(refuse(entry.id, bad)),
        }
    }
    let ids: Vec<String> = good.iter().map(|(_, submission)| submission.id.clone()).collect();
    let plans: Vec<PlanId> = ids.iter().map(|id| PlanId::derive(scheduler.shards, &Namespace::default(), id)).collect();
    // Nothing is taken from a foreign installation; its commits would be refused in any case.
    scheduler.health.last_error()?;
    let at = Instant::now();
    let mut good = good.into_iter();
    let look = async { tokio::try_join!(scheduler.broker.answers(&ids), scheduler.broker.statuses(&plans)) };
    // The first is read while the store is asked: on a quiet system there is no other.
    let first = async {
        tokio::task::yield_now().await;
        admit_next(scheduler, &mut good).await
    };
    let both = async { tokio::join!(biased; look, first) };
    let (looked, mut first) = busy_poll(at + scheduler.busy_poll, both).await;
    let (answered, statuses) = looked?;
    let short = scheduler.health.check_admission().err().filter(|problem| problem.code == ErrorCode::MemoryPressure);
    for (answer, status) in answered.into_iter().zip(statuses) {
        let next = match first.take() {
            Some(first) => Some(first),
            None => admit_next(scheduler, &mut good).await,
        };
        let Some((entry, admitted)) = next else { break };
        if answer.is_some() {
            updates.push(StoreUpdate::AcknowledgeSubmission(entry));
            continue;
        }
        // Whoever has a plan already is told which; new ones must not take the memory that running plans need.
        let admitted = match &short {
            Some(problem) if status.is_none() => {
                admitted.and_then(|submit| Err(BadSubmission { id: Some(submit.submission), problem: problem.clone() }))
            }
            Some(_) | None => admitted,
        };
        match admitted {
            Ok(submit) => {
                metrics::counter!("goalmill_goals_submitted_total", "source" => "redis").increment(1);
                let (request, snapshot) = (
                    shard_client::submit_request(scheduler, "redis", &Namespace::default(), submit),
                    StatusSnapshot { at, status },
                );
                if let Some(traces) = &scheduler.traces {
                    let (received_ms, now_ms) = (entry.parts().0, scheduler.clock.now_ms());
                    traces.submitted(&request.plan, request.traceparent(), "redis", received_ms, now_ms);
                }
                pass_on(scheduler, shards, entry, request, snapshot, &mut updates).await?;
            }
            Err(bad) => updates.extend(refuse(entry, bad)),
        }
    }
    if !updates.is_empty() {
        effects::write_updates(scheduler.clone(), updates).await;
    }
    Ok(())
}

/// Reads and checks the next submission.
async fn admit_next(
    scheduler: &Arc<Scheduler>,
    submissions: &mut impl Iterator<Item = (EntryId, Submission)>,
) -> Option<(EntryId, Result<Submit, BadSubmission>)> {
    let (entry, submission) = submissions.next()?;
    let id = submission.id.clone();
    let admitted = submission::parse_submission(scheduler, submission).await;
    Some((entry, admitted.map_err(|problem| BadSubmission { id: Some(id), problem })))
}

/// Hands a submission to its shard: its entry is acknowledged once the plan, or the request, is recorded.
async fn pass_on(
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
            tracing::debug!("shard {shard} has just moved; the submission will be taken again");
        }
        return Ok(());
    }
    scheduler.broker.send(shard, &Inbox::Request(Box::new(request)).fields()).await?;
    updates.push(StoreUpdate::AcknowledgeSubmission(entry));
    Ok(())
}

fn refuse(entry: EntryId, bad: BadSubmission) -> Vec<StoreUpdate> {
    let reason = if bad.problem.code == ErrorCode::MemoryPressure { bad.problem.code.as_str() } else { "schema" };
    metrics::counter!("goalmill_goals_rejected_total", "reason" => reason).increment(1);
    let answer = match bad.id {
        Some(id) => Some(StoreUpdate::Answer { id, json: answer_json(Err(bad.problem)) }),
        None => {
            tracing::warn!(entry = %entry, "submission {entry} has no usable id, so nobody can be told: {}", bad.problem);
            None
        }
    };
    answer.into_iter().chain([StoreUpdate::AcknowledgeSubmission(entry)]).collect()
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
            // The reply to the note is lost: the submission comes again, and the note is read again.
            let mut tries = Tries::read(broker, "one").await.expect("it can be read");
            assert_eq!(tries.count(broker, "one", &entry).await.expect("it is written"), 0);
        }
        for (others, process) in [(1, "two"), (2, "three"), (3, "four")] {
            let mut tries = Tries::read(broker, process).await.expect("it can be read");
            let count = tries.count(broker, process, &entry).await.expect("it is written");
            assert_eq!(count, others, "each of them may have died over it");
        }
    }
}

//! Takes submissions from the stream that any client may write to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::{Broker, BrokerError, Entry, Reader};
use goalmill_common::command::{Request, Submit};
use goalmill_common::id::{EntryId, PlanId, base32, is_id};
use goalmill_common::keys;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::wire::{BadSubmission, Inbox, Submission};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::effects::{Errand, answer_json};
use crate::shard::{Local, Looked, Loops, Presence};
use crate::site::Site;
use crate::spin::spin;
use crate::{admit, ask, effects};

/// Submissions read at once.
const BATCH: usize = 256;
/// Schedulers that may die with the same submission in hand before it is refused.
const TRIES_MAX: usize = 3;
/// Their count is kept for so long, in milliseconds: a day.
const TRIES_KEPT_MS: u64 = 24 * 3_600_000;
/// Wait after a failure.
const PAUSE: Duration = Duration::from_millis(500);

/// Runs until stopped.
pub(crate) async fn run(site: Arc<Site>, loops: Loops) {
    let mut silent = false;
    let process = base32(u128::from(site.random.draw()), 8);
    while !site.stop.is_cancelled() {
        match read(&site, &loops, &process).await {
            Ok(()) => silent = false,
            Err(error) => {
                if !silent {
                    tracing::warn!("submissions cannot be read: {error}");
                }
                silent = true;
                tokio::select! {
                    biased;
                    () = site.stop.cancelled() => {}
                    () = tokio::time::sleep(PAUSE) => {}
                }
            }
        }
    }
}

async fn read(site: &Arc<Site>, loops: &Loops, process: &str) -> Result<(), BrokerError> {
    let mut reader = site.broker.reader().await?;
    let waker = reader.waker();
    let ended = CancellationToken::new();
    let wake = {
        let (stop, ended) = (site.stop.clone(), ended.clone());
        async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => waker.wake().await,
                () = ended.cancelled() => {}
            }
        }
    };
    let waking = site.tasks.spawn(wake);
    let result = follow(site, loops, process, reader.as_mut()).await;
    ended.cancel();
    drop(waking.await);
    result
}

async fn follow(site: &Arc<Site>, loops: &Loops, process: &str, reader: &mut dyn Reader) -> Result<(), BrokerError> {
    let mut looked = Instant::now();
    let mut orphans = Orphans { presence: Presence::default(), looked };
    let block_ms = site.settings.redis.block_ms.min(site.settings.scheduler.heartbeat_ms);
    // The first may be those that this scheduler had taken when it died under the same name.
    let first = reader.submissions(&site.id, BATCH, site.settings.redis.block_ms).await?;
    retake(site, loops, process, first).await?;
    while !site.stop.is_cancelled() {
        let entries = reader.submissions(&site.id, BATCH, block_ms).await?;
        take(site, loops, entries).await?;
        retake(site, loops, process, orphans.take_over(site).await?).await?;
        // What a scheduler has taken that is held, and not dealt with, is taken over when its shards are.
        let abandoned_ms = site.settings.scheduler.shard_lease_ms;
        if looked.elapsed() >= Duration::from_millis(abandoned_ms / 3) {
            looked = Instant::now();
            let abandoned = site.broker.reclaim_submissions(&site.id, abandoned_ms, BATCH).await?;
            retake(site, loops, process, abandoned).await?;
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
    async fn take_over(&mut self, site: &Site) -> Result<Vec<Entry>, BrokerError> {
        let heartbeat_ms = site.settings.scheduler.heartbeat_ms;
        let heartbeat = Duration::from_millis(heartbeat_ms);
        if self.looked.elapsed() < heartbeat {
            return Ok(Vec::new());
        }
        self.looked = Instant::now();
        let broker = site.broker.as_ref();
        let mut holders = broker.submission_holders().await?;
        holders.retain(|holder| *holder != site.id);
        let mut orphans = Vec::new();
        for gone in self.presence.look(broker, &holders, heartbeat * 5 / 4).await? {
            // Another scheduler that takes them over at this moment has touched them.
            orphans.extend(broker.take_over_submissions(&gone, &site.id, heartbeat_ms, BATCH).await?);
        }
        Ok(orphans)
    }
}

/// Takes submissions that a scheduler may have died over, one by one, each counted beforehand: one that was in hand
/// when several died is refused.
async fn retake(site: &Arc<Site>, loops: &Loops, process: &str, entries: Vec<Entry>) -> Result<(), BrokerError> {
    if entries.is_empty() {
        return Ok(());
    }
    let broker = site.broker.as_ref();
    let mut tries = Tries::read(broker, process).await?;
    for entry in entries {
        let id = entry.id.clone();
        let died = tries.count(broker, process, &id).await?;
        let taken = if died >= TRIES_MAX {
            tracing::error!(entry = %id, "submission {id} is refused: {TRIES_MAX} schedulers died over it");
            metrics::counter!("goalmill_submissions_quarantined_total").increment(1);
            effects::run(site.clone(), refuse(id.clone(), poisonous(&entry))).await;
            Ok(())
        } else {
            take(site, loops, vec![entry]).await
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

async fn take(site: &Arc<Site>, loops: &Loops, entries: Vec<Entry>) -> Result<(), BrokerError> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut errands = Vec::new();
    let mut good = Vec::new();
    for entry in entries {
        match Submission::from_fields(&entry.fields) {
            Ok(submission) => good.push((entry.id, submission)),
            Err(bad) => errands.extend(refuse(entry.id, bad)),
        }
    }
    let ids: Vec<String> = good.iter().map(|(_, submission)| submission.id.clone()).collect();
    let plans: Vec<PlanId> = ids.iter().map(|id| PlanId::derive(site.shards, id)).collect();
    // Nothing is taken from a foreign installation; its commits would be refused in any case.
    site.pulse.trouble()?;
    let at = Instant::now();
    let mut good = good.into_iter();
    let look = async { tokio::try_join!(site.broker.answers(&ids), site.broker.statuses(&plans)) };
    // The first is read while the store is asked: on a quiet system there is no other.
    let first = async {
        tokio::task::yield_now().await;
        admit_next(site, &mut good).await
    };
    let both = async { tokio::join!(biased; look, first) };
    let (looked, mut first) = spin(at + site.spin, both).await;
    let (answered, statuses) = looked?;
    let short = site.pulse.admits().err().filter(|problem| problem.code == ErrorCode::MemoryPressure);
    for (answer, status) in answered.into_iter().zip(statuses) {
        let next = match first.take() {
            Some(first) => Some(first),
            None => admit_next(site, &mut good).await,
        };
        let Some((entry, admitted)) = next else { break };
        if answer.is_some() {
            errands.push(Errand::AcknowledgeSubmission(entry));
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
                let (request, looked) = (ask::submission(site, "redis", submit), Looked { at, status });
                if let Some(traces) = &site.traces {
                    let (received_ms, now_ms) = (entry.parts().0, site.clock.now_ms());
                    traces.submitted(&request.plan, request.traceparent(), "redis", received_ms, now_ms);
                }
                pass_on(site, loops, entry, request, looked, &mut errands).await?;
            }
            Err(bad) => errands.extend(refuse(entry, bad)),
        }
    }
    if !errands.is_empty() {
        effects::run(site.clone(), errands).await;
    }
    Ok(())
}

/// Reads and checks the next submission.
async fn admit_next(
    site: &Arc<Site>,
    submissions: &mut impl Iterator<Item = (EntryId, Submission)>,
) -> Option<(EntryId, Result<Submit, BadSubmission>)> {
    let (entry, submission) = submissions.next()?;
    let id = submission.id.clone();
    let admitted = admit::submission(site, submission).await;
    Some((entry, admitted.map_err(|problem| BadSubmission { id: Some(id), problem })))
}

/// Hands a submission to its shard: its entry is acknowledged once the plan, or the request, is recorded.
async fn pass_on(
    site: &Site,
    loops: &Loops,
    entry: EntryId,
    request: Request,
    looked: Looked,
    errands: &mut Vec<Errand>,
) -> Result<(), BrokerError> {
    let Some(shard) = request.plan.shard() else { return Ok(()) };
    if let Some(local) = loops.get(shard) {
        let request = Box::new(request);
        let submission = Local::Request { request, reply: None, entry: Some(entry), looked: Some(looked) };
        if local.send(submission).await.is_err() {
            tracing::debug!("shard {shard} has just moved; the submission will be taken again");
        }
        return Ok(());
    }
    site.broker.send(shard, &Inbox::Request(Box::new(request)).fields()).await?;
    errands.push(Errand::AcknowledgeSubmission(entry));
    Ok(())
}

fn refuse(entry: EntryId, bad: BadSubmission) -> Vec<Errand> {
    let reason = if bad.problem.code == ErrorCode::MemoryPressure { bad.problem.code.as_str() } else { "schema" };
    metrics::counter!("goalmill_goals_rejected_total", "reason" => reason).increment(1);
    let answer = match bad.id {
        Some(id) => Some(Errand::Answer { id, json: answer_json(Err(bad.problem)) }),
        None => {
            tracing::warn!(entry = %entry, "submission {entry} has no usable id, so nobody can be told: {}", bad.problem);
            None
        }
    };
    answer.into_iter().chain([Errand::AcknowledgeSubmission(entry)]).collect()
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

//! A shard's loop: take what is there, decide, commit once, act.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::{Broker, BrokerError, Commit, Committed, Entry};
use goalmill_common::command::Verb;
use goalmill_common::id::{AgentType, EntryId, ShardId};
use goalmill_common::status::PlanStatus;
use goalmill_common::wire::Inbox;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Local;
use super::owned::Owned;
use super::turn::After;
use crate::site::Site;
use crate::{effects, journal};

/// Batches of inbox entries read ahead.
const READ_AHEAD: usize = 2;
/// Inputs from within the process taken in one turn.
const LOCALS_MAX: usize = 1_000;
/// A commit whose reply is lost is sent again so often; it is idempotent.
const RESENDS_MAX: u32 = 3;

/// Why a loop ended.
#[derive(Debug)]
pub(crate) enum End {
    /// Given up on request.
    Released,
    /// The shard is, or must be taken to be, somebody else's.
    Lost(String),
}

/// One owned shard, running.
pub(crate) struct Loop {
    pub(crate) site: Arc<Site>,
    pub(crate) shard: ShardId,
    pub(crate) token: String,
    pub(crate) owned: Owned,
    pub(crate) cursor: EntryId,
    pub(crate) locals: mpsc::Receiver<Local>,
    /// For answers of effects.
    pub(crate) to_self: mpsc::Sender<Local>,
    /// Gives the shard up.
    pub(crate) release: CancellationToken,
}

type Batch = Result<Vec<Arrival>, BrokerError>;

/// One entry of the inbox.
pub(crate) struct Arrival {
    pub(crate) id: EntryId,
    pub(crate) inbox: Inbox,
    /// The status of the plan that a submission would begin, where there is one already.
    pub(crate) begun: Option<PlanStatus>,
}

impl Loop {
    /// Runs until the shard is given up or lost.
    pub(crate) async fn run(mut self) -> End {
        let (batches, mut inbox) = mpsc::channel(READ_AHEAD);
        let reading = CancellationToken::new();
        let reader = match self.site.broker.reader().await {
            Ok(reader) => reader,
            Err(error) => return End::Lost(error.to_string()),
        };
        let waker = reader.waker();
        let follow = follow(self.site.clone(), reader, self.shard, self.cursor.clone(), batches, reading.clone());
        let follower = self.site.tasks.spawn(follow);
        let end = self.turns(&mut inbox).await;
        reading.cancel();
        drop(inbox);
        waker.wake().await;
        if let Err(error) = follower.await {
            tracing::error!("the inbox reader failed: {error}");
        }
        if matches!(end, End::Released)
            && let Err(error) = self.site.broker.release(self.shard, &self.token).await
        {
            tracing::warn!(shard = %self.shard, "shard {} could not be released: {error}", self.shard);
        }
        end
    }

    async fn turns(&mut self, inbox: &mut mpsc::Receiver<Batch>) -> End {
        let mut number = 0;
        let mut opened = BTreeSet::new();
        let heartbeat = Duration::from_millis(self.site.settings.scheduler.heartbeat_ms);
        let mut shown = Instant::now();
        let mut trimmed = Instant::now();
        let mut first = true;
        loop {
            if !std::mem::take(&mut first)
                && let Err(end) = self.wait(inbox, shown + heartbeat).await
            {
                return end;
            }
            if let Err(end) = self.take_all(inbox) {
                return end;
            }
            self.owned.take_timers();
            let site = &self.site;
            self.owned.dispatch(|agent_type| window(site, agent_type));
            if let Err(error) = self.open_queues(&mut opened).await {
                return End::Lost(error.to_string());
            }
            let trim = trimmed.elapsed() >= heartbeat;
            if let Some(commit) = self.owned.commit(&self.token, number + 1, trim) {
                if let Err(end) = self.write(&commit).await {
                    return end;
                }
                number += 1;
                shown = Instant::now();
                if trim {
                    trimmed = shown;
                }
                self.site.commits.send_modify(|commits| *commits += 1);
            } else if shown.elapsed() >= heartbeat {
                match self.site.broker.renew(self.shard, &self.token).await {
                    Ok(true) => shown = Instant::now(),
                    Ok(false) => return End::Lost("another scheduler has taken it".into()),
                    Err(error) => return End::Lost(error.to_string()),
                }
            }
            self.act();
            if self.release.is_cancelled() {
                return End::Released;
            }
        }
    }

    /// Waits for the first input of a turn, a timer, or the next sign of life, and takes the input.
    async fn wait(&mut self, inbox: &mut mpsc::Receiver<Batch>, beat: Instant) -> Result<(), End> {
        let due = self.owned.next_due_ms().map(|due| {
            let left = due.saturating_sub(self.site.clock.now_ms());
            Instant::now() + Duration::from_millis(left)
        });
        let wake = due.map_or(beat, |due| due.min(beat));
        tokio::select! {
           biased;
            () = self.release.cancelled() => {}
            batch = inbox.recv() => {
                self.owned.begin_turn();
                self.take_batch(batch)?;
            }
            local = self.locals.recv() => {
                self.owned.begin_turn();
                if let Some(local) = local {
                    self.owned.take_local(local);
                }
            }
            () = tokio::time::sleep_until(wake) => {}
        }
        self.owned.begin_turn();
        Ok(())
    }

    /// Takes everything else that is there already.
    fn take_all(&mut self, inbox: &mut mpsc::Receiver<Batch>) -> Result<(), End> {
        while !self.owned.is_full() {
            match inbox.try_recv() {
                Ok(batch) => self.take_batch(Some(batch))?,
                Err(_) => break,
            }
        }
        for _ in 0..LOCALS_MAX {
            if self.owned.is_full() {
                break;
            }
            match self.locals.try_recv() {
                Ok(local) => self.owned.take_local(local),
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn take_batch(&mut self, batch: Option<Batch>) -> Result<(), End> {
        match batch {
            Some(Ok(entries)) => {
                for entry in entries {
                    self.owned.take_entry(entry);
                }
                Ok(())
            }
            Some(Err(error)) => Err(End::Lost(error.to_string())),
            None => Err(End::Lost("the inbox reader ended".into())),
        }
    }

    /// Makes sure that a queue's group exists before its first task can be read.
    async fn open_queues(&mut self, opened: &mut BTreeSet<AgentType>) -> Result<(), BrokerError> {
        let new: BTreeSet<AgentType> = self.owned.queues_used().filter(|a| !opened.contains(*a)).cloned().collect();
        for agent_type in new {
            self.site.broker.open_queue(&agent_type).await?;
            opened.insert(agent_type);
        }
        Ok(())
    }

    async fn write(&self, commit: &Commit) -> Result<(), End> {
        let mut resends = 0;
        loop {
            match self.site.broker.commit(commit).await {
                Ok(Committed::Applied | Committed::Duplicate) => return Ok(()),
                Ok(Committed::Fenced) => {
                    return Err(End::Lost("another scheduler has taken it, a commit was refused".into()));
                }
                Ok(Committed::Gap(what)) => return Err(End::Lost(format!("the journal differs: {what}"))),
                Err(BrokerError::Unavailable(_)) if resends < RESENDS_MAX => resends += 1,
                Err(error) => return Err(End::Lost(error.to_string())),
            }
        }
    }

    fn act(&mut self) {
        let after = self.owned.end_turn();
        if after.is_empty() {
            return;
        }
        let mut errands = Vec::new();
        for item in after {
            match item {
                After::Reply(reply, verdict) => drop(reply.send(verdict)),
                After::Plan { plan, goal, revision } => {
                    let (site, to_self) = (self.site.clone(), self.to_self.clone());
                    self.site.tasks.spawn(async move {
                        let command = Box::new(effects::plan(&site, *goal, revision).await);
                        drop(to_self.send(Local::Command { plan, command }).await);
                    });
                }
                After::Errand(errand) => errands.push(errand),
            }
        }
        if !errands.is_empty() {
            self.site.tasks.spawn(effects::run(self.site.clone(), errands));
        }
    }
}

fn window(site: &Site, agent_type: &AgentType) -> u32 {
    if agent_type.as_str().is_empty() { u32::MAX } else { site.directory.window(agent_type) }
}

/// Reads a shard's inbox from the cursor on, parses the entries and hands them over in batches.
async fn follow(
    site: Arc<Site>,
    mut reader: Box<dyn goalmill_broker::Reader>,
    shard: ShardId,
    mut after: EntryId,
    batches: mpsc::Sender<Batch>,
    stop: CancellationToken,
) {
    let (count, block_ms) = (site.settings.scheduler.inbox_batch, site.settings.redis.block_ms);
    while !stop.is_cancelled() {
        let batch = match reader.inbox(shard, &after, count, block_ms).await {
            Ok(entries) if entries.is_empty() => continue,
            Ok(entries) => {
                after = entries.last().expect("it is not empty").id.clone();
                arrivals(site.broker.as_ref(), entries).await
            }
            Err(error) => Err(error),
        };
        let failed = batch.is_err();
        if batches.send(batch).await.is_err() || failed {
            return;
        }
    }
}

async fn arrivals(broker: &dyn Broker, entries: Vec<Entry>) -> Batch {
    let mut batch = Vec::with_capacity(entries.len());
    for Entry { id, fields } in entries {
        let inbox = Inbox::from_fields(&fields);
        let begun = match &inbox {
            Inbox::Request(request) if matches!(request.verb, Verb::Submit(_)) => {
                journal::status(broker, &request.plan).await?
            }
            Inbox::Request(_) | Inbox::Reports(_) | Inbox::Unreadable(_) => None,
        };
        batch.push(Arrival { id, inbox, begun });
    }
    Ok(batch)
}

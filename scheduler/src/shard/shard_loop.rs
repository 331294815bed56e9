//! A shard's loop: reads inputs, decides, commits once a turn, runs what follows. [`Turns`] is the part without I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use goalmill_broker::{BrokerError, Commit, InboxCursor};
use goalmill_common::id::{AgentType, PlanId, ShardId};
use goalmill_shard::{LoopInput, ShardMessage, TurnInput, TurnOutput, Turns};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::OwnedShards;
use super::fenced_commit::{CommitMetrics, lacks_replica, write_commit};
use super::inbox_reader::{InboxBatch, read_inbox};
use super::loop_inputs::entries;
use super::outbox::Outbox;
use super::takeover::CarefulTakeover;
use crate::busy_poll::busy_poll;
use crate::quarantine::{self, QuarantineRecord};
use crate::scheduler::Scheduler;
use crate::unused_agent_types::REOPEN;

/// Batches of inbox entries read ahead.
const READ_AHEAD: usize = 2;

/// Turns that take longer give their thread of the runtime away the next time.
const BUSY: Duration = Duration::from_millis(5);

/// Why a loop ended.
#[derive(Debug)]
pub(crate) enum LoopEnd {
    /// Released on request.
    Released,
    /// The shard has, or must be assumed to have, another owner.
    Lost(String),
}

impl From<BrokerError> for LoopEnd {
    fn from(error: BrokerError) -> Self {
        Self::Lost(error.to_string())
    }
}

/// One owned shard, running.
pub(crate) struct ShardLoop {
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) shards: Arc<OwnedShards>,
    pub(super) shard: ShardId,
    pub(super) token: String,
    pub(super) turns: Turns,
    /// The inbox entries after which the loop starts to read.
    pub(super) cursor: InboxCursor,
    pub(super) messages: mpsc::Receiver<ShardMessage>,
    pub(super) window_changes: Arc<Notify>,
    pub(super) outbox: Outbox,
    /// Releases the shard.
    pub(super) release: CancellationToken,
    /// Present while plans and inputs are handled one by one, because the previous owner died.
    pub(super) takeover: Option<CarefulTakeover>,
    pub(super) metrics: CommitMetrics,
    pub(super) io: LoopIo,
    /// When the loop began; the times of its turns count from then.
    pub(super) begun: Instant,
}

/// A commit on its way to the store.
type CommitWrite = Pin<Box<dyn Future<Output = Result<(), LoopEnd>> + Send>>;

/// What a loop keeps between turns for its I/O.
#[derive(Default)]
pub(crate) struct LoopIo {
    /// The commit that is being written.
    writing: Option<CommitWrite>,
    /// Inputs that the last turn had no time for, in their order.
    pub(super) left_over: Vec<LoopInput>,
    /// A plan to release from quarantine.
    released_plan: Option<PlanId>,
    /// Whether the last turn took longer than [`BUSY`].
    was_busy: bool,
    /// When each queue was last opened.
    opened: BTreeMap<AgentType, Instant>,
}

/// Why the loop continues.
enum Wakeup {
    Inputs(Vec<LoopInput>),
    /// A timer, a heartbeat, more to dispatch or more room for it.
    Due,
    /// The commit was written, or could not be.
    Written(Result<(), LoopEnd>),
}

impl ShardLoop {
    /// Runs until the shard is released or lost.
    pub(crate) async fn run(mut self) -> LoopEnd {
        let (batches, mut inbox) = mpsc::channel(READ_AHEAD);
        let reading = CancellationToken::new();
        let reader = match self.scheduler.broker.reader().await {
            Ok(reader) => reader,
            Err(error) => return error.into(),
        };
        let waker = reader.waker();
        let read =
            read_inbox(self.scheduler.clone(), reader, self.shard, self.cursor.clone(), batches, reading.clone());
        // It ends when a read fails, and the loop of the shard with it.
        let read = self.scheduler.loops.spawn_ending("inbox", read);
        let end = match self.run_turns(&mut inbox).await {
            Ok(()) => LoopEnd::Released,
            Err(end) => end,
        };
        self.shards.counts.remove(self.shard);
        self.give_back_messages();
        reading.cancel();
        drop(inbox);
        waker.wake().await;
        if let Err(error) = read.await {
            tracing::error!("the inbox reader failed: {error}");
        }
        if matches!(end, LoopEnd::Released)
            && let Err(error) = self.scheduler.broker.release(self.shard, &self.token).await
        {
            tracing::warn!(shard = %self.shard, "shard {} could not be released: {error}", self.shard);
        }
        end
    }

    /// Gives the requests back that no turn has taken.
    fn give_back_messages(&mut self) {
        self.messages.close();
        for input in std::mem::take(&mut self.io.left_over) {
            if let LoopInput::Message(message) = input {
                message.give_back();
            }
        }
        while let Ok(message) = self.messages.try_recv() {
            message.give_back();
        }
    }

    /// Runs until the shard is released.
    async fn run_turns(&mut self, inbox: &mut mpsc::Receiver<InboxBatch>) -> Result<(), LoopEnd> {
        let mut wakeup = Wakeup::Due;
        loop {
            let input = match wakeup {
                Wakeup::Inputs(inputs) => TurnInput::Inputs(self.prepare_inputs(inputs, inbox).await?),
                Wakeup::Due => {
                    self.wake_parked(&[]).await?;
                    if self.io.writing.is_none() { self.start_recovered().await? } else { TurnInput::Due }
                }
                Wakeup::Written(written) => {
                    written?;
                    self.io.writing = None;
                    let outputs = self.next_outputs(TurnInput::Committed);
                    self.run_outputs(outputs).await?;
                    self.scheduler.commits.send_modify(|commits| *commits += 1);
                    TurnInput::Due
                }
            };
            if self.release.is_cancelled() {
                self.turns.release();
            }
            let outputs = self.next_outputs(input);
            let is_released = self.run_outputs(outputs).await?;
            if is_released {
                return Ok(());
            }
            if self.io.writing.is_none()
                && let Some(plan) = self.io.released_plan.take()
            {
                return Err(self.end_quarantine(plan).await);
            }
            wakeup = self.wait(inbox).await?;
        }
    }

    /// Decides. A loop that was busy for long gives its thread of the runtime away meanwhile: tasks that wait for that
    /// thread, such as connections of other shards, would else wait for the turn.
    fn next_outputs(&mut self, input: TurnInput) -> Vec<TurnOutput> {
        let begun = Instant::now();
        let now = begun - self.begun;
        let decide = || self.turns.next(input, now, self.scheduler.directory.as_ref());
        let may_leave = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        let outputs = if self.io.was_busy && may_leave { tokio::task::block_in_place(decide) } else { decide() };
        self.io.was_busy = begun.elapsed() > BUSY;
        outputs
    }

    /// Returns whether the shard is to be released.
    async fn run_outputs(&mut self, outputs: Vec<TurnOutput>) -> Result<bool, LoopEnd> {
        let (mut actions, mut is_released) = (Vec::new(), false);
        let mut outputs = outputs.into_iter().peekable();
        while let Some(output) = outputs.next() {
            match output {
                TurnOutput::Run(action) => {
                    actions.push(action);
                    if !matches!(outputs.peek(), Some(TurnOutput::Run(_))) {
                        let released = self.outbox.run_actions(std::mem::take(&mut actions));
                        self.io.released_plan = released.or(self.io.released_plan.take());
                    }
                }
                TurnOutput::LeftOver(inputs) => self.io.left_over = inputs,
                TurnOutput::Commit { mut commit, inputs } => {
                    self.open_queues(&commit).await?;
                    quarantine::drop_quarantined_acks(&self.scheduler, &mut commit);
                    let writing = write_commit(self.scheduler.clone(), self.metrics.clone(), commit, inputs);
                    self.io.writing = Some(Box::pin(writing));
                }
                TurnOutput::Renew => match self.scheduler.broker.renew(self.shard, &self.token).await {
                    Ok(true) => {}
                    Ok(false) => return Err(LoopEnd::Lost("another scheduler has taken it".into())),
                    // No other scheduler can take the shard either.
                    Err(error) if lacks_replica(&error) => {}
                    Err(error) => return Err(error.into()),
                },
                TurnOutput::Publish(counts) => self.shards.counts.set(self.shard, counts),
                TurnOutput::Released => is_released = true,
                TurnOutput::Panicked(plan) => return Err(self.quarantine_panicked(plan).await),
            }
        }
        Ok(is_released)
    }

    /// Finishes the commit before the panic; nothing of the turn that panicked is written.
    async fn quarantine_panicked(&mut self, plan: PlanId) -> LoopEnd {
        if let Some(writing) = self.io.writing.take()
            && writing.await.is_ok()
        {
            self.outbox.run_actions(self.turns.finish_commit());
        }
        self.scheduler.quarantine_plan(plan.clone(), "the engine panicked over it; please report this bug");
        LoopEnd::Lost(format!("the engine panicked over plan {plan}, which is quarantined"))
    }

    /// The next plan of a careful takeover that starts, recorded beforehand.
    async fn start_recovered(&mut self) -> Result<TurnInput, BrokerError> {
        let Some(takeover) = &mut self.takeover else { return Ok(TurnInput::Due) };
        if let Some((slot, plan)) = takeover.waiting.pop_front() {
            takeover.record(&self.scheduler, self.shard, vec![plan]).await?;
            return Ok(TurnInput::Start(slot));
        }
        if takeover.is_over()
            && let Some(takeover) = self.takeover.take()
        {
            takeover.end(&self.scheduler, self.shard).await?;
        }
        Ok(TurnInput::Due)
    }

    /// Releases a plan from quarantine; the shard is then recovered again, with that plan.
    async fn end_quarantine(&mut self, plan: PlanId) -> LoopEnd {
        let broker = self.scheduler.broker.as_ref();
        let changed = async {
            let mut record = QuarantineRecord::load(broker, self.shard).await?;
            match record.quarantined.remove(&plan) {
                Some(_) => record.store(broker, self.shard).await,
                None => Ok(()),
            }
        };
        if let Err(error) = changed.await {
            return error.into();
        }
        self.scheduler.end_plan_quarantine(&plan);
        LoopEnd::Lost(format!("plan {plan} was released from quarantine, so the shard is recovered again"))
    }

    /// Waits for inputs, the commit, a timer or a heartbeat. Polls for a while after a commit, and sleeps then.
    async fn wait(&mut self, inbox: &mut mpsc::Receiver<InboxBatch>) -> Result<Wakeup, LoopEnd> {
        if let Some(writing) = &mut self.io.writing {
            // Sends the commit before anything else is decided.
            if let Poll::Ready(written) = futures_util::poll!(writing) {
                return Ok(Wakeup::Written(written));
            }
            tokio::task::yield_now().await;
        }
        let is_writing = self.io.writing.is_some();
        if let Some(takeover) = &self.takeover
            && !is_writing
            && (!takeover.waiting.is_empty() || takeover.is_over())
        {
            return Ok(Wakeup::Due);
        }
        let state = &self.turns.state;
        let due = state.next_due_ms().map(|due| {
            let left = due.saturating_sub(self.scheduler.clock.now_ms());
            Instant::now() + Duration::from_millis(left)
        });
        let renew_at = self.begun + self.turns.renew_at();
        let wake = match (is_writing, due) {
            (false, due) => Some(due.map_or(renew_at, |due| due.min(renew_at))),
            // A turn that has begun has its time: a timer that is due now belongs to the next one.
            (true, due) => due.filter(|_| !state.has_events() && state.room() > 0),
        };
        let may_overlap = !self.release.is_cancelled() && self.takeover.is_none();
        let takes = state.room() > 0 && (!is_writing || may_overlap);
        if takes && !self.io.left_over.is_empty() {
            return Ok(Wakeup::Inputs(std::mem::take(&mut self.io.left_over)));
        }
        let has_more = state.has_more();
        let writing = self.io.writing.as_mut();
        let written = async {
            match writing {
                Some(writing) => writing.await,
                None => std::future::pending().await,
            }
        };
        let come = async {
            tokio::select! {
                biased;
                written = written, if is_writing => Ok(Wakeup::Written(written)),
                () = self.release.cancelled(), if !is_writing => Ok(Wakeup::Due),
                batch = inbox.recv(), if takes => entries(batch).map(Wakeup::Inputs),
                message = self.messages.recv(), if takes => {
                    Ok(Wakeup::Inputs(message.into_iter().map(LoopInput::Message).collect()))
                }
                () = std::future::ready(()), if has_more => Ok(Wakeup::Due),
                () = self.window_changes.notified(), if !is_writing => Ok(Wakeup::Due),
                () = tokio::time::sleep_until(wake.unwrap_or(renew_at)), if wake.is_some() => Ok(Wakeup::Due),
            }
        };
        busy_poll(self.begun + self.turns.last_commit() + self.scheduler.busy_poll, come).await
    }

    /// Makes sure that each queue has its consumer group before its first task can be read.
    async fn open_queues(&mut self, commit: &Commit) -> Result<(), BrokerError> {
        let is_open = |queue: &AgentType| self.io.opened.get(queue).is_some_and(|at| at.elapsed() < REOPEN);
        let queues = commit.tasks.iter().map(|task| &task.agent_type);
        let new: BTreeSet<AgentType> = queues.filter(|queue| !is_open(queue)).cloned().collect();
        for agent_type in new {
            match self.scheduler.broker.open_queue(&agent_type).await {
                Ok(()) => {
                    self.io.opened.insert(agent_type, Instant::now());
                }
                // Retried in the next turn: a worker creates the missing group, and other plans must continue.
                Err(BrokerError::OutOfMemory) => {}
                Err(error) => {
                    quarantine::isolate_queue(&self.scheduler, &agent_type, &error);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

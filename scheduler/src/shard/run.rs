//! A shard's loop: take what is there, decide, commit once, act.
//!
//! While one turn is being written, the next one is decided; it is written once that is done.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use goalmill_broker::{BrokerError, Commit, Committed, Entry};
use goalmill_common::command::Verb;
use goalmill_common::id::{AgentType, EntryId, PlanId, ShardId};
use goalmill_common::wire::Inbox;
use goalmill_planning::Ledger;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::caution::Caution;
use super::outlet::ToLoop;
use super::owned::Owned;
use super::turn::After;
use super::{Local, Looked, Poison};
use crate::effects;
use crate::quarantine;
use crate::site::Site;
use crate::spin::spin;
use crate::trial::plans_of;
use crate::unused::REOPEN;

/// Batches of inbox entries read ahead.
const READ_AHEAD: usize = 2;
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
    /// Number of the last commit under the token.
    pub(crate) number: u64,
    pub(crate) owned: Owned,
    pub(crate) cursor: EntryId,
    pub(crate) locals: mpsc::Receiver<Local>,
    pub(crate) window_changes: Arc<Notify>,
    /// For answers of effects.
    pub(crate) to_self: mpsc::Sender<Local>,
    /// Gives the shard up.
    pub(crate) release: CancellationToken,
    pub(crate) commit_seconds: metrics::Histogram,
    /// Inputs for which the last turn had no time, in their order.
    pub(crate) left_over: Vec<Input>,
    /// What is done one by one, because the owner before died.
    pub(super) caution: Option<Caution>,
    /// A plan to work on again.
    pub(crate) let_in: Option<PlanId>,
}

type Batch = Result<Vec<(EntryId, Inbox)>, BrokerError>;

/// A turn on its way into the store.
struct Writing {
    written: Pin<Box<dyn Future<Output = Result<(), End>> + Send>>,
    /// Done once it is there.
    after: Vec<After>,
}

/// Why the loop goes on.
enum Next {
    Inputs(Vec<Input>),
    /// A timer, a sign of life, more to dispatch or more room for it.
    Due,
    /// What was on its way is written, or cannot be.
    Written(Result<(), End>),
}

/// One thing for a turn to deal with.
pub(crate) enum Input {
    Entry(EntryId, Inbox),
    Local(Local),
}

impl Input {
    /// The plans that it is about.
    fn plans(&self) -> Vec<PlanId> {
        match self {
            Self::Entry(_, inbox) => plans_of(inbox),
            Self::Local(Local::Request { request, .. }) => vec![request.plan.clone()],
            Self::Local(Local::Command { plan, .. }) => vec![plan.clone()],
            Self::Local(Local::AskSuspects(_) | Local::Reconcile(_)) => Vec::new(),
        }
    }

    /// The plan that it is to begin, if that is what it asks for, and what the store says of it, if known.
    fn begins(&self) -> Option<(&PlanId, Option<Looked>)> {
        let (request, looked) = match self {
            Self::Entry(_, Inbox::Request(request)) => (request, None),
            Self::Local(Local::Request { request, looked, .. }) => (request, *looked),
            Self::Entry(_, Inbox::Reports(_) | Inbox::Unreadable(_))
            | Self::Local(Local::Command { .. } | Local::AskSuspects(_) | Local::Reconcile(_)) => return None,
        };
        matches!(request.verb, Verb::Submit(_)).then_some((&request.plan, looked))
    }
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
        self.site.tallies.remove(self.shard);
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
        let mut opened = BTreeMap::new();
        let heartbeat = Duration::from_millis(self.site.settings.scheduler.heartbeat_ms);
        let mut shown = Instant::now();
        let mut looked = shown;
        let mut counted: Option<Instant> = None;
        let mut awake = shown;
        let mut writing: Option<Writing> = None;
        let mut next = Next::Due;
        loop {
            match next {
                Next::Inputs(inputs) => {
                    if let Err(end) = self.take(inputs, inbox).await {
                        return end;
                    }
                }
                Next::Due => {
                    self.owned.begin_turn();
                    if writing.is_none()
                        && let Err(error) = self.begin_one().await
                    {
                        return End::Lost(error.to_string());
                    }
                }
                Next::Written(Err(end)) => return end,
                Next::Written(Ok(())) => {
                    let written = writing.take().expect("only what is on its way can arrive");
                    self.act(written.after);
                    self.site.commits.send_modify(|commits| *commits += 1);
                    self.owned.begin_turn();
                }
            }
            self.owned.take_timers();
            self.owned.settle();
            let site = &self.site;
            self.owned.dispatch(|agent_type| window(site, agent_type));
            if let Some(plan) = self.owned.broken().cloned() {
                if let Some(Writing { written, after }) = writing
                    && written.await.is_ok()
                {
                    self.act(after);
                }
                self.site.set_aside(plan.clone(), "made the engine panic: please report this bug");
                return End::Lost(format!("the engine panicked over plan {plan}, which is set aside"));
            }
            if writing.is_none() {
                if let Err(error) = self.open_queues(&mut opened).await {
                    return End::Lost(error.to_string());
                }
                let thorough = self.number == 0 || looked.elapsed() >= heartbeat;
                let (commit, after) = self.owned.seal(&self.token, self.number + 1, thorough);
                if let Some(mut commit) = commit {
                    quarantine::spare(&self.site, &mut commit);
                    self.number += 1;
                    shown = Instant::now();
                    awake = shown + self.site.spin;
                    if thorough {
                        looked = shown;
                    }
                    let written = Box::pin(write(self.site.clone(), self.commit_seconds.clone(), commit));
                    writing = Some(Writing { written, after });
                } else {
                    self.act(after);
                    if self.release.is_cancelled() {
                        return End::Released;
                    }
                    if shown.elapsed() >= heartbeat {
                        match self.site.broker.renew(self.shard, &self.token).await {
                            Ok(true) => shown = Instant::now(),
                            Ok(false) => return End::Lost("another scheduler has taken it".into()),
                            Err(error) => return End::Lost(error.to_string()),
                        }
                    }
                }
            }
            if counted.is_none_or(|at| at.elapsed() >= heartbeat) {
                self.site.tallies.set(self.shard, self.owned.tally());
                counted = Some(Instant::now());
            }
            if let Some(plan) = self.let_in.take()
                && writing.is_none()
            {
                return self.let_in(plan).await;
            }
            next = match self.next(inbox, writing.as_mut(), shown + heartbeat, awake).await {
                Ok(next) => next,
                Err(end) => return end,
            };
        }
    }

    /// Begins the next plan of those that a dead owner may have had in hand; nothing without such plans.
    async fn begin_one(&mut self) -> Result<(), BrokerError> {
        let Some(caution) = &mut self.caution else { return Ok(()) };
        if let Some((slot, plan)) = caution.waiting.pop_front() {
            caution.note(&self.site, self.shard, vec![plan]).await?;
            self.owned.begin(slot);
        } else if caution.is_over()
            && let Some(caution) = self.caution.take()
        {
            caution.end(&self.site, self.shard).await?;
        }
        Ok(())
    }

    /// Takes a plan out of quarantine: its shard is read again, with it.
    async fn let_in(&self, plan: PlanId) -> End {
        let broker = self.site.broker.as_ref();
        let changed = async {
            let mut poison = Poison::read(broker, self.shard).await?;
            match poison.quarantined.remove(&plan) {
                Some(_) => poison.write(broker, self.shard).await,
                None => Ok(()),
            }
        };
        if let Err(error) = changed.await {
            return End::Lost(error.to_string());
        }
        self.site.let_in(&plan);
        End::Lost(format!("plan {plan} is taken up again, so all of them are read again"))
    }

    /// Waits for inputs, for what is on its way, for a timer, or for the time of the next sign of life; does not sleep
    /// before `awake`.
    async fn next(
        &mut self,
        inbox: &mut mpsc::Receiver<Batch>,
        mut writing: Option<&mut Writing>,
        beat: Instant,
        awake: Instant,
    ) -> Result<Next, End> {
        if let Some(writing) = &mut writing {
            // Sends it off before anything else is decided.
            if let Poll::Ready(written) = futures_util::poll!(&mut writing.written) {
                return Ok(Next::Written(written));
            }
            tokio::task::yield_now().await;
        }
        let is_writing = writing.is_some();
        if let Some(caution) = &self.caution
            && !is_writing
            && (!caution.waiting.is_empty() || caution.is_over())
        {
            return Ok(Next::Due);
        }
        let written = async {
            match writing {
                Some(writing) => (&mut writing.written).await,
                None => std::future::pending().await,
            }
        };
        let due = self.owned.next_due_ms().map(|due| {
            let left = due.saturating_sub(self.site.clock.now_ms());
            Instant::now() + Duration::from_millis(left)
        });
        let wake = match (is_writing, due) {
            (false, due) => Some(due.map_or(beat, |due| due.min(beat))),
            // A turn that has begun has its time: what falls due now is for the next one.
            (true, due) => due.filter(|_| !self.owned.has_events() && self.owned.room() > 0),
        };
        let may_overlap = !self.release.is_cancelled() && self.caution.is_none();
        let takes = self.owned.room() > 0 && (!is_writing || may_overlap);
        if takes && !self.left_over.is_empty() {
            return Ok(Next::Inputs(std::mem::take(&mut self.left_over)));
        }
        let come = async {
            tokio::select! {
                biased;
                written = written, if is_writing => Ok(Next::Written(written)),
                () = self.release.cancelled(), if !is_writing => Ok(Next::Due),
                batch = inbox.recv(), if takes => entries(batch).map(Next::Inputs),
                local = self.locals.recv(), if takes => {
                    Ok(Next::Inputs(local.into_iter().map(Input::Local).collect()))
                }
                () = std::future::ready(()), if self.owned.has_more() => Ok(Next::Due),
                () = self.window_changes.notified(), if !is_writing => Ok(Next::Due),
                () = tokio::time::sleep_until(wake.unwrap_or(beat)), if wake.is_some() => Ok(Next::Due),
            }
        };
        spin(awake, come).await
    }

    /// Takes these inputs, and everything else that is there already.
    async fn take(&mut self, mut inputs: Vec<Input>, inbox: &mut mpsc::Receiver<Batch>) -> Result<(), End> {
        self.owned.begin_turn();
        if self.caution.is_some() {
            return self.take_one(inputs).await;
        }
        let room = self.owned.room();
        while inputs.len() < room
            && let Ok(batch) = inbox.try_recv()
        {
            inputs.extend(entries(Some(batch))?);
        }
        while inputs.len() < room
            && let Ok(local) = self.locals.try_recv()
        {
            inputs.push(Input::Local(local));
        }
        self.look_up(&inputs).await?;
        let mut inputs = inputs.into_iter();
        while self.owned.takes_more()
            && let Some(input) = inputs.next()
        {
            self.put(input);
        }
        self.left_over = inputs.collect();
        Ok(())
    }

    /// Takes the first of these inputs, noted beforehand; the others wait.
    async fn take_one(&mut self, mut inputs: Vec<Input>) -> Result<(), End> {
        let lost = |error: BrokerError| End::Lost(error.to_string());
        self.left_over = inputs.split_off(inputs.len().min(1));
        if let (Some(caution), Some(input)) = (&mut self.caution, inputs.first()) {
            caution.note(&self.site, self.shard, input.plans()).await.map_err(lost)?;
            if let Input::Entry(id, _) = input {
                caution.passed(id);
            }
        }
        self.look_up(&inputs).await?;
        for input in inputs {
            self.put(input);
        }
        Ok(())
    }

    fn put(&mut self, input: Input) {
        match input {
            Input::Entry(id, entry) => self.owned.take_entry(id, entry),
            Input::Local(local) => self.owned.take_local(local),
        }
    }

    /// Finds out which of the plans that are to begin have run already: memory knows only those that have not ended.
    async fn look_up(&mut self, inputs: &[Input]) -> Result<(), End> {
        let mut plans: Vec<PlanId> = Vec::new();
        for (plan, looked) in inputs.iter().filter_map(Input::begins) {
            if !self.owned.knows(plan, looked) && !self.site.is_set_aside(plan) {
                plans.push(plan.clone());
            }
        }
        if plans.is_empty() {
            return Ok(());
        }
        let statuses = match self.site.broker.statuses(&plans).await {
            Ok(statuses) => statuses,
            Err(error) => {
                quarantine::isolate_unreadable(&self.site, &plans, &error).await;
                return Err(End::Lost(error.to_string()));
            }
        };
        for (plan, status) in plans.into_iter().zip(statuses) {
            if let Some(status) = status {
                self.owned.note_ended(plan, status);
            }
        }
        Ok(())
    }

    /// Makes sure that a queue's group exists before its first task can be read.
    async fn open_queues(&mut self, opened: &mut BTreeMap<AgentType, Instant>) -> Result<(), BrokerError> {
        let is_open = |queue: &AgentType| opened.get(queue).is_some_and(|at| at.elapsed() < REOPEN);
        let new: BTreeSet<AgentType> = self.owned.queues_used().filter(|queue| !is_open(queue)).cloned().collect();
        for agent_type in new {
            match self.site.broker.open_queue(&agent_type).await {
                Ok(()) => {
                    opened.insert(agent_type, Instant::now());
                }
                // Tried again in the next turn: who reads first makes what is missing, and the shard's plans must go on.
                Err(BrokerError::OutOfMemory) => {}
                Err(error) => {
                    quarantine::isolate_queue(&self.site, &agent_type, &error);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn to_loop(&self, plan: PlanId, asked: Option<u32>) -> ToLoop {
        ToLoop { loop_: self.to_self.clone(), plan, asked }
    }

    fn act(&mut self, after: Vec<After>) {
        if after.is_empty() {
            return;
        }
        let mut errands = Vec::new();
        for item in after {
            match item {
                After::Reply(reply, verdict) => drop(reply.send(verdict)),
                After::Taken(reply, verdict) => drop(reply.send(verdict)),
                After::Suspects(reply, suspects) => drop(reply.send(suspects)),
                After::Plan { plan, goal, depth, answers } => {
                    let (site, outlet) = (self.site.clone(), self.to_loop(plan, None));
                    self.site.tasks.spawn(async move {
                        let ledger = Ledger::new(0, Arc::new(outlet.clone()), &answers);
                        let asked = Box::pin(effects::plan(&site, outlet.plan.as_str(), *goal, depth, ledger, &outlet));
                        if let Some(Some(command)) = site.stop.run_until_cancelled(asked).await {
                            outlet.tell(command).await;
                        }
                    });
                }
                After::Revise { plan, state, revision, asked } => {
                    let (site, outlet) = (self.site.clone(), self.to_loop(plan, Some(asked)));
                    self.site.tasks.spawn(async move {
                        let ledger = Ledger::new(revision, Arc::new(outlet.clone()), state.model_answers());
                        let asked = effects::revise(&site, &state, revision, ledger);
                        if let Some(Some(command)) = site.stop.run_until_cancelled(asked).await {
                            outlet.tell(command).await;
                        }
                    });
                }
                After::LookUp { plan, step, key } => {
                    let (site, outlet) = (self.site.clone(), self.to_loop(plan, None));
                    self.site.tasks.spawn(async move {
                        let command = effects::look_up(&site, &outlet.plan, step, key).await;
                        outlet.tell(command).await;
                    });
                }
                After::Keep { key, outputs, ttl_ms } => {
                    let site = self.site.clone();
                    self.site.tasks.spawn(async move { effects::keep(&site, key, outputs, ttl_ms).await });
                }
                After::Trace(plan) => {
                    if let Some(traces) = &self.site.traces {
                        traces.ended(plan);
                    }
                }
                After::Tell { plan, records } => self.site.hooks.tell(plan.as_str(), &records),
                After::LetIn(plan) => self.let_in = Some(plan),
                After::Errand(errand) => errands.push(errand),
            }
        }
        if !errands.is_empty() {
            self.site.tasks.spawn(effects::run(self.site.clone(), errands));
        }
    }
}

/// Writes a commit, once more when its reply is lost.
async fn write(site: Arc<Site>, seconds: metrics::Histogram, commit: Commit) -> Result<(), End> {
    let mut resends = 0;
    let begun = Instant::now();
    loop {
        match site.broker.commit(&commit).await {
            Ok(Committed::Applied | Committed::Duplicate) => {
                seconds.record(begun.elapsed());
                return Ok(());
            }
            Ok(Committed::Fenced) => {
                return Err(End::Lost("another scheduler has taken it, a commit was refused".into()));
            }
            Ok(Committed::Gap(what)) => {
                return Err(End::Lost(format!("COMMIT_GAP: the commit does not follow the log: {what}")));
            }
            Err(BrokerError::Unavailable(_)) if resends < RESENDS_MAX => resends += 1,
            Err(error) => {
                quarantine::isolate(&site, &commit, &error);
                return Err(End::Lost(error.to_string()));
            }
        }
    }
}

fn window(site: &Site, agent_type: &AgentType) -> u32 {
    if agent_type.as_str().is_empty() { u32::MAX } else { site.directory.window(agent_type) }
}

/// The inputs of a batch; a batch that could not be read ends the loop.
fn entries(batch: Option<Batch>) -> Result<Vec<Input>, End> {
    match batch {
        Some(Ok(entries)) => Ok(entries.into_iter().map(|(id, entry)| Input::Entry(id, entry)).collect()),
        Some(Err(error)) => Err(End::Lost(error.to_string())),
        None => Err(End::Lost("the inbox reader ended".into())),
    }
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
                Ok(entries.into_iter().map(|Entry { id, fields }| (id, Inbox::from_fields(&fields))).collect())
            }
            Err(error) => Err(error),
        };
        let failed = batch.is_err();
        if batches.send(batch).await.is_err() || failed {
            return;
        }
    }
}

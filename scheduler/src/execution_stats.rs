//! What became of steps and plans, for those who learn from it: the router, and the calibration of confidences.
//!
//! One place hears every event of the shards that run here, as it goes into its commit, and does next to nothing with it:
//! sums for the router, a note for plans that a planner made. What takes longer is done by [`learn`], outside of the
//! loops; when that cannot keep up, samples are left out. At the start [`recall`] reads the logs of the last plans, so that
//! what was learnt survives a restart as long as the logs do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use goalmill_broker::BrokerError;
use goalmill_common::command::SUBMITTED;
use goalmill_common::event::{Event, PlanCreated, PlanEvent, Record, SkipCause, StepEvent};
use goalmill_common::id::{PlanId, ShardId, StepId};
use goalmill_common::json::Json;
use goalmill_common::plan::Kind;
use goalmill_common::status::PlanStatus;
use goalmill_engine::{PlanState, StepAt, apply};
use goalmill_planning::calibrate::Confidences;
use goalmill_router as router;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::directory::Directory;
use crate::event_log::{self, Pages};
use crate::plan_reader::PlanReader;

/// Running plans of which something is noted; the oldest ids are forgotten first.
const NOTES_MAX: usize = 50_000;
/// Lessons that wait; more are left out.
const LESSONS_WAITING: usize = 1_024;
/// Lessons gone through at once.
const LESSONS_AT_ONCE: usize = 64;
/// Events read at the start, of all plans together.
const RECALLED_EVENTS_MAX: u64 = 500_000;

/// Hears how steps and plans end.
pub(crate) struct ExecutionStats {
    directory: Arc<Directory>,
    confidences: Arc<Confidences>,
    learns: bool,
    /// What is older was not heard live, Unix milliseconds.
    begun_ms: u64,
    notes: Mutex<BTreeMap<PlanId, Note>>,
    samples: mpsc::Sender<Sample>,
}

/// How a step ended that the router had chosen an agent for.
#[derive(Debug)]
pub(crate) struct Sample {
    /// The step as the router read it.
    text: String,
    /// Who did it, or failed at it; nobody should have.
    agent: Option<goalmill_common::id::AgentType>,
    succeeded: bool,
}

/// When events are heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hearing {
    /// Being committed here.
    Live,
    /// From a log, at the start.
    Recalled,
    /// From a log, for what is noted of a running plan only.
    Again,
}

/// What is remembered of a running plan.
#[derive(Debug, Default)]
struct Note {
    /// Who made the plan, and how sure it was.
    said: Option<(String, f64)>,
    /// Steps that the router chose an agent for.
    routed: BTreeSet<StepId>,
}

impl Note {
    fn is_empty(&self) -> bool {
        self.said.is_none() && self.routed.is_empty()
    }
}

/// The part of a plan's provenance that tells how sure the planner was.
#[derive(Deserialize)]
struct Said {
    said: Option<f64>,
}

impl ExecutionStats {
    /// - `learns`: whether the router wants samples.
    pub(crate) fn new(
        directory: Arc<Directory>,
        confidences: Arc<Confidences>,
        learns: bool,
        begun_ms: u64,
    ) -> (Self, mpsc::Receiver<Sample>) {
        let (samples, waiting) = mpsc::channel(LESSONS_WAITING);
        let notes = Mutex::default();
        (Self { directory, confidences, learns, begun_ms, notes, samples }, waiting)
    }

    /// Hears what is being committed of a plan. A commit that fails is heard again when it is decided again: for sums, and
    /// for wishes that a plan may refuse, that does no harm.
    ///
    /// - `state`: the plan with these events.
    pub(crate) fn record(&self, state: &PlanState, records: &[Record]) {
        let mut notes = self.notes();
        let teach = |sample: Sample| {
            if self.samples.try_send(sample).is_err() {
                metrics::counter!("goalmill_lessons_skipped_total").increment(1);
            }
        };
        self.take(&mut notes, state, records, Hearing::Live, teach);
    }

    fn take(
        &self,
        notes: &mut BTreeMap<PlanId, Note>,
        state: &PlanState,
        records: &[Record],
        hearing: Hearing,
        mut teach: impl FnMut(Sample),
    ) {
        let Some(plan) = state.id() else { return };
        let mut is_noted = notes.contains_key(plan);
        for record in records {
            match &record.event {
                Event::Plan(event) => {
                    self.plan(notes, plan, event, self.counts(hearing, record.time_ms));
                    is_noted = notes.contains_key(plan);
                }
                Event::Step { step, attempt, event } => {
                    if let Some(ended) = Ended::of(event, *attempt, record.actor.as_deref()) {
                        let is_routed = is_noted && notes.get(plan).is_some_and(|note| note.routed.contains(step));
                        if self.counts(hearing, record.time_ms) {
                            self.step(state, step, ended, record.time_ms, is_routed, &mut teach);
                        }
                    }
                }
            }
        }
    }

    /// Whether what happened then is still to be counted.
    fn counts(&self, hearing: Hearing, time_ms: u64) -> bool {
        match hearing {
            Hearing::Live => true,
            Hearing::Recalled => time_ms < self.begun_ms,
            Hearing::Again => false,
        }
    }

    fn plan(&self, notes: &mut BTreeMap<PlanId, Note>, plan: &PlanId, event: &PlanEvent, counts: bool) {
        if let PlanEvent::PlanCreated(created) = event {
            let note = Note { said: said(created), routed: BTreeSet::new() };
            if !note.is_empty() {
                keep(notes, plan, note);
            }
        } else if let PlanEvent::PlanValidated(validated) = event {
            self.routed(notes, plan, validated.routes.iter().map(|route| &route.step));
        } else if let PlanEvent::Revised(revised) = event {
            self.routed(notes, plan, revised.routes.iter().map(|route| &route.step));
        } else if let PlanEvent::Extended(extended) = event {
            self.routed(notes, plan, extended.routes.iter().map(|route| &route.step));
            let note = notes.get_mut(plan).and_then(|note| note.said.as_mut());
            if let (Some((_, said)), Some(confidence)) = (note, extended.confidence) {
                *said = extended.provenance.as_ref().and_then(said_in).unwrap_or(confidence);
            }
        } else if let PlanEvent::Completed(ended) | PlanEvent::Failed(ended) = event {
            if let Some((planner, said)) = notes.remove(plan).and_then(|note| note.said)
                && counts
            {
                self.confidences.observe(&planner, said, ended.status == PlanStatus::Completed);
            }
        } else if let PlanEvent::Cancelled(_) | PlanEvent::Rejected(_) = event {
            // A person's wish says nothing about the plan.
            notes.remove(plan);
        }
    }

    fn routed<'a>(
        &self,
        notes: &mut BTreeMap<PlanId, Note>,
        plan: &PlanId,
        mut steps: impl Iterator<Item = &'a StepId>,
    ) {
        if !self.learns {
            return;
        }
        let Some(first) = steps.next() else { return };
        if !notes.contains_key(plan) {
            keep(notes, plan, Note::default());
        }
        if let Some(note) = notes.get_mut(plan) {
            note.routed.extend(std::iter::once(first).chain(steps).cloned());
        }
    }

    fn step(
        &self,
        state: &PlanState,
        id: &StepId,
        ended: Ended,
        time_ms: u64,
        is_routed: bool,
        teach: &mut impl FnMut(Sample),
    ) {
        let Some((i, step)) = state.step_index(id).and_then(|i| Some((i, state.step(i)?))) else { return };
        if step.spec.kind.is_inline() || step.spec.kind == Kind::Plan {
            return;
        }
        let agent = match ended {
            Ended::Completed | Ended::Failed => state.queue(i),
            Ended::GivenToFallback => Some(&step.spec.agent_type),
            Ended::Unwanted => None,
        };
        let action =
            if ended == Ended::GivenToFallback { &step.spec.action } else { state.action(i).unwrap_or_default() };
        let succeeded = matches!(ended, Ended::Completed | Ended::Unwanted);
        if let Some(agent) = agent {
            self.directory.router().record(agent, action, succeeded, ran_ms(&step), time_ms);
        }
        if is_routed {
            teach(Sample { text: router::text(step.spec), agent: agent.cloned(), succeeded });
        }
    }

    /// The plans of these whose notes must be restored from their logs.
    pub(crate) fn with_notes(&self, plans: &[PlanState]) -> Vec<PlanId> {
        let is_noted = |state: &&PlanState| self.learns || state.planner() != SUBMITTED;
        plans.iter().filter(is_noted).filter_map(|state| state.id().cloned()).collect()
    }

    fn notes(&self) -> MutexGuard<'_, BTreeMap<PlanId, Note>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a step ended, as far as it tells something about who did it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Completed,
    Failed,
    /// The step's own agent was given up on, its fallback's turn has come.
    GivenToFallback,
    /// A person did not want it done at all.
    Unwanted,
}

impl Ended {
    fn of(event: &StepEvent, attempt: u32, actor: Option<&str>) -> Option<Self> {
        if let StepEvent::Completed(completed) = event {
            // What was kept, or entered by hand, nobody did.
            (completed.cache_key.is_none() && actor.is_none()).then_some(Self::Completed)
        } else if let StepEvent::Failed(_) = event {
            (attempt > 0).then_some(Self::Failed)
        } else if let StepEvent::Skipped(skipped) = event {
            match (skipped.failure.is_some(), attempt) {
                (true, 1..) => Some(Self::Failed),
                (false, 0) => (skipped.cause == SkipCause::Person).then_some(Self::Unwanted),
                (true, 0) | (false, 1..) => None,
            }
        } else if let StepEvent::Retrying(retrying) = event {
            retrying.fallback.then_some(Self::GivenToFallback)
        } else {
            None
        }
    }
}

/// How long a step ran, by what its worker said; none when that is less than a millisecond: so it looks as well when the
/// worker did not say.
fn ran_ms(step: &StepAt<'_>) -> Option<u64> {
    step.finished_ms?.checked_sub(step.started_ms?).filter(|ms| *ms > 0)
}

/// What a planner said of its own plan; clients, forks and parts of plans say nothing.
fn said(created: &PlanCreated) -> Option<(String, f64)> {
    let provenance = created.provenance.as_ref().filter(|_| created.fork.is_none())?;
    Some((created.planner.clone(), said_in(provenance).unwrap_or(created.confidence)))
}

fn said_in(provenance: &Json) -> Option<f64> {
    serde_json::from_str::<Said>(provenance.text()).ok()?.said
}

fn keep(notes: &mut BTreeMap<PlanId, Note>, plan: &PlanId, note: Note) {
    if notes.len() >= NOTES_MAX {
        notes.pop_first();
    }
    notes.insert(plan.clone(), note);
}

/// Trains the router until stopped, on blocking threads.
pub(crate) async fn train_router(
    directory: Arc<Directory>,
    stop: CancellationToken,
    mut samples: mpsc::Receiver<Sample>,
) {
    let mut batch = Vec::with_capacity(LESSONS_AT_ONCE);
    while let Some(count) = stop.run_until_cancelled(samples.recv_many(&mut batch, LESSONS_AT_ONCE)).await {
        if count == 0 {
            return;
        }
        let (directory, taken) = (directory.clone(), std::mem::take(&mut batch));
        let learnt = tokio::task::spawn_blocking(move || {
            for sample in taken {
                match &sample.agent {
                    Some(agent) => directory.router().learn(&sample.text, agent, sample.succeeded),
                    None => directory.router().learn_nobody(&sample.text),
                }
            }
        });
        if let Err(error) = learnt.await {
            tracing::error!("the router could not learn: {error}");
        }
    }
}

/// Reads the logs of plans to restore what was learnt from them.
#[derive(Clone)]
pub(crate) struct StatsReplay {
    pub(crate) stats: Arc<ExecutionStats>,
    pub(crate) plans: Arc<dyn PlanReader>,
    pub(crate) stop: CancellationToken,
}

impl StatsReplay {
    /// Replays the plans that changed last, oldest first.
    ///
    /// - `shards`: shards of the installation.
    /// - `plans_max`: how many plans; 0 for none.
    pub(crate) async fn recent(self, shards: u16, plans_max: usize) {
        match self.stop.run_until_cancelled(self.replay_recent(shards, plans_max)).await {
            Some(Ok(plans)) => tracing::debug!("execution statistics restored from {plans} plans"),
            Some(Err(error)) => tracing::warn!("execution statistics of earlier plans are not known: {error}"),
            None => {}
        }
    }

    async fn replay_recent(&self, shards: u16, plans_max: usize) -> Result<usize, BrokerError> {
        let mut last: Vec<(u64, PlanId)> = Vec::new();
        for shard in (0..shards).map(ShardId) {
            if plans_max > 0 {
                let plans = self.plans.list(shard, u64::MAX, plans_max).await?;
                last.extend(plans.into_iter().map(|(plan, changed_ms)| (changed_ms, plan)));
            }
        }
        last.sort_unstable();
        let last = last.split_off(last.len().saturating_sub(plans_max));
        let mut events = 0;
        for (_, plan) in &last {
            if events >= RECALLED_EVENTS_MAX {
                break;
            }
            events += self.replay_plan(plan, Hearing::Recalled).await?;
        }
        Ok(last.len())
    }

    /// Restores the notes of running plans that another scheduler ran before.
    pub(crate) async fn running(self, plans: Vec<PlanId>) {
        for plan in &plans {
            if let Some(Err(error)) = self.stop.run_until_cancelled(self.replay_plan(plan, Hearing::Again)).await {
                tracing::debug!(plan_id = %plan, "execution statistics of plan {plan} are incomplete: {error}");
                return;
            }
        }
    }

    /// Replays one plan, entry by entry as it was written; returns the number of its events.
    async fn replay_plan(&self, plan: &PlanId, hearing: Hearing) -> Result<u64, BrokerError> {
        let stats = &self.stats;
        let mut state = PlanState::default();
        let mut notes = BTreeMap::new();
        let mut pages = Pages::new(self.plans.as_ref(), plan);
        while let Some(entries) = pages.next().await? {
            for entry in &entries {
                let Ok(records) = event_log::parse_records(entry) else { return Ok(state.seq()) };
                if records.iter().any(|record| apply(&mut state, record).is_err()) {
                    return Ok(state.seq());
                }
                let mut samples = Vec::new();
                stats.take(&mut notes, &state, &records, hearing, |sample| samples.push(sample));
                for sample in samples {
                    if stats.samples.send(sample).await.is_err() {
                        return Ok(state.seq());
                    }
                }
            }
            tokio::task::yield_now().await;
        }
        // What was committed since is missing from the note; that costs a sample at most.
        if let Some(note) = notes.remove(plan) {
            keep(&mut stats.notes(), plan, note);
        }
        Ok(state.seq())
    }
}

//! Derives success rates, latencies and training samples from committed events, for the router and for the calibration
//! of planner confidences.
//!
//! Shards record their events after each commit, which only updates sums and notes. [`train_router`] does the slow part
//! outside of the loops; samples that it cannot keep up with are dropped. At the start [`StatsReplay`] reads the logs of
//! the latest plans, so that statistics survive a restart as long as the logs do.

mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use goalmill_common::command::SUBMITTED;
use goalmill_common::event::{Event, PlanEvent, Record, SkipCause, StepEvent};
use goalmill_common::id::{PlanId, StepId};
use goalmill_common::plan::StepKind;
use goalmill_common::status::PlanStatus;
use goalmill_engine::{PlanState, StepSnapshot, revise};
use goalmill_planning::calibration::{ConfidenceCalibration, correlation, reliability};
use goalmill_planning::examples::ExampleStore;
use goalmill_router as router;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::agent_directory::Directory;
use crate::quality::{CONFIDENCE_BINS, StatedConfidence};
pub(crate) use replay::StatsReplay;

/// Running plans with notes; those with the lowest ids are dropped first.
const NOTES_MAX: usize = 50_000;
/// Samples that wait for training; further ones are dropped.
const SAMPLES_WAITING: usize = 1_024;
/// Samples per training batch.
const SAMPLES_PER_BATCH: usize = 64;

/// Statistics of finished steps and plans.
pub(crate) struct ExecutionStats {
    directory: Arc<Directory>,
    confidences: Arc<ConfidenceCalibration>,
    examples: Option<Arc<ExampleStore>>,
    learns: bool,
    /// Start of this scheduler, Unix milliseconds: older events come from logs.
    begun_ms: u64,
    notes: Mutex<BTreeMap<PlanId, PlanNotes>>,
    samples: mpsc::Sender<Sample>,
}

/// The outcome of a routed step.
#[derive(Debug)]
pub(crate) struct Sample {
    /// The text of the step that the router ranked.
    text: String,
    /// The agent type that ran it; `None` if no agent type should.
    agent: Option<goalmill_common::id::AgentType>,
    succeeded: bool,
}

/// Where events come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventSource {
    /// A commit of this scheduler.
    Live,
    /// A log, at the start.
    Log,
    /// The log of a running plan, to restore its notes only.
    NotesOnly,
}

/// Notes on a running plan.
#[derive(Debug, Default)]
struct PlanNotes {
    confidence: Option<StatedConfidence>,
    /// Steps that the router chose an agent for.
    routed: BTreeSet<StepId>,
}

impl PlanNotes {
    fn is_empty(&self) -> bool {
        self.confidence.is_none() && self.routed.is_empty()
    }
}

/// Who learns from plans and steps.
pub(crate) struct Lessons {
    pub(crate) confidences: Arc<ConfidenceCalibration>,
    /// The plans of earlier goals.
    pub(crate) examples: Option<Arc<ExampleStore>>,
    /// Whether the router is trained.
    pub(crate) learns: bool,
}

impl ExecutionStats {
    pub(crate) fn new(directory: Arc<Directory>, lessons: Lessons, begun_ms: u64) -> (Self, mpsc::Receiver<Sample>) {
        let (samples, waiting) = mpsc::channel(SAMPLES_WAITING);
        let Lessons { confidences, examples, learns } = lessons;
        let notes = Mutex::default();
        (Self { directory, confidences, examples, learns, begun_ms, notes, samples }, waiting)
    }

    /// Records the events of a commit.
    ///
    /// - `state`: the plan after these events, or after later ones.
    pub(crate) fn record(&self, state: &PlanState, records: &[Record]) {
        let mut notes = self.notes();
        let add_sample = |sample: Sample| {
            if self.samples.try_send(sample).is_err() {
                metrics::counter!("goalmill_lessons_skipped_total").increment(1);
            }
        };
        self.record_from(&mut notes, state, records, EventSource::Live, add_sample);
    }

    fn record_from(
        &self,
        notes: &mut BTreeMap<PlanId, PlanNotes>,
        state: &PlanState,
        records: &[Record],
        source: EventSource,
        mut add_sample: impl FnMut(Sample),
    ) {
        let plan = state.id();
        let mut is_noted = notes.contains_key(plan);
        for record in records {
            match &record.event {
                Event::Plan(event) => {
                    let counts = self.counts(source, record.time_ms);
                    if counts {
                        self.record_example(state, event);
                    }
                    self.record_plan(notes, plan, event, counts);
                    is_noted = notes.contains_key(plan);
                }
                Event::Step { step, attempt, event, phase: _ } => {
                    if let Some(ended) = Ended::from_event(event, *attempt, record.actor.as_deref()) {
                        let is_routed = is_noted && notes.get(plan).is_some_and(|note| note.routed.contains(step));
                        if self.counts(source, record.time_ms) {
                            self.record_step(state, step, ended, record.time_ms, is_routed, &mut add_sample);
                        }
                    }
                }
            }
        }
    }

    /// Whether an event of that time is counted.
    fn counts(&self, source: EventSource, time_ms: u64) -> bool {
        match source {
            EventSource::Live => true,
            EventSource::Log => time_ms < self.begun_ms,
            EventSource::NotesOnly => false,
        }
    }

    fn record_plan(&self, notes: &mut BTreeMap<PlanId, PlanNotes>, plan: &PlanId, event: &PlanEvent, counts: bool) {
        if let PlanEvent::PlanCreated(created) = event {
            let note = PlanNotes { confidence: StatedConfidence::from_created(created), routed: BTreeSet::new() };
            if !note.is_empty() {
                add_notes(notes, plan, note);
            }
        } else if let PlanEvent::PlanValidated(validated) = event {
            self.note_routed(notes, plan, validated.routes.iter().map(|route| &route.step));
        } else if let PlanEvent::Revised(revised) = event {
            self.note_routed(notes, plan, revised.routes.iter().map(|route| &route.step));
        } else if let PlanEvent::Extended(extended) = event {
            self.note_routed(notes, plan, extended.routes.iter().map(|route| &route.step));
            if let Some(stated) = notes.get_mut(plan).and_then(|note| note.confidence.as_mut()) {
                stated.observe(event);
            }
        } else if let PlanEvent::Completed(ended) | PlanEvent::Failed(ended) = event {
            if let Some(stated) = notes.remove(plan).and_then(|note| note.confidence)
                && counts
            {
                self.confidences.observe(&stated.planner, stated.value, ended.status == PlanStatus::Completed);
                self.publish_confidence();
            }
        } else if let PlanEvent::Cancelled(_) | PlanEvent::Rejected(_) = event {
            // A person's decision is no evidence about the plan.
            notes.remove(plan);
        }
    }

    /// Keeps the plan of a goal with its outcome, as an example for models.
    fn record_example(&self, state: &PlanState, event: &PlanEvent) {
        let Some(examples) = self.examples.as_ref().filter(|examples| examples.is_on()) else { return };
        if let PlanEvent::Completed(ended) | PlanEvent::Failed(ended) = event {
            let goal = &state.accepted().goal.description;
            examples.record_outcome(state.id(), goal, &revise::live_plan(state), ended.status);
        }
    }

    /// Publishes how well confidence and outcome agree.
    fn publish_confidence(&self) {
        let outcomes = self.confidences.outcomes();
        let error = reliability(&outcomes, CONFIDENCE_BINS).calibration_error;
        metrics::gauge!("goalmill_confidence_calibration_error").set(error);
        if let Some(r) = correlation(&outcomes) {
            metrics::gauge!("goalmill_confidence_correlation").set(r);
        }
    }

    fn note_routed<'a>(
        &self,
        notes: &mut BTreeMap<PlanId, PlanNotes>,
        plan: &PlanId,
        mut steps: impl Iterator<Item = &'a StepId>,
    ) {
        if !self.learns {
            return;
        }
        let Some(first) = steps.next() else { return };
        if !notes.contains_key(plan) {
            add_notes(notes, plan, PlanNotes::default());
        }
        if let Some(note) = notes.get_mut(plan) {
            note.routed.extend(std::iter::once(first).chain(steps).cloned());
        }
    }

    fn record_step(
        &self,
        state: &PlanState,
        id: &StepId,
        ended: Ended,
        time_ms: u64,
        is_routed: bool,
        add_sample: &mut impl FnMut(Sample),
    ) {
        let Some((i, step)) = state.step_index(id).and_then(|i| Some((i, state.step(i)?))) else { return };
        if step.spec.kind.is_inline() || step.spec.kind == StepKind::Plan {
            return;
        }
        let agent = match ended {
            Ended::Completed | Ended::Failed => state.queue(i),
            Ended::SwitchedToFallback => Some(&step.spec.agent_type),
            Ended::SkippedByPerson => None,
        };
        let action =
            if ended == Ended::SwitchedToFallback { &step.spec.action } else { state.action(i).unwrap_or_default() };
        let succeeded = matches!(ended, Ended::Completed | Ended::SkippedByPerson);
        if let Some(agent) = agent {
            self.directory.router().record_outcome(agent, action, succeeded, ran_ms(&step), time_ms);
        }
        if is_routed {
            add_sample(Sample { text: router::step_text(step.spec), agent: agent.cloned(), succeeded });
        }
    }

    /// The plans whose notes must be restored from their logs.
    pub(crate) fn with_notes(&self, plans: &[PlanState]) -> Vec<PlanId> {
        let is_noted = |state: &&PlanState| self.learns || state.planner() != SUBMITTED;
        plans.iter().filter(is_noted).map(|state| state.id().clone()).collect()
    }

    fn notes(&self) -> MutexGuard<'_, BTreeMap<PlanId, PlanNotes>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a step, as evidence about its agent type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Completed,
    Failed,
    /// The step switched to its fallback.
    SwitchedToFallback,
    /// A person skipped it before its first attempt.
    SkippedByPerson,
}

impl Ended {
    fn from_event(event: &StepEvent, attempt: u32, actor: Option<&str>) -> Option<Self> {
        if let StepEvent::Completed(completed) = event {
            // Cached or manually completed steps are not attributed to an agent.
            (completed.cache_key.is_none() && actor.is_none()).then_some(Self::Completed)
        } else if let StepEvent::Failed(_) = event {
            (attempt > 0).then_some(Self::Failed)
        } else if let StepEvent::Skipped(skipped) = event {
            match (skipped.failure.is_some(), attempt) {
                (true, 1..) => Some(Self::Failed),
                (false, 0) => (skipped.cause == SkipCause::Person).then_some(Self::SkippedByPerson),
                (true, 0) | (false, 1..) => None,
            }
        } else if let StepEvent::Retrying(retrying) = event {
            retrying.fallback.then_some(Self::SwitchedToFallback)
        } else {
            None
        }
    }
}

/// The run time of a step as its worker reported it. `None` below one millisecond, which also stands for "not
/// reported".
fn ran_ms(step: &StepSnapshot<'_>) -> Option<u64> {
    step.finished_ms?.checked_sub(step.started_ms?).filter(|ms| *ms > 0)
}

fn add_notes(notes: &mut BTreeMap<PlanId, PlanNotes>, plan: &PlanId, note: PlanNotes) {
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
    let mut batch = Vec::with_capacity(SAMPLES_PER_BATCH);
    while let Some(count) = stop.run_until_cancelled(samples.recv_many(&mut batch, SAMPLES_PER_BATCH)).await {
        if count == 0 {
            return;
        }
        let (directory, taken) = (directory.clone(), std::mem::take(&mut batch));
        let learnt = tokio::task::spawn_blocking(move || {
            for sample in taken {
                match &sample.agent {
                    Some(agent) => directory.router().record_match(&sample.text, agent, sample.succeeded),
                    None => directory.router().record_no_match(&sample.text),
                }
            }
        });
        if let Err(error) = learnt.await {
            tracing::error!("the router could not be trained: {error}");
        }
    }
}

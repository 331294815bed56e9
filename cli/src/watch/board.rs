//! State of the live view of a plan: that of the engine, and times that the engine does not keep.

use goalmill_common::constraint::ConstraintView;
use goalmill_common::event::{Event, PlanEvent, Record, StepEvent};
use goalmill_common::failure::Failure;
use goalmill_common::goal::{Goal, Usage};
use goalmill_common::id::{AgentType, PlanId, StepId};
use goalmill_common::plan::Step;
use goalmill_common::problem::Issue;
use goalmill_common::status::{Counts, PlanStatus, StepStatus};
use goalmill_common::view::Results;
use goalmill_engine::{PlanState, ReplayError, StepIndex, StepSnapshot, constraints, criteria, replay, revise};

use super::note::note;

/// One plan.
#[derive(Clone, Debug)]
pub struct Board {
    pub plan: PlanId,
    /// `None` before the first event.
    state: Option<PlanState>,
    history: Vec<StepHistory>,
    /// Characters of the longest step id and agent type.
    pub widths: (usize, usize),
    /// Whether any step has an amount of money.
    pub has_money: bool,
    /// Times of the first and the last event, Unix milliseconds.
    pub first_ms: u64,
    pub last_ms: u64,
    /// Started attempts.
    pub attempts: u32,
    pub retries: u32,
    /// Arrival times of streamed steps, Unix milliseconds, and the start of the first one by the worker's clock.
    pub written_ms: Vec<u64>,
    pub begun_ms: Option<u64>,
    /// Why the plan could not be made, or is in quarantine.
    note: String,
    /// Warnings that were shown before.
    pub warned: Vec<Issue>,
}

/// Pending request of a plan in revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Approval of a revision.
    Revision {
        revision: u32,
    },
    /// Approval to continue without a failed step.
    GoOn {
        step: Option<StepId>,
    },
    Question {
        id: String,
        question: String,
    },
}

/// What the log said of a step, beside its present state.
#[derive(Clone, Debug, Default)]
struct StepHistory {
    /// Start of the backoff, Unix milliseconds.
    waiting_since_ms: Option<u64>,
    /// Total of past backoffs, in milliseconds.
    waits_ms: Vec<u64>,
    /// The wait is one that its agent asked for.
    is_told_to_wait: bool,
    /// Sum of the past waits that its agent asked for, in milliseconds.
    requested_ms: u64,
    /// Amount and summary from the outputs.
    note: (String, String),
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    step: StepSnapshot<'a>,
    pub agent_type: &'a AgentType,
    /// Start of the backoff, Unix milliseconds.
    pub waiting_since_ms: Option<u64>,
    /// Total of past backoffs, in milliseconds.
    pub waits_ms: &'a [u64],
    /// Sum of the past waits that its agent asked for, in milliseconds.
    pub requested_ms: u64,
    /// Amount and summary from the outputs.
    pub note: &'a (String, String),
}

impl<'a> std::ops::Deref for Row<'a> {
    type Target = StepSnapshot<'a>;

    fn deref(&self) -> &StepSnapshot<'a> {
        &self.step
    }
}

impl Row<'_> {
    pub fn id(&self) -> &StepId {
        &self.spec.id
    }

    /// Duration of the last attempt in milliseconds, if reported.
    pub fn run_ms(&self) -> Option<u64> {
        Some(self.finished_ms?.saturating_sub(self.started_ms?))
    }

    fn overlaps(&self, other: &Self) -> bool {
        match (self.started_ms, self.finished_ms, other.started_ms, other.finished_ms) {
            (Some(start), Some(end), Some(other_start), Some(other_end)) => start < other_end && other_start < end,
            _ => false,
        }
    }
}

impl Board {
    pub fn new(plan: PlanId) -> Self {
        Self {
            plan,
            state: None,
            history: Vec::new(),
            widths: (0, 0),
            has_money: false,
            first_ms: 0,
            last_ms: 0,
            attempts: 0,
            retries: 0,
            written_ms: Vec::new(),
            begun_ms: None,
            note: String::new(),
            warned: Vec::new(),
        }
    }

    /// Applies the next event.
    pub fn apply(&mut self, record: &Record) -> Result<(), ReplayError> {
        let before = record.event.step().and_then(|step| Some(self.row(step)?.status));
        replay(&mut self.state, record)?;
        if self.first_ms == 0 {
            self.first_ms = record.time_ms;
        }
        self.last_ms = record.time_ms;
        match &record.event {
            Event::Plan(event) => self.note_plan(event, record.time_ms),
            Event::Step { step, event, .. } => self.note_step(step, event, record.time_ms, before),
        }
        Ok(())
    }

    fn note_plan(&mut self, event: &PlanEvent, time_ms: u64) {
        if let PlanEvent::PlanCreated(created) = event {
            self.written_ms = vec![time_ms; created.plan.steps.len()];
            created.plan.steps.iter().for_each(|step| self.add(step));
        } else if let PlanEvent::Extended(extended) = event {
            self.written_ms.extend(extended.added.iter().map(|_| time_ms));
        } else if let PlanEvent::PlanningFailed(why) = event {
            self.note.clone_from(&why.reason);
        } else if let PlanEvent::Quarantined(why) = event {
            self.note.clone_from(&why.reason);
        }
    }

    /// - `before`: the step's status before the event.
    fn note_step(&mut self, step: &StepId, event: &StepEvent, time_ms: u64, before: Option<StepStatus>) {
        if let StepEvent::Added(added) = event {
            self.add(&added.step);
        }
        let index = self.state.as_ref().and_then(|state| state.step_index(step));
        let Some(history) = index.and_then(|i| self.history.get_mut(i.as_usize())) else { return };
        if matches!(event, StepEvent::Ready | StepEvent::Queued(_)) {
            if let Some(since_ms) = history.waiting_since_ms.take() {
                let waited_ms = time_ms.saturating_sub(since_ms);
                if history.is_told_to_wait {
                    history.requested_ms += waited_ms;
                } else {
                    history.waits_ms.push(waited_ms);
                }
            }
        } else if let StepEvent::Started(started) = event {
            self.attempts += 1;
            self.begun_ms = Some(self.begun_ms.map_or(started.started_ms, |first| first.min(started.started_ms)));
        } else if let StepEvent::Completed(completed) = event {
            history.note = note(&completed.outputs);
            self.has_money |= !history.note.0.is_empty();
        } else if let StepEvent::Retrying(retrying) = event {
            history.waiting_since_ms = Some(time_ms);
            history.is_told_to_wait = retrying.told_to_wait;
            self.retries += u32::from(!retrying.told_to_wait);
            // It failed before its start was reported: its worker vanished, or none came.
            self.attempts += u32::from(before == Some(StepStatus::Queued));
        }
    }

    fn add(&mut self, step: &Step) {
        self.history.push(StepHistory::default());
        self.widths.0 = self.widths.0.max(step.id.as_str().len());
        self.widths.1 = self.widths.1.max(step.agent_type.as_str().len());
    }

    pub fn status(&self) -> PlanStatus {
        self.state.as_ref().map_or(PlanStatus::Planning, PlanState::status)
    }

    pub fn counts(&self) -> Counts {
        self.state.as_ref().map(PlanState::counts).unwrap_or_default()
    }

    /// Where the plan stands with the constraints of its goal.
    pub fn constraints(&self) -> Vec<ConstraintView> {
        self.state.as_ref().map(|state| constraints::constraint_views(state, self.last_ms)).unwrap_or_default()
    }

    pub fn usage(&self) -> Usage {
        self.state.as_ref().map(PlanState::usage).unwrap_or_default()
    }

    /// Number of the last accepted revision; 0 is the original plan.
    pub fn revision(&self) -> u32 {
        self.state.as_ref().map_or(0, PlanState::revision)
    }

    pub fn confidence(&self) -> f64 {
        self.state.as_ref().map_or(0.0, PlanState::confidence)
    }

    pub fn goal(&self) -> Option<&Goal> {
        self.state.as_ref().map(|state| &state.accepted().goal)
    }

    /// Whether the planner still streams the plan.
    pub fn is_open(&self) -> bool {
        self.state.as_ref().is_some_and(revise::is_plan_open)
    }

    /// The failure that ended the plan.
    pub fn failure(&self) -> Option<&Failure> {
        self.state.as_ref()?.ended()?.failure.as_ref()
    }

    /// The reason for the end of the plan; empty without one.
    pub fn reason(&self) -> &str {
        let ended = self.state.as_ref().and_then(PlanState::ended);
        ended.map(|ended| ended.reason.as_str()).filter(|reason| !reason.is_empty()).unwrap_or(&self.note)
    }

    pub fn row(&self, step: &StepId) -> Option<Row<'_>> {
        let state = self.state.as_ref()?;
        self.row_at(state, state.step_index(step)?)
    }

    fn row_at<'a>(&'a self, state: &'a PlanState, i: StepIndex) -> Option<Row<'a>> {
        let (step, history) = (state.step(i)?, self.history.get(i.as_usize())?);
        let StepHistory { waiting_since_ms, waits_ms, is_told_to_wait: _, requested_ms, note } = history;
        let agent_type = state.queue(i).unwrap_or(&step.spec.agent_type);
        Some(Row { step, agent_type, waiting_since_ms: *waiting_since_ms, waits_ms, requested_ms: *requested_ms, note })
    }

    /// The steps in the order of the plan.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let steps = self.state.iter().flat_map(|state| (0..state.len()).map(move |i| (state, StepIndex::new(i))));
        steps.filter_map(|(state, i)| self.row_at(state, i))
    }

    /// Completed steps that ran at the same time as `row`.
    pub fn beside(&self, row: &Row<'_>) -> Vec<&StepId> {
        self.rows().filter(|other| other.id() != row.id() && row.overlaps(other)).map(|other| &other.spec.id).collect()
    }

    /// Steps that await a person.
    pub fn awaiting(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows().filter(|row| row.status == StepStatus::AwaitingApproval)
    }

    /// What the plan as a whole asks a person.
    pub fn asks(&self) -> Option<Asks> {
        let state = self.state.as_ref()?;
        if let Some(proposed) = revise::proposed(state) {
            return Some(Asks::Revision { revision: proposed.revision });
        }
        if let Some(asked) = revise::open_question(state) {
            return Some(Asks::Question { id: asked.id.clone(), question: asked.question.question.clone() });
        }
        if let Some((id, question)) = criteria::criterion_question(state) {
            return Some(Asks::Question { id, question: question.question });
        }
        state.open_decision().map(|replan| Asks::GoOn { step: replan.step.clone() })
    }

    /// Whether the plan is blocked until a person decides.
    pub fn awaits_a_person(&self) -> bool {
        let moves = |row: Row<'_>| {
            let status = row.status;
            status.is_in_flight() || matches!(status, StepStatus::Ready | StepStatus::Retrying | StepStatus::Waiting)
        };
        // A plan that asks how to continue starts nothing new.
        let runs = |row: Row<'_>| matches!(row.status, StepStatus::Queued | StepStatus::Running);
        self.status() == PlanStatus::AwaitingApproval
            || (self.asks().is_some() && !self.rows().any(runs))
            || (self.status() == PlanStatus::Running && self.awaiting().next().is_some() && !self.rows().any(moves))
    }

    /// Results so far; `None` before the first event.
    pub fn results(&self) -> Option<Results> {
        self.state.as_ref().map(PlanState::results)
    }
}

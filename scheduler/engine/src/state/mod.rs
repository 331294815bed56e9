//! The state of one plan: the fold of its events.

mod queries;
pub(crate) mod step_snapshot;
pub(crate) mod view;

use std::ops::{Index, IndexMut};

use goalmill_common::criterion::Criterion;
use goalmill_common::event::{Event, GoalAccepted, PlanEvent, Record};
use goalmill_common::goal::Usage;
use goalmill_common::problem::Issue;
use goalmill_common::revision::Fork;
use goalmill_common::status::{Counts, PlanStatus};
use goalmill_expression::WorkMeter;

pub(crate) use crate::attempt::step_state::StepState;
use crate::budget::capacity::Capacity;
use crate::budget::model_calls::ModelCallLog;
use crate::budget::plan_size::PlanSize;
use crate::budget::reservations::Reservations;
use crate::cleanup::cleanup_state::CleanupState;
use crate::cleanup::done_work::DoneLog;
use crate::cleanup::outcome::Outcome;
use crate::constraints::constraint_monitor::ConstraintMonitor;
use crate::criteria::judging::Judging;
use crate::graph::engine_steps::ReadySteps;
use crate::graph::phases::Phases;
use crate::graph::running_plan::RunningPlan;
use crate::graph::{PlanGraph, StepIndex};
use crate::people::waiting::Waiting;
use crate::render::payload_loads::PayloadLoads;
use crate::revise::revising::Revising;
use crate::sub_plan::inner_plans::InnerPlans;
use crate::transitions::ReplayError;
use crate::wait::event_store::ReceivedEvents;

/// Longest reason for another planner that is kept, in characters.
const NOTE_CHARS_MAX: usize = 1_000;

/// Everything known about one plan. Only [`crate::apply()`] changes it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanState {
    pub(crate) seq: u64,
    pub(crate) status: PlanStatus,
    pub(crate) revision: u32,
    /// The first event.
    pub(crate) accepted: Box<GoalAccepted>,
    /// Fields of the goal that a model read in its text, as pointers.
    pub(crate) goal_read: Vec<String>,
    pub(crate) created_ms: u64,
    pub(crate) plan: RunningPlan,
    pub(crate) origin: PlanOrigin,
    pub(crate) graph: PlanGraph,
    pub(crate) steps: Vec<StepState>,
    pub(crate) phases: Phases,
    pub(crate) counts: Counts,
    pub(crate) usage: Usage,
    pub(crate) size: PlanSize,
    /// Calls of language models for the plan.
    pub(crate) calls: ModelCallLog,
    pub(crate) capacity: Capacity,
    pub(crate) inner: InnerPlans,
    pub(crate) reservations: Reservations,
    pub(crate) ready: ReadySteps,
    pub(crate) waiting: Waiting,
    pub(crate) revising: Revising,
    /// The measured constraints of the goal; `None` without any.
    pub(crate) monitor: Option<Box<ConstraintMonitor>>,
    /// The verdicts on the goal's criteria; `None` before the first.
    pub(crate) judging: Option<Box<Judging>>,
    /// What the steps that can be undone have done.
    pub(crate) done: DoneLog,
    pub(crate) cleanup: CleanupState,
    pub(crate) outcome: Outcome,
    pub(crate) updated_ms: u64,
    /// When its first step began, Unix milliseconds; 0 before.
    pub(crate) begun_ms: u64,
    pub(crate) finished_ms: u64,
    pub(crate) loads: PayloadLoads,
    /// Counts the work of the expressions of a decision.
    pub(crate) meter: WorkMeter,
    /// Whether it was paused and resumed: its start is no longer awaited.
    pub(crate) was_resumed: bool,
    /// Events from outside; `None` before the first.
    pub(crate) events: Option<Box<ReceivedEvents>>,
}

/// How the plan was made.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlanOrigin {
    /// Whether there is a plan.
    pub(crate) created: bool,
    pub(crate) planner: String,
    /// The current confidence, after revisions.
    pub(crate) confidence: f64,
    /// End of the wait for more steps of a streamed plan, Unix milliseconds; 0 when the plan is complete.
    pub(crate) open_until_ms: u64,
    pub(crate) fork: Option<Box<Fork>>,
    /// Why it is not from the first planner, is generic, or rests on a fact that was guessed.
    pub(crate) note: Option<Box<str>>,
    /// Criteria that the text of the goal implies, as the planner read it.
    pub(crate) implied: Vec<Criterion>,
}

impl PlanOrigin {
    /// Keeps why a planner took over from a model that failed, or what it guessed.
    pub(crate) fn keep_note(&mut self, warnings: &[Issue]) {
        let of_planners =
            |issue: &&Issue| matches!(issue.code.as_str(), "PLANNER_FALLBACK" | "GENERIC_PLAN" | "FACT_GUESSED");
        if let Some(issue) = warnings.iter().find(of_planners) {
            self.note = Some(issue.detail.chars().take(NOTE_CHARS_MAX).collect::<String>().into());
        }
    }
}

impl PlanState {
    /// Creates the state from the first event of a log, which must be `goal_accepted`.
    pub fn new(record: &Record) -> Result<Self, ReplayError> {
        let seq = record.seq;
        match &record.event {
            _ if seq != 1 => Err(ReplayError::Gap { expected: 1, found: seq }),
            Event::Plan(PlanEvent::GoalAccepted(accepted)) => Ok(Self::accept(accepted, record.time_ms)),
            Event::Plan(_) | Event::Step { .. } => Err(ReplayError::NotBegun { seq }),
        }
    }

    /// Every step of the plan, also those that revisions removed.
    pub(crate) fn indices(&self) -> impl Iterator<Item = StepIndex> + use<> {
        (0..self.steps.len()).map(StepIndex::new)
    }

    /// The state after the first event.
    fn accept(accepted: &GoalAccepted, time_ms: u64) -> Self {
        Self {
            seq: 1,
            status: PlanStatus::Planning,
            revision: 0,
            accepted: Box::new(accepted.clone()),
            goal_read: Vec::new(),
            created_ms: time_ms,
            plan: RunningPlan::default(),
            origin: PlanOrigin::default(),
            graph: PlanGraph::default(),
            steps: Vec::new(),
            phases: Phases::default(),
            counts: Counts::default(),
            usage: Usage::default(),
            calls: ModelCallLog::default(),
            capacity: Capacity::default(),
            inner: InnerPlans::default(),
            reservations: Reservations::default(),
            ready: ReadySteps::default(),
            waiting: Waiting::default(),
            revising: Revising::default(),
            monitor: ConstraintMonitor::new(&accepted.goal, accepted.parent.is_some()),
            judging: None,
            done: DoneLog::default(),
            cleanup: CleanupState::default(),
            outcome: Outcome::default(),
            updated_ms: time_ms,
            size: PlanSize::default(),
            begun_ms: 0,
            finished_ms: 0,
            loads: PayloadLoads::default(),
            meter: WorkMeter::default(),
            was_resumed: false,
            events: None,
        }
    }
}

impl Index<StepIndex> for Vec<StepState> {
    type Output = StepState;

    fn index(&self, i: StepIndex) -> &StepState {
        &self[i.as_usize()]
    }
}

impl IndexMut<StepIndex> for Vec<StepState> {
    fn index_mut(&mut self, i: StepIndex) -> &mut StepState {
        &mut self[i.as_usize()]
    }
}

//! The state of one plan: the fold of its events.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use goalmill_common::criterion::Criterion;
use goalmill_common::event::{GoalAccepted, PlanEnded};
use goalmill_common::goal::Usage;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::problem::Issue;
use goalmill_common::revision::Fork;
use goalmill_common::status::{Counts, PlanStatus};
use goalmill_expression::WorkMeter;

use crate::constraint_monitor::ConstraintMonitor;
use crate::done_work::DoneLog;
use crate::grant::GrantedBudgets;
use crate::graph::{PlanGraph, StepIndex};
use crate::judging::Judging;
use crate::model_calls::ModelCallLog;
use crate::payload_loads::PayloadLoads;
use crate::received_events::ReceivedEvents;
use crate::reserved::ReservedEstimates;
use crate::revise::Revising;
pub(crate) use crate::step_state::{StepHook, StepState, ToldToWait};
use crate::waiting::Waiting;

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
    pub(crate) plan: Arc<Plan>,
    pub(crate) origin: Origin,
    pub(crate) graph: PlanGraph,
    pub(crate) steps: Vec<StepState>,
    pub(crate) phases: Vec<PhaseState>,
    /// Phases that have ended; the next one is the current one.
    pub(crate) phase: usize,
    pub(crate) counts: Counts,
    pub(crate) usage: Usage,
    /// Steps of the plan, and of the plans that were written inside it or submitted by calls: see
    /// [`crate::plan_size::count_steps`].
    pub(crate) size: u64,
    /// By how much the plans inside this one grew after they began; counted in the outermost plan only.
    pub(crate) family_steps: u64,
    /// Bytes that the plans inside this one report; counted in the outermost plan only.
    pub(crate) family_bytes: u64,
    /// Bytes of all outputs that steps ever gave.
    pub(crate) outputs_bytes: usize,
    /// What the plans that started inside this one count: see [`crate::plan_size::counted_bytes`].
    pub(crate) plans_bytes: u64,
    /// Bytes of all inputs that the log records.
    pub(crate) recorded_bytes: usize,
    /// Calls of language models for the plan.
    pub(crate) calls: ModelCallLog,
    pub(crate) in_flight: u32,
    /// Steps for which a plan runs: in their place, or for one of their calls.
    pub(crate) holders: BTreeSet<StepIndex>,
    /// Those of them that are in flight: they take no place themselves.
    pub(crate) holding: u32,
    pub(crate) reserved: ReservedEstimates,
    /// What calls and sub-plans may use up beside the estimates.
    pub(crate) granted: GrantedBudgets,
    /// Steps one of whose calls waits for the budget, or that are ready to make it.
    pub(crate) waits_for_budget: BTreeSet<StepIndex>,
    /// How many steps hold each resource: 0 or 1.
    pub(crate) resources_held: Vec<u32>,
    /// Ready inline steps.
    pub(crate) ready_inline: BTreeSet<StepIndex>,
    /// Ready `wait` steps; they need no capacity.
    pub(crate) ready_waits: BTreeSet<StepIndex>,
    /// Ready `plan` steps; they need capacity like dispatched ones.
    pub(crate) ready_sub_plans: BTreeSet<StepIndex>,
    /// Of a sequential plan: steps that may begin or have begun, and have not ended. The first one has its turn.
    pub(crate) listed: BTreeSet<StepIndex>,
    pub(crate) adaptive_width: AdaptiveWidth,
    pub(crate) waiting: Waiting,
    pub(crate) revising: Revising,
    /// The measured constraints of the goal; `None` without any.
    pub(crate) monitor: Option<Box<ConstraintMonitor>>,
    /// The verdicts on the goal's criteria; `None` before the first.
    pub(crate) judging: Option<Box<Judging>>,
    /// What the steps that can be undone have done.
    pub(crate) done: DoneLog,
    /// Steps of the clean-up that are not final.
    pub(crate) open_cleanup: u32,
    /// The clean-up in progress.
    pub(crate) cleanup: Option<Box<Cleanup>>,
    pub(crate) ended: Option<Box<PlanEnded>>,
    /// How it ends unless what it did is undone, while it is kept.
    pub(crate) kept_as: Option<Box<PlanEnded>>,
    /// What it had used up when it was kept, and reported.
    pub(crate) usage_reported: Usage,
    /// Attempts of steps whose plans are kept, in their order.
    pub(crate) kept: BTreeMap<StepIndex, Vec<u32>>,
    /// Attempts of steps that go on without their plans, which are stopped and have not ended.
    pub(crate) stopped: BTreeSet<(StepIndex, u32)>,
    /// Steps whose kept plans have undone what they did.
    pub(crate) undone_inside: BTreeSet<StepIndex>,
    /// Steps as they were defined, where the run has put a plan in their place.
    pub(crate) defined: BTreeMap<StepIndex, Box<Step>>,
    /// Clean-up steps of plans inside that did not succeed.
    pub(crate) not_undone: Vec<String>,
    /// Undo steps of what revisions removed, the next one first. Nothing else becomes ready before they have ended.
    pub(crate) undoing: Vec<StepIndex>,
    pub(crate) updated_ms: u64,
    /// When its first step began, Unix milliseconds; 0 before.
    pub(crate) begun_ms: u64,
    pub(crate) finished_ms: u64,
    pub(crate) loads: PayloadLoads,
    /// Counts the work of the expressions of a decision.
    pub(crate) meter: WorkMeter,
    /// Whether it was paused and goes on: its start is no longer awaited.
    pub(crate) has_gone_on: bool,
    /// Events from outside; `None` before the first.
    pub(crate) events: Option<Box<ReceivedEvents>>,
}

/// How the plan was made.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Origin {
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

impl Origin {
    /// Keeps why a planner took over from a model that failed, or what it guessed.
    pub(crate) fn keep_note(&mut self, warnings: &[Issue]) {
        let of_planners =
            |issue: &&Issue| matches!(issue.code.as_str(), "PLANNER_FALLBACK" | "GENERIC_PLAN" | "FACT_GUESSED");
        if let Some(issue) = warnings.iter().find(of_planners) {
            self.note = Some(issue.detail.chars().take(NOTE_CHARS_MAX).collect::<String>().into());
        }
    }
}

/// The clean-up of a plan in progress.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cleanup {
    /// What the plan ends as.
    pub(crate) outcome: PlanEnded,
    /// The undo steps that run, in their order.
    pub(crate) undo: Vec<StepIndex>,
    /// The plan ends then at the latest, Unix milliseconds.
    pub(crate) due_ms: u64,
    /// The number of the event that began it.
    pub(crate) began: u64,
    /// Undo steps at the beginning of the list that have ended.
    passed: usize,
    /// Plans inside that end first.
    stopping: usize,
    /// The time that the clean-up has after them, in milliseconds.
    after_inside_ms: Option<u64>,
    /// Whether the plan is kept afterwards, with its undo steps.
    pub(crate) keeps_undos: bool,
}

impl Cleanup {
    /// A clean-up that runs these undo steps.
    ///
    /// - `began`: the number of the event that began it.
    pub(crate) fn new(outcome: PlanEnded, undo: Vec<StepIndex>, due_ms: u64, began: u64) -> Self {
        Self { outcome, undo, due_ms, began, passed: 0, stopping: 0, after_inside_ms: None, keeps_undos: false }
    }

    /// What it has not gone past.
    pub(crate) fn left(&self) -> &[StepIndex] {
        self.undo.get(self.passed..).unwrap_or_default()
    }

    /// The same, once so many plans inside have ended.
    pub(crate) fn after(self, stopping: usize, after_inside_ms: Option<u64>) -> Self {
        Self { stopping, after_inside_ms, ..self }
    }

    /// Whether plans inside have not ended.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping > 0
    }

    /// A plan inside has ended.
    pub(crate) fn inside_ended(&mut self, time_ms: u64) {
        self.stopping = self.stopping.saturating_sub(1);
        if let (0, Some(limit_ms)) = (self.stopping, self.after_inside_ms) {
            self.due_ms = time_ms.saturating_add(limit_ms);
        }
    }

    /// The undo step that runs, or runs next.
    pub(crate) fn next_undo(&self) -> Option<StepIndex> {
        self.undo.get(self.passed).copied()
    }

    /// Passes over undo steps that have ended. Each is visited once in the whole clean-up.
    ///
    /// - `has_ended`: whether a step of the list has.
    pub(crate) fn pass_ended(&mut self, has_ended: impl Fn(StepIndex) -> bool) {
        while self.next_undo().is_some_and(&has_ended) {
            self.passed += 1;
        }
    }
}

/// The state of one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PhaseState {
    pub(crate) begun: bool,
    /// Steps that are not final.
    pub(crate) open: u32,
    pub(crate) completed: u32,
    pub(crate) failed: u32,
}

/// The concurrency limit of an adaptive plan.
///
/// It grows by one after as many successes in a row as its width, shrinks by one when a step waited for a worker
/// more than twice as long as it ran, and halves on a failure: additive increase, multiplicative decrease
/// (D.-M. Chiu, R. Jain, Computer Networks and ISDN Systems 17, 1989).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AdaptiveWidth {
    pub(crate) width: u32,
    pub(crate) streak: u32,
}

/// Shorter runs count as this long when compared with the wait, in milliseconds.
const SHORT_MS: u64 = 100;

impl AdaptiveWidth {
    pub(crate) fn record_success(&mut self, waited_ms: u64, ran_ms: u64) {
        let ran_ms = ran_ms.max(SHORT_MS);
        if waited_ms > ran_ms.saturating_mul(2) {
            *self = Self { width: (self.width - 1).max(1), streak: 0 };
        } else if waited_ms > ran_ms {
            self.streak = 0;
        } else if self.streak + 1 >= self.width {
            *self = Self { width: self.width.saturating_add(1), streak: 0 };
        } else {
            self.streak += 1;
        }
    }

    pub(crate) fn record_failure(&mut self) {
        *self = Self { width: (self.width / 2).max(1), streak: 0 };
    }
}

/// Whether the join of a step is satisfied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinState {
    Open,
    Met,
    /// It can never be met.
    Impossible,
}

impl PlanState {
    /// The state after the first event.
    pub(crate) fn accept(accepted: &GoalAccepted, time_ms: u64) -> Self {
        Self {
            seq: 1,
            status: PlanStatus::Planning,
            revision: 0,
            accepted: Box::new(accepted.clone()),
            goal_read: Vec::new(),
            created_ms: time_ms,
            plan: Arc::default(),
            origin: Origin::default(),
            graph: PlanGraph::default(),
            steps: Vec::new(),
            phases: Vec::new(),
            phase: 0,
            counts: Counts::default(),
            usage: Usage::default(),
            outputs_bytes: 0,
            recorded_bytes: 0,
            calls: ModelCallLog::default(),
            in_flight: 0,
            holders: BTreeSet::new(),
            holding: 0,
            reserved: ReservedEstimates::default(),
            granted: GrantedBudgets::default(),
            waits_for_budget: BTreeSet::new(),
            resources_held: Vec::new(),
            ready_inline: BTreeSet::new(),
            ready_waits: BTreeSet::new(),
            ready_sub_plans: BTreeSet::new(),
            listed: BTreeSet::new(),
            adaptive_width: AdaptiveWidth { width: 1, streak: 0 },
            waiting: Waiting::default(),
            revising: Revising::default(),
            monitor: ConstraintMonitor::new(&accepted.goal, accepted.parent.is_some()),
            judging: None,
            done: DoneLog::default(),
            open_cleanup: 0,
            cleanup: None,
            undoing: Vec::new(),
            ended: None,
            kept_as: None,
            usage_reported: Usage::default(),
            kept: BTreeMap::new(),
            stopped: BTreeSet::new(),
            undone_inside: BTreeSet::new(),
            defined: BTreeMap::new(),
            not_undone: Vec::new(),
            updated_ms: time_ms,
            size: 0,
            family_steps: 0,
            family_bytes: 0,
            plans_bytes: 0,
            begun_ms: 0,
            finished_ms: 0,
            loads: PayloadLoads::default(),
            meter: WorkMeter::default(),
            has_gone_on: false,
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

impl PlanState {
    /// A step as it was defined, and as people and planners have changed it.
    pub(crate) fn definition(&self, i: StepIndex) -> &Step {
        self.defined.get(&i).map_or_else(|| &self.plan.steps[i], AsRef::as_ref)
    }

    /// Every step of the plan, also those that revisions removed.
    pub(crate) fn indices(&self) -> impl Iterator<Item = StepIndex> + use<> {
        (0..self.steps.len()).map(StepIndex::new)
    }
}

/// `None` for 0.
pub(crate) fn at(ms: u64) -> Option<u64> {
    (ms > 0).then_some(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_never_falls_to_nothing() {
        let mut pace = AdaptiveWidth { width: 1, streak: 0 };
        pace.record_failure();
        pace.record_success(10_000, 1);
        assert_eq!(pace, AdaptiveWidth { width: 1, streak: 0 });
    }
}

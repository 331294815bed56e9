//! The state of one plan: what its events add up to.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use goalmill_common::event::{GoalAccepted, PlanEnded, SkipCause};
use goalmill_common::failure::Failure;
use goalmill_common::goal::Usage;
use goalmill_common::id::WorkerId;
use goalmill_common::json::Json;
use goalmill_common::plan::Plan;
use goalmill_common::revision::Fork;
use goalmill_common::status::{Counts, PlanStatus, StepStatus};

use crate::calls::Calls;
use crate::check::Schemas;
use crate::graph::{Graph, StepIndex};
use crate::revise::Revising;
use crate::token::Key;
use crate::waiting::Waiting;

/// Everything known about one plan. Only [`crate::apply()`] changes it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanState {
    pub(crate) seq: u64,
    pub(crate) status: PlanStatus,
    pub(crate) revision: u32,
    pub(crate) born: Option<Box<Born>>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) origin: Origin,
    pub(crate) graph: Graph,
    pub(crate) steps: Vec<StepState>,
    pub(crate) phases: Vec<PhaseState>,
    /// Phases that have ended; the next one is the current one.
    pub(crate) phase: usize,
    pub(crate) counts: Counts,
    pub(crate) usage: Usage,
    /// Bytes of all outputs that steps ever gave.
    pub(crate) outputs_bytes: usize,
    /// Calls of language models for it.
    pub(crate) calls: Calls,
    pub(crate) in_flight: u32,
    /// How often each resource is held: 0 or 1.
    pub(crate) held: Vec<u32>,
    /// Ready steps that the engine does itself, at once.
    pub(crate) own: BTreeSet<StepIndex>,
    /// Ready steps that stand for plans; they need room as others do.
    pub(crate) sub_plans: BTreeSet<StepIndex>,
    pub(crate) pace: Pace,
    pub(crate) waiting: Waiting,
    pub(crate) revising: Revising,
    pub(crate) ended: Option<Box<PlanEnded>>,
    pub(crate) updated_ms: u64,
    pub(crate) finished_ms: u64,
    pub(crate) schemas: Schemas,
}

/// What the first event said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Born {
    pub(crate) accepted: GoalAccepted,
    pub(crate) key: Key,
    pub(crate) created_ms: u64,
}

/// Where the plan came from.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Origin {
    /// Whether there is a plan yet.
    pub(crate) created: bool,
    pub(crate) planner: String,
    /// As revisions have left it.
    pub(crate) confidence: f64,
    /// More steps are to come, until then at the latest, Unix milliseconds; 0 when the plan is whole.
    pub(crate) open_until_ms: u64,
    pub(crate) fork: Option<Box<Fork>>,
}

/// Where one step stands. Kept small: what few steps have is in `rare`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepState {
    pub(crate) status: StepStatus,
    /// Whether the fallback is at work.
    pub(crate) fallback: bool,
    /// The last one; 0 as long as there was none.
    pub(crate) attempt: u32,
    /// Failed attempts since the last fallback.
    pub(crate) tried: u32,
    pub(crate) lost: u32,
    /// Dependencies that are not final.
    pub(crate) open: u32,
    /// Dependencies that are satisfied.
    pub(crate) met: u32,
    /// When it wakes up by itself, Unix milliseconds; 0 for never.
    pub(crate) due_ms: u64,
    pub(crate) queued_ms: u64,
    pub(crate) started_ms: u64,
    pub(crate) finished_ms: u64,
    pub(crate) worker: Option<WorkerId>,
    pub(crate) outputs: Option<Json>,
    pub(crate) rare: Option<Box<Rare>>,
}

/// What few steps have.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rare {
    /// Of the last failed attempt.
    pub(crate) failure: Option<Failure>,
    /// Why it was skipped, blocked or cancelled.
    pub(crate) reason: String,
    pub(crate) cause: Option<SkipCause>,
    pub(crate) progress: Option<f64>,
    pub(crate) message: Option<String>,
    /// What a person is asked.
    pub(crate) question: Option<String>,
    /// What a person answered.
    pub(crate) answer: Option<Json>,
    /// New information that its report brought.
    pub(crate) adjustments: Option<Json>,
    /// Its outputs are to be kept under this word.
    pub(crate) cache_key: Option<String>,
}

/// Where one phase stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PhaseState {
    pub(crate) begun: bool,
    /// Steps that are not final.
    pub(crate) open: u32,
    pub(crate) completed: u32,
    pub(crate) failed: u32,
}

/// How wide an adaptive plan runs, and how that changes.
///
/// It widens by one after as many successes in a row as it is wide, narrows by one when a step waited for a worker
/// more than twice as long as it ran, and halves on a failure: additive increase, multiplicative decrease
/// (D.-M. Chiu, R. Jain, Computer Networks and ISDN Systems 17, 1989).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    pub(crate) width: u32,
    pub(crate) streak: u32,
}

/// Runs shorter than this do not count as slow to be fetched, in milliseconds.
const SHORT_MS: u64 = 100;

impl Pace {
    pub(crate) fn succeeded(&mut self, waited_ms: u64, ran_ms: u64) {
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

    pub(crate) fn failed(&mut self) {
        *self = Self { width: (self.width / 2).max(1), streak: 0 };
    }
}

/// Whether the dependencies of a step let it start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    Open,
    Met,
    /// It can never be met.
    Impossible,
}

impl Default for PlanState {
    fn default() -> Self {
        Self {
            seq: 0,
            status: PlanStatus::Planning,
            revision: 0,
            born: None,
            plan: Arc::default(),
            origin: Origin::default(),
            graph: Graph::default(),
            steps: Vec::new(),
            phases: Vec::new(),
            phase: 0,
            counts: Counts::default(),
            usage: Usage::default(),
            outputs_bytes: 0,
            calls: Calls::default(),
            in_flight: 0,
            held: Vec::new(),
            own: BTreeSet::new(),
            sub_plans: BTreeSet::new(),
            pace: Pace { width: 1, streak: 0 },
            waiting: Waiting::default(),
            revising: Revising::default(),
            ended: None,
            updated_ms: 0,
            finished_ms: 0,
            schemas: Schemas::default(),
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
    /// Every step of the plan, also those that revisions removed.
    pub(crate) fn indices(&self) -> impl Iterator<Item = StepIndex> + use<> {
        (0..self.steps.len()).map(StepIndex::new)
    }
}

impl StepState {
    pub(crate) fn new(dependencies: u32) -> Self {
        Self {
            status: StepStatus::Pending,
            fallback: false,
            attempt: 0,
            tried: 0,
            lost: 0,
            open: dependencies,
            met: 0,
            due_ms: 0,
            queued_ms: 0,
            started_ms: 0,
            finished_ms: 0,
            worker: None,
            outputs: None,
            rare: None,
        }
    }

    pub(crate) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Forgets why the step stood where it stood, and what a person was asked: it goes on, or is over.
    pub(crate) fn forget_wait(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.reason.clear();
            (rare.cause, rare.question) = (None, None);
        }
    }

    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.rare.as_ref().and_then(|rare| rare.failure.as_ref())
    }

    pub(crate) fn reason(&self) -> &str {
        self.rare.as_ref().map_or("", |rare| &rare.reason)
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
    fn a_step_stays_small() {
        assert!(size_of::<StepState>() <= 128, "{} bytes", size_of::<StepState>());
    }

    #[test]
    fn the_pace_never_falls_to_nothing() {
        let mut pace = Pace { width: 1, streak: 0 };
        pace.failed();
        pace.succeeded(10_000, 1);
        assert_eq!(pace, Pace { width: 1, streak: 0 });
    }
}

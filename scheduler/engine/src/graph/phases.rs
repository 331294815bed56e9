//! The phases of a plan: which one is the current one, and how the steps of each stand.

use goalmill_common::number::to_u32;
use goalmill_common::status::StepStatus;

use crate::graph::PlanGraph;

/// The phases of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Phases {
    all: Vec<PhaseState>,
    /// Phases that have ended; the next one is the current one.
    ended: usize,
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

impl PhaseState {
    fn count(&mut self, status: StepStatus) {
        self.completed += u32::from(status == StepStatus::Completed);
        self.failed += u32::from(status == StepStatus::Failed);
    }
}

impl Phases {
    /// The phases of a plan that begins.
    pub(crate) fn new(graph: &PlanGraph) -> Self {
        let phase = |members: &Vec<_>| PhaseState { open: to_u32(members.len()), ..PhaseState::default() };
        Self { all: graph.members().iter().map(phase).collect(), ended: 0 }
    }

    /// The place of the current phase; that after the last one when all have ended.
    pub(crate) fn current(&self) -> usize {
        self.ended
    }

    /// The current phase; `None` when all have ended.
    pub(crate) fn current_state(&self) -> Option<PhaseState> {
        self.all.get(self.ended).copied()
    }

    /// All phases, in their order.
    pub(crate) fn states(&self) -> &[PhaseState] {
        &self.all
    }

    /// Whether a phase has begun.
    pub(crate) fn has_begun(&self, phase: usize) -> bool {
        self.all[phase].begun
    }

    /// The current phase begins.
    pub(crate) fn begin(&mut self) {
        self.all[self.ended].begun = true;
    }

    /// The current phase ends.
    pub(crate) fn end(&mut self) {
        self.ended += 1;
    }

    /// A step of a phase has become final.
    pub(crate) fn end_step(&mut self, phase: usize, status: StepStatus) {
        let phase = &mut self.all[phase];
        phase.open -= 1;
        phase.count(status);
    }

    /// Inserts a phase.
    pub(crate) fn insert(&mut self, place: usize) {
        self.all.insert(place, PhaseState::default());
    }

    /// Counts the steps of all phases again. An ended phase with open steps continues in parallel with the current one.
    ///
    /// - `steps`: the phase of each step that has one, and its status.
    pub(crate) fn recount(&mut self, steps: impl Iterator<Item = (usize, StepStatus)>) {
        for phase in &mut self.all {
            *phase = PhaseState { begun: phase.begun, ..PhaseState::default() };
        }
        for (phase, status) in steps {
            let phase = &mut self.all[phase];
            phase.open += u32::from(!status.is_final());
            phase.count(status);
        }
        for phase in self.all.iter_mut().take(self.ended).filter(|phase| phase.open > 0) {
            phase.begun = true;
        }
    }
}

//! How far the clean-up of a plan is, and what is undone before its end.

use goalmill_common::event::PlanEnded;

use crate::graph::StepIndex;

/// The clean-up of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CleanupState {
    /// Steps of the clean-up that are not final.
    open: u32,
    /// Undo steps of what revisions removed, the next one first. Nothing else becomes ready before they have ended.
    undoing: Vec<StepIndex>,
    /// The clean-up in progress.
    run: Option<Box<CleanupRun>>,
}

impl CleanupState {
    /// The clean-up of a plan that begins.
    ///
    /// - `steps`: how many it has.
    pub(crate) fn new(steps: u32) -> Self {
        Self { open: steps, ..Self::default() }
    }

    /// Steps that are not final.
    pub(crate) fn open(&self) -> u32 {
        self.open
    }

    /// Counts the steps again that are not final.
    pub(crate) fn set_open(&mut self, steps: u32) {
        self.open = steps;
    }

    /// A step of the clean-up has become final.
    pub(crate) fn end_step(&mut self, i: StepIndex) {
        self.open -= 1;
        self.undoing.retain(|undo| *undo != i);
    }

    /// The undo steps of what revisions removed, the next one first.
    pub(crate) fn undoing(&self) -> &[StepIndex] {
        &self.undoing
    }

    /// Undoes more of what revisions removed, in this order.
    pub(crate) fn undo(&mut self, undos: Vec<StepIndex>) {
        self.undoing.extend(undos);
    }

    /// Leaves out undo steps of what revisions removed.
    pub(crate) fn retain_undos(&mut self, is_kept: impl Fn(StepIndex) -> bool) {
        self.undoing.retain(|undo| is_kept(*undo));
    }

    /// The clean-up in progress.
    pub(crate) fn run(&self) -> Option<&CleanupRun> {
        self.run.as_deref()
    }

    /// Whether the clean-up has begun and not ended.
    pub(crate) fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// Whether the clean-up waits for plans inside that end first.
    pub(crate) fn is_stopping(&self) -> bool {
        self.run().is_some_and(CleanupRun::is_stopping)
    }

    /// Begins the clean-up; it undoes what revisions removed, too.
    pub(crate) fn begin(&mut self, run: CleanupRun) {
        self.run = Some(Box::new(run));
        self.undoing.clear();
    }

    /// Passes over undo steps that have ended. Each is visited once in the whole clean-up.
    ///
    /// - `has_ended`: whether a step of the list has.
    pub(crate) fn pass_ended(&mut self, has_ended: impl Fn(StepIndex) -> bool) {
        let Some(run) = &mut self.run else { return };
        while run.next_undo().is_some_and(&has_ended) {
            run.passed += 1;
        }
    }

    /// A plan inside has ended.
    pub(crate) fn inside_ended(&mut self, time_ms: u64) {
        let Some(run) = &mut self.run else { return };
        run.stopping = run.stopping.saturating_sub(1);
        if let (0, Some(limit_ms)) = (run.stopping, run.after_inside_ms) {
            run.due_ms = time_ms.saturating_add(limit_ms);
        }
    }

    /// The clean-up has ended.
    pub(crate) fn end(&mut self) {
        self.run = None;
        self.undoing.clear();
    }
}

/// The clean-up of a plan in progress.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CleanupRun {
    /// What the plan ends as.
    pub(crate) outcome: PlanEnded,
    /// The undo steps that run, in their order.
    pub(crate) undo: Vec<StepIndex>,
    /// The plan ends then at the latest, Unix milliseconds.
    pub(crate) due_ms: u64,
    /// The number of the event that began it.
    pub(crate) began: u64,
    /// Undo steps at the beginning of the list that have ended.
    pub(crate) passed: usize,
    /// Plans inside that end first.
    pub(crate) stopping: usize,
    /// The time that the clean-up has after them, in milliseconds.
    pub(crate) after_inside_ms: Option<u64>,
    /// Whether the plan is kept afterwards, with its undo steps.
    pub(crate) keeps_undos: bool,
}

impl CleanupRun {
    /// What it has not gone past.
    pub(crate) fn left(&self) -> &[StepIndex] {
        self.undo.get(self.passed..).unwrap_or_default()
    }

    /// Whether plans inside have not ended.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping > 0
    }

    /// The undo step that runs, or runs next.
    pub(crate) fn next_undo(&self) -> Option<StepIndex> {
        self.undo.get(self.passed).copied()
    }
}

//! Figures of quality from the last state of a plan, for reports and for the metrics.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::id::StepId;
use goalmill_common::plan::{Step, StepKind};
use goalmill_common::revision::RevisionStrategy;
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{PlanState, revise};

/// Hits among all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ratio {
    pub(crate) hits: u64,
    pub(crate) all: u64,
}

impl Ratio {
    pub(super) fn add(&mut self, other: Self) {
        self.hits += other.hits;
        self.all += other.all;
    }

    pub(super) fn count(&mut self, is_hit: bool) {
        self.add(Self { hits: u64::from(is_hit), all: 1 });
    }

    pub(super) fn value(self) -> Option<f64> {
        (self.all > 0).then(|| self.hits as f64 / self.all as f64)
    }
}

/// What the last state of a plan tells of its quality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlanFigures {
    pub(crate) steps: Ratio,
    pub(crate) dependencies: Ratio,
    pub(crate) assignments: Ratio,
    /// Whether planners revised it.
    pub(crate) is_revised: bool,
    pub(crate) is_completed: bool,
}

impl PlanFigures {
    /// - `state`: of a plan that ended.
    pub(crate) fn from_state(state: &PlanState) -> Self {
        let first = first_steps(state);
        let by_planner = |strategy: RevisionStrategy| strategy != RevisionStrategy::Edit;
        Self {
            steps: completeness(state),
            dependencies: dependencies(state, &first),
            assignments: assignments(state, &first),
            is_revised: revise::revisions(state).iter().any(|record| by_planner(record.strategy)),
            is_completed: state.status() == PlanStatus::Completed,
        }
    }
}

/// The steps of the plan as it was first made, by id; `None` for those that revisions added.
type FirstSteps<'a> = BTreeMap<&'a StepId, Option<&'a Step>>;

fn first_steps(state: &PlanState) -> FirstSteps<'_> {
    let mut first = FirstSteps::new();
    for record in revise::revisions(state) {
        for modified in &record.modified {
            first.entry(&modified.before.id).or_insert(Some(&modified.before));
        }
        for step in &record.removed {
            first.entry(&step.id).or_insert(Some(step));
        }
        for step in &record.added {
            first.entry(&step.id).or_insert(None);
        }
    }
    first
}

fn completeness(state: &PlanState) -> Ratio {
    let mut steps = Ratio::default();
    if matches!(state.status(), PlanStatus::Cancelled | PlanStatus::Rejected) {
        return steps;
    }
    for i in indices(state) {
        let Some(step) = state.step(i) else { continue };
        let is_on_purpose = step.status == StepStatus::Skipped && state.is_skipped_on_purpose(i);
        if step.status != StepStatus::Revised && !is_on_purpose {
            steps.count(step.status == StepStatus::Completed);
        }
    }
    steps
}

fn indices(state: &PlanState) -> impl Iterator<Item = goalmill_engine::StepIndex> + '_ {
    state.plan().steps.iter().filter_map(|step| state.step_index(&step.id))
}

/// Dependencies of executed steps: those that were there from the first plan to the end, among all.
fn dependencies(state: &PlanState, first: &FirstSteps<'_>) -> Ratio {
    let mut kept = Ratio::default();
    for i in indices(state) {
        let Some(step) = state.step(i).filter(|step| step.attempt > 0) else { continue };
        let last: BTreeSet<&StepId> = step.spec.dependencies.iter().collect();
        let before: BTreeSet<&StepId> = match first.get(&step.spec.id) {
            None => last.clone(),
            Some(None) => BTreeSet::new(),
            Some(Some(step)) => step.dependencies.iter().collect(),
        };
        let hits = last.intersection(&before).count() as u64;
        kept.add(Ratio { hits, all: last.union(&before).count() as u64 });
    }
    kept
}

/// Steps that the agent type completed that was chosen first, among those with an attempt that were completed or failed.
fn assignments(state: &PlanState, first: &FirstSteps<'_>) -> Ratio {
    let mut kept = Ratio::default();
    for i in indices(state) {
        let Some(step) = state.step(i).filter(|step| step.attempt > 0) else { continue };
        let is_work = matches!(step.spec.kind, StepKind::Tool | StepKind::Llm);
        if !is_work || !matches!(step.status, StepStatus::Completed | StepStatus::Failed) {
            continue;
        }
        let before = match first.get(&step.spec.id) {
            Some(Some(step)) => &step.agent_type,
            Some(None) | None => &step.spec.agent_type,
        };
        kept.count(step.status == StepStatus::Completed && state.queue(i) == Some(before));
    }
    kept
}

/// Counts a plan that ended in the metrics.
pub(crate) fn count_ended(state: &PlanState) {
    let PlanFigures { steps, dependencies, assignments, is_revised, is_completed } = PlanFigures::from_state(state);
    let count = |metric: &'static str, label: &'static str, words: [&'static str; 2], ratio: Ratio| {
        for (word, count) in words.into_iter().zip([ratio.hits, ratio.all - ratio.hits]) {
            if count > 0 {
                metrics::counter!(metric, label => word).increment(count);
            }
        }
    };
    count("goalmill_plan_steps_total", "outcome", OUTCOMES, steps);
    count("goalmill_plan_dependencies_total", "kept", ["yes", "no"], dependencies);
    count("goalmill_step_assignments_total", "kept", ["yes", "no"], assignments);
    if is_revised {
        let mut revised = Ratio::default();
        revised.count(is_completed);
        count("goalmill_plans_revised_total", "outcome", OUTCOMES, revised);
    }
}

/// Values of the label `outcome`.
const OUTCOMES: [&str; 2] = ["completed", "not_completed"];

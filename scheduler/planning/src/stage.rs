//! Records duration and outcome of the planning stages: ask, read, repair, validate, route.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

/// One part of the way from a goal to a plan that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlanningStage {
    /// The planner as a whole; with a model, its answer.
    Ask,
    /// What a model wrote becomes a document.
    Read,
    /// The document is repaired without a model.
    Repair,
    Validate,
    Route,
}

impl PlanningStage {
    /// The word used as a label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Read => "read",
            Self::Repair => "repair",
            Self::Validate => "validate",
            Self::Route => "route",
        }
    }
}

/// How a stage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageOutcome {
    Ok,
    /// It was not as it should be, and could be repaired.
    Repaired,
    /// It cannot be used.
    Invalid,
    /// There is nothing that could be used.
    Error,
}

impl StageOutcome {
    /// The word used as a label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Repaired => "repaired",
            Self::Invalid => "invalid",
            Self::Error => "error",
        }
    }
}

/// What planning took so far, for provenance; counted in the metrics at the same time.
#[derive(Debug, Default)]
pub struct Stages(Mutex<Vec<Value>>);

/// Most stages kept of one planning.
const KEPT_MAX: usize = 64;

impl Stages {
    /// Notes the end of a stage that began at `begun`.
    pub fn note(&self, planner: &str, stage: PlanningStage, outcome: StageOutcome, begun: Instant) {
        let took = begun.elapsed();
        count(planner, stage, outcome, took);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_MAX {
            let ms = (took.as_secs_f64() * 1e6).round() / 1e3;
            kept.push(json!({"planner": planner, "stage": stage.as_str(), "outcome": outcome.as_str(), "ms": ms}));
        }
    }

    /// A list of objects: planner, stage, outcome, milliseconds.
    pub fn account(&self) -> Value {
        Value::Array(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// Counts a stage in `goalmill_planning_stage_seconds`.
pub fn count(planner: &str, stage: PlanningStage, outcome: StageOutcome, took: Duration) {
    let labels = [
        ("planner", planner.to_owned()),
        ("stage", stage.as_str().to_owned()),
        ("outcome", outcome.as_str().to_owned()),
    ];
    metrics::histogram!("goalmill_planning_stage_seconds", &labels).record(took);
}

//! How a run ends, or why it has no end.

use goalmill_common::event::Record;
use goalmill_common::failure::Failure;
use goalmill_common::goal::Usage;
use goalmill_common::problem::{Issue, Problem};
use goalmill_common::status::{PlanStatus, StepStatus};
use serde::Serialize;
use serde_json::{Map, Value};

/// Why a run has no end.
#[derive(Clone, Debug, PartialEq)]
pub enum RunError {
    /// The plan or goal is not accepted.
    Refused(Problem),
    /// No agent of the test answers a task.
    NoAnswer(String),
    /// The run is too long, or nothing is left that could happen.
    Stuck(String),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(problem) => {
                f.write_str(&problem.detail)?;
                let shown = |issue: &Issue| format!("\n  {} {}: {}", issue.pointer, issue.code, issue.detail);
                f.write_str(&problem.errors.iter().map(shown).collect::<String>())
            }
            Self::NoAnswer(reason) | Self::Stuck(reason) => f.write_str(reason),
        }
    }
}

/// The end of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunOutcome {
    pub status: PlanStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Outputs by step.
    pub results: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_output: Option<Value>,
    /// Steps of the submitted plan and, after them, those of plans inside it.
    pub steps: Vec<StepOutcome>,
    /// Of the submitted plan and the plans inside it.
    pub usage: Usage,
    /// Virtual time from submission to end.
    pub duration_ms: u64,
    /// What of the test was of no use, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The log of the submitted plan.
    #[serde(skip)]
    pub log: Vec<Record>,
}

/// The end of a step.
#[derive(Clone, Debug, Serialize)]
pub struct StepOutcome {
    pub id: String,
    pub status: StepStatus,
    /// Attempts so far.
    pub attempt: u32,
}

impl RunOutcome {
    pub(crate) fn step(&self, id: &str) -> Option<&StepOutcome> {
        self.steps.iter().find(|step| step.id == id)
    }
}

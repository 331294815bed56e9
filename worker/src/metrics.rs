//! Task metrics of a worker. Handles are looked up once, not per task.

use goalmill_common::failure::FailureClass;
use goalmill_common::id::AgentType;
use metrics::{Counter, Histogram, counter, histogram};

/// The counters of one agent type.
pub(crate) struct TaskMetrics {
    pub completed: Counter,
    /// Cancelled before or while it ran.
    pub superseded: Counter,
    /// Released because the worker shut down.
    pub released: Counter,
    /// Stopped because its lease was lost.
    pub lost: Counter,
    /// Entries that hold no valid task.
    pub unreadable: Counter,
    failed: [Counter; CLASSES.len()],
    pub run_seconds: Histogram,
    pub wait_seconds: Histogram,
}

const CLASSES: [FailureClass; 6] = [
    FailureClass::Transient,
    FailureClass::Permanent,
    FailureClass::Timeout,
    FailureClass::RateLimited,
    FailureClass::ConstraintViolation,
    FailureClass::Lost,
];

impl TaskMetrics {
    /// Starts every combination at 0, so that the first failure is an increase.
    pub fn new(agent_type: &AgentType) -> Self {
        let tasks = |outcome: &'static str| counter!("goalmill_tasks_total", "agent_type" => agent_type.to_string(), "outcome" => outcome);
        Self {
            completed: tasks("completed"),
            superseded: tasks("superseded"),
            released: tasks("released"),
            lost: tasks("lost"),
            unreadable: tasks("unreadable"),
            failed: CLASSES.map(|class| match class {
                FailureClass::Lost => tasks("lost"),
                FailureClass::Transient => tasks("failed_transient"),
                FailureClass::Permanent => tasks("failed_permanent"),
                FailureClass::Timeout => tasks("failed_timeout"),
                FailureClass::RateLimited => tasks("failed_rate_limited"),
                FailureClass::ConstraintViolation => tasks("failed_constraint_violation"),
            }),
            wait_seconds: histogram!("goalmill_task_wait_seconds", "agent_type" => agent_type.to_string()),
            run_seconds: histogram!("goalmill_task_run_seconds", "agent_type" => agent_type.to_string()),
        }
    }

    pub fn failed(&self, class: FailureClass) -> &Counter {
        let at = CLASSES.iter().position(|c| *c == class).expect("every class is listed");
        &self.failed[at]
    }
}

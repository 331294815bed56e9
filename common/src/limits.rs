//! Limits on everything that can grow. Each is a setting; passing one is an error, not a crash.

use serde::{Deserialize, Serialize};

/// Limit of one attempt unless the step or the settings say otherwise, in milliseconds.
pub const TIMEOUT_MS: u64 = 60_000;

/// The largest sizes of a plan and its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Steps of a submitted plan.
    pub steps_max: usize,
    /// Steps of a plan that a planner made.
    pub planned_steps_max: usize,
    /// Steps of a plan and of all plans that are ever started inside it, at any depth. Each of these counts as one step more.
    pub family_steps_max: usize,
    /// Items of one map that does not say more.
    pub items_max: usize,
    /// Iterations of one loop.
    pub iterations_max: u32,
    /// Dependencies of one step.
    pub dependencies_max: usize,
    /// Steps on the longest path.
    pub path_max: usize,
    /// Plans inside plans.
    pub depth_max: u32,
    /// Bytes of a plan's text.
    pub plan_bytes_max: usize,
    /// Bytes of all schemas of one plan or card when they are compiled, estimated from their text.
    pub schemas_bytes_max: usize,
    /// Bytes of one step's inputs or outputs kept inline; larger ones go by reference.
    pub inline_bytes_max: usize,
    /// Bytes of one step's inputs or outputs at all.
    pub payload_bytes_max: usize,
    /// Bytes of stored payloads (those over `inline_bytes_max`) that the expressions of one step read.
    pub expression_bytes_max: usize,
    /// Bytes of the outputs of all steps of a plan and of all plans that are ever started inside it, and of these plans,
    /// whose texts count three times; passing it fails the plan.
    pub plan_outputs_bytes_max: usize,
    /// Nesting of JSON and YAML.
    pub nesting_max: usize,
    /// Characters of a description or an expression.
    pub text_chars_max: usize,
    /// Events of one plan; reaching it fails the plan.
    pub events_max: u64,
    /// Retries of one step.
    pub retries_max: u32,
    /// Losses of one step before it becomes a dead letter. A loss whose attempt recorded a new call does not count.
    pub lost_max: u32,
    /// Recorded calls of one step.
    pub calls_max: u32,
    /// Bytes of the recorded calls of one step.
    pub calls_bytes_max: usize,
    /// Milliseconds of one attempt of a step that says nothing else; at most `timeout_ms_max`.
    pub timeout_ms: u64,
    /// Milliseconds of one attempt.
    pub timeout_ms_max: u64,
    /// Milliseconds a step may wait on its stream, or because its agents ask to wait.
    pub queue_ms_max: u64,
    /// Milliseconds of a plan without a deadline of its own.
    pub plan_ms_max: u64,
    /// Milliseconds that the clean-up steps of a plan have, from its outcome on.
    pub cleanup_ms: u64,
    /// Milliseconds a person has to decide.
    pub approval_ms_max: u64,
    /// Events from outside that a plan keeps until a step waits for them.
    pub kept_events_max: usize,
    /// Bytes of the data of these events.
    pub kept_events_bytes_max: usize,
    /// Work units of one expression; the expressions of one step, or of all items of a map, have 160 times as many together.
    pub fuel_max: u64,
    /// Revisions of one plan.
    pub revisions_max: u32,
}

/// The limits that workers apply too. They take them from the installation, which its schedulers describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskLimits {
    /// `limits.calls_max`.
    pub calls_max: u32,
    /// `limits.calls_bytes_max`.
    pub calls_bytes_max: usize,
    /// `limits.inline_bytes_max`.
    pub inline_bytes_max: usize,
    /// `limits.payload_bytes_max`.
    pub payload_bytes_max: usize,
    /// `limits.nesting_max`.
    pub nesting_max: usize,
}

impl From<&Limits> for TaskLimits {
    fn from(limits: &Limits) -> Self {
        let Limits { calls_max, calls_bytes_max, inline_bytes_max, payload_bytes_max, nesting_max, .. } = *limits;
        Self { calls_max, calls_bytes_max, inline_bytes_max, payload_bytes_max, nesting_max }
    }
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self::from(&Limits::default())
    }
}

/// Events of a step that is done by the first attempt: ready, queued, started, completed.
pub const STEP_EVENTS: u64 = 4;
/// Events of one more attempt: failed, queued, started.
pub const ATTEMPT_EVENTS: u64 = 3;
/// Events of a plan beside those of its steps: accepted, created, started, judged, ended, and some decisions of people.
pub const PLAN_EVENTS: u64 = 32;

impl Limits {
    /// Relations between limits that must hold, so that what one allows is not refused by another: a text for each, and
    /// whether it holds.
    pub fn relations(&self) -> [(bool, &'static str); 7] {
        let least = (self.steps_max as u64).saturating_mul(STEP_EVENTS).saturating_add(PLAN_EVENTS);
        [
            (self.timeout_ms > 0, "limits.timeout_ms > 0"),
            (self.timeout_ms <= self.timeout_ms_max, "limits.timeout_ms <= limits.timeout_ms_max"),
            (self.inline_bytes_max <= self.payload_bytes_max, "limits.inline_bytes_max <= limits.payload_bytes_max"),
            (
                self.payload_bytes_max <= self.plan_outputs_bytes_max,
                "limits.payload_bytes_max <= limits.plan_outputs_bytes_max",
            ),
            (self.planned_steps_max <= self.steps_max, "limits.planned_steps_max <= limits.steps_max"),
            (self.items_max <= self.steps_max, "limits.items_max <= limits.steps_max"),
            (least <= self.events_max, "limits.steps_max * 4 + 32 <= limits.events_max"),
        ]
    }

    /// What is left of them for a plan that is inside `depth` others.
    #[must_use]
    pub fn inside(&self, depth: u32) -> Self {
        Self { depth_max: self.depth_max.saturating_sub(depth), ..self.clone() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps_max: 10_000,
            planned_steps_max: 20,
            family_steps_max: 50_000,
            items_max: 1_000,
            iterations_max: 1_000,
            dependencies_max: 10_000,
            path_max: 10_000,
            depth_max: 3,
            plan_bytes_max: 8 << 20,
            schemas_bytes_max: 64 << 20,
            inline_bytes_max: 256 << 10,
            payload_bytes_max: 2 << 20,
            expression_bytes_max: 4 << 20,
            plan_outputs_bytes_max: 64 << 20,
            nesting_max: 64,
            text_chars_max: 16_384,
            events_max: 200_000,
            retries_max: 100,
            lost_max: 3,
            calls_max: 200,
            calls_bytes_max: 8 << 20,
            timeout_ms: TIMEOUT_MS,
            timeout_ms_max: 24 * 3_600_000,
            queue_ms_max: 24 * 3_600_000,
            plan_ms_max: 7 * 24 * 3_600_000,
            cleanup_ms: 3_600_000,
            approval_ms_max: 24 * 3_600_000,
            kept_events_max: 1_000,
            kept_events_bytes_max: 4 << 20,
            fuel_max: 100_000,
            revisions_max: 3,
        }
    }
}

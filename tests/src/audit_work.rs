//! What a step has done, or may have, read from the JSON of its events.

use std::collections::BTreeSet;

use serde_json::Value;

/// An iteration of a step, from 1, and who did it: agent type and action of the fallback.
type Work = (u64, String, String);

/// Codes of attempts whose agent has answered, and whose answer was refused.
const REFUSED_ANSWERS: [&str; 3] = ["ANSWER_EMPTY", "ANSWER_INVALID", "OUTPUT_TOO_LARGE"];

/// Whether an attempt that failed like that may have done its work.
fn may_be_done(failure: &Value) -> bool {
    if let Some(effect) = failure["effect"].as_str() {
        return effect == "unknown";
    }
    let is_unknown = failure["outcome_unknown"].as_bool().unwrap_or(false);
    let is_cut = matches!(failure["class"].as_str(), Some("timeout" | "lost"));
    is_unknown || is_cut || failure["code"].as_str().is_some_and(|code| REFUSED_ANSWERS.contains(&code))
}

/// What is known of the work of a step.
#[derive(Default)]
pub(crate) struct SeenWork {
    /// Number of the event that first sent it, or ran it in the engine; 0 before.
    pub(crate) sent: u64,
    /// The attempt whose outcome is open.
    out: Option<Work>,
    /// Whether that attempt has begun.
    started: bool,
    /// What it has done, or may have, over all its attempts.
    pub(crate) done: BTreeSet<Work>,
}

impl SeenWork {
    /// Follows what an event says about the work of its step.
    ///
    /// - `attempt`, `before`: the attempt of the event, and the last one before it.
    /// - `iteration`: the current one, from 1.
    pub(crate) fn follow(&mut self, seq: u64, kind: &str, (attempt, before): (u64, u64), iteration: u64, data: &Value) {
        let text = |field: &str| data[field].as_str().unwrap_or_default().to_owned();
        let may_be_done = match kind {
            "step_queued" => {
                self.out = Some((iteration, text("agent_type"), text("action")));
                self.started = false;
                self.sent = if self.sent == 0 { seq } else { self.sent };
                return;
            }
            "step_started" => {
                self.started = true;
                return;
            }
            // The engine runs and completes a step of its own in one event.
            "step_completed" if attempt > before => {
                self.sent = if self.sent == 0 { seq } else { self.sent };
                self.out = Some((iteration, String::new(), String::new()));
                true
            }
            "step_failed" | "step_retrying" => may_be_done(&data["failure"]),
            "step_skipped" if !data["failure"].is_null() => may_be_done(&data["failure"]),
            "step_released" => self.started,
            "step_decomposed" => false,
            "step_completed" | "step_iterated" | "step_skipped" | "step_cancelled" | "step_recalled" => true,
            _ => return,
        };
        self.done.extend(self.out.take().filter(|_| may_be_done));
    }

    /// Whether it has done something, or may have.
    pub(crate) fn may_be_done(&self) -> bool {
        self.out.is_some() || !self.done.is_empty()
    }
}

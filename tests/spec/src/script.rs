//! What happens to a plan from outside: what agents do, which events and commands come when.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// When every plan is submitted, Unix milliseconds: `2027-01-04T09:00:00Z`.
pub const START_MS: u64 = 1_799_053_200_000;

/// What happens from outside. Times count from the submission.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Script {
    /// What agents do, by action: one act for each time that the action is asked for, in the order of the questions.
    pub acts: BTreeMap<String, Vec<Act>>,
    /// Events, sent to all plans that wait for them.
    pub events: Vec<SentEvent>,
    /// What people do with the plan, by time; no two at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deeds: Vec<Deed>,
    /// Another plan that continues from this one, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fork: Option<Forking>,
    /// How long the plan is delayed, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<u64>,
    /// The deadline of the goal, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

/// What an agent does when it is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Act {
    /// How long the attempt takes, milliseconds.
    pub after_ms: u64,
    pub does: Does,
    /// Tokens that the attempt uses up.
    #[serde(default)]
    pub tokens: u64,
    /// The agent accepts the task after so many milliseconds, and its outcome comes by callback `after_ms` later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepts_ms: Option<u64>,
    /// Whether the attempt records a call before anything else.
    #[serde(default, skip_serializing_if = "is_false")]
    pub records: bool,
    /// Whether its outputs are stored, and its report has references to them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stores: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the serializer asks so")]
fn is_false(is: &bool) -> bool {
    !is
}

impl Act {
    /// An act without anything special.
    pub fn new(after_ms: u64, does: Does) -> Self {
        Self { after_ms, does, tokens: 0, accepts_ms: None, records: false, stores: false }
    }
}

/// How an attempt ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    /// It completes with these outputs.
    Answer(Value),
    /// The agent says that it could not do it, and that it may pass.
    Busy,
    /// The agent says that it cannot do it.
    Refuse,
    /// The answer is a 5xx or a cut connection: nobody knows what was done.
    Cut,
    /// The worker is lost.
    Lost,
    /// No answer comes: the attempt runs out of time, or is out when its plan ends.
    Silent,
}

/// What a person does with the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deed {
    pub at_ms: u64,
    pub does: Wish,
}

/// What a person wants of the plan, or of the step that is named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    Cancel,
    Pause,
    Resume,
    Approve(String),
    Reject(String),
    Skip(String),
    /// Gives the outputs of a step by hand.
    Complete(String),
    /// Takes a step out of the plan.
    Remove(String),
    /// Gives a step other inputs. It begins again if it had begun.
    Change(String),
    /// Lets a step begin again.
    Retry(String),
    /// Answers the question of a step.
    Answer(String),
}

/// A person forks a plan that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forking {
    /// How long after the end, milliseconds.
    pub after_ms: u64,
    /// The step that runs again, with all that follows from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// What people give: the outputs of a step that is completed by hand, and the answer to a question.
pub fn by_hand() -> Value {
    json!({"n": 5})
}

/// The inputs that people give a step.
pub fn other_inputs() -> Value {
    json!({"x": 7})
}

/// An event from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SentEvent {
    pub at_ms: u64,
    pub name: String,
    pub key: String,
    pub data: Value,
}

impl Script {
    /// Whether outputs are stored.
    pub fn stores(&self) -> bool {
        self.acts.values().flatten().any(|act| act.stores)
    }

    /// When a person cancels the plan, milliseconds.
    pub fn cancel_ms(&self) -> Option<u64> {
        self.deeds.iter().find(|deed| deed.does == Wish::Cancel).map(|deed| deed.at_ms)
    }

    /// Gives the cancellation another time, if there is one.
    pub fn cancel_at(&mut self, at_ms: u64) {
        self.deeds.iter_mut().filter(|deed| deed.does == Wish::Cancel).for_each(|deed| deed.at_ms = at_ms);
    }

    /// What the agent does that is asked for an action.
    ///
    /// - `time`: how often the action was asked for before.
    pub fn act(&self, action: &str, time: usize) -> Act {
        let listed = self.acts.get(action).and_then(|acts| acts.get(time));
        listed.cloned().unwrap_or_else(|| {
            let after_ms = 1 + spread(action, time) % 40_000;
            Act::new(after_ms, Does::Answer(json!({"n": time})))
        })
    }
}

/// FNV-1a, so that attempts without an act of their own end at different times.
fn spread(action: &str, time: usize) -> u64 {
    let bytes = action.bytes().chain(time.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

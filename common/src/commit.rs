//! Writes of the owner of a shard: the commit of a turn, and entries of lists.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize};

use crate::id::{AgentType, EntryId, Namespace, PlanId, ShardId};
use crate::problem::ErrorCode;

/// Everything one turn of a shard's loop changes.
///
/// It is written as a whole or not at all. It is refused when `token` is not the shard's owner any more, when
/// `number` does not follow the owner's last commit, or when a plan's log does not end at `base_seq`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// The shard that is written.
    pub shard: ShardId,
    /// The owner's token, from the claim that won.
    pub token: String,
    /// Counted from 1 since the token was taken.
    pub number: u64,
    /// The last report entry of the inbox that this commit handles; `None` when it handles none.
    pub cursor: Option<EntryId>,
    /// The same for its request entries.
    pub requests_cursor: Option<EntryId>,
    /// Each plan once.
    pub plans: Vec<PlanWrite>,
    /// In the order in which workers receive them.
    pub tasks: Vec<TaskWrite>,
    /// Task entries whose outcome is recorded here; those that are not pending are ignored.
    pub acknowledged: Vec<(AgentType, EntryId)>,
    /// Whether to check what need not be checked with every commit: the type of each key, and that no plan's log has
    /// gone; and to trim the inbox up to the cursor. An owner's first commit has a full check, and then one a second.
    pub full_check: bool,
}

/// New events of one plan; or none, and only its summary changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanWrite {
    /// The plan that has changed.
    pub plan: PlanId,
    /// Number of the log's last event before this commit; 0 for a new plan.
    pub base_seq: u64,
    /// Whether the owner's last commit of this plan ended there. Then the log's number is only compared in a full check:
    /// as long as token and commit number are right, no other owner has written since.
    #[serde(skip)]
    pub follows: bool,
    /// Number of the last event written here, above `base_seq`, or `base_seq` without events. The log entry's id is
    /// `<last_seq>-0`.
    pub last_seq: u64,
    /// RFC 3339, the time of all events of the entry.
    pub time: String,
    /// A JSON list of events, opaque to the broker; empty: no entry.
    pub events: Vec<u8>,
    /// Fields of the summary that change; its `seq` is written with them.
    #[serde(deserialize_with = "read_summary")]
    pub summary: Vec<(&'static str, String)>,
    /// Whether the plan begins, continues or ends.
    pub activity: Activity,
    /// Unix milliseconds: the plan's place in the index; 0 leaves it where it is.
    pub index_ms: u64,
    /// What the client of a plan gets: at the beginning the answer to its submission; at the end of a plan that came by
    /// the stream the final answer and the result. A back end that other programs cannot write to stores answers only.
    #[serde(skip)]
    pub result: Option<Box<StreamResult>>,
}

/// What the client of a submission gets.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct StreamResult {
    /// The id of the submission, unique among all namespaces.
    pub submission: String,
    /// The answer to the submission from now on, as JSON.
    pub answer: String,
    /// The only entry of the result's stream; empty: no result is written.
    pub fields: Vec<(&'static str, String)>,
}

/// A submission by stream that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedEntry {
    /// The id under which it is answered, unique among all namespaces.
    pub answered_as: String,
    /// The problem as JSON: the answer, and a field of the result.
    pub problem: String,
    /// Its code.
    pub code: ErrorCode,
    /// Another answer to replace: that of the plan which has the id.
    pub other_answer: Option<(String, String)>,
    /// The namespace of the stream by which it came.
    pub namespace: Namespace,
    /// Its entry in the list of those that were refused.
    pub listed: Vec<(&'static str, String)>,
}

impl PlanWrite {
    /// Whether its numbers are consistent: they increase with events; without events they stay, above 0.
    pub fn goes_on(&self) -> bool {
        if self.events.is_empty() {
            self.last_seq == self.base_seq && self.base_seq > 0
        } else {
            self.last_seq > self.base_seq
        }
    }
}

/// The change of the plan's membership in the shard's set of active plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Activity {
    /// First events: enters the set.
    Begins,
    /// Stays as it is.
    Continues,
    /// Final: leaves the set; log and summary expire after so many milliseconds.
    Ends {
        /// Milliseconds.
        retention_ms: u64,
    },
}

/// One task for one stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskWrite {
    /// Names the stream.
    pub agent_type: AgentType,
    /// A task as JSON, opaque to the broker.
    pub data: Vec<u8>,
}

/// A task that was given up on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Who had the task.
    pub agent_type: AgentType,
    /// The plan of the step.
    pub plan: PlanId,
    /// The step whose attempts have failed.
    pub step: String,
    /// The last attempt, counted from 1.
    pub attempt: u32,
    /// Upper case: `STEP_POISONED`.
    pub code: String,
    /// The message of the failure.
    pub reason: String,
    /// The task as JSON.
    pub task: String,
}

/// Reads the summary of a [`PlanWrite`] back, whose field names are constants of the program.
///
/// Each name is leaked once; there are as many as the program has constants.
fn read_summary<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(&'static str, String)>, D::Error> {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut constant = |name: String| match names.get(name.as_str()) {
        Some(known) => *known,
        None => {
            let name: &'static str = name.leak();
            names.insert(name);
            name
        }
    };
    let fields = Vec::<(String, String)>::deserialize(from)?;
    Ok(fields.into_iter().map(|(name, value)| (constant(name), value)).collect())
}

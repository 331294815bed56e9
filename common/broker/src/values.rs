//! What the verbs of a back end take and give.

use goalmill_common::agent::Agent;
use goalmill_common::id::{AgentType, AttemptToken, EntryId, Namespace};
use goalmill_common::limits::TaskLimits;
use goalmill_common::problem::Issue;
use goalmill_common::wire::Fields;
use serde::{Deserialize, Serialize};

use crate::KeyTypeMismatch;

/// The settings of a new installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Install {
    /// Written when there is none.
    pub instance: String,
    /// Number of shards when there is no installation yet.
    pub shards: u16,
    /// What workers are to apply. Written each time, so the newest scheduler decides; the journal does not have it.
    #[serde(skip)]
    pub limits: TaskLimits,
}

/// The installation, as its meta key has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub instance: String,
    pub protocol: String,
    pub shards: u16,
    /// The defaults, if its schedulers are older than this field.
    #[serde(skip)]
    pub limits: TaskLimits,
}

/// Broker health.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// `redis 7.0.15`, `embedded`.
    pub version: String,
    /// Share of `maxmemory` in use, 0 to 1; 0 without a limit.
    pub memory_used: f64,
    /// Warnings for the operator, as sentences.
    pub warnings: Vec<String>,
    /// The back end's clock, Unix milliseconds.
    pub time_ms: u64,
}

/// A shard's owner, and a counter that moves with each renewal and commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ownership {
    pub token: String,
    /// Empty once the holder is known to have ended.
    pub holder: String,
    pub beat: u64,
}

/// An attempt to become a shard's owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub holder: String,
    /// New and unguessable.
    pub token: String,
    /// The ownership that the claimant saw: the claim fails when it has changed. `None`: the shard had no owner.
    pub seen: Option<Ownership>,
}

/// One entry of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub id: EntryId,
    pub fields: Fields,
}

/// One entry of a plan's log: the events of one commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// Number of the entry's last event.
    pub last_seq: u64,
    /// RFC 3339.
    pub time: String,
    /// A JSON list of events.
    pub events: String,
}

/// A task, as it is delivered to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub agent_type: AgentType,
    pub entry: EntryId,
    /// The entry's `data`; empty when the entry is gone or not a task.
    pub data: Vec<u8>,
}

/// The counts of a task stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueState {
    pub agent_type: AgentType,
    /// Entries no worker has taken.
    pub waiting: u64,
    /// Entries with workers, not acknowledged.
    pub pending: u64,
    pub dead_letters: u64,
    /// Set when the task stream's key is no stream: nothing can be sent to this queue.
    pub wrong_type: Option<KeyTypeMismatch>,
}

/// An event from outside that is kept until a plan waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptEvent {
    pub namespace: Namespace,
    /// See [`goalmill_common::external_event::topic`].
    pub topic: String,
    pub id: String,
    /// The event as JSON.
    pub text: String,
    /// The event is kept for so long.
    pub retention_ms: u64,
    /// Events that the namespace keeps and no plan has taken.
    pub most: usize,
}

/// What became of an event that is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    New,
    /// Its topic has one with the same id.
    Known,
    /// The namespace keeps as many as it may.
    Full,
}

/// A kept event without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptHead {
    /// Its place among those of its topic, in the form of the back end.
    pub place: String,
    /// The id of the event.
    pub id: String,
}

/// Some fields of a hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldsPage {
    pub fields: Vec<(String, String)>,
    /// Where the next page begins, in the form of the back end; `None` after the last one.
    pub next: Option<String>,
}

/// The registered agent types.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Registry {
    /// By name.
    pub agents: Vec<Agent>,
    /// Cards that cannot be used, by name. The others are not affected.
    pub refused: Vec<RefusedCard>,
}

/// A card that another program wrote and that cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub struct RefusedCard {
    /// The agent type that it is for.
    pub name: String,
    /// Its issues, at least one.
    pub issues: Vec<Issue>,
}

impl RefusedCard {
    /// The first issue, its place, and the fix, in one line.
    pub fn text(&self) -> String {
        let name = self.name.chars().take(64).collect::<String>();
        let Some(Issue { pointer, detail, hint, .. }) = self.issues.first() else {
            return format!("the card of agent type `{name}` is refused");
        };
        let place = if pointer.is_empty() { "/" } else { pointer };
        format!("the card of agent type `{name}` is refused: {detail} at {place}; {hint}")
    }
}

/// The schedulers that a heartbeat finds alive, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveSchedulers {
    /// Those of the format of the one that asks: they share the shards with it. Empty while it may not join.
    pub sharing: Vec<String>,
    /// Those whose logs have another format, with that format.
    pub others: Vec<(String, u32)>,
    /// When the store recorded the one that asks before, in Unix milliseconds; `None` if it was not recorded.
    pub before_ms: Option<u64>,
    /// When it was recorded now. `None` while it may not join, and of a back end that cannot lose what it confirmed.
    pub now_ms: Option<u64>,
}

impl LiveSchedulers {
    /// Whether the store has lost what it confirmed at this time, which [`Self::now_ms`] of an earlier heartbeat was.
    pub fn has_lost(&self, confirmed_ms: u64) -> bool {
        self.now_ms.is_some() && self.before_ms.is_none_or(|before_ms| before_ms < confirmed_ms)
    }
}

/// A best-effort broadcast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broadcast {
    Cancel(Vec<AttemptToken>),
    AgentsChanged(AgentType),
}

/// The result of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    Applied,
    /// This very commit is already there: its reply was lost.
    Duplicate,
    /// The token is not the owner's any more; nothing was written.
    Fenced,
    /// The commit's or a plan's number does not follow; nothing was written.
    Gap(String),
}

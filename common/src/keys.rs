//! Every Redis key, spelled once.
//!
//! Keys of a shard share its hash tag `{s<n>}`, so that one commit may touch them all on Redis Cluster.

use crate::config::RedisSettings;
use crate::id::{AgentType, Namespace, PlanId, ShardId, WorkerId};

/// The group of [`Keys::goals`].
pub const SCHEDULERS: &str = "schedulers";
/// The group of every task stream.
pub const WORKERS_GROUP: &str = "workers";
/// Stands for an agent type in a pattern of task streams.
const AGENT_TYPE: &str = "<agent_type>";
/// Characters of a prefix.
const PREFIX_CHARS_MAX: usize = 64;

/// The keys of one installation. Installations with different prefixes share a Redis without seeing each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    prefix: String,
}

impl Default for Keys {
    fn default() -> Self {
        Self::new("goalmill")
    }
}

impl From<&RedisSettings> for Keys {
    fn from(settings: &RedisSettings) -> Self {
        Self::new(&settings.prefix)
    }
}

/// Whether a text may be a prefix: 1 to 64 letters, digits, `_`, `-` and `.`, so that it has no meaning in patterns.
pub fn is_prefix(text: &str) -> bool {
    (1..=PREFIX_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

impl Keys {
    /// The keys that begin with `<prefix>:`.
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.into() }
    }

    fn key(&self, name: &str) -> String {
        [&self.prefix, ":", name].concat()
    }

    fn named(&self, kind: &str, name: &str) -> String {
        [&self.prefix, ":", kind, ":", name].concat()
    }

    fn shard_key(&self, shard: ShardId, name: &str) -> String {
        [&self.prefix, ":{s", &shard.to_string(), "}:", name].concat()
    }

    /// STREAM, public: submissions from any client; group [`SCHEDULERS`].
    pub fn goals(&self) -> String {
        self.key("goals")
    }

    /// STREAM, public: submissions of a namespace, whose producer may submit for no other.
    pub fn goals_of(&self, namespace: &Namespace) -> String {
        self.named("goals", namespace.as_str())
    }

    /// STRING, JSON: submission entry → the processes that took it over from a scheduler that died, and may have died
    /// since.
    pub fn submission_tries(&self) -> String {
        self.key("goals:tries")
    }

    /// STREAM, public: events from outside, until a scheduler has taken them.
    pub fn sent_events(&self) -> String {
        self.key("events")
    }

    /// ZSET: `<topic> <event id>` → when the event came, Unix milliseconds: what a namespace keeps and no plan has taken.
    pub fn kept_events(&self, namespace: &Namespace) -> String {
        self.named("events:kept", namespace.as_str())
    }

    /// ZSET: `<topic> <event id>` → when the event came, Unix milliseconds: kept events that a plan has taken.
    pub fn taken_events(&self, namespace: &Namespace) -> String {
        self.named("events:taken", namespace.as_str())
    }

    /// STREAM: the ids of the kept events of a name and key; entries of former versions hold the events.
    ///
    /// - `topic`: see [`crate::external_event::topic`].
    pub fn kept_events_of(&self, namespace: &Namespace, topic: &str) -> String {
        [&self.kept_events(namespace), ":", topic].concat()
    }

    /// STRING, JSON: a kept event.
    pub fn kept_event(&self, namespace: &Namespace, topic: &str, id: &str) -> String {
        // No namespace has a space.
        [&self.named("events:data", topic), ":", namespace.as_str(), " ", id].concat()
    }

    /// HASH: name of a stored plan of a namespace → its newest version when the field was written; a later one may exist.
    pub fn stored_plans(&self, namespace: &Namespace) -> String {
        self.named("stored-plans:names", namespace.as_str())
    }

    /// HASH: version → who stored it and when, with its document, as JSON; never changed.
    ///
    /// - `name`: of a stored plan; it has no `:`.
    pub fn stored_plan_documents(&self, namespace: &Namespace, name: &str) -> String {
        [&self.named("stored-plans:documents", name), ":", namespace.as_str()].concat()
    }

    /// HASH: version → who retired it and when, as JSON.
    pub fn retired_plans(&self, namespace: &Namespace, name: &str) -> String {
        [&self.named("stored-plans:retired", name), ":", namespace.as_str()].concat()
    }

    /// HASH: `<plan> <step>` → the wait of the step for an event, as JSON.
    pub fn waits(&self) -> String {
        self.key("waits")
    }

    /// HASH: `<plan> <step>` → nothing: who waits for the events of a topic.
    pub fn waits_of(&self, namespace: &Namespace, topic: &str) -> String {
        [&self.named("waits", namespace.as_str()), ":", topic].concat()
    }

    /// STRING, 24 h, public, read only: the answer to submission `id`.
    pub fn answer(&self, id: &str) -> String {
        self.named("answers", id)
    }

    /// STREAM of one entry, 24 h, public, read only: how the plan of submission `id` ended, or why it was refused.
    pub fn result(&self, id: &str) -> String {
        self.named("results", id)
    }

    /// STREAM, one week, public, read only: submissions by stream that were refused.
    ///
    /// - `namespace`: that of the stream by which they came.
    pub fn refused(&self, namespace: &Namespace) -> String {
        self.named("refused", namespace.as_str())
    }

    /// HASH, public, read only: `instance` id, `protocol` version, number of `shards`, patterns of task `streams`.
    pub fn meta(&self) -> String {
        self.key("meta")
    }

    /// HASH: scheduler id → what namespaces use there, as JSON.
    pub fn namespace_use(&self) -> String {
        self.key("namespaces:use")
    }

    /// HASH: agent type → registration as JSON.
    pub fn agents(&self) -> String {
        self.key("agents")
    }

    /// PUB/SUB: an agent type was registered or changed.
    pub fn agents_changed(&self) -> String {
        self.key("agents:changed")
    }

    /// SET: agent types whose task stream was opened.
    pub fn queues(&self) -> String {
        self.key("queues")
    }

    /// SET: agent types whose queue gets nothing new.
    pub fn queues_paused(&self) -> String {
        self.key("queues:paused")
    }

    /// STREAM: tasks for one agent type; group [`WORKERS_GROUP`].
    pub fn steps(&self, agent_type: &AgentType) -> String {
        self.named("steps", agent_type.as_str())
    }

    /// The pattern of [`Keys::steps`], for [`Keys::meta`]; see [`TaskStreams`].
    pub fn steps_pattern(&self) -> String {
        self.named("steps", AGENT_TYPE)
    }

    /// STREAM, public, read only: tasks of an agent type that were given up on.
    pub fn dead_letters(&self, agent_type: &AgentType) -> String {
        self.named("dead", agent_type.as_str())
    }

    /// ZSET: worker id → time of its last heartbeat in Unix milliseconds. See [`Keys::worker_beats`].
    pub fn workers(&self) -> String {
        self.key("workers")
    }

    /// HASH: worker id → its last heartbeat as JSON.
    pub fn worker_beats(&self) -> String {
        self.key("workers:beats")
    }

    /// STRING, 24 h: exists while the worker is asked to drain.
    pub fn drain_request(&self, worker: &WorkerId) -> String {
        self.named("workers:drain", worker.as_str())
    }

    /// PUB/SUB: attempt tokens, separated by blanks, whose execution shall stop.
    pub fn cancel(&self) -> String {
        self.key("cancel")
    }

    /// ZSET: attempt token → when it was superseded, Unix milliseconds; for workers that missed the message.
    pub fn cancelled(&self) -> String {
        self.key("cancelled")
    }

    /// ZSET: scheduler id → time of its last heartbeat in Unix milliseconds.
    pub fn schedulers(&self) -> String {
        self.key("schedulers")
    }

    /// HASH: scheduler id → the format of the logs that it writes; see [`LOG_FORMAT`](crate::event::LOG_FORMAT).
    pub fn scheduler_formats(&self) -> String {
        self.key("schedulers:formats")
    }

    /// PUB/SUB without messages; a live scheduler is subscribed to its own.
    pub fn presence(&self, scheduler: &str) -> String {
        self.named("presence", scheduler)
    }

    /// STRING, 1 min: when a scheduler last checked that the server takes writes.
    pub fn probe(&self) -> String {
        self.key("probe")
    }

    /// HASH: shard → what its owner holds in memory, as JSON; for autoscalers.
    pub fn loads(&self) -> String {
        self.key("loads")
    }

    /// HASH: purpose → a secret of the installation, which only schedulers read.
    pub fn secrets(&self) -> String {
        self.key("secrets")
    }

    /// HASH: token id → token as JSON; of its secret only the SHA-256.
    pub fn tokens(&self) -> String {
        self.key("tokens")
    }

    /// HASH: token id → its last use in Unix milliseconds. Apart from [`Keys::tokens`], so that a use never brings a
    /// revoked token back.
    pub fn tokens_used(&self) -> String {
        self.key("tokens:used")
    }

    /// STRING, with an expiry: a session as JSON.
    ///
    /// - `hash`: SHA-256 of the word in its cookie.
    pub fn session(&self, hash: &str) -> String {
        self.named("sessions", hash)
    }

    /// STREAM: reports of workers for a shard; read from a cursor, no group.
    pub fn reports(&self, shard: ShardId) -> String {
        self.shard_key(shard, "reports")
    }

    /// STREAM: requests of schedulers for a shard, which no worker may write; read from a cursor, no group.
    pub fn requests(&self, shard: ShardId) -> String {
        self.shard_key(shard, "requests")
    }

    /// SET: ids of a shard's plans that are not final.
    pub fn active(&self, shard: ShardId) -> String {
        self.shard_key(shard, "active")
    }

    /// HASH: `token`, `holder`, `beat` (moves with each renewal or commit), `commit` (number of the last one).
    pub fn owner(&self, shard: ShardId) -> String {
        self.shard_key(shard, "owner")
    }

    /// STRING: the entry of [`Keys::reports`] up to which the shard has read; moves inside commits only.
    pub fn cursor(&self, shard: ShardId) -> String {
        self.shard_key(shard, "cursor")
    }

    /// STRING: the entry of [`Keys::requests`] up to which the shard has read; moves inside commits only.
    pub fn requests_cursor(&self, shard: ShardId) -> String {
        self.shard_key(shard, "requests:cursor")
    }

    /// STRING, JSON: the plan that the shard's owner has in hand after a takeover, and the plans in quarantine.
    pub fn poison(&self, shard: ShardId) -> String {
        self.shard_key(shard, "poison")
    }

    /// ZSET: plan id → last change in Unix milliseconds.
    pub fn index(&self, shard: ShardId) -> String {
        self.shard_key(shard, "index")
    }

    /// HASH, public, read only: a plan's summary.
    pub fn plan(&self, id: &PlanId) -> String {
        let shard = id.shard().unwrap_or(ShardId(0)).to_string();
        [&self.prefix, ":{s", &shard, "}:plan:", id.as_str()].concat()
    }

    /// STREAM, public, read only: a plan's log. An entry holds the events of one commit; its id is `<seq of the last>-0`.
    pub fn events(&self, id: &PlanId) -> String {
        events_of(&self.plan(id))
    }

    /// STRING: a payload too large to carry, by reference.
    pub fn blob(&self, shard: ShardId, id: &str) -> String {
        [&self.prefix, ":blob:{s", &shard.to_string(), "}:", id].concat()
    }

    /// The blob of a plan's family: `goalmill:blob:{s<n>}:<family>:<name>`.
    ///
    /// - `family`: the outermost plan around the plan, or the plan itself.
    /// - `name`: unguessable, and no token of an attempt: everybody who may see the plan sees it.
    pub fn plan_blob(&self, family: &PlanId, name: &str) -> Option<String> {
        Some(self.blob(family.shard()?, &format!("{family}:{name}")))
    }

    /// Whether the key is that of a blob of this family; nothing else is read for a reference.
    pub fn is_blob_of(&self, family: &PlanId, key: &str) -> bool {
        let prefix = self.plan_blob(family, "");
        prefix.is_some_and(|prefix| key.strip_prefix(&prefix).is_some_and(|name| !name.is_empty()))
    }

    /// STRING, with an expiry: the outputs of a step, as JSON, for steps with the same cache key.
    pub fn cached_result(&self, cache_key: &str) -> String {
        self.named("cache", cache_key)
    }
}

/// The log of the plan whose summary has this key.
pub fn events_of(plan: &str) -> String {
    [plan, ":events"].concat()
}

/// Which stream holds the tasks of an agent type: field `streams` of [`Keys::meta`].
///
/// The field is a list of patterns, separated by blanks; `<agent_type>` stands for the agent type. Installations have
/// one pattern today. More of them (one for each shard) are reserved for Redis Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStreams {
    before: String,
    after: String,
}

impl TaskStreams {
    /// Parses the field; `None` unless it is exactly one pattern.
    pub fn parse(field: &str) -> Option<Self> {
        let (before, after) = field.split_once(AGENT_TYPE)?;
        let is_one = !field.contains(char::is_whitespace) && !after.contains(AGENT_TYPE);
        is_one.then(|| Self { before: before.into(), after: after.into() })
    }

    /// The stream for an agent type.
    pub fn stream(&self, agent_type: &AgentType) -> String {
        [&self.before, agent_type.as_str(), &self.after].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_shard_share_its_tag() {
        let (keys, id) = (Keys::default(), PlanId::from("p3-0000000000000000"));
        let shard = ShardId(3);
        for key in [
            keys.reports(shard),
            keys.requests(shard),
            keys.active(shard),
            keys.plan(&id),
            keys.events(&id),
            keys.blob(shard, "x"),
        ] {
            assert!(key.contains("{s3}"), "{key}");
        }
        assert_eq!(keys.events(&id), "goalmill:{s3}:plan:p3-0000000000000000:events");
        let key = keys.plan_blob(&id, "x").expect("it has a shard");
        assert!(keys.is_blob_of(&id, &key) && !Keys::new("other").is_blob_of(&id, &key));
        let other = PlanId::derive_in(shard, "other");
        for foreign in [keys.blob(shard, "x"), keys.plan_blob(&other, "x").expect("it has a shard"), keys.plan(&id)] {
            assert!(!keys.is_blob_of(&id, &foreign), "{foreign}");
        }
        assert!(!keys.is_blob_of(&id, &keys.plan_blob(&id, "").expect("it has a shard")));
    }

    #[test]
    fn the_pattern_of_task_streams_gives_their_keys() {
        let (keys, agent_type) = (Keys::new("other"), AgentType::from("fetch"));
        let streams = TaskStreams::parse(&keys.steps_pattern()).expect("it is one pattern");
        assert_eq!(streams.stream(&agent_type), keys.steps(&agent_type));
        for field in ["single", "", "a:<agent_type> b:<agent_type>", "<agent_type>:<agent_type>"] {
            assert_eq!(TaskStreams::parse(field), None, "{field}");
        }
    }

    #[test]
    fn a_prefix_has_no_meaning_in_patterns() {
        assert!(is_prefix("goalmill") && is_prefix("team-1.test_2"));
        for text in ["", "a:b", "a*", "{a}", "a b", "é", &"a".repeat(65)] {
            assert!(!is_prefix(text), "{text}");
        }
    }
}

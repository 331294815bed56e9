//! Every Redis key, spelled once.
//!
//! Keys of a shard share its hash tag `{s<n>}`, so that one commit may touch them all on Redis Cluster.

use crate::id::{AgentType, PlanId, ShardId, WorkerId};

/// STREAM, public: submissions from any client; group [`SCHEDULERS`].
pub const GOALS: &str = "goalmill:goals";
/// HASH, public, read only: instance id, protocol version, shard count, stream layout.
pub const META: &str = "goalmill:meta";
/// HASH: agent type → registration as JSON.
pub const AGENTS: &str = "goalmill:agents";
/// SET: agent types whose task stream was opened.
pub const QUEUES: &str = "goalmill:queues";
/// SET: agent types whose queue gets nothing new.
pub const QUEUES_PAUSED: &str = "goalmill:queues:paused";
/// ZSET: worker id → time of its last heartbeat in Unix milliseconds. See [`WORKER_BEATS`].
pub const WORKERS: &str = "goalmill:workers";
/// HASH: worker id → its last heartbeat as JSON.
pub const WORKER_BEATS: &str = "goalmill:workers:beats";
/// ZSET: scheduler id → time of its last heartbeat in Unix milliseconds.
pub const SCHEDULERS_ALIVE: &str = "goalmill:schedulers";
/// PUB/SUB: an agent type was registered or changed.
pub const AGENTS_CHANGED: &str = "goalmill:agents:changed";
/// PUB/SUB: attempt tokens, separated by blanks, whose execution shall stop.
pub const CANCEL: &str = "goalmill:cancel";
/// ZSET: attempt token → when it was superseded, Unix milliseconds; for workers that missed the message.
pub const CANCELLED: &str = "goalmill:cancelled";
/// STRING, 1 min: when a scheduler last saw that the server takes writes.
pub const PROBE: &str = "goalmill:probe";
/// HASH: shard → what its owner holds in memory, as JSON; for autoscalers.
pub const LOADS: &str = "goalmill:loads";
/// The group of [`GOALS`].
pub const SCHEDULERS: &str = "schedulers";
/// The group of every task stream.
pub const WORKERS_GROUP: &str = "workers";

/// STRING, 24 h, public, read only: what became of submission `id`.
pub fn answer(id: &str) -> String {
    format!("goalmill:answers:{id}")
}

/// STREAM: tasks for one agent type; group [`WORKERS_GROUP`].
pub fn steps(agent_type: &AgentType) -> String {
    format!("goalmill:steps:{agent_type}")
}

/// STREAM, public, read only: tasks of an agent type that were given up on.
pub fn dead(agent_type: &AgentType) -> String {
    format!("goalmill:dead:{agent_type}")
}

/// STRING, 24 h: there while the worker is asked to drain.
pub fn drain(worker: &WorkerId) -> String {
    format!("goalmill:workers:drain:{worker}")
}

/// STREAM: reports and commands for a shard; read from a cursor, no group.
pub fn reports(shard: ShardId) -> String {
    format!("goalmill:{{s{shard}}}:reports")
}

/// SET: ids of a shard's plans that are not final.
pub fn active(shard: ShardId) -> String {
    format!("goalmill:{{s{shard}}}:active")
}

/// HASH: `token`, `holder`, `beat` (moves with each renewal or commit), `commit` (number of the last one).
pub fn owner(shard: ShardId) -> String {
    format!("goalmill:{{s{shard}}}:owner")
}

/// STRING: the entry of [`reports`] up to which the shard has read; moves inside commits only.
pub fn cursor(shard: ShardId) -> String {
    format!("goalmill:{{s{shard}}}:cursor")
}

/// PUB/SUB: nothing is said there; a scheduler that lives is subscribed to its own.
pub fn presence(scheduler: &str) -> String {
    format!("goalmill:presence:{scheduler}")
}

/// STRING, JSON: submission entry → the processes that took it over from a scheduler that died, and may have died since.
pub const SUBMISSION_TRIES: &str = "goalmill:goals:tries";

/// STRING, JSON: the plan that the shard's owner has in hand after a takeover, and the plans in quarantine.
pub fn poison(shard: ShardId) -> String {
    format!("goalmill:{{s{shard}}}:poison")
}

/// ZSET: plan id → last change in Unix milliseconds.
pub fn index(shard: ShardId) -> String {
    format!("goalmill:{{s{shard}}}:index")
}

/// HASH, public, read only: a plan's summary. Put together by hand: each commit of each plan needs it.
pub fn plan(id: &PlanId) -> String {
    let shard = id.shard().unwrap_or(ShardId(0)).to_string();
    ["goalmill:{s", &shard, "}:plan:", id.as_str()].concat()
}

/// STREAM, public, read only: a plan's log. An entry holds the events of one commit; its id is `<seq of the last>-0`.
pub fn events(id: &PlanId) -> String {
    events_beside(&plan(id))
}

/// The log of the plan whose summary has this key.
pub fn events_beside(plan: &str) -> String {
    [plan, ":events"].concat()
}

/// What every blob's key begins with; nothing else is read for a reference.
pub const BLOBS: &str = "goalmill:blob:";

/// STRING: a payload too large to carry, by reference.
pub fn blob(shard: ShardId, id: &str) -> String {
    format!("{BLOBS}{{s{shard}}}:{id}")
}

/// STRING, with an expiry: the outputs of a step, as JSON, kept under `word` for steps that want the same.
pub fn cache(word: &str) -> String {
    format!("goalmill:cache:{word}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_shard_share_its_tag() {
        let id = PlanId::from("p3-0000000000000000");
        for key in [reports(ShardId(3)), active(ShardId(3)), plan(&id), events(&id), blob(ShardId(3), "x")] {
            assert!(key.contains("{s3}"), "{key}");
        }
        assert_eq!(events(&id), "goalmill:{s3}:plan:p3-0000000000000000:events");
    }
}

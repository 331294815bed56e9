//! Checks the consumer groups of task streams, for `doctor`.

use std::collections::BTreeMap;

use goalmill_common::config::RedisSettings;
use goalmill_common::id::AgentType;
use goalmill_common::keys;
use redis::{Value, cmd};

use super::Result;
use super::connections::Connections;

/// Task streams that are checked at most.
const STREAMS_MAX: usize = 1_000;

/// A problem of the workers' group of a task stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupTrouble {
    /// The stream has no such group: no worker can read it.
    Missing,
    /// Redis does not know how many entries wait: autoscalers that read Redis see none of them.
    UnknownLag,
}

/// The keys of task streams whose group is in trouble. Checks the first 1,000 task streams; only reads.
///
/// # Errors
/// The server cannot be asked, or refuses one of the reads.
pub async fn troubled(settings: &RedisSettings) -> Result<Vec<(String, GroupTrouble)>> {
    let connections = Connections::new(settings)?;
    let queues = connections.keys.queues();
    let names = connections.ask_names(cmd("SMEMBERS").arg(&queues), &queues).await?;
    let mut found = Vec::new();
    for name in names.into_iter().take(STREAMS_MAX) {
        let key = connections.keys.steps(&AgentType::from(name));
        let read = connections.try_ask::<Vec<BTreeMap<String, Value>>>(cmd("XINFO").arg("GROUPS").arg(&key)).await?;
        // `QueueState` reports a missing stream and a key of a wrong type.
        let Ok(groups) = read else { continue };
        found.extend(trouble(&groups).map(|trouble| (key, trouble)));
    }
    Ok(found)
}

fn trouble(groups: &[BTreeMap<String, Value>]) -> Option<GroupTrouble> {
    let name = Value::BulkString(keys::WORKERS_GROUP.into());
    let Some(group) = groups.iter().find(|group| group.get("name") == Some(&name)) else {
        return Some(GroupTrouble::Missing);
    };
    (group.get("lag") == Some(&Value::Nil)).then_some(GroupTrouble::UnknownLag)
}

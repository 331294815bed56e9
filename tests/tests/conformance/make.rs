//! Short ways to write claims, commits and messages.

use goalmill_broker::{
    Activity, Broker, Claim, Commit, DeadLetter, InboxCursor, InboxEntry, Ownership, PlanWrite, TaskWrite,
};
use goalmill_common::id::{AgentType, EntryId, PlanId, ShardId};
use goalmill_common::wire::Fields;

pub const S0: ShardId = ShardId(0);
pub const S1: ShardId = ShardId(1);

pub fn claim(holder: &str, token: &str, seen: Option<Ownership>) -> Claim {
    Claim { holder: holder.into(), token: token.into(), seen }
}

/// Makes `token` the owner of a shard that has none.
pub async fn own(broker: &dyn Broker, shard: ShardId, token: &str) {
    assert!(broker.acquire(shard, &claim("scheduler-1", token, None)).await.unwrap());
}

/// An empty commit of shard 0.
pub fn commit(token: &str, number: u64) -> Commit {
    Commit {
        shard: S0,
        token: token.into(),
        number,
        cursor: None,
        requests_cursor: None,
        plans: Vec::new(),
        tasks: Vec::new(),
        acknowledged: Vec::new(),
        full_check: false,
    }
}

/// The place in an inbox after one entry, and before all of the other stream.
pub fn after(entry: &InboxEntry) -> InboxCursor {
    let mut cursor = InboxCursor::start();
    cursor.advance(entry);
    cursor
}

/// The events after `base_seq` up to `last_seq` of a plan; none when they are the same.
pub fn plan(id: &str, base_seq: u64, last_seq: u64, activity: Activity) -> PlanWrite {
    let events = if base_seq == last_seq { Vec::new() } else { format!("[\"{id} to {last_seq}\"]").into_bytes() };
    PlanWrite {
        plan: id.into(),
        base_seq,
        follows: false,
        last_seq,
        time: "2026-11-21T22:47:10.123Z".into(),
        events,
        summary: vec![("status", format!("at {last_seq}")), ("goal", "ein Ziel – ✓".into())],
        activity,
        index_ms: 1_000 + last_seq,
        result: None,
    }
}

pub fn task(agent_type: &str, data: &str) -> TaskWrite {
    TaskWrite { agent_type: agent_type.into(), data: data.into() }
}

/// Puts tasks on their streams with a commit of their own.
pub async fn dispatch(broker: &dyn Broker, token: &str, number: u64, tasks: Vec<TaskWrite>) {
    let commit = Commit { tasks, ..commit(token, number) };
    assert_eq!(broker.commit(&commit).await.unwrap(), goalmill_broker::Committed::Applied);
}

pub fn fields(pairs: &[(&str, &str)]) -> Fields {
    pairs.iter().map(|(name, value)| ((*name).into(), value.as_bytes().to_vec())).collect()
}

pub fn submission(id: &str) -> Fields {
    fields(&[("specversion", "1.0"), ("id", id), ("data", "{}")])
}

pub fn lease(agent_type: &str, entry: &EntryId) -> (AgentType, EntryId) {
    (agent_type.into(), entry.clone())
}

pub fn letter(agent_type: &str, step: &str) -> DeadLetter {
    DeadLetter {
        agent_type: agent_type.into(),
        plan: PlanId::from("p0-a"),
        step: step.into(),
        attempt: 3,
        code: "STEP_POISONED".into(),
        reason: "three workers were lost".into(),
        task: "{\"step\":\"x\"}".into(),
    }
}

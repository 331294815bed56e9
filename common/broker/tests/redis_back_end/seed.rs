//! Seed data of the tests, and views of the server.

use goalmill_broker::{Activity, Broker, Claim, Commit, DeadLetter, Delivery, PlanWrite, TaskWrite};
use goalmill_common::id::{AgentType, PlanId, ShardId};
use redis::{AsyncCommands, cmd};

use crate::server::{Server, eventually};

pub const SHARD: ShardId = ShardId(1);

pub fn id(number: u64) -> PlanId {
    PlanId::derive_in(SHARD, &number.to_string())
}

pub fn commit(token: &str, number: u64, plans: &[PlanWrite]) -> Commit {
    Commit {
        shard: SHARD,
        token: token.into(),
        number,
        cursor: None,
        requests_cursor: None,
        plans: plans.to_vec(),
        tasks: Vec::new(),
        acknowledged: Vec::new(),
        full_check: false,
    }
}

pub fn plan(number: u64, base_seq: u64, last_seq: u64, activity: Activity) -> PlanWrite {
    PlanWrite {
        plan: id(number),
        base_seq,
        follows: false,
        last_seq,
        time: "2026-11-21T20:38:10.279Z".into(),
        events: format!("[{last_seq}]").into(),
        summary: vec![("status", "running".into())],
        activity,
        index_ms: 100 + last_seq,
        result: None,
    }
}

pub fn task(agent_type: &str, data: &[u8]) -> TaskWrite {
    TaskWrite { agent_type: agent_type.into(), data: data.into() }
}

pub fn letter(agent_type: &str) -> DeadLetter {
    DeadLetter {
        agent_type: agent_type.into(),
        plan: id(1),
        step: "s".into(),
        attempt: 3,
        code: "STEP_POISONED".into(),
        reason: "lost 3 times".into(),
        task: "{}".into(),
    }
}

pub async fn own(broker: &dyn Broker, token: &str) {
    let claim = Claim { holder: "test".into(), token: token.into(), seen: None };
    assert!(broker.acquire(SHARD, &claim).await.unwrap());
}

/// Commits `each` tasks of every type and lets worker `w` take them.
pub async fn deliver(broker: &dyn Broker, types: &[AgentType], each: u8) -> Vec<Delivery> {
    own(broker, "t").await;
    let mut first = commit("t", 1, &[]);
    for agent_type in types {
        broker.open_queue(agent_type).await.unwrap();
        first.tasks.extend((0..each).map(|n| task(agent_type.as_str(), &[n])));
    }
    broker.commit(&first).await.unwrap();
    let mut reader = broker.reader().await.unwrap();
    let taken = reader.pull(&"w".into(), types, types.len() * usize::from(each), 0).await.unwrap();
    assert_eq!(taken.len(), types.len() * usize::from(each));
    taken
}

/// Waits until so many readers wait at the server.
pub async fn blocked(server: &Server, readers: usize) {
    eventually("readers wait", async || {
        let info: String = cmd("INFO").arg("clients").query_async(&mut server.raw().await).await.unwrap();
        info.contains(&format!("blocked_clients:{readers}\r"))
    })
    .await;
}

/// Everything the server holds, for comparing.
pub async fn dump(server: &Server) -> Vec<(String, Vec<u8>)> {
    let mut raw = server.raw().await;
    let mut names: Vec<String> = raw.keys("*").await.unwrap();
    names.sort();
    let mut all = Vec::new();
    for name in names {
        let bytes: Vec<u8> = cmd("DUMP").arg(&name).query_async(&mut raw).await.unwrap();
        all.push((name, bytes));
    }
    all
}

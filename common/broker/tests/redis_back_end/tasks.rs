//! Task streams: leases, counts, trimming.

use std::collections::BTreeMap;

use goalmill_broker::BrokerError;
use goalmill_common::agent::Agent;
use goalmill_common::id::AgentType;
use goalmill_common::keys::{self, Keys};
use redis::streams::StreamRangeReply;
use redis::{AsyncCommands, Value, cmd};

use crate::seed::{SHARD, blocked, commit, deliver, letter, own, task};
use crate::server::{Server, eventually};

#[tokio::test]
async fn a_lease_is_extended_by_its_holder_only() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let types = [AgentType::from("a"), AgentType::from("b")];
    let taken = deliver(&*broker, &types, 3).await;
    let leases: Vec<_> = taken.iter().map(|d| (d.agent_type.clone(), d.entry.clone())).collect();
    assert_eq!(broker.extend(&"w".into(), &leases).await.unwrap(), [true; 6]);
    assert_eq!(broker.extend(&"other".into(), &leases).await.unwrap(), [false; 6]);
    let lost = broker.reclaim(&types[0], 0, 2).await.unwrap();
    assert_eq!(lost.len(), 2);
    let kept = broker.extend(&"w".into(), &leases).await.unwrap();
    assert_eq!(kept.iter().filter(|kept| **kept).count(), 4);
    for ((agent_type, id), kept) in leases.iter().zip(kept) {
        assert_ne!(kept, *agent_type == types[0] && lost.iter().any(|d| d.entry == *id));
    }
    assert_eq!(
        broker.extend(&"w".into(), &[("none".into(), "1-1".into()), ("a".into(), "x".into())]).await.unwrap(),
        [false; 2]
    );
}

#[tokio::test]
async fn a_worker_that_holds_very_many_tasks_extends_a_few() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let taken = deliver(&*broker, &["a".into()], 200).await;
    let leases = [199, 0, 150].map(|place: usize| ("a".into(), taken[place].entry.clone()));
    assert_eq!(broker.extend(&"w".into(), &leases).await.unwrap(), [true; 3]);
}

#[tokio::test]
async fn what_is_waiting_pending_and_dead_is_counted_by_agent_type() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    deliver(&*broker, &["a".into(), "c".into()], 2).await;
    let mut more = commit("t", 2, &[]);
    more.tasks = (0..3).map(|n| task("c", &[n])).collect();
    broker.commit(&more).await.unwrap();
    broker.register(&Agent::named("b".into())).await.unwrap();
    broker.add_dead_letter(&letter("b")).await.unwrap();
    // A deletion from the middle makes Redis lose count of what is waiting.
    let mut raw = server.raw().await;
    let entries: StreamRangeReply = raw.xrange_all(Keys::default().steps(&"c".into())).await.unwrap();
    let _: Value = raw.xdel(Keys::default().steps(&"c".into()), &[&entries.ids[3].id]).await.unwrap();
    let counts: Vec<_> = broker
        .queues()
        .await
        .unwrap()
        .into_iter()
        .map(|q| (q.agent_type.to_string(), q.waiting, q.pending, q.dead_letters))
        .collect();
    assert_eq!(counts, [("a".into(), 0, 2, 0), ("b".into(), 0, 0, 1), ("c".into(), 2, 2, 0)]);
    assert_eq!(broker.dead_letters(&"b".into(), 5).await.unwrap()[0].1, letter("b"));
}

#[tokio::test]
async fn expired_leases_are_found_behind_many_live_ones() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let queue = AgentType::from("a");
    let taken = deliver(&*broker, std::slice::from_ref(&queue), 250).await;
    let mut raw = server.raw().await;
    let last = taken.last().unwrap().entry.as_str();
    let mut claim = cmd("XCLAIM");
    claim.arg(Keys::default().steps(&queue)).arg("workers").arg("dead").arg(0).arg(last).arg("IDLE").arg(3_600_000);
    let _: Value = claim.query_async(&mut raw).await.unwrap();
    let lost = broker.reclaim(&queue, 1_800_000, 10).await.unwrap();
    assert_eq!(lost.iter().map(|d| d.entry.as_str()).collect::<Vec<_>>(), [last]);
    assert!(broker.reclaim(&queue, 1_800_000, 10).await.unwrap().is_empty());

    // An entry that somebody deleted has no data.
    let _: Value = raw.xdel(Keys::default().steps(&queue), &[last]).await.unwrap();
    let gone = broker.reclaim(&queue, 0, 1_000).await.unwrap();
    assert_eq!(gone.len(), 250);
    assert_eq!(gone.iter().filter(|d| d.data.is_empty()).count(), 1);
}

#[tokio::test]
async fn a_pull_never_gives_more_than_it_was_asked_for() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let types: Vec<AgentType> = ["a", "b", "c", "d", "e"].map(AgentType::from).into();
    own(&*broker, "t").await;
    let mut first = commit("t", 1, &[]);
    first.tasks = types.iter().flat_map(|t| (0..7).map(|n| task(t.as_str(), &[n]))).collect();
    for agent_type in &types {
        broker.open_queue(agent_type).await.unwrap();
    }
    broker.commit(&first).await.unwrap();
    let mut reader = broker.reader().await.unwrap();
    let mut counts = Vec::new();
    loop {
        let count = 1 + counts.len() % 4;
        let got = reader.pull(&"w".into(), &types, count, 0).await.unwrap();
        assert!(got.len() <= count);
        if got.is_empty() {
            break;
        }
        counts.push(got.len());
    }
    assert_eq!(counts.iter().sum::<usize>(), 35);

    let pulling = tokio::spawn(async move {
        let got = reader.pull(&"w".into(), &["a".into(), "b".into(), "c".into()], 2, 60_000).await;
        (reader, got)
    });
    blocked(&server, 1).await;
    let mut second = commit("t", 2, &[]);
    second.tasks = ["a", "b", "c"].map(|t| task(t, b"x")).into();
    broker.commit(&second).await.unwrap();
    let (_, got) = pulling.await.unwrap();
    assert_eq!(got.unwrap().len(), 2);
}

#[tokio::test]
async fn a_trim_keeps_what_is_waiting_or_pending() {
    let server = Server::start(&["--stream-node-max-entries", "10"]).await;
    let broker = server.open().await;
    let queue = AgentType::from("a");
    let taken = deliver(&*broker, std::slice::from_ref(&queue), 95).await;
    let mut done = commit("t", 2, &[]);
    done.tasks = vec![task("a", b"waits")];
    done.acknowledged = taken.iter().take(50).map(|d| (queue.clone(), d.entry.clone())).collect();
    broker.commit(&done).await.unwrap();
    broker.trim(&queue).await.unwrap();
    let mut raw = server.raw().await;
    let length: usize = raw.xlen(Keys::default().steps(&queue)).await.unwrap();
    assert_eq!(length, 46);
    let mut rest = commit("t", 3, &[]);
    rest.acknowledged = taken.iter().skip(50).map(|d| (queue.clone(), d.entry.clone())).collect();
    broker.commit(&rest).await.unwrap();
    broker.trim(&queue).await.unwrap();
    let state = broker.queues().await.unwrap().remove(0);
    assert_eq!((state.waiting, state.pending), (1, 0));
    let got = broker.reader().await.unwrap().pull(&"w".into(), &[queue], 5, 0).await.unwrap();
    assert_eq!(got[0].data, b"waits");
}

#[tokio::test]
async fn a_queue_that_is_missing_among_several_strands_nothing() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    broker.open_queue(&"a".into()).await.unwrap();
    own(&*broker, "t").await;
    let mut first = commit("t", 1, &[]);
    first.tasks = vec![task("a", b"x"), task("b", b"y")];
    broker.commit(&first).await.unwrap();
    let mut reader = broker.reader().await.unwrap();
    let types = ["a", "b"].map(AgentType::from);
    let mut got = Vec::new();
    for _ in 0..3 {
        got.extend(reader.pull(&"w".into(), &types, 5, 0).await.unwrap());
    }
    got.sort_by(|one, other| one.data.cmp(&other.data));
    assert_eq!(got.iter().map(|d| d.data.as_slice()).collect::<Vec<_>>(), [b"x", b"y"]);
}

#[tokio::test]
async fn consumers_that_hold_nothing_are_forgotten_and_others_are_not() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let queue = AgentType::from("a");
    deliver(&*broker, std::slice::from_ref(&queue), 1).await;
    let mut raw = server.raw().await;
    for n in 0..3 {
        let mut create = cmd("XGROUP");
        create
            .arg("CREATECONSUMER")
            .arg(Keys::default().steps(&queue))
            .arg(keys::WORKERS_GROUP)
            .arg(format!("idle{n}"));
        let _: Value = create.query_async(&mut raw).await.unwrap();
    }
    let mut prune = cmd("FCALL");
    prune
        .arg(server.function("goalmill_prune").await)
        .arg(1)
        .arg(Keys::default().steps(&queue))
        .arg(keys::WORKERS_GROUP);
    let mut older = prune.clone();
    assert_eq!(older.arg(3_600_000).arg(100).query_async::<i64>(&mut raw).await.unwrap(), 0);
    assert_eq!(prune.clone().arg(-1).arg(2).query_async::<i64>(&mut raw).await.unwrap(), 2);
    assert_eq!(prune.arg(-1).arg(100).query_async::<i64>(&mut raw).await.unwrap(), 1);
    assert_eq!(broker.queues().await.unwrap()[0].pending, 1, "a consumer that holds a task stays");
    broker.trim(&queue).await.unwrap();
}

/// As `docs/protocol.md` has it, for workers that do not use this crate.
#[tokio::test]
async fn functions_for_foreign_workers_answer_as_documented() {
    let server = Server::start(&["--maxmemory", "64mb"]).await;
    let broker = server.open().await;
    let queue = AgentType::from("a");
    let mine = deliver(&*broker, std::slice::from_ref(&queue), 2).await;
    let mut raw = server.raw().await;
    let mut extend = cmd("FCALL");
    extend.arg("goalmill_extend").arg(2).arg(Keys::default().steps(&queue)).arg("goalmill:steps:none").arg("w");
    extend.arg(3).arg(mine[0].entry.as_str()).arg("1-0").arg(mine[1].entry.as_str()).arg(1).arg("1-0");
    assert_eq!(extend.query_async::<Vec<u8>>(&mut raw).await.unwrap(), [1, 0, 1, 0]);
    let mut other = cmd("FCALL");
    other.arg("goalmill_extend").arg(1).arg(Keys::default().steps(&queue)).arg("x").arg(1).arg(mine[0].entry.as_str());
    assert_eq!(other.query_async::<Vec<u8>>(&mut raw).await.unwrap(), [0], "another worker has it");
    let _: Value = cmd("CONFIG").arg("SET").arg("maxmemory").arg(1).query_async(&mut raw).await.unwrap();
    let mut send = cmd("FCALL");
    send.arg("goalmill_send").arg(1).arg(Keys::default().reports(SHARD)).arg(&["v", "1", "data", "{}"]);
    let id: String = send.query_async(&mut raw).await.unwrap();
    let inbox =
        broker.reader().await.unwrap().inbox(SHARD, &goalmill_broker::InboxCursor::start(), 9, 0).await.unwrap();
    assert_eq!(inbox.last().map(|entry| entry.id.as_str()), Some(id.as_str()));
}

#[tokio::test]
async fn workers_read_the_task_streams_that_the_installation_names() {
    let server = Server::start(&[]).await;
    server.open().await;
    let mut raw = server.raw().await;
    let meta = Keys::default().meta();
    let _: Value = raw.hset(&meta, "streams", "elsewhere:<agent_type>:tasks").await.unwrap();
    let _: Value =
        cmd("XADD").arg("elsewhere:a:tasks").arg(&["*", "v", "1", "data", "x"]).query_async(&mut raw).await.unwrap();
    let broker = goalmill_broker::redis::connect(&server.settings()).await.unwrap();
    let types = [AgentType::from("a")];
    let taken = broker.reader().await.unwrap().pull(&"w".into(), &types, 1, 0).await.unwrap();
    assert_eq!(taken[0].data, b"x");
    assert_eq!(broker.extend(&"w".into(), &[(types[0].clone(), taken[0].entry.clone())]).await.unwrap(), [true]);
    let _: Value = raw.hset(&meta, "streams", "a:<agent_type> b:<agent_type>").await.unwrap();
    let broker = goalmill_broker::redis::connect(&server.settings()).await.unwrap();
    let refused = broker.reader().await.unwrap().pull(&"w".into(), &types, 1, 0).await;
    assert!(matches!(refused, Err(BrokerError::Unsupported(_))), "{refused:?}");
}

/// What the server itself says of the workers' group: the count on which autoscalers rely.
async fn lag(raw: &mut redis::aio::MultiplexedConnection, queue: &AgentType) -> Option<i64> {
    group_count(raw, queue, "lag").await
}

async fn group_count(raw: &mut redis::aio::MultiplexedConnection, queue: &AgentType, name: &str) -> Option<i64> {
    let groups: Vec<BTreeMap<String, Value>> =
        cmd("XINFO").arg("GROUPS").arg(Keys::default().steps(queue)).query_async(raw).await.unwrap();
    redis::from_redis_value(groups[0][name].clone()).unwrap()
}

/// Replaces the number of entries that the workers' group has given out, as the server counts them.
async fn set_entries_read(raw: &mut redis::aio::MultiplexedConnection, queue: &AgentType, last: &str, read: u64) {
    let mut set = cmd("XGROUP");
    set.arg("SETID").arg(Keys::default().steps(queue)).arg("workers").arg(last).arg("ENTRIESREAD").arg(read);
    let _: Value = set.query_async(raw).await.unwrap();
}

async fn waiting(broker: &dyn goalmill_broker::Broker) -> u64 {
    broker.queues().await.unwrap()[0].waiting
}

#[tokio::test]
async fn a_promoted_replica_counts_what_waits_like_its_primary() {
    let (server, replica) = (Server::start(&[]).await, Server::start(&[]).await);
    let broker = server.open().await;
    let queue = AgentType::from("a");
    deliver(&*broker, std::slice::from_ref(&queue), 3).await;
    let mut raw = replica.raw().await;
    let _: Value = cmd("REPLICAOF").arg("127.0.0.1").arg(server.port()).query_async(&mut raw).await.unwrap();
    eventually("the replica follows", async || {
        let info: String = cmd("INFO").arg("replication").query_async(&mut raw.clone()).await.unwrap();
        info.contains("master_link_status:up")
    })
    .await;
    // What follows the first copy tells a replica which entries were given out, and not how many.
    let mut more = commit("t", 2, &[]);
    more.tasks = (0..50).map(|n| task("a", &[n])).collect();
    broker.commit(&more).await.unwrap();
    let mut reader = broker.reader().await.unwrap();
    let taken = reader.pull(&"w".into(), std::slice::from_ref(&queue), 50, 0).await.unwrap();
    assert_eq!(taken.len(), 50);
    let _: Value = cmd("WAIT").arg(1).arg(30_000).query_async(&mut server.raw().await).await.unwrap();
    let _: Value = cmd("REPLICAOF").arg("NO").arg("ONE").query_async(&mut raw).await.unwrap();
    let promoted = replica.open().await;
    assert_eq!(waiting(&*promoted).await, 0);
    promoted.trim(&queue).await.unwrap();
    assert_eq!(lag(&mut raw, &queue).await, Some(0));
}

#[tokio::test]
async fn a_wrong_count_of_what_waits_is_corrected_and_never_reported() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let queue = AgentType::from("a");
    let taken = deliver(&*broker, std::slice::from_ref(&queue), 10).await;
    let last = taken.last().unwrap().entry.to_string();
    let mut raw = server.raw().await;
    for (read, waits) in [(3_i64, 0), (100, 0)] {
        set_entries_read(&mut raw, &queue, &last, read.unsigned_abs()).await;
        // Redis 8 lowers a count of more entries than there are.
        let is_corrected = group_count(&mut raw, &queue, "entries-read").await != Some(read);
        assert!(is_corrected || lag(&mut raw, &queue).await != Some(0), "{read} read");
        assert_eq!(waiting(&*broker).await, waits, "{read} read");
        broker.trim(&queue).await.unwrap();
        assert_eq!(lag(&mut raw, &queue).await, Some(0), "{read} read");
    }
    let mut more = commit("t", 2, &[]);
    more.tasks = (0..5).map(|n| task("a", &[n])).collect();
    broker.commit(&more).await.unwrap();
    assert_eq!((waiting(&*broker).await, lag(&mut raw, &queue).await), (5, Some(5)));
    set_entries_read(&mut raw, &queue, &last, 900).await;
    assert_eq!(waiting(&*broker).await, 5, "fewer than none are counted one by one");
    broker.trim(&queue).await.unwrap();
    assert_eq!(lag(&mut raw, &queue).await, Some(5));
    let mut reader = broker.reader().await.unwrap();
    assert_eq!(reader.pull(&"w".into(), std::slice::from_ref(&queue), 9, 0).await.unwrap().len(), 5);
    assert_eq!((waiting(&*broker).await, lag(&mut raw, &queue).await), (0, Some(0)), "it counts on from there");
}

#[tokio::test]
async fn names_that_are_not_utf_8_break_no_list() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let queue = AgentType::from("a");
    deliver(&*broker, std::slice::from_ref(&queue), 1).await;
    let keys = Keys::default();
    let mut raw = server.raw().await;
    let bad: &[u8] = b"\xff\xfe\x00";
    for (verb, key, value) in [
        ("SADD", keys.queues(), None),
        ("SADD", keys.queues_paused(), None),
        ("HSET", keys.agents(), Some("{}")),
        ("HSET", keys.loads(), Some("{}")),
        ("HSET", keys.worker_beats(), Some("{}")),
    ] {
        let mut write = cmd(verb);
        write.arg(key).arg(bad);
        if let Some(value) = value {
            write.arg(value);
        }
        let _: Value = write.query_async(&mut raw).await.unwrap();
    }
    for key in [keys.workers(), keys.cancelled(), keys.schedulers()] {
        let _: Value = cmd("ZADD").arg(key).arg("+inf").arg(bad).query_async(&mut raw).await.unwrap();
    }
    let _: Value = cmd("SADD").arg(keys.queues()).arg("no id").query_async(&mut raw).await.unwrap();
    let queues: Vec<_> = broker.queues().await.unwrap().into_iter().map(|q| q.agent_type.to_string()).collect();
    assert_eq!(queues, ["a"]);
    assert!(broker.paused_queues().await.unwrap().is_empty());
    assert_eq!(broker.agents().await.unwrap().refused.len(), 1);
    assert!(broker.loads().await.unwrap().is_empty());
    assert!(broker.workers(60_000).await.unwrap().is_empty());
    assert!(broker.cancelled().await.unwrap().is_empty());
    assert_eq!(broker.record_scheduler_heartbeat("s1", 1, 60_000).await.unwrap().sharing, ["s1"]);
    assert_eq!(broker.reclaim(&queue, 0, 10).await.unwrap().len(), 1, "reclaiming goes on");
}

//! The Redis back end on a server of its own: what no other back end can do wrong.

mod server;

use std::time::Duration;

use goalmill_broker::{
    Activity, Broker, BrokerError, Claim, Commit, Committed, DeadLetter, Delivery, Message,
    PlanWrite, TaskWrite,
};
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::id::{AgentType, AttemptToken, EntryId, PlanId, ShardId, WorkerId};
use goalmill_common::{keys, wire};
use redis::streams::StreamRangeReply;
use redis::{AsyncCommands, Value, cmd};
use server::{Server, eventually, install};

const SHARD: ShardId = ShardId(1);

#[tokio::test]
async fn a_commit_is_written_whole_and_its_repetition_is_known() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    own(&*broker, "t1").await;
    let queue = AgentType::from("fetch");
    broker.open_queue(&queue).await.unwrap();

    let mut commit = commit("t1", 1, &[plan(1, 0, 3, Activity::Begins)]);
    commit.tasks = vec![task("fetch", b"\x00\xff one"), task("fetch", b"two")];
    commit.cursor = Some("5-1".into());
    assert_eq!(broker.commit(&commit).await.unwrap(), Committed::Applied);
    assert_eq!(broker.commit(&commit).await.unwrap(), Committed::Duplicate);

    assert_eq!(broker.cursor(SHARD).await.unwrap(), EntryId::from("5-1"));
    assert_eq!(broker.active(SHARD).await.unwrap(), [id(1)]);
    assert_eq!(broker.plans(SHARD, 1_000, 10).await.unwrap(), [(id(1), 103)]);
    let summary = broker.summary(&id(1)).await.unwrap();
    assert_eq!(
        summary.into_iter().collect::<Vec<_>>(),
        [("seq".into(), "3".into()), ("status".into(), "running".into())]
    );
    let log = broker.log(&id(1), 2, 10).await.unwrap();
    assert_eq!((log.len(), log[0].last_seq, log[0].events.as_str()), (1, 3, "[3]"));
    assert!(broker.log(&id(1), 3, 10).await.unwrap().is_empty());

    let worker = WorkerId::from("w");
    let taken = broker
        .reader()
        .await
        .unwrap()
        .pull(&worker, std::slice::from_ref(&queue), 10, 1_000)
        .await
        .unwrap();
    assert_eq!(
        taken.iter().map(|d| d.data.as_slice()).collect::<Vec<_>>(),
        [b"\x00\xff one".as_slice(), b"two"]
    );

    let mut end = self::commit("t1", 2, &[plan(1, 3, 4, Activity::Ends { retention_ms: 60_000 })]);
    end.acknowledged = taken.iter().map(|d| (queue.clone(), d.entry.clone())).collect();
    end.acknowledged.push((queue.clone(), "made up".into()));
    assert_eq!(broker.commit(&end).await.unwrap(), Committed::Applied);
    assert!(broker.active(SHARD).await.unwrap().is_empty());
    let queues = broker.queues().await.unwrap();
    assert_eq!((queues[0].waiting, queues[0].pending), (0, 0));
    let ttl: i64 = server.raw().await.pttl(keys::events(&id(1))).await.unwrap();
    assert!((1..=60_000).contains(&ttl), "{ttl}");
    assert_eq!(broker.owner(SHARD).await.unwrap().unwrap().beat, 2);
}

#[tokio::test]
async fn a_commit_that_does_not_follow_changes_nothing() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    own(&*broker, "t1").await;
    broker.commit(&commit("t1", 1, &[plan(1, 0, 3, Activity::Begins)])).await.unwrap();
    let before = dump(&server).await;

    let gaps = [
        commit("t1", 3, &[]),
        commit("t1", 2, &[plan(2, 0, 1, Activity::Begins), plan(1, 2, 4, Activity::Continues)]),
        commit("t1", 2, &[plan(1, 3, 3, Activity::Continues)]),
        commit("t1", 2, &[plan(2, 0, 1, Activity::Begins), plan(2, 1, 2, Activity::Continues)]),
    ];
    for gap in gaps {
        assert!(matches!(broker.commit(&gap).await.unwrap(), Committed::Gap(_)), "{gap:?}");
    }
    assert_eq!(broker.commit(&commit("other", 2, &[])).await.unwrap(), Committed::Fenced);
    assert_eq!(dump(&server).await, before);
}

#[tokio::test]
async fn an_owner_that_was_replaced_cannot_commit() {
    let server = Server::start(&[]).await;
    let (old, new) = (server.open().await, server.open().await);
    own(&*old, "t1").await;
    let seen = new.owner(SHARD).await.unwrap();
    assert!(old.renew(SHARD, "t1").await.unwrap());
    let claim = |seen| Claim { holder: "new".into(), token: "t2".into(), seen };
    assert!(!new.acquire(SHARD, &claim(seen)).await.unwrap(), "the owner showed life meanwhile");
    assert!(!new.acquire(SHARD, &claim(None)).await.unwrap());
    let seen = new.owner(SHARD).await.unwrap();
    assert!(new.acquire(SHARD, &claim(seen.clone())).await.unwrap());
    assert!(new.acquire(SHARD, &claim(seen)).await.unwrap(), "a repetition whose reply was lost");

    let before = dump(&server).await;
    let late = commit("t1", 1, &[plan(1, 0, 1, Activity::Begins)]);
    assert_eq!(old.commit(&late).await.unwrap(), Committed::Fenced);
    assert!(!old.renew(SHARD, "t1").await.unwrap());
    old.release(SHARD, "t1").await.unwrap();
    assert_eq!(dump(&server).await, before);
    assert_eq!(
        new.commit(&commit("t2", 1, &[plan(1, 0, 1, Activity::Begins)])).await.unwrap(),
        Committed::Applied
    );
}

#[tokio::test]
async fn a_key_of_another_kind_leaves_nothing_half_written() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    own(&*broker, "t1").await;
    broker.open_queue(&"fetch".into()).await.unwrap();
    broker.commit(&commit("t1", 1, &[plan(1, 0, 1, Activity::Begins)])).await.unwrap();
    let mut next =
        commit("t1", 2, &[plan(1, 1, 2, Activity::Continues), plan(2, 0, 1, Activity::Begins)]);
    next.tasks = vec![task("fetch", b"x")];
    next.acknowledged = vec![("think".into(), "1-1".into())];
    next.cursor = Some("1-0".into());
    next.trim_inbox = true;

    let victims = [
        keys::owner(SHARD),
        keys::active(SHARD),
        keys::index(SHARD),
        keys::cursor(SHARD),
        keys::reports(SHARD),
        keys::plan(&id(1)),
        keys::events(&id(1)),
        keys::plan(&id(2)),
        keys::events(&id(2)),
        keys::steps(&"fetch".into()),
        keys::steps(&"think".into()),
    ];
    let mut raw = server.raw().await;
    for victim in victims {
        let aside = format!("aside:{victim}");
        let existed: bool = raw.exists(&victim).await.unwrap();
        if existed {
            let _: () = raw.rename(&victim, &aside).await.unwrap();
        }
        let _: Value = cmd("LPUSH").arg(&victim).arg("x").query_async(&mut raw).await.unwrap();
        let before = dump(&server).await;
        let refused = broker.commit(&next).await;
        assert!(matches!(refused, Err(BrokerError::Corrupt(_))), "`{victim}`: {refused:?}");
        assert_eq!(dump(&server).await, before, "`{victim}`");
        let _: () = raw.del(&victim).await.unwrap();
        if existed {
            let _: () = raw.rename(&aside, &victim).await.unwrap();
        }
    }
    assert_eq!(broker.commit(&next).await.unwrap(), Committed::Applied);
}

#[tokio::test]
async fn without_memory_plans_go_on_and_submissions_are_refused() {
    let server = Server::start(&["--maxmemory", "0"]).await;
    let broker = server.open().await;
    own(&*broker, "t1").await;
    let mut raw = server.raw().await;
    let _: Value =
        cmd("CONFIG").arg("SET").arg("maxmemory").arg("1mb").query_async(&mut raw).await.unwrap();

    let submission = vec![("data".to_owned(), b"{}".to_vec())];
    assert!(matches!(broker.submit(&submission).await, Err(BrokerError::OutOfMemory)));
    assert!(matches!(broker.put_blob("b", b"x", 1_000).await, Err(BrokerError::OutOfMemory)));
    let begin = commit("t1", 1, &[plan(1, 0, 1, Activity::Begins)]);
    assert_eq!(broker.commit(&begin).await.unwrap(), Committed::Applied);
    broker.send(SHARD, &submission).await.unwrap();
    assert!(broker.renew(SHARD, "t1").await.unwrap());
    let health = broker.check().await.unwrap();
    assert!(health.memory_used > 0.8 && !health.warnings.is_empty(), "{health:?}");
    let other = goalmill_broker::redis::connect(&server.settings()).await.unwrap();
    other.open(&install()).await.unwrap();
}

#[tokio::test]
async fn after_a_crash_verbs_fail_and_then_work_again() {
    let mut server = Server::start(&["--appendfsync", "always"]).await;
    let broker = server.open().await;
    own(&*broker, "t1").await;
    assert_eq!(broker.commit(&commit("t1", 1, &[])).await.unwrap(), Committed::Applied);
    let mut reader = broker.reader().await.unwrap();
    let waiting = tokio::spawn(async move {
        let result = reader.inbox(SHARD, &EntryId::start(), 10, 60_000).await;
        (reader, result)
    });
    blocked(&server, 1).await;
    server.kill();
    let (mut reader, result) = waiting.await.unwrap();
    assert!(matches!(result, Err(BrokerError::Unavailable(_))), "{result:?}");
    assert!(matches!(broker.commit(&commit("t1", 2, &[])).await, Err(BrokerError::Unavailable(_))));
    assert!(matches!(broker.check().await, Err(BrokerError::Unavailable(_))));

    server.resume().await;
    broker.check().await.unwrap();
    assert_eq!(broker.commit(&commit("t1", 1, &[])).await.unwrap(), Committed::Duplicate);
    assert_eq!(broker.commit(&commit("t1", 2, &[])).await.unwrap(), Committed::Applied);
    broker.send(SHARD, &wire::Inbox::Reports(Vec::new()).fields()).await.unwrap();
    assert_eq!(reader.inbox(SHARD, &EntryId::start(), 10, 1_000).await.unwrap().len(), 1);
}

#[tokio::test]
async fn functions_that_were_flushed_are_loaded_again() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let _: Value = cmd("FUNCTION").arg("FLUSH").query_async(&mut server.raw().await).await.unwrap();
    own(&*broker, "t1").await;
    let _: Value = cmd("FUNCTION").arg("FLUSH").query_async(&mut server.raw().await).await.unwrap();
    assert_eq!(broker.commit(&commit("t1", 1, &[])).await.unwrap(), Committed::Applied);
}

#[tokio::test]
async fn a_wait_ends_when_it_is_woken_and_strands_nothing() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let (fetch, think) = (AgentType::from("fetch"), AgentType::from("think"));
    broker.open_queue(&fetch).await.unwrap();
    broker.open_queue(&think).await.unwrap();
    for types in [vec![fetch.clone()], vec![fetch.clone(), think.clone()]] {
        for count in [1, 8] {
            let mut reader = broker.reader().await.unwrap();
            let waker = reader.waker();
            let types = types.clone();
            let waiting =
                tokio::spawn(async move { reader.pull(&"w".into(), &types, count, 60_000).await });
            blocked(&server, 1).await;
            waker.wake().await;
            assert_eq!(waiting.await.unwrap().unwrap(), []);
        }
    }
    let mut reader = broker.reader().await.unwrap();
    assert_eq!(reader.messages(0).await.unwrap(), []);
    let waker = reader.waker();
    let (result, ()) = tokio::join!(reader.messages(60_000), async {
        tokio::task::yield_now().await;
        waker.wake().await;
    });
    assert_eq!(result.unwrap(), []);
    assert!(broker.queues().await.unwrap().iter().all(|queue| queue.pending == 0));
}

#[tokio::test]
async fn another_installation_at_the_same_address_is_lost_data() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let queue = AgentType::from("fetch");
    broker.open_queue(&queue).await.unwrap();
    let mut reader = broker.reader().await.unwrap();
    let _: Value = cmd("FLUSHALL").query_async(&mut server.raw().await).await.unwrap();
    assert!(matches!(broker.check().await, Err(BrokerError::DataLost(_))));
    assert!(matches!(broker.open(&install()).await, Err(BrokerError::DataLost(_))));
    assert!(matches!(
        reader.pull(&"w".into(), &[queue], 1, 10).await,
        Err(BrokerError::DataLost(_))
    ));
    assert!(matches!(reader.submissions("s", 1, 10).await, Err(BrokerError::DataLost(_))));
    let _: () = server.raw().await.hset(keys::META, "instance", "other").await.unwrap();
    assert!(matches!(broker.check().await, Err(BrokerError::DataLost(_))));
    assert!(
        dump(&server).await.iter().all(|(key, _)| key == keys::META),
        "nothing is made anew silently"
    );
}

#[tokio::test]
async fn a_missing_group_is_made_from_the_start_of_its_stream() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let mut raw = server.raw().await;
    let _: Value = cmd("XADD")
        .arg("goalmill:steps:fetch")
        .arg("*")
        .arg("data")
        .arg("x")
        .query_async(&mut raw)
        .await
        .unwrap();
    let mut reader = broker.reader().await.unwrap();
    for types in [vec![AgentType::from("fetch")], vec!["think".into(), "draw".into()]] {
        assert_eq!(reader.pull(&"w".into(), &types, 5, 10).await.unwrap(), []);
    }
    assert_eq!(reader.pull(&"w".into(), &["fetch".into()], 5, 10).await.unwrap().len(), 1);
    assert_eq!(reader.submissions("s", 5, 10).await.unwrap(), []);
    let _: Value = cmd("XGROUP")
        .arg("DESTROY")
        .arg(keys::GOALS)
        .arg(keys::SCHEDULERS)
        .query_async(&mut raw)
        .await
        .unwrap();
    broker.submit(&vec![("data".to_owned(), b"{}".to_vec())]).await.unwrap();
    assert_eq!(reader.submissions("s", 5, 10).await.unwrap(), []);
    assert_eq!(reader.submissions("s", 5, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_evicting_server_is_refused_and_a_socket_file_works() {
    let server = Server::start(&["--maxmemory-policy", "allkeys-lru"]).await;
    let refused =
        goalmill_broker::redis::connect(&server.settings()).await.unwrap().open(&install()).await;
    assert!(matches!(refused, Err(BrokerError::Unsafe(_))), "{refused:?}");
    let mut settings = server.socket_settings();
    settings.allow_unsafe = true;
    let broker = goalmill_broker::redis::connect(&settings).await.unwrap();
    broker.open(&install()).await.unwrap();
    let health = broker.check().await.unwrap();
    assert!(
        health.version.starts_with("redis 7.") && health.warnings[0].contains("allkeys-lru"),
        "{health:?}"
    );
}

#[tokio::test]
async fn a_password_is_never_shown() {
    let server = Server::start(&[]).await;
    for url in [
        "redis://user:hunter2@",
        "rediss://:hunter2@127.0.0.1:1",
        "hunter2://x",
        "redis://:hunter2@127.0.0.1:x",
    ] {
        let mut settings = server.settings();
        settings.url =
            url.replace("@", &format!("@{}", server.settings().url.trim_start_matches("redis://")));
        if url.contains(":1") {
            settings.url = url.into();
        }
        let said = match goalmill_broker::redis::connect(&settings).await {
            Ok(broker) => format!("{:?}", broker.check().await.unwrap_err()),
            Err(e) => format!("{e} {e:?}"),
        };
        assert!(!said.contains("hunter2"), "{said}");
    }
}

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
        broker
            .extend(&"w".into(), &[("none".into(), "1-1".into()), ("a".into(), "x".into())])
            .await
            .unwrap(),
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
    broker.bury(&letter("b")).await.unwrap();
    // A deletion from the middle makes Redis lose count of what is waiting.
    let mut raw = server.raw().await;
    let entries: StreamRangeReply = raw.xrange_all(keys::steps(&"c".into())).await.unwrap();
    let _: Value = raw.xdel(keys::steps(&"c".into()), &[&entries.ids[3].id]).await.unwrap();
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
    claim
        .arg(keys::steps(&queue))
        .arg("workers")
        .arg("dead")
        .arg(0)
        .arg(last)
        .arg("IDLE")
        .arg(3_600_000);
    let _: Value = claim.query_async(&mut raw).await.unwrap();
    let lost = broker.reclaim(&queue, 1_800_000, 10).await.unwrap();
    assert_eq!(lost.iter().map(|d| d.entry.as_str()).collect::<Vec<_>>(), [last]);
    assert!(broker.reclaim(&queue, 1_800_000, 10).await.unwrap().is_empty());

    // An entry that somebody deleted has no data.
    let _: Value = raw.xdel(keys::steps(&queue), &[last]).await.unwrap();
    let gone = broker.reclaim(&queue, 0, 1_000).await.unwrap();
    assert_eq!(gone.len(), 250);
    assert_eq!(gone.iter().filter(|d| d.data.is_empty()).count(), 1);
}

#[tokio::test]
async fn a_read_that_was_dropped_does_not_hold_up_the_next() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let mut reader = broker.reader().await.unwrap();
    let start = EntryId::start();
    let dropped = reader.inbox(SHARD, &start, 1, 60_000);
    assert!(tokio::time::timeout(Duration::from_millis(50), dropped).await.is_err());
    let quick = reader.inbox(SHARD, &start, 1, 0);
    assert_eq!(tokio::time::timeout(Duration::from_secs(10), quick).await.unwrap().unwrap(), []);
}

#[tokio::test]
async fn messages_come_again_after_the_connection_broke() {
    let mut server = Server::start(&[]).await;
    let broker = server.open().await;
    let mut reader = broker.reader().await.unwrap();
    assert_eq!(reader.messages(60_000).await.unwrap(), [], "the first call subscribes only");
    broker.cancel(&["t1".into(), "t2".into()]).await.unwrap();
    broker.register(&Agent::named("a".into())).await.unwrap();
    let mut said = reader.messages(10_000).await.unwrap();
    while said.len() < 2 {
        said.extend(reader.messages(10_000).await.unwrap());
    }
    assert_eq!(
        said,
        [Message::Cancel(vec!["t1".into(), "t2".into()]), Message::AgentsChanged("a".into())]
    );
    server.kill();
    assert!(matches!(reader.messages(60_000).await, Err(BrokerError::Unavailable(_))));
    assert!(matches!(reader.messages(60_000).await, Err(BrokerError::Unavailable(_))));
    server.resume().await;
    assert_eq!(reader.messages(60_000).await.unwrap(), []);
    broker.cancel(&["t3".into()]).await.unwrap();
    assert_eq!(reader.messages(60_000).await.unwrap(), [Message::Cancel(vec!["t3".into()])]);
    let mut cancelled = broker.cancelled().await.unwrap();
    cancelled.sort();
    assert_eq!(cancelled, ["t1", "t2", "t3"].map(AttemptToken::from));
}

#[tokio::test]
async fn submissions_that_were_taken_before_a_failure_come_again() {
    let mut server = Server::start(&["--appendfsync", "always"]).await;
    let broker = server.open().await;
    for n in 0..3 {
        broker.submit(&vec![("data".to_owned(), vec![n])]).await.unwrap();
    }
    let mut reader = broker.reader().await.unwrap();
    let first = reader.submissions("s", 2, 0).await.unwrap();
    assert_eq!(first.len(), 2);
    broker.acknowledge_submissions(&[first[0].id.clone()]).await.unwrap();
    server.kill();
    assert!(reader.submissions("s", 2, 0).await.is_err());
    server.resume().await;
    let again = reader.submissions("s", 2, 0).await.unwrap();
    assert_eq!(again, first[1..]);
    assert_eq!(reader.submissions("s", 2, 0).await.unwrap().len(), 1);
    assert_eq!(broker.reclaim_submissions("other", 0, 1).await.unwrap(), first[1..]);
    assert!(broker.reclaim_submissions("other", 3_600_000, 1).await.unwrap().is_empty());
}

#[tokio::test]
async fn workers_and_schedulers_are_seen_by_the_servers_time() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let beat = WorkerBeat {
        worker: "w1".into(),
        agents: vec!["a".into()],
        slots: 4,
        busy: 1,
        draining: false,
        version: "0".into(),
        host: "h".into(),
        started_ms: 1,
        seen_ms: 0,
    };
    broker.beat_worker(&beat).await.unwrap();
    let time_ms = broker.check().await.unwrap().time_ms;
    let mut raw = server.raw().await;
    let _: () = raw.hset(keys::WORKER_BEATS, "w2", "not JSON").await.unwrap();
    let _: () = raw.zadd(keys::WORKERS, "w2", time_ms).await.unwrap();
    let workers = broker.workers(60_000).await.unwrap();
    assert_eq!(workers.len(), 1, "what cannot be read is passed over");
    assert!(workers[0].seen_ms.abs_diff(time_ms) < 60_000);
    assert_eq!(WorkerBeat { seen_ms: 0, ..workers[0].clone() }, beat);
    broker.forget_worker(&"w1".into()).await.unwrap();
    assert!(broker.workers(60_000).await.unwrap().is_empty());

    assert_eq!(broker.beat_scheduler("s2", 60_000).await.unwrap(), ["s2"]);
    assert_eq!(broker.beat_scheduler("s1", 60_000).await.unwrap(), ["s1", "s2"]);
    broker.forget_scheduler("s2").await.unwrap();
    assert_eq!(broker.beat_scheduler("s1", 60_000).await.unwrap(), ["s1"]);
}

#[tokio::test]
async fn the_index_loses_plans_whose_summary_has_expired() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    own(&*broker, "t").await;
    let plans: Vec<_> = (1..=700).map(|n| plan(n, 0, n, Activity::Begins)).collect();
    broker.commit(&commit("t", 1, &plans)).await.unwrap();
    let mut raw = server.raw().await;
    for n in (1..=700).filter(|n| n % 7 != 0) {
        let _: () = raw.del(keys::plan(&id(n))).await.unwrap();
    }
    assert_eq!(broker.sweep_index(SHARD, 100 + 694).await.unwrap(), 594);
    let left = broker.plans(SHARD, u64::MAX, 1_000).await.unwrap();
    assert_eq!(left.len(), 106);
    assert_eq!(left[0], (id(700), 800));
    assert_eq!(broker.plans(SHARD, 800, 1).await.unwrap(), [(id(699), 799)]);
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
    let length: usize = raw.xlen(keys::steps(&queue)).await.unwrap();
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

// --- helpers ---------------------------------------------------------------------------------------

fn id(number: u64) -> PlanId {
    PlanId::derive_in(SHARD, &number.to_string())
}

fn commit(token: &str, number: u64, plans: &[PlanWrite]) -> Commit {
    Commit {
        shard: SHARD,
        token: token.into(),
        number,
        cursor: None,
        plans: plans.to_vec(),
        tasks: Vec::new(),
        acknowledged: Vec::new(),
        trim_inbox: false,
    }
}

fn plan(number: u64, base_seq: u64, last_seq: u64, activity: Activity) -> PlanWrite {
    PlanWrite {
        plan: id(number),
        base_seq,
        last_seq,
        time: "2026-11-21T20:38:10.279Z".into(),
        events: format!("[{last_seq}]").into(),
        summary: vec![("status", "running".into())],
        activity,
        index_ms: 100 + last_seq,
    }
}

fn task(agent_type: &str, data: &[u8]) -> TaskWrite {
    TaskWrite { agent_type: agent_type.into(), data: data.into() }
}

fn letter(agent_type: &str) -> DeadLetter {
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

async fn own(broker: &dyn Broker, token: &str) {
    let claim = Claim { holder: "test".into(), token: token.into(), seen: None };
    assert!(broker.acquire(SHARD, &claim).await.unwrap());
}

/// Commits `each` tasks of every type and lets worker `w` take them.
async fn deliver(broker: &dyn Broker, types: &[AgentType], each: u8) -> Vec<Delivery> {
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
async fn blocked(server: &Server, readers: usize) {
    eventually("readers wait", async || {
        let info: String =
            cmd("INFO").arg("clients").query_async(&mut server.raw().await).await.unwrap();
        info.contains(&format!("blocked_clients:{readers}\r"))
    })
    .await;
}

/// Everything the server holds, for comparing.
async fn dump(server: &Server) -> Vec<(String, Vec<u8>)> {
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

//! The server: fit or not, short of memory, emptied, with other data than before.

use std::collections::BTreeSet;

use goalmill_broker::{Activity, Broker, BrokerError, Committed};
use goalmill_common::agent::WorkerBeat;
use goalmill_common::id::AgentType;
use goalmill_common::keys::{self, Keys};
use redis::{AsyncCommands, Value, cmd};

use crate::seed::{SHARD, commit, dump, own, plan};
use crate::server::{Server, install};

#[tokio::test]
async fn without_memory_plans_go_on_and_submissions_are_refused() {
    let server = Server::start(&["--maxmemory", "0"]).await;
    let broker = server.open().await;
    own(&*broker, "t1").await;
    let mut raw = server.raw().await;
    let _: Value = cmd("CONFIG").arg("SET").arg("maxmemory").arg("1mb").query_async(&mut raw).await.unwrap();

    let submission = vec![("data".to_owned(), b"{}".to_vec())];
    assert!(matches!(broker.submit(&submission).await, Err(BrokerError::OutOfMemory)));
    assert!(matches!(broker.put_blob("b", b"x", 1_000).await, Err(BrokerError::OutOfMemory)));
    let begin = commit("t1", 1, &[plan(1, 0, 1, Activity::Begins)]);
    assert_eq!(broker.commit(&begin).await.unwrap(), Committed::Applied);
    broker.send(SHARD, &submission).await.unwrap();
    assert!(broker.renew(SHARD, "t1").await.unwrap());
    let health = broker.check_health().await.unwrap();
    assert!(health.memory_used > 0.8 && !health.warnings.is_empty(), "{health:?}");
    let other = goalmill_broker::redis::connect(&server.settings()).await.unwrap();
    other.open(&install()).await.unwrap();
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

/// The library of the build of 28 November 2026, which all builds shared.
const FORMER: &str = include_str!("functions_version_1.lua");

async fn load(server: &Server, library: &str) {
    let mut load = cmd("FUNCTION");
    load.arg("LOAD").arg("REPLACE").arg(library);
    let _: Value = load.query_async(&mut server.raw().await).await.unwrap();
}

/// The libraries that a server has, as text.
async fn libraries(server: &Server, pattern: &str) -> String {
    let mut list = cmd("FUNCTION");
    list.arg("LIST").arg("LIBRARYNAME").arg(pattern).arg("WITHCODE");
    let list: Value = list.query_async(&mut server.raw().await).await.unwrap();
    format!("{list:?}")
}

#[tokio::test]
async fn a_library_for_others_of_an_older_version_is_replaced_and_a_later_one_stays() {
    const LIBRARY: &str = include_str!("../../src/redis/functions.lua");
    let server = Server::start(&[]).await;
    for (version, stays) in [("0", false), ("1000", true)] {
        let text = LIBRARY.replacen("-- version 1\n", &format!("-- version {version}\n"), 1);
        assert_ne!(text, LIBRARY);
        load(&server, &text).await;
        server.open().await;
        let found = libraries(&server, "goalmill").await;
        assert_eq!(found.contains(&format!("-- version {version}")), stays, "version {version}");
    }
}

#[tokio::test]
async fn builds_with_other_functions_work_on_one_server() {
    let server = Server::start(&[]).await;
    load(&server, FORMER).await;
    let broker = server.open().await;
    own(&*broker, "t1").await;
    broker.probe(4).await.unwrap();
    assert_eq!(broker.commit(&commit("t1", 1, &[plan(1, 0, 1, Activity::Begins)])).await.unwrap(), Committed::Applied);
    assert!(libraries(&server, "goalmill").await.contains("-- A process replaces a library"), "the former one stays");
    let mut renew = cmd("FCALL");
    renew.arg("goalmill_renew").arg(1).arg(Keys::default().owner(SHARD)).arg("t1");
    assert_eq!(renew.query_async::<i64>(&mut server.raw().await).await.unwrap(), 1, "a former process works");

    // Another build, whose functions have the former names and answer something else.
    let names = ["commit", "probe", "renew"];
    let define =
        |name| format!("redis.register_function('goalmill_{name}', function() return 'TYPE 1 stream hash' end)\n");
    load(&server, &format!("#!lua name=goalmill\n-- version 1\n{}", names.map(define).concat())).await;
    broker.probe(4).await.unwrap();
    assert!(broker.renew(SHARD, "t1").await.unwrap());
    assert_eq!(broker.commit(&commit("t1", 2, &[])).await.unwrap(), Committed::Applied);
    // A former process starts again.
    load(&server, FORMER).await;
    assert_eq!(broker.commit(&commit("t1", 3, &[])).await.unwrap(), Committed::Applied);
}

/// What a build says in a heartbeat, and whether it may join, beside which others.
async fn beat(broker: &dyn Broker, id: &str, format: u32) -> (Vec<String>, Vec<(String, u32)>) {
    let live = broker.record_scheduler_heartbeat(id, format, 60_000).await.unwrap();
    (live.sharing, live.others)
}

#[tokio::test]
async fn schedulers_of_another_log_format_wait_until_those_before_them_have_ended() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let broker = &*broker;
    let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let of = |names: &[&str], format| names.iter().map(|&name| (name.to_owned(), format)).collect::<Vec<_>>();
    assert_eq!(beat(broker, "one", 3).await, (named(&["one"]), of(&[], 3)));
    for waiting in [2, 4] {
        assert_eq!(beat(broker, "two", waiting).await, (named(&[]), of(&["one"], 3)), "format {waiting}");
    }
    assert_eq!(beat(broker, "three", 3).await, (named(&["one", "three"]), of(&[], 3)), "those that wait are not seen");
    broker.deregister_scheduler("one").await.unwrap();
    // A process of another build has got the name of one that ended without a word.
    assert_eq!(beat(broker, "three", 4).await, (named(&["three"]), of(&[], 4)));
    assert_eq!(beat(broker, "one", 3).await, (named(&[]), of(&["three"], 4)));
    broker.deregister_scheduler("three").await.unwrap();
    assert_eq!(beat(broker, "one", 3).await, (named(&["one"]), of(&[], 3)));
}

#[tokio::test]
async fn a_scheduler_waits_for_those_of_the_former_build_and_stays_beside_them() {
    let server = Server::start(&[]).await;
    load(&server, FORMER).await;
    let broker = server.open().await;
    let former = async || {
        let mut beat = cmd("FCALL");
        beat.arg("goalmill_record_scheduler_heartbeat").arg(1).arg(Keys::default().schedulers());
        beat.arg("former").arg(60_000).arg(86_400_000);
        beat.query_async::<BTreeSet<String>>(&mut server.raw().await).await.unwrap()
    };
    let beside = vec![("former".to_owned(), 0)];
    assert_eq!(former().await, ["former".to_owned()].into());
    assert_eq!(beat(&*broker, "new", 1).await, (Vec::new(), beside.clone()));
    assert_eq!(former().await, ["former".to_owned()].into(), "it keeps the shards that it would leave to the new one");
    broker.deregister_scheduler("former").await.unwrap();
    assert_eq!(beat(&*broker, "new", 1).await, (vec!["new".to_owned()], Vec::new()));
    assert_eq!(former().await, ["former", "new"].map(str::to_owned).into());
    assert_eq!(beat(&*broker, "new", 1).await, (vec!["new".to_owned()], beside));
}

#[tokio::test]
async fn others_find_the_functions_of_the_protocol_and_no_more() {
    let server = Server::start(&[]).await;
    server.open().await;
    let found = libraries(&server, "goalmill").await;
    for (name, is_there) in [("goalmill_extend", true), ("goalmill_send", true), ("goalmill_commit", false)] {
        assert_eq!(found.contains(&format!("\"{name}\"")), is_there, "{name}: {found}");
    }
    server.function("goalmill_commit").await;
}

#[tokio::test]
async fn another_installation_at_the_same_address_is_lost_data() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let queue = AgentType::from("fetch");
    broker.open_queue(&queue).await.unwrap();
    let mut reader = broker.reader().await.unwrap();
    let _: Value = cmd("FLUSHALL").query_async(&mut server.raw().await).await.unwrap();
    assert!(matches!(broker.check_health().await, Err(BrokerError::DataLost(_))));
    assert!(matches!(broker.open(&install()).await, Err(BrokerError::DataLost(_))));
    assert!(matches!(reader.pull(&"w".into(), &[queue], 1, 10).await, Err(BrokerError::DataLost(_))));
    assert!(matches!(reader.submissions("s", 1, 10).await, Err(BrokerError::DataLost(_))));
    let _: () = server.raw().await.hset(Keys::default().meta(), "instance", "other").await.unwrap();
    assert!(matches!(broker.check_health().await, Err(BrokerError::DataLost(_))));
    assert!(dump(&server).await.iter().all(|(key, _)| *key == Keys::default().meta()), "nothing is made anew silently");
}

#[tokio::test]
async fn a_missing_group_is_made_from_the_start_of_its_stream() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let mut raw = server.raw().await;
    let _: Value =
        cmd("XADD").arg("goalmill:steps:fetch").arg("*").arg("data").arg("x").query_async(&mut raw).await.unwrap();
    let mut reader = broker.reader().await.unwrap();
    let types = ["think", "fetch", "draw"].map(AgentType::from);
    assert_eq!(reader.pull(&"w".into(), &types, 5, 10).await.unwrap().len(), 1);
    assert_eq!(reader.pull(&"w".into(), &types, 5, 10).await.unwrap(), []);
    assert_eq!(reader.submissions("s", 5, 10).await.unwrap(), []);
    let _: Value = cmd("XGROUP")
        .arg("DESTROY")
        .arg(Keys::default().goals())
        .arg(keys::SCHEDULERS)
        .query_async(&mut raw)
        .await
        .unwrap();
    broker.submit(&vec![("data".to_owned(), b"{}".to_vec())]).await.unwrap();
    assert_eq!(reader.submissions("s", 5, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_evicting_server_is_refused_and_a_socket_file_works() {
    let server = Server::start(&["--maxmemory-policy", "allkeys-lru"]).await;
    let refused = goalmill_broker::redis::connect(&server.settings()).await.unwrap().open(&install()).await;
    assert!(matches!(refused, Err(BrokerError::Unsafe(_))), "{refused:?}");
    let mut settings = server.socket_settings();
    settings.allow_unsafe = true;
    let broker = goalmill_broker::redis::connect(&settings).await.unwrap();
    broker.open(&install()).await.unwrap();
    let health = broker.check_health().await.unwrap();
    let known = ["redis 7.", "redis 8.", "valkey 9."];
    assert!(known.iter().any(|known| health.version.starts_with(known)), "{health:?}");
    assert!(health.warnings[0].contains("allkeys-lru"), "{health:?}");
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
        heartbeat_ms: None,
    };
    broker.record_worker_heartbeat(&beat).await.unwrap();
    let time_ms = broker.check_health().await.unwrap().time_ms;
    let mut raw = server.raw().await;
    let _: () = raw.hset(Keys::default().worker_beats(), "w2", "not JSON").await.unwrap();
    let _: () = raw.zadd(Keys::default().workers(), "w2", time_ms).await.unwrap();
    let workers = broker.workers(60_000).await.unwrap();
    assert_eq!(workers.len(), 1, "what cannot be read is passed over");
    assert!(workers[0].seen_ms.abs_diff(time_ms) < 60_000);
    assert_eq!(WorkerBeat { seen_ms: 0, ..workers[0].clone() }, beat);
    broker.deregister_worker(&"w1".into()).await.unwrap();
    assert!(broker.workers(60_000).await.unwrap().is_empty());

    assert_eq!(broker.record_scheduler_heartbeat("s2", 1, 60_000).await.unwrap().sharing, ["s2"]);
    assert_eq!(broker.record_scheduler_heartbeat("s1", 1, 60_000).await.unwrap().sharing, ["s1", "s2"]);
    broker.deregister_scheduler("s2").await.unwrap();
    assert_eq!(broker.record_scheduler_heartbeat("s1", 1, 60_000).await.unwrap().sharing, ["s1"]);
}

#[tokio::test]
async fn a_node_of_a_cluster_is_refused_before_anything_is_written() {
    let server = Server::start(&["--cluster-enabled", "yes", "--appendonly", "no"]).await;
    let broker = goalmill_broker::redis::connect(&server.settings()).await.unwrap();
    let refused = broker.open(&install()).await;
    assert!(matches!(&refused, Err(BrokerError::Unsupported(why)) if why.contains("Redis Cluster")), "{refused:?}");
    let mut line = server.raw().await;
    let libraries: Vec<redis::Value> = redis::cmd("FUNCTION").arg("LIST").query_async(&mut line).await.unwrap();
    assert_eq!(libraries, []);
}

//! A server that answers and takes no writes: the probe names the reason, which is not that of a silent server.

use std::sync::Arc;

use goalmill_broker::{Broker, BrokerError, RedisRefusal};
use goalmill_common::config::RedisSettings;
use goalmill_common::keys::Keys;
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, cmd};

use crate::seed::SHARD;
use crate::server::{Server, eventually, install};

async fn set(raw: &mut MultiplexedConnection, name: &str, value: &str) {
    cmd("CONFIG").arg("SET").arg(name).arg(value).query_async::<()>(raw).await.unwrap();
}

/// Asserts that the store is unavailable, because of `code`, to the probe and to a look at its health.
async fn assert_unavailable(broker: &Arc<dyn Broker>, code: &str) {
    let probed = broker.probe(4).await;
    assert!(refuses(&probed, code), "{code}: {probed:?}");
}

/// Whether the server answered with this code, and the error names the reason for it.
fn refuses<T>(asked: &Result<T, BrokerError>, code: &str) -> bool {
    let Err(error @ BrokerError::Refused { reason, text }) = asked else { return false };
    let named = [RedisRefusal::of_code(code), RedisRefusal::Permission].contains(reason);
    text.contains(code) && named && error.is_temporary() && error.is_answer() && error.reason() == Some(reason.as_str())
}

#[tokio::test]
async fn a_server_without_the_replicas_that_it_needs_takes_no_commits() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    broker.probe(4).await.unwrap();
    set(&mut server.raw().await, "min-replicas-to-write", "1").await;
    assert_unavailable(&broker, "NOREPLICAS").await;
    broker.check_health().await.expect("reads go on");
}

#[tokio::test]
async fn a_server_whose_disk_fails_takes_no_commits() {
    let server = Server::start(&["--save", "3600 1", "--dbfilename", "blocked.rdb"]).await;
    let broker = server.open().await;
    let blocked = server.dir().join("blocked.rdb");
    std::fs::create_dir(&blocked).unwrap();
    std::fs::write(blocked.join("file"), "a directory with a file cannot be replaced").unwrap();
    let mut raw = server.raw().await;
    cmd("BGSAVE").query_async::<()>(&mut raw).await.unwrap();
    eventually("the snapshot fails", async || {
        let mut raw = server.raw().await;
        let info: String = cmd("INFO").arg("persistence").query_async(&mut raw).await.unwrap();
        info.contains("rdb_last_bgsave_status:err")
    })
    .await;
    assert_unavailable(&broker, "MISCONF").await;
    let checked = broker.check_health().await;
    assert!(refuses(&checked, "MISCONF"), "{checked:?}");
}

#[tokio::test]
async fn a_server_that_is_busy_with_a_script_takes_no_commits() {
    let server = Server::start(&["--busy-reply-threshold", "1"]).await;
    let broker = server.open().await;
    broker.probe(4).await.unwrap();
    let mut raw = server.raw().await;
    let script = tokio::spawn(async move {
        cmd("EVAL").arg("while true do end").arg(0).query_async::<()>(&mut raw).await.unwrap_err()
    });
    eventually("the server is busy", async || refuses(&broker.check_health().await, "BUSY")).await;
    assert_unavailable(&broker, "BUSY").await;
    eventually("the script is killed", async || {
        // A new connection may be greeted with BUSY.
        let Ok(mut raw) = server.try_raw().await else { return false };
        cmd("SCRIPT").arg("KILL").query_async::<()>(&mut raw).await.is_ok()
    })
    .await;
    script.await.unwrap();
    eventually("the server is back", async || broker.probe(4).await.is_ok()).await;
}

#[tokio::test]
async fn a_server_that_wants_a_password_is_unavailable_without_one() {
    let server = Server::start(&[]).await;
    set(&mut server.raw().await, "requirepass", "secret").await;
    let broker = goalmill_broker::redis::connect(&server.settings()).await.unwrap();
    assert_unavailable(&broker, "NOAUTH").await;
    let checked = broker.check_health().await;
    assert!(refuses(&checked, "NOAUTH"), "{checked:?}");
    let url = format!("redis://:wrong@127.0.0.1:{}", server.port());
    let wrong = goalmill_broker::redis::connect(&RedisSettings { url, ..server.settings() }).await.unwrap();
    let checked = wrong.check_health().await;
    let reason = checked.as_ref().err().and_then(BrokerError::reason);
    assert_eq!(reason, Some("password"), "{checked:?}");
}

#[tokio::test]
async fn a_replica_takes_no_commits() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let mut raw = server.raw().await;
    // At that port is no primary: it keeps what it has.
    cmd("REPLICAOF").arg("127.0.0.1").arg(1).query_async::<()>(&mut raw).await.unwrap();
    assert_unavailable(&broker, "READONLY").await;
}

#[tokio::test]
async fn a_server_that_reads_its_data_takes_no_commits() {
    let server = Server::start(&["--enable-debug-command", "yes"]).await;
    let broker = server.open().await;
    let mut raw = server.raw().await;
    for n in 0..100 {
        raw.set::<_, _, ()>(format!("filler:{n}"), "x".repeat(2_000)).await.unwrap();
    }
    set(&mut raw, "loading-process-events-interval-bytes", "1024").await;
    // Microseconds for each key.
    set(&mut raw, "key-load-delay", "100000").await;
    let loading = tokio::spawn(async move { cmd("DEBUG").arg("RELOAD").query_async::<()>(&mut raw).await });
    eventually("the server is loading", async || refuses(&broker.probe(4).await, "LOADING")).await;
    loading.abort();
}

#[tokio::test]
async fn a_user_that_may_not_write_cannot_commit() {
    let server = Server::start(&[]).await;
    server.open().await;
    let mut raw = server.raw().await;
    for (rules, command) in [("+@all -xadd", "XADD"), ("+@all -fcall", "fcall"), ("+@all -set", "SET")] {
        let mut user = cmd("ACL");
        user.arg("SETUSER").arg("ann").arg(&["reset", "on", ">pw", "~goalmill:*", "&goalmill:*"]);
        user.arg(rules.split(' ').collect::<Vec<_>>()).query_async::<()>(&mut raw).await.unwrap();
        let url = format!("redis://ann:pw@127.0.0.1:{}", server.port());
        let limited = goalmill_broker::redis::connect(&RedisSettings { url, ..server.settings() }).await.unwrap();
        assert_unavailable(&limited, "NOPERM").await;
        assert_unavailable(&limited, command).await;
    }
}

#[tokio::test]
async fn the_probe_names_every_key_of_a_wrong_type() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    let mut raw = server.raw().await;
    for key in [Keys::default().active(SHARD), Keys::default().queues()] {
        cmd("LPUSH").arg(&key).arg("x").query_async::<()>(&mut raw).await.unwrap();
    }
    let Err(BrokerError::WrongType(found)) = broker.probe(install().shards).await else { panic!("it is refused") };
    let found: Vec<_> = found.iter().map(|one| (one.key.as_str(), one.found.as_str(), one.wanted.as_str())).collect();
    assert_eq!(
        found,
        [(Keys::default().active(SHARD).as_str(), "list", "set"), (&Keys::default().queues(), "list", "set")]
    );
}

#[tokio::test]
async fn a_queue_of_a_wrong_type_is_named_and_the_others_are_counted() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    broker.open_queue(&"good".into()).await.unwrap();
    broker.open_queue(&"bad".into()).await.unwrap();
    let mut raw = server.raw().await;
    let key = Keys::default().steps(&"bad".into());
    cmd("SET").arg(&key).arg("x").query_async::<()>(&mut raw).await.unwrap();
    let queues = broker.queues().await.unwrap();
    let wrong: Vec<_> = queues.iter().map(|queue| queue.wrong_type.as_ref().map(|found| found.key.clone())).collect();
    assert_eq!(wrong, [Some(key.clone()), None]);
    let opened = broker.open_queue(&"bad".into()).await;
    assert!(matches!(&opened, Err(BrokerError::WrongType(found)) if found[0].key == key), "{opened:?}");
    raw.del::<_, ()>(&key).await.unwrap();
    broker.open_queue(&"bad".into()).await.unwrap();
}

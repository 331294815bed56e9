//! A service that a Sentinel watches: its primary is found, and found again after a failover.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use goalmill_broker::{Activity, Broadcast, BrokerError, Committed, InboxCursor};
use goalmill_common::config::RedisSettings;
use goalmill_common::id::AttemptToken;
use goalmill_common::keys::Keys;
use goalmill_common::wire;
use redis::Value;

use crate::seed::{SHARD, blocked, commit, own, plan};
use crate::server::{DEADLINE, Server, eventually, install, server_program};

/// A `redis-server` as Sentinel, which watches one service, `plans`; gone with its owner.
struct Sentinel {
    child: Child,
    port: u16,
    /// Its own file, which it rewrites.
    _dir: tempfile::TempDir,
}

impl Sentinel {
    /// Starts one that takes silence of a second for death, and waits until it knows the replica.
    async fn over(primary: &Server) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sentinel.conf");
        let watched = primary.port();
        std::fs::write(
            &file,
            format!(
                "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor plans 127.0.0.1 {watched} 1\n\
                 sentinel down-after-milliseconds plans 1000\nsentinel failover-timeout plans 6000\n",
                dir.path().display()
            ),
        )
        .unwrap();
        let mut command = Command::new(server_program());
        command.arg(&file).arg("--sentinel").stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("`redis-server` is installed");
        let sentinel = Self { child, port, _dir: dir };
        eventually("the sentinel knows the replica", async || sentinel.knows_a_replica().await).await;
        sentinel
    }

    async fn ask(&self, words: &[&str]) -> redis::RedisResult<Value> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).unwrap();
        let mut line = client.get_multiplexed_async_connection().await?;
        redis::cmd("SENTINEL").arg(words).query_async(&mut line).await
    }

    async fn knows_a_replica(&self) -> bool {
        let replicas = self.ask(&["REPLICAS", "plans"]).await;
        replicas.is_ok_and(|value| holds(&value, b"ok"))
    }

    fn settings(&self, like: &Server, service: &str) -> RedisSettings {
        // The first one is not there.
        let url = format!("redis+sentinel://127.0.0.1:1,127.0.0.1:{}/{service}", self.port);
        RedisSettings { url, ..like.settings() }
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Whether a reply has this text anywhere: `master-link-status` is the only field that can be `ok`.
fn holds(value: &Value, text: &[u8]) -> bool {
    if let Value::Array(items) = value {
        return items.iter().any(|item| holds(item, text));
    }
    matches!(value, Value::BulkString(bytes) if bytes == text)
}

async fn pair() -> (Server, Server) {
    let primary = Server::start(&[]).await;
    let replica = Server::start(&["--replicaof", "127.0.0.1", &primary.port().to_string()]).await;
    (primary, replica)
}

/// Whether the replica has all that the primary has.
async fn is_level(primary: &Server, replica: &Server) -> bool {
    let offset = async |server: &Server, field: &str| {
        let mut line = server.raw().await;
        let info: String = redis::cmd("INFO").arg("replication").query_async(&mut line).await.unwrap();
        info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')?.trim().parse::<u64>().ok())
    };
    let (led, followed) = (offset(primary, "master_repl_offset").await, offset(replica, "slave_repl_offset").await);
    led.is_some() && led == followed
}

#[tokio::test]
async fn after_the_death_of_the_primary_its_replica_is_found() {
    let (mut primary, replica) = pair().await;
    let sentinel = Sentinel::over(&primary).await;
    let broker = goalmill_broker::redis::connect(&sentinel.settings(&primary, "plans")).await.unwrap();
    broker.open(&install()).await.unwrap();
    own(&*broker, "t1").await;
    assert_eq!(broker.commit(&commit("t1", 1, &[])).await.unwrap(), Committed::Applied);
    let mut reader = broker.reader().await.unwrap();
    let waiting = tokio::spawn(async move {
        let result = reader.inbox(SHARD, &InboxCursor::start(), 10, 60_000).await;
        (reader, result)
    });
    blocked(&primary, 1).await;
    eventually("the replica has caught up", async || is_level(&primary, &replica).await).await;
    primary.kill();
    let (mut reader, result) = waiting.await.unwrap();
    assert!(matches!(result, Err(BrokerError::Unavailable(_))), "{result:?}");
    let lost = broker.commit(&commit("t1", 2, &[])).await;
    assert!(matches!(lost, Err(BrokerError::Unavailable(_))), "{lost:?}");

    eventually("the replica is promoted", async || broker.check_health().await.is_ok()).await;
    assert_eq!(broker.commit(&commit("t1", 1, &[])).await.unwrap(), Committed::Duplicate);
    assert_eq!(broker.commit(&commit("t1", 2, &[])).await.unwrap(), Committed::Applied);
    broker.send(SHARD, &wire::Inbox::Reports(Vec::new()).fields()).await.unwrap();
    assert_eq!(reader.inbox(SHARD, &InboxCursor::start(), 10, 1_000).await.unwrap().len(), 1);
    let mut ears = broker.reader().await.unwrap();
    assert_eq!(ears.messages(0).await.unwrap(), []);
    let token = AttemptToken::from("t");
    broker.cancel(std::slice::from_ref(&token)).await.unwrap();
    assert_eq!(ears.messages(60_000).await.unwrap(), [Broadcast::Cancel(vec![token])]);
}

#[tokio::test]
async fn a_primary_that_is_demoted_is_left() {
    let (primary, replica) = pair().await;
    let sentinel = Sentinel::over(&primary).await;
    let broker = goalmill_broker::redis::connect(&sentinel.settings(&primary, "plans")).await.unwrap();
    broker.open(&install()).await.unwrap();
    own(&*broker, "t1").await;
    assert_eq!(broker.commit(&commit("t1", 1, &[])).await.unwrap(), Committed::Applied);
    eventually("the replica has caught up", async || is_level(&primary, &replica).await).await;
    eventually("the failover begins", async || sentinel.ask(&["FAILOVER", "plans"]).await.is_ok()).await;
    // Whoever changes its role cuts its clients.
    let is = async |server: &Server, role: &[u8]| {
        let Ok(mut line) = server.try_raw().await else { return false };
        redis::cmd("ROLE").query_async(&mut line).await.is_ok_and(|answer| holds(&answer, role))
    };
    eventually("the replica is promoted", async || is(&replica, b"master").await).await;
    // Until then it takes writes, and loses them.
    eventually("the primary is demoted", async || is(&primary, b"slave").await).await;
    // Both servers live: the demoted one would answer reads, and refuses writes.
    eventually("writes go to the new primary", async || {
        matches!(broker.commit(&commit("t1", 2, &[])).await, Ok(Committed::Applied | Committed::Duplicate))
    })
    .await;
    eventually("the pool has left the old one", async || broker.renew(SHARD, "t1").await.is_ok_and(|ours| ours)).await;
    let mut line = replica.raw().await;
    let commits: String =
        redis::cmd("HGET").arg(Keys::default().owner(SHARD)).arg("commit").query_async(&mut line).await.unwrap();
    assert_eq!(commits, "2");
}

#[tokio::test]
async fn a_service_that_no_sentinel_knows_is_named() {
    let (primary, _replica) = pair().await;
    let sentinel = Sentinel::over(&primary).await;
    let broker = goalmill_broker::redis::connect(&sentinel.settings(&primary, "jobs")).await.unwrap();
    let refused = broker.open(&install()).await.expect_err("there is no such service").to_string();
    assert!(refused.contains("`jobs`"), "{refused}");
    let url = "redis+sentinel://127.0.0.1:1/plans".to_owned();
    let silent = RedisSettings { url, ..primary.settings() };
    let broker = goalmill_broker::redis::connect(&silent).await.unwrap();
    let refused = broker.open(&install()).await.expect_err("nobody answers").to_string();
    assert!(refused.contains("sentinel `127.0.0.1:1`"), "{refused}");
}

#[tokio::test]
async fn a_former_primary_is_left_before_it_is_demoted() {
    // Sentinel cannot demote it, as it does not for ten seconds in any failover.
    let forbidden = ["--rename-command", "REPLICAOF", "", "--rename-command", "SLAVEOF", ""];
    let primary = Server::start(&forbidden).await;
    let replica = Server::start(&["--replicaof", "127.0.0.1", &primary.port().to_string()]).await;
    let sentinel = Sentinel::over(&primary).await;
    let broker = goalmill_broker::redis::connect(&sentinel.settings(&primary, "plans")).await.unwrap();
    broker.open(&install()).await.unwrap();
    own(&*broker, "t1").await;
    assert_eq!(broker.commit(&commit("t1", 1, &[])).await.unwrap(), Committed::Applied);
    let (mut reader, mut ears) = (broker.reader().await.unwrap(), broker.reader().await.unwrap());
    let mut idle = broker.reader().await.unwrap();
    assert_eq!((ears.messages(0).await.unwrap(), idle.messages(0).await.unwrap()), (vec![], vec![]));
    broker.announce_presence("s1").await.unwrap();
    assert_eq!(broker.are_present(&["s1".into()]).await.unwrap(), [true]);
    let reading = tokio::spawn(async move { reader.inbox(SHARD, &InboxCursor::start(), 10, 60_000_000).await });
    let hearing = tokio::spawn(async move { ears.messages(60_000_000).await });
    blocked(&primary, 1).await;
    eventually("the replica has caught up", async || is_level(&primary, &replica).await).await;
    eventually("the failover begins", async || sentinel.ask(&["FAILOVER", "plans"]).await.is_ok()).await;

    let read = tokio::time::timeout(DEADLINE, reading).await.expect("the wait ends with the switch").unwrap();
    assert!(matches!(read, Err(BrokerError::Unavailable(_))), "{read:?}");
    let heard = tokio::time::timeout(DEADLINE, hearing).await.expect("the wait ends with the switch").unwrap();
    assert!(matches!(heard, Err(BrokerError::Unavailable(_))), "{heard:?}");
    eventually("commits go to the new primary", async || {
        matches!(broker.commit(&commit("t1", 2, &[])).await, Ok(Committed::Applied | Committed::Duplicate))
    })
    .await;
    let commits = async |server: &Server| {
        let mut line = server.raw().await;
        let owner = Keys::default().owner(SHARD);
        redis::cmd("HGET").arg(owner).arg("commit").query_async::<String>(&mut line).await.unwrap()
    };
    assert_eq!((commits(&replica).await.as_str(), commits(&primary).await.as_str()), ("2", "1"));
    let unheard = idle.messages(0).await;
    assert!(matches!(unheard, Err(BrokerError::Unavailable(_))), "{unheard:?}");
    // The former primary still has the subscription, and nothing ends it.
    assert_eq!(broker.are_present(&["s1".into()]).await.unwrap(), [false]);
    broker.announce_presence("s1").await.unwrap();
    assert_eq!(broker.are_present(&["s1".into()]).await.unwrap(), [true]);
}

#[tokio::test]
async fn a_plan_is_not_accepted_before_a_replica_has_it_where_writes_need_one() {
    let options = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "3600"];
    let primary = Server::start(&options).await;
    let replica = Server::start(&["--replicaof", "127.0.0.1", &primary.port().to_string()]).await;
    let broker = goalmill_broker::redis::connect(&primary.settings()).await.unwrap();
    eventually("the replica is there", async || broker.open(&install()).await.is_ok()).await;
    own(&*broker, "t1").await;
    broker.check_health().await.unwrap();
    assert_eq!(broker.commit(&begin(1)).await.unwrap(), Committed::Applied);
    // The primary goes on counting a replica that does not answer: only its own word is proof.
    replica.hold();
    let refused = broker.commit(&begin(2)).await;
    assert_eq!(refused.as_ref().err().and_then(BrokerError::reason), Some("no_replicas"), "{refused:?}");
    replica.go_on();
    eventually("the replica confirms it", async || matches!(broker.commit(&begin(2)).await, Ok(Committed::Duplicate)))
        .await;
}

fn begin(number: u64) -> goalmill_broker::Commit {
    commit("t1", number, &[plan(number, 0, number, Activity::Begins)])
}

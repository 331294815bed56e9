//! `goalmill doctor` on set-ups that are broken on purpose: each is found, with its fix.

use std::process::Output;

use anyhow::{Context, Result, ensure};
use goalmill_tests::dev::program;
use goalmill_tests::installation::{Installation, one_step_plan as plan};
use goalmill_tests::redis_server::{self, Fsync, Options, RedisServer};
use goalmill_tests::wait::{SOON, until};
use redis::cmd;
use serde_json::{Value, json};

/// Nothing listens there.
const NOBODY: &str = "127.0.0.1:1";

/// What `doctor` says: the checks, and whether it ended well.
async fn doctor(redis: &str, server: &str) -> Result<(Vec<Value>, bool)> {
    let words: Vec<String> =
        ["doctor", "--redis", redis, "--server", server, "-o", "json"].iter().map(|word| (*word).to_owned()).collect();
    let ran = tokio::task::spawn_blocking(move || program().args(words).output()).await??;
    let Output { status, stdout, stderr } = ran;
    let said: Value = serde_json::from_slice(&stdout)
        .with_context(|| format!("{} {}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))?;
    Ok((said["checks"].as_array().context("there are checks")?.clone(), status.success()))
}

/// A check that is no `ok`, says `detail`, and whose fix says `fix`.
fn found(checks: &[Value], detail: &str, fix: &str) -> Result<()> {
    let says = |check: &&Value, field: &str, text: &str| check[field].as_str().is_some_and(|said| said.contains(text));
    let found = checks
        .iter()
        .any(|check| check["level"] != "ok" && says(&check, "detail", detail) && says(&check, "hint", fix));
    ensure!(found, "`{detail}` with the fix `{fix}` is not among {checks:#?}");
    Ok(())
}

async fn finds(redis: &str, server: &str, detail: &str, fix: &str) -> Result<()> {
    found(&doctor(redis, server).await?.0, detail, fix)
}

async fn send(server: &RedisServer, line: &str) -> Result<()> {
    redis_server::send(&mut server.connection().await?, line).await.map(drop).with_context(|| line.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_installation_has_no_problem() -> Result<()> {
    let server = RedisServer::start().await?;
    let it = Installation::over(&server).await?;
    until(SOON, async || {
        !it.get("/v1/workers").await.expect("it answers")["items"].as_array().expect("a list").is_empty()
    })
    .await;
    let (checks, ended_well) = doctor(&server.url(), &it.url("")).await?;
    assert!(checks.iter().all(|check| check["level"] == "ok"), "{checks:#?}");
    assert!(ended_well);
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_redis_that_lose_plans_are_found() -> Result<()> {
    let evicts = RedisServer::start_with(Options { eviction: "allkeys-lru", ..Options::default() }).await?;
    finds(&evicts.url(), NOBODY, "allkeys-lru", "maxmemory-policy noeviction").await?;
    let forgets = RedisServer::start_with(Options { fsync: Fsync::Off, ..Options::default() }).await?;
    finds(&forgets.url(), NOBODY, "the append-only file is off", "set `appendonly yes`").await?;
    let small = RedisServer::start_with(Options { memory_bytes_max: 1_000_000, ..Options::default() }).await?;
    finds(&small.url(), NOBODY, "of `maxmemory` is in use", "raise `maxmemory`").await
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_and_users_that_cannot_work_are_found() -> Result<()> {
    finds(&format!("redis://{NOBODY}"), NOBODY, "redis cannot be reached", "check the address").await?;
    let server = RedisServer::start().await?;
    finds(&server.url(), NOBODY, "the scheduler at http://127.0.0.1:1 cannot be reached", "goalmill dev").await?;
    let wrong = format!("redis://nobody:wrong@127.0.0.1:{}", server.port());
    finds(&wrong, NOBODY, "redis refuses", "put user and password into `redis.url`").await?;
    send(&server, "ACL SETUSER narrow on >secret ~goalmill:* &* +@all -info").await?;
    let narrow = format!("redis://narrow:secret@127.0.0.1:{}", server.port());
    finds(&narrow, NOBODY, "NOPERM", "deploy/redis/users.acl").await?;
    send(&server, &format!("REPLICAOF 127.0.0.1 {}", NOBODY.rsplit(':').next().unwrap_or_default())).await?;
    finds(&server.url(), NOBODY, "is a replica and takes no writes", "put the primary into `redis.url`").await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_still_or_is_not_understood_is_found() -> Result<()> {
    let server = RedisServer::start().await?;
    let it = Installation::over(&server).await?;
    it.submit(&plan("unserved")).await?;
    it.submit(&plan("held")).await?;
    until(SOON, async || {
        let queues = it.get("/v1/queues").await.expect("it answers");
        queues["items"].as_array().expect("a list").iter().filter(|queue| queue["waiting"] == 1).count() == 2
    })
    .await;
    it.post("/v1/queues/held:pause", &json!({})).await?;
    let beat = json!({"worker": "early", "agents": ["echo"], "slots": 1, "busy": 0, "version": "9.9.9", "host": "moon",
        "started_ms": 4_000_000_000_000_u64})
    .to_string();
    let time: (u64, u64) = cmd("TIME").query_async(&mut server.connection().await?).await?;
    send(&server, &format!("HSET goalmill:workers:beats early {beat}")).await?;
    send(&server, &format!("ZADD goalmill:workers {} early", time.0 * 1_000)).await?;
    send(&server, "HSET goalmill:agents crooked {}").await?;
    // Redis cannot count the entries any more once one that nobody has taken was deleted before others.
    send(&server, "SADD goalmill:queues uncounted").await?;
    send(&server, "XGROUP CREATE goalmill:steps:uncounted workers $ MKSTREAM").await?;
    send(&server, "XADD goalmill:steps:uncounted 1-1 v 1").await?;
    send(&server, "XADD goalmill:steps:uncounted 1-2 v 1").await?;
    send(&server, "XDEL goalmill:steps:uncounted 1-2").await?;
    send(&server, "XADD goalmill:steps:uncounted 1-3 v 1").await?;
    until(SOON, async || {
        let ready = it.get("/readyz").await.expect("it answers");
        ready["warnings"].as_array().is_some_and(|warnings| !warnings.is_empty())
    })
    .await;
    let (checks, ended_well) = doctor(&server.url(), &it.url("")).await?;
    assert!(!ended_well);
    found(&checks, "unserved has 1 task waiting and no worker", "goalmill worker --agents unserved")?;
    found(&checks, "held is paused", "goalmill queue resume held")?;
    found(&checks, "the clock of worker early on moon is at least", "let moon follow a time server")?;
    found(&checks, "early is of version 9.9.9", "update the older one")?;
    found(&checks, "the card of agent type `crooked` is refused", "")?;
    found(&checks, "`goalmill:steps:uncounted`", "/v1/scaling/AGENT_TYPE")?;
    send(&server, "DEL goalmill:steps:unserved").await?;
    send(&server, "SET goalmill:steps:unserved x").await?;
    // Refused with `try again`: its queue is found out with it.
    it.post("/v1/plans", &plan("unserved")).await?;
    until(SOON, async || {
        let queues = it.get("/v1/queues").await.expect("it answers");
        queues["items"].as_array().expect("a list").iter().any(|queue| !queue["quarantined"].is_null())
    })
    .await;
    finds(&server.url(), &it.url(""), "unserved is in quarantine", "rename or delete it").await?;
    send(&server, "HSET goalmill:meta protocol 9").await?;
    finds(&server.url(), &it.url(""), "speaks protocol 9, this program 1", "use the release").await?;
    it.stop().await;
    Ok(())
}

//! `goalmill doctor` on set-ups that are broken on purpose: each is found, with its fix.

use std::process::Output;

use anyhow::{Context, Result, ensure};
use goalmill_common::config::{ArchiveKind, ModelSettings, NamespaceSettings};
use goalmill_common::event::LOG_FORMAT;
use goalmill_common::wire::PLAN_TYPE;
use goalmill_tests::dev::program;
use goalmill_tests::installation::{self, Installation, one_step_plan as plan};
use goalmill_tests::redis_server::{self, Fsync, Options, RedisServer};
use goalmill_tests::wait::{SOON, until, until_some};
use redis::cmd;
use serde_json::{Value, json};

/// Nothing listens there.
const NOBODY: &str = "127.0.0.1:1";

/// What `doctor` says: the checks, and whether it ended well.
async fn doctor(redis: &str, server: &str) -> Result<(Vec<Value>, bool)> {
    doctor_with(redis, server, "").await
}

/// The same with settings, in TOML.
async fn doctor_with(redis: &str, server: &str, settings: &str) -> Result<(Vec<Value>, bool)> {
    let file = tempfile::Builder::new().suffix(".toml").tempfile()?;
    std::fs::write(file.path(), settings)?;
    let config = file.path().display().to_string();
    let words: Vec<String> = ["doctor", "--redis", redis, "--server", server, "--config", &config, "-o", "json"]
        .iter()
        .map(|word| (*word).to_owned())
        .collect();
    let ran = tokio::task::spawn_blocking(move || program().args(words).output()).await??;
    let Output { status, stdout, stderr } = ran;
    let said: Value = serde_json::from_slice(&stdout)
        .with_context(|| format!("{} {}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))?;
    Ok((said["checks"].as_array().context("there are checks")?.clone(), status.success()))
}

/// A check that is no `ok`, says `detail`, and whose fix says `fix`.
fn found(checks: &[Value], detail: &str, fix: &str) -> Result<()> {
    let says = |check: &&Value, field: &str, text: &str| check[field].as_str().is_some_and(|said| said.contains(text));
    // A refusal of Redis says itself what to do.
    let fits =
        |check: &&Value| says(check, "detail", detail) && (says(check, "hint", fix) || says(check, "detail", fix));
    let found = checks.iter().filter(|check| check["level"] != "ok").any(|check| fits(&check));
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
    let server = RedisServer::start_with(Options { memory_bytes_max: 1 << 30, ..Options::default() }).await?;
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
    let sound = RedisServer::start().await?;
    send(&sound, "CONFIG SET appendfsync no").await?;
    finds(&sound.url(), NOBODY, "`appendfsync` is `no`", "CONFIG SET appendfsync everysec").await?;
    finds(&sound.url(), NOBODY, "`maxmemory` is 0", "CONFIG SET maxmemory ").await?;
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
async fn a_missing_right_of_a_scheduler_is_found_by_its_command() -> Result<()> {
    let server = RedisServer::start().await?;
    let it = Installation::over(&server).await?;
    send(&server, "ACL SETUSER narrow on >secret ~goalmill:* &* +@all").await?;
    let narrow = format!("redis://narrow:secret@127.0.0.1:{}", server.port());
    for command in ["xadd", "xautoclaim", "xgroup|create", "publish", "hset"] {
        send(&server, &format!("ACL SETUSER narrow -{command}")).await?;
        let name = command.to_uppercase().replace('|', " ");
        let (checks, ended_well) = doctor(&narrow, &it.url("")).await?;
        assert!(!ended_well);
        found(&checks, &name, "deploy/redis/users.acl")?;
        send(&server, &format!("ACL SETUSER narrow +{command}")).await?;
    }
    assert!(doctor(&narrow, &it.url("")).await?.1);
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_not_the_schedulers_is_found() -> Result<()> {
    let (server, empty, other) =
        (RedisServer::start().await?, RedisServer::start().await?, RedisServer::start().await?);
    let (it, its_neighbour) = (Installation::over(&server).await?, Installation::over(&other).await?);
    finds(&other.url(), &it.url(""), "not the Redis of the scheduler: it holds installation", "--redis").await?;
    finds(&empty.url(), &it.url(""), "not the Redis of the scheduler: it holds no installation", "--redis").await?;
    it.stop().await;
    its_neighbour.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_idle_connections_is_found() -> Result<()> {
    let server = RedisServer::start().await?;
    send(&server, "CONFIG SET timeout 300").await?;
    finds(&server.url(), NOBODY, "`timeout` is 300", "CONFIG SET timeout 0").await
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_make_failovers_long_or_lossy_are_found_where_there_are_replicas() -> Result<()> {
    let (primary, replicas) = (RedisServer::start().await?, [RedisServer::start().await?, RedisServer::start().await?]);
    let settings = [
        ("min-replicas-to-write", "0", "1"),
        ("repl-diskless-sync-delay", "5", "0"),
        ("repl-backlog-size", "1048576", "64mb"),
    ];
    for (name, value, _) in settings {
        send(&primary, &format!("CONFIG SET {name} {value}")).await?;
    }
    let (checks, _) = doctor(&primary.url(), NOBODY).await?;
    assert!(!format!("{checks:?}").contains("min-replicas"), "a server alone has no failovers: {checks:#?}");
    for replica in &replicas {
        send(replica, &format!("REPLICAOF 127.0.0.1 {}", primary.port())).await?;
    }
    let connected = async || {
        let mut line = primary.connection().await.expect("it answers");
        let info: String = redis::cmd("INFO").arg("replication").query_async(&mut line).await.expect("it answers");
        info.contains("connected_slaves:2")
    };
    until(SOON, connected).await;
    for (name, value, advised) in settings {
        let (detail, fix) = (format!("`{name}` is {value}: "), format!("CONFIG SET {name} {advised} on every server"));
        finds(&primary.url(), NOBODY, &detail, &fix).await?;
        send(&primary, &format!("CONFIG SET {name} {advised}")).await?;
    }
    let (checks, _) = doctor(&primary.url(), NOBODY).await?;
    assert!(!format!("{checks:?}").contains("on every server"), "{checks:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_without_an_address_of_callbacks_refuses_them_and_is_found() -> Result<()> {
    let server = RedisServer::start().await?;
    let mut settings = installation::settings();
    (settings.api.listen, settings.api.insecure) = ("0.0.0.0:0".into(), true);
    let it = Installation::start(goalmill_broker::redis::connect(&server.settings()).await?, settings).await?;
    let mut calls_back = plan("printer");
    calls_back["steps"][0]["callback"] = true.into();
    let refused = until_some(SOON, async || {
        let (status, answer) = it.post("/v1/plans", &calls_back).await.expect("it answers");
        (status != 503).then_some((status, answer))
    });
    let (status, refused) = refused.await.context("a shard has an owner")?;
    assert_eq!((status, refused["code"].as_str()), (409, Some("NOT_ALLOWED")), "{refused:#}");
    assert!(refused["detail"].as_str().is_some_and(|why| why.contains("`api.callback_url`")), "{refused:#}");
    let text = calls_back.to_string();
    let fields = [("specversion", "1.0"), ("id", "c-1"), ("source", "urn:test"), ("type", PLAN_TYPE), ("data", &text)];
    it.broker.submit(&fields.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).to_vec()).await?;
    let answered = until_some(SOON, async || it.broker.answers(&["c-1".into()]).await.ok()?.pop().flatten());
    let answer = answered.await.context("it is answered")?;
    assert!(answer.contains("`api.callback_url`"), "{answer}");
    let (checks, ended_well) = doctor(&server.url(), &it.url("").replace("0.0.0.0", "127.0.0.1")).await?;
    found(&checks, "steps with `callback: true` are refused", "set `api.callback_url`")?;
    assert!(ended_well, "{checks:#?}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn models_of_the_scheduler_without_a_key_or_with_an_open_circuit_are_found() -> Result<()> {
    let server = RedisServer::start().await?;
    let mut settings = installation::settings();
    let model = |name: &str| ModelSettings {
        name: name.into(),
        base_url: format!("http://{NOBODY}/v1"),
        model: "any".into(),
        retries: 0,
        breaker_failures: 1,
        breaker_open_ms: 600_000,
        ..ModelSettings::default()
    };
    let keyless = ModelSettings { api_key_env: "NO_SUCH_KEY_OF_THIS_TEST".into(), ..model("keyless") };
    settings.models = vec![keyless, model("away")];
    settings.planner.order = vec!["llm".into(), "rules".into()];
    let it = Installation::start(goalmill_broker::redis::connect(&server.settings()).await?, settings).await?;
    it.post("/v1/goals", &json!({"description": "water the plants"})).await?;
    until(SOON, async || {
        let ready = it.get("/readyz").await.expect("it answers");
        ready["warnings"].as_array().is_some_and(|warnings| warnings.len() == 2)
    })
    .await;
    let (checks, _) = doctor(&server.url(), &it.url("")).await?;
    found(&checks, "model `keyless` is not asked", "set the environment variable `NO_SUCH_KEY_OF_THIS_TEST`")?;
    found(&checks, "model `away` is not asked: its last calls failed", "check the provider, the key and the quota")?;
    it.stop().await;
    Ok(())
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
    let time: (u64, u64) = cmd("TIME").query_async(&mut server.connection().await?).await?;
    let own = env!("CARGO_PKG_VERSION");
    for (name, version, started_ms) in [
        ("early", "9.9.9".to_owned(), 4_000_000_000_000_u64),
        ("first", format!("{own} (5f5ef6876101)"), 1),
        ("second", format!("{own} (751a29cd6ccb)"), 1),
    ] {
        let beat =
            json!({"worker": name, "agents": ["echo"], "slots": 1, "busy": 0, "version": version, "host": "moon",
            "started_ms": started_ms})
            .to_string();
        let mut connection = server.connection().await?;
        cmd("HSET").arg("goalmill:workers:beats").arg(name).arg(beat).exec_async(&mut connection).await?;
        send(&server, &format!("ZADD goalmill:workers {} {name}", time.0 * 1_000)).await?;
    }
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
    found(&checks, "several builds: 0.1.0 (5f5ef6876101), 0.1.0 (751a29cd6ccb)", "replace those of the older build")?;
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
    finds(&server.url(), &it.url(""), "unserved is in quarantine", "then rename this key").await?;
    send(&server, "HSET goalmill:meta protocol 9").await?;
    finds(&server.url(), &it.url(""), "speaks protocol 9, this program 1", "use the release").await?;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_and_services_that_cannot_work_are_found() -> Result<()> {
    let server = RedisServer::start().await?;
    let it = Installation::over(&server).await?;
    for (settings, detail, fix) in [
        ("[archive]\ninterval_ms = 50", "`archive.interval_ms` has no effect", "set `archive.store`"),
        ("[api.tls]\nreload_ms = 50", "`api.tls.reload_ms` has no effect", "set `api.tls.cert_file`"),
        ("[scheduler]\nshards = 7", "`scheduler.shards` is 7, and has no effect", "another `redis.prefix`"),
        (
            "[archive]\nstore = 'sqlite'\npath = '/nowhere/archive'",
            "finished plans cannot be archived",
            "goalmill config",
        ),
        (
            "[worker.agents.far]\nkind = 'http'\nurl = 'http://127.0.0.1:1/do'",
            "`far`: http://127.0.0.1:1/do",
            "start the",
        ),
        ("[api]\ncallback_url = 'http://127.0.0.1:1'", "callbacks of agents cannot arrive", "`api.callback_url`"),
        ("[[models]]\nname = 'm'\nmodel = 'm'\nbase_url = 'http://127.0.0.1:1/v1'", "`m`: ", "check `base_url`"),
        ("[scheduler]\nshardz = 7", "unknown field `shardz`", "goalmill config"),
    ] {
        let (checks, _) = doctor_with(&server.url(), &it.url(""), settings).await?;
        found(&checks, detail, fix)?;
        // Whatever fails, the other checks are made.
        assert!(checks.iter().any(|check| check["topic"] == "scheduler"), "{checks:#?}");
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_scheduler_cannot_do_is_found() -> Result<()> {
    let server = RedisServer::start().await?;
    let files = tempfile::tempdir()?;
    let file = files.path().join("archive");
    let mut settings = installation::settings();
    settings.scheduler.shards = 1;
    settings.archive.store = ArchiveKind::Sqlite;
    settings.archive.path = file.display().to_string();
    settings.archive.interval_ms = 50;
    settings.namespaces.insert("red".into(), NamespaceSettings { plans_max: Some(1), ..NamespaceSettings::default() });
    let broker = goalmill_broker::redis::connect(&server.settings()).await?;
    let mut it = Installation::start(broker, settings).await?;
    let mut held = plan("held");
    held["goal"] = json!({"description": "x", "namespace": "red"});
    it.submit(&held).await?;
    rusqlite::Connection::open(&file)?.execute_batch("DROP TABLE plans")?;
    it.submit(&plan("echo")).await?;
    let warned = async |part: &str| {
        let found = async || it.get("/readyz").await.is_ok_and(|ready| ready["warnings"].to_string().contains(part));
        until(SOON, found).await;
    };
    warned("cannot be archived").await;
    warned("may submit nothing").await;
    let (checks, _) = doctor(&server.url(), &it.url("")).await?;
    found(&checks, "finished plans cannot be archived", "check the server of the archive")?;
    found(&checks, "1 of the namespaces with limits may submit nothing", "raise it under `namespaces`")?;
    it.add_scheduler_of_format(LOG_FORMAT + 1).await?;
    let other = it.schedulers[1].api_url().context("it serves the API")?;
    finds(&server.url(), &other, "log format", "").await?;
    it.stop().await;
    Ok(())
}

#[test]
fn the_settings_of_a_role_are_checked_before_its_start() -> Result<()> {
    let file = tempfile::Builder::new().suffix(".toml").tempfile()?;
    for (role, settings, expected) in [
        ("worker", "[worker.agents.a]\nkind = 'http'\nurl = 'nothing'", "agent type `a`"),
        ("worker", "", "serves no agent type"),
        ("worker", "[worker.agents.a]\nkind = 'transform'\nexpression = '1'", ""),
        ("scheduler", "[api]\nlisten = '0.0.0.0:8080'", "not a loopback address"),
        ("scheduler", "[planner]\norder = ['nothing']", "nothing"),
        ("scheduler", "[planner]\norder = ['rules', 'agent:mine']", ""),
        ("scheduler", "[api.tls]\ncert_file = '/nowhere'\nkey_file = '/nowhere'", "/nowhere"),
        ("scheduler", "", ""),
    ] {
        std::fs::write(file.path(), settings)?;
        let config = file.path().display().to_string();
        let ran = program().args([role, "--check-config", "--config", &config]).output()?;
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.success(), expected.is_empty(), "{settings}: {said}");
        assert!(said.contains(expected), "{settings}: {said}");
    }
    Ok(())
}

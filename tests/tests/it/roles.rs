//! The users of `deploy/redis/users.acl`: each role can do its work, and nothing else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use goalmill_broker::{Broker, redis as back_end};
use goalmill_common::wire::{Fields, PLAN_TYPE};
use goalmill_tests::installation::{Installation, http_client, settings, step};
use goalmill_tests::redis_server::{Options, RedisServer, send};
use goalmill_tests::wait::{SOON, until_some};
use redis::aio::MultiplexedConnection;
use redis::{Value, cmd};
use serde_json::json;

use crate::docs::read;

const LIMIT: Duration = Duration::from_mins(2);
/// What no role may do.
const NO_ROLE: [&str; 7] = ["FLUSHALL", "KEYS *", "CONFIG GET *", "EVAL return 0", "GET other", "ACL LIST", "SHUTDOWN"];
/// What a role may not do besides.
const FORBIDDEN: [(&str, &[&str]); 4] = [
    ("scheduler", &["SET other 1", "SUBSCRIBE other", "MONITOR"]),
    (
        "worker",
        &[
            "XADD goalmill:goals * a b",
            "XADD goalmill:steps:echo * a b",
            "XACK goalmill:steps:echo workers 1-0",
            "XTRIM goalmill:steps:echo MAXLEN 0",
            "XDEL goalmill:steps:echo 1-0",
            "DEL goalmill:steps:echo",
            "HSET goalmill:meta shards 1",
            "XREVRANGE goalmill:{s0}:plan:p0-a:events + -",
            "HGET goalmill:{s0}:owner token",
            "SET goalmill:answers:a b",
            "FUNCTION FLUSH",
            "FUNCTION LOAD REPLACE x",
        ],
    ),
    (
        "client",
        &[
            "XREADGROUP GROUP schedulers me STREAMS goalmill:goals >",
            "XRANGE goalmill:goals - +",
            "XADD goalmill:steps:echo * a b",
            "XADD goalmill:{s0}:reports * a b",
            "HSET goalmill:{s0}:plan:p0-a status completed",
            "FCALL goalmill_acquire 1 goalmill:{s0}:owner",
            "SET goalmill:answers:a b",
            "XTRIM goalmill:goals MAXLEN 0",
        ],
    ),
    (
        "autoscaler",
        &[
            "XREADGROUP GROUP workers me STREAMS goalmill:steps:echo >",
            "XRANGE goalmill:steps:echo - +",
            "XADD goalmill:steps:echo * a b",
            "XLEN goalmill:goals",
            "XGROUP DESTROY goalmill:steps:echo workers",
        ],
    ),
];

/// A server with the users; `default` stays, to look at the server from the test.
async fn server() -> Result<RedisServer> {
    let users = read("deploy/redis/users.acl");
    let own = users.replace("user default off", "user default on nopass ~* &* +@all");
    assert_ne!(own, users, "the user `default` is off");
    RedisServer::start_with(Options { users: Some(own), ..Options::default() }).await
}

fn url(server: &RedisServer, role: &str) -> String {
    format!("redis://{role}:CHANGE-{role}@127.0.0.1:{}", server.port())
}

async fn broker(server: &RedisServer, role: &str) -> Result<Arc<dyn Broker>> {
    let mut settings = server.settings();
    settings.url = url(server, role);
    Ok(back_end::connect(&settings).await?)
}

async fn connection(server: &RedisServer, role: &str) -> Result<MultiplexedConnection> {
    Ok(redis::Client::open(url(server, role))?.get_multiplexed_async_connection().await?)
}

/// What the server refused, as `user: object`. A refused `CLIENT SETINFO` is harmless: it names the library.
async fn refusals(server: &RedisServer) -> Result<Vec<String>> {
    let log: Vec<HashMap<String, Value>> = cmd("ACL").arg("LOG").query_async(&mut server.connection().await?).await?;
    let text = |entry: &HashMap<String, Value>, name: &str| {
        let value = entry.get(name).cloned().unwrap_or(Value::Nil);
        redis::from_redis_value::<String>(value).unwrap_or_default()
    };
    let refused = log.iter().map(|entry| format!("{}: {}", text(entry, "username"), text(entry, "object")));
    Ok(refused.filter(|what| !what.ends_with("client|setinfo")).collect())
}

/// A scheduler and a worker, each with the user of its role.
async fn installation(server: &RedisServer) -> Result<Installation> {
    let (scheduler, worker) = (broker(server, "scheduler").await?, broker(server, "worker").await?);
    let (schedulers, workers, settings) = (Vec::new(), Vec::new(), settings());
    let mut it = Installation { broker: scheduler.clone(), schedulers, workers, settings, http: http_client() };
    it.add_scheduler().await?;
    it.broker = worker;
    it.add_worker(16).await?;
    it.broker = scheduler;
    Ok(it)
}

/// A plan with a failure, a retry and a payload that is put into a key of its own.
fn plan() -> String {
    let mut fails = step("fails", "fail", &["a"], json!({}));
    fails["on_failure"] = "continue".into();
    let mut again = step("again", "flaky", &["a"], json!({}));
    again["retry"] = json!({"max": 3, "initial": "1ms"});
    let large = step("large", "echo", &["a"], json!({"text": "x".repeat(300 << 10)}));
    json!({"steps": [step("a", "echo", &[], json!({"n": 1})), fails, again, large]}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_plan_runs_with_the_users_of_scheduler_worker_and_client() -> Result<()> {
    let server = server().await?;
    let it = installation(&server).await?;
    let plan = plan();
    let fields = [("specversion", "1.0"), ("id", "r-1"), ("source", "urn:test"), ("type", PLAN_TYPE), ("data", &plan)];
    let fields: Fields = fields.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).to_vec();
    let client = broker(&server, "client").await?;
    client.submit(&fields).await?;
    let answered = until_some(SOON, async || client.answers(&["r-1".into()]).await.ok()?.pop().flatten());
    let answer: serde_json::Value = serde_json::from_str(&answered.await.context("it is answered")?)?;
    let id = answer["plan_id"].as_str().with_context(|| format!("{answer:#}"))?.into();
    let ended = it.await_end(&id, LIMIT).await?;
    for step in ["a", "again", "large"] {
        assert!(it.log(&id).await?.iter().any(|record| format!("{record:?}").contains(step)), "{step}: {ended:#}");
    }
    assert!(!client.log(&id, 0, 100).await?.is_empty(), "a client reads the log");

    // A step that is stopped while it runs, and what the API and an autoscaler ask for.
    let asleep = it.submit(&json!({"steps": [step("a", "sleep", &[], json!({"seconds": 600}))]})).await?;
    it.post(&format!("/v1/plans/{asleep}:cancel"), &json!({})).await?;
    it.await_end(&asleep, LIMIT).await?;
    it.get("/v1/queues").await?;
    it.get("/v1/scaling/echo").await?;
    it.stop().await;
    assert_eq!(refusals(&server).await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_of_one_namespace_submits_for_no_other() -> Result<()> {
    let server = server().await?;
    let mut it = installation(&server).await?;
    let open = it.schedulers.remove(0);
    it.settings.scheduler.goal_streams.insert("research".into());
    it.add_scheduler().await?;
    open.stop().await;
    let producer = connection(&server, "client-research").await?;
    for (id, namespace) in [("own", None), ("named", Some("research")), ("foreign", Some("blue"))] {
        let mut goal = json!({"description": "x"});
        if let Some(namespace) = namespace {
            goal["namespace"] = namespace.into();
        }
        let data = json!({"goal": goal, "steps": [step("a", "echo", &[], json!({}))]}).to_string();
        let mut add = cmd("XADD");
        add.arg("goalmill:goals:research").arg("*").arg("specversion").arg("1.0").arg("id").arg(id);
        add.arg("type").arg(PLAN_TYPE).arg("goalmillnamespace").arg("blue").arg("data").arg(data);
        add.query_async::<Value>(&mut producer.clone()).await?;
    }
    let answer = async |id: &str| -> Result<serde_json::Value> {
        let mut read = cmd("GET");
        read.arg(format!("goalmill:answers:research/{id}"));
        let found =
            until_some(SOON, async || read.query_async::<Option<String>>(&mut producer.clone()).await.ok().flatten());
        Ok(serde_json::from_str(&found.await.with_context(|| format!("`{id}` is not answered"))?)?)
    };
    for id in ["own", "named"] {
        let accepted = answer(id).await?;
        let plan = accepted["plan_id"].as_str().with_context(|| format!("{accepted:#}"))?.into();
        assert_eq!(it.await_end(&plan, LIMIT).await?["namespace"], "research", "{id}");
    }
    let refused = answer("foreign").await?;
    assert_eq!((&refused["code"], &refused["errors"][0]["code"]), (&json!("FORBIDDEN"), &json!("FOREIGN_NAMESPACE")));
    assert_eq!(refused["errors"][0]["pointer"], "/goal/namespace");
    let admin = server.connection().await?;
    let left = async || cmd("XLEN").arg("goalmill:goals:research").query_async::<u64>(&mut admin.clone()).await;
    until_some(SOON, async || left().await.ok().filter(|left| *left == 0)).await.context("all are moved")?;
    it.stop().await;
    assert_eq!(refusals(&server).await?, Vec::<String>::new());
    for line in ["XADD goalmill:goals * a b", "XADD goalmill:goals:blue * a b", "GET goalmill:answers:own"] {
        let refused = send(&mut connection(&server, "client-research").await?, line).await.err();
        assert_eq!(refused.as_ref().and_then(|error| error.code()), Some("NOPERM"), "{line}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_is_refused_what_it_does_not_need() -> Result<()> {
    let server = server().await?;
    let mut admin = server.connection().await?;
    send(&mut admin, "XGROUP CREATE goalmill:steps:echo workers 0 MKSTREAM").await?;
    for (role, lines) in FORBIDDEN {
        for line in lines.iter().chain(&NO_ROLE) {
            let mut connection = connection(&server, role).await?;
            let refused = send(&mut connection, line).await.err().with_context(|| format!("{role} may `{line}`"))?;
            assert_eq!(refused.code(), Some("NOPERM"), "{role} `{line}`: {refused}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_user_autoscaler_can_count_what_waits_and_what_runs() -> Result<()> {
    let server = server().await?;
    let mut admin = server.connection().await?;
    send(&mut admin, "XGROUP CREATE goalmill:steps:echo workers 0 MKSTREAM").await?;
    let mut autoscaler = connection(&server, "autoscaler").await?;
    for line in [
        "INFO",
        "XINFO GROUPS goalmill:steps:echo",
        "XPENDING goalmill:steps:echo workers",
        "XLEN goalmill:steps:echo",
        "CLIENT SETNAME keda",
    ] {
        send(&mut autoscaler, line).await.with_context(|| line.to_owned())?;
    }
    Ok(())
}

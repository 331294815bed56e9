//! The users of `deploy/redis/users.acl`: each role can do its work, and nothing else.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use goalmill_broker::{Broker, redis as back_end};
use goalmill_common::clock::Clock;
use goalmill_common::id::{AgentType, EntryId, PlanId};
use goalmill_common::keys::Keys;
use goalmill_common::random::Random;
use goalmill_common::wire::{Fields, PLAN_TYPE};
use goalmill_tests::installation::{Installation, http_client, settings, step, submit_to};
use goalmill_tests::redis_server::{Options, RedisServer, send};
use goalmill_tests::wait::{SOON, until_some};
use goalmill_worker::WorkerOptions;
use goalmill_worker::executor::{Executor, Kinds};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use redis::{Value, cmd};
use serde_json::json;

use crate::docs::read;
use crate::own_executor::Asking;

type Executors = BTreeMap<AgentType, Arc<dyn Executor>>;

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
            "XADD goalmill:{s0}:requests * v 1 request {}",
            "FCALL goalmill_send 1 goalmill:{s0}:requests v 1 request {}",
            "XRANGE goalmill:{s0}:requests - +",
            "XREAD STREAMS goalmill:{s0}:reports 0",
            "XTRIM goalmill:{s0}:reports MAXLEN 0",
            "SET goalmill:{s0}:cursor 9-9",
            "FCALL goalmill_commit 1 goalmill:{s0}:owner",
            "FCALL goalmill_acquire 1 goalmill:{s0}:owner",
            "SET goalmill:{s0}:poison x",
            "HSET goalmill:{s0}:plan:p0-a status completed",
            "HGETALL goalmill:{s0}:plan:p0-a",
            "ZADD goalmill:cancelled 1 token",
            "ZREM goalmill:cancelled token",
            "PUBLISH goalmill:cancel token",
            "FCALL goalmill_cancel 1 goalmill:cancelled goalmill:cancel 1000 token",
            "HDEL goalmill:agents echo",
            "SREM goalmill:queues echo",
            "SADD goalmill:queues:paused echo",
            "FCALL goalmill_remove_type 4 goalmill:queues goalmill:agents goalmill:steps:echo goalmill:dead:echo echo x 0",
            "XGROUP DESTROY goalmill:steps:echo workers",
            "XGROUP SETID goalmill:steps:echo workers $",
            "XGROUP DELCONSUMER goalmill:steps:echo workers me",
            "XRANGE goalmill:dead:echo - +",
            "DEL goalmill:dead:echo",
            "DEL goalmill:blob:{s0}:x",
            "DEL goalmill:workers:beats",
            "SET goalmill:workers:drain:w 1",
            "HGETALL goalmill:secrets",
            "HGETALL goalmill:tokens",
            "GET goalmill:sessions:x",
            "GET goalmill:cache:x",
            "ZADD goalmill:schedulers 1 s",
            "SUBSCRIBE goalmill:presence:s",
        ],
    ),
    (
        "client",
        &[
            "HGETALL goalmill:secrets",
            "HGET goalmill:secrets attempt_tokens",
            "XREADGROUP GROUP schedulers me STREAMS goalmill:goals >",
            "XRANGE goalmill:goals - +",
            "XADD goalmill:steps:echo * a b",
            "XADD goalmill:{s0}:reports * a b",
            "HSET goalmill:{s0}:plan:p0-a status completed",
            "FCALL goalmill_acquire 1 goalmill:{s0}:owner",
            "SET goalmill:answers:a b",
            "XADD goalmill:results:a * a b",
            "XADD goalmill:refused:default * a b",
            "SET goalmill:blob:{s0}:a b",
            "XTRIM goalmill:goals MAXLEN 0",
        ],
    ),
    (
        "autoscaler",
        &[
            "HGETALL goalmill:secrets",
            "XREADGROUP GROUP workers me STREAMS goalmill:steps:echo >",
            "XRANGE goalmill:steps:echo - +",
            "XADD goalmill:steps:echo * a b",
            "XLEN goalmill:goals",
            "XGROUP DESTROY goalmill:steps:echo workers",
        ],
    ),
];

/// A server with the users; `default` stays, to look at the server from the test.
pub async fn server() -> Result<RedisServer> {
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

pub async fn connection(server: &RedisServer, role: &str) -> Result<MultiplexedConnection> {
    // A program that blocks on a result waits as long as it says itself.
    let patient = AsyncConnectionConfig::new().set_response_timeout(None);
    Ok(redis::Client::open(url(server, role))?.get_multiplexed_async_connection_with_config(&patient).await?)
}

/// What the server refused, as `user: object`. A refused `CLIENT SETINFO` is harmless: it names the library.
pub async fn refusals(server: &RedisServer) -> Result<Vec<String>> {
    let log: Vec<HashMap<String, Value>> = cmd("ACL").arg("LOG").query_async(&mut server.connection().await?).await?;
    let text = |entry: &HashMap<String, Value>, name: &str| {
        let value = entry.get(name).cloned().unwrap_or(Value::Nil);
        redis::from_redis_value::<String>(value).unwrap_or_default()
    };
    let refused = log.iter().map(|entry| format!("{}: {}", text(entry, "username"), text(entry, "object")));
    Ok(refused.filter(|what| !what.ends_with("client|setinfo")).collect())
}

/// A scheduler and a worker, each with the user of its role.
pub async fn installation(server: &RedisServer) -> Result<Installation> {
    let (scheduler, worker) = (broker(server, "scheduler").await?, broker(server, "worker").await?);
    let (schedulers, workers, settings) = (Vec::new(), Vec::new(), settings());
    let mut it = Installation { broker: scheduler.clone(), schedulers, workers, settings, http: http_client() };
    it.add_scheduler().await?;
    it.broker = worker;
    it.add_worker(16).await?;
    it.broker = scheduler;
    Ok(it)
}

/// The same, whose scheduler reads the stream of a namespace, too.
pub async fn installation_of(server: &RedisServer, namespace: &str) -> Result<Installation> {
    let mut it = installation(server).await?;
    let open = it.schedulers.remove(0);
    it.settings.scheduler.goal_streams.insert(namespace.into());
    it.add_scheduler().await?;
    open.stop().await;
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
    let mut it = installation(&server).await?;
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
    let read = client.log(&id, 0, 100).await?;
    assert!(read[0].events.contains("\"salt\"") && !read[0].events.contains("\"secret\""), "{:?}", read[0]);
    let mut as_client = connection(&server, "client").await?;
    send(&mut as_client, "XADD goalmill:events * name paid key 7").await?;

    // Calls are reports, too.
    let asking: Arc<dyn Executor> = Arc::new(Asking::default());
    add_worker(&mut it, broker(&server, "worker").await?, [("asking".into(), asking)].into()).await?;
    let mut asks = step("a", "asking", &[], json!("why"));
    asks["retry"] = json!({"max": 1, "initial_ms": 1, "max_ms": 1});
    let asked = it.submit(&json!({"steps": [asks]})).await?;
    it.await_end(&asked, LIMIT).await?;
    let answer = it.get(&format!("/v1/plans/{asked}/results")).await?;
    assert_eq!(answer["results"]["a"], json!({"answer": {"echo": "\"why\""}}), "{answer:#}");

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

async fn add_worker(it: &mut Installation, broker: Arc<dyn Broker>, executors: Executors) -> Result<()> {
    let (settings, limits) = (it.settings.worker.clone(), it.settings.limits.clone());
    let (clock, random, kinds) = (Clock::system(), Random::system(), Kinds::new());
    let options = WorkerOptions { settings, limits, broker, clock, random, executors, kinds };
    it.workers.push(goalmill_worker::start(options).await?);
    Ok(())
}

/// What a worker might make schedulers do, if it could make requests.
fn forged_requests(plan: &PlanId, step: &str) -> Vec<(PlanId, String)> {
    let decided = json!({"step": step, "reason": "ok"});
    let submit = json!({
        "goal": {"description": "x", "priority": 5, "namespace": "red"}, "submission": "red/forged", "source": "x",
        "plan": {"plan": {"steps": [{"id": "a", "agent_type": "echo", "inputs": {}}]}, "planner": "submitted", "confidence": 1.0}
    });
    let verbs = [
        (plan, json!({"approve_step": decided})),
        (plan, json!({"complete_step": {"step": step, "outputs": {"forged": 1}, "reason": "x"}})),
        (plan, json!({"skip_step": decided})),
        (plan, json!({"cancel": {"reason": "x"}})),
        (&PlanId::from(FORGED_PLAN), json!({"submit": submit})),
    ];
    let request = |plan: &PlanId, verb| json!({"plan": plan, "actor": "oidc:boss", "verb": verb}).to_string();
    verbs.map(|(plan, verb)| (plan.clone(), request(plan, verb))).to_vec()
}

const FORGED_PLAN: &str = "p0-forgedplan000001";

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_a_worker_forges_is_refused_or_has_no_effect() -> Result<()> {
    let server = server().await?;
    let it = installation(&server).await?;
    let mut held = step("held", "echo", &[], json!({"n": 1}));
    held["approve"] = json!({});
    let plan = it.submit(&json!({"steps": [held]})).await?;
    let of_plan = async || it.get(&format!("/v1/plans/{plan}")).await;
    let waits = async || {
        let seen = of_plan().await.ok()?;
        seen.to_string().contains("awaiting_approval").then_some(seen)
    };
    let before = until_some(SOON, waits).await.context("the step waits for a person")?;
    let mut worker = connection(&server, "worker").await?;
    for (id, request) in forged_requests(&plan, "held") {
        let shard = id.shard().context("the id names its shard")?;
        let mut forge = cmd("XADD");
        forge.arg(Keys::default().requests(shard)).arg(&["*", "v", "1", "request", &request]);
        let refused = forge.query_async::<Value>(&mut worker).await.err().context("a worker makes requests")?;
        assert_eq!(refused.code(), Some("NOPERM"), "{request}");

        let mut forge = cmd("XADD");
        forge.arg(Keys::default().reports(shard)).arg(&["*", "v", "1", "request", &request]);
        let entry = EntryId::from(forge.query_async::<String>(&mut worker).await?);
        let handled = async || it.broker.cursor(shard).await.ok().filter(|cursor| cursor.reports == entry);
        until_some(SOON, handled).await.with_context(|| format!("the owner passes over {entry}"))?;
    }
    assert_eq!(of_plan().await?, before, "nobody has decided");
    assert!(it.broker.summary(&FORGED_PLAN.into()).await?.is_empty(), "nobody has submitted it");
    let (status, answer) = it.post(&format!("/v1/plans/{plan}/steps/held:approve"), &json!({})).await?;
    assert_eq!(status, 200, "{answer:#}");
    assert_eq!(it.await_end(&plan, LIMIT).await?["status"], "completed");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_by_a_scheduler_that_does_not_own_the_shard_arrives() -> Result<()> {
    let server = server().await?;
    let mut it = installation(&server).await?;
    it.broker = broker(&server, "scheduler").await?;
    it.add_scheduler().await?;
    // Both own some of the shards, or one owns them all: in both cases each accepts every request.
    let mut plans = Vec::new();
    for url in it.urls() {
        for _ in 0..8 {
            let plan = json!({"steps": [step("a", "echo", &[], json!({"n": 1}))]});
            plans.push(submit_to(&it.http, &format!("{url}/v1/plans"), &plan).await?);
        }
    }
    for plan in plans {
        assert_eq!(it.await_end(&plan, LIMIT).await?["status"], "completed");
    }
    it.stop().await;
    assert_eq!(refusals(&server).await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_drains_and_serves_one_agent_type_only_with_users_of_fewer_rights() -> Result<()> {
    let users = read("deploy/redis/users.acl").replace("user default off", "user default on nopass ~* &* +@all");
    let general = users.lines().find(|line| line.starts_with("user worker ")).context("there is such a user")?;
    // As deploy/redis/README.md says it.
    let narrow = general
        .replace("user worker on >CHANGE-worker", "user worker-echo on >CHANGE-worker-echo")
        .replace("~goalmill:steps:*", "~goalmill:steps:echo")
        .replace(" +hset +hsetnx)", ")");
    let users = format!("{users}\n{narrow}\n");
    let server = RedisServer::start_with(Options { users: Some(users), ..Options::default() }).await?;
    let mut it = installation(&server).await?;
    let open = it.workers.remove(0);
    let path = format!("/v1/workers/{}:drain", open.id());
    until_some(SOON, async || it.post(&path, &json!({})).await.ok().filter(|(status, _)| *status == 200)).await;
    tokio::time::timeout(LIMIT, open.draining()).await?;
    open.drain().await;

    let mut executors = goalmill_demo::agents::executors();
    executors.retain(|agent_type, _| agent_type.as_str() == "echo");
    add_worker(&mut it, broker(&server, "worker-echo").await?, executors).await?;
    let plan = it.submit(&json!({"steps": [step("a", "echo", &[], json!({"n": 1}))]})).await?;
    assert_eq!(it.await_end(&plan, LIMIT).await?["status"], "completed");
    it.stop().await;
    assert_eq!(refusals(&server).await?, Vec::<String>::new());
    let mut narrow = connection(&server, "worker-echo").await?;
    for line in [
        "XREADGROUP GROUP workers me STREAMS goalmill:steps:sleep >",
        "FCALL goalmill_pull 1 goalmill:steps:sleep me 1",
        "HSET goalmill:agents sleep {}",
    ] {
        let refused = send(&mut narrow, line).await.err().with_context(|| format!("it may `{line}`"))?;
        assert_eq!(refused.code(), Some("NOPERM"), "{line}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_of_one_namespace_submits_for_no_other() -> Result<()> {
    let server = server().await?;
    let it = installation_of(&server, "research").await?;
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
    for line in [
        "XADD goalmill:goals * a b",
        "XADD goalmill:goals:blue * a b",
        "GET goalmill:answers:own",
        "XREAD STREAMS goalmill:results:own 0",
        "XREAD STREAMS goalmill:results:blue/own 0",
        "XRANGE goalmill:refused:default - +",
    ] {
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

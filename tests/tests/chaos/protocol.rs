//! Programs that know nothing but `docs/protocol.md`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use goalmill_common::id::PlanId;
use goalmill_tests::cluster::{Cluster, Options};
use goalmill_tests::process::Process;
use goalmill_tests::wait::{SOON, until, until_some};
use redis::AsyncCommands;
use serde_json::{Value, json};

use crate::machine;

const LIMIT: Duration = Duration::from_mins(2);
const PLAN: &str = "goalmill.plan.submit.v1";

/// What stands under a submission's id, once something does.
async fn answer(cluster: &Cluster, id: &str) -> Result<Value> {
    let ids = [id.to_owned()];
    let text = until_some(LIMIT, async || cluster.broker.answers(&ids).await.ok()?.pop()?).await;
    let text = text.with_context(|| format!("no answer to `{id}`\n{}", cluster.log_tails()))?;
    Ok(serde_json::from_str(&text)?)
}

async fn plan_of(cluster: &Cluster, id: &str) -> Result<PlanId> {
    let answer = answer(cluster, id).await?;
    Ok(answer["plan_id"].as_str().with_context(|| format!("`{id}` was refused: {answer}"))?.into())
}

/// `redis-cli`, as a shell would call it.
fn redis_cli(cluster: &Cluster, arguments: &[&str]) -> Result<String> {
    let port = cluster.redis.port().to_string();
    let output = Command::new("redis-cli").args(["-p", &port]).args(arguments).output()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure!(output.status.success() && !text.contains("ERR"), "redis-cli {arguments:?}: {text}");
    Ok(text)
}

fn submit(cluster: &Cluster, id: &str, kind: &str, data: &str) -> Result<String> {
    let event = ["specversion", "1.0", "id", id, "source", "urn:me", "type", kind, "data", data];
    redis_cli(cluster, &[&["XADD", "goalmill:goals", "*"], &event[..]].concat())
}

/// Until every submission was dealt with: none waits, none is pending.
async fn all_settled(cluster: &Cluster) -> Result<()> {
    let settled = until_some(SOON, async || {
        let groups = redis_cli(cluster, &["XINFO", "GROUPS", "goalmill:goals"]).ok()?;
        let fields: Vec<&str> = groups.lines().collect();
        let field = |name: &str| fields.iter().position(|f| *f == name).map(|at| fields[at + 1]);
        (field("pending") == Some("0") && field("lag") == Some("0")).then_some(())
    });
    settled.await.with_context(|| format!("a submission is not settled\n{}", cluster.log_tails()))
}

fn one_step() -> Value {
    json!({"name": "one", "steps": [{"id": "a", "agent_type": "echo", "inputs": {"x": 1}}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn one_xadd_runs_a_goal_and_the_same_id_again_gives_the_same_plan() -> Result<()> {
    let _machine = machine().await;
    let cluster = Cluster::start(Options::default()).await?;
    let goal = r#"{"description":"Plan a 3-day trip to Paris in May with a $2000 budget"}"#;
    submit(&cluster, "trip-1", "goalmill.goal.submit.v1", goal)?;
    let plan = plan_of(&cluster, "trip-1").await?;
    submit(&cluster, "trip-1", "goalmill.goal.submit.v1", goal)?;
    cluster.await_end(&plan, LIMIT).await?;
    all_settled(&cluster).await?;
    ensure!(plan_of(&cluster, "trip-1").await? == plan, "the same id gave another plan");
    let shown: Value = serde_json::from_str(&redis_cli(&cluster, &["GET", "goalmill:answers:trip-1"])?)?;
    ensure!(shown["plan_id"] == plan.as_str(), "{shown}");
    let state = cluster.verify_completed(&plan).await?;
    ensure!(state.counts().total > 1, "a goal became a plan of one step");
    let index = redis_cli(&cluster, &["KEYS", "goalmill:{s*}:plan:*:events"])?;
    ensure!(index.lines().count() == 1, "there is more than one plan: {index}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_whose_answer_is_gone_still_gives_the_plan_that_ended() -> Result<()> {
    let _machine = machine().await;
    // No shard may be lost, nor an answer be late, because the machine is slow.
    let environment = vec![
        ("GOALMILL__SCHEDULER__SHARD_LEASE_MS", "60000".to_owned()),
        ("GOALMILL__API__ANSWER_MS", "60000".to_owned()),
    ];
    let cluster = Cluster::start(Options { workers: 1, environment, ..Options::default() }).await?;
    let document = one_step().to_string();
    for n in 0..4 {
        let id = format!("again-{n}");
        submit(&cluster, &id, PLAN, &document)?;
        let plan = plan_of(&cluster, &id).await?;
        cluster.await_end(&plan, LIMIT).await?;
        let log = cluster.lines(&plan).await?;
        all_settled(&cluster).await?;
        // By the stream, and by the API of a scheduler that owns the shard and of one that does not.
        for way in 0..3 {
            redis_cli(&cluster, &["DEL", &format!("goalmill:answers:{id}")])?;
            if way == 0 {
                submit(&cluster, &id, PLAN, &document)?;
                ensure!(plan_of(&cluster, &id).await? == plan, "the same id gave another plan");
                all_settled(&cluster).await?;
            } else {
                let (status, answer) = cluster.post_to(way - 1, "/v1/plans", &id, &one_step()).await?;
                ensure!(status == 202 && answer["plan_id"] == plan.as_str(), "{status}: {answer}");
                ensure!(answer["status"] == "completed", "{answer}");
            }
        }
        ensure!(cluster.lines(&plan).await? == log, "a plan that had ended was begun again");
    }
    let words: Vec<String> = cluster.schedulers.iter().map(|node| node.process.output()).collect();
    ensure!(!words.iter().any(|log| log.contains("was lost")), "a shard was lost\n{}", cluster.log_tails());
    Ok(())
}

type Entry<'a> = &'a [(&'a str, &'a [u8])];

#[tokio::test(flavor = "multi_thread")]
async fn malformed_submissions_are_answered_and_not_tried_again() -> Result<()> {
    let _machine = machine().await;
    let cluster = Cluster::start(Options { workers: 1, ..Options::default() }).await?;
    let mut connection = cluster.redis.connection().await?;
    let good: Entry<'_> = &[("specversion", b"1.0"), ("type", PLAN.as_bytes()), ("data", b"{}")];
    let bad: [(&str, Entry<'_>, &str); 8] = [
        ("no-data", &good[..2], "/data"),
        ("no-type", &[good[0], good[2]], "/type"),
        ("no-version", &good[1..], "/specversion"),
        ("unknown-type", &[good[0], ("type", b"goalmill.plan.submit.v9"), good[2]], "/type"),
        ("bad-json", &[good[0], good[1], ("data", b"{\"steps\": [")], ""),
        ("bad-text", &[good[0], good[1], ("data", b"\xff\xfe{}")], "/data"),
        ("bad-plan", good, ""),
        ("bad-goal", &[good[0], ("type", b"goalmill.goal.submit.v1"), ("data", b"[1]")], ""),
    ];
    for (id, fields, _) in &bad {
        let fields: Vec<(&str, &[u8])> = [&[("id", id.as_bytes())], *fields].concat();
        let _: String = connection.xadd("goalmill:goals", "*", &fields).await?;
    }
    // Nobody can be told about these.
    let nameless: [Entry<'_>; 4] = [good, &[("id", b"")], &[("id", b"\xff\xfe")], &[("id", b"a b"), good[0]]];
    for fields in nameless {
        let _: String = connection.xadd("goalmill:goals", "*", fields).await?;
    }
    let mut binary = redis::cmd("XADD");
    binary.arg("goalmill:goals").arg("*").arg(b"\xff\xfe".as_slice()).arg("x");
    let _: String = binary.query_async(&mut connection).await?;
    for (id, _, place) in bad {
        let problem = answer(&cluster, id).await?;
        let status = problem["status"].as_u64().unwrap_or(0);
        ensure!((400..500).contains(&status), "{id}: {problem}");
        let errors = problem["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
        ensure!(place.is_empty() || errors.iter().any(|e| e["pointer"] == place), "{id}: {problem}");
        ensure!(errors.iter().all(|e| e["hint"].as_str().is_some_and(|hint| !hint.is_empty())), "{id}: {problem}");
    }
    all_settled(&cluster).await?;
    submit(&cluster, "good", PLAN, &one_step().to_string())?;
    let plan = plan_of(&cluster, "good").await?;
    cluster.await_end(&plan, LIMIT).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_worker_of_the_protocol_page_completes_a_plan() -> Result<()> {
    let _machine = machine().await;
    let cluster = Cluster::start(Options { workers: 1, ..Options::default() }).await?;
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/protocol.md");
    let page = std::fs::read_to_string(page)?;
    let (_, worker) = page.split_once("<!-- worker -->\n```python\n").context("the page has no worker")?;
    let script = cluster.dir.path().join("worker.py");
    std::fs::write(&script, worker.split_once("\n```").context("the worker has no end")?.0)?;
    let mut python = Command::new("/usr/bin/python3");
    python.arg(script).arg("shout").arg(cluster.redis.url());
    let mut worker = Process::spawn(&mut python, &cluster.dir.path().join("python.log"))?;
    until(LIMIT, async || {
        cluster.get_from(0, "/v1/workers").await.is_ok_and(|(_, workers)| workers.to_string().contains("\"py-"))
    })
    .await;
    let steps: Vec<Value> = (0..12)
        .map(|n| {
            let (id, before) = (format!("s{n}"), if n < 4 { vec![] } else { vec![format!("s{}", n - 4)] });
            json!({"id": id, "agent_type": "shout", "inputs": {"text": format!("hi {n}")}, "dependencies": before})
        })
        .collect();
    let plan = cluster.submit("python", &json!({"name": "python", "steps": steps}), LIMIT).await?;
    cluster.await_end(&plan, LIMIT).await.with_context(|| worker.output())?;
    cluster.verify_completed(&plan).await?;
    let (_, results) = cluster.get_from(0, &format!("/v1/plans/{plan}/results")).await?;
    ensure!(results["results"]["s11"]["shout"] == "HI 11", "{results}");
    worker.terminate()?;
    let status = worker.wait_exit(SOON).await?;
    ensure!(status.success(), "{status}: {}", worker.output());
    Ok(())
}

//! A worker killed before and after it reports each call of an agent: another one continues, and pays for nothing again.

use anyhow::{Context, Result, ensure};
use goalmill_common::id::PlanId;
use goalmill_demo::scripted::{Script, Scripted, ScriptedCall, ScriptedServer};
use goalmill_tests::cluster::{Cluster, Options};
use serde_json::{Value, json};

use crate::kill_points::{KillPoint, LIMIT, USAGE, count, kill, requests_by_agent, settings};
use crate::machine;

/// What the agent calls, in this order.
const CALLS: [&str; 10] =
    ["model", "write_file", "write_file", "model", "write_file", "model", "write_file", "model", "write_file", "model"];

/// What the model answers: it knows where it is by the results that it got.
fn script() -> Script {
    let reply = |when: &str, files: &[&str]| Scripted {
        when: vec![when.into()],
        usage: Some(USAGE),
        tool_calls: files
            .iter()
            .map(|file| ScriptedCall { name: "write_file".into(), arguments: json!({"path": file, "text": "x"}) })
            .collect(),
        ..Scripted::default()
    };
    let answer = ScriptedCall { name: "final_answer".into(), arguments: json!({"result": "done"}) };
    Script::new([
        Scripted { tool_calls: vec![answer], ..reply("five.txt", &[]) },
        reply("four.txt", &["five.txt"]),
        reply("three.txt", &["four.txt"]),
        reply("two.txt", &["three.txt"]),
        reply("Write", &["one.txt", "two.txt"]),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_at_any_point_of_ten_calls_is_followed_by_one_that_pays_for_nothing_again() -> Result<()> {
    let _machine = machine().await;
    let server = ScriptedServer::start(script()).await?;
    let files = tempfile::tempdir()?;
    let settings = settings(&server, &files.path().display().to_string(), CALLS.len(), "[\"write_file\"]", "");
    let options = Options { schedulers: 1, workers: 0, settings, ..Options::default() };
    let mut cluster = Cluster::start(options).await?;
    let mut plans = Vec::new();
    for point in KillPoint::all(CALLS.len()) {
        plans.push((point, kill_at(&mut cluster, point).await.with_context(|| format!("{point:?}"))?));
    }
    let agents: Vec<String> = KillPoint::all(CALLS.len()).map(KillPoint::agent_type).collect();
    let redis = cluster.redis.url();
    let worker = cluster.start_worker_of(&agents.join(","), &redis).await?;
    cluster.workers.push(worker);
    for (point, plan) in &plans {
        cluster.await_end(plan, LIMIT).await.with_context(|| format!("{point:?}"))?;
    }
    let requests = requests_by_agent(&server, &agents)?;
    for (point, plan) in &plans {
        check(&cluster, *point, plan).await.with_context(|| format!("{point:?}"))?;
        let asked = requests.get(&point.agent_type()).copied();
        ensure!(asked == Some(point.requests(&CALLS)), "{point:?}: the model was asked {asked:?} times");
    }
    Ok(())
}

async fn kill_at(cluster: &mut Cluster, point: KillPoint) -> Result<PlanId> {
    let agent_type = point.agent_type();
    let step = json!({"id": "a", "agent_type": agent_type, "description": "Write five files", "inputs": {}});
    let is_it = |line: &Value| line["type"] == "call_recorded" && line["data"]["n"] == point.n;
    kill(cluster, point, "call", &json!({"name": agent_type, "steps": [step]}), is_it).await
}

/// Each call is recorded once, in the right order, and what it took counts once.
async fn check(cluster: &Cluster, point: KillPoint, plan: &PlanId) -> Result<()> {
    let state = cluster.verify_completed(plan).await?;
    let lines = cluster.lines(plan).await?;
    let calls: Vec<&Value> = lines.iter().filter(|line| line["type"] == "call_recorded").collect();
    let names: Vec<&str> = calls.iter().filter_map(|line| line["data"]["name"].as_str()).collect();
    ensure!(names == CALLS, "the recorded calls are {names:?}");
    let before = point.n - usize::from(!point.is_reported);
    let of_first = calls.iter().filter(|line| line["attempt"] == 1).count();
    ensure!(of_first == before, "{of_first} calls are of the killed worker");
    ensure!(!lines.iter().any(|line| line["type"] == "calls_discarded"), "a call was dropped");
    let models = u64::try_from(count(&CALLS, "model"))?;
    let tokens = state.summary().usage.tokens;
    ensure!(tokens == models * (USAGE.input + USAGE.output), "{tokens} tokens are counted");
    Ok(())
}

//! A worker killed before and after it reports each call of an agent: another one continues, and pays for nothing again.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use goalmill_common::config::Dialect;
use goalmill_common::id::PlanId;
use goalmill_demo::scripted::{Script, Scripted, ScriptedCall, ScriptedServer, ScriptedUsage};
use goalmill_tests::cluster::{Cluster, Options};
use goalmill_tests::proxy::Proxy;
use goalmill_tests::wait::until_some;
use serde_json::{Value, json};

use crate::machine;

const LIMIT: Duration = Duration::from_mins(2);
/// What the agent calls, in this order.
const CALLS: [&str; 10] =
    ["model", "write_file", "write_file", "model", "write_file", "model", "write_file", "model", "write_file", "model"];
/// Tokens that each call of the model takes.
const USAGE: ScriptedUsage = ScriptedUsage { input: 100, output: 10 };

/// Where a worker is killed.
#[derive(Clone, Copy, Debug)]
struct KillPoint {
    /// The number of the call.
    n: usize,
    /// Redis has its report.
    is_reported: bool,
}

impl KillPoint {
    fn all() -> impl Iterator<Item = Self> {
        (1..=CALLS.len()).flat_map(|n| [false, true].map(|is_reported| Self { n, is_reported }))
    }

    fn agent_type(self) -> String {
        format!("agent_{}{}", self.n, if self.is_reported { "_reported" } else { "" })
    }

    /// Requests that the model gets: the call in flight is made twice.
    fn requests(self) -> usize {
        let models = CALLS.iter().filter(|name| **name == "model").count();
        models + usize::from(CALLS[self.n - 1] == "model" && !self.is_reported)
    }
}

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

fn settings(server: &ScriptedServer, files: &str) -> String {
    let base_url = server.base_url(Dialect::Openai);
    let model = format!("[[models]]\nname = \"one\"\nmodel = \"one\"\nbase_url = {base_url:?}\nretries = 0\n");
    let agents = KillPoint::all().map(|point| {
        let agent_type = point.agent_type();
        format!("[worker.agents.{agent_type}]\nkind = \"llm\"\nsystem = \"You are {agent_type}.\"\ntools = [\"write_file\"]\n")
    });
    format!(
        "{model}input_usd_per_million = 1.0\noutput_usd_per_million = 1.0\n[worker]\nfiles_dir = {files:?}\n{}",
        agents.collect::<String>()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_at_any_point_of_ten_calls_is_followed_by_one_that_pays_for_nothing_again() -> Result<()> {
    let _machine = machine().await;
    let server = ScriptedServer::start(script()).await?;
    let files = tempfile::tempdir()?;
    let settings = settings(&server, &files.path().display().to_string());
    let options = Options { schedulers: 1, workers: 0, settings, ..Options::default() };
    let mut cluster = Cluster::start(options).await?;
    let mut plans = Vec::new();
    for point in KillPoint::all() {
        plans.push((point, kill(&mut cluster, point).await.with_context(|| format!("{point:?}"))?));
    }
    let agents: Vec<String> = KillPoint::all().map(KillPoint::agent_type).collect();
    let redis = cluster.redis.url();
    let worker = cluster.start_worker_of(&agents.join(","), &redis).await?;
    cluster.workers.push(worker);
    let mut requests = BTreeMap::<String, usize>::new();
    for (point, plan) in &plans {
        cluster.await_end(plan, LIMIT).await.with_context(|| format!("{point:?}"))?;
    }
    for seen in server.seen() {
        let of = agents.iter().find(|agent| seen.prompt.contains(&format!("You are {agent}.")));
        *requests.entry(of.context("a request of nobody")?.clone()).or_default() += 1;
    }
    for (point, plan) in &plans {
        check(&cluster, *point, plan).await.with_context(|| format!("{point:?}"))?;
        let asked = requests.get(&point.agent_type()).copied();
        ensure!(asked == Some(point.requests()), "{point:?}: the model was asked {asked:?} times");
    }
    Ok(())
}

/// Runs a plan on a worker of its own, and kills that at the point.
async fn kill(cluster: &mut Cluster, point: KillPoint) -> Result<PlanId> {
    let proxy = Proxy::start(cluster.redis.port()).await?;
    let agent_type = point.agent_type();
    let mut worker = cluster.start_worker_of(&agent_type, &proxy.url()).await?;
    worker.process.wait_ready(&worker.url, LIMIT).await?;
    proxy.hold_at(&format!("\"call\":{{\"n\":{},", point.n), !point.is_reported);
    let step = json!({"id": "a", "agent_type": agent_type, "description": "Write five files", "inputs": {}});
    let plan = cluster.submit(&agent_type, &json!({"name": agent_type, "steps": [step]}), LIMIT).await?;
    let held = until_some(LIMIT, async || (!proxy.is_armed()).then_some(())).await;
    held.with_context(|| format!("the worker made no such call: {}", worker.process.output()))?;
    if point.is_reported {
        let is_it = |line: &Value| line["type"] == "call_recorded" && line["data"]["n"] == point.n;
        cluster.wait_event(&plan, is_it).await?;
    }
    worker.process.kill9();
    Ok(plan)
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
    let models = u64::try_from(CALLS.iter().filter(|name| **name == "model").count())?;
    let tokens = state.summary().usage.tokens;
    ensure!(tokens == models * (USAGE.input + USAGE.output), "{tokens} tokens are counted");
    Ok(())
}

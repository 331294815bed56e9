//! A worker killed before and after it reports each call of an agent that submits plans: each plan runs once, and another
//! worker, under another scheduler, goes on with what it gave.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use goalmill_common::id::{PlanId, ShardId};
use goalmill_demo::scripted::{Script, Scripted, ScriptedCall, ScriptedServer};
use goalmill_tests::cluster::{Cluster, Options, SHARDS};
use serde_json::{Value, json};

use crate::kill_points::{KillPoint, LIMIT, USAGE, count, kill, requests_by_agent, settings};
use crate::machine;

/// What the agent calls, in this order.
const CALLS: [&str; 10] =
    ["model", "submit_plan", "model", "write_file", "write_file", "model", "helper", "model", "submit_plan", "model"];
/// A budget that all calls fit into.
const BUDGET: u64 = 1_000_000;

fn is_plan(name: &str) -> bool {
    matches!(name, "submit_plan" | "helper")
}

/// What the model answers: it knows where it is by the calls that it made.
fn script() -> Script {
    let reply = |when: &str, calls: Vec<(&str, Value)>| Scripted {
        when: vec![when.into()],
        usage: Some(USAGE),
        tool_calls: calls.into_iter().map(|(name, arguments)| ScriptedCall { name: name.into(), arguments }).collect(),
        ..Scripted::default()
    };
    let plan = |mark: &str| {
        json!({"name": mark, "steps": [
            {"id": "x", "description": "First", "agent_type": "helper", "inputs": {"mark": mark}},
            {"id": "y", "description": "Then", "agent_type": "helper", "dependencies": ["x"],
             "inputs": {"mark": "{{ steps.x.outputs.done }}"}},
        ]})
    };
    let file = |path: &str| ("write_file", json!({"path": path, "text": "x"}));
    Script::new([
        reply("mark-five", vec![("final_answer", json!({"result": "done"}))]),
        reply("mark-four", vec![("submit_plan", plan("mark-five"))]),
        reply("two.txt", vec![("helper", json!({"task": "Help", "inputs": {"mark": "mark-four"}}))]),
        reply("mark-one", vec![file("one.txt"), file("two.txt")]),
        reply("Lead them", vec![("submit_plan", plan("mark-one"))]),
    ])
}

/// The tools of each agent.
const TOOLS: &str = "[\"write_file\", { name = \"submit_plan\", agents = [\"helper\"] }, { agent = \"helper\" }]";
/// The agent that the plans of calls use.
const HELPER: &str = "[worker.agents.helper]\nkind = \"transform\"\nexpression = \"{'done': inputs.mark}\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_at_any_point_of_calls_with_plans_is_followed_by_one_that_runs_no_plan_twice() -> Result<()> {
    let _machine = machine().await;
    let server = ScriptedServer::start(script()).await?;
    let files = tempfile::tempdir()?;
    let settings = settings(&server, &files.path().display().to_string(), CALLS.len(), TOOLS, HELPER);
    let options = Options { schedulers: 1, workers: 0, settings, ..Options::default() };
    let mut cluster = Cluster::start(options).await?;
    let redis = cluster.redis.url();
    let helper = cluster.start_worker_of("helper", &redis).await?;
    cluster.workers.push(helper);
    let mut plans = Vec::new();
    for point in KillPoint::all(CALLS.len()) {
        plans.push((point, kill_at(&mut cluster, point).await.with_context(|| format!("{point:?}"))?));
    }
    // Whatever waits for a plan, or has just gone on, is taken up by another scheduler.
    cluster.replace_scheduler(0).await?;
    let agents: Vec<String> = KillPoint::all(CALLS.len()).map(KillPoint::agent_type).collect();
    let worker = cluster.start_worker_of(&agents.join(","), &redis).await?;
    cluster.workers.push(worker);
    for (point, plan) in &plans {
        cluster.await_end(plan, LIMIT).await.with_context(|| format!("{point:?}"))?;
    }
    let requests = requests_by_agent(&server, &agents)?;
    let mut children = BTreeSet::new();
    for (point, plan) in &plans {
        let own = check(&cluster, plan).await.with_context(|| format!("{point:?}"))?;
        ensure!(own.is_disjoint(&children), "{point:?}: it has a plan of another one");
        children.extend(own);
        let asked = requests.get(&point.agent_type()).copied();
        ensure!(asked == Some(point.requests(&CALLS)), "{point:?}: the model was asked {asked:?} times");
    }
    let mut known = 0;
    for shard in 0..SHARDS {
        known += cluster.broker.plans(ShardId(shard), u64::MAX, 1_000).await?.len();
    }
    ensure!(
        known == plans.len() + children.len(),
        "{known} plans have run, {} are known",
        plans.len() + children.len()
    );
    Ok(())
}

async fn kill_at(cluster: &mut Cluster, point: KillPoint) -> Result<PlanId> {
    let agent_type = point.agent_type();
    let what = if is_plan(CALLS[point.n - 1]) { "suspended" } else { "call" };
    let step = json!({"id": "a", "agent_type": agent_type, "description": "Lead them", "inputs": {}});
    let document = json!({"name": agent_type, "steps": [step], "budget": {"tokens": BUDGET}});
    let is_it = |line: &Value| match line["type"].as_str() {
        Some("call_recorded") => line["data"]["n"] == point.n,
        Some("step_suspended") => line["data"]["call"]["n"] == point.n,
        _ => false,
    };
    kill(cluster, point, what, &document, is_it).await
}

/// Each call is recorded once, in the right order, and what it took counts once. Returns the plans of its calls, each of
/// which has run once.
async fn check(cluster: &Cluster, plan: &PlanId) -> Result<BTreeSet<PlanId>> {
    let state = cluster.verify_completed(plan).await?;
    let lines = cluster.lines(plan).await?;
    let call = |line: &Value| match line["type"].as_str() {
        Some("call_recorded") => Some(line["data"].clone()),
        Some("step_resumed") => Some(line["data"]["call"].clone()),
        _ => None,
    };
    let calls: Vec<Value> = lines.iter().filter_map(call).collect();
    let names: Vec<&str> = calls.iter().filter_map(|call| call["name"].as_str()).collect();
    ensure!(names == CALLS, "the recorded calls are {names:?}");
    let numbers: Vec<u64> = calls.iter().filter_map(|call| call["n"].as_u64()).collect();
    ensure!(numbers == (1..=10).collect::<Vec<_>>(), "their numbers are {numbers:?}");
    let waits = lines.iter().filter(|line| line["type"] == "step_suspended").count();
    ensure!(waits == CALLS.iter().filter(|name| is_plan(name)).count(), "{waits} calls have waited");
    ensure!(!lines.iter().any(|line| line["type"] == "calls_discarded"), "a call was dropped");
    let tokens = state.summary().usage.tokens;
    let expected = u64::try_from(count(&CALLS, "model"))? * (USAGE.input + USAGE.output);
    ensure!(tokens == expected, "{tokens} tokens are counted");
    let mut children = BTreeSet::new();
    for call in calls.iter().filter(|call| call["name"].as_str().is_some_and(is_plan)) {
        let outcome = &call["outcome"];
        ensure!(outcome["status"] == "completed" && outcome["outputs"].to_string().contains("mark-"), "{outcome}");
        let id: PlanId = outcome["plan"].as_str().context("it names its plan")?.into();
        let child = cluster.verify_completed(&id).await?;
        ensure!(child.parent().is_some_and(|parent| parent.plan == *plan), "{id} has another parent");
        ensure!(children.insert(id), "two calls have one plan");
    }
    Ok(children)
}

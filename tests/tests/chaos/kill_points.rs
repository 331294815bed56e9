//! The points at which a worker is killed during the calls of an agent, and what both tests of them do alike.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use goalmill_common::config::Dialect;
use goalmill_common::id::PlanId;
use goalmill_demo::scripted::{ScriptedServer, ScriptedUsage};
use goalmill_tests::cluster::Cluster;
use goalmill_tests::proxy::Proxy;
use goalmill_tests::wait::until_some;
use serde_json::Value;

pub(crate) const LIMIT: Duration = Duration::from_mins(2);
/// Tokens that each call of the model takes.
pub(crate) const USAGE: ScriptedUsage = ScriptedUsage { input: 100, output: 10 };

/// Where a worker is killed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KillPoint {
    /// The number of the call.
    pub n: usize,
    /// Redis has its report.
    pub is_reported: bool,
}

impl KillPoint {
    /// Before and after the report of each of so many calls.
    pub(crate) fn all(calls: usize) -> impl Iterator<Item = Self> {
        (1..=calls).flat_map(|n| [false, true].map(|is_reported| Self { n, is_reported }))
    }

    /// An agent type of its own.
    pub(crate) fn agent_type(self) -> String {
        format!("agent_{}{}", self.n, if self.is_reported { "_reported" } else { "" })
    }

    /// Requests that the model gets: the call in flight is made twice.
    pub(crate) fn requests(self, calls: &[&str]) -> usize {
        count(calls, "model") + usize::from(calls[self.n - 1] == "model" && !self.is_reported)
    }
}

/// How many of the calls have this name.
pub(crate) fn count(calls: &[&str], name: &str) -> usize {
    calls.iter().filter(|call| **call == name).count()
}

/// Settings with the scripted model and an agent for each point.
///
/// - `tools`: of each agent, as TOML.
/// - `others`: further agents, as TOML.
pub(crate) fn settings(server: &ScriptedServer, files: &str, calls: usize, tools: &str, others: &str) -> String {
    let base_url = server.base_url(Dialect::Openai);
    let model = format!("[[models]]\nname = \"one\"\nmodel = \"one\"\nbase_url = {base_url:?}\nretries = 0\n");
    let agents = KillPoint::all(calls).map(|point| {
        let agent_type = point.agent_type();
        format!("[worker.agents.{agent_type}]\nkind = \"llm\"\nsystem = \"You are {agent_type}.\"\ntools = {tools}\n")
    });
    format!(
        "{model}input_usd_per_million = 1.0\noutput_usd_per_million = 1.0\n[worker]\nfiles_dir = {files:?}\n{others}{}",
        agents.collect::<String>()
    )
}

/// Requests that the model got, by agent type.
pub(crate) fn requests_by_agent(server: &ScriptedServer, agents: &[String]) -> Result<BTreeMap<String, usize>> {
    let mut requests = BTreeMap::new();
    for seen in server.seen() {
        let of = agents.iter().find(|agent| seen.prompt.contains(&format!("You are {agent}.")));
        *requests.entry(of.context("a request of nobody")?.clone()).or_default() += 1;
    }
    Ok(requests)
}

/// Runs a plan on a worker of its own, and kills that at the point.
///
/// - `what`: the field of the report that names the call.
/// - `plan`: the plan; its step has the agent type of the point.
/// - `is_it`: whether an event records the call.
pub(crate) async fn kill(
    cluster: &mut Cluster,
    point: KillPoint,
    what: &str,
    plan: &Value,
    is_it: impl Fn(&Value) -> bool,
) -> Result<PlanId> {
    let proxy = Proxy::start(cluster.redis.port()).await?;
    let agent_type = point.agent_type();
    let mut worker = cluster.start_worker_of(&agent_type, &proxy.url()).await?;
    worker.process.wait_ready(&worker.url, LIMIT).await?;
    proxy.hold_at(&format!("\"{what}\":{{\"n\":{},", point.n), !point.is_reported);
    let plan = cluster.submit(&agent_type, plan, LIMIT).await?;
    let held = until_some(LIMIT, async || (!proxy.is_armed()).then_some(())).await;
    held.with_context(|| format!("the worker made no such call: {}", worker.process.output()))?;
    if point.is_reported {
        cluster.wait_event(&plan, is_it).await?;
    }
    worker.process.kill9();
    Ok(plan)
}

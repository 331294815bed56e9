//! Hostile plans, goals, answers, entries and keys, sent to a running installation that has healthy plans to run: those
//! all end, `/livez` answers within a second, memory stays bounded, and every hostile input gets its documented answer.

mod agent;
mod answers;
mod entries;
mod keys;
mod plans;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use goalmill_common::id::PlanId;
use goalmill_tests::cluster::{Cluster, Options};
use goalmill_tests::wait::until_some;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::machine;

/// Healthy plans beside the hostile input.
const HEALTHY: usize = 500;
const LIMIT: Duration = Duration::from_mins(2);
/// Resident memory of each process, in KiB.
const MEMORY_KIB_MAX: u64 = 512 << 10;
/// Longest wait for `/livez` that a busy machine may cause; the test prints what it was, some milliseconds mostly.
const LIVEZ_MS_MAX: u64 = 20_000;

/// What must become of a hostile input.
#[derive(Clone, Debug)]
pub(super) enum Expect {
    /// A problem with this status; one of these codes stands somewhere in it.
    Refused(u16, &'static [&'static str]),
    /// It is a plan like any other: it ends with one of these codes in its log, or with `""` without a failure.
    Ends(&'static [&'static str]),
}

/// One hostile document, sent to `path`.
pub(super) struct Hostile {
    pub(super) name: &'static str,
    pub(super) path: &'static str,
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
    pub(super) expect: Expect,
}

impl Hostile {
    pub(super) fn plan(name: &'static str, plan: &Value, expect: Expect) -> Self {
        Self::text(name, "/v1/plans", "application/json", plan.to_string(), expect)
    }

    pub(super) fn text(
        name: &'static str,
        path: &'static str,
        content_type: &'static str,
        body: impl Into<Vec<u8>>,
        expect: Expect,
    ) -> Self {
        Self { name, path, content_type, body: body.into(), expect }
    }
}

/// What was found wrong, by the name of the input.
type Found = Vec<String>;

#[tokio::test(flavor = "multi_thread")]
async fn hostile_input_gets_its_answer_and_healthy_plans_end() -> Result<()> {
    let _machine = machine().await;
    let agent = agent::serve().await?;
    let settings = answers::settings(agent);
    let cluster = Cluster::start(Options { schedulers: 1, workers: 2, settings, ..Options::default() }).await?;
    let watch = Watch::start(&cluster);
    let mut healthy = Vec::new();
    for n in 0..HEALTHY {
        healthy.push(cluster.submit(&format!("healthy-{n}"), &healthy_plan(), LIMIT).await?);
        if n == HEALTHY / 10 {
            send_all(&cluster).await?;
        }
    }
    for plan in &healthy {
        cluster.await_end(plan, LIMIT).await?;
        ensure!(cluster.broker.summary(plan).await?["status"] == "completed", "{plan} has not completed");
    }
    let after = cluster.submit("after", &healthy_plan(), LIMIT).await?;
    cluster.await_end(&after, LIMIT).await?;
    watch.end(&cluster)
}

fn healthy_plan() -> Value {
    json!({"steps": [
        {"id": "a", "agent_type": "echo", "inputs": {"n": 1}},
        {"id": "b", "agent_type": "sleep", "dependencies": ["a"], "inputs": {"seconds": 0.01}},
        {"id": "c", "kind": "finish", "dependencies": ["b"], "inputs": {"n": "{{ steps.a.outputs.n + 1 }}"}},
    ]})
}

/// Sends every hostile input, and fails with all that was not answered as it should.
async fn send_all(cluster: &Cluster) -> Result<()> {
    let mut found = Found::new();
    let documents: Vec<Hostile> = plans::all().into_iter().chain(answers::all()).collect();
    let count = documents.len() + keys::COUNT + entries::COUNT;
    ensure!(count >= 60, "{count} hostile inputs");
    keys::break_all(cluster).await?;
    let mut ends: BTreeMap<&str, (PlanId, &[&str])> = BTreeMap::new();
    for hostile in &documents {
        match (send(cluster, hostile).await, &hostile.expect) {
            (Ok((202, answer)), Expect::Ends(codes)) => {
                let plan = answer["plan_id"].as_str().context("an accepted plan has an id")?;
                ends.insert(hostile.name, (plan.into(), codes));
            }
            (Ok((status, answer)), Expect::Refused(wanted, codes)) if status == *wanted => {
                let text = answer.to_string();
                if !codes.iter().any(|code| text.contains(code)) {
                    found.push(format!("{}: none of {codes:?} in {}", hostile.name, short(&text)));
                }
            }
            (Ok((status, answer)), wanted) => {
                found.push(format!("{}: {status} {} instead of {wanted:?}", hostile.name, short(&answer.to_string())));
            }
            (Err(error), _) => found.push(format!("{}: {error}", hostile.name)),
        }
    }
    found.extend(entries::send_all(cluster).await?);
    for (name, (plan, codes)) in ends {
        found.extend(check_end(cluster, name, &plan, codes).await);
    }
    ensure!(found.is_empty(), "{} of {count}:\n{}\n{}", found.len(), found.join("\n"), cluster.log_tails());
    Ok(())
}

async fn send(cluster: &Cluster, hostile: &Hostile) -> Result<(u16, Value)> {
    let url = format!("{}{}", cluster.schedulers[0].url, hostile.path);
    let request = cluster.http.post(url).header("content-type", hostile.content_type).body(hostile.body.clone());
    let answer = request.timeout(LIMIT).send().await?;
    let status = answer.status().as_u16();
    Ok((status, answer.json().await.unwrap_or_default()))
}

async fn check_end(cluster: &Cluster, name: &str, plan: &PlanId, codes: &[&str]) -> Option<String> {
    if let Err(error) = cluster.await_end(plan, LIMIT).await {
        return Some(format!("{name}: {}", short(&error.to_string())));
    }
    let lines = match cluster.lines(plan).await {
        Ok(lines) => lines,
        Err(error) => return Some(format!("{name}: its log cannot be read: {error}")),
    };
    let code = |line: &Value| line["data"]["failure"]["code"].as_str().map(str::to_owned);
    let seen: Vec<String> = lines.iter().filter_map(code).collect();
    let fits = codes.iter().any(|wanted| match *wanted {
        "" => seen.is_empty(),
        wanted => seen.iter().any(|code| code == wanted),
    });
    (!fits).then(|| format!("{name}: ended with {seen:?} instead of one of {codes:?}"))
}

fn short(text: &str) -> String {
    text.chars().take(300).collect()
}

/// Asks `/livez` ten times a second, and remembers the longest wait.
struct Watch {
    stop: Arc<AtomicBool>,
    worst_ms: Arc<AtomicU64>,
}

impl Watch {
    fn start(cluster: &Cluster) -> Self {
        let watch = Self { stop: Arc::default(), worst_ms: Arc::default() };
        let (stop, worst_ms) = (watch.stop.clone(), watch.worst_ms.clone());
        let (http, url) = (cluster.http.clone(), format!("{}/livez", cluster.schedulers[0].url));
        #[expect(clippy::disallowed_methods, reason = "it ends when it is told, and the test does not need its end")]
        tokio::task::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let lives = http.get(&url).timeout(LIMIT).send().await.is_ok_and(|answer| answer.status() == 200);
                let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                worst_ms.fetch_max(if lives { took } else { u64::MAX }, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        watch
    }

    fn end(self, cluster: &Cluster) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let worst_ms = self.worst_ms.load(Ordering::Relaxed);
        eprintln!("the longest wait for /livez was {worst_ms} ms");
        ensure!(worst_ms <= LIVEZ_MS_MAX, "/livez took {worst_ms} ms");
        for node in cluster.schedulers.iter().chain(&cluster.workers) {
            let peak = peak_kib(node.process.pid())?;
            ensure!(peak <= MEMORY_KIB_MAX, "{} took {peak} KiB", node.id);
        }
        Ok(())
    }
}

/// The most memory that a process ever had, in KiB.
fn peak_kib(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("the kernel counts memory")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// Waits for the answer to a submission by the stream.
pub(super) async fn answer(cluster: &Cluster, id: &str) -> Option<Value> {
    let text = until_some(LIMIT, async || cluster.broker.answers(&[id.to_owned()]).await.ok()?.pop().flatten()).await?;
    serde_json::from_str(&text).ok()
}

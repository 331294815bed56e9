//! Planned failovers under load: what was accepted is not lost where writes need a replica, and work goes on at once.
//!
//! `GOALMILL_CHAOS_FAILOVERS` says how many there are, one unless it is set, and `GOALMILL_CHAOS_REPLICAS` how many
//! replicas, two unless it is set; with one, writes need none, because Redis takes none for ten seconds otherwise.
//! `GOALMILL_CHAOS_SYNC_DELAY` is the servers' `repl-diskless-sync-delay` in seconds, 0 unless it is set; 5 is the default
//! of Redis. A table tells the silence after each failover:
//!
//!     GOALMILL_CHAOS_FAILOVERS=20 cargo test -p goalmill-tests --test chaos failovers -- --nocapture

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use goalmill_broker::Broker;
use goalmill_broker::redis::connect;
use goalmill_common::clock::{Clock, parse_rfc3339};
use goalmill_common::config::{RedisSettings, Settings};
use goalmill_common::id::{PlanId, ShardId};
use goalmill_tests::cluster::{Cluster, Options};
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::sentinel::Sentinel;
use goalmill_tests::wait::until_some;
use goalmill_tests::workload::sleeps;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::at_rest::verify_counts_at_rest;
use crate::{machine, number};

/// A Sentinel that was held up by a busy machine does nothing for half a minute ("tilt").
const LIMIT: Duration = Duration::from_mins(4);
/// Clients that submit one plan after the other.
const CLIENTS: usize = 4;
/// What a client waits for between two plans, and how long each plan takes at least.
const PAUSE: Duration = Duration::from_millis(20);
/// What a plan's steps take, in seconds.
const SECONDS: f64 = 0.02;
/// Plans that end between two failovers.
const BETWEEN: usize = 50;

#[tokio::test(flavor = "multi_thread")]
async fn planned_failovers_lose_no_accepted_plan_where_writes_need_a_replica() -> Result<()> {
    let _machine = machine().await;
    let replicas = usize::try_from(number("GOALMILL_CHAOS_REPLICAS").unwrap_or(2))?;
    let needs_replicas = replicas > 1;
    let told = run(replicas + 1, needs_replicas).await?;
    told.print();
    ensure!(told.taken.is_empty(), "shards of a scheduler that lived were taken: {:#?}", told.taken);
    // Nothing is promised where writes need no replica.
    ensure!(!needs_replicas || told.lost.is_empty(), "{} of {} plans are lost", told.lost.len(), told.accepted);
    Ok(())
}

/// What came of a run.
#[derive(Debug)]
struct Told {
    accepted: usize,
    lost: BTreeSet<PlanId>,
    /// What each failover stopped.
    silences: Vec<Silence>,
    /// Answers other than 202, by code.
    refused: BTreeMap<String, usize>,
    /// Lines of the logs: a scheduler took a shard of one that lived.
    taken: Vec<String>,
    /// How often a scheduler said that the store has lost what it had confirmed.
    went_back: usize,
}

/// What a failover stopped, in milliseconds.
#[derive(Debug)]
struct Silence {
    /// From the request to the first write that the new primary takes.
    redis: u64,
    /// The longest time without a commit.
    commits: u64,
    /// The longest time without a plan that ended.
    plans: u64,
}

impl Told {
    fn print(&self) {
        let Self { accepted, lost, silences, refused, taken, went_back } = self;
        let (lost, taken) = (lost.len(), taken.len());
        eprintln!(
            "{accepted} accepted, {lost} lost, {taken} shards taken from a living owner, {went_back} times \
             STORE_WENT_BACK, refused {refused:?}"
        );
        eprintln!("| failover | Redis takes no write, ms | no commit, ms | no plan ends, ms |\n|---|---|---|---|");
        for (n, Silence { redis, commits, plans }) in (1..).zip(silences) {
            eprintln!("| {n} | {redis} | {commits} | {plans} |");
        }
        for (name, share) in [("median", 50), ("p95", 95), ("max", 100)] {
            let at = |of: fn(&Silence) -> u64| {
                let mut all: Vec<u64> = silences.iter().map(of).collect();
                all.sort_unstable();
                all[(all.len() * share).div_ceil(100).saturating_sub(1)]
            };
            eprintln!("| {name} | {} | {} | {} |", at(|s| s.redis), at(|s| s.commits), at(|s| s.plans));
        }
    }
}

/// A failover that was asked for.
struct Switch {
    /// When, in Unix milliseconds.
    at_ms: u64,
    /// When the new primary took a write.
    writable_ms: u64,
}

/// Several servers, of which one is the primary, and a Sentinel over them.
struct Service {
    /// The replicas at the beginning, kept running.
    _servers: Vec<RedisServer>,
    sentinel: Arc<Sentinel>,
    /// Wherever the primary is.
    broker: Arc<dyn Broker>,
}

/// Runs planned failovers under load over so many servers.
async fn run(servers: usize, needs_replicas: bool) -> Result<Told> {
    let (primary, service) = Service::start(servers, needs_replicas).await?;
    let options = Options { workers: 2, through: Some(service.sentinel.url()), ..Options::default() };
    let mut cluster = Cluster::over(primary, options).await?;
    cluster.broker = service.broker.clone();
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let url = cluster.schedulers[client % cluster.schedulers.len()].url.clone();
        clients.spawn(submit(cluster.http.clone(), url, client, stop.clone()));
    }
    let logs = Logs::begin(&cluster).await?;
    let mut switched = Vec::new();
    for _ in 0..number("GOALMILL_CHAOS_FAILOVERS").unwrap_or(1) {
        service.await_work(&cluster).await?;
        switched.push(service.fail_over(&cluster, servers).await?);
    }
    service.await_work(&cluster).await?;
    stop.store(true, Ordering::Relaxed);
    let (mut accepted, mut refused) = (Vec::new(), BTreeMap::new());
    while let Some(sent) = clients.join_next().await {
        let sent = sent?;
        accepted.extend(sent.accepted);
        for (code, count) in sent.refused {
            *refused.entry(code).or_default() += count;
        }
    }
    cluster.wait_ready().await?;
    let primary = format!("redis://127.0.0.1:{}", service.sentinel.primary().await?);
    let (mut lost, mut times) = (BTreeSet::new(), Times::default());
    for plan in &accepted {
        match service.end(plan).await.with_context(|| format!("plan {plan}: {}", cluster.log_tails()))? {
            Some(end) => {
                times.ends.push(end);
                times.commits.extend(service.commits(plan).await?);
            }
            None => drop(lost.insert(plan.clone())),
        }
    }
    verify_counts_at_rest(&cluster, &primary).await?;
    let (silences, taken) = (silences(times, &switched), logs.taken(&cluster));
    let went_back = logs.lines(&cluster).iter().filter(|(_, line)| line.contains("STORE_WENT_BACK")).count();
    Ok(Told { accepted: accepted.len(), lost, silences, refused, taken, went_back })
}

/// The logs of the schedulers before the first failover.
struct Logs {
    owners: Vec<String>,
    lengths: Vec<usize>,
}

impl Logs {
    async fn begin(cluster: &Cluster) -> Result<Self> {
        let mut owners = Vec::new();
        for shard in (0..Settings::default().scheduler.shards).map(ShardId) {
            owners.push(cluster.broker.owner(shard).await?.context("each shard has an owner")?.holder);
        }
        let lengths = cluster.schedulers.iter().map(|node| node.process.output().len()).collect();
        Ok(Self { owners, lengths })
    }

    /// What the schedulers have said since, by their ids.
    fn lines(&self, cluster: &Cluster) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        for (node, length) in cluster.schedulers.iter().zip(&self.lengths) {
            let log = node.process.output();
            lines.extend(log[*length..].lines().map(|line| (node.id.clone(), line.to_owned())));
        }
        lines
    }

    /// The lines that say that a scheduler has taken a shard of another one since.
    fn taken(&self, cluster: &Cluster) -> Vec<String> {
        let is_taken = |(id, line): &(String, String)| {
            let mut of_others = (0..).zip(&self.owners).filter(|(_, owner)| *owner != id);
            of_others.any(|(shard, _)| line.contains(&format!("shard {shard} is ours")))
        };
        self.lines(cluster).iter().filter(|said| is_taken(said)).map(|(id, line)| format!("{id}: {line}")).collect()
    }
}

impl Service {
    async fn start(count: usize, needs_replicas: bool) -> Result<(RedisServer, Self)> {
        let primary = RedisServer::start().await?;
        let mut servers = Vec::new();
        for _ in 1..count {
            let replica = RedisServer::start().await?;
            let mut line = replica.connection().await?;
            redis::cmd("REPLICAOF").arg("127.0.0.1").arg(primary.port()).query_async::<()>(&mut line).await?;
            servers.push(replica);
        }
        for server in servers.iter().chain([&primary]) {
            let mut line = server.connection().await?;
            let mut set = redis::cmd("CONFIG");
            set.arg("SET").arg("min-replicas-to-write").arg(u8::from(needs_replicas));
            set.arg("min-replicas-max-lag").arg(10).arg("repl-backlog-size").arg("64mb");
            // A replica that was ahead of the promoted one is copied anew, and the copy would wait for others.
            let delay = number("GOALMILL_CHAOS_SYNC_DELAY").unwrap_or(0);
            set.arg("repl-diskless-sync-delay").arg(delay).query_async::<()>(&mut line).await?;
        }
        let sentinel = Arc::new(Sentinel::over(&primary).await?);
        let through = RedisSettings { url: sentinel.url(), ..primary.settings() };
        let broker = connect(&through).await?;
        let service = Self { _servers: servers, sentinel, broker };
        service.await_replicas(count - 1).await?;
        Ok((primary, service))
    }

    /// Waits until the primary has all its replicas, and they follow.
    async fn await_replicas(&self, count: usize) -> Result<()> {
        let linked = until_some(LIMIT, async || (self.sentinel.linked().await.ok()? >= count).then_some(()));
        linked.await.with_context(|| format!("the replicas do not follow: {}", self.sentinel.log_tails()))
    }

    /// Waits until more plans have ended.
    async fn await_work(&self, cluster: &Cluster) -> Result<()> {
        let key = format!("probe-{}", goalmill_common::random::Random::system().token());
        for n in 0..BETWEEN.div_ceil(CLIENTS) {
            let key = format!("{key}-{n}");
            // It may be lost like any other: what counts is that the store works.
            let plan = cluster.submit(&key, &sleeps(&key, 1, 0.0), LIMIT).await?;
            let ended = until_some(LIMIT, async || self.end_now(&plan).await).await;
            ended.with_context(|| format!("plan {plan} does not end: {}", cluster.log_tails()))?;
        }
        Ok(())
    }

    /// Has a replica promoted, and waits until it takes writes.
    async fn fail_over(&self, cluster: &Cluster, servers: usize) -> Result<Switch> {
        self.await_replicas(servers - 1).await?;
        let before = self.sentinel.primary().await?;
        let mut at_ms = 0;
        let begun = until_some(LIMIT, async || {
            at_ms = Clock::system().now_ms();
            self.sentinel.fail_over().await.ok()
        });
        begun.await.with_context(|| format!("no failover began: {}", self.sentinel.log_tails()))?;
        let written = until_some(LIMIT, async || {
            let primary = self.sentinel.primary().await.ok().filter(|primary| *primary != before)?;
            write_to(primary).await.ok()
        });
        written.await.with_context(|| format!("no switch: {}\n{}", self.sentinel.log_tails(), cluster.log_tails()))?;
        Ok(Switch { at_ms, writable_ms: Clock::system().now_ms() })
    }

    /// When a plan ended, in Unix milliseconds; `None` when it is not there.
    async fn end(&self, plan: &PlanId) -> Result<Option<u64>> {
        until_some(LIMIT, async || self.end_now(plan).await).await.context("it does not end")
    }

    /// The times of the entries of a plan's log, in Unix milliseconds.
    async fn commits(&self, plan: &PlanId) -> Result<Vec<u64>> {
        let entries = self.broker.log(plan, 0, 1_000).await?;
        entries.iter().map(|entry| parse_rfc3339(&entry.time).context("an entry has a time")).collect()
    }

    /// The same at this moment; `None` while the plan runs or the store cannot be asked.
    async fn end_now(&self, plan: &PlanId) -> Option<Option<u64>> {
        let summary = self.broker.summary(plan).await.ok()?;
        if summary.is_empty() {
            return Some(None);
        }
        summary.get("finished").and_then(|time| parse_rfc3339(time)).map(Some)
    }
}

/// What came of a client's submissions.
#[derive(Default)]
struct Sent {
    accepted: Vec<PlanId>,
    refused: BTreeMap<String, usize>,
}

/// Submits one plan after the other, each once, until stopped.
async fn submit(http: reqwest::Client, url: String, client: usize, stop: Arc<AtomicBool>) -> Sent {
    let mut sent = Sent::default();
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("client-{client}-{n}");
        let request = http.post(format!("{url}/v1/plans")).header("idempotency-key", &key);
        let code = match request.json(&sleeps(&key, 2, SECONDS)).send().await {
            Ok(answer) => {
                let status = answer.status().as_u16();
                let body: Value = answer.json().await.unwrap_or_default();
                match body["plan_id"].as_str().filter(|_| status == 202) {
                    Some(plan) => {
                        sent.accepted.push(plan.into());
                        None
                    }
                    None => Some(format!("{status} {}", body["code"].as_str().unwrap_or_default())),
                }
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(code) = code {
            *sent.refused.entry(code).or_default() += 1;
        }
        tokio::time::sleep(PAUSE).await;
    }
    sent
}

/// Whether a server takes a write now.
async fn write_to(port: u16) -> Result<()> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
    let mut line = client.get_multiplexed_async_connection().await?;
    Ok(redis::cmd("SET").arg("failovers:probe").arg(1).query_async(&mut line).await?)
}

/// When something happened, in Unix milliseconds.
#[derive(Default)]
struct Times {
    commits: Vec<u64>,
    ends: Vec<u64>,
}

/// What each of these failovers stopped, up to the next one: a silence counts where it ends.
fn silences(times: Times, switched: &[Switch]) -> Vec<Silence> {
    let Times { mut commits, mut ends } = times;
    commits.sort_unstable();
    ends.sort_unstable();
    let until = |place: usize| switched.get(place + 1).map_or(u64::MAX, |next| next.at_ms);
    let silence = |(place, Switch { at_ms, writable_ms }): (usize, &Switch)| {
        let longest = |times: &[u64]| {
            let within = times.windows(2).filter(|pair| pair[1] > *at_ms && pair[1] <= until(place));
            within.map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
        };
        Silence { redis: writable_ms - at_ms, commits: longest(&commits), plans: longest(&ends) }
    };
    switched.iter().enumerate().map(silence).collect()
}

//! Runs one seed: draws a world, injects faults for a while, and then expects every plan to end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Once};
use std::time::Duration;

use goalmill_broker::Broker;
use goalmill_common::config::Settings;
use goalmill_common::id::ShardId;
use goalmill_tests::audit::{Expect, audit};
use goalmill_tests::installation::read_log;
use tokio::task::JoinHandle;

use crate::bugs::{self, Bug};
use crate::cluster::Cluster;
use crate::environment::{Environment, NetworkBug};
use crate::faults::Faults;
use crate::rng::Rng;
use crate::users::{self, SubmissionResult};
use crate::{nemesis, rogue};

/// How long faults are injected, in milliseconds of virtual time.
pub const FAULTS_MS: u64 = 25_000;
/// How long all plans may take after that.
const QUIET_MS: u64 = 400_000;
/// How long after the end of faults timers may be late, and by how much.
const SETTLE_MS: u64 = 12_000;
const OVERDUE_MS: u64 = 6_000;
/// How long the rogue worker continues after the end of faults.
const ROGUE_MS: u64 = 30_000;

/// The bug of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedBug {
    None,
    Engine(Bug),
    Network(NetworkBug),
}

impl InjectedBug {
    fn of_engine(self) -> Option<Bug> {
        if let Self::Engine(bug) = self { Some(bug) } else { None }
    }

    pub fn of_network(self) -> Option<NetworkBug> {
        if let Self::Network(bug) = self { Some(bug) } else { None }
    }
}

/// The result of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunReport {
    pub hash: u64,
    pub calls: u64,
    /// Number of events, commits and faults by kind.
    pub counts: BTreeMap<&'static str, u64>,
    pub virtual_ms: u64,
    pub faults: String,
    /// Violated invariants.
    pub found: Vec<String>,
}

/// Runs one seed.
pub type Simulation = fn(u64, InjectedBug, bool) -> RunReport;

/// Runs one seed in virtual time on this thread.
pub fn run(seed: u64, bug: InjectedBug, verbose: bool) -> RunReport {
    simulate(bug, world(seed, bug, verbose))
}

/// Runs a world in virtual time on this thread.
pub fn simulate(bug: InjectedBug, world: impl Future<Output = RunReport>) -> RunReport {
    catch_panics();
    PANICS.with_borrow_mut(|panics| *panics = Some(Vec::new()));
    bugs::switch(bug.of_engine());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without I/O always starts");
    let mut shown = runtime.block_on(world);
    drop(runtime);
    bugs::switch(None);
    let panics = PANICS.with_borrow_mut(Option::take).unwrap_or_default();
    shown.found.extend(panics.into_iter().map(|panic| format!("something panicked: {panic}")));
    shown
}

async fn world(seed: u64, bug: InjectedBug, verbose: bool) -> RunReport {
    let rng = Rng::new(seed);
    let faults = Faults::draw(&rng);
    let env = Arc::new(Environment::new(&rng, faults.clone(), bug.of_network(), verbose));
    let shards = u16::try_from(rng.between(1, 3)).expect("a small number");
    let mut cluster = Cluster::new(&env, &rng, settings(&rng, shards));
    cluster.start_some(&rng);
    let mut submissions = Vec::new();
    for number in 0..rng.between(2, 6) {
        let begin_ms = rng.between(0, FAULTS_MS * 3 / 4);
        submissions.push(tokio::spawn(users::submit(env.clone(), rng.split(), shards, number, begin_ms)));
    }
    // Its numbers are its own, so that the other choices of a seed stay what they were.
    tokio::spawn(users::call_back(env.clone(), Rng::new(u64::from(shards) + 23), FAULTS_MS + ROGUE_MS));
    if faults.people {
        tokio::spawn(users::send_random_requests(env.clone(), rng.split(), FAULTS_MS));
    }
    if faults.rogue {
        tokio::spawn(rogue::run(env.clone(), rng.between(0, FAULTS_MS / 2), FAULTS_MS + ROGUE_MS));
    }
    let of_nemesis = rng.split();
    tokio::spawn(users::send_events(env.clone(), rng.split(), FAULTS_MS));
    nemesis::run(&env, &mut cluster, &of_nemesis, shards, FAULTS_MS).await;
    finish(&env, &mut cluster, shards, submissions).await;
    report(&env)
}

/// Ends the faults, expects every plan to end, and checks what there is.
pub async fn finish(
    env: &Environment,
    cluster: &mut Cluster,
    shards: u16,
    submissions: Vec<JoinHandle<SubmissionResult>>,
) {
    env.calm();
    cluster.calm();
    cluster.note("calm");
    settle(env, shards, &submissions).await;
    check_submissions(env, submissions).await;
    check_logs(env).await;
}

pub fn report(env: &Environment) -> RunReport {
    let hash = env.trace().hash();
    let auditor = env.auditor();
    RunReport {
        hash,
        calls: env.calls(),
        counts: auditor.counts.clone(),
        virtual_ms: env.at_ms(),
        faults: format!("{:?}", env.faults),
        found: auditor.found.clone(),
    }
}

pub fn settings(rng: &Rng, shards: u16) -> Settings {
    let mut settings = Settings::default();
    // No scheduler of the simulation has an API, which would be the address of callbacks.
    settings.api.callback_url = "http://goalmill.example".into();
    settings.api.listen = String::new();
    settings.metrics.listen = String::new();
    settings.redis.block_ms = 1_000;
    settings.scheduler.shards = shards;
    settings.scheduler.heartbeat_ms = 600;
    settings.scheduler.shard_lease_ms = 2_500;
    settings.scheduler.window_min = *rng.pick(&[1, 3, 64]);
    settings.scheduler.task_lease_ms = 4_000;
    settings.scheduler.reclaim_ms = 600;
    settings.scheduler.park_ms = 400;
    settings.scheduler.trim_ms = 2_000;
    // The virtual clock stands still while anything is awake.
    settings.scheduler.spin_us = 0;
    settings.scheduler.inbox_batch = *rng.pick(&[1, 10, 1_000]);
    settings.worker.heartbeat_ms = 1_500;
    settings.worker.drain_ms = 2_000;
    settings.worker.lease_margin_ms = 1_000;
    settings.limits.approval_ms_max = 8_000;
    settings.limits.queue_ms_max = 20_000;
    settings.limits.plan_ms_max = 120_000;
    assert_eq!(settings.violations(), Vec::<String>::new());
    settings
}

/// Waits until everything has come to its end, or says what has not.
async fn settle(env: &Environment, shards: u16, submissions: &[JoinHandle<SubmissionResult>]) {
    let calm_ms = env.at_ms();
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let open = open(env, shards, submissions).await;
        if open.is_empty() {
            return;
        }
        let quiet_ms = env.at_ms() - calm_ms;
        if quiet_ms > SETTLE_MS {
            env.auditor().check_overdue(env.clock.now_ms(), OVERDUE_MS);
        }
        let gave_up = !env.auditor().found.is_empty();
        if quiet_ms > QUIET_MS || gave_up {
            let mut auditor = env.auditor();
            if !gave_up {
                open.into_iter().for_each(|what| auditor.report(format!("[L1] {what} after {quiet_ms} ms of quiet")));
            }
            return;
        }
    }
}

/// What is not done yet.
async fn open(env: &Environment, shards: u16, submissions: &[JoinHandle<SubmissionResult>]) -> Vec<String> {
    let broker = &env.broker;
    let mut open = Vec::new();
    let waiting = submissions.iter().filter(|submission| !submission.is_finished()).count();
    if waiting > 0 {
        open.push(format!("{waiting} plans have not ended"));
    }
    let mut reader = broker.reader().await.expect("looking never fails");
    for shard in (0..shards).map(ShardId) {
        let active = broker.active(shard).await.expect("looking never fails");
        if !active.is_empty() {
            open.push(format!("{active:?} are active"));
        }
        let cursor = broker.cursor(shard).await.expect("looking never fails");
        let unread = reader.inbox(shard, &cursor, 1, 0).await.expect("looking never fails");
        if !unread.is_empty() {
            open.push(format!("the inbox of shard {shard} is dealt with up to {cursor:?} only"));
        }
    }
    let queues = broker.queues().await.expect("looking never fails");
    for queue in queues.iter().filter(|queue| queue.waiting + queue.pending > 0) {
        open.push(format!("queue {queue:?} is not drained"));
    }
    open
}

async fn check_submissions(env: &Environment, submissions: Vec<JoinHandle<SubmissionResult>>) {
    for submission in submissions.into_iter().filter(JoinHandle::is_finished) {
        match submission.await {
            Ok(SubmissionResult::Ended) => {}
            Ok(SubmissionResult::Forgotten) if env.faults.turns_back => {}
            Ok(other) => env.auditor().report(format!("[I9] a good plan was {other:?}")),
            Err(error) => env.auditor().report(error.to_string()),
        }
    }
}

/// Folds every log once more, as it stands in the server, and audits it without the engine.
async fn check_logs(env: &Environment) {
    let plans = env.auditor().plans().clone();
    for (id, state) in plans {
        let records = match read_log(&env.broker, &id).await {
            Ok(records) => records,
            Err(error) => {
                env.auditor().report(format!("[I5] the log of `{id}` cannot be read: {error}"));
                continue;
            }
        };
        let mut folded = None;
        for record in &records {
            if let Err(error) = goalmill_engine::replay(&mut folded, record) {
                env.auditor().report(format!("[I5] the log of `{id}` does not add up: {error}"));
            }
        }
        if folded.as_ref() != Some(&state) {
            env.auditor().report(format!("[I5] the log of `{id}` is another one than was committed"));
        }
        let lines: Vec<serde_json::Value> =
            records.iter().map(|record| serde_json::from_str(&record.to_line()).expect("a line is JSON")).collect();
        for violation in audit(state.plan(), &lines, Expect::Lawful) {
            env.auditor().report(format!("`{id}`: {violation}"));
        }
    }
}

thread_local! {
    /// What panicked on this thread while a run was on.
    static PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Tasks that panic are findings; their messages are no noise in the output.
fn catch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let caught = PANICS.with_borrow_mut(|panics| match panics {
                Some(panics) => {
                    panics.push(info.to_string());
                    true
                }
                None => false,
            });
            if !caught {
                before(info);
            }
        }));
    });
}

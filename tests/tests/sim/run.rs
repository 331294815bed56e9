//! One seed: a world is drawn, trouble comes and goes, and then everything must come to its end.

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
use crate::cluster::{Cluster, Role};
use crate::dice::Dice;
use crate::faults::Faults;
use crate::ground::{Ground, Missing};
use crate::people::{self, Fulfilled};
use crate::{nemesis, rogue};

/// How long trouble lasts, in milliseconds of virtual time.
const TROUBLE_MS: u64 = 25_000;
/// How long everything may take after that.
const QUIET_MS: u64 = 400_000;
/// How long after the end of trouble timers may be late, and by how much.
const SETTLE_MS: u64 = 12_000;
const OVERDUE_MS: u64 = 6_000;
/// How long the rogue worker lives on after the end of trouble.
const ROGUE_MS: u64 = 30_000;

/// The protection that a run lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    None,
    Engine(Bug),
    Network(Missing),
}

/// What one run showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    pub hash: u64,
    pub calls: u64,
    /// How often what happened.
    pub counts: BTreeMap<&'static str, u64>,
    pub virtual_ms: u64,
    pub faults: String,
    /// Promises that were not kept.
    pub found: Vec<String>,
}

/// Runs one seed in virtual time on this thread.
pub fn run(seed: u64, mutant: Mutant, loud: bool) -> Shown {
    catch_panics();
    PANICS.with_borrow_mut(|panics| *panics = Some(Vec::new()));
    bugs::switch(match mutant {
        Mutant::Engine(bug) => Some(bug),
        Mutant::None | Mutant::Network(_) => None,
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without I/O always starts");
    let mut shown = runtime.block_on(world(seed, mutant, loud));
    drop(runtime);
    bugs::switch(None);
    let panics = PANICS.with_borrow_mut(Option::take).unwrap_or_default();
    shown.found.extend(panics.into_iter().map(|panic| format!("something panicked: {panic}")));
    shown
}

async fn world(seed: u64, mutant: Mutant, loud: bool) -> Shown {
    let dice = Dice::new(seed);
    let faults = Faults::draw(&dice);
    let missing = match mutant {
        Mutant::Network(missing) => Some(missing),
        Mutant::None | Mutant::Engine(_) => None,
    };
    let ground = Arc::new(Ground::new(&dice, faults.clone(), missing, loud));
    let shards = u16::try_from(dice.between(1, 3)).expect("a small number");
    let settings = settings(&dice, shards);
    ground.watch().window_min = settings.scheduler.window_min;
    let mut cluster = Cluster::new(&ground, &dice, settings);
    for _ in 0..dice.between(1, 3) {
        cluster.start(Role::Scheduler);
    }
    for _ in 0..dice.between(1, 3) {
        cluster.start(Role::Worker);
    }
    let mut wishes = Vec::new();
    for number in 0..dice.between(2, 6) {
        let begin_ms = dice.between(0, TROUBLE_MS * 3 / 4);
        wishes.push(tokio::spawn(people::submit(ground.clone(), dice.split(), shards, number, begin_ms)));
    }
    if faults.people {
        tokio::spawn(people::meddle(ground.clone(), dice.split(), TROUBLE_MS));
    }
    if faults.rogue {
        tokio::spawn(rogue::run(ground.clone(), dice.between(0, TROUBLE_MS / 2), TROUBLE_MS + ROGUE_MS));
    }
    nemesis::rage(&ground, &mut cluster, &dice.split(), shards, TROUBLE_MS).await;
    ground.calm();
    cluster.calm();
    cluster.note("calm");
    settle(&ground, shards, &wishes).await;
    judge_wishes(&ground, &faults, wishes).await;
    judge_logs(&ground).await;
    let hash = ground.trace().hash();
    let watch = ground.watch();
    Shown {
        hash,
        calls: ground.calls(),
        counts: watch.counts.clone(),
        virtual_ms: ground.at_ms(),
        faults: format!("{faults:?}"),
        found: watch.found.clone(),
    }
}

pub fn settings(dice: &Dice, shards: u16) -> Settings {
    let mut settings = Settings::default();
    settings.api.listen = String::new();
    settings.metrics.listen = String::new();
    settings.redis.block_ms = 1_000;
    settings.scheduler.shards = shards;
    settings.scheduler.heartbeat_ms = 600;
    settings.scheduler.shard_lease_ms = 2_500;
    settings.scheduler.window_min = *dice.pick(&[1, 3, 64]);
    settings.scheduler.task_lease_ms = 4_000;
    settings.scheduler.reclaim_ms = 600;
    settings.scheduler.trim_ms = 2_000;
    // The virtual clock stands still while anything is awake.
    settings.scheduler.spin_us = 0;
    settings.scheduler.inbox_batch = *dice.pick(&[1, 10, 1_000]);
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
async fn settle(ground: &Ground, shards: u16, wishes: &[JoinHandle<Fulfilled>]) {
    let calm_ms = ground.at_ms();
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let open = open(ground, shards, wishes).await;
        if open.is_empty() {
            return;
        }
        let quiet_ms = ground.at_ms() - calm_ms;
        if quiet_ms > SETTLE_MS {
            ground.watch().check_overdue(ground.clock.now_ms(), OVERDUE_MS);
        }
        let gave_up = !ground.watch().found.is_empty();
        if quiet_ms > QUIET_MS || gave_up {
            let mut watch = ground.watch();
            if !gave_up {
                open.into_iter().for_each(|what| watch.report(format!("[L1] {what} after {quiet_ms} ms of quiet")));
            }
            return;
        }
    }
}

/// What is not done yet.
async fn open(ground: &Ground, shards: u16, wishes: &[JoinHandle<Fulfilled>]) -> Vec<String> {
    let broker = &ground.broker;
    let mut open = Vec::new();
    let waiting = wishes.iter().filter(|wish| !wish.is_finished()).count();
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
            open.push(format!("the inbox of shard {shard} is dealt with up to {cursor} only"));
        }
    }
    let queues = broker.queues().await.expect("looking never fails");
    for queue in queues.iter().filter(|queue| queue.waiting + queue.pending > 0) {
        open.push(format!("queue {queue:?} is not drained"));
    }
    open
}

async fn judge_wishes(ground: &Ground, faults: &Faults, wishes: Vec<JoinHandle<Fulfilled>>) {
    for wish in wishes.into_iter().filter(JoinHandle::is_finished) {
        match wish.await {
            Ok(Fulfilled::Ended) => {}
            Ok(Fulfilled::Forgotten) if faults.turns_back => {}
            Ok(other) => ground.watch().report(format!("[I9] a good plan was {other:?}")),
            Err(error) => ground.watch().report(error.to_string()),
        }
    }
}

/// Folds every log once more, as it stands in the server, and audits it without the engine.
async fn judge_logs(ground: &Ground) {
    let plans = ground.watch().plans().clone();
    for (id, state) in plans {
        let records = match read_log(&ground.broker, &id).await {
            Ok(records) => records,
            Err(error) => {
                ground.watch().report(format!("[I5] the log of `{id}` cannot be read: {error}"));
                continue;
            }
        };
        let mut folded = goalmill_engine::PlanState::default();
        for record in &records {
            if let Err(error) = goalmill_engine::apply(&mut folded, record) {
                ground.watch().report(format!("[I5] the log of `{id}` does not add up: {error}"));
            }
        }
        if folded != state {
            ground.watch().report(format!("[I5] the log of `{id}` is another one than was committed"));
        }
        let lines: Vec<serde_json::Value> =
            records.iter().map(|record| serde_json::from_str(&record.to_line()).expect("a line is JSON")).collect();
        for violation in audit(state.plan(), &lines, Expect::Lawful) {
            ground.watch().report(format!("`{id}`: {violation}"));
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

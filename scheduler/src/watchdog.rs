//! Watchdog: quarantines a plan whose decision hangs, then exits the process.
//!
//! It uses its own thread, runtime and connection, because those of the scheduler may be what hangs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use goalmill_broker::{Broker, BrokerError};
use goalmill_common::clock::Clock;
use goalmill_common::id::{PlanId, ShardId};
use goalmill_common::supervisor::Supervisor;

use crate::quarantine::QuarantineRecord;

/// Interval between checks.
const BEAT: Duration = Duration::from_millis(250);
/// Time limit for writing the quarantine record.
const NOTE: Duration = Duration::from_secs(5);
/// Exit status of a process that hangs: an internal error, as `sysexits.h` has it.
const EXIT_SOFTWARE: i32 = 70;

/// Opens a connection to the store, for the watchdog's own runtime.
pub type Connect = Box<dyn FnOnce() -> BoxFuture<'static, Result<Arc<dyn Broker>, BrokerError>> + Send>;

/// The decisions that the loops of this process are computing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decisions(Arc<Mutex<BTreeMap<ShardId, DecisionMarker>>>);

/// The decision that one loop is computing.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecisionMarker(Arc<WatchedDecision>);

#[derive(Debug, Default)]
struct WatchedDecision {
    /// Incremented at the start and at the end of a decision: odd during one.
    changes: AtomicU64,
    /// The plan of the latest decision.
    plan: Mutex<Option<PlanId>>,
}

impl DecisionMarker {
    /// Marks the start of a decision.
    pub(crate) fn begin(&self, plan: Option<&PlanId>) {
        *self.0.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan.cloned();
        self.0.changes.fetch_add(1, Ordering::Release);
    }

    /// Marks the end of a decision.
    pub(crate) fn end(&self) {
        self.0.changes.fetch_add(1, Ordering::Release);
    }

    /// The plan of the current decision, and a number unique among the decisions of this loop.
    fn current(&self) -> Option<(PlanId, u64)> {
        let change = self.0.changes.load(Ordering::Acquire);
        let plan = self.0.plan.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        (change % 2 == 1).then_some((plan, change))
    }
}

impl Decisions {
    /// Registers the loop that runs `shard`.
    pub(crate) fn register(&self, shard: ShardId) -> DecisionMarker {
        let marker = DecisionMarker::default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(shard, marker.clone());
        marker
    }

    fn current(&self) -> BTreeMap<ShardId, (PlanId, u64)> {
        let decisions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        decisions.iter().filter_map(|(shard, marker)| Some((*shard, marker.current()?))).collect()
    }
}

/// The age of each decision, in beats of the watchdog. A process that was suspended does not count as hung when it
/// continues, because the watchdog was suspended too.
#[derive(Default)]
struct StallCounter(BTreeMap<ShardId, (u64, u32)>);

impl StallCounter {
    /// Counts one beat; returns a decision older than `beats` beats.
    fn beat(&mut self, current: BTreeMap<ShardId, (PlanId, u64)>, beats: u32) -> Option<(ShardId, PlanId)> {
        self.0.retain(|shard, (seen, _)| current.get(shard).is_some_and(|(_, change)| change == seen));
        for (shard, (plan, change)) in current {
            let (_, count) = self.0.entry(shard).or_insert((change, 0));
            *count += 1;
            if *count > beats {
                return Some((shard, plan));
            }
        }
        None
    }
}

/// Starts the watchdog thread, which runs until the process ends.
pub(crate) fn start(
    decisions: Decisions,
    limit: Duration,
    clock: Clock,
    connect: Connect,
    supervisor: Supervisor,
) -> std::io::Result<()> {
    let beats = u32::try_from(limit.as_millis() / BEAT.as_millis()).unwrap_or(u32::MAX);
    let watch = move || {
        let mut seen = StallCounter::default();
        loop {
            std::thread::sleep(BEAT);
            if let Some((shard, plan)) = seen.beat(decisions.current(), beats) {
                return end(shard, plan, limit, &clock, connect);
            }
        }
    };
    let watch = move || supervisor.watch_thread("watchdog", watch);
    std::thread::Builder::new().name("watchdog".into()).spawn(watch).map(drop)
}

fn end(shard: ShardId, plan: PlanId, limit: Duration, clock: &Clock, connect: Connect) {
    let seconds = limit.as_secs();
    tracing::error!(
        %shard, plan_id = %plan,
        "one decision over plan {plan} has taken more than {seconds} s: this process ends, to be started again"
    );
    let reason = format!("one decision over it took more than {seconds} s (`scheduler.watchdog_ms`)");
    let now_ms = clock.now_ms();
    let noted = async {
        let broker = connect().await?;
        let mut record = QuarantineRecord::load(broker.as_ref(), shard).await?;
        record.quarantine(plan, reason, now_ms);
        record.store(broker.as_ref(), shard).await
    };
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => match runtime.block_on(async { tokio::time::timeout(NOTE, noted).await }) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!("the quarantine could not be recorded: {error}"),
            Err(_) => tracing::error!("the quarantine could not be recorded in time"),
        },
        Err(error) => tracing::error!("the quarantine could not be recorded: {error}"),
    }
    std::process::exit(EXIT_SOFTWARE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_watchdog_that_panics_fails_the_scheduler() {
        let (decisions, supervisor) = (Decisions::default(), Supervisor::default());
        decisions.register(ShardId(0)).begin(Some(&"p0-stuck".into()));
        let connect = Box::new(|| panic!("it was broken on purpose"));
        start(decisions, Duration::ZERO, Clock::system(), connect, supervisor.clone())
            .expect("a thread can be started");
        assert_eq!(supervisor.failed().await, "loop `watchdog` panicked: it was broken on purpose");
    }

    #[test]
    fn only_one_decision_that_goes_on_for_all_beats_hangs() {
        let (decisions, mut seen) = (Decisions::default(), StallCounter::default());
        let (busy, stuck) = (decisions.register(ShardId(0)), decisions.register(ShardId(1)));
        stuck.begin(Some(&"p1-stuck".into()));
        for _ in 0..8 {
            busy.begin(Some(&"p0-busy".into()));
            assert_eq!(seen.beat(decisions.current(), 8), None);
            busy.end();
        }
        assert_eq!(seen.beat(decisions.current(), 8), Some((ShardId(1), "p1-stuck".into())));
        stuck.end();
        assert_eq!(seen.beat(decisions.current(), 8), None);
    }
}

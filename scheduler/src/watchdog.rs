//! Ends a process whose shard loop hangs, after the plan that it hangs over was put into quarantine.
//!
//! A thread of its own, with a runtime and a connection of its own: those of the scheduler may be what hangs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use goalmill_broker::{Broker, BrokerError};
use goalmill_common::clock::Clock;
use goalmill_common::id::{PlanId, ShardId};

use crate::shard::Poison;

/// How often it looks.
const BEAT: Duration = Duration::from_millis(250);
/// Longest time for the note that puts a plan into quarantine.
const NOTE: Duration = Duration::from_secs(5);
/// Exit status of a process that hangs: an internal error, as `sysexits.h` has it.
const EXIT_SOFTWARE: i32 = 70;

/// Opens a connection to the store, for the watchdog's own runtime.
pub type Connect = Box<dyn FnOnce() -> BoxFuture<'static, Result<Arc<dyn Broker>, BrokerError>> + Send>;

/// What the loops of a process have in hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hands(Arc<Mutex<BTreeMap<ShardId, Hand>>>);

/// What one loop has in hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hand(Arc<InHand>);

#[derive(Debug, Default)]
struct InHand {
    /// Counts up whenever a plan is taken up or put down: odd while one is in hand.
    changes: AtomicU64,
    /// The plan that was taken up last.
    plan: Mutex<Option<PlanId>>,
}

impl Hand {
    /// Notes that the plan is worked on from now on.
    pub(crate) fn take_up(&self, plan: Option<&PlanId>) {
        *self.0.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan.cloned();
        self.0.changes.fetch_add(1, Ordering::Release);
    }

    /// Notes that the work is done.
    pub(crate) fn put_down(&self) {
        self.0.changes.fetch_add(1, Ordering::Release);
    }

    /// The plan in hand, and a number that no other decision of the loop has.
    fn holds(&self) -> Option<(PlanId, u64)> {
        let change = self.0.changes.load(Ordering::Acquire);
        let plan = self.0.plan.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        (change % 2 == 1).then_some((plan, change))
    }
}

impl Hands {
    /// The hand of the loop that runs `shard` now.
    pub(crate) fn of(&self, shard: ShardId) -> Hand {
        let hand = Hand::default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(shard, hand.clone());
        hand
    }

    fn holding(&self) -> BTreeMap<ShardId, (PlanId, u64)> {
        let hands = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        hands.iter().filter_map(|(shard, hand)| Some((*shard, hand.holds()?))).collect()
    }
}

/// How long each decision has been seen to take, in beats of the watchdog: a process that stood still, or was held, does
/// not seem to hang when it goes on.
#[derive(Default)]
struct Seen(BTreeMap<ShardId, (u64, u32)>);

impl Seen {
    /// Counts one beat; names a decision that has been seen for more than `beats` of them.
    fn beat(&mut self, holding: BTreeMap<ShardId, (PlanId, u64)>, beats: u32) -> Option<(ShardId, PlanId)> {
        self.0.retain(|shard, (seen, _)| holding.get(shard).is_some_and(|(_, change)| change == seen));
        for (shard, (plan, change)) in holding {
            let (_, count) = self.0.entry(shard).or_insert((change, 0));
            *count += 1;
            if *count > beats {
                return Some((shard, plan));
            }
        }
        None
    }
}

/// Watches from a thread of its own until the process ends.
pub(crate) fn start(hands: Hands, limit: Duration, clock: Clock, connect: Connect) -> std::io::Result<()> {
    let beats = u32::try_from(limit.as_millis() / BEAT.as_millis()).unwrap_or(u32::MAX);
    let watch = move || {
        let mut seen = Seen::default();
        loop {
            std::thread::sleep(BEAT);
            if let Some((shard, plan)) = seen.beat(hands.holding(), beats) {
                return end(shard, plan, limit, &clock, connect);
            }
        }
    };
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
        let mut poison = Poison::read(broker.as_ref(), shard).await?;
        poison.quarantine(plan, reason, now_ms);
        poison.write(broker.as_ref(), shard).await
    };
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => match runtime.block_on(async { tokio::time::timeout(NOTE, noted).await }) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!("the quarantine could not be noted: {error}"),
            Err(_) => tracing::error!("the quarantine could not be noted in time"),
        },
        Err(error) => tracing::error!("the quarantine could not be noted: {error}"),
    }
    std::process::exit(EXIT_SOFTWARE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_decision_that_goes_on_for_all_beats_hangs() {
        let (hands, mut seen) = (Hands::default(), Seen::default());
        let (busy, stuck) = (hands.of(ShardId(0)), hands.of(ShardId(1)));
        stuck.take_up(Some(&"p1-stuck".into()));
        for _ in 0..8 {
            busy.take_up(Some(&"p0-busy".into()));
            assert_eq!(seen.beat(hands.holding(), 8), None);
            busy.put_down();
        }
        assert_eq!(seen.beat(hands.holding(), 8), Some((ShardId(1), "p1-stuck".into())));
        stuck.put_down();
        assert_eq!(seen.beat(hands.holding(), 8), None);
    }
}

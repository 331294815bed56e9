//! Keeps a process at the time of its store, and says when the clock of its machine shows another one.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use goalmill_common::agent::WorkerBeat;
use goalmill_common::clock::{Clock, SKEW_MS_MAX, skew_text};

use crate::{Broker, BrokerError, Health};

/// A clock that takes the time of the store with each heartbeat.
#[derive(Debug)]
pub struct StoreClock {
    clock: Clock,
    /// By how much the machine's clock is ahead of the store's, in milliseconds.
    skew_ms: AtomicI64,
    /// Whether the log has named a skew and not its end.
    is_named: AtomicBool,
}

impl StoreClock {
    /// Nothing is taken yet.
    pub fn new(clock: Clock) -> Self {
        Self { clock, skew_ms: AtomicI64::new(0), is_named: AtomicBool::new(false) }
    }

    /// Checks the store, and takes its time.
    pub async fn check_store(&self, broker: &dyn Broker) -> Result<Health, BrokerError> {
        let asked_ms = self.clock.steady_ms();
        let health = broker.check_health().await?;
        self.set_time(health.time_ms, asked_ms);
        Ok(health)
    }

    /// Records a worker's heartbeat, and takes the time of the store.
    pub async fn record_worker_heartbeat(&self, broker: &dyn Broker, beat: &WorkerBeat) -> Result<(), BrokerError> {
        let asked_ms = self.clock.steady_ms();
        let store_ms = broker.record_worker_heartbeat(beat).await?;
        self.set_time(store_ms, asked_ms);
        Ok(())
    }

    /// By how many seconds the machine's clock was last ahead of the store's; negative if it was behind.
    pub fn skew_seconds(&self) -> f64 {
        self.skew_ms.load(Ordering::Relaxed) as f64 / 1_000.0
    }

    /// A warning while the machine's clock differs.
    pub fn warning(&self) -> Option<String> {
        self.is_named.load(Ordering::Relaxed).then(|| skew_warning(self.skew_ms.load(Ordering::Relaxed)))
    }

    fn set_time(&self, store_ms: u64, asked_ms: u64) {
        self.clock.follow_store(store_ms, asked_ms);
        self.set_skew(self.clock.skew_ms(store_ms, asked_ms));
    }

    /// Names a skew in the log when it begins and when it ends.
    fn set_skew(&self, skew_ms: i64) {
        self.skew_ms.store(skew_ms, Ordering::Relaxed);
        let was_named = self.is_named.load(Ordering::Relaxed);
        // A skew at the limit is not named over and over.
        let limit_ms = if was_named { SKEW_MS_MAX / 2 } else { SKEW_MS_MAX };
        let is_named = skew_ms.unsigned_abs() > limit_ms;
        self.is_named.store(is_named, Ordering::Relaxed);
        match (was_named, is_named) {
            (false, true) => tracing::warn!("{}", skew_warning(skew_ms)),
            (true, false) => tracing::info!("the clock of this machine agrees with that of the store again"),
            (false, false) | (true, true) => {}
        }
    }
}

fn skew_warning(skew_ms: i64) -> String {
    format!("{}; let both machines follow a time server (NTP)", skew_text(skew_ms))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn a_skew_is_named_from_its_begin_to_its_end() {
        let store_clock = StoreClock::new(Clock::from_fn(|| 1_000));
        let mut named = Vec::new();
        for skew_ms in [0, 1_000, -1_001, -900, 600, 500, 700, 3_600_000, -3_600_000, 0] {
            store_clock.set_skew(skew_ms);
            named.push(store_clock.warning().is_some());
        }
        assert_eq!(named, [false, false, true, true, true, false, false, true, true, false]);
        store_clock.set_skew(-3_600_000);
        let text = "the clock of this machine is 3600.0 s behind that of the store; let both machines follow a time server (NTP)";
        assert_eq!(store_clock.warning().as_deref(), Some(text));
    }

    #[tokio::test]
    async fn the_time_is_that_of_the_store_and_the_wall_clock_is_compared_with_it() {
        let broker = crate::embedded::open(None, Clock::from_fn(|| 1_800_000_000_000)).expect("it opens");
        let wall = Arc::new(AtomicU64::new(1_800_003_600_000));
        let read = wall.clone();
        let clock = Clock::from_wall_clock(move || read.load(Ordering::Relaxed));
        let store_clock = StoreClock::new(clock.clone());
        assert!(clock.now_ms() >= 1_800_003_600_000);
        store_clock.check_store(broker.as_ref()).await.expect("it answers");
        assert!((1_800_000_000_000..1_800_000_600_000).contains(&clock.now_ms()), "{clock:?}");
        assert!(store_clock.warning().is_some());
        wall.store(1_800_000_000_000, Ordering::Relaxed);
        store_clock.check_store(broker.as_ref()).await.expect("it answers");
        assert_eq!(store_clock.warning(), None);
    }
}

//! Holds the executions of an agent type whose agent asked to wait.
//!
//! One refusal holds all: nothing is started before the time that it names, and nothing of that type is pulled. Then the
//! executions start one after the other, at the pace that the agent has kept: the time of the refusal and of what went
//! before it, divided by the executions that succeeded in it. After half a minute without a refusal the pace is
//! forgotten.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::number::milliseconds;
use goalmill_common::random::Random;
use goalmill_common::retry_after::RETRY_AFTER_MS_MAX;
use tokio::time::{Instant, sleep_until};

/// The wait of a refusal that names no time.
const UNNAMED: Duration = Duration::from_secs(1);
/// How far before a refusal successes count for the pace.
const WINDOW: Duration = Duration::from_secs(2);
/// Longest time between two starts.
const INTERVAL_MAX: Duration = Duration::from_secs(1);
/// Time after which the pace is forgotten.
const FORGET: Duration = Duration::from_secs(30);
/// Longest time that a pulled task waits in the worker; then it is handed back, and its plan waits.
const HOLD_MAX: Duration = Duration::from_secs(10);
/// Time before a start at which the next task is pulled.
const PULL_AHEAD: Duration = Duration::from_millis(100);

/// The state of one agent type.
#[derive(Default)]
pub(crate) struct Throttle {
    is_on: AtomicBool,
    waiting: AtomicUsize,
    state: Mutex<ThrottleState>,
}

#[derive(Default)]
struct ThrottleState {
    recent: Recent,
    pace: Option<Pace>,
}

/// Successes of the last one or two windows.
#[derive(Default)]
struct Recent {
    begun_at: Option<Instant>,
    now: u32,
    before: u32,
}

impl Recent {
    fn turn(&mut self, now: Instant) {
        let age = self.begun_at.map_or(WINDOW * 2, |begun_at| now.saturating_duration_since(begun_at));
        if age < WINDOW {
            return;
        }
        self.before = if age < WINDOW * 2 { self.now } else { 0 };
        (self.now, self.begun_at) = (0, Some(now));
    }
}

/// The pace after a refusal.
struct Pace {
    refusal: Failure,
    refused_at: Instant,
    /// No start before.
    until: Instant,
    /// The next free start.
    next: Instant,
    interval: Duration,
    /// The time that the pace is measured over, and the successes in it.
    measured: (Duration, u32),
    /// Changes with every refusal: who has a start must ask for another one.
    refusals: u64,
}

impl Pace {
    fn measure(&mut self, window: Duration, successes: u32) {
        self.measured = (window, successes);
        self.interval = (window / successes.max(1)).min(INTERVAL_MAX);
    }
}

impl Throttle {
    /// Whether the agent asked to wait a short time ago.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Whether a task that is pulled now could start soon.
    pub fn has_room(&self) -> bool {
        if !self.is_on() {
            return true;
        }
        let now = Instant::now();
        let mut state = self.lock();
        self.forget(&mut state, now);
        let start = state.pace.as_ref().map(|pace| pace.next.max(pace.until));
        start.is_none_or(|start| self.waiting.load(Ordering::Relaxed) == 0 && start <= now + PULL_AHEAD)
    }

    /// Waits until an execution may start, or returns the failure of a task that would wait for too long here.
    pub async fn wait_turn(&self, random: &Random) -> Result<(), Failure> {
        if !self.is_on() {
            return Ok(());
        }
        let _waiter = Waiter::new(&self.waiting);
        while let Some((start, refusals)) = self.take_turn(random)? {
            sleep_until(start).await;
            if self.lock().pace.as_ref().is_none_or(|pace| pace.refusals == refusals) {
                break;
            }
        }
        Ok(())
    }

    /// The next free start, and the count of refusals that it holds for. `None`: immediately.
    fn take_turn(&self, random: &Random) -> Result<Option<(Instant, u64)>, Failure> {
        let now = Instant::now();
        let mut state = self.lock();
        self.forget(&mut state, now);
        let Some(pace) = &mut state.pace else { return Ok(None) };
        if pace.next <= pace.until {
            // Other workers wait for the same time.
            pace.next = pace.until + Duration::from_millis(random.below(milliseconds(pace.interval).max(1)));
        }
        let start = pace.next.max(now);
        if start > now + HOLD_MAX {
            let (message, wait) = (format!("not asked: {}", pace.refusal.message), milliseconds(start - now));
            return Err(Failure { message, retry_after_ms: Some(wait), ..pace.refusal.clone() });
        }
        pace.next = start + pace.interval;
        Ok(Some((start, pace.refusals)))
    }

    /// Records how an execution ended.
    ///
    /// - `begun_at`: when it began.
    pub fn record(&self, begun_at: Instant, failure: Option<&Failure>) {
        match failure {
            None => self.record_success(begun_at),
            Some(failure) if failure.class == FailureClass::RateLimited => self.record_refusal(begun_at, failure),
            Some(_) => {}
        }
    }

    fn record_success(&self, begun_at: Instant) {
        let mut state = self.lock();
        let ThrottleState { recent, pace } = &mut *state;
        recent.turn(Instant::now());
        recent.now = recent.now.saturating_add(1);
        // It began before the refusal, and took longer.
        if let Some(pace) = pace
            && begun_at < pace.refused_at
        {
            let (window, successes) = pace.measured;
            pace.measure(window, successes.saturating_add(1));
        }
    }

    fn record_refusal(&self, begun_at: Instant, failure: &Failure) {
        let now = Instant::now();
        let asked = failure.retry_after_ms.map_or(UNNAMED, |ms| Duration::from_millis(ms.min(RETRY_AFTER_MS_MAX)));
        let mut state = self.lock();
        self.forget(&mut state, now);
        let ThrottleState { recent, pace } = &mut *state;
        if let Some(pace) = pace
            && begun_at < pace.refused_at
        {
            // One of those that began together.
            pace.until = pace.until.max(now + asked);
            return;
        }
        recent.turn(now);
        let since = recent.begun_at.map_or(Duration::ZERO, |begun_at| now.saturating_duration_since(begun_at));
        let since = if recent.before > 0 { since + WINDOW } else { since };
        let (successes, until) = (recent.now.saturating_add(recent.before), now + asked);
        let refusals = pace.as_ref().map_or(0, |pace| pace.refusals) + 1;
        let (interval, measured) = (INTERVAL_MAX, (asked, 0));
        let refusal = failure.clone();
        let pace = pace.insert(Pace { refusal, refused_at: now, until, next: until, interval, measured, refusals });
        pace.measure(since + asked, successes);
        self.is_on.store(true, Ordering::Relaxed);
    }

    fn forget(&self, state: &mut ThrottleState, now: Instant) {
        if state.pace.as_ref().is_some_and(|pace| now > pace.until + FORGET) {
            state.pace = None;
            self.is_on.store(false, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, ThrottleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task that waits, also one whose wait is dropped.
struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(retry_after_ms: u64) -> Failure {
        let failure = Failure::new(FailureClass::RateLimited, "HTTP_429", "slow down");
        Failure { retry_after_ms: Some(retry_after_ms), ..failure }
    }

    /// Milliseconds until each of the next starts.
    fn starts(throttle: &Throttle, count: usize) -> Vec<u64> {
        let now = Instant::now();
        let random = Random::seeded(1);
        let turn = || throttle.take_turn(&random).expect("it is near").map_or(now, |(start, _)| start);
        (0..count).map(|_| milliseconds(turn() - now)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn one_refusal_holds_all_and_they_start_at_the_pace_that_the_agent_has_kept() {
        let (throttle, begun_at) = (Throttle::default(), Instant::now());
        assert!(throttle.has_room() && !throttle.is_on());
        (0..5).for_each(|_| throttle.record(begun_at, None));
        (0..11).for_each(|_| throttle.record(begun_at, Some(&refusal(2_000))));
        assert!(throttle.is_on() && !throttle.has_room());
        let starts = starts(&throttle, 10);
        assert!((2_000..2_400).contains(&starts[0]), "{starts:?}");
        assert!(starts.windows(2).all(|two| two[1] - two[0] == 400), "five in two seconds: {starts:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_start_waits_again_after_another_refusal() {
        let throttle = Throttle::default();
        throttle.record(Instant::now(), Some(&refusal(1_000)));
        let begun_at = Instant::now();
        let waits = async {
            throttle.wait_turn(&Random::seeded(1)).await.expect("it is near");
            begun_at.elapsed()
        };
        let refuses = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            throttle.record(Instant::now(), Some(&refusal(5_000)));
        };
        let (waited, ()) = tokio::join!(waits, refuses);
        assert!(waited >= Duration::from_millis(5_500), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_would_wait_for_long_is_handed_back_with_what_the_agent_said() {
        let throttle = Throttle::default();
        throttle.record(Instant::now(), Some(&refusal(60_000)));
        let held = throttle.wait_turn(&Random::seeded(1)).await.expect_err("a minute is too long");
        assert_eq!((held.class, held.code.as_str()), (FailureClass::RateLimited, "HTTP_429"));
        assert!(held.message.contains("slow down") && held.retry_after_ms >= Some(60_000), "{held:?}");
        assert_eq!(throttle.waiting.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_pace_is_forgotten() {
        let throttle = Throttle::default();
        throttle.record(Instant::now(), Some(&refusal(1_000)));
        tokio::time::sleep(Duration::from_secs(32)).await;
        assert!(throttle.has_room() && !throttle.is_on());
        assert_eq!(starts(&throttle, 2), [0, 0]);
    }
}

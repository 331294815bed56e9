//! The only place that reads the time.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The last millisecond of the year 9999, in Unix milliseconds. RFC 3339 cannot express later times.
pub const TIME_MS_MAX: u64 = 253_402_300_799_999;

/// A larger difference between the clocks of two machines is named, in milliseconds.
pub const SKEW_MS_MAX: u64 = 1_000;

/// Says how far the clock of this machine is ahead of that of the store, or behind if negative.
pub fn skew_text(skew_ms: i64) -> String {
    let side = if skew_ms < 0 { "behind" } else { "ahead of" };
    format!("the clock of this machine is {:.1} s {side} that of the store", skew_ms.unsigned_abs() as f64 / 1_000.0)
}

/// Reads the time in Unix milliseconds.
///
/// Until [`Clock::follow_store`] is called it is the machine's time, read once and advanced by the monotonic clock; from
/// then on it is the time of the store, advanced by the monotonic clock between two calls, and never goes back.
///
/// Cheap to clone, and the clones are one clock; a test or a simulation has its own.
#[derive(Clone)]
pub struct Clock(Arc<ClockState>);

type ReadTime = Box<dyn Fn() -> u64 + Send + Sync>;

struct ClockState {
    /// The wall clock of the machine as it is now; it may jump.
    wall: ReadTime,
    /// Unix milliseconds that pass as the monotonic clock does.
    steady: ReadTime,
    /// What the store's time is ahead of `steady`, in milliseconds.
    offset_ms: AtomicI64,
    /// The latest time that was read since the clock follows the store.
    latest_ms: AtomicU64,
    follows_store: AtomicBool,
    /// When the store's time was last taken, by `steady`.
    taken_ms: Mutex<Option<u64>>,
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self::with(Box::new(wall_ms), Box::new(system_ms))
    }

    /// The clock of a machine whose wall clock shows something else.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn from_wall_clock(wall: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        let (begun, begun_ms) = (Instant::now(), wall());
        let steady = move || begun_ms + u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Self::with(Box::new(wall), Box::new(steady))
    }

    /// A clock of one's own, for virtual time.
    pub fn from_fn(read: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        let read = Arc::new(read);
        let wall = read.clone();
        Self::with(Box::new(move || wall()), Box::new(move || read()))
    }

    fn with(wall: ReadTime, steady: ReadTime) -> Self {
        Self(Arc::new(ClockState {
            wall,
            steady,
            offset_ms: AtomicI64::new(0),
            latest_ms: AtomicU64::new(0),
            follows_store: AtomicBool::new(false),
            taken_ms: Mutex::default(),
        }))
    }

    /// Unix milliseconds.
    pub fn now_ms(&self) -> u64 {
        let state = &*self.0;
        if !state.follows_store.load(Ordering::Acquire) {
            return self.steady_ms();
        }
        let now_ms = self.steady_ms().saturating_add_signed(state.offset_ms.load(Ordering::Relaxed));
        // Within a millisecond only the first reading writes.
        let latest_ms = state.latest_ms.load(Ordering::Relaxed);
        if now_ms <= latest_ms { latest_ms } else { state.latest_ms.fetch_max(now_ms, Ordering::Relaxed).max(now_ms) }
    }

    /// Milliseconds that pass as the monotonic clock does, whatever the store says. A question for the store's time begins
    /// with it.
    pub fn steady_ms(&self) -> u64 {
        (self.0.steady)()
    }

    /// What the wall clock of the machine shows now.
    pub fn wall_ms(&self) -> u64 {
        (self.0.wall)()
    }

    /// Takes over the time of the store.
    ///
    /// The first time is taken as it is. Later a store that is ahead is followed immediately. If it is behind, as after a
    /// failover to a machine whose clock is behind, this clock passes at half of the speed until the store has caught up:
    /// it stands still for half of the time between two calls, and never goes back.
    ///
    /// - `store_ms`: the time that the store answered with.
    /// - `asked_ms`: [`Clock::steady_ms`] before it was asked.
    pub fn follow_store(&self, store_ms: u64, asked_ms: u64) {
        let state = &*self.0;
        let mut taken_ms = state.taken_ms.lock().unwrap_or_else(PoisonError::into_inner);
        let answered_ms = self.steady_ms().max(asked_ms);
        let offset_ms = state.offset_ms.load(Ordering::Relaxed);
        // The store read its clock between question and answer; what fits to that needs no correction.
        let fitting_ms = offset_ms.clamp(difference(store_ms, answered_ms), difference(store_ms, asked_ms));
        let lowest_ms = taken_ms.map(|taken_ms| offset_ms - difference(answered_ms, taken_ms) / 2);
        state.offset_ms.store(lowest_ms.map_or(fitting_ms, |lowest_ms| fitting_ms.max(lowest_ms)), Ordering::Relaxed);
        *taken_ms = Some(answered_ms);
        state.follows_store.store(true, Ordering::Release);
    }

    /// By how many milliseconds the wall clock of the machine is ahead of the store at least, or behind if negative. The
    /// parameters are those of [`Clock::follow_store`].
    pub fn skew_ms(&self, store_ms: u64, asked_ms: u64) -> i64 {
        let most = difference(self.wall_ms(), store_ms);
        let least = most - difference(self.steady_ms().max(asked_ms), asked_ms);
        0.clamp(least, most)
    }
}

/// `a - b`. Times are far below the limit.
fn difference(a: u64, b: u64) -> i64 {
    a.cast_signed().saturating_sub(b.cast_signed())
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Clock({})", self.now_ms())
    }
}

fn system_ms() -> u64 {
    unix_us() / 1_000
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
fn wall_ms() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)
}

/// The machine's clock in Unix microseconds, for measuring across processes of one machine.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub fn unix_us() -> u64 {
    static START: OnceLock<(Instant, u64)> = OnceLock::new();
    let (begun, begun_us) = START.get_or_init(|| {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (Instant::now(), u64::try_from(wall.as_micros()).unwrap_or(u64::MAX))
    });
    // The loop of a shard reads the time for each input: the sum needs no division of 128 bits.
    let since = begun.elapsed();
    begun_us + since.as_secs() * 1_000_000 + u64::from(since.subsec_micros())
}

/// Writes Unix milliseconds as RFC 3339 in UTC: `2026-11-21T22:47:10.123Z`.
///
/// Hand-written because the commit path does it for each entry. Days to date by H. Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", 2021 (`civil_from_days`).
pub fn rfc3339(ms: u64) -> String {
    let (days, in_day) = (ms / 86_400_000, ms % 86_400_000);
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + u64::from(month <= 2);
    let (s, milli) = (in_day / 1_000, in_day % 1_000);
    if year > 9_999 {
        let (hour, minute, second) = (s / 3_600, s / 60 % 60, s % 60);
        return format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z");
    }
    // Digit by digit: every commit of every plan has a time, and formatting it was a twentieth of the scheduler's work.
    let mut text = String::with_capacity(24);
    for (number, mark) in [(year / 100, None), (year % 100, Some('-')), (month, Some('-')), (day, Some('T'))] {
        push_two(&mut text, number);
        text.extend(mark);
    }
    for (number, mark) in [(s / 3_600, ':'), (s / 60 % 60, ':'), (s % 60, '.')] {
        push_two(&mut text, number);
        text.push(mark);
    }
    push_two(&mut text, milli / 10);
    text.push(digit(milli));
    text.push('Z');
    text
}

fn push_two(text: &mut String, number: u64) {
    text.push(digit(number / 10));
    text.push(digit(number));
}

/// The last digit.
fn digit(number: u64) -> char {
    char::from(b'0' + (number % 10) as u8)
}

/// Reads RFC 3339 back into Unix milliseconds.
pub fn parse_rfc3339(text: &str) -> Option<u64> {
    let at: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(at.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_back() {
        for ms in [0, 951_782_400_000, 1_709_164_800_001, 1_795_293_490_279, 4_102_444_799_999] {
            assert_eq!(parse_rfc3339(&rfc3339(ms)), Some(ms), "{}", rfc3339(ms));
        }
        assert_eq!(rfc3339(1_795_293_490_279), "2026-11-21T20:38:10.279Z");
        assert_eq!(rfc3339(TIME_MS_MAX + 1), "10000-01-01T00:00:00.000Z");
    }

    #[test]
    fn the_system_clock_does_not_go_back() {
        let clock = Clock::system();
        assert!(clock.now_ms() <= clock.now_ms());
    }

    /// A clock whose monotonic clock and whose wall clock a test sets.
    fn clock_set_by_hand(steady_ms: u64, wall_ms: u64) -> (Clock, Arc<AtomicU64>, Arc<AtomicU64>) {
        let (steady, wall) = (Arc::new(AtomicU64::new(steady_ms)), Arc::new(AtomicU64::new(wall_ms)));
        let read = |time: &Arc<AtomicU64>| -> ReadTime {
            let time = time.clone();
            Box::new(move || time.load(Ordering::Relaxed))
        };
        (Clock::with(read(&wall), read(&steady)), steady, wall)
    }

    #[test]
    fn the_first_time_of_the_store_is_taken_whatever_the_machine_shows() {
        for machine_ms in [10_000_000, 6_400_000, 13_600_000] {
            let (clock, steady, wall) = clock_set_by_hand(machine_ms, machine_ms);
            assert_eq!(clock.now_ms(), machine_ms);
            clock.follow_store(10_000_000, clock.steady_ms());
            assert_eq!(clock.now_ms(), 10_000_000);
            wall.store(0, Ordering::Relaxed);
            steady.fetch_add(1_500, Ordering::Relaxed);
            assert_eq!(clock.clone().now_ms(), 10_001_500, "a jump of the wall clock changes nothing");
        }
    }

    #[test]
    fn a_store_that_is_ahead_is_followed_at_once_and_one_that_is_behind_at_half_speed() {
        let (clock, steady, _) = clock_set_by_hand(1_000_000, 1_000_000);
        clock.follow_store(1_000_000, 1_000_000);
        steady.store(1_002_000, Ordering::Relaxed);
        clock.follow_store(4_602_000, 1_002_000);
        assert_eq!(clock.now_ms(), 4_602_000);
        // The store is 10 s behind from here.
        let (mut before_ms, mut seen) = (clock.now_ms(), Vec::new());
        for store_ms in (4_593_000..=4_616_000).step_by(1_000) {
            for _ in 0..10 {
                steady.fetch_add(100, Ordering::Relaxed);
                assert!(clock.now_ms() >= before_ms, "it went back");
                before_ms = clock.now_ms();
            }
            clock.follow_store(store_ms, clock.steady_ms());
            assert_eq!(clock.now_ms(), before_ms, "it stands still when it is ahead");
            seen.push(before_ms - store_ms);
        }
        assert_eq!(seen[..3], [10_000, 9_500, 9_000], "it is half as fast");
        assert!(seen.is_sorted_by(|earlier, later| earlier >= later), "{seen:?}");
        assert_eq!(seen.last(), Some(&0), "{seen:?}");
    }

    #[test]
    fn a_slow_answer_moves_nothing_that_fits_to_it() {
        let (clock, steady, _) = clock_set_by_hand(5_000, 5_000);
        clock.follow_store(5_000, 5_000);
        steady.store(9_000, Ordering::Relaxed);
        for store_ms in [5_000, 7_000, 9_000] {
            clock.follow_store(store_ms, 5_000);
            assert_eq!(clock.now_ms(), 9_000, "the store's time was {store_ms} at some moment since the question");
        }
        clock.follow_store(9_100, 5_000);
        assert_eq!(clock.now_ms(), 9_100, "the store had this time at the latest when it answered");
    }

    #[test]
    fn the_skew_is_what_a_slow_answer_does_not_explain() {
        let (clock, steady, wall) = clock_set_by_hand(10_000, 3_610_000);
        assert_eq!(clock.skew_ms(10_000, 10_000), 3_600_000);
        steady.store(12_000, Ordering::Relaxed);
        assert_eq!(clock.skew_ms(10_000, 10_000), 3_598_000);
        for (wall_ms, skew_ms) in [(11_000, 0), (10_000, 0), (9_000, -1_000), (12_500, 500)] {
            wall.store(wall_ms, Ordering::Relaxed);
            assert_eq!(clock.skew_ms(10_000, 10_000), skew_ms, "{wall_ms}");
        }
        clock.follow_store(10_000, 10_000);
        wall.store(9_000, Ordering::Relaxed);
        assert_eq!(clock.skew_ms(10_000, 10_000), -1_000, "the time of the store does not hide it");
    }

    #[test]
    fn another_wall_clock_is_read_once_and_advanced_by_the_monotonic_clock() {
        let wall = Arc::new(AtomicU64::new(7_000_000));
        let read = wall.clone();
        let clock = Clock::from_wall_clock(move || read.load(Ordering::Relaxed));
        wall.store(1, Ordering::Relaxed);
        assert_eq!(clock.wall_ms(), 1);
        assert!((7_000_000..7_600_000).contains(&clock.now_ms()));
    }
}

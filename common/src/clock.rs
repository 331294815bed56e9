//! The only place that reads the time.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// The last millisecond of the year 9999, in Unix milliseconds. RFC 3339 cannot express later times.
pub const TIME_MS_MAX: u64 = 253_402_300_799_999;

/// Reads the time in Unix milliseconds.
///
/// Cheap to clone; a test or a simulation has its own.
#[derive(Clone)]
pub struct Clock(std::sync::Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// The machine's clock, read once and advanced by the monotonic one: it never goes backwards and a
    /// stepped wall clock moves no deadline of a running process.
    pub fn system() -> Self {
        Self(std::sync::Arc::new(system_ms))
    }

    /// A clock of one's own, for virtual time.
    pub fn from_fn(read: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(std::sync::Arc::new(read))
    }

    /// Unix milliseconds.
    pub fn now_ms(&self) -> u64 {
        (self.0)()
    }
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

/// The machine's clock in Unix microseconds, for measuring across processes of one machine.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub fn unix_us() -> u64 {
    static START: OnceLock<(std::time::Instant, u64)> = OnceLock::new();
    let (begun, begun_us) = START.get_or_init(|| {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (std::time::Instant::now(), u64::try_from(wall.as_micros()).unwrap_or(u64::MAX))
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
}

//! Parses the wait that another service asks for: the headers of an HTTP answer, read in one way everywhere.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::number::whole_u64;

/// The longest wait that an answer may ask for: an hour, in milliseconds. After it the question is asked again.
pub const RETRY_AFTER_MS_MAX: u64 = 3_600_000;

/// Headers with milliseconds, as providers of models send them.
const MILLISECONDS: [&str; 2] = ["retry-after-ms", "x-ms-retry-after-ms"];
/// Forms of dates besides that of RFC 2822 (RFC 9110, 5.6.7): those of RFC 850 and of asctime.
const OLD_DATES: [&str; 2] = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// Reads how long an answer asks to wait, in milliseconds, at most [`RETRY_AFTER_MS_MAX`]; `None` when it does not say
/// so, or not in a way that can be understood.
///
/// `Retry-After` (RFC 9110, 10.2.3) is seconds, also with a fraction, or a date; `retry-after-ms` comes first.
///
/// - `header`: the value of a header by its name in lower case.
/// - `now_ms`: Unix milliseconds, for dates.
pub fn read_retry_after<'h>(header: impl Fn(&str) -> Option<&'h str>, now_ms: u64) -> Option<u64> {
    let exact = MILLISECONDS.iter().find_map(|name| parse_number(header(name)?.trim(), 1.0));
    let asked = exact.or_else(|| parse_retry_after(header("retry-after")?.trim(), now_ms))?;
    Some(asked.min(RETRY_AFTER_MS_MAX))
}

fn parse_retry_after(text: &str, now_ms: u64) -> Option<u64> {
    parse_number(text, 1_000.0).or_else(|| Some(parse_date_ms(text)?.saturating_sub(now_ms)))
}

/// A number that is not negative, in milliseconds.
fn parse_number(text: &str, unit_ms: f64) -> Option<u64> {
    // `inf` and `nan` are numbers to the parser.
    let number: f64 = text.parse().ok().filter(|_| text.starts_with(|first: char| first.is_ascii_digit()))?;
    Some(whole_u64((number * unit_ms).ceil()))
}

/// A date, in Unix milliseconds.
fn parse_date_ms(text: &str) -> Option<u64> {
    let old = |form: &&str| DateTime::strptime(form, text).ok()?.to_zoned(TimeZone::UTC).ok();
    let date = jiff::fmt::rfc2822::parse(text).ok().or_else(|| OLD_DATES.iter().find_map(old))?;
    u64::try_from(date.timestamp().as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 5 seconds before the dates of the tests.
    const NOW_MS: u64 = 784_111_777_000 - 5_000;

    fn read(name: &str, value: &'static str) -> Option<u64> {
        read_retry_after(|asked| (asked == name).then_some(value), NOW_MS)
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        for (value, ms) in [("7", 7_000), (" 0.25 ", 250), ("0", 0), ("1.0001", 1_001)] {
            assert_eq!(read("retry-after", value), Some(ms), "{value}");
        }
        for date in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(read("retry-after", date), Some(5_000), "{date}");
        }
        assert_eq!(read("retry-after", "Sun, 06 Nov 1994 08:49:00 GMT"), Some(0), "it is over");
    }

    #[test]
    fn milliseconds_come_before_seconds() {
        assert_eq!(read("retry-after-ms", "40.2"), Some(41));
        assert_eq!(read("x-ms-retry-after-ms", "40"), Some(40));
        let both = |name: &str| match name {
            "retry-after-ms" => Some("1500"),
            "retry-after" => Some("2"),
            _ => None,
        };
        assert_eq!(read_retry_after(both, NOW_MS), Some(1_500));
        let broken = |name: &str| both(name).map(|value| if name == "retry-after-ms" { "soon" } else { value });
        assert_eq!(read_retry_after(broken, NOW_MS), Some(2_000));
    }

    #[test]
    fn a_wait_is_bounded_and_what_is_no_time_asks_for_none() {
        for huge in ["999999999999999", "1e300", "Sat, 06 Nov 2094 08:49:37 GMT"] {
            assert_eq!(read("retry-after", huge), Some(RETRY_AFTER_MS_MAX), "{huge}");
        }
        for garbage in ["soon", "-1", "NaN", "inf", "", "7 s"] {
            assert_eq!(read("retry-after", garbage), None, "{garbage}");
        }
    }
}

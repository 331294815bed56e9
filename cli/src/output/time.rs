//! Times and durations for people.

use goalmill_common::clock::{Clock, parse_rfc3339, rfc3339};

use crate::args::TimeFormat;

/// An RFC 3339 time in the given format; unchanged when it is invalid.
pub fn time(time: &str, form: TimeFormat, clock: &Clock) -> String {
    match (form, parse_rfc3339(time)) {
        (TimeFormat::Relative, _) => age(time, clock),
        (TimeFormat::Iso, Some(ms)) => rfc3339(ms),
        (TimeFormat::Raw, Some(ms)) => ms.to_string(),
        (TimeFormat::Iso | TimeFormat::Raw, None) => time.into(),
    }
}

/// How long ago an RFC 3339 time was: `12 s`, `3 min`, `2 h`, `5 d`.
fn age(time: &str, clock: &Clock) -> String {
    match parse_rfc3339(time) {
        Some(ms) => span(clock.now_ms().saturating_sub(ms)),
        None => time.into(),
    }
}

/// Milliseconds as a rounded duration: `90 s`, `3 min`, `24 h`, `5 d`.
pub fn span(ms: u64) -> String {
    match ms / 1_000 {
        s @ 0..=119 => format!("{s} s"),
        s @ 120..=7_199 => format!("{} min", s / 60),
        s @ 7_200..=172_799 => format!("{} h", s / 3_600),
        s => format!("{} d", s / 86_400),
    }
}

/// Milliseconds as seconds with two significant digits: `0.04 s`, `1.1 s`, `75 s`.
pub fn seconds(ms: u64) -> String {
    let s = ms as f64 / 1_000.0;
    match ms {
        0..=999 => format!("{s:.2} s"),
        1_000..=59_999 => format!("{s:.1} s"),
        _ => format!("{} min {} s", ms / 60_000, ms / 1_000 % 60),
    }
}

/// The time until `due_at`, such as `12 min left`.
pub fn time_left(due_at: &str, clock: &Clock) -> String {
    let Some(due_ms) = parse_rfc3339(due_at) else { return String::new() };
    match due_ms.saturating_sub(clock.now_ms()) / 1_000 {
        0 => "no time left".into(),
        s @ 1..=119 => format!("{s} s left"),
        s @ 120..=7_199 => format!("{} min left", s / 60),
        s => format!("{} h left", s / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        assert_eq!(seconds(40), "0.04 s");
        assert_eq!(seconds(1_130), "1.1 s");
        assert_eq!(seconds(75_000), "1 min 15 s");
        let clock = Clock::from_fn(|| 10_000_000);
        assert_eq!(age(&goalmill_common::clock::rfc3339(9_995_000), &clock), "5 s");
        assert_eq!(age(&goalmill_common::clock::rfc3339(0), &clock), "2 h");
    }

    #[test]
    fn a_time_has_the_form_that_is_asked_for() {
        let clock = Clock::from_fn(|| 10_000_000);
        let said = |form| time("1970-01-01T02:00:00+00:00", form, &clock);
        assert_eq!(said(TimeFormat::Relative), "46 min");
        assert_eq!(said(TimeFormat::Iso), rfc3339(7_200_000));
        assert_eq!(said(TimeFormat::Raw), "7200000");
        assert_eq!(time("soon", TimeFormat::Raw, &clock), "soon");
    }
}

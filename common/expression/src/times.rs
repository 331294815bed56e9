//! Times, durations and patterns: the filters `parse_time`, `format_time`, `add_duration` and `matches`.
//!
//! A time is a text in RFC 3339 or a number of Unix milliseconds, in UTC unless `tz` names a zone; no filter reads a clock.

use goalmill_common::clock::{TIME_MS_MAX, parse_rfc3339, rfc3339};
use goalmill_common::time_zone::{LocalTimeError, local_time_ms, time_zone};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;
use minijinja::value::Kwargs;
use minijinja::{Error, Value};
use regex::RegexBuilder;

use crate::order::{described, failed};

/// Longest format of a time, in bytes.
const FORMAT_BYTES_MAX: usize = 64;
/// Longest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 256;
/// Bytes of a compiled pattern, and of the cache of its matcher.
const COMPILED_BYTES_MAX: usize = 64 << 10;

/// What a pattern costs besides its length and that of the text, in bytes: its compilation.
pub(crate) const PATTERN_WORK: usize = 2 << 10;

/// Unix milliseconds of a text: RFC 3339, or a date, or a date and a time in UTC; or in a format of `strftime`. With `tz` it
/// is a local time of that zone.
pub(crate) fn parse_time(value: Value, format: Option<String>, named: Kwargs) -> Result<Value, Error> {
    let text = value.as_str().ok_or_else(|| failed(format!("{} is no text with a time", described(&value))))?.trim();
    let tz = zone_name(&named)?;
    let ms = match (&format, &tz) {
        (Some(format), tz) => {
            check_format(format)?;
            parse_as(format, text, tz.as_deref())?
        }
        (None, None) => parse_rfc3339(text).or_else(|| plain_ms(text)),
        (None, Some(tz)) => Some(local_time_ms(text, tz).map_err(|error| not_local(&value, &error))?),
    };
    ms.filter(|ms| *ms <= TIME_MS_MAX).map(Value::from).ok_or_else(|| {
        let form = match &format {
            Some(format) => format!("`{format}`"),
            None => "RFC 3339, as `2027-01-31T12:00:00Z` or `2027-01-31`".to_owned(),
        };
        failed(format!("{} is no time of the form {form} from 1970 to 9999", described(&value)))
    })
}

/// The argument `tz`.
fn zone_name(named: &Kwargs) -> Result<Option<String>, Error> {
    let tz = named.get::<Option<String>>("tz")?;
    named.assert_all_used()?;
    Ok(tz)
}

fn not_local(value: &Value, error: &LocalTimeError) -> Error {
    failed(format!("{}: {error}", described(value)))
}

/// - `tz`: the zone of a text without an offset; one with an offset must have none.
fn parse_as(format: &str, text: &str, tz: Option<&str>) -> Result<Option<u64>, Error> {
    let zone = tz.map(time_zone).transpose().map_err(|error| failed(error.to_string()))?;
    let Ok(read) = BrokenDownTime::parse(format, text) else { return Ok(None) };
    let at = match read.to_timestamp() {
        Ok(_) if tz.is_some() => return Err(not_local(&Value::from(text), &LocalTimeError::HasOffset)),
        Ok(at) => Some(at),
        Err(_) => read.to_date().ok().and_then(|day| {
            let local = read.to_time().map_or_else(|_| day.at(0, 0, 0, 0), |time| day.to_datetime(time));
            local.to_zoned(zone.unwrap_or(TimeZone::UTC)).ok().map(|zoned| zoned.timestamp())
        }),
    };
    Ok(at.and_then(|at| u64::try_from(at.as_millisecond()).ok()))
}

fn plain_ms(text: &str) -> Option<u64> {
    let at = text.parse::<DateTime>().ok().or_else(|| Some(text.parse::<Date>().ok()?.at(0, 0, 0, 0)))?;
    u64::try_from(at_utc(at)?.as_millisecond()).ok()
}

fn at_utc(at: DateTime) -> Option<Timestamp> {
    at.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

/// RFC 3339 with the offset of a zone.
const WITH_OFFSET: &str = "%Y-%m-%dT%H:%M:%S%.3f%:z";

/// A time as text: RFC 3339, or in a format of `strftime`; in UTC, or in the zone `tz`.
pub(crate) fn format_time(value: Value, format: Option<String>, named: Kwargs) -> Result<String, Error> {
    let ms = time_ms(&value)?;
    let zone = zone_name(&named)?.map(|tz| time_zone(&tz)).transpose().map_err(|error| failed(error.to_string()))?;
    let format = match (format, &zone) {
        (Some(format), _) => format,
        (None, Some(_)) => WITH_OFFSET.to_owned(),
        (None, None) => return Ok(rfc3339(ms)),
    };
    check_format(&format)?;
    let at = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let zone = zone.unwrap_or(TimeZone::UTC);
    let zoned = at.map(|at| at.to_zoned(zone)).ok_or_else(|| failed("the time is out of range"))?;
    jiff::fmt::strtime::format(&format, &zoned).map_err(|error| failed(format!("the format `{format}`: {error}")))
}

/// A width could make much out of little.
fn check_format(format: &str) -> Result<(), Error> {
    let mut inside = false;
    let has_width = format.bytes().any(|byte| {
        let is_width = inside && byte.is_ascii_digit() && byte != b'3';
        inside = !is_width && (byte == b'%' && !inside || inside && !byte.is_ascii_alphabetic() && byte != b'%');
        is_width
    });
    if format.len() > FORMAT_BYTES_MAX || has_width {
        let text = format!("the format has more than {FORMAT_BYTES_MAX} bytes, or a width; write it as in `%Y-%m-%d`");
        return Err(failed(text));
    }
    Ok(())
}

/// A time that is later by a duration, or earlier by one with a minus: a number for a number, a text for a text.
pub(crate) fn add_duration(value: Value, duration: Value) -> Result<Value, Error> {
    let ms = time_ms(&value)?;
    let text = duration.as_str().map(str::trim).unwrap_or_default();
    let (sign, length) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let by = duration_ms(length).ok_or_else(|| {
        let shown = described(&duration);
        failed(format!("{shown} is no duration; write one as in `3d`, `1h30m`, `500ms` or `-2w`"))
    })?;
    let sum = i128::from(ms) + sign * i128::from(by);
    let sum = u64::try_from(sum).ok().filter(|ms| *ms <= TIME_MS_MAX);
    let sum = sum.ok_or_else(|| failed("the time is not from 1970 to 9999"))?;
    Ok(if value.as_str().is_some() { Value::from(rfc3339(sum)) } else { Value::from(sum) })
}

fn duration_ms(text: &str) -> Option<u64> {
    let (mut rest, mut sum) = (text, 0_u64);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at(letters);
        let unit_ms = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            _ => return None,
        };
        sum = sum.checked_add(number.parse::<u64>().ok()?.checked_mul(unit_ms)?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(sum)
}

/// Unix milliseconds of a time.
fn time_ms(value: &Value) -> Result<u64, Error> {
    let ms = match value.as_str() {
        Some(text) => parse_rfc3339(text.trim()).or_else(|| plain_ms(text.trim())),
        None => u64::try_from(value.clone()).ok(),
    };
    ms.filter(|ms| *ms <= TIME_MS_MAX).ok_or_else(|| {
        let shown = described(value);
        failed(format!(
            "{shown} is no time; give RFC 3339, as `2027-01-31T12:00:00Z`, or Unix milliseconds to the year 9999"
        ))
    })
}

/// Whether a pattern is found in a text, in time proportional to the product of their lengths at most.
pub(crate) fn matches(value: &Value, pattern: &str) -> Result<bool, Error> {
    let text = value.as_str().ok_or_else(|| failed(format!("{} is no text", described(value))))?;
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(failed(format!("the pattern has more than {PATTERN_BYTES_MAX} bytes")));
    }
    let builder = &mut RegexBuilder::new(pattern);
    let built = builder.size_limit(COMPILED_BYTES_MAX).dfa_size_limit(COMPILED_BYTES_MAX).build();
    let regex = built.map_err(|error| {
        let error = error.to_string();
        let last = error.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let why = last.trim().trim_start_matches("error: ");
        failed(format!(
            "the pattern `{}` cannot be used: {why}; it takes no look-around and no back-reference",
            crate::shorten(pattern)
        ))
    })?;
    Ok(regex.is_match(text))
}

#[cfg(test)]
mod tests {
    use goalmill_common::goal::Goal;
    use goalmill_common::json::Json;
    use goalmill_common::limits::Limits;
    use serde_json::{Value as JsonValue, json};

    use crate::{ExpressionError, Scope, examine, is_true, render};

    /// 2026-11-21T20:38:10.279Z.
    const NOW_MS: u64 = 1_795_293_490_279;

    fn value(text: &str) -> Result<JsonValue, ExpressionError> {
        let goal = Goal {
            metadata: json!({"word": "ab", "json": "{\"a\": [1, 2.5]}"}).as_object().cloned().unwrap(),
            ..Goal::default()
        };
        let scope = Scope::new(&goal, &|_| None).with_now(NOW_MS);
        examine(text, &[])?;
        render(&Json::from_value(&json!(text)), &scope, &Limits::default()).map(|json| json.value())
    }

    #[test]
    fn times_are_read_written_and_moved() {
        for (text, expected) in [
            ("{{ now }}", json!("2026-11-21T20:38:10.279Z")),
            ("{{ now | parse_time }}", json!(NOW_MS)),
            ("{{ '1970-01-02' | parse_time }}", json!(86_400_000)),
            ("{{ '1970-01-01T00:00:01' | parse_time }}", json!(1_000)),
            ("{{ '1970-01-01T01:00:00+01:00' | parse_time }}", json!(0)),
            ("{{ '31.12.1970 06:30' | parse_time('%d.%m.%Y %H:%M') }}", json!(31_473_000_000_u64)),
            ("{{ '02/01/1970' | parse_time('%d/%m/%Y') }}", json!(86_400_000)),
            ("{{ 0 | format_time }}", json!("1970-01-01T00:00:00.000Z")),
            ("{{ now | format_time('%A %d %B %Y, %H:%M') }}", json!("Saturday 21 November 2026, 20:38")),
            ("{{ '2027-07-31 12:00' | parse_time(tz='Europe/Berlin') }}", json!(1_817_028_000_000_u64)),
            ("{{ '1.2.1970' | parse_time('%d.%m.%Y', tz='Asia/Kolkata') }}", json!(31 * 86_400_000_u64 - 19_800_000)),
            ("{{ 0 | format_time('%H:%M %Z', tz='Europe/Berlin') }}", json!("01:00 CET")),
            ("{{ now | format_time(tz='Asia/Kolkata') }}", json!("2026-11-22T02:08:10.279+05:30")),
            ("{{ now | add_duration('1d2h') }}", json!("2026-11-22T22:38:10.279Z")),
            ("{{ 1000 | add_duration('500ms') }}", json!(1_500)),
            ("{{ '1970-01-08' | add_duration('-1w') }}", json!("1970-01-01T00:00:00.000Z")),
            ("{{ (now | parse_time) < (now | add_duration('1s') | parse_time) }}", json!(true)),
        ] {
            assert_eq!(value(text).as_ref(), Ok(&expected), "{text}");
        }
    }

    #[test]
    fn patterns_and_json_are_read() {
        for (text, expected) in [
            ("{{ goal.metadata.word | matches('^a.$') }}", json!(true)),
            ("{{ goal.metadata.word is matches('b') }}", json!(true)),
            ("{{ goal.metadata.word is not matches('^b') }}", json!(true)),
            ("{{ ['a', 'b1'] | select('matches', '[0-9]') | list }}", json!(["b1"])),
            ("{{ goal.metadata.json | fromjson }}", json!({"a": [1, 2.5]})),
            ("{{ (goal.metadata.json | fromjson).a[1] }}", json!(2.5)),
        ] {
            assert_eq!(value(text).as_ref(), Ok(&expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_filter() {
        let long = format!("{{{{ goal.metadata.word | matches('{}') }}}}", "a".repeat(257));
        for (text, part) in [
            ("{{ 'soon' | parse_time }}", "filter `parse_time`"),
            ("{{ 5 | parse_time }}", "filter `parse_time`"),
            ("{{ '1969-01-01' | parse_time }}", "from 1970 to 9999"),
            ("{{ 'soon' | format_time }}", "filter `format_time`"),
            ("{{ 300000000000000 | format_time }}", "filter `format_time`"),
            ("{{ now | format_time('%60000Y') }}", "a width"),
            ("{{ now | format_time('%-5d') }}", "a width"),
            ("{{ now | add_duration('soon') }}", "filter `add_duration`"),
            ("{{ now | add_duration(5) }}", "is no duration"),
            ("{{ now | add_duration('99999999w') }}", "filter `add_duration`"),
            ("{{ 0 | add_duration('-1ms') }}", "filter `add_duration`"),
            ("{{ goal.metadata.word | matches('(') }}", "filter `matches`"),
            ("{{ goal.metadata.word | matches('(?=a)') }}", "look-around"),
            ("{{ goal.metadata.word | matches('(\\\\pL{100}){100}') }}", "filter `matches`"),
            ("{{ goal.metadata | matches('a') }}", "filter `matches`"),
            ("{{ now | parse_time(tz='UTC') }}", "`tz` must not name a zone"),
            ("{{ '1970-01-01 +0100' | parse_time('%Y-%m-%d %z', tz='UTC') }}", "filter `parse_time`"),
            ("{{ '1970-01-01' | parse_time(tz='Europe/Berln') }}", "did you mean `Europe/Berlin`?"),
            ("{{ now | format_time(tz='Europe/Berln') }}", "did you mean `Europe/Berlin`?"),
            (long.as_str(), "more than 256 bytes"),
            ("{{ goal.metadata.word | fromjson }}", "filter `fromjson`"),
            ("{{ '[123456789012345678901]' | fromjson }}", "filter `fromjson`"),
        ] {
            let error = value(text).expect_err(text);
            assert!(error.code == "EXPRESSION_FAILED" && error.message.contains(part), "{text}: {error}");
        }
        for text in [
            "{{ now() }}",
            "{{ goal.metadata.word | matches }}",
            "{{ now | format_time('a', 'b') }}",
            "{{ now | format_time(zone='UTC') }}",
        ] {
            assert_eq!(value(text).expect_err(text).code, "INVALID_EXPRESSION", "{text}");
        }
    }

    #[test]
    fn work_is_bounded() {
        let goal = Goal {
            metadata: json!({"deep": "[".repeat(100) + &"]".repeat(100), "list": vec!["x"; 4_000]})
                .as_object()
                .cloned()
                .unwrap(),
            ..Goal::default()
        };
        let scope = Scope::new(&goal, &|_| None);
        let code = |text: &str| is_true(text, &scope, &Limits::default()).expect_err(text).code;
        assert_eq!(code("goal.metadata.deep | fromjson"), "EXPRESSION_FAILED");
        assert_eq!(code("goal.metadata.list | select('matches', 'y') | list"), "TEMPLATE_FUEL_EXHAUSTED");
    }
}

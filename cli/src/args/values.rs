//! Values that flags take.

use std::time::Duration;

use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use goalmill_common::document_format::DocumentFormat;
use goalmill_common::event;

/// A form of documents, by any of its names.
pub fn document_format(text: &str) -> Result<DocumentFormat, String> {
    DocumentFormat::find(text).ok_or_else(|| {
        let known: Vec<&str> = DocumentFormat::ALL.iter().map(|form| form.as_str()).collect();
        format!("there is no form `{text}`; give one of {}", known.join(", "))
    })
}

/// Output format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns for people.
    Table,
    /// The same with more columns and full texts.
    Wide,
    /// One JSON document.
    Json,
    Yaml,
    /// One JSON object per line.
    Jsonl,
    /// Only the name or id, one per line.
    Name,
    /// No output: only the exit code and errors.
    None,
}

/// Time format in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimeFormat {
    /// Age: `12 s`, `3 min`.
    Relative,
    /// RFC 3339 in UTC.
    Iso,
    /// Unix milliseconds.
    Raw,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    Always,
    Never,
}

/// Reads a duration: `250ms`, `30s`, `5m`, `2h`, or plain seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        unit => return Err(format!("the unit `{unit}` is none of `ms`, `s`, `m`, `h`")),
    };
    let number: f64 = digits.parse().map_err(|_| format!("`{text}` is not a duration; examples: `30s`, `5m`"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| format!("`{text}` is out of range"))
}

/// Reads a longer duration: as [`duration`], and days (`7d`).
pub fn period(text: &str) -> Result<Duration, String> {
    let Some(days) = text.strip_suffix('d') else { return duration(text) };
    let days: f64 = days.parse().map_err(|_| format!("`{text}` is not a duration; examples: `24h`, `7d`"))?;
    Duration::try_from_secs_f64(days * 86_400.0).map_err(|_| format!("`{text}` is out of range"))
}

/// Parses a positive number.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be 1 at least".into()),
        Ok(number) => Ok(number),
        Err(_) => Err(format!("`{text}` is not an integer")),
    }
}

/// All event types.
pub fn event_types() -> PossibleValuesParser {
    PossibleValuesParser::new(event::types())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_may_count_days() {
        let seconds = |text: &str| period(text).map(|time| time.as_secs());
        assert_eq!((seconds("7d"), seconds("90m")), (Ok(604_800), Ok(5_400)));
        assert!(period("d").is_err() && period("7w").is_err() && period("-1d").is_err());
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(duration("5m"), Ok(Duration::from_mins(5)));
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        for bad in ["", "m", "-1s", "5d", "1e400", "NaN"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}

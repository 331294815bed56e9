//! Local times in a named time zone.
//!
//! Zones and their rules are those of the IANA database that is built in: no file is read, and all machines with one build
//! agree.

use std::sync::LazyLock;

use jiff::civil::Time;
use jiff::fmt::temporal::Pieces;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::clock::TIME_MS_MAX;
use crate::suggest::nearest;

static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Why a text is no time of a zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocalTimeError {
    /// The database has no zone of this name.
    #[error("there is no time zone `{name}`{}", nearest.as_ref().map_or_else(String::new, |zone| format!("; did you mean `{zone}`?")))]
    UnknownZone {
        /// The name.
        name: String,
        /// The nearest one that there is.
        nearest: Option<String>,
    },
    /// The time is the same everywhere: a zone beside it would be ignored or contradict it.
    #[error("it has an offset or is a number, so `tz` must not name a zone as well")]
    HasOffset,
    /// It is no date, and no date with a time, from 1970 to 9999.
    #[error("it is no local time such as `2027-01-31T12:00:00`")]
    NotLocal,
}

/// The zone of this name, whatever the case of its letters: `Europe/Berlin`.
pub fn time_zone(name: &str) -> Result<TimeZone, LocalTimeError> {
    ZONES.get(name).map_err(|_| {
        let names: Vec<String> = ZONES.available().map(|name| name.to_string()).collect();
        let nearest = nearest(name, names.iter().map(String::as_str)).map(ToOwned::to_owned);
        LocalTimeError::UnknownZone { name: name.chars().take(64).collect(), nearest }
    })
}

/// Unix milliseconds of a local time in a zone: `2027-01-31T12:00:00`, `2027-01-31 12:00`, or `2027-01-31` for its begin.
///
/// Of a time that comes twice when clocks are put back it is the first; a time that is skipped when they are put forward
/// is as much later as they are put forward (the rule "compatible" of RFC 5545).
pub fn local_time_ms(text: &str, zone: &str) -> Result<u64, LocalTimeError> {
    let zone = time_zone(zone)?;
    let text = text.trim();
    if text.parse::<u64>().is_ok_and(|number| number > NUMBER_MIN) {
        return Err(LocalTimeError::HasOffset);
    }
    let pieces = Pieces::parse(text).map_err(|_| LocalTimeError::NotLocal)?;
    if pieces.offset().is_some() || pieces.time_zone_annotation().is_some() {
        return Err(LocalTimeError::HasOffset);
    }
    let local = pieces.date().to_datetime(pieces.time().unwrap_or_else(Time::midnight));
    let zoned = local.to_zoned(zone).map_err(|_| LocalTimeError::NotLocal)?;
    let ms = u64::try_from(zoned.timestamp().as_millisecond()).ok().filter(|ms| *ms <= TIME_MS_MAX);
    ms.ok_or(LocalTimeError::NotLocal)
}

/// Whether a text is a date or a time that only a zone makes certain.
pub fn is_local_time(text: &str) -> bool {
    local_time_ms(text, "UTC").is_ok()
}

/// A number up to this one is a date without separators: `20270131`.
const NUMBER_MIN: u64 = 99_991_231;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::rfc3339;

    fn berlin(text: &str) -> Result<String, LocalTimeError> {
        local_time_ms(text, "Europe/Berlin").map(rfc3339)
    }

    #[test]
    fn a_local_time_is_that_of_its_zone() {
        for (text, expected) in [
            ("2027-01-31T12:00:00", "2027-01-31T11:00:00.000Z"),
            ("2027-07-31 12:00", "2027-07-31T10:00:00.000Z"),
            (" 2027-07-31 ", "2027-07-30T22:00:00.000Z"),
            // Skipped: clocks go from 2:00 to 3:00.
            ("2027-03-28T02:30:00", "2027-03-28T01:30:00.000Z"),
            // Twice: clocks go from 3:00 to 2:00.
            ("2027-10-31T02:30:00", "2027-10-31T00:30:00.000Z"),
            ("2027-10-31T03:00:00", "2027-10-31T02:00:00.000Z"),
        ] {
            assert_eq!(berlin(text).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(local_time_ms("2027-01-31T12:00", "asia/kolkata"), local_time_ms("2027-01-31T06:30", "UTC"));
    }

    #[test]
    fn a_time_that_is_the_same_everywhere_takes_no_zone() {
        for text in
            ["2027-01-31T12:00:00Z", "2027-01-31T12:00:00+01:00", "2027-01-31T12:00[Europe/Berlin]", "1801393200000"]
        {
            assert_eq!(berlin(text), Err(LocalTimeError::HasOffset), "{text}");
            assert!(!is_local_time(text), "{text}");
        }
        for text in ["tomorrow", "", "12:00", "2027-13-01", "1969-12-31", "2027-02-29T12:00"] {
            assert_eq!(berlin(text), Err(LocalTimeError::NotLocal), "{text}");
        }
        assert!(is_local_time("2027-01-31T12:00:00"));
    }

    #[test]
    fn an_unknown_zone_is_named_with_the_nearest_one() {
        let text = |zone: &str| local_time_ms("2027-01-31T12:00", zone).expect_err(zone).to_string();
        assert_eq!(text("Europe/Berln"), "there is no time zone `Europe/Berln`; did you mean `Europe/Berlin`?");
        assert_eq!(text("Mars/Olympus Mons"), "there is no time zone `Mars/Olympus Mons`");
        for zone in ["", "+01:00", "local", "../etc/passwd", "PST8PDT4"] {
            assert!(text(zone).starts_with("there is no time zone"), "{zone}");
        }
    }
}

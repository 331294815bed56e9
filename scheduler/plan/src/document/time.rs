//! Times of a document, and the time zone that may stand beside them.

use goalmill_common::clock::{TIME_MS_MAX, parse_rfc3339};
use goalmill_common::time_zone::{LocalTimeError, is_local_time, local_time_ms, time_zone};
use serde_json::Value;

use super::{DocumentPath, Fields, ValidationContext, count, shorten, wrong_type};

/// Other names of the field `tz`.
pub(crate) const ZONE_ALIASES: &[&str] = &["time_zone", "timezone"];

/// Smaller numbers are seconds, or slips.
const UNIX_MS_MIN: u64 = 100_000_000_000;

/// The zone of the local times of an object.
pub(crate) enum DocumentZone {
    /// There is no field `tz`.
    Absent,
    Named(String),
    /// It is reported.
    Wrong,
}

impl DocumentZone {
    /// Reads the field `tz`.
    pub(crate) fn from_fields(fields: &Fields<'_, '_>) -> Self {
        let Some(field) = fields.get("tz") else { return Self::Absent };
        let Some(name) = fields.text("tz").map(|name| name.trim().to_owned()) else { return Self::Wrong };
        if Self::is_known(fields.context, &fields.at.key(field.key), &name) { Self::Named(name) } else { Self::Wrong }
    }

    /// Whether there is a zone of this name; reports one that there is not.
    pub(crate) fn is_known(context: &ValidationContext<'_>, at: &DocumentPath<'_>, name: &str) -> bool {
        let Err(error) = time_zone(name) else { return true };
        let hint = match error {
            LocalTimeError::UnknownZone { nearest: Some(zone), .. } => format!("did you mean `{zone}`?"),
            LocalTimeError::UnknownZone { .. } | LocalTimeError::HasOffset | LocalTimeError::NotLocal => {
                "write a name of the IANA database as in `Europe/Berlin`, or `UTC`".to_owned()
            }
        };
        context.error("INVALID_VALUE", at, format!("there is no time zone `{}`", shorten(name)), hint);
        false
    }

    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Named(name) => Some(name),
            Self::Absent | Self::Wrong => None,
        }
    }
}

/// Reads RFC 3339, Unix milliseconds, or a local time of the zone.
///
/// - `others`: what else may stand there, for the hint.
pub(crate) fn time(
    context: &ValidationContext<'_>,
    at: &DocumentPath<'_>,
    value: &Value,
    zone: &DocumentZone,
    others: &str,
) -> Option<u64> {
    match value {
        Value::Number(_) if zone.name().is_some() => {
            has_offset(context, at, value);
            None
        }
        Value::Number(_) => count(context, at, value, UNIX_MS_MIN, TIME_MS_MAX),
        Value::String(text) => time_of_text(context, at, text, zone, others),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            wrong_type(context, at, value, &format!("a time such as `2027-01-31T12:00:00Z`{others}"));
            None
        }
    }
}

fn time_of_text(
    context: &ValidationContext<'_>,
    at: &DocumentPath<'_>,
    text: &str,
    zone: &DocumentZone,
    others: &str,
) -> Option<u64> {
    let wrong = |hint: &str| {
        context.error("INVALID_VALUE", at, format!("`{}` is not a time", shorten(text)), hint);
        None
    };
    match zone {
        DocumentZone::Named(name) => match local_time_ms(text, name) {
            Ok(ms) => Some(ms),
            Err(LocalTimeError::HasOffset) => {
                has_offset(context, at, &Value::from(text));
                None
            }
            Err(LocalTimeError::NotLocal | LocalTimeError::UnknownZone { .. }) => {
                wrong(&format!("write a local time of `{name}` as in `2027-01-31T12:00:00`{others}"))
            }
        },
        DocumentZone::Absent | DocumentZone::Wrong => match parse_rfc3339(text.trim()) {
            Some(ms) => Some(ms),
            None if !is_local_time(text) => {
                wrong(&format!("write RFC 3339 as in `2027-01-31T12:00:00Z`, Unix milliseconds{others}"))
            }
            None if matches!(zone, DocumentZone::Absent) => {
                wrong("add an offset as in `2027-01-31T12:00:00Z`, or name the zone beside it: `tz: Europe/Berlin`")
            }
            None => None,
        },
    }
}

fn has_offset(context: &ValidationContext<'_>, at: &DocumentPath<'_>, value: &Value) {
    let given = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let detail = format!("`{}` is the same everywhere, and `tz` names a zone for it", shorten(&given));
    let hint = "remove `tz`, or write a local time as in `2027-01-31T12:00:00`";
    context.error("CONFLICTING_FIELDS", at, detail, hint);
}

/// Reads the time that an expression gives: RFC 3339, Unix milliseconds, or a local time of the zone.
pub fn rendered_time_ms(text: &str, zone: Option<&str>) -> Result<u64, String> {
    let text = text.trim();
    if let Some(zone) = zone {
        return local_time_ms(text, zone).map_err(|error| error.to_string());
    }
    let number = || text.parse::<u64>().ok().filter(|ms| (UNIX_MS_MIN..=TIME_MS_MAX).contains(ms));
    parse_rfc3339(text).or_else(number).ok_or_else(|| {
        let more = if is_local_time(text) { ", or name its zone: `tz: Europe/Berlin`" } else { "" };
        format!("it is no time: give RFC 3339 as in `2027-01-31T12:00:00Z`, or Unix milliseconds{more}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_gives_rfc_3339_unix_milliseconds_or_a_local_time_of_the_zone() {
        let read = |text: &str, zone| rendered_time_ms(text, zone).ok();
        assert_eq!(read(" 2027-01-31T12:00:00+01:00 ", None), Some(1_801_393_200_000));
        assert_eq!(read("1801393200000", None), Some(1_801_393_200_000));
        assert_eq!(read("2027-01-31 12:00", Some("Europe/Berlin")), Some(1_801_393_200_000));
        for (text, zone, part) in [
            ("1801393200", None, "Unix milliseconds"),
            ("tomorrow", None, "no time"),
            ("", None, "no time"),
            ("2027-01-31T12:00:00", None, "tz: Europe/Berlin"),
            ("2027-01-31T12:00:00Z", Some("Europe/Berlin"), "`tz` must not name a zone"),
            ("1801393200000", Some("Europe/Berlin"), "`tz` must not name a zone"),
            ("tomorrow", Some("Europe/Berlin"), "no local time"),
        ] {
            let error = rendered_time_ms(text, zone).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}

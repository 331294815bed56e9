//! The mark of a plan that only waits in its summary, so that a new owner need not read its log.

use std::collections::BTreeMap;

use crate::id::Namespace;
use crate::status::PlanStatus;
use crate::view::summary_namespace;

/// A parked plan: it has nothing to do before `due_ms`. The mark holds as long as the log has no event after `seq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkMark {
    /// Number of the log's last event when the mark was made.
    pub seq: u64,
    /// The plan's next timer, Unix milliseconds.
    pub due_ms: u64,
    /// The plan's last change, Unix milliseconds.
    pub updated_ms: u64,
    /// The status of the plan.
    pub status: PlanStatus,
    /// The numbers of its steps that wait for a time, and for an event.
    pub waits: (u64, u64),
}

impl ParkMark {
    /// The field of the summary.
    pub const FIELD: &'static str = "parked";

    /// Raised when owners begin to do more for a plan that only waits: older marks do not hold any longer.
    const VERSION: &'static str = "1";

    /// The value of the field: version, `seq`, `due_ms`, `updated_ms`, both numbers of waits and the status.
    pub fn text(&self) -> String {
        let (Self { seq, due_ms, updated_ms, status, waits: (times, events) }, version) = (self, Self::VERSION);
        format!("{version} {seq} {due_ms} {updated_ms} {times} {events} {}", status.as_str())
    }

    /// `None` for what another version wrote, or for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        if words.next() != Some(Self::VERSION) {
            return None;
        }
        let status = text.rsplit(' ').next().and_then(PlanStatus::parse)?;
        let mut number = || words.next()?.parse::<u64>().ok();
        let mark =
            Self { seq: number()?, due_ms: number()?, updated_ms: number()?, waits: (number()?, number()?), status };
        (mark.text() == text).then_some(mark)
    }

    /// The mark in a summary, and the namespace of its plan.
    pub fn in_summary(summary: &BTreeMap<String, String>) -> Option<(Self, Namespace)> {
        Some((Self::parse(summary.get(Self::FIELD)?)?, summary_namespace(summary)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_no_other_text_is_one() {
        let mark = ParkMark { seq: 7, due_ms: 9, updated_ms: 8, status: PlanStatus::Running, waits: (1, 0) };
        let text = mark.text();
        assert_eq!((text.as_str(), ParkMark::parse(&text)), ("1 7 9 8 1 0 running", Some(mark)));
        for other in ["", "1", "2 7 9 8 1 0 running", "1 7 9 8 1 0 asleep", "1 7 9 8 1 running", "1 +7 9 8 1 0 running"]
        {
            assert_eq!(ParkMark::parse(other), None, "{other}");
        }
    }
}

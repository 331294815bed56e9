//! The work limit of one decision; the rest waits for [`crate::Command::Continue`].
//!
//! The decisions of a family that follow from one command share it. A shard decides for all of its plans in one loop, and
//! writes what it decided in one commit. Without a limit, a plan
//! of 10,000 inline steps would block the loop and put all their outputs into one commit.

/// Units of work of one decision. The most expensive unit is one step whose inputs have 16 templates that use up their
/// fuel, about 50 ms.
const UNITS_MAX: usize = 32;
/// Bytes of outputs that count as one unit, so that one decision adds about 1 MiB to the commit.
const UNIT_BYTES: usize = 32 << 10;

/// Work that the decisions of one turn of a family have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkLimit {
    units: usize,
    is_cut: bool,
}

impl WorkLimit {
    /// Whether one more unit is allowed; if not, the decision counts as cut short.
    pub(crate) fn allows_more(&mut self) -> bool {
        self.is_cut |= self.units >= UNITS_MAX;
        !self.is_cut
    }

    /// The limit of the next decision of the family in the same turn.
    pub(crate) fn passed_on(self) -> Self {
        Self { is_cut: false, ..self }
    }

    /// Counts one evaluation that gave `bytes` bytes.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.units += 1 + bytes / UNIT_BYTES;
    }

    /// Whether the decision was cut short.
    pub(crate) fn is_cut(self) -> bool {
        self.is_cut
    }
}

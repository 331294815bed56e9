//! The work limit of one decision; the rest waits for [`crate::Command::Continue`].
//!
//! The decisions of a family that follow from one command share it. A shard decides for all of its plans in one loop, and
//! writes what it decided in one commit. Without a limit, a plan
//! of 10,000 inline steps would block the loop and put all their outputs into one commit.

use goalmill_common::limits::Limits;

/// Units of work of one decision. No part of a decision begins after them.
const UNITS_MAX: usize = 32;
/// Work of expressions that counts as one unit, about 2 ms.
const UNIT_WORK: u64 = 64 << 10;
/// How often `limits.fuel_max` the expressions of one part of a decision may take together: those of one step, or of all
/// items of a map. With the default about half a second.
const PART_FUELS: u64 = 160;
/// Work that a part of a decision may take whatever `limits.fuel_max` is.
const PART_WORK_MIN: u64 = 1 << 20;

/// Work that the expressions of one part of a decision may take together.
pub(crate) fn part_work_max(limits: &Limits) -> u64 {
    limits.fuel_max.saturating_mul(PART_FUELS).max(PART_WORK_MIN)
}
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

    /// Counts a part of a decision.
    ///
    /// - `bytes`: what it adds to the commit.
    /// - `work`: of its expressions.
    pub(crate) fn count(&mut self, bytes: usize, work: u64) {
        self.units += 1;
        self.add(bytes, work);
    }

    /// Counts more of the same part.
    pub(crate) fn add(&mut self, bytes: usize, work: u64) {
        let units = usize::try_from(work / UNIT_WORK).unwrap_or(UNITS_MAX);
        self.units = self.units.saturating_add(units).saturating_add(bytes / UNIT_BYTES);
    }

    /// Whether the decision was cut short.
    pub(crate) fn is_cut(self) -> bool {
        self.is_cut
    }
}

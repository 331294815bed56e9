//! How much one decision may do: what is left over waits for [`crate::Command::Continue`].
//!
//! A shard decides for all of its plans in one loop, and writes what it decided in one commit. Without a limit, a plan
//! of 10,000 steps that the engine does itself would hold up the loop and fill one commit with all their outputs.

/// Units of work of one decision. The dearest unit is one step whose inputs have 16 templates that use up their fuel,
/// about 50 ms.
const UNITS_MAX: usize = 32;
/// Bytes of outputs that count as one unit, so that one decision adds about 1 MiB to the commit.
const UNIT_BYTES: usize = 32 << 10;

/// What a decision has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    units: usize,
    is_cut: bool,
}

impl Work {
    /// Whether there is room for one more unit; if not, the decision is noted as cut short.
    pub(crate) fn allows_more(&mut self) -> bool {
        self.is_cut |= self.units >= UNITS_MAX;
        !self.is_cut
    }

    /// Counts one evaluation that gave `bytes` bytes.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.units += 1 + bytes / UNIT_BYTES;
    }

    /// Whether something was left for later.
    pub(crate) fn is_cut(self) -> bool {
        self.is_cut
    }
}

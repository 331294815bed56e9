//! How much a reading may cost.

use std::cell::Cell;

/// Bounds of one reading. Whatever is over them is refused or left unread, never read in part without saying so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longer texts are refused unread. Bytes. The default is about 128,000 tokens, more than models write at once, and
    /// what is read within 50 ms of processor time whatever it holds.
    pub bytes_max: usize,
    /// Deeper nesting makes a value unreadable. Levels; at most 200, so that the tree can be walked on any stack.
    pub depth_max: usize,
    /// More guesses than this in one value, and it is unreadable.
    pub guesses_max: usize,
    /// Values looked at in one text; what follows them is not looked at, and the reading says so.
    pub values_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes_max: 1 << 19, depth_max: 100, guesses_max: 100, values_max: 4096 }
    }
}

impl Limits {
    pub(crate) fn depth(&self) -> usize {
        self.depth_max.min(200)
    }
}

/// Work that is left for one text and all the texts in its strings. One unit is about a byte looked at.
#[derive(Debug)]
pub(crate) struct Budget(Cell<usize>);

/// Units for each byte of a text, and for the shortest.
const WORK_PER_BYTE: usize = 48;
const WORK_LEAST: usize = 1 << 16;
/// Units for the longest text.
const WORK_MAX: usize = 8 << 20;

/// What a token costs besides its bytes, in units.
pub(crate) const TOKEN: usize = 12;

impl Budget {
    pub(crate) fn of(text: &str) -> Self {
        Self(Cell::new((WORK_PER_BYTE * text.len() + WORK_LEAST).min(WORK_MAX)))
    }

    pub(crate) fn left(&self) -> usize {
        self.0.get()
    }

    pub(crate) fn spend(&self, work: usize) {
        self.0.set(self.0.get().saturating_sub(work));
    }
}

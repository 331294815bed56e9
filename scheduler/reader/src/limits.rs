//! Limits of a parse.

use std::cell::Cell;

/// Limits of one parse. Input over a limit is refused or skipped, and the result reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderLimits {
    /// Longer texts are refused unread. Bytes. The default is about 96,000 tokens, more than models write in one answer, and
    /// what is read within 50 ms of processor time whatever it holds.
    pub bytes_max: usize,
    /// Deeper nesting makes a value unreadable. Levels; at most 200, so that the tree can be walked on any stack.
    pub depth_max: usize,
    /// More guesses than this in one value, and it is unreadable.
    pub guesses_max: usize,
    /// Values looked at in one text; what follows them is not looked at, and the reading says so.
    pub values_max: usize,
}

impl Default for ReaderLimits {
    fn default() -> Self {
        Self { bytes_max: 3 << 17, depth_max: 100, guesses_max: 100, values_max: 4096 }
    }
}

impl ReaderLimits {
    pub(crate) fn depth(&self) -> usize {
        self.depth_max.min(200)
    }
}

/// Work units for one text and all texts in its strings. One unit is about one byte, four nanoseconds.
#[derive(Debug)]
pub(crate) struct WorkBudget {
    whole: usize,
    spent: Cell<usize>,
}

/// Units for each byte of a text, and for the shortest.
const WORK_PER_BYTE: usize = 48;
const WORK_LEAST: usize = 1 << 16;
/// Units for the longest text: a fifth of the 50 ms that [`ReaderLimits::bytes_max`] speaks of.
const WORK_MAX: usize = 1 << 21;

/// What a token costs besides its bytes, in units.
pub(crate) const TOKEN: usize = 12;
/// What a list or a table costs besides, which becomes a value of its own.
pub(crate) const CONTAINER: usize = 2 * TOKEN;
/// What a call costs besides, which becomes three.
pub(crate) const CALL: usize = 8 * TOKEN;
/// What an argument costs besides, which gets a name and a type.
pub(crate) const ARGUMENT: usize = 2 * TOKEN;
/// What looking a name up costs.
pub(crate) const NAME: usize = 2 * TOKEN;
/// What holding an argument against a parameter costs.
pub(crate) const MATCH: usize = TOKEN / 2;
/// What an entry of a table costs that may be a call.
pub(crate) const PAIR: usize = TOKEN;
/// What a text in a string costs besides its values.
pub(crate) const INNER: usize = 24 * TOKEN;

impl WorkBudget {
    pub(crate) fn for_text(text: &str) -> Self {
        Self { whole: (WORK_PER_BYTE * text.len() + WORK_LEAST).min(WORK_MAX), spent: Cell::new(0) }
    }

    /// For what is done with the values once they are found, so that those found before the work was used up count.
    pub(crate) fn half_for_text(text: &str) -> Self {
        let Self { whole, spent } = Self::for_text(text);
        Self { whole: whole / 2, spent }
    }

    pub(crate) fn left(&self) -> usize {
        self.whole.saturating_sub(self.spent.get())
    }

    pub(crate) fn spend(&self, work: usize) {
        self.spent.set(self.spent.get().saturating_add(work));
    }

    /// What was spent, which may be a little more than there was.
    #[cfg(test)]
    pub(crate) fn spent(&self) -> usize {
        self.spent.get()
    }
}

//! How much a reading may cost.

/// Bounds of one reading. Whatever is over them is refused or left unread, never read in part without saying so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longer texts are refused unread. Bytes.
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
        Self { bytes_max: 1 << 20, depth_max: 100, guesses_max: 100, values_max: 4096 }
    }
}

impl Limits {
    pub(crate) fn depth(&self) -> usize {
        self.depth_max.min(200)
    }
}

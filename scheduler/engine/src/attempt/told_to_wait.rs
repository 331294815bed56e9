//! Steps whose agents ask to wait.

/// A step whose agents ask to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ToldToWait {
    /// The first time, Unix milliseconds.
    pub(super) since_ms: u64,
    /// How often.
    pub(super) times: u32,
}

impl ToldToWait {
    /// They ask once more.
    pub(crate) fn again(before: Option<Self>, now_ms: u64) -> Self {
        let Self { since_ms, times } = before.unwrap_or(Self { since_ms: now_ms, times: 0 });
        Self { since_ms, times: times.saturating_add(1) }
    }
}

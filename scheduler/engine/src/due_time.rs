//! Times in Unix milliseconds, in which 0 means none.

/// `None` for 0.
pub(crate) fn at(ms: u64) -> Option<u64> {
    (ms > 0).then_some(ms)
}

/// Returns the time `ms` milliseconds after `now_ms`. Never 0, which means no time.
pub(crate) fn after(now_ms: u64, ms: u64) -> u64 {
    now_ms.saturating_add(ms).max(1)
}

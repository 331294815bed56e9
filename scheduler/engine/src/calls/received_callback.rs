//! What came by callback.

use goalmill_common::event::CallbackReceived;

/// What came by callback.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReceivedCallback {
    attempt: u32,
    /// Of its report.
    digest: String,
}

impl ReceivedCallback {
    pub(crate) fn new(attempt: u32, received: &CallbackReceived) -> Self {
        Self { attempt, digest: received.digest.clone() }
    }

    /// The digest of the report for this attempt.
    pub(crate) fn digest(&self, attempt: u32) -> Option<&str> {
        (self.attempt == attempt).then_some(self.digest.as_str())
    }
}

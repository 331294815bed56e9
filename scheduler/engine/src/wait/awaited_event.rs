//! The event from outside that a step waits for.

use goalmill_common::event::StepWaitStarted;

/// The event that a step waits for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AwaitedEvent {
    pub(super) name: String,
    /// Empty for none.
    pub(super) key: String,
}

impl AwaitedEvent {
    pub(crate) fn new(started: &StepWaitStarted) -> Self {
        Self { name: started.event.clone(), key: started.key.clone() }
    }
}

//! The iterations of a loop.

use goalmill_common::event::StepEvent;
use goalmill_common::json::Json;

/// The iterations of a loop that are done.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Iterations {
    /// The number of the last one, and its outputs.
    last: Option<(u32, Json)>,
}

impl Iterations {
    pub(crate) fn fold(&mut self, event: &StepEvent) {
        if let StepEvent::Iterated(iterated) = event {
            self.last = Some((iterated.iteration, iterated.outputs.clone()));
        } else if let StepEvent::Undone(_) = event {
            self.last = None;
        }
    }

    /// The number of the current one, from 1.
    pub(crate) fn current(&self) -> u32 {
        self.last.as_ref().map_or(0, |(number, _)| *number) + 1
    }

    /// The outputs of the one before.
    pub(crate) fn previous(&self) -> Option<&Json> {
        self.last.as_ref().map(|(_, outputs)| outputs)
    }
}

//! Events from outside: those that a plan keeps until a step takes them, and that which a step waits for.

use std::collections::BTreeSet;

use goalmill_common::event::StepWaitStarted;
use goalmill_common::external_event::ExternalEvent;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReceivedEvents {
    /// Those that no step has taken, in the order in which they came.
    kept: Vec<ExternalEvent>,
    /// Bytes of the data of the kept ones.
    bytes: usize,
    /// Of every event that ever came, to this plan or to a plan inside it.
    ids: BTreeSet<Box<str>>,
}

impl ReceivedEvents {
    /// Whether an event with this id came before.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    pub(crate) fn push(&mut self, event: &ExternalEvent) {
        self.ids.insert(event.id.as_str().into());
        self.bytes = self.bytes.saturating_add(event.data.text().len());
        self.kept.push(event.clone());
    }

    /// Whether an event with this id is kept.
    pub(crate) fn keeps(&self, id: &str) -> bool {
        self.kept.iter().any(|event| event.id == id)
    }

    /// Removes an event that a plan inside this one has taken, and remembers it.
    pub(crate) fn take_inside(&mut self, id: &str) {
        self.ids.insert(id.into());
        self.remove_event(id);
    }

    /// Removes an event that a step has taken.
    pub(crate) fn remove_event(&mut self, id: &str) {
        let bytes = |kept: &[ExternalEvent]| kept.iter().map(|event| event.data.text().len()).sum();
        self.kept.retain(|event| event.id != id);
        self.bytes = bytes(&self.kept);
    }

    /// The kept events of this name and key, the first one first.
    pub(crate) fn matching_events<'e>(
        &'e self,
        name: &'e str,
        key: &'e str,
    ) -> impl Iterator<Item = &'e ExternalEvent> {
        self.kept.iter().filter(move |event| event.name == name && event.key == key)
    }

    /// Number of kept events.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Bytes of the data of the kept events.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

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

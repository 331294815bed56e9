//! Stored payloads of one plan that are loaded or on their way. They are no state: they are in no event, and after a restart
//! they are asked for again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use goalmill_common::failure::Failure;
use goalmill_common::id::StepId;
use goalmill_common::report::Report;
use goalmill_expression::{Payload, Payloads};

use crate::SubPlanEnd;
use crate::graph::StepIndex;

/// Most steps of one plan whose payloads are kept at a time; others are loaded again.
const KEPT_MAX: usize = 16;

/// A payload that was asked for, by its key, or why there is none.
pub type LoadedPayload = (String, Result<Payload, Failure>);

/// How a step ended, as long as the check of its outputs waits for payloads.
pub(crate) enum HeldOutcome {
    Report(Box<Report>),
    SubPlan { step: StepId, attempt: u32, end: Box<SubPlanEnd> },
}

/// Payloads of one plan that are loaded or on their way, by the step that reads them; `None` for criteria. All are equal,
/// and a copy is empty.
#[derive(Default)]
pub(crate) struct PayloadLoads {
    pub(crate) asked: BTreeSet<Option<StepIndex>>,
    loaded: VecDeque<(Option<StepIndex>, Payloads)>,
    /// Outcomes that wait for payloads.
    pub(crate) held: BTreeMap<StepIndex, HeldOutcome>,
    /// Why criteria cannot be judged by expressions.
    pub(crate) criteria_failure: Option<Failure>,
}

impl PartialEq for PayloadLoads {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Clone for PayloadLoads {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl std::fmt::Debug for PayloadLoads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PayloadLoads({})", self.loaded.len())
    }
}

impl PayloadLoads {
    /// What is loaded for a step.
    pub(crate) fn loaded_for(&self, reader: Option<StepIndex>) -> Option<&Payloads> {
        self.loaded.iter().find(|(known, _)| *known == reader).map(|(_, payloads)| payloads)
    }

    /// Whether payloads of a step are on their way.
    pub(crate) fn is_asked(&self, reader: Option<StepIndex>) -> bool {
        self.asked.contains(&reader)
    }

    /// Steps whose payloads are on their way.
    pub(crate) fn readers(&self) -> impl Iterator<Item = StepIndex> + '_ {
        self.asked.iter().copied().flatten()
    }

    pub(crate) fn add(&mut self, reader: Option<StepIndex>, payloads: Payloads) {
        if let Some((_, known)) = self.loaded.iter_mut().find(|(known, _)| *known == reader) {
            return known.extend(payloads);
        }
        if self.loaded.len() >= KEPT_MAX {
            self.loaded.pop_front();
        }
        self.loaded.push_back((reader, payloads));
    }

    pub(crate) fn remove(&mut self, reader: Option<StepIndex>) {
        self.loaded.retain(|(known, _)| *known != reader);
    }
}

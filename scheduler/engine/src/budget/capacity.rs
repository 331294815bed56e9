//! What the steps in flight take: places, resources, and the width of an adaptive plan.

use goalmill_common::event::StepEvent;

use crate::attempt::step_state::StepState;
use crate::graph::{PlanGraph, StepIndex};

/// What the steps in flight take.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Capacity {
    in_flight: u32,
    /// How many steps hold each resource: 0 or 1.
    resources: Vec<u32>,
    width: AdaptiveWidth,
}

impl Capacity {
    /// Nothing is in flight; the plan has the resources of this graph. The width stays.
    pub(crate) fn clear(&mut self, graph: &PlanGraph) {
        self.in_flight = 0;
        self.resources = vec![0; graph.resources()];
    }

    /// A step begins, or is in flight no more.
    pub(crate) fn count(&mut self, graph: &PlanGraph, i: StepIndex, begins: bool) {
        let held = graph.resource(i).map(|resource| &mut self.resources[resource]);
        for count in held.into_iter().chain([&mut self.in_flight]) {
            *count = if begins { *count + 1 } else { count.saturating_sub(1) };
        }
    }

    /// Steps in flight.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether a step holds this resource.
    pub(crate) fn is_held(&self, resource: usize) -> bool {
        self.resources[resource] > 0
    }

    /// Whether a step holds any resource.
    pub(crate) fn holds_resources(&self) -> bool {
        self.resources.iter().any(|held| *held > 0)
    }

    /// Most steps in flight of an adaptive plan.
    pub(crate) fn width(&self) -> u32 {
        self.width.width
    }

    /// Adapts the width to an attempt that has ended.
    ///
    /// How long it waited is the rest of the whole, which the owner's clock measures, without the run, which the worker's
    /// clock measures: clock skew does not matter.
    pub(crate) fn fold(&mut self, step: &StepState, time_ms: u64, event: &StepEvent) {
        if let StepEvent::Completed(completed) = event {
            let whole = time_ms.saturating_sub(step.queued_ms());
            let ran = completed.finished_ms.unwrap_or(time_ms).saturating_sub(step.started_ms()).min(whole);
            self.width.record_success(whole - ran, ran);
        } else if event.failure().is_some() {
            self.width.record_failure();
        }
    }
}

/// The concurrency limit of an adaptive plan.
///
/// It grows by one after as many successes in a row as its width, shrinks by one when a step waited for a worker
/// more than twice as long as it ran, and halves on a failure: additive increase, multiplicative decrease
/// (D.-M. Chiu, R. Jain, Computer Networks and ISDN Systems 17, 1989).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AdaptiveWidth {
    width: u32,
    streak: u32,
}

impl Default for AdaptiveWidth {
    fn default() -> Self {
        Self { width: 1, streak: 0 }
    }
}

/// Shorter runs count as this long when compared with the wait, in milliseconds.
const SHORT_MS: u64 = 100;

impl AdaptiveWidth {
    /// - `waited_ms`, `ran_ms`: how long an attempt waited for a worker, and ran.
    fn record_success(&mut self, waited_ms: u64, ran_ms: u64) {
        let ran_ms = ran_ms.max(SHORT_MS);
        if waited_ms > ran_ms.saturating_mul(2) {
            *self = Self { width: (self.width - 1).max(1), streak: 0 };
        } else if waited_ms > ran_ms {
            self.streak = 0;
        } else if self.streak + 1 >= self.width {
            *self = Self { width: self.width.saturating_add(1), streak: 0 };
        } else {
            self.streak += 1;
        }
    }

    fn record_failure(&mut self) {
        *self = Self { width: (self.width / 2).max(1), streak: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_never_falls_to_nothing() {
        let mut width = AdaptiveWidth::default();
        width.record_failure();
        width.record_success(10_000, 1);
        assert_eq!(width, AdaptiveWidth::default());
    }
}

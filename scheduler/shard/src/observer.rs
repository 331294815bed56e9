//! What a scheduler adds to a shard: it watches decisions, learns from written events, and counts for namespaces.

use goalmill_common::event::Record;
use goalmill_common::goal::Usage;
use goalmill_common::id::{Namespace, PlanId};
use goalmill_common::task::Task;
use goalmill_engine::PlanState;

/// Learns what happens in a shard. The observer `()` ignores it.
pub trait ShardObserver: Send + Sync {
    /// A decision for a plan begins.
    fn begin_decision(&self, _plan: &PlanId) {}

    /// The decision has ended.
    fn end_decision(&self) {}

    /// Completes a task before it is written.
    fn prepare_task(&self, _task: &mut Task) {}

    /// Events of a plan are written; none when only its summary was.
    ///
    /// - `state`: the plan after these events, or after later ones.
    /// - `ends`: whether the end of the plan is among them.
    fn note_written(&self, _state: &PlanState, _records: &[Record], _ends: bool) {}
}

impl ShardObserver for () {}

/// What one shard counts for namespaces, and what their limits leave.
pub trait NamespaceCounter: Send + Sync {
    /// Whether a step of the namespace may be sent.
    fn has_room(&self, namespace: &str) -> bool;

    /// Reserves the place of a step; give it back with [`NamespaceCounter::unreserve`].
    fn reserve(&self, namespace: &Namespace) -> bool;

    /// The step is counted, or was not sent.
    fn unreserve(&self, namespace: &Namespace);

    /// Counts a plan that is inside no other one.
    fn add_plan(&mut self, namespace: &Namespace, plan: &PlanId);

    /// The plan has ended.
    fn remove_plan(&mut self, namespace: &Namespace);

    /// Counts a step in flight.
    fn add_step(&mut self, namespace: &Namespace);

    /// The step is with no worker any more.
    fn remove_step(&mut self, namespace: &Namespace);

    /// Counts what a plan has used.
    fn spend(&self, namespace: &Namespace, spent: Usage);
}

//! What the steps that can be undone have done, or may have done, over all their attempts.
//!
//! Only steps with an undo step are followed. One piece of work is what one iteration of a step did by one agent: further
//! attempts of the same agent have the same idempotency key and do the same work.

use std::collections::BTreeMap;

use goalmill_common::event::{ItemWork, Record, StepEvent};
use goalmill_common::failure::Failure;
use goalmill_common::id::AgentType;
use goalmill_common::json::Json;
use goalmill_common::number::to_u32;
use goalmill_common::plan::Collect;
use goalmill_common::status::StepStatus;
use serde_json::Value;

use crate::PlanState;
use crate::graph::StepIndex;

/// What a piece of work gave.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GivenOutputs {
    /// It is unknown.
    Unknown,
    /// The outputs of the step.
    OfStep,
    /// Those of an iteration before the last one.
    OfIteration(Json),
}

/// What one iteration of a step did by one agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DoneWork {
    /// The number of the iteration, from 1.
    pub(crate) iteration: u32,
    /// The queue of its attempts; empty when the engine ran it.
    pub(crate) agent_type: AgentType,
    /// How often the step had become other work.
    edition: u32,
    /// The inputs of the step, not rendered, if it has become other work.
    pub(crate) inputs: Option<Json>,
    /// The action of the fallback; empty when it was that of the step.
    action: String,
    /// Whether it is done, or may be.
    is_done: bool,
    pub(crate) outputs: GivenOutputs,
    pub(crate) last: Sent,
}

/// When the last attempt at a piece of work was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The number of the event.
    pub(crate) seq: u64,
    /// Unix milliseconds.
    pub(crate) ms: u64,
}

/// The work of one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WorkOfStep {
    /// In the order in which it was sent.
    sent: Vec<DoneWork>,
    /// The highest number of an iteration that was sent.
    iterations: u32,
    /// The place of that of which an attempt is out.
    out: Option<usize>,
    /// Of a completed map: what its items have done.
    items: Option<Vec<ItemWork>>,
}

impl WorkOfStep {
    fn send(&mut self, (iteration, edition): (u32, u32), agent_type: &AgentType, action: &str, last: Sent) {
        let is_same = |work: &DoneWork| {
            let is_one = work.iteration == iteration && work.edition == edition;
            is_one && work.agent_type == *agent_type && work.action == action
        };
        // A loop that began again sends the same once more.
        let is_sent = iteration <= self.iterations;
        let place = if is_sent { self.sent.iter().rposition(is_same) } else { None };
        self.iterations = self.iterations.max(iteration);
        self.out = place.or(Some(self.sent.len()));
        match place {
            Some(place) => self.sent[place].last = last,
            None => {
                let (agent_type, action) = (agent_type.clone(), action.to_owned());
                let outputs = GivenOutputs::Unknown;
                let (inputs, is_done) = (None, false);
                self.sent.push(DoneWork { iteration, agent_type, edition, inputs, action, is_done, outputs, last });
            }
        }
    }

    /// The attempt that is out ends.
    ///
    /// - `may_be_done`: whether it did its work, or may have.
    fn settle(&mut self, may_be_done: bool) {
        if let Some(work) = self.out.take().and_then(|out| self.sent.get_mut(out)) {
            work.is_done |= may_be_done;
        }
    }

    /// The attempt that is out completes. Without one, a person completes what an earlier attempt may have done.
    fn complete(&mut self, outputs: GivenOutputs) {
        let tried = || {
            let last = self.sent.len().checked_sub(1)?;
            (self.sent[last].is_done && self.sent[last].outputs == GivenOutputs::Unknown).then_some(last)
        };
        if let Some(work) = self.out.or_else(tried).and_then(|place| self.sent.get_mut(place)) {
            (work.is_done, work.outputs) = (true, outputs);
        }
        self.out = None;
    }

    /// What is done, or may be, in the order in which it was sent.
    fn done(&self) -> impl DoubleEndedIterator<Item = &DoneWork> {
        let is_done = |(n, work): &(usize, &DoneWork)| work.is_done || self.out == Some(*n);
        self.sent.iter().enumerate().filter(is_done).map(|(_, work)| work)
    }
}

/// How far an undo step is.
#[derive(Clone, Debug, Default, PartialEq)]
struct UndoProgress {
    /// Pieces of work that it is through with.
    passed: usize,
    /// Those of them that it could not undo, and why it could not undo the first.
    failed: u32,
    failure: Option<Failure>,
}

/// The work of the steps that can be undone, and how far their undo steps are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DoneLog {
    work: BTreeMap<StepIndex, WorkOfStep>,
    undone: BTreeMap<StepIndex, UndoProgress>,
}

impl DoneLog {
    /// A step begins again. It is unknown what an agent has done that accepted the task and has not called back.
    pub(crate) fn withdraw(&mut self, i: StepIndex) {
        if let Some(work) = self.work.get_mut(&i) {
            work.settle(true);
        }
    }

    /// Keeps the inputs of what a step has done, which becomes other work.
    pub(crate) fn keep_inputs(&mut self, i: StepIndex, inputs: &Json) {
        let sent = self.work.get_mut(&i).into_iter().flat_map(|work| &mut work.sent);
        sent.filter(|work| work.inputs.is_none()).for_each(|work| work.inputs = Some(inputs.clone()));
    }
}

/// Folds what an event says about work that can be undone. A plan without undo steps has none.
///
/// - `old`: the status of the step before.
/// - `begins`: whether its attempt begins with the event.
/// - `record`: that of the event.
pub(crate) fn fold_work(
    state: &mut PlanState,
    i: StepIndex,
    old: StepStatus,
    begins: bool,
    record: &Record,
    event: &StepEvent,
) {
    if !state.graph.has_undos() {
        return;
    }
    if let StepEvent::Undone(undone) = event {
        let progress = state.done.undone.entry(i).or_default();
        progress.passed += 1;
        progress.failed += u32::from(undone.failure.is_some());
        progress.failure = progress.failure.take().or_else(|| undone.failure.clone());
    } else if event.ends_step() {
        state.done.undone.remove(&i);
    }
    if state.graph.undos_of(i).is_empty() {
        return;
    }
    let iteration = (state.steps[i].iterations().current(), state.steps[i].edition());
    let work = state.done.work.entry(i).or_default();
    let now = Sent { seq: record.seq, ms: record.time_ms };
    if let StepEvent::Queued(queued) = event {
        work.send(iteration, &queued.agent_type, &queued.action, now);
    } else if let StepEvent::Completed(completed) = event {
        if begins {
            work.send(iteration, &"".into(), "", now);
        }
        if completed.cache_key.is_none() {
            work.complete(GivenOutputs::OfStep);
        }
        work.items.clone_from(&completed.items);
    } else if let StepEvent::Iterated(iterated) = event {
        work.complete(GivenOutputs::OfIteration(iterated.outputs.clone()));
    } else if let Some(failure) = event.failure() {
        work.settle(failure.may_be_done());
    } else if let StepEvent::Released(_) = event {
        work.settle(old == StepStatus::Running);
    } else if let StepEvent::Decomposed(_) = event {
        work.settle(false);
    } else if event.ends_attempt() && !matches!(event, StepEvent::Suspended(_)) {
        work.settle(true);
    }
}

/// Follows the steps that a revision brings undo steps for, as far as their states tell what they did.
pub(crate) fn follow_work(state: &mut PlanState) {
    let is_new = |target: &StepIndex| state.steps[*target].attempt() > 0 && !state.done.work.contains_key(target);
    let new: Vec<StepIndex> = state.graph.undone_steps().filter(is_new).collect();
    for target in new {
        let agent_type = state.queue(target).cloned().unwrap_or_else(|| "".into());
        let step = &state.steps[target];
        let mut work = WorkOfStep::default();
        work.send(
            (step.iterations().current(), step.edition()),
            &agent_type,
            "",
            Sent { seq: step.sent(), ms: step.queued_ms() },
        );
        if step.status() == StepStatus::Completed {
            work.complete(GivenOutputs::OfStep);
        } else if step.status().is_final() {
            work.settle(step.failure().is_none_or(Failure::may_be_done));
        }
        state.done.work.insert(target, work);
    }
}

/// Whether a step has done what it is for, or may have.
pub(crate) fn may_be_done(state: &PlanState, i: StepIndex) -> bool {
    state.done.work.get(&i).is_some_and(|work| work.done().next().is_some())
}

/// The steps whose attempts are out are cancelled: what they have done is unknown.
pub(crate) fn settle_work(state: &mut PlanState, is_settled: impl Fn(StepIndex) -> bool) {
    for work in state.done.work.iter_mut().filter(|(i, _)| is_settled(**i)).map(|(_, work)| work) {
        work.settle(true);
        work.sent.retain(|work| work.is_done);
    }
}

/// What an undo step is to undo next: the last piece of work that it has not passed.
pub(crate) fn work_to_undo(state: &PlanState, undo: StepIndex) -> Option<(StepIndex, &DoneWork)> {
    let target = undone_step(state, undo)?;
    Some((target, state.done.work.get(&target)?.sent.iter().nth_back(undone(state, undo))?))
}

/// The step that an undo step undoes.
pub(crate) fn undone_step(state: &PlanState, undo: StepIndex) -> Option<StepIndex> {
    state.plan.step(undo).undoes.as_ref().and_then(|id| state.graph.find(id.as_str()))
}

/// What the work gave that an undo step undoes next; none where it is unknown.
pub(crate) fn undone_outputs(state: &PlanState, undo: StepIndex) -> Option<&Json> {
    let target = undone_step(state, undo)?;
    match work_to_undo(state, undo).map(|(_, work)| &work.outputs) {
        Some(GivenOutputs::Unknown) => None,
        Some(GivenOutputs::OfIteration(outputs)) => Some(outputs),
        Some(GivenOutputs::OfStep) | None => state.steps[target].outputs(),
    }
}

/// What an iteration of a step gave that can be undone.
pub(crate) fn outputs_of_iteration(state: &PlanState, i: StepIndex, iteration: u32) -> Option<&Json> {
    let work = state.done.work.get(&i)?.sent.iter().rfind(|work| work.iteration == iteration)?;
    match &work.outputs {
        GivenOutputs::OfIteration(outputs) => Some(outputs),
        GivenOutputs::OfStep | GivenOutputs::Unknown => None,
    }
}

/// Who has done what an undo step undoes. `None` if the undo step is for another agent than the step.
pub(crate) fn doer(state: &PlanState, undo: StepIndex) -> Option<&AgentType> {
    let own = &state.plan.step(undo).agent_type;
    let (target, work) = work_to_undo(state, undo)?;
    let first = state.done.work.get(&target).and_then(|all| all.sent.first());
    let is_same = state.plan.step(target).agent_type == *own || first.is_some_and(|work| work.agent_type == *own);
    Some(&work.agent_type).filter(|agent_type| is_same && !agent_type.as_str().is_empty())
}

/// Pieces of work that an undo step has undone, or could not undo.
pub(crate) fn undone(state: &PlanState, undo: StepIndex) -> usize {
    state.done.undone.get(&undo).map_or(0, |progress| progress.passed)
}

/// Whether an undo step has more to undo than what it undoes now.
pub(crate) fn undoes_more(state: &PlanState, undo: StepIndex) -> bool {
    // What a map did before it began again was undone by the plan of its items.
    if state.plan.defined(undo).undoes_map() {
        return false;
    }
    let work = undone_step(state, undo).and_then(|target| state.done.work.get(&target));
    work.is_some_and(|work| work.sent.len() > undone(state, undo) + 1)
}

/// What an undo step could not undo before, when it is through with the rest.
///
/// - `last`: how many of the last pieces of work failed.
pub(crate) fn failed_undos(state: &PlanState, undo: StepIndex, last: u32) -> Option<Failure> {
    let progress = state.done.undone.get(&undo)?;
    let failure = progress.failure.clone()?;
    let (failed, all) = (progress.failed + last, progress.passed + 1);
    Some(Failure {
        message: format!("{failed} of {all} could not be undone; the first: {}", failure.message),
        ..failure
    })
}

/// What the items of a completed map have done; none where the log does not tell.
pub(crate) fn items_done(state: &PlanState, map: StepIndex) -> Option<&[ItemWork]> {
    state.done.work.get(&map)?.items.as_deref()
}

/// Whether a step is a completed map whose items have done nothing.
pub(crate) fn is_idle_map(state: &PlanState, i: StepIndex) -> bool {
    let is_idle = || match items_done(state, i) {
        Some(items) => items.is_empty(),
        None => state.steps[i].outputs().is_none_or(|outputs| match outputs.value() {
            Value::Array(outputs) => items_with_outputs(&outputs).is_empty(),
            // A person completed it.
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => true,
        }),
    };
    state.plan.defined(i).for_each.is_some() && state.steps[i].status() == StepStatus::Completed && is_idle()
}

/// What the items of this plan have done, for the undo step of the map that it runs for.
pub(crate) fn work_of_items(state: &PlanState) -> Option<Vec<ItemWork>> {
    if state.plan.definition().collect != Collect::List || !state.graph.has_undos() {
        return None;
    }
    let mut done: Vec<(u64, ItemWork)> = Vec::new();
    for (i, work) in &state.done.work {
        let own = &state.plan.step(*i).agent_type;
        done.extend(work.done().map(|work| {
            let agent_type = Some(&work.agent_type).filter(|agent_type| *agent_type != own).cloned();
            let unknown = work.outputs == GivenOutputs::Unknown;
            (state.steps[*i].sent(), ItemWork { item: i.0, agent_type, unknown })
        }));
    }
    // The sort keeps the order of the work of one item.
    done.sort_by_key(|(sent, _)| *sent);
    Some(done.into_iter().map(|(_, work)| work).collect())
}

/// What is undone of a map whose log does not tell what its items have done.
pub(crate) fn items_with_outputs(outputs: &[Value]) -> Vec<ItemWork> {
    let given = outputs.iter().enumerate().filter(|(_, output)| !output.is_null());
    given.map(|(n, _)| ItemWork { item: to_u32(n), agent_type: None, unknown: false }).collect()
}

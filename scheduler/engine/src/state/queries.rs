//! Queries of a plan's state: status, steps, capacity, timers.

use std::sync::{Arc, LazyLock};

use goalmill_common::command::Planned;
use goalmill_common::event::{GoalAccepted, Parent, PlanEnded, ReplanTriggered, SkipCause};
use goalmill_common::goal::{Priority, Usage};
use goalmill_common::id::{AgentType, AttemptToken, DEFAULT_NAMESPACE, Namespace, PlanId, StepId};
use goalmill_common::plan::{Plan, StepKind, Strategy};
use goalmill_common::status::{Counts, PlanStatus, StepStatus};

use crate::budget::call_budget;
use crate::cleanup::done_work;
use crate::due_time::at;
use crate::graph::StepIndex;
use crate::graph::open_dependencies::JoinState;
use crate::people::waiting::Reviser;
use crate::revise::revising;
use crate::state::StepState;
use crate::{PlanState, TokenKey, budget, cleanup, constraints, delayed_start, wait};

/// The queue of steps that need no worker.
static NO_QUEUE: LazyLock<AgentType> = LazyLock::new(|| "".into());

impl PlanState {
    pub fn id(&self) -> &PlanId {
        &self.accepted.plan_id
    }

    /// Number of the last event.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    pub fn status(&self) -> PlanStatus {
        self.status
    }

    /// A plan as the planner of this one gave it.
    pub(crate) fn planned_as_this(&self, plan: Plan) -> Planned {
        Planned {
            plan,
            planner: self.origin.planner.clone(),
            confidence: self.origin.confidence,
            provenance: None,
            warnings: Vec::new(),
            routes: Vec::new(),
            goal: None,
        }
    }

    /// Whether it is done, and kept until the plan around it ends.
    pub fn is_kept(&self) -> bool {
        self.outcome.kept().is_some()
    }

    pub fn is_final(&self) -> bool {
        self.status.is_final()
    }

    /// Number of the last accepted revision; 0 is the original plan.
    pub fn revision(&self) -> u32 {
        self.revision
    }

    pub fn plan(&self) -> &Arc<Plan> {
        self.plan.definition()
    }

    /// The planner: `submitted`, `rules`, `llm`; empty before there is a plan.
    pub fn planner(&self) -> &str {
        &self.origin.planner
    }

    /// The planner's confidence after all revisions, 0 to 1.
    pub fn confidence(&self) -> f64 {
        self.origin.confidence
    }

    /// The failed step that a person decides about, while the plan waits for that.
    pub fn open_decision(&self) -> Option<&ReplanTriggered> {
        self.waiting.replan().filter(|_| self.waiting.reviser() == Some(&Reviser::Decision))
    }

    /// The first event: goal, secret, source, deadline.
    pub fn accepted(&self) -> &GoalAccepted {
        &self.accepted
    }

    /// The submission's id, the caller's idempotency key.
    pub fn submission(&self) -> &str {
        &self.accepted.submission
    }

    /// The parent step of a sub-plan.
    pub fn parent(&self) -> Option<&Parent> {
        self.accepted.parent.as_ref()
    }

    pub fn namespace(&self) -> Namespace {
        self.accepted.goal.namespace.clone().unwrap_or_default()
    }

    /// The name of its namespace.
    pub fn namespace_name(&self) -> &str {
        self.accepted.goal.namespace.as_ref().map_or(DEFAULT_NAMESPACE, Namespace::as_str)
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// How the plan ended; `None` before its end.
    pub fn ended(&self) -> Option<&PlanEnded> {
        self.outcome.ended()
    }

    /// When the plan was accepted, Unix milliseconds.
    pub fn created_ms(&self) -> u64 {
        self.created_ms
    }

    /// Time of the last event, Unix milliseconds.
    pub fn updated_ms(&self) -> u64 {
        self.updated_ms
    }

    pub fn len(&self) -> usize {
        self.steps.len()
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    pub fn step_index(&self, step: &StepId) -> Option<StepIndex> {
        self.graph.find(step.as_str())
    }

    /// Whether the step was skipped by its condition, by a person or by a revision: nothing was missed.
    pub fn is_skipped_on_purpose(&self, i: StepIndex) -> bool {
        let Some(step) = self.steps.get(i.as_usize()) else { return false };
        match step.run().cause() {
            Some(SkipCause::Condition | SkipCause::Person | SkipCause::Revision) => true,
            Some(SkipCause::FailurePolicy | SkipCause::DependencyFailed) | None => false,
        }
    }

    /// Steps with an attempt that is queued, with a worker, or a sub-plan. Visits every step.
    pub fn steps_in_flight(&self) -> impl Iterator<Item = StepIndex> + '_ {
        let in_flight = |(i, step): (usize, &StepState)| step.status().is_in_flight().then(|| StepIndex::new(i));
        self.steps.iter().enumerate().filter_map(in_flight)
    }

    /// Numbers of steps that wait for a time, and for an event.
    pub fn waits(&self) -> (u64, u64) {
        if self.counts.in_progress == 0 {
            return (0, 0);
        }
        let waiting = self.indices().filter(|i| self.steps[*i].status() == StepStatus::Waiting);
        waiting.fold((0, 0), |(times, events), i| match wait::awaited_event(self, i) {
            Some(_) => (times, events + 1),
            None => (times + 1, events),
        })
    }

    /// Number of [`PlanState::steps_in_flight`].
    pub fn in_flight(&self) -> u32 {
        self.capacity.in_flight()
    }

    /// Number of steps in flight that take a place: a step that holds a plan takes none.
    pub fn places_taken(&self) -> u32 {
        self.capacity.in_flight() - self.inner.in_flight()
    }

    /// Whether the plan's limit allows one more step in flight, as far as its own steps go: see
    /// [`crate::has_room_in_family`].
    pub fn has_room(&self) -> bool {
        self.status == PlanStatus::Running && self.places_taken() < self.width()
    }

    /// Whether this ready step may be dispatched.
    pub fn can_dispatch(&self, i: StepIndex) -> bool {
        if !self.is_free(i) || !self.is_offered(i) || !self.has_room() {
            return false;
        }
        if self.plan.step(i).starts_plan() {
            self.may_start_sub_plan(i)
        } else {
            self.runs_inline(i) || budget::fits_budget(self, i) && constraints::fits_reservations(self, i)
        }
    }

    /// Whether the shell dispatches the step once it is ready; see [`Effect::Ready`](crate::Effect::Ready). The engine
    /// runs its own steps immediately where no limit of the plan makes them wait for others, or the list says whose turn it is.
    pub(crate) fn is_offered(&self, i: StepIndex) -> bool {
        match self.plan.definition().strategy {
            Strategy::Sequential => !self.runs_in_engine(i) && self.step_in_turn() == Some(i),
            // Waits and steps that hold a plan take no place.
            Strategy::Adaptive | Strategy::Parallel if self.is_limited() => {
                self.plan.step(i).kind != StepKind::Wait && !self.plan.step(i).starts_plan()
            }
            Strategy::Adaptive | Strategy::Parallel => !self.runs_in_engine(i),
        }
    }

    /// The step of a sequential plan that has its turn: what a revision took out is undone before anything else begins.
    pub(crate) fn first_in_turn(&self) -> Option<StepIndex> {
        let listed = self.ready.first_listed()?;
        Some(self.cleanup.undoing().first().copied().unwrap_or(listed))
    }

    /// The ready step of a sequential plan that has its turn: the first one of the list among those whose dependencies
    /// allow them to begin, while none of these has begun.
    pub fn step_in_turn(&self) -> Option<StepIndex> {
        let first = self.first_in_turn()?;
        // One before it waits for what its condition reads.
        let is_overtaking = self.loads.readers().any(|i| i < first && self.steps[i].status() == StepStatus::Pending);
        // One that began keeps its turn, also if one before it begins again.
        let is_taken = self.counts.in_progress > 0 && !self.plan.step(first).is_cleanup();
        (self.has_room() && !is_taken && !is_overtaking && self.steps[first].status() == StepStatus::Ready)
            .then_some(first)
    }

    /// The ready step that the engine itself runs next.
    pub(crate) fn next_engine_step(&self) -> Option<StepIndex> {
        let is_free = |i: &StepIndex| !self.loads.is_asked(Some(*i));
        let may_start = |i: &StepIndex| is_free(i) && self.may_start_sub_plan(*i);
        let may_run = |i: &StepIndex| if self.runs_inline(*i) { is_free(i) } else { may_start(i) };
        let wait = || self.ready.waits().find(is_free);
        let sub_plan = || self.ready.sub_plans().find(may_start);
        match self.plan.definition().strategy {
            Strategy::Sequential => self.step_in_turn().filter(|i| self.runs_in_engine(*i) && may_run(i)),
            Strategy::Adaptive | Strategy::Parallel if self.is_limited() => wait().or_else(sub_plan),
            Strategy::Adaptive | Strategy::Parallel => {
                wait().or_else(|| self.ready.inline().find(is_free)).or_else(sub_plan)
            }
        }
    }

    /// Whether the number of its steps in flight is limited.
    fn is_limited(&self) -> bool {
        self.plan.definition().strategy == Strategy::Adaptive || self.plan.definition().max_parallel.is_some()
    }

    /// Whether this ready `plan` step may start beside the steps in flight.
    pub(crate) fn may_start_sub_plan(&self, i: StepIndex) -> bool {
        self.is_free(i) && budget::fits_budget(self, i) && call_budget::has_room_for_plan(self, i)
    }

    /// Most steps in flight.
    pub fn width(&self) -> u32 {
        let most = self.plan.definition().max_parallel.unwrap_or(u32::MAX).max(1);
        match self.plan.definition().strategy {
            Strategy::Sequential => 1,
            Strategy::Parallel => most,
            Strategy::Adaptive => self.capacity.width().min(most),
        }
    }

    /// Estimated seconds from the step's start to the end of the longest path that begins with it.
    pub fn rank(&self, i: StepIndex) -> f64 {
        if i.as_usize() < self.steps.len() { self.graph.rank(i) } else { 0.0 }
    }

    /// The step's priority, or the goal's.
    pub fn priority(&self, i: StepIndex) -> Priority {
        let own = self.plan.get(i).and_then(|step| step.priority);
        own.unwrap_or(self.accepted.goal.priority)
    }

    /// The queue of the step's next or current task: the fallback's once the step uses it.
    ///
    /// A step that the engine runs itself has an empty queue name, even if its plan names an agent type (a logged
    /// revision may have given it one): it must not use up the window of that queue.
    pub fn queue(&self, i: StepIndex) -> Option<&AgentType> {
        let spec = self.plan.get(i)?;
        if self.runs_in_engine(i) {
            return Some(&NO_QUEUE);
        }
        let fallen = self.steps.get(i.as_usize()).is_some_and(|step| step.has_fallen_back());
        let other = spec.fallback.as_ref().filter(|_| fallen).and_then(|fallback| fallback.agent_type.as_ref());
        Some(other.or_else(|| done_work::doer(self, i)).unwrap_or(&spec.agent_type))
    }

    /// The token of the step's current attempt.
    pub fn token(&self, i: StepIndex, key: TokenKey) -> Option<AttemptToken> {
        let (spec, state) = (self.plan.get(i)?, self.steps.get(i.as_usize())?);
        Some(key.token(&self.accepted, &spec.id, state.attempt()))
    }

    /// Estimated seconds on the longest path.
    pub fn critical_path_seconds(&self) -> f64 {
        self.graph.longest()
    }

    /// The plan's own timer: deadline, budgeted time, approval limit, planner's limit.
    pub fn plan_due(&self) -> Option<u64> {
        if self.is_final() || self.is_kept() {
            return None;
        }
        if let Some(cleanup) = self.cleanup.run() {
            return Some(cleanup.due_ms);
        }
        let mut due = self.accepted.deadline_ms.min(budget::budget_due_ms(self));
        for own in [
            self.waiting.due_ms(),
            at(self.origin.open_until_ms),
            constraints::constraint_due_ms(self),
            delayed_start::start_due_ms(self),
        ]
        .into_iter()
        .flatten()
        {
            due = due.min(own);
        }
        Some(due)
    }

    /// The next due time of the plan and its steps. Visits every step.
    pub fn next_due(&self) -> Option<u64> {
        let steps = self.steps.iter().filter_map(StepState::due_ms).min();
        steps.into_iter().chain(self.plan_due()).min()
    }

    /// The action of the step's next or current task: the fallback's once the step uses it.
    pub fn action(&self, i: StepIndex) -> Option<&str> {
        let spec = self.plan.get(i)?;
        let fallen = self.steps.get(i.as_usize()).is_some_and(|step| step.has_fallen_back());
        let other = spec.fallback.as_ref().filter(|_| fallen).and_then(|fallback| fallback.action.as_ref());
        Some(other.unwrap_or(&spec.action))
    }

    /// Whether every step is final, but for those of the clean-up, or every step of the clean-up.
    pub(crate) fn is_done(&self) -> bool {
        if let Some(cleanup) = self.cleanup.run() {
            let left = || if cleanup.keeps_undos { cleanup::has_always(self) } else { self.cleanup.open() > 0 };
            return !cleanup.is_stopping() && cleanup.next_undo().is_none() && !left();
        }
        let done = self.counts.completed + self.counts.failed + self.counts.skipped;
        self.cleanup.undoing().is_empty() && done + self.cleanup.open() == self.counts.total
    }

    /// Whether the engine runs the step itself, without a queue.
    pub(crate) fn runs_in_engine(&self, i: StepIndex) -> bool {
        self.runs_inline(i) || self.plan.step(i).starts_plan()
    }

    /// Whether the step is done as soon as its inputs are rendered.
    pub(crate) fn runs_inline(&self, i: StepIndex) -> bool {
        let step = self.plan.step(i);
        step.kind.is_inline() && !step.starts_plan()
    }

    /// Whether the step is ready and its resource is free.
    pub(crate) fn is_free(&self, i: StepIndex) -> bool {
        let Some(step) = self.steps.get(i.as_usize()) else { return false };
        let held = self.graph.resource(i).is_some_and(|resource| self.capacity.is_held(resource));
        step.status() == StepStatus::Ready && !held
    }

    /// Whether a decision left steps for later, as [`crate::Effect::Continue`] says.
    pub(crate) fn is_cut(&self) -> bool {
        let is_running = self.status == PlanStatus::Running && !self.is_kept();
        let may_start = |(i, step): (usize, &StepState)| {
            let i = StepIndex::new(i);
            step.status() == StepStatus::Pending
                && cleanup::is_its_turn(self, i)
                && self.is_phase_open(i)
                && self.join_state(i) == JoinState::Met
        };
        let runs_inline = self.next_engine_step().is_some_and(|i| self.runs_inline(i));
        let may_end = self.is_done() && !revising::is_plan_open(self);
        is_running && (may_end || runs_inline || self.steps.iter().enumerate().any(may_start))
    }

    /// Whether the phase of the step has begun.
    pub(crate) fn is_phase_open(&self, i: StepIndex) -> bool {
        self.graph.phase(i).is_none_or(|phase| self.phases.has_begun(phase))
    }

    pub(crate) fn join_state(&self, i: StepIndex) -> JoinState {
        self.steps[i].dependencies().join(self.graph.needed(i, self.plan.step(i).join))
    }
}

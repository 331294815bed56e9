//! What a plan's state answers to those who look at it: where it stands, what may go out, when it wakes up.

use std::sync::{Arc, LazyLock};

use goalmill_common::event::{GoalAccepted, Parent, PlanEnded};
use goalmill_common::failure::Failure;
use goalmill_common::goal::{Budget, Priority, Usage};
use goalmill_common::id::{AgentType, AttemptToken, PlanId, StepId, WorkerId};
use goalmill_common::json::Json;
use goalmill_common::plan::{Kind, Plan, Step, Strategy};
use goalmill_common::status::{Counts, PlanStatus, StepStatus};

use crate::PlanState;
use crate::graph::StepIndex;
use crate::state::{Joined, StepState, at};

/// The queue of steps that no worker does.
static NO_QUEUE: LazyLock<AgentType> = LazyLock::new(|| "".into());

/// One step, for looking at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepAt<'a> {
    pub spec: &'a Step,
    pub status: StepStatus,
    /// The last one; 0 as long as there was none.
    pub attempt: u32,
    /// When it wakes up by itself, Unix milliseconds.
    pub due_ms: Option<u64>,
    /// When the last attempt went to its stream, Unix milliseconds.
    pub queued_ms: Option<u64>,
    pub started_ms: Option<u64>,
    pub finished_ms: Option<u64>,
    pub worker: Option<&'a WorkerId>,
    pub outputs: Option<&'a Json>,
    pub failure: Option<&'a Failure>,
}

impl PlanState {
    /// The plan's id; `None` before the first event.
    pub fn id(&self) -> Option<&PlanId> {
        self.born.as_ref().map(|born| &born.accepted.plan_id)
    }

    /// Number of the last event; 0 before the first.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    pub fn status(&self) -> PlanStatus {
        self.status
    }

    pub fn is_final(&self) -> bool {
        self.status.is_final()
    }

    /// Number of the last accepted revision; 0 is the plan as it began.
    pub fn revision(&self) -> u32 {
        self.revision
    }

    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Who made the plan: `submitted`, `rules`, `llm`; empty before there is one.
    pub fn planner(&self) -> &str {
        &self.origin.planner
    }

    /// What the first event said: goal, secret, source, deadline.
    pub fn accepted(&self) -> Option<&GoalAccepted> {
        self.born.as_ref().map(|born| &born.accepted)
    }

    /// The submission's id, the caller's idempotency key.
    pub fn submission(&self) -> Option<&str> {
        self.accepted().map(|accepted| accepted.submission.as_str())
    }

    /// The step that this plan stands for, when it is a sub-plan.
    pub fn parent(&self) -> Option<&Parent> {
        self.accepted().and_then(|accepted| accepted.parent.as_ref())
    }

    pub fn tenant(&self) -> &str {
        self.accepted().map_or("", |accepted| accepted.goal.tenant.as_str())
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// How the plan ended, once it has.
    pub fn ended(&self) -> Option<&PlanEnded> {
        self.ended.as_deref()
    }

    /// When the plan was accepted, Unix milliseconds.
    pub fn created_ms(&self) -> u64 {
        self.born.as_ref().map_or(0, |born| born.created_ms)
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

    /// One step, for looking at.
    pub fn step(&self, i: StepIndex) -> Option<StepAt<'_>> {
        let (spec, state) = (self.plan.steps.get(i.as_usize())?, self.steps.get(i.as_usize())?);
        Some(StepAt {
            spec,
            status: state.status,
            attempt: state.attempt,
            due_ms: at(state.due_ms),
            queued_ms: at(state.queued_ms),
            started_ms: at(state.started_ms),
            finished_ms: at(state.finished_ms),
            worker: state.worker.as_ref(),
            outputs: state.outputs.as_ref(),
            failure: state.failure(),
        })
    }

    /// Steps with an attempt on a stream, with a worker, or as a plan of their own. Looks at every step.
    pub fn flights(&self) -> impl Iterator<Item = StepIndex> + '_ {
        let in_flight = |(i, step): (usize, &StepState)| step.status.is_in_flight().then(|| StepIndex::new(i));
        self.steps.iter().enumerate().filter_map(in_flight)
    }

    /// Number of [`PlanState::flights`].
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether one more step may go out, as far as the plan as a whole is concerned.
    pub fn has_room(&self) -> bool {
        self.status == PlanStatus::Running && self.in_flight < self.width()
    }

    /// Whether this ready step may be dispatched.
    pub fn admits(&self, i: StepIndex) -> bool {
        self.has_room() && self.is_free(i) && !self.is_own(i)
    }

    /// How many steps may be in flight at once.
    pub fn width(&self) -> u32 {
        let most = self.plan.max_parallel.unwrap_or(u32::MAX).max(1);
        match self.plan.strategy {
            Strategy::Sequential => 1,
            Strategy::Parallel => most,
            Strategy::Adaptive => self.pace.width.min(most),
        }
    }

    /// Estimated seconds from the step's start to the end of the longest path that begins with it.
    pub fn rank(&self, i: StepIndex) -> f64 {
        if i.as_usize() < self.steps.len() { self.graph.rank(i) } else { 0.0 }
    }

    /// The step's priority, or else its goal's.
    pub fn priority(&self, i: StepIndex) -> Priority {
        let own = self.plan.steps.get(i.as_usize()).and_then(|step| step.priority);
        own.or_else(|| self.accepted().map(|accepted| accepted.goal.priority)).unwrap_or_default()
    }

    /// The queue that the step's next task goes to, or its current one came from: its fallback's once that is at work.
    ///
    /// A step that the engine does itself has an empty one, even if its plan names an agent type: a logged revision may
    /// have given it one. Nothing of it is ever out on a queue, so it must not use up that queue's window.
    pub fn queue(&self, i: StepIndex) -> Option<&AgentType> {
        let spec = self.plan.steps.get(i.as_usize())?;
        if self.is_own(i) {
            return Some(&NO_QUEUE);
        }
        let fallen = self.steps.get(i.as_usize()).is_some_and(|step| step.fallback);
        let other = spec.fallback.as_ref().filter(|_| fallen).and_then(|fallback| fallback.agent_type.as_ref());
        Some(other.unwrap_or(&spec.agent_type))
    }

    /// The token of the step's current attempt.
    pub fn token(&self, i: StepIndex) -> Option<AttemptToken> {
        let (spec, state) = (self.plan.steps.get(i.as_usize())?, self.steps.get(i.as_usize())?);
        Some(self.born.as_ref()?.key.token(&spec.id, state.attempt))
    }

    /// Estimated seconds on the longest path.
    pub fn critical_path_seconds(&self) -> f64 {
        self.graph.longest()
    }

    /// When the plan as a whole wakes up by itself: deadline, budgeted time, approval limit, planner's limit.
    pub fn plan_due(&self) -> Option<u64> {
        if self.is_final() {
            return None;
        }
        let born = self.born.as_ref()?;
        let mut due = born.accepted.deadline_ms.min(self.budget_due_ms());
        for own in [self.waiting.due_ms(), at(self.origin.open_until_ms)].into_iter().flatten() {
            due = due.min(own);
        }
        Some(due)
    }

    /// The nearest time at which anything of the plan wakes up by itself. Looks at every step.
    pub fn next_due(&self) -> Option<u64> {
        let steps = self.steps.iter().filter_map(|step| at(step.due_ms)).min();
        steps.into_iter().chain(self.plan_due()).min()
    }

    /// When the budgeted time is used up; `u64::MAX` without such a budget.
    pub(crate) fn budget_due_ms(&self) -> u64 {
        let Some(seconds) = self.budget().seconds.filter(|s| s.is_finite() && *s >= 0.0) else {
            return u64::MAX;
        };
        self.created_ms().saturating_add((seconds * 1_000.0) as u64)
    }

    /// What the plan may use up: the tighter of the goal's and the plan's own limits.
    pub(crate) fn budget(&self) -> Budget {
        let goal = self.accepted().map(|accepted| accepted.goal.budget).unwrap_or_default();
        let own = self.plan.budget;
        Budget {
            tokens: goal.tokens.into_iter().chain(own.tokens).min(),
            cost: goal.cost.into_iter().chain(own.cost).reduce(f64::min),
            seconds: goal.seconds.into_iter().chain(own.seconds).reduce(f64::min),
        }
    }

    /// What a person answered to the step's question.
    pub(crate) fn answer(&self, i: StepIndex) -> Option<&Json> {
        self.steps[i].rare.as_ref().and_then(|rare| rare.answer.as_ref())
    }

    /// What the step's next task is to do, or its current one does: its fallback's once that is at work.
    pub fn action(&self, i: StepIndex) -> Option<&str> {
        let spec = self.plan.steps.get(i.as_usize())?;
        let fallen = self.steps.get(i.as_usize()).is_some_and(|step| step.fallback);
        let other = spec.fallback.as_ref().filter(|_| fallen).and_then(|fallback| fallback.action.as_ref());
        Some(other.unwrap_or(&spec.action))
    }

    /// Whether every step is final.
    pub(crate) fn is_done(&self) -> bool {
        self.counts.completed + self.counts.failed + self.counts.skipped == self.counts.total
    }

    /// Whether the engine does the step itself, without a queue.
    pub(crate) fn is_own(&self, i: StepIndex) -> bool {
        let kind = self.plan.steps[i].kind;
        kind.is_inline() || kind == Kind::Plan
    }

    /// Whether the step is ready and nobody holds its resource.
    pub(crate) fn is_free(&self, i: StepIndex) -> bool {
        let Some(step) = self.steps.get(i.as_usize()) else { return false };
        let held = self.graph.resource(i).is_some_and(|resource| self.held[resource] > 0);
        step.status == StepStatus::Ready && !held
    }

    /// Whether the step's phase has begun.
    /// Whether a decision left steps for later, as [`crate::Effect::Continue`] says.
    pub(crate) fn is_cut(&self) -> bool {
        let is_running = self.status == PlanStatus::Running;
        let may_start = |(i, step): (usize, &StepState)| {
            let i = StepIndex::new(i);
            step.status == StepStatus::Pending && self.is_phase_open(i) && self.joined(i) == Joined::Met
        };
        is_running && (!self.own.is_empty() || self.steps.iter().enumerate().any(may_start))
    }

    pub(crate) fn is_phase_open(&self, i: StepIndex) -> bool {
        self.graph.phase(i).is_none_or(|phase| self.phases[phase].begun)
    }

    pub(crate) fn joined(&self, i: StepIndex) -> Joined {
        let step = &self.steps[i];
        let needed = self.graph.needed(i, self.plan.steps[i].join);
        if step.met >= needed {
            Joined::Met
        } else if step.met.saturating_add(step.open) < needed {
            Joined::Impossible
        } else {
            Joined::Open
        }
    }
}

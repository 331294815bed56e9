//! A plan in a run: which steps may begin, what ends it, and what comes after.

use std::collections::BTreeSet;

use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Goal;
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::number::to_usize;
use goalmill_common::plan::{Collect, DependencyStatus, Join, OnFailure, Plan, Step, StepKind, Strategy};
use goalmill_common::status::{PlanStatus, StepStatus};
use serde_json::{Map, Value};

use super::attempt::is_guard_of_items;
use super::seen::{Locals, Seen};
use super::step_run::{Part, StepRun, Work};
use super::world::World;
use crate::law::Law;

/// Where a plan stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Running,
    /// Plans inside it end.
    Stopping,
    Undoing,
    Always,
    Ended,
}

/// How a plan ends.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) status: PlanStatus,
    pub(super) failure: Option<Failure>,
}

impl End {
    pub(super) fn failed(failure: Failure) -> Self {
        Self { status: PlanStatus::Failed, failure: Some(failure) }
    }

    pub(super) fn cancelled() -> Self {
        Self { status: PlanStatus::Cancelled, failure: None }
    }
}

/// A plan in a run.
#[derive(Clone, Debug)]
pub(super) struct PlanRun {
    pub(super) plan: Plan,
    pub(super) goal: Goal,
    /// Whether it runs in the place of a step.
    pub(super) is_inside: bool,
    pub(super) is_paused: bool,
    /// Whether it has started. A plan that never started cleans nothing up.
    pub(super) has_begun: bool,
    /// What the items of a map see of the plan around them.
    pub(super) outer: Option<Seen>,
    pub(super) steps: Vec<StepRun>,
    /// Plans of steps that a person skipped.
    pub(super) left: Vec<PlanRun>,
    /// The undo steps of its steps.
    pub(super) undo: Vec<Step>,
    /// The place of the phase that has begun.
    pub(super) phase: usize,
    pub(super) stage: Stage,
    pub(super) end: Option<End>,
    /// Unix milliseconds.
    pub(super) deadline_ms: u64,
    pub(super) tokens: u64,
}

/// A step that may begin in a place.
pub(super) struct Next {
    /// Its place in the order to follow.
    pub(super) place: usize,
    /// When its last attempt began: of those that ask the same, it has been ready longest.
    pub(super) since_ms: u64,
    /// From the outermost plan.
    pub(super) path: Vec<usize>,
}

/// Whether the dependencies of a step allow it to begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joined {
    Open,
    Met,
    Impossible,
}

impl PlanRun {
    /// - `deadline_ms`: Unix milliseconds.
    pub(super) fn new(plan: Plan, goal: Goal, deadline_ms: u64) -> Self {
        let part = |step: &Step| if step.always { Part::Always } else { Part::Main };
        let main = plan.steps.iter().filter(|step| step.undoes.is_none());
        let steps = main.map(|step| StepRun::new(step.clone(), part(step))).collect();
        let undo = plan.steps.iter().filter(|step| step.undoes.is_some()).cloned().collect();
        Self {
            plan,
            goal,
            is_inside: false,
            is_paused: false,
            has_begun: true,
            outer: None,
            steps,
            left: Vec::new(),
            undo,
            phase: 0,
            stage: Stage::Running,
            end: None,
            deadline_ms,
            tokens: 0,
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    pub(super) fn has_cleanup(&self) -> bool {
        let inside = |step: &StepRun| step.plans.iter().any(Self::has_cleanup);
        !self.undo.is_empty() || self.steps.iter().any(|step| step.part == Part::Always || inside(step))
    }

    /// Steps of the part whose turn it is.
    fn current(&self) -> Vec<usize> {
        let parts: &[Part] = match self.stage {
            // What a person took out is undone meanwhile.
            Stage::Running => &[Part::Main, Part::Undo],
            Stage::Undoing => &[Part::Undo],
            Stage::Always => &[Part::Always],
            Stage::Stopping | Stage::Ended => &[],
        };
        let is_stopping = self.stage == Stage::Stopping;
        let is_current = |step: &StepRun| parts.contains(&step.part) || is_stopping && step.goes_on;
        (0..self.steps.len()).filter(|i| is_current(&self.steps[*i])).collect()
    }

    /// Does one thing that needs no agent. Returns whether there was one.
    pub(super) fn settle(&mut self, world: &mut World<'_>) -> bool {
        let (steps, left) = (self.steps.len(), self.left.len());
        let mut places = world.in_free_order(0..=steps + left);
        if world.is_inside_first {
            places.sort_by_key(|place| *place == steps + left);
        }
        places.into_iter().any(|place| match place {
            i if i < steps => self.settle_inside(i, world),
            n if n < steps + left => self.settle_left(n - steps, world),
            _ => self.settle_own(world),
        })
    }

    fn settle_inside(&mut self, i: usize, world: &mut World<'_>) -> bool {
        let Some(inner) = self.steps[i].inside_mut() else { return false };
        if inner.settle(world) {
            return true;
        }
        let is_ended = inner.is_ended();
        if is_ended {
            self.leave(i, world);
        }
        is_ended
    }

    fn settle_left(&mut self, n: usize, world: &mut World<'_>) -> bool {
        if self.left[n].settle(world) {
            return true;
        }
        let is_ended = self.left[n].is_ended();
        if is_ended {
            self.tokens += self.left.remove(n).tokens;
        }
        is_ended
    }

    fn settle_own(&mut self, world: &mut World<'_>) -> bool {
        match self.stage {
            Stage::Ended => false,
            Stage::Stopping => {
                if self.current().into_iter().any(|i| self.unlock(i, world)) {
                    return true;
                }
                let mut left = self.steps.iter().filter(|step| step.part == Part::Main || step.goes_on);
                let is_still = self.left.is_empty() && left.all(StepRun::is_ended);
                if is_still {
                    self.begin_undo(world);
                }
                is_still
            }
            Stage::Running | Stage::Undoing | Stage::Always => self.advance(world),
        }
    }

    fn advance(&mut self, world: &mut World<'_>) -> bool {
        let current = self.current();
        if !self.has_begun {
            // A person may have passed over all steps.
            let is_over = current.iter().all(|i| self.steps[*i].is_ended());
            if is_over {
                self.end_part(world);
            }
            return is_over;
        }
        let limit = self.passed_limit(world);
        // A condition that reads what is stored takes time.
        let waits = world.in_free_order([false, world.script.stores()])[0];
        if !waits && world.in_free_order(current.iter()).into_iter().any(|i| self.unlock(*i, world)) {
            return true;
        }
        if let Some(end) = limit {
            self.begin_end(end, world);
            return true;
        }
        if self.begin_phase() {
            return true;
        }
        if current.iter().all(|i| self.steps[*i].is_ended()) {
            self.end_part(world);
            return true;
        }
        let unlocks = current.clone();
        let begins = |i: &usize| matches!(self.steps[*i].work, Work::Ready) && !self.takes_place(*i);
        let may_begin = |i: &usize| !self.is_paused && begins(i) && self.is_its_turn(*i);
        let next = world.in_free_order(current).into_iter().find(may_begin);
        next.into_iter().for_each(|i| self.begin(i, world));
        next.is_some() || waits && world.in_free_order(unlocks).into_iter().any(|i| self.unlock(i, world))
    }

    /// Lets a step become ready, or passes over it. Returns whether anything changed.
    fn unlock(&mut self, i: usize, world: &mut World<'_>) -> bool {
        if !matches!(self.steps[i].work, Work::Pending) || self.waits_for_undo(i) {
            return false;
        }
        match self.joined(i) {
            Joined::Open => return false,
            Joined::Impossible => self.steps[i].end(StepStatus::Skipped),
            Joined::Met => match self.guard(i) {
                Ok(true) => self.open(i, world),
                Ok(false) => {
                    let step = &mut self.steps[i];
                    step.satisfies = true;
                    step.end(StepStatus::Skipped);
                }
                Err(failure) => self.give_up(i, failure, world),
            },
        }
        true
    }

    /// Nothing else begins before what a person took out is undone.
    fn waits_for_undo(&self, i: usize) -> bool {
        self.steps[i].part == Part::Main && (0..self.steps.len()).any(|n| self.is_open_undo(n))
    }

    fn is_open_undo(&self, i: usize) -> bool {
        self.steps[i].part == Part::Undo && !self.steps[i].is_ended()
    }

    fn joined(&self, i: usize) -> Joined {
        let step = &self.steps[i];
        if step.part == Part::Undo {
            // One at a time.
            let earlier = self.steps[..i].iter().filter(|step| step.part == Part::Undo);
            return if earlier.into_iter().all(StepRun::is_ended) { Joined::Met } else { Joined::Open };
        }
        let spec = &step.spec;
        let (met, open, needed) = self.count_met(i, &BTreeSet::new());
        match (met >= needed, met + open >= needed) {
            (true, _) if self.waits_for_phase(spec) => Joined::Open,
            (true, _) => Joined::Met,
            (false, true) => Joined::Open,
            (false, false) => Joined::Impossible,
        }
    }

    /// Whether enough dependencies of a step are met, while some begin again.
    pub(super) fn is_met(&self, i: usize, again: &BTreeSet<usize>) -> bool {
        let (met, _, needed) = self.count_met(i, again);
        met >= needed
    }

    /// How many dependencies of a step are met and open, and how many must be met.
    fn count_met(&self, i: usize, again: &BTreeSet<usize>) -> (usize, usize, usize) {
        let spec = &self.steps[i].spec;
        let (mut met, mut open) = (0, 0);
        for id in &spec.dependencies {
            // The others of a clean-up step have ended before.
            let Some(n) = self.steps.iter().position(|other| other.spec.id == *id) else { continue };
            let other = &self.steps[n];
            match other.status().filter(|_| !again.contains(&n)) {
                None => open += 1,
                Some(status) => {
                    met += usize::from(match spec.dependency_status.get(id) {
                        None => other.satisfies,
                        Some(allowed) => {
                            DependencyStatus::from_status(status).is_some_and(|status| allowed.contains(&status))
                        }
                    });
                }
            }
        }
        let needed = match spec.join {
            Join::All => spec.dependencies.len(),
            Join::Any => 1.min(spec.dependencies.len()),
            Join::AtLeast(least) => to_usize(least),
        };
        (met, open, needed)
    }

    /// A phase starts when all steps of the phases before it have ended. Returns whether one did.
    fn begin_phase(&mut self) -> bool {
        let is_open = |step: &StepRun| !step.is_ended() && self.phase_of(&step.spec) == Some(self.phase);
        let begins = self.phase < self.plan.phases.len() && !self.steps.iter().any(is_open);
        self.phase += usize::from(begins);
        begins
    }

    fn waits_for_phase(&self, spec: &Step) -> bool {
        self.phase_of(spec).is_some_and(|place| place > self.phase)
    }

    fn phase_of(&self, spec: &Step) -> Option<usize> {
        self.plan.phases.iter().position(|phase| Some(&phase.id) == spec.phase.as_ref())
    }

    /// Law 8.3: the condition comes before everything that it guards.
    fn guard(&self, i: usize) -> Result<bool, Failure> {
        let step = &self.steps[i];
        let Some(when) = step.spec.when.as_deref().filter(|_| !is_guard_of_items(&step.spec)) else {
            return Ok(true);
        };
        self.seen(i).is_true(when, &self.locals(i)).map_err(|error| invalid(error.code))
    }

    /// What the expressions of a step see.
    pub(super) fn seen(&self, i: usize) -> Seen {
        if let Some(outer) = &self.outer {
            return outer.clone();
        }
        let dependencies = &self.steps[i].spec.dependencies;
        let visible = |step: &&StepRun| step.is_ended() || dependencies.contains(&step.spec.id);
        let steps = self.steps.iter().filter(visible).map(|step| (step.spec.id.to_string(), step.seen()));
        Seen { goal: self.goal.clone(), steps: steps.collect() }
    }

    pub(super) fn locals(&self, i: usize) -> Locals {
        let step = &self.steps[i];
        let mut locals = step.locals.clone();
        if step.spec.repeat.is_some() {
            let outputs = step.previous.as_ref().map_or_else(|| Value::Object(Map::new()), Json::value);
            locals.push(("iteration".into(), Json::from_value(&step.round)));
            locals.push(("previous".into(), Json::from(serde_json::json!({"outputs": outputs}))));
        }
        if step.part == Part::Always {
            locals.push(("plan".into(), self.plan_as_seen()));
        }
        locals
    }

    pub(super) fn plan_as_seen(&self) -> Json {
        let end = self.end.as_ref();
        let failure = end.and_then(|end| end.failure.clone());
        Json::from(serde_json::json!({"status": end.map(|end| end.status), "failure": failure, "reason": ""}))
    }

    /// Law 4.1: a limit that is passed ends the plan, once.
    fn passed_limit(&self, world: &mut World<'_>) -> Option<End> {
        if self.stage != Stage::Running {
            return None;
        }
        let current = self.current();
        let is_done = current.iter().all(|i| self.steps[*i].is_ended());
        if !is_done && self.goal.budget.tokens.is_some_and(|most| self.tokens > most) {
            if self.has_cleanup() {
                world.note(Law::BudgetThroughCleanup);
            }
            return Some(End::failed(failure(FailureClass::ConstraintViolation, "BUDGET_EXCEEDED")));
        }
        if self.plan.failures_max.is_some_and(|most| self.failed() > to_usize(most)) {
            if self.has_cleanup() {
                world.note(Law::FailuresThroughCleanup);
            }
            return Some(End::failed(failure(FailureClass::Permanent, "FAILURES_EXCEEDED")));
        }
        None
    }

    /// How many steps have failed. What undoes one step is one step.
    fn failed(&self) -> usize {
        let is_failed = |step: &&StepRun| step.status() == Some(StepStatus::Failed) && !self.is_being_undone(step);
        let mut failed: Vec<&StepId> = self.steps.iter().filter(is_failed).map(|step| &step.spec.id).collect();
        failed.sort_unstable();
        failed.dedup();
        failed.len()
    }

    /// Whether more is undone of what an undo step undoes.
    fn is_being_undone(&self, undo: &StepRun) -> bool {
        self.steps.iter().any(|step| step.part == Part::Undo && step.spec.id == undo.spec.id && !step.is_ended())
    }

    /// All that a step has done that a person took out is undone before the failure of one piece counts.
    pub(super) fn judge_undo(&mut self, i: usize, world: &mut World<'_>) {
        let undo = &self.steps[i];
        if self.stage != Stage::Running || self.is_being_undone(undo) || self.plan.continue_on_failure {
            return;
        }
        let is_failed = |step: &&StepRun| step.part == Part::Undo && step.spec.id == undo.spec.id;
        let failure = self.steps.iter().filter(is_failed).find_map(|step| step.failure.clone());
        failure.into_iter().for_each(|failure| self.begin_end(End::failed(failure), world));
    }

    /// Whether a step may begin as far as the strategy goes. A sequential plan runs the steps in the order of its list.
    fn is_its_turn(&self, i: usize) -> bool {
        if self.plan.strategy != Strategy::Sequential {
            return true;
        }
        let current = self.current();
        if self.stage == Stage::Running && current.iter().any(|n| self.is_open_undo(*n)) {
            return self.is_open_undo(i);
        }
        let is_ready = |i: &usize| matches!(self.steps[*i].work, Work::Ready | Work::Asked { .. });
        !current.iter().any(|i| self.steps[*i].is_begun()) && current.into_iter().find(is_ready) == Some(i)
    }

    /// Whether it begins in a place of its plan. A step that is done at once waits for one, too, and gives it back.
    fn takes_place(&self, i: usize) -> bool {
        let is_limited = self.plan.max_parallel.is_some() && self.plan.strategy == Strategy::Parallel;
        self.steps[i].asks_agent() || is_limited && self.steps[i].is_instant()
    }

    /// The plans inside it that run.
    pub(super) fn inside(&self) -> impl Iterator<Item = &Self> {
        self.steps.iter().filter_map(StepRun::inside).chain(&self.left)
    }

    /// Attempts that are out in this plan and inside it.
    fn out(&self) -> usize {
        let own = self.steps.iter().filter(|step| matches!(step.work, Work::Out { .. })).count();
        own + self.inside().map(Self::out).sum::<usize>()
    }

    /// Resources that attempts hold in this plan and inside it.
    pub(super) fn held(&self) -> Vec<String> {
        let out = self.steps.iter().filter(|step| matches!(step.work, Work::Out { .. }));
        let own = out.filter_map(|step| step.spec.resource.clone());
        own.chain(self.inside().flat_map(Self::held)).collect()
    }

    /// Steps that may begin in a place now.
    ///
    /// Law 6.2: the limits of a plan hold for everything inside it. A step that holds a plan takes no place.
    pub(super) fn find_ready(&self, room: usize, path: &[usize], world: &mut World<'_>, found: &mut Vec<Next>) {
        let limit = match self.plan.strategy {
            Strategy::Sequential => 1,
            Strategy::Parallel | Strategy::Adaptive => self.plan.max_parallel.map_or(usize::MAX, to_usize),
        };
        let room = room.min(limit.saturating_sub(self.out()));
        for i in 0..self.steps.len() {
            let step = &self.steps[i];
            let path = [path, &[i]].concat();
            if let Some(inner) = step.inside() {
                inner.find_ready(room, &path, world, found);
            } else if matches!(step.work, Work::Ready)
                && self.takes_place(i)
                && !self.is_paused
                && room > 0
                && self.is_its_turn(i)
                && world.is_free(step.spec.resource.as_deref())
            {
                let rendered = self.inputs(i);
                let is_asked = step.asks_agent() && rendered.is_ok();
                let inputs = rendered.map_or(Value::Null, |inputs| inputs.value());
                let place = world.place(step.action(), &inputs, true);
                let is_seen = is_asked && world.cached(self.cache_key(i, &inputs).as_ref()).is_none();
                let place = if is_seen { place } else { world.place_unasked() };
                found.push(Next { place, since_ms: step.last_ms * u64::from(world.is_by_age), path });
            }
        }
        for (n, inner) in self.left.iter().enumerate() {
            inner.find_ready(room, &[path, &[self.steps.len() + n]].concat(), world, found);
        }
    }

    /// The rendered inputs of a step.
    pub(super) fn inputs(&self, i: usize) -> Result<Json, Failure> {
        let step = &self.steps[i];
        // An undo step whose inputs have no value.
        if let Some(failure) = step.failure.as_ref().filter(|_| step.part == Part::Undo) {
            return Err(failure.clone());
        }
        let inputs = self.seen(i).render(&step.spec.inputs, &self.locals(i)).map_err(|error| invalid(error.code))?;
        let into = step.spec.ask.as_ref().and_then(|ask| ask.into.clone());
        let (Some(into), Some(answer), Value::Object(mut fields)) = (into, &step.answer, inputs.value()) else {
            return Ok(inputs);
        };
        fields.insert(into, answer.value());
        Ok(Json::from(Value::Object(fields)))
    }

    /// Fails or skips a step by its policy.
    pub(super) fn give_up(&mut self, i: usize, failure: Failure, world: &mut World<'_>) {
        let step = &mut self.steps[i];
        step.failure = Some(failure.clone());
        let is_tolerated = step.spec.on_failure == OnFailure::Abort && self.plan.continue_on_failure;
        let on_failure = if is_tolerated { OnFailure::Continue } else { step.spec.on_failure };
        if on_failure == OnFailure::Skip {
            step.satisfies = true;
            return step.end(StepStatus::Skipped);
        }
        step.end(StepStatus::Failed);
        if step.part == Part::Undo {
            return self.judge_undo(i, world);
        }
        let is_handled = self.handlers(i).any(|handler| !handler.is_ended());
        if on_failure == OnFailure::Abort && self.stage == Stage::Running && !is_handled {
            self.begin_end(End::failed(failure), world);
        }
    }

    /// Steps that run when this one has failed. A person who takes the last one out goes on without both.
    fn handlers(&self, i: usize) -> impl Iterator<Item = &StepRun> {
        let id = &self.steps[i].spec.id;
        self.steps.iter().filter(move |step| step.part != Part::Removed && step.spec.handles_failure_of(id))
    }

    /// Goes on after all steps of a part have ended.
    fn end_part(&mut self, world: &mut World<'_>) {
        match self.stage {
            Stage::Running => {
                let end = self.outcome();
                self.begin_end(end, world);
            }
            Stage::Undoing => self.stage = Stage::Always,
            Stage::Stopping | Stage::Always | Stage::Ended => self.stage = Stage::Ended,
        }
    }

    /// Law 1.1: how a plan ends whose steps have all ended.
    fn outcome(&self) -> End {
        let mut status = PlanStatus::Completed;
        let counts = |step: &StepRun| matches!(step.part, Part::Main | Part::Undo);
        for (i, step) in self.steps.iter().enumerate().filter(|(_, step)| counts(step)) {
            let is_handled = self.handlers(i).any(|handler| handler.status() == Some(StepStatus::Completed));
            let has_handlers = self.handlers(i).next().is_some();
            let is_tolerated = step.spec.on_failure == OnFailure::Continue || self.plan.continue_on_failure;
            if step.status() == Some(StepStatus::Failed) && !is_handled {
                if has_handlers && !is_tolerated {
                    return End { status: PlanStatus::Failed, failure: step.failure.clone() };
                }
                status = PlanStatus::Partial;
            }
            if step.partial {
                status = PlanStatus::Partial;
            }
        }
        End { status, failure: None }
    }

    /// Law 4.2: stops what is out. Plans inside go through their own clean-up first.
    pub(super) fn begin_end(&mut self, end: End, world: &mut World<'_>) {
        if self.stage != Stage::Running {
            return;
        }
        self.end = Some(end);
        self.stage = Stage::Stopping;
        self.is_paused = false;
        if !self.has_begun {
            self.stage = Stage::Ended;
        }
        let begun = self.steps.iter().filter(|step| step.goes_on && step.begun.is_some());
        let begun: Vec<_> = begun.map(|step| step.spec.id.clone()).collect();
        for step in &mut self.steps {
            step.goes_on &= begun.contains(&step.spec.id);
            if step.part == Part::Undo && !step.is_ended() && !step.goes_on {
                step.work = Work::Pending;
            }
            if let Some(inner) = step.inside_mut() {
                if inner.has_cleanup() {
                    world.note(Law::InsideFirst);
                }
                inner.begin_end(End::cancelled(), world);
            } else if !step.goes_on && (step.is_out() || step.part == Part::Main && !step.is_ended()) {
                step.end_out();
                step.end(StepStatus::Cancelled);
            }
        }
    }

    /// What the plan gives to the step around it.
    pub(super) fn outputs(&self) -> Json {
        let main = || self.steps.iter().filter(|step| step.part == Part::Main);
        if self.plan.collect == Collect::List {
            let outputs = |step: &StepRun| step.outputs.as_ref().map_or(Value::Null, Json::value);
            return Json::from(Value::Array(main().map(outputs).collect()));
        }
        let is_finish = |step: &&StepRun| step.spec.kind == StepKind::Finish && step.outputs.is_some();
        if let Some(finish) = main().rfind(is_finish) {
            return finish.outputs.clone().unwrap_or_default();
        }
        let is_last = |step: &&StepRun| !main().any(|other| other.spec.dependencies.contains(&step.spec.id));
        let outputs = |step: &StepRun| Some((step.spec.id.to_string(), step.outputs.as_ref()?.value()));
        Json::from(Value::Object(main().filter(is_last).filter_map(outputs).collect()))
    }
}

pub(super) fn failure(class: FailureClass, code: &str) -> Failure {
    Failure::new(class, code, "")
}

/// The failure of a step whose expressions have no value.
pub(super) fn invalid(code: &str) -> Failure {
    failure(FailureClass::Permanent, code)
}

//! Attempts, iterations, waits and plans inside: how a step begins and ends.

use goalmill_common::clock::{parse_rfc3339, rfc3339};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Goal;
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::plan::{Collect, ForEach, Join, OnFailure, OnItemFailure, OnMax, OnTimeout, Plan, Step, StepKind};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_expression as expression;
use serde_json::{Value, json};

use super::plan_run::{End, PlanRun, Stage, failure, invalid};
use super::seen::Locals;
use super::step_run::{Begun, Part, StepRun, Work};
use super::world::World;
use crate::law::Law;
use crate::script::{Act, Does};

/// The code of an attempt whose answer was a 5xx or a cut connection.
pub(crate) const CUT: &str = "HTTP_503";
/// The code of an attempt whose outputs are not as expected.
pub(super) const UNEXPECTED: &str = "UNEXPECTED_RESULT";

impl PlanRun {
    /// Asks the agent of the step at the end of a path, or does it at once.
    pub(super) fn ask(&mut self, path: &[usize], world: &mut World<'_>) {
        let Some((i, rest)) = path.split_first() else { return };
        if !rest.is_empty() {
            let inner = match i.checked_sub(self.steps.len()) {
                Some(n) => self.left.get_mut(n),
                None => self.steps[*i].plans.last_mut(),
            };
            return inner.into_iter().for_each(|inner| inner.ask(rest, world));
        }
        if !self.steps[*i].asks_agent() {
            return self.begin(*i, world);
        }
        let inputs = match self.inputs(*i) {
            Ok(inputs) => inputs,
            Err(failure) => return self.give_up(*i, failure, world),
        };
        let cached = world.cached(self.cache_key(*i, &inputs.value()).as_ref());
        let step = &mut self.steps[*i];
        if let Some(outputs) = cached.filter(|outputs| !step.misses(&outputs.value())) {
            // Nothing was done that could be undone.
            step.outputs = Some(outputs);
            return step.end(StepStatus::Completed);
        }
        step.begun.get_or_insert(Begun { ms: world.now_ms, asks: world.asks.len() });
        step.last_ms = world.now_ms;
        let act = world.ask(step.action(), inputs.value());
        let act = Act { accepts_ms: act.accepts_ms.filter(|_| step.spec.callback), ..act };
        step.piece().inputs = inputs;
        let after_ms = act.accepts_ms.or((act.does != Does::Silent).then_some(act.after_ms));
        let ends_ms = after_ms.map(|after_ms| world.now_ms + after_ms);
        let limit_ms = world.now_ms + step.spec.run_limit_ms(&Limits::default());
        step.work = Work::Out { act, ends_ms, limit_ms };
    }

    /// Under what its outputs are cached.
    pub(super) fn cache_key(&self, i: usize, inputs: &Value) -> Option<String> {
        let step = &self.steps[i];
        let cache = step.spec.cache.as_ref()?;
        let locals = [self.locals(i), vec![("inputs".to_owned(), Json::from_value(inputs))]].concat();
        let key = self.seen(i).render_text(&cache.key, &locals).ok()?;
        Some(format!("{} {key}", step.action()))
    }

    /// Begins a step that needs no agent.
    pub(super) fn begin(&mut self, i: usize, world: &mut World<'_>) {
        let step = &mut self.steps[i];
        step.begun.get_or_insert(Begun { ms: world.now_ms, asks: world.asks.len() });
        step.last_ms = world.now_ms;
        if step.holds_plan() {
            return self.enter(i, world);
        }
        if step.spec.kind == StepKind::Wait {
            return self.begin_wait(i, world);
        }
        match self.inputs(i) {
            Ok(inputs) => self.complete_round(i, inputs, false, world),
            Err(failure) => self.give_up(i, failure, world),
        }
    }

    /// Begins the plan inside a step.
    fn enter(&mut self, i: usize, world: &mut World<'_>) {
        let inner = match self.steps[i].spec.for_each.clone() {
            Some(map) => self.plan_of_items(i, &map, world),
            None => self.plan_of_step(i, world),
        };
        match inner {
            Ok(inner) if inner.steps.is_empty() => self.complete_round(i, Json::from(json!([])), false, world),
            Ok(inner) => {
                self.steps[i].plans.push(PlanRun { is_inside: true, ..inner });
                self.steps[i].work = Work::Inside;
            }
            Err(failure) => self.give_up(i, failure, world),
        }
        if self.plan.max_parallel.is_some() || self.plan.strategy != goalmill_common::plan::Strategy::Parallel {
            world.note(Law::PlacesInside);
        }
    }

    fn plan_of_step(&mut self, i: usize, world: &World<'_>) -> Result<PlanRun, Failure> {
        let mut inputs = self.inputs(i)?.value();
        let step = &mut self.steps[i];
        let plan = step.spec.plan.as_deref().cloned().unwrap_or_default();
        if let Some(schema) = &plan.input_schema {
            fit(schema, &mut inputs)?;
        }
        step.piece().inputs = Json::from_value(&inputs);
        let mut goal = Goal::default();
        goal.metadata.insert("inputs".into(), inputs);
        goal.metadata.extend(step.spec.stored.clone().map(|version| ("stored_plan".to_owned(), version.into())));
        // A plan inside ends a millisecond before the plan around it, and before the time limit of its step.
        let limit_ms = step.spec.timeout_ms.map_or(self.deadline_ms, |limit_ms| world.now_ms + limit_ms);
        Ok(PlanRun::new(plan, goal, self.deadline_ms.min(limit_ms) - 1))
    }

    fn plan_of_items(&mut self, i: usize, map: &ForEach, world: &mut World<'_>) -> Result<PlanRun, Failure> {
        let seen = self.seen(i);
        let items = seen.render(&map.items, &Vec::new()).map_err(|error| invalid(error.code))?;
        let Value::Array(items) = items.value() else { return Err(invalid("FOR_EACH_NOT_A_LIST")) };
        let spec = self.steps[i].spec.clone();
        let is_guarded = is_guard_of_items(&spec);
        let (on_failure, failures_max) = match map.on_item_failure {
            OnItemFailure::Fail => (OnFailure::Abort, None),
            OnItemFailure::Continue => (OnFailure::Continue, None),
            OnItemFailure::AtMost(most) => (OnFailure::Continue, Some(most)),
        };
        let (collect, max_parallel) = (Collect::List, map.max_parallel);
        let plan = Plan { max_parallel, failures_max, collect, ..Plan::default() };
        let mut inner = PlanRun::new(plan, Goal::default(), self.deadline_ms - 1);
        let undo = self.undo.iter().find(|undo| undo.undoes.as_ref() == Some(&spec.id)).cloned();
        for (n, item) in items.iter().enumerate() {
            let id = format!("{}:{n}", spec.id);
            let undo = undo.clone().map(|undo| Step { undoes: Some(id.as_str().into()), for_each: None, ..undo });
            inner.undo.extend(undo);
            let when = spec.when.clone().filter(|_| is_guarded);
            let item_spec = Step {
                id: id.into(),
                for_each: None,
                join: Join::All,
                dependencies: Vec::new(),
                when,
                on_failure,
                ..spec.clone()
            };
            let mut step = StepRun::new(Step { dependency_status: Default::default(), ..item_spec }, Part::Main);
            step.locals = locals_of_item(map, n, item);
            // All items are rendered before the first one begins.
            if let Err(error) = seen.render(&spec.inputs, &step.locals) {
                let guard = step.spec.when.as_deref().filter(|_| is_guarded);
                if guard.is_none_or(|when| seen.is_true(when, &step.locals).unwrap_or(true)) {
                    return Err(invalid(error.code));
                }
                world.note(Law::GuardOfItem);
            }
            inner.steps.push(step);
        }
        inner.outer = Some(seen);
        Ok(inner)
    }

    /// Takes the end of the plan inside a step.
    pub(super) fn leave(&mut self, i: usize, world: &mut World<'_>) {
        let Some((end, tokens, outputs)) =
            self.steps[i].plans.last().and_then(|inner| Some((inner.end.clone()?, inner.tokens, inner.outputs())))
        else {
            return;
        };
        self.tokens += tokens;
        if self.stage == Stage::Stopping {
            return self.steps[i].end(StepStatus::Cancelled);
        }
        let step = &self.steps[i];
        // The time limit of a map is that of each item.
        let limit_ms = step.spec.timeout_ms.filter(|_| step.spec.for_each.is_none());
        let is_late = limit_ms.is_some_and(|limit_ms| step.last_ms + limit_ms <= world.now_ms + 1);
        match end.failure {
            Some(failure) if failure.code == "PLAN_TIMEOUT" && is_late => {
                self.give_up(i, super::plan_run::failure(FailureClass::Timeout, "STEP_TIMEOUT"), world);
            }
            Some(failure) => self.give_up(i, failure, world),
            None if end.status == PlanStatus::Cancelled => self.give_up(i, invalid("SUB_PLAN_FAILED"), world),
            None => {
                let is_partial = end.status == PlanStatus::Partial;
                if is_partial {
                    world.note(Law::InnerFailureIsPartial);
                }
                self.complete_round(i, outputs, is_partial, world);
            }
        }
    }

    /// Completes an iteration of a step; the step is completed if it is the last one.
    pub(super) fn complete_round(&mut self, i: usize, outputs: Json, is_partial: bool, world: &mut World<'_>) {
        let step = &mut self.steps[i];
        step.partial |= is_partial;
        step.piece().outputs = Some(outputs.clone());
        if let Some(repeat) = step.spec.repeat.clone() {
            let round = step.round;
            let names =
                vec![("outputs".to_owned(), outputs.clone()), ("iteration".to_owned(), Json::from_value(&round))];
            let is_done = match self.seen(i).is_true(&repeat.until, &names) {
                Ok(is_done) => is_done,
                Err(error) => return self.give_up(i, invalid(error.code), world),
            };
            let step = &mut self.steps[i];
            if !is_done && round >= repeat.max && repeat.on_max == OnMax::Fail {
                return self.give_up(i, invalid("REPEAT_EXHAUSTED"), world);
            }
            if !is_done && round < repeat.max {
                step.round += 1;
                // An iteration has all retries again.
                (step.failures, step.lost, step.is_fallback, step.previous) = (0, 0, false, Some(outputs));
                let until_ms = world.now_ms + repeat.delay_ms;
                step.work = if repeat.delay_ms == 0 { Work::Ready } else { Work::Backoff { until_ms } };
                return;
            }
        }
        let step = &mut self.steps[i];
        step.outputs = Some(outputs);
        step.end(StepStatus::Completed);
        if step.part == Part::Undo {
            self.judge_undo(i, world);
        }
    }

    /// Takes the outcome of the attempt that is out.
    fn take(&mut self, i: usize, act: Act, world: &mut World<'_>) {
        self.tokens += act.tokens;
        let step = &mut self.steps[i];
        let is_unknown = matches!(act.does, Does::Cut | Does::Lost | Does::Silent);
        step.piece().unknown |= is_unknown;
        if act.records {
            // Losses before a new call do not count: the step makes progress.
            step.lost = 0;
        }
        match act.does {
            Does::Answer(outputs) => {
                if step.misses(&outputs) {
                    // It was done, and its answer is refused.
                    step.piece().unknown = true;
                    return self.fail(i, failure(FailureClass::ConstraintViolation, UNEXPECTED), world);
                }
                let inputs = step.piece().inputs.value();
                let ttl_ms = step.spec.cache.as_ref().map(|cache| cache.ttl_ms);
                if let (Some(key), Some(ttl_ms)) = (self.cache_key(i, &inputs), ttl_ms) {
                    world.keep(key, Json::from_value(&outputs), ttl_ms);
                }
                self.complete_round(i, Json::from(outputs), false, world);
            }
            Does::Busy => self.fail(i, failure(FailureClass::Transient, "AGENT_BUSY"), world),
            Does::Cut => self.fail(i, failure(FailureClass::Transient, CUT), world),
            Does::Refuse => self.fail(i, failure(FailureClass::Permanent, "AGENT_REFUSED"), world),
            Does::Silent if act.accepts_ms.is_some() => {
                self.fail(i, failure(FailureClass::Timeout, "CALLBACK_TIMEOUT"), world);
            }
            Does::Silent => self.fail(i, failure(FailureClass::Timeout, "STEP_TIMEOUT"), world),
            Does::Lost => {
                // Law 6.4: a loss counts only if nothing new was recorded.
                step.lost += u32::from(!act.records);
                if step.lost < Limits::default().lost_max {
                    step.work = Work::Ready;
                } else {
                    self.give_up(i, failure(FailureClass::Permanent, "STEP_POISONED"), world);
                }
            }
        }
    }

    /// Retries a failed attempt, uses the fallback, or gives the step up.
    fn fail(&mut self, i: usize, failure: Failure, world: &mut World<'_>) {
        let step = &mut self.steps[i];
        step.failures += 1;
        if failure.class.is_retryable() && step.failures <= step.spec.retry.max {
            let until_ms = world.now_ms + step.backoff_ms();
            step.work = if until_ms == world.now_ms { Work::Ready } else { Work::Backoff { until_ms } };
        } else if step.spec.fallback.is_some()
            && !step.is_fallback
            && failure.class != FailureClass::ConstraintViolation
        {
            (step.is_fallback, step.failures) = (true, 0);
            step.work = Work::Ready;
        } else {
            self.give_up(i, failure, world);
        }
    }

    fn begin_wait(&mut self, i: usize, world: &mut World<'_>) {
        let Some(wait) = self.steps[i].spec.wait.as_deref().cloned() else { return };
        let render = |text: &Option<String>| {
            let text = text.as_deref().unwrap_or_default();
            self.seen(i).render_text(text, &self.locals(i)).map_err(|error| invalid(error.code))
        };
        let (key, until) = match (render(&wait.key), render(&wait.until)) {
            (Ok(key), Ok(until)) => (key, until),
            (Err(failure), _) | (_, Err(failure)) => return self.give_up(i, failure, world),
        };
        if let Some(event) = wait.event {
            if self.is_inside {
                world.note(Law::OneEventOneWait);
            }
            if let Some(data) = world.take_event(&event, &key) {
                return self.complete_round(i, data, false, world);
            }
            let until_ms = wait.timeout_ms.map(|timeout_ms| world.now_ms + timeout_ms);
            self.steps[i].work = Work::Waiting { until_ms, event: Some((event, key)) };
            return;
        }
        let until_ms = match wait.for_ms {
            Some(for_ms) => world.now_ms + for_ms,
            None => match parse_rfc3339(&until) {
                Some(until_ms) => until_ms,
                None => return self.give_up(i, invalid("WAIT_TIME_INVALID"), world),
            },
        };
        if until_ms > self.deadline_ms {
            return self.give_up(i, invalid("WAIT_TOO_LONG"), world);
        }
        self.steps[i].work = Work::Waiting { until_ms: Some(until_ms), event: None };
    }

    /// Lets a wait for a new event take it: the first one of one plan. Returns whether there was one.
    pub(super) fn offer_event(&mut self, world: &mut World<'_>) -> bool {
        // Its own waits come after all plans inside it, or first.
        let mut plans = world.in_free_order((0..=self.steps.len()).rev()).into_iter();
        plans.any(|i| match self.steps.get_mut(i) {
            Some(step) => step.inside_mut().is_some_and(|inner| inner.offer_event(world)),
            None => self.offer_to_own(world),
        })
    }

    fn offer_to_own(&mut self, world: &mut World<'_>) -> bool {
        for i in 0..self.steps.len() {
            let Work::Waiting { event: Some((name, key)), .. } = &self.steps[i].work else { continue };
            if let Some(data) = world.take_event(name, key) {
                self.complete_round(i, data, false, world);
                return true;
            }
        }
        false
    }

    /// When something is due in this plan, Unix milliseconds.
    pub(super) fn due(&self, found: &mut Vec<u64>) {
        if self.stage == Stage::Running {
            found.push(self.deadline_ms);
        }
        for step in &self.steps {
            match &step.work {
                Work::Out { ends_ms, limit_ms, .. } | Work::Accepted { ends_ms, limit_ms, .. } => {
                    found.push(ends_ms.unwrap_or(u64::MAX).min(*limit_ms));
                }
                Work::Backoff { until_ms } | Work::Asked { until_ms, .. } => found.push(*until_ms),
                Work::Waiting { until_ms, .. } => found.extend(until_ms),
                Work::Pending | Work::Inside | Work::Ready | Work::Ended(_) => {}
            }
        }
        self.inside().for_each(|inner| inner.due(found));
    }

    /// Does one thing that is due now. Returns whether there was one.
    pub(super) fn come_due(&mut self, world: &mut World<'_>) -> bool {
        let (steps, left) = (self.steps.len(), self.left.len());
        let mut places = world.in_free_order(0..=steps + left).into_iter();
        places.any(|place| match place {
            i if i < steps => self.step_comes_due(i, world),
            n if n < steps + left => self.left[n - steps].come_due(world),
            _ => self.reaches_deadline(world),
        })
    }

    fn reaches_deadline(&mut self, world: &mut World<'_>) -> bool {
        let is_late = self.stage == Stage::Running && self.deadline_ms <= world.now_ms;
        if is_late {
            self.begin_end(End::failed(failure(FailureClass::Timeout, "PLAN_TIMEOUT")), world);
        }
        is_late
    }

    fn step_comes_due(&mut self, i: usize, world: &mut World<'_>) -> bool {
        let step = &mut self.steps[i];
        match &step.work {
            Work::Out { act, ends_ms, limit_ms } if ends_ms.unwrap_or(u64::MAX).min(*limit_ms) <= world.now_ms => {
                let is_answered = ends_ms.is_some_and(|ends_ms| ends_ms <= *limit_ms);
                let act = act.clone();
                if is_answered && act.accepts_ms.is_some() {
                    let ends_ms = (act.does != Does::Silent).then(|| world.now_ms + act.after_ms);
                    let limit_ms = world.now_ms + step.spec.run_limit_ms(&Limits::default());
                    step.work = Work::Accepted { act, ends_ms, limit_ms };
                } else if is_answered {
                    self.take(i, act, world);
                } else {
                    self.take(i, Act::new(0, Does::Silent), world);
                }
            }
            Work::Accepted { act, ends_ms, limit_ms } if ends_ms.unwrap_or(u64::MAX).min(*limit_ms) <= world.now_ms => {
                let is_answered = ends_ms.is_some_and(|ends_ms| ends_ms <= *limit_ms);
                let silent = Act { accepts_ms: Some(0), ..Act::new(0, Does::Silent) };
                let act = if is_answered { act.clone() } else { silent };
                self.take(i, act, world);
            }
            Work::Backoff { until_ms } if *until_ms <= world.now_ms => step.work = Work::Ready,
            Work::Asked { until_ms, is_question } if *until_ms <= world.now_ms => {
                let is_question = *is_question;
                self.decide_by_default(i, is_question, world);
            }
            Work::Waiting { until_ms: Some(until_ms), event } if *until_ms <= world.now_ms => {
                let (is_event, until_ms) = (event.is_some(), *until_ms);
                self.end_wait(i, is_event, until_ms, world);
            }
            Work::Inside => return step.inside_mut().is_some_and(|inner| inner.come_due(world)),
            Work::Out { .. }
            | Work::Accepted { .. }
            | Work::Backoff { .. }
            | Work::Asked { .. }
            | Work::Waiting { .. }
            | Work::Pending
            | Work::Ready
            | Work::Ended(_) => return false,
        }
        true
    }

    fn end_wait(&mut self, i: usize, is_event: bool, until_ms: u64, world: &mut World<'_>) {
        if !is_event {
            return self.complete_round(i, Json::from(json!({"waited_until": rfc3339(until_ms)})), false, world);
        }
        let step = &mut self.steps[i];
        match step.spec.wait.as_ref().map(|wait| wait.on_timeout.clone()).unwrap_or_default() {
            OnTimeout::Fail => self.give_up(i, failure(FailureClass::Timeout, "WAIT_TIMEOUT"), world),
            OnTimeout::Skip => {
                step.satisfies = true;
                step.end(StepStatus::Skipped);
            }
            OnTimeout::Default(outputs) => self.complete_round(i, outputs, false, world),
        }
    }
}

/// Gives the inputs of a plan their defaults. Schemas are lists of whole numbers here.
fn fit(schema: &Json, inputs: &mut Value) -> Result<(), Failure> {
    let (schema, Some(inputs)) = (schema.value(), inputs.as_object_mut()) else { return Err(invalid("INPUT_INVALID")) };
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let default = property.get("default").filter(|_| !inputs.contains_key(name));
        inputs.extend(default.map(|default| (name.clone(), default.clone())));
        if inputs.get(name).is_some_and(|value| !value.is_i64()) {
            return Err(invalid("INPUT_INVALID"));
        }
    }
    Ok(())
}

/// Whether the condition of a map is about each item.
pub(super) fn is_guard_of_items(spec: &Step) -> bool {
    let (Some(map), Some(when)) = (&spec.for_each, &spec.when) else { return false };
    expression::examine_condition(when, &map.names()).is_ok_and(|facts| !facts.locals.is_empty())
}

/// What the fields of an item see.
fn locals_of_item(map: &ForEach, n: usize, item: &Value) -> Locals {
    let named = map.name.as_ref().map(|name| (name.clone(), Json::from_value(item)));
    [("item".to_owned(), Json::from_value(item)), ("index".to_owned(), Json::from_value(&n))]
        .into_iter()
        .chain(named)
        .collect()
}

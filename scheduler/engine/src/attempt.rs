//! The life of an attempt: dispatch to a worker, reports, timers.

use goalmill_common::constraint::{Measures, bounded_measures, cost_measure};
use goalmill_common::event::{
    SkipCause, StepCompleted, StepEvent, StepMeasured, StepProgress, StepQueued, StepReleased, StepStarted,
};
use goalmill_common::failure::{ERRORS_MAX, Failure, FailureClass};
use goalmill_common::goal::Usage;
use goalmill_common::id::{AgentType, is_id};
use goalmill_common::json::Json;
use goalmill_common::json_limits;
use goalmill_common::plan::OnPartial;
use goalmill_common::report::{Report, SuggestedAdjustment, TokenSplit, URGENT_PRIORITY, What};
use goalmill_common::revision::Trigger;
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_common::task::Task;
use serde_json::{Map, Value, json};

use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::render::Unrendered;
use crate::{Command, Effect, EngineContext, PlanState, Rejection, output_check, render};

impl PlanState {
    /// Returns the task of a step's last attempt, or why its inputs cannot be rendered.
    pub fn task(&self, i: StepIndex, context: &EngineContext) -> Option<Result<Task, Failure>> {
        let agent_type = self.queue(i)?.clone();
        let inputs = render::inputs(self, i, self.steps[i].queued_ms, &context.limits);
        Some(inputs.map(|inputs| self.task_of(i, agent_type, inputs, context)).map_err(Unrendered::into_failure))
    }

    fn task_of(&self, i: StepIndex, agent_type: AgentType, inputs: Json, context: &EngineContext) -> Task {
        let (spec, step) = (&self.plan.steps[i], &self.steps[i]);
        let accepted = &self.accepted;
        let other = spec.fallback.as_ref().filter(|_| step.fallback).and_then(|fallback| fallback.action.as_ref());
        Task {
            plan: accepted.plan_id.clone(),
            family: self.parent().map(|parent| parent.family().clone()),
            step: spec.id.clone(),
            attempt: step.attempt,
            token: self.token(i).expect("the step exists"),
            agent_type,
            action: other.unwrap_or(&spec.action).clone(),
            description: spec.description.clone(),
            inputs,
            expected_outputs: spec.expected_outputs.clone(),
            output_schema: spec.output_schema.clone(),
            timeout_ms: spec.run_limit_ms(&context.limits),
            lease_ms: context.task_lease_ms,
            reply: context.reply.clone(),
            idempotency_key: match step.iteration() {
                1 => format!("{}:{}", accepted.plan_id, spec.id),
                n => format!("{}:{}~{n}", accepted.plan_id, spec.id),
            },
            calls: step.calls().to_vec(),
            callback: self.task_callback(i, context),
            budget: self.grant(i).map(|grant| grant.left),
            traceparent: accepted.traceparent.clone(),
        }
    }
}

impl Turn<'_> {
    /// Dispatches a ready step's next attempt, or fails the step when its inputs cannot be rendered. Runs the step if it needs
    /// no worker.
    pub(crate) fn dispatch(&mut self, i: StepIndex) -> Result<(), Rejection> {
        if i.as_usize() >= self.state.steps.len() || !self.state.can_dispatch(i) {
            return Err(Rejection::NotDue);
        }
        if self.state.loads.is_asked(Some(i)) {
            return Ok(());
        }
        if self.state.runs_in_engine(i) {
            self.run_engine_step(i);
            self.propagate();
            return Ok(());
        }
        if let Some(failure) = self.cannot_afford(i) {
            self.fail_dispatch(i, failure);
            return Ok(());
        }
        match self.cache_key(i) {
            Ok(Some(key)) if !self.state.has_refused_cache(i) => {
                self.effects.push(Effect::CacheLookup { step: i, key });
            }
            Ok(_) => self.send_to_worker(i),
            Err(why) => self.put_off_dispatch(i, why),
        }
        Ok(())
    }

    /// Sends a step to a worker after a cache miss.
    pub(crate) fn send_to_worker(&mut self, i: StepIndex) {
        let made = render::inputs(self.state, i, self.now_ms, &self.context.limits);
        let (inputs, cache_key) = match made.and_then(|inputs| Ok((inputs, self.cache_key(i)?))) {
            Ok(made) => made,
            Err(why) => return self.put_off_dispatch(i, why),
        };
        self.forget_payloads(i);
        let agent_type = self.state.queue(i).expect("the step exists").clone();
        let due_ms = self.after(self.context.limits.queue_ms_max);
        let budget = self.state.next_grant(i);
        let queued = StepQueued { cache_key, budget, ..StepQueued::new(agent_type.clone(), due_ms) };
        self.emit_queued(i, queued, &inputs);
        let task = self.state.task_of(i, agent_type, inputs, self.context);
        self.effects.push(Effect::Send(Box::new(task)));
    }

    fn put_off_dispatch(&mut self, i: StepIndex, why: Unrendered) {
        self.put_off(i, why);
        self.propagate();
    }

    fn fail_dispatch(&mut self, i: StepIndex, failure: Failure) {
        self.give_up(i, failure, Spent::default());
        self.propagate();
    }

    /// Handles a worker's report. A report about another attempt than the current one is refused.
    pub(crate) fn report(&mut self, report: Report) -> Result<(), Rejection> {
        let i = self.find(&report.step)?;
        let step = &self.state.steps[i];
        let stale = || Rejection::StaleAttempt { step: report.step.clone(), attempt: report.attempt };
        let current = step.attempt == report.attempt && step.status.is_in_flight() && !self.state.runs_in_engine(i);
        let genuine = current && self.state.token(i).as_ref() == Some(&report.token);
        if !genuine {
            return Err(stale());
        }
        if report.what == What::Started && step.status == StepStatus::Running {
            return Err(stale());
        }
        if report.what == What::Call {
            self.record_call(i, &report)?;
            self.propagate();
            return Ok(());
        }
        let report = self.sanitize_report(bound_report(report));
        if report.what == What::Completed
            && let Some(outputs) = &report.outputs
            && self.hold_for_outputs(i, outputs, || Command::Report(Box::new(report.clone())))
        {
            return Ok(());
        }
        let adjustments = self.within_payload(report.adjustments.clone());
        self.information = information_of(adjustments.as_ref(), &report.suggested_adjustments);
        self.apply_report(i, report);
        self.propagate();
        Ok(())
    }

    /// Applies the outcome that came by callback. No worker sent it, so there is no entry to acknowledge.
    pub(crate) fn apply_callback(&mut self, i: StepIndex, report: Report) {
        let report = self.sanitize_report(bound_report(report));
        if report.what == What::Failed {
            let spent = self.spent(i, &report);
            self.fail_attempt(i, failure_of(report.failure, report.errors), spent);
        } else {
            self.complete_attempt(i, report);
        }
    }

    /// Turns an invalid report into a failure. Our workers check what agents answer; foreign workers may not.
    fn sanitize_report(&self, report: Report) -> Report {
        let closes = matches!(report.what, What::Completed | What::PartialSuccess | What::Failed);
        let checked = json_limits::check_report(&report, self.context.limits.nesting_max);
        let failure = match checked {
            Err(wrong) if closes => {
                Failure::new(FailureClass::Permanent, "ANSWER_INVALID", format!("the report is not valid {wrong}"))
            }
            Ok(()) if is_empty(&report) => Failure::new(FailureClass::Permanent, "ANSWER_EMPTY", NO_OUTPUTS),
            Ok(()) | Err(_) => return report,
        };
        Report {
            what: What::Failed,
            failure: Some(failure),
            outputs: None,
            adjustments: None,
            errors: Vec::new(),
            suggested_adjustments: Vec::new(),
            sub_plan: None,
            cost: None,
            tokens: None,
            usage: None,
            currency: None,
            measures: Measures::new(),
            ..report
        }
    }

    fn apply_report(&mut self, i: StepIndex, report: Report) {
        let queued = self.status_of(i) == StepStatus::Queued;
        match report.what {
            What::Started => self.started(i, &report),
            What::Progress => {
                if queued {
                    self.started(i, &report);
                }
                self.progress(i, report);
            }
            // Handled before: it may be refused.
            What::Call => {}
            What::Completed | What::PartialSuccess => {
                if queued {
                    self.started(i, &report);
                }
                self.acknowledge(&report);
                self.record_measures(i, &report);
                self.complete_attempt(i, report);
            }
            What::Failed => {
                if queued {
                    self.started(i, &report);
                }
                self.acknowledge(&report);
                self.record_measures(i, &report);
                let spent = self.spent(i, &report);
                if self.may_decompose(i) && self.decompose(i, &report, spent) {
                    return;
                }
                self.fail_attempt(i, failure_of(report.failure, report.errors), spent);
            }
            What::Lost => {
                self.acknowledge(&report);
                let lost = || {
                    let message = format!("worker `{}` was lost", report.worker);
                    Failure::new(FailureClass::Lost, "WORKER_LOST", message)
                };
                let failure = failure_of(Some(report.failure.clone().unwrap_or_else(lost)), Vec::new());
                self.fail_attempt(i, Failure { class: FailureClass::Lost, ..failure }, Spent::default());
            }
            What::Suspended => {
                if queued {
                    self.started(i, &report);
                }
                self.acknowledge(&report);
                let spent = self.spent(i, &report);
                self.suspend(i, &report, spent);
            }
            What::Released => {
                self.acknowledge(&report);
                self.emit_step(i, StepEvent::Released(Box::new(StepReleased { worker: report.worker })));
            }
        }
    }

    /// Records measures of a report beside cost in US dollars and tokens. Few reports have any.
    fn record_measures(&mut self, i: StepIndex, report: &Report) {
        let foreign = foreign_cost(report);
        if report.measures.is_empty() && foreign.is_none() {
            return;
        }
        let mut measures = bounded_measures(report.measures.clone());
        if let Some((currency, cost)) = foreign {
            *measures.entry(cost_measure(currency)).or_default() += bounded_cost(cost);
        }
        self.emit_step(i, StepEvent::Measured(Box::new(StepMeasured { measures })));
    }

    /// Returns the new information that a report brought, unless it is larger than `payload_bytes_max`.
    fn within_payload(&self, adjustments: Option<Json>) -> Option<Json> {
        let most = self.context.limits.payload_bytes_max;
        adjustments.filter(|json| !json.is_null() && json.text().len() <= most)
    }

    fn spent(&self, i: StepIndex, report: &Report) -> Spent {
        Spent::of_report(report, self.state.steps[i].started_ms)
    }

    pub(crate) fn acknowledge(&mut self, report: &Report) {
        let (agent_type, entry) = (report.agent_type.clone(), report.entry.clone());
        self.effects.push(Effect::Acknowledge { agent_type, entry });
    }

    pub(crate) fn started(&mut self, i: StepIndex, report: &Report) {
        let timeout_ms = self.state.plan.steps[i].run_limit_ms(&self.context.limits);
        self.emit_step(
            i,
            StepEvent::Started(Box::new(StepStarted {
                worker: Some(report.worker.clone()),
                started_ms: report.started_ms.unwrap_or(self.now_ms),
                due_ms: self.after(timeout_ms),
            })),
        );
    }

    /// Records progress. The second half of `events_max` is reserved for other events.
    fn progress(&mut self, i: StepIndex, report: Report) {
        if self.state.seq >= self.context.limits.events_max / 2 {
            return;
        }
        let progress = report.progress.filter(|share| share.is_finite()).map(|share| share.clamp(0.0, 1.0));
        let message = report.message.map(|message| message.chars().take(MESSAGE_CHARS_MAX).collect());
        self.emit_step(i, StepEvent::Progress(Box::new(StepProgress { progress, message })));
    }

    fn complete_attempt(&mut self, i: StepIndex, report: Report) {
        let spent = self.spent(i, &report);
        if self.may_decompose(i) && self.decompose(i, &report, spent) {
            return;
        }
        let partial = report.what == What::PartialSuccess;
        let on_partial = self.state.plan.steps[i].on_partial;
        if partial && on_partial == OnPartial::Fail {
            return self.refuse_outputs(i, partial_failure(report.errors), spent);
        }
        let outputs = report.outputs.unwrap_or_default();
        // Incomplete outputs are not what the step declares.
        if let Some(failure) = (!partial).then(|| self.output_mismatch(i, &outputs)).flatten() {
            return self.refuse_outputs(i, failure, spent);
        }
        let completed = StepCompleted {
            outputs,
            finished_ms: report.finished_ms,
            adjustments: self.within_payload(report.adjustments),
            partial,
            errors: if partial { report.errors } else { Vec::new() },
            suggested_adjustments: report.suggested_adjustments,
            ..spent.into_completed()
        };
        if let Some(completed) = self.ask_hooks_after(i, completed) {
            self.complete_checked(i, completed);
        }
    }

    /// Completes an attempt whose outputs were checked.
    pub(crate) fn complete_checked(&mut self, i: StepIndex, completed: StepCompleted) {
        if !completed.partial {
            self.cache_outputs(i, &completed.outputs);
        }
        let suggested = &completed.suggested_adjustments;
        let is_urgent = suggested.first().is_some_and(|first| first.priority >= URGENT_PRIORITY);
        let is_news = is_urgent || completed.adjustments.is_some();
        let needs_replan = completed.partial && self.state.plan.steps[i].on_partial == OnPartial::Replan;
        self.information = information_of(completed.adjustments.as_ref(), suggested);
        let Some(completed) = self.iterate(i, completed) else { return };
        self.emit_step(i, StepEvent::Completed(Box::new(completed)));
        if self.state.status != PlanStatus::Running || self.state.is_done() || self.state.cleanup.is_some() {
            return;
        }
        if needs_replan {
            let reason = format!("step `{}` succeeded in part", self.id_of(i));
            self.replan(Trigger::PartialSuccess, Some(i), reason);
        } else if is_news {
            let reason = format!("step `{}` brought new information", self.id_of(i));
            self.replan(Trigger::NewInformation, Some(i), reason);
        }
    }

    /// Returns why outputs do not match what the step declares.
    pub(crate) fn output_mismatch(&mut self, i: StepIndex, outputs: &Json) -> Option<Failure> {
        let outputs = self.with_loaded(i, outputs);
        let spec = &self.state.plan.steps[i];
        output_check::check_outputs(spec, &outputs, &self.context.limits)
    }

    /// Completes an inline step: its inputs are its outputs.
    pub(crate) fn complete_inline(&mut self, i: StepIndex) {
        let inputs = render::inputs(self.state, i, self.now_ms, &self.context.limits);
        let checked = inputs.and_then(|outputs| {
            let needed = self.unloaded_outputs(i, &outputs);
            if !needed.is_empty() {
                return Err(Unrendered::Needs(needed));
            }
            match self.output_mismatch(i, &outputs) {
                Some(failure) => Err(Unrendered::Failed(failure)),
                None => Ok(outputs),
            }
        });
        match checked {
            Ok(outputs) => {
                self.work.count(outputs.text().len());
                self.forget_payloads(i);
                let completed = StepCompleted { outputs, ..StepCompleted::default() };
                if let Some(completed) = self.ask_hooks_after(i, completed) {
                    self.emit_next(i, StepEvent::Completed(Box::new(completed)));
                }
            }
            Err(why) => {
                self.work.count(0);
                self.put_off(i, why);
            }
        }
    }

    /// Handles a due timer of a step.
    pub(crate) fn handle_step_timer(&mut self, i: StepIndex) -> Result<(), Rejection> {
        let due = self.state.steps.get(i.as_usize()).map_or(0, |step| step.due_ms);
        if due == 0 || self.now_ms < due {
            return Err(Rejection::NotDue);
        }
        let status = self.status_of(i);
        if status == StepStatus::Queued {
            let failure = Failure::new(FailureClass::Timeout, "QUEUE_TIMEOUT", "no worker took the task in time");
            self.time_out(i, failure);
        } else if status == StepStatus::Running {
            self.time_out(i, step_timeout());
        } else if self.state.awaits_callback(i) {
            self.end_callback_wait(i);
        } else if status == StepStatus::Waiting {
            self.end_wait(i);
        } else if !matches!(status, StepStatus::AwaitingApproval | StepStatus::Retrying) {
            return Err(Rejection::NotDue);
        } else if let Some(call) = self.waiting_call(i) {
            self.resume_call_by_default(i, call);
        } else if status == StepStatus::Retrying {
            self.emit_step(i, StepEvent::Ready);
        } else if self.awaits_hook(i) {
            self.ask_hooks_again(i);
        } else if self.awaits_answer(i) {
            self.answer_step_by_default(i);
        } else {
            self.decide_by_default(i);
        }
        self.propagate();
        Ok(())
    }

    fn time_out(&mut self, i: StepIndex, failure: Failure) {
        self.cancel_attempt(i);
        if self.state.runs_in_engine(i) {
            self.give_up(i, failure, Spent::default());
        } else {
            self.fail_attempt(i, failure, Spent::default());
        }
    }

    /// Skips a step on request.
    pub(crate) fn skip_manually(&mut self, i: StepIndex, reason: String) {
        self.cancel_attempt(i);
        self.skip(i, SkipCause::Person, reason);
    }
}

/// What is wrong with a report without outputs.
const NO_OUTPUTS: &str = "the report has no `outputs`: report `{}` if there are none";

/// Whether a report says that the step is done, wholly or in part, and nothing else.
fn is_empty(report: &Report) -> bool {
    let is_done = report.what == What::Completed || report.what == What::PartialSuccess && report.errors.is_empty();
    is_done && report.outputs.as_ref().is_none_or(Json::is_null) && report.sub_plan.is_none()
}

/// Longest line of progress or failure kept, in characters.
const MESSAGE_CHARS_MAX: usize = 1_000;
/// Longest code of a failure kept, in characters.
const CODE_CHARS_MAX: usize = 64;

/// The failure of an attempt: what the worker names, or its first error; all other errors are part of it.
fn failure_of(failure: Option<Failure>, errors: Vec<Failure>) -> Failure {
    let mut errors = errors.into_iter();
    let unknown = || Failure::new(FailureClass::Transient, "UNKNOWN", "the worker gave no reason");
    let failure = failure.or_else(|| errors.next()).unwrap_or_else(unknown);
    let further = failure.errors.clone().into_iter().chain(errors).filter(|error| !is_same(error, &failure));
    let errors = further.take(ERRORS_MAX).map(|error| bounded(Failure { errors: Vec::new(), ..error })).collect();
    bounded(Failure { errors, ..failure })
}

/// What planners learn from a report: its `adjustments`, and the agent's suggestions, the most urgent first.
fn information_of(adjustments: Option<&Json>, suggested: &[SuggestedAdjustment]) -> Option<Json> {
    if suggested.is_empty() {
        return adjustments.cloned();
    }
    let mut fields = match adjustments.map(Json::value) {
        Some(Value::Object(fields)) => fields,
        Some(other) => Map::from_iter([("adjustments".to_owned(), other)]),
        None => Map::new(),
    };
    fields.insert("suggested_adjustments".into(), json!(suggested));
    Some(Value::Object(fields).into())
}

fn is_same(one: &Failure, other: &Failure) -> bool {
    (one.class, &one.code, &one.message) == (other.class, &other.code, &other.message)
}

/// The failure of a step that does not accept a partial success.
fn partial_failure(errors: Vec<Failure>) -> Failure {
    let message = match errors.first() {
        Some(error) => format!("the agent succeeded in part only: {}", error.message),
        None => "the agent succeeded in part only".into(),
    };
    let class = errors.first().map_or(FailureClass::Permanent, |error| error.class);
    failure_of(Some(Failure::new(class, "PARTIAL_SUCCESS", message)), errors)
}

/// Bounds the lists of a report and their texts; suggestions are ordered by priority.
fn bound_report(mut report: Report) -> Report {
    report.errors.truncate(ERRORS_MAX);
    for error in &mut report.errors {
        error.errors.clear();
    }
    report.errors = report.errors.into_iter().map(bounded).collect();
    let suggested = &mut report.suggested_adjustments;
    suggested.truncate(ERRORS_MAX);
    for one in suggested.iter_mut() {
        one.description = one.description.chars().take(MESSAGE_CHARS_MAX).collect();
        one.priority = one.priority.clamp(1, 10);
        one.step = one.step.take().filter(|step| is_id(step.as_str()));
    }
    suggested.sort_by_key(|one| std::cmp::Reverse(one.priority));
    report
}

/// Truncates the texts of a failure to what the log keeps.
fn bounded(mut failure: Failure) -> Failure {
    for (text, most) in [(&mut failure.message, MESSAGE_CHARS_MAX), (&mut failure.code, CODE_CHARS_MAX)] {
        if let Some((end, _)) = text.char_indices().nth(most) {
            text.truncate(end);
        }
    }
    failure
}

/// What an attempt took, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spent {
    /// US dollars.
    pub(crate) cost: f64,
    pub(crate) tokens: u64,
    pub(crate) split: Option<TokenSplit>,
    pub(crate) duration_ms: Option<u64>,
}

impl Spent {
    /// What a report says; invalid numbers count as 0.
    ///
    /// - `started_ms`: when the attempt began by its worker's clock, Unix milliseconds; 0 when that is not known.
    fn of_report(report: &Report, started_ms: u64) -> Self {
        let split = report.usage.filter(|split| *split != TokenSplit::default());
        let tokens = report.tokens.or(split.map(TokenSplit::sum)).unwrap_or(0);
        let cost = report.cost.filter(|_| foreign_cost(report).is_none()).unwrap_or(0.0);
        let usage = Usage { cost, tokens }.bounded();
        let started_ms = report.started_ms.or((started_ms > 0).then_some(started_ms));
        let duration_ms = report.finished_ms.zip(started_ms).map(|(end, start)| end.saturating_sub(start));
        Self { cost: usage.cost, tokens: usage.tokens, split, duration_ms }
    }

    /// A completion that took this much, without outputs.
    pub(crate) fn into_completed(self) -> StepCompleted {
        let Self { cost, tokens, split: usage, duration_ms } = self;
        StepCompleted { cost, tokens, usage, duration_ms, ..StepCompleted::default() }
    }
}

/// The reported cost in another currency than the US dollar.
fn foreign_cost(report: &Report) -> Option<(&str, f64)> {
    let is_code = |code: &&str| code.len() == 3 && code.bytes().all(|b| b.is_ascii_alphabetic());
    let currency = report.currency.as_deref().filter(is_code).filter(|code| !code.eq_ignore_ascii_case("USD"))?;
    Some((currency, report.cost?))
}

fn bounded_cost(cost: f64) -> f64 {
    Usage { cost, tokens: 0 }.bounded().cost
}

/// The failure of an attempt that exceeded its time limit.
pub(crate) fn step_timeout() -> Failure {
    Failure::new(FailureClass::Timeout, "STEP_TIMEOUT", "the attempt exceeded its time limit")
}

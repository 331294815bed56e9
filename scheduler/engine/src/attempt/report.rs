//! Reports of workers: checked, bounded and applied to the attempt.

use goalmill_common::constraint::{Measures, bounded_measures, cost_measure};
use goalmill_common::event::{StepCompleted, StepEvent, StepMeasured, StepProgress, StepReleased, StepStarted};
use goalmill_common::failure::{ERRORS_MAX, Failure, FailureClass};
use goalmill_common::goal::Usage;
use goalmill_common::id::is_id;
use goalmill_common::json::Json;
use goalmill_common::json_limits;
use goalmill_common::plan::OnPartial;
use goalmill_common::report::{Report, SuggestedAdjustment, TokenSplit, What};
use goalmill_common::status::StepStatus;
use serde_json::{Map, Value, json};

use crate::attempt::retry;
use crate::decide::Turn;
use crate::graph::{StepIndex, unlock};
use crate::people::hook;
use crate::render::payload_loads::HeldOutcome;
use crate::render::payloads;
use crate::sub_plan::decompose;
use crate::{Effect, Rejection, attempt, calls};

/// Handles a worker's report. A report about another attempt than the current one is refused.
pub(crate) fn receive_report(turn: &mut Turn<'_>, report: Report) -> Result<(), Rejection> {
    let i = reported_step(turn, &report)?;
    let report = if report.what == What::Call { report } else { sanitize_report(turn, bound_report(report)) };
    if report.what == What::Completed
        && let Some(outputs) = &report.outputs
        && payloads::hold_for_outputs(turn, i, outputs, || HeldOutcome::Report(Box::new(report.clone())))
    {
        return Ok(());
    }
    record_report(turn, i, &report);
    match report.what {
        What::Started => {}
        What::Call => calls::record_call(turn, i, &report)?,
        What::Progress => record_progress(turn, i, report),
        What::Completed | What::PartialSuccess => complete_attempt(turn, i, report),
        What::Failed => {
            let spent = spent(turn, i, &report);
            if !decompose::may_decompose(turn, i) || !decompose::decompose_step(turn, i, &report, spent) {
                retry::fail_attempt(turn, i, failure_of(report.failure, report.errors), spent);
            }
        }
        What::Lost => retry::fail_attempt(turn, i, loss_of(report), Spent::default()),
        What::Suspended => {
            let spent = spent(turn, i, &report);
            calls::suspend(turn, i, &report, spent);
        }
        What::Released => {
            turn.emit_step(i, StepEvent::Released(Box::new(StepReleased { worker: report.worker })));
        }
    }
    unlock::propagate(turn);
    Ok(())
}

/// The step that a report is about, if it is about the current attempt.
fn reported_step(turn: &Turn<'_>, report: &Report) -> Result<StepIndex, Rejection> {
    let i = turn.find(&report.step)?;
    let step = &turn.state.steps[i];
    let current = step.attempt() == report.attempt && step.status().is_in_flight() && !turn.state.runs_in_engine(i);
    let genuine = current && turn.state.token(i, turn.context.token_key).as_ref() == Some(&report.token);
    if !genuine || report.what == What::Started && step.status() == StepStatus::Running {
        return Err(Rejection::StaleAttempt { step: report.step.clone(), attempt: report.attempt });
    }
    Ok(i)
}

/// Records what a report says besides its outcome: the begin of the attempt, measures, new information. It is
/// acknowledged if it ends the work on its task.
fn record_report(turn: &mut Turn<'_>, i: StepIndex, report: &Report) {
    let begins = match report.what {
        // A call may be refused.
        What::Call => return,
        What::Lost => false,
        // It has begun, and was stopped by the end of its worker.
        What::Released => report.started_ms.is_some() && !turn.state.graph.undos_of(i).is_empty(),
        What::Started | What::Progress | What::Completed | What::PartialSuccess | What::Failed | What::Suspended => {
            true
        }
    };
    let adjustments = within_payload(turn, report.adjustments.clone());
    turn.information = information_of(adjustments.as_ref(), &report.suggested_adjustments);
    if begins {
        started(turn, i, report);
    }
    if !matches!(report.what, What::Started | What::Progress | What::Call) {
        acknowledge(turn, report);
    }
    if is_closing(report.what) {
        record_measures(turn, i, report);
    }
}

/// Applies the outcome that came by callback. No worker sent it, so there is no entry to acknowledge.
pub(crate) fn apply_callback(turn: &mut Turn<'_>, i: StepIndex, report: Report) {
    let report = sanitize_report(turn, bound_report(report));
    if report.what == What::Failed {
        let spent = spent(turn, i, &report);
        retry::fail_attempt(turn, i, failure_of(report.failure, report.errors), spent);
    } else {
        complete_attempt(turn, i, report);
    }
}

/// Turns an invalid report into a failure. Our workers check what agents answer; foreign workers may not.
fn sanitize_report(turn: &Turn<'_>, report: Report) -> Report {
    let checked = json_limits::check_report(&report, turn.context.limits.nesting_max);
    let failure = match checked {
        Err(wrong) if is_closing(report.what) => {
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

/// Records measures of a report beside cost in US dollars and tokens. Few reports have any.
fn record_measures(turn: &mut Turn<'_>, i: StepIndex, report: &Report) {
    let foreign = foreign_cost(report);
    if report.measures.is_empty() && foreign.is_none() {
        return;
    }
    let mut measures = bounded_measures(report.measures.clone());
    if let Some((currency, cost)) = foreign {
        *measures.entry(cost_measure(currency)).or_default() += bounded_cost(cost);
    }
    turn.emit_step(i, StepEvent::Measured(Box::new(StepMeasured { measures })));
}

/// Returns the new information that a report brought, unless it is larger than `payload_bytes_max`.
fn within_payload(turn: &Turn<'_>, adjustments: Option<Json>) -> Option<Json> {
    let most = turn.context.limits.payload_bytes_max;
    adjustments.filter(|json| !json.is_null() && json.text().len() <= most)
}

fn spent(turn: &Turn<'_>, i: StepIndex, report: &Report) -> Spent {
    Spent::of_report(report, turn.state.steps[i].started_ms())
}

pub(crate) fn acknowledge(turn: &mut Turn<'_>, report: &Report) {
    let (agent_type, entry) = (report.agent_type.clone(), report.entry.clone());
    turn.effects.push(Effect::Acknowledge { agent_type, entry });
}

/// Records that the attempt has begun, with the first report that says so.
pub(crate) fn started(turn: &mut Turn<'_>, i: StepIndex, report: &Report) {
    if turn.status_of(i) != StepStatus::Queued {
        return;
    }
    let timeout_ms = turn.state.plan.step(i).run_limit_ms(&turn.context.limits);
    turn.emit_step(
        i,
        StepEvent::Started(Box::new(StepStarted {
            worker: Some(report.worker.clone()),
            started_ms: report.started_ms.unwrap_or(turn.now_ms),
            due_ms: turn.after(timeout_ms),
        })),
    );
}

/// Records progress. The second half of `events_max` is reserved for other events.
fn record_progress(turn: &mut Turn<'_>, i: StepIndex, report: Report) {
    if turn.state.seq >= turn.context.limits.events_max / 2 {
        return;
    }
    let progress = report.progress.filter(|share| share.is_finite()).map(|share| share.clamp(0.0, 1.0));
    let message = report.message.map(|message| message.chars().take(MESSAGE_CHARS_MAX).collect());
    turn.emit_step(i, StepEvent::Progress(Box::new(StepProgress { progress, message })));
}

fn complete_attempt(turn: &mut Turn<'_>, i: StepIndex, report: Report) {
    let spent = spent(turn, i, &report);
    if decompose::may_decompose(turn, i) && decompose::decompose_step(turn, i, &report, spent) {
        return;
    }
    let partial = report.what == What::PartialSuccess;
    let on_partial = turn.state.plan.step(i).on_partial;
    if partial && on_partial == OnPartial::Fail {
        return calls::refuse_outputs(turn, i, partial_failure(report.errors), spent);
    }
    let outputs = report.outputs.unwrap_or_default();
    // Incomplete outputs are not what the step declares.
    if let Some(failure) = (!partial).then(|| attempt::output_mismatch(turn, i, &outputs)).flatten() {
        return calls::refuse_outputs(turn, i, failure, spent);
    }
    let completed = StepCompleted {
        outputs,
        finished_ms: report.finished_ms,
        adjustments: within_payload(turn, report.adjustments),
        partial,
        errors: if partial { report.errors } else { Vec::new() },
        suggested_adjustments: report.suggested_adjustments,
        ..spent.into_completed()
    };
    if let Some(completed) = hook::ask_hooks_after(turn, i, completed) {
        attempt::complete_checked(turn, i, completed);
    }
}

/// What is wrong with a report without outputs.
const NO_OUTPUTS: &str = "the report has no `outputs`: report `{}` if there are none";

fn is_closing(what: What) -> bool {
    matches!(what, What::Completed | What::PartialSuccess | What::Failed)
}

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

/// The failure of an attempt that was lost with its worker.
fn loss_of(report: Report) -> Failure {
    let lost = || Failure::new(FailureClass::Lost, "WORKER_LOST", format!("worker `{}` was lost", report.worker));
    let failure = failure_of(Some(report.failure.unwrap_or_else(lost)), Vec::new());
    Failure { class: FailureClass::Lost, ..failure }
}

/// What planners learn from a report: its `adjustments`, and the agent's suggestions, the most urgent first.
pub(crate) fn information_of(adjustments: Option<&Json>, suggested: &[SuggestedAdjustment]) -> Option<Json> {
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

    /// What a completion took.
    pub(crate) fn from_completed(completed: &StepCompleted) -> Self {
        let StepCompleted { cost, tokens, usage: split, duration_ms, .. } = *completed;
        Self { cost, tokens, split, duration_ms }
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

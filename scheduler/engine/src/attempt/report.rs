//! Reports of workers and callbacks: checked, bounded and applied to the attempt.

use goalmill_common::callback::CallbackReport;
use goalmill_common::constraint::{Measures, bounded_measures, cost_measure};
use goalmill_common::event::{
    CallbackReceived, StepCompleted, StepEvent, StepMeasured, StepProgress, StepReleased, StepStarted,
};
use goalmill_common::failure::{ERRORS_MAX, Failure, FailureClass};
use goalmill_common::id::{StepId, is_id};
use goalmill_common::json::Json;
use goalmill_common::json_limits;
use goalmill_common::plan::OnPartial;
use goalmill_common::report::{Report, What};
use goalmill_common::status::StepStatus;

use crate::attempt::failed_attempt;
use crate::attempt::spent::Spent;
use crate::attempt::{acknowledge, completion, spent};
use crate::calls::callback::CALLBACK;
use crate::calls::{callback, suspension};
use crate::graph::StepIndex;
use crate::people::hook;
use crate::render::payload_loads::HeldOutcome;
use crate::render::payloads;
use crate::sub_plan::decompose;
use crate::turn::Turn;
use crate::{Rejection, progress};

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
        What::Call => suspension::record_call(turn, i, &report)?,
        What::Progress => record_progress(turn, i, report),
        What::Completed | What::PartialSuccess => complete_attempt(turn, i, report),
        What::Failed => {
            let spent = spent(turn, i, &report);
            if !decompose::may_decompose(turn, i) || !decompose::decompose_step(turn, i, &report, spent) {
                failed_attempt::fail_attempt(turn, i, failure_of(report.failure, report.errors), spent);
            }
        }
        What::Lost => failed_attempt::fail_attempt(turn, i, loss_of(report), Spent::default()),
        What::Suspended => {
            let spent = spent(turn, i, &report);
            suspension::suspend(turn, i, &report, spent);
        }
        What::Released => {
            turn.emit_step(i, StepEvent::Released(Box::new(StepReleased { worker: report.worker })));
        }
    }
    progress::propagate(turn);
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
    turn.information = completion::information_of(adjustments.as_ref(), &report.suggested_adjustments);
    if begins {
        acknowledge::record_start(turn, i, report);
    }
    if !matches!(report.what, What::Started | What::Progress | What::Call) {
        acknowledge::acknowledge(turn, report);
    }
    if is_closing(report.what) {
        record_measures(turn, i, report);
    }
}

/// Applies the outcome that came by callback. No worker sent it, so there is no entry to acknowledge.
fn apply_callback(turn: &mut Turn<'_>, i: StepIndex, report: Report) {
    let report = sanitize_report(turn, bound_report(report));
    if report.what == What::Failed {
        let spent = spent(turn, i, &report);
        failed_attempt::fail_attempt(turn, i, failure_of(report.failure, report.errors), spent);
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
    let foreign = spent::foreign_cost(report);
    if report.measures.is_empty() && foreign.is_none() {
        return;
    }
    let mut measures = bounded_measures(report.measures.clone());
    if let Some((currency, cost)) = foreign {
        *measures.entry(cost_measure(currency)).or_default() += spent::bounded_cost(cost);
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
        return suspension::refuse_outputs(turn, i, partial_failure(report.errors), spent);
    }
    let outputs = report.outputs.unwrap_or_default();
    // Incomplete outputs are not what the step declares.
    if let Some(failure) = (!partial).then(|| completion::output_mismatch(turn, i, &outputs)).flatten() {
        return suspension::refuse_outputs(turn, i, failure, spent);
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
        completion::complete_checked(turn, i, completed);
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

/// Takes the outcome of an attempt by callback. The same report again changes nothing.
pub(crate) fn receive_callback(
    turn: &mut Turn<'_>,
    step: &StepId,
    attempt: u32,
    report: CallbackReport,
) -> Result<(), Rejection> {
    let i = turn.find(step)?;
    let digest = report.digest();
    match callback::received_callback(turn.state, i, attempt) {
        Some(known) if known == digest => return Ok(()),
        Some(_) => {
            return Err(Rejection::not_allowed(format!("attempt {attempt} of step `{step}` has another report")));
        }
        None => {}
    }
    let status = turn.status_of(i);
    let waits = turn.state.steps[i].run().awaits_callback() || status.is_in_flight() && !turn.state.runs_in_engine(i);
    if !waits || !turn.state.plan.step(i).callback || attempt != turn.state.steps[i].attempt() {
        return Err(Rejection::not_allowed(format!("attempt {attempt} of step `{step}` does not wait for a callback")));
    }
    if status == StepStatus::Queued {
        let due_ms = turn.state.steps[i].due_ms().unwrap_or_default();
        let started = StepStarted { worker: None, started_ms: turn.now_ms, due_ms };
        turn.emit_step(i, StepEvent::Started(Box::new(started)));
    }
    turn.emit_step(i, StepEvent::CallbackReceived(Box::new(CallbackReceived { digest })));
    let CallbackReport { outputs, error, cost, tokens } = report;
    let what = if error.is_some() { What::Failed } else { What::Completed };
    let failure = error.map(|error| error.into_failure());
    let queue = turn.state.queue(i).cloned().unwrap_or_else(|| "".into());
    let report = Report { outputs, failure, cost, tokens, ..Report::on_none(queue, "".into(), CALLBACK.into(), what) };
    apply_callback(turn, i, report);
    progress::propagate(turn);
    Ok(())
}

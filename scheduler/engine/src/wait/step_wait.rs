//! The wait of a step: it begins, takes an event, and ends.

use goalmill_common::clock::rfc3339;
use goalmill_common::event::{SkipCause, StepCompleted, StepEvent, StepSkipped, StepWaitStarted};
use goalmill_common::external_event::{ExternalEvent, KEY_CHARS_MAX};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::plan::{OnTimeout, StepWait};
use goalmill_plan::document::time::rendered_time_ms;
use serde_json::json;

use crate::attempt::output_check::schema_mismatch;
use crate::attempt::spent::Spent;
use crate::attempt::{completion, failure};
use crate::graph::StepIndex;
use crate::render::{Unrendered, payloads};
use crate::sub_plan::family_plans::FamilyRequest;
use crate::turn::Turn;
use crate::wait::family_events;
use crate::{cleanup, wait};

/// Longest value of an expression that a failure quotes, in characters.
const QUOTED_CHARS_MAX: usize = 100;

/// Begins the wait of a ready step.
pub(crate) fn start_wait(turn: &mut Turn<'_>, i: StepIndex) {
    turn.count_work(0);
    let wait = turn.state.plan.step(i).wait.clone().unwrap_or_default();
    let started = match &wait.event {
        Some(event) => render_event_wait(turn, i, &wait, event),
        None => wait_end(turn, i, &wait).map(|due_ms| StepWaitStarted {
            due_ms: due_ms.max(1),
            event: String::new(),
            key: String::new(),
        }),
    };
    let started = match started {
        Ok(started) => started,
        Err(why) => return failure::put_off(turn, i, why),
    };
    payloads::forget_payloads(turn, i);
    let (due_ms, is_event) = (started.due_ms, wait.event.is_some());
    turn.emit_step(i, StepEvent::WaitStarted(Box::new(started)));
    if is_event {
        take_kept_event(turn, i);
    } else if due_ms <= turn.now_ms {
        end_wait(turn, i);
    }
}

/// When the wait for a time ends, Unix milliseconds.
fn wait_end(turn: &Turn<'_>, i: StepIndex, wait: &StepWait) -> Result<u64, Unrendered> {
    let due_ms = match (wait.for_ms, &wait.until) {
        (Some(for_ms), _) => turn.after(for_ms),
        (None, Some(until)) => {
            let text = turn.expressions(i).text(until)?;
            rendered_time_ms(&text, wait.tz.as_deref())
                .map_err(|why| failed("WAIT_TIME_INVALID", format!("`until` gives `{}`: {why}", quoted(&text))))?
        }
        (None, None) => return Err(failed("WAIT_TIME_INVALID", "nothing says how long the step waits".into())),
    };
    let deadline_ms = cleanup::end_due_ms(turn.state);
    if due_ms > deadline_ms {
        let message = format!(
            "the step would wait until {}, and the plan ends at {}: give the goal a later `deadline`, or raise \
             `limits.plan_ms_max`",
            rfc3339(due_ms),
            rfc3339(deadline_ms)
        );
        return Err(failed("WAIT_TOO_LONG", message));
    }
    Ok(due_ms)
}

fn render_event_wait(
    turn: &Turn<'_>,
    i: StepIndex,
    wait: &StepWait,
    event: &str,
) -> Result<StepWaitStarted, Unrendered> {
    let key = match &wait.key {
        Some(key) => match turn.expressions(i).wait_key(key)? {
            Some(key) => key,
            None => {
                let message = format!("`key` is `{}`, which gives neither a text nor a whole number", quoted(key));
                return Err(failed("WAIT_KEY_INVALID", message));
            }
        },
        None => String::new(),
    };
    let is_key = !key.is_empty() && key.chars().count() <= KEY_CHARS_MAX && !key.chars().any(char::is_control);
    if wait.key.is_some() && !is_key {
        let message = format!(
            "`key` gives `{}`: a key has 1 to {KEY_CHARS_MAX} characters, and no control characters",
            quoted(&key)
        );
        return Err(failed("WAIT_KEY_INVALID", message));
    }
    let due_ms = wait.timeout_ms.map_or(0, |timeout_ms| turn.after(timeout_ms));
    Ok(StepWaitStarted { due_ms, event: event.to_owned(), key })
}

/// Completes a step that has just begun to wait by the first kept event that fits.
fn take_kept_event(turn: &mut Turn<'_>, i: StepIndex) {
    let Some((name, key)) = wait::awaited_event(turn.state, i) else { return };
    let (name, key) = (name.to_owned(), key.to_owned());
    let kept: Vec<ExternalEvent> = family_events::kept_events(turn.state, &name, &key).cloned().collect();
    let first = kept.into_iter().find(|event| event_mismatch(turn, i, &event.data).is_none());
    if let Some(event) = first {
        complete_by_event(turn, i, event);
    } else if turn.state.parent().is_some() {
        turn.requests.push(FamilyRequest::ClaimEvent { plan: turn.state.id().clone(), name, key, refused: 0 });
    }
}

pub(crate) fn complete_by_event(turn: &mut Turn<'_>, i: StepIndex, event: ExternalEvent) {
    let completed = StepCompleted { outputs: event.data, event: Some(event.id), ..StepCompleted::default() };
    turn.emit_step(i, StepEvent::Completed(Box::new(completed)));
}

/// Returns why data do not fit the step that waits for them.
pub(crate) fn event_mismatch(turn: &mut Turn<'_>, i: StepIndex, data: &Json) -> Option<String> {
    let schema = turn.state.plan.step(i).wait.as_ref().and_then(|wait| wait.schema.clone());
    let of_schema = schema.and_then(|schema| schema_mismatch(&schema, data)).map(|why| why.to_string());
    of_schema.or_else(|| completion::output_mismatch(turn, i, data).map(|failure| failure.message))
}

/// Ends a wait at its time.
pub(crate) fn end_wait(turn: &mut Turn<'_>, i: StepIndex) {
    let Some((event, key)) = wait::awaited_event(turn.state, i) else {
        let waited_until = rfc3339(turn.state.steps[i].due_ms().unwrap_or_default());
        return completion::complete_with(turn, i, json!({ "waited_until": waited_until }).into());
    };
    let message = format!("{} did not come in time", wait::named_event(event, key));
    let failure = Failure::new(FailureClass::Timeout, "WAIT_TIMEOUT", message);
    let on_timeout = turn.state.plan.step(i).wait.as_ref().map(|wait| wait.on_timeout.clone());
    match on_timeout.unwrap_or_default() {
        OnTimeout::Fail => failure::give_up(turn, i, failure, Spent::default()),
        OnTimeout::Skip => {
            let (cause, reason) = (SkipCause::FailurePolicy, failure.message.clone());
            let skipped = StepSkipped { reason, failure: Some(failure), ..StepSkipped::new(cause) };
            turn.emit_step(i, StepEvent::Skipped(Box::new(skipped)));
        }
        OnTimeout::Default(outputs) => completion::complete_with(turn, i, outputs),
    }
}

pub(crate) fn failed(code: &str, message: String) -> Unrendered {
    Unrendered::Failed(Failure::new(FailureClass::Permanent, code, message))
}

fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_CHARS_MAX).collect()
}

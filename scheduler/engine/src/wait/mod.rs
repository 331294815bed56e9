//! Steps that wait for a time or an event: they hold no worker, no place in `max_parallel` and no resource.

pub(crate) mod event_store;
pub(crate) mod family_events;

use goalmill_common::clock::rfc3339;
use goalmill_common::event::{PlanEvent, SkipCause, StepCompleted, StepEvent, StepSkipped, StepWaitStarted};
use goalmill_common::external_event::{ExternalEvent, KEY_CHARS_MAX};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::json_limits;
use goalmill_common::plan::{OnTimeout, StepWait};
use goalmill_common::problem::Issue;
use goalmill_common::status::StepStatus;
use goalmill_common::view::WaitView;
use goalmill_plan::document::issue;
use goalmill_plan::document::time::rendered_time_ms;
use serde_json::json;

use crate::attempt::failure;
use crate::attempt::output_check::schema_mismatch;
use crate::attempt::report::Spent;
use crate::decide::Turn;
use crate::graph::{StepIndex, unlock};
use crate::render::{Unrendered, payloads};
use crate::sub_plan::family::FamilyRequest;
use crate::wait::event_store::AwaitedEvent;
use crate::{PlanState, Rejection, attempt, cleanup, requests};
pub use family_events::{awaits_event, step_awaits_event};

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
        Err(why) => return payloads::put_off(turn, i, why),
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

/// Takes an event from outside: the first step that waits for it completes, else the plan keeps it. An event whose
/// id came before changes nothing.
///
/// - `waiting_only`: the event is refused if no step waits for it.
pub(crate) fn receive_event(turn: &mut Turn<'_>, event: ExternalEvent, waiting_only: bool) -> Result<(), Rejection> {
    if family_events::has_event(turn.state, &event.id) {
        return Ok(());
    }
    let waiting: Vec<StepIndex> = steps_awaiting(turn.state, &event.name, &event.key).collect();
    let mut mismatch = None;
    let mut taker = None;
    let mut refused: Vec<StepIndex> = Vec::new();
    for i in waiting {
        // Data may be large: they are checked once for all steps that ask for the same.
        if refused.iter().any(|other| asks_for_same(turn, *other, i)) {
            continue;
        }
        match event_mismatch(turn, i, &event.data) {
            None => {
                taker = Some(i);
                break;
            }
            Some(detail) => mismatch = mismatch.or(Some((i, detail))),
        }
        refused.push(i);
    }
    let mut issues = event.issues();
    issues.extend(data_issue(turn, &event));
    if let (None, Some((i, detail))) = (taker, mismatch) {
        let hint = format!("send data that fit the `schema` of step `{}`", turn.id_of(i));
        issues.push(issue("INVALID_EVENT", "/data", detail, hint));
    }
    if !issues.is_empty() {
        return Err(Rejection::Invalid { reason: "the event is not valid".into(), issues });
    }
    if taker.is_none() && waiting_only {
        return Err(requests::refuse_plan(turn, "no step waits for the event"));
    }
    if taker.is_none() {
        check_room_for(turn, &event)?;
    }
    turn.emit_plan(PlanEvent::EventReceived(Box::new(event.clone())));
    if turn.state.parent().is_some() {
        // The first request of the decision: nothing else of the family may get the event before it is known.
        turn.requests.push(FamilyRequest::ReportEvent { plan: turn.state.id().clone(), id: event.id.clone() });
    }
    if let Some(i) = taker {
        complete_by_event(turn, i, event);
        unlock::propagate(turn);
    }
    Ok(())
}

/// What is wrong with the data of an event for any step that waits for it.
fn data_issue(turn: &Turn<'_>, event: &ExternalEvent) -> Option<Issue> {
    let (bytes, most) = (event.data.text().len(), turn.context.limits.inline_bytes_max);
    if bytes > most {
        let detail = format!("the data have {bytes} bytes, more than `limits.inline_bytes_max` ({most})");
        return Some(issue("INVALID_EVENT", "/data", detail, "send a reference to large data"));
    }
    let wrong = json_limits::check_json(&event.data, turn.context.limits.nesting_max).err()?;
    Some(issue("INVALID_EVENT", "/data", wrong.to_string(), "send data with less nesting and ordinary numbers"))
}

/// Refuses an event for which nothing waits when the plan keeps too many.
fn check_room_for(turn: &Turn<'_>, event: &ExternalEvent) -> Result<(), Rejection> {
    let limits = &turn.context.limits;
    let (kept, bytes) = turn.state.events.as_ref().map_or((0, 0), |events| (events.len(), events.bytes()));
    let reason = if kept >= limits.kept_events_max {
        format!("it keeps {kept} events for which no step waits (`limits.kept_events_max`)")
    } else if bytes.saturating_add(event.data.text().len()) > limits.kept_events_bytes_max {
        format!("the events that it keeps have {bytes} bytes of data (`limits.kept_events_bytes_max`)")
    } else if turn.state.seq >= limits.events_max / 2 {
        // The second half is reserved for what the plan does.
        "its log is half full (`limits.events_max`), and no step waits for the event".to_owned()
    } else {
        return Ok(());
    };
    Err(requests::refuse_plan(turn, &reason))
}

/// Returns why data do not fit the step that waits for them.
fn event_mismatch(turn: &mut Turn<'_>, i: StepIndex, data: &Json) -> Option<String> {
    let schema = turn.state.plan.step(i).wait.as_ref().and_then(|wait| wait.schema.clone());
    let of_schema = schema.and_then(|schema| schema_mismatch(&schema, data)).map(|why| why.to_string());
    of_schema.or_else(|| attempt::output_mismatch(turn, i, data).map(|failure| failure.message))
}

/// Whether two waits take the same data.
fn asks_for_same(turn: &Turn<'_>, one: StepIndex, other: StepIndex) -> bool {
    let asked = |i: StepIndex| {
        let step = turn.state.plan.step(i);
        (step.wait.as_ref().map(|wait| &wait.schema), &step.output_schema, &step.expected_outputs)
    };
    asked(one) == asked(other)
}

/// Completes a step that has just begun to wait by the first kept event that fits.
fn take_kept_event(turn: &mut Turn<'_>, i: StepIndex) {
    let Some((name, key)) = awaited_event(turn.state, i) else { return };
    let (name, key) = (name.to_owned(), key.to_owned());
    let kept: Vec<ExternalEvent> = family_events::kept_events(turn.state, &name, &key).cloned().collect();
    let first = kept.into_iter().find(|event| event_mismatch(turn, i, &event.data).is_none());
    if let Some(event) = first {
        complete_by_event(turn, i, event);
    } else if turn.state.parent().is_some() {
        turn.requests.push(FamilyRequest::ClaimEvent { plan: turn.state.id().clone(), name, key, refused: 0 });
    }
}

fn complete_by_event(turn: &mut Turn<'_>, i: StepIndex, event: ExternalEvent) {
    let completed = StepCompleted { outputs: event.data, event: Some(event.id), ..StepCompleted::default() };
    turn.emit_step(i, StepEvent::Completed(Box::new(completed)));
}

/// Ends a wait at its time.
pub(crate) fn end_wait(turn: &mut Turn<'_>, i: StepIndex) {
    let Some((event, key)) = awaited_event(turn.state, i) else {
        let waited_until = rfc3339(turn.state.steps[i].due_ms().unwrap_or_default());
        return attempt::complete_with(turn, i, json!({ "waited_until": waited_until }).into());
    };
    let message = format!("{} did not come in time", named_event(event, key));
    let failure = Failure::new(FailureClass::Timeout, "WAIT_TIMEOUT", message);
    let on_timeout = turn.state.plan.step(i).wait.as_ref().map(|wait| wait.on_timeout.clone());
    match on_timeout.unwrap_or_default() {
        OnTimeout::Fail => failure::give_up(turn, i, failure, Spent::default()),
        OnTimeout::Skip => {
            let (cause, reason) = (SkipCause::FailurePolicy, failure.message.clone());
            let skipped = StepSkipped { reason, failure: Some(failure), ..StepSkipped::new(cause) };
            turn.emit_step(i, StepEvent::Skipped(Box::new(skipped)));
        }
        OnTimeout::Default(outputs) => attempt::complete_with(turn, i, outputs),
    }
}

/// The wait of a step for an event, also if it has ended.
pub fn event_wait(state: &PlanState, i: StepIndex) -> Option<WaitView> {
    let step = state.steps.get(i.as_usize())?;
    let AwaitedEvent { name: event, key } = step.awaited()?.clone();
    let due_ms = step.due_ms().unwrap_or(state.accepted.deadline_ms);
    let (plan_id, step_id) = (state.id().clone(), state.plan.step(i).id.clone());
    Some(WaitView { plan_id, step_id, namespace: state.namespace(), event, key, due_at: rfc3339(due_ms) })
}

/// Name and key of the event that a step waits for.
pub(crate) fn awaited_event(state: &PlanState, i: StepIndex) -> Option<(&str, &str)> {
    let step = &state.steps[i];
    let awaited = step.awaited().filter(|_| step.status() == StepStatus::Waiting)?;
    Some((&awaited.name, &awaited.key))
}

/// The steps that wait for an event, in the order of the plan.
pub(crate) fn steps_awaiting(state: &PlanState, name: &str, key: &str) -> impl Iterator<Item = StepIndex> {
    state.indices().filter(move |i| awaited_event(state, *i) == Some((name, key)))
}

/// The event in words.
pub(crate) fn named_event(name: &str, key: &str) -> String {
    if key.is_empty() { format!("the event `{name}`") } else { format!("the event `{name}` with the key `{key}`") }
}

fn failed(code: &str, message: String) -> Unrendered {
    Unrendered::Failed(Failure::new(FailureClass::Permanent, code, message))
}

fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_CHARS_MAX).collect()
}

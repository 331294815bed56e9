//! Events from outside.

use goalmill_common::event::{EventTaken, PlanEvent};
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::json_limits;
use goalmill_common::problem::Issue;
use goalmill_plan::document::issue;

use crate::graph::StepIndex;
use crate::sub_plan::family_plans::FamilyRequest;
use crate::turn::Turn;
use crate::wait::{family_events, step_wait};
use crate::{Rejection, progress, refusals, wait};

/// Takes an event from outside: the first step that waits for it completes, else the plan keeps it. An event whose
/// id came before changes nothing.
///
/// - `waiting_only`: the event is refused if no step waits for it.
pub(crate) fn receive_event(turn: &mut Turn<'_>, event: ExternalEvent, waiting_only: bool) -> Result<(), Rejection> {
    if family_events::has_event(turn.state, &event.id) {
        return Ok(());
    }
    let waiting: Vec<StepIndex> = wait::steps_awaiting(turn.state, &event.name, &event.key).collect();
    let mut mismatch = None;
    let mut taker = None;
    let mut refused: Vec<StepIndex> = Vec::new();
    for i in waiting {
        // Data may be large: they are checked once for all steps that ask for the same.
        if refused.iter().any(|other| asks_for_same(turn, *other, i)) {
            continue;
        }
        match step_wait::event_mismatch(turn, i, &event.data) {
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
        return Err(refusals::refuse_plan(turn, "no step waits for the event"));
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
        step_wait::complete_by_event(turn, i, event);
        progress::propagate(turn);
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
    Err(refusals::refuse_plan(turn, &reason))
}

/// Whether two waits take the same data.
fn asks_for_same(turn: &Turn<'_>, one: StepIndex, other: StepIndex) -> bool {
    let asked = |i: StepIndex| {
        let step = turn.state.plan.step(i);
        (step.wait.as_ref().map(|wait| &wait.schema), &step.output_schema, &step.expected_outputs)
    };
    asked(one) == asked(other)
}

/// A plan inside this one has an event, which is for no other wait.
pub(crate) fn event_taken(turn: &mut Turn<'_>, taken: EventTaken) {
    if !family_events::has_event(turn.state, &taken.id) || family_events::keeps_event(turn.state, &taken.id) {
        turn.emit_plan(PlanEvent::EventTaken(Box::new(taken)));
    }
}

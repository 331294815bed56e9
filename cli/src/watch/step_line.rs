//! The line for a change of a step.

use goalmill_common::call::CallWaitKind;
use goalmill_common::clock::rfc3339;
use goalmill_common::event::{HookDecided, HookDecision, StepCompleted, StepEvent, StepSuspended};
use goalmill_common::id::{AgentType, PlanId, StepId};
use goalmill_common::status::{PlanStatus, StepStatus};

use super::board::{Board, Row};
use super::note::{because, short, why};
use crate::output::{Palette, Tone, cleanup_words, seconds, step_tone};

/// Widest columns of step ids and agent types, in characters.
const WIDTH_MAX: usize = 28;

pub(super) fn step_line(
    board: &Board,
    step: &StepId,
    event: &StepEvent,
    by: &str,
    palette: Palette,
    starts: bool,
) -> Option<String> {
    // A step that is added or removed by a revision changes the plan at the end of the revision.
    if let StepEvent::Added(added) = event {
        let said = if board.status() == PlanStatus::Replanning {
            "added"
        } else if board.is_open() {
            "written"
        } else if board.revision() > 0 {
            "added"
        } else {
            return None;
        };
        return Some(labelled(board, StepStatus::Pending, step, &added.step.agent_type, palette, said));
    }
    let row = &board.row(step)?;
    if let StepEvent::Removed(why) = event {
        let said = format!("removed{}", because(&why.reason));
        return Some(labelled(board, StepStatus::Revised, step, row.agent_type, palette, &said));
    }
    let line = |said: String| Some(labelled(board, row.status, step, row.agent_type, palette, &said));
    match event {
        StepEvent::Started(_) if starts => {
            line(if row.attempt > 1 { format!("started, attempt {}", row.attempt) } else { "started".into() })
        }
        StepEvent::Completed(done) => line(format!("{}{}", completed(board, row, palette), in_part(done))),
        StepEvent::Retrying(retrying) => {
            let wait = retrying.due_ms.saturating_sub(board.last_ms);
            let then = if retrying.fallback { "fallback" } else { "next try" };
            let ended = if retrying.told_to_wait { "was told to wait" } else { "failed" };
            line(format!(
                "attempt {} {ended}: {} · {then} in {}",
                row.attempt,
                short(&retrying.failure.message),
                seconds(wait)
            ))
        }
        StepEvent::Failed(failed) => line(why(&failed.failure)),
        StepEvent::Skipped(_) => line(format!("skipped{}", because(row.reason))),
        StepEvent::Cancelled(_) if row.attempt > 0 => line(format!("cancelled{}", because(row.reason))),
        StepEvent::Blocked(_) => line(format!("blocked{}", because(row.reason))),
        StepEvent::Released(released) => line(format!("handed back by {}", released.worker)),
        StepEvent::ApprovalRequested(_) => {
            line(format!("waits for approval: goalmill step approve {} {step}", board.plan))
        }
        StepEvent::Suspended(suspended) => line(awaited(&board.plan, step, suspended)),
        StepEvent::CallbackReceived(_) => line("the callback of its agent has come".into()),
        StepEvent::Resumed(resumed) => {
            let outcome = resumed.call.outcome.as_ref().map_or("", |outcome| outcome.text());
            line(format!("goes on{by}: {}", short(outcome)))
        }
        StepEvent::HookDecided(decided) if decided.decision != HookDecision::Allow => line(ruled(decided)),
        StepEvent::Approved(why) => line(format!("approved{by}{}", because(&why.reason))),
        StepEvent::QuestionAsked(asked) => {
            line(format!("asks: {}: goalmill step answer {} {step} ANSWER", short(&asked.question), board.plan))
        }
        StepEvent::Answered(answered) => {
            line(format!("answered{by}: {}{}", short(answered.answer.text()), because(&answered.reason)))
        }
        StepEvent::WaitStarted(wait) if wait.event.is_empty() => line(format!(
            "waits {}, until {}",
            seconds(wait.due_ms.saturating_sub(board.last_ms)),
            rfc3339(wait.due_ms)
        )),
        StepEvent::WaitStarted(wait) => {
            let plan = &board.plan;
            let key = if wait.key.is_empty() { String::new() } else { format!(" --key '{}'", short(&wait.key)) };
            line(format!("waits for an event: goalmill event send {} --plan {plan}{key} --data JSON", wait.event))
        }
        StepEvent::Recalled(why) => line(format!("recalled{}", because(&why.reason))),
        StepEvent::Decomposed(why) => line(format!("becomes a plan of its own{}", because(&why.reason))),
        StepEvent::Iterated(iterated) => line(format!("iteration {} is done; another one follows", iterated.iteration)),
        StepEvent::Undone(undone) => line(match &undone.failure {
            None => "one is undone; another one follows".into(),
            Some(failure) => format!("one could not be undone: {}; another one follows", short(&failure.message)),
        }),
        StepEvent::Expanded(expanded) => line(format!("becomes {} steps, one for each item", expanded.items)),
        StepEvent::Cancelled(_)
        | StepEvent::Started(_)
        | StepEvent::Added(_)
        | StepEvent::Removed(_)
        | StepEvent::Modified(_)
        | StepEvent::Ready
        | StepEvent::Queued(_)
        | StepEvent::HookAsked(_)
        | StepEvent::HookDecided(_)
        | StepEvent::Measured(_)
        | StepEvent::CallRecorded(_)
        | StepEvent::CallsDiscarded(_)
        | StepEvent::Progress(_) => None,
    }
}

/// What is missing in the outputs of a step.
fn in_part(done: &StepCompleted) -> String {
    match done.errors.first() {
        Some(error) => format!("  in part: {}", short(&error.message)),
        None if done.partial => "  in part".into(),
        None => String::new(),
    }
}

/// What a suspended attempt waits for.
fn awaited(plan: &PlanId, step: &StepId, suspended: &StepSuspended) -> String {
    let wait = &suspended.call.wait;
    let text = short(&wait.text);
    match wait.kind {
        CallWaitKind::Approval => format!("waits for approval to {text}: goalmill step approve {plan} {step}"),
        CallWaitKind::Answer => format!("asks: {text}: goalmill step answer {plan} {step} ANSWER"),
        CallWaitKind::Plan => format!("waits for a plan of its own: {text}"),
        CallWaitKind::Callback => {
            format!("accepted by its agent; its callback is awaited until {}", rfc3339(suspended.due_ms))
        }
        CallWaitKind::Budget => format!("waits for room in the budget: {text}"),
    }
}

/// What the hooks decided: `hook audit: refuse: too expensive`.
pub(super) fn ruled(decided: &HookDecided) -> String {
    let who = if decided.hook.is_empty() { "hooks".into() } else { format!("hook {}", decided.hook) };
    format!("{who}: {}{}", decided.decision, because(&decided.reason))
}

/// `  ✓ flights  flight_agent  …`
fn labelled(
    board: &Board,
    status: StepStatus,
    step: &StepId,
    agent_type: &AgentType,
    palette: Palette,
    said: &str,
) -> String {
    let (ids, agents) = (board.widths.0.min(WIDTH_MAX), board.widths.1.min(WIDTH_MAX));
    let id = format!("{:<ids$}", step.as_str());
    let agent = format!("{:<agents$}", agent_type.as_str());
    let mark = palette.tone(step_tone(status), status.mark());
    let line = format!("  {mark} {id}  {}  {said}", palette.tone(Tone::Dim, agent));
    let part = board.row(step).and_then(|row| cleanup_words(row.spec.undoes.as_ref(), row.spec.always));
    match part {
        Some(part) => format!("{}  {}", line.trim_end(), palette.tone(Tone::Dim, format!("({part})"))),
        None => line.trim_end().into(),
    }
}

fn completed(board: &Board, row: &Row<'_>, palette: Palette) -> String {
    let took = row.run_ms().map(seconds).unwrap_or_default();
    let (money, words) = row.note;
    let money = if board.has_money { format!("{money:>12}  ") } else { String::new() };
    let mut asides = Vec::new();
    let beside = board.beside(row);
    if (1..=2).contains(&beside.len()) {
        let names: Vec<&str> = beside.iter().map(|step| step.as_str()).collect();
        asides.push(format!("ran beside {}", names.join(", ")));
    }
    if !row.waits_ms.is_empty() {
        let waits: Vec<String> = row.waits_ms.iter().map(|ms| seconds(*ms)).collect();
        let tries = if waits.len() == 1 { "1 retry".into() } else { format!("{} retries", waits.len()) };
        asides.push(format!("{tries} after {}", waits.join(", ")));
    }
    if row.requested_ms > 0 {
        asides.push(format!("waited {} as told", seconds(row.requested_ms)));
    }
    let aside = if asides.is_empty() { String::new() } else { format!("({})", asides.join(" · ")) };
    let words = if words.is_empty() || aside.is_empty() { words.clone() } else { format!("{words}  ") };
    format!("{took:>7}  {money}{words}{}", palette.tone(Tone::Dim, aside))
}

//! Explains why a plan or a step does not progress: causes from the nearest to the root, and a hint.

use crate::graph::StepIndex;
use crate::people::waiting::Waiting;
use crate::revise::revising;
use crate::wait::named_event;
use crate::{PlanState, cleanup, delayed_start, sub_plan, wait};
use goalmill_common::clock::rfc3339;
use goalmill_common::event::GoalChanged;
use goalmill_common::failure::Failure;
use goalmill_common::plan::StepKind;
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_common::view::{Explanation, StepExplanation};

mod remedy;

pub use remedy::{AgentHealth, ExplainContext};

/// Longest chain of causes shown.
const CAUSES_MAX: usize = 10;
/// Most steps explained; those that wait for others come last.
const STEPS_MAX: usize = 100;

/// Explains the plan from its state alone.
///
/// - `now_ms`: Unix milliseconds, for durations.
pub fn explain(state: &PlanState, now_ms: u64) -> Explanation {
    explain_with(state, now_ms, None)
}

/// Explains the plan with the state of queues and workers.
pub fn explain_with_context(state: &PlanState, now_ms: u64, around: &ExplainContext) -> Explanation {
    explain_with(state, now_ms, Some(around))
}

fn explain_with(state: &PlanState, now_ms: u64, around: Option<&ExplainContext>) -> Explanation {
    let mut open: Vec<StepIndex> = state.indices().filter(|i| !status_at(state, *i).is_final()).collect();
    open.sort_by_key(|i| (rank_of(status_at(state, *i)), *i));
    open.truncate(STEPS_MAX);
    Explanation {
        plan_id: state.id().clone(),
        status: state.status,
        summary: explain_plan(state, now_ms),
        planner_note: state.origin.note.as_deref().unwrap_or_default().to_owned(),
        goal_read: GoalChanged { read: state.goal_read.clone(), ..GoalChanged::from_goal(&state.accepted.goal) }
            .read_lines(),
        steps: open.into_iter().map(|i| explain_step(state, i, now_ms, around)).collect(),
    }
}

fn status_at(state: &PlanState, i: StepIndex) -> StepStatus {
    state.steps[i].status()
}

fn explain_plan(state: &PlanState, now_ms: u64) -> String {
    let until = |ms: u64| {
        if ms > 0 { format!(", until {} at the latest", rfc3339(ms)) } else { String::new() }
    };
    if let Some(proposed) = revising::proposed(state) {
        let (until, what) = (until(proposed.due_ms), proposed.proposal.summary.as_str());
        let colon = if what.is_empty() { "" } else { ": " };
        return format!("a person must agree to a revision{until}{colon}{what}");
    }
    if let Some(asked) = revising::open_question(state) {
        return format!("a person must answer `{}`{}: {}", asked.id, until(asked.due_ms), asked.question.question);
    }
    match state.status {
        PlanStatus::Planning => {
            format!("a planner has been working for {}", elapsed(state.created_ms(), now_ms))
        }
        PlanStatus::AwaitingApproval if matches!(state.waiting, Waiting::Hook { .. }) => {
            "a hook must decide before it runs".into()
        }
        PlanStatus::AwaitingApproval => {
            format!("a person must agree before it runs{}", until(state.waiting.due_ms().unwrap_or_default()))
        }
        PlanStatus::Paused if delayed_start::start_due_ms(state).is_some() => {
            format!("the plan starts at {}", rfc3339(delayed_start::start_due_ms(state).unwrap_or_default()))
        }
        PlanStatus::Paused => "the plan is paused: no step starts, running steps may finish".into(),
        PlanStatus::Replanning => {
            let who = if state.waiting.is_for_person() { "a person" } else { "a planner" };
            let why = state.waiting.replan().map_or("", |replan| replan.reason.as_str());
            format!(
                "waiting for {who} to decide how to continue{}: {why}",
                until(state.waiting.due_ms().unwrap_or_default())
            )
        }
        PlanStatus::Running if state.is_kept() => {
            let around = state.parent().map_or("", |parent| parent.plan.as_str());
            format!("its work is done: it ends with the plan around it, `{around}`, which may have it undone")
        }
        PlanStatus::Running => match state.cleanup.run() {
            Some(cleanup) if cleanup.is_stopping() => {
                let status = cleanup.outcome.status;
                format!("it ends as {status} once the plans inside it have ended, and its clean-up steps have run")
            }
            Some(cleanup) => {
                let (status, due) = (cleanup.outcome.status, rfc3339(cleanup.due_ms));
                format!("it ends as {status} once its clean-up steps have run, at {due} at the latest")
            }
            None => explain_running(state),
        },
        PlanStatus::Completed
        | PlanStatus::Partial
        | PlanStatus::Failed
        | PlanStatus::Cancelled
        | PlanStatus::Rejected => {
            let reason = state.ended().map(|ended| ended.reason.as_str()).filter(|reason| !reason.is_empty());
            format!("it has ended as {}{}", state.status, reason.map(|r| format!(": {r}")).unwrap_or_default())
        }
    }
}

fn explain_running(state: &PlanState) -> String {
    let of = |status: StepStatus| state.steps.iter().filter(|step| step.status() == status).count();
    let words = [
        (StepStatus::Running, "running"),
        (StepStatus::Queued, "waiting for a worker"),
        (StepStatus::Ready, "ready for dispatch"),
        (StepStatus::Retrying, "waiting to go on"),
        (StepStatus::Waiting, "waiting for a time, an event or a callback"),
        (StepStatus::AwaitingApproval, "waiting for a person"),
        (StepStatus::Pending, "waiting for other steps"),
        (StepStatus::Blocked, "blocked"),
    ];
    let counted = words.map(|(status, word)| (of(status), word));
    let parts: Vec<String> = counted.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    format!("of {} steps, {}", state.counts.total, parts.join(", "))
}

fn explain_step(state: &PlanState, i: StepIndex, now_ms: u64, around: Option<&ExplainContext>) -> StepExplanation {
    let mut because = Vec::new();
    let mut root = i;
    for _ in 0..CAUSES_MAX {
        because.push(describe_cause(state, root, now_ms));
        match waits_for(state, root) {
            Some(next) => root = next,
            None => break,
        }
    }
    let step_id = state.plan.step(i).id.clone();
    let root = remedy::root_cause(state, root, around);
    because.extend(root.because);
    StepExplanation { step_id, status: status_at(state, i), because, hint: root.hint }
}

/// The step that this one waits for: a failed one before an open one.
fn waits_for(state: &PlanState, i: StepIndex) -> Option<StepIndex> {
    if !matches!(status_at(state, i), StepStatus::Pending | StepStatus::Blocked) {
        return None;
    }
    let dependencies = &state.plan.step(i).dependencies;
    let all = || dependencies.iter().filter_map(|id| state.graph.find(id.as_str()));
    if status_at(state, i) == StepStatus::Blocked {
        return all().find(|d| status_at(state, *d) == StepStatus::Failed);
    }
    let open = all().filter(|d| !status_at(state, *d).is_final()).min_by_key(|d| rank_of(status_at(state, *d)));
    open.or_else(|| earlier_phase(state, i))
}

/// A step of the current phase, for which a step of a later phase waits.
fn earlier_phase(state: &PlanState, i: StepIndex) -> Option<StepIndex> {
    if state.is_phase_open(i) {
        return None;
    }
    let members = state.graph.members().get(state.phases.current())?;
    members.iter().copied().filter(|m| !status_at(state, *m).is_final()).min_by_key(|m| rank_of(status_at(state, *m)))
}

fn describe_cause(state: &PlanState, i: StepIndex, now_ms: u64) -> String {
    let (spec, step) = (state.plan.step(i), &state.steps[i]);
    let id = &spec.id;
    let due = step.due_ms().map_or_else(|| "its end".into(), rfc3339);
    match step.status() {
        StepStatus::Pending
            if !state.cleanup.is_running() && state.cleanup.undoing().first().is_some_and(|undo| *undo != i) =>
        {
            let undo = &state.plan.step(state.cleanup.undoing()[0]).id;
            format!("`{id}` waits until `{undo}` has taken back what a revision removed")
        }
        StepStatus::Pending if spec.is_cleanup() && !cleanup::is_its_turn(state, i) => {
            format!("`{id}` is a clean-up step: it begins once the outcome of the plan is known")
        }
        StepStatus::Pending if step.dependencies().open() > 0 => {
            let (open, all) = (step.dependencies().open(), state.graph.waits(i));
            let more = step.dependencies().missing(state.graph.needed(i, spec.join));
            dependencies(id.as_str(), more, all, open)
        }
        StepStatus::Pending => {
            let phase =
                state.plan.definition().phases.get(state.phases.current()).map_or("", |phase| phase.id.as_str());
            format!("`{id}` waits for phase `{phase}` to end")
        }
        StepStatus::Blocked => format!("`{id}` is blocked: {}", step.run().reason()),
        StepStatus::Ready => format!("`{id}` is ready, {}", why_not_out(state, i)),
        StepStatus::Queued => {
            let queue = state.queue(i).map_or("", |queue| queue.as_str());
            let since = elapsed(step.queued_ms(), now_ms);
            format!("attempt {} of `{id}` is in the queue `{queue}` for {since}, until {due}", step.attempt())
        }
        StepStatus::Running if spec.kind == StepKind::Plan => {
            let plan = sub_plan::sub_plan_id(state, i);
            format!("`{id}` waits for its own plan `{plan}`, until {due}")
        }
        StepStatus::Running => {
            let worker = step.worker().as_ref().map_or("", |worker| worker.as_str());
            let since = elapsed(step.started_ms(), now_ms);
            format!("attempt {} of `{id}` runs on `{worker}` for {since}, until {due}", step.attempt())
        }
        StepStatus::Retrying => describe_retrying(state, i, &due),
        StepStatus::Waiting if step.run().awaits_callback() => {
            format!("the agent of `{id}` accepted attempt {} and reports by callback, until {due}", step.attempt())
        }
        StepStatus::Waiting => match wait::awaited_event(state, i) {
            Some((event, key)) => format!("`{id}` waits for {}, until {due}", named_event(event, key)),
            None => format!("`{id}` waits until {due}"),
        },
        StepStatus::AwaitingApproval if step.run().awaits_hook() && step.due_ms().is_some() => {
            format!("a hook holds `{id}`, until {due}: {}", step.run().reason())
        }
        StepStatus::AwaitingApproval if step.run().awaits_hook() => format!("a hook must decide about `{id}`"),
        StepStatus::AwaitingApproval => match step.run().question() {
            Some(question) => format!("a person must answer `{id}`, until {due}: {question}"),
            None => {
                let what = step.run().reason();
                let colon = if what.is_empty() { "" } else { ": " };
                format!("a person must agree to `{id}`, until {due}{colon}{what}")
            }
        },
        StepStatus::Failed => format!("`{id}` failed{}", because_of(step.failure())),
        StepStatus::Completed | StepStatus::Skipped | StepStatus::Cancelled | StepStatus::Revised => {
            format!("`{id}` is {}", step.status())
        }
    }
}

/// - `due`: when the wait ends.
fn describe_retrying(state: &PlanState, i: StepIndex, due: &str) -> String {
    let step = &state.steps[i];
    let id = &state.plan.step(i).id;
    let why = because_of(step.failure());
    if step.run().awaits_plan() {
        format!("a call of `{id}` waits for its plan `{}`, until {due}", sub_plan::sub_plan_id(state, i))
    } else if step.run().needs().is_some() {
        format!("a call of `{id}` waits for room in the budget, until {due}: {}", step.run().reason())
    } else if step.iterations().current() > 1 && step.failures() == 0 {
        format!("iteration {} of `{id}` begins at {due}", step.iterations().current())
    } else if step.told_to_wait().is_some() {
        format!("`{id}` was told to wait until {due}, and uses no retry{why}")
    } else {
        format!("`{id}` is tried again at {due}, because attempt {} failed{why}", step.attempt())
    }
}

fn why_not_out(state: &PlanState, i: StepIndex) -> String {
    if state.status != PlanStatus::Running {
        return format!("but the plan is {}", state.status);
    }
    if state.places_taken() >= state.width() {
        return format!(
            "but {} steps are in flight and the plan runs {} concurrently",
            state.places_taken(),
            state.width()
        );
    }
    if let Some(first) = state.first_in_turn().filter(|first| *first != i) {
        let id = &state.plan.step(first).id;
        let why = if cleanup::undoes_removed(state, first) {
            "undoes what was removed"
        } else {
            "stands before it in the list"
        };
        return format!("but the plan is sequential, and `{id}`, which {why}, has not ended");
    }
    if !state.is_free(i) {
        let resource = state.plan.step(i).resource.as_deref().unwrap_or_default();
        return format!("but another step holds the resource `{resource}`");
    }
    let Some(queue) = state.queue(i).filter(|queue| !queue.as_str().is_empty()) else {
        return "and waits for its turn among the steps of the plan".into();
    };
    format!("and waits for the queue `{queue}` to have room")
}

/// The end of a sentence that gives a failure as the reason.
fn because_of(failure: Option<&Failure>) -> String {
    failure.map(|failure| format!(": {} [{}]", failure.message, failure.code)).unwrap_or_default()
}

/// What a step with open dependencies waits for.
///
/// - `more`: how many of the `all` dependencies must still be met; `open` have not ended.
fn dependencies(id: &str, more: u32, all: u32, open: u32) -> String {
    let are = if open == 1 { "is" } else { "are" };
    match all {
        1 => format!("`{id}` waits for its only dependency"),
        _ => format!("`{id}` waits for {more} more of its {all} dependencies ({open} {are} open)"),
    }
}

/// Order of explanations: steps that need a person first, steps that wait for others last.
fn rank_of(status: StepStatus) -> u8 {
    match status {
        StepStatus::AwaitingApproval => 0,
        StepStatus::Retrying => 1,
        StepStatus::Blocked => 2,
        StepStatus::Queued => 3,
        StepStatus::Running => 4,
        StepStatus::Waiting => 5,
        StepStatus::Ready => 6,
        StepStatus::Pending => 7,
        StepStatus::Completed
        | StepStatus::Failed
        | StepStatus::Skipped
        | StepStatus::Cancelled
        | StepStatus::Revised => 8,
    }
}

/// Formats the time since `since_ms`: `4 s`, `12 min`, `3 h`.
pub(crate) fn elapsed(since_ms: u64, now_ms: u64) -> String {
    match now_ms.saturating_sub(since_ms) / 1_000 {
        s @ 0..=119 => format!("{s} s"),
        s @ 120..=7_199 => format!("{} min", s / 60),
        s => format!("{} h", s / 3_600),
    }
}

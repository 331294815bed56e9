//! Submission: a goal is accepted, and its plan begins.

use goalmill_common::command::{Planned, Submit};
use goalmill_common::event::{Event, GoalAccepted, PlanEvent, Record};
use goalmill_common::id::StepId;
use goalmill_common::revision::Fork;

use crate::budget::plan_size::count_steps;
use crate::decide::decide;
use crate::delayed_start::with_start;
use crate::due_time::after;
use crate::sub_plan::family_limits;
use crate::turn::Turn;
use crate::{Decision, Effect, EngineContext, Envelope, PlanState, Rejection, SubmitCommand, planned, progress};

/// The result of [`submit()`].
pub type Submitted = Result<(PlanState, Decision), Rejection>;

/// The two entry points of the engine: tests replace them to inject faults.
#[derive(Clone, Copy)]
pub struct Engine {
    pub submit: fn(&EngineContext, Envelope<SubmitCommand>) -> Submitted,
    pub decide: fn(&mut PlanState, &EngineContext, Envelope) -> Result<Decision, Rejection>,
}

impl Default for Engine {
    fn default() -> Self {
        Self { submit, decide }
    }
}

/// Begins a plan: the first event creates its state. Reads no clock and draws no number, as [`decide()`].
pub fn submit(context: &EngineContext, envelope: Envelope<SubmitCommand>) -> Result<(PlanState, Decision), Rejection> {
    let Envelope { now_ms, random, actor, family, command } = envelope;
    let (accepted, beginning) = accept(context, now_ms, command)?;
    let record = Record { seq: 1, time_ms: now_ms, actor, event: Event::Plan(accepted) };
    let mut state = PlanState::new(&record).expect("the first event is `goal_accepted`");
    let mut turn = Turn::begin_with(&mut state, record, context, random);
    family_limits::join_family(&mut turn, family);
    match beginning {
        Beginning::Plan { planned, fork } => {
            // The plan that starts it has counted them.
            turn.size_before = count_steps(&planned.plan);
            planned::start_plan(&mut turn, *planned, fork, false);
        }
        Beginning::Planning => turn.effects.push(Effect::Plan { revision: 0 }),
        Beginning::Refused(reason) => planned::planning_failed(&mut turn, reason, Vec::new(), None),
    }
    let decision = progress::finish_turn(turn);
    Ok((state, decision))
}

/// How an accepted goal begins.
enum Beginning {
    /// With a plan, which may continue another one.
    Plan { planned: Box<Planned>, fork: Option<Box<Fork>> },
    /// Planners are asked.
    Planning,
    /// A sub-plan that is refused must still tell its parent.
    Refused(String),
}

/// Checks a submission, and makes its first event.
fn accept(
    context: &EngineContext,
    now_ms: u64,
    submission: SubmitCommand,
) -> Result<(PlanEvent, Beginning), Rejection> {
    let SubmitCommand { plan_id, salt, submit } = submission;
    let refusal = refusal_of(context, &submit);
    if let (Some(reason), None) = (&refusal, &submit.parent) {
        return Err(Rejection::not_allowed(reason.clone()));
    }
    let beginning = match (refusal, submit.plan) {
        (Some(reason), _) => Beginning::Refused(reason),
        (None, Some(planned)) => Beginning::Plan { planned: Box::new(planned), fork: submit.fork },
        (None, None) => Beginning::Planning,
    };
    let goal = with_start(submit.goal, now_ms);
    let start_ms = goal.start_at_ms.map_or(now_ms, |start_ms| start_ms.max(now_ms));
    let (longest, is_inside) = (after(start_ms, context.limits.plan_ms_max), submit.parent.is_some());
    let accepted = GoalAccepted {
        plan_id,
        // What undoes items may run for longer than the plan around it, which began before.
        deadline_ms: goal.deadline_ms.map_or(longest, |due_ms| if is_inside { due_ms } else { due_ms.min(longest) }),
        goal,
        submission: submit.submission,
        source: submit.source,
        secret: String::new(),
        salt,
        fingerprint: submit.fingerprint,
        entry: submit.entry,
        parent: submit.parent,
        traceparent: submit.traceparent,
    };
    Ok((PlanEvent::GoalAccepted(Box::new(accepted)), beginning))
}

fn refusal_of(context: &EngineContext, submit: &Submit) -> Option<String> {
    if let Some(reason) = submit.plan.as_ref().and_then(|planned| planned::refusal(context, &planned.plan)) {
        return Some(reason);
    }
    if !planned::is_budget(&submit.goal.budget) {
        return Some("the goal's budget is not a number".into());
    }
    if let Some(reason) = submit.fork.as_deref().and_then(|fork| fork_mismatch(fork, submit.plan.as_ref())) {
        return Some(reason);
    }
    let is_too_deep = submit.parent.as_ref().is_some_and(|parent| parent.depth > context.limits.depth_max);
    is_too_deep.then(|| "plans are nested deeper than `depth_max`".into())
}

/// Returns why a fork cannot keep its results or calls: the plan lacks a step.
fn fork_mismatch(fork: &Fork, planned: Option<&Planned>) -> Option<String> {
    let has = |id: &StepId| planned.is_some_and(|planned| planned.plan.steps.iter().any(|step| step.id == *id));
    let missing = fork.kept.keys().chain(fork.calls.keys()).find(|id| !has(id))?;
    Some(format!("the fork keeps what step `{missing}` did, which is not in the plan"))
}

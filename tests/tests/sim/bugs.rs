//! Bugs around the engine: a scheduler of the simulation decides through [`engine`].

use std::cell::Cell;

use goalmill_common::event::{Event, PlanEvent, Reason, Record, StepEvent};
use goalmill_common::plan::{Plan, Strategy};
use goalmill_common::report::Report;
use goalmill_common::status::StepStatus;
use goalmill_engine::{
    Command, Decision, Engine, EngineContext, Envelope, PlanAnswer, PlanState, Rejection, SubmitCommand, Timer,
};

/// A bug of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A report counts for the attempt that is in flight, whichever attempt it is about.
    AnyAttempt,
    /// A step becomes ready, and the log says something else.
    SilentReady,
    /// The time limit of a running attempt is ignored.
    NoRunDeadline,
    /// The plan's limits on steps in flight are ignored.
    NoLimit,
    /// Panics when a step called `unlucky` becomes ready.
    Panics,
}

thread_local! {
    static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Chooses the bug of this thread, or none.
pub fn switch(bug: Option<Bug>) {
    BUG.set(bug);
}

/// The engine with the bug of this thread.
pub fn engine() -> Engine {
    Engine { submit, decide }
}

fn submit(context: &EngineContext, mut envelope: Envelope<SubmitCommand>) -> Result<(PlanState, Decision), Rejection> {
    let planned = envelope.command.submit.plan.as_mut();
    let limits = planned.filter(|_| BUG.get() == Some(Bug::NoLimit)).map(|planned| lift_limits(&mut planned.plan));
    let (state, mut decision) = goalmill_engine::submit(context, envelope)?;
    alter(&mut decision, limits);
    Ok((state, decision))
}

fn decide(state: &mut PlanState, context: &EngineContext, mut envelope: Envelope) -> Result<Decision, Rejection> {
    let mut limits = None;
    match (BUG.get(), &mut envelope.command) {
        (Some(Bug::AnyAttempt), Command::Report(report)) => redirect(state, report),
        (Some(Bug::NoRunDeadline), Command::Due(Timer::Step(i)))
            if state.step(*i).is_some_and(|step| step.status == StepStatus::Running) =>
        {
            return Err(Rejection::NotDue);
        }
        (Some(Bug::NoLimit), Command::Planned { answer: PlanAnswer::Plan(planned), .. }) => {
            limits = Some(lift_limits(&mut planned.plan));
        }
        _ => {}
    }
    let mut decision = goalmill_engine::decide(state, context, envelope)?;
    alter(&mut decision, limits);
    Ok(decision)
}

/// What the log says: `limits` are those of the plan that was submitted or planned.
fn alter(decision: &mut Decision, limits: Option<(Strategy, Option<u32>)>) {
    for record in &mut decision.records {
        match BUG.get() {
            Some(Bug::SilentReady) if is_ready(record) => {
                record.event = Event::Plan(PlanEvent::Quarantined(Reason::boxed("a step is ready")));
            }
            Some(Bug::Panics) if is_ready(record) => {
                assert!(record.event.step().is_none_or(|step| step.as_str() != "unlucky"), "a bug panics");
            }
            _ => {}
        }
        if let (Event::Plan(PlanEvent::PlanCreated(created)), Some(limits)) = (&mut record.event, limits) {
            let plan = std::sync::Arc::make_mut(&mut created.plan);
            (plan.strategy, plan.max_parallel) = limits;
        }
    }
}

/// Makes a report count for the attempt in flight.
fn redirect(state: &PlanState, report: &mut Report) {
    let Some((i, step)) = state.step_index(&report.step).and_then(|i| Some((i, state.step(i)?))) else { return };
    if let (true, Some(token)) = (step.status.is_in_flight(), state.token(i)) {
        (report.attempt, report.token) = (step.attempt, token);
    }
}

/// Removes the limits on steps in flight, and returns them for the log.
fn lift_limits(plan: &mut Plan) -> (Strategy, Option<u32>) {
    let limits = (plan.strategy, plan.max_parallel);
    (plan.strategy, plan.max_parallel) = (Strategy::Parallel, None);
    limits
}

fn is_ready(record: &Record) -> bool {
    matches!(record.event, Event::Step { event: StepEvent::Ready, .. })
}

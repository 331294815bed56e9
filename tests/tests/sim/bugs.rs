//! Bugs around the engine: a scheduler of the simulation decides through [`engine`].

use std::cell::Cell;

use goalmill_common::event::{CleanupStarted, Event, PlanEvent, Reason, Record, StepEvent, StepFailed};
use goalmill_common::failure::{Failure, FailureClass, FailureEffect};
use goalmill_common::json::Json;
use goalmill_common::plan::{Plan, Strategy};
use goalmill_common::report::Report;
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{
    Command, Decision, Effect, Engine, EngineContext, Envelope, PlanAnswer, PlanState, Rejection, SubmitCommand, Timer,
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
    /// The result of an item of a map is not in the log.
    LostItem,
    /// What began first is undone first.
    UndoInOrder,
    /// A step is not undone if nobody knows what its attempts did.
    ForgottenUndo,
    /// A wait that took an event times out, too.
    EventAndTimeout,
    /// An iteration of a loop counts as two.
    IterationTwice,
    /// A plan that is cancelled ends without its clean-up.
    NoCleanup,
    /// Panics when a step called `unlucky` becomes ready.
    Panics,
}

impl Bug {
    /// Whether the events of a decision are others than those of the engine.
    fn changes_events(self) -> bool {
        match self {
            Self::UndoInOrder | Self::EventAndTimeout | Self::IterationTwice | Self::NoCleanup => true,
            Self::AnyAttempt
            | Self::SilentReady
            | Self::NoRunDeadline
            | Self::NoLimit
            | Self::LostItem
            | Self::ForgottenUndo
            | Self::Panics => false,
        }
    }
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
        (Some(Bug::AnyAttempt), Command::Report(report)) => redirect(state, context, report),
        (Some(Bug::ForgottenUndo), Command::Report(report)) => {
            report.failure.iter_mut().for_each(|failure| failure.effect = Some(FailureEffect::None));
        }
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
    let before = BUG.get().filter(|bug| bug.changes_events()).map(|_| state.clone());
    let mut decision = goalmill_engine::decide(state, context, envelope)?;
    alter(&mut decision, limits);
    if let Some(before) = before
        && falsify(&before, &mut decision)
    {
        fold_again(state, before, &mut decision.records);
    }
    Ok(decision)
}

/// Makes the engine decide something else. Returns whether it did: the state is then that of the other events.
fn falsify(before: &PlanState, decision: &mut Decision) -> bool {
    let records = &mut decision.records;
    match BUG.get() {
        Some(Bug::UndoInOrder) => {
            let Some(started) = records.iter_mut().find_map(cleanup_of).filter(|started| started.undo.len() > 1) else {
                return false;
            };
            let (last, first) = (started.undo[0].clone(), started.undo[started.undo.len() - 1].clone());
            let indices = (before.step_index(&last), before.step_index(&first));
            let (Some(last_index), Some(first_index)) = indices else { return false };
            // Only where the first undo step has become ready and nothing more.
            let of_last = records.iter().filter(|record| record.event.step() == Some(&last));
            if !of_last.map(is_ready).eq([true]) {
                return false;
            }
            for record in records.iter_mut() {
                if let Some(started) = cleanup_of(record) {
                    started.undo.reverse();
                } else if let Event::Step { step, .. } = &mut record.event
                    && *step == last
                {
                    *step = first.clone();
                }
            }
            for effect in &mut decision.effects {
                if *effect == Effect::Ready(last_index) {
                    *effect = Effect::Ready(first_index);
                }
            }
            true
        }
        Some(Bug::EventAndTimeout) => {
            let took = |record: &Record| match &record.event {
                Event::Step { event: StepEvent::Completed(completed), .. } => completed.event.is_some(),
                Event::Step { .. } | Event::Plan(_) => false,
            };
            let Some(place) = records.iter().position(took) else { return false };
            let mut late = records[place].clone();
            if let Event::Step { event, .. } = &mut late.event {
                let failure = Failure::new(FailureClass::Timeout, "WAIT_TIMEOUT", "it did not come in time");
                *event = StepEvent::Failed(Box::new(StepFailed::new(failure)));
            }
            records.insert(place + 1, late);
            true
        }
        Some(Bug::IterationTwice) => {
            let mut is_altered = false;
            for record in records.iter_mut() {
                if let Event::Step { event: StepEvent::Iterated(iterated), .. } = &mut record.event {
                    iterated.iteration += 1;
                    is_altered = true;
                }
            }
            is_altered
        }
        Some(Bug::NoCleanup) => {
            let is_begin = |record: &Record| matches!(record.event, Event::Plan(PlanEvent::CleanupStarted(_)));
            let Some(place) = records.iter().position(is_begin) else { return false };
            let Some(started) = cleanup_of(&mut records[place]) else { return false };
            if started.outcome.status != PlanStatus::Cancelled {
                return false;
            }
            let end = Box::new(started.outcome.clone());
            records.truncate(place + 1);
            records[place].event = Event::Plan(PlanEvent::Cancelled(end));
            decision.effects.retain(|effect| !matches!(effect, Effect::Ready(_)));
            decision.effects.push(Effect::Ended);
            true
        }
        Some(
            Bug::AnyAttempt
            | Bug::SilentReady
            | Bug::NoRunDeadline
            | Bug::NoLimit
            | Bug::LostItem
            | Bug::ForgottenUndo
            | Bug::Panics,
        )
        | None => false,
    }
}

fn cleanup_of(record: &mut Record) -> Option<&mut CleanupStarted> {
    match &mut record.event {
        Event::Plan(PlanEvent::CleanupStarted(started)) => Some(started),
        Event::Plan(_) | Event::Step { .. } => None,
    }
}

/// The state that the other events give. Events that no state allows stay in the log.
fn fold_again(state: &mut PlanState, before: PlanState, records: &mut [Record]) {
    let first = before.seq() + 1;
    records.iter_mut().zip(first..).for_each(|(record, seq)| record.seq = seq);
    let mut folded = Some(before);
    if records.iter().all(|record| goalmill_engine::replay(&mut folded, record).is_ok())
        && let Some(folded) = folded
    {
        *state = folded;
    }
}

/// What the log says: `limits` are those of the plan that was submitted or planned.
fn alter(decision: &mut Decision, limits: Option<(Strategy, Option<u32>)>) {
    for record in &mut decision.records {
        match BUG.get() {
            Some(Bug::SilentReady) if is_ready(record) => {
                record.event = Event::Plan(PlanEvent::Quarantined(Reason::boxed("a step is ready")));
            }
            Some(Bug::LostItem) => lose_item(record),
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

/// Takes the outputs out of an event of an item. Items are named after their map and numbered.
fn lose_item(record: &mut Record) {
    if let Event::Step { step, event: StepEvent::Completed(completed), .. } = &mut record.event
        && step.as_str().rsplit_once(':').is_some_and(|(_, number)| number.parse::<u32>().is_ok())
    {
        completed.outputs = Json::default();
    }
}

/// Makes a report count for the attempt in flight.
fn redirect(state: &PlanState, context: &EngineContext, report: &mut Report) {
    let Some((i, step)) = state.step_index(&report.step).and_then(|i| Some((i, state.step(i)?))) else { return };
    if let (true, Some(token)) = (step.status.is_in_flight(), state.token(i, context.token_key)) {
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

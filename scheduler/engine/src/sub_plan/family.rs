//! Families: a plan, its sub-plans, and theirs. What they ask of each other, and what they use up together.

use goalmill_common::command::Submit;
use goalmill_common::event::{FamilyGrew, Parent, PlanEvent};
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Usage;
use goalmill_common::id::PlanId;
use goalmill_common::json::Json;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::problem::Problem;
use goalmill_common::status::PlanStatus;

use crate::attempt::failure;
use crate::budget::plan_size::{count_step, count_steps, counted_bytes, reported_bytes};
use crate::budget::work_limit::WorkLimit;
use crate::cleanup::done_work;
use crate::decide::Turn;
use crate::sub_plan::kept_plans;
use crate::{Closing, Command, KeptFate, PlanState, SubPlanEnd, budget, cleanup, revise, sub_plan};

/// The plans in memory of a shell. The engine only reads them.
pub trait FamilyPlans {
    /// What the shell finds a plan by.
    type Key: Copy;

    /// Finds a plan in memory.
    fn find_plan(&self, plan: &PlanId) -> Option<Self::Key>;

    /// The state of a plan in memory.
    fn plan_state(&self, key: Self::Key) -> &PlanState;

    /// Number of dispatched steps of a plan whose outputs are looked up in the cache. Each keeps a place.
    fn looked_up(&self, _: Self::Key) -> u32 {
        0
    }

    /// Why a plan that is not in memory may not begin: the shell does not work on it.
    fn refusal(&self, _: &PlanId) -> Option<Problem> {
        None
    }
}

/// What a decision asks of its family.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FamilyRequest {
    /// Start the sub-plan of a step.
    Start { plan: PlanId, submit: Box<Submit> },
    /// Report an event that a plan has got to the plans above it.
    ReportEvent { plan: PlanId, id: String },
    /// Look for an event of a name and a key that the plans above keep: a step has begun to wait for it.
    ///
    /// - `refused`: number of such events that do not fit the step.
    ClaimEvent { plan: PlanId, name: String, key: String, refused: usize },
    /// Offer an event to plans, the last one first, until one takes it.
    OfferEvent { event: Box<ExternalEvent>, waiting_only: bool, plans: Vec<PlanId> },
    /// Count what a plan has more, in the outermost plan.
    Grow { plan: PlanId, grown: FamilyGrew },
    /// Stop the plan of a step, which reports its end once its clean-up has run.
    Stop { plan: PlanId, parent: Box<Parent> },
    /// Release a kept plan, or let it undo what it did.
    EndKept { plan: PlanId, parent: Box<Parent>, fate: KeptFate },
    /// Give a command to a sub-plan, to the parent or to the plan itself.
    Give { plan: PlanId, command: Box<Command> },
}

/// What a family has used up when one of its plans decides. The shell puts it into the [`crate::Envelope`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilyUse {
    /// Steps of the outermost plan, and of all plans that were ever started inside it, each of which counts as one step
    /// more.
    pub steps: u64,
    /// Bytes of the outputs of these plans, and of the plans inside as they started.
    pub bytes: u64,
    /// The work of the decisions of the same turn.
    pub work: WorkLimit,
}

pub(crate) fn join_family(turn: &mut Turn<'_>, family: FamilyUse) {
    (turn.family, turn.work) = (family, family.work);
}

/// Tells the outermost plan how many steps and bytes this one has more.
pub(crate) fn report_growth(turn: &mut Turn<'_>) {
    if turn.state.parent().is_none() {
        return;
    }
    let steps = turn.state.size.steps().saturating_sub(turn.size_before);
    let bytes = reported_bytes(kept_bytes(turn.state)).saturating_sub(reported_bytes(turn.bytes_before));
    if steps > 0 || bytes > 0 {
        let grown = FamilyGrew { steps, bytes };
        turn.requests.push(FamilyRequest::Grow { plan: turn.state.id().clone(), grown });
    }
}

/// Counts the steps and bytes of plans inside this one, which ends when they are too many.
pub(crate) fn grow_family(turn: &mut Turn<'_>, grown: FamilyGrew) {
    turn.emit_plan(PlanEvent::FamilyGrew(Box::new(grown)));
    if let Some(failure) = budget::exceeded_outputs(turn) {
        failure::fail_plan(turn, failure);
    } else if turn.state.size.steps_with_family() > family_steps_max(turn) {
        failure::fail_plan(turn, family_too_large(turn));
    }
}

/// Says why no plan may start inside this one.
pub(crate) fn check_family_room(turn: &Turn<'_>, plan: Option<&Plan>) -> Result<(), Failure> {
    check_family_steps(turn, plan.map_or(0, count_steps))
}

/// Says why the plan of a map's items may not start, before it is made.
pub(crate) fn check_room_of_items(turn: &Turn<'_>, item: &Step, items: usize) -> Result<(), Failure> {
    check_family_steps(turn, count_step(item).saturating_mul(items as u64))
}

fn check_family_steps(turn: &Turn<'_>, steps: u64) -> Result<(), Failure> {
    let steps = turn.family.steps.saturating_add(1).saturating_add(steps);
    if steps > family_steps_max(turn) { Err(family_too_large(turn)) } else { Ok(()) }
}

/// Says why no plan of so many bytes, with its goal, may start inside this one. Clean-up is not held to it.
pub(crate) fn check_family_bytes(turn: &Turn<'_>, bytes: u64) -> Result<(), Failure> {
    let most = turn.context.limits.plan_outputs_bytes_max;
    let grown = kept_bytes(turn.state).saturating_sub(turn.bytes_before);
    let all = turn.family.bytes.saturating_add(grown).saturating_add(counted_bytes(bytes));
    if all <= most as u64 || turn.state.cleanup.is_running() {
        return Ok(());
    }
    let message = format!(
        "with one more plan of {bytes} bytes, the plan and the plans inside it would have more than {most} bytes \
         of plans and outputs together (`limits.plan_outputs_bytes_max`)"
    );
    Err(Failure::new(FailureClass::Permanent, "FAMILY_TOO_LARGE", message))
}

fn family_steps_max(turn: &Turn<'_>) -> u64 {
    u64::try_from(turn.context.limits.family_steps_max).unwrap_or(u64::MAX)
}

fn family_too_large(turn: &Turn<'_>) -> Failure {
    let most = turn.context.limits.family_steps_max;
    let message = format!(
        "the plan and the plans inside it would have more than {most} steps together (`limits.family_steps_max`)"
    );
    Failure::new(FailureClass::Permanent, "FAMILY_TOO_LARGE", message)
}

/// Bytes that the plan keeps: see [`crate::budget::plan_size::PlanSize::kept_bytes`].
pub(crate) fn kept_bytes(state: &PlanState) -> u64 {
    state.size.kept_bytes(state.parent().is_some())
}

/// The same, and what the plans inside it report.
pub(crate) fn total_bytes(state: &PlanState) -> u64 {
    state.size.total_bytes(state.parent().is_some())
}

/// Reports to the step of a sub-plan that it has not run, or runs no more.
pub(crate) fn report_stopped(parent: Parent, status: PlanStatus, failure: Option<Failure>) -> FamilyRequest {
    report_to(parent, *SubPlanEnd::new(status, Json::empty_object(), Usage::default(), failure))
}

/// Reports the end of a sub-plan, or that it is kept, to the step of its parent.
pub(crate) fn report_end(state: &PlanState) -> Option<FamilyRequest> {
    let parent = state.parent()?.clone();
    let ended = state.outcome.kept().or_else(|| state.ended())?;
    Some(report_to(
        parent,
        SubPlanEnd {
            status: ended.status,
            outputs: sub_plan::sub_plan_outputs(state),
            usage: state.outcome.unreported(state.usage),
            failure: ended.failure.clone().or_else(|| failure::tolerated_failures(state, ended.status)),
            items: if kept_plans::is_kept(state) { None } else { done_work::work_of_items(state) },
            not_undone: cleanup::cleanup_not_done(state),
            is_kept: kept_plans::is_kept(state),
        },
    ))
}

pub(crate) fn report_to(parent: Parent, end: SubPlanEnd) -> FamilyRequest {
    let ended = Command::SubPlanEnded { step: parent.step, attempt: parent.attempt, end: Box::new(end) };
    FamilyRequest::Give { plan: parent.plan, command: Box::new(ended) }
}

/// Closes a streamed plan after a restart: its planner ran in the scheduler that is gone.
pub(crate) fn close_stream(state: &PlanState) -> Option<FamilyRequest> {
    if !revise::is_plan_open(state) {
        return None;
    }
    let reason = "the scheduler that wrote the plan is gone".to_owned();
    let closing = Closing::Broken { reason, issues: Vec::new(), provenance: None };
    let command = Box::new(Command::ClosePlan(Box::new(closing)));
    Some(FamilyRequest::Give { plan: state.id().clone(), command })
}

/// The plan that is inside no other one, or the last one above `key` that is in memory.
pub(crate) fn outermost<P: FamilyPlans>(plans: &P, mut key: P::Key) -> P::Key {
    while let Some(above) = plan_above(plans, key) {
        key = above;
    }
    key
}

/// The plan that `key` is inside of, if it is in memory.
pub(crate) fn plan_above<P: FamilyPlans>(plans: &P, key: P::Key) -> Option<P::Key> {
    plans.plan_state(key).parent().and_then(|parent| plans.find_plan(&parent.plan))
}

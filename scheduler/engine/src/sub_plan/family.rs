//! Families: a plan, its sub-plans, and theirs. A command to one of them is decided for all that it reaches.
//!
//! A decision starts sub-plans, passes requests on to them, and reports the end of its plan to the parent. Each of these
//! is a command to another plan, whose decision may ask for more. They are decided one after the other in one turn of
//! the shell, which commits them together: no log has the end of a sub-plan without what follows from it.

use std::collections::VecDeque;

use goalmill_common::command::{Submit, Verb};
use goalmill_common::event::{FamilyGrew, Parent, PlanEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Usage;
use goalmill_common::id::PlanId;
use goalmill_common::json::Json;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::problem::Problem;
use goalmill_common::status::PlanStatus;

use crate::budget::plan_size::{count_step, count_steps, counted_bytes, reported_bytes};
use crate::budget::work_limit::WorkLimit;
use crate::decide::Turn;
use crate::{Closing, Command, Decision, KeptFate, PlanState, Rejection, SubPlanEnd};

/// The actor of the first event of a sub-plan.
const SUBMITTER: &str = "engine";

/// What a decision asks of its family.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FamilyRequest {
    /// Start the sub-plan of a step.
    Start { plan: PlanId, submit: Box<Submit> },
    /// Report an event that a plan has got to the plans above it.
    ReportEvent { plan: PlanId, id: String },
    /// Look for an event of a name and a key that the plans above keep: a step has begun to wait for it.
    ClaimEvent { plan: PlanId, name: String, key: String },
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

/// The plans in memory of a shell, among which a family decides.
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

    /// Decides a command to one plan with [`crate::decide()`].
    fn decide_command(
        &mut self,
        key: Self::Key,
        actor: Option<&str>,
        command: Command,
        family: FamilyUse,
    ) -> Result<Decision, Rejection>;

    /// Begins a plan with [`crate::submit()`] and keeps its state. A plan that the shell does not work on is refused.
    fn submit_plan(
        &mut self,
        plan: PlanId,
        actor: String,
        submit: Box<Submit>,
        family: FamilyUse,
    ) -> Result<(Self::Key, Decision), Problem>;

    /// Takes the records and the effects of a decision. Decisions come in the order in which they were made.
    fn apply_decision(&mut self, key: Self::Key, decision: Decision);

    /// Learns that a plan rejected what another plan of its family asked for, which changes nothing.
    fn note_rejection(&mut self, plan: &PlanId, rejection: &Rejection);
}

/// Applies the decision of a plan, and decides what follows from it for its family.
///
/// Requests wait in a queue, because recursion over long chains of sub-plans would exhaust the stack. A decision without
/// requests allocates nothing here.
pub fn settle_family<P: FamilyPlans>(plans: &mut P, key: P::Key, decision: Decision) {
    let mut family = FamilyTurn { plans, requests: VecDeque::new(), work: WorkLimit::default() };
    family.apply(key, decision);
    while let Some(request) = family.requests.pop_front() {
        match request {
            FamilyRequest::Start { plan, submit } => family.start(plan, submit),
            FamilyRequest::Grow { plan, grown } => family.grow(&plan, grown),
            FamilyRequest::ReportEvent { plan, id } => family.report_event(&plan, &id),
            FamilyRequest::ClaimEvent { plan, name, key } => family.claim_event(&plan, &name, &key),
            FamilyRequest::Stop { plan, parent } => family.stop(&plan, *parent),
            FamilyRequest::EndKept { plan, parent, fate } => family.end_kept(&plan, *parent, fate),
            FamilyRequest::Give { plan, command } => family.give(&plan, *command),
        }
    }
}

/// The decisions of one family in one turn.
pub(crate) struct FamilyTurn<'a, P> {
    pub(crate) plans: &'a mut P,
    /// Requests that are not decided yet, oldest first.
    requests: VecDeque<FamilyRequest>,
    work: WorkLimit,
}

impl<P: FamilyPlans> FamilyTurn<'_, P> {
    pub(crate) fn apply(&mut self, key: P::Key, mut decision: Decision) {
        self.requests.extend(std::mem::take(&mut decision.family));
        self.work = decision.work.passed_on();
        self.plans.apply_decision(key, decision);
    }

    /// Starts a sub-plan unless it runs, as after a restart. The step of a sub-plan that is refused fails, also when
    /// somebody has submitted a plan that has its id.
    fn start(&mut self, plan: PlanId, submit: Box<Submit>) {
        let parent = submit.parent.clone();
        let refused = match self.plans.find_plan(&plan) {
            Some(key) if self.plans.plan_state(key).parent() == parent.as_ref() => return,
            Some(_) => {
                let message = format!("another plan has the id of its plan, {plan}");
                Failure::new(FailureClass::Permanent, "SUB_PLAN_FAILED", message)
            }
            None => {
                let above = parent.as_ref().and_then(|parent| self.plans.find_plan(&parent.plan));
                let family = above.map_or_else(FamilyUse::default, |key| family_use(self.plans, key, self.work));
                match self.plans.submit_plan(plan, SUBMITTER.into(), submit, family) {
                    Ok((key, decision)) => return self.apply(key, decision),
                    Err(problem) => Failure::new(FailureClass::Permanent, problem.code.as_str(), problem.detail),
                }
            }
        };
        self.requests.extend(parent.map(|parent| report_stopped(parent, PlanStatus::Failed, Some(refused))));
    }

    /// Cancels the plan of a step. One that is in its clean-up ends after it; one that is not in memory is in quarantine,
    /// and nobody waits for it.
    fn stop(&mut self, plan: &PlanId, parent: Parent) {
        match self.plans.find_plan(plan).map(|key| self.plans.plan_state(key)) {
            None => self.requests.push_back(report_stopped(parent, PlanStatus::Cancelled, None)),
            Some(state) if state.cleanup.is_running() => {}
            Some(state) if state.is_kept() => {
                let report = report_end(state);
                self.requests.extend(report);
            }
            Some(_) => {
                let reason = "the parent step has ended".into();
                self.give(plan, Command::Verb(Verb::Cancel { reason }));
            }
        }
    }

    /// Ends a kept plan. One that cannot be found undoes nothing, and the plan around it goes on.
    fn end_kept(&mut self, plan: &PlanId, parent: Parent, fate: KeptFate) {
        match self.plans.find_plan(plan).map(|key| self.plans.plan_state(key).is_kept()) {
            Some(true) => self.give(plan, Command::EndKept(Box::new(fate))),
            Some(false) => {}
            None if fate == KeptFate::Released => {}
            None => {
                let end = SubPlanEnd::new(PlanStatus::Cancelled, Json::empty_object(), Usage::default(), None);
                let end = SubPlanEnd { not_undone: vec![format!("{} (its plan is not there)", parent.step)], ..*end };
                self.requests.push_back(report_to(parent, end));
            }
        }
    }

    /// Counts what a plan has more, in the outermost plan of its family.
    fn grow(&mut self, plan: &PlanId, grown: FamilyGrew) {
        let Some(key) = self.plans.find_plan(plan) else { return };
        let root = self.plans.plan_state(outermost(self.plans, key)).id().clone();
        self.give(&root, Command::FamilyGrew { steps: grown.steps, bytes: grown.bytes });
    }

    /// Decides a command as a part of this turn, within what is left of its work.
    pub(crate) fn decide(&mut self, key: P::Key, command: Command) -> Result<Decision, Rejection> {
        let family = family_use(self.plans, key, self.work);
        self.plans.decide_command(key, None, command, family)
    }

    /// Gives a command to a plan. A plan that is not in memory has ended or is in quarantine.
    pub(crate) fn give(&mut self, plan: &PlanId, command: Command) {
        let Some(key) = self.plans.find_plan(plan) else { return };
        // A plan that nobody takes the end of is not kept for anybody.
        let kept = if let Command::SubPlanEnded { step, attempt, end } = &command {
            end.is_kept.then(|| (step.clone(), *attempt))
        } else {
            None
        };
        match self.decide(key, command) {
            Ok(decision) => self.apply(key, decision),
            Err(rejection) => {
                if let Some((step, attempt)) = kept {
                    let inside = self.plans.plan_state(key).kept_plan_id(&step, attempt);
                    self.give(&inside, Command::EndKept(Box::new(KeptFate::Released)));
                }
                self.plans.note_rejection(plan, &rejection);
            }
        }
    }
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

/// Decides a command that begins a turn.
pub(crate) fn decide_alone<P: FamilyPlans>(
    plans: &mut P,
    key: P::Key,
    actor: Option<&str>,
    command: Command,
) -> Result<Decision, Rejection> {
    let family = family_use(plans, key, WorkLimit::default());
    plans.decide_command(key, actor, command, family)
}

/// What the family of a plan has used up.
fn family_use<P: FamilyPlans>(plans: &P, key: P::Key, work: WorkLimit) -> FamilyUse {
    let root = plans.plan_state(outermost(plans, key));
    FamilyUse { steps: root.size.steps_with_family(), bytes: root.total_bytes(), work }
}

impl Turn<'_> {
    pub(crate) fn join_family(&mut self, family: FamilyUse) {
        (self.family, self.work) = (family, family.work);
    }

    /// Tells the outermost plan how many steps and bytes this one has more.
    pub(crate) fn report_growth(&mut self) {
        if self.state.parent().is_none() {
            return;
        }
        let steps = self.state.size.steps().saturating_sub(self.size_before);
        let bytes = reported_bytes(self.state.kept_bytes()).saturating_sub(reported_bytes(self.bytes_before));
        if steps > 0 || bytes > 0 {
            let grown = FamilyGrew { steps, bytes };
            self.requests.push(FamilyRequest::Grow { plan: self.state.id().clone(), grown });
        }
    }

    /// Counts the steps and bytes of plans inside this one, which ends when they are too many.
    pub(crate) fn grow_family(&mut self, grown: FamilyGrew) {
        self.emit_plan(PlanEvent::FamilyGrew(Box::new(grown)));
        if let Some(failure) = self.exceeded_outputs() {
            self.fail_plan(failure);
        } else if self.state.size.steps_with_family() > self.family_steps_max() {
            self.fail_plan(self.family_too_large());
        }
    }

    /// Says why no plan may start inside this one.
    pub(crate) fn check_family_room(&self, plan: Option<&Plan>) -> Result<(), Failure> {
        self.check_family_steps(plan.map_or(0, count_steps))
    }

    /// Says why the plan of a map's items may not start, before it is made.
    pub(crate) fn check_room_of_items(&self, item: &Step, items: usize) -> Result<(), Failure> {
        self.check_family_steps(count_step(item).saturating_mul(items as u64))
    }

    fn check_family_steps(&self, steps: u64) -> Result<(), Failure> {
        let steps = self.family.steps.saturating_add(1).saturating_add(steps);
        if steps > self.family_steps_max() { Err(self.family_too_large()) } else { Ok(()) }
    }

    /// Says why no plan of so many bytes, with its goal, may start inside this one. Clean-up is not held to it.
    pub(crate) fn check_family_bytes(&self, bytes: u64) -> Result<(), Failure> {
        let most = self.context.limits.plan_outputs_bytes_max;
        let grown = self.state.kept_bytes().saturating_sub(self.bytes_before);
        let all = self.family.bytes.saturating_add(grown).saturating_add(counted_bytes(bytes));
        if all <= most as u64 || self.state.cleanup.is_running() {
            return Ok(());
        }
        let message = format!(
            "with one more plan of {bytes} bytes, the plan and the plans inside it would have more than {most} bytes \
             of plans and outputs together (`limits.plan_outputs_bytes_max`)"
        );
        Err(Failure::new(FailureClass::Permanent, "FAMILY_TOO_LARGE", message))
    }

    fn family_steps_max(&self) -> u64 {
        u64::try_from(self.context.limits.family_steps_max).unwrap_or(u64::MAX)
    }

    fn family_too_large(&self) -> Failure {
        let most = self.context.limits.family_steps_max;
        let message = format!(
            "the plan and the plans inside it would have more than {most} steps together (`limits.family_steps_max`)"
        );
        Failure::new(FailureClass::Permanent, "FAMILY_TOO_LARGE", message)
    }
}

impl PlanState {
    /// Bytes that the plan keeps: see [`crate::budget::plan_size::PlanSize::kept_bytes`].
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.size.kept_bytes(self.parent().is_some())
    }

    /// The same, and what the plans inside it report.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.size.total_bytes(self.parent().is_some())
    }
}

/// Reports to the step of a sub-plan that it has not run, or runs no more.
fn report_stopped(parent: Parent, status: PlanStatus, failure: Option<Failure>) -> FamilyRequest {
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
            outputs: state.sub_plan_outputs(),
            usage: state.outcome.unreported(state.usage),
            failure: ended.failure.clone().or_else(|| state.tolerated_failures(ended.status)),
            items: if state.is_kept() { None } else { state.work_of_items() },
            not_undone: state.cleanup_not_done(),
            is_kept: state.is_kept(),
        },
    ))
}

fn report_to(parent: Parent, end: SubPlanEnd) -> FamilyRequest {
    let ended = Command::SubPlanEnded { step: parent.step, attempt: parent.attempt, end: Box::new(end) };
    FamilyRequest::Give { plan: parent.plan, command: Box::new(ended) }
}

/// Closes a streamed plan after a restart: its planner ran in the scheduler that is gone.
pub(crate) fn close_stream(state: &PlanState) -> Option<FamilyRequest> {
    if !state.is_open() {
        return None;
    }
    let reason = "the scheduler that wrote the plan is gone".to_owned();
    let closing = Closing::Broken { reason, issues: Vec::new(), provenance: None };
    let command = Box::new(Command::ClosePlan(Box::new(closing)));
    Some(FamilyRequest::Give { plan: state.id().clone(), command })
}

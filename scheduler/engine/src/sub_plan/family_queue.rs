//! The queue of a family: what its plans ask of each other becomes one command after the other.
//!
//! A decision starts sub-plans, passes requests on to them, and reports the end of its plan to the parent. Each of these
//! is a command to another plan, whose decision may ask for more. A shell takes the commands from the queue, oldest
//! request first, decides them in one turn, and commits them together: no log has the end of a sub-plan without what
//! follows from it.

use std::collections::VecDeque;

use goalmill_common::command::{Submit, Verb};
use goalmill_common::event::{FamilyGrew, Parent};
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Usage;
use goalmill_common::id::PlanId;
use goalmill_common::json::Json;
use goalmill_common::status::PlanStatus;

use crate::budget::work_limit::WorkLimit;
use crate::sub_plan::family;
use crate::sub_plan::family::{outermost, report_end, report_stopped, report_to};
use crate::sub_plan::family_plans::{FamilyPlans, FamilyRequest, FamilyUse};
use crate::token::TokenKey;
use crate::wait::family_events::{event_receivers, find_kept_event, report_event};
use crate::{Command, Decision, KeptFate, Rejection, SubPlanEnd};

/// What a shell decides next: with [`crate::decide()`], [`crate::submit()`] or [`crate::pending()`].
pub enum FamilyCommand<K> {
    /// A plan begins.
    Submit { plan: PlanId, submit: Box<Submit> },
    /// A plan in memory decides a command.
    Decide { key: K, command: Command },
    /// What a recovered plan may not have done is done.
    Resume { key: K },
}

/// What the plans of a family have still to decide in one turn.
#[derive(Default)]
pub struct FamilyQueue {
    /// Requests that are not decided yet, oldest first.
    requests: VecDeque<FamilyRequest>,
    /// The work of the last decision and of those before it.
    work: WorkLimit,
    /// What follows if the command that was taken last is rejected.
    if_rejected: Option<FamilyRequest>,
}

impl FamilyQueue {
    /// Takes what a decision asks of its family. A queue without requests allocates nothing.
    pub fn take_requests(&mut self, decision: &mut Decision) {
        self.work = decision.work.passed_on();
        for request in std::mem::take(&mut decision.family) {
            // No other wait may claim the event before it is known.
            if let FamilyRequest::ReportEvent { .. } = &request {
                self.requests.push_front(request);
            } else {
                self.requests.push_back(request);
            }
        }
    }

    /// Says which plan decides the first command: an event ends the first wait that it fits, of the plan that it was sent
    /// to or of a plan inside it.
    pub fn address<P: FamilyPlans>(
        &mut self,
        plans: &P,
        first: FamilyCommand<P::Key>,
    ) -> Result<FamilyCommand<P::Key>, Rejection> {
        let FamilyCommand::Decide { key, command: Command::Verb(Verb::SendEvent { event, waiting_only }) } = first
        else {
            return Ok(first);
        };
        let mut receivers = event_receivers(plans, key, &event, waiting_only)?.into_iter();
        let key = receivers.next().unwrap_or(key);
        let others = receivers.rev().map(|other| plans.plan_state(other).id().clone()).collect();
        Ok(self.offer_event(key, event, waiting_only, others))
    }

    /// What the family of a plan has used up.
    ///
    /// - `key`: the plan, or the one around it if it begins; `None` for the first plan of a family.
    pub fn family_use<P: FamilyPlans>(&self, plans: &P, key: Option<P::Key>) -> FamilyUse {
        let Some(key) = key else { return FamilyUse::default() };
        let root = plans.plan_state(outermost(plans, key));
        FamilyUse { steps: root.size.steps_with_family(), bytes: family::total_bytes(root), work: self.work }
    }

    /// The next command; `None` when the family is settled.
    pub fn next<P: FamilyPlans>(&mut self, plans: &P) -> Option<FamilyCommand<P::Key>> {
        self.if_rejected = None;
        while let Some(request) = self.requests.pop_front() {
            let command = match request {
                FamilyRequest::Start { plan, submit } => self.start(plans, plan, submit),
                FamilyRequest::Grow { plan, grown } => grow(plans, &plan, grown),
                FamilyRequest::ReportEvent { plan, id } => {
                    report_event(plans, &plan, &id).into_iter().rev().for_each(|give| self.requests.push_front(give));
                    None
                }
                FamilyRequest::ClaimEvent { plan, name, key, refused } => {
                    self.claim_event(plans, plan, (name, key), refused)
                }
                FamilyRequest::OfferEvent { event, waiting_only, plans: mut to } => {
                    let key = to.pop().and_then(|plan| plans.find_plan(&plan));
                    key.map(|key| self.offer_event(key, event, waiting_only, to))
                }
                FamilyRequest::Stop { plan, parent } => self.stop(plans, &plan, *parent),
                FamilyRequest::EndKept { plan, parent, fate } => self.end_kept(plans, &plan, *parent, fate),
                FamilyRequest::Give { plan, command } => self.command_for_plan(plans, &plan, *command),
            };
            if command.is_some() {
                return command;
            }
        }
        None
    }

    /// Learns that the last command was rejected, which changes nothing in its plan.
    pub fn reject(&mut self) {
        if let Some(request) = self.if_rejected.take() {
            self.requests.push_front(request);
        }
    }

    /// Starts a sub-plan unless it runs, as after a restart. The step of a sub-plan that is refused fails, also when
    /// somebody has submitted a plan that has its id.
    fn start<P: FamilyPlans>(&mut self, plans: &P, plan: PlanId, submit: Box<Submit>) -> Option<FamilyCommand<P::Key>> {
        let parent = submit.parent.clone();
        let refused = match plans.find_plan(&plan) {
            Some(key) if plans.plan_state(key).parent() == parent.as_ref() => return None,
            Some(_) => {
                let message = format!("another plan has the id of its plan, {plan}");
                Failure::new(FailureClass::Permanent, "SUB_PLAN_FAILED", message)
            }
            None => match plans.refusal(&plan) {
                Some(problem) => Failure::new(FailureClass::Permanent, problem.code.as_str(), problem.detail),
                None => return Some(FamilyCommand::Submit { plan, submit }),
            },
        };
        self.requests.extend(parent.map(|parent| report_stopped(parent, PlanStatus::Failed, Some(refused))));
        None
    }

    /// Gives an event to a plan, and to the last of the others if the plan does not take it.
    fn offer_event<K>(
        &mut self,
        key: K,
        event: Box<ExternalEvent>,
        waiting_only: bool,
        others: Vec<PlanId>,
    ) -> FamilyCommand<K> {
        if !others.is_empty() {
            self.if_rejected = Some(FamilyRequest::OfferEvent { event: event.clone(), waiting_only, plans: others });
        }
        FamilyCommand::Decide { key, command: Command::Verb(Verb::SendEvent { event, waiting_only }) }
    }

    /// Gives a wait that has begun the first event that fits it, of those that the plans above keep.
    fn claim_event<P: FamilyPlans>(
        &mut self,
        plans: &P,
        plan: PlanId,
        (name, key): (String, String),
        refused: usize,
    ) -> Option<FamilyCommand<P::Key>> {
        let waiting = plans.find_plan(&plan)?;
        let event = Box::new(find_kept_event(plans, waiting, (&name, &key), refused)?.clone());
        self.if_rejected = Some(FamilyRequest::ClaimEvent { plan, name, key, refused: refused + 1 });
        let verb = Verb::SendEvent { event, waiting_only: true };
        Some(FamilyCommand::Decide { key: waiting, command: Command::Verb(verb) })
    }

    /// Cancels the plan of a step. One that is in its clean-up ends after it; one that is not in memory is in quarantine,
    /// and its step does not wait for it.
    fn stop<P: FamilyPlans>(&mut self, plans: &P, plan: &PlanId, parent: Parent) -> Option<FamilyCommand<P::Key>> {
        let Some(key) = plans.find_plan(plan) else {
            self.requests.push_back(report_stopped(parent, PlanStatus::Cancelled, None));
            return None;
        };
        let state = plans.plan_state(key);
        if state.cleanup.is_running() {
            return None;
        }
        if state.is_kept() {
            self.requests.extend(report_end(state));
            return None;
        }
        let reason = "the parent step has ended".into();
        Some(FamilyCommand::Decide { key, command: Command::Verb(Verb::Cancel { reason }) })
    }

    /// Ends a kept plan. One that cannot be found undoes nothing, and the plan around it continues.
    fn end_kept<P: FamilyPlans>(
        &mut self,
        plans: &P,
        plan: &PlanId,
        parent: Parent,
        fate: KeptFate,
    ) -> Option<FamilyCommand<P::Key>> {
        if let Some(key) = plans.find_plan(plan) {
            let command = Command::EndKept(Box::new(fate));
            return plans.plan_state(key).is_kept().then_some(FamilyCommand::Decide { key, command });
        }
        if fate != KeptFate::Released {
            let end = SubPlanEnd::new(PlanStatus::Cancelled, Json::empty_object(), Usage::default(), None);
            let end = SubPlanEnd { not_undone: vec![format!("{} (its plan is not there)", parent.step)], ..*end };
            self.requests.push_back(report_to(parent, end));
        }
        None
    }

    /// Addresses a command to a plan. One that is not in memory has ended or is in quarantine.
    fn command_for_plan<P: FamilyPlans>(
        &mut self,
        plans: &P,
        plan: &PlanId,
        command: Command,
    ) -> Option<FamilyCommand<P::Key>> {
        let key = plans.find_plan(plan)?;
        if let Command::SubPlanEnded { step, attempt, end } = &command
            && end.is_kept
        {
            // A plan whose end is rejected is kept for no step.
            let command = Box::new(Command::EndKept(Box::new(KeptFate::Released)));
            self.if_rejected = Some(FamilyRequest::Give { plan: TokenKey::sub_plan(plan, step, *attempt), command });
        }
        Some(FamilyCommand::Decide { key, command })
    }
}

/// Counts what a plan has more, in the outermost plan of its family.
fn grow<P: FamilyPlans>(plans: &P, plan: &PlanId, grown: FamilyGrew) -> Option<FamilyCommand<P::Key>> {
    let key = outermost(plans, plans.find_plan(plan)?);
    Some(FamilyCommand::Decide { key, command: Command::FamilyGrew { steps: grown.steps, bytes: grown.bytes } })
}

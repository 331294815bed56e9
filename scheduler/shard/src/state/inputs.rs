//! How inputs change the state: entries of the inbox, messages, requests and reports.

use goalmill_common::command::{Request, Submit, Verb, is_other_content};
use goalmill_common::event::ModelAnswered;
use goalmill_common::id::PlanId;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::report::{Report, What};
use goalmill_common::status::PlanStatus;
use goalmill_common::wire::Inbox;
use goalmill_engine::wait::family_events;
use goalmill_engine::{Command, FamilyCommand, Rejection, family_has_event};

use super::ShardState;
use crate::message::{InboxPlace, RequestResult, ShardMessage, WaitQuestion, WaitState};
use crate::post_commit::{PostCommit, StoreUpdate};
use crate::recently_finished::BegunPlan;
use crate::stream_answers::{self, SentEntry};

impl ShardState {
    /// Handles one entry of the inbox.
    pub fn handle_entry(&mut self, place: InboxPlace, inbox: Inbox) {
        self.turn.count_input();
        match inbox {
            Inbox::Reports(reports) => {
                for report in reports {
                    self.handle_report(report);
                }
            }
            Inbox::Request(request) => {
                let answer = request.answer.clone();
                let plan = request.plan.clone();
                let result = self.handle_request(*request);
                if let Some(id) = answer {
                    self.add_update(StoreUpdate::answer(id, result.map(|(_, status)| (plan, status))));
                }
            }
            Inbox::Unreadable(reason) => {
                self.ignored.add_unreadable(self.shard, &place, &reason, self.turn_begun_ms);
            }
            Inbox::Misplaced => self.ignored.add_misplaced(self.shard, &place, self.turn_begun_ms),
        }
        self.turn.move_cursor(place);
    }

    /// Handles a message from the same process.
    pub fn handle_message(&mut self, message: ShardMessage) {
        self.turn.count_input();
        match message {
            ShardMessage::Request { request, reply, entry, snapshot: _ } => {
                let result = self.handle_request(*request);
                if let Some(entry) = entry {
                    self.add_update(StoreUpdate::AcknowledgeSubmission(entry));
                }
                if let Some(reply) = reply {
                    self.turn.post_commit.push(PostCommit::Reply(reply, result));
                }
            }
            ShardMessage::Command { plan: id, command, request, reply } => {
                let Some(slot) = self.slots.get(&id).copied() else { return };
                let plan = self.plans.get_mut(&slot).expect("every slot has a plan");
                if let Command::CacheLookedUp { step, .. } | Command::PayloadsLoaded { step: Some(step), .. } =
                    &*command
                {
                    plan.lookups.remove(step);
                }
                if let Command::PayloadsLoaded { .. } = &*command {
                    plan.end_effect();
                }
                let is_superseded = request.is_some_and(|request| request != plan.revision_requests);
                let command = if !is_superseded {
                    Ok(*command)
                } else if let Command::ModelAnswered(answered) = *command {
                    // The model call was paid for, but its answer is not needed any more.
                    Ok(Command::ModelAnswered(Box::new(ModelAnswered { answer: None, ..*answered })))
                } else {
                    Err(Rejection::StaleRevision { revision: plan.state.revision() })
                };
                let command = command.map(|command| FamilyCommand::Decide { key: slot, command });
                let result = command.and_then(|command| self.decide_in_family(None, command)).map(drop);
                if let Some(reply) = reply {
                    self.turn.post_commit.push(PostCommit::CommandReply(reply, result));
                }
            }
            ShardMessage::WaitRegistered(plan) => self.end_registration(&plan),
            ShardMessage::AskWait(question) => self.answer_wait(*question),
            ShardMessage::AskSuspects(reply) => {
                let suspects = self.suspects();
                self.turn.post_commit.push(PostCommit::SuspectsReply(reply, suspects));
            }
            ShardMessage::Reconcile(scan) => self.reconcile(*scan),
        }
    }

    /// Answers before the commit: one that fails ends the loop.
    fn answer_wait(&self, question: WaitQuestion) {
        let WaitQuestion { wait, ids, reply } = question;
        let slot = self.slots.get(&wait.plan_id).copied();
        let state = slot.map_or_else(WaitState::default, |slot| {
            let plan = &self.plans[&slot].state;
            WaitState {
                step_waits: family_events::step_awaits_event(plan, &wait.step_id, &wait.event, &wait.key),
                plan_waits: family_events::awaits_event(plan, &wait.event, &wait.key),
                unknown_events: ids.into_iter().filter(|id| !family_has_event(self, slot, id)).collect(),
            }
        });
        reply.send(state);
    }

    /// Handles a report. Returns whether its plan has taken it.
    pub(crate) fn handle_report(&mut self, report: Report) -> bool {
        let entry = (report.agent_type.clone(), report.entry.clone());
        let closes = match report.what {
            What::Started | What::Progress | What::Call => false,
            What::Completed | What::PartialSuccess | What::Failed | What::Lost | What::Suspended | What::Released => {
                true
            }
        };
        let refused = match self.slots.get(&report.plan).copied() {
            // Its task stays pending and is reported as lost after the quarantine.
            None if self.quarantined.contains(&report.plan) => {
                metrics::counter!("goalmill_reports_ignored_total", "reason" => "quarantined").increment(1);
                return false;
            }
            None => "unknown_plan",
            Some(slot) => {
                let command = FamilyCommand::Decide { key: slot, command: Command::Report(Box::new(report)) };
                match self.decide_in_family(None, command) {
                    Ok(_) => return true,
                    Err(Rejection::StaleAttempt { .. }) => "stale",
                    Err(_) => "refused",
                }
            }
        };
        metrics::counter!("goalmill_reports_ignored_total", "reason" => refused).increment(1);
        if closes {
            self.turn.acknowledged.push(entry);
        }
        false
    }

    /// Handles a request of a client.
    pub(crate) fn handle_request(&mut self, request: Request) -> RequestResult {
        let Request { plan, actor, answer: _, verb } = request;
        if let (Verb::Resume { .. }, true) = (&verb, self.quarantined.contains(&plan)) {
            self.turn.post_commit.push(PostCommit::EndQuarantine(plan.clone()));
            return Ok((plan, PlanStatus::Running));
        }
        let Verb::Submit(submit) = verb else {
            let Some(slot) = self.slots.get(&plan).copied() else { return Err(self.plan_absent(&plan)) };
            let command = FamilyCommand::Decide { key: slot, command: Command::Verb(verb) };
            self.decide_in_family(Some(&actor), command).map_err(|rejection| rejection_problem(&rejection))?;
            return Ok((plan, self.plans[&slot].state.status()));
        };
        if let Some(begun) = self.begun_plan(&plan) {
            return self.answer_repetition(plan, begun, &submit);
        }
        let sent = SentEntry::of_submit(&submit);
        let submission = submit.submission.clone();
        let begun = if self.quarantined.contains(&plan) {
            Err(self.plan_absent(&plan))
        } else {
            self.decide_in_family(Some(&actor), FamilyCommand::Submit { plan: plan.clone(), submit })
                .map_err(|rejection| rejection_problem(&rejection))
        };
        match begun {
            Ok(status) => Ok((plan, status)),
            Err(problem) => {
                self.add_update(match sent {
                    Some(sent) => StoreUpdate::Refuse(Box::new(sent.refused(submission, &problem))),
                    None => StoreUpdate::answer(submission, Err(problem.clone())),
                });
                Err(problem)
            }
        }
    }

    /// The plan that has the id of a submission.
    fn begun_plan(&self, plan: &PlanId) -> Option<BegunPlan> {
        if let Some(slot) = self.slots.get(plan) {
            let state = &self.plans[slot].state;
            return Some(BegunPlan { status: state.status(), fingerprint: state.accepted().fingerprint.clone() });
        }
        self.turn.finished.get(plan).filter(|_| !self.quarantined.contains(plan)).cloned()
    }

    /// Answers a submission whose plan has begun: the same content is the same plan, other content is refused.
    fn answer_repetition(&mut self, plan: PlanId, begun: BegunPlan, submit: &Submit) -> RequestResult {
        let BegunPlan { status, fingerprint } = begun;
        let active = self.slots.get(&plan).and_then(|slot| self.plans.get_mut(slot));
        let warnings = active.as_ref().and_then(|active| active.state.accepted().entry.as_ref());
        let warnings = warnings.map(|entry| entry.warnings.clone()).unwrap_or_default();
        if is_other_content(&fingerprint, &submit.fingerprint) {
            let detail =
                format!("the id was used for plan `{plan}`, which was sent with other content; use another id");
            let problem = Problem::new(ErrorCode::IdempotencyKeyReused, detail);
            if let (Some(sent), Some(entry)) = (SentEntry::of_submit(submit), &submit.entry) {
                let refused = sent.refused(submit.submission.clone(), &problem);
                let answer = |refused| stream_answers::accepted(plan, status, warnings, Some(refused));
                let refused = stream_answers::beside_plan(refused, entry.id.clone(), &problem, answer);
                self.add_update(StoreUpdate::Refuse(Box::new(refused)));
            }
            return Err(problem);
        }
        match active {
            Some(active) => active.has_stream_client |= submit.entry.is_some(),
            None if submit.entry.is_some() => {
                let submission = submit.submission.clone();
                self.add_update(StoreUpdate::RenewResult { plan: plan.clone(), submission });
            }
            None => {}
        }
        // The first answer may have expired.
        let json = stream_answers::accepted(plan.clone(), status, warnings, None);
        self.add_update(StoreUpdate::Answer { id: submit.submission.clone(), json });
        Ok((plan, status))
    }

    /// The problem of a request for a plan that is not in memory.
    pub(super) fn plan_absent(&self, plan: &PlanId) -> Problem {
        if self.quarantined.contains(plan) {
            let detail = format!(
                "plan `{plan}` is not worked on: it made its scheduler fail, and that scheduler's log says why; \
                 take it up again with `goalmill plan resume {plan}`"
            );
            return Problem::new(ErrorCode::PlanQuarantined, detail);
        }
        Problem::new(ErrorCode::PlanNotFound, format!("there is no running plan `{plan}`"))
    }
}

/// A rejection as clients see it.
pub(super) fn rejection_problem(rejection: &Rejection) -> Problem {
    let code = match rejection {
        Rejection::Exists | Rejection::StaleRevision { .. } | Rejection::NotAllowed { .. } | Rejection::NotDue => {
            ErrorCode::NotAllowed
        }
        Rejection::Final { .. } => ErrorCode::PlanFinal,
        Rejection::UnknownStep { .. } => ErrorCode::StepNotFound,
        Rejection::StaleAttempt { .. } => ErrorCode::NotAllowed,
        Rejection::Invalid { .. } => ErrorCode::InvalidPlan,
    };
    let issues = match rejection {
        Rejection::Invalid { issues, .. } => issues.clone(),
        Rejection::Exists
        | Rejection::Final { .. }
        | Rejection::UnknownStep { .. }
        | Rejection::StaleAttempt { .. }
        | Rejection::StaleRevision { .. }
        | Rejection::NotAllowed { .. }
        | Rejection::NotDue => Vec::new(),
    };
    Problem::new(code, rejection.to_string()).with_errors(issues)
}

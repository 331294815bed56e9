//! The log of a plan that ran: what was submitted, what its agents and people did, and when.

use std::collections::BTreeMap;
use std::sync::Arc;

use goalmill_common::call::RecordedCall;
use goalmill_common::command::{Planned, Submit, Verb};
use goalmill_common::event::{Event, PlanEvent, PlanRevised, Record, SkipCause, StepEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Goal;
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::plan::Plan;
use goalmill_common::report::{Report, What};
use goalmill_common::revision::{Change, Fork, Proposal, RevisionStrategy, Trigger};
use goalmill_common::task::Task;
use goalmill_engine::{PlanAnswer, PlanState, replay};

use crate::mock_agents::AttemptOutcome;
use crate::script::ScriptedAct;
use crate::submission::submission;

/// Events of one log, at most.
const EVENTS_MAX: usize = 1_000_000;
/// Actors that are no person or program outside.
const OWN_ACTORS: [&str; 2] = ["timer", "engine"];
/// Codes of attempts that no report ended.
const TIMEOUTS: [&str; 2] = ["STEP_TIMEOUT", "QUEUE_TIMEOUT"];

/// A plan as it ran.
#[derive(Clone, Debug)]
pub struct RecordedPlan {
    records: Vec<Record>,
    goal: Goal,
    plan: Plan,
    planner: String,
    confidence: f64,
    /// The plan that it continues.
    fork: Option<Box<Fork>>,
    outcomes: BTreeMap<(StepId, u32), AttemptOutcome>,
    /// Acts of people and programs, by time.
    acts: Vec<(u64, Verb)>,
    /// The changes of each revision that planners made.
    revisions: BTreeMap<u32, Proposal>,
}

impl RecordedPlan {
    /// Reads an exported log, one event per line; the error names the line or the event.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut records = Vec::new();
        let mut state = None;
        let mut plan = None;
        for (place, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let at = |why: String| format!("line {}: {why}", place + 1);
            if records.len() == EVENTS_MAX {
                return Err(at(format!("the log has more than {EVENTS_MAX} events")));
            }
            let record = Record::from_line(line).map_err(|error| at(error.to_string()))?;
            replay(&mut state, &record).map_err(|error| at(error.to_string()))?;
            plan = plan.or(whole_plan(&record, state.as_ref()));
            records.push(record);
        }
        let Some(state) = state else { return Err("the log is empty".into()) };
        let Some(plan) = plan else { return Err("the log has no whole plan: it ends before the plan was made".into()) };
        if state.parent().is_some() {
            return Err("the log is that of a plan inside another one: give the log of the outermost plan".into());
        }
        let mut recorded = Self {
            goal: accepted_goal(&records, &state),
            plan,
            planner: state.planner().to_owned(),
            confidence: state.confidence(),
            fork: records.iter().find_map(fork_of),
            outcomes: BTreeMap::new(),
            acts: Vec::new(),
            revisions: BTreeMap::new(),
            records: Vec::new(),
        };
        recorded.collect_answers(&records)?;
        recorded.records = records;
        Ok(recorded)
    }

    /// When the plan was submitted, Unix milliseconds.
    pub fn start_ms(&self) -> u64 {
        self.records.first().map_or(0, |record| record.time_ms)
    }

    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The plan as it was submitted, or as the planners made it.
    pub fn submission(&self) -> Submit {
        let planned = Planned {
            planner: self.planner.clone(),
            confidence: self.confidence,
            ..Planned::submitted(self.plan.clone(), Vec::new(), Vec::new())
        };
        Submit { fork: self.fork.clone(), ..submission(self.goal.clone(), Some(planned)) }
    }

    /// What became of an attempt.
    pub(crate) fn answer(&self, task: &Task) -> Result<AttemptOutcome, String> {
        let known = self.plan_steps().any(|step| *step == task.step);
        if !known {
            return Err(format!(
                "step `{}` belongs to a plan inside the plan, whose log is another one: give a mock of `{}`",
                task.step, task.agent_type
            ));
        }
        self.outcomes.get(&(task.step.clone(), task.attempt)).cloned().ok_or_else(|| {
            format!(
                "attempt {} of step `{}` is not in the log: give a mock of `{}`",
                task.attempt, task.step, task.agent_type
            )
        })
    }

    fn plan_steps(&self) -> impl Iterator<Item = &StepId> {
        self.records.iter().filter_map(|record| record.event.step()).chain(self.plan.steps.iter().map(|step| &step.id))
    }

    /// The planners' answer to a request for a revision.
    pub(crate) fn revision(&self, revision: u32) -> Option<PlanAnswer> {
        self.revisions.get(&revision).map(|proposal| PlanAnswer::Revision(Box::new(proposal.clone())))
    }

    /// What people and programs did, at its time.
    pub(crate) fn acts(&self) -> impl Iterator<Item = (u64, ScriptedAct)> {
        self.acts.iter().map(|(at_ms, verb)| {
            let act = if let Verb::SendEvent { event, .. } = verb {
                ScriptedAct::Event(event.as_ref().clone())
            } else {
                ScriptedAct::Verb { member: 0, verb: verb.clone(), waited: None }
            };
            (*at_ms, act)
        })
    }

    fn collect_answers(&mut self, records: &[Record]) -> Result<(), String> {
        let mut queued: BTreeMap<StepId, u64> = BTreeMap::new();
        let mut calls: BTreeMap<StepId, Vec<RecordedCall>> = BTreeMap::new();
        let mut changes = Vec::new();
        for record in records {
            let (step, attempt, event) = match &record.event {
                Event::Plan(event) => {
                    self.read_plan_event(record, event, &mut changes)?;
                    continue;
                }
                Event::Step { step, attempt, event, .. } => (step, *attempt, event),
            };
            changes.extend(change_of(step, event));
            if let StepEvent::Queued(_) = event {
                queued.insert(step.clone(), record.time_ms);
            } else if let StepEvent::CallRecorded(call) = event {
                calls.entry(step.clone()).or_default().push(call.as_ref().clone());
            }
            if let Some(verb) = step_verb(record, step, event) {
                self.acts.push((record.time_ms, verb));
            } else if let Some(outcome) = outcome_of(event) {
                let begun_ms = queued.get(step).copied().unwrap_or(record.time_ms);
                let delay_ms = outcome.delay_ms.max(record.time_ms.saturating_sub(begun_ms));
                let calls = calls.remove(step).unwrap_or_default();
                let key = (step.clone(), attempt);
                // The last iteration of a loop gave outputs, and the loop fails after it.
                if self.outcomes.get(&key).is_none_or(|recorded| recorded.report.what != What::Completed) {
                    self.outcomes.insert(key, AttemptOutcome { calls, delay_ms, ..outcome });
                }
            }
        }
        Ok(())
    }

    fn read_plan_event(&mut self, record: &Record, event: &PlanEvent, changes: &mut Vec<Change>) -> Result<(), String> {
        if let PlanEvent::Revised(revised) = event {
            let changes = std::mem::take(changes);
            if Trigger::parse(&revised.trigger) == Some(Trigger::Edit) {
                let verb = Verb::Edit { changes, revision: None, reason: revised.reason.clone() };
                self.acts.push((record.time_ms, verb));
            } else {
                self.revisions.insert(revised.revision, proposal(revised, changes));
            }
        } else if let PlanEvent::Extended(_) = event {
            // The steps of a streamed plan are part of the whole plan.
            changes.clear();
        } else if let (PlanEvent::PhaseAdded(_), false) = (event, self.revisions.is_empty()) {
            return Err(format!("event {}: revisions that add phases cannot be replayed", record.seq));
        } else {
            self.acts.extend(plan_verb(record, event).map(|verb| (record.time_ms, verb)));
        }
        Ok(())
    }
}

fn fork_of(record: &Record) -> Option<Box<Fork>> {
    if let Event::Plan(PlanEvent::PlanCreated(created)) = &record.event { created.fork.clone() } else { None }
}

/// What a person or program outside did to the plan.
fn plan_verb(record: &Record, event: &PlanEvent) -> Option<Verb> {
    if let PlanEvent::EventReceived(event) = event {
        return Some(Verb::SendEvent { event: event.clone(), waiting_only: false });
    }
    if !is_outside(record) {
        return None;
    }
    Some(if let PlanEvent::Paused(why) = event {
        Verb::Pause { reason: why.reason.clone() }
    } else if let PlanEvent::Resumed(why) = event {
        Verb::Resume { reason: why.reason.clone() }
    } else if let PlanEvent::Approved(why) = event {
        Verb::Approve { reason: why.reason.clone() }
    } else if let PlanEvent::Rejected(_) = event {
        Verb::Reject { reason: String::new() }
    } else if let PlanEvent::Cancelled(ended) = event {
        Verb::Cancel { reason: ended.reason.clone() }
    } else if let PlanEvent::QuestionAnswered(answered) = event {
        Verb::AnswerQuestion {
            question: answered.id.clone(),
            answer: answered.answer.clone(),
            reason: answered.reason.clone(),
        }
    } else if let PlanEvent::ReplanTriggered(replan) = event {
        Verb::Replan { reason: replan.reason.clone(), hint: replan.hint.clone(), options: replan.options.clone() }
    } else {
        return None;
    })
}

/// What a person or program outside did to a step.
fn step_verb(record: &Record, step: &StepId, event: &StepEvent) -> Option<Verb> {
    if !is_outside(record) {
        return None;
    }
    let step = step.clone();
    Some(if let StepEvent::Approved(why) = event {
        Verb::ApproveStep { step, reason: why.reason.clone() }
    } else if let StepEvent::Answered(answered) = event {
        let (answer, reason) = (answered.answer.clone(), answered.reason.clone());
        Verb::AnswerQuestion { question: step.to_string(), answer, reason }
    } else if let StepEvent::Skipped(skipped) = event
        && skipped.cause == SkipCause::Person
    {
        Verb::SkipStep { step, reason: skipped.reason.clone() }
    } else if let StepEvent::Completed(completed) = event
        && completed.event.is_none()
    {
        Verb::CompleteStep { step, outputs: completed.outputs.clone(), reason: String::new() }
    } else if let StepEvent::Failed(_) = event {
        Verb::RejectStep { step, reason: String::new() }
    } else {
        return None;
    })
}

/// Whether a person or a program outside caused an event.
fn is_outside(record: &Record) -> bool {
    record.actor.as_deref().is_some_and(|actor| !OWN_ACTORS.contains(&actor))
}

/// The goal as it was accepted.
fn accepted_goal(records: &[Record], state: &PlanState) -> Goal {
    let accepted = records.iter().find_map(|record| match &record.event {
        Event::Plan(PlanEvent::GoalAccepted(accepted)) => Some(accepted.goal.clone()),
        Event::Plan(_) | Event::Step { .. } => None,
    });
    accepted.unwrap_or_else(|| state.accepted().goal.clone())
}

/// The plan as soon as it is whole, after the event that makes it so.
fn whole_plan(record: &Record, state: Option<&PlanState>) -> Option<Plan> {
    match &record.event {
        Event::Plan(PlanEvent::PlanCreated(created)) => (!created.open).then(|| created.plan.as_ref().clone()),
        Event::Plan(PlanEvent::Extended(extended)) if !extended.open => Some(state?.plan().as_ref().clone()),
        Event::Plan(_) | Event::Step { .. } => None,
    }
}

/// What a worker reported, from the event that came of it.
fn outcome_of(event: &StepEvent) -> Option<AttemptOutcome> {
    let failed = |failure: &Failure, cost: f64, tokens: u64| {
        let what = if failure.class == FailureClass::Lost { What::Lost } else { What::Failed };
        let is_timeout = TIMEOUTS.contains(&failure.code.as_str());
        let outcome = AttemptOutcome::new(what, if is_timeout { u64::MAX / 4 } else { 0 });
        let report = Report { failure: Some(failure.clone()), ..with_usage(outcome.report, cost, tokens) };
        AttemptOutcome { report, is_started: failure.code != TIMEOUTS[1], ..outcome }
    };
    let given = |what, outputs: &Json, cost, tokens| {
        let outcome = AttemptOutcome::new(what, 0);
        let report = Report { outputs: Some(outputs.clone()), ..with_usage(outcome.report, cost, tokens) };
        AttemptOutcome { report, ..outcome }
    };
    Some(if let StepEvent::Completed(completed) = event {
        let what = if completed.partial { What::PartialSuccess } else { What::Completed };
        let outcome = given(what, &completed.outputs, completed.cost, completed.tokens);
        let report = Report {
            errors: completed.errors.clone(),
            adjustments: completed.adjustments.clone(),
            suggested_adjustments: completed.suggested_adjustments.clone(),
            ..outcome.report
        };
        AttemptOutcome { report, ..outcome }
    } else if let StepEvent::Iterated(iterated) = event {
        given(What::Completed, &iterated.outputs, iterated.cost, iterated.tokens)
    } else if let StepEvent::Undone(undone) = event {
        match (&undone.failure, &undone.outputs) {
            (Some(failure), _) => failed(failure, undone.cost, undone.tokens),
            (None, outputs) => given(What::Completed, outputs.as_ref()?, undone.cost, undone.tokens),
        }
    } else if let StepEvent::Retrying(retrying) = event {
        failed(&retrying.failure, retrying.cost, retrying.tokens)
    } else if let StepEvent::Failed(ended) = event {
        failed(&ended.failure, ended.cost, ended.tokens)
    } else if let StepEvent::Skipped(skipped) = event {
        failed(skipped.failure.as_ref()?, 0.0, 0)
    } else if let StepEvent::Suspended(suspended) = event {
        let outcome = AttemptOutcome::new(What::Suspended, 0);
        let call = Some(Box::new(suspended.call.clone()));
        let report = with_usage(outcome.report, suspended.cost, suspended.tokens);
        AttemptOutcome { report: Report { suspended: call, ..report }, ..outcome }
    } else if let StepEvent::Decomposed(decomposed) = event {
        let outcome = AttemptOutcome::new(What::Completed, 0);
        let sub_plan = decomposed.plan.as_ref().map(|plan| Json::from_value(plan.as_ref()));
        let report = with_usage(outcome.report, decomposed.cost, decomposed.tokens);
        let report = Report { sub_plan, sub_plans: Arc::from(["*".to_owned()]), ..report };
        AttemptOutcome { report, ..outcome }
    } else if let StepEvent::Released(_) = event {
        AttemptOutcome::new(What::Released, 0)
    } else {
        return None;
    })
}

fn with_usage(report: Report, cost: f64, tokens: u64) -> Report {
    let (cost, tokens) = (Some(cost).filter(|cost| *cost > 0.0), Some(tokens).filter(|tokens| *tokens > 0));
    Report { cost, tokens, ..report }
}

/// The change of a revision that an event before its end stands for.
fn change_of(step: &StepId, event: &StepEvent) -> Option<Change> {
    Some(if let StepEvent::Added(added) = event {
        Change::AddStep { step: Box::new(added.step.clone()), before: Vec::new() }
    } else if let StepEvent::Modified(modified) = event {
        Change::ModifyStep { step: Box::new(modified.step.clone()) }
    } else if let StepEvent::Removed(_) = event {
        Change::RemoveStep { step: step.clone() }
    } else {
        return None;
    })
}

fn proposal(revised: &PlanRevised, mut changes: Vec<Change>) -> Proposal {
    let skip = |step: &StepId| Change::SkipStep { step: step.clone(), reason: String::new() };
    changes.extend(revised.skipped.iter().map(skip));
    let strategy = revised.strategy.unwrap_or(RevisionStrategy::ReplanRemaining);
    Proposal { summary: revised.reason.clone(), planner: "recorded".into(), ..Proposal::new(strategy, changes) }
}

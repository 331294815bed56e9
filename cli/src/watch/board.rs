//! Plan state for the live view, folded from events.

use std::collections::BTreeMap;

use goalmill_common::call::CallWaitKind;
use goalmill_common::criterion::JudgeKind;
use goalmill_common::event::{Event, PlanEvent, Record, StepEvent, StepSuspended};
use goalmill_common::failure::Failure;
use goalmill_common::goal::{Goal, Usage};
use goalmill_common::id::{AgentType, PlanId, StepId};
use goalmill_common::json::Json;
use goalmill_common::plan::{Step, StepKind};
use goalmill_common::revision::Trigger;
use goalmill_common::status::{Counts, PlanStatus, StepStatus};
use goalmill_common::view::{self, Results};
use goalmill_engine::step_transition;
use serde_json::{Map, Value};

use super::contract::Contract;
use super::note::note;

/// One plan.
#[derive(Clone, Debug)]
pub struct Board {
    pub plan: PlanId,
    pub goal: Goal,
    pub planner: String,
    pub confidence: f64,
    pub revision: u32,
    pub status: PlanStatus,
    pub rows: Vec<Row>,
    places: BTreeMap<StepId, usize>,
    /// Characters of the longest step id and agent type.
    pub widths: (usize, usize),
    /// Whether any step has an amount of money.
    pub has_money: bool,
    pub counts: Counts,
    pub usage: Usage,
    /// When the first step began by the scheduler's clock, Unix milliseconds; 0 before.
    executing_ms: u64,
    /// Times of the first and the last event, Unix milliseconds.
    pub first_ms: u64,
    pub last_ms: u64,
    /// Started attempts.
    pub attempts: u32,
    pub retries: u32,
    pub failure: Option<Failure>,
    pub reason: String,
    /// The plan's own question.
    pub asks: Option<Asks>,
    /// The planner is still streaming it.
    pub open: bool,
    /// Arrival times of streamed steps, Unix milliseconds, and the start of the first one by the worker's clock.
    pub written_ms: Vec<u64>,
    pub begun_ms: Option<u64>,
    contract: Contract,
}

/// Pending request of a plan in revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Approval of a revision.
    Revision {
        revision: u32,
    },
    /// Approval to continue without a failed step.
    GoOn {
        step: Option<StepId>,
    },
    Question {
        id: String,
        question: String,
    },
}

/// One step.
#[derive(Clone, Debug)]
pub struct Row {
    pub id: StepId,
    kind: StepKind,
    pub agent_type: AgentType,
    pub description: String,
    pub dependencies: Vec<StepId>,
    pub status: StepStatus,
    pub attempt: u32,
    /// Start of the running attempt and end of the last one, by the worker's clock, Unix milliseconds.
    pub started_ms: Option<u64>,
    pub finished_ms: Option<u64>,
    /// Start and end of the backoff.
    pub waiting_since_ms: Option<u64>,
    pub due_ms: Option<u64>,
    /// Total of past backoffs, in milliseconds.
    pub waits_ms: Vec<u64>,
    pub progress: Option<f64>,
    pub message: Option<String>,
    pub outputs: Option<Json>,
    /// Amount and summary from the outputs.
    pub note: (String, String),
    pub failure: Option<Failure>,
    pub reason: String,
    /// The step's question.
    pub question: Option<String>,
}

impl Row {
    fn new(step: &Step) -> Self {
        Self {
            id: step.id.clone(),
            kind: step.kind,
            agent_type: step.agent_type.clone(),
            description: step.description.clone(),
            dependencies: step.dependencies.clone(),
            status: StepStatus::Pending,
            attempt: 0,
            started_ms: None,
            finished_ms: None,
            waiting_since_ms: None,
            due_ms: None,
            waits_ms: Vec::new(),
            progress: None,
            message: None,
            outputs: None,
            note: (String::new(), String::new()),
            failure: None,
            reason: String::new(),
            question: None,
        }
    }

    /// Duration of the last attempt in milliseconds, if reported.
    pub fn run_ms(&self) -> Option<u64> {
        Some(self.finished_ms?.saturating_sub(self.started_ms?))
    }

    fn overlaps(&self, other: &Self) -> bool {
        match (self.started_ms, self.finished_ms, other.started_ms, other.finished_ms) {
            (Some(start), Some(end), Some(other_start), Some(other_end)) => start < other_end && other_start < end,
            _ => false,
        }
    }
}

impl Board {
    pub fn new(plan: PlanId) -> Self {
        Self {
            plan,
            goal: Goal::default(),
            planner: String::new(),
            confidence: 0.0,
            revision: 0,
            status: PlanStatus::Planning,
            rows: Vec::new(),
            places: BTreeMap::new(),
            widths: (0, 0),
            has_money: false,
            counts: Counts::default(),
            usage: Usage::default(),
            executing_ms: 0,
            contract: Contract::default(),
            first_ms: 0,
            last_ms: 0,
            attempts: 0,
            retries: 0,
            failure: None,
            reason: String::new(),
            asks: None,
            open: false,
            written_ms: Vec::new(),
            begun_ms: None,
        }
    }

    pub fn row(&self, step: &StepId) -> Option<&Row> {
        self.places.get(step).map(|place| &self.rows[*place])
    }

    /// Completed steps that ran at the same time as `row`.
    pub fn beside(&self, row: &Row) -> Vec<&StepId> {
        self.rows.iter().filter(|other| other.id != row.id && row.overlaps(other)).map(|other| &other.id).collect()
    }

    /// Steps that await a person.
    pub fn awaiting(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.status == StepStatus::AwaitingApproval)
    }

    /// Whether the plan is blocked until a person decides.
    pub fn awaits_a_person(&self) -> bool {
        let moves = |row: &Row| {
            matches!(row.status, StepStatus::Ready | StepStatus::Queued | StepStatus::Running | StepStatus::Retrying)
        };
        // A plan that asks how to go on starts nothing new.
        let runs = |row: &Row| matches!(row.status, StepStatus::Queued | StepStatus::Running);
        self.status == PlanStatus::AwaitingApproval
            || (self.asks.is_some() && !self.rows.iter().any(runs))
            || (self.status == PlanStatus::Running && self.awaiting().next().is_some() && !self.rows.iter().any(moves))
    }

    /// Results so far.
    pub fn results(&self) -> Results {
        let completed = self.rows.iter().filter(|row| row.status == StepStatus::Completed);
        let failed = self.rows.iter().filter(|row| row.status == StepStatus::Failed);
        let outputs = |row: &Row| row.outputs.as_ref().map(Json::value).unwrap_or_default();
        let failure = |row: &Row| serde_json::to_value(&row.failure).unwrap_or(Value::Null);
        let outcomes = self.rows.iter().filter(|row| row.status == StepStatus::Completed);
        let outcomes = outcomes.filter_map(|row| Some((row.kind, row.finished_ms?, row.outputs.as_ref()?)));
        Results {
            final_output: view::final_output(outcomes).filter(|_| self.status.is_final()).cloned(),
            execution_seconds: view::execution_seconds(self.executing_ms, self.last_ms),
            plan_id: self.plan.clone(),
            status: self.status,
            counts: self.counts,
            usage: self.usage,
            results: completed.map(|row| (row.id.to_string(), outputs(row))).collect::<Map<_, _>>(),
            failures: failed.map(|row| (row.id.to_string(), failure(row))).collect::<Map<_, _>>(),
            constraints: self.contract.constraints(&self.goal),
            criteria: self.contract.criteria(&self.goal),
        }
    }

    /// Applies the next event.
    pub fn apply(&mut self, record: &Record) {
        if self.first_ms == 0 {
            self.first_ms = record.time_ms;
        }
        self.last_ms = record.time_ms;
        match &record.event {
            Event::Plan(event) => self.apply_to_plan(event, record.time_ms),
            Event::Step { step, attempt, event, phase: _ } => self.apply_to_step(step, *attempt, event, record.time_ms),
        }
    }

    fn apply_to_plan(&mut self, event: &PlanEvent, time_ms: u64) {
        match event {
            PlanEvent::GoalAccepted(accepted) => self.goal = accepted.goal.clone(),
            PlanEvent::PlanCreated(created) => {
                self.planner.clone_from(&created.planner);
                self.confidence = created.confidence;
                self.status = PlanStatus::Running;
                self.open = created.open;
                self.written_ms = vec![time_ms; created.plan.steps.len()];
                created.plan.steps.iter().for_each(|step| self.add(step));
            }
            PlanEvent::ApprovalRequested(_) => self.status = PlanStatus::AwaitingApproval,
            PlanEvent::Approved(_) | PlanEvent::Resumed(_) => {
                self.status = PlanStatus::Running;
                self.asks = None;
            }
            PlanEvent::Rejected(why) => {
                self.status = PlanStatus::Rejected;
                self.reason.clone_from(&why.reason);
                self.end_all(&why.cancelled, time_ms, "the plan was rejected");
            }
            PlanEvent::ReplanTriggered(replan) => {
                self.status = PlanStatus::Replanning;
                let asks = replan.trigger == Trigger::AskUser.as_str();
                self.asks = asks.then(|| Asks::GoOn { step: replan.step.clone() });
            }
            PlanEvent::RevisionProposed(proposed) => {
                self.asks = Some(Asks::Revision { revision: proposed.revision });
            }
            PlanEvent::QuestionAsked(asked) => {
                self.asks = Some(Asks::Question { id: asked.id.clone(), question: asked.question.question.clone() });
            }
            PlanEvent::RevisionRefused(_) | PlanEvent::QuestionAnswered(_) => self.asks = None,
            PlanEvent::ConstraintChanged(changed) => self.contract.change(changed),
            PlanEvent::CriteriaJudged(judged) => {
                self.usage.add(judged.usage.cost, judged.usage.tokens);
                self.contract.judge(judged);
                self.asks = None;
            }
            PlanEvent::JudgementRequested(requested) => {
                let id = requested.criteria.first().filter(|_| requested.judge == JudgeKind::Person).cloned();
                self.asks = id.map(|id| Asks::Question { question: format!("is criterion `{id}` met?"), id });
            }
            PlanEvent::Revised(revised) => {
                self.contract.restart();
                self.asks = None;
                if self.status == PlanStatus::Replanning {
                    self.status = PlanStatus::Running;
                }
                self.revision = revised.revision;
                self.confidence = revised.confidence_after;
                self.usage.add(revised.usage.cost, revised.usage.tokens);
                self.move_all(&revised.restarted, StepStatus::Pending);
                self.move_all(&revised.skipped, StepStatus::Skipped);
                let blocked = self.rows.iter().filter(|row| row.status == StepStatus::Blocked);
                let blocked: Vec<StepId> = blocked.map(|row| row.id.clone()).collect();
                self.move_all(&blocked, StepStatus::Pending);
            }
            PlanEvent::ModelAnswered(answered) => {
                self.usage.add(answered.usage.cost, answered.usage.tokens);
            }
            PlanEvent::Paused(_) => self.status = PlanStatus::Paused,
            PlanEvent::PlanningFailed(why) => self.reason.clone_from(&why.reason),
            PlanEvent::Quarantined(why) => self.reason.clone_from(&why.reason),
            PlanEvent::Completed(end) | PlanEvent::Failed(end) | PlanEvent::Cancelled(end) => {
                self.status = end.status;
                self.asks = None;
                self.failure.clone_from(&end.failure);
                if !end.reason.is_empty() {
                    self.reason.clone_from(&end.reason);
                }
                let why =
                    if end.status == PlanStatus::Cancelled { "the plan was cancelled" } else { "the plan failed" };
                self.end_all(&end.cancelled, time_ms, why);
            }
            PlanEvent::Extended(extended) => {
                self.open = extended.open;
                self.written_ms.extend(extended.added.iter().map(|_| time_ms));
                self.confidence = extended.confidence.unwrap_or(self.confidence);
            }
            PlanEvent::PlanValidated(_)
            | PlanEvent::ModelAsked(_)
            | PlanEvent::ToolsCalled(_)
            | PlanEvent::PhaseAdded(_)
            | PlanEvent::PhaseStarted(_)
            | PlanEvent::PhaseCompleted(_)
            | PlanEvent::PhaseFailed(_)
            | PlanEvent::HookAsked(_)
            | PlanEvent::HookDecided(_)
            | PlanEvent::PhaseSkipped(_) => {}
        }
    }

    fn move_all(&mut self, steps: &[StepId], status: StepStatus) {
        for step in steps {
            let Some(place) = self.places.get(step).copied() else { continue };
            let row = &mut self.rows[place];
            // A revision names what was skipped by events before it.
            if row.status == status && status == StepStatus::Skipped {
                continue;
            }
            self.counts.shift(row.status, status);
            row.status = status;
            row.reason.clear();
        }
    }

    /// Cancels the steps that the plan's end lists.
    fn end_all(&mut self, steps: &[StepId], time_ms: u64, why: &str) {
        self.move_all(steps, StepStatus::Cancelled);
        for step in steps {
            if let Some(place) = self.places.get(step).copied() {
                self.rows[place].end(StepStatus::Cancelled, time_ms, why);
            }
        }
    }

    fn apply_to_step(&mut self, step: &StepId, attempt: u32, event: &StepEvent, time_ms: u64) {
        if let StepEvent::Added(added) = event {
            self.add(&added.step);
            return;
        }
        let Some(place) = self.places.get(step).copied() else { return };
        let row = &mut self.rows[place];
        let old = row.status;
        if self.executing_ms == 0 && event.executes() {
            self.executing_ms = time_ms;
        }
        row.attempt = row.attempt.max(attempt);
        // Why it was held up is over with its next event.
        if row.status == StepStatus::Blocked {
            row.reason.clear();
        }
        match event {
            StepEvent::Added(_)
            | StepEvent::Measured(_)
            | StepEvent::CallRecorded(_)
            | StepEvent::CallsDiscarded(_) => {}
            StepEvent::Modified(modified) => row.revise(&modified.step),
            StepEvent::Removed(why) => row.end(StepStatus::Revised, time_ms, &why.reason),
            StepEvent::Ready => {
                row.status = StepStatus::Ready;
                row.end_wait(time_ms);
            }
            StepEvent::Blocked(why) => {
                row.status = StepStatus::Blocked;
                row.reason.clone_from(&why.reason);
            }
            StepEvent::ApprovalRequested(asked) => {
                row.status = StepStatus::AwaitingApproval;
                row.due_ms = Some(asked.due_ms);
            }
            StepEvent::HookAsked(_) => row.status = StepStatus::AwaitingApproval,
            StepEvent::HookDecided(decided) => {
                row.status = step_transition(StepStatus::AwaitingApproval, event).unwrap_or(row.status);
                row.due_ms = Some(decided.due_ms).filter(|due| *due > 0);
            }
            StepEvent::Approved(_) | StepEvent::Resumed(_) => {
                row.status = StepStatus::Ready;
                row.question = None;
            }
            StepEvent::QuestionAsked(asked) => {
                row.question = Some(asked.question.clone());
                row.status = StepStatus::AwaitingApproval;
                row.due_ms = Some(asked.due_ms);
            }
            StepEvent::Answered(_) | StepEvent::Recalled(_) => {
                row.status = StepStatus::Pending;
                row.question = None;
            }
            StepEvent::Decomposed(_) => row.status = StepStatus::Ready,
            StepEvent::Queued(queued) => {
                row.status = StepStatus::Queued;
                row.end_wait(time_ms);
                (row.started_ms, row.finished_ms, row.progress, row.message) = (None, None, None, None);
                if !queued.agent_type.as_str().is_empty() {
                    row.agent_type = queued.agent_type.clone();
                }
            }
            StepEvent::Started(started) => {
                row.status = StepStatus::Running;
                row.started_ms = Some(started.started_ms);
                self.attempts += 1;
                self.begun_ms = Some(self.begun_ms.map_or(started.started_ms, |first| first.min(started.started_ms)));
            }
            StepEvent::Progress(progress) => {
                row.progress = progress.progress.or(row.progress);
                row.message = progress.message.clone().or_else(|| row.message.take());
            }
            StepEvent::Completed(completed) => {
                row.note = note(&completed.outputs);
                row.outputs = Some(completed.outputs.clone());
                self.has_money |= !row.note.0.is_empty();
                row.end(StepStatus::Completed, completed.finished_ms.unwrap_or(time_ms), "");
                row.failure = None;
            }
            StepEvent::Retrying(retrying) => {
                row.end(StepStatus::Retrying, time_ms, "");
                row.failure = Some(retrying.failure.clone());
                row.waiting_since_ms = Some(time_ms);
                row.due_ms = Some(retrying.due_ms);
                self.retries += 1;
                // It failed before anybody told of its start: its worker vanished, or none came.
                self.attempts += u32::from(old == StepStatus::Queued);
            }
            StepEvent::Suspended(suspended) => row.suspend(suspended),
            StepEvent::Released(_) => row.status = StepStatus::Ready,
            StepEvent::Failed(failed) => {
                row.end(StepStatus::Failed, time_ms, "");
                row.failure = Some(failed.failure.clone());
            }
            StepEvent::Skipped(skipped) => {
                row.end(StepStatus::Skipped, time_ms, &skipped.reason);
                row.failure.clone_from(&skipped.failure);
            }
            StepEvent::Cancelled(why) => row.end(StepStatus::Cancelled, time_ms, &why.reason),
        }
        let (new, usage) = (row.status, event.usage());
        self.counts.shift(old, new);
        self.usage.add(usage.cost, usage.tokens);
    }

    fn add(&mut self, step: &Step) {
        if self.places.contains_key(&step.id) {
            return;
        }
        self.places.insert(step.id.clone(), self.rows.len());
        self.rows.push(Row::new(step));
        self.widths.0 = self.widths.0.max(step.id.as_str().len());
        self.widths.1 = self.widths.1.max(step.agent_type.as_str().len());
        self.counts.add(StepStatus::Pending);
    }
}

impl Row {
    fn revise(&mut self, step: &Step) {
        self.kind = step.kind;
        self.agent_type = step.agent_type.clone();
        self.description.clone_from(&step.description);
        self.dependencies.clone_from(&step.dependencies);
    }

    fn end(&mut self, status: StepStatus, at_ms: u64, reason: &str) {
        self.status = status;
        self.finished_ms = Some(at_ms);
        self.waiting_since_ms = None;
        self.due_ms = None;
        self.reason = reason.into();
    }

    /// A call of its attempt waits for a person.
    fn suspend(&mut self, suspended: &StepSuspended) {
        let wait = &suspended.call.wait;
        (self.status, self.due_ms) = (StepStatus::AwaitingApproval, Some(suspended.due_ms));
        self.question = (wait.kind == CallWaitKind::Answer).then(|| wait.text.clone());
    }

    fn end_wait(&mut self, at_ms: u64) {
        if let Some(since) = self.waiting_since_ms.take() {
            self.waits_ms.push(at_ms.saturating_sub(since));
        }
    }
}

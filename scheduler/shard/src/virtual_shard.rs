//! A shard in virtual time: [`ShardState`] driven without a store, a scheduler or workers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use goalmill_common::blob_ref;
use goalmill_common::clock::Clock;
use goalmill_common::command::{Request, Submit, Verb};
use goalmill_common::config::{HookPoints, SchedulerSettings};
use goalmill_common::event::{Event, PlanEvent, Record};
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::{AgentType, AttemptToken, Namespace, PlanId, ShardId};
use goalmill_common::json::Json;
use goalmill_common::keys::Keys;
use goalmill_common::limits::Limits;
use goalmill_common::problem::{Issue, Problem};
use goalmill_common::random::Random;
use goalmill_common::redaction::Redaction;
use goalmill_common::report::Report;
use goalmill_common::status::StepStatus;
use goalmill_common::task::Task;
use goalmill_common::wire;
use goalmill_engine::{
    Cards, Command, EngineContext, FamilyCommand, FamilyPlans, InputRecording, NeededPayload, PlanAnswer, PlanState,
    Rejection, StepIndex, TokenKey, replay,
};
use goalmill_expression::Payload;
use goalmill_plan::validate::Policy;
use serde_json::Value;

use crate::message::ShardMessage;
use crate::post_commit::{PostCommit, StoreUpdate};
use crate::quota::Quota;
use crate::state::{SealedEvents, ShardState};

/// Bytes of recorded inputs of one plan.
const RECORDED_BYTES_MAX: usize = 16 << 20;
/// The only shard.
const SHARD: ShardId = ShardId(0);

/// One plan: the submitted one is the first, plans inside it follow in the order of their start.
struct Member {
    id: PlanId,
    log: Vec<Record>,
    /// The plan while the shard does not have it in memory: it has ended or is parked.
    away: Option<Box<PlanState>>,
}

/// The planners are asked for a plan (revision 0) or a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanningRequest {
    pub member: usize,
    pub revision: u32,
    /// See [`ShardMessage::Command`].
    request: Option<u32>,
}

/// A shard with the default settings of a scheduler, and what a store would keep of it.
pub struct VirtualShard {
    state: ShardState,
    clock_ms: Arc<AtomicU64>,
    window: DispatchWindow,
    members: Vec<Member>,
    tasks: Vec<Task>,
    cancelled: Vec<AttemptToken>,
    planning: VecDeque<PlanningRequest>,
    /// Answers of effects.
    answers: VecDeque<ShardMessage>,
    /// Cached outputs until a time, Unix milliseconds.
    cache: BTreeMap<String, (u64, Json)>,
    /// Stored payloads by their keys.
    payloads: BTreeMap<String, Payload>,
    /// Events that were sent, as a scheduler keeps them.
    kept: Vec<ExternalEvent>,
}

/// The window of every agent type: mock agents have no slots.
struct DispatchWindow(u32);

impl Quota for DispatchWindow {
    fn in_flight_max(&self, agent_type: &AgentType) -> u32 {
        if agent_type.as_str().is_empty() { u32::MAX } else { self.0 }
    }
}

impl VirtualShard {
    /// - `now_ms`: Unix milliseconds.
    pub fn new(limits: Limits, now_ms: u64, seed: u64) -> Self {
        let settings = SchedulerSettings::default();
        let clock_ms = Arc::new(AtomicU64::new(now_ms));
        let time_ms = clock_ms.clone();
        let clock = Clock::from_fn(move || time_ms.load(Ordering::Relaxed));
        let mut state =
            ShardState::new(SHARD, engine_context(limits), clock, Random::seeded(seed), settings.retention_ms);
        state.set_parking(settings.park_ms);
        Self {
            state,
            clock_ms,
            window: DispatchWindow(settings.window_min),
            members: Vec::new(),
            tasks: Vec::new(),
            cancelled: Vec::new(),
            planning: VecDeque::new(),
            answers: VecDeque::new(),
            cache: BTreeMap::new(),
            payloads: BTreeMap::new(),
            kept: Vec::new(),
        }
    }

    /// What the engine of such a shard knows of its installation.
    pub fn context(limits: Limits) -> EngineContext {
        engine_context(limits)
    }

    /// The limits of plans.
    pub fn limits(&self) -> &Limits {
        &self.state.context.limits
    }

    /// Unix milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.clock_ms.load(Ordering::Relaxed)
    }

    /// Moves the clock, never back.
    pub fn advance_to(&mut self, now_ms: u64) {
        self.clock_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    /// Accepts the plan or goal of the run.
    pub fn submit(&mut self, submission: Submit) -> Result<(), Problem> {
        self.state.begin_turn();
        let plan = PlanId::derive(1, &Namespace::default(), &submission.submission);
        let verb = Verb::Submit(Box::new(submission));
        let submitted = self.state.handle_request(Request { plan, actor: "test".into(), answer: None, verb });
        self.end_turn();
        submitted.map(drop)
    }

    /// Number of plans: the submitted ones and those inside.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// The place of a plan among the members.
    pub fn member(&self, plan: &PlanId) -> Option<usize> {
        self.members.iter().position(|member| member.id == *plan)
    }

    /// A plan by its place: the submitted plan, then the plans inside it in the order of their start.
    pub fn state(&self, member: usize) -> &PlanState {
        let Member { id, away, .. } = &self.members[member];
        let slot = || self.state.find_plan(id).expect("a plan is in memory or away");
        away.as_deref().unwrap_or_else(|| self.state.plan_state(slot()))
    }

    /// The log of a plan by its place.
    pub fn log(&self, member: usize) -> &[Record] {
        self.members.get(member).map_or(&[], |member| &member.log)
    }

    /// Gives a plan a command.
    pub fn command(&mut self, member: usize, actor: Option<&str>, command: Command) -> Result<(), Rejection> {
        self.state.begin_turn();
        self.wake(member);
        match self.state.find_plan(&self.members[member].id) {
            Some(key) => self.state.decide_in_family(actor, FamilyCommand::Decide { key, command }).map(drop),
            None => Err(Rejection::Final { status: self.state(member).status() }),
        }
    }

    /// Gives a plan the report of an attempt; one that is not current changes nothing. Returns whether it was taken.
    pub fn report(&mut self, report: Report) -> bool {
        self.state.begin_turn();
        if let Some(member) = self.member(&report.plan) {
            self.wake(member);
        }
        self.state.handle_report(report)
    }

    /// Gives a plan the answer of the planners.
    pub fn answer_planning(&mut self, request: PlanningRequest, answer: PlanAnswer) {
        let PlanningRequest { member, revision, request } = request;
        let command = Box::new(Command::Planned { revision, answer });
        let plan = self.members[member].id.clone();
        self.answers.push_back(ShardMessage::Command { plan, command, request, reply: None });
    }

    /// Sends an event to every plan that waits for it, and keeps it for later waits. Returns the issues of an event that
    /// fits none of those that wait, which is not kept.
    pub fn send_event(&mut self, event: ExternalEvent) -> Vec<Issue> {
        let mut issues = Vec::new();
        for member in 0..self.members.len() {
            // Those inside another plan are reached by that one.
            if self.state(member).is_final() || self.state(member).parent().is_some() {
                continue;
            }
            let verb = Verb::SendEvent { event: Box::new(event.clone()), waiting_only: true };
            let sent = self.command(member, Some("test"), Command::Verb(verb));
            if let Err(Rejection::Invalid { issues: found, .. }) = sent {
                issues.extend(found);
            }
        }
        if issues.is_empty() {
            self.kept.push(event);
        }
        issues
    }

    /// Events that were sent and that no plan took.
    pub fn events_not_taken(&self) -> impl Iterator<Item = &ExternalEvent> {
        self.kept.iter().filter(|event| {
            let took = |member: &Member| {
                member.log.iter().any(|record| {
                    matches!(&record.event, Event::Plan(PlanEvent::EventReceived(taken)) if taken.id == event.id)
                })
            };
            !self.members.iter().any(took)
        })
    }

    /// Does what is to be done at this time, and returns the planning that it waits for, if any.
    ///
    /// Effects are answered before ready steps are sent, as if the queues had no room until then.
    pub fn settle(&mut self) -> Option<PlanningRequest> {
        loop {
            self.state.begin_turn();
            let answers = std::mem::take(&mut self.answers);
            for message in answers {
                if let ShardMessage::Command { plan, .. } = &message
                    && let Some(member) = self.member(plan)
                {
                    self.wake(member);
                }
                self.state.handle_message(message);
            }
            self.state.continue_decisions();
            if self.state.has_actions() {
                self.end_turn();
                continue;
            }
            self.state.dispatch(&self.window);
            if !self.end_turn() && !self.state.has_more() {
                return self.planning.pop_front();
            }
        }
    }

    /// Lets the next timer that is due come due.
    pub fn fire_timer(&mut self) {
        self.state.begin_turn();
        for plan in self.state.parked_due() {
            let member = self.member(&plan).expect("a parked plan is a member");
            self.wake(member);
        }
        self.state.write_outdated_summaries();
        self.state.fire_timer();
    }

    /// When the next timer is due, Unix milliseconds.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.state.next_due_ms()
    }

    /// Stores a payload, as a worker does with large outputs.
    pub fn store_payload(&mut self, key: String, payload: Payload) {
        self.payloads.insert(key, payload);
    }

    /// Puts stored payloads in the place of references to them.
    pub fn with_payloads(&self, mut value: Value) -> Value {
        blob_ref::replace(&mut value, &mut |key| self.payloads.get(key).map(|payload| payload.json().clone()));
        value
    }

    /// Tasks that were sent since the last call.
    pub fn take_tasks(&mut self) -> Vec<Task> {
        std::mem::take(&mut self.tasks)
    }

    /// Attempts that were stopped since the last call.
    pub fn take_cancelled(&mut self) -> Vec<AttemptToken> {
        std::mem::take(&mut self.cancelled)
    }

    /// Steps that wait for a person, with their plans.
    pub fn awaiting_steps(&self) -> impl Iterator<Item = (usize, StepIndex, &str)> {
        (0..self.members.len()).flat_map(|member| {
            let state = self.state(member);
            (0..state.len()).map(StepIndex::new).filter_map(move |i| {
                let step = state.step(i)?;
                (!state.is_final() && step.status == StepStatus::AwaitingApproval)
                    .then(|| (member, i, step.spec.id.as_str()))
            })
        })
    }

    /// Gives the shard a plan back that it had parked, as folded from its log.
    fn wake(&mut self, member: usize) {
        let Member { id, away, .. } = &mut self.members[member];
        if self.state.is_parked(id) {
            self.state.unpark(*away.take().expect("a parked plan was folded"));
        }
    }

    /// Ends the turn: keeps what it would write, and runs the actions that follow. Returns whether there was anything.
    fn end_turn(&mut self) -> bool {
        let (commit, mut sealed) = self.state.build_commit("", 1, false);
        let is_written = commit.is_some();
        let tasks = commit.into_iter().flat_map(|commit| commit.tasks);
        self.tasks.extend(tasks.map(|task| wire::read_task(&task.data).expect("it was just written")));
        let inputs = std::mem::take(&mut sealed.inputs);
        let stored = |(key, inputs): (String, Json)| (key, Payload::parse(inputs.text()).expect("it was just written"));
        self.payloads.extend(inputs.into_iter().map(stored));
        let changed: Vec<usize> = sealed.events.iter_mut().map(|events| self.keep(events)).collect();
        for action in self.state.finish_commit(sealed) {
            self.run_action(action);
        }
        for member in changed {
            let Member { id, log, away } = &mut self.members[member];
            if self.state.is_parked(id) {
                let mut folded = None;
                log.iter().for_each(|record| replay(&mut folded, record).expect("the shard's own events fold"));
                *away = folded.map(Box::new);
            }
        }
        is_written || !self.answers.is_empty()
    }

    /// Keeps the events of a plan. Returns its place.
    fn keep(&mut self, events: &mut SealedEvents) -> usize {
        let away = events.finished.take().map(|plan| Box::new(plan.state));
        let id = away.as_ref().map_or_else(|| self.state.plan_state(events.slot).id(), |state| state.id());
        let member = self.member(id).unwrap_or_else(|| {
            self.members.push(Member { id: id.clone(), log: Vec::new(), away: None });
            self.members.len() - 1
        });
        self.members[member].away = away;
        self.members[member].log.append(&mut events.records);
        member
    }

    fn run_action(&mut self, action: PostCommit) {
        match action {
            PostCommit::Plan { plan, .. } => self.request_planning(&plan, 0, None),
            PostCommit::Revise { state, revision, request } => {
                self.request_planning(state.id(), revision, Some(request));
            }
            PostCommit::CacheGet { plan, step, key } => {
                let cached = self.cache.get(&key).filter(|(until_ms, _)| *until_ms > self.now_ms());
                let outputs = cached.map(|(_, outputs)| outputs.clone());
                self.answer(plan, Command::CacheLookedUp { step, key, outputs });
            }
            PostCommit::CachePut { key, outputs, ttl_ms } => {
                self.cache.insert(key, (self.now_ms().saturating_add(ttl_ms), outputs));
            }
            PostCommit::LoadPayloads { plan, step, payloads } => {
                let payloads = payloads.into_iter().map(|needed| self.load(needed)).collect();
                self.answer(plan, Command::PayloadsLoaded { step, payloads });
            }
            PostCommit::AwaitEvent(wait) => {
                let fits = |event: &&ExternalEvent| event.name == wait.event && event.key == wait.key;
                for event in self.kept.iter().filter(fits).cloned().collect::<Vec<_>>() {
                    let verb = Verb::SendEvent { event: Box::new(event), waiting_only: true };
                    self.answer(wait.plan_id.clone(), Command::Verb(verb));
                }
                self.answers.push_back(ShardMessage::WaitRegistered(wait.plan_id));
            }
            PostCommit::Update(StoreUpdate::CancelAttempt(token)) => self.cancelled.push(token),
            // There are no callers, judges, hooks, streams, dead letters or quarantines.
            PostCommit::Reply(..)
            | PostCommit::CommandReply(..)
            | PostCommit::SuspectsReply(..)
            | PostCommit::Judge { .. }
            | PostCommit::AskHooks { .. }
            | PostCommit::StopAwaiting(_)
            | PostCommit::EndQuarantine(_)
            | PostCommit::Update(
                StoreUpdate::Answer { .. }
                | StoreUpdate::AcknowledgeSubmission(_)
                | StoreUpdate::Refuse(_)
                | StoreUpdate::RenewResult { .. }
                | StoreUpdate::DeadLetter(_)
                | StoreUpdate::DiscardTasks { .. },
            ) => {}
        }
    }

    fn request_planning(&mut self, plan: &PlanId, revision: u32, request: Option<u32>) {
        let member = self.member(plan).expect("its events were kept");
        self.planning.push_back(PlanningRequest { member, revision, request });
    }

    fn answer(&mut self, plan: PlanId, command: Command) {
        let command = Box::new(command);
        self.answers.push_back(ShardMessage::Command { plan, command, request: None, reply: None });
    }

    fn load(&self, needed: NeededPayload) -> (String, Result<Payload, Failure>) {
        let missing = || {
            let message = format!("`{}` has expired: its stored value is gone", needed.path);
            Failure::new(FailureClass::Permanent, "BLOB_MISSING", message)
        };
        let stored = self.payloads.get(&needed.key).cloned().ok_or_else(missing);
        (needed.key, stored)
    }
}

/// The context of decisions in a shard with default settings.
pub(crate) fn engine_context(limits: Limits) -> EngineContext {
    let keys = Keys::default();
    EngineContext {
        limits,
        policy: Policy::default(),
        cards: Cards::default(),
        hooks: HookPoints::default(),
        judge_model: false,
        task_lease_ms: SchedulerSettings::default().task_lease_ms,
        reply: keys.reports(SHARD),
        callback_base: "http://localhost".into(),
        token_key: TokenKey::new("virtual time"),
        recording: Some(InputRecording {
            redaction: Redaction::default(),
            blob_prefix: keys.blob(SHARD, ""),
            plan_bytes_max: RECORDED_BYTES_MAX,
        }),
    }
}

#[cfg(test)]
mod tests {
    use goalmill_common::goal::Goal;
    use goalmill_common::plan::{Plan, Step, StepKind, StepWait};
    use goalmill_common::report::What;
    use goalmill_common::status::PlanStatus;

    use super::*;
    use crate::state::tests::request;

    fn run(steps: Vec<Step>) -> VirtualShard {
        let mut shard = VirtualShard::new(Limits::default(), 1_795_293_490_000, 0);
        let Verb::Submit(submit) = request("p0-a", Goal::default(), Plan { steps, ..Plan::default() }).verb else {
            unreachable!("it is a submission")
        };
        shard.submit(*submit).expect("the plan is fit");
        assert_eq!(shard.settle(), None);
        shard
    }

    #[test]
    fn the_window_of_an_agent_type_limits_its_tasks() {
        let mut shard = run((0..100).map(|n| Step::new(format!("s{n}"), "w")).collect());
        let tasks = shard.take_tasks();
        assert_eq!(tasks.len(), 64);
        let report = Report::on(&tasks[0], "w".into(), "1-1".into(), "w1".into(), What::Completed);
        assert!(shard.report(Report { outputs: Some(Json::default()), ..report }));
        assert_eq!((shard.settle(), shard.take_tasks().len()), (None, 1));
    }

    #[test]
    fn a_plan_that_waits_for_long_is_parked_and_goes_on() {
        let wait = StepWait { for_ms: Some(3_600_000), ..StepWait::default() };
        let step = Step { kind: StepKind::Wait, wait: Some(Box::new(wait)), ..Step::new("pause", "") };
        let mut shard = run(vec![step]);
        assert!(shard.state.is_parked(shard.state(0).id()));
        while let Some(due_ms) = shard.next_due_ms() {
            shard.advance_to(due_ms);
            shard.fire_timer();
            assert_eq!(shard.settle(), None);
        }
        assert_eq!(shard.state(0).status(), PlanStatus::Completed);
    }
}

//! A shard in virtual time: a submitted plan and the plans inside it, driven by the engine as a scheduler drives it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use goalmill_common::agent::Agent;
use goalmill_common::blob_ref;
use goalmill_common::command::{Submit, Verb};
use goalmill_common::config::HookPoints;
use goalmill_common::event::{Event, PlanEvent, Record};
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::{AttemptToken, PlanId, ShardId};
use goalmill_common::json::Json;
use goalmill_common::keys::Keys;
use goalmill_common::limits::Limits;
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_common::random::Random;
use goalmill_common::redaction::Redaction;
use goalmill_common::report::Report;
use goalmill_common::status::StepStatus;
use goalmill_common::task::Task;
use goalmill_engine::{
    Cards, Command, Decision, Effect, EngineContext, Envelope, FamilyPlans, FamilyUse, InputRecording, PlanState,
    Rejection, StepIndex, SubmitCommand, Timer, TokenKey, can_dispatch_in_family, decide, decide_in_family,
    settle_family, submit,
};
use goalmill_expression::Payload;
use goalmill_plan::validate::Policy;
use serde_json::Value;

/// Bytes of recorded inputs of one plan.
const RECORDED_BYTES_MAX: usize = 16 << 20;
/// The only shard.
const SHARD: ShardId = ShardId(0);
/// The lease that tasks name, in milliseconds.
const LEASE_MS: u64 = 30_000;

/// One plan: the submitted one is the first, plans inside it follow in the order of their start.
pub struct Member {
    pub state: PlanState,
    pub log: Vec<Record>,
}

/// A ready step in its order: the highest priority first, then the longest path behind it, then the first one that became
/// ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OfferedStep {
    priority: Reverse<u8>,
    /// The bits of the seconds of the longest path: those of numbers that are not negative have the order of the numbers.
    rank: Reverse<u64>,
    number: u64,
    member: usize,
    step: u32,
}

/// The planners are asked for a plan (revision 0) or a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanningRequest {
    pub member: usize,
    pub revision: u32,
}

/// The plans of a run and what a shell keeps of them.
pub struct VirtualShard {
    context: EngineContext,
    random: Random,
    /// Unix milliseconds.
    pub now_ms: u64,
    members: Vec<Member>,
    /// The most urgent one first.
    ready: BTreeSet<OfferedStep>,
    ready_count: u64,
    timers: BTreeMap<(usize, Timer), u64>,
    due: BTreeSet<(u64, usize, Timer)>,
    /// Members whose decision reached the work limit.
    unsettled: VecDeque<usize>,
    tasks: Vec<Task>,
    cancelled: Vec<AttemptToken>,
    planning: VecDeque<PlanningRequest>,
    /// Commands that answer effects.
    answers: VecDeque<(usize, Command)>,
    /// Cached outputs until a time, Unix milliseconds.
    cache: BTreeMap<String, (u64, Json)>,
    /// Stored payloads by their keys.
    payloads: BTreeMap<String, Payload>,
    /// Events that were sent, as a scheduler keeps them.
    kept: Vec<ExternalEvent>,
    /// The agents that planners and the router see.
    pub agents: Vec<Agent>,
}

impl VirtualShard {
    /// - `now_ms`: Unix milliseconds.
    /// - `agents`: those that planners and the router see.
    pub fn new(limits: Limits, now_ms: u64, seed: u64, agents: Vec<Agent>) -> Self {
        let keys = Keys::new("goalmill");
        let context = EngineContext {
            limits,
            policy: Policy::default(),
            cards: Cards::default(),
            hooks: HookPoints::default(),
            judge_model: false,
            task_lease_ms: LEASE_MS,
            reply: keys.reports(SHARD),
            callback_base: "http://localhost".into(),
            token_key: TokenKey::new("virtual time"),
            recording: Some(InputRecording {
                redaction: Redaction::default(),
                blob_prefix: keys.blob(SHARD, ""),
                plan_bytes_max: RECORDED_BYTES_MAX,
            }),
        };
        Self {
            context,
            random: Random::seeded(seed),
            now_ms,
            members: Vec::new(),
            ready: BTreeSet::new(),
            ready_count: 0,
            timers: BTreeMap::new(),
            due: BTreeSet::new(),
            unsettled: VecDeque::new(),
            tasks: Vec::new(),
            cancelled: Vec::new(),
            planning: VecDeque::new(),
            answers: VecDeque::new(),
            cache: BTreeMap::new(),
            payloads: BTreeMap::new(),
            kept: Vec::new(),
            agents,
        }
    }

    pub fn limits(&self) -> &Limits {
        &self.context.limits
    }

    /// Accepts the plan or goal of the run.
    pub fn submit(&mut self, submission: Submit) -> Result<(), Problem> {
        let plan = PlanId::derive(1, &goalmill_common::id::Namespace::default(), &submission.submission);
        let submitted = self.submit_plan(plan, "test".into(), Box::new(submission), FamilyUse::default());
        let (key, decision) = submitted?;
        settle_family(self, key, decision);
        Ok(())
    }

    /// The submitted plan, then the plans inside it in the order of their start.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Gives a plan a command.
    pub fn command(&mut self, key: usize, actor: Option<&str>, command: Command) -> Result<(), Rejection> {
        decide_in_family(self, key, actor, command)
    }

    /// Gives a plan the report of an attempt. A report that is not current changes nothing.
    pub fn report(&mut self, report: Report) -> Result<(), Rejection> {
        match self.find_plan(&report.plan) {
            Some(key) => self.command(key, None, Command::Report(Box::new(report))),
            None => Err(Rejection::UnknownStep { step: report.step }),
        }
    }

    /// Sends an event to every plan that waits for it, and keeps it for later waits. Returns the issues of an event that
    /// fits none of those that wait, which is not kept.
    pub fn send_event(&mut self, event: ExternalEvent) -> Vec<Issue> {
        let mut issues = Vec::new();
        for key in 0..self.members.len() {
            // Those inside another plan are reached by that one.
            if self.members[key].state.is_final() || self.members[key].state.parent().is_some() {
                continue;
            }
            let verb = Verb::SendEvent { event: Box::new(event.clone()), waiting_only: true };
            if let Err(Rejection::Invalid { issues: found, .. }) = self.command(key, Some("test"), Command::Verb(verb))
            {
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
    pub fn settle(&mut self) -> Option<PlanningRequest> {
        loop {
            if let Some(key) = self.unsettled.pop_front() {
                // A plan that ended meanwhile has nothing to continue.
                drop(self.command(key, None, Command::Continue));
            } else if let Some((key, command)) = self.answers.pop_front() {
                // As in a scheduler, an answer that a plan does not need any more is dropped.
                drop(self.command(key, None, command));
            } else if let Some(request) = self.planning.pop_front() {
                return Some(request);
            } else if !self.dispatch_next() {
                return None;
            }
        }
    }

    /// Dispatches the most urgent ready step that may start.
    fn dispatch_next(&mut self) -> bool {
        let may_start = |offered: &&OfferedStep| {
            let state = &self.members[offered.member].state;
            !state.is_final() && can_dispatch_in_family(self, offered.member, StepIndex(offered.step))
        };
        let Some(offered) = self.ready.iter().find(may_start).copied() else { return false };
        self.ready.remove(&offered);
        drop(self.command(offered.member, None, Command::Dispatch(StepIndex(offered.step))));
        true
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

    /// When the next timer is due, Unix milliseconds.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, ..)| *due_ms)
    }

    /// Lets the next timer that is due come due.
    pub fn fire_timer(&mut self) -> bool {
        let Some((_, key, timer)) = self.due.first().copied().filter(|(due_ms, ..)| *due_ms <= self.now_ms) else {
            return false;
        };
        self.set_timer(key, timer, None);
        // A superseded timer changes nothing.
        drop(self.command(key, Some("timer"), Command::Due(timer)));
        true
    }

    fn set_timer(&mut self, key: usize, timer: Timer, due_ms: Option<u64>) {
        let old = match due_ms {
            Some(due_ms) => self.timers.insert((key, timer), due_ms),
            None => self.timers.remove(&(key, timer)),
        };
        self.due.extend(due_ms.map(|due_ms| (due_ms, key, timer)));
        if let Some(old) = old.filter(|old| Some(*old) != due_ms) {
            self.due.remove(&(old, key, timer));
        }
    }

    fn offer(&mut self, key: usize, step: StepIndex) {
        let state = &self.members[key].state;
        let (priority, rank) = (state.priority(step).0, state.rank(step).max(0.0).to_bits());
        self.ready_count += 1;
        self.ready.insert(OfferedStep {
            priority: Reverse(priority),
            rank: Reverse(rank),
            number: self.ready_count,
            member: key,
            step: step.0,
        });
    }

    fn look_up(&mut self, cache_key: &str) -> Option<Json> {
        let (until_ms, outputs) = self.cache.get(cache_key)?;
        (*until_ms > self.now_ms).then(|| outputs.clone())
    }

    fn run(&mut self, key: usize, effect: Effect) {
        match effect {
            Effect::Send(task) => self.tasks.push(*task),
            Effect::Ready(step) => self.offer(key, step),
            Effect::Timer(timer, due_ms) => self.set_timer(key, timer, due_ms),
            Effect::Continue => self.unsettled.push_back(key),
            Effect::Cancel(token) => self.cancelled.push(token),
            Effect::Plan { revision } => self.planning.push_back(PlanningRequest { member: key, revision }),
            Effect::CacheLookup { step, key: cache_key } => {
                let outputs = self.look_up(&cache_key);
                self.answers.push_back((key, Command::CacheLookedUp { step, key: cache_key, outputs }));
            }
            Effect::CacheStore { key: cache_key, outputs, ttl_ms } => {
                self.cache.insert(cache_key, (self.now_ms.saturating_add(ttl_ms), outputs));
            }
            Effect::LoadPayloads { step, payloads } => {
                let found = |payload: goalmill_engine::NeededPayload| {
                    let missing = || {
                        let message = format!("`{}` is stored nowhere", payload.key);
                        Failure::new(FailureClass::Permanent, "PAYLOAD_MISSING", message)
                    };
                    let stored = self.payloads.get(&payload.key).cloned().ok_or_else(missing);
                    (payload.key, stored)
                };
                let payloads = payloads.into_iter().map(found).collect();
                self.answers.push_back((key, Command::PayloadsLoaded { step, payloads }));
            }
            Effect::AwaitEvent { step } => {
                let Some(wait) = self.members[key].state.event_wait(step) else { return };
                let fits = |event: &&ExternalEvent| event.name == wait.event && event.key == wait.key;
                let send = |event: &ExternalEvent| {
                    (key, Command::Verb(Verb::SendEvent { event: Box::new(event.clone()), waiting_only: true }))
                };
                self.answers.extend(self.kept.iter().filter(fits).map(send));
            }
            // There are no judges, hooks, streams, dead letters or callers; every ready step is looked at each time.
            Effect::StoreInputs { .. }
            | Effect::Acknowledge { .. }
            | Effect::Room
            | Effect::Judge
            | Effect::AskHooks { .. }
            | Effect::StopAwaiting { .. }
            | Effect::DeadLetter { .. }
            | Effect::Answer { .. }
            | Effect::Ended => {}
        }
    }

    /// Steps that wait for a person, with their plans.
    pub fn awaiting_steps(&self) -> impl Iterator<Item = (usize, StepIndex, &str)> {
        self.members.iter().enumerate().flat_map(|(key, member)| {
            let state = &member.state;
            let indices = (0..state.len()).filter_map(|i| u32::try_from(i).ok()).map(StepIndex);
            indices.filter_map(move |i| {
                let step = state.step(i)?;
                (!state.is_final() && step.status == StepStatus::AwaitingApproval)
                    .then(|| (key, i, step.spec.id.as_str()))
            })
        })
    }
}

impl FamilyPlans for VirtualShard {
    type Key = usize;

    fn find_plan(&self, plan: &PlanId) -> Option<usize> {
        self.members.iter().position(|member| member.state.id() == plan)
    }

    fn plan_state(&self, key: usize) -> &PlanState {
        &self.members[key].state
    }

    fn decide_command(
        &mut self,
        key: usize,
        actor: Option<&str>,
        command: Command,
        family: FamilyUse,
    ) -> Result<Decision, Rejection> {
        let (now_ms, random, actor) = (self.now_ms, self.random.draw(), actor.map(Into::into));
        let envelope = Envelope { now_ms, random, actor, family, command };
        decide(&mut self.members[key].state, &self.context, envelope)
    }

    fn submit_plan(
        &mut self,
        plan: PlanId,
        actor: String,
        sub: Box<Submit>,
        family: FamilyUse,
    ) -> Result<(usize, Decision), Problem> {
        let command = SubmitCommand { plan_id: plan, salt: self.random.token(), submit: *sub };
        let (now_ms, random) = (self.now_ms, self.random.draw());
        let envelope = Envelope { now_ms, random, actor: Some(actor), family, command };
        let (state, decision) = submit(&self.context, envelope).map_err(|rejection| {
            let issues = if let Rejection::Invalid { issues, .. } = &rejection { issues.clone() } else { Vec::new() };
            Problem::new(ErrorCode::InvalidPlan, rejection.to_string()).with_errors(issues)
        })?;
        self.members.push(Member { state, log: Vec::new() });
        Ok((self.members.len() - 1, decision))
    }

    fn apply_decision(&mut self, key: usize, decision: Decision) {
        self.members[key].log.extend(decision.records);
        for effect in decision.effects {
            self.run(key, effect);
        }
    }

    // The scheduler logs it; it changes nothing.
    fn note_rejection(&mut self, _: &PlanId, _: &Rejection) {}
}

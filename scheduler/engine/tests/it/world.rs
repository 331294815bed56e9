//! A world of one plan and its sub-plans: what a scheduler's shell and its workers would do, without either.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};

use goalmill_common::command::{Planned, Submit, Verb};
use goalmill_common::config::HookPoints;
use goalmill_common::event::{Event, Record, StepEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Goal;
use goalmill_common::id::{AttemptToken, PlanId};
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::redaction::Redaction;
use goalmill_common::report::{Report, What};
use goalmill_common::status::StepStatus;
use goalmill_common::task::Task;
use goalmill_engine::{
    Command, Decision, Effect, EngineContext, Envelope, FamilyCommand, FamilyPlans, FamilyQueue, FamilyUse,
    InputRecording, PlanState, Rejection, StepIndex, SubmitCommand, Timer, TokenKey, decide, pending, replay,
};
use goalmill_plan::validate::Policy;
use serde_json::json;

pub const START_MS: u64 = 1_795_293_490_000;

/// It dereferences to the plan in focus: the submitted one, unless [`World::enter`] chose a sub-plan.
pub struct World {
    pub context: EngineContext,
    pub now_ms: u64,
    pub random: u64,
    /// The submitted plan, then its sub-plans in the order in which they were started.
    plans: Vec<Member>,
    focus: usize,
    /// Whether sub-plans are refused, as those in quarantine are.
    pub refuses_sub_plans: bool,
    /// Decisions since the last command to the plan in focus, by the place of their plan.
    pub decided: Vec<(usize, Decision)>,
    /// What sub-plans were asked for, in order.
    asked: Vec<(PlanId, &'static str)>,
    /// What plans rejected that another plan asked for.
    pub rejected: Vec<Rejection>,
}

/// One plan of the world.
pub struct Member {
    pub state: Submitted,
    /// What the events give.
    folded: Option<PlanState>,
    pub log: Vec<Record>,
    pub ready: BTreeSet<u32>,
    pub timers: BTreeMap<Timer, u64>,
    pub tasks: Vec<Task>,
    pub acknowledged: Vec<String>,
    pub cancelled: BTreeSet<AttemptToken>,
    /// Effects that are none of the above, in order.
    pub others: Vec<Effect>,
    /// A decision was cut short.
    is_cut: bool,
}

impl Deref for World {
    type Target = Member;

    fn deref(&self) -> &Member {
        &self.plans[self.focus]
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Member {
        &mut self.plans[self.focus]
    }
}

impl FamilyPlans for World {
    type Key = usize;

    fn find_plan(&self, plan: &PlanId) -> Option<usize> {
        self.plans.iter().position(|member| member.state.0.as_ref().is_some_and(|state| state.id() == plan))
    }

    fn plan_state(&self, key: usize) -> &PlanState {
        &self.plans[key].state
    }

    fn refusal(&self, plan: &PlanId) -> Option<Problem> {
        let refused = || Problem::new(ErrorCode::PlanQuarantined, format!("plan `{plan}` is not worked on"));
        self.refuses_sub_plans.then(refused)
    }
}

impl Member {
    fn new() -> Self {
        Self {
            state: Submitted(None),
            folded: None,
            log: Vec::new(),
            ready: BTreeSet::new(),
            timers: BTreeMap::new(),
            tasks: Vec::new(),
            acknowledged: Vec::new(),
            cancelled: BTreeSet::new(),
            others: Vec::new(),
            is_cut: false,
        }
    }

    fn run(&mut self, effect: Effect) {
        match effect {
            Effect::Send(task) => self.tasks.push(*task),
            Effect::Acknowledge { entry, .. } => self.acknowledged.push(entry.to_string()),
            Effect::Ready(i) => {
                self.ready.insert(i.0);
            }
            Effect::Timer(timer, Some(due)) => {
                self.timers.insert(timer, due);
            }
            Effect::Timer(timer, None) => {
                self.timers.remove(&timer);
            }
            Effect::Cancel(token) => {
                self.cancelled.insert(token);
            }
            Effect::Continue => self.is_cut = true,
            Effect::StoreInputs { .. }
            | Effect::Room
            | Effect::Plan { .. }
            | Effect::Judge
            | Effect::CacheLookup { .. }
            | Effect::LoadPayloads { .. }
            | Effect::AskHooks { .. }
            | Effect::AwaitEvent { .. }
            | Effect::StopAwaiting { .. }
            | Effect::CacheStore { .. }
            | Effect::DeadLetter { .. }
            | Effect::Ended => self.others.push(effect),
        }
    }

    /// Forgets everything but the log.
    fn fold_log(&mut self) {
        let mut state = None;
        for record in &self.log {
            replay(&mut state, record).expect("the log folds");
        }
        assert_eq!(state, self.state.0, "the log gives the state");
        self.state.0 = state;
        self.ready.clear();
        self.timers.clear();
    }

    fn is_sub_plan_of(&self, plan: &PlanId, step: &str) -> bool {
        self.state.parent().is_some_and(|parent| parent.plan == *plan && parent.step.as_str() == step)
    }
}

impl World {
    pub fn new() -> Self {
        Self {
            context: EngineContext {
                cards: Default::default(),
                limits: Limits::default(),
                policy: Policy::default(),
                hooks: HookPoints::default(),
                judge_model: false,
                task_lease_ms: 30_000,
                reply: "reports".into(),
                callback_base: "http://api".into(),
                token_key: TokenKey::new("key"),
                recording: Some(InputRecording {
                    redaction: Redaction::default(),
                    blob_prefix: "blob:".into(),
                    plan_bytes_max: 1 << 20,
                }),
            },
            now_ms: START_MS,
            random: u64::MAX,
            plans: vec![Member::new()],
            focus: 0,
            refuses_sub_plans: false,
            decided: Vec::new(),
            asked: Vec::new(),
            rejected: Vec::new(),
        }
    }

    /// A world in which `plan` has been submitted.
    pub fn of(plan: Plan) -> Self {
        let mut world = Self::new();
        world.submit(plan).expect("the plan is fit");
        world
    }

    pub fn submit(&mut self, plan: Plan) -> Result<Decision, Rejection> {
        self.submit_as(submission(Some(plan)))
    }

    pub fn submit_as(&mut self, submit: Submit) -> Result<Decision, Rejection> {
        self.decided.clear();
        let command = FamilyCommand::Submit { plan: "p0-0123456789abcdef".into(), submit: Box::new(submit) };
        self.decide_in_family(command)?;
        Ok(self.go_on())
    }

    /// Decides a command, and then what each decision asks of its family, as a shell does.
    fn decide_in_family(&mut self, first: FamilyCommand<usize>) -> Result<(), Rejection> {
        let mut family = FamilyQueue::default();
        let (mut is_decided, mut rejected) = (false, Vec::new());
        let mut next = Some(family.address(self, first)?);
        while let Some(command) = next {
            match self.call_engine(command, &family) {
                Ok((key, decision)) => {
                    is_decided = true;
                    self.apply_decision(key, decision, &mut family);
                }
                Err(rejection) => {
                    rejected.push(rejection);
                    family.reject();
                }
            }
            next = family.next(self);
        }
        if is_decided {
            self.rejected.append(&mut rejected);
        }
        rejected.into_iter().next().map_or(Ok(()), Err)
    }

    fn call_engine(
        &mut self,
        command: FamilyCommand<usize>,
        family: &FamilyQueue,
    ) -> Result<(usize, Decision), Rejection> {
        match command {
            FamilyCommand::Decide { key, command } => {
                let family = family.family_use(self, Some(key));
                Ok((key, self.decide_one(key, command, family)?))
            }
            FamilyCommand::Submit { plan, submit } => {
                let around = submit.parent.as_ref().and_then(|parent| self.find_plan(&parent.plan));
                let (family, actor) = (family.family_use(self, around), around.map(|_| "engine".to_owned()));
                let command = SubmitCommand { plan_id: plan, salt: "salt".into(), submit: *submit };
                let envelope = Envelope { now_ms: self.now_ms, random: self.random, actor, family, command };
                let (state, decision) = goalmill_engine::submit(&self.context, envelope)?;
                Ok((self.add_member(state), decision))
            }
            FamilyCommand::Resume { key } => Ok((key, pending(&self.plans[key].state, &self.context))),
        }
    }

    fn decide_one(&mut self, key: usize, command: Command, family: FamilyUse) -> Result<Decision, Rejection> {
        let is_event = matches!(&command, Command::Verb(Verb::SendEvent { .. }));
        if let (Command::Verb(verb), true) = (&command, key != self.focus && !is_event) {
            let asked = if let Verb::Cancel { .. } = verb {
                "cancel"
            } else if let Verb::Pause { .. } = verb {
                "pause"
            } else if let Verb::Resume { .. } = verb {
                "resume"
            } else {
                panic!("sub-plans are not asked for {verb:?}")
            };
            self.asked.push((self.plans[key].state.id().clone(), asked));
        }
        let envelope = Envelope { now_ms: self.now_ms, random: self.random, actor: None, family, command };
        let member = &mut self.plans[key];
        let decided = decide(&mut member.state, &self.context, envelope);
        if decided.is_err() {
            assert_eq!(member.state.0, member.folded, "a rejection changes nothing");
        }
        decided
    }

    /// Adds a plan as if somebody had submitted it.
    pub fn add_plan(&mut self, plan: PlanId, submit: Submit) {
        let command = FamilyCommand::Submit { plan, submit: Box::new(submit) };
        self.decide_in_family(command).expect("the plan is fit");
    }

    fn add_member(&mut self, state: PlanState) -> usize {
        if self.plans[0].state.0.is_some() {
            self.plans.push(Member::new());
        }
        let key = self.plans.len() - 1;
        self.plans[key].state.0 = Some(state);
        key
    }

    /// Does what a shell would do with the effects, and checks the fold.
    fn apply_decision(&mut self, key: usize, decision: Decision, family: &mut FamilyQueue) {
        let member = &mut self.plans[key];
        for record in &decision.records {
            replay(&mut member.folded, record).expect("the engine's own events fold");
        }
        assert_eq!(member.folded, member.state.0, "folding the events gives the state");
        member.log.extend(decision.records.iter().cloned());
        for effect in decision.effects.clone() {
            member.run(effect);
        }
        family.take_requests(&mut decision.clone());
        self.decided.push((key, decision));
    }

    /// Gives the plan in focus a command, and returns its decision.
    pub fn command(&mut self, command: Command) -> Result<Decision, Rejection> {
        self.decided.clear();
        self.decide_in_family(FamilyCommand::Decide { key: self.focus, command })?;
        Ok(self.go_on())
    }

    /// Continues what was cut short, and returns the first decision.
    fn go_on(&mut self) -> Decision {
        let first = self.decided[0].1.clone();
        while let Some(key) = self.plans.iter_mut().position(|member| std::mem::take(&mut member.is_cut)) {
            let decided = self.decide_in_family(FamilyCommand::Decide { key, command: Command::Continue });
            assert!(decided.is_ok() || self.plans[key].state.is_final(), "a plan that was left half-way goes on");
        }
        first
    }

    /// Turns to the last sub-plan of a step.
    pub fn enter(&mut self, step: &str) {
        self.focus = self.place_of(step);
    }

    /// Turns to a plan by its place among [`World::members`].
    pub fn focus_on(&mut self, place: usize) {
        self.focus = place;
    }

    /// Turns back to the submitted plan.
    pub fn leave(&mut self) {
        self.focus = 0;
    }

    /// The last sub-plan of a step.
    pub fn sub_plan(&self, step: &str) -> &Member {
        &self.plans[self.place_of(step)]
    }

    /// The submitted plan, then all sub-plans in the order in which they were started.
    pub fn members(&self) -> &[Member] {
        &self.plans
    }

    pub fn sub_plans(&self) -> &[Member] {
        &self.plans[1..]
    }

    fn place_of(&self, step: &str) -> usize {
        let is_its = |member: &Member| member.is_sub_plan_of(self.state.id(), step);
        self.plans.iter().rposition(is_its).expect("the step has started a plan")
    }

    /// Forgets all sub-plans, as if none had been started.
    pub fn lose_sub_plans(&mut self) {
        self.plans.truncate(1);
    }

    /// What sub-plans were asked for, in order.
    pub fn asked_of_sub_plans(&self) -> &[(PlanId, &'static str)] {
        &self.asked
    }

    pub fn verb(&mut self, verb: Verb) -> Result<Decision, Rejection> {
        self.command(Command::Verb(verb))
    }

    pub fn index(&self, step: &str) -> StepIndex {
        self.state.step_index(&step.into()).expect("the step exists")
    }

    pub fn status(&self, step: &str) -> StepStatus {
        self.state.step(self.index(step)).expect("the step exists").status
    }

    pub fn outputs(&self, step: &str) -> serde_json::Value {
        self.state.step(self.index(step)).and_then(|at| at.outputs).expect("the step has outputs").value()
    }

    pub fn code(&self, step: &str) -> String {
        self.state.step(self.index(step)).and_then(|at| at.failure).expect("the step has failed").code.clone()
    }

    pub fn plan_code(&self) -> String {
        self.state.ended().and_then(|ended| ended.failure.clone()).expect("the plan has failed").code
    }

    /// Dispatches one ready step and returns its task.
    pub fn dispatch(&mut self, step: &str) -> Task {
        let i = self.index(step);
        self.command(Command::Dispatch(i)).expect("the step may go out");
        self.ready.remove(&i.0);
        self.tasks.last().expect("a task was sent").clone()
    }

    /// Dispatches whatever may go out, in the order of the plan.
    pub fn dispatch_all(&mut self) -> usize {
        let mut sent = 0;
        for i in self.ready.clone() {
            if self.state.can_dispatch(StepIndex(i)) {
                self.command(Command::Dispatch(StepIndex(i))).expect("what is admitted goes out");
                self.ready.remove(&i);
                sent += 1;
            }
        }
        sent
    }

    pub fn report(&mut self, report: Report) -> Result<Decision, Rejection> {
        self.command(Command::Report(Box::new(report)))
    }

    /// Dispatches a step and completes it with `outputs`.
    pub fn complete(&mut self, step: &str, outputs: serde_json::Value) {
        let task = self.dispatch(step);
        self.report(completed(&task, outputs)).expect("the report is current");
    }

    /// Dispatches a step and fails its attempt.
    pub fn fail(&mut self, step: &str, failure: Failure) {
        let task = self.dispatch(step);
        self.report(failed(&task, failure)).expect("the report is current");
    }

    /// Moves the clock to the timer's time and lets it come due.
    pub fn due(&mut self, timer: Timer) -> Result<Decision, Rejection> {
        self.now_ms = self.now_ms.max(self.timers.get(&timer).copied().expect("the timer is set"));
        self.command(Command::Due(timer))
    }

    pub fn step_due(&mut self, step: &str) {
        let timer = Timer::Step(self.index(step));
        self.due(timer).expect("the timer is due");
    }

    /// Events as words, those of steps with the step: `plan_created`, `step_ready a`.
    pub fn story(&self) -> Vec<String> {
        self.log.iter().map(tell).collect()
    }

    /// The events of one step as words.
    pub fn story_of(&self, step: &str) -> Vec<String> {
        let of = |record: &&Record| record.event.step().is_some_and(|id| id.as_str() == step);
        self.log.iter().filter(of).map(|record| record.event.type_name().to_owned()).collect()
    }

    /// Completes whatever is in flight or ready, until nothing moves.
    pub fn finish(&mut self) {
        loop {
            let open: Vec<Task> = self.open_tasks();
            for task in &open {
                // An earlier one of the same round may have ended the plan.
                drop(self.report(completed(task, json!({}))));
            }
            if self.dispatch_all() == 0 && open.is_empty() {
                return;
            }
        }
    }

    /// Tasks whose attempt is the current one and in flight.
    pub fn open_tasks(&self) -> Vec<Task> {
        let open = |task: &&Task| {
            let i = self.index(task.step.as_str());
            let at = self.state.step(i).expect("the step exists");
            at.status.is_in_flight() && at.attempt == task.attempt
        };
        self.tasks.iter().filter(open).cloned().collect()
    }

    /// Forgets everything but the logs, as a scheduler that takes the shard over.
    pub fn restart(&mut self) {
        self.decided.clear();
        self.plans.iter_mut().for_each(Member::fold_log);
        for key in 0..self.plans.len() {
            self.decide_in_family(FamilyCommand::Resume { key }).expect("nothing is rejected");
        }
        self.go_on();
    }
}

/// The state of a plan; reading it before the plan is submitted panics.
pub struct Submitted(pub Option<PlanState>);

impl Deref for Submitted {
    type Target = PlanState;

    fn deref(&self) -> &PlanState {
        self.0.as_ref().expect("a plan was submitted")
    }
}

impl DerefMut for Submitted {
    fn deref_mut(&mut self) -> &mut PlanState {
        self.0.as_mut().expect("a plan was submitted")
    }
}

fn tell(record: &Record) -> String {
    match record.event.step() {
        Some(step) => format!("{} {step}", record.event.type_name()),
        None => record.event.type_name().into(),
    }
}

pub fn submission(plan: Option<Plan>) -> Submit {
    Submit::new(Goal { description: "test".into(), ..Goal::default() }, plan.map(planned), "req-1", "urn:test")
}

pub fn planned(plan: Plan) -> Planned {
    Planned {
        plan,
        planner: "submitted".into(),
        confidence: 1.0,
        provenance: None,
        warnings: Vec::new(),
        routes: Vec::new(),
        goal: None,
    }
}

/// A plan of `tool` steps: ids with what they depend on.
pub fn plan(steps: &[(&str, &[&str])]) -> Plan {
    Plan { steps: steps.iter().map(|(id, after)| step(id, after)).collect(), ..Plan::default() }
}

pub fn step(id: &str, after: &[&str]) -> Step {
    Step { dependencies: after.iter().map(|d| (*d).into()).collect(), ..Step::new(id, "w") }
}

/// The plan with one of its steps changed.
pub fn with(mut plan: Plan, id: &str, change: impl FnOnce(&mut Step)) -> Plan {
    change(plan.steps.iter_mut().find(|step| step.id.as_str() == id).expect("the step exists"));
    plan
}

pub fn report(task: &Task, what: What) -> Report {
    let entry = format!("{}-{}", task.step, task.attempt).into();
    Report::on(task, task.agent_type.clone(), entry, "w1".into(), what)
}

pub fn completed(task: &Task, outputs: serde_json::Value) -> Report {
    Report { outputs: Some(Json::from(outputs)), ..report(task, What::Completed) }
}

pub fn failed(task: &Task, failure: Failure) -> Report {
    Report { failure: Some(failure), ..report(task, What::Failed) }
}

pub fn transient() -> Failure {
    Failure::new(FailureClass::Transient, "HTTP_503", "the service is down")
}

pub fn permanent() -> Failure {
    Failure::new(FailureClass::Permanent, "NOT_FOUND", "there is no such thing")
}

pub fn retrying_due(record: &Record) -> Option<u64> {
    match &record.event {
        Event::Step { event: StepEvent::Retrying(retrying), .. } => Some(retrying.due_ms),
        Event::Step { .. } | Event::Plan(_) => None,
    }
}

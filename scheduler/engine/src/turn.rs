//! One command in progress: what it emits, and what it has changed.

use std::collections::VecDeque;

use goalmill_common::event::{Event, PlanEvent, Record, SkipCause, StepAdded, StepCompleted, StepEvent, StepSkipped};
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::plan::Strategy;
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::apply::apply;
use crate::budget::work_limit::{WorkLimit, part_work_max};
use crate::graph::StepIndex;
use crate::react::react;
use crate::render::StepExpressions;
use crate::sub_plan::family;
use crate::sub_plan::family_plans::{FamilyRequest, FamilyUse};
use crate::{Decision, Effect, EngineContext, PlanState, Rejection, Timer, delayed_start, due_time};

/// One command in progress: events are folded as they are emitted.
pub(crate) struct Turn<'a> {
    pub(crate) state: &'a mut PlanState,
    pub(crate) context: &'a EngineContext,
    pub(crate) now_ms: u64,
    random: u64,
    actor: Option<String>,
    records: Vec<Record>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) requests: Vec<FamilyRequest>,
    /// Steps that became final and whose dependents are not checked yet.
    pub(crate) finished: VecDeque<StepIndex>,
    /// What the family had used up when the turn began.
    pub(crate) family: FamilyUse,
    /// [`PlanState::size`] when the turn began.
    pub(crate) size_before: u64,
    /// [`crate::sub_plan::family::kept_bytes`] when the turn began.
    pub(crate) bytes_before: u64,
    /// Steps whose timer changed, with its previous time.
    dues: Vec<(StepIndex, Option<u64>)>,
    /// Whether the clean-up has started, and none of its steps has been unlocked yet.
    pub(crate) begins_cleanup: bool,
    plan_due: Option<u64>,
    had_room: bool,
    /// The step of a sequential plan whose turn it was.
    in_turn: Option<StepIndex>,
    freed: bool,
    pub(crate) work: WorkLimit,
    /// The `adjustments` of the current report.
    pub(crate) information: Option<Json>,
}

impl<'a> Turn<'a> {
    pub(crate) fn begin(
        state: &'a mut PlanState,
        context: &'a EngineContext,
        now_ms: u64,
        random: u64,
        actor: Option<String>,
    ) -> Self {
        state.meter.begin(part_work_max(&context.limits));
        let (plan_due, had_room, in_turn) = (state.plan_due(), state.has_room(), state.step_in_turn());
        let (size_before, bytes_before) = (state.size.steps(), family::kept_bytes(state));
        // The clock of a new owner may be behind that of the one before.
        let now_ms = now_ms.max(state.updated_ms);
        Self {
            state,
            context,
            now_ms,
            random,
            actor,
            records: Vec::new(),
            effects: Vec::new(),
            requests: Vec::new(),
            finished: VecDeque::new(),
            family: FamilyUse::default(),
            size_before,
            bytes_before,
            dues: Vec::new(),
            begins_cleanup: false,
            plan_due,
            had_room,
            in_turn,
            freed: false,
            work: WorkLimit::default(),
            information: None,
        }
    }

    /// The turn of a submission: `record` is the first event.
    pub(crate) fn begin_with(
        state: &'a mut PlanState,
        record: Record,
        context: &'a EngineContext,
        random: u64,
    ) -> Self {
        let mut turn = Self::begin(state, context, record.time_ms, random, record.actor.clone());
        // Before the first event there was no timer.
        turn.plan_due = None;
        react(turn.state, &record, &mut turn.effects, &mut turn.requests);
        turn.records.push(record);
        turn
    }

    /// Counts a part of the decision: what it adds to the commit, and its expressions.
    pub(crate) fn count_work(&mut self, bytes: usize) {
        self.work.count(bytes, self.state.meter.take_used());
    }

    /// The decision of the turn. Only `finish_turn` calls it, which runs before what is due.
    pub(crate) fn end(mut self) -> Decision {
        self.set_timers();
        if self.work.is_cut() && self.is_active() {
            self.effects.push(Effect::Continue);
        }
        self.offer_step_in_turn();
        self.work.add(0, self.state.meter.take_used());
        self.state.meter.begin(u64::MAX);
        let has_room = self.state.has_room();
        // Plans around it may have waited for a plan that has ended.
        if has_room && (!self.had_room || self.freed) || self.freed && self.state.is_final() {
            self.effects.push(Effect::Room);
        }
        Decision { records: self.records, effects: self.effects, family: self.requests, work: self.work }
    }

    /// Offers the step of a sequential plan that has its turn, if it is another one or is ready again.
    fn offer_step_in_turn(&mut self) {
        let Some(i) = self.state.step_in_turn().filter(|i| self.state.is_offered(*i)) else { return };
        let id = &self.state.plan.step(i).id;
        let is_ready =
            |event: &Event| matches!(event, Event::Step { step, event, .. } if step == id && event.makes_ready());
        if self.in_turn != Some(i) || self.records.iter().any(|record| is_ready(&record.event)) {
            self.effects.push(Effect::Ready(i));
        }
    }

    /// Emits one timer effect for each timer that the command changed.
    fn set_timers(&mut self) {
        self.dues.sort_by_key(|(i, _)| *i);
        self.dues.dedup_by_key(|(i, _)| *i);
        for (i, before) in std::mem::take(&mut self.dues) {
            let due = self.state.steps[i].due_ms();
            if due != before {
                let timer = Timer::Step(i);
                self.effects.push(Effect::Timer(timer, due));
            }
        }
        let due = self.state.plan_due();
        if due != self.plan_due {
            self.effects.push(Effect::Timer(Timer::Plan, due));
        }
    }

    /// Records an event, folds it, and adds its effects.
    fn emit(&mut self, event: Event) {
        let actor = self.actor.clone();
        let record = Record { seq: self.state.seq + 1, time_ms: self.now_ms, actor, event };
        apply(self.state, &record).expect("the engine emits only what the move table allows");
        react(self.state, &record, &mut self.effects, &mut self.requests);
        self.records.push(record);
    }

    pub(crate) fn emit_plan(&mut self, event: PlanEvent) {
        self.emit(Event::Plan(event));
    }

    /// Records an event of the step's current attempt.
    pub(crate) fn emit_step(&mut self, i: StepIndex, event: StepEvent) {
        let attempt = self.state.steps[i].attempt();
        self.emit_attempt(i, attempt, event);
    }

    /// Skips the step.
    pub(crate) fn skip_step(&mut self, i: StepIndex, cause: SkipCause, reason: String) {
        let skipped = StepSkipped { reason, ..StepSkipped::new(cause) };
        self.emit_step(i, StepEvent::Skipped(Box::new(skipped)));
    }

    /// Completes the step with these outputs.
    pub(crate) fn emit_completed(&mut self, i: StepIndex, outputs: Json) {
        let completed = StepCompleted { outputs, ..StepCompleted::default() };
        self.emit_step(i, StepEvent::Completed(Box::new(completed)));
    }

    /// Records an event that begins the step's next attempt.
    pub(crate) fn emit_next(&mut self, i: StepIndex, event: StepEvent) {
        let attempt = self.state.steps[i].attempt() + 1;
        self.emit_attempt(i, attempt, event);
    }

    /// Records the event of a step that is not in the plan yet.
    pub(crate) fn emit_added(&mut self, added: StepAdded) {
        let (step, phase) = (added.step.id.clone(), added.step.phase.as_deref().map(Into::into));
        self.emit(Event::Step { step, attempt: 0, phase, event: StepEvent::Added(Box::new(added)) });
    }

    fn emit_attempt(&mut self, i: StepIndex, attempt: u32, event: StepEvent) {
        let before = &self.state.steps[i];
        let (due, flew) = (before.due_ms(), before.status().is_in_flight());
        let reserves = self.state.monitor.is_some() || !self.state.reservations.is_empty();
        let spec = self.state.plan.step(i);
        let (step, phase) = (spec.id.clone(), spec.phase.as_deref().map(Into::into));
        let makes_ready = event.makes_ready();
        self.emit(Event::Step { step, attempt, phase, event });
        // At the end of the turn, a sequential plan offers the step whose turn it is.
        if makes_ready && self.state.plan.definition().strategy != Strategy::Sequential && self.state.is_offered(i) {
            self.effects.push(Effect::Ready(i));
        }
        let after = &self.state.steps[i];
        if after.due_ms() != due {
            self.dues.push((i, due));
        }
        let holds = reserves || self.state.graph.resource(i).is_some();
        self.freed |= flew && !after.status().is_in_flight() && holds;
        if after.status().is_final() {
            self.finished.push_back(i);
            self.state.loads.remove(Some(i));
        }
    }

    /// Remembers the timers of all steps before the plan's end clears them.
    pub(crate) fn remember_timers(&mut self) {
        let dues = self.state.steps.iter().enumerate().filter(|(_, step)| step.due_ms().is_some());
        self.dues.extend(dues.map(|(i, step)| (StepIndex::new(i), step.due_ms())));
    }

    pub(crate) fn actor(&self) -> Option<&str> {
        self.actor.as_deref()
    }

    pub(crate) fn id_of(&self, i: StepIndex) -> StepId {
        self.state.plan.step(i).id.clone()
    }

    /// Draws the next of several numbers from the envelope's random number.
    ///
    /// Source: G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    pub(crate) fn draw(&mut self) -> u64 {
        let drawn = self.random;
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.random = z ^ (z >> 31);
        drawn
    }

    /// The expressions of a step, as the command sees them.
    pub(crate) fn expressions(&self, i: StepIndex) -> StepExpressions<'_> {
        StepExpressions::new(self.state, i, self.now_ms, &self.context.limits)
    }

    /// Returns the time `ms` milliseconds from now.
    pub(crate) fn after(&self, ms: u64) -> u64 {
        due_time::after(self.now_ms, ms)
    }

    /// Finds a step of the plan.
    pub(crate) fn find(&self, step: &StepId) -> Result<StepIndex, Rejection> {
        self.state.graph.find(step.as_str()).ok_or_else(|| Rejection::UnknownStep { step: step.clone() })
    }

    pub(crate) fn status_of(&self, i: StepIndex) -> StepStatus {
        self.state.steps[i].status()
    }

    /// Whether steps may change: the plan runs, is replanned or is paused.
    pub(crate) fn is_active(&self) -> bool {
        let is_open = matches!(self.state.status, PlanStatus::Running | PlanStatus::Replanning | PlanStatus::Paused);
        is_open && !self.state.is_kept()
    }

    /// Whether parts of the plan may begin: it is active, and its start has come.
    pub(crate) fn is_under_way(&self) -> bool {
        self.is_active() && delayed_start::start_due_ms(self.state).is_none()
    }
}

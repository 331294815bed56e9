//! Turns a command into events and effects.

use std::collections::VecDeque;

use goalmill_common::event::{Event, FamilyGrew, PlanEvent, Record, StepAdded, StepEvent};
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::plan::Strategy;
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::apply::apply;
use crate::attempt::{failure, report, result_cache};
use crate::budget::model_calls;
use crate::budget::work_limit::{WorkLimit, part_work_max};
use crate::graph::{StepIndex, unlock};
use crate::people::hook;
use crate::react::react;
use crate::render::{StepExpressions, payloads};
use crate::revise::{better_plan, propose, streaming};
use crate::sub_plan::family::{FamilyRequest, FamilyUse};
use crate::sub_plan::{family, kept_plans};
use crate::wait::family_events;
use crate::{
    Command, Decision, Effect, EngineContext, Envelope, PlanState, Rejection, Timer, attempt, cleanup, criteria,
    requests, sub_plan, submit,
};

/// Turns a command into events, folds them into the state, and names the effects.
///
/// Reads no clock and draws no number: both are in the envelope, so the same inputs give the same events. On a
/// rejection the state is as before. The records continue the state's sequence; the state is ahead of the journal
/// until they are committed. What the plan asks of its family goes into a [`crate::FamilyQueue`].
pub fn decide(state: &mut PlanState, context: &EngineContext, envelope: Envelope) -> Result<Decision, Rejection> {
    let Envelope { now_ms, random, actor, family, command } = envelope;
    if state.is_final() {
        return Err(Rejection::Final { status: state.status });
    }
    if kept_plans::is_kept(state) && !matches!(command, Command::EndKept(_) | Command::SubPlanEnded { .. }) {
        return Err(kept_plans::refuse_kept(state));
    }
    let mut turn = Turn::begin(state, context, now_ms, random, actor);
    family::join_family(&mut turn, family);
    match command {
        Command::Verb(verb) => requests::handle_verb(&mut turn, verb)?,
        Command::Planned { revision, answer } if model_calls::awaits_revision(turn.state, revision) => {
            propose::revised(&mut turn, answer)?;
        }
        Command::Planned { revision, answer } => submit::planned(&mut turn, revision, answer)?,
        Command::ModelAsked(asked) => submit::model_asked(&mut turn, *asked)?,
        Command::ToolsCalled(called) => submit::tools_called(&mut turn, called)?,
        Command::ModelAnswered(answered) => submit::model_answered(&mut turn, *answered),
        Command::Judged(judged) => criteria::judged(&mut turn, *judged)?,
        Command::AddSteps { steps } => streaming::add_steps(&mut turn, steps)?,
        Command::ClosePlan(closing) => streaming::close_plan(&mut turn, *closing)?,
        Command::BetterPlan(planned) => better_plan::take_better_plan(&mut turn, *planned)?,
        Command::Dispatch(i) => attempt::dispatch_step(&mut turn, i)?,
        Command::CacheLookedUp { step, key, outputs } => {
            result_cache::handle_cache_lookup(&mut turn, step, &key, outputs)?;
        }
        Command::PayloadsLoaded { step, payloads } => payloads::payloads_loaded(&mut turn, step, payloads)?,
        Command::HookAnswered(answer) => hook::hook_answered(&mut turn, *answer)?,
        Command::Report(report) => report::receive_report(&mut turn, *report)?,
        Command::Due(Timer::Plan) => requests::handle_plan_timer(&mut turn)?,
        Command::Due(Timer::Step(i)) => attempt::handle_step_timer(&mut turn, i)?,
        Command::Continue => unlock::unlock_steps(&mut turn),
        Command::FamilyGrew { steps, bytes } => family::grow_family(&mut turn, FamilyGrew { steps, bytes }),
        Command::EventTaken(taken) => family_events::event_taken(&mut turn, taken),
        Command::SubPlanEnded { step, attempt, end } => sub_plan::sub_plan_ended(&mut turn, &step, attempt, *end)?,
        Command::EndKept(fate) => kept_plans::end_kept(&mut turn, *fate)?,
    }
    Ok(turn.end())
}

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
    fn begin(
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

    pub(crate) fn end(mut self) -> Decision {
        if self.begins_cleanup {
            cleanup::advance_cleanup(&mut self);
        }
        if !self.state.is_final()
            && !kept_plans::is_kept(self.state)
            && self.state.seq >= cleanup::events_end(self.state, &self.context.limits)
        {
            failure::fail_for_events(&mut self);
            if self.begins_cleanup {
                cleanup::advance_cleanup(&mut self);
            }
        }
        family::report_growth(&mut self);
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
            payloads::forget_payloads(self, i);
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
        after(self.now_ms, ms)
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
        is_open && !kept_plans::is_kept(self.state)
    }
}

/// Returns the time `ms` milliseconds after `now_ms`. Never 0, which means no time.
pub(crate) fn after(now_ms: u64, ms: u64) -> u64 {
    now_ms.saturating_add(ms).max(1)
}

pub(crate) fn not_allowed(reason: impl Into<String>) -> Rejection {
    Rejection::NotAllowed { reason: reason.into() }
}

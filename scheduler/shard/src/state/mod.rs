//! The state of a shard in its owner's memory. No I/O.

use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};

use goalmill_common::clock::Clock;
use goalmill_common::hash::HashMap;
use goalmill_common::id::{AgentType, PlanId, ShardId};
use goalmill_common::keys::Keys;
use goalmill_common::random::Random;
use goalmill_engine::{
    Command, Effect, Engine, EngineContext, FamilyCommand, PlanState, Rejection, StepIndex, pending,
};

use crate::Slot;
use crate::active_plan::ActivePlan;
use crate::ignored_entries::IgnoredEntries;
use crate::observer::{NamespaceCounter, ShardObserver};
use crate::parked_plans::ParkedPlans;
use crate::quota::Unlimited;
use crate::ready_set::ReadySet;
use crate::recently_finished::{BegunPlan, RecentlyFinished, StatusSnapshot};
use crate::timers::Timers;
use crate::turn::ShardTurn;

mod commit;
mod counts;
mod dispatch;
mod effects;
mod family;
mod inputs;
mod parking;
mod reconcile;

pub(crate) use commit::{SealedEvents, SealedTurn};
pub use parking::UnreadPlan;

/// Tasks in the first of several turns, small so that workers start early.
const TASKS_FIRST: usize = 50;
/// How long a turn takes inputs, in milliseconds; all of them get the time of its start.
const TURN_MS_MAX: u64 = 100;

/// Everything that an owner has in memory of its shard.
pub struct ShardState {
    shard: ShardId,
    pub(crate) context: EngineContext,
    clock: Clock,
    random: Random,
    keys: Keys,
    retention_ms: u64,
    /// Boxed, because a growing map moves its values.
    plans: HashMap<Slot, Box<ActivePlan>>,
    slots: HashMap<PlanId, Slot>,
    last_slot: Slot,
    ready: ReadySet,
    timers: Timers,
    /// Plans with an outdated summary, and when it must be written, Unix milliseconds; oldest first.
    behind: VecDeque<(u64, Slot)>,
    /// Dispatched steps and their queues.
    in_flight: HashMap<(Slot, StepIndex), AgentType>,
    outstanding: HashMap<AgentType, u32>,
    /// Queues that may hold tasks of stopped attempts.
    stopped: BTreeSet<AgentType>,
    parked: ParkedPlans,
    /// Plans that only wait for longer than that are parked, in milliseconds; 0 for none.
    park_ms: u64,
    /// Plans whose last decision stopped at the work limit.
    unsettled: VecDeque<Slot>,
    recently_finished: RecentlyFinished,
    /// The plan over which the engine panicked.
    broken: Option<PlanId>,
    /// Plans that are not worked on.
    quarantined: BTreeSet<PlanId>,
    turn: ShardTurn,
    now_ms: u64,
    /// When the loop last started to take inputs, Unix milliseconds.
    turn_begun_ms: u64,
    /// Whether the last dispatch ended because the turn was full.
    has_more: bool,
    /// Tasks of one turn at most.
    tasks_max: usize,
    observer: Box<dyn ShardObserver>,
    /// `None` unless a namespace has a limit.
    namespaces: Option<Box<dyn NamespaceCounter>>,
    engine: Engine,
    ignored: IgnoredEntries,
}

impl ShardState {
    /// A shard without plans.
    ///
    /// - `retention_ms`: how long a plan stays in the store after its end.
    pub fn new(shard: ShardId, context: EngineContext, clock: Clock, random: Random, retention_ms: u64) -> Self {
        let (now_ms, steady_ms) = (clock.now_ms(), clock.steady_ms());
        Self {
            shard,
            context,
            clock,
            random,
            keys: Keys::default(),
            retention_ms,
            plans: HashMap::default(),
            slots: HashMap::default(),
            last_slot: 0,
            ready: ReadySet::default(),
            timers: Timers::default(),
            behind: VecDeque::new(),
            in_flight: HashMap::default(),
            outstanding: HashMap::default(),
            stopped: BTreeSet::new(),
            parked: ParkedPlans::default(),
            park_ms: 0,
            unsettled: VecDeque::new(),
            recently_finished: RecentlyFinished::new(steady_ms),
            broken: None,
            quarantined: BTreeSet::new(),
            turn: ShardTurn::default(),
            now_ms,
            turn_begun_ms: now_ms,
            has_more: false,
            tasks_max: TASKS_FIRST,
            observer: Box::new(()),
            namespaces: None,
            engine: Engine::default(),
            ignored: IgnoredEntries::default(),
        }
    }

    /// Names the keys of the installation.
    pub fn set_keys(&mut self, keys: Keys) {
        self.keys = keys;
    }

    /// Lets `observer` learn what happens.
    pub fn set_observer(&mut self, observer: Box<dyn ShardObserver>) {
        self.observer = observer;
    }

    /// Replaces the entry points of the engine, to inject faults.
    pub fn use_engine(&mut self, engine: Engine) {
        self.engine = engine;
    }

    /// Rejects all requests for these plans.
    pub fn set_quarantined(&mut self, plans: BTreeSet<PlanId>) {
        self.quarantined = plans;
    }

    /// Counts what namespaces use, and holds their steps back.
    pub fn limit_namespaces(&mut self, counter: Box<dyn NamespaceCounter>) {
        self.namespaces = Some(counter);
    }

    /// Adds plans that were folded from their logs; each starts with [`ShardState::resume_plan`].
    ///
    /// All are added before the first effect, because a plan may start a sub-plan that is among them.
    pub fn add_recovered(&mut self, plans: Vec<PlanState>) -> Vec<Slot> {
        let slots: Vec<Slot> = plans.into_iter().map(|state| self.insert_plan(ActivePlan::new(state))).collect();
        for slot in &slots {
            let state = &self.plans[slot].state;
            for step in state.steps_in_flight() {
                if let Some(agent_type) = state.queue(step).filter(|queue| !queue.as_str().is_empty()) {
                    self.in_flight.insert((*slot, step), agent_type.clone());
                    *self.outstanding.entry(agent_type.clone()).or_default() += 1;
                    if let Some(in_use) = &mut self.namespaces {
                        in_use.add_step(&state.namespace());
                    }
                }
            }
        }
        slots
    }

    /// Repeats what may not have been done for a recovered plan.
    pub fn resume_plan(&mut self, slot: Slot) {
        // The end of another plan may have ended this one.
        if !self.plans.contains_key(&slot) {
            return;
        }
        // The previous owner may have left an outdated summary.
        self.behind.push_back((self.now_ms, slot));
        // It fails only when the engine panics, which is noted.
        drop(self.decide_in_family(None, FamilyCommand::Resume { key: slot }));
    }

    /// The id of a plan.
    pub fn id_at(&self, slot: Slot) -> Option<&PlanId> {
        self.plans.get(&slot).map(|plan| plan.state.id())
    }

    /// Whether a recovered plan has effects that are due.
    pub fn is_busy(&self, slot: Slot) -> bool {
        let state = &self.plans[&slot].state;
        let waits =
            |effect: &Effect| matches!(effect, Effect::Timer(_, due) if due.is_none_or(|due| due > self.now_ms));
        let pending = pending(state, &self.context);
        pending.has_requests() || !pending.effects.iter().all(waits)
    }

    /// Runs turns until nothing is left to do, without writing them.
    pub fn run_to_idle(&mut self) {
        loop {
            self.fire_timers();
            self.continue_decisions();
            self.dispatch(&Unlimited);
            drop(self.build_commit("", 1, false));
            if self.broken.is_some() || !self.has_more() {
                return;
            }
            self.begin_turn();
        }
    }

    /// The plan over which the engine panicked in this turn: nothing of the turn may be written.
    pub fn broken(&self) -> Option<&PlanId> {
        self.broken.as_ref()
    }

    /// Plans that are not final.
    pub fn plans_count(&self) -> usize {
        self.plans.len() + self.parked.len()
    }

    /// Whether the status of a submitted plan is known; `snapshot` is its earlier status in the store.
    pub fn knows_status(&mut self, plan: &PlanId, snapshot: Option<StatusSnapshot>) -> bool {
        if self.slots.contains_key(plan) || self.is_parked(plan) {
            return true;
        }
        let seen = snapshot.filter(|snapshot| self.recently_finished.is_current(snapshot));
        let is_seen = seen.is_some();
        let ended = self.recently_finished.get(plan).cloned().or(seen.and_then(|snapshot| snapshot.begun));
        let is_known = is_seen || ended.is_some();
        if let Some(begun) = ended {
            self.mark_finished(plan.clone(), begun);
        }
        is_known
    }

    /// Notes for this turn that a plan has finished.
    pub fn mark_finished(&mut self, plan: PlanId, begun: BegunPlan) {
        self.turn.finished.insert(plan, begun);
    }

    /// When the next timer is due, Unix milliseconds.
    pub fn next_due_ms(&self) -> Option<u64> {
        let behind = self.behind.front().map(|(due, _)| *due);
        self.timers.next_ms().into_iter().chain(behind).chain(self.parked.next_ms()).min()
    }

    /// Starts or continues a turn. All its events carry the same time, because a log entry has only one.
    pub fn begin_turn(&mut self) {
        self.turn_begun_ms = self.clock.now_ms();
        if !self.has_events() {
            self.now_ms = self.now_ms.max(self.turn_begun_ms);
        }
    }

    /// Whether the turn has events already.
    pub fn has_events(&self) -> bool {
        !self.turn.changed.is_empty()
    }

    /// Whether actions follow from the turn.
    pub(crate) fn has_actions(&self) -> bool {
        !self.turn.post_commit.is_empty()
    }

    /// How many more inputs the turn takes.
    pub fn room(&self) -> usize {
        let is_old = self.has_events() && self.clock.now_ms() > self.now_ms + TURN_MS_MAX;
        if is_old { 0 } else { self.turn.room() }
    }

    /// Whether steps or decisions are left for which the last turn had no room.
    pub fn has_more(&self) -> bool {
        self.has_more && self.turn.has_room_for_tasks(self.tasks_max) || !self.unsettled.is_empty() && self.room() > 0
    }

    /// Whether the turn has room and time for one more input.
    pub fn takes_more(&self) -> bool {
        self.turn.room() > 0 && !self.is_out_of_time()
    }

    /// Whether the time of the turn is over.
    fn is_out_of_time(&self) -> bool {
        self.clock.now_ms() > self.turn_begun_ms + TURN_MS_MAX
    }

    /// Handles all due timers.
    pub fn fire_timers(&mut self) {
        self.write_outdated_summaries();
        while self.takes_more() && self.fire_timer() {}
    }

    /// Handles the next due timer. Returns whether there was one.
    pub(crate) fn fire_timer(&mut self) -> bool {
        let Some((slot, timer)) = self.timers.pop(self.now_ms) else { return false };
        if self.plans.contains_key(&slot) {
            // It may be superseded.
            let command = FamilyCommand::Decide { key: slot, command: Command::Due(timer) };
            drop(self.decide_in_family(Some("timer"), command));
        }
        true
    }

    /// Continues decisions that stopped at the work limit.
    pub fn continue_decisions(&mut self) {
        while self.takes_more() {
            let Some(slot) = self.unsettled.pop_front() else { return };
            if self.plans.contains_key(&slot) {
                // The plan may have ended before its decision was complete.
                drop(self.decide_in_family(None, FamilyCommand::Decide { key: slot, command: Command::Continue }));
            }
        }
    }

    /// Adds plans with outdated summaries to the turn.
    pub(crate) fn write_outdated_summaries(&mut self) {
        while self.turn.room() > 0 {
            let Some((_, slot)) = self.behind.pop_front_if(|(due, _)| *due <= self.now_ms) else { return };
            if let Some(plan) = self.plans.get_mut(&slot)
                && plan.is_summary_due()
            {
                self.turn.count_input();
                self.turn.changed.extend(plan.enter_turn().then_some(slot));
            }
        }
    }

    fn insert_plan(&mut self, plan: ActivePlan) -> Slot {
        if let (Some(in_use), None) = (&mut self.namespaces, plan.state.parent()) {
            in_use.add_plan(&plan.state.namespace(), plan.state.id());
        }
        self.hold_plan(plan)
    }

    /// Holds a plan that is counted for its namespace.
    fn hold_plan(&mut self, plan: ActivePlan) -> Slot {
        self.last_slot += 1;
        let slot = self.last_slot;
        self.slots.insert(plan.state.id().clone(), slot);
        self.plans.insert(slot, Box::new(plan));
        slot
    }

    fn remove_plan(&mut self, slot: Slot) -> Option<Box<ActivePlan>> {
        let plan = self.plans.remove(&slot);
        if let Some(plan) = &plan {
            self.slots.remove(plan.state.id());
            if let (Some(in_use), None) = (&mut self.namespaces, plan.state.parent()) {
                in_use.remove_plan(&plan.state.namespace());
            }
        }
        self.ready.forget(slot);
        plan
    }
}

/// Runs the engine over a plan; it is rejected when the engine panics. A half-changed state is never used: the loop ends
/// before anything of the turn is written.
fn run_engine<T>(
    observer: &dyn ShardObserver,
    broken: &mut Option<PlanId>,
    plan: &PlanId,
    run: impl FnOnce() -> T,
) -> Result<T, Rejection> {
    observer.begin_decision(plan);
    let done = catch_unwind(AssertUnwindSafe(run));
    observer.end_decision();
    done.map_err(|_| {
        *broken = Some(plan.clone());
        Rejection::NotAllowed { reason: "the engine panicked over the plan".into() }
    })
}

#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod parking_tests;
#[cfg(test)]
pub(crate) mod tests;

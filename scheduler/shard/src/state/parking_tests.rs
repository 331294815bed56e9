use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use goalmill_common::command::{Request, Verb};
use goalmill_common::commit::Commit;
use goalmill_common::event::read_entry;
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::goal::Goal;
use goalmill_common::id::Namespace;
use goalmill_common::park_mark::ParkMark;
use goalmill_common::plan::{Approval, Plan, Step, StepKind, StepWait};
use goalmill_common::status::PlanStatus;
use goalmill_engine::replay;

use super::tests::{PLAN, empty, submit};
use super::*;
use crate::post_commit::PostCommit;
use crate::{RequestResult, ShardMessage};

const START_MS: u64 = 1_795_293_490_000;
const HOUR_MS: u64 = 3_600_000;

/// A shard with a clock, and the log of its plan.
struct ParkingWorld {
    shard: ShardState,
    now_ms: Arc<AtomicU64>,
    log: Option<PlanState>,
    /// As the summary has it.
    mark: Option<ParkMark>,
    /// Plans whose waits are not registered yet.
    registering: Vec<PlanId>,
}

fn shard(now_ms: Arc<AtomicU64>) -> ShardState {
    let mut shard = empty();
    shard.clock = Clock::from_fn(move || now_ms.load(Ordering::Relaxed));
    shard.set_parking(60_000);
    shard
}

impl ParkingWorld {
    fn of(plan: Plan) -> Self {
        let now_ms = Arc::new(AtomicU64::new(START_MS));
        let mut shard = shard(now_ms.clone());
        submit(&mut shard, PLAN, Goal::default(), plan);
        let mut world = Self { shard, now_ms, log: None, mark: None, registering: Vec::new() };
        world.write();
        world
    }

    /// Writes turns until there is nothing to write.
    fn write(&mut self) {
        loop {
            self.shard.begin_turn();
            self.shard.fire_timers();
            self.shard.dispatch(&Unlimited);
            let (mut commit, sealed) = self.shard.build_commit("t", 1, false);
            commit.iter_mut().for_each(|commit| sealed.encode_events(commit));
            for action in self.shard.finish_commit(sealed) {
                if let PostCommit::AwaitEvent(wait) = action {
                    self.registering.push(wait.plan_id);
                }
            }
            let Some(commit) = commit else { return };
            self.fold(&commit);
            // Summaries are written a second later.
            self.now_ms.fetch_add(1_000, Ordering::Relaxed);
        }
    }

    /// Says that all waits are registered, and writes what follows.
    fn register(&mut self) {
        for plan in std::mem::take(&mut self.registering) {
            self.shard.handle_message(ShardMessage::WaitRegistered(plan));
        }
        self.write();
    }

    /// Another owner, which has only read the summary.
    fn change_owner(&mut self) {
        let (plan, seq) = (PlanId::from(PLAN), self.log.as_ref().map(PlanState::seq));
        let mark = self.mark.clone().filter(|mark| Some(mark.seq) == seq).expect("the mark holds");
        self.shard = shard(self.now_ms.clone());
        self.shard.add_parked(vec![UnreadPlan { plan, mark, namespace: Namespace::default() }]);
    }

    fn fold(&mut self, commit: &Commit) {
        let fields = commit.plans.iter().flat_map(|write| &write.summary);
        for (_, text) in fields.filter(|(name, _)| *name == ParkMark::FIELD) {
            self.mark = Some(ParkMark::parse(text).expect("it is a mark"));
        }
        for write in commit.plans.iter().filter(|write| !write.events.is_empty()) {
            let time_ms = goalmill_common::clock::parse_rfc3339(&write.time).expect("it is a time");
            let text = String::from_utf8(write.events.clone()).expect("JSON is UTF-8");
            for record in read_entry(&text, time_ms).expect("it can be read") {
                replay(&mut self.log, &record).expect("it adds up");
            }
        }
    }

    /// What the loop does before the inputs of a turn.
    fn wake(&mut self, asked: bool) -> usize {
        let due = self.shard.parked_due();
        let is_asked = asked && self.shard.is_parked(&PLAN.into());
        if is_asked || !due.is_empty() {
            self.shard.unpark(self.log.clone().expect("it has a log"));
        }
        due.len()
    }

    fn ask(&mut self, verb: Verb) -> RequestResult {
        self.wake(true);
        self.shard.handle_request(Request { plan: PLAN.into(), actor: "test".into(), answer: None, verb })
    }

    fn is_parked(&self) -> bool {
        assert_eq!(self.shard.plans_count(), 1, "it is in one place");
        self.shard.is_parked(&PLAN.into())
    }

    fn status(&self) -> Option<PlanStatus> {
        self.log.as_ref().map(PlanState::status)
    }
}

fn wait(id: &str, wait: StepWait) -> Step {
    let mut step = Step::new(id, "");
    (step.kind, step.wait) = (StepKind::Wait, Some(Box::new(wait)));
    step
}

fn pause(for_ms: u64) -> Plan {
    let pause = wait("pause", StepWait { for_ms: Some(for_ms), ..StepWait::default() });
    Plan { steps: vec![pause], ..Plan::default() }
}

#[test]
fn a_plan_that_waits_for_long_is_parked_and_comes_back_at_its_time() {
    let mut world = ParkingWorld::of(pause(HOUR_MS));
    assert!(world.is_parked());
    assert_eq!((world.shard.plans.len(), world.shard.timers.next_ms()), (0, None));
    assert_eq!(world.shard.counts().by_state().map(|(_, count, _)| count).sum::<u64>(), 1);
    assert!(world.shard.knows_status(&PLAN.into(), None));
    let due = world.shard.next_due_ms().expect("it has a timer");
    assert_eq!(due, START_MS + HOUR_MS);
    world.now_ms.store(due - 1, Ordering::Relaxed);
    assert_eq!(world.wake(false), 0);
    world.now_ms.store(due, Ordering::Relaxed);
    assert_eq!(world.wake(false), 1);
    world.write();
    assert_eq!(world.status(), Some(PlanStatus::Completed));
}

#[test]
fn a_plan_that_waits_for_a_moment_or_works_stays() {
    assert!(!ParkingWorld::of(pause(30_000)).is_parked());
    let mut both = pause(HOUR_MS);
    both.steps.push(Step::new("work", "w"));
    assert!(!ParkingWorld::of(both).is_parked());
    let mut world = ParkingWorld::of(pause(HOUR_MS));
    world.shard.set_parking(0);
    world.ask(Verb::Pause { reason: String::new() }).expect("it runs");
    world.write();
    assert!(!world.is_parked(), "nothing is parked without a time");
}

#[test]
fn a_request_brings_a_plan_back_and_it_is_parked_again() {
    let mut world = ParkingWorld::of(pause(HOUR_MS));
    world.ask(Verb::Pause { reason: String::new() }).expect("it runs");
    world.write();
    assert!(world.is_parked());
    let refused = world.ask(Verb::Approve { reason: String::new() });
    assert!(refused.is_err() && !world.is_parked());
    world.write();
    assert!(world.is_parked(), "also when nothing came of it");
    world.ask(Verb::Cancel { reason: String::new() }).expect("it is open");
    world.write();
    assert_eq!((world.shard.plans_count(), world.status()), (0, Some(PlanStatus::Cancelled)));
}

#[test]
fn an_event_and_an_approval_are_awaited_without_memory() {
    let paid = wait("paid", StepWait { event: Some("payment".into()), ..StepWait::default() });
    let mut world = ParkingWorld::of(Plan { steps: vec![paid], ..Plan::default() });
    assert!(!world.is_parked() && world.mark.is_none(), "nobody could find it");
    world.register();
    assert!(world.is_parked());
    let event =
        ExternalEvent { id: "1".into(), name: "payment".into(), key: String::new(), data: serde_json::json!(7).into() };
    world.ask(Verb::SendEvent { event: Box::new(event), waiting_only: true }).expect("it waits");
    world.write();
    assert_eq!(world.status(), Some(PlanStatus::Completed));

    let approve = Some(Approval::default());
    let mut world = ParkingWorld::of(Plan { approve, ..pause(1) });
    assert!(world.is_parked());
    world.ask(Verb::Approve { reason: String::new() }).expect("it waits");
    world.now_ms.fetch_add(10, Ordering::Relaxed);
    world.write();
    assert_eq!(world.status(), Some(PlanStatus::Completed));
}

#[test]
fn a_new_owner_knows_a_plan_that_only_waits_without_its_log() {
    let mut world = ParkingWorld::of(pause(HOUR_MS));
    let before = world.shard.counts();
    world.change_owner();
    assert!(world.is_parked());
    assert_eq!(world.shard.counts(), before);
    let due = world.shard.next_due_ms().expect("it has a timer");
    assert_eq!(due, START_MS + HOUR_MS);
    world.ask(Verb::Pause { reason: String::new() }).expect("it runs");
    world.write();
    assert!(world.is_parked());
    world.change_owner();
    world.ask(Verb::Resume { reason: String::new() }).expect("it is paused");
    world.write();
    world.change_owner();
    world.now_ms.store(due, Ordering::Relaxed);
    assert_eq!(world.wake(false), 1);
    world.write();
    assert_eq!(world.status(), Some(PlanStatus::Completed));
}

#[test]
fn a_mark_is_not_written_with_events_that_outdate_it() {
    let mut world = ParkingWorld::of(pause(HOUR_MS));
    world.ask(Verb::Pause { reason: String::new() }).expect("it runs");
    let mark = world.mark.clone();
    // The mark of the paused plan is due, and the plan continues in the same turn.
    for verb in [None, Some(Verb::Resume { reason: String::new() })] {
        if let Some(verb) = verb {
            world
                .shard
                .handle_request(Request { plan: PLAN.into(), actor: "test".into(), answer: None, verb })
                .expect("ok");
        }
        let (mut commit, sealed) = world.shard.build_commit("t", 1, false);
        commit.iter_mut().for_each(|commit| sealed.encode_events(commit));
        drop(world.shard.finish_commit(sealed));
        world.fold(&commit.expect("there are events"));
    }
    assert_eq!(world.mark, mark);
    world.write();
    assert!(world.is_parked());
    assert_eq!(world.mark.map(|mark| Some(mark.seq)), Some(world.log.as_ref().map(PlanState::seq)));
}

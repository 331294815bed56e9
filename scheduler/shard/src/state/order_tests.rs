//! Tests of the order in which ready steps become tasks.

use goalmill_common::command::{Request, Verb};
use goalmill_common::goal::{Goal, Priority};
use goalmill_common::hash::HashMap;
use goalmill_common::id::AgentType;
use goalmill_common::json::Json;
use goalmill_common::plan::{Cache, Estimates, Plan, Step, StepKind, Strategy};
use goalmill_common::report::{Report, What};
use goalmill_common::revision::Change;
use goalmill_common::task::Task;
use goalmill_common::wire;
use goalmill_engine::Command;

use super::tests::{PLAN, empty, submit};
use super::*;
use crate::ShardMessage;
use crate::quota::Quota;

/// Agent types with fewer places than all others.
#[derive(Default)]
struct Windows(HashMap<AgentType, u32>);

impl Windows {
    fn of(windows: &[(&str, u32)]) -> Self {
        Self(windows.iter().map(|(agent_type, window)| ((*agent_type).into(), *window)).collect())
    }
}

impl Quota for Windows {
    fn in_flight_max(&self, agent_type: &AgentType) -> u32 {
        self.0.get(agent_type).copied().unwrap_or(u32::MAX)
    }
}

fn step(id: &str, agent_type: &str, priority: u8) -> Step {
    Step { priority: Some(Priority(priority)), ..Step::new(id, agent_type) }
}

fn narrow(max_parallel: u32, steps: Vec<Step>) -> Plan {
    Plan { max_parallel: Some(max_parallel), steps, ..Plan::default() }
}

fn add(shard: &mut ShardState, id: &str, namespace: &str, plan: Plan) {
    let goal = Goal { namespace: Some(namespace.into()), ..Goal::default() };
    submit(shard, &format!("p0-{id}"), goal, plan);
}

/// Runs the loop until tasks are sent or nothing is left to send; returns the tasks in the order in which they are sent.
fn turn(shard: &mut ShardState, quota: &dyn Quota) -> Vec<Task> {
    loop {
        shard.dispatch(quota);
        let tasks = shard.turn.tasks.iter().map(|task| wire::read_task(&task.data).expect("it was just written"));
        let tasks: Vec<Task> = tasks.collect();
        let is_over = !tasks.is_empty() || !shard.has_more;
        drop(shard.build_commit("token", 1, false));
        shard.begin_turn();
        if is_over {
            return tasks;
        }
    }
}

fn complete(shard: &mut ShardState, task: &Task) {
    let mut report = Report::on(task, task.agent_type.clone(), "1-1".into(), "w1".into(), What::Completed);
    report.outputs = Some(Json::default());
    shard.handle_report(report);
}

/// Runs all to the end; each turn completes the tasks that were sent in the one before, and may send `most`.
fn run(shard: &mut ShardState, quota: &dyn Quota, most: usize) -> Vec<String> {
    let mut order = Vec::new();
    loop {
        let tasks = turn(shard, quota);
        assert!(tasks.len() <= most, "{tasks:?}");
        if tasks.is_empty() {
            return order;
        }
        for task in tasks {
            order.push(task.step.to_string());
            complete(shard, &task);
        }
    }
}

#[test]
fn a_sequential_plan_sends_the_steps_of_its_list_in_order() {
    let mut shard = empty();
    let steps = vec![step("first", "sleep", 1), step("second", "echo", 10), step("third", "alpha", 5)];
    submit(&mut shard, PLAN, Goal::default(), Plan { strategy: Strategy::Sequential, steps, ..Plan::default() });
    assert_eq!(run(&mut shard, &Windows::default(), 1), ["first", "second", "third"]);
}

#[test]
fn a_plan_with_one_place_takes_the_most_urgent_step_over_all_agent_types() {
    for strategy in [Strategy::Parallel, Strategy::Adaptive] {
        let mut shard = empty();
        let mut steps = vec![
            step("low", "alpha", 2),
            step("high", "zeta", 10),
            Step { kind: StepKind::Message, ..step("say", "", 1) },
            step("middle", "beta", 5),
            step("chain", "omega", 5),
        ];
        steps.push(Step { dependencies: vec!["chain".into()], ..step("end", "alpha", 5) });
        submit(&mut shard, PLAN, Goal::default(), Plan { strategy, ..narrow(1, steps) });
        assert_eq!(run(&mut shard, &Windows::default(), 1), ["high", "chain", "middle", "end", "low"], "{strategy:?}");
        assert_eq!(shard.plans_count(), 0, "the message came last, and the plan has ended");
    }
}

#[test]
fn a_full_queue_holds_back_neither_other_agent_types_nor_the_places_of_its_plan() {
    let mut shard = empty();
    add(&mut shard, "other", "", narrow(9, vec![step("holds", "full", 10)]));
    let closed = Windows::of(&[("full", 1)]);
    let held = turn(&mut shard, &closed);
    assert_eq!(held.len(), 1);
    let steps = vec![step("urgent", "full", 9), step("next", "alpha", 5), step("last", "beta", 1)];
    add(&mut shard, "narrow", "", narrow(1, steps));
    let sent = turn(&mut shard, &closed);
    assert_eq!(sent.iter().map(|task| task.step.as_str()).collect::<Vec<_>>(), ["next"], "its queue is open");
    assert!(turn(&mut shard, &closed).is_empty());
    complete(&mut shard, &held[0]);
    complete(&mut shard, &sent[0]);
    assert_eq!(run(&mut shard, &closed, 1), ["urgent", "last"], "the queue is open again");
}

#[test]
fn priority_holds_across_plans_and_agent_types_when_a_turn_is_full() {
    let mut shard = empty();
    let bulk = (0..200).map(|n| step(&format!("s{n}"), "alpha", 5)).collect();
    add(&mut shard, "bulk", "", Plan { steps: bulk, ..Plan::default() });
    add(&mut shard, "urgent", "", Plan { steps: vec![step("urgent", "zeta", 10)], ..Plan::default() });
    let first = turn(&mut shard, &Windows::default());
    assert_eq!((first[0].step.as_str(), first.len()), ("urgent", TASKS_FIRST));
}

#[test]
fn a_large_namespace_leaves_room_in_each_turn_for_those_with_other_agent_types() {
    let mut shard = empty();
    let long = |n| Step {
        estimates: Estimates { seconds: Some(100.0), ..Estimates::default() },
        ..step(&format!("s{n}"), "alpha", 5)
    };
    add(&mut shard, "bulk", "large", Plan { steps: (0..200).map(long).collect(), ..Plan::default() });
    for id in ["one", "two"] {
        add(&mut shard, id, id, Plan { steps: vec![step(id, "zeta", 5)], ..Plan::default() });
    }
    let first = turn(&mut shard, &Windows::default());
    let of_small = first.iter().take(3).filter(|task| task.agent_type.as_str() == "zeta").count();
    assert_eq!(of_small, 2, "the large one has one of the first three places");
}

#[test]
fn a_lookup_in_the_cache_keeps_the_place_of_its_step() {
    let mut shard = empty();
    let cached = Step { cache: Some(Cache { key: "k".into(), ttl_ms: 60_000 }), ..step("cached", "zeta", 10) };
    submit(&mut shard, PLAN, Goal::default(), narrow(1, vec![step("low", "alpha", 1), cached]));
    assert!(turn(&mut shard, &Windows::default()).is_empty(), "the outputs of `cached` are looked up");
    let slot = shard.slots[&PlanId::from(PLAN)];
    let step = shard.plans[&slot].state.step_index(&"cached".into()).expect("it is there");
    let command = Box::new(Command::CacheLookedUp { step, key: String::new(), outputs: None });
    shard.handle_message(ShardMessage::Command { plan: PLAN.into(), command, request: None, reply: None });
    assert_eq!(run(&mut shard, &Windows::default(), 1), ["cached", "low"]);
}

#[test]
fn a_revision_that_makes_a_ready_step_more_urgent_changes_the_order() {
    let mut shard = empty();
    let steps = vec![step("a", "w", 5), step("b", "w", 5), step("c", "w", 1)];
    submit(&mut shard, PLAN, Goal::default(), narrow(1, steps));
    let first = turn(&mut shard, &Windows::default());
    let change = Change::ModifyStep { step: Box::new(step("c", "w", 9)) };
    let verb = Verb::Edit { changes: vec![change], revision: None, reason: String::new() };
    let request = Request { plan: PLAN.into(), actor: "test".into(), answer: None, verb };
    shard.handle_request(request).expect("it is allowed");
    complete(&mut shard, &first[0]);
    assert_eq!(run(&mut shard, &Windows::default(), 1), ["c", "b"]);
}

#[test]
fn many_ready_steps_are_sent_without_a_scan_for_each() {
    const STEPS: usize = 10_000;
    const PLANS: usize = 10;
    let mut shard = empty();
    for plan in 0..PLANS {
        let steps = (0..STEPS).map(|n| step(&format!("s{n}"), if n % 2 == 0 { "even" } else { "odd" }, 5)).collect();
        add(&mut shard, &plan.to_string(), "", Plan { steps, ..Plan::default() });
    }
    let mut sent = 0;
    while sent < PLANS * STEPS {
        let tasks = turn(&mut shard, &Windows::default());
        assert!(!tasks.is_empty(), "{sent} were sent");
        sent += tasks.len();
    }
    assert_eq!(sent, PLANS * STEPS);
}

//! Whose turn it is: the list of a sequential plan, and the places of a plan that runs few steps concurrently.

use goalmill_common::command::Verb;
use goalmill_common::goal::Priority;
use goalmill_common::plan::{Plan, Step, StepKind, Strategy};
use goalmill_common::revision::Change;
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{Command, Effect, Rejection, explain, pending};
use serde_json::json;

use crate::world::{World, completed, failed, plan, transient, with};

fn sequential(plan: Plan) -> Plan {
    Plan { strategy: Strategy::Sequential, ..plan }
}

/// The steps that may be dispatched now.
fn open(world: &World) -> Vec<String> {
    let ids = world.state.plan().steps.iter().map(|step| step.id.to_string());
    ids.filter(|id| world.state.can_dispatch(world.index(id))).collect()
}

#[test]
fn a_sequential_plan_follows_its_list_whatever_priorities_say() {
    let mut plan = sequential(plan(&[("late", &["second"]), ("first", &[]), ("second", &[]), ("third", &[])]));
    plan.steps[3].priority = Some(Priority(10));
    plan.steps[3].agent_type = "a".into();
    let mut world = World::of(plan);
    let mut order = Vec::new();
    while let [next] = open(&world).as_slice() {
        assert_eq!(world.ready.iter().copied().collect::<Vec<_>>(), [world.index(next).0], "only this one is offered");
        order.push(next.clone());
        world.complete(next, json!({}));
    }
    assert_eq!(order, ["first", "second", "late", "third"]);
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_sequential_plan_does_not_overtake_a_step_that_is_tried_again() {
    let plan = with(sequential(plan(&[("first", &[]), ("second", &[])])), "first", |step| step.retry.max = 1);
    let mut world = World::of(plan);
    let task = world.dispatch("first");
    world.report(failed(&task, transient())).unwrap();
    assert_eq!((world.status("first"), open(&world)), (StepStatus::Retrying, Vec::new()));
    assert_eq!(world.command(Command::Dispatch(world.index("second"))), Err(Rejection::NotDue));
    let explained = explain::explain(&world.state, world.now_ms).steps;
    let second = explained.iter().find(|step| step.step_id.as_str() == "second").expect("it is open");
    assert!(second.because[0].contains("`first`"), "{:?}", second.because);
    world.step_due("first");
    assert_eq!(open(&world), ["first"]);
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_message_of_a_sequential_plan_waits_for_its_place_in_the_list() {
    let mut plan = sequential(plan(&[("fetch", &[]), ("say", &[]), ("store", &[])]));
    plan = with(plan, "say", |step| step.kind = StepKind::Message);
    let mut world = World::of(plan);
    assert_eq!(world.status("say"), StepStatus::Ready);
    let task = world.dispatch("fetch");
    assert_eq!(world.status("say"), StepStatus::Ready);
    let decision = world.report(completed(&task, json!({}))).unwrap();
    assert_eq!(world.status("say"), StepStatus::Completed);
    assert!(decision.effects.contains(&Effect::Ready(world.index("store"))));
}

#[test]
fn a_restart_offers_only_the_step_of_a_sequential_plan_that_has_its_turn() {
    let mut world = World::of(sequential(plan(&[("a", &[]), ("b", &[]), ("c", &[])])));
    world.complete("a", json!({}));
    let effects = pending(&world.state, &world.context).effects;
    let ready: Vec<Effect> = effects.into_iter().filter(|effect| matches!(effect, Effect::Ready(_))).collect();
    assert_eq!(ready, [Effect::Ready(world.index("b"))]);
    world.dispatch("b");
    let effects = pending(&world.state, &world.context).effects;
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Ready(_))));
}

#[test]
fn a_message_takes_its_turn_in_a_plan_that_runs_one_step_at_a_time() {
    let mut plan = Plan { max_parallel: Some(1), ..plan(&[("say", &[]), ("fetch", &[]), ("end", &["say", "fetch"])]) };
    plan = with(plan, "say", |step: &mut Step| step.kind = StepKind::Message);
    plan = with(plan, "end", |step: &mut Step| step.kind = StepKind::Finish);
    let mut world = World::of(plan);
    assert_eq!(world.status("say"), StepStatus::Ready, "the shell says when it is its turn");
    let task = world.dispatch("fetch");
    assert_eq!(world.command(Command::Dispatch(world.index("say"))), Err(Rejection::NotDue));
    let decision = world.report(completed(&task, json!({}))).unwrap();
    assert!(decision.effects.contains(&Effect::Room));
    world.command(Command::Dispatch(world.index("say"))).unwrap();
    assert_eq!(world.status("say"), StepStatus::Completed);
    world.dispatch_all();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_step_that_a_revision_makes_more_urgent_is_offered_again() {
    let mut world = World::of(plan(&[("a", &[]), ("b", &[])]));
    world.ready.clear();
    let mut step = world.state.plan().steps[1].clone();
    step.priority = Some(Priority(9));
    let changes = vec![Change::ModifyStep { step: Box::new(step) }];
    world.verb(Verb::Edit { changes, revision: None, reason: String::new() }).unwrap();
    assert_eq!(world.ready.iter().copied().collect::<Vec<_>>(), [1]);
}

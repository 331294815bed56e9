//! Events from outside and plans inside plans: one event ends one wait of the whole family.

use goalmill_common::command::Verb;
use goalmill_common::event::{Event, PlanEvent};
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::plan::{ForEach, OnItemFailure, OnMax, Plan, Repeat, Step, StepKind, StepWait};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::Rejection;
use serde_json::{Value, json};

use crate::world::{Member, World, plan, step, with};

/// A step that waits for `talk` with data that have a `done`.
fn wait(id: &str) -> Step {
    let schema = json!({"type": "object", "required": ["done"]});
    let wait = StepWait { event: Some("talk".into()), schema: Some(schema.into()), ..StepWait::default() };
    Step { kind: StepKind::Wait, wait: Some(Box::new(wait)), ..step(id, &[]) }
}

/// `p` is a plan of one wait.
fn inside(change: impl FnOnce(&mut Step)) -> Plan {
    with(plan(&[("p", &[])]), "p", |step| {
        step.kind = StepKind::Plan;
        step.plan = Some(Box::new(Plan { steps: vec![wait("w")], ..Plan::default() }));
        change(step);
    })
}

fn loop_of_waits() -> Plan {
    inside(|step| {
        let until = "outputs.w.done".into();
        step.repeat = Some(Box::new(Repeat { until, max: 5, delay_ms: 0, on_max: OnMax::Fail }));
    })
}

/// `hotels` waits in each of three items.
fn map_of_waits() -> Plan {
    with(inside(|_| {}), "p", |step| {
        step.for_each = Some(Box::new(ForEach {
            items: json!([1, 2, 3]).into(),
            name: None,
            batch: None,
            max_parallel: None,
            items_max: None,
            on_item_failure: OnItemFailure::Fail,
        }));
    })
}

fn event(id: &str, data: Value) -> ExternalEvent {
    ExternalEvent { id: id.into(), name: "talk".into(), key: String::new(), data: data.into() }
}

/// To the plan in focus alone.
fn send(world: &mut World, id: &str, data: Value) -> Result<(), Rejection> {
    world.verb(Verb::SendEvent { event: Box::new(event(id, data)), waiting_only: false }).map(drop)
}

/// As from the namespace, to each plan that waits; returns how many took it.
fn publish(world: &mut World, id: &str, data: Value) -> usize {
    let waits = |member: &Member| member.state.step(goalmill_engine::StepIndex(0)).map(|step| step.status);
    let waiting: Vec<usize> =
        (0..world.members().len()).filter(|key| waits(&world.members()[*key]) == Some(StepStatus::Waiting)).collect();
    let send = |world: &mut World, key: usize| {
        world.focus_on(key);
        let sent = world.verb(Verb::SendEvent { event: Box::new(event(id, data.clone())), waiting_only: true });
        world.leave();
        sent.is_ok()
    };
    waiting.into_iter().filter(|key| send(world, *key)).count()
}

/// The ids of the events that plans inside the submitted one took, as its log has them.
fn taken(world: &World) -> Vec<&str> {
    let events = world.members()[0].log.iter().map(|record| &record.event);
    let taken = events.filter_map(|event| match event {
        Event::Plan(PlanEvent::EventTaken(taken)) => Some(taken.id.as_str()),
        Event::Plan(_) | Event::Step { .. } => None,
    });
    taken.collect()
}

/// The data that ended the waits, in the order of their plans.
fn got(world: &World) -> Vec<Value> {
    let outputs = |member: &Member| {
        let first = member.state.step(goalmill_engine::StepIndex(0))?;
        first.outputs.map(|outputs| outputs.value())
    };
    world.sub_plans().iter().filter(|member| member.state.len() == 1).filter_map(outputs).collect()
}

#[test]
fn an_event_completes_one_iteration_of_a_loop_also_after_a_takeover() {
    let mut world = World::of(loop_of_waits());
    assert_eq!(publish(&mut world, "e1", json!({"done": false})), 1);
    // What a takeover reads again from the store, and a sender that repeats its event.
    world.restart();
    assert_eq!(publish(&mut world, "e1", json!({"done": false})), 0);
    assert_eq!(world.status("p"), StepStatus::Running, "the second iteration waits");
    assert_eq!(publish(&mut world, "e2", json!({"done": true})), 1);
    assert_eq!(world.state.status(), PlanStatus::Completed);
    assert_eq!((got(&world), taken(&world)), (vec![json!({"done": false}), json!({"done": true})], vec!["e1", "e2"]));
}

#[test]
fn an_event_of_the_namespace_ends_one_wait_of_a_map_and_the_next_one_another() {
    let mut world = World::of(map_of_waits());
    for n in 0..3 {
        assert_eq!(publish(&mut world, &format!("e{n}"), json!({"done": n})), 1);
    }
    assert_eq!(world.state.status(), PlanStatus::Completed);
    let mut got = got(&world);
    got.sort_by_key(|data| data["done"].as_u64());
    assert_eq!(got, [json!({"done": 0}), json!({"done": 1}), json!({"done": 2})]);
}

#[test]
fn an_event_that_is_sent_to_the_outer_plan_reaches_the_waits_inside_in_their_order() {
    let mut world = World::of(map_of_waits());
    let refused = send(&mut world, "e0", json!({"other": 1}));
    assert!(matches!(refused, Err(Rejection::Invalid { .. })), "it fits no wait: {refused:?}");
    for n in 1..=3 {
        send(&mut world, &format!("e{n}"), json!({"done": n})).expect("an item waits");
        let repeated = send(&mut world, &format!("e{n}"), json!({"done": n}));
        assert!(repeated.is_ok() || n == 3, "a repeated one changes nothing: {repeated:?}");
    }
    assert_eq!(world.state.status(), PlanStatus::Completed);
    assert_eq!(got(&world), [json!({"done": 1}), json!({"done": 2}), json!({"done": 3})]);
    assert_eq!(taken(&world), ["e1", "e2", "e3"]);
}

#[test]
fn events_that_the_outer_plan_keeps_are_for_the_waits_inside_once_each() {
    let mut plan = loop_of_waits();
    plan.steps.push(step("first", &[]));
    let mut world = World::of(with(plan, "p", |step| step.dependencies.push("first".into())));
    for (id, data) in [("e1", json!({"other": 1})), ("e2", json!({"done": false})), ("e3", json!({"done": true}))] {
        send(&mut world, id, data).expect("the plan keeps it");
    }
    world.restart();
    world.complete("first", json!({}));
    assert_eq!(world.state.status(), PlanStatus::Completed);
    assert_eq!((got(&world), taken(&world)), (vec![json!({"done": false}), json!({"done": true})], vec!["e2", "e3"]));
}

#[test]
fn an_event_of_a_wait_of_the_outer_plan_is_for_no_wait_inside() {
    let mut plan = inside(|_| {});
    plan.steps.insert(0, wait("own"));
    let mut world = World::of(plan);
    assert_eq!(publish(&mut world, "e1", json!({"done": 1})), 1, "two plans wait for it");
    assert_eq!((world.status("own"), world.status("p")), (StepStatus::Completed, StepStatus::Running));
    assert_eq!(publish(&mut world, "e2", json!({"done": 2})), 1);
    assert_eq!((got(&world), world.state.status()), (vec![json!({"done": 2})], PlanStatus::Completed));
}

#[test]
fn what_a_plan_inside_keeps_is_for_that_plan() {
    let mut outer = inside(|step| {
        let inner = step.plan.as_mut().expect("it has a plan");
        inner.steps.insert(0, crate::world::step("first", &[]));
        inner.steps[1].dependencies.push("first".into());
    });
    outer.steps.push(wait("own"));
    let mut world = World::of(outer);
    world.enter("p");
    send(&mut world, "e1", json!({"done": 1})).expect("the plan inside keeps it");
    world.leave();
    world.restart();
    assert_eq!(publish(&mut world, "e1", json!({"done": 1})), 0, "it is the same event");
    send(&mut world, "e1", json!({"done": 1})).expect("a repeated event changes nothing");
    assert_eq!(world.status("own"), StepStatus::Waiting);
    world.enter("p");
    world.complete("first", json!({}));
    assert_eq!(world.outputs("w"), json!({"done": 1}));
}

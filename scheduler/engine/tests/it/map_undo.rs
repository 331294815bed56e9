//! Undo of maps: each item is undone, the last one first.

use goalmill_common::command::Verb;
use goalmill_common::plan::{Fallback, ForEach, OnFailure, OnItemFailure, Plan, Step};
use goalmill_common::revision::Change;
use goalmill_common::status::{PlanStatus, StepStatus};
use serde_json::{Value, json};

use crate::world::{World, completed, failed, permanent, plan, step, submission, with};

/// A map of bookings that can be undone, and a payment.
fn trip() -> Plan {
    let mut trip = with(plan(&[("hotels", &[]), ("pay", &["hotels"])]), "hotels", |step| {
        let map = ForEach { items: json!(["Rome", "Oslo", "Bern"]).into(), name: None, ..ForEach::of_undo() };
        step.for_each = Some(Box::new(ForEach { max_parallel: None, on_item_failure: OnItemFailure::Fail, ..map }));
        step.inputs = json!({"city": "{{ item }}"}).into();
    });
    let inputs = json!({"order": "{{ outputs.order | default('none') }}", "city": "{{ inputs.city }}", "plan": "{{ plan.status }}"});
    trip.steps.push(Step {
        undoes: Some("hotels".into()),
        for_each: Some(Box::new(ForEach::of_undo())),
        inputs: inputs.into(),
        ..step("hotels:undo", &[])
    });
    trip
}

/// Ends the item of the map, or of its undo step, that is in flight under this number.
fn end_item(world: &mut World, map: &str, n: usize, outputs: Option<Value>) {
    world.enter(map);
    world.dispatch_all();
    let id = format!("{map}:{n}");
    let task = world.open_tasks().into_iter().find(|task| task.step.as_str() == id).expect("it is in flight");
    let report = match outputs {
        Some(outputs) => completed(&task, outputs),
        None => failed(&task, permanent()),
    };
    world.report(report).expect("it is current");
    world.leave();
}

/// Inputs of the tasks in flight in the plan of a step.
fn inputs(world: &mut World, step: &str) -> Vec<Value> {
    world.enter(step);
    world.dispatch_all();
    let inputs = world.open_tasks().iter().map(|task| task.inputs.value()).collect();
    world.leave();
    inputs
}

fn booked() -> World {
    let mut world = World::of(trip());
    for n in 0..3 {
        world.now_ms += 5;
        end_item(&mut world, "hotels", n, Some(json!({"order": n})));
    }
    assert_eq!(world.status("hotels"), StepStatus::Completed);
    world
}

#[test]
fn the_items_of_a_completed_map_are_undone_one_at_a_time_the_last_one_first() {
    let mut world = booked();
    world.fail("pay", permanent());
    assert_eq!(world.state.status(), PlanStatus::Running);
    for (n, city) in [(2, "Bern"), (1, "Oslo"), (0, "Rome")] {
        assert_eq!(inputs(&mut world, "hotels:undo"), [json!({"order": n, "city": city, "plan": "failed"})]);
        world.restart();
        end_item(&mut world, "hotels:undo", n, Some(json!({})));
    }
    assert_eq!((world.status("hotels:undo"), world.state.status()), (StepStatus::Completed, PlanStatus::Failed));
}

#[test]
fn one_undo_that_fails_keeps_no_other_from_running() {
    let mut world = booked();
    world.fail("pay", permanent());
    end_item(&mut world, "hotels:undo", 2, None);
    end_item(&mut world, "hotels:undo", 1, Some(json!({})));
    end_item(&mut world, "hotels:undo", 0, Some(json!({})));
    assert_eq!(world.state.status(), PlanStatus::Failed);
}

#[test]
fn an_item_that_gave_nothing_is_not_undone() {
    let mut world = World::of(with(trip(), "hotels", |step| {
        step.for_each.as_mut().unwrap().on_item_failure = OnItemFailure::Continue;
    }));
    end_item(&mut world, "hotels", 0, Some(json!({"order": 0})));
    end_item(&mut world, "hotels", 1, None);
    end_item(&mut world, "hotels", 2, Some(json!({"order": 2})));
    world.fail("pay", permanent());
    end_item(&mut world, "hotels:undo", 2, Some(json!({})));
    end_item(&mut world, "hotels:undo", 0, Some(json!({})));
    assert_eq!(world.state.status(), PlanStatus::Failed);
}

#[test]
fn an_item_that_may_be_done_is_undone_though_it_gave_nothing() {
    let mut world = World::of(with(trip(), "hotels", |step| {
        step.for_each.as_mut().unwrap().on_item_failure = OnItemFailure::Continue;
    }));
    end_item(&mut world, "hotels", 2, Some(json!({"order": 2})));
    world.enter("hotels");
    let task = world.open_tasks().into_iter().find(|task| task.step.as_str() == "hotels:1").unwrap();
    world.report(failed(&task, permanent().with_unknown_outcome())).unwrap();
    world.leave();
    end_item(&mut world, "hotels", 0, None);
    world.restart();
    world.fail("pay", permanent());
    for (n, city, order) in [(2, "Bern", json!(2)), (1, "Oslo", json!("none"))] {
        assert_eq!(inputs(&mut world, "hotels:undo"), [json!({"order": order, "city": city, "plan": "failed"})]);
        end_item(&mut world, "hotels:undo", n, Some(json!({})));
    }
    assert_eq!((world.status("hotels:undo"), world.state.status()), (StepStatus::Completed, PlanStatus::Failed));
}

#[test]
fn an_item_that_two_agents_may_have_done_is_undone_by_both() {
    let mut world = World::of(with(trip(), "hotels", |step| {
        step.for_each.as_mut().unwrap().items = json!(["Rome"]).into();
        step.fallback = Some(Fallback { agent_type: Some("other".into()), action: None });
    }));
    world.enter("hotels");
    let task = world.dispatch("hotels:0");
    world.report(failed(&task, permanent().with_unknown_outcome())).unwrap();
    world.dispatch_all();
    let task = world.open_tasks().remove(0);
    world.report(completed(&task, json!({"order": 7}))).unwrap();
    world.leave();
    world.fail("pay", permanent());
    world.enter("hotels:undo");
    let mut asked = Vec::new();
    while world.dispatch_all() > 0 {
        let task = world.open_tasks().remove(0);
        asked.push((task.agent_type.to_string(), task.inputs.value()["order"].clone()));
        world.report(completed(&task, json!({}))).unwrap();
    }
    assert_eq!(asked, [("other".into(), json!(7)), ("w".into(), json!("none"))]);
}

#[test]
fn a_map_that_fails_undoes_its_items_itself() {
    let mut world = World::of(with(trip(), "hotels", |step| step.on_failure = OnFailure::Continue));
    end_item(&mut world, "hotels", 0, Some(json!({"order": 0})));
    end_item(&mut world, "hotels", 1, None);
    let undoing = inputs(&mut world, "hotels");
    assert!(undoing[0]["plan"] == "failed" && undoing.len() == 1, "one at a time: {undoing:?}");
    assert_eq!(world.status("hotels"), StepStatus::Running);
    world.enter("hotels");
    world.finish();
    world.leave();
    assert_eq!(world.status("hotels"), StepStatus::Failed);
    world.finish();
    assert_eq!((world.status("hotels:undo"), world.state.status()), (StepStatus::Skipped, PlanStatus::Partial));
}

#[test]
fn a_cancelled_plan_cancels_its_map_which_undoes_its_items() {
    let mut world = World::of(trip());
    end_item(&mut world, "hotels", 0, Some(json!({"order": 0})));
    world.verb(Verb::Cancel { reason: String::new() }).unwrap();
    assert_eq!(world.status("hotels:undo"), StepStatus::Skipped);
    world.enter("hotels");
    world.finish();
    assert_eq!(world.status("hotels:0:undo"), StepStatus::Completed);
}

#[test]
fn a_revision_that_removes_a_completed_map_undoes_its_items_first() {
    let mut world = booked();
    let free = json!({"dependencies": null}).as_object().unwrap().clone();
    let changes = vec![
        Change::SetFields { step: "pay".into(), fields: free },
        Change::RemoveStep { step: "hotels".into() },
        Change::AddStep { step: Box::new(step("camping", &[])), before: Vec::new() },
    ];
    world.verb(Verb::Edit { changes, revision: None, reason: String::new() }).unwrap();
    for n in [2, 1, 0] {
        assert_eq!(world.status("camping"), StepStatus::Pending);
        end_item(&mut world, "hotels:undo", n, Some(json!({})));
    }
    world.finish();
    assert_eq!((world.status("camping"), world.state.status()), (StepStatus::Completed, PlanStatus::Completed));
}

#[test]
fn an_undo_step_that_each_item_copies_is_counted_before_the_map_is_expanded() {
    let mut trip = trip();
    let cities: Vec<u32> = (0..300).collect();
    trip.steps[0].for_each.as_mut().expect("it is a map").items = json!(cities).into();
    trip.steps.last_mut().expect("it has an undo step").description = "x".repeat(32 << 10);
    let world = World::of(trip);
    assert_eq!(world.code("hotels"), "FOR_EACH_TOO_LARGE");
    assert!(world.sub_plans().is_empty());
}

#[test]
fn the_undo_steps_of_completed_items_are_counted_before_they_are_made() {
    let mut trip = trip();
    trip.steps.last_mut().expect("it has an undo step").inputs =
        json!({"text": "{{ goal.description }}", "order": "{{ outputs }}"}).into();
    let mut submission = submission(Some(trip));
    submission.goal.description = "x".repeat(16 << 10);
    let mut world = World::new();
    world.context.limits.plan_bytes_max = 40 << 10;
    world.submit_as(submission).expect("the plan is fit");
    for n in 0..3 {
        end_item(&mut world, "hotels", n, Some(json!({"order": n})));
    }
    world.dispatch("pay");
    let task = world.open_tasks().into_iter().find(|task| task.step.as_str() == "pay").expect("it is in flight");
    world.report(failed(&task, permanent())).expect("it is current");
    assert_eq!(world.code("hotels:undo"), "FOR_EACH_TOO_LARGE");
    assert_eq!(world.state.status(), PlanStatus::Failed);
}

//! Maps: a step for each item of a list.

use goalmill_common::failure::Failure;
use goalmill_common::goal::Budget;
use goalmill_common::plan::{
    Cache, Estimates, ForEach, OnFailure, OnItemFailure, OnTimeout, Plan, Step, StepKind, StepWait,
};
use goalmill_common::status::{PlanStatus, StepStatus};
use serde_json::{Value, json};

use crate::world::{World, completed, failed, permanent, plan, step, submission, with};

fn for_each(items: Value) -> ForEach {
    ForEach {
        items: items.into(),
        name: None,
        batch: None,
        max_parallel: None,
        items_max: None,
        on_item_failure: OnItemFailure::Fail,
    }
}

/// `find` gives the list, `hotels` handles each item, `best` comes behind.
fn mapped(change: impl FnOnce(&mut Step, &mut ForEach)) -> Plan {
    with(plan(&[("find", &[]), ("hotels", &["find"]), ("best", &["hotels"])]), "hotels", |step| {
        let mut map = for_each(json!("{{ steps.find.outputs.cities }}"));
        step.inputs = json!({"city": "{{ item }}", "n": "{{ index }}"}).into();
        change(step, &mut map);
        step.for_each = Some(Box::new(map));
    })
}

/// The world in which `find` gave the list.
fn found(plan: Plan, cities: Value) -> World {
    let mut world = World::of(plan);
    world.complete("find", json!({"cities": cities}));
    world
}

/// The inputs of the items' tasks, in their order.
fn tasks(world: &mut World) -> Vec<Value> {
    world.enter("hotels");
    world.dispatch_all();
    let tasks = world.open_tasks().iter().map(|task| task.inputs.value()).collect();
    world.leave();
    tasks
}

fn failure(world: &World) -> Failure {
    world.state.step(world.index("hotels")).and_then(|at| at.failure).expect("the map has failed").clone()
}

fn end_item(world: &mut World, n: usize, outputs: Option<Value>) {
    world.enter("hotels");
    let id = format!("hotels:{n}");
    let open = world.open_tasks().into_iter().find(|task| task.step.as_str() == id);
    let task = open.unwrap_or_else(|| world.dispatch(&id));
    let report = match outputs {
        Some(outputs) => completed(&task, outputs),
        None => failed(&task, permanent()),
    };
    world.report(report).expect("the report is current");
    world.leave();
}

#[test]
fn each_item_is_a_step_and_the_outputs_are_a_list_in_the_order_of_the_items() {
    let mut world = found(mapped(|_, _| {}), json!(["Rome", {"name": "Oslo"}, "Bern"]));
    assert_eq!(world.status("hotels"), StepStatus::Running);
    let expected =
        [json!({"city": "Rome", "n": 0}), json!({"city": {"name": "Oslo"}, "n": 1}), json!({"city": "Bern", "n": 2})];
    assert_eq!(tasks(&mut world), expected);
    for n in [2, 0, 1] {
        end_item(&mut world, n, Some(json!({"hotel": n})));
    }
    assert_eq!(world.outputs("hotels"), json!([{"hotel": 0}, {"hotel": 1}, {"hotel": 2}]));
    assert_eq!(world.status("best"), StepStatus::Ready);
}

#[test]
fn an_empty_list_gives_an_empty_list_and_what_is_behind_goes_on() {
    let world = found(mapped(|_, _| {}), json!([]));
    assert_eq!((world.status("hotels"), world.outputs("hotels")), (StepStatus::Completed, json!([])));
    assert_eq!(world.status("best"), StepStatus::Ready);
    assert!(world.sub_plans().is_empty());
}

#[test]
fn what_is_no_list_fails_the_step_with_what_it_is() {
    for (value, shown) in [(json!({"a": 1}), "{\"a\":1}"), (json!("Rome"), "\"Rome\""), (json!(null), "null")] {
        let world = found(mapped(|_, _| {}), value);
        assert_eq!(world.code("hotels"), "FOR_EACH_NOT_A_LIST");
        let failure = failure(&world);
        assert!(failure.message.contains(shown), "{}", failure.message);
    }
}

#[test]
fn one_item_that_fails_fails_the_map_unless_it_may() {
    let mut world = found(mapped(|_, _| {}), json!([1, 2, 3]));
    end_item(&mut world, 1, None);
    assert_eq!((world.status("hotels"), world.state.status()), (StepStatus::Failed, PlanStatus::Failed));

    let goes_on = |_: &mut Step, map: &mut ForEach| map.on_item_failure = OnItemFailure::Continue;
    let mut world = found(mapped(goes_on), json!([1, 2, 3]));
    end_item(&mut world, 1, None);
    end_item(&mut world, 0, Some(json!({"x": 0})));
    end_item(&mut world, 2, Some(json!({"x": 2})));
    assert_eq!(world.outputs("hotels"), json!([{"x": 0}, null, {"x": 2}]));

    let mut world = found(mapped(goes_on), json!([1]));
    end_item(&mut world, 0, None);
    assert_eq!(world.outputs("hotels"), json!([null]), "also when none is left");
}

#[test]
fn so_many_items_may_fail_and_no_more() {
    let at_most = |_: &mut Step, map: &mut ForEach| map.on_item_failure = OnItemFailure::AtMost(1);
    let mut world = found(mapped(at_most), json!([1, 2, 3, 4]));
    end_item(&mut world, 1, None);
    assert_eq!(world.status("hotels"), StepStatus::Running);
    end_item(&mut world, 2, None);
    assert_eq!((world.status("hotels"), world.code("hotels")), (StepStatus::Failed, "FAILURES_EXCEEDED".into()));
}

#[test]
fn a_list_that_is_too_long_is_refused_with_the_name_of_the_limit() {
    let few = |_: &mut Step, map: &mut ForEach| map.items_max = Some(2);
    let world = found(mapped(few), json!([1, 2, 3]));
    assert_eq!(world.code("hotels"), "TOO_MANY_ITEMS");
    let world = found(mapped(|_, _| {}), (0..1_001).collect());
    let message = failure(&world).message;
    assert!(message.contains("1001 items") && message.contains("`limits.items_max`"), "{message}");
}

/// A text that 300 items cannot have a copy of each.
fn long_text() -> String {
    "x".repeat(32 << 10)
}

/// Checks that a map of 300 items is refused before it is expanded.
fn is_refused(change: impl FnOnce(&mut Step, &mut ForEach)) {
    let world = found(mapped(change), (0..300).collect());
    assert_eq!(world.code("hotels"), "FOR_EACH_TOO_LARGE");
    let message = failure(&world).message;
    assert!(message.contains("300 items") && message.contains("`limits.plan_bytes_max`"), "{message}");
    assert!(world.sub_plans().is_empty());
}

#[test]
fn fields_that_each_item_copies_are_counted_before_the_map_is_expanded() {
    is_refused(|step, _| step.description = long_text());
    is_refused(|step, _| step.output_schema = Some(json!({"not": {"const": long_text()}}).into()));
    is_refused(|step, _| {
        step.kind = StepKind::Wait;
        let on_timeout = OnTimeout::Default(json!({"x": long_text()}).into());
        let event = Some("paid".to_owned());
        step.wait = Some(Box::new(StepWait { event, on_timeout, timeout_ms: Some(1), ..StepWait::default() }));
    });
    is_refused(|step, _| {
        let inner = with(plan(&[("x", &[])]), "x", |step| step.inputs = json!({"x": long_text()}).into());
        (step.kind, step.plan) = (StepKind::Plan, Some(Box::new(inner)));
    });
}

#[test]
fn rendered_fields_of_all_items_are_counted_together() {
    let key = |step: &mut Step, _: &mut ForEach| {
        step.cache = Some(Cache { key: "{{ goal.description }}".into(), ttl_ms: 1 });
    };
    let mut submission = submission(Some(mapped(key)));
    submission.goal.description = long_text();
    let mut world = World::new();
    world.submit_as(submission).expect("the plan is fit");
    world.complete("find", json!({"cities": (0..300).collect::<Vec<u32>>()}));
    assert_eq!(world.code("hotels"), "FOR_EACH_TOO_LARGE");
}

#[test]
fn plans_of_items_are_counted_before_the_map_is_expanded() {
    let ids: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    let steps: Vec<(&str, &[&str])> = ids.iter().map(|id| (id.as_str(), [].as_slice())).collect();
    let large = |step: &mut Step, _: &mut ForEach| {
        (step.kind, step.plan) = (StepKind::Plan, Some(Box::new(plan(&steps))));
    };
    assert_eq!(found(mapped(large), (0..300).collect()).code("hotels"), "FAMILY_TOO_LARGE");
}

#[test]
fn items_are_grouped_and_named() {
    let grouped = |step: &mut Step, map: &mut ForEach| {
        (map.batch, map.name) = (Some(2), Some("cities".into()));
        step.inputs = json!({"some": "{{ cities }}", "first": "{{ item[0] }} of {{ cities | length }}"}).into();
    };
    let mut world = found(mapped(grouped), json!(["a", "b", "c"]));
    let expected = [json!({"some": ["a", "b"], "first": "a of 2"}), json!({"some": ["c"], "first": "c of 1"})];
    assert_eq!(tasks(&mut world), expected);
}

#[test]
fn what_an_item_says_is_never_evaluated() {
    let evil = json!(["{{ goal.description }}", "a \"{% if x %}\" \\ {{", {"k": ["{{ steps.find.outputs }}"]}]);
    let mut world = found(mapped(|step, _| step.inputs = json!({"x": "{{ item }}"}).into()), evil.clone());
    let given: Vec<Value> = tasks(&mut world).into_iter().map(|inputs| inputs["x"].clone()).collect();
    assert_eq!(Value::from(given), evil);
}

#[test]
fn a_condition_that_names_the_item_skips_items_and_another_the_whole_map() {
    let of_item = |step: &mut Step, _: &mut ForEach| step.when = Some("item > 1".into());
    let mut world = found(mapped(of_item), json!([1, 2]));
    assert_eq!(tasks(&mut world), [json!({"city": 2, "n": 1})]);
    end_item(&mut world, 1, Some(json!({})));
    assert_eq!(world.outputs("hotels"), json!([null, {}]));
    let of_all = |step: &mut Step, _: &mut ForEach| step.when = Some("steps.find.outputs.cities | length > 5".into());
    assert_eq!(found(mapped(of_all), json!([1, 2])).status("hotels"), StepStatus::Skipped);
}

#[test]
fn maps_nest_and_plans_run_for_items() {
    let inner = |step: &mut Step, _: &mut ForEach| {
        step.kind = StepKind::Plan;
        step.inputs = json!({"rooms": "{{ item }}"}).into();
        let rooms = with(plan(&[("rooms", &[])]), "rooms", |step| {
            step.inputs = json!({"room": "{{ item }}"}).into();
            step.for_each = Some(Box::new(for_each(json!("{{ goal.metadata.inputs.rooms }}"))));
        });
        step.plan = Some(Box::new(rooms));
    };
    let mut world = found(mapped(inner), json!([["a", "b"], []]));
    world.enter("hotels");
    world.enter("hotels:0");
    world.enter("rooms");
    world.complete("rooms:0", json!({"r": 0}));
    world.complete("rooms:1", json!({"r": 1}));
    world.leave();
    world.leave();
    world.leave();
    assert_eq!(world.outputs("hotels"), json!([{"rooms": [{"r": 0}, {"r": 1}]}, {"rooms": []}]));
}

#[test]
fn a_map_of_what_the_engine_computes_needs_no_worker() {
    let computed = |step: &mut Step, _: &mut ForEach| step.kind = StepKind::Internal;
    let world = found(mapped(computed), json!(["a"]));
    assert_eq!(world.outputs("hotels"), json!([{"city": "a", "n": 0}]));
}

#[test]
fn a_map_runs_so_many_items_at_a_time_and_goes_on_after_a_restart() {
    let narrow = |_: &mut Step, map: &mut ForEach| map.max_parallel = Some(2);
    let mut world = found(mapped(narrow), json!([1, 2, 3]));
    assert_eq!(tasks(&mut world).len(), 2);
    end_item(&mut world, 0, Some(json!({})));
    world.restart();
    assert_eq!(tasks(&mut world).len(), 2, "the second and the third");
    end_item(&mut world, 1, Some(json!({})));
    end_item(&mut world, 2, Some(json!({})));
    assert_eq!(world.outputs("hotels"), json!([{}, {}, {}]));
}

#[test]
fn a_map_whose_items_cannot_be_paid_does_not_begin() {
    let priced = |step: &mut Step, _: &mut ForEach| {
        step.estimates = Estimates { cost: Some(0.5), ..Estimates::default() };
        step.on_failure = OnFailure::Continue;
    };
    let mut submit = submission(Some(mapped(priced)));
    submit.goal.budget = Budget { cost: Some(1.2), ..Budget::default() };
    let mut world = World::new();
    world.submit_as(submit).unwrap();
    world.complete("find", json!({"cities": [1, 2, 3]}));
    let failure = failure(&world);
    assert_eq!(failure.code, "BUDGET_EXCEEDED");
    assert!(failure.message.starts_with("3 items: ") && failure.message.contains("1.5"), "{}", failure.message);
    assert!(world.sub_plans().is_empty());
}

#[test]
fn a_map_that_is_cancelled_ends_with_its_items() {
    let mut world = found(mapped(|_, _| {}), json!([1, 2]));
    assert_eq!(tasks(&mut world).len(), 2);
    world.verb(goalmill_common::command::Verb::Cancel { reason: "enough".into() }).unwrap();
    assert_eq!(world.state.status(), PlanStatus::Cancelled);
    assert_eq!(world.sub_plan("hotels").state.status(), PlanStatus::Cancelled);
}

#[test]
fn a_step_that_is_no_map_does_not_see_an_item() {
    let lone = Step { inputs: json!({"x": "{{ item }}"}).into(), ..step("a", &[]) };
    let mut world = World::of(Plan { steps: vec![lone], ..Plan::default() });
    world.dispatch_all();
    assert_eq!(world.code("a"), "INVALID_EXPRESSION");
}

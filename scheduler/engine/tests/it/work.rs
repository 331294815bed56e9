//! Limits on the work of one decision and on the outputs of a plan.

use goalmill_common::event::{Event, StepEvent};
use goalmill_common::limits::Limits;
use goalmill_common::plan::{ForEach, Plan, StepKind};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{Command, Decision, Effect, Envelope, decide, pending};
use serde_json::json;

use crate::world::{World, plan, with};

/// One step whose outputs `copies` steps of the engine's own hand on.
fn copying(copies: usize) -> Plan {
    let ids: Vec<String> = (0..copies).map(|n| format!("copy-{n}")).collect();
    let mut steps: Vec<(&str, &[&str])> = vec![("a", &[])];
    steps.extend(ids.iter().map(|id| (id.as_str(), ["a"].as_slice())));
    let mut plan = plan(&steps);
    for step in &mut plan.steps[1..] {
        step.kind = StepKind::Finish;
        step.inputs = json!({"text": "{{ steps.a.outputs.text }}"}).into();
    }
    plan
}

/// Bytes of the outputs that a decision records.
fn recorded(decision: &Decision) -> usize {
    let outputs = decision.records.iter().filter_map(|record| match &record.event {
        Event::Step { event: StepEvent::Completed(completed), .. } => Some(completed.outputs.text().len()),
        Event::Step { .. } | Event::Plan(_) => None,
    });
    outputs.sum()
}

#[test]
fn one_decision_copies_a_megabyte_and_leaves_the_rest_for_later() {
    let mut world = World::of(copying(500));
    let task = world.dispatch("a");
    let report = crate::world::completed(&task, json!({"text": "x".repeat(200_000)}));
    let mut command = Command::Report(Box::new(report));
    let context = world.context.clone();
    let mut decisions = 0;
    loop {
        let envelope = Envelope { now_ms: world.now_ms, random: 1, actor: None, family: Default::default(), command };
        let decision = decide(&mut world.state, &context, envelope).expect("the plan is not over");
        decisions += 1;
        assert!(recorded(&decision) < 1_800_000, "{} bytes in one decision", recorded(&decision));
        if !decision.effects.contains(&Effect::Continue) {
            break;
        }
        assert!(pending(&world.state, &context).effects.contains(&Effect::Continue), "a new owner goes on too");
        command = Command::Continue;
    }
    assert!(decisions > 40, "{decisions} decisions");
    assert_eq!((world.state.status(), world.plan_code()), (PlanStatus::Failed, "PLAN_OUTPUTS_TOO_LARGE".into()));
}

#[test]
fn a_plan_of_many_steps_of_the_engines_own_is_done_bit_by_bit() {
    let mut world = World::of(copying(1_000));
    world.complete("a", json!({"text": "short"}));
    assert_eq!(world.state.status(), PlanStatus::Completed);
    assert!(!pending(&world.state, &world.context).effects.contains(&Effect::Continue));
}

#[test]
fn many_conditions_are_evaluated_bit_by_bit() {
    let ids: Vec<String> = (0..200).map(|n| format!("s-{n}")).collect();
    let mut steps: Vec<(&str, &[&str])> = vec![("a", &[])];
    steps.extend(ids.iter().map(|id| (id.as_str(), ["a"].as_slice())));
    let mut conditional = plan(&steps);
    for step in &mut conditional.steps[1..] {
        step.when = Some("steps.a.outputs.n > 0".into());
    }
    let mut world = World::of(conditional);
    world.complete("a", json!({"n": 1}));
    assert!(ids.iter().all(|id| world.status(id) == StepStatus::Ready));
}

#[test]
fn outputs_beyond_the_limit_fail_the_plan_and_say_how_large_they_are() {
    let plan = with(plan(&[("a", &[]), ("b", &[]), ("c", &["a", "b"])]), "c", |step| step.kind = StepKind::Finish);
    let mut world = World::new();
    world.context.limits = Limits { plan_outputs_bytes_max: 1_000, ..Limits::default() };
    world.submit(plan).expect("the plan is fit");
    world.complete("a", json!({"text": "x".repeat(900)}));
    assert_eq!(world.state.status(), PlanStatus::Running);
    world.complete("b", json!({"text": "x".repeat(900)}));
    assert_eq!((world.state.status(), world.plan_code()), (PlanStatus::Failed, "PLAN_OUTPUTS_TOO_LARGE".into()));
}

/// A list of numbers whose sorting takes about `n` times 8 units of work.
fn numbers(n: u32) -> serde_json::Value {
    json!((0..n).collect::<Vec<u32>>())
}

#[test]
fn the_conditions_of_all_items_of_a_map_have_one_limit() {
    let items = json!((0..600).collect::<Vec<u32>>()).into();
    let mapped = with(plan(&[("a", &[]), ("m", &["a"])]), "m", |step| {
        step.when = Some("(steps.a.outputs.list | sort | length) > item".into());
        step.for_each = Some(Box::new(ForEach { items, ..ForEach::of_undo() }));
    });
    let mut world = World::of(mapped);
    world.complete("a", json!({"list": numbers(8_000)}));
    assert_eq!((world.code("m").as_str(), world.sub_plans().len()), ("TEMPLATE_FUEL_EXHAUSTED", 0));
}

#[test]
fn the_expressions_of_one_step_have_one_limit_also_if_they_only_pass_values_on() {
    let reading = with(plan(&[("a", &[]), ("b", &["a"])]), "b", |step| {
        step.inputs = json!(vec!["{{ steps.a.outputs.n }}"; 1_000]).into();
        step.kind = StepKind::Finish;
    });
    let mut world = World::of(reading);
    world.complete("a", json!({"n": 1, "text": "x".repeat(200_000)}));
    assert_eq!(world.code("b"), "TEMPLATE_FUEL_EXHAUSTED");
}

#[test]
fn plans_that_start_in_one_turn_share_its_work() {
    let inner = with(plan(&[("x", &[])]), "x", |step| {
        step.kind = StepKind::Finish;
        step.inputs = json!({"n": "{{ goal.metadata.inputs.list | sort | length }}"}).into();
    });
    let ids: Vec<String> = (0..40).map(|n| format!("p{n}")).collect();
    let mut steps: Vec<(&str, &[&str])> = vec![("a", &[])];
    steps.extend(ids.iter().map(|id| (id.as_str(), ["a"].as_slice())));
    let mut around = plan(&steps);
    for step in &mut around.steps[1..] {
        (step.kind, step.plan) = (StepKind::Plan, Some(Box::new(inner.clone())));
        step.inputs = json!({"list": "{{ steps.a.outputs.list }}"}).into();
    }
    let mut world = World::of(around);
    let report = crate::world::completed(&world.dispatch("a"), json!({"list": numbers(20_000)}));
    world.report(report).expect("it is current");
    assert_eq!(world.state.status(), PlanStatus::Completed);
    let cut = world.decided.iter().filter(|(_, decision)| decision.effects.contains(&Effect::Continue)).count();
    assert!(cut >= 10, "the turn was cut {cut} times");
}

#[test]
fn a_map_of_many_small_items_is_within_the_limit() {
    let items = json!((0..1_000).map(|n| json!({"id": n, "name": "x"})).collect::<Vec<_>>()).into();
    let mapped = with(plan(&[("m", &[])]), "m", |step| {
        step.kind = StepKind::Internal;
        step.inputs = json!({"id": "{{ item.id }}", "name": "{{ item.name | upper }}", "n": "{{ index + 1 }}"}).into();
        step.for_each = Some(Box::new(ForEach { items, max_parallel: None, ..ForEach::of_undo() }));
    });
    let mut world = World::new();
    world.context.limits.fuel_max /= 10;
    world.submit(mapped).expect("the plan is fit");
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

//! Loops: a step runs again until a condition is true.

use goalmill_common::command::Verb;
use goalmill_common::goal::Budget;
use goalmill_common::plan::{Estimates, OnMax, Plan, Repeat, Step, StepKind};
use goalmill_common::status::{PlanStatus, StepStatus};
use serde_json::json;

use crate::world::{World, plan, submission, transient, with};

fn drafted(change: impl FnOnce(&mut Step, &mut Repeat)) -> Plan {
    with(plan(&[("draft", &[]), ("send", &["draft"])]), "draft", |step| {
        let mut repeat = Repeat { until: "outputs.score > 0.8".into(), max: 3, delay_ms: 0, on_max: OnMax::Fail };
        step.inputs = json!({"n": "{{ iteration }}", "text": "{{ previous.outputs.text | default('new') }}"}).into();
        change(step, &mut repeat);
        step.repeat = Some(Box::new(repeat));
    })
}

#[test]
fn each_iteration_sees_the_outputs_before_it_and_the_last_one_gives_those_of_the_step() {
    let mut world = World::of(drafted(|_, _| {}));
    let task = world.dispatch("draft");
    let key = task.idempotency_key.clone();
    assert_eq!(task.inputs.value(), json!({"n": 1, "text": "new"}));
    world.report(crate::world::completed(&task, json!({"score": 0.5, "text": "better"}))).unwrap();
    assert_eq!(world.status("draft"), StepStatus::Ready);
    world.restart();
    let task = world.dispatch("draft");
    assert_eq!((task.inputs.value(), task.attempt), (json!({"n": 2, "text": "better"}), 2));
    assert_eq!(task.idempotency_key, format!("{key}~2"), "another iteration is other work");
    world.report(crate::world::completed(&task, json!({"score": 0.9, "text": "best"}))).unwrap();
    assert_eq!(world.outputs("draft"), json!({"score": 0.9, "text": "best"}));
    assert_eq!(world.status("send"), StepStatus::Ready);
}

#[test]
fn a_loop_ends_after_so_many_iterations_as_it_says() {
    let mut world = World::of(drafted(|_, _| {}));
    for _ in 0..3 {
        world.complete("draft", json!({"score": 0.1}));
    }
    assert_eq!((world.status("draft"), world.code("draft")), (StepStatus::Failed, "REPEAT_EXHAUSTED".into()));
    let mut world = World::of(drafted(|_, repeat| repeat.on_max = OnMax::Continue));
    for score in [0.1, 0.2, 0.3] {
        world.complete("draft", json!({"score": score}));
    }
    assert_eq!(world.outputs("draft"), json!({"score": 0.3}));
}

#[test]
fn a_condition_that_cannot_be_read_fails_the_step_with_its_reason() {
    let mut world = World::of(drafted(|_, _| {}));
    world.complete("draft", json!({"text": "x"}));
    assert_eq!(world.code("draft"), "REF_UNRESOLVED");
}

#[test]
fn iterations_wait_and_failed_attempts_are_retried_within_them() {
    let mut world = World::of(drafted(|_, repeat| repeat.delay_ms = 10_000));
    world.fail("draft", transient());
    world.step_due("draft");
    world.complete("draft", json!({"score": 0.1}));
    assert_eq!(world.status("draft"), StepStatus::Retrying);
    let before = world.now_ms;
    world.step_due("draft");
    assert_eq!(world.now_ms - before, 10_000);
    let task = world.dispatch("draft");
    assert_eq!((task.inputs.value()["n"].clone(), task.attempt), (json!(2), 3));
    world.report(crate::world::completed(&task, json!({"score": 1}))).unwrap();
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_loop_that_is_cancelled_begins_no_iteration() {
    let mut world = World::of(drafted(|_, repeat| repeat.delay_ms = 10_000));
    world.complete("draft", json!({"score": 0.1}));
    world.verb(Verb::Cancel { reason: String::new() }).unwrap();
    assert_eq!((world.status("draft"), world.state.status()), (StepStatus::Cancelled, PlanStatus::Cancelled));
}

#[test]
fn all_iterations_must_fit_the_budget_before_the_first() {
    let priced = |step: &mut Step, _: &mut Repeat| {
        step.estimates = Estimates { tokens: Some(40), ..Estimates::default() };
    };
    let mut submit = submission(Some(drafted(priced)));
    submit.goal.budget = Budget { tokens: Some(100), ..Budget::default() };
    let mut world = World::new();
    world.submit_as(submit).unwrap();
    world.dispatch_all();
    assert_eq!(world.code("draft"), "BUDGET_EXCEEDED");
}

#[test]
fn a_plan_repeats_too() {
    let inner = |step: &mut Step, _: &mut Repeat| {
        step.kind = StepKind::Plan;
        step.plan = Some(Box::new(plan(&[("inner", &[])])));
        step.inputs = json!({"n": "{{ iteration }}"}).into();
    };
    let mut world = World::of(drafted(|step, repeat| {
        inner(step, repeat);
        repeat.until = "iteration == 2".into();
    }));
    for n in [1, 2] {
        world.enter("draft");
        assert_eq!(world.state.accepted().goal.metadata["inputs"], json!({"n": n}));
        world.complete("inner", json!({"x": n}));
        world.leave();
    }
    assert_eq!(world.outputs("draft"), json!({"inner": {"x": 2}}));
}

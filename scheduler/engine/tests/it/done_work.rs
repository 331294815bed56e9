//! What may be done is undone: over all attempts, iterations and agents, in the order of the log.

use goalmill_common::command::Verb;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::plan::{Fallback, OnFailure, OnMax, OnPartial, Plan, Repeat, Retry, Step};
use goalmill_common::report::{Report, What};
use goalmill_common::revision::Change;
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_common::task::Task;
use goalmill_engine::revise;
use serde_json::{Value, json};

use crate::world::{World, completed, failed, permanent, plan, report, step, with};

fn undo(target: &str) -> Step {
    let inputs = json!({"order": "{{ outputs.order | default('none') }}", "n": "{{ inputs.n | default(0) }}"});
    let undoes = Some(target.into());
    Step { undoes, inputs: inputs.into(), ..step(&format!("{target}:undo"), &[]) }
}

/// A booking that can be undone, and a payment.
fn booking(change: impl FnOnce(&mut Step)) -> Plan {
    let mut booking = with(plan(&[("book", &[]), ("pay", &["book"])]), "book", change);
    booking.steps.push(undo("book"));
    booking
}

fn retried(step: &mut Step) {
    step.retry = Retry { max: 1, initial_ms: 1, ..Retry::default() };
}

/// Books up to five times, with the number of the iteration.
fn looped(change: impl FnOnce(&mut Step)) -> Plan {
    booking(|step| {
        let until = "outputs.order >= 3".into();
        step.repeat = Some(Box::new(Repeat { until, max: 5, delay_ms: 0, on_max: OnMax::Fail }));
        step.inputs = json!({"n": "{{ iteration }}"}).into();
        change(step);
    })
}

/// The orders and the inputs of the undo steps that run, one after the other, until the plan ends.
fn undone(world: &mut World) -> Vec<Value> {
    let mut undone = Vec::new();
    while !world.state.is_final() {
        world.dispatch_all();
        let tasks = world.open_tasks();
        assert!(tasks.len() == 1 && tasks[0].step.as_str() == "book:undo", "{:?}", world.story());
        undone.push(tasks[0].inputs.value());
        world.restart();
        world.report(completed(&tasks[0], json!({}))).expect("it is current");
    }
    undone
}

fn unknown() -> Failure {
    Failure::new(FailureClass::Permanent, "HTTP_502", "bad gateway").with_unknown_outcome()
}

fn next_attempt(world: &mut World) -> Task {
    if world.status("book") == StepStatus::Retrying {
        world.step_due("book");
    }
    world.dispatch("book")
}

#[test]
fn a_step_is_undone_when_one_of_its_attempts_may_have_done_its_work() {
    type First = fn(&mut World, &Task);
    let ways: [(&str, First); 4] = [
        ("out of time", |world, _| world.step_due("book")),
        ("lost", |world, task| drop(world.report(report(task, What::Lost)).unwrap())),
        ("cut off", |world, task| {
            let cut = Failure { class: FailureClass::Transient, ..unknown() };
            world.report(failed(task, cut)).unwrap();
        }),
        ("handed back while it ran", |world, task| {
            let begun = Report { started_ms: Some(world.now_ms), ..report(task, What::Released) };
            world.report(begun).unwrap();
        }),
    ];
    for (way, first) in ways {
        let mut world = World::of(booking(retried));
        let task = world.dispatch("book");
        if way == "out of time" {
            world.report(report(&task, What::Started)).unwrap();
            world.now_ms += 10_000_000;
        }
        first(&mut world, &task);
        let task = next_attempt(&mut world);
        assert!(!revise::was_step_undone(&world.state, &"book".into()), "{way}");
        world.report(failed(&task, permanent())).unwrap();
        assert!(revise::was_step_undone(&world.state, &"book".into()), "the clean-up has begun: {way}");
        assert_eq!(undone(&mut world), [json!({"order": "none", "n": 0})], "{way}");
        assert!(revise::was_step_undone(&world.state, &"book".into()), "{way}");
        assert_eq!((world.state.status(), world.status("book:undo")), (PlanStatus::Failed, StepStatus::Completed));
    }
}

#[test]
fn a_step_is_undone_when_its_answer_was_refused() {
    let missing = |step: &mut Step| step.expected_outputs = vec!["order".into()];
    let mut world = World::of(booking(missing));
    world.complete("book", json!({"x": 1}));
    assert_eq!((world.code("book").as_str(), undone(&mut world).len()), ("UNEXPECTED_RESULT", 1));

    let mut world = World::of(booking(|step| step.on_partial = OnPartial::Fail));
    let task = world.dispatch("book");
    let partial = Report {
        errors: vec![permanent()],
        outputs: Some(json!({"order": 1}).into()),
        ..report(&task, What::PartialSuccess)
    };
    world.report(partial).unwrap();
    assert_eq!((world.code("book").as_str(), undone(&mut world).len()), ("PARTIAL_SUCCESS", 1));

    for code in ["ANSWER_INVALID", "ANSWER_EMPTY", "OUTPUT_TOO_LARGE"] {
        let mut world = World::of(booking(|_| {}));
        world.fail("book", Failure::new(FailureClass::Permanent, code, "the answer"));
        assert_eq!(undone(&mut world).len(), 1, "{code}");
    }
}

#[test]
fn a_step_whose_agent_answered_each_attempt_with_a_failure_is_not_undone() {
    let mut world = World::of(booking(retried));
    let task = world.dispatch("book");
    world.report(failed(&task, crate::world::transient())).unwrap();
    world.verb(Verb::Cancel { reason: String::new() }).unwrap();
    assert_eq!((world.status("book:undo"), world.state.status()), (StepStatus::Skipped, PlanStatus::Cancelled));

    let mut world = World::of(booking(retried));
    let task = world.dispatch("book");
    world.report(failed(&task, crate::world::transient())).unwrap();
    let task = next_attempt(&mut world);
    world.report(failed(&task, permanent())).unwrap();
    assert_eq!((world.status("book:undo"), world.state.status()), (StepStatus::Skipped, PlanStatus::Failed));
}

#[test]
fn a_step_that_was_skipped_is_undone_when_it_may_be_done() {
    let mut world = World::of(booking(|_| {}));
    world.dispatch("book");
    world.verb(Verb::SkipStep { step: "book".into(), reason: "no answer".into() }).unwrap();
    world.fail("pay", permanent());
    assert_eq!(undone(&mut world).len(), 1, "an attempt was out");

    for (failure, count) in [(unknown(), 1), (permanent(), 0)] {
        let mut world = World::of(booking(|step| step.on_failure = OnFailure::Skip));
        world.fail("book", failure);
        assert_eq!(world.status("book"), StepStatus::Skipped);
        world.fail("pay", permanent());
        assert_eq!(undone(&mut world).len(), count);
    }
}

#[test]
fn each_agent_that_may_have_done_a_step_undoes_it() {
    let other = Fallback { agent_type: Some("other".into()), action: None };
    let mut world = World::of(booking(|step| step.fallback = Some(other)));
    let task = world.dispatch("book");
    world.report(failed(&task, unknown())).unwrap();
    let task = next_attempt(&mut world);
    assert_eq!(task.agent_type.as_str(), "other");
    world.report(completed(&task, json!({"order": 2}))).unwrap();
    world.fail("pay", permanent());
    let mut asked = Vec::new();
    while !world.state.is_final() {
        let task = world.dispatch("book:undo");
        asked.push((task.agent_type.to_string(), task.inputs.value()["order"].clone(), task.idempotency_key.clone()));
        world.report(completed(&task, json!({}))).unwrap();
    }
    let key = format!("{}:book:undo", world.state.id());
    let own = step("x", &[]).agent_type.to_string();
    assert_eq!(asked, [("other".into(), json!(2), key.clone()), (own, json!("none"), format!("{key}@2"))]);
}

#[test]
fn a_loop_is_undone_once_for_each_iteration_the_last_one_first() {
    let mut world = World::of(looped(|_| {}));
    for n in 1..=3 {
        world.complete("book", json!({"order": n}));
    }
    world.fail("pay", permanent());
    let expected = [3, 2, 1].map(|n| json!({"order": n, "n": n}));
    assert_eq!(undone(&mut world), expected);
    assert_eq!((world.state.status(), world.status("book:undo")), (PlanStatus::Failed, StepStatus::Completed));
}

#[test]
fn the_iterations_of_a_loop_that_fails_are_undone() {
    // The third iteration fails, is cut off, or gives outputs that its condition cannot read.
    type Third = fn(&mut World);
    let thirds: [(Third, &[i32]); 3] = [
        (|world| world.fail("book", permanent()), &[2, 1]),
        (|world| world.fail("book", unknown()), &[3, 2, 1]),
        (|world| world.complete("book", json!({"x": 1})), &[3, 2, 1]),
    ];
    for (third, expected) in thirds {
        let mut world = World::of(looped(|_| {}));
        for n in 1..=2 {
            world.complete("book", json!({"order": n}));
        }
        third(&mut world);
        let numbers: Vec<Value> = undone(&mut world).into_iter().map(|inputs| inputs["n"].clone()).collect();
        assert_eq!(numbers, expected.iter().map(|n| json!(n)).collect::<Vec<_>>());
    }
    let mut world = World::of(looped(|step| step.repeat.as_mut().unwrap().max = 2));
    world.complete("book", json!({"order": 1}));
    world.complete("book", json!({"order": 2}));
    assert_eq!(world.code("book"), "REPEAT_EXHAUSTED");
    assert_eq!(undone(&mut world), [2, 1].map(|n| json!({"order": n, "n": n})));
}

#[test]
fn one_iteration_that_cannot_be_undone_keeps_no_other_from_it_and_is_told_in_the_end() {
    let mut world = World::of(looped(|_| {}));
    for n in 1..=3 {
        world.complete("book", json!({"order": n}));
    }
    world.fail("pay", permanent());
    world.fail("book:undo", permanent());
    assert_eq!(world.status("book:undo"), StepStatus::Ready);
    world.complete("book:undo", json!({}));
    world.complete("book:undo", json!({}));
    assert_eq!((world.status("book:undo"), world.state.status()), (StepStatus::Failed, PlanStatus::Failed));
    let failure = world.state.step(world.index("book:undo")).unwrap().failure.unwrap().message.clone();
    assert!(failure.starts_with("1 of 3 could not be undone"), "{failure}");
    let reason = world.state.ended().unwrap().reason.clone();
    assert!(reason.ends_with("clean-up steps that did not succeed: `book:undo`"), "{reason}");
}

#[test]
fn the_condition_of_an_undo_step_is_asked_for_each_iteration() {
    for (when, expected) in [("outputs.order != 2", &[3, 1][..]), ("outputs.order > 1", &[3, 2]), ("false", &[])] {
        let mut world = World::of(with(looped(|_| {}), "book:undo", |undo| undo.when = Some(when.into())));
        for n in 1..=3 {
            world.complete("book", json!({"order": n}));
        }
        world.fail("pay", permanent());
        let orders: Vec<Value> = undone(&mut world).into_iter().map(|inputs| inputs["order"].clone()).collect();
        assert_eq!(orders, expected.iter().map(|n| json!(n)).collect::<Vec<_>>(), "{when}");
        let end = if expected.is_empty() { StepStatus::Skipped } else { StepStatus::Completed };
        assert_eq!(world.status("book:undo"), end);
    }
}

#[test]
fn an_undo_step_that_is_a_loop_begins_again_for_each_iteration() {
    let polled = Repeat { until: "iteration >= 2".into(), max: 3, delay_ms: 0, on_max: OnMax::Fail };
    let mut world = World::of(with(looped(|_| {}), "book:undo", |undo| {
        undo.repeat = Some(Box::new(polled));
        undo.inputs = json!({"order": "{{ outputs.order }}", "round": "{{ iteration }}"}).into();
    }));
    for n in 1..=3 {
        world.complete("book", json!({"order": n}));
    }
    world.fail("pay", permanent());
    let expected =
        [(3, 1), (3, 2), (2, 1), (2, 2), (1, 1), (1, 2)].map(|(n, round)| json!({"order": n, "round": round}));
    assert_eq!(undone(&mut world), expected);
}

#[test]
fn a_revision_that_removes_a_loop_undoes_each_iteration_before_the_new_steps() {
    let mut world = World::of(looped(|_| {}));
    for n in 1..=3 {
        world.complete("book", json!({"order": n}));
    }
    let free = json!({"dependencies": null}).as_object().unwrap().clone();
    let changes = vec![
        Change::SetFields { step: "pay".into(), fields: free },
        Change::RemoveStep { step: "book".into() },
        Change::AddStep { step: Box::new(step("camp", &[])), before: Vec::new() },
    ];
    world.verb(Verb::Edit { changes, revision: None, reason: String::new() }).unwrap();
    for n in [3, 2, 1] {
        assert_eq!(world.status("camp"), StepStatus::Pending);
        let task = world.dispatch("book:undo");
        assert_eq!(task.inputs.value(), json!({"order": n, "n": n}));
        world.restart();
        world.report(completed(&task, json!({}))).unwrap();
    }
    world.finish();
    assert_eq!((world.status("camp"), world.state.status()), (StepStatus::Completed, PlanStatus::Completed));
}

#[test]
fn a_step_that_a_person_retries_is_undone_for_its_earlier_attempts_too() {
    let mut waits = booking(|step| step.on_failure = OnFailure::Continue);
    waits.steps.push(step("other", &[]));
    let mut world = World::of(waits);
    world.fail("book", unknown());
    let again = Change::RetryStep { step: "book".into(), agent_type: None, action: None, inputs: None };
    world.verb(Verb::Edit { changes: vec![again], revision: None, reason: String::new() }).unwrap();
    world.fail("book", permanent());
    world.fail("other", permanent());
    assert_eq!(undone(&mut world).len(), 1);
}

//! Callbacks: agents that accept a task now and report its outcome later.

use goalmill_common::call::{CallWait, CallWaitKind, SuspendedCall};
use goalmill_common::callback::{CallbackError, CallbackReport};
use goalmill_common::command::Verb;
use goalmill_common::event::write_entry;
use goalmill_common::failure::FailureClass;
use goalmill_common::plan::{Plan, Repeat, Retry};
use goalmill_common::report::What;
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_common::task::Task;
use goalmill_engine::calls::callback;
use goalmill_engine::{Command, Decision, Rejection};
use serde_json::json;

use crate::world::{World, plan, report, with};

fn printing() -> Plan {
    let mut plan = plan(&[("print", &[]), ("ship", &["print"])]);
    plan.max_parallel = Some(1);
    with(plan, "print", |step| {
        (step.callback, step.timeout_ms) = (true, Some(60_000));
        step.retry = Retry { max: 1, initial_ms: 0, ..Retry::default() };
    })
}

fn accept(world: &mut World, task: &Task) {
    let wait = CallWait::new(CallWaitKind::Callback, "");
    let call = SuspendedCall { n: 0, name: "callback".into(), inputs: None, wait };
    let mut accepted = report(task, What::Suspended);
    accepted.suspended = Some(Box::new(call));
    world.report(accepted).expect("it is current");
}

fn call_back(world: &mut World, attempt: u32, report: CallbackReport) -> Result<Decision, Rejection> {
    world.verb(Verb::ReportCallback { step: "print".into(), attempt, report: Box::new(report) })
}

fn done(pages: u32) -> CallbackReport {
    CallbackReport { outputs: Some(json!({ "pages": pages }).into()), cost: Some(0.5), ..CallbackReport::default() }
}

fn failed(class: FailureClass) -> CallbackReport {
    let error = CallbackError { class: Some(class), message: Some("no paper".into()), ..CallbackError::default() };
    CallbackReport { error: Some(error), ..CallbackReport::default() }
}

/// A plan whose agent has accepted the task.
fn accepted() -> World {
    let mut world = World::of(printing());
    let task = world.dispatch("print");
    accept(&mut world, &task);
    world
}

#[test]
fn an_accepted_task_holds_no_slot_and_its_callback_completes_the_step() {
    let mut world = accepted();
    assert_eq!((world.status("print"), world.state.in_flight()), (StepStatus::Waiting, 0));
    world.restart();
    call_back(&mut world, 1, done(3)).unwrap();
    assert_eq!((world.status("print"), world.outputs("print")), (StepStatus::Completed, json!({"pages": 3})));
    assert_eq!(world.state.usage().cost, 0.5);
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn the_token_of_a_callback_is_of_its_attempt_and_in_no_event() {
    let mut world = World::of(printing());
    let task = world.dispatch("print");
    let callback = task.callback.clone().expect("the step has one");
    assert!(callback.url.ends_with("/print/1"), "{}", callback.url);
    let i = world.index("print");
    assert_eq!(callback::callback_token(&world.state, i, 1, world.context.token_key), Some(callback.token.clone()));
    assert_ne!(callback.token, task.token);
    assert_ne!(callback::callback_token(&world.state, i, 2, world.context.token_key), Some(callback.token.clone()));
    assert_eq!(callback::callback_token(&world.state, world.index("ship"), 1, world.context.token_key), None);
    accept(&mut world, &task);
    call_back(&mut world, 1, done(1)).unwrap();
    let log = String::from_utf8(write_entry(&world.log)).expect("JSON is UTF-8");
    assert!(!log.contains(callback.token.as_str()));
    assert_eq!(world.dispatch("ship").callback, None);
}

#[test]
fn a_callback_may_overtake_the_word_that_the_task_is_accepted() {
    let mut world = World::of(printing());
    let task = world.dispatch("print");
    call_back(&mut world, 1, done(2)).unwrap();
    assert_eq!(world.status("print"), StepStatus::Completed);
    let wait = CallWait::new(CallWaitKind::Callback, "");
    let mut late = report(&task, What::Suspended);
    late.suspended = Some(Box::new(SuspendedCall { n: 0, name: "callback".into(), inputs: None, wait }));
    assert!(matches!(world.report(late), Err(Rejection::StaleAttempt { .. })));
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn the_same_callback_again_changes_nothing_and_another_one_is_refused() {
    let mut world = accepted();
    call_back(&mut world, 1, done(3)).unwrap();
    let before = world.state.seq();
    call_back(&mut world, 1, done(3)).unwrap();
    assert_eq!(world.state.seq(), before);
    assert!(matches!(call_back(&mut world, 1, done(4)), Err(Rejection::NotAllowed { .. })));
    world.restart();
    call_back(&mut world, 1, done(3)).unwrap();
    assert_eq!(world.outputs("print"), json!({"pages": 3}));
}

#[test]
fn a_failure_by_callback_follows_the_policy_of_the_step() {
    let mut world = accepted();
    call_back(&mut world, 1, failed(FailureClass::Transient)).unwrap();
    let task = world.dispatch("print");
    assert_eq!(task.attempt, 2);
    call_back(&mut world, 1, failed(FailureClass::Transient)).expect("it is the same one again");
    assert!(call_back(&mut world, 1, done(1)).is_err(), "the attempt is over");
    accept(&mut world, &task);
    call_back(&mut world, 2, failed(FailureClass::Permanent)).unwrap();
    assert_eq!((world.state.status(), world.code("print").as_str()), (PlanStatus::Failed, "CALLBACK_FAILED"));
}

#[test]
fn a_callback_that_does_not_come_in_time_fails_the_attempt_and_is_refused_later() {
    let mut world = accepted();
    world.step_due("print");
    let task = world.dispatch("print");
    assert_eq!(task.attempt, 2);
    assert!(matches!(call_back(&mut world, 1, done(1)), Err(Rejection::NotAllowed { .. })));
    accept(&mut world, &task);
    world.step_due("print");
    assert_eq!(world.code("print"), "CALLBACK_TIMEOUT");
}

#[test]
fn only_a_step_with_a_callback_may_be_accepted() {
    let mut world = World::of(with(printing(), "print", |step| step.callback = false));
    let task = world.dispatch("print");
    accept(&mut world, &task);
    assert_eq!(world.code("print"), "ANSWER_INVALID");

    let mut world = accepted();
    assert!(call_back(&mut world, 2, done(1)).is_err(), "there is no second attempt");
    let other = Verb::ReportCallback { step: "ship".into(), attempt: 0, report: Box::new(done(1)) };
    assert!(world.verb(other).is_err());
}

#[test]
fn an_iteration_may_end_by_callback() {
    let mut world = World::of(with(printing(), "print", |step| {
        let until = "outputs.pages > 1".to_owned();
        step.repeat = Some(Box::new(Repeat { until, max: 3, delay_ms: 0, on_max: Default::default() }));
    }));
    for attempt in 1..=2 {
        let task = world.dispatch("print");
        accept(&mut world, &task);
        call_back(&mut world, attempt, done(attempt)).unwrap();
    }
    assert_eq!(world.outputs("print"), json!({"pages": 2}));
}

#[test]
fn the_end_of_the_plan_ends_the_wait_and_a_person_may_complete_it() {
    let mut world = accepted();
    world.verb(Verb::Cancel { reason: String::new() }).unwrap();
    assert_eq!(world.status("print"), StepStatus::Cancelled);

    let mut world = accepted();
    let outputs = json!({"pages": 9}).into();
    world.verb(Verb::CompleteStep { step: "print".into(), outputs, reason: String::new() }).unwrap();
    assert_eq!(world.outputs("print"), json!({"pages": 9}));
    assert!(call_back(&mut world, 1, done(1)).is_err());
}

#[test]
fn a_plan_with_callbacks_is_refused_where_agents_cannot_report() {
    let mut world = World::new();
    world.context.callback_base = String::new();
    let refused = world.submit(printing()).expect_err("agents could not report");
    let Rejection::NotAllowed { reason } = refused else { panic!("{refused:?}") };
    assert!(reason.contains("`print`") && reason.contains("`api.callback_url`"), "{reason}");
}

#[test]
fn a_step_with_a_callback_fails_before_it_is_sent_where_agents_cannot_report() {
    let mut world = World::new();
    world.submit(printing()).expect("agents can report");
    // Another scheduler has taken the plan over.
    world.context.callback_base = String::new();
    let print = world.index("print");
    world.command(Command::Dispatch(print)).expect("it is ready");
    assert_eq!((world.status("print"), world.code("print")), (StepStatus::Failed, "CALLBACK_ADDRESS_MISSING".into()));
    assert_eq!(world.open_tasks(), Vec::new());
}

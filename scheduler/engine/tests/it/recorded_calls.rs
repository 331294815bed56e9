//! Recorded calls of a step: numbered, given to the next attempt, counted once.

use goalmill_common::call::{CallWait, CallWaitKind, RecordedCall, SuspendedCall, inputs_digest};
use goalmill_common::command::Verb;
use goalmill_common::event::{Event, StepEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::{Budget, Usage};
use goalmill_common::json::Json;
use goalmill_common::plan::{Estimates, Fallback, OnPartial, Plan, Retry, Step};
use goalmill_common::report::{Report, TokenSplit, What};
use goalmill_common::status::StepStatus;
use goalmill_common::task::Task;
use goalmill_engine::{Rejection, calls, fork};
use serde_json::json;

use crate::world::{World, completed, failed, permanent, plan, report, transient, with};

fn call(n: u32, name: &str) -> RecordedCall {
    RecordedCall {
        n,
        name: name.into(),
        inputs: Some(inputs_digest("x")),
        outcome: Some(Json::from(json!(n))),
        cost: 0.5,
        usage: Some(TokenSplit { prompt_tokens: 9, completion_tokens: 1 }),
        ..RecordedCall::default()
    }
}

fn told(task: &Task, call: RecordedCall) -> Report {
    Report { call: Some(Box::new(call)), ..report(task, What::Call) }
}

fn record(world: &mut World, task: &Task, calls: &[(u32, &str)]) {
    for (n, name) in calls {
        world.report(told(task, call(*n, name))).expect("it is the next call");
    }
}

fn numbers(task: &Task) -> Vec<u32> {
    task.calls.iter().map(|call| call.n).collect()
}

fn one(change: impl FnOnce(&mut Step)) -> Plan {
    with(plan(&[("a", &[])]), "a", change)
}

fn lost(task: &Task) -> Report {
    Report { failure: Some(Failure::new(FailureClass::Lost, "LEASE_EXPIRED", "x")), ..report(task, What::Lost) }
}

fn usage(world: &World) -> Usage {
    world.state.view(false).summary.usage
}

#[test]
fn the_next_attempt_gets_every_recorded_call_and_usage_counts_once() {
    let mut world = World::of(one(|step| step.retry = Retry { max: 3, initial_ms: 1, ..Retry::default() }));
    let task = world.dispatch("a");
    assert!(task.calls.is_empty());
    record(&mut world, &task, &[(1, "model"), (2, "search")]);
    assert_eq!(world.status("a"), StepStatus::Running, "a call says that the attempt runs");
    assert_eq!(usage(&world), Usage { cost: 1.0, tokens: 20 });
    world.report(lost(&task)).expect("it is current");
    world.restart();
    let task = world.dispatch("a");
    assert_eq!((numbers(&task), task.attempt), (vec![1, 2], 2));
    assert_eq!(task.calls[1], call(2, "search"));
    record(&mut world, &task, &[(3, "model")]);
    world.report(failed(&task, transient())).expect("it is current");
    world.step_due("a");
    let task = world.dispatch("a");
    assert_eq!(numbers(&task), [1, 2, 3]);
    world.report(report(&task, What::Released)).expect("it is current");
    let task = world.dispatch("a");
    assert_eq!((numbers(&task), task.attempt), (vec![1, 2, 3], 4));
    record(&mut world, &task, &[(4, "model")]);
    world.report(completed(&task, json!({}))).expect("it is current");
    assert_eq!(usage(&world), Usage { cost: 2.0, tokens: 40 }, "four calls in four attempts");
    world.restart();
}

#[test]
fn what_is_recorded_is_not_reserved_again() {
    let budget = Budget { cost: Some(1.2), ..Budget::default() };
    let estimates = Estimates { cost: Some(1.0), ..Estimates::default() };
    let mut world = World::of(Plan { budget, ..one(|step| step.estimates = estimates) });
    let task = world.dispatch("a");
    record(&mut world, &task, &[(1, "model")]);
    world.report(lost(&task)).expect("it is current");
    let task = world.dispatch("a");
    assert_eq!(numbers(&task), [1], "0.5 are used, and 0.5 of the estimate are left");
    record(&mut world, &task, &[(2, "model")]);
    world.report(completed(&task, json!({}))).expect("it is current");
    assert_eq!((world.status("a"), usage(&world).cost), (StepStatus::Completed, 1.0));
}

#[test]
fn only_the_next_call_of_the_current_attempt_is_recorded() {
    let mut world = World::of(one(|_| {}));
    let old = world.dispatch("a");
    record(&mut world, &old, &[(1, "model")]);
    for refused in [call(1, "model"), call(3, "model"), call(0, "model")] {
        let answer = world.report(told(&old, refused));
        assert!(matches!(answer, Err(Rejection::StaleAttempt { .. })), "{answer:?}");
    }
    assert!(world.report(report(&old, What::Call)).is_err(), "there is no call");
    world.report(lost(&old)).expect("it is current");
    let task = world.dispatch("a");
    assert!(world.report(told(&old, call(2, "model"))).is_err(), "its token is that of an older attempt");
    let forged = Task { token: "guess".into(), ..task.clone() };
    assert!(world.report(told(&forged, call(2, "model"))).is_err());
    record(&mut world, &task, &[(2, "model")]);
    assert_eq!(usage(&world).tokens, 20);
}

#[test]
fn another_call_under_a_recorded_number_drops_the_rest() {
    let other_inputs = RecordedCall { inputs: Some(inputs_digest("y")), ..call(2, "search") };
    for other in [call(2, "read"), other_inputs] {
        let mut world = World::of(one(|_| {}));
        let task = world.dispatch("a");
        record(&mut world, &task, &[(1, "model"), (2, "search"), (3, "model")]);
        world.report(lost(&task)).expect("it is current");
        let task = world.dispatch("a");
        let decision = world.report(told(&task, other.clone())).expect("the loop took another way");
        let names: Vec<&str> = decision.records.iter().map(|record| record.event.type_name()).collect();
        assert_eq!(names[names.len() - 2..], ["calls_discarded", "call_recorded"]);
        world.report(lost(&task)).expect("it is current");
        let task = world.dispatch("a");
        assert_eq!((numbers(&task), &task.calls[1]), (vec![1, 2], &other));
        world.restart();
    }
}

#[test]
fn a_refused_answer_and_another_agent_begin_without_calls() {
    let mut world = World::of(one(|step| {
        step.retry = Retry { max: 1, initial_ms: 0, ..Retry::default() };
        step.fallback = Some(Fallback { agent_type: Some("other".into()), action: None });
        step.on_partial = OnPartial::Fail;
    }));
    let task = world.dispatch("a");
    record(&mut world, &task, &[(1, "model")]);
    let partial = Report { errors: vec![transient()], ..report(&task, What::PartialSuccess) };
    world.report(partial).expect("it is current");
    let discards = |world: &World| {
        let is_discard = |event: &Event| matches!(event, Event::Step { event: StepEvent::CallsDiscarded(_), .. });
        world.log.iter().filter(|record| is_discard(&record.event)).count()
    };
    assert_eq!(discards(&world), 1, "the same calls would give the same outputs");
    let task = world.dispatch("a");
    assert!(task.calls.is_empty());
    record(&mut world, &task, &[(1, "model")]);
    world.report(failed(&task, permanent())).expect("it is current");
    let task = world.dispatch("a");
    assert_eq!((task.agent_type.as_str(), numbers(&task)), ("other", vec![]));
    assert_eq!((usage(&world).tokens, discards(&world)), (20, 1));
    world.restart();
}

#[test]
fn calls_are_bounded_and_count_against_the_budget() {
    let mut world = World::of(Plan { budget: Budget { cost: Some(1.2), ..Budget::default() }, ..one(|_| {}) });
    let task = world.dispatch("a");
    record(&mut world, &task, &[(1, "model"), (2, "model"), (3, "model")]);
    assert_eq!(world.plan_code(), "BUDGET_EXCEEDED");
}

#[test]
fn a_call_that_the_log_refuses_ends_the_attempt_and_names_the_limit() {
    let long = RecordedCall { name: "m".repeat(201), ..call(3, "") };
    let large = RecordedCall { outcome: Some(Json::from(json!("x".repeat(300_000)))), ..call(3, "model") };
    let negative = RecordedCall { cost: -1.0, ..call(3, "model") };
    for (calls_max, calls_bytes_max, refused, code, part) in [
        (2, 1_000, call(3, "model"), "CALLS_EXCEEDED", "`limits.calls_max`"),
        (9, 100, call(3, "model"), "CALLS_EXCEEDED", "`limits.calls_bytes_max`"),
        (9, 1_000_000, large, "CALL_INVALID", "`limits.inline_bytes_max`"),
        (9, 1_000, long, "CALL_INVALID", "200"),
        (9, 1_000, negative, "CALL_INVALID", "cost"),
    ] {
        let mut world = World::of(one(|step| step.retry = Retry { max: 3, ..Retry::default() }));
        (world.context.limits.calls_max, world.context.limits.calls_bytes_max) = (calls_max, calls_bytes_max);
        let task = world.dispatch("a");
        record(&mut world, &task, &[(1, "a"), (2, "b")]);
        world.report(told(&task, refused.clone())).expect("it is current");
        let failure = world.state.step(world.index("a")).and_then(|at| at.failure.cloned()).expect("it failed");
        assert_eq!((world.status("a"), failure.code.as_str()), (StepStatus::Failed, code));
        assert!(failure.message.contains(part), "{part}: {failure:?}");
        assert!(world.cancelled.contains(&task.token) && world.acknowledged == ["a-1"], "its worker stops");
        assert_eq!(usage(&world).cost, 1.0 + refused.cost.max(0.0), "it was made");
        assert!(world.report(told(&task, refused)).is_err(), "a second copy changes nothing");
        assert!(world.report(completed(&task, json!({}))).is_err(), "the attempt has ended");
        world.restart();
    }
}

#[test]
fn a_loss_counts_only_if_the_attempt_recorded_nothing_new() {
    let mut world = World::of(one(|step| step.retry = Retry { max: 0, ..Retry::default() }));
    for n in 1..=9 {
        let task = world.dispatch("a");
        record(&mut world, &task, &[(n, "model")]);
        world.report(lost(&task)).expect("it is current");
        assert_eq!(world.status("a"), StepStatus::Ready, "loss {n}");
        world.restart();
    }
    for losses in 1..=3 {
        let task = world.dispatch("a");
        // Another call in place of a recorded one is nothing new.
        world.report(told(&task, call(9, &format!("other {losses}")))).expect("it is current");
        world.report(lost(&task)).expect("it is current");
        world.restart();
        assert_eq!(world.status("a"), if losses < 3 { StepStatus::Ready } else { StepStatus::Failed });
    }
    assert_eq!(world.code("a"), "STEP_POISONED");
}

#[test]
fn losses_before_a_new_call_are_forgotten() {
    let mut world = World::of(one(|step| step.retry = Retry { max: 0, ..Retry::default() }));
    for n in 1..=5 {
        for loss in 1..=2 {
            let task = world.dispatch("a");
            world.report(lost(&task)).expect("it is current");
            assert_eq!(world.status("a"), StepStatus::Ready, "loss {loss} before call {n}");
            world.restart();
        }
        let task = world.dispatch("a");
        record(&mut world, &task, &[(n, "model")]);
        world.report(lost(&task)).expect("it is current");
        world.restart();
    }
    for losses in 1..=3 {
        let task = world.dispatch("a");
        world.report(lost(&task)).expect("it is current");
        assert_eq!(world.status("a"), if losses < 3 { StepStatus::Ready } else { StepStatus::Failed });
    }
}

fn waiting(task: &Task, n: u32, kind: CallWaitKind, schema: Option<serde_json::Value>) -> Report {
    let wait = CallWait { schema: schema.map(Json::from), limit_ms: Some(5_000), ..CallWait::new(kind, "pay 5") };
    let call = SuspendedCall { n, name: "ask".into(), inputs: Some(inputs_digest("x")), wait };
    Report { suspended: Some(Box::new(call)), ..report(task, What::Suspended) }
}

#[test]
fn a_call_that_waits_for_approval_holds_no_slot_and_goes_on_with_the_decision() {
    for agrees in [true, false] {
        let mut world = World::of(one(|step| step.retry = Retry { max: 0, ..Retry::default() }));
        let task = world.dispatch("a");
        record(&mut world, &task, &[(1, "model")]);
        world.report(waiting(&task, 2, CallWaitKind::Approval, None)).expect("it is current");
        assert_eq!((world.status("a"), world.state.in_flight()), (StepStatus::AwaitingApproval, 0));
        assert_eq!(world.acknowledged, ["a-1"]);
        let view = world.state.view(false);
        assert_eq!((view.steps[0].reason.as_str(), view.steps[0].question.is_none()), ("pay 5", true));
        assert!(world.report(told(&task, call(2, "model"))).is_err(), "the attempt has ended");
        assert!(world.report(completed(&task, json!({}))).is_err(), "the attempt has ended");
        world.restart();
        let (step, reason) = ("a".into(), "why".to_owned());
        let verb = if agrees { Verb::ApproveStep { step, reason } } else { Verb::RejectStep { step, reason } };
        world.verb(verb.clone()).expect("it waits for approval");
        assert!(world.verb(verb).is_err(), "it was decided");
        let task = world.dispatch("a");
        assert_eq!((task.attempt, numbers(&task)), (2, vec![1, 2]));
        let outcome = task.calls[1].outcome.as_ref().expect("it has one").value();
        assert_eq!((task.calls[1].name.as_str(), outcome), ("ask", json!({"approved": agrees, "reason": "why"})));
        record(&mut world, &task, &[(3, "model")]);
        world.report(completed(&task, json!({}))).expect("it is current");
        world.restart();
    }
}

#[test]
fn a_call_that_asks_goes_on_with_an_answer_of_its_schema() {
    let mut world = World::of(one(|_| {}));
    let task = world.dispatch("a");
    let question = waiting(&task, 1, CallWaitKind::Answer, Some(json!({"enum": ["yes", "no"]})));
    world.report(question).expect("it is current");
    let asked = world.state.view(false).steps[0].question.clone().expect("it asks");
    assert_eq!((asked.id.as_str(), asked.question.as_str(), asked.schema.is_some()), ("a", "pay 5", true));
    let answer = |answer: &str| Verb::AnswerQuestion {
        question: "a".into(),
        answer: Json::from(json!(answer)),
        reason: String::new(),
    };
    assert!(matches!(world.verb(answer("maybe")), Err(Rejection::Invalid { .. })));
    let approval = Verb::ApproveStep { step: "a".into(), reason: String::new() };
    assert!(world.verb(approval).is_err(), "it waits for an answer");
    world.verb(answer("no")).expect("it fits");
    let task = world.dispatch("a");
    assert_eq!(task.calls[0].outcome.as_ref().expect("it has one").value(), json!({"answer": "no"}));
    assert!(world.state.view(false).steps[0].question.is_none());
    world.restart();
}

#[test]
fn a_call_waits_until_its_time_and_no_longer() {
    for (kind, expected) in [
        (CallWaitKind::Approval, json!({"approved": false, "reason": "approval timed out"})),
        (CallWaitKind::Answer, json!({"error": "nobody answered in time"})),
    ] {
        let mut world = World::of(one(|_| {}));
        let task = world.dispatch("a");
        world.report(waiting(&task, 1, kind, None)).expect("it is current");
        world.step_due("a");
        let task = world.dispatch("a");
        assert_eq!(task.calls[0].outcome.as_ref().expect("it has one").value(), expected);
    }
}

#[test]
fn an_invalid_wait_fails_the_attempt() {
    let no_schema = Some(json!({"type": "strin"}));
    for (n, schema, part) in [(2, None, "not the next"), (1, no_schema, "strin")] {
        let mut world = World::of(one(|_| {}));
        let task = world.dispatch("a");
        world.report(waiting(&task, n, CallWaitKind::Answer, schema)).expect("it is current");
        let failure = world.state.step(world.index("a")).and_then(|at| at.failure.cloned()).expect("it failed");
        assert_eq!(failure.code, "ANSWER_INVALID");
        assert!(failure.message.contains(part), "{}", failure.message);
    }
}

#[test]
fn a_step_of_a_fork_begins_with_the_calls_that_gave_something() {
    let mut first = World::of(one(|_| {}));
    let task = first.dispatch("a");
    record(&mut first, &task, &[(1, "model"), (2, "search")]);
    let error = Some(Failure::new(FailureClass::Permanent, "GONE", "x"));
    first.report(told(&task, RecordedCall { error, outcome: None, ..call(3, "read") })).expect("it is the next call");
    // Equal to one that gave nothing: the next attempt would give its outcome to that one.
    record(&mut first, &task, &[(4, "model"), (5, "read")]);
    assert_eq!(calls::paid_calls(&first.state, &"a".into(), 2), None, "it is another attempt");
    assert_eq!(calls::paid_calls(&first.state, &"b".into(), 1), None);
    let kept = calls::paid_calls(&first.state, &"a".into(), 1).expect("it is the attempt");
    assert_eq!(kept.iter().map(|call| call.n).collect::<Vec<_>>(), [1, 2, 4]);
    assert!(kept.iter().all(|call| call.cost == 0.0 && call.usage.is_none() && call.outcome.is_some()));

    let calls: Vec<RecordedCall> = (1..).zip(kept).map(|(n, call)| RecordedCall { n, ..call }).collect();
    let mut submit = fork(&first.state, &first.state, None, "again".into(), "cli".into()).expect("there is a plan");
    submit.fork.as_mut().expect("it is a fork").calls = [("a".into(), calls.clone())].into();
    let mut second = World::new();
    second.submit_as(submit.clone()).expect("it is a plan");
    let task = second.dispatch("a");
    assert_eq!((&task.calls, usage(&second)), (&calls, Usage::default()));
    // What another plan has recorded is no progress of this one.
    second.report(lost(&task)).expect("it is current");
    for attempt in 2..=3 {
        second.restart();
        let task = second.dispatch("a");
        assert_eq!((task.attempt, numbers(&task)), (attempt, vec![1, 2, 3]));
        second.report(lost(&task)).expect("it is current");
    }
    assert_eq!(second.status("a"), StepStatus::Failed);

    submit.fork.as_mut().expect("it is a fork").calls = [("b".into(), Vec::new())].into();
    assert!(World::new().submit_as(submit).is_err(), "there is no such step");
}

#[test]
fn calls_that_waited_in_vain_are_not_kept() {
    let mut world = World::of(one(|_| {}));
    let kept = |world: &World, task: &Task| {
        let calls = calls::paid_calls(&world.state, &"a".into(), task.attempt);
        calls.expect("it is the attempt").iter().map(|call| call.n).collect::<Vec<_>>()
    };
    for (n, reason) in [(1, None), (2, Some("yes"))] {
        let task = world.dispatch("a");
        let wait = CallWait { limit_ms: Some(1_000), ..CallWait::new(CallWaitKind::Approval, "pay?") };
        let suspended = SuspendedCall { n, name: format!("approve {n}"), inputs: None, wait };
        let report = Report { suspended: Some(Box::new(suspended)), ..report(&task, What::Suspended) };
        world.report(report).expect("it is current");
        match reason {
            None => world.step_due("a"),
            Some(reason) => {
                world.verb(Verb::ApproveStep { step: "a".into(), reason: reason.into() }).map(drop).expect("it waits");
            }
        }
    }
    let task = world.dispatch("a");
    assert_eq!((numbers(&task), kept(&world, &task)), (vec![1, 2], vec![2]));
}

//! Steps that wait for a time or an event, and plans that wait for their start.

use goalmill_common::clock::rfc3339;
use goalmill_common::command::{Change, Verb};
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::goal::{Budget, Goal};
use goalmill_common::json::Json;
use goalmill_common::plan::{OnFailure, OnTimeout, Plan, Step, StepKind, StepWait, Strategy};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{Command, Effect, Rejection, Timer, explain};
use serde_json::json;

use crate::world::{START_MS, World, completed, step, submission};

const DAY_MS: u64 = 86_400_000;

/// A step that waits for this.
fn wait(id: &str, after: &[&str], wait: StepWait) -> Step {
    let (kind, wait) = (StepKind::Wait, Some(Box::new(wait)));
    Step { kind, wait, agent_type: "".into(), ..step(id, after) }
}

fn for_ms(ms: u64) -> StepWait {
    StepWait { for_ms: Some(ms), ..StepWait::default() }
}

fn until(time: impl Into<String>) -> StepWait {
    StepWait { until: Some(time.into()), ..StepWait::default() }
}

/// `a`, then `pause`, then `b`.
fn paused_between(pause: StepWait) -> Plan {
    Plan { steps: vec![step("a", &[]), wait("pause", &["a"], pause), step("b", &["pause"])], ..Plan::default() }
}

#[test]
fn a_wait_ends_at_its_time_and_once() {
    let mut world = World::of(paused_between(for_ms(3 * DAY_MS)));
    world.now_ms += 1_000;
    world.complete("a", json!({}));
    assert_eq!((world.status("pause"), world.status("b")), (StepStatus::Waiting, StepStatus::Pending));
    let (timer, due_ms) = (Timer::Step(world.index("pause")), START_MS + 1_000 + 3 * DAY_MS);
    assert_eq!(world.timers.get(&timer), Some(&due_ms));
    world.restart();
    assert_eq!(world.timers.get(&timer), Some(&due_ms), "the timer comes from the state");
    world.now_ms = due_ms - 1;
    assert_eq!(world.command(Command::Due(timer)), Err(Rejection::NotDue));
    world.step_due("pause");
    assert_eq!(world.outputs("pause"), json!({"waited_until": rfc3339(due_ms)}));
    assert_eq!(world.story_of("pause"), ["step_ready", "step_wait_started", "step_completed"]);
    assert_eq!(world.command(Command::Due(timer)), Err(Rejection::NotDue));
    world.complete("b", json!({}));
    assert_eq!(world.state.status(), PlanStatus::Completed);
    assert!(world.timers.is_empty());
}

#[test]
fn a_time_in_the_past_ends_the_wait_immediately() {
    let mut world = World::of(paused_between(until("1999-12-31T23:59:59Z")));
    world.complete("a", json!({}));
    assert_eq!(world.outputs("pause"), json!({"waited_until": "1999-12-31T23:59:59.000Z"}));
    assert_eq!(world.status("b"), StepStatus::Ready);
}

#[test]
fn an_expression_gives_the_time() {
    let pause = || paused_between(until("{{ steps.a.outputs.at }}"));
    for at in [json!(rfc3339(START_MS + DAY_MS)), json!(START_MS + DAY_MS)] {
        let mut world = World::of(pause());
        world.complete("a", json!({ "at": at }));
        world.step_due("pause");
        assert_eq!(world.now_ms, START_MS + DAY_MS);
        assert_eq!(world.status("b"), StepStatus::Ready);
    }
    let local = || StepWait { tz: Some("Asia/Kolkata".into()), ..until("{{ steps.a.outputs.at }}") };
    for (at, ahead_ms) in [(START_MS + DAY_MS, 19_800_000), (START_MS, 0)] {
        let text = rfc3339(at + ahead_ms).trim_end_matches('Z').to_owned();
        let mut world = World::of(paused_between(local()));
        world.complete("a", json!({ "at": if ahead_ms > 0 { text } else { rfc3339(at) } }));
        if ahead_ms > 0 {
            world.step_due("pause");
            assert_eq!(world.now_ms, at, "it is the time of the zone");
        } else {
            assert_eq!(world.code("pause"), "WAIT_TIME_INVALID", "an offset contradicts the zone");
        }
    }
    let mut world = World::of(pause());
    world.complete("a", json!({"at": "tomorrow"}));
    assert_eq!((world.code("pause"), world.state.status()), ("WAIT_TIME_INVALID".into(), PlanStatus::Failed));
}

#[test]
fn a_wait_beyond_the_end_of_the_plan_fails_when_it_begins() {
    let mut submit = submission(Some(paused_between(for_ms(2 * DAY_MS))));
    submit.goal = Goal { deadline_ms: Some(START_MS + DAY_MS), ..submit.goal };
    let mut world = World::new();
    world.submit_as(submit).expect("the plan is fit");
    world.complete("a", json!({}));
    assert_eq!(world.code("pause"), "WAIT_TOO_LONG");
}

#[test]
fn a_wait_takes_no_place_in_max_parallel_and_no_turn_of_another_step() {
    let steps = vec![step("a", &[]), wait("pause", &[], for_ms(DAY_MS)), step("b", &["pause"]), step("c", &[])];
    for strategy in [Strategy::Parallel, Strategy::Adaptive] {
        let plan = Plan { steps: steps.clone(), strategy, max_parallel: Some(1), ..Plan::default() };
        let mut world = World::of(plan);
        assert_eq!(world.status("pause"), StepStatus::Waiting, "it begins beside the step in flight");
        world.complete("a", json!({}));
        world.complete("c", json!({}));
        assert_eq!((world.state.status(), world.status("pause")), (PlanStatus::Running, StepStatus::Waiting));
        world.step_due("pause");
        world.finish();
        assert_eq!(world.state.status(), PlanStatus::Completed);
    }
}

#[test]
fn a_sequential_plan_waits_in_the_order_of_its_list() {
    let steps = vec![step("a", &[]), wait("pause", &[], for_ms(DAY_MS)), step("b", &[])];
    let mut world = World::of(Plan { steps, strategy: Strategy::Sequential, ..Plan::default() });
    assert_eq!(world.status("pause"), StepStatus::Ready);
    world.complete("a", json!({}));
    assert_eq!(world.status("pause"), StepStatus::Waiting);
    assert_eq!(world.command(Command::Dispatch(world.index("b"))), Err(Rejection::NotDue), "it is not its turn");
    world.step_due("pause");
    world.complete("b", json!({}));
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_paused_plan_begins_no_wait_and_ends_those_that_have_begun() {
    let reason = String::new;
    let mut world = World::of(paused_between(for_ms(DAY_MS)));
    let task = world.dispatch("a");
    world.verb(Verb::Pause { reason: reason() }).unwrap();
    world.report(completed(&task, json!({}))).unwrap();
    assert_eq!(world.status("pause"), StepStatus::Ready);
    world.verb(Verb::Resume { reason: reason() }).unwrap();
    assert_eq!(world.status("pause"), StepStatus::Waiting);
    world.verb(Verb::Pause { reason: reason() }).unwrap();
    world.step_due("pause");
    assert_eq!((world.status("pause"), world.status("b")), (StepStatus::Completed, StepStatus::Ready));
    assert!(!world.state.can_dispatch(world.index("b")));
}

#[test]
fn the_end_of_the_plan_ends_its_waits() {
    let waiting = || {
        let mut world = World::of(paused_between(for_ms(DAY_MS)));
        world.complete("a", json!({}));
        world
    };
    let mut world = waiting();
    world.verb(Verb::Cancel { reason: String::new() }).unwrap();
    assert_eq!((world.status("pause"), world.timers.len()), (StepStatus::Cancelled, 0));
    let mut world = waiting();
    world.now_ms = START_MS + 8 * DAY_MS;
    world.command(Command::Due(Timer::Plan)).unwrap();
    assert_eq!(
        (world.plan_code(), world.status("pause"), world.timers.len()),
        ("PLAN_TIMEOUT".into(), StepStatus::Cancelled, 0)
    );
}

#[test]
fn a_person_skips_or_completes_a_wait_and_cannot_retry_it() {
    let waiting = || {
        let mut world = World::of(paused_between(for_ms(DAY_MS)));
        world.complete("a", json!({}));
        world
    };
    let (step, reason) = (|| "pause".into(), String::new);
    let mut world = waiting();
    assert!(world.verb(Verb::RetryStep { step: step(), reason: reason() }).is_err());
    world.verb(Verb::SkipStep { step: step(), reason: reason() }).unwrap();
    assert_eq!((world.status("pause"), world.status("b")), (StepStatus::Skipped, StepStatus::Ready));
    let mut world = waiting();
    world.verb(Verb::CompleteStep { step: step(), outputs: json!({"n": 1}).into(), reason: reason() }).unwrap();
    assert_eq!((world.outputs("pause"), world.status("b")), (json!({"n": 1}), StepStatus::Ready));
}

#[test]
fn a_revision_removes_changes_or_keeps_a_wait() {
    let edited_by = |changes: Vec<Change>| {
        let mut world = World::of(paused_between(for_ms(DAY_MS)));
        world.complete("a", json!({}));
        world.now_ms += 1_000;
        world.verb(Verb::Edit { changes, revision: None, reason: String::new() }).unwrap();
        world
    };
    let edited = |change: Change| edited_by(vec![change]);
    let timer = |world: &World| world.timers.get(&Timer::Step(world.index("pause"))).copied();
    let after_a = Change::ModifyStep { step: Box::new(step("b", &["a"])) };
    let world = edited_by(vec![after_a, Change::RemoveStep { step: "pause".into() }]);
    assert_eq!((world.status("pause"), timer(&world)), (StepStatus::Revised, None));
    let longer = wait("pause", &["a"], for_ms(2 * DAY_MS));
    let world = edited(Change::ModifyStep { step: Box::new(longer) });
    assert_eq!((world.status("pause"), timer(&world)), (StepStatus::Waiting, Some(START_MS + 1_000 + 2 * DAY_MS)));
    let named = Step { description: "rest".into(), ..wait("pause", &["a"], for_ms(DAY_MS)) };
    let world = edited(Change::ModifyStep { step: Box::new(named) });
    assert_eq!((world.status("pause"), timer(&world)), (StepStatus::Waiting, Some(START_MS + DAY_MS)));
    let mut world = edited(Change::SkipStep { step: "pause".into(), reason: String::new() });
    assert_eq!((world.status("pause"), timer(&world)), (StepStatus::Skipped, None));
    world.complete("b", json!({}));
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_renamed_step_is_renamed_in_the_time_too() {
    let mut world = World::of(paused_between(until("{{ steps.a.outputs.at }}")));
    let change = Change::ReplaceStep { step: "a".into(), with: vec![Step::new("a2", "w")] };
    world.verb(Verb::Edit { changes: vec![change], revision: None, reason: String::new() }).unwrap();
    world.complete("a2", json!({"at": rfc3339(START_MS + DAY_MS)}));
    assert_eq!(world.status("pause"), StepStatus::Waiting);
}

#[test]
fn a_wait_is_explained_with_its_end() {
    let mut world = World::of(paused_between(for_ms(DAY_MS)));
    world.complete("a", json!({}));
    let explained = explain::explain(&world.state, world.now_ms);
    assert_eq!(
        explained.summary,
        "of 3 steps, 1 waiting for a time, an event or a callback, 1 waiting for other steps"
    );
    let of = |id: &str| explained.steps.iter().find(|step| step.step_id.as_str() == id).expect("it is open");
    let wait = format!("`pause` waits until {}", rfc3339(START_MS + DAY_MS));
    assert_eq!(of("pause").because, [wait.as_str()]);
    assert_eq!(of("b").because, ["`b` waits for its only dependency", &wait]);
    assert!(of("pause").hint.contains("goalmill step skip"), "{}", of("pause").hint);
}

#[test]
fn what_a_wait_fails_with_follows_its_policy() {
    let mut skipping = paused_between(until("{{ steps.a.outputs.at }}"));
    skipping.steps[1].on_failure = OnFailure::Skip;
    let mut world = World::of(skipping);
    world.complete("a", json!({"at": ""}));
    assert_eq!((world.status("pause"), world.status("b")), (StepStatus::Skipped, StepStatus::Ready));
}

fn event(name: &str) -> StepWait {
    StepWait { event: Some(name.into()), ..StepWait::default() }
}

/// `payment` with the key that `a` gives.
fn payment() -> StepWait {
    let schema = json!({"type": "object", "properties": {"paid": {"type": "boolean"}}, "required": ["paid"]});
    StepWait { key: Some("{{ steps.a.outputs.order }}".into()), schema: Some(schema.into()), ..event("payment") }
}

fn send(world: &mut World, id: &str, key: &str, data: serde_json::Value) -> Result<(), Rejection> {
    let event = ExternalEvent { id: id.into(), name: "payment".into(), key: key.into(), data: data.into() };
    world.verb(Verb::SendEvent { event: Box::new(event), waiting_only: false }).map(drop)
}

fn awaiting(wait: StepWait) -> World {
    let mut world = World::of(paused_between(wait));
    world.complete("a", json!({"order": "17"}));
    world
}

#[test]
fn an_event_completes_the_step_that_waits_for_it_with_its_data() {
    let mut world = awaiting(payment());
    assert_eq!((world.status("pause"), world.timers.len()), (StepStatus::Waiting, 1), "the plan alone has a timer");
    send(&mut world, "e1", "18", json!({"paid": true})).unwrap();
    assert_eq!(world.status("pause"), StepStatus::Waiting, "it has another key");
    send(&mut world, "e2", "17", json!({"paid": true})).unwrap();
    assert_eq!((world.outputs("pause"), world.status("b")), (json!({"paid": true}), StepStatus::Ready));
    assert_eq!(world.story_of("pause"), ["step_ready", "step_wait_started", "step_completed"]);
    world.restart();
    let before = world.state.seq();
    send(&mut world, "e2", "17", json!({"paid": false})).unwrap();
    assert_eq!(world.state.seq(), before, "an event with the same id changes nothing");
}

#[test]
fn an_event_that_comes_before_the_wait_is_kept_and_the_first_one_wins() {
    let mut plan = paused_between(payment());
    plan.steps.push(wait("again", &["pause"], payment()));
    plan.steps[3].dependencies.push("a".into());
    let mut world = World::of(plan);
    for (id, paid) in [("e1", json!("yes")), ("e2", json!(true)), ("e3", json!(false))] {
        send(&mut world, id, "17", json!({ "paid": paid })).unwrap();
    }
    world.restart();
    world.complete("a", json!({"order": 17}));
    assert_eq!(world.outputs("pause"), json!({"paid": true}), "the first one does not fit the schema");
    assert_eq!(world.outputs("again"), json!({"paid": false}), "an event completes one step");
}

#[test]
fn data_that_do_not_fit_are_refused_with_their_place() {
    let mut world = awaiting(payment());
    let refused = send(&mut world, "e1", "17", json!({"paid": 1}));
    let Err(Rejection::Invalid { issues, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!((issues[0].code.as_str(), issues[0].pointer.as_str()), ("INVALID_EVENT", "/data"));
    assert!(issues[0].detail.contains("at `/paid`"), "{issues:?}");
    assert_eq!(world.status("pause"), StepStatus::Waiting);
    let large = Json::from(json!({"paid": true, "text": "x".repeat(300_000)}));
    assert!(matches!(send(&mut world, "e2", "17", large.value()), Err(Rejection::Invalid { .. })));
}

#[test]
fn kept_events_are_bounded() {
    let mut world = World::of(paused_between(payment()));
    world.context.limits.kept_events_max = 2;
    for id in ["e1", "e2"] {
        send(&mut world, id, "17", json!({"paid": true})).unwrap();
    }
    assert!(matches!(send(&mut world, "e3", "17", json!({"paid": true})), Err(Rejection::NotAllowed { .. })));
    world.context.limits.kept_events_max = 3;
    world.context.limits.kept_events_bytes_max = 30;
    assert!(matches!(send(&mut world, "e3", "17", json!({"paid": true})), Err(Rejection::NotAllowed { .. })));
    world.complete("a", json!({"order": 17}));
    send(&mut world, "e3", "17", json!({"paid": true})).expect("one was taken");
}

#[test]
fn an_event_for_a_plan_that_has_ended_is_refused() {
    let mut world = awaiting(payment());
    world.verb(Verb::Cancel { reason: String::new() }).unwrap();
    let refused = send(&mut world, "e1", "17", json!({"paid": true}));
    assert_eq!(refused, Err(Rejection::Final { status: PlanStatus::Cancelled }));
}

#[test]
fn an_event_that_does_not_come_in_time_does_what_the_step_says() {
    let timed_out = |on_timeout: OnTimeout| {
        let mut world = awaiting(StepWait { timeout_ms: Some(DAY_MS), on_timeout, ..payment() });
        world.step_due("pause");
        world
    };
    let world = timed_out(OnTimeout::Fail);
    assert_eq!((world.code("pause"), world.plan_code()), ("WAIT_TIMEOUT".into(), "WAIT_TIMEOUT".into()));
    let world = timed_out(OnTimeout::Skip);
    assert_eq!((world.status("pause"), world.status("b")), (StepStatus::Skipped, StepStatus::Ready));
    let world = timed_out(OnTimeout::Default(json!({"paid": false}).into()));
    assert_eq!((world.outputs("pause"), world.status("b")), (json!({"paid": false}), StepStatus::Ready));
}

#[test]
fn of_an_event_and_the_end_of_the_wait_the_first_one_counts() {
    let waiting = || awaiting(StepWait { timeout_ms: Some(DAY_MS), on_timeout: OnTimeout::Skip, ..payment() });
    let mut world = waiting();
    let timer = Timer::Step(world.index("pause"));
    world.now_ms += DAY_MS;
    send(&mut world, "e1", "17", json!({"paid": true})).unwrap();
    assert_eq!(world.command(Command::Due(timer)), Err(Rejection::NotDue));
    assert_eq!(world.outputs("pause"), json!({"paid": true}));
    let mut world = waiting();
    world.step_due("pause");
    send(&mut world, "e1", "17", json!({"paid": true})).expect("it is kept");
    assert_eq!(world.status("pause"), StepStatus::Skipped);
}

#[test]
fn a_key_without_a_value_fails_the_step() {
    for order in [json!(""), json!(null), json!(7.0), json!(true), json!(["17"])] {
        let mut world = World::of(paused_between(payment()));
        world.complete("a", json!({ "order": order }));
        assert_eq!(world.code("pause"), "WAIT_KEY_INVALID", "{order}");
    }
}

#[test]
fn a_wait_for_an_event_is_explained_with_the_command_that_ends_it() {
    let world = awaiting(payment());
    let explained = explain::explain(&world.state, world.now_ms);
    let pause = explained.steps.iter().find(|step| step.step_id.as_str() == "pause").expect("it is open");
    assert_eq!(pause.because, ["`pause` waits for the event `payment` with the key `17`, until its end"]);
    assert!(pause.hint.contains("goalmill event send payment --plan"), "{}", pause.hint);
    let awaited = world.state.view(true).steps[1].awaits.clone().expect("it waits for an event");
    assert_eq!((awaited.event.as_str(), awaited.key.as_str(), awaited.schema.is_some()), ("payment", "17", true));
}

#[test]
fn a_wait_is_registered_until_it_ends_and_again_after_a_restart() {
    let mut world = awaiting(payment());
    let step = world.index("pause");
    let (begin, end) = (Effect::AwaitEvent { step }, Effect::StopAwaiting { step });
    let count = |world: &World, effect: &Effect| world.others.iter().filter(|other| *other == effect).count();
    assert_eq!((count(&world, &begin), count(&world, &end)), (1, 0));
    world.restart();
    assert_eq!(count(&world, &begin), 2);
    let event =
        ExternalEvent { id: "e1".into(), name: "payment".into(), key: "17".into(), data: json!({"paid": true}).into() };
    world.verb(Verb::SendEvent { event: Box::new(event.clone()), waiting_only: true }).unwrap();
    assert_eq!((count(&world, &begin), count(&world, &end)), (2, 1));
    let late = Box::new(ExternalEvent { id: "e2".into(), ..event });
    let refused = world.verb(Verb::SendEvent { event: late, waiting_only: true });
    assert!(matches!(refused, Err(Rejection::NotAllowed { .. })), "{refused:?}");
    // An event that the plan has kept ends the wait before it is registered.
    let mut world = World::of(paused_between(payment()));
    send(&mut world, "e1", "17", json!({"paid": true})).unwrap();
    world.complete("a", json!({"order": 17}));
    assert_eq!((count(&world, &begin), count(&world, &end)), (0, 0));
}

fn delayed(goal: Goal) -> World {
    let mut submit = submission(Some(paused_between(for_ms(1_000))));
    submit.goal = Goal { description: "test".into(), ..goal };
    let mut world = World::new();
    world.submit_as(submit).expect("the plan is fit");
    world
}

#[test]
fn a_plan_starts_at_its_time_and_its_limits_count_from_then() {
    let start_ms = START_MS + 30 * DAY_MS;
    let budget = Budget { seconds: Some(60.0), ..Budget::default() };
    for goal in [
        Goal { start_at_ms: Some(start_ms), budget, ..Goal::default() },
        Goal { start_in_ms: Some(30 * DAY_MS), budget, ..Goal::default() },
    ] {
        let mut world = delayed(goal);
        assert_eq!((world.state.status(), world.status("a")), (PlanStatus::Paused, StepStatus::Pending));
        assert_eq!(world.timers, [(Timer::Plan, start_ms)].into());
        let explained = explain::explain(&world.state, world.now_ms);
        assert_eq!(explained.summary, format!("the plan starts at {}", rfc3339(start_ms)));
        world.restart();
        assert_eq!(world.command(Command::Due(Timer::Plan)), Err(Rejection::NotDue));
        world.due(Timer::Plan).unwrap();
        assert_eq!((world.state.status(), world.status("a")), (PlanStatus::Running, StepStatus::Ready));
        world.complete("a", json!({}));
        world.step_due("pause");
        world.complete("b", json!({}));
        assert_eq!(world.state.status(), PlanStatus::Completed);
    }
}

#[test]
fn a_delayed_plan_starts_early_on_request_and_is_not_started_again() {
    let mut world = delayed(Goal { start_in_ms: Some(DAY_MS), ..Goal::default() });
    world.verb(Verb::Resume { reason: String::new() }).unwrap();
    assert_eq!(world.status("a"), StepStatus::Ready);
    world.verb(Verb::Pause { reason: String::new() }).unwrap();
    world.now_ms += DAY_MS;
    assert_eq!(world.command(Command::Due(Timer::Plan)), Err(Rejection::NotDue), "a person has paused it");
    let mut world = delayed(Goal { start_at_ms: Some(START_MS), ..Goal::default() });
    assert_eq!(world.status("a"), StepStatus::Ready, "the time is in the past");
    world.complete("a", json!({}));
    assert_eq!(world.state.status(), PlanStatus::Running);
}

//! Consequences of failures: retries, fallback, policies, limits.

use goalmill_common::failure::{Failure, FailureClass, TASK_MISSING};
use goalmill_common::goal::Budget;
use goalmill_common::json::Json;
use goalmill_common::plan::{Fallback, Jitter, OnFailure, Plan, Retry};
use goalmill_common::report::{Report, What};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{Command, Effect, Rejection, Timer, attempt};
use serde_json::json;

use crate::world::{START_MS, World, completed, failed, permanent, plan, report, retrying_due, transient, with};

fn retry(max: u32) -> Retry {
    Retry { max, initial_ms: 1_000, factor: 2.0, max_ms: 60_000, jitter: Jitter::None }
}

fn one(on_failure: OnFailure) -> Plan {
    let plan = plan(&[("a", &[]), ("b", &["a"]), ("c", &[])]);
    with(plan, "a", |step| {
        step.retry = retry(0);
        step.on_failure = on_failure;
    })
}

#[test]
fn a_report_that_no_reader_could_read_back_fails_its_attempt() {
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    for (outputs, cost, tokens, place) in [
        (deep.as_str(), None, None, "`/outputs/0/0"),
        (r#"{"n":1e400}"#, None, None, "`/outputs/n`"),
        (r#"{"s":"\ud800"}"#, None, None, "`/outputs/s`"),
        ("{}", Some(1.7e308), None, "`/cost`"),
        ("{}", Some(-1.0), None, "`/cost`"),
        ("{}", None, Some(u64::MAX), "`/tokens`"),
    ] {
        let mut world = World::of(plan(&[("a", &[])]));
        let task = world.dispatch("a");
        let outputs = Some(Json::from_text(outputs.into()).unwrap());
        world.report(Report { outputs, cost, tokens, ..report(&task, What::Completed) }).unwrap();
        assert_eq!(world.status("a"), StepStatus::Failed, "{place}");
        assert_eq!(world.code("a"), "ANSWER_INVALID");
        let failure = world.state.step(world.index("a")).and_then(|at| at.failure.cloned()).unwrap();
        assert_eq!(failure.class, FailureClass::Permanent);
        assert!(failure.message.contains(place), "{}", failure.message);
    }
}

#[test]
fn what_many_attempts_cost_is_a_number() {
    let steps: Vec<String> = (0..3).map(|n| format!("s{n}")).collect();
    let names: Vec<(&str, &[&str])> = steps.iter().map(|step| (step.as_str(), &[][..])).collect();
    let mut world = World::of(plan(&names));
    for step in &steps {
        let task = world.dispatch(step);
        world.report(Report { cost: Some(1e15), ..completed(&task, json!({})) }).unwrap();
    }
    assert_eq!(world.state.view(false).summary.usage.cost.to_string(), "1000000000000000");
}

#[test]
fn a_transient_failure_waits_out_its_backoff_and_is_tried_again() {
    let mut world = World::of(with(plan(&[("a", &[])]), "a", |step| step.retry = retry(2)));
    world.fail("a", transient());
    assert_eq!(world.status("a"), StepStatus::Retrying);
    assert_eq!(world.timers[&Timer::Step(world.index("a"))], START_MS + 1_000);
    world.step_due("a");
    world.fail("a", transient());
    assert_eq!(world.log.iter().filter_map(retrying_due).collect::<Vec<_>>(), [START_MS + 1_000, START_MS + 3_000]);
    world.step_due("a");
    world.complete("a", json!({}));
    assert_eq!(world.state.step(world.index("a")).unwrap().attempt, 3);
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_backoff_is_within_its_ceiling_whatever_is_drawn() {
    for random in [0, 1, u64::MAX / 2, u64::MAX] {
        let spec = Retry { jitter: Jitter::Full, ..retry(1) };
        let mut world = World::of(with(plan(&[("a", &[])]), "a", |step| step.retry = spec));
        world.random = random;
        world.fail("a", transient());
        let due = world.log.iter().find_map(retrying_due).unwrap();
        assert!((START_MS..=START_MS + 1_000).contains(&due), "{due}");
        assert_eq!(world.status("a") == StepStatus::Ready, due == START_MS);
    }
}

#[test]
fn a_worker_that_asks_to_wait_is_heard() {
    let mut world = World::of(with(plan(&[("a", &[])]), "a", |step| step.retry = retry(1)));
    let asked =
        Failure { retry_after_ms: Some(30_000), ..Failure::new(FailureClass::RateLimited, "HTTP_429", "slow down") };
    world.fail("a", asked);
    let due = world.log.iter().find_map(retrying_due).unwrap();
    assert!((START_MS + 30_000..=START_MS + 45_000).contains(&due), "{due}");
}

#[test]
fn being_told_to_wait_uses_no_retry() {
    let mut world = World::of(with(plan(&[("a", &[])]), "a", |step| step.retry = retry(1)));
    let asked =
        || Failure { retry_after_ms: Some(2_000), ..Failure::new(FailureClass::RateLimited, "HTTP_429", "slow down") };
    for attempt in 1..=20 {
        world.fail("a", asked());
        assert_eq!(world.status("a"), StepStatus::Retrying);
        assert_eq!(world.state.step(world.index("a")).unwrap().attempt, attempt);
        world.step_due("a");
    }
    world.fail("a", transient());
    assert_eq!(world.status("a"), StepStatus::Retrying, "the retry is still there");
    world.step_due("a");
    world.fail("a", transient());
    assert_eq!(world.status("a"), StepStatus::Failed);
}

#[test]
fn steps_that_wait_for_the_same_agent_do_not_return_together() {
    let steps: Vec<String> = (0..40).map(|n| format!("s{n}")).collect();
    let all: Vec<(&str, &[&str])> = steps.iter().map(|id| (id.as_str(), &[] as &[&str])).collect();
    let mut world = World::of(plan(&all));
    let asked = Failure { retry_after_ms: Some(2_000), ..Failure::new(FailureClass::RateLimited, "HTTP_429", "later") };
    for (n, id) in steps.iter().enumerate() {
        world.random = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        world.fail(id, asked.clone());
    }
    let mut dues: Vec<u64> = world.log.iter().filter_map(retrying_due).collect();
    dues.sort_unstable();
    assert!(dues[0] >= START_MS + 2_000 && dues[39] <= START_MS + 3_000, "{dues:?}");
    assert!(dues.windows(10).all(|ten| ten[9] - ten[0] > 100), "{dues:?}");
}

#[test]
fn an_agent_that_asks_to_wait_for_ever_is_asked_less_and_less_until_a_limit() {
    let mut world = World::of(with(plan(&[("a", &[])]), "a", |step| step.retry = retry(5)));
    let (mut times, begun) = (0_u64, world.now_ms);
    while world.status("a") != StepStatus::Failed {
        world.fail("a", Failure::new(FailureClass::RateLimited, "HTTP_429", "slow down"));
        times += 1;
        if world.status("a") == StepStatus::Retrying {
            world.step_due("a");
        }
    }
    let failure = world.state.step(world.index("a")).unwrap().failure.unwrap().clone();
    assert_eq!(failure.code, "WAIT_EXCEEDED");
    assert!(failure.message.contains("queue_ms_max") && failure.message.contains("slow down"), "{}", failure.message);
    let day_ms = 24 * 3_600_000;
    assert!(world.now_ms - begun <= day_ms, "{}", world.now_ms - begun);
    assert!((900..1_500).contains(&times), "{times}");
}

#[test]
fn a_report_without_outputs_is_no_success() {
    for outputs in [None, Some(serde_json::Value::Null)] {
        let mut world = World::of(plan(&[("a", &[])]));
        let task = world.dispatch("a");
        let outputs = outputs.map(goalmill_common::json::Json::from);
        world.report(Report { outputs, ..report(&task, What::Completed) }).unwrap();
        assert_eq!(world.status("a"), StepStatus::Failed);
        assert_eq!(world.state.step(world.index("a")).unwrap().failure.unwrap().code, "ANSWER_EMPTY");
    }
    let mut world = World::of(plan(&[("a", &[])]));
    world.complete("a", json!({}));
    assert_eq!(world.status("a"), StepStatus::Completed);
}

#[test]
fn a_permanent_failure_is_not_tried_again() {
    let mut world = World::of(with(plan(&[("a", &[])]), "a", |step| step.retry = retry(5)));
    world.fail("a", permanent());
    assert_eq!(world.status("a"), StepStatus::Failed);
    assert_eq!(world.state.status(), PlanStatus::Failed);
    assert_eq!(world.plan_code(), "NOT_FOUND");
}

#[test]
fn the_fallback_gets_attempts_of_its_own() {
    let mut world = World::of(with(plan(&[("a", &[])]), "a", |step| {
        step.retry = retry(1);
        step.action = "first".into();
        step.fallback = Some(Fallback { agent_type: Some("other".into()), action: Some("second".into()) });
    }));
    world.fail("a", transient());
    world.step_due("a");
    world.fail("a", transient());
    assert_eq!(world.status("a"), StepStatus::Ready);
    let task = world.dispatch("a");
    assert_eq!((task.agent_type.as_str(), task.action.as_str(), task.attempt), ("other", "second", 3));
    world.report(failed(&task, transient())).unwrap();
    assert_eq!(world.status("a"), StepStatus::Retrying);
    world.step_due("a");
    world.fail("a", transient());
    assert_eq!(world.status("a"), StepStatus::Failed);
    assert_eq!(world.state.step(world.index("a")).unwrap().attempt, 4);
}

#[test]
fn abort_cancels_what_is_in_flight() {
    let mut world = World::of(one(OnFailure::Abort));
    let other = world.dispatch("c");
    world.fail("a", transient());
    assert_eq!(world.state.status(), PlanStatus::Failed);
    assert_eq!(world.story_of("c"), ["step_ready", "step_queued", "step_cancelled"]);
    assert_eq!(world.status("b"), StepStatus::Cancelled);
    assert!(world.cancelled.contains(&other.token));
    assert!(world.timers.is_empty(), "{:?}", world.timers);
    let late = world.report(completed(&other, json!({})));
    assert_eq!(late, Err(Rejection::Final { status: PlanStatus::Failed }));
}

#[test]
fn skip_lets_the_dependents_go_on() {
    let mut world = World::of(one(OnFailure::Skip));
    world.fail("a", transient());
    assert_eq!(world.status("a"), StepStatus::Skipped);
    assert_eq!(world.status("b"), StepStatus::Ready);
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn continue_skips_the_dependents_and_ends_partial() {
    let mut world = World::of(one(OnFailure::Continue));
    world.fail("a", transient());
    assert_eq!((world.status("a"), world.status("b")), (StepStatus::Failed, StepStatus::Skipped));
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Partial);
}

#[test]
fn a_lost_attempt_is_tried_again_at_once_and_costs_no_retry() {
    let mut world = World::of(with(plan(&[("a", &[])]), "a", |step| step.retry = retry(0)));
    for _ in 0..2 {
        let task = world.dispatch("a");
        world.report(report(&task, What::Lost)).unwrap();
        assert_eq!(world.status("a"), StepStatus::Ready);
    }
    world.complete("a", json!({}));
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn a_task_that_was_on_no_stream_is_not_held_against_its_step() {
    let mut world = World::of(with(plan(&[("a", &[])]), "a", |step| step.retry = retry(0)));
    for _ in 0..10 {
        let task = world.dispatch("a");
        let failure = Failure::new(FailureClass::Lost, TASK_MISSING, "deleted");
        world.report(Report { failure: Some(failure), ..report(&task, What::Lost) }).unwrap();
        assert_eq!(world.status("a"), StepStatus::Ready);
        assert!(world.report(report(&task, What::Completed)).is_err(), "a copy that is still there changes nothing");
    }
}

#[test]
fn a_step_that_loses_its_workers_is_buried() {
    let mut world = World::of(one(OnFailure::Continue));
    let mut last = None;
    for _ in 0..3 {
        let task = world.dispatch("a");
        world.report(report(&task, What::Lost)).unwrap();
        last = Some(task);
    }
    assert_eq!(world.status("a"), StepStatus::Failed);
    assert_eq!(world.code("a"), "STEP_POISONED");
    assert!(world.others.iter().any(|effect| matches!(effect, Effect::DeadLetter { .. })));
    let again = attempt::task(&world.state, world.index("a"), &world.context).expect("the step exists");
    assert_eq!(again.as_ref(), Ok(last.as_ref().expect("it went out")), "the buried task is the one that went out");
}

#[test]
fn a_released_attempt_goes_out_again_and_costs_nothing() {
    let mut world = World::of(with(plan(&[("a", &[])]), "a", |step| step.retry = retry(0)));
    for _ in 0..9 {
        let task = world.dispatch("a");
        world.report(report(&task, What::Released)).unwrap();
    }
    world.complete("a", json!({}));
    assert_eq!(world.state.step(world.index("a")).unwrap().attempt, 10);
    assert_eq!(world.acknowledged.len(), 10);
}

#[test]
fn an_attempt_that_runs_too_long_is_cancelled_and_tried_again() {
    let mut world = World::of(with(plan(&[("a", &[])]), "a", |step| {
        step.retry = retry(1);
        step.timeout_ms = Some(5_000);
    }));
    let task = world.dispatch("a");
    world.report(report(&task, What::Started)).unwrap();
    assert_eq!(world.timers[&Timer::Step(world.index("a"))], START_MS + 5_000);
    world.step_due("a");
    assert_eq!((world.status("a"), world.code("a")), (StepStatus::Retrying, "STEP_TIMEOUT".into()));
    assert!(world.cancelled.contains(&task.token));
    let late = world.report(completed(&task, json!({})));
    assert_eq!(late, Err(Rejection::StaleAttempt { step: "a".into(), attempt: 1 }));
}

#[test]
fn an_attempt_that_nobody_takes_times_out() {
    let mut world = World::of(with(plan(&[("a", &[])]), "a", |step| step.retry = retry(0)));
    world.dispatch("a");
    world.step_due("a");
    assert_eq!(world.code("a"), "QUEUE_TIMEOUT");
    assert_eq!(world.now_ms, START_MS + world.context.limits.queue_ms_max);
}

#[test]
fn a_timer_that_was_overtaken_does_nothing() {
    let mut world = World::of(plan(&[("a", &[])]));
    let timer = Timer::Step(world.index("a"));
    assert_eq!(world.command(goalmill_engine::Command::Due(timer)), Err(Rejection::NotDue));
    world.dispatch("a");
    assert_eq!(world.command(goalmill_engine::Command::Due(timer)), Err(Rejection::NotDue));
    assert_eq!(world.command(goalmill_engine::Command::Due(Timer::Plan)), Err(Rejection::NotDue));
}

#[test]
fn a_plan_ends_by_its_deadline() {
    let mut world = World::of(plan(&[("a", &[])]));
    world.dispatch("a");
    world.due(Timer::Plan).unwrap();
    assert_eq!(world.plan_code(), "PLAN_TIMEOUT");
    assert_eq!(world.now_ms, START_MS + world.context.limits.plan_ms_max);
}

#[test]
fn a_plan_over_its_budget_fails_and_keeps_what_was_done() {
    let budget = Budget { tokens: Some(10), ..Budget::default() };
    let mut world = World::of(Plan { budget, ..plan(&[("a", &[]), ("b", &["a"])]) });
    let task = world.dispatch("a");
    world.report(Report { tokens: Some(11), ..completed(&task, json!({"x": 1})) }).unwrap();
    assert_eq!(world.plan_code(), "BUDGET_EXCEEDED");
    assert_eq!(world.outputs("a"), json!({"x": 1}));
    assert_eq!(world.state.usage().tokens, 11);
}

#[test]
fn failed_attempts_use_up_the_budget_too() {
    let budget = Budget { cost: Some(1.0), ..Budget::default() };
    let mut world = World::of(Plan { budget, ..plan(&[("a", &[])]) });
    let task = world.dispatch("a");
    world.report(Report { cost: Some(1.5), ..failed(&task, transient()) }).unwrap();
    assert_eq!(world.plan_code(), "BUDGET_EXCEEDED");
}

#[test]
fn a_step_whose_estimate_would_exceed_the_budget_is_not_started() {
    let budget = Budget { tokens: Some(1_000), ..Budget::default() };
    let estimated = with(plan(&[("a", &[]), ("b", &["a"])]), "b", |step| step.estimates.tokens = Some(500));
    let mut world = World::of(Plan { budget, ..estimated });
    let task = world.dispatch("a");
    world.report(Report { tokens: Some(600), ..completed(&task, json!({})) }).unwrap();
    world.command(Command::Dispatch(world.index("b"))).unwrap();
    assert_eq!((world.tasks.len(), world.code("b").as_str()), (1, "BUDGET_EXCEEDED"));
    assert_eq!((world.plan_code().as_str(), world.state.usage().tokens), ("BUDGET_EXCEEDED", 600));
}

#[test]
fn estimates_of_steps_in_flight_are_reserved_in_the_budget() {
    let budget = Budget { tokens: Some(1_000), ..Budget::default() };
    let mut parallel = plan(&[("a", &[]), ("b", &[]), ("c", &[])]);
    for step in &mut parallel.steps[..2] {
        step.estimates.tokens = Some(600);
    }
    let mut world = World::of(Plan { budget, ..parallel });
    assert_eq!(world.dispatch_all(), 2, "`a` and `c`, which has no estimate; `b` waits");
    assert_eq!(world.status("b"), StepStatus::Ready);
    world.restart();
    let task = world.open_tasks().into_iter().find(|task| task.step.as_str() == "a").expect("it was sent");
    world.report(Report { tokens: Some(300), ..completed(&task, json!({})) }).unwrap();
    assert!(world.others.contains(&Effect::Room), "its reservation is free");
    assert_eq!(world.dispatch_all(), 1, "300 and 600 fit");
    world.finish();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn budgeted_time_ends_the_plan() {
    let budget = Budget { seconds: Some(2.5), ..Budget::default() };
    let mut world = World::of(Plan { budget, ..plan(&[("a", &[])]) });
    world.due(Timer::Plan).unwrap();
    assert_eq!((world.plan_code().as_str(), world.now_ms), ("BUDGET_EXCEEDED", START_MS + 2_500));
}

#[test]
fn a_log_that_grows_too_long_ends_the_plan() {
    let mut world = World::new();
    world.context.limits.events_max = 30;
    world.submit(plan(&[("a", &[])])).unwrap();
    for _ in 0..30 {
        if world.state.is_final() {
            break;
        }
        let task = world.dispatch("a");
        world.report(report(&task, What::Released)).unwrap();
    }
    assert_eq!(world.plan_code(), "EVENTS_EXCEEDED");
}

#[test]
fn progress_cannot_fill_the_log() {
    let mut world = World::new();
    world.context.limits.events_max = 30;
    world.submit(plan(&[("a", &[])])).unwrap();
    let task = world.dispatch("a");
    for _ in 0..100 {
        let progress = Report { progress: Some(f64::NAN), ..report(&task, What::Progress) };
        world.report(progress).unwrap();
    }
    world.report(completed(&task, json!({}))).unwrap();
    assert_eq!(world.state.status(), PlanStatus::Completed);
}

#[test]
fn an_unexpected_result_is_not_tried_again() {
    let mut world = World::of(with(one(OnFailure::Continue), "a", |step| {
        step.retry = retry(3);
        step.expected_outputs = vec!["price".into()];
        step.fallback = Some(Fallback::default());
    }));
    world.complete("a", json!({"cost": 1}));
    assert_eq!((world.status("a"), world.code("a")), (StepStatus::Failed, "UNEXPECTED_RESULT".into()));
}

#[test]
fn outputs_that_are_too_large_fail_the_step() {
    let mut world = World::new();
    world.context.limits.payload_bytes_max = 16;
    world.submit(one(OnFailure::Continue)).unwrap();
    world.complete("a", json!("a long, long, long text"));
    assert_eq!(world.code("a"), "OUTPUT_TOO_LARGE");
}

#[test]
fn a_failed_replan_ends_as_the_step_says() {
    use goalmill_engine::{Command, PlanAnswer};
    let mut world = World::of(one(OnFailure::Replan));
    world.fail("a", transient());
    assert_eq!(world.state.status(), PlanStatus::Replanning);
    assert_eq!(world.status("b"), StepStatus::Blocked);
    assert!(world.others.contains(&Effect::Plan { revision: 1 }));
    assert!(!world.state.can_dispatch(world.index("c")), "nothing new goes out while the plan is being changed");
    let answer = PlanAnswer::Failed { reason: "no idea".into(), issues: Vec::new(), provenance: None };
    let stale = world.command(Command::Planned { revision: 0, answer: answer.clone() });
    assert_eq!(stale, Err(Rejection::StaleRevision { revision: 0 }));
    world.command(Command::Planned { revision: 1, answer }).unwrap();
    assert_eq!(world.plan_code(), "HTTP_503");
    assert!(world.timers.is_empty(), "{:?}", world.timers);
}

#[test]
fn a_replan_that_nobody_answers_ends() {
    let mut world = World::of(one(OnFailure::Replan));
    world.fail("a", transient());
    world.due(Timer::Plan).unwrap();
    assert_eq!(world.state.status(), PlanStatus::Failed);
}

//! The most that calls may use up is reserved in the budget of the plan before they are made.

use goalmill_common::call::{
    CallBudget, CallNeeds, CallWait, CallWaitKind, RecordedCall, SuspendedCall, inputs_digest,
};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::{Budget, Usage};
use goalmill_common::json::Json;
use goalmill_common::plan::{Estimates, Plan, Step, StepKind};
use goalmill_common::report::{Report, TokenSplit, What};
use goalmill_common::status::StepStatus;
use goalmill_common::task::Task;
use goalmill_engine::Effect;
use serde_json::json;

use crate::world::{World, completed, plan, report, submission, with};

/// A plan with a budget of so many tokens.
fn limited(tokens: u64, steps: &[(&str, &[&str])]) -> Plan {
    Plan { budget: Budget { tokens: Some(tokens), ..Budget::default() }, ..plan(steps) }
}

fn called(task: &Task, n: u32, tokens: u64) -> Report {
    let usage = Some(TokenSplit { prompt_tokens: tokens, completion_tokens: 0 });
    let call = RecordedCall { n, name: "model".into(), outcome: Some(Json::null()), usage, ..RecordedCall::default() };
    Report { call: Some(Box::new(call)), ..report(task, What::Call) }
}

/// The next call of the attempt does not fit into what it was given.
fn short(task: &Task, n: u32, tokens: u64) -> Report {
    let needs = Some(CallNeeds { tokens, cost: 0.0 });
    let wait = CallWait { needs, ..CallWait::new(CallWaitKind::Budget, "the next call") };
    let call = SuspendedCall { n, name: "model".into(), inputs: Some(inputs_digest("x")), wait };
    Report { suspended: Some(Box::new(call)), ..report(task, What::Suspended) }
}

fn tokens(task: &Task) -> u64 {
    task.budget.and_then(|budget| budget.tokens).expect("the plan has a budget of tokens")
}

/// Tokens that are used, and those that the tasks in flight may still use.
fn taken(world: &World, recorded: u64) -> u64 {
    let open: u64 = world.open_tasks().iter().map(tokens).sum();
    world.state.usage().tokens + open - recorded
}

#[test]
fn a_plan_without_a_limit_says_nothing_about_calls() {
    let mut world = World::of(plan(&[("a", &[])]));
    assert_eq!(world.dispatch("a").budget, None);
}

#[test]
fn attempts_in_flight_never_have_more_than_the_budget_together() {
    let mut world = World::of(limited(1_000, &[("a", &[]), ("b", &[]), ("c", &[])]));
    let given: Vec<u64> = ["a", "b", "c"].map(|step| tokens(&world.dispatch(step))).to_vec();
    assert!(given.iter().all(|given| *given >= 100) && given.iter().sum::<u64>() <= 1_000, "{given:?}");
    world.restart();
    let tasks = world.open_tasks();
    world.report(called(&tasks[0], 1, 100)).unwrap();
    assert!(taken(&world, 100) <= 1_000, "what is used is not reserved a second time");
    world.report(completed(&tasks[0], json!({}))).unwrap();
    world.restart();
}

#[test]
fn a_call_that_needs_more_gets_it_when_others_have_left_it() {
    let mut world = World::of(limited(1_000, &[("a", &[]), ("b", &[])]));
    let (a, b) = (world.dispatch("a"), world.dispatch("b"));
    assert_eq!((tokens(&a), tokens(&b)), (333, 222), "a share each, and one for the planners");
    world.report(called(&a, 1, 300)).unwrap();
    // 300 used, 33 and 222 reserved: 478 are left to `a` beside `b`.
    world.report(short(&a, 2, 450)).unwrap();
    let again = world.dispatch("a");
    assert_eq!((tokens(&again), again.attempt, again.calls.len()), (450, 2, 1), "there is room at once");
    world.report(short(&b, 1, 600)).unwrap();
    assert_eq!((world.status("b"), world.state.in_flight()), (StepStatus::Retrying, 1), "it holds no slot");
    world.restart();
    assert!(!world.ready.contains(&world.index("b").0));
    world.report(called(&again, 2, 50)).unwrap();
    world.report(completed(&again, json!({}))).unwrap();
    assert_eq!(world.status("b"), StepStatus::Ready, "350 are used: 600 fit");
    let b = world.dispatch("b");
    assert_eq!((tokens(&b), b.budget.unwrap().last), (600, false));
    world.report(called(&b, 1, 600)).unwrap();
    world.report(completed(&b, json!({}))).unwrap();
    assert_eq!((world.status("b"), world.state.usage().tokens), (StepStatus::Completed, 950));
    world.restart();
}

#[test]
fn a_call_that_never_fits_gets_what_is_left_and_then_fails_the_step() {
    let mut world = World::of(limited(1_000, &[("a", &[])]));
    let task = world.dispatch("a");
    world.report(called(&task, 1, 100)).unwrap();
    let paid =
        Report { usage: Some(TokenSplit { prompt_tokens: 40, completion_tokens: 10 }), ..short(&task, 2, 5_000) };
    world.report(paid).unwrap();
    assert_eq!(world.state.usage().tokens, 150, "what a failed call has cost counts");
    let last = world.dispatch("a");
    assert_eq!(last.budget, Some(CallBudget { tokens: Some(850), cost: None, last: true }));
    let paid = Report { tokens: Some(7), ..short(&last, 2, 5_000) };
    world.report(paid).unwrap();
    assert_eq!((world.code("a").as_str(), world.state.usage().tokens), ("BUDGET_EXCEEDED", 157));
    world.restart();
}

#[test]
fn steps_that_wait_for_the_budget_do_not_wait_for_each_other() {
    let mut world = World::of(limited(1_000, &[("a", &[]), ("b", &[])]));
    let (a, b) = (world.dispatch("a"), world.dispatch("b"));
    world.report(short(&a, 1, 900)).unwrap();
    world.report(short(&b, 1, 900)).unwrap();
    let ready = |world: &World| ["a", "b"].map(|step| world.status(step) == StepStatus::Ready);
    assert_eq!(ready(&world), [true, false], "one of them goes on");
    let a = world.dispatch("a");
    world.report(called(&a, 1, 900)).unwrap();
    world.report(completed(&a, json!({}))).unwrap();
    let b = world.dispatch("b");
    assert_eq!(b.budget, Some(CallBudget { tokens: Some(100), cost: None, last: true }), "all that is left");
    world.report(short(&b, 1, 900)).unwrap();
    assert_eq!(world.code("b"), "BUDGET_EXCEEDED");
}

#[test]
fn a_wait_for_the_budget_ends() {
    let mut world = World::of(limited(1_000, &[("a", &[]), ("b", &[])]));
    let (a, _) = (world.dispatch("a"), world.dispatch("b"));
    world.report(short(&a, 1, 900)).unwrap();
    assert_eq!(world.status("a"), StepStatus::Retrying);
    let why = world.state.view(false).steps[0].reason.clone();
    assert_eq!(why, "the next call");
    world.step_due("a");
    assert_eq!(world.code("a"), "BUDGET_EXCEEDED");
    world.restart();
}

#[test]
fn a_hard_constraint_is_a_limit_of_calls() {
    let mut submit = submission(Some(plan(&[("a", &[]), ("b", &[])])));
    submit.goal.constraints.insert("budget".into(), json!({"value": "3 USD", "hard": true}));
    let mut world = World::new();
    world.submit_as(submit).unwrap();
    let cost = |task: &Task| task.budget.and_then(|budget| budget.cost).expect("the goal limits the cost");
    let (a, b) = (cost(&world.dispatch("a")), cost(&world.dispatch("b")));
    assert!(a >= 0.9 && b >= 0.6 && a + b <= 3.0, "{a} {b}");
}

#[test]
fn an_estimate_is_given_to_calls_and_reserved_once() {
    let estimated = |step: &mut Step| step.estimates = Estimates { tokens: Some(600), ..Estimates::default() };
    let mut world = World::of(with(limited(1_000, &[("a", &[]), ("b", &[])]), "a", estimated));
    let a = world.dispatch("a");
    assert_eq!(tokens(&a), 600);
    let b = world.dispatch("b");
    assert_eq!(tokens(&b), 133, "a third of 400");
    world.report(called(&b, 1, 133)).unwrap();
    world.report(completed(&b, json!({}))).unwrap();
    world.report(called(&a, 1, 600)).unwrap();
    world.report(completed(&a, json!({}))).unwrap();
    world.restart();
}

#[test]
fn a_step_with_an_estimate_waits_for_what_calls_may_use() {
    let estimated = |step: &mut Step| step.estimates = Estimates { tokens: Some(900), ..Estimates::default() };
    let mut world = World::of(with(limited(1_000, &[("a", &[]), ("b", &[])]), "b", estimated));
    let a = world.dispatch("a");
    assert!(!world.state.can_dispatch(world.index("b")), "333 are reserved");
    world.others.clear();
    world.report(completed(&a, json!({}))).unwrap();
    assert!(world.others.contains(&Effect::Room) && world.state.can_dispatch(world.index("b")));
}

#[test]
fn a_sub_plan_and_a_loop_beside_it_share_the_budget() {
    let inner = |step: &mut Step| {
        step.kind = StepKind::Plan;
        step.plan = Some(Box::new(plan(&[("inner", &[])])));
    };
    let mut world = World::of(with(limited(1_000, &[("p", &[]), ("a", &[])]), "p", inner));
    let budget = world.sub_plan("p").state.accepted().goal.budget;
    assert_eq!(budget.tokens, Some(500), "the other half is for the other steps");
    let a = world.dispatch("a");
    assert_eq!(tokens(&a), 166, "a third of 500");
    world.report(short(&a, 1, 600)).unwrap();
    assert_eq!(world.status("a"), StepStatus::Retrying);
    let (outputs, usage) = (json!({}).into(), Usage { tokens: 100, cost: 0.0 });
    let (step, status) = ("p".into(), goalmill_common::status::PlanStatus::Completed);
    let end = goalmill_engine::Command::SubPlanEnded {
        step,
        attempt: 1,
        end: goalmill_engine::SubPlanEnd::new(status, outputs, usage, None),
    };
    world.command(end).unwrap();
    assert_eq!(tokens(&world.dispatch("a")), 600);
}

#[test]
fn a_lost_or_released_attempt_gives_back_what_it_did_not_use() {
    let mut world = World::of(limited(1_000, &[("a", &[]), ("b", &[])]));
    let a = world.dispatch("a");
    world.report(called(&a, 1, 100)).unwrap();
    let lost = Failure::new(FailureClass::Lost, "LEASE_EXPIRED", "x");
    world.report(Report { failure: Some(lost), ..report(&a, What::Lost) }).unwrap();
    let b = world.dispatch("b");
    assert_eq!(tokens(&b), 300, "a third of 900");
    world.report(report(&b, What::Released)).unwrap();
    assert_eq!(tokens(&world.dispatch("a")), 300);
    world.restart();
}

#[test]
fn a_wait_without_a_budget_or_without_a_number_is_refused() {
    let mut world = World::of(plan(&[("a", &[])]));
    let task = world.dispatch("a");
    world.report(short(&task, 1, 500)).unwrap();
    assert_eq!(world.code("a"), "BUDGET_EXCEEDED");
    let mut world = World::of(limited(1_000, &[("a", &[])]));
    let task = world.dispatch("a");
    let mut wrong = short(&task, 1, 500);
    if let Some(call) = &mut wrong.suspended {
        call.wait.needs = None;
    }
    world.report(wrong).unwrap();
    assert_eq!(world.code("a"), "ANSWER_INVALID");
}

//! The engine panics on one plan: the plan is quarantined, its shard and its process continue.

use std::time::Duration;

use goalmill_broker::Broker;
use goalmill_common::command::Verb;
use goalmill_common::id::PlanId;
use goalmill_common::plan::{Plan, Step, StepKind};
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::status::PlanStatus;
use goalmill_common::wire::SubmissionAnswer;
use goalmill_engine::PlanState;

use crate::bugs::{self, Bug};
use crate::cluster::Role;
use crate::regressions::World;

/// Longest wait for an answer, in milliseconds of virtual time.
const PATIENCE_MS: u64 = 20_000;

#[tokio::test(start_paused = true)]
async fn a_plan_that_makes_the_engine_panic_is_left_alone_and_the_others_of_its_shard_end() {
    let mut world = started();
    let before = world.submit("before", &chain(&["a", "b", "c"])).await;
    let unlucky = world.submit("runs", &chain(&["first", "unlucky", "last"])).await;
    let beside = world.submit("beside", &chain(&["a", "b", "c"])).await;
    world.await_end(&before).await;
    world.await_end(&beside).await;
    let problem = cancel(&world, &unlucky, "ask-1").await;
    assert_eq!(problem.code, ErrorCode::PlanQuarantined, "{problem:?}");
    assert!(problem.detail.contains(unlucky.as_str()), "{problem:?}");
    let after = world.submit("after", &chain(&["a", "b", "c"])).await;
    world.await_end(&after).await;
    assert!(!world.env.auditor().plans()[&unlucky].is_final());
    repair(&mut world);
    await_completion(&world, &unlucky).await;
    expect_nothing_found(&world, &unlucky);
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_not_worked_on_is_taken_up_by_resume_without_a_restart() {
    let world = started();
    let unlucky = world.submit("runs", &chain(&["first", "unlucky", "last"])).await;
    let beside = world.submit("beside", &chain(&["a", "b", "c"])).await;
    world.await_end(&beside).await;
    cancel(&world, &unlucky, "ask-1").await;
    bugs::switch(None);
    world.ask(&unlucky, Some("ask-2"), Verb::Resume { reason: "the bug is corrected".into() }).await;
    await_completion(&world, &unlucky).await;
    expect_nothing_found(&world, &unlucky);
}

#[tokio::test(start_paused = true)]
async fn a_plan_over_whose_submission_the_engine_panics_is_refused_and_costs_its_shard_once() {
    let mut world = started();
    world.submit("born", &chain(&["unlucky", "last"])).await;
    let problem = refusal(&world, "born").await;
    assert_eq!(problem.code, ErrorCode::PlanQuarantined, "{problem:?}");
    // Submitted again it is refused again; whatever is behind it in the inbox runs.
    world.submit("born", &chain(&["unlucky", "last"])).await;
    let after = world.submit("after", &chain(&["a", "b"])).await;
    world.await_end(&after).await;

    repair(&mut world);
    let born = world.submit("born", &chain(&["unlucky", "last"])).await;
    await_completion(&world, &born).await;
    world.expect_no_commit_refused();
}

#[tokio::test(start_paused = true)]
async fn a_sub_plan_that_makes_the_engine_panic_fails_the_step_that_it_stands_for() {
    let world = started();
    let outer = world.submit("outer", &outer(&["unlucky"])).await;
    world.await_end(&outer).await;
    assert_eq!(world.env.auditor().plans()[&outer].status(), PlanStatus::Failed);
    world.expect_no_commit_refused();
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_left_alone_has_its_sub_plans_left_alone_too() {
    let mut world = started();
    // The sub-plan has begun when the engine panics over its parent: it must not end without it.
    let mut plan = outer(&["a", "b", "c", "d", "e", "f"]);
    plan.steps.extend(chain(&["first", "unlucky"]).steps);
    let outer = world.submit("outer", &plan).await;
    let after = world.submit("after", &chain(&["a", "b", "c", "d", "e", "f", "g", "h"])).await;
    world.await_end(&after).await;

    repair(&mut world);
    await_completion(&world, &outer).await;
    expect_nothing_found(&world, &outer);
}

/// A world in which a step called `unlucky` makes the engine panic.
fn started() -> World {
    bugs::switch(Some(Bug::Panics));
    let mut world = World::new();
    world.cluster.start(Role::Scheduler);
    world.cluster.start(Role::Worker);
    world
}

/// Another scheduler, without the mistake, takes the place of the first.
fn repair(world: &mut World) {
    bugs::switch(None);
    world.cluster.kill_role(Role::Scheduler);
    world.cluster.start(Role::Scheduler);
}

async fn await_completion(world: &World, plan: &PlanId) {
    world.await_end(plan).await;
    assert_eq!(world.env.auditor().plans()[plan].status(), PlanStatus::Completed);
}

/// Reports of plans that are left alone are lost, so their steps run again; no other promise is broken, and no commit
/// was refused.
fn expect_nothing_found(world: &World, left_alone: &PlanId) {
    let mut auditor = world.env.auditor();
    let is_sub_plan = |state: &&PlanState| {
        let parent = state.parent();
        parent.is_some_and(|parent| parent.plan == *left_alone)
    };
    let sub_plans = auditor.plans().values().filter(is_sub_plan).map(|state| state.id().clone());
    let lost: Vec<String> = sub_plans
        .chain([left_alone.clone()])
        .map(|plan| format!("of `{plan}` is acknowledged and in flight"))
        .collect();
    auditor.found.retain(|what| !lost.iter().any(|lost| what.ends_with(lost)));
    drop(auditor);
    world.expect_no_commit_refused();
}

fn chain(names: &[&str]) -> Plan {
    let mut steps: Vec<Step> = names.iter().map(|name| Step::new(*name, "quick")).collect();
    for n in 1..steps.len() {
        steps[n].dependencies = vec![steps[n - 1].id.clone()];
    }
    Plan { steps, ..Plan::default() }
}

/// A plan of one step, which is a plan.
fn outer(inner: &[&str]) -> Plan {
    let plan = Some(Box::new(chain(inner)));
    let outer = Step { kind: StepKind::Plan, agent_type: "".into(), plan, ..Step::new("outer", "quick") };
    Plan { steps: vec![outer], ..Plan::default() }
}

async fn cancel(world: &World, plan: &PlanId, answer: &str) -> Problem {
    let verb = Verb::Cancel { reason: "it does not move".into() };
    world.ask(plan, Some(answer), verb).await;
    refusal(world, answer).await
}

/// Waits for the answer, which must be a refusal.
async fn refusal(world: &World, answer: &str) -> Problem {
    let end_ms = world.env.at_ms() + PATIENCE_MS;
    loop {
        let answers = world.env.broker.answers(&[answer.to_owned()]).await.expect("looking never fails");
        if let Some(Some(text)) = answers.into_iter().next() {
            match serde_json::from_str(&text).expect("an answer is JSON") {
                SubmissionAnswer::Refused(problem) => return problem,
                accepted @ SubmissionAnswer::Accepted { .. } => panic!("it was not refused: {accepted:?}"),
            }
        }
        assert!(world.env.at_ms() < end_ms, "`{answer}` is not answered: {:?}", world.env.auditor().counts);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

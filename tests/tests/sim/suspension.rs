//! A step one of whose calls waits for a person: without a worker, for a day, and then on another worker.

use std::sync::Arc;
use std::time::Duration;

use goalmill_common::call::{call_key, inputs_digest};
use goalmill_common::command::Verb;
use goalmill_common::id::PlanId;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::StepIndex;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Role};
use crate::environment::Environment;
use crate::executors::CAREFUL;
use crate::faults::Faults;
use crate::regressions::World;
use crate::rng::Rng;
use crate::run::settings;

const DAY_MS: u64 = 24 * 3_600_000;

/// How long people have.
const LIMIT_MS: u64 = DAY_MS + 3_600_000;

/// A world in which people have more than a day.
fn world() -> World {
    let rng = Rng::new(1);
    let env = Arc::new(Environment::new(&rng, Faults::default(), None, false));
    let mut settings = settings(&rng, 1);
    settings.limits.approval_ms_max = LIMIT_MS;
    settings.limits.plan_ms_max = 7 * DAY_MS;
    let cluster = Cluster::new(&env, &rng, settings);
    World { env, cluster }
}

fn status(world: &World, plan: &PlanId) -> Option<StepStatus> {
    let auditor = world.env.auditor();
    Some(auditor.plans().get(plan)?.step(StepIndex(0))?.status)
}

async fn await_status(world: &World, plan: &PlanId, wanted: StepStatus) {
    let end_ms = world.env.at_ms() + 60_000;
    while status(world, plan) != Some(wanted) {
        assert!(world.env.at_ms() < end_ms, "the step is {:?}", status(world, plan));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn outputs(world: &World, plan: &PlanId) -> Value {
    let auditor = world.env.auditor();
    let step = auditor.plans()[plan].step(StepIndex(0)).expect("it has one step");
    step.outputs.expect("it completed").value()
}

/// Runs the step to its approval, and stops whatever runs.
async fn suspended(world: &mut World) -> PlanId {
    world.cluster.start(Role::Scheduler);
    world.cluster.start(Role::Worker);
    let plan = world.submit("careful", &Plan { steps: vec![Step::new("a", CAREFUL)], ..Plan::default() }).await;
    await_status(world, &plan, StepStatus::AwaitingApproval).await;
    {
        let auditor = world.env.auditor();
        let state = &auditor.plans()[&plan];
        assert_eq!((state.in_flight(), state.status()), (0, PlanStatus::Running), "no slot of the plan is held");
    }
    // Both end by themselves: nothing needs to run while the step waits.
    world.cluster.stop_one();
    world.cluster.stop_one();
    plan
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_a_call_comes_a_day_later_and_another_worker_goes_on() {
    let mut world = world();
    let plan = suspended(&mut world).await;
    tokio::time::sleep(Duration::from_millis(DAY_MS)).await;
    world.cluster.start(Role::Scheduler);
    world.cluster.start(Role::Worker);
    world.ask(&plan, None, Verb::ApproveStep { step: "a".into(), reason: "as agreed".into() }).await;
    world.await_end(&plan).await;
    let call = |name: &str, inputs: &str, attempt: u32| {
        let key = call_key(&format!("{plan}:a"), name, &inputs_digest(inputs));
        json!({"name": name, "key": key, "attempt": attempt})
    };
    let expected = json!({"thought": call("think", "x", 1), "paid": call("pay", "5", 2), "attempt": 2});
    assert_eq!(outputs(&world, &plan), expected);
    let usage = world.env.auditor().plans()[&plan].usage();
    assert_eq!(usage.cost, 1.0, "each call is paid once");
    world.expect_no_commit_refused();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_approves_in_time_is_not_made() {
    let mut world = world();
    let plan = suspended(&mut world).await;
    tokio::time::sleep(Duration::from_millis(LIMIT_MS)).await;
    world.cluster.start(Role::Scheduler);
    world.cluster.start(Role::Worker);
    world.await_end(&plan).await;
    assert_eq!(outputs(&world, &plan)["paid"], "approval timed out");
}

//! Regression tests: bugs that seeds have found, each as the shortest history without other faults.

use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::{Broker, Commit, InboxCursor};
use goalmill_common::command::{Planned, Request, Submit, Verb};
use goalmill_common::goal::Goal;
use goalmill_common::id::{Namespace, PlanId, ShardId};
use goalmill_common::plan::{Plan, Step, StepKind};
use goalmill_common::wire::Inbox;

use crate::auditor::Auditor;
use crate::cluster::{Cluster, Role};
use crate::environment::Environment;
use crate::faults::Faults;
use crate::rng::Rng;
use crate::run::settings;

/// Longest wait for anything, in milliseconds of virtual time.
const PATIENCE_MS: u64 = 150_000;

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_submitted_again_after_its_end_costs_no_shard() {
    let mut world = World::new();
    world.cluster.start(Role::Scheduler);
    world.cluster.start(Role::Worker);
    let plan = Plan { steps: vec![Step::new("a", "quick")], ..Plan::default() };
    let first = world.submit("first", &plan).await;
    world.await_end(&first).await;
    world.submit("first", &plan).await;
    let second = world.submit("second", &plan).await;
    world.await_end(&second).await;
    world.expect_no_commit_refused();
}

#[tokio::test(start_paused = true)]
async fn a_takeover_does_not_begin_a_sub_plan_again() {
    let mut world = World::new();
    world.cluster.start(Role::Scheduler);
    // Without a worker the sub-plans cannot end before the takeover. Of several plans some are read before their sub-plans.
    let mut plans = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        plans.push(world.submit(name, &nested(Step::new("inner", "quick"))).await);
    }
    while world.env.auditor().plans().len() < 2 * plans.len() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world.cluster.kill_one();
    world.cluster.start(Role::Scheduler);
    world.cluster.start(Role::Worker);
    for plan in &plans {
        world.await_end(plan).await;
    }
    world.expect_no_commit_refused();
}

#[tokio::test(start_paused = true)]
async fn a_sub_plan_that_ends_at_once_is_rolled_up() {
    let mut world = World::new();
    world.cluster.start(Role::Scheduler);
    let inner = Step { kind: StepKind::Internal, agent_type: "".into(), ..Step::new("inner", "quick") };
    let plan = world.submit("outer", &nested(inner)).await;
    world.await_end(&plan).await;
}

#[tokio::test(start_paused = true)]
async fn an_installation_that_is_lost_begins_again_with_a_restart_and_not_before() {
    let mut world = World::new();
    let empty = world.env.past();
    let plan = Plan { steps: vec![Step::new("a", "quick")], ..Plan::default() };
    world.cluster.start(Role::Scheduler);
    world.cluster.start(Role::Worker);
    let first = world.submit("first", &plan).await;
    world.await_end(&first).await;
    assert!(!world.env.turn_back(&empty).await, "the installation is gone");
    tokio::time::sleep(Duration::from_millis(PATIENCE_MS)).await;
    assert_eq!(world.env.broker.meta().await.expect("looking never fails"), None, "nothing is made again by itself");
    world.cluster.restart_all();
    let second = world.submit("second", &plan).await;
    world.await_end(&second).await;
    world.expect_no_commit_refused();
}

#[test]
fn a_commit_is_judged_by_the_reader_of_its_own_token() {
    let commit = |token: &str, number, cursor: &str| Commit {
        shard: ShardId(0),
        token: token.into(),
        number,
        cursor: Some(cursor.into()),
        requests_cursor: None,
        plans: Vec::new(),
        tasks: Vec::new(),
        acknowledged: Vec::new(),
        full_check: false,
    };
    let mut auditor = Auditor::default();
    auditor.claims("one", ShardId(0), "old");
    auditor.begins_to_read("one", ShardId(0), &InboxCursor::start());
    let past = auditor.keep();
    auditor.claims("one", ShardId(0), "new");
    auditor.begins_to_read("one", ShardId(0), &InboxCursor { reports: "5-0".into(), ..InboxCursor::start() });
    // The server goes back to the time of the old token, and a late commit under it arrives.
    auditor.turn_back(past);
    auditor.applied(&commit("old", 1, "2-0"), 0);
    assert_eq!(auditor.found, Vec::<String>::new());
    auditor.applied(&commit("new", 1, "6-0"), 0);
    assert!(auditor.found[0].starts_with("[L2] shard 0 was read after 5-0"), "{:?}", auditor.found);
}

/// A plan of one step, which is a plan of one step.
fn nested(inner: Step) -> Plan {
    let plan = Some(Box::new(Plan { steps: vec![inner], ..Plan::default() }));
    let outer = Step { kind: StepKind::Plan, agent_type: "".into(), plan, ..Step::new("outer", "quick") };
    Plan { steps: vec![outer], ..Plan::default() }
}

/// One shard, and no trouble.
pub struct World {
    pub env: Arc<Environment>,
    pub cluster: Cluster,
}

impl World {
    pub fn new() -> Self {
        let rng = Rng::new(1);
        let env = Arc::new(Environment::new(&rng, Faults::default(), None, false));
        let cluster = Cluster::new(&env, &rng, settings(&rng, 1));
        Self { env, cluster }
    }

    /// Brings a plan to its shard as a scheduler does that does not own it.
    pub async fn submit(&self, name: &str, plan: &Plan) -> PlanId {
        let planned = Planned {
            plan: plan.clone(),
            planner: "submitted".into(),
            confidence: 1.0,
            provenance: None,
            warnings: Vec::new(),
            routes: Vec::new(),
            goal: None,
        };
        let submit = Submit::new(Goal::default(), Some(planned), name, "test");
        let id = PlanId::derive(1, &Namespace::default(), name);
        self.ask(&id, None, Verb::Submit(Box::new(submit))).await;
        id
    }

    /// Asks a plan's shard for something; the answer comes under `answer`.
    pub async fn ask(&self, plan: &PlanId, answer: Option<&str>, verb: Verb) {
        let answer = answer.map(str::to_owned);
        let request = Request { plan: plan.clone(), actor: "test".into(), answer, verb };
        let fields = Inbox::Request(Box::new(request)).fields();
        self.env.broker.send_request(ShardId(0), &fields).await.expect("nothing fails here");
    }

    pub async fn await_end(&self, plan: &PlanId) {
        let end_ms = self.env.at_ms() + PATIENCE_MS;
        while !self.env.auditor().plans().get(plan).is_some_and(goalmill_engine::PlanState::is_final) {
            assert!(self.env.at_ms() < end_ms, "`{plan}` does not end: {:?}", self.env.auditor().counts);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub fn expect_no_commit_refused(&self) {
        let auditor = self.env.auditor();
        assert_eq!(auditor.found, Vec::<String>::new());
        assert_eq!(auditor.counts.get("gap"), None, "{:?}", auditor.counts);
    }
}

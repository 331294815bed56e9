//! Plans that change, begin early, remember results and are watched, in running schedulers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use goalmill_broker::embedded;
use goalmill_common::agent::Agent;
use goalmill_common::clock::Clock;
use goalmill_common::command::{Change, Planned, Proposal, RevisionStrategy};
use goalmill_common::config::{HookDefault, Settings};
use goalmill_common::event::{Event, PlanEvent, PlanRevised, StepEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::PlanId;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::random::Random;
use goalmill_common::task::Task;
use goalmill_planning::{Part, PlanRequest, Planner, PlannerAnswer, PlanningError, ReviseRequest};
use goalmill_scheduler::Extras;
use goalmill_scheduler::{DecisionTerms, Hook, HookCall, HookError, Point, Ruling};
use goalmill_tests::installation::{Installation, http_client, settings};
use goalmill_tests::wait::{SOON, until};
use goalmill_worker::executor::{ExecutionResult, Executor, Progress};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_mins(1);

/// An agent whose answer is a function of the inputs.
struct Fake {
    card: Agent,
    answer: fn(&Value) -> Result<Value, Failure>,
    calls: Arc<AtomicU32>,
}

#[async_trait]
impl Executor for Fake {
    async fn execute(&self, task: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        (self.answer)(&task.inputs.value()).map(ExecutionResult::new)
    }

    fn card(&self) -> Option<Agent> {
        Some(self.card.clone())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trip_is_revised_by_rules_until_the_limit() -> Result<()> {
    let mut town = town(Extras::default()).await?;
    town.serve("flights", "book_flight", &json!({}), |_| {
        Err(Failure::new(FailureClass::Transient, "UNAVAILABLE", "flight agent unavailable"))
    });
    town.serve("backup", "book_flight", &json!({}), |_| Ok(json!({"price": 600})));
    let districts = json!({"nearby": {"type": "boolean", "description": "also look in neighbouring districts"}});
    town.serve("hotels", "book_hotel", &districts, |inputs| {
        if inputs["nearby"] != true {
            return Err(Failure::new(FailureClass::Permanent, "FULLY_BOOKED", "Hotel fully booked"));
        }
        let offers = json!([{"name": "A", "price": 900}, {"name": "B", "price": 500}]);
        Ok(json!({"hotels": offers, "best": offers[0], "total": 900}))
    });
    town.serve("budget", "check", &json!({}), |_| {
        Err(Failure::new(FailureClass::Transient, "OVERLOADED", "the budget agent is overloaded"))
    });
    town.serve("ledger", "check", &json!({}), |_| Ok(json!({"ok": true})));
    town.serve("mail", "send", &json!({}), |_| {
        Err(Failure::new(FailureClass::Permanent, "UNAVAILABLE", "mail is unavailable"))
    });
    town.open().await?;
    let plan = json!({"revision": {}, "steps": [
        {"id": "flight", "agent_type": "flights", "action": "book_flight", "on_failure": "replan", "retry": {"max": 0}},
        {"id": "hotel", "agent_type": "hotels", "action": "book_hotel", "dependencies": ["flight"], "on_failure": "replan"},
        {"id": "check", "agent_type": "budget", "action": "check", "dependencies": ["hotel"], "on_failure": "replan", "retry": {"max": 0},
         "inputs": {"total": "{{ steps.hotel.outputs.total }}"}},
        {"id": "tell", "agent_type": "mail", "action": "send", "dependencies": ["check"], "on_failure": "replan"},
    ]});
    let id = town.at.submit(&plan).await?;
    let ended = town.at.await_end(&id, LIMIT).await?;
    let log = town.at.log(&id).await?;
    let figures = |revised: &PlanRevised| {
        (revised.strategy, revised.confidence_before, revised.confidence_delta, revised.confidence_after)
    };
    let revised = log.iter().filter_map(|record| {
        if let Event::Plan(PlanEvent::Revised(revised)) = &record.event { Some(figures(revised)) } else { None }
    });
    let expected = [
        (Some(RevisionStrategy::RetryWithAgent), 1.0, -0.1, 0.9),
        (Some(RevisionStrategy::Workaround), 0.9, -0.25, 0.65),
        (Some(RevisionStrategy::RetryWithAgent), 0.65, -0.3, 0.35),
    ];
    assert_eq!(revised.collect::<Vec<_>>(), expected, "{ended:#}");
    let failure = log.iter().find_map(|record| {
        if let Event::Plan(PlanEvent::Failed(ended)) = &record.event { ended.failure.clone() } else { None }
    });
    assert_eq!(failure.map(|failure| failure.code).as_deref(), Some("MAX_REVISIONS_EXCEEDED"), "{ended:#}");
    let kept = town.at.get(&format!("/v1/plans/{id}/results")).await?;
    assert_eq!(kept["results"]["check"], json!({"ok": true}), "{kept:#}");
    town.at.stop().await;
    Ok(())
}

/// Hands over one step, and writes the second only when it is told to go on.
struct Slow {
    go_on: Arc<Notify>,
    /// Whether the whole plan is another one than the beginning said.
    breaks: bool,
    /// Whether it gives the rest when it is asked again.
    has_rest: bool,
}

#[async_trait]
impl Planner for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    async fn plan(&self, _: &PlanRequest) -> Result<PlannerAnswer, PlanningError> {
        Err(PlanningError::new("it only streams"))
    }

    async fn stream(&self, request: &PlanRequest, parts: mpsc::Sender<Part>) -> Result<PlannerAnswer, PlanningError> {
        let first = Step { action: "echo".into(), ..Step::new("first", "fake") };
        drop(parts.send(Part::Step(Box::new(first.clone()))).await);
        self.go_on.notified().await;
        if self.breaks {
            return Err(PlanningError::new("the connection broke"));
        }
        let second = Step { dependencies: vec!["first".into()], ..Step { id: "second".into(), ..first.clone() } };
        drop(parts.send(Part::Step(Box::new(second.clone()))).await);
        PlannerAnswer::validate(planned(vec![first, second]), request)
    }

    async fn revise(&self, request: &ReviseRequest) -> Result<Proposal, PlanningError> {
        assert_eq!(request.situation.trigger, "incomplete_plan");
        if !self.has_rest {
            return Err(PlanningError::new("the connection broke again"));
        }
        let last = Step { action: "echo".into(), ..Step::new("last", "fake") };
        let add = Change::AddStep { step: Box::new(last), before: Vec::new() };
        Ok(Proposal::new(RevisionStrategy::ReplanRemaining, vec![add]))
    }
}

fn planned(steps: Vec<Step>) -> Planned {
    Planned {
        plan: Plan { steps, ..Plan::default() },
        planner: "slow".into(),
        confidence: 0.9,
        provenance: None,
        warnings: Vec::new(),
        routes: Vec::new(),
        goal: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_step_is_done_before_the_plan_is_written() -> Result<()> {
    let go_on = Arc::new(Notify::new());
    let mut town = town(slow(&go_on, false)).await?;
    town.serve("fake", "echo", &json!({}), |_| Ok(json!({})));
    town.open().await?;
    let id = town.goal().await?;
    until(SOON, async || town.is_completed(&id, "first").await).await;
    go_on.notify_one();
    let ended = town.at.await_end(&id, LIMIT).await?;
    assert_eq!(ended["status"], "completed", "{ended:#}");
    assert!(town.is_completed(&id, "second").await, "{ended:#}");
    town.at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_whose_rest_never_comes_is_planned_anew_around_what_ran() -> Result<()> {
    let go_on = Arc::new(Notify::new());
    let mut town = town(slow(&go_on, true)).await?;
    let calls = town.serve("fake", "echo", &json!({}), |_| Ok(json!({})));
    town.open().await?;
    let id = town.goal().await?;
    until(SOON, async || town.is_completed(&id, "first").await).await;
    go_on.notify_one();
    let ended = town.at.await_end(&id, LIMIT).await?;
    assert_eq!(ended["status"], "completed", "{ended:#}");
    assert!(town.is_completed(&id, "last").await, "{ended:#}");
    assert_eq!(calls.load(Ordering::SeqCst), 2, "what ran is not run again");
    let graph = town.at.get(&format!("/v1/plans/{id}/graph")).await?;
    let policies = graph["steps"].as_array().into_iter().flatten().map(|step| (&step["id"], &step["on_failure"]));
    let last = policies.into_iter().find(|(id, _)| *id == "last").map(|(_, policy)| policy);
    assert_eq!(last, Some(&json!("replan")), "what a revision brings is revised when it fails: {graph:#}");
    town.at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_whose_rest_nobody_gives_fails_and_gets_no_generic_end() -> Result<()> {
    let go_on = Arc::new(Notify::new());
    let planner = Arc::new(Slow { go_on: go_on.clone(), breaks: true, has_rest: false });
    let mut town = town(Extras { planners: vec![planner], ..Extras::default() }).await?;
    town.serve("fake", "echo", &json!({}), |_| Ok(json!({})));
    let generic = town.serve("general_agent", "run", &json!({}), |_| Ok(json!({})));
    town.open().await?;
    let id = town.goal().await?;
    until(SOON, async || town.is_completed(&id, "first").await).await;
    go_on.notify_one();
    let ended = town.at.await_end(&id, LIMIT).await?;
    assert_eq!(ended["status"], "failed", "{ended:#}");
    let log = town.at.log(&id).await?;
    let failure = log.iter().find_map(|record| {
        if let Event::Plan(PlanEvent::Failed(ended)) = &record.event { ended.failure.clone() } else { None }
    });
    assert_eq!(failure.map(|failure| failure.code).as_deref(), Some("PLANNING_FAILED"), "{ended:#}");
    assert_eq!(generic.load(Ordering::SeqCst), 0, "{ended:#}");
    assert!(town.is_completed(&id, "first").await, "what ran is kept: {ended:#}");
    town.at.stop().await;
    Ok(())
}

fn slow(go_on: &Arc<Notify>, breaks: bool) -> Extras {
    let planner = Arc::new(Slow { go_on: go_on.clone(), breaks, has_rest: true });
    Extras { planners: vec![planner], ..Extras::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_result_saves_the_attempt() -> Result<()> {
    let mut town = town(Extras::default()).await?;
    let calls = town.serve("fake", "echo", &json!({}), |inputs| Ok(json!({"x": inputs["x"]})));
    town.open().await?;
    let plan = |x: u32| {
        json!({"steps": [{"id": "a", "agent_type": "fake", "action": "echo", "inputs": {"x": x},
                          "cache": {"key": "x is {{ inputs.x }}", "ttl": "1h"}}]})
    };
    for (x, expected) in [(1, 1), (1, 1), (2, 2)] {
        let id = town.at.submit(&plan(x)).await?;
        let ended = town.at.await_end(&id, LIMIT).await?;
        assert_eq!(ended["status"], "completed", "{ended:#}");
        assert_eq!(calls.load(Ordering::SeqCst), expected, "with x = {x}");
        let kept = town.at.get(&format!("/v1/plans/{id}/results")).await?;
        assert_eq!(kept["results"]["a"], json!({"x": x}), "{kept:#}");
        // What is kept is written after the commit.
        if let Some(word) = town.keyed(&id).await? {
            until(SOON, async || matches!(town.at.broker.cache_get(&word).await, Ok(Some(_)))).await;
        }
    }
    town.at.stop().await;
    Ok(())
}

/// Writes down what it is told, and refuses plans if it is to.
struct Ear {
    heard: Arc<Mutex<Vec<Point>>>,
    refuses: bool,
}

#[async_trait]
impl Hook for Ear {
    fn name(&self) -> &'static str {
        "ear"
    }

    fn wants(&self, _: Point) -> bool {
        true
    }

    fn decides(&self) -> Option<DecisionTerms> {
        self.refuses.then_some(DecisionTerms { limit: SOON, default: HookDefault::Allow })
    }

    async fn call(&self, call: &HookCall) -> Result<Ruling, HookError> {
        self.heard.lock().expect("nobody panics with it").push(call.point);
        Ok(if self.refuses { Ruling::Vetoed("not today".into()) } else { Ruling::Allowed })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_hear_what_happens() -> Result<()> {
    let heard = Arc::<Mutex<Vec<Point>>>::default();
    let hook = Arc::new(Ear { heard: heard.clone(), refuses: false });
    let mut town = town(Extras { hooks: vec![hook], ..Extras::default() }).await?;
    town.serve("fake", "echo", &json!({}), |_| Ok(json!({})));
    town.open().await?;
    let plan = json!({"approve": true, "steps": [{"id": "a", "agent_type": "fake", "action": "echo"}]});
    let id = town.at.submit(&plan).await?;
    let (status, answer) = town.at.post(&format!("/v1/plans/{id}:approve"), &json!({"reason": "fine"})).await?;
    assert!(status < 300, "{status} {answer:#}");
    town.at.await_end(&id, LIMIT).await?;
    let expected = [Point::OnPlanGenerated, Point::OnPlanApproved, Point::OnStepStart, Point::OnStepComplete];
    until(SOON, async || *heard.lock().expect("nobody panics with it") == expected).await;
    town.at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_may_veto_a_plan() -> Result<()> {
    let hook = Arc::new(Ear { heard: Arc::default(), refuses: true });
    let town = town(Extras { hooks: vec![hook], ..Extras::default() }).await?;
    let id = town.goal().await?;
    let ended = town.at.await_end(&id, LIMIT).await?;
    assert_eq!(ended["status"], "failed", "{ended:#}");
    let reason = ended.to_string();
    assert!(reason.contains("`ear`") && reason.contains("not today"), "{ended:#}");
    town.at.stop().await;
    Ok(())
}

/// Hangs on its first call of each kind, and counts them.
#[derive(Default)]
struct Hanging {
    plans: AtomicU32,
    revisions: AtomicU32,
}

#[async_trait]
impl Planner for Hanging {
    fn name(&self) -> &'static str {
        "hanging"
    }

    async fn plan(&self, request: &PlanRequest) -> Result<PlannerAnswer, PlanningError> {
        if self.plans.fetch_add(1, Ordering::SeqCst) == 0 {
            std::future::pending::<()>().await;
        }
        let fails = Step { action: "fail".into(), ..Step::new("a", "fake") };
        let on_failure = goalmill_common::plan::OnFailure::Replan;
        PlannerAnswer::validate(planned(vec![Step { on_failure, ..fails }]), request)
    }

    async fn revise(&self, _: &ReviseRequest) -> Result<Proposal, PlanningError> {
        if self.revisions.fetch_add(1, Ordering::SeqCst) == 0 {
            std::future::pending::<()>().await;
        }
        let action = Some("echo".to_owned());
        let again = Change::RetryStep { step: "a".into(), agent_type: None, action, inputs: None };
        Ok(Proposal::new(RevisionStrategy::Workaround, vec![again]))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_ends_while_planners_think_costs_one_call_more() -> Result<()> {
    let planner = Arc::new(Hanging::default());
    let extras = || Extras { planners: vec![planner.clone()], ..Extras::default() };
    let mut town = town(extras()).await?;
    town.add_failing();
    town.open().await?;
    let id = town.goal().await?;
    until(SOON, async || planner.plans.load(Ordering::SeqCst) == 1).await;
    town.replace_scheduler(extras()).await?;
    until(SOON, async || planner.revisions.load(Ordering::SeqCst) == 1).await;
    town.replace_scheduler(extras()).await?;
    let ended = town.at.await_end(&id, LIMIT).await?;
    assert_eq!(ended["status"], "completed", "{ended:#}");
    assert_eq!((planner.plans.load(Ordering::SeqCst), planner.revisions.load(Ordering::SeqCst)), (2, 2));
    let log = town.at.log(&id).await?;
    let created = log.iter().filter(|r| matches!(r.event, Event::Plan(PlanEvent::PlanCreated(_)))).count();
    let revised = log.iter().filter(|r| matches!(r.event, Event::Plan(PlanEvent::Revised(_)))).count();
    assert_eq!((created, revised), (1, 1));
    town.at.stop().await;
    Ok(())
}

/// An installation with agents of the test's own.
pub struct Town {
    pub at: Installation,
    agents: Vec<(String, Arc<dyn Executor>)>,
}

async fn town(extras: Extras) -> Result<Town> {
    town_with(settings(), extras).await
}

pub async fn town_with(settings: Settings, extras: Extras) -> Result<Town> {
    let broker = embedded::open(None, Clock::system())?;
    let at = Installation { broker, schedulers: Vec::new(), workers: Vec::new(), settings, http: http_client() };
    let mut town = Town { at, agents: Vec::new() };
    town.add_scheduler(extras).await?;
    Ok(town)
}

impl Town {
    /// Adds an agent type with one action; tells how often it was called.
    pub fn serve(
        &mut self,
        agent: &str,
        action: &str,
        properties: &Value,
        answer: fn(&Value) -> Result<Value, Failure>,
    ) -> Arc<AtomicU32> {
        let actions = json!([{"name": action, "inputs": {"type": "object", "properties": properties}}]);
        self.serve_as(json!({"agent_type": agent, "actions": actions}), answer)
    }

    fn serve_as(&mut self, card: Value, answer: fn(&Value) -> Result<Value, Failure>) -> Arc<AtomicU32> {
        let card: Agent = serde_json::from_str(&card.to_string()).expect("it is an agent");
        let calls = Arc::<AtomicU32>::default();
        let name = card.agent_type.to_string();
        self.agents.push((name, Arc::new(Fake { card, answer, calls: calls.clone() })));
        calls
    }

    /// Lets `fake` fail by the action `fail`, and do by `echo`.
    fn add_failing(&mut self) {
        let card: Agent = serde_json::from_str(
            &json!({"agent_type": "fake", "actions": [{"name": "fail"}, {"name": "echo"}]}).to_string(),
        )
        .expect("it is an agent");
        self.agents.push(("fake".into(), Arc::new(ByAction { card })));
    }

    /// Starts the worker, and waits until the schedulers know its agents.
    pub async fn open(&mut self) -> Result<()> {
        let executors: BTreeMap<_, _> =
            self.agents.iter().map(|(name, executor)| (name.as_str().into(), executor.clone())).collect();
        let options = goalmill_worker::WorkerOptions {
            settings: self.at.settings.worker.clone(),
            limits: self.at.settings.limits.clone(),
            broker: self.at.broker.clone(),
            clock: Clock::system(),
            random: Random::system(),
            executors,
            kinds: Default::default(),
        };
        self.at.workers.push(goalmill_worker::start(options).await?);
        self.await_agents().await;
        Ok(())
    }

    async fn await_agents(&self) {
        let steps: Vec<Value> = self.agents.iter().map(|(name, _)| json!({"id": name, "agent_type": name})).collect();
        let plan = json!({"steps": steps});
        if self.agents.is_empty() {
            return;
        }
        until(SOON, async || {
            let answer = self.at.post("/v1/plans:validate", &plan).await;
            answer.is_ok_and(|(status, answer)| {
                let text = answer.to_string();
                status == 200 && !text.contains("UNKNOWN_AGENT") && !text.contains("NO_LIVE_WORKER")
            })
        })
        .await;
    }

    async fn add_scheduler(&mut self, extras: Extras) -> Result<()> {
        let settings: Settings = self.at.settings.clone();
        let options = goalmill_scheduler::SchedulerOptions {
            settings,
            broker: self.at.broker.clone(),
            clock: Clock::system(),
            random: Random::system(),
        };
        self.at.schedulers.push(goalmill_scheduler::start_with(options, extras).await?);
        Ok(())
    }

    /// Ends the scheduler and starts another one.
    pub async fn replace_scheduler(&mut self, extras: Extras) -> Result<()> {
        for scheduler in self.at.schedulers.drain(..) {
            scheduler.stop().await;
        }
        self.add_scheduler(extras).await
    }

    pub async fn goal(&self) -> Result<PlanId> {
        self.at.accept("/v1/goals", &json!({"description": "do it"})).await
    }

    async fn is_completed(&self, plan: &PlanId, step: &str) -> bool {
        let log = self.at.log(plan).await.unwrap_or_default();
        log.iter().any(|record| {
            let is_end = matches!(&record.event, Event::Step { event: StepEvent::Completed(_), .. });
            is_end && record.event.step().is_some_and(|id| id.as_str() == step)
        })
    }

    /// The word that the plan's step went out with.
    async fn keyed(&self, plan: &PlanId) -> Result<Option<String>> {
        let log = self.at.log(plan).await?;
        Ok(log.iter().find_map(|record| {
            if let Event::Step { event: StepEvent::Queued(queued), .. } = &record.event {
                queued.cache_key.clone()
            } else {
                None
            }
        }))
    }
}

struct ByAction {
    card: Agent,
}

#[async_trait]
impl Executor for ByAction {
    async fn execute(&self, task: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        match task.action.as_str() {
            "echo" => Ok(ExecutionResult::new(json!({}))),
            _ => Err(Failure::new(FailureClass::Permanent, "NO", "no")),
        }
    }

    fn card(&self) -> Option<Agent> {
        Some(self.card.clone())
    }
}

//! Learning from the outcomes of plans: the router, and the confidence in plans.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use goalmill_broker::embedded;
use goalmill_common::clock::Clock;
use goalmill_common::command::{Change, Planned, Proposal, RevisionStrategy};
use goalmill_common::config::Settings;
use goalmill_common::event::{Event, PlanEvent};
use goalmill_common::id::PlanId;
use goalmill_common::plan::{OnFailure, Plan, RevisionPolicy, Step};
use goalmill_common::random::Random;
use goalmill_planning::{PlanRequest, Planner, PlannerAnswer, PlanningError, ReviseRequest};
use goalmill_scheduler::Extras;
use goalmill_tests::installation::{Installation, http_client, settings};
use goalmill_tests::wait::{SOON, until, until_some};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);
/// What the planner of these tests says of each of its plans.
const SAID: f64 = 0.9;

#[tokio::test(flavor = "multi_thread")]
async fn how_agents_do_is_measured_and_survives_a_restart() -> Result<()> {
    let mut at = open(settings(), None).await?;
    for agent in ["echo", "echo", "fail"] {
        let id = at.submit(&json!({"steps": [{"id": "a", "agent_type": agent, "inputs": {"n": 1}}]})).await?;
        at.await_end(&id, LIMIT).await?;
    }
    let measured = async |at: &Installation| -> Option<(f64, f64, f64)> {
        let (echo, fail) = (candidate(at, "echo").await?, candidate(at, "fail").await?);
        let outcomes = |of: &Value| of["factors"]["outcomes"].as_f64().unwrap_or_default();
        let seen = outcomes(&echo) > 1.5 && outcomes(&fail) > 0.5;
        let rate = |of: &Value| of["success_rate"].as_f64().unwrap_or_default();
        seen.then_some((rate(&echo), rate(&fail), outcomes(&echo)))
    };
    let (good, bad, _) = until_some(SOON, async || measured(&at).await).await.expect("the outcomes are counted");
    assert!(bad < good, "{bad} < {good}");
    restart(&mut at, None).await?;
    let (_, still_bad, outcomes) = until_some(SOON, async || measured(&at).await).await.expect("they are read again");
    assert!(still_bad < good, "{still_bad} < {good}");
    assert!(outcomes < 2.5, "no outcome is counted twice: {outcomes}");
    at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_goes_by_how_long_actions_took() -> Result<()> {
    let at = open(settings(), None).await?;
    let plan = json!({"steps": [{"id": "a", "agent_type": "sleep", "action": "sleep", "inputs": {"ms": 9}},
                                {"id": "b", "agent_type": "echo", "action": "echo", "estimates": {"seconds": 40}}]});
    let sources =
        async || at.post("/v1/plans:validate", &plan).await.ok().map(|(_, preview)| preview["seconds_from"].clone());
    let measured = |of: &Value| (of["measured"].as_u64(), of["estimated"].as_u64());
    let before = sources().await.unwrap_or_default();
    assert_eq!(measured(&before), (Some(0), Some(1)), "{before}");
    for _ in 0..3 {
        let step = json!({"id": "a", "agent_type": "sleep", "action": "sleep", "inputs": {"ms": 9}});
        at.await_end(&at.submit(&json!({"steps": [step]})).await?, LIMIT).await?;
    }
    let known = async || sources().await.filter(|of| measured(of) == (Some(1), Some(1)));
    assert!(until_some(SOON, known).await.is_some(), "what was measured is not used: {:?}", sources().await);
    at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_router_learns_from_steps_that_it_gave_away() -> Result<()> {
    let mut settings = settings();
    settings.router.learn = true;
    let mut at = open(settings, None).await?;
    let steps: Vec<Value> = (0..6)
        .map(|n| json!({"id": format!("s{n}"), "agent_type": "auto", "description": format!("echo the inputs {n}")}))
        .collect();
    let id = at.submit(&json!({"steps": steps})).await?;
    let ended = at.await_end(&id, LIMIT).await?;
    assert_eq!(ended["status"], "completed", "{ended:#}");
    let learned = async |at: &Installation| {
        let chosen = ended["steps"][0]["agent_type"].as_str()?;
        let found = candidate(at, chosen).await?;
        found["factors"]["learned"].as_f64().filter(|learned| *learned > 0.0)
    };
    assert!(until_some(SOON, async || learned(&at).await).await.is_some(), "nothing was learned");
    restart(&mut at, None).await?;
    assert!(until_some(SOON, async || learned(&at).await).await.is_some(), "it was forgotten");
    at.stop().await;
    Ok(())
}

/// Is sure of plans that fail.
struct Boaster;

#[async_trait]
impl Planner for Boaster {
    fn name(&self) -> &'static str {
        "boaster"
    }

    async fn plan(&self, request: &PlanRequest) -> Result<PlannerAnswer, PlanningError> {
        let revisable = request.goal.description.contains("revise");
        let step =
            Step { on_failure: if revisable { OnFailure::Replan } else { OnFailure::Abort }, ..Step::new("a", "fail") };
        let revision = RevisionPolicy { max: (!revisable).then_some(0), ..RevisionPolicy::default() };
        let planned = Planned {
            plan: Plan { steps: vec![step], revision: Some(revision), ..Plan::default() },
            planner: "boaster".into(),
            confidence: SAID,
            provenance: None,
            warnings: Vec::new(),
            routes: Vec::new(),
            goal: None,
        };
        PlannerAnswer::validate(planned, request)
    }

    async fn revise(&self, _: &ReviseRequest) -> Result<Proposal, PlanningError> {
        let again = Change::RetryStep { step: "a".into(), agent_type: Some("echo".into()), action: None, inputs: None };
        Ok(Proposal::new(RevisionStrategy::RetryWithAgent, vec![again]))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn confidence_is_what_became_of_earlier_plans() -> Result<()> {
    let mut settings = settings();
    settings.planner.calibrate_plans_min = 10;
    let mut at = open(settings, Some(Arc::new(Boaster))).await?;
    assert!((confidence(&at).await? - SAID).abs() < 1e-9, "nothing is known yet");
    for _ in 0..60 {
        let id = goal(&at, "fail once more").await?;
        at.await_end(&id, LIMIT).await?;
    }
    let corrected = async |at: &Installation| confidence(at).await.ok().filter(|confidence| *confidence < 0.4);
    assert!(until_some(SOON, async || corrected(&at).await).await.is_some(), "nothing was corrected");
    restart(&mut at, Some(Arc::new(Boaster))).await?;
    assert!(until_some(SOON, async || corrected(&at).await).await.is_some(), "it was forgotten");

    let id = goal(&at, "revise what fails").await?;
    let ended = at.await_end(&id, LIMIT).await?;
    assert_eq!(ended["failure"]["code"], "LOW_CONFIDENCE", "{ended:#}");
    let said = at.log(&id).await?.into_iter().find_map(|record| {
        if let Event::Plan(PlanEvent::PlanCreated(created)) = record.event {
            created.provenance.map(|p| p.value()["said"].clone())
        } else {
            None
        }
    });
    assert_eq!(said, Some(json!(SAID)), "the planner's own word stays in the log");
    at.stop().await;
    Ok(())
}

/// A scheduler, with a planner before the others, and the demo agents.
async fn open(settings: Settings, planner: Option<Arc<dyn Planner>>) -> Result<Installation> {
    let broker = embedded::open(None, Clock::system())?;
    let mut at = Installation { broker, schedulers: Vec::new(), workers: Vec::new(), settings, http: http_client() };
    add_scheduler(&mut at, planner).await?;
    at.add_worker(16).await?;
    await_agents(&at).await;
    Ok(at)
}

async fn add_scheduler(at: &mut Installation, planner: Option<Arc<dyn Planner>>) -> Result<()> {
    let options = goalmill_scheduler::SchedulerOptions {
        settings: at.settings.clone(),
        broker: at.broker.clone(),
        clock: Clock::system(),
        random: Random::system(),
    };
    let extras = Extras { planners: planner.into_iter().collect(), ..Extras::default() };
    at.schedulers.push(goalmill_scheduler::start_with(options, extras).await?);
    Ok(())
}

async fn restart(at: &mut Installation, planner: Option<Arc<dyn Planner>>) -> Result<()> {
    for scheduler in at.schedulers.drain(..) {
        scheduler.stop().await;
    }
    add_scheduler(at, planner).await?;
    await_agents(at).await;
    Ok(())
}

async fn await_agents(at: &Installation) {
    // The registry has them at once, the router a little later.
    until(SOON, async || candidate(at, "echo").await.is_some() && candidate(at, "fail").await.is_some()).await;
}

/// What the router says of an agent.
async fn candidate(at: &Installation, agent: &str) -> Option<Value> {
    let text = json!({"text": "echo the inputs, or fail as told"});
    let (_, answer) = at.post("/v1/agents:route", &text).await.ok()?;
    let candidates = answer["candidates"].as_array()?;
    candidates.iter().find(|candidate| candidate["agent_type"] == agent).cloned()
}

/// How sure a dry run is.
async fn confidence(at: &Installation) -> Result<f64> {
    let (status, preview) = at.post("/v1/plans:preview", &json!({"description": "fail once more"})).await?;
    anyhow::ensure!(status == 200, "{preview:#}");
    Ok(preview["confidence"].as_f64().unwrap_or_default())
}

async fn goal(at: &Installation, description: &str) -> Result<PlanId> {
    at.accept("/v1/goals", &json!({"description": description})).await
}

//! The trip that goes wrong: a backup agent, neighbouring districts, a cheaper stay, and an end that keeps what was done.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use goalmill_broker::embedded;
use goalmill_common::agent::Agent;
use goalmill_common::clock::Clock;
use goalmill_common::event::{Event, PlanEvent, PlanRevised, Record};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::random::Random;
use goalmill_common::revision::RevisionStrategy;
use goalmill_common::task::Task;
use goalmill_tests::installation::{Installation, http_client, settings};
use goalmill_tests::wait::{SOON, until};
use goalmill_worker::executor::{Executor, Outcome, Progress};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(60);

type Answer = fn(&Value) -> Result<Value, Failure>;

/// An agent of the story: one action, and an answer that follows from the inputs.
struct Agency {
    card: Agent,
    answer: Answer,
}

#[async_trait]
impl Executor for Agency {
    async fn execute(&self, task: &Task, _: &Progress, _: &CancellationToken) -> Result<Outcome, Failure> {
        (self.answer)(&task.inputs.value()).map(Outcome::of)
    }

    fn card(&self) -> Option<Agent> {
        Some(self.card.clone())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_agent_takes_over_from_an_unavailable_one() -> Result<()> {
    let told = tell(&[flight()]).await?;
    assert_eq!(told.status, "completed");
    assert_eq!(told.revisions(), [(RevisionStrategy::RetryWithAgent, 1.0, -0.1, 0.9)]);
    assert_eq!(told.results["flight"], json!({"price": 600}));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fully_booked_hotel_is_looked_for_in_neighbouring_districts() -> Result<()> {
    let told = tell(&[hotel(&[])]).await?;
    assert_eq!(told.status, "completed");
    assert_eq!(told.revisions(), [(RevisionStrategy::Workaround, 1.0, -0.15, 0.85)]);
    assert_eq!(told.results["hotel"]["best"]["area"], "11e");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trip_over_its_budget_takes_the_cheaper_offer() -> Result<()> {
    let mut found = hotel(&[]);
    found["inputs"] = json!({"nearby": true});
    let told = tell(&[found, check()]).await?;
    assert_eq!(told.status, "completed");
    assert_eq!(told.revisions(), [(RevisionStrategy::Adjust, 1.0, -0.08, 0.92)]);
    assert_eq!(told.results["check"], json!({"total": 500.0}));
    assert_eq!(told.results["hotel"]["total"], 900, "what was found first is kept as it was");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fourth_failure_ends_the_trip_and_keeps_what_was_done() -> Result<()> {
    let told = tell(&[flight(), hotel(&["flight"]), check(), mail()]).await?;
    assert_eq!(told.status, "failed");
    let expected = [
        (RevisionStrategy::RetryWithAgent, 1.0, -0.1, 0.9),
        (RevisionStrategy::Workaround, 0.9, -0.25, 0.65),
        (RevisionStrategy::Adjust, 0.65, -0.28, 0.37),
    ];
    assert_eq!(told.revisions(), expected);
    let failure = told.failure().expect("a failed plan says why");
    assert_eq!(failure.code, "MAX_REVISIONS_EXCEEDED");
    assert!(failure.message.starts_with("max_revisions_exceeded"), "{}", failure.message);
    for step in ["flight", "hotel", "check"] {
        assert!(told.results[step].is_object(), "the result of `{step}` is kept: {:#}", told.results);
    }
    assert_eq!(told.results["check"], json!({"total": 500.0}));
    Ok(())
}

fn flight() -> Value {
    json!({"id": "flight", "agent_type": "flights", "action": "book_flight", "on_failure": "replan"})
}

fn hotel(dependencies: &[&str]) -> Value {
    json!({"id": "hotel", "agent_type": "hotels", "action": "book_hotel", "on_failure": "replan",
           "dependencies": dependencies})
}

fn check() -> Value {
    json!({"id": "check", "agent_type": "budget", "action": "check", "on_failure": "replan",
           "dependencies": ["hotel"], "inputs": {"total": "{{ steps.hotel.outputs.total }}"}})
}

fn mail() -> Value {
    json!({"id": "mail", "agent_type": "mail", "action": "send", "on_failure": "replan", "dependencies": ["check"]})
}

fn agencies() -> [(Value, Answer); 5] {
    let card = |name: &str, action: &str, properties: Value| {
        json!({"agent_type": name,
               "actions": [{"name": action, "inputs": {"type": "object", "properties": properties}}]})
    };
    let nearby = json!({"nearby": {"type": "boolean", "description": "also look in neighbouring districts"}});
    [
        (card("flights", "book_flight", json!({})), |_| refuse("UNAVAILABLE", "flight agent unavailable")),
        (card("flights_backup", "book_flight", json!({})), |_| Ok(json!({"price": 600}))),
        (card("hotels", "book_hotel", nearby), book_hotel),
        (card("budget", "check", json!({})), check_budget),
        (card("mail", "send", json!({})), |_| refuse("UNAVAILABLE", "mail agent unavailable")),
    ]
}

fn refuse(code: &str, message: &str) -> Result<Value, Failure> {
    Err(Failure::new(FailureClass::Permanent, code, message))
}

fn book_hotel(inputs: &Value) -> Result<Value, Failure> {
    if inputs["nearby"] != Value::Bool(true) {
        return refuse("FULLY_BOOKED", "Hotel fully booked");
    }
    let offers = json!([{"area": "11e", "price": 900}, {"area": "12e", "price": 500}]);
    Ok(json!({"hotels": offers, "best": offers[0], "total": 900}))
}

fn check_budget(inputs: &Value) -> Result<Value, Failure> {
    match inputs["total"].as_f64() {
        Some(total) if total <= 600.0 => Ok(json!({"total": total})),
        Some(total) => {
            let over = total - 600.0;
            let message = format!("the total of {total:.2} USD is {over:.2} USD over the budget of 600.00 USD");
            Err(Failure::new(FailureClass::ConstraintViolation, "OVER_BUDGET", message))
        }
        None => refuse("NO_TOTAL", "`total` is missing"),
    }
}

/// How the story ended.
struct Told {
    status: String,
    results: Value,
    log: Vec<Record>,
}

impl Told {
    /// Strategy, confidence before, what it changed by, confidence after.
    fn revisions(&self) -> Vec<(RevisionStrategy, f64, f64, f64)> {
        let figures = |revised: &PlanRevised| {
            let strategy = revised.strategy.expect("planners name their strategy");
            (strategy, revised.confidence_before, revised.confidence_delta, revised.confidence_after)
        };
        let revised = self.log.iter().filter_map(|record| match &record.event {
            Event::Plan(PlanEvent::Revised(revised)) => Some(figures(revised)),
            _ => None,
        });
        revised.collect()
    }

    fn failure(&self) -> Option<Failure> {
        self.log.iter().find_map(|record| match &record.event {
            Event::Plan(PlanEvent::Failed(ended)) => ended.failure.clone(),
            _ => None,
        })
    }
}

/// Runs a plan of these steps to its end, with the agents of the story and the planners that need no model.
async fn tell(steps: &[Value]) -> Result<Told> {
    let broker = embedded::open(None, Clock::system())?;
    let http = http_client();
    let mut at = Installation { broker, schedulers: Vec::new(), workers: Vec::new(), settings: settings(), http };
    at.add_scheduler().await?;
    let mut executors: BTreeMap<_, Arc<dyn Executor>> = BTreeMap::new();
    for (card, answer) in agencies() {
        let card: Agent = serde_json::from_str(&card.to_string())?;
        executors.insert(card.agent_type.clone(), Arc::new(Agency { card, answer }));
    }
    let known: Vec<Value> = executors.keys().map(|name| json!({"id": name, "agent_type": name})).collect();
    let options = goalmill_worker::Options {
        settings: at.settings.worker.clone(),
        limits: at.settings.limits.clone(),
        broker: at.broker.clone(),
        clock: Clock::system(),
        random: Random::system(),
        executors,
    };
    at.workers.push(goalmill_worker::start(options).await?);
    let known = json!({"steps": known});
    until(SOON, async || {
        let answer = at.post("/v1/plans:validate", &known).await;
        answer.is_ok_and(|(status, answer)| {
            let text = answer.to_string();
            status == 200 && !text.contains("UNKNOWN_AGENT") && !text.contains("NO_LIVE_WORKER")
        })
    })
    .await;
    let id = at.submit(&json!({"name": "trip", "revision": {}, "steps": steps})).await?;
    let ended = at.await_end(&id, LIMIT).await?;
    let kept = at.get(&format!("/v1/plans/{id}/results")).await?;
    let status = ended["status"].as_str().unwrap_or_default().to_owned();
    let told = Told { status, results: kept["results"].clone(), log: at.log(&id).await? };
    at.stop().await;
    Ok(told)
}

//! Hooks that decide, in running schedulers: in the same process and by webhook, with time-outs and takeovers.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use async_trait::async_trait;
use goalmill_common::config::{HookDefault, HookSettings, Settings};
use goalmill_common::event::{Event, HookDecided, PlanEvent, StepEvent};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::PlanId;
use goalmill_common::revision::RevisionStrategy;
use goalmill_scheduler::{DecisionTerms, Extras, Hook, HookCall, HookError, Point, Ruling};
use goalmill_tests::installation::settings;
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

use crate::revisions::{Town, town_with};

const LIMIT: Duration = Duration::from_mins(1);

/// Answers its first calls by pending forever, and the others by a function.
struct Guard {
    point: Point,
    answer: fn(&HookCall) -> Ruling,
    limit: Duration,
    default: HookDefault,
    hangs: usize,
    heard: Mutex<Vec<String>>,
}

impl Guard {
    fn new(point: Point, answer: fn(&HookCall) -> Ruling) -> Self {
        let (limit, default) = (SOON, HookDefault::Refuse);
        Self { point, answer, limit, default, hangs: 0, heard: Mutex::default() }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().expect("nobody panics with it").clone()
    }
}

#[async_trait]
impl Hook for Guard {
    fn name(&self) -> &'static str {
        "guard"
    }

    fn wants(&self, point: Point) -> bool {
        point == self.point
    }

    fn decides(&self) -> Option<DecisionTerms> {
        Some(DecisionTerms { limit: self.limit, default: self.default })
    }

    async fn call(&self, call: &HookCall) -> Result<Ruling, HookError> {
        let calls = {
            let mut heard = self.heard.lock().expect("nobody panics with it");
            heard.push(call.id.clone());
            heard.len()
        };
        if calls <= self.hangs {
            std::future::pending::<()>().await;
        }
        Ok((self.answer)(call))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_in_the_process_decides_at_every_point() -> Result<()> {
    let at = |point, answer| town(Arc::new(Guard::new(point, answer)));

    let town = at(Point::OnPlanGenerated, |call| {
        let mut plan = call.body["data"]["plan"].clone();
        plan["steps"][0]["agent_type"] = json!("basic");
        Ruling::PlanChanged { plan: Box::new(plan), reason: "cheaper".into() }
    });
    let town = town.await?;
    let ended = run(&town, &json!({"steps": [step("a", "premium", json!({}))]})).await?;
    assert_eq!((ended["status"].as_str(), ended["planner"].as_str()), (Some("completed"), Some("submitted")));
    assert_eq!(ended["steps"][0]["agent_type"], "basic", "{ended:#}");
    let log = town.at.log(&id(&ended)).await?;
    let revised = log.iter().any(
        |record| matches!(&record.event, Event::Plan(PlanEvent::Revised(revised)) if revised.planner == "hook:guard"),
    );
    assert!(revised, "the change is the hook's revision");
    town.at.stop().await;

    let town = at(Point::OnPlanApproved, |_| Ruling::Approved("fine".into())).await?;
    let ended = run(&town, &json!({"approve": true, "steps": [step("a", "basic", json!({}))]})).await?;
    assert_eq!(ended["status"], "completed");
    town.at.stop().await;

    let town = at(Point::OnStepStart, |call| {
        let inputs = call.body["data"]["inputs"].clone();
        let inputs = json!({"found": [inputs["found"].clone(), 2]});
        Ruling::InputsChanged { inputs: inputs.into(), reason: String::new() }
    });
    let town = town.await?;
    let ended = run(&town, &json!({"steps": [step("a", "basic", json!({"found": 1}))]})).await?;
    assert_eq!(ended["results"]["a"]["found"], json!([1, 2]), "{ended:#}");
    town.at.stop().await;

    let town = at(Point::OnStepComplete, |_| {
        Ruling::OutputsFailed(Failure::new(FailureClass::Permanent, "TOO_VAGUE", "say more"))
    });
    let town = town.await?;
    let ended = run(&town, &json!({"steps": [step("a", "basic", json!({}))]})).await?;
    assert_eq!(code(&town, &ended).await?, "TOO_VAGUE");
    town.at.stop().await;

    let town = at(Point::OnRevisionNeeded, |_| Ruling::StrategyChosen {
        strategy: RevisionStrategy::Abort,
        hint: String::new(),
        reason: "no".into(),
    });
    let town = town.await?;
    let ended = run(&town, &failing()).await?;
    assert_eq!(ended["status"], "failed", "{ended:#}");
    let decided = decisions(&town, &ended).await?;
    assert_eq!(decided[0].strategy, Some(RevisionStrategy::Abort));
    town.at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_does_not_answer_counts_as_its_default() -> Result<()> {
    for default in [HookDefault::Allow, HookDefault::Refuse] {
        for point in [Point::OnPlanGenerated, Point::OnStepStart, Point::OnStepComplete] {
            let guard = Guard { limit: Duration::from_millis(50), default, hangs: usize::MAX, ..silent(point) };
            let town = town(Arc::new(guard)).await?;
            let ended = run(&town, &json!({"steps": [step("a", "basic", json!({}))]})).await?;
            let decided = decisions(&town, &ended).await?;
            assert!(decided[0].by_default && decided[0].hook == "guard" || default == HookDefault::Allow);
            match default {
                HookDefault::Allow => assert_eq!(ended["status"], "completed", "{point:?}: {ended:#}"),
                HookDefault::Refuse => assert_eq!(code(&town, &ended).await?, "HOOK_REFUSED", "{point:?}"),
            }
            town.at.stop().await;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_fit_the_point_counts_as_none() -> Result<()> {
    let guard = Guard::new(Point::OnStepStart, |_| Ruling::Approved("yes".into()));
    let town = town(Arc::new(guard)).await?;
    let ended = run(&town, &json!({"steps": [step("a", "basic", json!({}))]})).await?;
    assert_eq!(code(&town, &ended).await?, "HOOK_REFUSED");
    town.at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_ends_while_a_hook_thinks_is_followed_by_one_that_asks_again() -> Result<()> {
    let refuses: fn(&HookCall) -> Ruling = |_| Ruling::Vetoed("no".into());
    for (point, plan) in [
        (Point::OnPlanGenerated, json!({"steps": [step("a", "basic", json!({}))]})),
        (Point::OnPlanApproved, json!({"approve": true, "steps": [step("a", "basic", json!({}))]})),
        (Point::OnStepStart, json!({"steps": [step("a", "basic", json!({}))]})),
        (Point::OnStepComplete, json!({"steps": [step("a", "basic", json!({}))]})),
        (Point::OnRevisionNeeded, failing()),
    ] {
        let guard = Arc::new(Guard { limit: LIMIT, hangs: 1, ..Guard::new(point, refuses) });
        let mut town = town(guard.clone()).await?;
        let plan = town.at.submit(&plan).await?;
        until(SOON, async || guard.heard().len() == 1).await;
        town.replace_scheduler(Extras { hooks: vec![guard.clone()], ..Extras::default() }).await?;
        let ended = town.at.await_end(&plan, LIMIT).await?;
        assert!(["failed", "rejected"].contains(&ended["status"].as_str().unwrap_or_default()), "{point:?}: {ended:#}");
        let heard = guard.heard();
        assert_eq!((heard.len(), &heard[0]), (2, &heard[1]), "{point:?}: the question has the same id");
        town.at.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn planned_goals_are_asked_about_too() -> Result<()> {
    let guard = Arc::new(Guard::new(Point::OnPlanGenerated, |_| Ruling::Vetoed("not today".into())));
    let town = town(guard.clone()).await?;
    let plan = town.goal().await?;
    let ended = town.at.await_end(&plan, LIMIT).await?;
    assert_eq!(code(&town, &ended).await?, "HOOK_REFUSED");
    assert_eq!(guard.heard().len(), 1);
    town.at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_hook_of_the_examples_decides_at_every_point() -> Result<()> {
    let python = Python::start()?;
    let mut settings = settings();
    settings.hooks = vec![HookSettings {
        name: "python".into(),
        url: format!("http://127.0.0.1:{}/", python.port),
        on: BTreeSet::new(),
        secret_env: SECRET.into(),
        decide: true,
        limit_ms: 20_000,
        default: HookDefault::Refuse,
    }];
    let town = open(settings, Extras::default()).await?;
    let one = |agent: &str, inputs: Value| json!({"steps": [step("a", agent, inputs)]});

    let deletes = json!({"steps": [{"id": "a", "agent_type": "store", "action": "delete"}]});
    let deleted = run(&town, &deletes).await?;
    assert_eq!(code(&town, &deleted).await?, "HOOK_REFUSED");

    let changed = run(&town, &one("premium", json!({}))).await?;
    assert_eq!((&changed["status"], &changed["steps"][0]["agent_type"]), (&json!("completed"), &json!("basic")));

    let approved = json!({"approve": true, "steps": [step("a", "basic", json!({}))]});
    assert_eq!(run(&town, &approved).await?["status"], "completed");

    let refused = run(&town, &one("basic", json!({"password": "1234"}))).await?;
    assert_eq!(code(&town, &refused).await?, "HOOK_REFUSED");
    let bounded = run(&town, &one("basic", json!({"results": 50}))).await?;
    assert_eq!(bounded["results"]["a"]["results"], 10, "{bounded:#}");

    let soon = goalmill_common::clock::Clock::system().now_ms() + 700;
    let held = run(&town, &one("basic", json!({"not_before_ms": soon}))).await?;
    assert_eq!(held["status"], "completed");
    let holds = decisions(&town, &held).await?.iter().filter(|decided| decided.due_ms > 0).count();
    assert!(holds > 0, "the step was held");

    let empty = run(&town, &one("basic", json!({"found": []}))).await?;
    assert_eq!(code(&town, &empty).await?, "NOTHING_FOUND");

    let skipped = run(&town, &failing()).await?;
    let chosen = decisions(&town, &skipped).await?.iter().find_map(|decided| decided.strategy);
    assert_eq!(chosen, Some(RevisionStrategy::SkipAndContinue));
    assert_eq!(skipped["steps"][0]["status"], "skipped", "{skipped:#}");
    town.at.stop().await;
    Ok(())
}

/// The variable that holds the secret: any that every process has.
const SECRET: &str = "PATH";

/// The hook of the examples.
struct Python {
    process: Child,
    port: u16,
}

impl Python {
    fn start() -> Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/hook.py");
        let secret = std::process::Command::new("/usr/bin/printenv").arg(SECRET).output()?.stdout;
        let mut command = Command::new("/usr/bin/python3");
        command.arg(script).arg("0").env("GOALMILL_HOOK_SECRET", String::from_utf8(secret)?.trim());
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().context("it is piped")?).read_line(&mut line)?;
        Ok(Self { process, port: line.trim().parse()? })
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn silent(point: Point) -> Guard {
    Guard::new(point, |_| Ruling::Allowed)
}

async fn town(guard: Arc<Guard>) -> Result<Town> {
    open(settings(), Extras { hooks: vec![guard], ..Extras::default() }).await
}

/// An installation with the agents `basic` and `premium`, which return their inputs, and `broken`.
async fn open(settings: Settings, extras: Extras) -> Result<Town> {
    let mut town = town_with(settings, extras).await?;
    town.serve("basic", "echo", &json!({}), |inputs| Ok(inputs.clone()));
    town.serve("premium", "echo", &json!({}), |inputs| Ok(inputs.clone()));
    town.serve("broken", "echo", &json!({}), |_| Err(Failure::new(FailureClass::Permanent, "BROKEN", "it broke")));
    town.open().await?;
    Ok(town)
}

fn step(id: &str, agent: &str, inputs: Value) -> Value {
    json!({"id": id, "agent_type": agent, "action": "echo", "inputs": inputs})
}

/// A plan whose first step fails and asks for a revision; the second does without it.
fn failing() -> Value {
    json!({
        "revision": {"max": 2}, "continue_on_failure": true,
        "steps": [
            {"id": "a", "agent_type": "broken", "action": "echo", "on_failure": "replan", "retry": {"max": 0}},
            {"id": "b", "agent_type": "basic", "action": "echo"}
        ]
    })
}

async fn run(town: &Town, plan: &Value) -> Result<Value> {
    let plan = town.at.submit(plan).await?;
    town.at.await_end(&plan, LIMIT).await?;
    let mut ended = town.at.get(&format!("/v1/plans/{plan}")).await?;
    ended["results"] = town.at.get(&format!("/v1/plans/{plan}/results")).await?["results"].take();
    Ok(ended)
}

fn id(ended: &Value) -> PlanId {
    ended["plan_id"].as_str().expect("a plan has an id").into()
}

/// What the plan failed with.
async fn code(town: &Town, ended: &Value) -> Result<String> {
    let log = town.at.log(&id(ended)).await?;
    let of = |event: &Event| match event {
        Event::Plan(PlanEvent::Failed(end)) => end.failure.as_ref().map(|failure| failure.code.clone()),
        Event::Plan(_) | Event::Step { .. } => None,
    };
    Ok(log.iter().find_map(|record| of(&record.event)).unwrap_or_default())
}

async fn decisions(town: &Town, ended: &Value) -> Result<Vec<HookDecided>> {
    let log = town.at.log(&id(ended)).await?;
    let of = |event: &Event| match event {
        Event::Plan(PlanEvent::HookDecided(decided)) | Event::Step { event: StepEvent::HookDecided(decided), .. } => {
            Some(HookDecided::clone(decided))
        }
        Event::Plan(_) | Event::Step { .. } => None,
    };
    Ok(log.iter().filter_map(|record| of(&record.event)).collect())
}

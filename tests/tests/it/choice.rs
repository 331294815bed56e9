//! Planners and models that a goal names.

use std::time::Duration;

use anyhow::{Context, Result};
use goalmill_broker::embedded;
use goalmill_common::clock::Clock;
use goalmill_common::config::{Dialect, GuessApproval};
use goalmill_common::event::{Event, PlanEvent, StepEvent};
use goalmill_common::id::PlanId;
use goalmill_demo::scripted::{Script, Scripted};
use goalmill_tests::installation::{Installation, settings};
use goalmill_tests::model_server::ModelServer;
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);
/// With another town behind it, both a rule and a domain know what to do.
const TRIP: &str = "Plan a 3-day trip to Paris in May with a $20000 budget";

#[tokio::test(flavor = "multi_thread")]
async fn one_goal_is_planned_by_whom_it_names() -> Result<()> {
    let (first, second) = (server().await?, server().await?);
    let at = start(&[&first, &second]).await?;
    for (planning, planner) in [
        (json!({}), "rules"),
        (json!({"planner": "rules"}), "rules"),
        (json!({"planner": "htn"}), "htn"),
        (json!({"planner": "llm", "model": "m1"}), "llm"),
    ] {
        let ended = run(&at, &planning).await?;
        assert_eq!(
            (ended["planner"].as_str(), ended["status"].as_str()),
            (Some(planner), Some("completed")),
            "{ended:#}"
        );
    }
    assert_eq!((first.calls(), second.calls()), (0, 1), "the model that is named is asked first");

    // A planner that has no plan leaves the goal to the others, unless it is the only one.
    let words = "water the plants";
    let fallen = run_goal(&at, &json!({"description": words, "planning": {"planner": "htn"}})).await?;
    assert_eq!(fallen["planner"], "rules", "{fallen:#}");
    let only = json!({"planner": "htn", "planner_only": true});
    let failed = run_goal(&at, &json!({"description": words, "planning": only})).await?;
    assert_eq!(failed["failure"]["code"], "PLANNING_FAILED", "{failed:#}");
    at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_do_not_exist_are_refused_with_those_that_do() -> Result<()> {
    let server = server().await?;
    let at = start(&[&server]).await?;
    let refused = async |planning: Value| -> Result<Value> {
        let (status, problem) = at.post("/v1/goals", &json!({"description": TRIP, "planning": planning})).await?;
        anyhow::ensure!(status == 422, "{status}: {problem:#}");
        Ok(problem["errors"][0].clone())
    };
    let issue = refused(json!({"planner": "oracle"})).await?;
    assert_eq!(
        (issue["code"].as_str(), issue["pointer"].as_str()),
        (Some("UNKNOWN_PLANNER"), Some("/planning/planner"))
    );
    let hint = issue["hint"].as_str().unwrap_or_default();
    assert!(["`rules`", "`htn`", "`llm`", "`tools`"].iter().all(|name| hint.contains(name)), "{hint}");
    let issue = refused(json!({"model": "m9"})).await?;
    assert_eq!((issue["code"].as_str(), issue["hint"].as_str()), (Some("UNKNOWN_MODEL"), Some("there are: `m0`")));
    at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_is_planned_anew_by_another_planner_before_any_step_goes_out() -> Result<()> {
    let server = server().await?;
    let at = start(&[&server]).await?;
    let ended = run(&at, &json!({"planner": "rules"})).await?;
    let from = ended["plan_id"].as_str().context("a plan has an id")?.to_owned();
    let again = ended["steps"].as_array().and_then(|steps| steps.last()).context("it has steps")?["id"].clone();
    let path = format!("/v1/plans/{from}:fork");

    let (status, problem) = at.post(&path, &json!({"step": again, "planner": "oracle"})).await?;
    assert_eq!((status, problem["errors"][0]["pointer"].as_str()), (422, Some("/planner")), "{problem:#}");

    for planner in ["htn", "llm"] {
        let (status, answer) = at.post(&path, &json!({"step": again, "planner": planner})).await?;
        assert_eq!(status, 202, "{answer:#}");
        let id = PlanId::from(answer["plan_id"].as_str().unwrap_or_default());
        let forked = at.await_end(&id, LIMIT).await?;
        assert_eq!(forked["status"], "completed", "{forked:#}");
        let log = at.log(&id).await?;
        let place = |found: &dyn Fn(&Event) -> bool| log.iter().position(|record| found(&record.event));
        let revised =
            place(&|event| matches!(event, Event::Plan(PlanEvent::Revised(revised)) if revised.planner == planner));
        let queued = place(&|event| matches!(event, Event::Step { event: StepEvent::Queued(_), .. }));
        assert!(revised.is_some() && revised < queued, "`{planner}` plans first: {revised:?} < {queued:?}\n{forked:#}");
        assert_eq!(forked["forked_from"].as_str(), Some(from.as_str()));
    }
    at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_for_one_planner_only_fails_when_that_has_no_plan() -> Result<()> {
    let server = server().await?;
    let at = start(&[&server]).await?;
    let ended = run_goal(&at, &json!({"description": "water the plants"})).await?;
    assert_eq!(ended["status"], "completed", "{ended:#}");
    let again = ended["steps"].as_array().and_then(|steps| steps.last()).context("it has steps")?["id"].clone();
    let path = format!("/v1/plans/{}:fork", ended["plan_id"].as_str().unwrap_or_default());
    for (only, status) in [(false, "completed"), (true, "failed")] {
        let asked = json!({"step": again, "planner": "htn", "only": only});
        let (code, answer) = at.post(&path, &asked).await?;
        assert_eq!(code, 202, "{answer:#}");
        let forked = at.await_end(&PlanId::from(answer["plan_id"].as_str().unwrap_or_default()), LIMIT).await?;
        assert_eq!(forked["status"], status, "{forked:#}");
        if only {
            let message = forked["failure"]["message"].as_str().unwrap_or_default();
            assert_eq!(forked["failure"]["code"], "PLANNING_FAILED", "{forked:#}");
            assert!(message.contains("`htn`: "), "{message}");
        }
    }
    at.stop().await;
    Ok(())
}

/// A model that plans the trip with one step, and revises plans by one more.
async fn server() -> Result<ModelServer> {
    let step = |id: &str| json!({"id": id, "description": "say the plan", "agent_type": "echo", "inputs": {"n": 1}});
    let proposal = json!({"strategy": "replan_remaining", "summary": "say it",
                          "changes": [{"add_step": {"step": step("say_again")}}]});
    let revision = Scripted {
        when: vec!["replan_remaining".into()],
        json: Some(proposal),
        times: Some(100),
        ..Scripted::default()
    };
    let plan = Scripted { json: Some(json!({"steps": [step("say")]})), times: Some(100), ..Scripted::default() };
    ModelServer::start(Script::new([revision, plan])).await
}

/// Models `m0`, `m1`, …; only `rules` is in the settings' order.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_gives_no_plan_is_told_wherever_the_plan_is_shown() -> Result<()> {
    let refusal = Scripted { text: Some("I would rather not".into()), times: Some(100), ..Scripted::default() };
    let server = ModelServer::says([refusal]).await?;
    let at = start_in_order(&[&server], &["llm", "rules"]).await?;

    let told = |note: &Value| {
        let note = note.as_str().unwrap_or_default();
        note.starts_with("planner `llm` gave no plan: ") && note.ends_with("; the plan is from planner `rules`")
    };
    let (status, preview) = at.post("/v1/plans:preview", &json!({"description": TRIP})).await?;
    let warnings = preview["warnings"].as_array().context("there are warnings")?;
    assert_eq!((status, preview["planner"].as_str()), (200, Some("rules")));
    assert!(warnings.iter().any(|w| w["code"] == "PLANNER_FALLBACK" && told(&w["detail"])), "{warnings:#?}");
    let ended = run_goal(&at, &json!({"description": TRIP})).await?;
    assert!(told(&ended["planner_note"]), "{ended:#}");
    let id = ended["plan_id"].as_str().context("a plan has an id")?;
    let explained = at.get(&format!("/v1/plans/{id}/explain")).await?;
    assert!(told(&explained["planner_note"]), "{explained:#}");

    // Without any plan the problem has every question and answer.
    let only = json!({"description": TRIP, "planning": {"planner": "llm", "planner_only": true}});
    let (status, problem) = at.post("/v1/plans:preview", &only).await?;
    assert_eq!((status, problem["code"].as_str()), (422, Some("PLANNING_FAILED")));
    let tried = &problem["planning_trace"]["tried"][0];
    assert_eq!(
        (tried["planner"].as_str(), tried["rounds"][0]["raw"].as_str()),
        (Some("llm"), Some("I would rather not"))
    );
    assert!(tried["rounds"][0]["prompt"].to_string().contains("trip to Paris"), "{tried:#}");
    at.stop().await;
    Ok(())
}

async fn start(servers: &[&ModelServer]) -> Result<Installation> {
    start_in_order(servers, &["rules"]).await
}

/// - `order`: of the planners.
async fn start_in_order(servers: &[&ModelServer], order: &[&str]) -> Result<Installation> {
    let mut settings = settings();
    let model = |(n, server): (usize, &&ModelServer)| server.settings(&format!("m{n}"), Dialect::Openai);
    settings.models = servers.iter().enumerate().map(model).collect();
    settings.planner.order = order.iter().copied().map(Into::into).collect();
    settings.planner.approve_guesses = GuessApproval::Never;
    let at = Installation::start(embedded::open(None, Clock::system())?, settings).await?;
    until(SOON, async || at.get("/v1/agents").await.is_ok_and(|agents| agents.to_string().contains("\"echo\""))).await;
    Ok(at)
}

async fn run(at: &Installation, planning: &Value) -> Result<Value> {
    let constraints = json!({"further_destinations": ["Lyon"]});
    run_goal(at, &json!({"description": TRIP, "constraints": constraints, "planning": planning})).await
}

async fn run_goal(at: &Installation, goal: &Value) -> Result<Value> {
    at.await_end(&at.accept("/v1/goals", goal).await?, LIMIT).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_model_read_of_a_goal_is_shown_corrected_and_holds() -> Result<()> {
    let fields = json!({
        "constraints": [{"name": "max_spend", "value": "20 USD"}, {"name": "hotel", "value": "quiet"}],
        "success_criteria": [], "deadline": "by 3 May 2099", "inputs": [],
    });
    let reader = Scripted {
        when: vec!["`success_criteria`".into()],
        json: Some(fields),
        times: Some(100),
        ..Scripted::default()
    };
    let step = json!({"id": "say", "description": "say the plan", "agent_type": "echo", "inputs": {"n": 1}});
    let plan = Scripted { json: Some(json!({"steps": [step]})), times: Some(100), ..Scripted::default() };
    let server = ModelServer::start(Script::new([reader, plan])).await?;
    let at = start_in_order(&[&server], &["llm"]).await?;
    let goal = json!({"description": "Say hello for at most $20 by 3 May 2099", "planning": {"read_goal": "approve"}});

    let (status, preview) = at.post("/v1/plans:preview", &goal).await?;
    assert_eq!((status, preview["goal"]["constraints"].clone()), (200, json!({"max_spend": "20 USD"})), "{preview:#}");
    let dropped = preview["warnings"].as_array().into_iter().flatten().find(|w| w["code"] == "GOAL_FIELD_DROPPED");
    assert_eq!(dropped.context("it is told")?["pointer"], "/constraints/hotel");

    let (status, answer) = at.post("/v1/goals", &goal).await?;
    assert_eq!(status, 202, "{answer:#}");
    let id = answer["plan_id"].as_str().context("a plan has an id")?.to_owned();
    let path = format!("/v1/plans/{id}");
    until(SOON, async || at.get(&path).await.is_ok_and(|plan| plan["status"] == "awaiting_approval")).await;
    let view = at.get(&path).await?;
    assert_eq!(view["goal_read"], json!(["/constraints/max_spend", "/deadline"]), "{view:#}");
    let explained = at.get(&format!("{path}/explain")).await?;
    assert_eq!(explained["goal_read"][0], "max_spend: 20 USD", "{explained:#}");

    let (status, refused) = at.post(&format!("{path}:edit"), &json!({"goal": {"deadline": "soon"}})).await?;
    assert_eq!((status, refused["errors"][0]["pointer"].as_str()), (400, Some("/goal/deadline")), "{refused:#}");
    let correction = json!({"goal": {"constraints": {"max_spend": "5 USD"}, "deadline": null}, "reason": "less"});
    let (status, edited) = at.post(&format!("{path}:edit"), &correction).await?;
    assert_eq!(status, 200, "{edited:#}");
    let (status, approved) = at.post(&format!("{path}:approve"), &json!({})).await?;
    assert_eq!(status, 200, "{approved:#}");
    let ended = at.await_end(&PlanId::from(id.as_str()), LIMIT).await?;
    assert_eq!((ended["status"].as_str(), ended["goal_read"].clone()), (Some("completed"), Value::Null), "{ended:#}");
    assert_eq!(ended["constraints"][0]["limit"], 5.0, "{ended:#}");
    let log = at.log(&PlanId::from(id.as_str())).await?;
    let changes = log.iter().filter(|record| matches!(record.event, Event::Plan(PlanEvent::GoalChanged(_))));
    assert_eq!(changes.count(), 2);
    at.stop().await;
    Ok(())
}

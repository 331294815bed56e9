//! Plans under names with versions: the API over both back ends, and the command line over a restart.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use goalmill_broker::embedded;
use goalmill_common::clock::Clock;
use goalmill_common::config::Dialect;
use goalmill_common::event::{Event, PlanEvent};
use goalmill_common::keys::Keys;
use goalmill_demo::scripted::Scripted;
use goalmill_tests::dev::Dev;
use goalmill_tests::installation::{Installation, settings, step};
use goalmill_tests::model_server::ModelServer;
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

const TRIPS: &str = "/v1/stored-plans/trip";

/// A plan that says where it goes.
fn trip(word: &str) -> Value {
    let properties = json!({"city": {"type": "string"}, "days": {"type": "integer", "default": 3}});
    let schema = json!({"type": "object", "properties": properties, "required": ["city"]});
    let text = format!("{word} {{{{ inputs.city }}}} {{{{ inputs.days }}}}");
    json!({"description": "A trip", "input_schema": schema, "steps": [step("go", "echo", &[], json!({"to": text}))]})
}

async fn put(it: &Installation, name: &str, plan: &Value) -> Result<(u16, Value)> {
    it.post(&format!("/v1/stored-plans/{name}/versions"), plan).await
}

async fn run(it: &Installation, plan: &str, inputs: Value) -> Result<Value> {
    let (status, answer) = it.post(&format!("/v1/stored-plans/{plan}:run"), &json!({ "inputs": inputs })).await?;
    assert_eq!(status, 202, "{answer:#}");
    let id = answer["plan_id"].as_str().context("it is accepted")?.into();
    it.await_end(&id, SOON).await
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_counted_used_and_retired_in_redis() -> Result<()> {
    let server = RedisServer::start().await?;
    versions_are_counted_used_and_retired(Installation::over(&server).await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_counted_used_and_retired_in_the_embedded_mode() -> Result<()> {
    versions_are_counted_used_and_retired(Installation::embedded().await?).await
}

async fn versions_are_counted_used_and_retired(it: Installation) -> Result<()> {
    let (one, two) = (trip("to"), trip("back to"));
    for (plan, status, version) in [(&one, 201, 1), (&one, 200, 1), (&two, 201, 2), (&two, 200, 2), (&one, 201, 3)] {
        let (got, view) = put(&it, "trip", plan).await?;
        assert_eq!((got, &view["version"]), (status, &json!(version)), "{view:#}");
        assert_eq!((&view["actor"], &view["description"]), (&json!("api"), &json!("A trip")));
    }
    let ended = run(&it, "trip@2", json!({"city": "Oslo"})).await?;
    assert_eq!(ended["steps"][0]["outputs"], json!({"to": "back to Oslo 3"}), "{ended:#}");
    assert_eq!(ended["goal"]["metadata"]["stored_plan"], "trip@2");
    let ended = run(&it, "trip", json!({"city": "Rome", "days": 5})).await?;
    assert_eq!(ended["steps"][0]["outputs"], json!({"to": "to Rome 5"}), "{ended:#}");
    assert_eq!(ended["goal"]["metadata"]["stored_plan"], "trip@3");

    let (status, refused) = it.post(&format!("{TRIPS}:run"), &json!({"inputs": {"city": 7}})).await?;
    let error = &refused["errors"][0];
    assert_eq!((status, &error["code"], &error["pointer"]), (422, &json!("INPUT_INVALID"), &json!("/inputs/city")));

    let retire = async |version: u32| it.post(&format!("{TRIPS}@{version}:retire"), &json!({"actor": "ann"})).await;
    let (status, view) = retire(3).await?;
    assert_eq!((status, &view["retired"]["actor"]), (200, &json!("ann")), "{view:#}");
    assert_eq!(retire(3).await?.1["retired"]["at"], view["retired"]["at"], "the first time counts");
    let ended = run(&it, "trip", json!({"city": "Oslo"})).await?;
    assert_eq!(ended["goal"]["metadata"]["stored_plan"], "trip@2", "the newest that is not retired");
    let (status, refused) = it.post(&format!("{TRIPS}@3:run"), &json!({"inputs": {"city": "Oslo"}})).await?;
    assert_eq!((status, &refused["code"]), (409, &json!("STORED_PLAN_RETIRED")), "{refused:#}");
    assert_eq!(put(&it, "trip", &one).await?.1["version"], 4, "a retired version is not brought back");

    let versions = it.get(&format!("{TRIPS}/versions")).await?;
    let items = versions["items"].as_array().context("they are listed")?;
    let seen: Vec<(u64, bool)> =
        items.iter().map(|view| (view["version"].as_u64().unwrap_or(0), view.get("retired").is_some())).collect();
    assert_eq!(seen, [(4, false), (3, true), (2, false), (1, false)]);
    assert_eq!(it.get(&format!("{TRIPS}@2")).await?["document"], two);
    let listed = it.get("/v1/stored-plans").await?;
    assert_eq!((&listed["items"][0]["version"], listed["items"].as_array().map(Vec::len)), (&json!(4), Some(1)));
    for (path, status) in
        [(format!("{TRIPS}@9"), 404), ("/v1/stored-plans/other".into(), 404), (format!("{TRIPS}@0"), 400)]
    {
        assert_eq!(it.http.get(it.url(&path)).send().await?.status().as_u16(), status, "{path}");
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn puts_at_once_give_each_a_version() -> Result<()> {
    let server = RedisServer::start().await?;
    let it = Installation::over(&server).await?;
    let plans: Vec<Value> = (0..8).map(|n| trip(&format!("{n}"))).collect();
    let (a, b, c, d) = tokio::join!(
        put(&it, "t", &plans[0]),
        put(&it, "t", &plans[1]),
        put(&it, "t", &plans[2]),
        put(&it, "t", &plans[3])
    );
    let answers = [a?, b?, c?, d?];
    assert!(answers.iter().all(|(status, _)| *status == 201), "{answers:?}");
    let versions: BTreeSet<u64> = answers.iter().filter_map(|(_, view)| view["version"].as_u64()).collect();
    assert_eq!(versions, BTreeSet::from([1, 2, 3, 4]));
    for (n, (_, view)) in answers.iter().enumerate() {
        let stored = it.get(&format!("/v1/stored-plans/t@{}", view["version"])).await?;
        assert_eq!(stored["document"], plans[n], "each got the number of its own document");
    }
    // A list of names that lags behind does not hide a version.
    let names = Keys::default().stored_plans(&"default".into());
    let mut old = answers[0].1.clone();
    old["version"] = json!(1);
    it.broker.put_field(&names, "t", &old.to_string()).await?;
    assert_eq!(it.get("/v1/stored-plans").await?["items"][0]["version"], 4);
    assert_eq!(put(&it, "t", &plans[5]).await?.1["version"], 5);
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_uses_a_version_that_its_plan_keeps() -> Result<()> {
    let it = Installation::embedded().await?;
    put(&it, "trip", &trip("to")).await?;
    let both = |city: Value| {
        let steps = [
            step("find", "echo", &[], json!({"city": "Bern"})),
            json!({"id": "go", "use": "trip", "inputs": {"city": city}, "dependencies": ["find"]}),
        ];
        json!({ "steps": steps })
    };
    let plan = it.submit(&both(json!("{{ steps.find.outputs.city }}"))).await?;
    put(&it, "trip", &trip("back to")).await?;
    let ended = it.await_end(&plan, SOON).await?;
    assert_eq!(ended["steps"][1]["outputs"], json!({"go": {"to": "to Bern 3"}}), "{ended:#}");
    let created = it.log(&plan).await?.into_iter().find_map(|record| match record.event {
        Event::Plan(PlanEvent::PlanCreated(created)) => Some(created.plan),
        Event::Plan(_) | Event::Step { .. } => None,
    });
    let created = created.context("the plan is in the log")?;
    assert_eq!(created.steps[1].stored.as_deref(), Some("trip@1"), "the log has the version");
    // What is exported may be submitted again, as it is.
    let exported = it.get(&format!("/v1/plans/{plan}/graph")).await?;
    assert_eq!(exported["steps"][1]["use"], "trip@1");
    let again = it.submit(&exported).await?;
    assert_eq!(it.await_end(&again, SOON).await?["steps"][1]["outputs"], json!({"go": {"to": "to Bern 3"}}));

    // Inputs are checked before the plan runs, and again when they are known.
    let (status, refused) = it.post("/v1/plans", &both(json!(7))).await?;
    let error = &refused["errors"][0];
    assert_eq!((status, &error["pointer"]), (422, &json!("/steps/1/inputs/city")), "{refused:#}");
    let late = it.submit(&both(json!("{{ steps.find.outputs }}"))).await?;
    let ended = it.await_end(&late, SOON).await?;
    assert_eq!((&ended["status"], &ended["steps"][1]["failure"]["code"]), (&json!("failed"), &json!("INPUT_INVALID")));
    for (plan, code) in [("trip@9", "STORED_PLAN_NOT_FOUND"), ("a b", "INVALID_VALUE")] {
        let (status, refused) = it.post("/v1/plans", &json!({"steps": [{"id": "go", "use": plan}]})).await?;
        let error = &refused["errors"][0];
        assert_eq!((status, &error["code"], &error["pointer"]), (422, &json!(code), &json!("/steps/0/use")));
    }
    // A stored plan may use others, and itself only as deep as plans may be nested.
    let nested = json!({"steps": [{"id": "inner", "use": "trip@1", "inputs": {"city": "Oslo"}}]});
    assert_eq!(put(&it, "tour", &nested).await?.0, 201);
    let ended = run(&it, "tour", json!({})).await?;
    assert_eq!(ended["steps"][0]["outputs"], json!({"go": {"to": "to Oslo 3"}}), "{ended:#}");
    let (status, refused) = put(&it, "tour", &json!({"steps": [{"id": "inner", "use": "tour"}]})).await?;
    assert_eq!(status, 201, "it uses the version before: {refused:#}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn names_versions_and_bytes_are_limited() -> Result<()> {
    let mut limited = settings();
    (limited.stored_plans.names_max, limited.stored_plans.versions_max, limited.stored_plans.bytes_max) = (1, 2, 1_000);
    let it = Installation::start(embedded::open(None, Clock::system())?, limited).await?;
    for (n, (name, status)) in [("a", 201), ("b", 429), ("a", 201), ("a", 429)].into_iter().enumerate() {
        let (got, answer) = put(&it, name, &trip(&n.to_string())).await?;
        assert_eq!(got, status, "{answer:#}");
    }
    let (status, refused) = put(&it, "a", &trip(&"x".repeat(1_000))).await?;
    assert_eq!((status, &refused["code"]), (413, &json!("BODY_TOO_LARGE")), "{refused:#}");
    let (status, refused) = put(&it, "a", &json!({"steps": [{"id": "a", "colour": 1}]})).await?;
    assert_eq!((status, &refused["errors"][0]["pointer"]), (422, &json!("/steps/0/colour")), "{refused:#}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_puts_runs_compares_and_retires() -> Result<()> {
    let data = tempfile::tempdir()?;
    let arguments = ["--demo-agents", "--data-dir", data.path().to_str().context("the path is text")?];
    let mut dev = Dev::start(&arguments, "").await?;
    let file = dev.file("trip.yaml");
    let path = file.to_str().context("the path is text")?.to_owned();
    std::fs::write(&file, trip("to").to_string())?;
    let said = dev.says(&["plan", "put", &path], 0)?;
    assert!(said.contains("goalmill run trip@1 --input city=…"), "{said}");
    std::fs::write(&file, trip("back to").to_string())?;
    assert_eq!(dev.says(&["plan", "put", &path, "-o", "name"], 0)?.trim(), "trip@2");
    dev.restart(&arguments).await?;
    let results = dev.says(&["run", "trip@1", "--input", "city=Paris", "--wait", "-o", "json"], 0)?;
    assert!(results.contains("to Paris 3"), "{results}");
    let results = dev.says(&["run", "trip", "--input", "city=Rome", "--input", "days=9", "--wait", "-o", "json"], 0)?;
    assert!(results.contains("back to Rome 9"), "{results}");
    let refused = dev.run(&["run", "trip", "--input", "days=9"])?;
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(8) && text.contains("/inputs"), "{text}");
    let difference = dev.says(&["plan", "diff", "trip@1", "trip@2"], 0)?;
    assert!(difference.contains("~ go") && difference.contains("back to"), "{difference}");
    dev.says(&["plan", "retire", "trip@2", "--reason", "too far"], 0)?;
    dev.says(&["run", "trip@2", "--input", "city=Rome"], 1)?;
    let listed = dev.says(&["plan", "list", "--stored", "trip", "-o", "json"], 0)?;
    assert!(listed.contains("too far"), "{listed}");
    assert!(dev.says(&["plan", "list", "--stored"], 0)?.contains("trip@2"));
    let document = dev.says(&["plan", "get", "--stored", "trip"], 0)?;
    assert!(document.contains("to {{ inputs.city }}") && !document.contains("back"), "{document}");
    std::fs::write(&file, document)?;
    assert_eq!(dev.says(&["run", &path, "--input", "city=Bern", "--wait", "-o", "name"], 0)?.lines().count(), 1);
    dev.says(&["plan", "get", "--stored", "no such plan"], 2)?;
    dev.says(&["plan", "get", "--stored", "other"], 5)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_plans_with_the_stored_plans_of_the_namespace() -> Result<()> {
    let uses = |plan: &str| {
        let step = json!({"id": "s1", "description": "Make the trip", "use": plan, "inputs": {"city": "Rome"}, "dependencies": []});
        Scripted { json: Some(json!({"steps": [step]})), ..Scripted::default() }
    };
    let server = ModelServer::says([uses("gone@1"), uses("tour"), uses("trip@1")]).await?;
    let mut settings = settings();
    settings.models = vec![server.settings("m0", Dialect::Openai)];
    settings.planner.order = vec!["llm".into()];
    let it = Installation::start(embedded::open(None, Clock::system())?, settings).await?;
    until(SOON, async || it.get("/v1/agents").await.is_ok_and(|agents| agents.to_string().contains("\"echo\""))).await;
    let part = json!({"steps": [step("say", "echo", &[], json!({"said": "part"}))]});
    assert_eq!(put(&it, "part", &part).await?.0, 201);
    for name in ["trip", "gone"] {
        assert_eq!(put(&it, name, &trip("to")).await?.0, 201);
    }
    let tour = json!({"description": "A tour", "steps": [{"id": "all", "use": "part"}]});
    assert_eq!(put(&it, "tour", &tour).await?.0, 201);
    for name in ["gone", "part"] {
        let (status, retired) = it.post(&format!("/v1/stored-plans/{name}@1:retire"), &json!({"actor": "ann"})).await?;
        assert_eq!(status, 200, "{retired:#}");
    }
    // `gone@1` and what `tour` uses were retired.
    let ended =
        it.await_end(&it.accept("/v1/goals", &json!({"description": "Go to Rome by gone@1"})).await?, SOON).await?;
    assert_eq!(ended["steps"][0]["outputs"], json!({"go": {"to": "to Rome 3"}}), "{ended:#}");
    let log = it.log(&ended["plan_id"].as_str().context("it has an id")?.into()).await?;
    let used = log.iter().find_map(|record| {
        if let Event::Plan(PlanEvent::PlanCreated(created)) = &record.event {
            created.plan.steps[0].stored.clone()
        } else {
            None
        }
    });
    assert_eq!(used.as_deref(), Some("trip@1"));
    let bodies: Vec<String> = server.seen().iter().map(|seen| seen.body.to_string()).collect();
    assert!(bodies[0].contains("- `trip@1`: A trip") && !bodies[0].contains("`tour@1`"), "{}", bodies[0]);
    assert!(bodies[1].contains("`gone@1` was retired by `ann`"), "{}", bodies[1]);
    assert!(bodies[2].contains("`part@1` was retired by `ann`"), "{}", bodies[2]);
    it.stop().await;
    Ok(())
}

//! The HTTP interface: shapes, codes, headers, and what each address does.

use std::time::Duration;

use anyhow::Result;
use goalmill_common::keys::Keys;
use goalmill_tests::installation::{Installation, settings, step};
use goalmill_tests::redis_server::{Options, RedisServer};
use goalmill_tests::wait::{SOON, until, until_some};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);
/// Fills a Redis of 64 MB to about 92 %: well above the 80 % from which on nothing new is taken.
const JUNK_MB: usize = 57;

fn one_step(agent_type: &str) -> Value {
    json!({"name": "one", "steps": [step("a", agent_type, &[], json!({"x": 1}))]})
}

/// A plan whose only step nobody serves, so that it stays as it is.
fn waiting() -> Value {
    one_step("nobody")
}

/// Sends, and sees that a refusal is a problem with that status and code.
async fn refused(request: reqwest::RequestBuilder, status: u16, code: &str) -> Result<Value> {
    let answer = request.send().await?;
    let (was, headers) = (answer.status().as_u16(), answer.headers().clone());
    let text = answer.text().await?;
    let problem: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("`{text}` is no problem"));
    assert_eq!((was, problem["code"].as_str()), (status, Some(code)), "{problem:#}");
    assert_eq!(headers["content-type"], "application/problem+json");
    assert_eq!(problem["status"], status);
    assert!(problem["type"].as_str().is_some_and(|t| t.ends_with(code)), "{problem:#}");
    assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{problem:#}");
    Ok(problem)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_is_accepted_with_its_address() -> Result<()> {
    let it = Installation::embedded().await?;
    let answer = it.http.post(it.url("/v1/plans")).json(&one_step("echo")).send().await?;
    assert_eq!(answer.status(), StatusCode::ACCEPTED);
    let location = answer.headers()["location"].to_str()?.to_owned();
    let body: Value = answer.json().await?;
    assert_eq!(location, format!("/v1/plans/{}", body["plan_id"].as_str().expect("it has an id")));
    let id = body["plan_id"].as_str().expect("it has an id").into();
    assert_eq!(it.await_end(&id, LIMIT).await?["status"], "completed");

    let (status, goal) = it.post("/v1/goals", &json!({"description": "Plan a 3-day trip to Paris"})).await?;
    assert_eq!((status, &goal["status"]), (202, &json!("planning")));
    it.stop().await;
    Ok(())
}

async fn keys_belong_to_one_body(it: Installation) -> Result<()> {
    let submit = |path: &str, key: &str, body: String| {
        let request = it.http.post(it.url(path)).header("Idempotency-Key", key);
        request.header("Content-Type", "application/json").body(body)
    };
    let plan = one_step("echo").to_string();
    let first: Value = submit("/v1/plans", "order-7", plan.clone()).send().await?.json().await?;
    let id = first["plan_id"].as_str().expect("it is accepted").into();
    let again = submit("/v1/plans", "order-7", plan.clone()).send().await?;
    assert_eq!(again.status(), StatusCode::ACCEPTED);
    assert_eq!(again.json::<Value>().await?["plan_id"], first["plan_id"]);
    it.await_end(&id, LIMIT).await?;
    // Also once it has ended, and with the quotes that the header's draft standard wants.
    let again: Value = submit("/v1/plans", "\"order-7\"", plan.clone()).send().await?.json().await?;
    assert_eq!(again, json!({"plan_id": first["plan_id"], "status": "completed"}));

    let other = waiting().to_string();
    refused(submit("/v1/plans", "order-7", other), 409, "IDEMPOTENCY_KEY_REUSED").await?;
    let goal = json!({"description": "x"}).to_string();
    refused(submit("/v1/goals", "order-7", goal), 409, "IDEMPOTENCY_KEY_REUSED").await?;
    for key in ["", "-a", "a b", &"k".repeat(300)] {
        refused(submit("/v1/plans", key, plan.clone()), 400, "INVALID_IDEMPOTENCY_KEY").await?;
    }
    assert_eq!(it.get("/v1/plans").await?["items"].as_array().map(Vec::len), Some(1));
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotency_key_belongs_to_one_body() -> Result<()> {
    keys_belong_to_one_body(Installation::embedded().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotency_key_belongs_to_one_body_over_redis() -> Result<()> {
    let server = RedisServer::start().await?;
    keys_belong_to_one_body(Installation::over(&server).await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_under_one_key_make_one_plan() -> Result<()> {
    let it = Installation::embedded().await?;
    let body = one_step("echo");
    let submits = (0..32).map(|_| it.http.post(it.url("/v1/plans")).header("Idempotency-Key", "k1").json(&body).send());
    for answer in futures_util::future::join_all(submits).await {
        assert_eq!(answer?.status(), StatusCode::ACCEPTED);
    }
    assert_eq!(it.get("/v1/plans").await?["items"].as_array().map(Vec::len), Some(1));
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_served_with_every_file_that_it_names() -> Result<()> {
    let it = Installation::embedded().await?;
    let page = it.http.get(it.url("/")).send().await?;
    assert_eq!(page.status().as_u16(), 200);
    assert!(page.headers().contains_key("content-security-policy"));
    let text = page.text().await?;
    let named: Vec<&str> = text.split('"').filter(|text| text.contains("page/")).collect();
    assert!(!named.is_empty(), "{text}");
    for file in named {
        let answer = it.http.get(it.url(&format!("/{}", file.trim_start_matches('/')))).send().await?;
        assert_eq!(answer.status().as_u16(), 200, "{file}");
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_is_a_problem_with_a_stable_code() -> Result<()> {
    let it = Installation::embedded().await?;
    let request = |method: &str, path: &str| {
        it.http.request(Method::from_bytes(method.as_bytes()).expect("it is a method"), it.url(path))
    };
    let absent = "/v1/plans/p0-0000000000000000";
    for (method, path, status, code) in [
        ("GET", "/page/none.js", 404, "NOT_FOUND"),
        ("GET", "/v2/plans", 404, "NOT_FOUND"),
        ("GET", "/v1//plans", 404, "NOT_FOUND"),
        ("GET", "/v1/plans/..%2f..%2fetc%2fpasswd", 404, "PLAN_NOT_FOUND"),
        ("GET", "/v1/plans/%00", 404, "PLAN_NOT_FOUND"),
        ("GET", "/v1/plans/%ff", 400, "INVALID_REQUEST"),
        ("GET", "/v1/plans/p9999-0000000000000000", 404, "PLAN_NOT_FOUND"),
        ("GET", absent, 404, "PLAN_NOT_FOUND"),
        ("GET", "/v1/plans/p0-0000000000000000/..;/events", 404, "NOT_FOUND"),
        ("GET", "/v1/plans?limit=many", 400, "INVALID_REQUEST"),
        ("GET", "/v1/plans?cursor=17", 400, "INVALID_REQUEST"),
        ("GET", "/v1/plans?status=happy", 400, "INVALID_REQUEST"),
        ("GET", "/v1/plans?limit=0", 400, "INVALID_REQUEST"),
        ("GET", "/v1/plans?limit=501", 400, "INVALID_REQUEST"),
        ("GET", "/v1/logs?types=nope", 400, "INVALID_REQUEST"),
        ("GET", "/v1/logs?since_ms=-1", 400, "INVALID_REQUEST"),
        ("GET", "/v1/events?limit=0", 400, "INVALID_REQUEST"),
        ("GET", "/v1/plans/p0-0000000000000000/graph?revision=x", 400, "INVALID_REQUEST"),
        ("GET", "/v1/plans/p0-0000000000000000/events?after=-1", 400, "INVALID_REQUEST"),
        ("DELETE", "/v1/plans", 405, "METHOD_NOT_ALLOWED"),
        ("POST", "/v1/workers", 405, "METHOD_NOT_ALLOWED"),
        ("BREW", "/v1/plans", 405, "METHOD_NOT_ALLOWED"),
        ("OPTIONS", "/v1/plans", 405, "METHOD_NOT_ALLOWED"),
        ("POST", "/v1/plans/p0-0000000000000000:cancel", 404, "PLAN_NOT_FOUND"),
        ("POST", "/v1/plans/p0-0000000000000000:explode", 404, "NOT_FOUND"),
        ("POST", "/v1/plans/p0-0000000000000000/steps/a:retry", 404, "PLAN_NOT_FOUND"),
        ("GET", "/v1/schemas/cat", 404, "NOT_FOUND"),
        ("GET", "/v1/dead-letters/a%0Ab", 404, "NOT_FOUND"),
        ("GET", "/v1/scaling/a%20b", 404, "NOT_FOUND"),
    ] {
        refused(request(method, path), status, code).await.map_err(|e| e.context(format!("{method} {path}")))?;
    }
    for part in ["graph", "results", "explain", "events", "steps/a"] {
        refused(request("GET", &format!("{absent}/{part}")), 404, "PLAN_NOT_FOUND").await?;
    }
    let plan = || request("POST", "/v1/plans").body(one_step("echo").to_string());
    refused(plan().header("Content-Type", "text/plain"), 415, "UNSUPPORTED_MEDIA_TYPE").await?;
    refused(plan().header("Content-Encoding", "gzip"), 415, "UNSUPPORTED_MEDIA_TYPE").await?;
    refused(request("POST", "/v1/plans").body(" ".repeat((8 << 20) + 1)), 413, "BODY_TOO_LARGE").await?;
    refused(request("POST", "/v1/plans").body(""), 400, "INVALID_JSON").await?;
    refused(request("POST", "/v1/agents").body("[1]"), 400, "INVALID_REQUEST").await?;
    refused(request("POST", "/v1/agents").body(r#"{"agent_type":"auto"}"#), 400, "INVALID_REQUEST").await?;
    for (card, code, pointer) in [
        (json!({"agent_type": "x", "cots": 1}), "UNKNOWN_FIELD", "/cots"),
        (json!({"agent_type": "x", "success_rate": 7}), "OUT_OF_RANGE", "/success_rate"),
        (json!({"agent_type": "x", "cost": -1}), "OUT_OF_RANGE", "/cost"),
        (json!({"agent_type": "x", "actions": [{"name": "a", "input": {}}]}), "UNKNOWN_FIELD", "/actions/0/input"),
    ] {
        let problem = refused(request("POST", "/v1/agents").json(&card), 400, "INVALID_REQUEST").await?;
        let issue = &problem["errors"][0];
        assert_eq!((&issue["code"], &issue["pointer"]), (&json!(code), &json!(pointer)), "{problem:#}");
        assert!(issue["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{problem:#}");
    }
    for (path, body) in [
        ("/v1/plans/p0-0000000000000000:cancel", json!({"resaon": "enough"})),
        ("/v1/plans/p0-0000000000000000:approve", json!({"chnages": []})),
        ("/v1/plans/p0-0000000000000000/steps/a:complete", json!({"output": 1})),
        ("/v1/plans/p0-0000000000000000/questions/q:answer", json!({"anser": 1})),
        ("/v1/agents:route", json!({"text": "x", "txt": "y"})),
    ] {
        let problem = refused(request("POST", path).json(&body), 400, "INVALID_REQUEST").await?;
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(detail.contains("unknown field") && detail.contains("expected"), "{path}: {problem:#}");
    }
    let doubling = r##"{"agent_type":"x","actions":[{"name":"a","inputs":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}}]}"##;
    refused(request("POST", "/v1/agents").body(doubling), 400, "INVALID_REQUEST").await?;
    refused(request("POST", "/v1/agents").body(" ".repeat(70_000)), 413, "BODY_TOO_LARGE").await?;

    let long = refused(request("GET", &format!("/v1/plans/{}", "x".repeat(5_000))), 404, "PLAN_NOT_FOUND").await?;
    assert!(long["detail"].as_str().expect("it is text").len() < 200, "a refusal does not repeat all of the input");

    let allow = request("DELETE", "/v1/plans").send().await?;
    assert!(allow.headers()["allow"].to_str()?.contains("POST"), "405 says what is allowed");
    let head = request("HEAD", "/v1/plans").send().await?;
    assert_eq!((head.status(), head.text().await?.as_str()), (StatusCode::OK, ""));
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_address_refuses_parameters_that_it_does_not_take() -> Result<()> {
    let it = Installation::embedded().await?;
    let paths = it.get("/openapi.json").await?["paths"].clone();
    for (path, operations) in paths.as_object().expect("it is an object") {
        let place = path.split('/').map(|part| match part.split_once('}') {
            Some((_, verb)) => format!("x{verb}"),
            None => part.to_owned(),
        });
        let place = place.collect::<Vec<_>>().join("/");
        for method in operations.as_object().expect("it is an object").keys() {
            let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes())?;
            let asked = it.http.request(method.clone(), it.url(&format!("{place}?nope=1")));
            let problem =
                refused(asked, 400, "INVALID_REQUEST").await.map_err(|e| e.context(format!("{method} {place}")))?;
            let issue = &problem["errors"][0];
            assert_eq!((&issue["code"], &issue["pointer"]), (&json!("UNKNOWN_PARAMETER"), &json!("/nope")), "{place}");
            assert!(issue["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{place}: {problem:#}");
        }
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_installation_answers_with_empty_lists() -> Result<()> {
    let it = Installation::embedded().await?;
    assert_eq!(it.get("/v1/plans").await?, json!({"items": []}));
    assert_eq!(it.get("/v1/dead-letters/nothing").await?, json!({"items": []}));
    let zeros = json!({"agent_type": "nothing", "waiting": 0, "running": 0, "ready": 0, "due_soon": 0, "slots": 0,
        "workers": 0, "desired_slots": 0});
    assert_eq!(it.get("/v1/scaling/nothing").await?, zeros);
    assert_eq!(it.http.get(it.url("/livez")).send().await?.status(), StatusCode::OK);
    until(SOON, async || {
        let ready = it.get("/readyz").await.expect("it answers");
        ready["shards"].as_array().is_some_and(|shards| shards.len() == 4)
    })
    .await;
    for name in ["plan", "goal"] {
        assert!(it.get(&format!("/v1/schemas/{name}")).await?.is_object());
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_are_paused_resumed_and_cancelled_by_people() -> Result<()> {
    let it = Installation::embedded().await?;
    let id = it.submit(&waiting()).await?;
    let act = async |verb: &str| {
        it.post(&format!("/v1/plans/{id}:{verb}"), &json!({"reason": "why", "actor": "cli:ann"})).await
    };
    let conflict = async |verb: &str| -> Result<()> {
        let (status, problem) = act(verb).await?;
        assert_eq!((status, &problem["code"]), (409, &json!("NOT_ALLOWED")), "{verb}: {problem:#}");
        Ok(())
    };
    conflict("resume").await?;
    conflict("approve").await?;
    conflict("reject").await?;
    let (status, paused) = act("pause").await?;
    assert_eq!((status, &paused["status"]), (200, &json!("paused")), "{paused:#}");
    conflict("pause").await?;
    assert_eq!(act("resume").await?.1["status"], "running");
    let (status, cancelled) = act("cancel").await?;
    assert_eq!((status, &cancelled["status"]), (200, &json!("cancelled")), "{cancelled:#}");
    let (status, problem) = act("cancel").await?;
    assert_eq!((status, &problem["code"]), (409, &json!("PLAN_FINAL")));
    let events = it.get(&format!("/v1/plans/{id}/events")).await?;
    let items = events["items"].as_array().expect("it is a list");
    let paused = items.iter().find(|e| e["type"] == "plan_paused").expect("it is recorded");
    assert_eq!((&paused["actor"], &paused["data"]["reason"]), (&json!("cli:ann"), &json!("why")));

    let url = it.url(&format!("/v1/plans/{id}:cancel"));
    refused(it.http.post(&url).json(&json!({"actor": "<script>"})), 400, "INVALID_REQUEST").await?;
    refused(it.http.post(&url).json(&json!({"actor": "oidc:ann"})), 400, "INVALID_REQUEST").await?;
    refused(it.http.post(&url).json(&json!({"reason": 5})), 400, "INVALID_REQUEST").await?;
    refused(it.http.post(&url).json(&json!({"reason": "x".repeat(70_000)})), 413, "BODY_TOO_LARGE").await?;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_wants_approval_waits_for_a_person() -> Result<()> {
    let it = Installation::embedded().await?;
    let mut plan = one_step("echo");
    plan["approve"] = json!(true);
    let (agreed, refused) = (it.submit(&plan).await?, it.submit(&plan).await?);
    assert_eq!(it.get(&format!("/v1/plans/{agreed}")).await?["status"], "awaiting_approval");
    let (status, _) = it.post(&format!("/v1/plans/{agreed}:approve"), &json!({})).await?;
    assert_eq!(status, 200);
    assert_eq!(it.await_end(&agreed, LIMIT).await?["status"], "completed");
    let (status, _) = it.post(&format!("/v1/plans/{refused}:reject"), &json!({"reason": "no"})).await?;
    assert_eq!(status, 200);
    let ended = it.get(&format!("/v1/plans/{refused}")).await?;
    assert_eq!((&ended["status"], &ended["reason"]), (&json!("rejected"), &json!("no")));
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_are_steered_by_hand() -> Result<()> {
    let it = Installation::embedded().await?;
    let plan = json!({"steps": [
        step("a", "nobody", &[], json!({})),
        step("b", "nobody", &[], json!({})),
        step("c", "echo", &["a"], json!({"y": "{{ steps.a.outputs.x }}"})),
    ]});
    let id = it.submit(&plan).await?;
    let at = |step: &str| format!("/v1/plans/{id}/steps/{step}");
    let (status, done) = it.post(&at("a:complete"), &json!({"outputs": {"x": 7}, "reason": "by phone"})).await?;
    assert_eq!((status, &done["status"], &done["outputs"]), (200, &json!("completed"), &json!({"x": 7})), "{done:#}");
    let (status, skipped) = it.post(&at("b:skip"), &json!({"reason": "not needed"})).await?;
    assert_eq!((status, &skipped["status"]), (200, &json!("skipped")));
    let plan = it.await_end(&id, LIMIT).await?;
    assert_eq!(plan["status"], "completed", "{plan:#}");
    assert_eq!(it.get(&at("c")).await?["outputs"], json!({"y": 7}));
    let (status, problem) = it.post(&at("a:retry"), &json!({})).await?;
    assert_eq!((status, &problem["code"]), (409, &json!("PLAN_FINAL")));

    let id = it.submit(&waiting()).await?;
    let at = |step: &str| it.url(&format!("/v1/plans/{id}/steps/{step}"));
    refused(it.http.post(at("zz:skip")), 404, "STEP_NOT_FOUND").await?;
    refused(it.http.get(at("zz")), 404, "STEP_NOT_FOUND").await?;
    refused(it.http.post(at("a:retry")), 409, "NOT_ALLOWED").await?;
    refused(it.http.post(at("a:dance")), 404, "NOT_FOUND").await?;
    let large = json!({"outputs": "x".repeat(3 << 20)});
    refused(it.http.post(at("a:complete")).json(&large), 413, "BODY_TOO_LARGE").await?;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_checked_and_shown_without_being_run() -> Result<()> {
    let it = Installation::embedded().await?;
    let (status, good) = it.post("/v1/plans:validate", &one_step("echo")).await?;
    assert_eq!((status, &good["valid"]), (200, &json!(true)), "{good:#}");
    let bad = json!({"steps": [step("a", "echo", &["b"], json!({}))]});
    let (status, bad) = it.post("/v1/plans:validate", &bad).await?;
    assert_eq!((status, &bad["valid"]), (200, &json!(false)));
    assert_eq!(bad["issues"][0]["pointer"], "/steps/0/dependencies/0", "{bad:#}");
    let (status, preview) = it.post("/v1/plans:preview", &json!({"description": "Plan a trip to Rome"})).await?;
    assert_eq!((status, &preview["valid"]), (200, &json!(true)), "{preview:#}");
    assert_eq!(it.get("/v1/plans").await?, json!({"items": []}), "nothing was begun");

    let id = it.submit(&waiting()).await?;
    let explained = it.get(&format!("/v1/plans/{id}/explain")).await?;
    let text = explained.to_string();
    assert!(text.contains("goalmill worker --agents nobody"), "{explained:#}");
    let graph = it.get(&format!("/v1/plans/{id}/graph")).await?;
    assert_eq!(graph["steps"][0]["id"], "a");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_workers_and_queues_are_shown() -> Result<()> {
    let it = Installation::embedded().await?;
    let agent = json!({"agent_type": "painter", "description": "paints walls in any colour", "cost": 0.1});
    let (status, made) = it.post("/v1/agents", &agent).await?;
    assert_eq!((status, &made["agent_type"]), (201, &json!("painter")));
    let agents = it.get("/v1/agents").await?;
    assert!(agents["items"].as_array().expect("a list").iter().any(|a| a["agent_type"] == "painter"));
    let (status, routed) = it.post("/v1/agents:route", &json!({"text": "paint the wall in a colour"})).await?;
    assert_eq!((status, &routed["candidates"][0]["agent_type"]), (200, &json!("painter")), "{routed:#}");
    let (_, best) = it.post("/v1/agents:route", &json!({"text": "paint the wall in a colour", "top_k": 1})).await?;
    assert_eq!(best["candidates"], json!([routed["candidates"][0]]), "the others are left out");
    assert_eq!(it.post("/v1/agents:route", &json!({"text": "x", "top_k": 0})).await?.0, 400);
    until(SOON, async || {
        let workers = it.get("/v1/workers").await.expect("it answers");
        workers["items"].as_array().is_some_and(|workers| !workers.is_empty())
    })
    .await;
    it.submit(&one_step("painter")).await?;
    until(SOON, async || it.get("/v1/scaling/painter").await.expect("it answers")["waiting"] == 1).await;
    let scaling = it.get("/v1/scaling/painter").await?;
    assert_eq!((&scaling["workers"], &scaling["desired_slots"]), (&json!(0), &json!(1)));
    let queues = it.get("/v1/queues").await?;
    let queue = queues["items"].as_array().expect("a list").iter().find(|q| q["agent_type"] == "painter");
    assert_eq!(queue.map(|queue| &queue["waiting"]), Some(&json!(1)), "{queues:#}");
    assert!(it.get("/v1/scaling/echo").await?["slots"].as_u64() > Some(0));
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_requests_are_refused_for_the_time_being() -> Result<()> {
    let mut server = RedisServer::start().await?;
    let it = Installation::over(&server).await?;
    let id = it.submit(&one_step("echo")).await?;
    it.await_end(&id, LIMIT).await?;
    server.kill9();
    let away = async |path: &str| -> Result<bool> {
        let answer = it.http.get(it.url(path)).send().await?;
        let retry = answer.headers().get("retry-after").cloned();
        let (status, problem) = (answer.status().as_u16(), answer.json::<Value>().await?);
        assert!(status == 503 && retry.is_some(), "{path}: {status} {problem:#}");
        Ok(problem["code"] == "STORE_UNAVAILABLE")
    };
    assert!(away("/readyz").await?);
    assert!(away(&format!("/v1/plans/{id}")).await?);
    assert_eq!(it.http.get(it.url("/livez")).send().await?.status(), StatusCode::OK);
    until(SOON, async || {
        let answer = it.http.post(it.url("/v1/plans")).json(&one_step("echo")).send().await.expect("it answers");
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(answer.headers().contains_key("retry-after"));
        answer.json::<Value>().await.expect("it is a problem")["code"] == "STORE_UNAVAILABLE"
    })
    .await;
    server.restart().await?;
    let mut last = String::new();
    let taken = until_some(LIMIT, async || match it.submit(&one_step("echo")).await {
        Ok(_) => Some(()),
        Err(error) => {
            last = error.to_string();
            None
        }
    });
    assert!(taken.await.is_some(), "after the restart: {last}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_reaches_its_shard_wherever_that_runs() -> Result<()> {
    let server = RedisServer::start().await?;
    let mut it = Installation::over(&server).await?;
    it.add_scheduler().await?;
    let owned = async |n: usize| -> usize {
        let api = it.schedulers[n].api().expect("the settings name an address");
        let ready: Value = it.http.get(format!("http://{api}/readyz")).send().await.unwrap().json().await.unwrap();
        ready["shards"].as_array().map_or(0, Vec::len)
    };
    until(LIMIT, async || owned(0).await == 2 && owned(1).await == 2).await;
    for n in 0..8 {
        let api = it.schedulers[n % 2].api().expect("the settings name an address");
        let other = it.schedulers[(n + 1) % 2].api().expect("the settings name an address");
        let key = format!("key-{n}");
        let submit = |api, plan: Value| {
            it.http.post(format!("http://{api}/v1/plans")).header("Idempotency-Key", &key).json(&plan)
        };
        let made: Value = submit(api, waiting()).send().await?.json().await?;
        let again: Value = submit(other, waiting()).send().await?.json().await?;
        assert_eq!(made["plan_id"], again["plan_id"]);
        refused(submit(other, one_step("echo")), 409, "IDEMPOTENCY_KEY_REUSED").await?;
        let id = made["plan_id"].as_str().expect("it is accepted");
        let paused = it.http.post(format!("http://{other}/v1/plans/{id}:pause")).send().await?;
        assert_eq!(paused.json::<Value>().await?["status"], "paused");
        refused(it.http.post(format!("http://{api}/v1/plans/{id}:pause")), 409, "NOT_ALLOWED").await?;
        let cancelled = it.http.post(format!("http://{api}/v1/plans/{id}:cancel")).send().await?;
        assert_eq!(cancelled.json::<Value>().await?["status"], "cancelled");
        refused(it.http.post(format!("http://{other}/v1/plans/{id}:cancel")), 409, "PLAN_FINAL").await?;
    }
    it.stop().await;
    Ok(())
}

/// What stops may have to wait for the machine, but not each time.
const STOPS: usize = 5;

/// Stops installations until one of them has stopped within `limit`.
async fn stops_within(limit: Duration, begin: impl AsyncFn() -> Result<Installation>) -> Result<()> {
    let mut took = Vec::new();
    while took.len() < STOPS {
        let it = begin().await?;
        let begun = tokio::time::Instant::now();
        it.stop().await;
        took.push(begun.elapsed());
        if took.last() < Some(&limit) {
            return Ok(());
        }
    }
    panic!("it took {took:?}");
}

/// Less than a stop that waits for a follower or an idle connection.
const AT_ONCE: Duration = Duration::from_secs(4);

async fn stops_at_once(begin: impl AsyncFn() -> Result<Installation>) -> Result<()> {
    let streams = std::sync::Mutex::new(Vec::new());
    let busy = async || {
        let it = begin().await?;
        let id = it.submit(&one_step("echo")).await?;
        it.await_end(&id, LIMIT).await?;
        let waiting = it.submit(&waiting()).await?;
        // A follower and an idle connection are there too.
        let url = it.url(&format!("/v1/plans/{waiting}/events"));
        let mut stream = it.http.get(url).header("Accept", "text/event-stream").send().await?;
        assert!(stream.chunk().await?.is_some());
        streams.lock().expect("nobody panics with it").push(stream);
        Ok(it)
    };
    stops_within(AT_ONCE, busy).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_installation_stops_at_once() -> Result<()> {
    stops_at_once(Installation::embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_installation_stops_at_once_over_redis() -> Result<()> {
    let server = RedisServer::start().await?;
    stops_at_once(async || Installation::over(&server).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn while_redis_is_short_of_memory_running_plans_go_on_and_new_ones_wait() -> Result<()> {
    let server = RedisServer::start_with(Options { memory_bytes_max: 64 << 20, ..Options::default() }).await?;
    let it = Installation::over(&server).await?;
    let running = it.submit(&waiting()).await?;
    let mut redis = server.connection().await?;
    for n in 0..JUNK_MB {
        let junk = vec![b'x'; 1_000_000];
        let _: () = redis::cmd("SET").arg(format!("junk{n}")).arg(junk).query_async(&mut redis).await?;
    }
    until(SOON, async || {
        let answer = it.http.post(it.url("/v1/plans")).json(&one_step("echo")).send().await.expect("it answers");
        let retry = answer.headers().contains_key("retry-after");
        answer.status() == StatusCode::SERVICE_UNAVAILABLE
            && retry
            && answer.json::<Value>().await.expect("it is a problem")["code"] == "REDIS_MEMORY_PRESSURE"
    })
    .await;
    // Those that come over the stream are refused just so.
    let mut submission = redis::cmd("XADD");
    submission.arg(Keys::default().goals()).arg("*").arg(&["specversion", "1.0", "source", "urn:test"]);
    submission.arg(&["type", "goalmill.plan.submit.v1", "id", "late", "data"]).arg(one_step("echo").to_string());
    let _: String = submission.query_async(&mut redis).await?;
    let answered = async || it.broker.answers(&["late".into()]).await.ok()?.into_iter().next().flatten();
    let answer = until_some(SOON, answered).await.unwrap_or_default();
    assert!(answer.contains("REDIS_MEMORY_PRESSURE"), "{answer}");
    let (status, done) = it.post(&format!("/v1/plans/{running}/steps/a:complete"), &json!({})).await?;
    assert_eq!(status, 200, "{done:#}");
    assert_eq!(it.await_end(&running, LIMIT).await?["status"], "completed");
    for n in 0..JUNK_MB {
        let _: () = redis::cmd("DEL").arg(format!("junk{n}")).query_async(&mut redis).await?;
    }
    until(SOON, async || it.submit(&one_step("echo")).await.is_ok()).await;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_stops_also_without_redis() -> Result<()> {
    let bereft = async || {
        let mut server = RedisServer::start().await?;
        let it = Installation::over(&server).await?;
        let id = it.submit(&one_step("echo")).await?;
        it.await_end(&id, LIMIT).await?;
        server.kill9();
        Ok(it)
    };
    stops_within(Duration::from_secs(8), bereft).await
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_well_formed_and_name_nobody() -> Result<()> {
    let mut settings = settings();
    settings.metrics.listen = "127.0.0.1:0".into();
    settings.planner.order = vec!["htn".into(), "rules".into()];
    let broker = goalmill_broker::embedded::open(None, goalmill_common::clock::Clock::system())?;
    let it = Installation::start(broker, settings).await?;
    let id = it.submit(&one_step("echo")).await?;
    it.await_end(&id, LIMIT).await?;
    it.http.get(it.url("/v1/nowhere")).send().await?;
    // No domain knows it, rules do.
    let (status, goal) = it.post("/v1/goals", &json!({"description": "water the plants"})).await?;
    assert_eq!(status, 202, "{goal:#}");
    let metrics = it.schedulers[0].metrics().expect("the settings name an address");
    let scrape =
        async || -> Result<String> { Ok(it.http.get(format!("http://{metrics}/metrics")).send().await?.text().await?) };
    for name in [
        "goalmill_build_info",
        "goalmill_goals_submitted_total",
        "goalmill_http_request_duration_seconds",
        "goalmill_http_requests_total",
        "goalmill_planner_fallbacks_total",
        "goalmill_plans_ended_total",
        "goalmill_redis_up",
        "goalmill_scheduler_leader",
        "goalmill_shards_owned",
        "goalmill_stream_backlog_entries",
        "goalmill_stream_pending_entries",
        "goalmill_workers",
    ] {
        let kind = format!("# TYPE {name} ");
        until(SOON, async || scrape().await.expect("it answers").lines().any(|line| line.starts_with(&kind))).await;
    }
    let text = scrape().await?;
    let edge = "goalmill_http_request_duration_seconds_bucket{route=\"/v1/plans\",method=\"POST\",le=\"0.001\"}";
    assert!(text.contains(edge), "answers of a millisecond are told apart");
    let fallback = "goalmill_planner_fallbacks_total{from=\"htn\",to=\"rules\",reason=\"";
    assert!(text.contains(fallback), "a planner that gives way is counted");
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').expect("a sample has a value");
        assert!(value.parse::<f64>().is_ok(), "`{line}` has no number");
        let name = series.split('{').next().expect("there is a first part");
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'), "`{name}` is no name");
        assert!(!series.contains(id.as_str()) && !series.contains("/nowhere"), "`{line}` names one thing");
    }
    for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
        assert!(text.contains(&format!("# HELP {name} ")), "`{name}` has no help text");
    }
    it.stop().await;
    Ok(())
}

//! `/mcp`: who may do what, whose sessions are whose, and what is refused before it is read.

use anyhow::{Context, Result};
use goalmill_broker::embedded;
use goalmill_common::clock::Clock;
use goalmill_common::config::{Authentication, McpAccess, Settings};
use goalmill_tests::installation::{Installation, settings, step};
use goalmill_tests::wait::{SOON, until};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

const GOAL: &str = "Write a report about bees";
const READS: [&str; 6] = ["preview_plan", "plan_status", "plan_results", "list_plans", "list_agents", "route"];

/// Settings with MCP.
fn with_mcp(access: McpAccess) -> Settings {
    let mut settings = settings();
    settings.api.mcp.access = access;
    settings
}

async fn start(settings: Settings) -> Result<Installation> {
    Installation::start(embedded::open(None, Clock::system())?, settings).await
}

/// Lets the API of an installation require tokens: one for each pair of roles and namespace, created before.
async fn guard(it: &mut Installation, callers: &[(&[&str], &str)]) -> Result<Vec<String>> {
    let mut tokens = Vec::new();
    for (roles, namespace) in callers {
        let new = json!({"actor": roles[0], "roles": roles, "namespace": namespace});
        let (status, created) = it.post("/v1/tokens", &new).await?;
        assert_eq!(status, 201, "{created:#}");
        tokens.push(created["token"].as_str().context("it has a text")?.to_owned());
    }
    let open = it.schedulers.remove(0);
    it.settings.api.authentication = Authentication::Required;
    it.add_scheduler().await?;
    open.stop().await;
    Ok(tokens)
}

/// A message to `/mcp`, as clients of protocol 2025-11-25 send it.
fn post(it: &Installation, message: &Value) -> RequestBuilder {
    let request = it.http.post(it.url("/mcp")).header("accept", "application/json, text/event-stream");
    request.header("mcp-protocol-version", "2025-11-25").json(message)
}

fn tools_call(name: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}

fn initialize(capabilities: Value) -> Value {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

/// The result of a tool: whether it is an error, and its content.
async fn tool(it: &Installation, token: &str, name: &str, arguments: Value) -> Result<(bool, Value)> {
    let answer = post(it, &tools_call(name, arguments)).bearer_auth(token).send().await?;
    assert_eq!(answer.status(), StatusCode::OK, "{name}");
    let mut answer: Value = answer.json().await?;
    let result = answer["result"].take();
    Ok((result["isError"] == true, result["structuredContent"].clone()))
}

async fn tool_names(it: &Installation) -> Result<Vec<String>> {
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let answer: Value = post(it, &list).send().await?.json().await?;
    let tools = answer["result"]["tools"].as_array().context("it lists tools")?;
    Ok(tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect())
}

/// The id of the session that an answer begins.
fn session_of(answer: &Response) -> Option<String> {
    answer.headers().get("mcp-session-id").and_then(|id| id.to_str().ok()).map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_reads_unless_writes_are_set_and_is_not_there_when_off() -> Result<()> {
    let it = start(settings()).await?;
    assert_eq!(tool_names(&it).await?, READS);
    let submit = post(&it, &tools_call("submit_goal", json!({"goal": GOAL}))).send().await?;
    let refused: Value = submit.json().await?;
    assert!(refused["error"]["message"].as_str().is_some_and(|why| why.contains("submit_goal")), "{refused:#}");
    assert_eq!(it.get("/v1/plans").await?["items"], json!([]));
    it.stop().await;

    let it = start(with_mcp(McpAccess::Write)).await?;
    assert_eq!(tool_names(&it).await?.len(), READS.len() + 6);
    let submitted: Value = post(&it, &tools_call("submit_goal", json!({"goal": GOAL}))).send().await?.json().await?;
    let plan = submitted["result"]["structuredContent"]["plan_id"].as_str().context("it is accepted")?.into();
    let cancelled = tools_call("cancel_plan", json!({"plan_id": plan, "reason": "enough"}));
    assert_eq!(post(&it, &cancelled).send().await?.status(), StatusCode::OK);
    let log = it.log(&plan).await?;
    assert!(log.iter().any(|record| record.actor.as_deref() == Some("mcp")), "the log names who acted: {log:#?}");
    it.stop().await;

    let it = start(with_mcp(McpAccess::Off)).await?;
    let answer = post(&it, &tools_call("list_agents", json!({}))).send().await?;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    let why: Value = answer.json().await?;
    assert!(why["detail"].as_str().is_some_and(|detail| detail.contains("api.mcp.access")), "{why:#}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_needs_the_role_and_the_namespace_of_its_route() -> Result<()> {
    let mut it = start(with_mcp(McpAccess::Write)).await?;
    let callers: [(&[&str], &str); 5] = [
        (&["viewer"], "red"),
        (&["submitter"], "red"),
        (&["approver"], "red"),
        (&["admin"], "blue"),
        (&["scaler"], "red"),
    ];
    let tokens = guard(&mut it, &callers).await?;
    let [viewer, submitter, approver, other, scaler] = tokens.as_slice() else {
        panic!("there is one for each caller")
    };

    let refused = post(&it, &tools_call("list_agents", json!({}))).send().await?;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert!(refused.headers().contains_key("www-authenticate"));
    let (failed, why) = tool(&it, viewer, "submit_goal", json!({"goal": GOAL})).await?;
    assert!(failed && why["code"] == "FORBIDDEN", "{why:#}");
    let (failed, why) = tool(&it, viewer, "preview_plan", json!({"goal": GOAL})).await?;
    assert!(failed && why["code"] == "FORBIDDEN", "{why:#}");
    let (failed, why) = tool(&it, scaler, "list_plans", json!({})).await?;
    assert!(failed && why["code"] == "FORBIDDEN", "{why:#}");
    let (failed, listed) = tool(&it, approver, "list_plans", json!({})).await?;
    assert!(!failed, "who may approve may read: {listed:#}");
    let (failed, submitted) =
        tool(&it, submitter, "submit_goal", json!({"goal": GOAL, "require_approval": true, "idempotency_key": "k"}))
            .await?;
    assert!(!failed, "{submitted:#}");
    let plan = submitted["plan_id"].as_str().context("it is accepted")?;
    let changed = json!({"goal": "something else", "require_approval": true, "idempotency_key": "k"});
    let (failed, why) = tool(&it, submitter, "submit_goal", changed).await?;
    assert!(failed && why["code"] == "IDEMPOTENCY_KEY_REUSED", "{why:#}");
    let waits = async || {
        let status = tool(&it, viewer, "plan_status", json!({"plan_id": plan})).await;
        status.is_ok_and(|(_, status)| status["plan"]["status"] == "awaiting_approval")
    };
    until(SOON, waits).await;
    assert_eq!(tool(&it, viewer, "list_plans", json!({})).await?.1["items"][0]["namespace"], "red");

    for (name, arguments) in [
        ("plan_status", json!({"plan_id": plan})),
        ("plan_results", json!({"plan_id": plan})),
        ("cancel_plan", json!({"plan_id": plan})),
        ("answer_question", json!({"plan_id": plan, "question": "q", "answer": 1})),
        ("decide_approval", json!({"plan_id": plan})),
    ] {
        let (failed, why) = tool(&it, other, name, arguments).await?;
        assert!(failed && why["code"] == "PLAN_NOT_FOUND", "{name}: {why:#}");
    }
    assert_eq!(tool(&it, other, "list_plans", json!({})).await?.1["items"], json!([]));
    for uri in [format!("goalmill://plans/{plan}"), format!("goalmill://plans/{plan}/events")] {
        let read = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": uri}});
        let answer: Value = post(&it, &read).bearer_auth(other).send().await?.json().await?;
        assert!(answer["error"]["code"].is_i64() && answer["result"].is_null(), "{answer:#}");
        let answer: Value = post(&it, &read).bearer_auth(viewer).send().await?.json().await?;
        assert!(answer["result"]["contents"][0]["text"].as_str().is_some_and(|text| text.contains(plan)), "{answer:#}");
    }
    let selects =
        post(&it, &tools_call("list_plans", json!({}))).bearer_auth(viewer).header("goalmill-namespace", "blue");
    assert_eq!(selects.send().await?.status(), StatusCode::FORBIDDEN);
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_plans_are_listed_and_run_by_whom_their_routes_allow() -> Result<()> {
    let mut it = start(with_mcp(McpAccess::Write)).await?;
    let tokens = guard(&mut it, &[(&["viewer"], "red"), (&["submitter"], "red"), (&["submitter"], "blue")]).await?;
    let [viewer, submitter, other] = tokens.as_slice() else { panic!("there is one for each caller") };
    let schema = json!({"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}});
    let plan = json!({"input_schema": schema, "steps": [step("a", "echo", &[], json!({"to": "{{ goal.metadata.inputs.city }}"}))]});
    let put = it.http.post(it.url("/v1/stored-plans/trip/versions")).bearer_auth(submitter).json(&plan).send().await?;
    assert_eq!(put.status(), StatusCode::CREATED);

    let (failed, listed) = tool(&it, viewer, "list_plans", json!({"stored": true})).await?;
    assert!(!failed, "{listed:#}");
    let listed = &listed["items"][0];
    assert_eq!((&listed["name"], &listed["version"], &listed["input_schema"]), (&json!("trip"), &json!(1), &schema));
    let (_, none) = tool(&it, other, "list_plans", json!({"stored": true})).await?;
    assert_eq!(none["items"], json!([]));
    let (failed, why) = tool(&it, viewer, "list_plans", json!({"stored": true, "limit": 1})).await?;
    assert!(failed && why.to_string().contains("leave `status` and `limit` out"), "{why:#}");

    let oslo = json!({"plan": "trip", "inputs": {"city": "Oslo"}, "idempotency_key": "k"});
    let (failed, why) = tool(&it, viewer, "run_plan", oslo.clone()).await?;
    assert!(failed && why["code"] == "FORBIDDEN", "{why:#}");
    let (failed, why) = tool(&it, other, "run_plan", oslo.clone()).await?;
    assert!(failed && why["code"] == "STORED_PLAN_NOT_FOUND", "{why:#}");
    for (arguments, said) in [
        (json!({"plan": "trip@1", "inputs": {}}), "/inputs"),
        (json!({"plan": "trip@7", "inputs": {"city": "Oslo"}}), "STORED_PLAN_NOT_FOUND"),
        (json!({"plan": "trip/../..", "inputs": {}}), "`plan` must be a name"),
    ] {
        let (failed, why) = tool(&it, submitter, "run_plan", arguments).await?;
        assert!(failed && why.to_string().contains(said), "{why:#}");
    }
    let (failed, accepted) = tool(&it, submitter, "run_plan", oslo.clone()).await?;
    assert!(!failed, "{accepted:#}");
    let (_, again) = tool(&it, submitter, "run_plan", oslo).await?;
    assert_eq!(again["plan_id"], accepted["plan_id"]);
    let plan = &accepted["plan_id"];
    let view = async || {
        let url = it.url(&format!("/v1/plans/{}", plan.as_str().unwrap_or_default()));
        let answer = it.http.get(url).bearer_auth(viewer).send().await.expect("it is answered");
        answer.json::<Value>().await.expect("it is JSON")
    };
    until(SOON, async || view().await["status"] == "completed").await;
    let view = view().await;
    assert_eq!(view["goal"]["metadata"]["stored_plan"], "trip@1");
    assert_eq!(view["steps"][0]["outputs"]["to"], "Oslo", "{view:#}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_argument_cannot_name_another_route() -> Result<()> {
    let it = start(with_mcp(McpAccess::Write)).await?;
    let plan = it
        .submit(&json!({
            "goal": {"description": GOAL, "planning": {"require_approval": true}},
            "steps": [step("a", "nobody", &[], json!({}))],
        }))
        .await?;
    for end in [":approve#", ":approve?x=", ":approve", "/../..", "/steps/a", "%3Aapprove", "%23"] {
        for name in ["cancel_plan", "plan_status", "plan_results"] {
            let call = post(&it, &tools_call(name, json!({"plan_id": format!("{plan}{end}")})));
            let answer: Value = call.send().await?.json().await?;
            assert_eq!(answer["result"]["isError"], true, "{name} {end}: {answer:#}");
        }
    }
    let log = it.log(&plan).await?;
    assert!(log.iter().all(|record| record.actor.as_deref() != Some("mcp")), "nothing has happened to it: {log:#?}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_belong_to_their_caller_and_are_bounded() -> Result<()> {
    let mut settings = with_mcp(McpAccess::Write);
    settings.api.mcp.sessions_max = 2;
    let mut it = start(settings).await?;
    let tokens = guard(&mut it, &[(&["admin"], "red"), (&["viewer"], "blue")]).await?;
    let begin = async |token: &str| {
        let answer = post(&it, &initialize(json!({"elicitation": {}}))).bearer_auth(token).send().await?;
        assert_eq!(answer.status(), StatusCode::OK);
        session_of(&answer).context("a session begins")
    };
    let end = async |session: &str, token: &str| {
        let request = it.http.delete(it.url("/mcp")).bearer_auth(token).header("mcp-session-id", session);
        anyhow::Ok(request.send().await?.status())
    };
    let (first, second) = (begin(&tokens[0]).await?, begin(&tokens[0]).await?);
    assert_eq!(end(&second, &tokens[1]).await?, StatusCode::METHOD_NOT_ALLOWED, "it is another caller's");
    assert_eq!(end(&second, &tokens[0]).await?, StatusCode::NO_CONTENT);
    assert_eq!(end(&second, &tokens[0]).await?, StatusCode::METHOD_NOT_ALLOWED, "it has ended");
    for _ in 0..5 {
        begin(&tokens[1]).await?;
    }
    assert_eq!(end(&first, &tokens[0]).await?, StatusCode::METHOD_NOT_ALLOWED, "newer ones have taken its place");
    // A request of a session that is gone is answered all the same.
    let call =
        post(&it, &tools_call("list_agents", json!({}))).bearer_auth(&tokens[0]).header("mcp-session-id", &first);
    let answer: Value = call.send().await?.json().await?;
    assert!(answer["result"]["structuredContent"]["items"].is_array(), "{answer:#}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_need_not_exist() -> Result<()> {
    let mut settings = with_mcp(McpAccess::Read);
    settings.api.mcp.sessions_max = 0;
    let it = start(settings).await?;
    let answer = post(&it, &initialize(json!({}))).send().await?;
    assert_eq!(session_of(&answer), None);
    let answer: Value = answer.json().await?;
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer:#}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_other_sites_send_and_what_is_no_message_is_refused() -> Result<()> {
    let mut settings = with_mcp(McpAccess::Write);
    settings.api.body_bytes_max = 10_000;
    let it = start(settings).await?;
    let list = tools_call("list_agents", json!({}));
    for (name, value, status) in
        [("host", "evil.example", 421), ("origin", "http://evil.example", 403), ("accept", "text/html", 400)]
    {
        let request = it.http.post(it.url("/mcp")).header(name, value).json(&list);
        assert_eq!(request.send().await?.status(), status, "{name}: {value}");
    }
    let large = tools_call("preview_plan", json!({"goal": "x".repeat(20_000)}));
    assert_eq!(post(&it, &large).send().await?.status(), StatusCode::PAYLOAD_TOO_LARGE);
    for body in ["", "[]", "{}", "{\"jsonrpc\": \"2.0\"}", "{", "[[[[[["] {
        let request = it.http.post(it.url("/mcp")).header("accept", "application/json, text/event-stream");
        let answer = request.header("content-type", "application/json").body(body).send().await?;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{body}: {}", answer.text().await?);
    }
    // An error of JSON-RPC reaches the client as such.
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2099-01-01",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let unknown = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": meta}});
    let request = it.http.post(it.url("/mcp")).header("accept", "application/json, text/event-stream");
    let answer = request.header("mcp-protocol-version", "2099-01-01").header("mcp-method", "tools/list").json(&unknown);
    let answer = answer.send().await?;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    let answer: Value = answer.json().await?;
    assert!(answer["error"]["code"].is_i64() && answer["id"] == 7, "{answer:#}");
    it.stop().await;
    Ok(())
}

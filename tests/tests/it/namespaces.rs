//! Two namespaces and every route: none sees or changes what belongs to the other.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use goalmill_broker::{DeadLetter, embedded};
use goalmill_common::clock::Clock;
use goalmill_common::config::{ArchiveKind, Authentication};
use goalmill_common::id::PlanId;
use goalmill_tests::installation::{Installation, settings, step};
use goalmill_tests::wait::{SOON, until};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::http::read_feed;

/// Routes of which all namespaces see the same, besides those of one plan.
const SHARED_READS: [&str; 16] = [
    "get /livez",
    "get /readyz",
    "get /openapi.json",
    "get /v1/agents",
    "get /v1/models",
    "get /v1/planners",
    "get /v1/queues",
    "get /v1/scaling/{agent_type}",
    "get /v1/schemas/{name}",
    "get /v1/session",
    "get /v1/session/methods",
    "get /v1/workers",
    "post /mcp",
    "get /mcp",
    "delete /mcp",
    "post /v1/agents:route",
];
/// Routes that change what all namespaces share.
const SHARED_WRITES: [&str; 7] = [
    "post /v1/agents",
    "post /v1/workers/{id}:drain",
    "post /v1/queues/{agent_type}:pause",
    "post /v1/queues/{agent_type}:resume",
    "post /v1/tokens",
    "get /v1/tokens",
    "delete /v1/tokens/{id}",
];
/// Routes whose answers depend on the caller's namespace.
const LISTS: [&str; 8] = [
    "get /v1/plans",
    "get /v1/events",
    "get /v1/logs",
    "get /v1/waits",
    "get /v1/overview",
    "get /v1/stats",
    "get /v1/dead-letters",
    "get /v1/dead-letters/{agent_type}",
];
/// The list of what came by Redis, which `redis_only` tests.
const OF_STREAMS: [&str; 1] = ["get /v1/refused-submissions"];
/// Whether the answer has numbers in the place of plans that have ended.
fn is_count(operation: &str) -> bool {
    ["/v1/stats", "/v1/overview"].iter().any(|path| operation.ends_with(path))
}

/// Routes that act on the plans that they find.
const BULK: [&str; 4] =
    ["post /v1/plans:cancel", "post /v1/plans:pause", "post /v1/plans:resume", "post /v1/plans:replan"];
/// Routes that begin something in the caller's namespace, or run nothing.
const BEGINNINGS: [&str; 7] = [
    "post /v1/events",
    "post /v1/goals",
    "post /v1/plans",
    "post /v1/plans:validate",
    "post /v1/plans:preview",
    "post /v1/actions/decompose",
    "post /v1/session",
];
/// Routes of stored plans, of which each namespace has its own.
const STORED: [&str; 6] = [
    "get /v1/stored-plans",
    "get /v1/stored-plans/{stored}",
    "get /v1/stored-plans/{stored}/versions",
    "post /v1/stored-plans/{stored}/versions",
    "post /v1/stored-plans/{stored}:run",
    "post /v1/stored-plans/{stored}:retire",
];
/// Routes that name a plan in their body, or a dead letter of one, or a task.
const NAMED: [&str; 7] = [
    // The token of the task is the credential, of whatever namespace.
    "post /v1/callbacks/{id}/{step}/{attempt}",
    "post /v1/actions/execute",
    "post /v1/actions/replan",
    "post /v1/actions/status",
    "post /v1/dead-letters/{agent_type}/{entry}:retry",
    "post /v1/dead-letters/{agent_type}/{entry}:discard",
    "delete /v1/session",
];

struct Shared {
    it: Installation,
    red: String,
    blue: String,
    all: String,
}

impl Shared {
    /// An installation that requires tokens, with one for each of two namespaces and one for all.
    async fn start() -> Result<Self> {
        let broker = embedded::open(None, Clock::system())?;
        let mut it = Installation::start(broker, settings()).await?;
        let (red, blue) = (create(&it, "red").await?, create(&it, "blue").await?);
        let all = create(&it, "*").await?;
        let open = it.schedulers.remove(0);
        it.settings.api.authentication = Authentication::Required;
        it.add_scheduler().await?;
        open.stop().await;
        Ok(Self { it, red, blue, all })
    }

    fn request(&self, token: &str, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes()).expect("it is a method");
        self.it.http.request(method, self.it.url(path)).bearer_auth(token)
    }

    async fn get(&self, token: &str, path: &str) -> Result<Value> {
        Ok(self.request(token, "GET", path).send().await?.json().await?)
    }

    async fn submit(&self, token: &str, key: &str, plan: &Value) -> Result<(u16, Value)> {
        let request = self.request(token, "POST", "/v1/plans").header("Idempotency-Key", key).json(plan);
        let answer = request.send().await?;
        Ok((answer.status().as_u16(), answer.json().await?))
    }

    /// A plan whose only step nobody serves.
    async fn begin(&self, token: &str, key: &str) -> Result<PlanId> {
        let (status, answer) = self.submit(token, key, &waiting()).await?;
        assert_eq!(status, 202, "{answer:#}");
        Ok(answer["plan_id"].as_str().context("it is accepted")?.into())
    }
}

fn waiting() -> Value {
    json!({"steps": [step("a", "nobody", &[], json!({}))]})
}

async fn create(it: &Installation, namespace: &str) -> Result<String> {
    let new = json!({"actor": "ann", "roles": ["admin"], "namespace": namespace});
    let (status, created) = it.post("/v1/tokens", &new).await?;
    assert_eq!((status, &created["namespace"]), (201, &json!(namespace)), "{created:#}");
    Ok(created["token"].as_str().context("it has a text")?.to_owned())
}

async fn code(request: RequestBuilder) -> Result<(u16, String)> {
    let answer = request.send().await?;
    let status = answer.status().as_u16();
    let body: Value = serde_json::from_str(&answer.text().await?).unwrap_or_default();
    Ok((status, body["code"].as_str().unwrap_or_default().to_owned()))
}

fn letter(plan: &PlanId) -> DeadLetter {
    let task = json!({
        "plan": plan, "step": "a", "attempt": 1, "token": "t", "agent_type": "nobody", "action": "", "inputs": {},
        "timeout_ms": 1_000, "reply": "goalmill:{s0}:reports", "idempotency_key": "k",
    });
    DeadLetter {
        agent_type: "nobody".into(),
        plan: plan.clone(),
        step: "a".into(),
        attempt: 1,
        code: "STEP_POISONED".into(),
        reason: "it was lost too often".into(),
        task: task.to_string(),
    }
}

/// Every operation: `get /v1/plans/{id}`.
async fn operations(shared: &Shared) -> Result<BTreeSet<String>> {
    let document = shared.get(&shared.all, "/openapi.json").await?;
    let mut all = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().context("it has paths")? {
        all.extend(methods.as_object().context("a path has methods")?.keys().map(|method| format!("{method} {path}")));
    }
    Ok(all)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_of_a_plan_is_404_for_another_namespace() -> Result<()> {
    let shared = Shared::start().await?;
    let operations = operations(&shared).await?;
    let of_plan = operations.iter().filter(|operation| operation.contains("/v1/plans/{id}"));
    let of_plan: Vec<(&str, &str)> = of_plan.filter_map(|operation| operation.split_once(' ')).collect();
    let known = [&SHARED_READS[..], &SHARED_WRITES, &LISTS, &OF_STREAMS, &BULK, &BEGINNINGS, &NAMED, &STORED].concat();
    let others: BTreeSet<&str> =
        operations.iter().map(String::as_str).filter(|operation| !operation.contains("/v1/plans/{id}")).collect();
    assert_eq!(others, known.into_iter().collect(), "each route is of one of these kinds");
    assert!(of_plan.len() > 20, "{of_plan:?}");

    let plan = shared.begin(&shared.red, "k").await?;
    let fill = |path: &str| path.replace("{id}", plan.as_str()).replace("{step}", "a").replace("{question}", "a");
    let before = shared.it.log(&plan).await?.len();
    for (method, path) in &of_plan {
        let (status, why) = code(shared.request(&shared.blue, method, &fill(path))).await?;
        assert_eq!((status, why.as_str()), (404, "PLAN_NOT_FOUND"), "{method} {path}");
        let known = shared.request(&shared.blue, method, &fill(path)).header("If-None-Match", "*");
        assert_eq!(code(known).await?.0, 404, "{method} {path}");
    }
    let stream = shared.request(&shared.blue, "GET", &format!("/v1/plans/{plan}/events"));
    assert_eq!(code(stream.header("accept", "text/event-stream")).await?.0, 404);
    for path in [format!("/v1/plans/{plan}%3Acancel"), format!("/v1/plans/{plan}:cancel")] {
        assert_eq!(code(shared.request(&shared.blue, "POST", &path)).await?.1, "PLAN_NOT_FOUND", "{path}");
    }
    assert_eq!(shared.it.log(&plan).await?.len(), before, "nothing has happened to it");
    for (method, path) in of_plan.iter().filter(|(method, _)| *method == "get") {
        let (status, why) = code(shared.request(&shared.red, method, &fill(path))).await?;
        assert_eq!(status, 200, "{method} {path}: {why}");
    }
    let cancel = shared.request(&shared.red, "POST", &format!("/v1/plans/{plan}:cancel"));
    assert_eq!(code(cancel).await?.0, 200);
    shared.it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_have_only_what_belongs_to_the_caller() -> Result<()> {
    let shared = Shared::start().await?;
    let (red, blue) = (shared.begin(&shared.red, "k").await?, shared.begin(&shared.blue, "k").await?);
    assert_ne!(red, blue, "one key in two namespaces is two plans");
    assert_eq!(shared.begin(&shared.red, "k").await?, red);
    for (plan, namespace) in [(&red, "red"), (&blue, "blue")] {
        shared.it.broker.add_dead_letter(&letter(plan)).await?;
        let wait = json!({"plan_id": plan, "step_id": "a", "namespace": namespace, "event": "e", "due_at": ""});
        let waits = shared.it.broker.keys().waits();
        shared.it.broker.put_field(&waits, &format!("{plan} a"), &wait.to_string()).await?;
        let cancel = shared.request(&shared.all, "POST", &format!("/v1/plans/{plan}:cancel"));
        assert_eq!(code(cancel).await?.0, 200);
    }
    let ids = [red.as_str(), blue.as_str()];
    for operation in LISTS.iter().filter(|operation| !is_count(operation)) {
        let path = operation.trim_start_matches("get ").replace("{agent_type}", "nobody");
        let text = async |token: &str| -> Result<String> { Ok(shared.get(token, &path).await?.to_string()) };
        let seen = async |token: &str| -> Result<Vec<bool>> {
            let text = text(token).await?;
            Ok(ids.iter().map(|id| text.contains(id)).collect())
        };
        assert_eq!(seen(&shared.red).await?, [true, false], "{path}");
        assert_eq!(seen(&shared.blue).await?, [false, true], "{path}");
        assert_eq!(seen(&shared.all).await?, [true, true], "{path}");
        let chosen = shared.request(&shared.all, "GET", &path).header("Goalmill-Namespace", "blue");
        let text = chosen.send().await?.text().await?;
        assert!(text.contains(blue.as_str()) && !text.contains(red.as_str()), "{path}: {text}");
    }
    for (token, plans) in [(&shared.red, 1), (&shared.all, 2)] {
        for path in ["/v1/stats", "/v1/overview"] {
            let counted = shared.get(token, path).await?;
            assert_eq!(counted["plans"], plans, "{path}: {counted:#}");
        }
    }
    let logs = |token: &str| shared.request(token, "GET", &format!("/v1/logs?plan={red}"));
    assert_eq!(code(logs(&shared.blue)).await?, (404, "PLAN_NOT_FOUND".into()));
    assert_eq!(code(logs(&shared.red)).await?.0, 200);
    let cursor = format!("/v1/logs?cursor=99999999999999:{red}:9");
    let text = shared.get(&shared.blue, &cursor).await?.to_string();
    assert!(!text.contains(red.as_str()), "a cursor opens nothing: {text}");
    shared.it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_namespace_has_its_own_stored_plans() -> Result<()> {
    let shared = Shared::start().await?;
    let put = |token: &str, name: &str| {
        shared.request(token, "POST", &format!("/v1/stored-plans/{name}/versions")).json(&waiting())
    };
    for (token, name) in [(&shared.red, "ours"), (&shared.red, "both"), (&shared.blue, "both")] {
        assert_eq!(code(put(token, name)).await?.0, 201, "{name}");
    }
    let not_found = (404, "STORED_PLAN_NOT_FOUND".to_owned());
    let is_look = |operation: &&&str| operation.starts_with("get") && operation.contains("{stored}");
    for operation in STORED.iter().filter(|operation| is_look(operation) || operation.contains("}:")) {
        let (method, path) = operation.split_once(' ').context("it has a method")?;
        let path = path.replace("{stored}", "ours@1");
        assert_eq!(code(shared.request(&shared.blue, method, &path)).await?, not_found, "{operation}");
        assert!(code(shared.request(&shared.red, method, &path)).await?.0 < 300, "{operation}");
    }
    assert_eq!(code(shared.request(&shared.blue, "GET", "/v1/stored-plans/ours")).await?, not_found);
    let names = async |token: &str| -> Result<Vec<Value>> {
        let listed = shared.get(token, "/v1/stored-plans").await?;
        Ok(listed["items"].as_array().into_iter().flatten().map(|view| view["name"].clone()).collect())
    };
    assert_eq!(names(&shared.blue).await?, ["both"]);
    assert_eq!(names(&shared.red).await?, ["both", "ours"]);
    assert_eq!(names(&shared.all).await?, [] as [&str; 0], "those of the namespace `default`");
    let chosen = shared.request(&shared.all, "GET", "/v1/stored-plans").header("Goalmill-Namespace", "blue");
    assert!(chosen.send().await?.text().await?.contains("both"));
    // A plan uses those of its own namespace.
    let using = |namespace: Value| json!({"goal": {"description": "x", "namespace": namespace}, "steps": [{"id": "a", "use": "both@1"}]});
    assert_eq!(shared.submit(&shared.red, "k1", &using(json!("red"))).await?.0, 202);
    assert_eq!(shared.submit(&shared.all, "k2", &using(json!("blue"))).await?.0, 202);
    assert_eq!(shared.submit(&shared.all, "k3", &using(Value::Null)).await?.0, 422);
    // A preview may show them, so it acts in the namespace of its caller.
    let foreign = json!({"description": "x", "namespace": "red"});
    let preview = |token: &str| shared.request(token, "POST", "/v1/plans:preview").json(&foreign);
    assert_eq!(code(preview(&shared.blue)).await?, (403, "FORBIDDEN".to_owned()));
    assert_ne!(code(preview(&shared.red)).await?.0, 403);
    shared.it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_and_letters_of_another_namespace_cannot_be_named() -> Result<()> {
    let shared = Shared::start().await?;
    let plan = shared.begin(&shared.red, "k").await?;
    for path in ["/v1/actions/execute", "/v1/actions/replan", "/v1/actions/status"] {
        let request = shared.request(&shared.blue, "POST", path).json(&json!({"plan": plan}));
        assert_eq!(code(request).await?, (404, "PLAN_NOT_FOUND".into()), "{path}");
    }
    let status = shared.request(&shared.red, "POST", "/v1/actions/status").json(&json!({"plan": plan}));
    assert_eq!(code(status).await?.0, 200);
    shared.it.broker.add_dead_letter(&letter(&plan)).await?;
    let listed = shared.get(&shared.red, "/v1/dead-letters").await?;
    let entry = listed["items"][0]["entry"].as_str().context("it is listed")?.to_owned();
    for verb in ["retry", "discard"] {
        let path = format!("/v1/dead-letters/nobody/{entry}:{verb}");
        let (status, why) = code(shared.request(&shared.blue, "POST", &path)).await?;
        assert_eq!((status, why.as_str()), (404, "DEAD_LETTER_NOT_FOUND"), "{verb}");
    }
    let path = format!("/v1/dead-letters/nobody/{entry}:discard");
    assert_eq!(code(shared.request(&shared.red, "POST", &path)).await?.0, 200);
    shared.it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_acts_in_its_namespace_and_changes_nothing_that_is_shared() -> Result<()> {
    let shared = Shared::start().await?;
    for operation in SHARED_WRITES {
        let (method, path) = operation.split_once(' ').context("it has a method")?;
        let path = path.replace("{id}", "x").replace("{agent_type}", "nobody");
        assert_eq!(code(shared.request(&shared.red, method, &path)).await?, (403, "FORBIDDEN".into()), "{operation}");
        assert_ne!(code(shared.request(&shared.all, method, &path)).await?.0, 403, "{operation}");
    }
    let in_namespace = |namespace: &str| json!({"description": "Plan a 3-day trip to Paris", "namespace": namespace});
    let goal = |token: &str, namespace: &str| shared.request(token, "POST", "/v1/goals").json(&in_namespace(namespace));
    for foreign in ["blue", "default"] {
        assert_eq!(code(goal(&shared.red, foreign)).await?, (403, "FORBIDDEN".into()), "{foreign}");
    }
    assert_eq!(goal(&shared.red, "red").send().await?.status(), StatusCode::ACCEPTED);
    for (token, selected, expected) in
        [(&shared.red, "blue", 403), (&shared.red, "red", 200), (&shared.all, "blue", 200), (&shared.all, "a b", 400)]
    {
        let list = shared.request(token, "GET", "/v1/plans").header("Goalmill-Namespace", selected);
        assert_eq!(code(list).await?.0, expected, "{selected}");
    }
    let chosen = shared.request(&shared.all, "POST", "/v1/plans").header("Goalmill-Namespace", "blue");
    let made: Value = chosen.json(&waiting()).send().await?.json().await?;
    let path = format!("/v1/plans/{}", made["plan_id"].as_str().context("it is accepted")?);
    assert_eq!(shared.get(&shared.blue, &path).await?["namespace"], "blue");
    assert_eq!(code(shared.request(&shared.red, "GET", &path)).await?.0, 404);
    let view = shared.get(&shared.red, "/v1/session").await?;
    assert_eq!(view["namespace"], "red");
    assert_eq!(shared.get(&shared.all, "/v1/session").await?["namespace"], "*");
    shared.it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_and_verbs_on_many_plans_find_only_those_of_the_caller() -> Result<()> {
    let shared = Shared::start().await?;
    let mut red = BTreeSet::new();
    for n in 0..3 {
        red.insert(shared.begin(&shared.red, &format!("r{n}")).await?.to_string());
        shared.begin(&shared.blue, &format!("b{n}")).await?;
    }
    let ids = |answer: &Value| -> BTreeSet<String> {
        let items = answer["items"].as_array().into_iter().flatten();
        items.filter_map(|item| item["plan_id"].as_str().map(Into::into)).collect()
    };
    let found = shared.get(&shared.red, "/v1/plans?q=p&status=running").await?;
    assert_eq!(ids(&found), red);
    let (mut pages, mut path) = (BTreeSet::new(), "/v1/plans?limit=1".to_owned());
    loop {
        let page = shared.get(&shared.red, &path).await?;
        pages.extend(ids(&page));
        let Some(next) = page["next"].as_str() else { break };
        let of_red = |plan: &str| plan.is_empty() || red.contains(plan);
        assert!(next.split_once(':').is_some_and(|(_, plan)| of_red(plan)), "a cursor names no plan of others: {next}");
        path = format!("/v1/plans?limit=1&cursor={next}");
    }
    assert_eq!(pages, red);
    for operation in BULK {
        let path = operation.trim_start_matches("post ");
        let body = json!({"unchanged_since_ms": 99_999_999_999_999_u64, "dry_run": true});
        let listed: Value = shared.request(&shared.red, "POST", path).json(&body).send().await?.json().await?;
        assert!(ids(&listed).is_subset(&red), "{path}: {listed:#}");
    }
    let body = json!({"status": ["running"]});
    let ended: Value = shared.request(&shared.red, "POST", "/v1/plans:cancel").json(&body).send().await?.json().await?;
    assert_eq!(ids(&ended), red);
    let left = shared.get(&shared.all, "/v1/plans?status=running").await?;
    assert!(ids(&left).len() == 3 && ids(&left).is_disjoint(&red), "{left:#}");
    shared.it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_all_events_has_those_of_the_caller() -> Result<()> {
    let shared = Shared::start().await?;
    let follow = |token: &str, query: &str| {
        let request = shared.request(token, "GET", &format!("/v1/events{query}"));
        request.header("Accept", "text/event-stream")
    };
    let all = follow(&shared.all, "").send().await?;
    let of_blue = follow(&shared.blue, "").send().await?;
    let red = shared.begin(&shared.red, "k").await?;
    let cancel = |token: &str, plan: &PlanId| {
        let request = shared.request(token, "POST", &format!("/v1/plans/{plan}:cancel"));
        async move { request.send().await }
    };
    cancel(&shared.red, &red).await?;
    let is_end = |plan: &PlanId| {
        let plan = plan.to_string();
        move |event: &Value| event["plan_id"] == plan.as_str() && event["type"] == "plan_cancelled"
    };
    let seen = read_feed(all, is_end(&red)).await?;
    let (place, _) = seen.last().context("there are events")?;
    let blue = shared.begin(&shared.blue, "k").await?;
    cancel(&shared.blue, &blue).await?;
    let from_red = follow(&shared.blue, "").header("Last-Event-ID", place).send().await?;
    for stream in [of_blue, from_red] {
        let events = read_feed(stream, is_end(&blue)).await?;
        assert!(events.iter().all(|(_, event)| event["plan_id"] == blue.as_str()), "{events:#?}");
        assert_eq!(events[0].1["seq"], 1);
    }
    assert_eq!(code(follow(&shared.blue, &format!("?plan={red}"))).await?, (404, "PLAN_NOT_FOUND".into()));
    shared.it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn archived_plans_are_seen_in_their_namespace_only() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut settings = settings();
    settings.archive.store = ArchiveKind::Sqlite;
    settings.archive.path = dir.path().join("archive.sqlite").display().to_string();
    settings.archive.interval_ms = 50;
    (settings.scheduler.retention_ms, settings.scheduler.trim_ms) = (0, 100);
    let it = Installation::start(embedded::open(None, Clock::system())?, settings).await?;
    let request = |namespace: &str, method: Method, path: &str| {
        it.http.request(method, it.url(path)).header("Goalmill-Namespace", namespace)
    };
    let plan = json!({"name": "hummingbirds", "steps": [step("a", "echo", &[], json!({}))]});
    let accepted: Value = request("red", Method::POST, "/v1/plans").json(&plan).send().await?.json().await?;
    let id = PlanId::from(accepted["plan_id"].as_str().context("it is accepted")?);
    until(SOON, async || it.broker.summary(&id).await.expect("the store answers").is_empty()).await;

    for path in ["", "/events", "/results", "/explain", "/revisions"] {
        let path = format!("/v1/plans/{id}{path}");
        assert_eq!(code(request("red", Method::GET, &path)).await?.0, 200, "{path}");
        assert_eq!(code(request("blue", Method::GET, &path)).await?, (404, "PLAN_NOT_FOUND".into()), "{path}");
    }
    let of_plan = format!("/v1/logs?plan={id}");
    assert_eq!(code(request("blue", Method::GET, &of_plan)).await?, (404, "PLAN_NOT_FOUND".into()));
    for path in ["/v1/plans", "/v1/plans?q=hummingbirds", "/v1/logs", "/v1/logs?text=hummingbirds"] {
        let found = async |namespace| -> Result<usize> {
            let page: Value = request(namespace, Method::GET, path).send().await?.json().await?;
            Ok(page["items"].as_array().context("it is a page")?.len())
        };
        assert!(found("red").await? > 0, "{path}");
        assert_eq!(found("blue").await?, 0, "{path}");
    }
    it.stop().await;
    Ok(())
}

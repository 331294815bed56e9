//! Programs that know nothing but Redis: they submit, wait for the end, and get outcome, outputs and failures.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use goalmill_tests::installation::step;
use goalmill_tests::wait::{SOON, until_some};
use redis::aio::MultiplexedConnection;
use redis::cmd;
use redis::streams::{StreamRangeReply, StreamReadReply};
use serde_json::{Value, json};

use crate::roles::{connection, installation, installation_of, refusals, server};

/// Names and values of fields.
type Pairs<'a> = &'a [(&'a str, &'a str)];

/// The longest wait for an end, in milliseconds.
const END_MS: u64 = 60_000;

/// Appends a submission; returns the id of its entry.
async fn submit(client: &MultiplexedConnection, stream: &str, fields: Pairs<'_>) -> Result<String> {
    let mut add = cmd("XADD");
    add.arg(stream).arg("*");
    for (name, value) in fields {
        add.arg(name).arg(value);
    }
    Ok(add.query_async(&mut client.clone()).await?)
}

/// Waits for the result of a submission as the protocol says it.
async fn result(client: &MultiplexedConnection, id: &str) -> Result<Value> {
    let mut read = cmd("XREAD");
    read.arg("BLOCK").arg(END_MS).arg("STREAMS").arg(format!("goalmill:results:{id}")).arg("0");
    let reply: StreamReadReply = read.query_async(&mut client.clone()).await?;
    let entries = &reply.keys.first().with_context(|| format!("`{id}` has no result"))?.ids;
    ensure!(entries.len() == 1, "a result is one entry: {entries:?}");
    let names = [
        "status", "plan_id", "reason", "failure", "final_output", "outputs", "failures", "problem", "final_output_key",
        "outputs_key", "failures_key",
    ];
    let field = |name: &str| {
        let text = entries[0].get::<String>(name)?;
        Some((name.to_owned(), serde_json::from_str(&text).unwrap_or(Value::String(text))))
    };
    Ok(names.into_iter().filter_map(field).collect::<serde_json::Map<_, _>>().into())
}

async fn answer(client: &MultiplexedConnection, id: &str) -> Result<Value> {
    let mut read = cmd("GET");
    read.arg(format!("goalmill:answers:{id}"));
    let found = async || read.query_async::<Option<String>>(&mut client.clone()).await.ok().flatten();
    let text = until_some(SOON, found).await.with_context(|| format!("`{id}` is not answered"))?;
    Ok(serde_json::from_str(&text)?)
}

fn plan(text: &str) -> String {
    json!({"steps": [step("a", "echo", &[], json!({"text": text}))]}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_script_with_redis_cli_alone_submits_and_gets_results() -> Result<()> {
    let server = server().await?;
    let it = installation(&server).await?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/redis-only.sh");
    let redis = format!("redis-cli -p {} --user client --pass CHANGE-client --no-auth-warning", server.port());
    let mut run = Command::new("sh");
    run.arg(script).env("REDIS_CLI", redis).env("SECONDS_MAX", (END_MS / 1_000).to_string());
    let output = tokio::task::spawn_blocking(move || run.output()).await??;
    let (text, errors) = (String::from_utf8(output.stdout)?, String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(output.status.success(), "{text}{errors}");
    let lines: Vec<&str> = text.lines().collect();
    let [plan, goal, broken, wrong, nightly, again, refused] = lines[..] else { panic!("{text}{errors}") };
    assert_eq!(plan, r#"plan: completed, {"text":"hello"}"#);
    assert!(goal.starts_with("goal: completed, {"), "{goal}");
    assert!(broken.starts_with("broken: failed, {\"pay\":{") && broken.contains("no money"), "{broken}");
    assert!(wrong.starts_with("wrong: refused, {") && wrong.contains("UNKNOWN_DEPENDENCY"), "{wrong}");
    assert_eq!(nightly, "nightly: completed, {}");
    assert!(again.starts_with("again: refused, {") && again.contains("IDEMPOTENCY_KEY_REUSED"), "{again}");
    assert_eq!(refused, "refused for INVALID_PLAN: 1");
    it.stop().await;
    assert_eq!(refusals(&server).await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_has_outcome_outputs_and_failures_and_keys_of_large_ones() -> Result<()> {
    let server = server().await?;
    let it = installation(&server).await?;
    let client = connection(&server, "client").await?;
    // A document of another planner is converted, and the answer says so.
    let foreign = r#"{"plan_id": "p", "execution_strategy": "parallel", "subtasks": [{"task_id": "a", "agent_type": "echo", "status": "completed"}]}"#;
    let id = submit(&client, "goalmill:goals", &[("plan", foreign)]).await?;
    let ended = result(&client, &id).await?;
    let accepted = answer(&client, &id).await?;
    assert_eq!(
        (&accepted["status"], &accepted["warnings"][0]["code"]),
        (&json!("completed"), &json!("FORMAT_CONVERTED"))
    );
    assert_eq!(ended["status"], "completed");

    let large: Vec<Value> =
        (0..4).map(|n| step(&format!("s{n}"), "echo", &[], json!({"text": "x".repeat(30 << 10)}))).collect();
    let mut fails = step("fails", "fail", &[], json!({"class": "permanent", "message": "no"}));
    fails["on_failure"] = "continue".into();
    let steps: Vec<Value> = large.into_iter().chain([fails]).collect();
    let id = submit(&client, "goalmill:goals", &[("plan", &json!({"steps": steps}).to_string())]).await?;
    let ended = result(&client, &id).await?;
    assert_eq!(ended["status"], "partial", "{ended:#}");
    assert_eq!(ended["failures"]["fails"]["message"], "no", "{ended:#}");
    assert!(ended["final_output"]["text"].is_string() && ended.get("outputs").is_none());
    let key = ended["outputs_key"].as_str().context("they are large")?;
    let outputs: String = cmd("GET").arg(key).query_async(&mut client.clone()).await?;
    let outputs: Value = serde_json::from_str(&outputs)?;
    assert_eq!(outputs.as_object().map(serde_json::Map::len), Some(4));
    assert_eq!(outputs["s0"]["text"].as_str().map(str::len), Some(30 << 10));
    // The answer does not say for ever that the plan runs.
    let said = answer(&client, &id).await?;
    assert_eq!((&said["status"], &said["plan_id"]), (&json!("partial"), &ended["plan_id"]));
    let lives: i64 =
        cmd("PTTL").arg(format!("goalmill:results:{id}")).query_async(&mut server.connection().await?).await?;
    assert!((1..=24 * 3_600_000).contains(&lives), "{lives}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_id_with_other_content_is_refused_by_every_way_in() -> Result<()> {
    let server = server().await?;
    let it = installation(&server).await?;
    let client = connection(&server, "client").await?;
    let post = async |key: &str, body: &str| -> Result<(u16, Value)> {
        let request = it.http.post(it.url("/v1/plans")).header("Idempotency-Key", key);
        let sent = request.header("Content-Type", "application/json").body(body.to_owned()).send().await?;
        Ok((sent.status().as_u16(), sent.json().await?))
    };
    // By the stream first, then by HTTP with other spaces and another order of fields.
    submit(&client, "goalmill:goals", &[("id", "one"), ("plan", &plan("x"))]).await?;
    let ended = result(&client, "one").await?;
    let spaced = r#"{ "steps": [ {"inputs": {"text": "x"}, "agent_type": "echo", "dependencies": [], "id": "a"} ] }"#;
    let same = post("one", spaced).await?;
    assert_eq!((same.0, &same.1["plan_id"]), (202, &ended["plan_id"]), "{same:?}");
    let other = post("one", &plan("y")).await?;
    assert_eq!((other.0, &other.1["code"]), (409, &json!("IDEMPOTENCY_KEY_REUSED")));

    // By HTTP first, then by the stream, also in YAML.
    let mut held: Value = serde_json::from_str(&plan("x"))?;
    held["approve"] = json!(true);
    let (_, begun) = post("two", &held.to_string()).await?;
    let yaml = "approve: true\nsteps:\n- {id: a, agent_type: echo, dependencies: [], inputs: {text: x}}\n";
    let mut admin = server.connection().await?;
    assert_eq!(cmd("DEL").arg("goalmill:answers:two").query_async::<u64>(&mut admin).await?, 1);
    submit(&client, "goalmill:goals", &[("id", "two"), ("plan", yaml)]).await?;
    assert_eq!(answer(&client, "two").await?["plan_id"], begun["plan_id"]);
    for (active, id) in [(true, "two"), (false, "one")] {
        let other = submit(&client, "goalmill:goals", &[("id", id), ("plan", &plan("z"))]).await?;
        let problem = result(&client, &other).await?;
        assert_eq!(
            (&problem["status"], &problem["problem"]["status"]),
            (&json!("refused"), &json!(409)),
            "{problem:#}"
        );
        assert_eq!(answer(&client, &other).await?["code"], "IDEMPOTENCY_KEY_REUSED");
        let own = answer(&client, id).await?;
        assert_eq!(own["refused"]["entry"].as_str(), Some(other.as_str()), "active: {active}, {own:#}");
        // What is no plan at all leaves the answer of the plan alone, too.
        let bad = submit(&client, "goalmill:goals", &[("id", id), ("plan", "steps: [")]).await?;
        assert_eq!(result(&client, &bad).await?["problem"]["code"], "INVALID_PLAN");
        assert_eq!(answer(&client, id).await?["plan_id"], own["plan_id"]);
    }
    // A client of the stream gets the result of a plan that came by HTTP.
    let plan_id = begun["plan_id"].as_str().context("it is accepted")?;
    let (status, _) = it.post(&format!("/v1/plans/{plan_id}:approve"), &json!({})).await?;
    assert_eq!(status, 200);
    assert_eq!(result(&client, "two").await?["status"], "completed");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_submissions_are_answered_listed_and_may_be_corrected() -> Result<()> {
    let server = server().await?;
    let it = installation(&server).await?;
    let client = connection(&server, "client").await?;
    let bad: [(Pairs<'_>, &str); 6] = [
        (&[("id", "fix"), ("plan", "steps: [{id: a, agent_type: echo, depends_on: [b]}]")], "INVALID_PLAN"),
        (&[("id", "a b"), ("plan", "steps: []")], "INVALID_ENTRY"),
        (&[("goal", "x"), ("plan", "steps: []")], "INVALID_ENTRY"),
        (&[("hello", "world")], "UNSUPPORTED_TYPE"),
        (&[("goal", "  ")], "INVALID_GOAL"),
        (&[("source", &"s".repeat(2_000)), ("goal", "x")], "INVALID_ENTRY"),
    ];
    for (fields, code) in bad {
        let entry = submit(&client, "goalmill:goals", fields).await?;
        let id = if fields[0].1 == "fix" { "fix".to_owned() } else { entry.clone() };
        let refused = result(&client, &id).await?;
        assert_eq!((&refused["status"], &refused["problem"]["code"]), (&json!("refused"), &json!(code)), "{fields:?}");
        assert_eq!(answer(&client, &id).await?["code"], code);
    }
    let listed = it.get("/v1/refused-submissions").await?;
    let items = listed["items"].as_array().context("it is a list")?;
    assert_eq!(items.len(), bad.len(), "{listed:#}");
    let first = items.last().context("there are some")?;
    assert_eq!((&first["submission_id"], &first["code"]), (&json!("fix"), &json!("INVALID_PLAN")));
    assert!(first["excerpt"].as_str().is_some_and(|text| text.contains("agent_type: echo")), "{first:#}");
    assert_eq!(first["errors"][0]["pointer"], "/steps/0/depends_on/0");
    let mut list = goalmill_tests::dev::program();
    list.args(["dead", "list", "--submissions", "--server", &it.urls()[0]]);
    let output = tokio::task::spawn_blocking(move || list.output()).await??;
    let table = String::from_utf8(output.stdout)?;
    assert!(table.lines().any(|line| line.contains("fix") && line.contains("INVALID_PLAN")), "{table}");

    // The same id, corrected.
    let mut refused = result(&client, "fix").await?;
    submit(&client, "goalmill:goals", &[("id", "fix"), ("plan", &plan("x"))]).await?;
    let deadline = tokio::time::Instant::now() + Duration::from_millis(END_MS);
    while refused["status"] == "refused" && tokio::time::Instant::now() < deadline {
        refused = result(&client, "fix").await?;
    }
    assert_eq!(refused["status"], "completed", "{refused:#}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_refused_submissions_is_bounded() -> Result<()> {
    let server = server().await?;
    let it = installation(&server).await?;
    let client = connection(&server, "client").await?;
    let nonsense = "y".repeat(10_000);
    for _ in 0..12 {
        let mut some = redis::pipe();
        for _ in 0..100 {
            let mut fields = vec!["*"];
            ["type", "data", "source", "id"].iter().for_each(|name| fields.extend([name, nonsense.as_str()]));
            some.cmd("XADD").arg("goalmill:goals").arg(&fields).ignore();
        }
        some.query_async::<()>(&mut client.clone()).await?;
    }
    let last = submit(&client, "goalmill:goals", &[("hello", "world")]).await?;
    assert_eq!(result(&client, &last).await?["status"], "refused");
    let listed: StreamRangeReply =
        cmd("XRANGE").arg("goalmill:refused:default").arg("-").arg("+").query_async(&mut client.clone()).await?;
    assert_eq!(listed.ids.len(), 1_000);
    let newest = listed.ids.last().context("there are some")?;
    assert_eq!(newest.get::<String>("entry").as_deref(), Some(last.as_str()));
    // Answers and results of those that have left the list are gone, too.
    let mut admin = server.connection().await?;
    for kind in ["answers", "results"] {
        let stored: Vec<String> = cmd("KEYS").arg(format!("goalmill:{kind}:*")).query_async(&mut admin).await?;
        assert_eq!(stored.len(), 1_000, "{kind}");
    }
    let bytes: u64 = cmd("MEMORY")
        .arg("USAGE")
        .arg("goalmill:refused:default")
        .arg("SAMPLES")
        .arg("0")
        .query_async(&mut admin)
        .await?;
    assert!(bytes < 8 << 20, "{bytes}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_of_a_namespace_needs_no_more_than_its_stream() -> Result<()> {
    let server = server().await?;
    let it = installation_of(&server, "research").await?;
    let client = connection(&server, "client-research").await?;
    let id = submit(&client, "goalmill:goals:research", &[("plan", &plan("x"))]).await?;
    let ended = result(&client, &format!("research/{id}")).await?;
    assert_eq!((&ended["status"], &ended["final_output"]["text"]), (&json!("completed"), &json!("x")), "{ended:#}");
    let bad = submit(&client, "goalmill:goals:research", &[("plan", "steps: 7")]).await?;
    assert_eq!(result(&client, &format!("research/{bad}")).await?["status"], "refused");
    let listed: StreamRangeReply =
        cmd("XRANGE").arg("goalmill:refused:research").arg("-").arg("+").query_async(&mut client.clone()).await?;
    assert_eq!(listed.ids.len(), 1);
    assert_eq!(listed.ids[0].get::<String>("entry").as_deref(), Some(bad.as_str()));
    for (namespace, seen) in [(None, 1), (Some("research"), 1), (Some("default"), 0)] {
        let mut request = it.http.get(it.url("/v1/refused-submissions"));
        if let Some(namespace) = namespace {
            request = request.header("Goalmill-Namespace", namespace);
        }
        let listed: Value = request.send().await?.json().await?;
        let items = listed["items"].as_array().context("it is a list")?;
        assert_eq!(items.len(), seen, "{namespace:?}: {listed:#}");
        assert!(items.iter().all(|item| item["namespace"] == "research"), "{listed:#}");
    }
    it.stop().await;
    assert_eq!(refusals(&server).await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_has_expired_is_stored_again_for_a_repeated_submission() -> Result<()> {
    let server = server().await?;
    let it = installation(&server).await?;
    let client = connection(&server, "client").await?;
    submit(&client, "goalmill:goals", &[("id", "late"), ("plan", &plan("x"))]).await?;
    let first = result(&client, "late").await?;
    let mut admin = server.connection().await?;
    let gone: u64 =
        cmd("DEL").arg("goalmill:results:late").arg("goalmill:answers:late").query_async(&mut admin).await?;
    assert_eq!(gone, 2);
    submit(&client, "goalmill:goals", &[("id", "late"), ("plan", &plan("x"))]).await?;
    assert_eq!(result(&client, "late").await?, first);
    it.stop().await;
    Ok(())
}

//! Finished plans are archived, and read like those that run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use goalmill_archive::{
    ArchiveBatch, ArchiveError, ArchiveStore, EventSearch, PostgresArchive, PostgresLimits, SqliteArchive,
};
use goalmill_broker::embedded;
use goalmill_common::clock::Clock;
use goalmill_common::config::{ArchiveKind, Settings};
use goalmill_common::id::{PlanId, ShardId};
use goalmill_postgres::test_server::PostgresServer;
use goalmill_tests::dev::{Dev, program};
use goalmill_tests::installation::{Installation, read_log, settings, step};
use goalmill_tests::proxy::Proxy;
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A plan whose second step says this word.
fn plan(word: &str) -> Value {
    let steps =
        [step("a", "echo", &[], json!({})), step("b", "echo", &["a"], json!({"note": format!("about {word}")}))];
    json!({"name": format!("a plan of {word}"), "steps": steps})
}

/// An installation that archives to the file, and lets plans expire `retention_ms` after their end.
async fn installation(file: &Path, retention_ms: u64) -> Result<Installation> {
    Installation::start(embedded::open(None, Clock::system())?, archived(file, retention_ms)).await
}

pub fn archived(file: &Path, retention_ms: u64) -> Settings {
    let mut settings = settings();
    settings.archive.store = ArchiveKind::Sqlite;
    settings.archive.path = file.display().to_string();
    settings.archive.interval_ms = 50;
    settings.scheduler.retention_ms = retention_ms;
    settings.scheduler.trim_ms = 100;
    settings
}

fn place() -> Result<(TempDir, PathBuf)> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("archive.sqlite");
    Ok((dir, file))
}

async fn run(it: &Installation, word: &str) -> Result<PlanId> {
    let id = it.submit(&plan(word)).await?;
    has_completed(it, &id).await;
    Ok(id)
}

/// Waits for the end as the API shows it: the store may have let the plan go.
async fn has_completed(it: &Installation, plan: &PlanId) {
    until(SOON, async || {
        let shown = it.get(&format!("/v1/plans/{plan}")).await.expect("the plan is there");
        shown["status"] == "completed"
    })
    .await;
}

async fn has_left_the_store(it: &Installation, plan: &PlanId) {
    until(SOON, async || it.broker.summary(plan).await.expect("the store answers").is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rows_of_a_plan_are_its_log_and_it_expires_after_that() -> Result<()> {
    let (_dir, file) = place()?;
    let it = installation(&file, 3_600_000).await?;
    let plans = [run(&it, "hotels").await?, run(&it, "trains").await?];
    let store = SqliteArchive::open(&file).await?;
    until(SOON, async || store.archived(&plans).await.expect("the archive answers").len() == plans.len()).await;
    for plan in &plans {
        let log = read_log(it.broker.as_ref(), plan).await?;
        let rows = store.log(plan, 0, 1_000).await?;
        let lines: Vec<String> = log.iter().map(goalmill_common::event::Record::to_line).collect();
        assert_eq!(rows.into_iter().map(|row| row.line).collect::<Vec<_>>(), lines);
        assert_eq!(store.summary(plan).await?, it.broker.summary(plan).await?);
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_plan_is_read_like_one_that_runs() -> Result<()> {
    let (_dir, file) = place()?;
    let it = installation(&file, 0).await?;
    let gone = run(&it, "hotels").await?;
    has_left_the_store(&it, &gone).await;
    let running = it.submit(&json!({"steps": [step("a", "nobody", &[], json!({}))]})).await?;

    let listed = it.get("/v1/plans?limit=1").await?;
    assert_eq!(listed["items"][0]["plan_id"], running.as_str());
    let next = listed["next"].as_str().expect("there is another page");
    let listed = it.get(&format!("/v1/plans?limit=9&cursor={next}")).await?;
    assert_eq!(listed["items"][0]["plan_id"], gone.as_str());
    assert_eq!(listed["items"][0]["status"], "completed");
    assert_eq!(it.get("/v1/plans?status=completed").await?["items"].as_array().map(Vec::len), Some(1));

    let path = |rest: &str| format!("/v1/plans/{gone}{rest}");
    assert_eq!(it.get(&path("")).await?["steps"][1]["outputs"]["note"], "about hotels");
    assert_eq!(it.get(&path("/results")).await?["results"]["b"]["note"], "about hotels");
    assert_eq!(it.get(&path("/graph")).await?["steps"][1]["id"], "b");
    assert_eq!(it.get(&path("/explain")).await?["status"], "completed");
    assert_eq!(it.get(&path("/steps/b")).await?["status"], "completed");
    let events = it.get(&path("/events")).await?;
    let count = events["items"].as_array().map_or(0, Vec::len);
    assert_eq!(events["items"][count - 1]["type"], "plan_completed");
    assert_eq!(events["items"][count - 1]["seq"], count);
    let streamed = it.http.get(it.url(&path("/events"))).header("accept", "text/event-stream").send().await?;
    assert!(streamed.text().await?.contains("event: plan_completed"), "the stream ends with the plan");

    let (status, refused) = it.post(&path(":pause"), &json!({})).await?;
    assert_eq!((status, &refused["code"]), (409, &json!("PLAN_FINAL")));
    let (status, forked) = it.post(&path(":fork"), &json!({"step": "b"})).await?;
    assert_eq!(status, 202, "{forked}");
    assert_eq!(it.get("/v1/plans/p0-none").await?["code"], "PLAN_NOT_FOUND");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_plan_says_from_which_stored_plan_it_came() -> Result<()> {
    let (_dir, file) = place()?;
    let it = installation(&file, 0).await?;
    let put = async |name: &str, plan: Value| it.post(&format!("/v1/stored-plans/{name}/versions"), &plan).await;
    for word in ["hotels", "trains"] {
        assert_eq!(put("trip", plan(word)).await?.0, 201);
    }
    assert_eq!(put("tour", json!({"steps": [{"id": "go", "use": "trip@1"}]})).await?.0, 201);
    let (status, accepted) = it.post("/v1/stored-plans/tour:run", &json!({})).await?;
    assert_eq!(status, 202, "{accepted:#}");
    let tour = PlanId::from(accepted["plan_id"].as_str().unwrap_or_default());
    has_completed(&it, &tour).await;
    let inner = it.get(&format!("/v1/plans/{tour}")).await?["steps"][0]["sub_plan"].clone();
    let inner = PlanId::from(inner.as_str().unwrap_or_default());
    for (plan, from) in [(&tour, "tour@1"), (&inner, "trip@1")] {
        has_left_the_store(&it, plan).await;
        let view = it.get(&format!("/v1/plans/{plan}")).await?;
        assert_eq!(view["goal"]["metadata"]["stored_plan"], from, "{view:#}");
        let conditions = format!("$.goal.metadata.stored_plan == \"{from}\"");
        let mut url = reqwest::Url::parse(&it.url("/v1/logs"))?;
        url.query_pairs_mut().append_pair("types", "goal_accepted").append_pair("where", &conditions);
        let found: Value = it.http.get(url).send().await?.json().await?;
        assert_eq!(places(&found), [(plan.to_string(), 1)], "{found:#}");
    }
    assert_eq!(it.get(&format!("/v1/plans/{tour}/graph")).await?["steps"][0]["use"], "trip@1");
    assert_eq!(it.get("/v1/stored-plans").await?["items"].as_array().map(Vec::len), Some(2), "they are no part of it");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_both_are_searched_together_and_pages_meet() -> Result<()> {
    let (_dir, file) = place()?;
    let it = installation(&file, 0).await?;
    let words = ["hotels", "trains", "hotels"];
    let mut ids = Vec::new();
    for word in words {
        ids.push(run(&it, word).await?);
        has_left_the_store(&it, &ids[ids.len() - 1]).await;
    }
    let waiting = json!({"name": "hotels", "steps": [step("a", "nobody", &[], json!({}))]});
    ids.push(it.submit(&waiting).await?);
    until(SOON, async || found(&it, "types=step_queued").await.iter().any(|(plan, _)| *plan == ids[3].as_str())).await;

    let all = found(&it, "limit=1000").await;
    let mut paged = Vec::new();
    let mut cursor = String::new();
    loop {
        let page: Value = it.get(&format!("/v1/logs?limit=7{cursor}")).await?;
        paged.splice(0..0, places(&page));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    // Events of the store that do not fit on the first page are not given again.
    let archived = |events: &[(String, u64)]| -> Vec<(String, u64)> {
        events.iter().filter(|(plan, _)| *plan != ids[3].as_str()).cloned().collect()
    };
    assert_eq!(archived(&paged), archived(&all), "pages skip or repeat");
    assert!(ids.iter().all(|id| all.iter().any(|(plan, _)| plan == id.as_str())), "{all:?}");

    let hotels = found(&it, "text=HOTELS&types=goal_accepted,plan_created,step_completed").await;
    let plans: Vec<&str> = hotels.iter().map(|(plan, _)| plan.as_str()).collect();
    assert!([0, 2, 3].iter().all(|place| plans.contains(&ids[*place].as_str())), "{plans:?}");
    assert!(!plans.contains(&ids[1].as_str()), "{plans:?}");
    let of_step = found(&it, &format!("step=b&plan={}", ids[0])).await;
    assert!(!of_step.is_empty() && of_step.len() < all.len());
    assert_eq!(found(&it, "text=about%20hotels&types=plan_failed").await, []);
    assert_eq!(it.get("/v1/logs?text=%20-").await?["errors"][0]["pointer"], "/text");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn events_and_plans_are_found_by_json_paths_live_and_archived() -> Result<()> {
    let (_dir, file) = place()?;
    let it = installation(&file, 0).await?;
    let run_city = async |city: &str, price: u32| -> Result<PlanId> {
        let steps = [step("a", "echo", &[], json!({"city": city, "rooms": [{"price": price}]}))];
        let id = it.submit(&json!({"name": city, "steps": steps})).await?;
        has_completed(&it, &id).await;
        Ok(id)
    };
    let (zurich, bern) = (run_city("Zürich (CH)", 120).await?, run_city("Bern", 90).await?);
    has_left_the_store(&it, &zurich).await;
    has_left_the_store(&it, &bern).await;
    let waiting =
        json!({"steps": [step("a", "nobody", &[], json!({"city": "Zürich (CH)", "rooms": [{"price": 150}]}))]});
    let live = it.submit(&waiting).await?;
    until(SOON, async || found(&it, &format!("plan={live}&types=step_queued")).await.len() == 1).await;
    let plans = async |conditions: &str| -> Result<Vec<String>> {
        let query = [("types", "step_queued"), ("where", conditions)];
        let url = reqwest::Url::parse_with_params(&it.url("/v1/logs"), query)?;
        let page: Value = it.http.get(url).send().await?.json().await?;
        Ok(places(&page).into_iter().map(|(plan, _)| plan).collect())
    };
    let both = [zurich.to_string(), live.to_string()];
    assert_eq!(plans(r#"$.inputs.city == "Zürich (CH)""#).await?, both, "of both stores");
    assert_eq!(plans("$.inputs.rooms[*].price == 90").await?, [bern.to_string()]);
    assert_eq!(plans("$.inputs.rooms[0].price > 100 && $.inputs.city != \"x\"").await?, both);
    assert_eq!(plans("$.inputs.price").await?, [""; 0]);
    let refused = it.get("/v1/logs?where=city").await?;
    assert_eq!((&refused["status"], &refused["errors"][0]["pointer"]), (&json!(400), &json!("/where")));

    let listed = async |conditions: &str| -> Result<Vec<String>> {
        let url = reqwest::Url::parse_with_params(&it.url("/v1/plans"), [("where", conditions)])?;
        let page: Value = it.http.get(url).send().await?.json().await?;
        let items = page["items"].as_array().into_iter().flatten();
        Ok(items.filter_map(|item| item["plan_id"].as_str().map(str::to_owned)).collect())
    };
    assert_eq!(listed("$.counts.completed == 1 && $.name == \"Bern\"").await?, [bern.to_string()]);
    assert_eq!(listed("$.counts.completed == 0").await?, [live.to_string()]);
    it.stop().await;
    Ok(())
}

async fn found(it: &Installation, query: &str) -> Vec<(String, u64)> {
    places(&it.get(&format!("/v1/logs?{query}")).await.expect("the search is answered"))
}

/// The plans and numbers of the events on a page.
fn places(page: &Value) -> Vec<(String, u64)> {
    let items = page["items"].as_array().unwrap_or_else(|| panic!("no page: {page:#}"));
    let place = |item: &Value| Some((item["plan_id"].as_str()?.to_owned(), item["seq"].as_u64()?));
    items.iter().map(|item| place(item).expect("an event has a plan and a number")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_go_on_while_the_archive_is_locked_and_follow_when_it_is_free() -> Result<()> {
    let (_dir, file) = place()?;
    let store = SqliteArchive::open(&file).await?;
    let lock = rusqlite::Connection::open(&file)?;
    let mut settings = settings();
    settings.archive.store = ArchiveKind::Sqlite;
    settings.archive.path = file.display().to_string();
    settings.archive.interval_ms = 50;
    settings.scheduler.retention_ms = 0;
    settings.metrics.listen = "127.0.0.1:0".into();
    let it = Installation::start(embedded::open(None, Clock::system())?, settings).await?;
    lock.execute_batch("BEGIN IMMEDIATE")?;
    let id = run(&it, "hotels").await?;
    let metrics = it.schedulers[0].metrics().expect("the settings name an address");
    until(SOON, async || {
        let answer = it.http.get(format!("http://{metrics}/metrics")).send().await.expect("the metrics are there");
        let text = answer.text().await.expect("they are a text");
        let errors = text.lines().find_map(|line| line.strip_prefix("goalmill_archive_errors_total "));
        errors.is_some_and(|count| count != "0")
    })
    .await;
    assert!(store.archived(std::slice::from_ref(&id)).await?.is_empty());
    assert!(!it.broker.summary(&id).await?.is_empty(), "it stays in the store until it is archived");
    let other = run(&it, "trains").await?;
    lock.execute_batch("COMMIT")?;
    has_left_the_store(&it, &id).await;
    has_left_the_store(&it, &other).await;
    assert_eq!(store.search(&EventSearch { words: vec!["trains".into()], ..Default::default() }, 1).await?.len(), 1);
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_dev_is_there_after_a_restart() -> Result<()> {
    let data = tempfile::tempdir()?;
    let arguments = ["--data-dir", data.path().to_str().expect("a temporary directory has a plain name")];
    let settings = "[scheduler]\nretention_ms = 0\ntrim_ms = 100\n";
    let mut dev = Dev::start(&arguments, settings).await?;
    let file = dev.file("plan.json");
    std::fs::write(&file, plan("hummingbirds").to_string())?;
    let id = dev.says(&["run", file.to_str().expect("it has a plain name"), "--wait", "-o", "name"], 0)?;
    let id = PlanId::from(id.trim());
    dev.restart(&arguments).await?;
    let store = SqliteArchive::open(&data.path().join("archive.sqlite")).await?;
    until(SOON, async || !store.summary(&id).await.expect("the archive answers").is_empty()).await;
    dev.restart(&arguments).await?;
    let logs = dev.says(&["logs", "--text", "Hummingbirds", "-o", "jsonl"], 0)?;
    assert!(logs.contains("\"type\":\"step_completed\"") && logs.contains(id.as_str()), "{logs}");
    assert_eq!(dev.says(&["logs", "--text", "kingfishers", "-o", "jsonl"], 0)?, "");
    assert!(dev.says(&["plan", "list"], 0)?.contains(id.as_str()));
    assert!(dev.says(&["explain", "@latest"], 0)?.contains("completed"));
    assert!(dev.says(&["plan", "get", "@latest", "-o", "json"], 0)?.contains("about hummingbirds"));
    assert!(dev.says(&["plan", "results", "@latest", "-o", "json"], 0)?.contains("about hummingbirds"));
    assert!(dev.says(&["plan", "export", "@latest"], 0)?.contains("a plan of hummingbirds"));
    dev.says(&["plan", "revisions", "@latest"], 0)?;
    let events = dev.file("events.jsonl");
    std::fs::write(&events, dev.says(&["events", id.as_str(), "-o", "jsonl"], 0)?)?;
    dev.says(&["replay", events.to_str().expect("it has a plain name")], 0)?;
    Ok(())
}

/// The key of the reference that a value is.
fn reference(value: &Value) -> &str {
    value["$blob"].as_str().unwrap_or_else(|| panic!("no reference: {value}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn large_outputs_are_archived_and_given_whole() -> Result<()> {
    let (dir, file) = place()?;
    let mut settings = archived(&file, 0);
    settings.limits.inline_bytes_max = 2_000;
    let it = Installation::start(embedded::open(None, Clock::system())?, settings).await?;
    let note = format!("large {}", "Zürich ".repeat(1_000));
    let steps = [
        step("a", "echo", &[], json!({"note": note, "n": 7})),
        step("b", "echo", &["a"], json!({"length": "{{ steps.a.outputs.n }}", "note": "{{ steps.a.outputs.note }}"})),
    ];
    let plan = it.submit(&json!({"steps": steps})).await?;
    has_completed(&it, &plan).await;
    has_left_the_store(&it, &plan).await;
    let path = |rest: &str| format!("/v1/plans/{plan}{rest}");
    let results = it.get(&path("/results")).await?;
    let keys = ["a", "b"].map(|id| reference(&results["results"][id]["note"]).to_owned());
    assert_eq!(results["results"]["a"]["n"], 7);
    for key in &keys {
        it.broker.remove_blob(key).await?;
        assert!(it.broker.get_blob(key).await?.is_none());
    }
    let whole = it.get(&path("/results?whole=true")).await?;
    for id in ["a", "b"] {
        assert_eq!(whole["results"][id]["note"], note, "{id}");
        assert_eq!(it.get(&path(&format!("/steps/{id}?whole=true"))).await?["outputs"]["note"], note, "{id}");
    }
    assert_eq!(whole["final_output"]["note"], note);
    assert_eq!(it.get(&path("?whole=true")).await?["steps"][0]["outputs"]["note"], note);
    assert!(it.get(&path("?whole=false")).await?["steps"][0]["outputs"]["note"]["$blob"].is_string());
    assert_eq!(it.get(&path("/results?whole=yes")).await?["errors"][0]["pointer"], "/whole");
    // The inputs of attempts are in the log, by reference.
    let events = it.get(&path("/events?types=step_queued")).await?;
    let store = SqliteArchive::open(&file).await?;
    let inputs = reference(&events["items"][0]["data"]["inputs"]);
    assert!(store.blob(&plan, inputs).await?.expect("they are archived").contains("large Zürich"));
    let events = it.get(&path("/events?types=step_completed&whole=true")).await?;
    assert_eq!(events["items"][0]["data"]["outputs"]["note"], note, "{events}");

    // A fork works with results that only the archive has.
    let (status, forked) = it.post(&path(":fork"), &json!({"step": "b"})).await?;
    assert_eq!(status, 202, "{forked}");
    let fork = PlanId::from(forked["plan_id"].as_str().expect("it has an id"));
    has_completed(&it, &fork).await;
    has_left_the_store(&it, &fork).await;
    it.stop().await;

    // What is exported and imported has its payloads.
    let export = dir.path().join("plans.jsonl").display().to_string();
    archive(&file, &["export", &export], 0)?;
    archive(&file, &["prune", "--older-than", "0s", "--yes"], 0)?;
    assert_eq!(store.blob(&plan, &keys[0]).await?, None);
    archive(&file, &["import", &export], 0)?;
    assert_eq!(store.blob(&plan, &keys[0]).await?.map(|text| text.len()), Some(note.len() + 2));
    let broken = std::fs::read_to_string(&export)?.replacen("\"content\":\"", "\"content\":\"{", 1);
    std::fs::write(&export, broken)?;
    assert!(archive(&file, &["import", &export], 8)?.contains("is not JSON"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_over_the_limit_of_a_plan_stay_references() -> Result<()> {
    let (_dir, file) = place()?;
    let mut settings = archived(&file, 0);
    settings.limits.inline_bytes_max = 2_000;
    settings.archive.plan_payloads_bytes_max = 10_000;
    settings.record.inputs = false;
    let it = Installation::start(embedded::open(None, Clock::system())?, settings).await?;
    let steps = [
        step("a", "echo", &[], json!({"x": "x".repeat(6_000)})),
        step("b", "echo", &["a"], json!({"y": "y".repeat(6_000)})),
    ];
    let plan = it.submit(&json!({"steps": steps})).await?;
    has_completed(&it, &plan).await;
    has_left_the_store(&it, &plan).await;
    let results = it.get(&format!("/v1/plans/{plan}/results")).await?;
    let (first, second) = (&results["results"]["a"]["x"], &results["results"]["b"]["y"]);
    let store = SqliteArchive::open(&file).await?;
    assert!(store.blob(&plan, reference(first)).await?.is_some());
    assert!(store.blob(&plan, reference(second)).await?.is_none());
    it.broker.remove_blob(reference(second)).await?;
    let whole = it.get(&format!("/v1/plans/{plan}/results?whole=true")).await?;
    assert!(whole["results"]["a"]["x"].is_string() && whole["results"]["b"]["y"]["$blob"].is_string(), "{whole:#}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_leave_the_archive_when_the_time_of_their_namespace_is_over() -> Result<()> {
    let (_dir, file) = place()?;
    let submit = async |it: &Installation, namespace: &str| -> Result<PlanId> {
        let request = it.http.post(it.url("/v1/plans")).header("Goalmill-Namespace", namespace).json(&plan("hotels"));
        let accepted: Value = request.send().await?.json().await?;
        let id = PlanId::from(accepted["plan_id"].as_str().expect("it is accepted"));
        has_completed(it, &id).await;
        has_left_the_store(it, &id).await;
        Ok(id)
    };
    let mut settings = archived(&file, 0);
    let it = Installation::start(embedded::open(None, Clock::system())?, settings.clone()).await?;
    let kept = [submit(&it, "law").await?, submit(&it, "research").await?, submit(&it, "default").await?];
    it.stop().await;
    let store = SqliteArchive::open(&file).await?;
    assert_eq!(store.archived(&kept).await?.len(), 3, "by default all plans are kept");

    let times = [("law", 0), ("research", 3_600_000), ("*", 1)];
    settings.archive.retention_ms = times.map(|(name, time_ms)| (name.to_owned(), time_ms)).into();
    settings.archive.retention_interval_ms = 50;
    let it = Installation::start(embedded::open(None, Clock::system())?, settings).await?;
    until(SOON, async || store.archived(&kept).await.expect("the archive answers").len() == 2).await;
    let later = submit(&it, "other").await?;
    until(SOON, async || store.summary(&later).await.expect("the archive answers").is_empty()).await;
    let left: Vec<PlanId> = store.archived(&kept).await?.into_keys().collect();
    assert!(left.contains(&kept[0]) && left.contains(&kept[1]), "{left:?}");
    it.stop().await;
    Ok(())
}

/// Output of `goalmill archive` with these settings, which must end with `code`.
fn archive(file: &Path, arguments: &[&str], code: i32) -> Result<String> {
    let mut command = program();
    command.env("GOALMILL__ARCHIVE__STORE", "sqlite").env("GOALMILL__ARCHIVE__PATH", file);
    let output = command.arg("archive").args(arguments).output()?;
    let text = String::from_utf8(output.stdout)? + &String::from_utf8(output.stderr)?;
    anyhow::ensure!(output.status.code() == Some(code), "{arguments:?} ended with {}: {text}", output.status);
    Ok(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_are_exported_pruned_and_imported_unchanged() -> Result<()> {
    let (dir, file) = place()?;
    let it = installation(&file, 0).await?;
    let plans = [run(&it, "hotels").await?, run(&it, "trains").await?];
    let store = SqliteArchive::open(&file).await?;
    until(SOON, async || store.archived(&plans).await.expect("the archive answers").len() == plans.len()).await;
    it.stop().await;
    let whole =
        async |plan: &PlanId| -> Result<_> { Ok((store.find_archived(plan).await?, store.log(plan, 0, 1_000).await?)) };
    let before = [whole(&plans[0]).await?, whole(&plans[1]).await?];
    assert!(before.iter().all(|(row, log)| row.is_some() && !log.is_empty()));

    let name = |name: &str| dir.path().join(name).display().to_string();
    let export = name("plans.jsonl");
    archive(&file, &["export", &export], 0)?;
    assert!(archive(&file, &["export", &export], 8)?.contains("cannot be written"), "no file is overwritten");
    let text = std::fs::read_to_string(&export)?;
    let lines: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    assert_eq!(lines.iter().filter(|line| line["plan"].is_object()).count(), 2);

    assert!(archive(&file, &["prune", "--older-than", "1h", "--yes"], 0)?.starts_with("0 plans"));
    assert!(
        archive(&file, &["prune", "--older-than", "0s", "--namespace", "other", "--yes"], 0)?.starts_with("0 plans")
    );
    assert!(archive(&file, &["prune", "--older-than", "0s", "--dry-run"], 0)?.starts_with("2 plans"));
    assert!(archive(&file, &["prune", "--older-than", "0s", "--yes"], 0)?.starts_with("2 plans"));
    assert_eq!(store.archived(&plans).await?.len(), 0);
    assert_eq!(store.search(&EventSearch::default(), 9).await?, []);

    let cut = name("cut.jsonl");
    std::fs::write(&cut, text.trim_end().rsplit_once('\n').expect("there are lines").0)?;
    assert!(archive(&file, &["import", &cut], 8)?.contains("ends in plan"));
    assert_eq!(store.archived(&plans).await?.len(), 1, "a plan that is not whole is not archived");
    std::fs::write(&cut, "{\"plan\": 7}\n")?;
    assert!(archive(&file, &["import", &cut], 8)?.contains("line 1"));
    archive(&file, &["import", &export], 0)?;
    archive(&file, &["import", &export], 0)?;
    for (plan, before) in plans.iter().zip(before) {
        assert_eq!(whole(plan).await?, before);
    }
    let none = program().args(["archive", "prune", "--older-than", "1h"]).output()?;
    assert_eq!(none.status.code(), Some(8));
    Ok(())
}

/// The machine of the database acknowledges what is sent, so the connection looks sound.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_falls_silent_holds_no_call_for_ever_and_takes_the_next_ones() -> Result<()> {
    let Some(server) = PostgresServer::start().await else { return Ok(()) };
    let proxy = Proxy::start(server.port()).await?;
    let limits = PostgresLimits { connect: Duration::from_secs(3), answer: Duration::from_secs(3) };
    let store = PostgresArchive::open(&server.url_through(proxy.port()), "`URL`", limits).await?;
    let shard = ShardId(0);
    let batch = |position_ms| ArchiveBatch { shard, parts: Vec::new(), position_ms };
    store.append(&batch(1)).await?;
    let opened = proxy.connections();

    let is_silent = |error: ArchiveError| matches!(error, ArchiveError::Unavailable(why) if why.contains("within"));
    proxy.black_hole();
    let asked = tokio::time::timeout(SOON, store.position(shard)).await?;
    assert!(asked.is_err_and(is_silent), "a query that is not answered");
    let asked = tokio::time::timeout(SOON, store.position(shard)).await?;
    assert!(asked.is_err_and(is_silent), "a connection that is not answered");
    proxy.heal();
    until(SOON, async || store.position(shard).await.is_ok_and(|position| position == 1)).await;
    assert!(proxy.connections() > opened, "the silent connection is given up");

    proxy.hold_at("COMMIT", false);
    let asked = tokio::time::timeout(SOON, store.append(&batch(2))).await?;
    assert!(asked.is_err_and(is_silent), "a commit that is not answered");
    proxy.heal();
    until(SOON, async || store.append(&batch(3)).await.is_ok()).await;
    assert_eq!(store.position(shard).await?, 3);
    Ok(())
}

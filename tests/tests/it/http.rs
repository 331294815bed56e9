//! Features of HTTP: compression, entity tags, preferences, methods of an address.

use std::time::Duration;

use anyhow::Result;
use goalmill_tests::installation::{Installation, one_step_plan, step};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_compressed_on_request_and_streams_never() -> Result<()> {
    let it = Installation::embedded().await?;
    let id = it.submit(&one_step_plan("echo")).await?;
    it.await_end(&id, LIMIT).await?;
    let plain = it.http.get(it.url("/openapi.json")).send().await?;
    assert!(!plain.headers().contains_key("content-encoding"));
    let whole = plain.bytes().await?;
    let packed = it.http.get(it.url("/openapi.json")).header("Accept-Encoding", "gzip").send().await?;
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    assert_eq!(packed.headers()["vary"], "accept-encoding");
    let packed = packed.bytes().await?;
    assert_eq!(packed[..2], [0x1f, 0x8b]);
    assert!(packed.len() * 4 < whole.len(), "{} of {} bytes", packed.len(), whole.len());

    let small = it.http.get(it.url("/livez")).header("Accept-Encoding", "gzip").send().await?;
    assert!(!small.headers().contains_key("content-encoding"), "a short answer is sent as it is");
    let events = it.http.get(it.url(&format!("/v1/plans/{id}/events")));
    let stream = events.header("Accept-Encoding", "gzip").header("Accept", "text/event-stream").send().await?;
    assert!(!stream.headers().contains_key("content-encoding"));
    assert!(stream.text().await?.contains("event: plan_completed"));
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_has_not_changed_is_not_sent_again() -> Result<()> {
    let it = Installation::embedded().await?;
    let gate = json!({"id": "gate", "agent_type": "echo", "approve": {}});
    let id = it.submit(&json!({"steps": [gate]})).await?;
    let waits = format!("/v1/plans/{id}");
    goalmill_tests::wait::until(LIMIT, async || {
        it.get(&waits).await.is_ok_and(|plan| plan["steps"][0]["status"] == "awaiting_approval")
    })
    .await;
    for path in ["", "/graph", "/results"] {
        let path = format!("/v1/plans/{id}{path}");
        let first = it.http.get(it.url(&path)).send().await?;
        let tag = first.headers()["etag"].to_str()?.to_owned();
        let ask = async |tag: &str| it.http.get(it.url(&path)).header("If-None-Match", tag).send().await;
        // The summary may come a moment after the event.
        goalmill_tests::wait::until(LIMIT, async || {
            ask(&tag).await.is_ok_and(|answer| answer.status() == StatusCode::NOT_MODIFIED)
        })
        .await;
        let same = ask(&format!("\"x\", {tag}")).await?;
        assert_eq!((same.status(), same.headers()["etag"].to_str()?), (StatusCode::NOT_MODIFIED, tag.as_str()));
        assert_eq!(same.bytes().await?.len(), 0);
        assert_eq!(ask("W/\"0\"").await?.status(), StatusCode::OK);
    }
    let before = it.http.get(it.url(&waits)).send().await?.headers()["etag"].clone();
    it.post(&format!("/v1/plans/{id}/steps/gate:approve"), &json!({})).await?;
    it.await_end(&id, LIMIT).await?;
    let after = it.http.get(it.url(&waits)).header("If-None-Match", before).send().await?;
    assert_eq!(after.status(), StatusCode::OK);
    assert_eq!(after.json::<Value>().await?["status"], "completed");
    let absent = it.http.get(it.url("/v1/plans/p0-0000000000000000")).header("If-None-Match", "*").send().await?;
    assert_eq!(absent.status(), StatusCode::NOT_FOUND);
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_waits_for_its_end_if_the_client_prefers_that() -> Result<()> {
    let it = Installation::embedded().await?;
    let submit = |plan: Value, wait: &'static str| it.http.post(it.url("/v1/plans")).header("Prefer", wait).json(&plan);
    let done = submit(one_step_plan("echo"), "wait=60").send().await?;
    assert_eq!((done.status(), done.headers()["preference-applied"].to_str()?), (StatusCode::OK, "wait=60"));
    let done: Value = done.json().await?;
    assert_eq!(done["status"], "completed");
    let plan = it.get(&format!("/v1/plans/{}", done["plan_id"].as_str().expect("it has an id"))).await?;
    assert_eq!(plan["status"], "completed");

    let open = submit(one_step_plan("nobody"), "wait=1").send().await?;
    assert_eq!(open.status(), StatusCode::ACCEPTED);
    assert!(open.headers().contains_key("location"));
    let key = submit(one_step_plan("echo"), "wait=60").header("Idempotency-Key", "once");
    assert_eq!(key.send().await?.status(), StatusCode::OK);
    let again = submit(one_step_plan("echo"), "wait=60").header("Idempotency-Key", "once").send().await?;
    assert_eq!(again.status(), StatusCode::OK);
    let plain = it.http.post(it.url("/v1/plans")).json(&one_step_plan("echo")).send().await?;
    assert_eq!(plain.status(), StatusCode::ACCEPTED);
    assert!(!plain.headers().contains_key("preference-applied"));
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn words_find_plans_by_name_and_by_goal() -> Result<()> {
    let it = Installation::embedded().await?;
    let named = |name: &str| json!({"name": name, "steps": [step("a", "nobody", &[], json!({}))]});
    let rome = it.submit(&named("A hotel in Rome")).await?;
    let paris = it.submit(&named("A hotel in Paris")).await?;
    let (_, goal) =
        it.post("/v1/goals", &json!({"description": "Plan a 3-day trip to Paris with a very special lamp"})).await?;
    let goal = goal["plan_id"].as_str().expect("it has an id");
    // Its plan has a name of its own.
    goalmill_tests::wait::until(LIMIT, async || {
        it.get(&format!("/v1/plans/{goal}")).await.is_ok_and(|plan| plan["counts"]["total"].as_u64() > Some(0))
    })
    .await;
    let find = async |q: &str| -> Result<Vec<String>> {
        let page = it.get(&format!("/v1/plans?q={q}")).await?;
        let ids = page["items"].as_array().into_iter().flatten().filter_map(|plan| plan["plan_id"].as_str());
        let mut ids: Vec<String> = ids.map(Into::into).collect();
        ids.sort();
        Ok(ids)
    };
    let sorted = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };
    assert_eq!(find("hotel").await?, sorted(vec![rome.to_string(), paris.to_string()]));
    assert_eq!(find("PARIS").await?, sorted(vec![paris.to_string(), goal.to_owned()]));
    assert_eq!(find("special+lamp").await?, [goal]);
    assert_eq!(find(rome.as_str()).await?, [rome.to_string()]);
    assert_eq!(find("nowhere").await?, Vec::<String>::new());
    let refused = it.http.get(it.url("/v1/plans?q=")).send().await?;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_method_is_told_those_of_its_address() -> Result<()> {
    let it = Installation::embedded().await?;
    let id = it.submit(&one_step_plan("nobody")).await?;
    for (method, path, allowed) in [
        (Method::PUT, format!("/v1/plans/{id}"), "GET,HEAD"),
        (Method::POST, format!("/v1/plans/{id}"), "GET,HEAD"),
        (Method::PUT, format!("/v1/plans/{id}:pause"), "POST"),
        (Method::GET, format!("/v1/plans/{id}:pause"), "POST"),
        (Method::DELETE, format!("/v1/plans/{id}/steps/a:retry"), "POST"),
        (Method::DELETE, format!("/v1/plans/{id}/steps/a"), "GET,HEAD"),
        (Method::PUT, "/v1/workers/x:drain".to_owned(), "POST"),
        (Method::PUT, "/v1/plans".to_owned(), "GET,HEAD,POST"),
    ] {
        let answer = it.http.request(method.clone(), it.url(&path)).send().await?;
        assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
        let mut got: Vec<&str> = answer.headers()["allow"].to_str()?.split(',').collect();
        got.sort_unstable();
        assert_eq!(got, allowed.split(',').collect::<Vec<_>>(), "{method} {path}");
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verb_on_many_plans_lists_them_first_and_then_acts() -> Result<()> {
    let it = Installation::embedded().await?;
    let named = |name: &str| json!({"name": name, "steps": [step("a", "nobody", &[], json!({}))]});
    let mut wanted = Vec::new();
    for _ in 0..3 {
        wanted.push(it.submit(&named("Nightly import")).await?.to_string());
    }
    let other = it.submit(&named("Report")).await?;
    let names = |answer: &Value| -> Vec<String> {
        let items = answer["items"].as_array().into_iter().flatten();
        let mut ids: Vec<String> = items.filter_map(|item| item["plan_id"].as_str().map(Into::into)).collect();
        ids.sort();
        ids
    };
    wanted.sort();
    goalmill_tests::wait::until(LIMIT, async || {
        it.post("/v1/plans:pause", &json!({"q": "nightly", "dry_run": true}))
            .await
            .is_ok_and(|(_, answer)| names(&answer) == wanted)
    })
    .await;
    let status = async |id: &str| it.get(&format!("/v1/plans/{id}")).await.map(|plan| plan["status"].clone());
    assert_eq!(status(&wanted[0]).await?, "running", "a dry run does nothing");

    let (_, paused) = it.post("/v1/plans:pause", &json!({"q": "nightly", "reason": "night"})).await?;
    assert_eq!(names(&paused), wanted);
    assert!(
        paused["items"].as_array().is_some_and(|items| items.iter().all(|item| item["is_done"] == true)),
        "{paused:#}"
    );
    for id in &wanted {
        assert_eq!(status(id).await?, "paused");
    }
    assert_eq!(status(other.as_str()).await?, "running");
    goalmill_tests::wait::until(LIMIT, async || {
        it.post("/v1/plans:resume", &json!({"status": ["paused"], "limit": 2, "dry_run": true}))
            .await
            .is_ok_and(|(_, answer)| answer["items"].as_array().map(Vec::len) == Some(2) && answer["next"].is_string())
    })
    .await;
    let (_, ended) = it.post("/v1/plans:cancel", &json!({"q": "nightly"})).await?;
    assert_eq!(names(&ended), wanted);
    for id in &wanted {
        assert_eq!(status(id).await?, "cancelled");
    }
    for refused in [json!({}), json!({"q": "x", "limit": 501}), json!({"all": true})] {
        assert_eq!(it.post("/v1/plans:cancel", &refused).await?.0, 400, "{refused}");
    }
    let over = it.post("/v1/plans:cancel", &json!({"status": ["failed"]})).await?;
    assert_eq!((over.0, &over.1["code"]), (409, &json!("NOT_ALLOWED")), "the verb does not apply to these");
    it.stop().await;
    Ok(())
}

/// Reads server-sent events until one fits: its id, its plan, its number and type.
pub(crate) async fn read_feed(
    answer: reqwest::Response,
    until: impl Fn(&Value) -> bool,
) -> Result<Vec<(String, Value)>> {
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let (mut answer, mut text, mut events) = (answer, String::new(), Vec::new());
    while let Some(chunk) = answer.chunk().await? {
        text.push_str(std::str::from_utf8(&chunk)?);
        while let Some((event, rest)) = text.split_once("\n\n") {
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            if let (Some(id), Some(data)) = (field("id:"), field("data:")) {
                let data: Value = serde_json::from_str(data)?;
                let is_last = until(&data);
                events.push((id.to_owned(), data));
                if is_last {
                    return Ok(events);
                }
            }
            text = rest.to_owned();
        }
    }
    anyhow::bail!("the stream has ended after {} events", events.len())
}

/// Each plan's events are there from the first on, in order, without a gap.
fn assert_in_order(events: &[(String, Value)], ids: &[String]) {
    for id in ids {
        let of_plan = events.iter().filter(|(_, event)| event["plan_id"] == id.as_str());
        let seqs: Vec<u64> = of_plan.filter_map(|(_, event)| event["seq"].as_u64()).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "{id}");
        assert!(!seqs.is_empty(), "{id} has no events");
    }
}

async fn events_of_all_plans_go_on(it: Installation) -> Result<()> {
    let feed = || it.http.get(it.url("/v1/events")).header("Accept", "text/event-stream");
    let answer = feed().send().await?;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(it.submit(&one_step_plan("echo")).await?.to_string());
    }
    let ended = std::sync::Mutex::new(0);
    let all_end = |event: &Value| {
        let mut ended = ended.lock().expect("no test panics with it");
        *ended += usize::from(event["type"] == "plan_completed");
        *ended == 3
    };
    let events = read_feed(answer, all_end).await?;
    assert_in_order(&events, &ids);

    // From the middle on: nothing is missing, and of its own plan nothing comes again.
    let (place, middle) = &events[events.len() / 2];
    let more = it.submit(&one_step_plan("echo")).await?.to_string();
    let is_end = |event: &Value| event["plan_id"] == more.as_str() && event["type"] == "plan_completed";
    let rest = read_feed(feed().header("Last-Event-ID", place).send().await?, is_end).await?;
    let key = |event: &Value| (event["plan_id"].to_string(), event["seq"].as_u64());
    let seen: std::collections::BTreeSet<_> =
        events[..=events.len() / 2].iter().chain(&rest).map(|(_, e)| key(e)).collect();
    assert!(events.iter().all(|(_, event)| seen.contains(&key(event))), "nothing is lost");
    let again = rest.iter().filter(|(_, event)| event["plan_id"] == middle["plan_id"]);
    assert!(again.filter_map(|(_, event)| event["seq"].as_u64()).all(|seq| Some(seq) > middle["seq"].as_u64()));
    assert_in_order(&rest, &[more]);

    let typed = it.http.get(it.url("/v1/events?types=plan_completed&since_ms=0")).header("Accept", "text/event-stream");
    assert_eq!(typed.send().await?.status(), StatusCode::BAD_REQUEST, "it goes back an hour at most");
    for wrong in ["x", "7", "1:p0-0000000000000000:1"] {
        let refused = feed().header("Last-Event-ID", wrong).send().await?;
        assert_eq!(refused.json::<Value>().await?["code"], "INVALID_EVENT_ID", "{wrong}");
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_events_of_all_plans_can_be_followed() -> Result<()> {
    events_of_all_plans_go_on(Installation::embedded().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_events_of_all_plans_over_redis_can_be_followed() -> Result<()> {
    let server = goalmill_tests::redis_server::RedisServer::start().await?;
    events_of_all_plans_go_on(Installation::over(&server).await?).await
}

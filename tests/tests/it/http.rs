//! What HTTP itself offers: compression, entity tags, preferences, methods of an address.

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

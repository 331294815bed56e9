//! A plan's log over HTTP: in pages and live.

use std::time::Duration;

use anyhow::{Context, Result};
use goalmill_common::id::PlanId;
use goalmill_tests::installation::{Installation, settings, step};
use goalmill_tests::redis_server::RedisServer;
use reqwest::StatusCode;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);

fn chain() -> Value {
    let inputs = json!({"ms": 20});
    json!({"steps": [
        step("a", "sleep", &[], inputs.clone()),
        step("b", "sleep", &["a"], inputs.clone()),
        step("c", "sleep", &["b"], inputs),
    ]})
}

/// Reads the stream to its end: (id, event, data).
async fn stream(it: &Installation, plan: &PlanId, after: Option<u64>) -> Result<Vec<(u64, String, Value)>> {
    let mut request = it.http.get(it.url(&format!("/v1/plans/{plan}/events"))).header("Accept", "text/event-stream");
    if let Some(after) = after {
        request = request.header("Last-Event-ID", after);
    }
    let answer = request.send().await?;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let text = tokio::time::timeout(LIMIT, answer.text()).await.context("the stream does not end")??;
    let blocks = text.split("\n\n").filter(|block| block.contains("data:"));
    let field = |block: &str, name: &str| -> String {
        let line =
            block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name} in `{block}`"));
        line.trim().to_owned()
    };
    blocks
        .map(|b| Ok((field(b, "id:").parse()?, field(b, "event:"), serde_json::from_str(&field(b, "data:"))?)))
        .collect()
}

async fn a_log_is_followed(it: Installation) -> Result<()> {
    let plan = it.submit(&chain()).await?;
    let live = stream(&it, &plan, None).await?;
    let numbers: Vec<u64> = live.iter().map(|(id, _, _)| *id).collect();
    let whole: Vec<u64> = (1..=live.len() as u64).collect();
    assert_eq!(numbers, whole, "ids are the events' numbers, without gaps");
    assert!(live.iter().all(|(id, name, data)| data["seq"] == *id && data["type"] == name.as_str()));
    assert_eq!(live.last().map(|(_, name, _)| name.as_str()), Some("plan_completed"));

    let rest = stream(&it, &plan, Some(4)).await?;
    assert_eq!(rest, live[4..]);
    let last = live.len() as u64;
    let after_end = it.http.get(it.url(&format!("/v1/plans/{plan}/events"))).header("Accept", "text/event-stream");
    let after_end = after_end.header("Last-Event-ID", last).send().await?;
    assert_eq!(after_end.status(), StatusCode::NO_CONTENT, "there will be nothing more");

    let mut paged = Vec::new();
    let mut after = 0;
    loop {
        let page = it.get(&format!("/v1/plans/{plan}/events?after={after}&limit=1")).await?;
        paged.extend(page["items"].as_array().expect("a list").iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = next.parse::<u64>()?,
            None => break,
        }
    }
    assert_eq!(paged, live.iter().map(|(_, _, data)| data.clone()).collect::<Vec<_>>());

    let all = serde_json::to_string(&(&paged, &live))?;
    assert!(!all.contains("secret"), "the word behind the attempt tokens was served");
    let journal = it.log(&plan).await?;
    let goalmill_common::event::Event::Plan(goalmill_common::event::PlanEvent::GoalAccepted(accepted)) =
        &journal[0].event
    else {
        panic!("the log begins with something else")
    };
    assert!(accepted.secret.is_empty(), "no key of tokens is in the log");
    assert!(!accepted.salt.is_empty() && !all.contains(&accepted.salt));
    let state = it.get(&format!("/v1/plans/{plan}")).await?.to_string();
    assert!(!state.contains(&accepted.salt));

    for (last_event_id, code) in
        [("99999999", "INVALID_EVENT_ID"), ("abc", "INVALID_EVENT_ID"), ("-1", "INVALID_EVENT_ID")]
    {
        let url = it.url(&format!("/v1/plans/{plan}/events"));
        let refused = it.http.get(url).header("Last-Event-ID", last_event_id).send().await?;
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
        assert_eq!(refused.json::<Value>().await?["code"], code);
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_followed_resumed_and_ends_on_the_embedded_back_end() -> Result<()> {
    a_log_is_followed(Installation::embedded().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_followed_resumed_and_ends_over_redis() -> Result<()> {
    let server = RedisServer::start().await?;
    a_log_is_followed(Installation::over(&server).await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn event_streams_have_a_limit_and_give_their_places_back() -> Result<()> {
    let mut settings = settings();
    settings.api.streams_max = 1;
    let broker = goalmill_broker::embedded::open(None, goalmill_common::clock::Clock::system())?;
    let it = Installation::start(broker, settings).await?;
    let plan = it.submit(&json!({"steps": [step("a", "nobody", &[], json!({}))]})).await?;
    let open = || it.http.get(it.url(&format!("/v1/plans/{plan}/events"))).header("Accept", "text/event-stream").send();
    let mut first = open().await?;
    assert!(first.chunk().await?.is_some());
    let second = open().await?;
    assert_eq!(second.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(second.headers().contains_key("retry-after"));
    drop(first);
    goalmill_tests::wait::until(LIMIT, async || open().await.is_ok_and(|answer| answer.status().is_success())).await;
    it.stop().await;
    Ok(())
}

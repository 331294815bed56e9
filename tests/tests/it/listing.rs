//! The list of plans in pages.

use std::collections::BTreeSet;

use anyhow::Result;
use goalmill_common::clock::Clock;
use goalmill_tests::installation::{Installation, step};
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

const PLANS: usize = 130;

/// The list is made of summaries, which a plan's owner brings up to date once a second while much happens, and once
/// more when nothing happens any more.
async fn a_quiet_plan_is_shown_as_it_is(it: Installation) -> Result<()> {
    let steps = [step("a", "echo", &[], json!({})), step("b", "nobody", &["a"], json!({}))];
    let id = it.submit(&json!({"steps": steps})).await?;
    until(SOON, async || {
        let page: Value = it.get("/v1/plans").await.expect("the list is there");
        let shown = &page["items"][0];
        assert_eq!(shown["plan_id"], id.as_str());
        shown["counts"]["completed"] == 1 && shown["counts"]["in_progress"] == 1 && shown["progress"] == 0.5
    })
    .await;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_plan_is_listed_as_it_is() -> Result<()> {
    a_quiet_plan_is_shown_as_it_is(Installation::embedded().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_plan_over_redis_is_listed_as_it_is() -> Result<()> {
    let server = RedisServer::start().await?;
    a_quiet_plan_is_shown_as_it_is(Installation::over(&server).await?).await
}

async fn pages_meet_without_gap(it: Installation) -> Result<()> {
    let plan = json!({"steps": [step("a", "nobody", &[], json!({}))]});
    // All at once, so that many share a millisecond.
    let submits = (0..PLANS).map(|_| it.submit(&plan));
    let mut ids = BTreeSet::new();
    for id in futures_util::future::join_all(submits).await {
        ids.insert(id?.to_string());
    }
    let cancelled = ids.first().cloned().expect("there are some");
    // Later than all of them by the clock, too.
    let begun_ms = Clock::system().now_ms();
    until(SOON, async || Clock::system().now_ms() > begun_ms).await;
    it.post(&format!("/v1/plans/{cancelled}:cancel"), &json!({})).await?;
    for limit in [1, 7, 50, 500] {
        let listed = collect(&it, &format!("limit={limit}")).await?;
        assert_eq!(listed.len(), PLANS, "pages of {limit} skip or repeat");
        assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), ids);
        assert_eq!(listed[0], cancelled, "last changed comes first");
    }
    assert_eq!(collect(&it, "status=cancelled&limit=3").await?, [cancelled]);
    assert_eq!(collect(&it, "status=running&limit=9").await?.len(), PLANS - 1);
    assert_eq!(collect(&it, "status=failed").await?, Vec::<String>::new());
    it.stop().await;
    Ok(())
}

async fn collect(it: &Installation, query: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let page: Value = it.get(&format!("/v1/plans?{query}{cursor}")).await?;
        let items = page["items"].as_array().unwrap_or_else(|| panic!("no page: {page:#}"));
        found.extend(items.iter().map(|item| item["plan_id"].as_str().expect("it has an id").to_owned()));
        assert!(found.len() <= PLANS, "the pages repeat");
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(found),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_neither_skip_nor_repeat_plans_of_one_millisecond() -> Result<()> {
    pages_meet_without_gap(Installation::embedded().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_neither_skip_nor_repeat_plans_over_redis() -> Result<()> {
    let server = RedisServer::start().await?;
    pages_meet_without_gap(Installation::over(&server).await?).await
}

/// Plans of a filtered list come from memory: what changed a moment ago must be in it.
#[tokio::test(flavor = "multi_thread")]
async fn filtered_lists_are_of_now_and_know_plans_inside_plans() -> Result<()> {
    let server = RedisServer::start().await?;
    let it = Installation::over(&server).await?;
    let inner = json!({"steps": [step("say", "nobody", &[], json!({}))]});
    let outer =
        it.submit(&json!({"name": "Around", "steps": [{"id": "whole", "kind": "plan", "plan": inner}]})).await?;
    let inside = async || collect(&it, &format!("parent={outer}")).await.expect("the list is there");
    until(SOON, async || inside().await.len() == 1).await;
    assert_eq!(collect(&it, "outermost=true").await?, [outer.to_string()]);
    let page = it.get("/v1/plans?outermost=true").await?;
    assert_eq!((&page["items"][0]["plans_inside"], &page["items"][0]["parent"]), (&json!(1), &Value::Null));
    assert_eq!(it.get(&format!("/v1/plans?parent={outer}")).await?["items"][0]["parent"], outer.as_str());
    assert_eq!(collect(&it, "agent_type=nobody").await?, inside().await);
    assert_eq!(collect(&it, "agent_type=somebody").await?, Vec::<String>::new());
    for (n, word) in ["alphabet", "betting", "gamma-ray"].into_iter().enumerate() {
        let named = json!({"name": format!("The words of {word}"), "steps": [step("a", "nobody", &[], json!({}))]});
        let id = it.submit(&named).await?.to_string();
        let found = collect(&it, &format!("q=WORDS+{word}")).await?;
        assert_eq!(found, std::slice::from_ref(&id), "a new plan is found at once");
        assert!(collect(&it, "status=running").await?.contains(&id));
        it.post(&format!("/v1/plans/{id}:cancel"), &json!({})).await?;
        assert!(!collect(&it, "status=running").await?.contains(&id), "the plan has ended");
        assert_eq!(collect(&it, "status=cancelled").await?.len(), n + 1);
    }
    it.stop().await;
    Ok(())
}

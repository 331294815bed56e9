//! Plans that move: maps, loops and clean-up, as the examples of the documentation have them, in a real installation.

use std::path::Path;

use anyhow::{Context, Result};
use goalmill_tests::dev::Dev;
use serde_json::{Value, json};

/// Runs an example to its end; returns its events and its results by step.
async fn example(name: &str, code: i32) -> Result<(Vec<Value>, Value)> {
    let dev = Dev::start(&["--demo-agents"], "").await?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples").join(name);
    let path = path.to_str().context("the path is text")?;
    let id = dev.says(&["run", path, "-o", "name"], 0)?.trim().to_owned();
    let id = id.as_str();
    dev.says(&["watch", id], code)?;
    let results: Value = serde_json::from_str(&dev.says(&["plan", "results", id, "-o", "json"], 0)?)?;
    Ok((dev.events(id)?, results))
}

/// The steps of which something happened, in that order.
fn steps_with(events: &[Value], kind: &str) -> Vec<String> {
    let of_kind = events.iter().filter(|event| event["type"] == kind);
    of_kind.filter_map(|event| Some(event["step_id"].as_str()?.to_owned())).collect()
}

fn text_of(results: &Value) -> String {
    results.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_map_gives_a_list_in_the_order_of_its_items() -> Result<()> {
    let (events, results) = example("map.yaml", 0).await?;
    assert_eq!(steps_with(&events, "step_expanded"), ["hotels"]);
    let expected = json!([{"city": "Rome", "n": 0}, {"city": "Oslo", "n": 1}, {"city": "Bern", "n": 2}]);
    assert!(text_of(&results).contains(&expected.to_string()), "{results}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_ends_when_its_condition_is_true() -> Result<()> {
    let (events, results) = example("loop.yaml", 0).await?;
    assert_eq!(steps_with(&events, "step_iterated"), ["draft", "draft"]);
    assert!(text_of(&results).contains("draft!!!"), "{results}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_goes_on_along_the_branch_of_a_failure_and_completes() -> Result<()> {
    let (events, results) = example("failure-branch.yaml", 0).await?;
    assert_eq!(steps_with(&events, "step_failed"), ["pay"]);
    assert_eq!(steps_with(&events, "step_skipped"), ["receipt"]);
    assert_eq!(steps_with(&events, "step_completed"), ["notice", "done"]);
    assert!(text_of(&results).contains("The payment failed: "), "{results}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_trip_is_taken_back_in_reverse_order_and_reported() -> Result<()> {
    let (events, results) = example("saga.yaml", 3).await?;
    let completed = steps_with(&events, "step_completed");
    assert_eq!(completed, ["find", "hotels", "book", "flight", "flight:undo", "book:undo", "report"]);
    assert!(text_of(&results).contains("The trip is failed: step `pay` failed"), "{results}");
    let last = events.last().context("there are events")?;
    assert_eq!(last["type"], "plan_failed");
    Ok(())
}

//! A worker embedded in a program of one's own, as docs/workers.md shows it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use goalmill_common::clock::Clock;
use goalmill_common::failure::{Failure, FailureClass::Permanent};
use goalmill_common::random::Random;
use goalmill_common::task::Task;
use goalmill_tests::installation::{Installation, step};
use goalmill_worker::Options;
use goalmill_worker::executor::{Executor, Kinds, Outcome, Progress};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::docs::{blocks, read};

struct Shout;

#[async_trait]
impl Executor for Shout {
    async fn execute(&self, task: &Task, progress: &Progress, _: &CancellationToken) -> Result<Outcome, Failure> {
        progress.update(0.5, "taking a breath");
        let inputs = task.inputs.value();
        let text = inputs["text"].as_str().ok_or_else(|| Failure::new(Permanent, "NO_TEXT", "`text` is missing"))?;
        Ok(Outcome::new(json!({"shout": text.to_uppercase()})))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_of_ones_own_serves_its_agent_type() -> Result<()> {
    let mut installation = Installation::embedded().await?;
    let (settings, broker) = (installation.settings.worker.clone(), installation.broker.clone());
    let limits = installation.settings.limits.clone();
    let (clock, random) = (Clock::system(), Random::system());
    let executors = BTreeMap::from([("shout".into(), Arc::new(Shout) as Arc<dyn Executor>)]);
    let kinds = Kinds::new();
    let worker = goalmill_worker::start(Options { settings, limits, broker, clock, random, executors, kinds }).await?;
    installation.workers.push(worker);
    let mut mute = step("b", "shout", &["a"], json!({}));
    mute["on_failure"] = "continue".into();
    let plan = json!({"steps": [step("a", "shout", &[], json!({"text": "hi"})), mute]});
    let id = installation.submit(&plan).await?;
    installation.await_end(&id, Duration::from_mins(1)).await?;
    let answer = installation.get(&format!("/v1/plans/{id}/results")).await?;
    assert_eq!(answer["results"]["a"], json!({"shout": "HI"}), "{answer:#}");
    assert_eq!(answer["failures"]["b"]["code"], "NO_TEXT", "{answer:#}");
    installation.stop().await;
    Ok(())
}

#[test]
fn the_page_on_workers_shows_code_that_is_compiled_here() {
    let compiled: Vec<&str> = include_str!("own_executor.rs").lines().map(str::trim).collect();
    let shown = blocks(&read("docs/workers.md"), "rust");
    assert!(!shown.is_empty(), "the page shows how to embed a worker");
    for line in shown.iter().flat_map(|block| block.lines()).map(str::trim) {
        assert!(compiled.contains(&line), "`{line}` is not in the test");
    }
}

//! A worker embedded in a program of one's own, as docs/workers.md shows it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use goalmill_common::agent::{Action, Agent};
use goalmill_common::call::{call_key, inputs_digest};
use goalmill_common::clock::Clock;
use goalmill_common::config::WorkerSettings;
use goalmill_common::failure::{Failure, FailureClass, FailureClass::Permanent};
use goalmill_common::random::Random;
use goalmill_common::report::TokenSplit;
use goalmill_common::task::Task;
use goalmill_tests::installation::{Installation, step};
use goalmill_tests::wait::{SOON, until};
use goalmill_worker::WorkerOptions;
use goalmill_worker::executor::{CallResult, CallUsage, Calls, ExecutionResult, Executor, Kinds, MakeCall, Progress};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::docs::{blocks, read};

struct Shout;

#[async_trait]
impl Executor for Shout {
    async fn execute(
        &self,
        task: &Task,
        progress: &Progress,
        _: &CancellationToken,
    ) -> Result<ExecutionResult, Failure> {
        progress.update(0.5, "taking a breath");
        let inputs = task.inputs.value();
        let text = inputs["text"].as_str().ok_or_else(|| Failure::new(Permanent, "NO_TEXT", "`text` is missing"))?;
        Ok(ExecutionResult::new(json!({"shout": text.to_uppercase()})))
    }
}

/// Asks something that costs money, and fails once after it has the answer.
#[derive(Default)]
pub struct Asking(Mutex<Vec<String>>);

impl Asking {
    async fn ask(&self, question: &str, idempotency_key: String) -> Result<CallResult, Failure> {
        tokio::task::yield_now().await;
        self.0.lock().expect("no holder panics").push(idempotency_key);
        let usage = CallUsage { cost: 0.25, tokens: TokenSplit { prompt_tokens: 40, completion_tokens: 2 } };
        Ok(CallResult::new(json!({"echo": question}), usage))
    }
}

#[async_trait]
impl Executor for Asking {
    async fn execute(&self, _: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        Err(Failure::new(Permanent, "NO_CALLS", "the worker offers calls"))
    }

    async fn execute_with_calls(
        &self,
        task: &Task,
        _: &Progress,
        calls: &dyn Calls,
        _: &CancellationToken,
    ) -> Result<ExecutionResult, Failure> {
        let question = task.inputs.text();
        let make: MakeCall<'_> = Box::new(|id| Box::pin(self.ask(question, id.idempotency_key)));
        let answer = calls.call("oracle", question, make).await?;
        if task.attempt == 1 {
            return Err(Failure::new(FailureClass::Transient, "ONCE", "fails once"));
        }
        Ok(ExecutionResult::new(json!({"answer": answer.outcome.value()})))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_call_of_ones_own_executor_is_made_and_paid_once() -> Result<()> {
    let mut installation = Installation::embedded().await?;
    let (settings, broker) = (installation.settings.worker.clone(), installation.broker.clone());
    let limits = installation.settings.limits.clone();
    let (clock, random, kinds) = (Clock::system(), Random::system(), Kinds::new());
    let asking = Arc::new(Asking::default());
    let executors = BTreeMap::from([("asking".into(), Arc::clone(&asking) as Arc<dyn Executor>)]);
    let options = WorkerOptions { settings, limits, broker, clock, random, executors, kinds };
    installation.workers.push(goalmill_worker::start(options).await?);
    let mut one = step("a", "asking", &[], json!("why"));
    one["retry"] = json!({"max": 1, "initial_ms": 1, "max_ms": 1});
    let id = installation.submit(&json!({"steps": [one]})).await?;
    installation.await_end(&id, Duration::from_mins(1)).await?;
    let answer = installation.get(&format!("/v1/plans/{id}/results")).await?;
    assert_eq!(answer["results"]["a"], json!({"answer": {"echo": "\"why\""}}), "{answer:#}");
    let plan = installation.get(&format!("/v1/plans/{id}")).await?;
    assert_eq!((&plan["usage"]["tokens"], &plan["usage"]["cost"]), (&json!(42), &json!(0.25)), "{plan:#}");
    assert_eq!(
        *asking.0.lock().expect("no holder panics"),
        [call_key(&format!("{id}:a"), "oracle", &inputs_digest("\"why\""))]
    );
    installation.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_of_ones_own_serves_its_agent_type() -> Result<()> {
    let mut installation = Installation::embedded().await?;
    let (settings, broker) = (installation.settings.worker.clone(), installation.broker.clone());
    let limits = installation.settings.limits.clone();
    let (clock, random) = (Clock::system(), Random::system());
    let executors = BTreeMap::from([("shout".into(), Arc::new(Shout) as Arc<dyn Executor>)]);
    let kinds = Kinds::new();
    let worker =
        goalmill_worker::start(WorkerOptions { settings, limits, broker, clock, random, executors, kinds }).await?;
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

/// An executor that learns new actions while it runs, as one for an MCP server does.
#[derive(Default)]
struct Learning(Mutex<Vec<String>>);

#[async_trait]
impl Executor for Learning {
    async fn execute(&self, task: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        Ok(ExecutionResult::new(json!({"action": task.action})))
    }

    fn card(&self) -> Option<Agent> {
        let names = self.0.lock().expect("no holder panics");
        let action = |name: &String| Action {
            name: name.clone(),
            description: String::new(),
            inputs: None,
            outputs: None,
            side_effect: false,
        };
        Some(Agent { actions: names.iter().map(action).collect(), ..Agent::named("learning".into()) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_is_known_as_soon_as_the_executors_card_has_it() -> Result<()> {
    let mut installation = Installation::embedded().await?;
    let executor = Arc::new(Learning(Mutex::new(vec!["first".into()])));
    let options = WorkerOptions {
        settings: WorkerSettings { heartbeat_ms: 50, ..installation.settings.worker.clone() },
        limits: installation.settings.limits.clone(),
        broker: installation.broker.clone(),
        clock: Clock::system(),
        random: Random::system(),
        executors: BTreeMap::from([("learning".into(), executor.clone() as Arc<dyn Executor>)]),
        kinds: Kinds::new(),
    };
    installation.workers.push(goalmill_worker::start(options).await?);
    let plan = |action: &str| {
        let mut step = step("a", "learning", &[], json!({}));
        step["action"] = action.into();
        json!({"steps": [step]})
    };
    let is_refused = async || {
        let answer = installation.post("/v1/plans:validate", &plan("second")).await;
        let (status, preview) = answer.expect("the scheduler answers");
        assert_eq!(status, 200, "{preview:#}");
        preview["issues"].as_array().is_some_and(|all| all.iter().any(|issue| issue["code"] == "UNKNOWN_ACTION"))
    };
    until(SOON, async || is_refused().await).await;
    executor.0.lock().expect("no holder panics").push("second".into());
    until(SOON, async || !is_refused().await).await;
    let id = installation.submit(&plan("second")).await?;
    installation.await_end(&id, Duration::from_mins(1)).await?;
    let answer = installation.get(&format!("/v1/plans/{id}/results")).await?;
    assert_eq!(answer["results"]["a"], json!({"action": "second"}), "{answer:#}");
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

//! The behaviours of `tests/conformance/protocol/README.md`, with the worker of this repository.
//!
//!     python3 tests/conformance/protocol/run.py --worker target/debug/conformance_worker

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use async_trait::async_trait;
use goalmill_common::call::{CallNeeds, CallWait, CallWaitKind};
use goalmill_common::clock::Clock;
use goalmill_common::config::{self, Override};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::random::Random;
use goalmill_common::report::TokenSplit;
use goalmill_common::task::Task;
use goalmill_tests::installation::http_client;
use goalmill_worker::WorkerOptions;
use goalmill_worker::executor::{
    CallResult, CallUsage, Calls, ExecutionResult, Executor, Kinds, MakeCall, Progress, over_budget,
};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const AGENT_TYPES: [&str; 16] = [
    "approve", "ask", "budget", "callback", "calls", "context", "crash", "echo", "fail_fatal", "fail_retry", "huge",
    "measure", "partial", "progress", "slow", "sub_plan",
];
const POLL: Duration = Duration::from_millis(20);

#[tokio::main]
async fn main() -> Result<()> {
    let variable = |name: &str| config::environment(name).with_context(|| format!("{name} is missing"));
    let dir = PathBuf::from(variable("GOALMILL_VECTOR_DIR")?);
    let overrides: [Override; 2] = [("redis.url", variable("GOALMILL_REDIS_URL")?), ("worker.slots", "4".to_owned())];
    let settings = config::load(None, &overrides)?.settings;
    let mut terminate = signal(SignalKind::terminate())?;
    let broker = goalmill_broker::redis::connect(&settings.redis).await?;
    let agent = |name: &str| Arc::new(Behaviour { name: name.to_owned(), dir: dir.clone() }) as Arc<dyn Executor>;
    let executors: BTreeMap<_, _> = AGENT_TYPES.iter().map(|name| ((*name).into(), agent(name))).collect();
    let (clock, random, kinds) = (Clock::system(), Random::system(), Kinds::new());
    let (limits, settings) = (settings.limits, settings.worker);
    let options = WorkerOptions { settings, limits, broker, clock, random, executors, kinds };
    let worker = goalmill_worker::start(options).await?;
    tokio::select! {
        _ = terminate.recv() => {}
        () = worker.draining() => {}
    }
    tokio::select! {
        () = worker.drain() => {}
        _ = terminate.recv() => worker.release_all().await,
    }
    Ok(())
}

/// An agent type that does what its name says.
struct Behaviour {
    name: String,
    dir: PathBuf,
}

/// One attempt of a behaviour.
struct BehaviourAttempt<'a> {
    behaviour: &'a Behaviour,
    task: &'a Task,
    inputs: Value,
    calls: &'a dyn Calls,
    cancelled: &'a CancellationToken,
}

#[async_trait]
impl Executor for Behaviour {
    async fn execute(&self, _: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        Err(Failure::new(FailureClass::Permanent, "NO_CALLS", "the worker offers calls"))
    }

    async fn execute_with_calls(
        &self,
        task: &Task,
        progress: &Progress,
        calls: &dyn Calls,
        cancelled: &CancellationToken,
    ) -> Result<ExecutionResult, Failure> {
        let attempt = BehaviourAttempt { behaviour: self, task, inputs: task.inputs.value(), calls, cancelled };
        let (inputs, step) = (&attempt.inputs, &task.step);
        let outputs = match self.name.as_str() {
            "echo" => {
                self.note(&format!("begin {step}"))?;
                inputs.clone()
            }
            "measure" => json!({"length": inputs["text"].as_str().map_or(0, |text| text.chars().count())}),
            "fail_retry" => return Err(flaky(inputs["after_ms"].as_u64())),
            "fail_fatal" => return Err(Failure::new(FailureClass::Permanent, "NO_GOOD", "this cannot work")),
            "crash" => panic!("nobody expects this"),
            "partial" => return Ok(partial()),
            "slow" => {
                self.note(&format!("begin {step}"))?;
                if attempt.wait().await.is_err() {
                    self.note(&format!("stopped {step}"))?;
                }
                json!({"done": true})
            }
            "progress" => {
                progress.update(0.5, "half");
                attempt.wait().await?;
                json!({"done": true})
            }
            "calls" => attempt.make_calls().await?,
            "approve" => attempt.decide(CallWait::new(CallWaitKind::Approval, "publish?")).await?,
            "ask" => {
                attempt.call(1).await?;
                let schema = Some(json!({"type": "string"}).into());
                attempt.decide(CallWait { schema, ..CallWait::new(CallWaitKind::Answer, "which?") }).await?
            }
            "sub_plan" => {
                let plan = Some(json!({"steps": [{"id": "a", "agent_type": "echo"}]}).into());
                attempt.decide(CallWait { plan, ..CallWait::new(CallWaitKind::Plan, "look") }).await?
            }
            "budget" => attempt.call_within_budget().await?,
            "callback" => {
                attempt.call_back_later()?;
                json!({"accepted": true})
            }
            "huge" => {
                let bytes = inputs["bytes"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
                json!({"text": "x".repeat(bytes), "small": 1})
            }
            "context" => json!({
                "attempt": task.attempt, "idempotency_key": task.idempotency_key, "traceparent": task.traceparent,
            }),
            other => return Err(Failure::new(FailureClass::Permanent, "UNKNOWN", format!("no behaviour `{other}`"))),
        };
        Ok(ExecutionResult::new(outputs))
    }
}

impl Behaviour {
    fn note(&self, line: &str) -> Result<(), Failure> {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.dir.join("log"));
        log.and_then(|mut log| writeln!(log, "{line}"))
            .map_err(|e| Failure::new(FailureClass::Permanent, "NO_LOG", e.to_string()))
    }
}

impl BehaviourAttempt<'_> {
    /// Waits for the file `go`; fails when the attempt is stopped.
    async fn wait(&self) -> Result<(), Failure> {
        while !self.behaviour.dir.join("go").exists() {
            tokio::select! {
                () = self.cancelled.cancelled() => return Err(Failure::new(FailureClass::Transient, "STOPPED", "stopped")),
                () = tokio::time::sleep(POLL) => {}
            }
        }
        Ok(())
    }

    /// Posts the outcome to the callback of the task when the file `go` exists.
    fn call_back_later(&self) -> Result<(), Failure> {
        let callback = self.task.callback.clone();
        let callback = callback.ok_or_else(|| Failure::new(FailureClass::Permanent, "NO_CALLBACK", "none is given"))?;
        let (go, body) = (self.behaviour.dir.join("go"), json!({"outputs": {"done": self.task.step}}));
        TaskTracker::new().spawn(async move {
            while !go.exists() {
                tokio::time::sleep(POLL).await;
            }
            let post = http_client().post(callback.url).header("goalmill-callback-token", callback.token.as_str());
            // The driver waits for it: without an answer the vector fails.
            drop(post.json(&body).send().await);
        });
        Ok(())
    }

    /// Makes call `n`; gives the field `n` of its outcome.
    async fn call(&self, n: u64) -> Result<Value, Failure> {
        let inputs = json!({"n": n}).to_string();
        let bytes = self.inputs["bytes"].as_u64().and_then(|n| usize::try_from(n).ok());
        let make: MakeCall<'_> = Box::new(move |id| {
            Box::pin(async move {
                self.behaviour.note(&format!("made {}", id.idempotency_key))?;
                let mut outcome = json!({"n": n});
                if let Some(bytes) = bytes {
                    outcome["text"] = "x".repeat(bytes).into();
                }
                let usage = CallUsage { cost: 0.25, tokens: TokenSplit { prompt_tokens: 40, completion_tokens: 2 } };
                Ok(CallResult::new(Json::from_value(&outcome), usage))
            })
        });
        let result = self.calls.call("call", &inputs, make).await?;
        Ok(result.outcome.value()["n"].clone())
    }

    async fn make_calls(&self) -> Result<Value, Failure> {
        self.behaviour.note(&format!("begin {}", self.task.step))?;
        let mut outcomes = Vec::new();
        for n in 1..=self.inputs["count"].as_u64().unwrap_or(0) {
            outcomes.push(self.call(n).await?);
            if self.inputs["pause"] == n {
                self.behaviour.note("pause")?;
                self.wait().await?;
            }
            if self.inputs["fail"] == n && self.task.attempt == 1 {
                return Err(flaky(None));
            }
        }
        Ok(json!({"outcomes": outcomes}))
    }

    async fn decide(&self, wait: CallWait) -> Result<Value, Failure> {
        let text = wait.text.clone();
        let result = self.calls.wait("wait", &text, wait).await?;
        Ok(json!({"decision": result.outcome.value()}))
    }

    async fn call_within_budget(&self) -> Result<Value, Failure> {
        let needs = CallNeeds { tokens: self.inputs["tokens"].as_u64().unwrap_or(0), cost: 0.0 };
        let budget = self.task.budget.unwrap_or_default();
        if budget.tokens.is_none_or(|tokens| needs.tokens <= tokens) {
            return Ok(json!({"outcomes": [self.call(1).await?]}));
        }
        let refuse: MakeCall<'_> = Box::new(move |_| Box::pin(async move { Err(over_budget("call", needs)) }));
        let refused = self.calls.call("call", "1", refuse).await;
        if budget.last {
            return refused.map(|_| Value::Null);
        }
        Err(self.calls.wait_for_budget("call", "1", needs))
    }
}

fn flaky(after_ms: Option<u64>) -> Failure {
    let class = if after_ms.is_some() { FailureClass::RateLimited } else { FailureClass::Transient };
    Failure { retry_after_ms: after_ms, ..Failure::new(class, "FLAKY", "try again") }
}

fn partial() -> ExecutionResult {
    let errors = vec![Failure::new(FailureClass::Permanent, "SOURCE_DOWN", "one source is down")];
    ExecutionResult { partial: true, errors, ..ExecutionResult::new(json!({"found": 1})) }
}

//! One agent, one scripted model, one directory.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use goalmill_agents::AgentBuilder;
use goalmill_common::agent::Agent;
use goalmill_common::call::{CallNeeds, CallWait, CallWaitKind};
use goalmill_common::clock::Clock;
use goalmill_common::config::{Dialect, ModelSettings};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::PlanId;
use goalmill_common::json::Json;
use goalmill_common::random::Random;
use goalmill_common::task::Task;
use goalmill_demo::scripted::{Script, Scripted, ScriptedCall, ScriptedServer, Seen};
use goalmill_llm::ModelRegistry;
use goalmill_worker::executor::{
    CallResult, CallUsage, Calls, ExecutionResult, Executor, MakeCall, Progress, UnrecordedCalls,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub struct World {
    pub server: ScriptedServer,
    pub dir: TempDir,
    /// What other agent types have registered.
    pub cards: Vec<Agent>,
    agent: Arc<dyn Executor>,
}

/// How a step ended, and what its calls used.
pub struct Ended {
    pub result: Result<ExecutionResult, Failure>,
    pub usage: CallUsage,
}

impl Ended {
    pub fn outputs(&self) -> Value {
        self.result.as_ref().map(|result| result.outputs.value()).expect("the step completed")
    }

    pub fn failure(&self) -> &Failure {
        match &self.result {
            Ok(result) => result.failure.as_ref().expect("the step failed"),
            Err(failure) => failure,
        }
    }
}

/// The `goalmill` that was built beside the running test: it starts the programs of models.
fn launcher() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let binary = test.ancestors().nth(2).expect("tests run from `target/<profile>/deps`").join("goalmill");
    assert!(binary.exists(), "`{}` is missing: run `cargo build -p goalmill` first", binary.display());
    binary
}

impl World {
    /// An agent with these settings besides a system prompt, whose model gives these answers in their order.
    pub async fn new(settings: Value, answers: impl IntoIterator<Item = Scripted>) -> Self {
        Self::with_script(settings, Script::new(answers)).await
    }

    pub async fn with_script(settings: Value, script: Script) -> Self {
        Self::with_card(settings, None, script).await
    }

    pub async fn with_card(settings: Value, card: Option<&Agent>, script: Script) -> Self {
        goalmill_launcher::set_program(launcher());
        let server = ScriptedServer::start(script).await.expect("a port is free");
        let model = ModelSettings {
            retries: 0,
            input_usd_per_million: 1.0,
            output_usd_per_million: 2.0,
            ..server.settings("one", Dialect::Openai)
        };
        let models = ModelRegistry::from_settings(&[model], Clock::system(), Random::seeded(7));
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let builder =
            AgentBuilder::new(Arc::new(models.expect("the model is valid")), dir.path().join("files"), Clock::system());
        let agent = builder.build(&"writer".into(), card, &with_system(settings)).expect("the settings are valid");
        Self { server, dir, cards: Vec::new(), agent }
    }

    pub async fn run(&self, task: &Task) -> Ended {
        let calls = UnrecordedCalls::new(task);
        let (progress, cancelled) = (Progress::default(), CancellationToken::new());
        let result = self.agent.execute_with_calls(task, &progress, &calls, &cancelled).await;
        Ended { result, usage: calls.usage() }
    }

    /// Runs the step with people who decide as `decisions` say, in their order. Returns what they were asked too.
    pub async fn run_with(&self, task: &Task, decisions: impl IntoIterator<Item = Value>) -> (Ended, Vec<CallWait>) {
        let decisions = Mutex::new(decisions.into_iter().collect());
        let people = People { world: self, calls: UnrecordedCalls::new(task), decisions, asked: Mutex::default() };
        let (progress, cancelled) = (Progress::default(), CancellationToken::new());
        let result = self.agent.execute_with_calls(task, &progress, &people, &cancelled).await;
        let ended = Ended { result, usage: people.calls.usage() };
        (ended, people.asked.into_inner().expect("no holder panics"))
    }

    /// Runs the step, and collects the messages of its progress.
    pub async fn run_shown(&self, task: &Task) -> (Ended, Vec<String>) {
        let calls = UnrecordedCalls::new(task);
        let (progress, cancelled) = (Progress::default(), CancellationToken::new());
        let mut messages = Vec::new();
        let mut run = std::pin::pin!(self.agent.execute_with_calls(task, &progress, &calls, &cancelled));
        let result = loop {
            tokio::select! {
                result = &mut run => break result,
                () = tokio::time::sleep(std::time::Duration::from_millis(20)) => {
                    messages.extend(progress.take_newest().map(|(_, message)| message));
                }
            }
        };
        (Ended { result, usage: calls.usage() }, messages)
    }

    /// The path of a file of the plan.
    pub fn file(&self, path: &str) -> PathBuf {
        self.dir.path().join("files").join(plan().as_str()).join(path)
    }

    /// The requests that the model received.
    pub fn seen(&self) -> Vec<Seen> {
        self.server.seen()
    }
}

/// Calls about which people have decided.
struct People<'t> {
    world: &'t World,
    calls: UnrecordedCalls<'t>,
    decisions: Mutex<VecDeque<Value>>,
    asked: Mutex<Vec<CallWait>>,
}

#[async_trait]
impl Calls for People<'_> {
    async fn call_or_error<'a>(
        &'a self,
        name: &'a str,
        inputs: &'a str,
        make: MakeCall<'a>,
    ) -> Result<CallResult, Failure> {
        self.calls.call(name, inputs, make).await
    }

    async fn wait<'a>(&'a self, name: &'a str, inputs: &'a str, wait: CallWait) -> Result<CallResult, Failure> {
        self.asked.lock().expect("no holder panics").push(wait.clone());
        let decided = self.decisions.lock().expect("no holder panics").pop_front();
        match decided {
            Some(outcome) => Ok(CallResult::new(outcome, CallUsage::default())),
            None => self.calls.wait(name, inputs, wait).await,
        }
    }

    fn wait_for_budget(&self, name: &str, _: &str, needs: CallNeeds) -> Failure {
        let wait = CallWait { needs: Some(needs), ..CallWait::new(CallWaitKind::Budget, name) };
        self.asked.lock().expect("no holder panics").push(wait);
        Failure::new(FailureClass::Permanent, "SUSPENDED", "it waits")
    }

    async fn agent_cards(&self) -> Result<Vec<Agent>, Failure> {
        Ok(self.world.cards.clone())
    }
}

fn with_system(mut settings: Value) -> Value {
    settings["system"] = "You are {{ agent_type }} of step {{ step }}.".into();
    settings
}

pub fn plan() -> PlanId {
    PlanId::from("p0-test")
}

pub fn task(inputs: Value) -> Task {
    Task {
        plan: plan(),
        family: None,
        step: "write".into(),
        attempt: 1,
        token: "t".into(),
        agent_type: "writer".into(),
        action: String::new(),
        description: "Write it".into(),
        inputs: Json::from(inputs),
        expected_outputs: Vec::new(),
        expected_output: String::new(),
        output_schema: None,
        timeout_ms: 60_000,
        lease_ms: 30_000,
        reply: "reports".into(),
        idempotency_key: "k".into(),
        calls: Vec::new(),
        callback: None,
        budget: None,
        traceparent: None,
    }
}

/// A reply that calls tools.
pub fn calls<const N: usize>(calls: [(&str, Value); N]) -> Scripted {
    let call = |(name, arguments): (&str, Value)| ScriptedCall { name: name.into(), arguments };
    Scripted { tool_calls: calls.map(call).into(), ..Scripted::default() }
}

/// A reply that gives the answer.
pub fn answers(answer: Value) -> Scripted {
    calls([("final_answer", answer)])
}

/// The tool results in the last request of a model.
pub fn results(seen: &[Seen]) -> Vec<Value> {
    let messages = seen.last().and_then(|last| last.body["messages"].as_array()).cloned().unwrap_or_default();
    let is_tool = |message: &Value| message["role"] == "tool";
    let read = |message: &Value| serde_json::from_str(message["content"].as_str().unwrap_or_default());
    messages.iter().filter(|message| is_tool(message)).map(|message| read(message).unwrap_or(json!(null))).collect()
}

/// Builds an agent; the error is that of its settings.
pub fn build(settings: Value, models: &[ModelSettings], card: Option<&Agent>) -> Result<(), String> {
    let models = ModelRegistry::from_settings(models, Clock::system(), Random::seeded(7)).expect("they are valid");
    let builder = AgentBuilder::new(Arc::new(models), "/nowhere".into(), Clock::system());
    builder.build(&"writer".into(), card, &settings).map(|_| ())
}

//! Executors whose outcome follows from step and attempt alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goalmill_common::call::{CallWait, CallWaitKind};
use goalmill_common::callback::ACCEPTED;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::{AgentType, shard_of};
use goalmill_common::json::Json;
use goalmill_common::task::Task;
use goalmill_spec::{Act, Does};
use goalmill_worker::executor::{CallResult, CallUsage, Calls, ExecutionResult, Executor, MakeCall, Progress};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::environment::Environment;

/// Agent types of the simulation.
pub const AGENTS: [&str; 6] = ["quick", "slow", "flaky", "limited", "broken", "endless"];

/// Who does the steps that the shipped rules plan for a goal.
const PLANNED: &str = "general_agent";

/// Makes calls, one of which a person must approve; no random plan has it.
pub const CAREFUL: &str = "careful";

/// Does the work of one agent type.
struct SimExecutor;

/// Does what the scripts of the run say; they know no other agent type.
struct ScriptedExecutor(Arc<Environment>);

pub fn executors(env: &Arc<Environment>) -> BTreeMap<AgentType, Arc<dyn Executor>> {
    if env.agents().has_plans() {
        return BTreeMap::from([("w".into(), Arc::new(ScriptedExecutor(env.clone())) as Arc<dyn Executor>)]);
    }
    let names = AGENTS.into_iter().chain([PLANNED, CAREFUL]);
    names.map(|name| (AgentType::from(name), Arc::new(SimExecutor) as Arc<dyn Executor>)).collect()
}

/// A number below `below` that is always the same for an attempt.
fn number(task: &Task, salt: &str, below: u16) -> u16 {
    shard_of(&format!("{}/{}/{salt}", task.idempotency_key, task.attempt), below).0
}

#[async_trait]
impl Executor for SimExecutor {
    async fn execute(
        &self,
        task: &Task,
        progress: &Progress,
        _: &CancellationToken,
    ) -> Result<ExecutionResult, Failure> {
        let wait = |ms| tokio::time::sleep(Duration::from_millis(ms));
        match task.agent_type.as_str() {
            "quick" | PLANNED => wait(u64::from(number(task, "wait", 4))).await,
            "slow" => {
                for part in 1..=3 {
                    wait(u64::from(number(task, "wait", 900))).await;
                    progress.update(f64::from(part) / 3.0, "on its way");
                }
            }
            "flaky" => {
                wait(u64::from(number(task, "wait", 300))).await;
                if number(task, "luck", 10) < 5 {
                    return Err(Failure::new(FailureClass::Transient, "FLAKY", "bad luck"));
                }
            }
            "limited" => {
                if number(task, "luck", 10) < 4 {
                    let failure = Failure::new(FailureClass::RateLimited, "HTTP_429", "slow down");
                    return Err(Failure { retry_after_ms: Some(700), ..failure });
                }
                wait(50).await;
            }
            "broken" => return Err(Failure::new(FailureClass::Permanent, "BROKEN", "it never works")),
            _ => std::future::pending().await,
        }
        if task.callback.is_some() {
            return Ok(ExecutionResult::new(json!({ ACCEPTED: true })));
        }
        let outputs = json!({ "attempt": task.attempt, "n": number(task, "n", 10) });
        Ok(ExecutionResult { tokens: 3, cost: 0.5, ..ExecutionResult::new(Json::from(outputs)) })
    }

    async fn execute_with_calls(
        &self,
        task: &Task,
        progress: &Progress,
        calls: &dyn Calls,
        cancelled: &CancellationToken,
    ) -> Result<ExecutionResult, Failure> {
        if task.agent_type.as_str() != CAREFUL {
            return self.execute(task, progress, cancelled).await;
        }
        let make = |name: &'static str| -> MakeCall<'_> {
            Box::new(move |id| {
                let usage = CallUsage { cost: 0.5, ..CallUsage::default() };
                let done = json!({ "name": name, "key": id.idempotency_key, "attempt": task.attempt });
                Box::pin(std::future::ready(Ok(CallResult::new(done, usage))))
            })
        };
        let thought = calls.call("think", "x", make("think")).await?.outcome.value();
        let wait = CallWait::new(CallWaitKind::Approval, "pay 5");
        let decided = calls.wait("approve pay", "5", wait).await?.outcome.value();
        let paid = match decided["approved"] == true {
            true => calls.call("pay", "5", make("pay")).await?.outcome.value(),
            false => decided["reason"].clone(),
        };
        Ok(ExecutionResult::new(json!({ "thought": thought, "paid": paid, "attempt": task.attempt })))
    }
}

#[async_trait]
impl Executor for ScriptedExecutor {
    async fn execute(&self, task: &Task, _: &Progress, _: &CancellationToken) -> Result<ExecutionResult, Failure> {
        let act = self.0.agents().act(&task.plan, &task.step, task.attempt);
        let Act { after_ms, does, tokens, .. } = act.unwrap_or(Act::new(0, Does::Silent));
        tokio::time::sleep(Duration::from_millis(after_ms)).await;
        let failed = |class, code: &str| Failure::new(class, code, "as the script says");
        let failure = match does {
            Does::Answer(outputs) => return Ok(ExecutionResult { tokens, ..ExecutionResult::new(outputs) }),
            Does::Busy => failed(FailureClass::Transient, "AGENT_BUSY"),
            Does::Refuse => failed(FailureClass::Permanent, "AGENT_REFUSED"),
            Does::Cut => failed(FailureClass::Transient, "HTTP_503").with_unknown_outcome(),
            Does::Lost | Does::Silent => return std::future::pending().await,
        };
        Ok(ExecutionResult { failure: Some(failure), tokens, ..ExecutionResult::default() })
    }
}

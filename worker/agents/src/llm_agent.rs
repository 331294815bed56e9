//! Executor `llm`: a model that calls tools until it gives an answer.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use goalmill_common::agent::Action;
use goalmill_common::clock::Clock;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::AgentType;
use goalmill_common::task::Task;
use goalmill_llm::ModelRegistry;
use goalmill_worker::executor::{CallUsage, Calls, ExecutionResult, Executor, Progress, UnrecordedCalls};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::agent_loop::AgentLoop;
use crate::answer_format::AnswerFormat;
use crate::prompt::SystemPrompt;
use crate::settings::AgentSettings;
use crate::tools::AgentTools;
use crate::workspace_cleaner::WorkspaceCleaner;

/// Agents of one type.
#[derive(Clone)]
pub(crate) struct LlmAgent {
    pub models: Arc<ModelRegistry>,
    pub clock: Clock,
    pub agent_type: AgentType,
    pub settings: Arc<AgentSettings>,
    pub system: Arc<SystemPrompt>,
    pub tools: AgentTools,
    /// The actions of the card.
    pub actions: Arc<[Action]>,
    /// Removes old files; ends with the last agent.
    pub _cleaner: Arc<OnceLock<Option<WorkspaceCleaner>>>,
}

impl LlmAgent {
    /// The action of the card that a task asks for; the only action if the task names none.
    pub fn action(&self, task: &Task) -> Option<&Action> {
        match self.actions.as_ref() {
            [only] if task.action.is_empty() => Some(only),
            all => all.iter().find(|action| action.name == task.action),
        }
    }

    /// The format of the answer: from the step, else from the action, else from the settings.
    fn answer_format(&self, task: &Task) -> Result<AnswerFormat, Failure> {
        let of_action = || self.action(task)?.outputs.as_ref().map(|schema| schema.value());
        let of_step = task.output_schema.as_ref().map(|schema| schema.value());
        let schema = of_step.or_else(of_action).or_else(|| self.settings.output_schema.clone());
        AnswerFormat::new(schema.unwrap_or_else(default_schema), &task.expected_outputs).map_err(|reason| {
            let message = format!("`output_schema` of the step cannot be used: {reason}");
            Failure::new(FailureClass::Permanent, "INVALID_SCHEMA", message)
        })
    }
}

fn default_schema() -> Value {
    json!({"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]})
}

#[async_trait]
impl Executor for LlmAgent {
    async fn execute(
        &self,
        task: &Task,
        progress: &Progress,
        cancelled: &CancellationToken,
    ) -> Result<ExecutionResult, Failure> {
        let calls = UnrecordedCalls::new(task);
        let mut result = self.execute_with_calls(task, progress, &calls, cancelled).await?;
        let mut used = calls.usage();
        used.add(&CallUsage { cost: result.cost, tokens: result.usage.unwrap_or_default() });
        (result.cost, result.usage) = (used.cost, Some(used.tokens));
        Ok(result)
    }

    async fn execute_with_calls(
        &self,
        task: &Task,
        progress: &Progress,
        calls: &dyn Calls,
        cancelled: &CancellationToken,
    ) -> Result<ExecutionResult, Failure> {
        let format = self.answer_format(task)?;
        let today = today(&self.clock);
        let agent = Self { tools: self.tools.for_attempt(calls).await?, ..self.clone() };
        let system = agent.system.render(&agent, task, &today)?;
        let mut agent_loop = AgentLoop::new(&agent, task, format, system, calls);
        let failure = match agent_loop.run(progress, cancelled).await {
            Ok(answer) => {
                let errors: Vec<Failure> = agent_loop.undone_act(&answer).into_iter().collect();
                return Ok(ExecutionResult { partial: !errors.is_empty(), errors, ..ExecutionResult::new(answer) });
            }
            Err(failure) => failure,
        };
        // What failed calls have cost must not be lost with them.
        let used = agent_loop.unrecorded();
        if used == CallUsage::default() {
            return Err(failure);
        }
        let CallUsage { cost, tokens } = used;
        Ok(ExecutionResult { failure: Some(failure), cost, usage: Some(tokens), ..ExecutionResult::default() })
    }
}

/// The date in UTC.
fn today(clock: &Clock) -> String {
    let now = i64::try_from(clock.now_ms()).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    now.unwrap_or_default().strftime("%Y-%m-%d").to_string()
}

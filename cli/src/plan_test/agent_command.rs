//! Agents of `--agent NAME=COMMAND`: programs that do a task each, as the executor `command` runs them.

use std::collections::BTreeMap;
use std::time::Duration;

use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::limits::Limits;
use goalmill_common::report::{Report, What};
use goalmill_common::task::Task;
use goalmill_worker::executor::command::{CommandExecutor, CommandSettings};
use goalmill_worker::executor::{ExecutionEnd, Executor, Progress};

use crate::exit::{Exit, Failed};

/// Variables that the programs get from this process.
const VARIABLES: [&str; 7] = ["PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV", "NODE_PATH", "TMPDIR"];

/// Programs by agent type.
pub struct AgentCommands(BTreeMap<String, CommandExecutor>);

impl AgentCommands {
    /// - `agents`: names and commands; words are separated by spaces, and there is no shell.
    pub fn new(agents: &[(String, String)], limits: &Limits) -> Result<Self, Failed> {
        let mut commands = BTreeMap::new();
        for (name, command) in agents {
            let settings = CommandSettings {
                argv: command.split_whitespace().map(Into::into).collect(),
                env: VARIABLES.map(Into::into).to_vec(),
                set: BTreeMap::new(),
                dir: None,
                answer: Default::default(),
            };
            let executor = CommandExecutor::new(settings, limits)
                .map_err(|why| Failed::new(Exit::Usage, format!("--agent {name}: {why}")))?;
            commands.insert(name.clone(), executor);
        }
        Ok(Self(commands))
    }

    pub fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// Runs the program of a task, for at most the real time that the task allows.
    pub async fn report(&self, task: &Task) -> Report {
        let mut report = Report::on(task, task.agent_type.clone(), "0-0".into(), "test".into(), What::Released);
        let Some(executor) = self.0.get(task.agent_type.as_str()) else { return report };
        let (progress, cancelled) = (Progress::default(), Default::default());
        let work = executor.execute(task, &progress, &cancelled);
        let limit = Duration::from_millis(task.timeout_ms);
        let result = tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            Err(Failure::new(FailureClass::Timeout, "STEP_TIMEOUT", "the program ran for longer than the step may"))
        });
        ExecutionEnd::new(task, None, result).fill(&mut report);
        report
    }
}

//! `goalmill dev` as a process, and its own client commands against it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Process, binary};

const LIMIT: Duration = Duration::from_mins(1);

/// Variables that describe a model.
const MODEL_VARIABLES: [&str; 5] =
    ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OLLAMA_HOST", "GOALMILL_LLM_MODEL", "GOALMILL_LLM_BASE_URL"];

/// A running `goalmill dev` with a directory of its own.
pub struct Dev {
    process: Process,
    dir: TempDir,
    server: String,
    /// Restarts so far: each process has a log of its own.
    restarts: u32,
}

/// The program with a clean environment.
pub fn program() -> Command {
    let mut command = Command::new(binary());
    let own =
        ["GOALMILL_SERVER", "GOALMILL_REDIS_URL", "GOALMILL_CONFIG", "GOALMILL_TOKEN", "GOALMILL_CA_FILE", "NO_COLOR"];
    for name in own.into_iter().chain(MODEL_VARIABLES) {
        command.env_remove(name);
    }
    command.env("HOME", "/nowhere").stdin(Stdio::null());
    command
}

/// Starts the process; returns the address of its API.
async fn spawn(dir: &Path, log: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Result<(Process, String)> {
    let mut command = program();
    command.envs(environment.iter().copied());
    command.args(["dev", "--listen", "127.0.0.1:0", "--metrics", "off", "--config"]);
    command.arg(dir.join("goalmill.toml")).args(arguments);
    let mut process = Process::spawn(&mut command, &dir.join(log))?;
    process.wait_line("Ctrl-C stops everything", LIMIT).await?;
    let api = process.wait_line("/v1", LIMIT).await?;
    let server = api.split_whitespace().last().and_then(|url| url.strip_suffix("/v1"));
    let server = server.with_context(|| format!("`{api}` does not name the API"))?.to_owned();
    Ok((process, server))
}

impl Dev {
    /// Starts it with these arguments besides the addresses; `config` is its settings file, in TOML.
    pub async fn start(arguments: &[&str], config: &str) -> Result<Self> {
        Self::start_in(arguments, config, &[]).await
    }

    /// As [`Dev::start`], with variables of the environment.
    pub async fn start_in(arguments: &[&str], config: &str, environment: &[(&str, &str)]) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let settings = dir.path().join("goalmill.toml");
        std::fs::write(&settings, config)?;
        let (process, server) = spawn(dir.path(), "log", arguments, environment).await?;
        Ok(Self { process, dir, server, restarts: 0 })
    }

    /// Kills it with `kill -9` and starts it with these arguments and the same settings.
    pub async fn restart(&mut self, arguments: &[&str]) -> Result<()> {
        self.process.kill9();
        self.restarts += 1;
        let log = format!("log-{}", self.restarts);
        (self.process, self.server) = spawn(self.dir.path(), &log, arguments, &[]).await?;
        Ok(())
    }

    /// A file of this name in its directory, for the test's own use.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The address of its API.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Runs a client command.
    pub fn run(&self, arguments: &[&str]) -> Result<Output> {
        Ok(program().args(arguments).args(["--server", &self.server]).output()?)
    }

    /// Output of a client command that must end with `code`.
    pub fn says(&self, arguments: &[&str], code: i32) -> Result<String> {
        let output = self.run(arguments)?;
        let errors = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8(output.stdout)?;
        ensure!(output.status.code() == Some(code), "{arguments:?} ended with {}: {text}{errors}", output.status);
        Ok(text)
    }

    /// The events of a plan.
    pub fn events(&self, plan: &str) -> Result<Vec<Value>> {
        let lines = self.says(&["events", plan, "-o", "jsonl"], 0)?;
        lines.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }
}

//! Flags of the processes: `dev`, `scheduler`, `worker`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogForm {
    #[default]
    Text,
    Json,
}

/// Flags of every role.
#[derive(Args, Clone, Debug)]
pub struct RoleArgs {
    /// Address of Redis: `redis://`, `rediss://`, `redis+unix://`, `redis+sentinel://HOST,HOST/SERVICE`.
    #[arg(long, value_name = "URL", env = "GOALMILL_REDIS_URL", hide_env_values = true)]
    pub redis: Option<String>,
    /// Settings file (TOML or YAML); by default `./goalmill.toml`, then `~/.config/goalmill/config.toml`.
    #[arg(long, value_name = "FILE", env = "GOALMILL_CONFIG")]
    pub config: Option<PathBuf>,
    /// Format of the log.
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub log_format: LogForm,
}

/// A demo of `dev --demo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Demo {
    /// A trip without failures.
    Trip,
    /// A trip with failures: the plan is revised until it reaches its limit.
    Story,
    /// A trip that is booked, and taken back when its payment fails.
    Saga,
}

impl Demo {
    /// As it is written after `--demo`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trip => "trip",
            Self::Story => "story",
            Self::Saga => "saga",
        }
    }
}

/// Runs everything in one process, for trial and demo.
///
/// Needs no Redis, no API key, no network and no account. State is kept in memory unless `--data-dir` or
/// `--redis` is given. Serves the demo agents, or with a language model the shipped agents, and those of the settings.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    goalmill dev --demo                      runs a demo plan, prints its results, and ends\n  \
    goalmill dev --demo story                the same for a plan that changes when the world does\n  \
    goalmill dev --demo saga                 the same for a plan that waits for an event, fails and takes back what it did\n  \
    goalmill dev                             stays up until Ctrl-C\n  \
    goalmill dev --agent worker.py           serves the agents of a program, and starts it again when it changes\n  \
    goalmill dev --data-dir ./goalmill-data  keeps its state over restarts\n  \
    goalmill dev --model gpt-4.1-mini        plans with a model, and serves agents that ask it\n  \
    goalmill dev --redis auto                on a private Redis server of its own")]
pub struct DevArgs {
    /// Runs on this Redis instead of the embedded store; `auto` starts a private `redis-server`.
    #[arg(long, value_name = "URL|auto")]
    pub redis: Option<String>,
    /// Keeps the embedded store in a journal under this directory, and finished plans in an archive beside it.
    #[arg(long, value_name = "DIR", conflicts_with = "redis")]
    pub data_dir: Option<PathBuf>,
    /// Address of the API; 127.0.0.1:8080, or a free port when that is taken.
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Allows an address other than loopback; the API has no authentication.
    #[arg(long)]
    pub insecure: bool,
    /// Address of the metrics; 127.0.0.1:9464, or a free port when that is taken; `off` for none.
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<String>,
    /// Submits a demo goal, shows the plan, prints the results, and ends. `story` is a trip with failures,
    /// planned and revised by a scripted model; `saga` is a trip that is taken back when its payment fails.
    #[arg(long, value_name = "WHICH", num_args = 0..=1, default_missing_value = "trip")]
    pub demo: Option<Demo>,
    /// Keeps running after the demo.
    #[arg(long, requires = "demo")]
    pub keep: bool,
    /// The goal of the demo `trip`.
    #[arg(long, requires = "demo", value_name = "TEXT")]
    pub goal: Option<String>,
    /// Runs this program beside the store and serves its agents; starts it again when the file changes (`.py` by `python3`,
    /// `.mjs` and `.ts` by `node`). May be given more than once.
    #[arg(long = "agent", value_name = "FILE")]
    pub programs: Vec<PathBuf>,
    /// Concurrent tasks.
    #[arg(long, value_name = "N")]
    pub slots: Option<u32>,
    /// The language model for planning and for the shipped agents: a name under `models` in the settings, a well-known
    /// name (`gpt-4.1-mini`, `claude-sonnet-4-5`; needs `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`), `ollama/NAME`,
    /// `scripted` (with `--model-script`), or `none`. By default the models of the settings, else that of the environment.
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Serves the demo agents although a model is configured.
    #[arg(long)]
    pub demo_agents: bool,
    /// Serves a language model scripted by this file (YAML or JSON), in place of those of the
    /// settings.
    #[arg(long, value_name = "FILE")]
    pub model_script: Option<PathBuf>,
    /// Settings file (TOML or YAML).
    #[arg(long, value_name = "FILE", env = "GOALMILL_CONFIG")]
    pub config: Option<PathBuf>,
}

/// Runs a scheduler: API, planners, router, shards. Any number may run.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  \
    goalmill scheduler --redis redis://127.0.0.1:6379 --listen 127.0.0.1:8080 --metrics 0.0.0.0:9464")]
pub struct SchedulerArgs {
    #[command(flatten)]
    pub role: RoleArgs,
    /// Address of the API.
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Allows an address other than loopback; the API has no authentication.
    #[arg(long)]
    pub insecure: bool,
    /// Address of `/metrics`; `off` for none.
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<String>,
    /// Checks the settings, with the files, models, planners and agents that they name, and ends. Asks no server.
    #[arg(long)]
    pub check_config: bool,
}

/// Runs a worker that pulls tasks of its agent types. Any number may run.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "The first SIGTERM or Ctrl-C drains: nothing new is taken, what runs is finished. The second one hands \
    everything back at once.\n\nExamples:\n  \
    goalmill worker --demo                          serves the demo agents\n  \
    goalmill worker --demo --agents sleep --slots 64\n  \
    goalmill worker --model-agents --config models.toml\n  \
    goalmill worker --config worker.toml --agents hotel_agent,flight_agent\n  \
    goalmill worker list                            lists the workers that run\n  \
    goalmill worker drain host-a1b2c3d4 --wait      lets one end"
)]
pub struct WorkerArgs {
    #[command(flatten)]
    pub run: WorkerRunArgs,
    #[command(subcommand)]
    pub command: Option<WorkerCommand>,
}

/// Flags of a running worker.
#[derive(Args, Clone, Debug)]
pub struct WorkerRunArgs {
    #[command(flatten)]
    pub role: RoleArgs,
    /// Serves only these agent types of the settings or of `--demo`.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub agents: Vec<String>,
    /// Concurrent tasks.
    #[arg(long, value_name = "N")]
    pub slots: Option<u32>,
    /// Serves the demo agents, including `sleep`.
    #[arg(long)]
    pub demo: bool,
    /// Serves the shipped agents that ask a language model of the settings.
    #[arg(long)]
    pub model_agents: bool,
    /// Address of `/livez`, `/readyz` and `/metrics` [default: none].
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Unique id of the worker [default: host name and random characters].
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Serves the agents of the program that has started this process, by frames over the standard streams. The packages
    /// for Python and TypeScript use it.
    #[arg(long, conflicts_with_all = ["agents", "demo", "model_agents", "slots"])]
    pub bridge: bool,
    /// Checks the settings, with the files, models, planners and agents that they name, and ends. Asks no server.
    #[arg(long, conflicts_with = "bridge")]
    pub check_config: bool,
}

#[derive(Debug, Subcommand)]
pub enum WorkerCommand {
    /// Lists the running workers.
    List,
    /// Drains a worker: it finishes its tasks and ends.
    ///
    /// It pulls no tasks after its next heartbeat. Workers in other languages may ignore this.
    Drain {
        /// The worker: its id, or a unique beginning or end of it.
        worker: String,
        /// Waits until the worker has ended.
        #[arg(long)]
        wait: bool,
        /// Stops waiting after this time (exit code 6); the drain continues.
        #[arg(long, value_name = "DURATION", value_parser = super::duration, requires = "wait")]
        timeout: Option<std::time::Duration>,
    },
}

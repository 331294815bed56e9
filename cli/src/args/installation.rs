//! The commands about an installation: agents, planners, models, queues, dead letters, tokens.

use std::num::NonZeroUsize;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use goalmill_common::access::Role;

use super::{duration, period};

/// Language of a generated worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    Python,
}

#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Lists the registered agent types.
    List,
    /// Shows an agent type: capabilities, actions, inputs.
    Get {
        /// The agent type.
        agent_type: String,
    },
    /// Writes a worker to start from.
    Init {
        /// The agent type.
        agent_type: String,
        /// The language.
        #[arg(long, value_name = "LANGUAGE", default_value = "python")]
        lang: Language,
        /// The directory [default: a new one named after the agent type].
        #[arg(long, value_name = "DIR")]
        dir: Option<std::path::PathBuf>,
    },
    /// Registers or updates an agent type.
    Register {
        /// The agent as YAML or JSON; `-` for standard input.
        file: String,
    },
    /// Asks the router which agent type would do a task, and why.
    Route {
        /// The task, in plain words.
        text: String,
        /// Candidates at most; all without it.
        #[arg(long, value_name = "N")]
        top: Option<NonZeroUsize>,
    },
}

#[derive(Debug, Subcommand)]
pub enum PlannerCommand {
    /// Lists the planners in the order in which they are asked.
    List,
    /// Lists rules and domains, and what they match; `test` tests rules.
    Rules {
        #[command(subcommand)]
        command: Option<RulesCommand>,
    },
}

#[derive(Debug, Subcommand)]
pub enum RulesCommand {
    /// Tests which rule takes a goal, and which facts are read; works without a server.
    #[command(after_help = "Examples:\n  \
        goalmill planner rules test cases.yaml\n  \
        goalmill planner rules test cases.yaml --config goalmill.toml -o json\n\n\
        FILE is a YAML list of `goal`, `constraints`, `kind` and `facts`: docs/planners.md#your-own-rules")]
    Test {
        /// YAML file with cases; `-` for standard input.
        file: String,
        /// Settings file (TOML or YAML); its `planner.rules_dir` holds the rules.
        #[arg(long, value_name = "FILE", env = "GOALMILL_CONFIG")]
        config: Option<std::path::PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub enum ModelCommand {
    /// Lists the language models with their live rates.
    List,
    /// Asks a model of the settings for a text, a stream, a small plan and a tool call, and shows what it can do.
    ///
    /// Needs no scheduler. The calls cost what the model costs, a few hundred tokens. Exit code 1 if planners or agents could
    /// not use the model.
    #[command(after_help = "Examples:\n  \
        goalmill model check large --config goalmill.toml\n  \
        goalmill model check qwen3:8b\n  \
        goalmill model check large -o json")]
    Check {
        /// Name of a model in the settings, or a known model (claude-…, gpt-…, gemini-…, a model of a local Ollama).
        name: String,
        /// Settings file (TOML or YAML) with `models`.
        #[arg(long, value_name = "FILE", env = "GOALMILL_CONFIG")]
        config: Option<std::path::PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub enum QueueCommand {
    /// Lists the queues: waiting and running tasks, workers.
    List,
    /// Lists the queues repeatedly.
    Top {
        /// Time between two lists.
        #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1s")]
        interval: Duration,
        /// Ends after this many lists.
        #[arg(long, value_name = "N")]
        count: Option<u32>,
    },
    /// Pauses a queue: no new tasks; queued tasks are still pulled.
    Pause {
        /// The agent type.
        agent_type: String,
    },
    /// Resumes a paused queue.
    Resume {
        /// The agent type.
        agent_type: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum DeadCommand {
    /// Lists the newest dead letters; with --submissions, what was refused of the stream of submissions.
    List {
        /// Only dead letters of this agent type.
        #[arg(conflicts_with = "submissions")]
        agent_type: Option<String>,
        /// Submissions by stream that were refused in the last week.
        #[arg(long)]
        submissions: bool,
    },
    /// Shows a dead letter: the task and its failure.
    Get {
        /// The agent type.
        agent_type: String,
        /// The dead letter, as listed by `goalmill dead list`.
        entry: String,
    },
    /// Retries dead letters, each as a new plan, and discards them.
    ///
    /// The original plans do not change.
    Retry(Letters),
    /// Discards dead letters.
    Discard(Letters),
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Creates a token and prints its text, which is shown this once.
    Create {
        /// The name of the caller in logs: an id such as `ann` or `ci:nightly`.
        actor: String,
        /// What the caller may do: `viewer`, `submitter`, `approver`, `operator`, `admin`, `scaler`. May be repeated.
        #[arg(long, value_name = "ROLE", required = true, value_delimiter = ',', value_parser = role)]
        role: Vec<Role>,
        /// The namespace that the caller sees and changes, or `*` for all.
        #[arg(long, value_name = "NAMESPACE", default_value = "default")]
        scope: String,
        /// Time until the token expires, such as `90d`; without it, it is valid until it is revoked.
        #[arg(long, value_name = "DURATION", value_parser = period)]
        ttl: Option<Duration>,
    },
    /// Lists the tokens, without their secrets.
    List,
    /// Revokes a token: it is invalid immediately.
    Revoke {
        /// The id of the token, as listed by `goalmill token list`.
        id: String,
    },
}

/// A selection of dead letters.
#[derive(Args, Debug)]
pub struct Letters {
    /// The agent type.
    pub agent_type: String,
    /// The dead letters, as listed by `goalmill dead list`.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub entry: Vec<String>,
    /// All listed dead letters of the agent type.
    #[arg(long)]
    pub all: bool,
    /// Skips the prompt.
    #[arg(short, long)]
    pub yes: bool,
}

fn role(text: &str) -> Result<Role, String> {
    Role::parse(text).ok_or_else(|| {
        let known: Vec<&str> = Role::ALL.iter().map(|role| role.as_str()).collect();
        format!("it is none of {}", known.join(", "))
    })
}

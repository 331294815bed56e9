//! Flags of `submit`, `run` and the tools around plans.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use clap_complete::Shell;
use goalmill_common::document_format::DocumentFormat;

use super::duration;
use super::planning::PlanningArgs;

/// Whether and how to wait for a plan's end.
#[derive(Args, Clone, Debug)]
pub struct WaitArgs {
    /// Waits for the plan's end and prints its results (exit code 3 when it is not completed).
    #[arg(long)]
    pub wait: bool,
    /// Shows the plan live until its end.
    #[arg(long, conflicts_with = "wait")]
    pub watch: bool,
    /// Stops waiting after this time (exit code 6); the plan continues.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Idempotency key: submissions with the same key give the same plan.
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// Submits through the stream of this Redis instead of the API.
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
}

/// Submits a goal; a planner makes the plan.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Use single quotes, or the shell eats the `$2` of `$2000`.\n\nExamples:\n  \
    goalmill submit 'Plan a 3-day trip to Paris in May with a $2000 budget' --watch\n  \
    goalmill submit 'Summarise the incident' --wait --timeout 5m -o json\n  \
    goalmill submit --file goal.yaml --constraint duration_days=3\n  \
    goalmill submit 'Summarise the incident' --redis redis://127.0.0.1:6379")]
pub struct SubmitArgs {
    /// The goal, in plain words.
    #[arg(required_unless_present = "file")]
    pub goal: Option<String>,
    /// The goal as a document (YAML or JSON); `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "goal")]
    pub file: Option<String>,
    /// A limit by name: `budget=2000`, `month=May`. The value may be JSON.
    #[arg(long, value_name = "NAME=VALUE")]
    pub constraint: Vec<String>,
    /// A value of the state that a workflow of plan actions refers to: `user_goal=…`.
    #[arg(long, value_name = "NAME=VALUE", requires = "file")]
    pub state: Vec<String>,
    /// An input of the plan, JSON or else a text: `city=Paris`; or `@FILE` with several, YAML or JSON. May be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    pub input: Vec<String>,
    /// A success criterion; may be given more than once.
    #[arg(long, value_name = "TEXT")]
    pub criterion: Vec<String>,
    /// Priority, 1 (lowest) to 10 (highest).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=10))]
    pub priority: Option<u8>,
    /// Cost limit of the plan in US dollars.
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub max_cost: Option<f64>,
    /// Token limit of the plan.
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u64>,
    /// Deadline of the plan, from now.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub deadline: Option<Duration>,
    /// The plan waits for approval before it runs (exit code 7 with `--wait`).
    #[arg(long)]
    pub require_approval: bool,
    /// Revisions of the plan wait for approval.
    #[arg(long)]
    pub approve_revisions: bool,
    /// Confidence floor, 0 to 1: a revision below it ends the plan [default: 0.3].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub min_confidence: Option<f64>,
    /// Makes a demo agent fail: `hotel_agent=fully_booked`, `flight_agent=unavailable`. Other agents ignore it.
    #[arg(long, value_name = "AGENT=FAULT", value_parser = fault)]
    pub demo_fault: Vec<(String, String)>,
    /// Plans and prices the goal; runs nothing.
    #[arg(long, conflicts_with_all = ["wait", "watch", "redis"])]
    pub dry_run: bool,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub planning: PlanningArgs,
}

/// Submits a plan that is ready to run, as YAML or JSON.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    goalmill run plan.yaml --watch\n  \
    goalmill run plan.yaml --wait -o json | jq .results\n  \
    goalmill run trip@3 --input city=Paris --watch\n  \
    goalmill import wfformat trace.json --time-scale 0 | goalmill run - --wait")]
pub struct RunArgs {
    /// The plan; `-` for standard input. Where there is no such file, a stored plan: `trip`, its newest version, or `trip@3`.
    pub file: String,
    /// An input of the plan, JSON or else a text: `city=Paris`; or `@FILE` with several, YAML or JSON. May be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    pub input: Vec<String>,
    /// Checks, routes and prices the plan; runs nothing.
    #[arg(long, conflicts_with_all = ["wait", "watch", "redis"])]
    pub dry_run: bool,
    #[command(flatten)]
    pub wait: WaitArgs,
    /// For revisions and sub-plans of the plan.
    #[command(flatten)]
    pub planning: PlanningArgs,
}

/// Replays an exported event log and shows the resulting state.
///
/// Refuses a log with missing, swapped or repeated events and names the line (exit code 8).
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    goalmill events @latest -o jsonl | goalmill replay -\n  \
    goalmill plan get @latest -o json > state.json && goalmill replay plan.jsonl --expect state.json")]
pub struct ReplayArgs {
    /// The log, one event per line as printed by `goalmill events -o jsonl`; `-` for standard input.
    pub file: String,
    /// A plan as printed by `goalmill plan get -o json`; the log must give the same state.
    #[arg(long, value_name = "FILE")]
    pub expect: Option<PathBuf>,
    /// Prints the statuses of the plan and its steps after each event, instead of those at the end.
    #[arg(long, conflicts_with = "expect")]
    pub each: bool,
}

/// Tests plans without a server: one process, virtual time, mock agents.
///
/// A plan with waits of days takes milliseconds. The engine is the one of the scheduler.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit code 1 when a test fails, or when a repetition differs from its log; 8 for a file that cannot \
    be used.\n\nExamples:\n  \
    goalmill test docs/examples/tests/*.yaml\n  \
    goalmill test trip.test.yaml --junit report.xml\n  \
    goalmill events @latest -o jsonl | goalmill test --from-log -\n  \
    goalmill test --from-log plan.jsonl --agent 'hotel_agent=python3 new_agent.py'\n\n\
    The form of FILE: docs/testing.md, or `goalmill schema test`"
)]
pub struct TestArgs {
    /// YAML or JSON files with tests; `-` for standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["from_log", "stdio"], conflicts_with_all = ["from_log", "stdio"])]
    pub files: Vec<String>,
    /// Only tests with this text in their names.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["from_log", "stdio"])]
    pub filter: Option<String>,
    /// Writes the results as XML of JUnit.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from_log", "stdio"])]
    pub junit: Option<PathBuf>,
    /// Repeats a recorded plan and names the first difference: a log as printed by `goalmill events -o jsonl`; `-` for
    /// standard input.
    #[arg(long, value_name = "LOG", conflicts_with = "stdio")]
    pub from_log: Option<String>,
    /// With `--from-log`: mock agents that stand for recorded ones, a file as `agents` of a test.
    #[arg(long, value_name = "FILE", requires = "from_log", conflicts_with = "files")]
    pub mock: Option<String>,
    /// With `--from-log`: a program that does the tasks of an agent type; the task on its standard input, outputs on its
    /// standard output. May be given more than once.
    #[arg(long, value_name = "NAME=COMMAND", value_parser = agent_command, requires = "from_log", conflicts_with = "files")]
    pub agent: Vec<(String, String)>,
    /// Serves a test kit over standard input and output.
    #[arg(long)]
    pub stdio: bool,
    /// Settings file (TOML or YAML) with the limits of the installation.
    #[arg(long, value_name = "FILE", env = "GOALMILL_CONFIG")]
    pub config: Option<PathBuf>,
}

/// Asks each language model for plans of your goals, and counts how many are valid.
///
/// The server plans with its catalogue and settings, by the planner `llm` and one model at a time; nothing runs. The calls cost
/// what the models cost.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit code 3 when a share is below `--min-valid` or `--min-first`, 8 for a file that cannot be used.\n\n\
    Examples:\n  \
    goalmill eval goals.yaml\n  \
    goalmill eval goals.yaml --models small,large --repeat 3 --details\n  \
    goalmill eval goals.yaml --models small --min-valid 0.9 -o json\n\n\
    FILE is a list of goals with what is expected of their plans: docs/models.md#evaluate-models"
)]
pub struct EvalArgs {
    /// YAML or JSON file with the goals; `-` for standard input.
    pub file: String,
    /// Models of the server's settings [default: all].
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub models: Vec<String>,
    /// Asks for each plan so many times.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,
    /// Lists each goal with its first issue.
    #[arg(long)]
    pub details: bool,
    /// Least share of valid plans of each model, 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub min_valid: Option<f64>,
    /// Least share of plans that are valid at the first answer, 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub min_first: Option<f64>,
}

/// Checks the installation and suggests fixes.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit code 1 when there is a problem; warnings alone give 0.\n\nExamples:\n  goalmill doctor\n  goalmill doctor --wait 30s -q"
)]
pub struct DoctorArgs {
    /// Repeats the checks until there is no problem, at most for this time.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub wait: Option<Duration>,
    /// Checks this Redis instead of the one in the settings.
    #[arg(long, value_name = "URL", env = "GOALMILL_REDIS_URL", hide_env_values = true)]
    pub redis: Option<String>,
    /// Settings file (TOML or YAML).
    #[arg(long, value_name = "FILE", env = "GOALMILL_CONFIG")]
    pub config: Option<PathBuf>,
}

/// Shows every setting and the source of its value.
#[derive(Args, Debug)]
#[command(
    after_help = "Layers: defaults, then the file, then `GOALMILL__SECTION__NAME` of the environment, then flags."
)]
pub struct ConfigArgs {
    /// Only settings whose path begins with this: `redis`, `scheduler.window_min`.
    pub prefix: Option<String>,
    /// Settings file (TOML or YAML).
    #[arg(long, value_name = "FILE", env = "GOALMILL_CONFIG")]
    pub config: Option<PathBuf>,
    /// Only settings that are not defaults.
    #[arg(long)]
    pub changed: bool,
}

/// Prints the JSON Schema of a document.
#[derive(Args, Debug)]
pub struct SchemaArgs {
    /// The document; lists all names when missing.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(goalmill_common::schema::NAMES.iter().copied().chain(["test"])))]
    pub name: Option<String>,
    /// The form of documents of another planner: `subtasks`, `plan_and_execute`, `actions`, `phases`, `nodes`.
    #[arg(long, value_name = "NAME", conflicts_with = "name", value_parser = super::values::document_format)]
    pub format: Option<DocumentFormat>,
}

#[derive(Debug, Subcommand)]
pub enum ImportCommand {
    /// Converts a document of another planner to our form: a plan, a goal or a workflow.
    ///
    /// The form is recognised by its marks: `subtasks`, `plan_and_execute`, `actions`, `phases`, `nodes`. Notes on standard
    /// error say what was converted and what has no meaning here.
    #[command(after_help = "Examples:\n  \
        goalmill import document theirs.json > plan.yaml\n  \
        goalmill import document stream.ndjson | goalmill run - --wait")]
    Document {
        /// The document, YAML or JSON; `-` for standard input.
        file: String,
    },
    /// Converts a WfCommons WfFormat 1.5 workflow to a plan.
    Wfformat(WfformatArgs),
}

/// Converts a WfCommons WfFormat 1.5 workflow to a plan.
///
/// Step ids are the task ids, dependencies the tasks' parents; each step sleeps as long as the traced task ran.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    goalmill import wfformat trace.json --time-scale 0.01 > plan.yaml\n  \
    goalmill import wfformat trace.json --time-scale 0 | goalmill run - --wait")]
pub struct WfformatArgs {
    /// The workflow; `-` for standard input.
    pub file: String,
    /// Seconds slept for each traced second; 0 makes every step a no-op.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    pub time_scale: f64,
    /// The agent type of the steps.
    #[arg(long, value_name = "NAME", default_value = "sleep")]
    pub agent_type: String,
}

/// Serves MCP over standard input and output.
///
/// An MCP client starts it as its server and calls the API through it. It only reads unless writes are allowed.
#[derive(Args, Debug)]
#[command(after_help = "Example of a client's settings:\n  \
    {\"mcpServers\": {\"goalmill\": {\"command\": \"goalmill\", \"args\": [\"mcp\", \"--allow-writes\"]}}}")]
pub struct McpArgs {
    /// Offers the tools that submit, cancel and answer. Approvals always ask the person at the client.
    #[arg(long)]
    pub allow_writes: bool,
}

/// Prints a completion script for a shell.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  goalmill completions bash > ~/.local/share/bash-completion/completions/goalmill")]
pub struct CompletionsArgs {
    pub shell: Shell,
}

/// Writes manual pages, one per command.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  goalmill man ~/.local/share/man/man1 && man goalmill-plan-edit\n  \
    goalmill man | man -l -")]
pub struct ManArgs {
    /// The directory, created when missing; by default the first page is printed.
    pub dir: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "it must be a number from 0 to 1".into())
}

fn fault(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(agent, fault)| !agent.is_empty() && !fault.is_empty());
    parts.map(|(agent, fault)| (agent.to_owned(), fault.to_owned())).ok_or_else(|| "it must be AGENT=FAULT".into())
}

fn agent_command(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, command)| !name.is_empty() && !command.trim().is_empty());
    parts.map(|(name, command)| (name.to_owned(), command.to_owned())).ok_or_else(|| "it must be NAME=COMMAND".into())
}

/// Parses an amount of money: a bounded number that is not negative.
fn dollars(text: &str) -> Result<f64, String> {
    let most = goalmill_common::json_limits::COST_MAX;
    let cost: f64 = text.parse().map_err(|_| "give a number of US dollars, such as `2.50`".to_owned())?;
    if (0.0..=most).contains(&cost) { Ok(cost) } else { Err(format!("give a number from 0 to {most}")) }
}

#[cfg(test)]
mod tests {
    use super::dollars;

    #[test]
    fn money_is_a_number_that_can_be() {
        assert_eq!(dollars("2.5"), Ok(2.5));
        for text in ["nan", "inf", "-inf", "-1", "1e16", "1e999", "many"] {
            assert!(dollars(text).is_err(), "{text}");
        }
    }
}

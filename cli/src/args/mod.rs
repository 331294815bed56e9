//! The command line as types: every command, flag and help text.

mod approvals;
mod archive;
mod event;
mod inspect;
mod installation;
mod plan;
mod planning;
mod roles;
mod tools;
mod values;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use goalmill_client::BearerToken;

pub use approvals::{
    ApproveArgs, ChangeArgs, DiffArgs, EditArgs, ForkArgs, PlanAnswerArgs, ReplanArgs, StepAnswerArgs,
};
pub use archive::{ArchiveCommand, ArchiveImportArgs, ExportArgs, PruneArgs};
pub use event::{EventCommand, EventSendArgs};
pub use inspect::{EventsArgs, ExplainArgs, LogsArgs, StatsArgs, WatchArgs};
pub use installation::{
    AgentCommand, DeadCommand, Language, Letters, ModelCommand, PlannerCommand, QueueCommand, RulesCommand,
    TokenCommand,
};
pub use plan::{BulkArgs, GraphForm, PlanCommand, Reasoned, StepCommand, StepRef};
pub use planning::PlanningArgs;
pub use roles::{Demo, DevArgs, LogForm, RoleArgs, SchedulerArgs, WorkerArgs, WorkerCommand, WorkerRunArgs};
pub use tools::{
    CompletionsArgs, ConfigArgs, DoctorArgs, EvalArgs, ImportCommand, ManArgs, McpArgs, ReplayArgs, RunArgs,
    SchemaArgs, SubmitArgs, TestArgs, WaitArgs, WfformatArgs,
};
pub use values::{ColorWhen, Format, TimeFormat, at_least_one, duration, event_types, period};

/// Default address of the API.
pub const SERVER: &str = "http://127.0.0.1:8080";

/// Runs plans made by AI agents: plans goals, dispatches steps over Redis, recovers from failures.
#[derive(Debug, Parser)]
#[command(
    name = "goalmill",
    version,
    propagate_version = true,
    max_term_width = 110,
    disable_help_subcommand = true,
    after_help = "Start here:\n  \
        goalmill dev --demo\n  \
        goalmill submit 'Plan a 3-day trip to Paris in May with a $2000 budget' --watch\n  \
        goalmill explain @latest\n\n\
        Exit codes:\n  \
        0 done · 1 other failure · 2 usage · 3 plan not completed\n  \
        4 not permitted · 5 not found · 6 timeout · 7 awaiting approval\n  \
        8 invalid input · 69 server or Redis unreachable\n  \
        130 interrupted (the plan goes on)"
)]
pub struct Cli {
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub command: Command,
}

/// Flags of every command.
#[derive(Args, Clone, Debug)]
pub struct Globals {
    /// Output format: `table` and `wide` for people, the others for programs.
    #[arg(short, long, global = true, value_name = "FORMAT", help_heading = "Global options")]
    pub output: Option<Format>,
    /// Time format in tables; by default each column has its own.
    #[arg(long, global = true, value_name = "FORM", help_heading = "Global options")]
    pub time_format: Option<TimeFormat>,
    /// Address of the API [default: http://127.0.0.1:8080].
    #[arg(long, global = true, value_name = "URL", env = "GOALMILL_SERVER", help_heading = "Global options")]
    pub server: Option<String>,
    /// Token for the API. Prefer GOALMILL_TOKEN: other users see the command line.
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "GOALMILL_TOKEN",
        hide_env_values = true,
        help_heading = "Global options"
    )]
    pub token: Option<BearerToken>,
    /// PEM file with the certificates of the only authorities to trust for `https://` [default: those of the machine].
    #[arg(long, global = true, value_name = "FILE", env = "GOALMILL_CA_FILE", help_heading = "Global options")]
    pub ca_file: Option<PathBuf>,
    /// The namespace to see and change, for tokens of all namespaces.
    #[arg(long, global = true, value_name = "NAME", env = "GOALMILL_NAMESPACE", help_heading = "Global options")]
    pub namespace: Option<String>,
    /// How long reads and submissions are sent again while a scheduler is away or not ready; 0 fails immediately.
    #[arg(
        long,
        global = true,
        value_name = "TIME",
        env = "GOALMILL_RETRY_FOR",
        default_value = "10s",
        value_parser = duration,
        help_heading = "Global options"
    )]
    pub retry_for: Duration,
    /// When to use colours; NO_COLOR turns them off.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Global options")]
    pub color: ColorWhen,
    /// Prints only results and errors.
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Global options")]
    pub quiet: bool,
    /// Logs more; use twice for debugging.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Global options")]
    pub verbose: u8,
}

/// The command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs everything in one process, for trial and demo.
    Dev(DevArgs),
    /// Runs a scheduler: API, planners, router, shards.
    Scheduler(SchedulerArgs),
    /// Runs a worker; lists or drains running workers.
    Worker(WorkerArgs),
    /// Submits a goal; a planner makes the plan.
    Submit(SubmitArgs),
    /// Submits a plan that is ready to run, as YAML or JSON.
    Run(RunArgs),
    /// Shows a plan live until it ends.
    Watch(WatchArgs),
    /// Inspects and controls plans.
    #[command(subcommand)]
    Plan(PlanCommand),
    /// Inspects and controls single steps.
    #[command(subcommand)]
    Step(StepCommand),
    /// Explains why a plan or a step does not progress, or what a code means, with a hint.
    Explain(ExplainArgs),
    /// Prints a plan's event log.
    Events(EventsArgs),
    /// Sends events that plans wait for, and lists the waits.
    #[command(subcommand)]
    Event(EventCommand),
    /// Prints the newest events of all plans.
    Logs(LogsArgs),
    /// Measures plans that ended against their targets: validity, completeness, confidence, cost, times.
    Stats(StatsArgs),
    /// Lists and registers agent types, queries the router.
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Lists planners and rules.
    #[command(subcommand)]
    Planner(PlannerCommand),
    /// Lists language models.
    #[command(subcommand)]
    Model(ModelCommand),
    /// Lists, pauses and resumes the queues of agent types.
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Lists, retries and discards dead letters.
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Creates, lists and revokes tokens for the API.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Prunes, exports and imports the archive of finished plans.
    #[command(subcommand)]
    Archive(ArchiveCommand),
    /// Tests plans without a server, in virtual time, with mock agents.
    Test(TestArgs),
    /// Replays an exported event log and shows the resulting state.
    Replay(ReplayArgs),
    /// Measures steps per second, compared with raw Redis in the same run.
    Bench(crate::bench::BenchArgs),
    /// Asks each language model for plans of your goals, and counts how many are valid.
    Eval(EvalArgs),
    /// Checks the installation and suggests fixes.
    Doctor(DoctorArgs),
    /// Asks one process whether it is ready: a scheduler, or a worker at its `--listen` address (exit code 0 or 1).
    ///
    /// For container health checks. It checks this process and its Redis only; `doctor` checks the installation.
    Health,
    /// Shows every setting and the source of its value.
    Config(ConfigArgs),
    /// Prints the JSON Schema of a document.
    Schema(SchemaArgs),
    /// Serves MCP over standard input and output: plans for models and their tools.
    Mcp(McpArgs),
    /// Converts workflows and documents of other systems to plans.
    #[command(subcommand)]
    Import(ImportCommand),
    /// Prints a completion script for a shell.
    Completions(CompletionsArgs),
    /// Writes manual pages, one per command.
    Man(ManArgs),
    /// Runs one plan from standard input to test whether it kills the process. Used by `scheduler`.
    #[command(hide = true)]
    Trial,
    /// Prints the version; as JSON also the protocol, the platform and the optional parts.
    Version,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("goalmill").chain(line.split_whitespace()))
    }

    fn refused(line: &str) -> i32 {
        parse(line).expect_err("it is refused").exit_code()
    }

    #[test]
    fn the_tree_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_worker_runs_with_flags_and_lists_with_a_verb() {
        let Command::Worker(run) = parse("worker --agents a,b --slots 4 --demo").expect("it is valid").command else {
            panic!("it is a worker");
        };
        assert!(run.command.is_none() && run.run.demo);
        assert_eq!((run.run.agents, run.run.slots), (vec!["a".to_owned(), "b".to_owned()], Some(4)));
        let Command::Worker(list) = parse("worker list -o json").expect("it is valid").command else {
            panic!("it is a worker");
        };
        assert!(matches!(list.command, Some(WorkerCommand::List)));
        assert_eq!(refused("worker --demo list"), 2);
    }

    #[test]
    fn global_flags_may_stand_after_the_verb() {
        let cli = parse("plan list -o jsonl --server http://h:1 --color never -q").expect("it is valid");
        assert_eq!(cli.globals.output, Some(Format::Jsonl));
        assert_eq!((cli.globals.server.as_deref(), cli.globals.quiet), (Some("http://h:1"), true));
    }

    #[test]
    fn roles_take_redis_and_config() {
        assert!(parse("scheduler --redis redis://h --config f.toml --listen 0.0.0.0:1 --metrics off").is_ok());
        assert!(parse("worker --redis redis://h --config f.toml --demo").is_ok());
        assert!(parse("dev --redis auto --demo --keep --listen 127.0.0.1:0").is_ok());
        assert_eq!(refused("dev --keep"), 2);
        assert_eq!(refused("dev --redis auto --data-dir d"), 2);
    }

    #[test]
    fn what_is_missing_or_contradictory_is_a_usage_error() {
        for line in [
            "",
            "submit",
            "run",
            "plan",
            "plan get",
            "submit g --wait --watch",
            "submit g --priority 11",
            "submit g --temperature 3",
            "submit g --candidates 0",
            "submit g --strategy deep",
            "submit g --only-model",
            "test",
            "test f --stdio",
            "test --from-log l f",
            "test f --mock m",
            "test --from-log l --agent a",
            "eval",
            "eval f --min-valid 2",
            "eval f --repeat 0",
            "plan replan a --strategy edit",
            "submit g --timeout 5d",
            "run p --dry-run --wait",
            "plan list --status flying",
            "schema nonsense",
            "plan list -o xml",
            "plan list --since 5d",
            "plan list --time-format lunar",
            "plan wait",
            "explain p0-1 --codes",
            "dead get a",
            "dead retry",
            "dead retry a",
            "dead discard a 1-0 --all",
            "queue pause",
            "worker drain",
            "worker --demo drain w",
            "logs --since 5w",
            "stats --since 5w",
            "submit g --demo-fault hotel_agent",
            "token create",
            "token create ann",
            "token create ann --role root",
            "token create ann --role viewer --ttl 5w",
            "token revoke",
            "plan diff a",
            "plan diff a b --revision 0..1",
            "plan diff a --revision 1",
            "plan edit a --file f --set s.x=1",
        ] {
            assert_eq!(refused(line), 2, "{line}");
        }
    }

    #[test]
    fn letters_are_named_one_by_one_or_all() {
        let Command::Dead(DeadCommand::Retry(one)) = parse("dead retry a 1-0 2-0").expect("it is valid").command else {
            panic!("it retries");
        };
        assert_eq!((one.agent_type.as_str(), one.entry.len(), one.all), ("a", 2, false));
        assert!(parse("dead discard a --all -y").is_ok());
        assert!(parse("logs --plan p0-1 --step a --types step_failed,step_retrying --since 10m -f").is_ok());
        assert!(parse("submit g --demo-fault hotel_agent=fully_booked --watch").is_ok());
    }

    #[test]
    fn waiting_has_a_timeout_and_plans_have_a_default() {
        let Command::Run(run) = parse("run - --wait --timeout 5m -o json").expect("it is valid").command else {
            panic!("it is a run");
        };
        assert_eq!((run.file.as_str(), run.wait.timeout.map(|t| t.as_secs())), ("-", Some(300)));
        let Command::Explain(explain) = parse("explain").expect("it is valid").command else {
            panic!("it explains");
        };
        assert_eq!(explain.plan, "@latest");
    }

    #[test]
    fn every_command_explains_itself() {
        fn walk(command: &clap::Command, path: &str) {
            assert!(command.get_about().is_some(), "`{path}` has no help");
            for arg in command.get_arguments().filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version")) {
                assert!(
                    arg.get_help().is_some() || arg.get_id() == "shell",
                    "`{path}` does not explain `{}`",
                    arg.get_id()
                );
            }
            for sub in command.get_subcommands() {
                walk(sub, &format!("{path} {}", sub.get_name()));
            }
        }
        walk(&Cli::command(), "goalmill");
    }
}

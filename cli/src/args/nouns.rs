//! The commands `NOUN VERB`: plans, steps, agents, queues, dead letters.

use std::num::NonZeroUsize;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use goalmill_common::access::Role;
use goalmill_common::document_format::DocumentFormat;
use goalmill_common::status::PlanStatus;

use super::approvals::{ApproveArgs, DiffArgs, EditArgs, ForkArgs, PlanAnswerArgs, ReplanArgs, StepAnswerArgs};
use super::planning::PlanningArgs;
use super::{duration, period};

/// A plan and the reason of a command.
#[derive(Args, Debug)]
pub struct Reasoned {
    /// The plan: its id, a unique beginning or end of it, or `@latest`.
    pub plan: String,
    /// The reason, recorded in the log.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}

/// Cancels, pauses, resumes or replans all plans that a filter finds.
///
/// At least one of `--status`, `--search` and `--unchanged-for` is needed.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  goalmill plan bulk cancel --search 'Paris trip' --dry-run\n  goalmill plan bulk resume --status paused --yes"
)]
pub struct BulkArgs {
    /// What is done with each.
    #[arg(value_parser = ["cancel", "pause", "resume", "replan"])]
    pub verb: String,
    /// Only plans in this status; may be repeated.
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub status: Vec<PlanStatus>,
    /// Only plans with all these words in name, id, or the description of the goal.
    #[arg(long, value_name = "WORDS")]
    pub search: Option<String>,
    /// Only plans that have not changed for this time.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub unchanged_for: Option<Duration>,
    /// Maximum number of plans.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub limit: u16,
    /// Only lists the plans.
    #[arg(long)]
    pub dry_run: bool,
    /// Does it without asking.
    #[arg(long, short)]
    pub yes: bool,
    /// The reason, recorded in the log of each.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}

#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// Lists plans, last changed first.
    List {
        /// Only plans in this status.
        #[arg(long, value_name = "STATUS", value_parser = status)]
        status: Option<PlanStatus>,
        /// Only plans with all these words in name, id, or the description of the goal.
        #[arg(long, value_name = "WORDS")]
        search: Option<String>,
        /// Only plans whose entry (`-o json`) fits: `$.usage.cost > 2 && $.counts.failed >= 1`.
        #[arg(long = "where", value_name = "CONDITIONS")]
        conditions: Option<String>,
        /// Only plans that changed within this time.
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        since: Option<Duration>,
        /// Maximum number of plans.
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
        /// Continues a list at this cursor.
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
        /// Lists the stored plans, or all versions of the one with this name.
        #[arg(
            long,
            value_name = "NAME",
            num_args = 0..=1,
            default_missing_value = "",
            conflicts_with_all = ["status", "search", "conditions", "since", "cursor"]
        )]
        stored: Option<String>,
    },
    /// Shows a plan and the status of its steps.
    Get {
        /// The plan: its id, a unique beginning or end of it, or `@latest`; with `--stored`, `trip` or `trip@3`.
        plan: String,
        /// Prints a stored plan as a document.
        #[arg(long)]
        stored: bool,
    },
    /// Stores a plan under a name, as its next version.
    ///
    /// A document that equals the newest version gives that version. Versions never change.
    #[command(after_help = "Examples:\n  \
        goalmill plan put trip.yaml\n  \
        goalmill run trip --input city=Paris --watch\n  \
        goalmill run trip@1 --input city=Rome")]
    Put {
        /// The plan as YAML or JSON; `-` for standard input.
        file: String,
        /// The name [default: `name` in the document, else the name of the file without its ending].
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Retires a version of a stored plan: no new plan begins from it, those that run go on.
    Retire {
        /// The version: `trip@3`.
        plan: String,
        /// The reason, kept with the version.
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Draws a plan's graph.
    Show {
        /// The plan: its id, a unique beginning or end of it, or `@latest`.
        #[arg(default_value = "@latest")]
        plan: String,
        /// Output form.
        #[arg(long = "as", value_name = "FORM", default_value = "tree")]
        form: GraphForm,
    },
    /// Validates a plan file and lists every issue; runs nothing.
    ///
    /// Needs no server. A server named by `--server` or GOALMILL_SERVER validates with its own limits and routes
    /// `auto` steps.
    Validate {
        /// A plan as YAML or JSON; `-` for standard input.
        file: String,
    },
    /// Plans a goal, prices it and shows the plan; runs nothing.
    Preview {
        /// The goal, in plain words. Use single quotes, or the shell eats `$2000`.
        goal: String,
        #[command(flatten)]
        planning: Box<PlanningArgs>,
    },
    Approve(ApproveArgs),
    /// Waits for a plan's end without output; the exit code is the outcome.
    Wait {
        /// The plan: its id, a unique beginning or end of it, or `@latest`.
        plan: String,
        /// Stops waiting after this time (exit code 6); the plan continues.
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        timeout: Option<Duration>,
    },
    /// Rejects a plan or its revision.
    Reject(Reasoned),
    /// Pauses a plan: running steps finish, no others start.
    Pause(Reasoned),
    /// Resumes a paused plan.
    Resume(Reasoned),
    /// Cancels a plan and stops its running attempts.
    Cancel(Reasoned),
    Edit(EditArgs),
    Replan(ReplanArgs),
    Bulk(BulkArgs),
    /// Lists a plan's revisions: changes, actor, reason.
    Revisions {
        /// The plan: its id, a unique beginning or end of it, or `@latest`.
        #[arg(default_value = "@latest")]
        plan: String,
        /// Writes them in the form of another planner: `subtasks`.
        #[arg(long, value_name = "NAME", value_parser = super::values::document_format)]
        format: Option<DocumentFormat>,
    },
    /// Lists the questions of a plan; prompts for answers in a terminal.
    Questions {
        /// The plan: its id, a unique beginning or end of it, or `@latest`.
        #[arg(default_value = "@latest")]
        plan: String,
        /// Lists without prompting.
        #[arg(long)]
        list: bool,
    },
    Answer(PlanAnswerArgs),
    Diff(DiffArgs),
    Fork(ForkArgs),
    /// Prints the outputs of the steps.
    Results {
        /// The plan: its id, a unique beginning or end of it, or `@latest`.
        #[arg(default_value = "@latest")]
        plan: String,
        /// Large outputs too, in the place of their references.
        #[arg(long)]
        whole: bool,
    },
    /// Prints the plan as a document for `goalmill run`.
    Export {
        /// The plan: its id, a unique beginning or end of it, or `@latest`.
        #[arg(default_value = "@latest")]
        plan: String,
        /// Writes it as a document of another planner, with its state: `subtasks`, `plan_and_execute`, `actions`,
        /// `phases`, `nodes`.
        #[arg(long, value_name = "NAME", value_parser = super::values::document_format)]
        format: Option<DocumentFormat>,
    },
}

/// How a graph is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GraphForm {
    Tree,
    Dot,
    Mermaid,
}

/// A step and the reason of a command.
#[derive(Args, Debug)]
pub struct StepRef {
    /// The plan: its id, a unique beginning or end of it, or `@latest`.
    pub plan: String,
    /// The step's id.
    pub step: String,
    /// The reason, recorded in the log.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}

#[derive(Debug, Subcommand)]
pub enum StepCommand {
    /// Shows a step: status, outputs, last failure.
    Get {
        /// The plan: its id, a unique beginning or end of it, or `@latest`.
        plan: String,
        /// The step's id.
        step: String,
        /// Large outputs too, in the place of their references.
        #[arg(long)]
        whole: bool,
    },
    /// Retries a waiting or failed step at once.
    Retry(StepRef),
    /// Skips a step: it counts as done.
    Skip(StepRef),
    /// Completes a step manually with these outputs.
    Complete {
        #[command(flatten)]
        step: StepRef,
        /// The outputs as JSON; `-` for standard input.
        #[arg(long, value_name = "JSON", default_value = "{}")]
        outputs: String,
    },
    /// Approves a step.
    Approve(StepRef),
    /// Rejects a step.
    Reject(StepRef),
    Answer(StepAnswerArgs),
}

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
    /// Lists the newest dead letters.
    List {
        /// Only dead letters of this agent type.
        agent_type: Option<String>,
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
    /// Revokes a token: it is invalid at once.
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

fn status(text: &str) -> Result<PlanStatus, String> {
    PlanStatus::parse(text).ok_or_else(|| {
        let known: Vec<&str> = PlanStatus::ALL.iter().map(|s| s.as_str()).collect();
        format!("it is none of {}", known.join(", "))
    })
}

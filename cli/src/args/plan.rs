//! The commands `plan` and `step`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use goalmill_common::status::PlanStatus;

use super::approvals::{ApproveArgs, DiffArgs, EditArgs, ForkArgs, PlanAnswerArgs, ReplanArgs, StepAnswerArgs};
use super::duration;
use super::planning::PlanningArgs;

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
    /// Retires a version of a stored plan: no new plan begins from it, those that run continue.
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
        /// An input of the plan, as for `run`; without any, only their names are checked, by `input_schema`.
        #[arg(long, value_name = "NAME=VALUE")]
        input: Vec<String>,
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
    /// Retries a waiting or failed step immediately.
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

fn status(text: &str) -> Result<PlanStatus, String> {
    PlanStatus::parse(text).ok_or_else(|| {
        let known: Vec<&str> = PlanStatus::ALL.iter().map(|s| s.as_str()).collect();
        format!("it is none of {}", known.join(", "))
    })
}

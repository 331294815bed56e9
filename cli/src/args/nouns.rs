//! The commands `NOUN VERB`: plans, steps, agents, queues, dead letters.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use goalmill_common::status::PlanStatus;

use super::approvals::{ApproveArgs, DiffArgs, EditArgs, ForkArgs, PlanAnswerArgs, ReplanArgs, StepAnswerArgs};
use super::duration;

/// A plan, and why something is done to it.
#[derive(Args, Debug)]
pub struct Reasoned {
    /// The plan: its id, a unique beginning or end of it, or `@latest`.
    pub plan: String,
    /// Why, for the log.
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
        /// Only plans that changed so short ago.
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        since: Option<Duration>,
        /// At most so many.
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
        /// Continues a list.
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
    /// Shows a plan and where its steps stand.
    Get {
        /// The plan: its id, a unique beginning or end of it, or `@latest`.
        plan: String,
    },
    /// Draws a plan's graph.
    Show {
        /// The plan: its id, a unique beginning or end of it, or `@latest`.
        #[arg(default_value = "@latest")]
        plan: String,
        /// How to draw it.
        #[arg(long = "as", value_name = "FORM", default_value = "tree")]
        form: GraphForm,
    },
    /// Checks a plan file and names every issue; runs nothing.
    ///
    /// Needs no server. One that is named (`--server`, GOALMILL_SERVER) checks it with its own limits, and routes the
    /// steps for `auto`.
    Validate {
        /// A plan as YAML or JSON; `-` for standard input.
        file: String,
    },
    /// Plans a goal, prices it and shows the plan; runs nothing.
    Preview {
        /// The goal, in plain words. Use single quotes, or the shell eats `$2000`.
        goal: String,
    },
    Approve(ApproveArgs),
    /// Waits for a plan's end without a word; the exit code says how it ended.
    Wait {
        /// The plan: its id, a unique beginning or end of it, or `@latest`.
        plan: String,
        /// Gives up waiting after so long (exit code 6); the plan goes on.
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        timeout: Option<Duration>,
    },
    /// Refuses a waiting plan, or its revision.
    Reject(Reasoned),
    /// Starts nothing new; what runs may finish.
    Pause(Reasoned),
    /// Lets a paused plan go on.
    Resume(Reasoned),
    /// Ends a plan; running attempts are stopped.
    Cancel(Reasoned),
    Edit(EditArgs),
    Replan(ReplanArgs),
    /// Lists what a plan's revisions changed, who decided them, and why.
    Revisions {
        /// The plan: its id, a unique beginning or end of it, or `@latest`.
        #[arg(default_value = "@latest")]
        plan: String,
    },
    /// Lists what a plan asks; in a terminal it asks you.
    Questions {
        /// The plan: its id, a unique beginning or end of it, or `@latest`.
        #[arg(default_value = "@latest")]
        plan: String,
        /// Only lists, in a terminal too.
        #[arg(long)]
        list: bool,
    },
    Answer(PlanAnswerArgs),
    Diff(DiffArgs),
    Fork(ForkArgs),
    /// Prints what the steps gave.
    Results {
        /// The plan: its id, a unique beginning or end of it, or `@latest`.
        #[arg(default_value = "@latest")]
        plan: String,
    },
    /// Prints the plan as a document that `goalmill run` takes.
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

/// A step, and why something is done to it.
#[derive(Args, Debug)]
pub struct StepRef {
    /// The plan: its id, a unique beginning or end of it, or `@latest`.
    pub plan: String,
    /// The step's id.
    pub step: String,
    /// Why, for the log.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}

#[derive(Debug, Subcommand)]
pub enum StepCommand {
    /// Shows a step: where it stands, its outputs, its last failure.
    Get {
        /// The plan: its id, a unique beginning or end of it, or `@latest`.
        plan: String,
        /// The step's id.
        step: String,
    },
    /// Tries a waiting or failed step again at once.
    Retry(StepRef),
    /// Counts a step as done without doing it.
    Skip(StepRef),
    /// Records a step's outputs by hand.
    Complete {
        #[command(flatten)]
        step: StepRef,
        /// The outputs as JSON; `-` for standard input.
        #[arg(long, value_name = "JSON", default_value = "{}")]
        outputs: String,
    },
    /// Lets a waiting step start.
    Approve(StepRef),
    /// Refuses a waiting step.
    Reject(StepRef),
    Answer(StepAnswerArgs),
}

/// A language that a worker can be begun in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    Python,
}

#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Lists the agent types that are known.
    List,
    /// Shows an agent type: what it can do, actions and their inputs.
    Get {
        /// The agent type.
        agent_type: String,
    },
    /// Writes a worker of your own to begin with: a file to change and run.
    Init {
        /// The agent type.
        agent_type: String,
        /// What to write it in.
        #[arg(long, value_name = "LANGUAGE", default_value = "python")]
        lang: Language,
        /// Where to put it; a new directory of that name unless told.
        #[arg(long, value_name = "DIR")]
        dir: Option<std::path::PathBuf>,
    },
    /// Registers an agent type, or changes it.
    Register {
        /// The agent as YAML or JSON; `-` for standard input.
        file: String,
    },
    /// Asks the router who would do a task, and why.
    Route {
        /// The task, in plain words.
        text: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum QueueCommand {
    /// Lists the queues: what waits, what runs, who serves them.
    List,
    /// The same, again and again.
    Top {
        /// Time between two looks.
        #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1s")]
        interval: Duration,
        /// Ends after so many looks.
        #[arg(long, value_name = "N")]
        count: Option<u32>,
    },
    /// Puts nothing new on a queue; what is on it is still taken.
    Pause {
        /// The agent type.
        agent_type: String,
    },
    /// Lets a paused queue go on.
    Resume {
        /// The agent type.
        agent_type: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum DeadCommand {
    /// Lists the newest tasks that were given up on.
    List {
        /// Only of this agent type.
        agent_type: Option<String>,
    },
    /// Shows one letter whole: the task, and why it was given up on.
    Get {
        /// The agent type.
        agent_type: String,
        /// The letter, as `goalmill dead list` names it.
        entry: String,
    },
    /// Does tasks once more, each as a plan of its own, and drops their letters.
    ///
    /// The plans that they came from have gone on, or ended, without them: those stay as they are.
    Retry(Letters),
    /// Drops dead letters.
    Discard(Letters),
}

/// Which dead letters.
#[derive(Args, Debug)]
pub struct Letters {
    /// The agent type.
    pub agent_type: String,
    /// The letters, as `goalmill dead list` names them.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub entry: Vec<String>,
    /// All letters of the agent type that `dead list` shows.
    #[arg(long)]
    pub all: bool,
    /// Does not ask.
    #[arg(short, long)]
    pub yes: bool,
}

fn status(text: &str) -> Result<PlanStatus, String> {
    PlanStatus::parse(text).ok_or_else(|| {
        let known: Vec<&str> = PlanStatus::ALL.iter().map(|s| s.as_str()).collect();
        format!("it is none of {}", known.join(", "))
    })
}

//! Flags of human review: approvals, edits, answers, forks.

use clap::Args;
use goalmill_common::revision::RevisionStrategy;

use super::{Reasoned, StepRef, WaitArgs};

/// Approves a plan or its revision.
///
/// In a terminal, without `--yes`, a reason or changes, it shows the plan and prompts.
#[derive(Args, Debug)]
pub struct ApproveArgs {
    #[command(flatten)]
    pub what: Reasoned,
    #[command(flatten)]
    pub changes: ChangeArgs,
    /// Approves without a prompt.
    #[arg(short, long)]
    pub yes: bool,
}

/// Changes a plan by hand, before or while it runs.
///
/// In a terminal, without changes, it opens the plan in an editor ($VISUAL, $EDITOR). An invalid change is
/// refused with every issue (exit code 8).
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    goalmill plan edit @latest --set hotels.inputs.stars=4 --reason 'four stars will do'\n  \
    goalmill plan edit @latest --depends budget=flights,hotels --order flights,hotels\n  \
    goalmill plan export @latest > plan.yaml && $EDITOR plan.yaml && goalmill plan edit @latest --file plan.yaml")]
pub struct EditArgs {
    #[command(flatten)]
    pub what: Reasoned,
    #[command(flatten)]
    pub changes: ChangeArgs,
    /// Only if the plan is still at this revision.
    #[arg(long, value_name = "N")]
    pub revision: Option<u32>,
}

/// Changes to a plan.
#[derive(Args, Debug, Default)]
pub struct ChangeArgs {
    /// The changed plan (YAML or JSON), or a list of changes; `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["set", "order", "depends", "skip", "remove"])]
    pub file: Option<String>,
    /// Sets a field of a step: `hotels.inputs.stars=4`, `hotels.timeout=30s`. The value may be JSON; an empty value
    /// removes the field.
    #[arg(long, value_name = "STEP.FIELD=VALUE")]
    pub set: Vec<String>,
    /// Makes steps depend on each other in this order: `a,b,c`.
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    pub order: Vec<String>,
    /// Sets the dependencies of a step: `budget=flights,hotels`; nothing after `=` for none.
    #[arg(long, value_name = "STEP=STEPS")]
    pub depends: Vec<String>,
    /// Skips a step: it counts as done.
    #[arg(long, value_name = "STEP")]
    pub skip: Vec<String>,
    /// Removes a step from the plan.
    #[arg(long, value_name = "STEP")]
    pub remove: Vec<String>,
    /// Corrects a constraint of the goal while the plan waits for approval; an empty value removes it.
    #[arg(long, value_name = "NAME=VALUE")]
    pub constraint: Vec<String>,
}

impl ChangeArgs {
    pub fn is_empty(&self) -> bool {
        let Self { file, set, order, depends, skip, remove, constraint } = self;
        file.is_none() && [set, order, depends, skip, remove, constraint].into_iter().all(Vec::is_empty)
    }
}

/// Asks a planner to replan the remaining steps.
#[derive(Args, Debug)]
pub struct ReplanArgs {
    #[command(flatten)]
    pub what: Reasoned,
    /// A hint for the planner.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub hint: String,
    /// Tries this model before the others; its name in the settings.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Temperature of the models, 0 to 2.
    #[arg(long, value_name = "T", value_parser = super::planning::temperature)]
    pub temperature: Option<f64>,
    /// The strategy that is tried first: `retry_with_agent`, `decompose`, `workaround`, `adjust`, `replan_remaining`,
    /// `insert_recovery`, `skip_and_continue`, `abort`, `ask_user`.
    #[arg(long, value_name = "STRATEGY", value_parser = revision_strategy)]
    pub strategy: Option<RevisionStrategy>,
}

/// Compares two plans, two revisions of one, or two versions of stored plans: steps, outcome, cost, time.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    goalmill plan diff p0-01kb p0-01kc\n  \
    goalmill plan diff @latest --revision 0..2\n  \
    goalmill plan diff trip@2 trip@3")]
pub struct DiffArgs {
    /// The plan: its id, a unique beginning or end of it, `@latest`, or the version of a stored plan: `trip@2`.
    pub plan: String,
    /// The other plan.
    #[arg(required_unless_present = "revision")]
    pub other: Option<String>,
    /// Two revisions of the one plan: `0..2`, or `1..` up to the last one.
    #[arg(long, value_name = "FROM..TO", conflicts_with = "other", value_parser = revisions)]
    pub revision: Option<(u32, Option<u32>)>,
}

/// Starts a new plan from the state of another one.
///
/// Completed steps are kept, except `--step`, its dependents, and steps with changed inputs.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    goalmill plan fork @latest --step hotels --input hotels.stars=3 --watch\n  \
    goalmill plan fork @latest --revision 1 --planner htn --reason 'without the model'")]
pub struct ForkArgs {
    #[command(flatten)]
    pub what: Reasoned,
    /// Starts from this revision of the plan [default: the current one].
    #[arg(long, value_name = "N")]
    pub revision: Option<u32>,
    /// The step to run again, with its dependents.
    #[arg(long, value_name = "STEP")]
    pub step: Option<String>,
    /// Lets this planner replan the rest before any step is dispatched: `llm`, `tools`, `htn`, `rules`.
    #[arg(long, value_name = "PLANNER")]
    pub planner: Option<String>,
    /// Tries no other planner.
    #[arg(long, requires = "planner")]
    pub only: bool,
    /// Lets this model replan the rest; its name in the settings.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Changes an input of a step: `hotels.stars=4`. The value may be JSON.
    #[arg(long, value_name = "STEP.NAME=VALUE")]
    pub input: Vec<String>,
    #[command(flatten)]
    pub wait: WaitArgs,
}

/// Answers a question of a plan.
#[derive(Args, Debug)]
pub struct PlanAnswerArgs {
    /// The plan: its id, a unique beginning or end of it, or `@latest`.
    pub plan: String,
    /// The question, as listed by `goalmill plan questions`.
    pub question: String,
    /// The answer, as JSON or plain words; prompted for in a terminal when missing.
    pub answer: Option<String>,
    /// The reason, recorded in the log.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}

/// Answers the question of a step.
#[derive(Args, Debug)]
pub struct StepAnswerArgs {
    #[command(flatten)]
    pub step: StepRef,
    /// The answer, as JSON or plain words; prompted for in a terminal when missing.
    pub answer: Option<String>,
}

fn revision_strategy(text: &str) -> Result<RevisionStrategy, String> {
    let by_planners = || RevisionStrategy::ALL.iter().filter(|strategy| **strategy != RevisionStrategy::Edit);
    by_planners().copied().find(|strategy| strategy.as_str() == text).ok_or_else(|| {
        let words: Vec<&str> = by_planners().map(|strategy| strategy.as_str()).collect();
        format!("it is none of {}", words.join(", "))
    })
}

fn revisions(text: &str) -> Result<(u32, Option<u32>), String> {
    let wrong = || format!("`{text}` is not of the form `0..2`");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let to = if to.is_empty() { None } else { Some(to.parse().map_err(|_| wrong())?) };
    Ok((from.parse().map_err(|_| wrong())?, to))
}

//! Flags of the commands that inspect one plan.

use std::time::Duration;

use clap::Args;

use super::{at_least_one, duration, event_types, period};

/// Shows a plan live until it ends.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  goalmill watch\n  goalmill watch p0-01kb… --timeout 5m")]
pub struct WatchArgs {
    /// The plan: its id, a unique beginning or end of it, or `@latest`.
    #[arg(default_value = "@latest")]
    pub plan: String,
    /// Stops watching after this time (exit code 6); the plan continues.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,
}

/// Explains why a plan or a step does not progress, or what a code means, with a hint.
#[derive(Args, Debug)]
#[command(after_help = "A word in upper case is a code: of a problem, an issue, a failure. Codes need no server.\n\n\
    Examples:\n  goalmill explain @latest\n  goalmill explain p0-01kb… hotels\n  goalmill explain PLAN_CYCLE")]
pub struct ExplainArgs {
    /// The plan: its id, a unique beginning or end of it, or `@latest`; or a code.
    #[arg(value_name = "PLAN|CODE", default_value = "@latest")]
    pub plan: String,
    /// Only this step.
    pub step: Option<String>,
    /// Lists all codes.
    #[arg(long, conflicts_with_all = ["plan", "step"])]
    pub codes: bool,
}

/// Prints the newest events of all plans, oldest first.
#[derive(Args, Debug)]
#[command(
    after_help = "At most 1,000 events are looked up at once; for the whole log of one plan see `goalmill events`.\n\n\
    Examples:\n  goalmill logs\n  goalmill logs --types step_failed,plan_failed --since 24h\n  \
    goalmill logs --text 'hotel paris' --since 180d\n  goalmill logs --follow -o jsonl"
)]
pub struct LogsArgs {
    /// Only of this plan: its id, a unique beginning or end of it, or `@latest`.
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<String>,
    /// Only of steps with this id.
    #[arg(long, value_name = "STEP")]
    pub step: Option<String>,
    /// Only events of this phase, and of its steps.
    #[arg(long, value_name = "PHASE")]
    pub phase: Option<String>,
    /// Only these types.
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = event_types(), hide_possible_values = true)]
    pub types: Vec<String>,
    /// Only events that have all of these words in their type, ids or data.
    #[arg(long, value_name = "WORDS")]
    pub text: Option<String>,
    /// Only events whose data fits: `$.outputs.city == "Zürich" && $.outputs.price < 200`.
    #[arg(long = "where", value_name = "CONDITIONS")]
    pub conditions: Option<String>,
    /// Only events since this time ago: `90m`, `24h`, `180d`.
    #[arg(long, value_name = "DURATION", value_parser = period, default_value = "1h")]
    pub since: Duration,
    /// Maximum number of events; the newest are shown.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub limit: u16,
    /// Follows until Ctrl-C.
    #[arg(short, long)]
    pub follow: bool,
}

/// Measures plans that ended against their targets.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  goalmill stats\n  goalmill stats --since 7d\n  goalmill stats -o json")]
pub struct StatsArgs {
    /// Only plans that ended within this time: `90m`, `24h`, `7d`.
    #[arg(long, value_name = "DURATION", value_parser = period, default_value = "24h")]
    pub since: Duration,
    /// Maximum number of plans; the latest are read.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub plans: u16,
}

/// Prints a plan's event log.
#[derive(Args, Debug)]
#[command(
    after_help = "`-o jsonl` prints one event a line with `seq`, `type`, `time`, `step_id`, `attempt`, `data`: the form \
    that `goalmill replay` reads.\n\nExamples:\n  goalmill events @latest\n  goalmill events @latest --follow\n  \
    goalmill events p0-01kb… -o jsonl > plan.jsonl"
)]
pub struct EventsArgs {
    /// The plan: its id, a unique beginning or end of it, or `@latest`.
    #[arg(default_value = "@latest")]
    pub plan: String,
    /// Starts after this event.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub after: u64,
    /// Maximum number of events.
    #[arg(long, value_name = "N", conflicts_with = "follow", value_parser = at_least_one)]
    pub limit: Option<usize>,
    /// Only events of this step.
    #[arg(long, value_name = "STEP")]
    pub step: Option<String>,
    /// Only events of this phase, and of its steps.
    #[arg(long, value_name = "PHASE")]
    pub phase: Option<String>,
    /// Only these types.
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = event_types(), hide_possible_values = true)]
    pub types: Vec<String>,
    /// Follows until the plan ends.
    #[arg(short, long)]
    pub follow: bool,
}

//! Arguments of `archive`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::values::period;

/// Maintains the archive of finished plans.
#[derive(Debug, Subcommand)]
pub enum ArchiveCommand {
    /// Removes finished plans with their logs, oldest first.
    Prune(PruneArgs),
    /// Writes finished plans with their logs as lines of JSON.
    Export(ExportArgs),
    /// Reads plans that `archive export` wrote; plans that are archived already stay as they are.
    Import(ArchiveImportArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  goalmill archive prune --older-than 180d\n  \
    goalmill archive prune --older-than 30d --namespace team-a --yes")]
pub struct PruneArgs {
    /// Plans that ended longer ago: `180d`, `24h`.
    #[arg(long, value_name = "DURATION", value_parser = period)]
    pub older_than: Duration,
    /// Only counts them.
    #[arg(long)]
    pub dry_run: bool,
    /// Does not ask.
    #[arg(short, long)]
    pub yes: bool,
    /// Settings file (TOML or YAML).
    #[arg(long, value_name = "FILE", env = "GOALMILL_CONFIG")]
    pub config: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  goalmill archive export plans.jsonl\n  \
    goalmill archive export - --older-than 30d | gzip > plans.jsonl.gz")]
pub struct ExportArgs {
    /// The file to write, which must not exist; `-` for standard output.
    pub file: String,
    /// Only plans that ended longer ago: `180d`, `24h`.
    #[arg(long, value_name = "DURATION", value_parser = period)]
    pub older_than: Option<Duration>,
    /// Settings file (TOML or YAML).
    #[arg(long, value_name = "FILE", env = "GOALMILL_CONFIG")]
    pub config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct ArchiveImportArgs {
    /// The file; `-` for standard input.
    pub file: String,
    /// Settings file (TOML or YAML).
    #[arg(long, value_name = "FILE", env = "GOALMILL_CONFIG")]
    pub config: Option<PathBuf>,
}

//! `goalmill bench`: no-op steps through the whole system, compared with raw Redis in the same run.

mod parked;
mod processes;
mod report;
mod run;
mod shapes;
mod usage;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use crate::exit::Exit;

pub use shapes::Shape;

/// Measures steps per second through submission, dispatch, a worker process, reports and commits.
///
/// Starts one scheduler and one worker process of this binary. Without `--redis` it also starts a private
/// `redis-server` with an append-only file synced every second.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// Shape of the plans.
    #[arg(long, value_enum, default_value_t = Shape::Independent)]
    pub shape: Shape,
    /// Total number of steps [default: by shape].
    #[arg(long)]
    pub steps: Option<usize>,
    /// A Redis without other data.
    #[arg(long)]
    pub redis: Option<String>,
    /// Concurrent tasks of the worker process.
    #[arg(long, default_value_t = 512)]
    pub slots: u32,
    /// Single-step plans sent one after the other to measure submit → start; 0 leaves it out.
    #[arg(long, default_value_t = 200)]
    pub latency_samples: usize,
    /// Keep the processes' logs in this directory.
    #[arg(long)]
    pub logs: Option<PathBuf>,
}

/// Runs the benchmark and prints its figures, as a table or as JSON.
pub async fn run(args: BenchArgs, json: bool) -> Result<Exit> {
    if args.shape == Shape::Parked {
        report::print_parked(&parked::measure(&args).await.context("shape `parked`")?, json)?;
        return Ok(Exit::Done);
    }
    let shapes = args.shape.expand();
    let mut reports = Vec::new();
    for shape in shapes {
        let one = BenchArgs { shape, ..args.clone() };
        reports.push(run::measure(&one).await.with_context(|| format!("shape `{}`", shape.name()))?);
    }
    report::print(&reports, json)?;
    Ok(Exit::Done)
}

//! `goalmill bench`: no-op steps through the whole system, compared with raw Redis in the same run.

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

/// Measures steps a second through submission, dispatch, a worker process, reports and commits.
///
/// Starts one scheduler and one worker process of this very binary. Without `--redis` it also starts a private
/// `redis-server` with an append-only file synced every second.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// What the plans look like.
    #[arg(long, value_enum, default_value_t = Shape::Independent)]
    pub shape: Shape,
    /// Steps in all; a sensible number for the shape when left out.
    #[arg(long)]
    pub steps: Option<usize>,
    /// A Redis that holds nothing else; its Goalmill data is added to.
    #[arg(long)]
    pub redis: Option<String>,
    /// Tasks the worker process runs at once.
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
    let shapes = args.shape.expand();
    let mut reports = Vec::new();
    for shape in shapes {
        let one = BenchArgs { shape, ..args.clone() };
        reports.push(run::measure(&one).await.with_context(|| format!("shape `{}`", shape.name()))?);
    }
    report::print(&reports, json)?;
    Ok(Exit::Done)
}

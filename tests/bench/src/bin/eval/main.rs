//! Measures planners, readers, routers and the engine on real data: `eval WHAT DIR [--out FILE.jsonl]`.
//!
//! One JSON line of figures goes to standard output; FILE gets one line a row with the raw prediction, so that anyone
//! can score other rows of the same sets.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};

mod calibration;
mod calls;
mod dag;
mod drafts;
mod e2e;
mod htn;
mod literal;
mod parse;
mod routing;
mod rows;
mod schedule;

#[derive(Parser)]
#[command(name = "eval", about = "Measures Goalmill on real data, without a network")]
struct Arguments {
    /// What to measure.
    what: What,
    /// A folder laid out as the data sets are: `parse/`, `routing/`, `dag/`, …
    dir: PathBuf,
    /// One JSON line a row: its id and what was predicted.
    #[arg(long)]
    out: Option<PathBuf>,
    /// For `e2e`: kills schedulers, workers and Redis with `kill -9` all the while.
    #[arg(long)]
    kill: bool,
    /// For `e2e`: what is killed when follows from it. For `drafts`: the damage does.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Reading plans that models wrote.
    Parse,
    /// Reading calls that models wrote.
    Calls,
    /// Choosing the tool for a step or a query.
    Routing,
    /// Finding what is wrong with plans, and repairing it without a model.
    Dag,
    /// Keeping the steps of raw plans, and repairing plans that were damaged on purpose.
    Drafts,
    /// Confidence in plans against what became of them.
    Calibration,
    /// Time to the end through the real queue, against the optimum.
    Schedule,
    /// Solving hierarchical task networks.
    Htn,
    /// Real tasks through scheduler, Redis and workers.
    E2e,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let dir = arguments.dir.as_path();
    let mut out = rows::Out::create(arguments.out.as_deref())?;
    let figures = match arguments.what {
        What::Parse => parse::run(dir, &mut out)?,
        What::Calls => calls::run(dir, &mut out)?,
        What::Routing => routing::run(dir, &mut out)?,
        What::Dag => dag::run(dir, &mut out)?,
        What::Drafts => drafts::run(dir, &mut out, arguments.seed)?,
        What::Calibration => calibration::run(dir, &mut out)?,
        What::Schedule => schedule::run(dir, &mut out).await?,
        What::Htn => htn::run(dir, &mut out)?,
        What::E2e => {
            let faults = e2e::Faults { kill: arguments.kill, seed: arguments.seed };
            e2e::run(dir, &mut out, faults).await?
        }
    };
    out.finish()?;
    ensure!(
        out.rows > 0,
        "`{}` has no rows for this: name a folder laid out as the data sets are, such as one that holds `parse/ultratool.jsonl`",
        dir.display()
    );
    rows::say(&figures)
}

//! `goalmill bench planning`: what a plan costs besides the model, stage by stage.

mod answers;
mod figures;
mod registry;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use goalmill_common::clock::Clock;
use goalmill_common::config::RouterSettings;
use goalmill_common::goal::Goal;
use goalmill_common::limits::Limits;
use goalmill_common::random::Random;
use goalmill_planning::llm::overhead::digest;
use goalmill_planning::{Ledger, PlanRequest, Terms};
use goalmill_router::{Router, open_table};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::exit::Exit;
use crate::output::Screen;

use figures::{Report, Size};

/// Answers that are digested before it counts.
const WARM_UP: usize = 5;
/// Largest plan: what a plan may have at most.
const STEPS_MAX: i64 = 10_000;
const REPEAT_MAX: i64 = 1_000_000;

/// Measures what planning costs besides the model: reading its answer, repairing, validating and routing the plan.
///
/// Each answer is another one: its words, values, graph, spelling and mistakes are drawn at random. Nothing is started.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  goalmill bench planning\n  goalmill bench planning --steps 20 --repeat 1000 -o json"
)]
pub struct PlanningArgs {
    /// Steps of a plan; several sizes are measured one after the other.
    #[arg(long, value_name = "N,M", value_delimiter = ',', default_value = "20,100,1000",
          value_parser = clap::value_parser!(u32).range(1..=STEPS_MAX))]
    pub steps: Vec<u32>,
    /// Answers of each size.
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=REPEAT_MAX))]
    pub repeat: u32,
    /// Agents that are registered.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub agents: u32,
    /// Routes with this static model too, as `router.local_model` would.
    #[arg(long, value_name = "FILE")]
    pub local_model: Option<PathBuf>,
    /// The same answers for the same seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Measures, and prints the figures; after Ctrl-C those that there are.
pub async fn run(args: PlanningArgs, screen: &Screen) -> Result<Exit> {
    let stop = Arc::new(AtomicBool::new(false));
    let bar = progress(&args, screen);
    let measured = {
        let (stop, bar) = (stop.clone(), bar.clone());
        tokio::task::spawn_blocking(move || measure(&args, &stop, &bar))
    };
    tokio::pin!(measured);
    let report = tokio::select! {
        report = &mut measured => report,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.context("cannot listen for Ctrl-C")?;
            stop.store(true, Ordering::Relaxed);
            measured.await
        }
    };
    bar.finish_and_clear();
    let report = report.context("the measurement broke off")??;
    if !report.sizes.is_empty() {
        screen.show(&report, "planning", |paint| figures::table(&report, paint)).map_err(|e| anyhow!("{e}"))?;
    }
    Ok(if stop.load(Ordering::Relaxed) { Exit::Interrupted } else { Exit::Done })
}

fn measure(args: &PlanningArgs, stop: &AtomicBool, bar: &ProgressBar) -> Result<Report> {
    let agents = registry::agents(args.agents as usize);
    let model = args.local_model.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let settings = RouterSettings { local_model: model.clone(), ..RouterSettings::default() };
    let table = open_table(&settings)?;
    let router = Router::with(settings, table, Clock::system(), Random::seeded(args.seed));
    router.update(agents.clone());
    let terms = Terms { workers: Arc::new(registry::workers(&agents)), ..Terms::default() };
    let random = Random::seeded(args.seed);
    let mut sizes = Vec::new();
    for steps in args.steps.iter().map(|steps| *steps as usize) {
        bar.set_message(format!("{steps} steps"));
        let mut size = Size::new(steps);
        for at in 0..WARM_UP + args.repeat as usize {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let answer = answers::write(&agents, steps, at, &random);
            let request = PlanRequest {
                goal: Goal { description: answers::goal(&agents, &random), ..Goal::default() },
                agents: agents.clone(),
                limits: Limits { planned_steps_max: steps, ..Limits::default() },
                now_ms: 0,
                revision: 0,
                ledger: Ledger::default(),
                terms: terms.clone(),
            };
            let digested = digest(&answer, &request, &router)
                .map_err(|issues| anyhow!("an answer of {steps} steps gave no plan: {issues:?}"))?;
            if at >= WARM_UP {
                size.count(&answer, &digested);
                bar.inc(1);
            }
        }
        if size.plans > 0 {
            sizes.push(size.finish());
        }
    }
    let actions = agents.iter().map(|agent| agent.actions.len()).sum();
    Ok(Report { agents: agents.len(), actions, local_model: model, seed: args.seed, sizes })
}

/// Hidden where nobody looks at standard error.
fn progress(args: &PlanningArgs, screen: &Screen) -> ProgressBar {
    let total = u64::from(args.repeat) * args.steps.len() as u64;
    let target = if screen.is_quiet() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template("  {bar:30} {pos}/{len} plans · {msg}");
    ProgressBar::with_draw_target(Some(total), target)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(steps: &[u32], stop: bool) -> Report {
        let args = PlanningArgs { steps: steps.to_vec(), repeat: 12, agents: 50, local_model: None, seed: 7 };
        measure(&args, &AtomicBool::new(stop), &ProgressBar::hidden()).expect("every answer gives a plan")
    }

    #[test]
    fn every_answer_gives_a_plan_with_routed_and_repaired_steps_among_them() {
        let report = measured(&[1, 20, 60], false);
        assert_eq!((report.agents, report.actions), (50, 150));
        assert_eq!(
            report.sizes.iter().map(|size| (size.steps, size.plans)).collect::<Vec<_>>(),
            [(1, 12), (20, 12), (60, 12)]
        );
        let size = &report.sizes[1];
        assert!(size.routed > 12 && size.repaired > 0 && size.repaired < 12, "{size:?}");
        assert!(size.stages.all.p50_us >= size.stages.read.p50_us && size.stages.all.p50_us <= size.stages.all.p99_us);
    }

    #[test]
    fn what_is_stopped_has_no_figures() {
        assert!(measured(&[20], true).sizes.is_empty());
    }

    #[test]
    fn answers_hang_on_the_seed_and_are_never_the_same() {
        let agents = registry::agents(50);
        let write = |seed: u64| {
            let random = Random::seeded(seed);
            (0..4).map(|at| answers::write(&agents, 20, at, &random)).collect::<Vec<_>>()
        };
        assert_eq!(write(1), write(1));
        let mut all = write(1);
        all.extend(write(2));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 8);
    }
}

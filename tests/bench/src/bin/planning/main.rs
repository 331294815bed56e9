//! Measures what a plan costs besides the model, stage by stage: reading an answer, repairing, validating, routing.
//!
//! `cargo run --release -p goalmill-bench --bin planning -- [--steps 20,1000] [--tools FILE]`. It starts nothing. Each answer
//! differs: words, values, graph, spelling and mistakes are drawn at random.

mod answers;
mod figures;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use goalmill_bench::digest::digest;
use goalmill_bench::tools::Tool;
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::clock::Clock;
use goalmill_common::config::RouterSettings;
use goalmill_common::goal::Goal;
use goalmill_common::limits::Limits;
use goalmill_common::random::Random;
use goalmill_planning::{CallLog, PlanRequest, Terms};
use goalmill_router::{Router, open_table};

use figures::{Report, Size};

/// Answers that are digested before the measurement.
const WARM_UP: usize = 5;
/// Steps of the largest plan that is accepted.
const STEPS_MAX: i64 = 10_000;

#[derive(Clone, Debug, Parser)]
#[command(name = "planning", about = "Measures what a plan costs besides the model")]
struct Arguments {
    /// Steps of a plan; sizes are measured one after the other.
    #[arg(long, value_name = "N,M", value_delimiter = ',', default_value = "20,100,1000",
          value_parser = clap::value_parser!(u32).range(1..=STEPS_MAX))]
    steps: Vec<u32>,
    /// Answers of each size.
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// A list of tools, such as `routing/ultratool_tools.en.json` of the data sets; the demo agents by default.
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// Also routes with this static embedding model, as `router.local_model` does.
    #[arg(long, value_name = "FILE")]
    local_model: Option<PathBuf>,
    /// Equal seeds give equal answers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Prints the figures as one JSON line.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let report = measure(&arguments)?;
    let text = if arguments.json { serde_json::to_string(&report)? } else { figures::table(&report) };
    writeln!(std::io::stdout(), "{}", text.trim_end())?;
    Ok(())
}

fn measure(arguments: &Arguments) -> Result<Report> {
    let agents = match &arguments.tools {
        Some(file) => read_tools(file)?,
        None => goalmill_demo::agents::agents(),
    };
    let model = arguments.local_model.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let settings = RouterSettings { local_model: model.clone(), ..RouterSettings::default() };
    let table = open_table(&settings)?;
    let router = Router::with_parts(settings, table, Clock::system(), Random::seeded(arguments.seed));
    router.update_agents(agents.clone());
    let terms = Terms { workers: Arc::new(vec![worker(&agents)]), ..Terms::default() };
    let random = Random::seeded(arguments.seed);
    let mut sizes = Vec::new();
    for steps in arguments.steps.iter().map(|steps| *steps as usize) {
        let mut size = Size::new(steps);
        for number in 0..WARM_UP + arguments.repeat as usize {
            let answer = answers::write(&agents, steps, number, &random);
            let request = PlanRequest {
                goal: Goal { description: answers::goal(&agents, &random), ..Goal::default() },
                agents: agents.clone(),
                limits: Limits { planned_steps_max: steps, ..Limits::default() },
                now_ms: 0,
                revision: 0,
                is_part: false,
                call_log: CallLog::default(),
                terms: terms.clone(),
                reading: None,
            };
            let digested = digest(&answer, &request, &router)
                .map_err(|issues| anyhow!("an answer of {steps} steps gave no plan: {issues:?}"))?;
            if number >= WARM_UP {
                size.count(&answer, &digested);
            }
        }
        sizes.push(size.finish());
    }
    let actions = agents.iter().map(|agent| agent.actions.len()).sum();
    Ok(Report { agents: agents.len(), actions, local_model: model, seed: arguments.seed, sizes })
}

fn read_tools(file: &Path) -> Result<Vec<Agent>> {
    let text = std::fs::read(file).with_context(|| format!("`{}` cannot be opened", file.display()))?;
    let tools: Vec<Tool> =
        serde_json::from_slice(&text).with_context(|| format!("`{}` is not a list of tools", file.display()))?;
    Ok(tools.iter().map(Tool::agent).collect())
}

/// A worker that serves all agents.
fn worker(agents: &[Agent]) -> WorkerBeat {
    WorkerBeat {
        worker: "bench".into(),
        agents: agents.iter().map(|agent| agent.agent_type.clone()).collect(),
        slots: 16,
        busy: 0,
        draining: false,
        version: String::new(),
        host: String::new(),
        started_ms: 0,
        seen_ms: 0,
        heartbeat_ms: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_gives_a_plan_with_routed_and_repaired_steps_among_them() {
        let arguments = Arguments::parse_from(["planning", "--steps", "1,20,60", "--repeat", "12", "--seed", "7"]);
        let report = measure(&arguments).expect("every answer gives a plan");
        assert_eq!(
            report.sizes.iter().map(|size| (size.steps, size.plans)).collect::<Vec<_>>(),
            [(1, 12), (20, 12), (60, 12)]
        );
        let size = &report.sizes[1];
        assert!(size.routed > 12 && size.repaired > 0 && size.repaired < 12, "{size:?}");
        assert!(size.stages.all.p50_us >= size.stages.read.p50_us && size.stages.all.p50_us <= size.stages.all.p99_us);
        assert!(figures::table(&report).contains("p95"));
    }

    #[test]
    fn equal_seeds_give_equal_answers_and_all_answers_differ() {
        let agents = goalmill_demo::agents::agents();
        let write = |seed: u64| {
            let random = Random::seeded(seed);
            (0..4).map(|number| answers::write(&agents, 20, number, &random)).collect::<Vec<_>>()
        };
        assert_eq!(write(1), write(1));
        let mut all = write(1);
        all.extend(write(2));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 8);
    }
}

//! The figures, as a table or as JSON.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;

/// Percentiles of a duration, microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    pub samples: usize,
    pub p50_us: u64,
    pub p99_us: u64,
}

impl Latency {
    /// Nearest-rank percentiles.
    pub fn from_micros(mut micros: Vec<u64>) -> Self {
        micros.sort_unstable();
        let at = |percent: usize| micros.get((micros.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Self { samples: micros.len(), p50_us: at(50).unwrap_or(0), p99_us: at(99).unwrap_or(0) }
    }
}

/// One shape's figures.
#[derive(Clone, Debug, Serialize)]
pub struct BenchReport {
    pub shape: &'static str,
    pub steps: usize,
    pub plans: usize,
    pub seconds: f64,
    pub steps_per_second: f64,
    /// Raw Redis in the same run: pipelined `XADD` of 300 bytes, 100 deep, 2 connections.
    pub raw_xadds_per_second: f64,
    /// One `PING` on an idle connection in the same run, the median, microseconds.
    pub raw_hop_us: f64,
    /// Steps a second over raw.
    pub ratio: f64,
    /// From submission to the handler running, on an idle system.
    pub submit_to_start: Latency,
    /// From the end of a step to the start of the one it unlocked; single-plan shapes only.
    pub report_to_unlock: Latency,
    /// Redis, scheduler and worker together.
    pub cpu_us_per_step: f64,
    pub scheduler_cpu_us_per_step: f64,
    pub worker_cpu_us_per_step: f64,
    pub redis_cpu_us_per_step: f64,
    /// As the server counts them, those inside functions included.
    pub redis_commands_per_step: f64,
    pub scheduler_peak_bytes: u64,
    pub worker_peak_bytes: u64,
}

/// The figures of plans that only wait.
#[derive(Clone, Debug, Serialize)]
pub struct ParkedReport {
    pub shape: &'static str,
    pub plans: usize,
    /// From the first submission until all were parked.
    pub parked_seconds: f64,
    /// Growth of the scheduler's resident memory, bytes.
    pub scheduler_bytes_per_plan: f64,
    /// Growth of the server's used memory, bytes.
    pub redis_bytes_per_plan: f64,
    /// Of one core, while all plans wait.
    pub rest_cpu_share: f64,
    /// From `kill -9` of the scheduler until every shard works under the next one, before there were these plans.
    pub empty_recovery_seconds: f64,
    /// The same with these plans.
    pub recovery_seconds: f64,
}

/// Prints the figures of plans that only wait.
pub fn print_parked(report: &ParkedReport, json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let r = report;
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(r)?)?;
        return Ok(());
    }
    writeln!(out, "{} · {} plans · {:.3} s until all are parked", r.shape, r.plans, r.parked_seconds)?;
    writeln!(out, "  scheduler           {:>10.0} bytes a plan", r.scheduler_bytes_per_plan)?;
    writeln!(out, "  Redis               {:>10.0} bytes a plan", r.redis_bytes_per_plan)?;
    writeln!(out, "  CPU at rest         {:>10.2} % of a core", r.rest_cpu_share * 100.0)?;
    let empty = r.empty_recovery_seconds;
    writeln!(
        out,
        "  recovery            {:>10.3} s after kill -9 · {empty:.3} s without these plans",
        r.recovery_seconds
    )?;
    Ok(())
}

/// Prints the figures to standard output.
pub fn print(reports: &[BenchReport], json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        let text = match reports {
            [one] => serde_json::to_string_pretty(one)?,
            many => serde_json::to_string_pretty(many)?,
        };
        writeln!(out, "{text}")?;
        return Ok(());
    }
    for report in reports {
        table(&mut out, report)?;
    }
    Ok(())
}

fn table(out: &mut impl Write, r: &BenchReport) -> Result<()> {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    writeln!(out, "{} · {} steps in {} plans · {:.3} s", r.shape, r.steps, r.plans, r.seconds)?;
    writeln!(out, "  steps/s             {:>10.0}", r.steps_per_second)?;
    writeln!(out, "  raw XADD/s          {:>10.0}", r.raw_xadds_per_second)?;
    writeln!(out, "  raw hop             {:>10.3} ms", r.raw_hop_us / 1e3)?;
    writeln!(out, "  ratio               {:>10.3}", r.ratio)?;
    for (name, latency) in [("submit → start", r.submit_to_start), ("report → unlock", r.report_to_unlock)] {
        if latency.samples > 0 {
            let (p50, p99) = (latency.p50_us as f64 / 1e3, latency.p99_us as f64 / 1e3);
            writeln!(out, "  {name:<19} {p50:>10.3} ms p50 · {p99:.3} ms p99 · {} samples", latency.samples)?;
        }
    }
    writeln!(
        out,
        "  CPU µs a step       {:>10.1}    scheduler {:.1} · worker {:.1} · redis {:.1}",
        r.cpu_us_per_step, r.scheduler_cpu_us_per_step, r.worker_cpu_us_per_step, r.redis_cpu_us_per_step
    )?;
    writeln!(out, "  Redis commands/step {:>10.2}", r.redis_commands_per_step)?;
    writeln!(
        out,
        "  peak memory         {:>10.1} MiB  scheduler {:.1} · worker {:.1}",
        mib(r.scheduler_peak_bytes + r.worker_peak_bytes),
        mib(r.scheduler_peak_bytes),
        mib(r.worker_peak_bytes)
    )?;
    Ok(())
}

//! Percentiles of each stage, compared with the targets.

use std::time::Duration;

use goalmill_bench::digest::{Digested, Took};
use serde::Serialize;

/// Targets: steps of a plan, and the 95th percentile of all stages together, in microseconds.
const TARGETS: [(usize, f64); 2] = [(20, 5_000.0), (1_000, 50_000.0)];

/// Nearest-rank percentiles of a duration, microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    pub p50_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
}

/// One value by stage.
#[derive(Clone, Debug, Serialize)]
pub struct Stages<T> {
    pub offer: T,
    pub read: T,
    pub validate: T,
    pub route: T,
    pub all: T,
}

/// Plans of one size.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    pub steps: usize,
    pub plans: usize,
    /// Mean length of an answer.
    pub answer_bytes: usize,
    /// Routed steps of all plans.
    pub routed: usize,
    /// Plans that were repaired.
    pub repaired: usize,
    pub stages: Stages<Spread>,
    /// Upper limit of the 95th percentile of all stages, microseconds; none for other sizes.
    pub target_p95_us: Option<f64>,
    pub is_met: Option<bool>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub agents: usize,
    pub actions: usize,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub local_model: String,
    pub seed: u64,
    pub sizes: Vec<Measured>,
}

/// Collects the times of plans of one size.
pub struct Size {
    steps: usize,
    pub plans: usize,
    bytes: usize,
    routed: usize,
    repaired: usize,
    took: Vec<Took>,
}

impl Size {
    pub fn new(steps: usize) -> Self {
        Self { steps, plans: 0, bytes: 0, routed: 0, repaired: 0, took: Vec::new() }
    }

    pub fn count(&mut self, answer: &str, digested: &Digested) {
        self.plans += 1;
        self.bytes += answer.len();
        self.routed += digested.planned.routes.len();
        let account = digested.planned.provenance.as_ref().map(goalmill_common::json::Json::value).unwrap_or_default();
        self.repaired += usize::from(account["repairs"].as_array().is_some_and(|repairs| !repairs.is_empty()));
        self.took.push(digested.took);
    }

    pub fn finish(&self) -> Measured {
        let spread = |stage: fn(&Took) -> Duration| Spread::of(self.took.iter().map(stage).collect());
        let stages = Stages {
            offer: spread(|took| took.offer),
            read: spread(|took| took.read),
            validate: spread(|took| took.validate),
            route: spread(|took| took.route),
            all: spread(|took| took.offer + took.read + took.validate + took.route),
        };
        let target_p95_us = TARGETS.iter().find(|(steps, _)| *steps == self.steps).map(|(_, target)| *target);
        Measured {
            steps: self.steps,
            plans: self.plans,
            answer_bytes: self.bytes / self.plans.max(1),
            routed: self.routed,
            repaired: self.repaired,
            is_met: target_p95_us.map(|target| stages.all.p95_us < target),
            stages,
            target_p95_us,
        }
    }
}

impl Spread {
    fn of(mut durations: Vec<Duration>) -> Self {
        durations.sort_unstable();
        let at = |percent: usize| {
            let rank = (durations.len() * percent).div_ceil(100).saturating_sub(1);
            durations.get(rank).map_or(0.0, |duration| (duration.as_secs_f64() * 1e7).round() / 10.0)
        };
        Self { p50_us: at(50), p95_us: at(95), p99_us: at(99) }
    }
}

/// The report as text.
pub fn table(report: &Report) -> String {
    let model = if report.local_model.is_empty() { "words" } else { "words and a static model" };
    let mut text = format!("{} agents, {} actions · routed by {model}\n", report.agents, report.actions);
    for size in &report.sizes {
        text.push_str(&format!(
            "\n{} steps · {} plans · {:.1} kB each · {} steps routed · {} plans repaired\n",
            size.steps,
            size.plans,
            size.answer_bytes as f64 / 1e3,
            size.routed,
            size.repaired
        ));
        text.push_str(&format!("  {:<10}{:>10}{:>10}{:>10}\n", "stage", "p50 ms", "p95 ms", "p99 ms"));
        let Stages { offer, read, validate, route, all } = &size.stages;
        let named = [("offer", offer), ("read", read), ("validate", validate), ("route", route), ("all", all)];
        for (name, spread) in named {
            let [p50, p95, p99] = [spread.p50_us, spread.p95_us, spread.p99_us].map(|us| us / 1e3);
            text.push_str(&format!("  {name:<10}{p50:>10.3}{p95:>10.3}{p99:>10.3}\n"));
        }
        if let (Some(target), Some(is_met)) = (size.target_p95_us, size.is_met) {
            let word = if is_met { "met" } else { "missed" };
            text.push_str(&format!("  p95 of all below {} ms: {word}\n", target / 1e3));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_nearest_ranks() {
        let spread = Spread::of((1..=200).rev().map(Duration::from_micros).collect());
        assert!((spread.p50_us - 100.0).abs() < 1e-9 && (spread.p95_us - 190.0).abs() < 1e-9, "{spread:?}");
        assert!((spread.p99_us - 198.0).abs() < 1e-9, "{spread:?}");
        assert!(Spread::of(Vec::new()).p99_us.abs() < 1e-9);
    }
}

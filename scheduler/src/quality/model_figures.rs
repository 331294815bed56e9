//! Figures of each model that planners asked.

use std::collections::BTreeMap;

use goalmill_common::quality::ModelQuality;
use serde_json::Value;

use super::percentile::{DURATIONS_MAX, percentile};
use super::plan_figures::Ratio;

/// Models that a report names; further ones are left out.
const MODELS_MAX: usize = 64;

/// Figures of each model.
#[derive(Debug, Default)]
pub(super) struct ModelFiguresByName(BTreeMap<String, ModelFigures>);

#[derive(Debug, Default)]
pub(super) struct ModelFigures {
    answered: Ratio,
    readable: Ratio,
    valid: Ratio,
    latencies: Vec<f64>,
    cost: f64,
    pub(super) usable: u64,
}

impl ModelFiguresByName {
    pub(super) fn of_model(&mut self, model: &str) -> &mut ModelFigures {
        let is_full = self.0.len() >= MODELS_MAX && !self.0.contains_key(model);
        self.0.entry(if is_full { "other" } else { model }.to_owned()).or_default()
    }

    /// Takes in rounds of questions and answers. Returns the model of the last valid answer.
    ///
    /// - `answers`: of planners to goals, if `is_plan`.
    pub(super) fn observe(&mut self, rounds: &[Value], is_plan: bool, answers: &mut Ratio) -> Option<String> {
        let mut last = None;
        for round in rounds {
            for attempt in round["attempts"].as_array().into_iter().flatten() {
                let Some(name) = attempt["model"].as_str() else { continue };
                let figures = self.of_model(name);
                let is_answer = attempt["error"].is_null();
                figures.answered.count(is_answer);
                figures.cost += attempt["cost"].as_f64().unwrap_or(0.0);
                if is_answer && figures.latencies.len() < DURATIONS_MAX {
                    figures.latencies.extend(attempt["latency_ms"].as_f64().map(|ms| ms / 1_000.0));
                }
            }
            let (Some(model), Some(outcome)) = (round["model"].as_str(), round["outcome"].as_str()) else { continue };
            let figures = self.of_model(model);
            figures.readable.count(outcome != "unparseable");
            if outcome != "unparseable" {
                figures.valid.count(outcome == "valid");
            }
            if is_plan {
                answers.count(outcome == "valid");
            }
            if outcome == "valid" {
                last = Some(model.to_owned());
            }
        }
        last
    }

    /// Adds the figures of a plan.
    pub(super) fn add(&mut self, plan: Self) {
        for (name, figures) in plan.0 {
            let sums = self.of_model(&name);
            sums.answered.add(figures.answered);
            sums.readable.add(figures.readable);
            sums.valid.add(figures.valid);
            sums.cost += figures.cost;
            sums.usable += figures.usable;
            let room = DURATIONS_MAX.saturating_sub(sums.latencies.len());
            sums.latencies.extend(figures.latencies.into_iter().take(room));
        }
    }

    pub(super) fn report(self) -> Vec<ModelQuality> {
        self.0.into_iter().map(|(name, figures)| figures.quality(name)).collect()
    }
}

impl ModelFigures {
    fn quality(mut self, model: String) -> ModelQuality {
        let missing = |ratio: Ratio| ratio.value().map(|share| 1.0 - share);
        ModelQuality {
            model,
            calls: self.answered.all,
            success: self.answered.value(),
            parse_failures: missing(self.readable),
            validation_failures: missing(self.valid),
            latency_p50: percentile(&mut self.latencies, 0.5).0,
            latency_p95: percentile(&mut self.latencies, 0.95).0,
            cost: self.cost,
            usable: self.usable,
            cost_per_usable: (self.usable > 0).then(|| self.cost / self.usable as f64),
        }
    }
}

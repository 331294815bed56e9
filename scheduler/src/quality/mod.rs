//! Measures of plans that ended: from their logs for a report, and from their last state for the metrics.

mod cost_sums;
mod model_figures;
mod percentile;
mod plan_figures;
mod plan_sample;
mod stated_confidence;

use goalmill_common::plan::StepKind;
use goalmill_common::quality::{MeasureValue, QualityMeasure as M, QualityReport};
use goalmill_common::status::PlanStatus;
use goalmill_engine::PlanState;
use goalmill_planning::calibration::{ConfidenceSample, correlation, reliability};

use cost_sums::SplitCosts;
use model_figures::ModelFiguresByName;
use percentile::{DURATIONS_MAX, percentile};
pub(crate) use plan_figures::{PlanFigures, Ratio, count_ended};
pub(crate) use plan_sample::PlanSample;
pub(crate) use stated_confidence::StatedConfidence;

/// Groups of the calibration error.
pub(crate) const CONFIDENCE_BINS: usize = 10;
/// The sums over many plans.
#[derive(Debug, Default)]
pub(crate) struct QualitySums {
    plans: u64,
    answers: Ratio,
    figures: PlanFigures,
    revised: Ratio,
    revised_completed: Ratio,
    confidences: Vec<ConfidenceSample>,
    planning: Vec<f64>,
    replanning: Vec<f64>,
    routing: Vec<f64>,
    cost: f64,
    wasted: f64,
    planning_cost: f64,
    models: ModelFiguresByName,
    costs: SplitCosts,
}

impl QualitySums {
    /// Adds a plan that ended.
    pub(crate) fn add(&mut self, state: &PlanState, sample: PlanSample) {
        let figures = PlanFigures::from_state(state);
        self.plans += 1;
        self.answers.add(sample.answers);
        self.figures.steps.add(figures.steps);
        self.figures.dependencies.add(figures.dependencies);
        self.figures.assignments.add(figures.assignments);
        self.revised.count(figures.is_revised);
        if figures.is_revised {
            self.revised_completed.count(figures.is_completed);
        }
        let is_evidence = matches!(state.status(), PlanStatus::Completed | PlanStatus::Partial | PlanStatus::Failed);
        let confidence = sample
            .confidence
            .map(|stated| stated.value)
            .filter(|_| is_evidence && self.confidences.len() < DURATIONS_MAX);
        self.confidences
            .extend(confidence.map(|predicted| ConfidenceSample { predicted, succeeded: figures.is_completed }));
        for (all, own) in [
            (&mut self.planning, sample.planning.into_iter().collect::<Vec<_>>()),
            (&mut self.replanning, sample.replanning),
            (&mut self.routing, sample.routing),
        ] {
            let room = DURATIONS_MAX.saturating_sub(all.len());
            all.extend(own.into_iter().take(room));
        }
        self.planning_cost += sample.planning_cost;
        let mut plan_cost = sample.planning_cost;
        for (step, (cost, wasted)) in sample.costs {
            self.cost += cost;
            self.wasted += wasted;
            plan_cost += cost;
            if let Some(found) = state.step_index(&step).and_then(|i| state.step(i)) {
                // The step of a plan has no agent type, and may have been one of an agent.
                let before = sample.agent_types.get(&step).filter(|_| found.spec.kind == StepKind::Plan);
                self.costs.agent_types.add(before.unwrap_or(&found.spec.agent_type).as_str(), 1, cost);
            }
        }
        self.costs.add_plan(state.updated_ms(), state.namespace().as_str(), plan_cost);
        self.costs.models.merge(sample.model_costs);
        self.models.add(sample.models);
    }

    /// The report; without its period.
    pub(crate) fn report(mut self) -> QualityReport {
        let measures = M::ALL.iter().map(|measure| self.measure(*measure)).collect();
        let models = std::mem::take(&mut self.models).report();
        let mut costs = std::mem::take(&mut self.costs);
        for model in &models {
            costs.models.add(&model.model, model.calls, model.cost);
        }
        QualityReport {
            plans: self.plans,
            measures,
            step_cost: self.cost,
            planning_cost: self.planning_cost,
            models,
            costs: costs.split(),
            ..QualityReport::default()
        }
    }

    fn measure(&mut self, measure: M) -> MeasureValue {
        let ratio = |ratio: Ratio| (ratio.value(), ratio.all);
        let (value, samples) = match measure {
            M::PlanValidity => ratio(self.answers),
            M::TaskCompleteness => ratio(self.figures.steps),
            M::DependencyAccuracy => ratio(self.figures.dependencies),
            M::AssignmentAccuracy => ratio(self.figures.assignments),
            M::RevisionFrequency => ratio(self.revised),
            M::RevisionSuccess => ratio(self.revised_completed),
            M::CalibrationError => {
                let samples = &self.confidences;
                let error = reliability(samples, CONFIDENCE_BINS).calibration_error;
                ((!samples.is_empty()).then_some(error), samples.len() as u64)
            }
            M::ConfidenceCorrelation => (correlation(&self.confidences), self.confidences.len() as u64),
            M::WastedCost => ((self.cost > 0.0).then(|| self.wasted / self.cost), self.figures.assignments.all),
            M::PlanningP50 => percentile(&mut self.planning, 0.5),
            M::PlanningP95 => percentile(&mut self.planning, 0.95),
            M::ReplanningP50 => percentile(&mut self.replanning, 0.5),
            M::ReplanningP95 => percentile(&mut self.replanning, 0.95),
            M::RoutingP50 => percentile(&mut self.routing, 0.5),
            M::RoutingP95 => percentile(&mut self.routing, 0.95),
        };
        MeasureValue::new(measure, value, samples)
    }
}

#[cfg(test)]
mod tests {
    use goalmill_common::json::Json;

    use super::*;

    #[test]
    fn answers_of_models_are_counted_by_what_became_of_them() {
        let provenance = Json::from_value(&serde_json::json!({
            "tried": [{"planner": "tools", "rounds": [
                {"model": "small", "outcome": "unparseable",
                 "attempts": [{"model": "small", "error": null, "latency_ms": 500, "cost": 0.01}]}]}],
            "rounds": [
                {"model": "big", "outcome": "invalid",
                 "attempts": [{"model": "small", "error": "LLM_TIMEOUT", "latency_ms": 9, "cost": 0.0},
                              {"model": "big", "error": null, "latency_ms": 1000, "cost": 0.5}]},
                {"model": "big", "outcome": "valid",
                 "attempts": [{"model": "big", "error": null, "latency_ms": 2000, "cost": 0.5}]}],
        }));
        let mut sample = PlanSample::default();
        sample.account(&provenance, true, true);
        assert_eq!(sample.answers, Ratio { hits: 1, all: 3 });
        let sums = QualitySums { models: sample.models, ..QualitySums::default() };
        let report = sums.report();
        let of = |name: &str| report.models.iter().find(|model| model.model == name).expect("it was asked").clone();
        let (big, small) = (of("big"), of("small"));
        assert_eq!((big.calls, big.success, big.parse_failures), (2, Some(1.0), Some(0.0)));
        assert_eq!((big.validation_failures, big.usable, big.cost_per_usable), (Some(0.5), 1, Some(1.0)));
        assert_eq!((big.latency_p50, big.latency_p95), (Some(1.0), Some(2.0)));
        assert_eq!((small.calls, small.success, small.parse_failures), (2, Some(0.5), Some(1.0)));
        assert_eq!((small.validation_failures, small.cost_per_usable), (None, None));
    }
}

//! Measures of plans that ended: from their logs for a report, and from their last state for the metrics.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::event::{Event, PlanEvent, Record, Route, StepEvent};
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::number::{to_usize, whole_u64};
use goalmill_common::plan::{Step, StepKind};
use goalmill_common::quality::{MeasureValue, ModelQuality, QualityMeasure as M, QualityReport};
use goalmill_common::revision::{RevisionStrategy, Trigger};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::PlanState;
use goalmill_planning::calibration::{ConfidenceSample, correlation, reliability};
use serde::Deserialize;
use serde_json::Value;

/// Groups of the calibration error.
pub(crate) const CONFIDENCE_BINS: usize = 10;
/// Models that a report names; further ones are left out.
const MODELS_MAX: usize = 64;
/// Durations kept of one kind.
const DURATIONS_MAX: usize = 100_000;

/// Hits among all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ratio {
    pub(crate) hits: u64,
    pub(crate) all: u64,
}

impl Ratio {
    fn add(&mut self, other: Self) {
        self.hits += other.hits;
        self.all += other.all;
    }

    fn count(&mut self, is_hit: bool) {
        self.add(Self { hits: u64::from(is_hit), all: 1 });
    }

    fn value(self) -> Option<f64> {
        (self.all > 0).then(|| self.hits as f64 / self.all as f64)
    }
}

/// What the last state of a plan tells of its quality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlanFigures {
    pub(crate) steps: Ratio,
    pub(crate) dependencies: Ratio,
    pub(crate) assignments: Ratio,
    /// Whether planners revised it.
    pub(crate) is_revised: bool,
    pub(crate) is_completed: bool,
}

impl PlanFigures {
    /// - `state`: of a plan that ended.
    pub(crate) fn of(state: &PlanState) -> Self {
        let first = first_steps(state);
        let by_planner = |strategy: RevisionStrategy| strategy != RevisionStrategy::Edit;
        Self {
            steps: completeness(state),
            dependencies: dependencies(state, &first),
            assignments: assignments(state, &first),
            is_revised: state.revisions().iter().any(|record| by_planner(record.strategy)),
            is_completed: state.status() == PlanStatus::Completed,
        }
    }
}

/// The steps of the plan as it was first made, by id; `None` for those that revisions added.
type FirstSteps<'a> = BTreeMap<&'a StepId, Option<&'a Step>>;

fn first_steps(state: &PlanState) -> FirstSteps<'_> {
    let mut first = FirstSteps::new();
    for record in state.revisions() {
        for modified in &record.modified {
            first.entry(&modified.before.id).or_insert(Some(&modified.before));
        }
        for step in &record.removed {
            first.entry(&step.id).or_insert(Some(step));
        }
        for step in &record.added {
            first.entry(&step.id).or_insert(None);
        }
    }
    first
}

fn completeness(state: &PlanState) -> Ratio {
    let mut steps = Ratio::default();
    if matches!(state.status(), PlanStatus::Cancelled | PlanStatus::Rejected) {
        return steps;
    }
    for i in indices(state) {
        let Some(step) = state.step(i) else { continue };
        let is_on_purpose = step.status == StepStatus::Skipped && state.is_skipped_on_purpose(i);
        if step.status != StepStatus::Revised && !is_on_purpose {
            steps.count(step.status == StepStatus::Completed);
        }
    }
    steps
}

fn indices(state: &PlanState) -> impl Iterator<Item = goalmill_engine::StepIndex> + '_ {
    state.plan().steps.iter().filter_map(|step| state.step_index(&step.id))
}

/// Dependencies of executed steps: those that were there from the first plan to the end, among all.
fn dependencies(state: &PlanState, first: &FirstSteps<'_>) -> Ratio {
    let mut kept = Ratio::default();
    for i in indices(state) {
        let Some(step) = state.step(i).filter(|step| step.attempt > 0) else { continue };
        let last: BTreeSet<&StepId> = step.spec.dependencies.iter().collect();
        let before: BTreeSet<&StepId> = match first.get(&step.spec.id) {
            None => last.clone(),
            Some(None) => BTreeSet::new(),
            Some(Some(step)) => step.dependencies.iter().collect(),
        };
        let hits = last.intersection(&before).count() as u64;
        kept.add(Ratio { hits, all: last.union(&before).count() as u64 });
    }
    kept
}

/// Steps that the agent type completed that was chosen first, among those with an attempt that were completed or failed.
fn assignments(state: &PlanState, first: &FirstSteps<'_>) -> Ratio {
    let mut kept = Ratio::default();
    for i in indices(state) {
        let Some(step) = state.step(i).filter(|step| step.attempt > 0) else { continue };
        let is_work = matches!(step.spec.kind, StepKind::Tool | StepKind::Llm);
        if !is_work || !matches!(step.status, StepStatus::Completed | StepStatus::Failed) {
            continue;
        }
        let before = match first.get(&step.spec.id) {
            Some(Some(step)) => &step.agent_type,
            Some(None) | None => &step.spec.agent_type,
        };
        kept.count(step.status == StepStatus::Completed && state.queue(i) == Some(before));
    }
    kept
}

/// The part of a plan's log that the last state does not tell.
#[derive(Debug, Default)]
pub(crate) struct PlanSample {
    accepted_ms: u64,
    /// Seconds from goal to plan, of planners.
    planning: Option<f64>,
    confidence: Option<f64>,
    replan_ms: Option<u64>,
    replanning: Vec<f64>,
    routing: Vec<f64>,
    answers: Ratio,
    planning_cost: f64,
    /// Cost of each step's attempts: all, failed.
    costs: BTreeMap<StepId, (f64, f64)>,
    /// Cost of each step's recorded calls, while a next attempt would use them.
    call_costs: BTreeMap<StepId, Vec<f64>>,
    models: Models,
}

/// What the provenance of a plan says about its making.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Account {
    said: Option<f64>,
    rounds: Vec<Value>,
    tried: Vec<Value>,
}

impl PlanSample {
    /// Takes in the next event of the log.
    pub(crate) fn observe(&mut self, record: &Record) {
        match &record.event {
            Event::Plan(event) => self.observe_plan(event, record.time_ms),
            Event::Step { step, event, .. } => self.observe_step(step, event),
        }
    }

    fn observe_plan(&mut self, event: &PlanEvent, time_ms: u64) {
        if let PlanEvent::GoalAccepted(_) = event {
            self.accepted_ms = time_ms;
        } else if let PlanEvent::PlanCreated(created) = event {
            if let Some(provenance) = created.provenance.as_ref().filter(|_| created.fork.is_none()) {
                let account = self.account(provenance, true, true);
                self.planning = Some(seconds(self.accepted_ms, time_ms));
                self.confidence = Some(account.said.unwrap_or(created.confidence));
            }
        } else if let PlanEvent::PlanValidated(validated) = event {
            self.route(&validated.routes);
        } else if let PlanEvent::Extended(extended) = event {
            self.route(&extended.routes);
        } else if let PlanEvent::PlanningFailed(failed) = event {
            let is_first = self.planning.is_none();
            match &failed.provenance {
                Some(provenance) => drop(self.account(provenance, is_first, false)),
                None if is_first => self.answers.count(false),
                None => {}
            }
        } else if let PlanEvent::ModelAnswered(answered) = event {
            self.planning_cost += answered.usage.cost;
        } else if let PlanEvent::ReplanTriggered(replan) = event {
            let by_planner = ![Trigger::AskUser, Trigger::BetterPlan].iter().any(|t| t.as_str() == replan.trigger);
            self.replan_ms = by_planner.then_some(time_ms);
        } else if let PlanEvent::QuestionAnswered(_) = event {
            self.replan_ms = Some(time_ms);
        } else if let PlanEvent::Revised(revised) = event {
            self.end_replan(time_ms);
            if let Some(provenance) = &revised.provenance {
                self.account(provenance, false, true);
            }
        } else if let PlanEvent::RevisionProposed(_)
        | PlanEvent::QuestionAsked(_)
        | PlanEvent::Resumed(_)
        | PlanEvent::Failed(_) = event
        {
            self.end_replan(time_ms);
        }
    }

    fn end_replan(&mut self, time_ms: u64) {
        self.replanning.extend(self.replan_ms.take().map(|begun_ms| seconds(begun_ms, time_ms)));
    }

    fn route(&mut self, routes: &[Route]) {
        let took: Vec<f64> = routes.iter().filter_map(|route| route.took_ms).collect();
        if !took.is_empty() {
            self.routing.push(took.iter().sum::<f64>() / 1_000.0);
        }
    }

    /// Takes in what models answered, in all planners that were asked.
    ///
    /// - `is_plan`: whether the answers were to the goal.
    /// - `is_used`: whether the last one was used.
    fn account(&mut self, provenance: &Json, is_plan: bool, is_used: bool) -> Account {
        let account: Account = serde_json::from_str(provenance.text()).unwrap_or_default();
        let answers = self.answers.all;
        for tried in &account.tried {
            let rounds = tried["rounds"].as_array().map(Vec::as_slice).unwrap_or_default();
            self.models.observe(rounds, is_plan, &mut self.answers);
            if is_plan && rounds.is_empty() {
                self.answers.count(false);
            }
        }
        let valid = self.models.observe(&account.rounds, is_plan, &mut self.answers);
        if let (true, Some(model)) = (is_used, valid) {
            self.models.of(&model).usable += 1;
        }
        let is_silent = account.rounds.is_empty() && (is_used || self.answers.all == answers);
        if is_plan && is_silent {
            self.answers.count(is_used);
        }
        account
    }

    fn observe_step(&mut self, step: &StepId, event: &StepEvent) {
        self.observe_calls(step, event);
        if let StepEvent::CallRecorded(_) = event {
            return;
        }
        let cost = event.usage().cost;
        let is_wasted = matches!(event, StepEvent::Retrying(_) | StepEvent::Failed(_) | StepEvent::Skipped(_));
        let wasted = if is_wasted { cost } else { 0.0 };
        self.add_cost(step, cost, wasted);
    }

    /// The cost of a recorded call is wasted when it is dropped: for another call, with another agent, or with its step.
    fn observe_calls(&mut self, step: &StepId, event: &StepEvent) {
        if let StepEvent::CallRecorded(call) = event {
            self.call_costs.entry(step.clone()).or_default().push(call.cost);
            self.add_cost(step, call.cost, 0.0);
            return;
        }
        let Some(costs) = self.call_costs.get_mut(step) else { return };
        let kept = if let StepEvent::CallsDiscarded(discarded) = event {
            to_usize(discarded.from.saturating_sub(1)).min(costs.len())
        } else if event.drops_calls() {
            0
        } else {
            return;
        };
        let wasted = costs.drain(kept..).sum();
        if let StepEvent::Completed(_) | StepEvent::Decomposed(_) = event {
            return;
        }
        self.add_cost(step, 0.0, wasted);
    }

    fn add_cost(&mut self, step: &StepId, cost: f64, wasted: f64) {
        if cost > 0.0 || wasted > 0.0 {
            let sums = self.costs.entry(step.clone()).or_default();
            *sums = (sums.0 + cost, sums.1 + wasted);
        }
    }
}

fn seconds(from_ms: u64, to_ms: u64) -> f64 {
    to_ms.saturating_sub(from_ms) as f64 / 1_000.0
}

/// Figures of each model.
#[derive(Debug, Default)]
struct Models(BTreeMap<String, ModelFigures>);

#[derive(Debug, Default)]
struct ModelFigures {
    answered: Ratio,
    readable: Ratio,
    valid: Ratio,
    latencies: Vec<f64>,
    cost: f64,
    usable: u64,
}

impl Models {
    fn of(&mut self, model: &str) -> &mut ModelFigures {
        let is_full = self.0.len() >= MODELS_MAX && !self.0.contains_key(model);
        self.0.entry(if is_full { "other" } else { model }.to_owned()).or_default()
    }

    /// Takes in rounds of questions and answers. Returns the model of the last valid answer.
    ///
    /// - `answers`: of planners to goals, if `is_plan`.
    fn observe(&mut self, rounds: &[Value], is_plan: bool, answers: &mut Ratio) -> Option<String> {
        let mut last = None;
        for round in rounds {
            for attempt in round["attempts"].as_array().into_iter().flatten() {
                let Some(name) = attempt["model"].as_str() else { continue };
                let figures = self.of(name);
                let is_answer = attempt["error"].is_null();
                figures.answered.count(is_answer);
                figures.cost += attempt["cost"].as_f64().unwrap_or(0.0);
                if is_answer && figures.latencies.len() < DURATIONS_MAX {
                    figures.latencies.extend(attempt["latency_ms"].as_f64().map(|ms| ms / 1_000.0));
                }
            }
            let (Some(model), Some(outcome)) = (round["model"].as_str(), round["outcome"].as_str()) else { continue };
            let figures = self.of(model);
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
}

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
    models: Models,
}

impl QualitySums {
    /// Adds a plan that ended.
    pub(crate) fn add(&mut self, state: &PlanState, sample: PlanSample) {
        let figures = PlanFigures::of(state);
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
        let confidence = sample.confidence.filter(|_| is_evidence && self.confidences.len() < DURATIONS_MAX);
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
        for (step, (cost, wasted)) in sample.costs {
            // The steps of a sub-plan are counted with their own plan.
            let spec = state.step_index(&step).and_then(|i| state.step(i));
            if spec.is_none_or(|step| step.spec.kind != StepKind::Plan) {
                self.cost += cost;
                self.wasted += wasted;
            }
        }
        for (name, figures) in sample.models.0 {
            let sums = self.models.of(&name);
            sums.answered.add(figures.answered);
            sums.readable.add(figures.readable);
            sums.valid.add(figures.valid);
            sums.cost += figures.cost;
            sums.usable += figures.usable;
            let room = DURATIONS_MAX.saturating_sub(sums.latencies.len());
            sums.latencies.extend(figures.latencies.into_iter().take(room));
        }
    }

    /// The report; without its period.
    pub(crate) fn report(mut self) -> QualityReport {
        let measures = M::ALL.iter().map(|measure| self.measure(*measure)).collect();
        let models = std::mem::take(&mut self.models.0);
        QualityReport {
            plans: self.plans,
            measures,
            step_cost: self.cost,
            planning_cost: self.planning_cost,
            models: models.into_iter().map(|(name, figures)| figures.quality(name)).collect(),
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

/// The smallest value that is not below this share of all, and how many there are.
fn percentile(values: &mut [f64], share: f64) -> (Option<f64>, u64) {
    values.sort_by(f64::total_cmp);
    let place = to_usize(whole_u64((values.len() as f64 * share).ceil())).max(1) - 1;
    (values.get(place).copied(), values.len() as u64)
}

/// Counts a plan that ended in the metrics.
pub(crate) fn count_ended(state: &PlanState) {
    let PlanFigures { steps, dependencies, assignments, is_revised, is_completed } = PlanFigures::of(state);
    let count = |metric: &'static str, label: &'static str, words: [&'static str; 2], ratio: Ratio| {
        for (word, count) in words.into_iter().zip([ratio.hits, ratio.all - ratio.hits]) {
            if count > 0 {
                metrics::counter!(metric, label => word).increment(count);
            }
        }
    };
    count("goalmill_plan_steps_total", "outcome", OUTCOMES, steps);
    count("goalmill_plan_dependencies_total", "kept", ["yes", "no"], dependencies);
    count("goalmill_step_assignments_total", "kept", ["yes", "no"], assignments);
    if is_revised {
        let mut revised = Ratio::default();
        revised.count(is_completed);
        count("goalmill_plans_revised_total", "outcome", OUTCOMES, revised);
    }
}

/// Values of the label `outcome`.
const OUTCOMES: [&str; 2] = ["completed", "not_completed"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let mut values = vec![5.0, 1.0, 3.0, 2.0, 4.0];
        assert_eq!(percentile(&mut values, 0.5), (Some(3.0), 5));
        assert_eq!(percentile(&mut values, 0.95), (Some(5.0), 5));
        assert_eq!(percentile(&mut [], 0.95), (None, 0));
    }

    #[test]
    fn answers_of_models_are_counted_by_what_became_of_them() {
        let provenance = Json::of(&serde_json::json!({
            "said": 0.7,
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
        assert_eq!(sample.account(&provenance, true, true).said, Some(0.7));
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

    #[test]
    fn a_planner_without_a_model_gives_one_answer() {
        let mut sample = PlanSample::default();
        sample.account(&Json::of(&serde_json::json!({"rule": "travel"})), true, true);
        assert_eq!(sample.answers, Ratio { hits: 1, all: 1 });
        sample.account(&Json::of(&serde_json::json!({"tried": [{"planner": "rules"}]})), true, false);
        assert_eq!(sample.answers, Ratio { hits: 1, all: 2 });
    }

    #[test]
    fn the_cost_of_every_attempt_is_counted_once_and_that_of_failed_ones_as_wasted() {
        let mut sample = PlanSample::default();
        let id: StepId = "draft".into();
        for event in StepEvent::samples() {
            if let StepEvent::Iterated(mut iterated) = event {
                iterated.cost = 0.25;
                sample.observe_step(&id, &StepEvent::Iterated(iterated));
            } else if let StepEvent::Retrying(mut retrying) = event {
                retrying.cost = 0.5;
                sample.observe_step(&id, &StepEvent::Retrying(retrying));
            } else if let StepEvent::Completed(mut completed) = event {
                completed.cost = 1.0;
                sample.observe_step(&id, &StepEvent::Completed(completed));
            }
        }
        assert_eq!(sample.costs.get(&id), Some(&(1.75, 0.5)));
    }
}

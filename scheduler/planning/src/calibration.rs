//! Calibrates planner confidence against observed success rates.
//!
//! Isotonic regression keeps the order of confidences and corrects their height. With little history the answer stays
//! near what the planner said.
//!
//! Sources: M. Ayer et al., "An empirical distribution function for sampling with incomplete information", Annals of
//! Mathematical Statistics 26, 1955 (pool adjacent violators); B. Zadrozny and C. Elkan, "Transforming classifier scores
//! into accurate multiclass probability estimates", KDD 2002; M. P. Naeini et al., "Obtaining well calibrated
//! probabilities using Bayesian binning", AAAI 2015 (expected calibration error).

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use goalmill_common::number::{to_usize, whole_u64};
use serde::Serialize;

/// One plan that ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfidenceSample {
    /// What the planner said, 0 to 1.
    pub predicted: f64,
    /// Whether the plan completed.
    pub succeeded: bool,
}

/// Plans that are remembered; older ones are forgotten first.
const PLANS_MAX: usize = 2_000;
/// Planners that are remembered.
const PLANNERS_MAX: usize = 64;
/// How many plans the planner's own word counts for, spread over the whole range.
const PRIOR: f64 = 22.0;
/// Places over which it is spread.
const PRIOR_PLACES: usize = 11;

/// What each planner's confidence is worth here, from the plans that ended.
#[derive(Debug)]
pub struct ConfidenceCalibration {
    plans_min: usize,
    histories: Mutex<PlannerHistories>,
}

#[derive(Debug, Default)]
struct PlannerHistories {
    planners: BTreeMap<String, PlannerHistory>,
    /// Plans of all planners.
    all: PlannerHistory,
}

/// The outcomes of recent plans.
#[derive(Debug, Default)]
struct PlannerHistory {
    samples: VecDeque<ConfidenceSample>,
    /// Until the next plan ends.
    fitted: Option<Calibration>,
}

impl ConfidenceCalibration {
    /// - `plans_min`: with fewer plans that ended, a planner's curve is drawn to the curve of all planners, and with fewer
    ///   of all planners its own word stands; 0: it always does.
    pub fn new(plans_min: usize) -> Self {
        Self { plans_min, histories: Mutex::default() }
    }

    /// Notes how a plan ended that `planner` was `said` sure of.
    pub fn observe(&self, planner: &str, said: f64, succeeded: bool) {
        let mut histories = self.histories();
        let PlannerHistories { planners, all } = &mut *histories;
        if planners.len() >= PLANNERS_MAX && !planners.contains_key(planner) {
            return;
        }
        for kept in [planners.entry(planner.to_owned()).or_default(), all] {
            kept.observe(said, succeeded);
        }
    }

    /// How likely a plan is to complete that `planner` is `said` sure of.
    pub fn completion_probability(&self, planner: &str, said: f64) -> f64 {
        let mut histories = self.histories();
        let PlannerHistories { planners, all } = &mut *histories;
        if self.plans_min == 0 || all.samples.len() < self.plans_min {
            return said;
        }
        match planners.get_mut(planner) {
            Some(own) if own.samples.len() >= self.plans_min => own.calibration().confidence(said),
            own => {
                let outcomes = own.map(|own| own.outcomes()).unwrap_or_default();
                let all = all.calibration();
                Calibration::fit_towards(&outcomes, |place| all.confidence(place), Some(unit(said))).confidence(said)
            }
        }
    }

    /// The outcomes of all planners' plans, as far as they are remembered.
    pub fn outcomes(&self) -> Vec<ConfidenceSample> {
        self.histories().planners.values().flat_map(PlannerHistory::outcomes).collect()
    }

    fn histories(&self) -> MutexGuard<'_, PlannerHistories> {
        self.histories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PlannerHistory {
    /// Notes how a plan ended; a confidence that is no number in 0..=1 is brought into it.
    fn observe(&mut self, predicted: f64, succeeded: bool) {
        if self.samples.len() == PLANS_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(ConfidenceSample { predicted: unit(predicted), succeeded });
        self.fitted = None;
    }

    fn outcomes(&self) -> Vec<ConfidenceSample> {
        self.samples.iter().copied().collect()
    }

    fn calibration(&mut self) -> &Calibration {
        let samples = self.samples.make_contiguous();
        self.fitted.get_or_insert_with(|| Calibration::fit(samples))
    }
}

/// From what a planner says to how often that comes true: never falling, level within a group, straight between groups.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    groups: Vec<ConfidenceBin>,
}

/// ConfidenceCalibration from `low` to `high`, which are not distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct ConfidenceBin {
    low: f64,
    high: f64,
    knot: Knot,
}

/// A group of plans whose confidences are not distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Knot {
    /// Mean of what was said.
    pub predicted: f64,
    /// Share that came true.
    pub observed: f64,
    pub plans: f64,
}

impl Calibration {
    /// Pools neighbours until none succeeds more often than one that was trusted more.
    pub fn fit(outcomes: &[ConfidenceSample]) -> Self {
        Self::fit_towards(outcomes, |place| place, None)
    }

    /// The same, drawn to another curve with the weight of 22 plans: with few plans it stays near that one.
    ///
    /// - `prior`: from what is said to how often that comes true; never falling.
    /// - `exact`: a place between those of the grid at which the other curve counts as it is.
    fn fit_towards(outcomes: &[ConfidenceSample], prior: impl Fn(f64) -> f64, exact: Option<f64>) -> Self {
        let one = |predicted: f64, observed: f64, plans: f64| ConfidenceBin {
            low: predicted,
            high: predicted,
            knot: Knot { predicted, observed, plans },
        };
        let samples = outcomes.iter().map(|o| one(unit(o.predicted), f64::from(u8::from(o.succeeded)), 1.0));
        let grid = (0..PRIOR_PLACES).map(|i| i as f64 / (PRIOR_PLACES - 1) as f64);
        let prior = grid.chain(exact).map(|place| one(place, prior(place), PRIOR / PRIOR_PLACES as f64));
        let mut points: Vec<ConfidenceBin> = samples.chain(prior).collect();
        points.sort_by(|a, b| a.low.total_cmp(&b.low));
        let mut groups: Vec<ConfidenceBin> = Vec::new();
        for mut group in points {
            // Equal confidences are one group, whatever became of them.
            while let Some(before) =
                groups.last().filter(|b| b.knot.observed >= group.knot.observed || b.high >= group.low)
            {
                group = ConfidenceBin { low: before.low, high: group.high, knot: pooled(&before.knot, &group.knot) };
                groups.pop();
            }
            groups.push(group);
        }
        Self { groups }
    }

    /// The share of plans with this confidence that came true, 0 to 1.
    pub fn confidence(&self, predicted: f64) -> f64 {
        let predicted = unit(predicted);
        let after = self.groups.partition_point(|group| group.low <= predicted);
        match (after.checked_sub(1).map(|i| self.groups[i]), self.groups.get(after)) {
            (Some(before), Some(after)) if before.high < predicted => {
                let share = (predicted - before.high) / (after.low - before.high);
                before.knot.observed + share * (after.knot.observed - before.knot.observed)
            }
            (Some(group), _) => group.knot.observed,
            (None, Some(group)) => group.knot.observed,
            (None, None) => predicted,
        }
    }
}

fn pooled(a: &Knot, b: &Knot) -> Knot {
    let plans = a.plans + b.plans;
    let mean = |x: f64, y: f64| (x * a.plans + y * b.plans) / plans;
    Knot { predicted: mean(a.predicted, b.predicted), observed: mean(a.observed, b.observed), plans }
}

fn unit(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) }
}

/// How well confidences were kept: the points of a reliability curve, and two figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reliability {
    /// Groups of equal width that hold any plan.
    pub curve: Vec<Knot>,
    /// Expected calibration error: the mean distance between said and observed, by plans.
    pub calibration_error: f64,
    /// Brier score: the mean square of the distance between said and what became of each plan.
    pub brier: f64,
}

/// Measures confidences against outcomes, in `bins` groups of equal width.
pub fn reliability(outcomes: &[ConfidenceSample], bins: usize) -> Reliability {
    let bins = bins.max(1);
    let mut groups: Vec<Option<Knot>> = vec![None; bins];
    let mut squares = 0.0;
    for outcome in outcomes {
        let (predicted, observed) = (unit(outcome.predicted), f64::from(u8::from(outcome.succeeded)));
        squares += (predicted - observed).powi(2);
        let group = &mut groups[to_usize(whole_u64(predicted * bins as f64)).min(bins - 1)];
        let one = Knot { predicted, observed, plans: 1.0 };
        *group = Some(group.map_or(one, |known| pooled(&known, &one)));
    }
    let curve: Vec<Knot> = groups.into_iter().flatten().collect();
    let all = outcomes.len().max(1) as f64;
    let distance: f64 = curve.iter().map(|knot| (knot.predicted - knot.observed).abs() * knot.plans).sum();
    Reliability { curve, calibration_error: distance / all, brier: squares / all }
}

/// Pearson's correlation of confidence and outcome, -1 to 1; `None` if all confidences or all outcomes are the same.
///
/// Source: K. Pearson, "Notes on regression and inheritance in the case of two parents", Proceedings of the Royal
/// Society of London 58, 1895.
pub fn correlation(outcomes: &[ConfidenceSample]) -> Option<f64> {
    let pairs = || outcomes.iter().map(|o| (unit(o.predicted), f64::from(u8::from(o.succeeded))));
    let count = outcomes.len().max(1) as f64;
    let mean_x = pairs().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = pairs().map(|(_, y)| y).sum::<f64>() / count;
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs() {
        xy += (x - mean_x) * (y - mean_y);
        xx += (x - mean_x).powi(2);
        yy += (y - mean_y).powi(2);
    }
    let scale = (xx * yy).sqrt();
    (scale > 1e-12).then(|| xy / scale)
}

#[cfg(test)]
mod tests {
    use goalmill_common::random::Random;

    use super::*;

    #[test]
    fn without_history_the_planner_is_believed() {
        let calibration = Calibration::fit(&[]);
        for predicted in [0.0, 0.1, 0.33, 0.85, 1.0] {
            assert!((calibration.confidence(predicted) - predicted).abs() < 1e-9, "{predicted}");
        }
    }

    #[test]
    fn a_planner_that_boasts_is_corrected_and_its_order_is_kept() {
        let outcomes = boasts(7, 1_500);
        let calibration = Calibration::fit(&outcomes);
        let corrected: Vec<ConfidenceSample> = boasts(8, 1_500)
            .iter()
            .map(|o| ConfidenceSample { predicted: calibration.confidence(o.predicted), ..*o })
            .collect();
        let (before, after) = (reliability(&outcomes, 10), reliability(&corrected, 10));
        assert!(before.calibration_error > 0.15, "{before:?}");
        assert!(after.calibration_error < 0.05, "{after:?}");
        assert!(after.brier < before.brier);
        let places: Vec<f64> = (0..=100).map(|i| calibration.confidence(f64::from(i) / 100.0)).collect();
        assert!(places.is_sorted(), "{places:?}");
        assert!(places.iter().all(|p| (0.0..=1.0).contains(p)));
    }

    #[test]
    fn each_planner_is_corrected_by_its_own_plans_once_there_are_enough() {
        let confidences = ConfidenceCalibration::new(20);
        for n in 0..19 {
            confidences.observe("llm", 0.75, n % 3 == 0);
        }
        assert!((confidences.completion_probability("llm", 0.75) - 0.75).abs() < 1e-9, "19 plans are too few");
        confidences.observe("llm", 0.75, false);
        let corrected = confidences.completion_probability("llm", 0.75);
        assert!((0.3..0.5).contains(&corrected), "{corrected}: seven of twenty completed");
        assert_eq!(confidences.outcomes().len(), 20);
        let never = ConfidenceCalibration::new(0);
        (0..100).for_each(|_| never.observe("llm", 0.75, false));
        assert!((never.completion_probability("llm", 0.75) - 0.75).abs() < 1e-9);
    }

    #[test]
    fn below_the_least_number_of_plans_a_planner_is_drawn_to_the_curve_of_all() {
        let confidences = ConfidenceCalibration::new(50);
        (0..100).for_each(|n| confidences.observe("large", 0.75, n % 4 == 0));
        let all = confidences.completion_probability("large", 0.75);
        let unknown = confidences.completion_probability("new", 0.75);
        assert!((unknown - all).abs() < 0.1, "{unknown} {all}: no plan of `new` has ended");
        (0..40).for_each(|_| confidences.observe("new", 0.75, true));
        let better = confidences.completion_probability("new", 0.75);
        assert!(unknown + 0.2 < better && better < 1.0, "{better}: all of 40 completed");
        (0..10).for_each(|_| confidences.observe("new", 0.75, true));
        assert!(confidences.completion_probability("new", 0.75) > 0.85, "its own plans are enough");
        let few = ConfidenceCalibration::new(50);
        (0..49).for_each(|_| few.observe("large", 0.75, false));
        assert!((few.completion_probability("large", 0.75) - 0.75).abs() < 1e-9, "all plans are too few");
    }

    #[test]
    fn confidence_correlates_with_outcomes_that_follow_it() {
        let samples = |pairs: &[(f64, bool)]| -> Vec<ConfidenceSample> {
            pairs
                .iter()
                .map(|(predicted, succeeded)| ConfidenceSample { predicted: *predicted, succeeded: *succeeded })
                .collect()
        };
        let good = correlation(&samples(&[(0.1, false), (0.2, false), (0.8, true), (0.9, true)])).expect("it varies");
        assert!(good > 0.95, "{good}");
        let bad = correlation(&samples(&[(0.9, false), (0.1, true)])).expect("it varies");
        assert!((bad + 1.0).abs() < 1e-9, "{bad}");
        assert_eq!(correlation(&samples(&[(0.5, true), (0.5, false)])), None);
        assert_eq!(correlation(&samples(&[(0.1, true), (0.5, true)])), None);
        assert_eq!(correlation(&[]), None);
    }

    #[test]
    fn history_is_bounded_and_forgets_the_oldest() {
        let mut history = PlannerHistory::default();
        (0..PLANS_MAX + 10).for_each(|i| history.observe(if i < 10 { f64::NAN } else { 7.0 }, true));
        assert_eq!(history.samples.len(), PLANS_MAX);
        assert!(history.outcomes().iter().all(|o| o.predicted >= 1.0));
    }

    #[test]
    fn a_curve_has_a_point_for_each_group_that_holds_plans() {
        let plans = [(0.05, false), (0.06, false), (0.95, true), (0.97, false)];
        let outcomes: Vec<ConfidenceSample> =
            plans.iter().map(|(p, s)| ConfidenceSample { predicted: *p, succeeded: *s }).collect();
        let found = reliability(&outcomes, 10);
        assert_eq!(found.curve.len(), 2);
        assert!((found.curve[1].observed - 0.5).abs() < 1e-9);
        assert!(reliability(&[], 10).curve.is_empty());
    }

    /// Plans that succeed half as often as the planner says.
    fn boasts(seed: u64, plans: usize) -> Vec<ConfidenceSample> {
        let random = Random::seeded(seed);
        let draw = || random.below(1_000_000) as f64 / 1_000_000.0;
        (0..plans)
            .map(|_| {
                let predicted = draw();
                ConfidenceSample { predicted, succeeded: draw() < predicted * 0.5 }
            })
            .collect()
    }
}

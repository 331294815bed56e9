//! Ranks the models for a request. Pure: equal rates give an equal order.
//!
//! Models are grouped by tag and ordered by rates within a group. The tier `cheap` prefers the lowest expected cost of
//! a *usable* completion; `strong` prefers the highest chance of one. A model that is usable less than half the time
//! ranks last.

use std::cmp::Ordering;

use crate::model_rates::ModelRates;
use crate::request::ModelTier;

/// A model with a lower chance of a usable completion ranks last …
const USABLE_MIN: f64 = 0.5;
/// … once its rates come from so many calls.
const WEIGHT_MIN: f64 = 4.0;
/// Resolution with which chances are compared.
const STEP: f64 = 0.05;

/// A model that may be called.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelCandidate {
    /// Index in the settings.
    pub at: usize,
    pub is_cheap: bool,
    pub is_strong: bool,
    pub rates: ModelRates,
    /// Calls that the rates come from.
    pub weight: f64,
    /// US dollars that the call is expected to cost.
    pub cost: f64,
}

/// Returns the `at` of the candidates, best first.
pub fn rank_models(mut candidates: Vec<ModelCandidate>, tier: ModelTier) -> Vec<usize> {
    candidates.sort_by(|a, b| {
        tag_group(a, tier)
            .cmp(&tag_group(b, tier))
            .then_with(|| compare_rates(a, b, tier))
            .then_with(|| a.at.cmp(&b.at))
    });
    candidates.into_iter().map(|candidate| candidate.at).collect()
}

fn tag_group(candidate: &ModelCandidate, tier: ModelTier) -> u8 {
    let (wanted, other) = match tier {
        ModelTier::Cheap => (candidate.is_cheap, candidate.is_strong),
        ModelTier::Strong => (candidate.is_strong, candidate.is_cheap),
    };
    let by_tag = match (wanted, other) {
        (true, _) => 0,
        (false, false) => 1,
        (false, true) => 2,
    };
    let is_unusable = candidate.weight >= WEIGHT_MIN && candidate.rates.usable() < USABLE_MIN;
    by_tag + if is_unusable { 3 } else { 0 }
}

fn compare_rates(a: &ModelCandidate, b: &ModelCandidate, tier: ModelTier) -> Ordering {
    // Never 0: the rates include a prior.
    let chance = |c: &ModelCandidate| c.rates.usable().max(f64::MIN_POSITIVE);
    let by_cost = |a: &ModelCandidate, b: &ModelCandidate| (a.cost / chance(a)).total_cmp(&(b.cost / chance(b)));
    let by_time = |a: &ModelCandidate, b: &ModelCandidate| {
        (a.rates.latency_ms / chance(a)).total_cmp(&(b.rates.latency_ms / chance(b)))
    };
    let by_chance = |a: &ModelCandidate, b: &ModelCandidate| {
        let step = |c: &ModelCandidate| (chance(c) / STEP).round();
        step(b).total_cmp(&step(a))
    };
    match tier {
        ModelTier::Cheap => by_cost(a, b).then_with(|| by_chance(a, b)).then_with(|| by_time(a, b)),
        ModelTier::Strong => by_chance(a, b).then_with(|| by_cost(a, b)).then_with(|| by_time(a, b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(at: usize, tags: &str, valid: f64, cost: f64) -> ModelCandidate {
        let rates = ModelRates { success: 1.0, readable: 1.0, valid, latency_ms: 100.0 };
        let (is_cheap, is_strong) = (tags.contains('c'), tags.contains('s'));
        ModelCandidate { at, is_cheap, is_strong, rates, weight: 10.0, cost }
    }

    #[test]
    fn tags_rank_before_rates() {
        let all = vec![candidate(0, "s", 1.0, 0.1), candidate(1, "", 1.0, 0.01), candidate(2, "c", 0.6, 1.0)];
        assert_eq!(rank_models(all.clone(), ModelTier::Cheap), [2, 1, 0]);
        assert_eq!(rank_models(all, ModelTier::Strong), [0, 1, 2]);
    }

    #[test]
    fn cheap_prefers_the_cheapest_usable_completion() {
        let all = vec![candidate(0, "c", 0.55, 0.8), candidate(1, "c", 0.95, 1.0)];
        assert_eq!(rank_models(all.clone(), ModelTier::Cheap), [1, 0]);
        assert_eq!(rank_models(all, ModelTier::Strong), [1, 0]);
    }

    #[test]
    fn strong_prefers_reliability_and_breaks_near_ties_by_price() {
        let all = vec![candidate(0, "s", 0.97, 2.0), candidate(1, "s", 0.96, 1.0), candidate(2, "s", 0.7, 0.1)];
        assert_eq!(rank_models(all, ModelTier::Strong), [1, 0, 2]);
    }

    #[test]
    fn an_unusable_model_ranks_last() {
        let all = vec![candidate(0, "c", 0.1, 0.0), candidate(1, "s", 1.0, 9.0)];
        assert_eq!(rank_models(all.clone(), ModelTier::Cheap), [1, 0]);
        let unknown = vec![ModelCandidate { weight: 1.0, ..all[0] }, all[1]];
        assert_eq!(rank_models(unknown, ModelTier::Cheap), [0, 1]);
    }

    #[test]
    fn equals_keep_the_order_of_the_settings() {
        let all = vec![candidate(1, "", 1.0, 0.0), candidate(0, "", 1.0, 0.0)];
        assert_eq!(rank_models(all, ModelTier::Cheap), [0, 1]);
    }
}

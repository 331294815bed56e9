//! Which model is asked first. Pure: the same standing gives the same order.
//!
//! The first stage asks for a plan's structure, and takes the model that is cheapest for a *usable* answer; a repair
//! takes the model that is most often usable. Tags divide the models; standing orders those of one tag. A model that is known
//! to be of no use more often than not comes last.

use std::cmp::Ordering;

use crate::ask::Stage;
use crate::standing::Rates;

/// Below this chance of a usable answer a model comes last …
const USABLE_MIN: f64 = 0.5;
/// … if that is known from so many calls.
const WEIGHT_MIN: f64 = 4.0;
/// Chances that differ by less than this are the same.
const STEP: f64 = 0.05;

/// A model that may be asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Its place in the settings; given back.
    pub at: usize,
    pub is_cheap: bool,
    pub is_strong: bool,
    pub rates: Rates,
    /// Calls that the rates come from.
    pub weight: f64,
    /// US dollars that the call is expected to cost.
    pub cost: f64,
}

/// The places of the candidates, the one to ask first in front.
pub fn order(mut candidates: Vec<Candidate>, stage: Stage) -> Vec<usize> {
    candidates.sort_by(|a, b| {
        group(a, stage).cmp(&group(b, stage)).then_with(|| within(a, b, stage)).then_with(|| a.at.cmp(&b.at))
    });
    candidates.into_iter().map(|candidate| candidate.at).collect()
}

fn group(candidate: &Candidate, stage: Stage) -> u8 {
    let (wanted, other) = match stage {
        Stage::Cheap => (candidate.is_cheap, candidate.is_strong),
        Stage::Strong => (candidate.is_strong, candidate.is_cheap),
    };
    let by_tag = match (wanted, other) {
        (true, _) => 0,
        (false, false) => 1,
        (false, true) => 2,
    };
    let is_of_no_use = candidate.weight >= WEIGHT_MIN && candidate.rates.usable() < USABLE_MIN;
    by_tag + if is_of_no_use { 3 } else { 0 }
}

fn within(a: &Candidate, b: &Candidate, stage: Stage) -> Ordering {
    // Never 0: the benefit of the doubt is part of the rates.
    let chance = |c: &Candidate| c.rates.usable().max(f64::MIN_POSITIVE);
    let by_cost = |a: &Candidate, b: &Candidate| (a.cost / chance(a)).total_cmp(&(b.cost / chance(b)));
    let by_time =
        |a: &Candidate, b: &Candidate| (a.rates.latency_ms / chance(a)).total_cmp(&(b.rates.latency_ms / chance(b)));
    let by_chance = |a: &Candidate, b: &Candidate| {
        let step = |c: &Candidate| (chance(c) / STEP).round();
        step(b).total_cmp(&step(a))
    };
    match stage {
        Stage::Cheap => by_cost(a, b).then_with(|| by_chance(a, b)).then_with(|| by_time(a, b)),
        Stage::Strong => by_chance(a, b).then_with(|| by_cost(a, b)).then_with(|| by_time(a, b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(at: usize, tags: &str, valid: f64, cost: f64) -> Candidate {
        let rates = Rates { success: 1.0, readable: 1.0, valid, latency_ms: 100.0 };
        let (is_cheap, is_strong) = (tags.contains('c'), tags.contains('s'));
        Candidate { at, is_cheap, is_strong, rates, weight: 10.0, cost }
    }

    #[test]
    fn tags_come_before_standing() {
        let all = vec![candidate(0, "s", 1.0, 0.1), candidate(1, "", 1.0, 0.01), candidate(2, "c", 0.6, 1.0)];
        assert_eq!(order(all.clone(), Stage::Cheap), [2, 1, 0]);
        assert_eq!(order(all, Stage::Strong), [0, 1, 2]);
    }

    #[test]
    fn the_cheapest_usable_answer_counts_not_the_cheapest_call() {
        let all = vec![candidate(0, "c", 0.55, 0.8), candidate(1, "c", 0.95, 1.0)];
        assert_eq!(order(all.clone(), Stage::Cheap), [1, 0]);
        assert_eq!(order(all, Stage::Strong), [1, 0]);
    }

    #[test]
    fn for_repairs_reliability_counts_and_near_equals_go_by_price() {
        let all = vec![candidate(0, "s", 0.97, 2.0), candidate(1, "s", 0.96, 1.0), candidate(2, "s", 0.7, 0.1)];
        assert_eq!(order(all, Stage::Strong), [1, 0, 2]);
    }

    #[test]
    fn a_model_known_to_be_of_no_use_comes_last() {
        let all = vec![candidate(0, "c", 0.1, 0.0), candidate(1, "s", 1.0, 9.0)];
        assert_eq!(order(all.clone(), Stage::Cheap), [1, 0]);
        let unknown = vec![Candidate { weight: 1.0, ..all[0] }, all[1]];
        assert_eq!(order(unknown, Stage::Cheap), [0, 1]);
    }

    #[test]
    fn equals_keep_the_order_of_the_settings() {
        let all = vec![candidate(1, "", 1.0, 0.0), candidate(0, "", 1.0, 0.0)];
        assert_eq!(order(all, Stage::Cheap), [0, 1]);
    }
}

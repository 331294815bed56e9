//! Probability that an agent fits, before any outcome.
//!
//! Logistic regression over the factors of the best candidate. Source: J. Platt, "Probabilistic Outputs for Support Vector
//! Machines", Advances in Large Margin Classifiers, 1999. Fitting of the coefficients: `docs/reading-and-routing.md`.

use crate::agent_index::AgentScores;

/// Constant, then one coefficient per entry of [`evidence`], without a static model.
const LEXICAL_COEFFICIENTS: [f64; 5] = [-2.9, 2.5, -1.6, 2.1, 2.8];
/// The same with a static model.
const STATIC_COEFFICIENTS: [f64; 8] = [-3.35, 1.3, -0.6, 2.1, 1.65, 1.35, 0.6, 0.85];

/// Log odds that an agent fits.
pub(super) fn log_odds(scores: &AgentScores) -> f64 {
    let evidence = evidence(scores);
    let coefficients: &[f64] =
        if evidence.len() < STATIC_COEFFICIENTS.len() - 1 { &LEXICAL_COEFFICIENTS } else { &STATIC_COEFFICIENTS };
    coefficients[0] + coefficients[1..].iter().zip(&evidence).map(|(weight, value)| weight * value).sum::<f64>()
}

/// Features of the best candidate: its score, its lead over the second, and its factors.
pub(super) fn evidence(scores: &AgentScores) -> Vec<f64> {
    let (mut best, mut first, mut second) = (0, 0.0_f32, 0.0_f32);
    for (at, total) in scores.total.iter().enumerate() {
        if *total > first {
            (best, second, first) = (at, first, *total);
        } else if *total > second {
            second = *total;
        }
    }
    let mut evidence = vec![f64::from(first), f64::from(first - second)];
    let factor = |name: &str| {
        let (_, values) = scores.factors.iter().find(|(factor, _)| *factor == name)?;
        Some(values.get(best).copied().map_or(0.0, f64::from))
    };
    evidence.extend(["bm25", "char_ngrams", "embedding", "maxsim_step", "maxsim_agent"].into_iter().filter_map(factor));
    evidence
}

/// Converts log odds to a probability.
pub(super) fn probability(log_odds: f64) -> f64 {
    1.0 / (1.0 + (-log_odds).exp())
}

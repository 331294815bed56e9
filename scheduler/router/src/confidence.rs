//! How likely it is that anybody fits, before any outcome was seen.
//!
//! A logistic curve over the best candidate's factors. Source: J. Platt, "Probabilistic Outputs for Support Vector
//! Machines", Advances in Large Margin Classifiers, 1999. How the coefficients were found: `docs/routing.md`.

use crate::index::Likeness;

/// Coefficients: the constant, then one for each evidence in the order of [`evidence`].
const LEXICAL: [f64; 5] = [-2.9, 2.5, -1.6, 2.1, 2.8];
const STATIC: [f64; 8] = [-3.35, 1.3, -0.6, 2.1, 1.65, 1.35, 0.6, 0.85];

/// The logarithm of the odds that somebody fits.
pub(super) fn log_odds(likeness: &Likeness) -> f64 {
    let evidence = evidence(likeness);
    let coefficients: &[f64] = if evidence.len() < STATIC.len() - 1 { &LEXICAL } else { &STATIC };
    coefficients[0] + coefficients[1..].iter().zip(&evidence).map(|(weight, value)| weight * value).sum::<f64>()
}

/// What speaks for the best candidate: its likeness, its lead over the second, and its factors.
pub(super) fn evidence(likeness: &Likeness) -> Vec<f64> {
    let (mut best, mut first, mut second) = (0, 0.0_f32, 0.0_f32);
    for (at, total) in likeness.total.iter().enumerate() {
        if *total > first {
            (best, second, first) = (at, first, *total);
        } else if *total > second {
            second = *total;
        }
    }
    let mut evidence = vec![f64::from(first), f64::from(first - second)];
    let factor = |name: &str| {
        let (_, values) = likeness.factors.iter().find(|(factor, _)| *factor == name)?;
        Some(values.get(best).copied().map_or(0.0, f64::from))
    };
    evidence.extend(["bm25", "char_ngrams", "embedding", "maxsim_step", "maxsim_agent"].into_iter().filter_map(factor));
    evidence
}

/// The probability that belongs to a logarithm of odds.
pub(super) fn probability(log_odds: f64) -> f64 {
    1.0 / (1.0 + (-log_odds).exp())
}

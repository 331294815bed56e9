//! Probability that no agent fits: online logistic regression over the scores of the other models.
//!
//! Each outcome trains this model before the other models see it, so the probabilities hold for new steps.
//! Step sizes: J. Duchi, E. Hazan, Y. Singer, "Adaptive Subgradient Methods", JMLR 12, 2011.

/// Inputs: log odds without learning, log odds of the classifier, votes of the neighbours against and for a match.
pub(super) type Evidence = [f64; 4];

/// Outcomes of each kind that are needed before the model is used.
const OUTCOMES_MIN: u32 = 20;

#[derive(Debug, Default)]
pub(super) struct RejectionModel {
    constant: f64,
    weights: Evidence,
    squares: [f64; 5],
    matches: u32,
    rejections: u32,
}

impl RejectionModel {
    pub(super) fn is_ready(&self) -> bool {
        self.matches.min(self.rejections) >= OUTCOMES_MIN
    }

    /// Log odds that no agent fits.
    pub(super) fn log_odds(&self, evidence: &Evidence) -> f64 {
        self.constant + self.weights.iter().zip(evidence).map(|(weight, value)| weight * value).sum::<f64>()
    }

    pub(super) fn train(&mut self, evidence: &Evidence, is_rejection: bool) {
        let slope = 1.0 / (1.0 + (-self.log_odds(evidence)).exp()) - f64::from(u8::from(is_rejection));
        let values = [1.0, evidence[0], evidence[1], evidence[2], evidence[3]];
        let parts = std::iter::once(&mut self.constant).chain(&mut self.weights);
        for ((weight, value), square) in parts.zip(values).zip(&mut self.squares) {
            let step = slope * value;
            *square += step * step;
            if *square > 0.0 {
                *weight -= 0.3 * step / square.sqrt();
            }
        }
        *if is_rejection { &mut self.rejections } else { &mut self.matches } += 1;
    }
}

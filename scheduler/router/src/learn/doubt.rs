//! How likely it is that nobody fits, as outcomes show: a logistic curve over what the others say, trained one outcome
//! after the other, each before anybody else has learned from it.
//!
//! So what it weighs is what they would have said of a new step, and its probabilities hold for new steps.
//! Step sizes: J. Duchi, E. Hazan, Y. Singer, "Adaptive Subgradient Methods", JMLR 12, 2011.

/// What the others say: the logarithm of the odds without learning, the linear model's, the neighbours' votes.
pub(super) type Evidence = [f64; 4];

/// Outcomes of both kinds that must have been seen before anybody listens.
const OUTCOMES_MIN: u32 = 20;

#[derive(Debug, Default)]
pub(super) struct Doubt {
    constant: f64,
    weights: Evidence,
    squares: [f64; 5],
    somebody: u32,
    nobody: u32,
}

impl Doubt {
    pub(super) fn is_ready(&self) -> bool {
        self.somebody.min(self.nobody) >= OUTCOMES_MIN
    }

    /// The logarithm of the odds that nobody fits.
    pub(super) fn log_odds(&self, evidence: &Evidence) -> f64 {
        self.constant + self.weights.iter().zip(evidence).map(|(weight, value)| weight * value).sum::<f64>()
    }

    pub(super) fn learn(&mut self, evidence: &Evidence, nobody: bool) {
        let slope = 1.0 / (1.0 + (-self.log_odds(evidence)).exp()) - f64::from(u8::from(nobody));
        let values = [1.0, evidence[0], evidence[1], evidence[2], evidence[3]];
        let parts = std::iter::once(&mut self.constant).chain(&mut self.weights);
        for ((weight, value), square) in parts.zip(values).zip(&mut self.squares) {
            let step = slope * value;
            *square += step * step;
            if *square > 0.0 {
                *weight -= 0.3 * step / square.sqrt();
            }
        }
        *if nobody { &mut self.nobody } else { &mut self.somebody } += 1;
    }
}

//! Logistic regression over many classes, trained as outcomes come in.
//!
//! Stochastic gradient descent on the softmax loss. Source: L. Bottou, "Large-Scale Machine Learning with Stochastic
//! Gradient Descent", COMPSTAT 2010.

use super::features::{Features, HASHED};

/// Weights for each feature and class.
#[derive(Debug)]
pub(super) struct Linear {
    /// Columns that are there; those in use are fewer.
    stride: usize,
    classes: usize,
    inputs: usize,
    /// Row by feature, column by class.
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Linear {
    /// - `dense`: how long the static vectors are.
    pub(super) fn new(dense: usize) -> Self {
        Self { stride: 0, classes: 0, inputs: HASHED + dense, weights: Vec::new(), bias: Vec::new() }
    }

    /// Makes room for so many classes.
    pub(super) fn widen(&mut self, classes: usize) {
        if classes > self.stride {
            let stride = classes.next_power_of_two().max(8);
            let mut weights = vec![0.0; self.inputs * stride];
            for row in 0..if self.stride == 0 { 0 } else { self.inputs } {
                let old = &self.weights[row * self.stride..row * self.stride + self.classes];
                weights[row * stride..row * stride + self.classes].copy_from_slice(old);
            }
            self.weights = weights;
            self.bias.resize(stride, 0.0);
            self.stride = stride;
        }
        self.classes = self.classes.max(classes);
    }

    /// The logarithm of each class's probability.
    pub(super) fn log_probabilities(&self, features: &Features) -> Vec<f32> {
        let mut sums = self.bias[..self.classes].to_vec();
        for (place, weight) in features.iter().filter(|(place, _)| *place < self.inputs) {
            let row = &self.weights[place * self.stride..place * self.stride + self.classes];
            for (sum, held) in sums.iter_mut().zip(row) {
                *sum += weight * held;
            }
        }
        let most = sums.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total = sums.iter().map(|sum| (sum - most).exp()).sum::<f32>().ln() + most;
        sums.iter_mut().for_each(|sum| *sum -= total);
        sums
    }

    /// One step towards `class`, or away from it for a negative `rate`.
    pub(super) fn step(&mut self, features: &Features, class: usize, rate: f32) {
        let mut slopes = self.log_probabilities(features);
        for (at, slope) in slopes.iter_mut().enumerate() {
            *slope = -rate * (slope.exp() - if at == class { 1.0 } else { 0.0 });
        }
        for (place, weight) in features.iter().filter(|(place, _)| *place < self.inputs) {
            let row = &mut self.weights[place * self.stride..place * self.stride + self.classes];
            for (held, slope) in row.iter_mut().zip(&slopes) {
                *held += weight * slope;
            }
        }
        for (bias, slope) in self.bias.iter_mut().zip(&slopes) {
            *bias += 0.1 * slope;
        }
    }
}

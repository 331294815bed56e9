//! Softmax regression over many classes, trained online.
//!
//! Stochastic gradient descent on the softmax loss. Source: L. Bottou, "Large-Scale Machine Learning with Stochastic
//! Gradient Descent", COMPSTAT 2010.

use super::features::{Features, HASHED};

/// Weights for each feature and class.
#[derive(Debug)]
pub(super) struct SoftmaxClassifier {
    /// Allocated columns.
    stride: usize,
    classes: usize,
    inputs: usize,
    /// Row by feature, column by class.
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl SoftmaxClassifier {
    /// - `dense`: dimensions of the static vectors.
    pub(super) fn new(dense: usize) -> Self {
        Self { stride: 0, classes: 0, inputs: HASHED + dense, weights: Vec::new(), bias: Vec::new() }
    }

    /// Extends the model to so many classes.
    pub(super) fn add_classes(&mut self, classes: usize) {
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

    /// Log probability of each class.
    pub(super) fn log_probabilities(&self, features: &Features) -> Vec<f32> {
        let mut sums = self.bias[..self.classes].to_vec();
        for (index, weight) in features.iter().filter(|(index, _)| *index < self.inputs) {
            let row = &self.weights[index * self.stride..index * self.stride + self.classes];
            for (sum, stored) in sums.iter_mut().zip(row) {
                *sum += weight * stored;
            }
        }
        let most = sums.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total = sums.iter().map(|sum| (sum - most).exp()).sum::<f32>().ln() + most;
        sums.iter_mut().for_each(|sum| *sum -= total);
        sums
    }

    /// One gradient step towards `class`, or away from it for a negative `rate`.
    pub(super) fn train(&mut self, features: &Features, class: usize, rate: f32) {
        let mut slopes = self.log_probabilities(features);
        for (at, slope) in slopes.iter_mut().enumerate() {
            *slope = -rate * (slope.exp() - if at == class { 1.0 } else { 0.0 });
        }
        for (index, weight) in features.iter().filter(|(index, _)| *index < self.inputs) {
            let row = &mut self.weights[index * self.stride..index * self.stride + self.classes];
            for (stored, slope) in row.iter_mut().zip(&slopes) {
                *stored += weight * slope;
            }
        }
        for (bias, slope) in self.bias.iter_mut().zip(&slopes) {
            *bias += 0.1 * slope;
        }
    }
}

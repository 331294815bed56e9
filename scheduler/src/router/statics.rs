//! How near a text and each agent are in meaning, by the mean vector of their words.
//!
//! A word's vector counts by the root of its inverse document frequency, and a share of what all agents have in common
//! is taken off. Source: S. Arora, Y. Liang, T. Ma, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings",
//! ICLR 2017.

use std::sync::Arc;

use super::table::Table;
use super::words::telling;

/// Share of the agents' mean vector that is taken off every vector.
const COMMON: f32 = 0.3;
/// What 1 is as a whole number: products of two vectors of length 1 stay within an `i32`.
const ONE: f32 = 16_384.0;

/// A vector for each agent.
#[derive(Debug)]
pub(super) struct Statics {
    table: Arc<Table>,
    /// For each piece, how much its vector counts.
    weights: Vec<f32>,
    common: Vec<f32>,
    /// Row after row, as whole numbers.
    vectors: Vec<i16>,
}

impl Statics {
    /// Reads each agent as its words.
    pub(super) fn new(table: Arc<Table>, documents: &[Vec<String>]) -> Self {
        let mut having = vec![0_u32; table.pieces()];
        for words in documents {
            let mut pieces: Vec<u32> = words.iter().flat_map(|word| table.cut(word)).collect();
            pieces.sort_unstable();
            pieces.dedup();
            for piece in pieces {
                if let Some(count) = having.get_mut(piece as usize) {
                    *count += 1;
                }
            }
        }
        let total = documents.len() as f32;
        let weight = |count: u32| (((1.0 + total) / (1.0 + count as f32)).ln() + 1.0).sqrt();
        let weights: Vec<f32> = having.into_iter().map(weight).collect();
        let mut common = vec![0.0; table.columns()];
        let sums: Vec<Vec<f32>> = documents.iter().map(|words| mean(&table, &weights, words)).collect();
        for vector in &sums {
            for (sum, cell) in common.iter_mut().zip(vector) {
                *sum += cell / total;
            }
        }
        let mut vectors = Vec::with_capacity(sums.len() * table.columns());
        for mut vector in sums {
            without(&mut vector, &common);
            vectors.extend(whole(&vector));
        }
        Self { table, weights, common, vectors }
    }

    /// For each agent, the cosine of its vector with that of the words, -1 to 1.
    pub(super) fn cosines(&self, words: &[String]) -> Vec<f32> {
        let mut vector = mean(&self.table, &self.weights, words);
        without(&mut vector, &self.common);
        let vector = whole(&vector);
        self.vectors.chunks_exact(self.table.columns()).map(|row| dot(row, &vector)).collect()
    }
}

/// The mean vector of words, of length 1; nothing but zeros if the model knows none of them.
///
/// - `weights`: how much each piece counts, besides how much its word tells; empty for the plain mean.
pub(super) fn mean(table: &Table, weights: &[f32], words: &[String]) -> Vec<f32> {
    let mut sum = vec![0.0; table.columns()];
    for word in words {
        let telling = if weights.is_empty() { 1.0 } else { telling(word) };
        for piece in table.cut(word) {
            table.add(&mut sum, piece, telling * weights.get(piece as usize).copied().unwrap_or(1.0));
        }
    }
    scale(&mut sum);
    sum
}

fn without(vector: &mut [f32], common: &[f32]) {
    if vector.iter().all(|cell| *cell == 0.0) {
        return;
    }
    for (cell, common) in vector.iter_mut().zip(common) {
        *cell -= COMMON * common;
    }
    scale(vector);
}

/// Makes a vector's length 1.
pub(super) fn scale(vector: &mut [f32]) {
    let length = vector.iter().map(|cell| cell * cell).sum::<f32>().sqrt();
    if length > 0.0 && length.is_finite() {
        vector.iter_mut().for_each(|cell| *cell /= length);
    } else {
        vector.fill(0.0);
    }
}

/// A vector of length 1 as whole numbers.
pub(super) fn whole(vector: &[f32]) -> Vec<i16> {
    vector.iter().map(|cell| (cell * ONE) as i16).collect()
}

/// The product of two vectors as [`whole`] makes them.
pub(super) fn dot(a: &[i16], b: &[i16]) -> f32 {
    let sum: i32 = a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
    sum as f32 / (ONE * ONE)
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::tiny;
    use super::*;

    #[test]
    fn words_of_like_meaning_are_near() {
        let documents = [vec!["hotel".to_owned()], vec!["flight".to_owned()]];
        let statics = Statics::new(Arc::new(tiny()), &documents);
        let cosines = statics.cosines(&["inn".to_owned()]);
        assert!(cosines[0] > 0.8 && cosines[0] > cosines[1] + 0.3, "{cosines:?}");
        assert_eq!(statics.cosines(&["zzz".to_owned()]), [0.0, 0.0]);
    }
}

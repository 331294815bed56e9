//! How near a text and each agent are in meaning, by the mean vector of their words.
//!
//! A word's vector counts by the root of its inverse document frequency, unless the model says itself how much each
//! counts, and a share of what all agents have in common is taken off. Source: S. Arora, Y. Liang, T. Ma, "A Simple but
//! Tough-to-Beat Baseline for Sentence Embeddings", ICLR 2017. In a step, what says the same again counts less: two
//! words for one thing are no two wishes. In an agent's description, what agrees with the rest counts more. Agents that
//! are near to many others are near to any step too; how much nearer, is taken off. Source:
//! A. Conneau et al., "Word Translation Without Parallel Data" (cross-domain similarity local scaling), ICLR 2018.

use std::sync::Arc;

use super::table::Table;
use super::words::telling;

/// Share of the agents' mean vector that is taken off every vector.
const COMMON: f32 = 0.3;
/// Share of an agent's nearness to its nearest others, against that of all agents, that is taken off.
const CROWD: f32 = 0.2;
/// How much a piece counts, by its cosine with the whole text: `e` to the power of this times that. For a step, and for
/// an agent.
const STEP_AGREES: f32 = -2.0;
const AGENT_AGREES: f32 = 0.75;
/// How many others count as the nearest.
const NEAREST: usize = 20;
/// Others that are looked at; of larger registries, so many at even distances.
const OTHERS_MAX: usize = 512;
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
    /// For each agent, what is taken off for the company it keeps.
    crowd: Vec<f32>,
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
        let rarity = |count: u32| (((1.0 + total) / (1.0 + count as f32)).ln() + 1.0).sqrt();
        let weight = |count: u32| if table.is_weighed() { 1.0 } else { rarity(count) };
        let weights: Vec<f32> = having.into_iter().map(weight).collect();
        let mut common = vec![0.0; table.columns()];
        let sums: Vec<Vec<f32>> =
            documents.iter().map(|words| agreeing(&table, &weights, words, AGENT_AGREES)).collect();
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
        let crowd = crowd(&vectors, table.columns());
        Self { table, weights, common, vectors, crowd }
    }

    /// As [`Table::knows`].
    pub(super) fn knows(&self, words: &[String]) -> bool {
        self.table.knows(words)
    }

    /// For each agent how near it is to a text that was [`Statics::read`], 0 to 1.
    pub(super) fn similarities(&self, text: &[i16]) -> Vec<f32> {
        let rows = self.vectors.chunks_exact(self.table.columns()).zip(&self.crowd);
        let near = |(row, crowd): (&[i16], &f32)| {
            let cosine = dot(row, text);
            if cosine > 0.0 { (cosine - crowd).clamp(0.0, 1.0) } else { 0.0 }
        };
        rows.map(near).collect()
    }

    /// For each of these agents how much nearer it is to one of the sentences than to the whole text.
    pub(super) fn nearer(&self, text: &[i16], sentences: &[Vec<String>], agents: &[usize]) -> Vec<f32> {
        let parts: Vec<Vec<i16>> = sentences.iter().map(|sentence| self.read(sentence)).collect();
        let columns = self.table.columns();
        let nearer = |at: &usize| {
            let row = &self.vectors[at * columns..(at + 1) * columns];
            let best = parts.iter().map(|part| dot(row, part)).fold(0.0, f32::max);
            (best - dot(row, text).max(0.0)).max(0.0)
        };
        agents.iter().map(nearer).collect()
    }

    /// The vector of a text.
    pub(super) fn read(&self, words: &[String]) -> Vec<i16> {
        let mut vector = agreeing(&self.table, &self.weights, words, STEP_AGREES);
        without(&mut vector, &self.common);
        whole(&vector)
    }
}

/// For each vector its mean cosine with its nearest others, against that of all, in the share that is taken off.
fn crowd(vectors: &[i16], columns: usize) -> Vec<f32> {
    let rows: Vec<&[i16]> = vectors.chunks_exact(columns).collect();
    let stride = rows.len().div_ceil(OTHERS_MAX).max(1);
    let near = |(at, row): (usize, &&[i16])| {
        let others = rows.iter().enumerate().step_by(stride).filter(|(other, _)| *other != at);
        let mut cosines: Vec<f32> = others.map(|(_, other)| dot(row, other)).collect();
        if cosines.len() > NEAREST {
            cosines.select_nth_unstable_by(NEAREST - 1, |a, b| b.total_cmp(a));
            cosines.truncate(NEAREST);
        }
        cosines.iter().sum::<f32>() / cosines.len().max(1) as f32
    };
    let near: Vec<f32> = rows.iter().enumerate().map(near).collect();
    let usual = near.iter().sum::<f32>() / near.len().max(1) as f32;
    near.into_iter().map(|near| CROWD * (near - usual)).collect()
}

/// The mean vector of words, of length 1; nothing but zeros if the model knows none of them.
pub(super) fn mean(table: &Table, words: &[String]) -> Vec<f32> {
    let pieces = words.iter().flat_map(|word| table.cut(word)).map(|piece| (piece, 1.0));
    sum(table, pieces)
}

/// The mean vector of words, in which each piece counts by how much it agrees with the rest.
///
/// - `weights`: how much each piece counts, besides how much its word tells.
fn agreeing(table: &Table, weights: &[f32], words: &[String], agrees: f32) -> Vec<f32> {
    let mut pieces: Vec<(u32, f32)> = Vec::new();
    for word in words {
        let telling = telling(word);
        let weight = |piece: u32| telling * weights.get(piece as usize).copied().unwrap_or(1.0);
        pieces.extend(table.cut(word).into_iter().map(|piece| (piece, weight(piece))));
    }
    let whole = sum(table, pieces.iter().copied());
    sum(table, pieces.iter().map(|(piece, weight)| (*piece, weight * (agrees * table.cosine(&whole, *piece)).exp())))
}

/// The sum of pieces, of length 1.
fn sum(table: &Table, pieces: impl Iterator<Item = (u32, f32)>) -> Vec<f32> {
    let mut sum = vec![0.0; table.columns()];
    for (piece, weight) in pieces {
        table.add(&mut sum, piece, weight);
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
        let near = statics.similarities(&statics.read(&["inn".to_owned()]));
        assert!(near[0] > 0.8 && near[0] > near[1] + 0.3, "{near:?}");
        assert_eq!(statics.similarities(&statics.read(&["zzz".to_owned()])), [0.0, 0.0]);
    }

    #[test]
    fn what_is_said_twice_in_a_step_is_no_second_wish() {
        let table = tiny();
        let weights = vec![1.0; table.pieces()];
        let words = ["hotel", "inn", "car"].map(str::to_owned);
        let car = |agrees: f32| agreeing(&table, &weights, &words, agrees)[2];
        assert!(
            car(STEP_AGREES) > car(0.0) && car(0.0) > car(AGENT_AGREES),
            "the odd one out counts for more in a step"
        );
        assert_eq!(agreeing(&table, &weights, &words, 0.0), mean(&table, &words));
    }

    #[test]
    fn a_text_in_another_language_is_not_known() {
        let statics = Statics::new(Arc::new(tiny()), &[vec!["hotel".to_owned()]]);
        let knows = |words: &[&str]| statics.knows(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert!(knows(&["hotel", "zzz"]) && knows(&[]));
        assert!(!knows(&["酒", "店", "hotel"]));
    }

    #[test]
    fn a_model_that_weighs_its_pieces_is_not_weighed_again() {
        let documents = [vec!["hotel".to_owned()], vec!["hotel".to_owned(), "car".to_owned()]];
        assert!(Statics::new(Arc::new(tiny()), &documents).weights.iter().any(|weight| *weight != 1.0));
        let general = Statics::new(Table::general(), &documents);
        assert!(general.weights.iter().all(|weight| *weight == 1.0));
    }

    #[test]
    fn who_is_near_to_many_others_is_held_back() {
        let documents = ["hotel", "inn", "car"].map(|word| vec![word.to_owned()]);
        let statics = Statics::new(Arc::new(tiny()), &documents);
        assert!(statics.crowd[0] > 0.0 && statics.crowd[2] < 0.0, "{:?}", statics.crowd);
        assert!(statics.crowd.iter().sum::<f32>().abs() < 1e-5, "on the whole nothing changes");
        assert_eq!(crowd(&[1, 2, 3], 3), [0.0], "one alone has no company");
    }

    #[test]
    fn a_sentence_may_be_nearer_than_all_of_them() {
        let documents = [vec!["hotel".to_owned()], vec!["flight".to_owned()]];
        let statics = Statics::new(Arc::new(tiny()), &documents);
        let [inn, car] = ["inn", "car"].map(|word| vec![word.to_owned()]);
        let both = [inn.clone(), car.clone()].concat();
        let nearer = statics.nearer(&statics.read(&both), &[inn.clone(), car], &[0]);
        assert!(nearer[0] > 0.0, "{nearer:?}");
        assert_eq!(statics.nearer(&statics.read(&inn), std::slice::from_ref(&inn), &[1, 0]), [0.0, 0.0]);
    }
}

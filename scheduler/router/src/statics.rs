//! How near a text and each agent are in meaning, by the mean vector of their words.
//!
//! A word's vector counts by the root of its inverse document frequency, unless the model says itself how much each
//! counts, and a share of what all agents have in common is taken off. Source: S. Arora, Y. Liang, T. Ma, "A Simple but
//! Tough-to-Beat Baseline for Sentence Embeddings", ICLR 2017. In a step, what says the same again counts less: two
//! words for one thing are no two wishes. In an agent's description, what agrees with the rest counts more. Agents that
//! are near to many others are near to any step too; how much nearer, is taken off. Source:
//! A. Conneau et al., "Word Translation Without Parallel Data" (cross-domain similarity local scaling), ICLR 2018.

use std::sync::Arc;

use crate::pieces::Pieces;
use crate::table::Table;
use crate::wide::{dot, scale, whole, wide};

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
        let documents: Vec<Pieces> = documents.iter().map(|words| Pieces::of(&table, words)).collect();
        for document in &documents {
            let mut pieces: Vec<u32> = document.all().iter().map(|(piece, _)| *piece).collect();
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
            documents.iter().map(|document| agreeing(&table, &weights, document.all(), AGENT_AGREES)).collect();
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

    /// The pieces of a step's words.
    pub(super) fn cut(&self, words: &[String]) -> Pieces {
        Pieces::of(&self.table, words)
    }

    /// For each agent how near it is to a text that was [`Statics::read`], 0 to 1.
    pub(super) fn similarities(&self, text: &[i16]) -> Vec<f32> {
        let mut near = vec![0.0; self.crowd.len()];
        wide(|| {
            let rows = self.vectors.chunks_exact(self.table.columns()).zip(&self.crowd);
            for (near, (row, crowd)) in near.iter_mut().zip(rows) {
                let cosine = dot(row, text);
                *near = if cosine > 0.0 { (cosine - crowd).clamp(0.0, 1.0) } else { 0.0 };
            }
        });
        near
    }

    /// For each of these agents how much nearer it is to one of the sentences than to the whole text.
    pub(super) fn nearer<'a>(
        &self,
        text: &[i16],
        sentences: impl Iterator<Item = &'a [(u32, f32)]>,
        agents: &[usize],
    ) -> Vec<f32> {
        let parts: Vec<Vec<i16>> = sentences.map(|sentence| self.read(sentence)).collect();
        let columns = self.table.columns();
        let nearer = |at: &usize| {
            let row = &self.vectors[at * columns..(at + 1) * columns];
            let best = parts.iter().map(|part| dot(row, part)).fold(0.0, f32::max);
            (best - dot(row, text).max(0.0)).max(0.0)
        };
        agents.iter().map(nearer).collect()
    }

    /// The vector of a text, of its [`Pieces`].
    pub(super) fn read(&self, pieces: &[(u32, f32)]) -> Vec<i16> {
        let mut vector = agreeing(&self.table, &self.weights, pieces, STEP_AGREES);
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
        let mut cosines: Vec<f32> = wide(|| others.map(|(_, other)| dot(row, other)).collect());
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

/// The mean vector of pieces, of length 1; nothing but zeros if there are none.
pub(super) fn mean(table: &Table, pieces: impl IntoIterator<Item = u32>) -> Vec<f32> {
    sum(table, pieces.into_iter().map(|piece| (piece, 1.0)))
}

/// The mean vector of pieces, in which each counts by how much its word tells and how much it agrees with the rest.
///
/// - `weights`: how much each piece counts, besides that.
fn agreeing(table: &Table, weights: &[f32], pieces: &[(u32, f32)], agrees: f32) -> Vec<f32> {
    let weight = |piece: u32| weights.get(piece as usize).copied().unwrap_or(1.0);
    let pieces = pieces.iter().map(|(piece, telling)| (*piece, telling * weight(*piece)));
    let all = whole(&sum(table, pieces.clone()));
    let mut cosines = Vec::with_capacity(pieces.len());
    wide(|| cosines.extend(pieces.clone().map(|(piece, _)| table.cosine(&all, piece))));
    let agreeing = |((piece, weight), cosine): ((u32, f32), f32)| (piece, weight * (agrees * cosine).exp());
    sum(table, pieces.zip(cosines).map(agreeing))
}

/// The sum of pieces, of length 1.
fn sum(table: &Table, pieces: impl Iterator<Item = (u32, f32)>) -> Vec<f32> {
    let mut sum = vec![0.0; table.columns()];
    wide(|| pieces.for_each(|(piece, weight)| table.add(&mut sum, piece, weight)));
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

#[cfg(test)]
mod tests {
    use super::super::table::tests::tiny;
    use super::*;

    #[test]
    fn words_of_like_meaning_are_near() {
        let documents = [vec!["hotel".to_owned()], vec!["flight".to_owned()]];
        let statics = Statics::new(Arc::new(tiny()), &documents);
        let near = |word: &str| statics.similarities(&statics.read(statics.cut(&[word.to_owned()]).all()));
        let inn = near("inn");
        assert!(inn[0] > 0.8 && inn[0] > inn[1] + 0.3, "{inn:?}");
        assert_eq!(near("zzz"), [0.0, 0.0]);
    }

    #[test]
    fn what_is_said_twice_in_a_step_is_no_second_wish() {
        let table = tiny();
        let weights = vec![1.0; table.pieces()];
        let pieces = [(1, 1.0), (2, 1.0), (4, 1.0)];
        let car = |agrees: f32| agreeing(&table, &weights, &pieces, agrees)[2];
        assert!(
            car(STEP_AGREES) > car(0.0) && car(0.0) > car(AGENT_AGREES),
            "the odd one out counts for more in a step"
        );
        assert_eq!(agreeing(&table, &weights, &pieces, 0.0), mean(&table, [1, 2, 4]));
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
        let step = statics.cut(&["inn", "car"].map(str::to_owned));
        let [inn, car] = [0..1, 1..2].map(|words| step.of_words(&words));
        let nearer = statics.nearer(&statics.read(step.all()), [inn, car].into_iter(), &[0]);
        assert!(nearer[0] > 0.0, "{nearer:?}");
        assert_eq!(statics.nearer(&statics.read(inn), [inn].into_iter(), &[1, 0]), [0.0, 0.0]);
    }
}

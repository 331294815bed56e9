//! Similarity of a text and each agent by the mean of their subword vectors.
//!
//! Each vector is weighted by the root of its inverse document frequency, unless the model has its own weights, and a
//! share of the mean of all agents is subtracted. Source: S. Arora, Y. Liang, T. Ma, "A Simple but Tough-to-Beat
//! Baseline for Sentence Embeddings", ICLR 2017. In a step, subwords that agree with the rest count less, because
//! synonyms are not separate requirements. In the description of an agent they count more. Agents with many near
//! neighbours ("hubs") are near to any step; their hubness is subtracted. Source: A. Conneau et al., "Word Translation
//! Without Parallel Data" (cross-domain similarity local scaling), ICLR 2018.

use std::sync::Arc;

use crate::embedding_table::EmbeddingTable;
use crate::subwords::Subwords;
use crate::vectors::{dot, mean, normalize, quantize, subtract_common};

/// Share of the mean vector of all agents that is subtracted from every vector.
const COMMON_SHARE: f32 = 0.3;
/// Share of the hubness that is subtracted from a similarity.
const HUBNESS_SHARE: f32 = 0.2;
/// Weight of a subword in a step: `e` to the power of this times its cosine with the whole text.
const STEP_AGREEMENT: f32 = -2.0;
/// The same for the description of an agent.
const AGENT_AGREEMENT: f32 = 0.75;
/// Nearest neighbours that define the hubness.
const NEIGHBOURS: usize = 20;
/// Agents that are compared for the hubness; larger registries are sampled at even distances.
const SAMPLE_MAX: usize = 512;

/// A vector for each agent.
#[derive(Debug)]
pub(super) struct StaticEmbedder {
    table: Arc<EmbeddingTable>,
    /// Weight of each subword.
    weights: Vec<f32>,
    common: Vec<f32>,
    /// Quantized vectors, row by row.
    vectors: Vec<i16>,
    /// For each agent, what is subtracted from its similarity.
    hubness: Vec<f32>,
}

impl StaticEmbedder {
    /// - `documents`: the words of each agent.
    pub(super) fn new(table: Arc<EmbeddingTable>, documents: &[Vec<String>]) -> Self {
        let mut having = vec![0_u32; table.subword_count()];
        let documents: Vec<Subwords> = documents.iter().map(|words| Subwords::tokenize(&table, words)).collect();
        for document in &documents {
            let mut subwords: Vec<u32> = document.all().iter().map(|(subword, _)| *subword).collect();
            subwords.sort_unstable();
            subwords.dedup();
            for subword in subwords {
                if let Some(count) = having.get_mut(subword as usize) {
                    *count += 1;
                }
            }
        }
        let total = documents.len() as f32;
        let rarity = |count: u32| (((1.0 + total) / (1.0 + count as f32)).ln() + 1.0).sqrt();
        let weight = |count: u32| if table.is_weighted() { 1.0 } else { rarity(count) };
        let weights: Vec<f32> = having.into_iter().map(weight).collect();
        let sums: Vec<Vec<f32>> = documents
            .iter()
            .map(|document| agreement_weighted_mean(&table, &weights, document.all(), AGENT_AGREEMENT))
            .collect();
        let common = mean(&sums, table.columns());
        let mut vectors = Vec::with_capacity(sums.len() * table.columns());
        for mut vector in sums {
            subtract_common(&mut vector, &common, COMMON_SHARE);
            vectors.extend(quantize(&vector));
        }
        let hubness = hubness(&vectors, table.columns());
        Self { table, weights, common, vectors, hubness }
    }

    /// The subwords of a step's words.
    pub(super) fn tokenize(&self, words: &[String]) -> Subwords {
        Subwords::tokenize(&self.table, words)
    }

    /// Similarity of each agent to an embedded text, 0 to 1.
    pub(super) fn similarities(&self, text: &[i16]) -> Vec<f32> {
        let rows = self.vectors.chunks_exact(self.table.columns()).zip(&self.hubness);
        let similarity = |(row, hubness): (&[i16], &f32)| {
            let cosine = dot(row, text);
            if cosine > 0.0 { (cosine - hubness).clamp(0.0, 1.0) } else { 0.0 }
        };
        rows.map(similarity).collect()
    }

    /// For each of these agents, how much its similarity to the best sentence exceeds that to the whole text.
    pub(super) fn sentence_gain<'a>(
        &self,
        text: &[i16],
        sentences: impl Iterator<Item = &'a [(u32, f32)]>,
        agents: &[usize],
    ) -> Vec<f32> {
        let parts: Vec<Vec<i16>> = sentences.map(|sentence| self.embed(sentence)).collect();
        let columns = self.table.columns();
        let nearer = |at: &usize| {
            let row = &self.vectors[at * columns..(at + 1) * columns];
            let best = parts.iter().map(|part| dot(row, part)).fold(0.0, f32::max);
            (best - dot(row, text).max(0.0)).max(0.0)
        };
        agents.iter().map(nearer).collect()
    }

    /// The quantized vector of the subwords of a text.
    pub(super) fn embed(&self, subwords: &[(u32, f32)]) -> Vec<i16> {
        let mut vector = agreement_weighted_mean(&self.table, &self.weights, subwords, STEP_AGREEMENT);
        subtract_common(&mut vector, &self.common, COMMON_SHARE);
        quantize(&vector)
    }
}

/// For each vector, the mean cosine with its nearest neighbours minus the mean of all vectors, scaled.
fn hubness(vectors: &[i16], columns: usize) -> Vec<f32> {
    let rows: Vec<&[i16]> = vectors.chunks_exact(columns).collect();
    let stride = rows.len().div_ceil(SAMPLE_MAX).max(1);
    let near = |(at, row): (usize, &&[i16])| {
        let others = rows.iter().enumerate().step_by(stride).filter(|(other, _)| *other != at);
        let mut cosines: Vec<f32> = others.map(|(_, other)| dot(row, other)).collect();
        if cosines.len() > NEIGHBOURS {
            cosines.select_nth_unstable_by(NEIGHBOURS - 1, |a, b| b.total_cmp(a));
            cosines.truncate(NEIGHBOURS);
        }
        cosines.iter().sum::<f32>() / cosines.len().max(1) as f32
    };
    let near: Vec<f32> = rows.iter().enumerate().map(near).collect();
    let usual = near.iter().sum::<f32>() / near.len().max(1) as f32;
    near.into_iter().map(|near| HUBNESS_SHARE * (near - usual)).collect()
}

/// The mean vector of subwords, of length 1; zero if there are none.
pub(super) fn mean_vector(table: &EmbeddingTable, subwords: impl IntoIterator<Item = u32>) -> Vec<f32> {
    weighted_sum(table, subwords.into_iter().map(|subword| (subword, 1.0)))
}

/// The mean vector of subwords, weighted by word weight, `weights` and agreement with the whole text.
fn agreement_weighted_mean(
    table: &EmbeddingTable,
    weights: &[f32],
    subwords: &[(u32, f32)],
    agreement: f32,
) -> Vec<f32> {
    let weight = |subword: u32| weights.get(subword as usize).copied().unwrap_or(1.0);
    let subwords = subwords.iter().map(|(subword, word_weight)| (*subword, word_weight * weight(*subword)));
    let all = quantize(&weighted_sum(table, subwords.clone()));
    let agreeing = |(subword, weight): (u32, f32)| (subword, weight * (agreement * table.cosine(&all, subword)).exp());
    weighted_sum(table, subwords.map(agreeing))
}

/// The weighted sum of subword vectors, of length 1.
fn weighted_sum(table: &EmbeddingTable, subwords: impl Iterator<Item = (u32, f32)>) -> Vec<f32> {
    let mut sum = vec![0.0; table.columns()];
    subwords.for_each(|(subword, weight)| table.add_vector(&mut sum, subword, weight));
    normalize(&mut sum);
    sum
}

#[cfg(test)]
mod tests {
    use super::super::embedding_table::tests::tiny;
    use super::*;

    #[test]
    fn synonyms_are_similar() {
        let documents = [vec!["hotel".to_owned()], vec!["flight".to_owned()]];
        let statics = StaticEmbedder::new(Arc::new(tiny()), &documents);
        let near = |word: &str| statics.similarities(&statics.embed(statics.tokenize(&[word.to_owned()]).all()));
        let inn = near("inn");
        assert!(inn[0] > 0.8 && inn[0] > inn[1] + 0.3, "{inn:?}");
        assert_eq!(near("zzz"), [0.0, 0.0]);
    }

    #[test]
    fn synonyms_in_a_step_count_less() {
        let table = tiny();
        let weights = vec![1.0; table.subword_count()];
        let subwords = [(1, 1.0), (2, 1.0), (4, 1.0)];
        let car = |agreement: f32| agreement_weighted_mean(&table, &weights, &subwords, agreement)[2];
        assert!(
            car(STEP_AGREEMENT) > car(0.0) && car(0.0) > car(AGENT_AGREEMENT),
            "the dissenting subword has more weight in a step"
        );
        assert_eq!(agreement_weighted_mean(&table, &weights, &subwords, 0.0), mean_vector(&table, [1, 2, 4]));
    }

    #[test]
    fn a_weighted_model_gets_no_frequency_weights() {
        let documents = [vec!["hotel".to_owned()], vec!["hotel".to_owned(), "car".to_owned()]];
        assert!(StaticEmbedder::new(Arc::new(tiny()), &documents).weights.iter().any(|weight| *weight != 1.0));
        let general = StaticEmbedder::new(EmbeddingTable::general(), &documents);
        assert!(general.weights.iter().all(|weight| *weight == 1.0));
    }

    #[test]
    fn hubs_get_a_penalty() {
        let documents = ["hotel", "inn", "car"].map(|word| vec![word.to_owned()]);
        let statics = StaticEmbedder::new(Arc::new(tiny()), &documents);
        assert!(statics.hubness[0] > 0.0 && statics.hubness[2] < 0.0, "{:?}", statics.hubness);
        assert!(statics.hubness.iter().sum::<f32>().abs() < 1e-5, "the penalties sum to zero");
        assert_eq!(hubness(&[1, 2, 3], 3), [0.0], "a single agent has no neighbours");
    }

    #[test]
    fn a_sentence_may_be_more_similar_than_the_whole_text() {
        let documents = [vec!["hotel".to_owned()], vec!["flight".to_owned()]];
        let statics = StaticEmbedder::new(Arc::new(tiny()), &documents);
        let step = statics.tokenize(&["inn", "car"].map(str::to_owned));
        let [inn, car] = [0..1, 1..2].map(|words| step.word_range(&words));
        let nearer = statics.sentence_gain(&statics.embed(step.all()), [inn, car].into_iter(), &[0]);
        assert!(nearer[0] > 0.0, "{nearer:?}");
        assert_eq!(statics.sentence_gain(&statics.embed(inn), [inn].into_iter(), &[1, 0]), [0.0, 0.0]);
    }
}

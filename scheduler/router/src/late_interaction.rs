//! Late interaction (MaxSim): each word of the step is compared with its most similar word of the agent, and vice versa.
//!
//! Both directions are means weighted by inverse document frequency. Source: O. Khattab, M. Zaharia, "ColBERT: Efficient
//! and Effective Passage Search via Contextualized Late Interaction over BERT", SIGIR 2020, here over static vectors.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::embedding_table::EmbeddingTable;
use crate::static_embedder::mean_vector;
use crate::text_analysis::word_weight;
use crate::vectors::{dot, normalize, quantize};

/// Words of a step and of an agent that are compared.
const WORDS_MAX: usize = 32;
/// Dimensions that are compared; the first ones carry most of the information.
const COLUMNS_MAX: usize = 128;

/// The words of all agents with their vectors and weights.
#[derive(Debug)]
pub(super) struct LateInteraction {
    table: Arc<EmbeddingTable>,
    ids: HashMap<String, u32>,
    /// Vector and weight by word id.
    vectors: Vec<Vec<i16>>,
    weights: Vec<f32>,
    /// Word ids of each agent.
    documents: Vec<Vec<u32>>,
    /// Weight of a word that no agent uses.
    unseen_weight: f32,
}

impl LateInteraction {
    pub(super) fn new(table: Arc<EmbeddingTable>, documents: &[Vec<String>]) -> Self {
        let mut ids: BTreeMap<&str, u32> = BTreeMap::new();
        let mut document_counts: Vec<u32> = Vec::new();
        let mut lists = Vec::with_capacity(documents.len());
        for words in documents {
            let mut list: Vec<u32> = Vec::new();
            for word in words {
                let next = u32::try_from(ids.len()).expect("a registry has fewer than four billion words");
                let id = *ids.entry(word).or_insert(next);
                if document_counts.len() <= id as usize {
                    document_counts.push(0);
                }
                if !list.contains(&id) {
                    document_counts[id as usize] += 1;
                    list.push(id);
                }
            }
            list.truncate(WORDS_MAX);
            lists.push(list);
        }
        let total = documents.len() as f32;
        let weight = |count: u32| ((1.0 + total) / (1.0 + count as f32)).ln() + 1.0;
        let mut weights: Vec<f32> = document_counts.into_iter().map(weight).collect();
        let mut vectors = vec![Vec::new(); ids.len()];
        for (word, id) in &ids {
            vectors[*id as usize] = word_vector(&table, word);
            weights[*id as usize] *= word_weight(word);
        }
        Self {
            table,
            ids: ids.into_iter().map(|(word, id)| (word.to_owned(), id)).collect(),
            vectors,
            weights,
            documents: lists,
            unseen_weight: weight(0),
        }
    }

    /// For each candidate, the MaxSim of the step's words and that of the agent's words, 0 to 1.
    pub(super) fn maxsim(&self, words: &[String], candidates: &[usize]) -> Vec<(f32, f32)> {
        let step = self.embed_words(words);
        // Candidates share many words: each is compared once.
        let mut used: Vec<u32> = candidates.iter().flat_map(|at| &self.documents[*at]).copied().collect();
        used.sort_unstable();
        used.dedup();
        let mut near: Vec<f32> = Vec::with_capacity(used.len() * step.len());
        for word in &used {
            let own = &self.vectors[*word as usize];
            near.extend(step.iter().map(|(vector, _)| dot(vector, own)));
        }
        let one = |at: &usize| {
            let own = &self.documents[*at];
            let (mut best, mut met, mut weights) = (vec![0.0_f32; step.len()], 0.0, 0.0);
            for word in own {
                let place = used.binary_search(word).expect("every candidate's words are among them");
                let row = &near[place * step.len()..(place + 1) * step.len()];
                let weight = self.weights[*word as usize];
                met += weight * row.iter().copied().fold(0.0, f32::max);
                weights += weight;
                for (best, near) in best.iter_mut().zip(row) {
                    *best = best.max(*near);
                }
            }
            let wanted: f32 = step.iter().map(|(_, weight)| weight).sum();
            let found: f32 = step.iter().zip(&best).map(|((_, weight), best)| weight * best).sum();
            (ratio(found, wanted), ratio(met, weights))
        };
        candidates.iter().map(one).collect()
    }

    /// Vector and weight of each distinct word.
    fn embed_words(&self, words: &[String]) -> Vec<(Cow<'_, [i16]>, f32)> {
        let mut distinct: Vec<&String> = Vec::new();
        for word in words {
            if distinct.len() < WORDS_MAX && !distinct.contains(&word) {
                distinct.push(word);
            }
        }
        let embed = |word: &String| match self.ids.get(word) {
            Some(id) => (Cow::Borrowed(&*self.vectors[*id as usize]), self.weights[*id as usize]),
            None => (Cow::Owned(word_vector(&self.table, word)), self.unseen_weight * word_weight(word)),
        };
        distinct.into_iter().map(embed).collect()
    }
}

fn word_vector(table: &EmbeddingTable, word: &str) -> Vec<i16> {
    let mut vector = mean_vector(table, table.tokenize(word));
    vector.truncate(COLUMNS_MAX);
    normalize(&mut vector);
    quantize(&vector)
}

fn ratio(part: f32, whole: f32) -> f32 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::embedding_table::tests::tiny;
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn similar_words_have_a_higher_maxsim() {
        let late = LateInteraction::new(Arc::new(tiny()), &[words("hotel"), words("flight car")]);
        let met = late.maxsim(&words("inn"), &[0, 1]);
        assert!(met[0].0 > met[1].0 && met[0].1 > met[1].1, "{met:?}");
        let same = late.maxsim(&words("flight car"), &[1]);
        assert!(same[0].0 > 0.99 && same[0].1 > 0.99, "{same:?}");
        assert_eq!(late.maxsim(&[], &[0]), [(0.0, 0.0)]);
    }
}

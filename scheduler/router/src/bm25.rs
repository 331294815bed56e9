//! BM25F over stems, in an inverted index: a word in the name counts for more than one in the description.
//!
//! Source: S. Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", Foundations and
//! Trends in Information Retrieval 3(4), 2009.

use std::collections::{BTreeMap, HashMap};

use crate::text_analysis::{stems, word_weight};

/// Saturation of the term frequency.
const K1: f32 = 1.2;
/// Strength of the length normalization, 0 to 1.
const B: f32 = 0.5;

/// Inverted index: documents and weights of each word.
#[derive(Debug, Default)]
pub(super) struct Bm25 {
    documents: usize,
    words: HashMap<String, Posting>,
}

#[derive(Debug)]
struct Posting {
    idf: f32,
    /// Document and weight, `idf` included.
    weights: Vec<(u32, f32)>,
}

impl Bm25 {
    /// - `documents`: the parts of each document with their weights.
    pub(super) fn new<'a>(documents: impl Iterator<Item = Vec<(&'a str, f32)>>) -> Self {
        let mut counts: BTreeMap<String, Vec<(u32, f32)>> = BTreeMap::new();
        let mut lengths = Vec::new();
        for (document, parts) in (0..).zip(documents) {
            let mut here: BTreeMap<String, f32> = BTreeMap::new();
            let mut length = 0.0;
            for (text, weight) in parts {
                for word in stems(text) {
                    *here.entry(word).or_default() += weight;
                    length += weight;
                }
            }
            lengths.push(length);
            for (word, count) in here {
                counts.entry(word).or_default().push((document, count));
            }
        }
        let documents = as_f32(lengths.len());
        let average = (lengths.iter().sum::<f32>() / documents.max(1.0)).max(1.0);
        let posting = |(word, mut weights): (String, Vec<(u32, f32)>)| {
            let document_count = as_f32(weights.len());
            let idf = (1.0 + (documents - document_count + 0.5) / (document_count + 0.5)).ln();
            for (document, weight) in &mut weights {
                let length = lengths[*document as usize];
                let length_norm = K1 * (1.0 - B + B * length / average);
                *weight = idf * *weight * (K1 + 1.0) / (*weight + length_norm);
            }
            (word, Posting { idf, weights })
        };
        Self { documents: lengths.len(), words: counts.into_iter().map(posting).collect() }
    }

    /// For each document, its score as a share of the maximum score of the text, 0 to 1.
    ///
    /// Words that no document has are ignored: they do not distinguish documents.
    pub(super) fn shares(&self, stems: &[String]) -> Vec<f32> {
        let mut scores = vec![0.0; self.documents];
        let mut reachable = 0.0;
        let mut query: Vec<&String> = stems.iter().collect();
        query.sort_unstable();
        query.dedup();
        for (word, posting) in query.iter().filter_map(|word| Some((*word, self.words.get(*word)?))) {
            let importance = word_weight(word);
            reachable += importance * posting.idf * (K1 + 1.0);
            for (document, weight) in &posting.weights {
                scores[*document as usize] += importance * weight;
            }
        }
        if reachable > 0.0 {
            scores.iter_mut().for_each(|score| *score = (*score / reachable).min(1.0));
        }
        scores
    }
}

/// Counts of documents and words are far below what an `f32` holds exactly.
fn as_f32(count: usize) -> f32 {
    u32::try_from(count).map_or(f32::MAX, |n| n as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(texts: &[&str]) -> Bm25 {
        Bm25::new(texts.iter().map(|text| vec![(*text, 1.0)]))
    }

    #[test]
    fn rare_words_weigh_more_and_plurals_meet_singulars() {
        let index_ = index(&["search flights", "search hotel rooms", "search museums"]);
        let shares = index_.shares(&stems("Search the hotels"));
        assert!(shares[1] > shares[0] && shares[0] > 0.0, "{shares:?}");
        assert_eq!(index_.shares(&stems("unknown words")), [0.0; 3]);
        assert!(index(&[]).shares(&stems("x")).is_empty());
    }

    #[test]
    fn the_weight_is_that_of_the_formula() {
        // idf = ln(1 + (2 - 1 + 0.5) / (1 + 0.5)) = ln 2; tf part = 2 · 2.2 / (2 + 1.2), both texts being average.
        let expected = (2.0 * 2.2 / 3.2) / 2.2;
        assert!((index(&["bb bb cc", "dd ee ff"]).shares(&stems("bb"))[0] - expected).abs() < 1e-6);
    }

    #[test]
    fn a_word_in_a_heavier_part_counts_for_more() {
        let index = Bm25::new([vec![("zip", 2.0), ("pack", 1.0)], vec![("pack", 2.0), ("zip", 1.0)]].into_iter());
        let shares = index.shares(&stems("zip"));
        assert!(shares[0] > shares[1], "{shares:?}");
    }
}

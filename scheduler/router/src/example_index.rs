//! Similarity of a text and short examples, by the mean of their subword vectors.
//!
//! A subword that the examples of many groups share, such as `find` or `our`, says little about a group, so each subword
//! is weighted by its rarity among groups, and synonyms in one text count less. A share of the mean of all examples is
//! subtracted from every vector. Source: S. Arora, Y. Liang, T. Ma, "A Simple but Tough-to-Beat Baseline for Sentence
//! Embeddings", ICLR 2017.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::embedding_table::EmbeddingTable;
use crate::static_embedder::agreement_weighted_mean;
use crate::vectors::{dot, mean, quantize, subtract_common};

/// Words of a text that are compared.
const WORDS_MAX: usize = 48;
/// Share of the mean vector of all examples that is subtracted from every vector.
const COMMON_SHARE: f32 = 0.7;
/// Exponent of the rarity of a subword among groups.
const RARITY_POWER: f32 = 0.5;
/// Weight of a subword: `e` to the power of this times its cosine with the whole text.
const AGREEMENT: f32 = -1.0;

/// Short texts by group, with a vector for each.
#[derive(Debug)]
pub struct ExampleIndex {
    table: Arc<EmbeddingTable>,
    /// Weight of each subword of the examples.
    weights: BTreeMap<u32, f32>,
    /// Weight of any other subword.
    unseen_weight: f32,
    /// The mean of all examples.
    common: Vec<f32>,
    /// Quantized vectors, row by row.
    vectors: Vec<i16>,
}

impl ExampleIndex {
    /// - `groups`: the examples of each group.
    pub fn new(table: Arc<EmbeddingTable>, groups: &[Vec<&str>]) -> Self {
        let mut having: BTreeMap<u32, usize> = BTreeMap::new();
        let groups: Vec<Vec<Vec<u32>>> =
            groups.iter().map(|group| group.iter().map(|text| subwords(&table, text).known).collect()).collect();
        for group in &groups {
            for subword in group.iter().flatten().collect::<BTreeSet<_>>() {
                *having.entry(*subword).or_default() += 1;
            }
        }
        let rarity =
            |count: usize| ((1.0 + groups.len() as f32) / (1.0 + count as f32)).ln().max(0.05).powf(RARITY_POWER);
        let weights = having.into_iter().map(|(subword, count)| (subword, rarity(count))).collect();
        let mut index = Self { unseen_weight: rarity(1), common: Vec::new(), weights, vectors: Vec::new(), table };
        let vectors: Vec<Vec<f32>> = groups.iter().flatten().map(|known| index.mean(known)).collect();
        index.common = mean(&vectors, index.table.columns());
        index.vectors = vectors.into_iter().flat_map(|vector| index.centre(vector)).collect();
        index
    }

    /// Cosine of a text and each example, in the order of the groups; none if most words of the text are unknown, as in
    /// another language.
    ///
    /// Reads the first 48 words.
    pub fn similarities(&self, text: &str) -> Option<Vec<f32>> {
        let subwords = subwords(&self.table, text);
        if subwords.known.is_empty() || subwords.unknown_words * 2 > subwords.words {
            return None;
        }
        let vector = self.centre(self.mean(&subwords.known));
        Some(self.vectors.chunks_exact(self.table.columns()).map(|row| dot(row, &vector)).collect())
    }

    fn mean(&self, subwords: &[u32]) -> Vec<f32> {
        let weight = |subword: &u32| self.weights.get(subword).copied().unwrap_or(self.unseen_weight);
        let weighted: Vec<(u32, f32)> = subwords.iter().map(|subword| (*subword, weight(subword))).collect();
        agreement_weighted_mean(&self.table, &[], &weighted, AGREEMENT)
    }

    /// Subtracts what all examples have in common.
    fn centre(&self, mut vector: Vec<f32>) -> Vec<i16> {
        subtract_common(&mut vector, &self.common, COMMON_SHARE);
        quantize(&vector)
    }
}

/// The beginning of a text in subwords.
struct TextSubwords {
    known: Vec<u32>,
    words: usize,
    unknown_words: usize,
}

/// Numbers are left out: they tell amounts and dates.
fn subwords(table: &EmbeddingTable, text: &str) -> TextSubwords {
    let mut found = TextSubwords { known: Vec::new(), words: 0, unknown_words: 0 };
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().any(char::is_alphabetic));
    for word in words.take(WORDS_MAX) {
        let before = found.known.len();
        found.known.extend(table.tokenize(word));
        found.words += 1;
        found.unknown_words += usize::from(found.known.len() == before);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> ExampleIndex {
        let groups = [
            vec!["Book a table for dinner", "Reserve a hotel room"],
            vec!["Fix the error in the checkout page", "The app crashes on start"],
            vec!["Teach my class about volcanoes"],
        ];
        ExampleIndex::new(EmbeddingTable::general(), &groups)
    }

    fn nearest(index: &ExampleIndex, text: &str) -> usize {
        let similarities = index.similarities(text).expect("the text is English");
        (0..similarities.len())
            .max_by(|a, b| similarities[*a].total_cmp(&similarities[*b]))
            .expect("there are examples")
    }

    #[test]
    fn a_text_is_near_the_examples_of_its_kind() {
        let index = index();
        for (text, example) in [
            ("We need a restaurant for the evening", 0),
            ("a room in an inn, please", 1),
            ("the program shuts down when I open it", 3),
            ("explain earthquakes to pupils", 4),
        ] {
            assert_eq!(nearest(&index, text), example, "{text}");
        }
        let same = index.similarities("Reserve a hotel room").expect("the text is English");
        assert!(same[1] > 0.99 && same[0] < 0.9, "{same:?}");
    }

    #[test]
    fn another_language_and_an_empty_text_are_near_nothing() {
        let index = index();
        for text in ["", "12 34", "预订酒店房间", "забронировать столик"] {
            assert_eq!(index.similarities(text), None, "{text}");
        }
    }

    #[test]
    fn only_the_beginning_of_a_text_is_read() {
        let index = index();
        let long = format!("{} teach a class about volcanoes", "reserve a hotel room ".repeat(WORDS_MAX / 4));
        assert_eq!(index.similarities(&long), index.similarities(&"reserve a hotel room ".repeat(WORDS_MAX / 4)));
    }

    #[test]
    fn a_word_of_every_group_weighs_less_than_a_word_of_one() {
        let groups = [vec!["find a hotel"], vec!["find a car"], vec!["find a flight"]];
        let index = ExampleIndex::new(EmbeddingTable::general(), &groups);
        let weight = |word: &str| index.weights[&index.table.tokenize(word)[0]];
        assert!(weight("find") < weight("hotel"), "{:?}", index.weights);
    }
}

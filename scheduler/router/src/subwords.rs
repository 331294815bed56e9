//! The subwords of a text, tokenized once.

use std::ops::Range;

use crate::embedding_table::EmbeddingTable;
use crate::text_analysis::word_weight;

/// The subwords of words, in order.
#[derive(Debug)]
pub(super) struct Subwords {
    /// Subword id and weight of its word.
    subwords: Vec<(u32, f32)>,
    /// For each word, the end of its subwords.
    ends: Vec<usize>,
}

impl Subwords {
    pub(super) fn tokenize(table: &EmbeddingTable, words: &[String]) -> Self {
        let (mut subwords, mut ends) = (Vec::new(), Vec::with_capacity(words.len()));
        for word in words {
            let weight = word_weight(word);
            subwords.extend(table.tokenize(word).into_iter().map(|subword| (subword, weight)));
            ends.push(subwords.len());
        }
        Self { subwords, ends }
    }

    pub(super) fn all(&self) -> &[(u32, f32)] {
        &self.subwords
    }

    /// The subwords of a range of words.
    pub(super) fn word_range(&self, words: &Range<usize>) -> &[(u32, f32)] {
        let end = |words: usize| words.checked_sub(1).map_or(0, |last| self.ends[last]);
        &self.subwords[end(words.start)..end(words.end)]
    }

    /// Whether the model knows at least half of the words. Otherwise the text is in another language and its
    /// similarities mean nothing.
    pub(super) fn are_mostly_known(&self) -> bool {
        let known = (0..self.ends.len()).filter(|word| !self.word_range(&(*word..word + 1)).is_empty()).count();
        known * 2 >= self.ends.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::embedding_table::tests::tiny;
    use super::*;

    fn subwords(words: &[&str]) -> Subwords {
        Subwords::tokenize(&tiny(), &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn each_word_has_its_pieces() {
        let subwords = subwords(&["hotel", "zzz", "car"]);
        assert_eq!(subwords.all(), [(1, 1.0), (4, 1.0)]);
        assert_eq!(subwords.word_range(&(0..2)), [(1, 1.0)]);
        assert_eq!(subwords.word_range(&(1..3)), [(4, 1.0)]);
        assert_eq!(subwords.word_range(&(1..2)), []);
    }

    #[test]
    fn a_text_in_another_language_is_unknown() {
        assert!(subwords(&["hotel", "zzz"]).are_mostly_known() && subwords(&[]).are_mostly_known());
        assert!(!subwords(&["酒", "店", "hotel"]).are_mostly_known());
    }
}
